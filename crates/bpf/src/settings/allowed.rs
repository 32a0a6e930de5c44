//! The values that a tunable takes, by what its object says of it and by its type.

use super::value::{Piece, enumerators, is_char};
use crate::btf::{Btf, Kind, TypeId};
use crate::object::{Object, Variable};

/// The values that a variable takes, in words; empty where its type alone says it.
pub fn values(object: &Object, variable: &Variable) -> String {
    let btf = object.btf();
    if let Some(range) = object.description(variable).and_then(|described| described.range.as_ref()) {
        return range.to_string();
    }
    match variable.ty.map(|ty| btf.resolved(ty)) {
        Some(Kind::Int(int)) if int.is_bool => "false, true".to_string(),
        Some(Kind::Enum(shape) | Kind::Enum64(shape)) => enumerators(btf, shape),
        Some(Kind::Array(array)) if is_char(btf, array.elem) => {
            format!("text of at most {} bytes", array.count.saturating_sub(1))
        }
        _ => String::new(),
    }
}

/// A described variable's meaning and values, for a message.
pub(super) fn told(object: &Object, variable: &Variable) -> Option<String> {
    let meaning = &object.description(variable)?.meaning;
    let values = values(object, variable);
    Some(format!("`{}` is \"{meaning}\"; it takes {values}", variable.name))
}

/// The pieces of a setting of a part of type `ty`, if the variable's description allows all of them.
pub(super) fn check(
    object: &Object,
    variable: &Variable,
    ty: TypeId,
    pieces: Vec<Piece>,
) -> Result<Vec<Piece>, String> {
    let Some(described) = object.description(variable) else { return Ok(pieces) };
    let btf = object.btf();
    let taken = |number: i128| match (btf.resolved(innermost(btf, ty)), &described.range) {
        (Kind::Enum(shape) | Kind::Enum64(shape), _) => {
            let mask = u64::MAX >> (64 - 8 * shape.size.clamp(1, 8));
            shape.values.iter().any(|known| known.value & mask == number as u64 & mask)
        }
        (_, Some(range)) => range.contains(number),
        (_, None) => true,
    };
    let numbers = pieces.iter().filter_map(|(_, bytes)| number(btf, ty, bytes));
    match numbers.into_iter().find(|number| !taken(*number)) {
        Some(number) => Err(format!("{number} is none of the values of `{}`", variable.name)),
        None => Ok(pieces),
    }
}

/// True for a number or an array of numbers.
pub(crate) fn is_number(btf: &Btf, ty: TypeId) -> bool {
    let inner = innermost(btf, ty);
    matches!(btf.resolved(inner), Kind::Int(int) if int.size <= 8)
        && (inner == btf.resolve(ty) || !is_char(btf, inner))
}

/// The type of an array's elements, of those of its elements, and so on.
fn innermost(btf: &Btf, ty: TypeId) -> TypeId {
    let mut inner = btf.resolve(ty);
    while let Kind::Array(array) = btf.kind(inner) {
        inner = btf.resolve(array.elem);
    }
    inner
}

/// The number that a piece is, with the sign of its type; nothing for a text.
fn number(btf: &Btf, ty: TypeId, bytes: &[u8]) -> Option<i128> {
    let mut word = [0u8; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let value = u64::from_le_bytes(word);
    let signed = matches!(btf.resolved(innermost(btf, ty)), Kind::Int(int) if int.signed);
    let shift = 64 - 8 * bytes.len().max(1) as u32;
    Some(if signed { i128::from((value << shift) as i64 >> shift) } else { i128::from(value) })
}
