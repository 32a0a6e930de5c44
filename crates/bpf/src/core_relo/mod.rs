//! CO-RE: rewriting field offsets, sizes and existence questions from the types a program was compiled with to the
//! types of the kernel it is loaded against.
//!
//! The rules (what matches what, what is poisoned) are those of libbpf's `relo_core.c`, version 1.7.

mod apply;
mod compat;
mod spec;

pub(crate) use apply::{Outcome, apply};
pub(crate) use compat::types_are_compat;

use crate::btf::ext::CoreRecord;
use crate::btf::{Btf, Kind, MemberAt, TypeId, essential_name};
use crate::limits::Steps;
use spec::Spec;

/// The question a record asks (`enum bpf_core_relo_kind`, include/uapi/linux/bpf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelocKind {
    ByteOffset,
    ByteSize,
    FieldExists,
    Signed,
    LeftShift,
    RightShift,
    LocalTypeId,
    TargetTypeId,
    TypeExists,
    TypeSize,
    EnumvalExists,
    EnumvalValue,
    TypeMatches,
}

impl RelocKind {
    fn from_number(n: u32) -> Option<RelocKind> {
        use RelocKind::*;
        const ALL: [RelocKind; 13] = [
            ByteOffset,
            ByteSize,
            FieldExists,
            Signed,
            LeftShift,
            RightShift,
            LocalTypeId,
            TargetTypeId,
            TypeExists,
            TypeSize,
            EnumvalExists,
            EnumvalValue,
            TypeMatches,
        ];
        ALL.get(n as usize).copied()
    }

    pub(crate) fn is_field(self) -> bool {
        use RelocKind::*;
        matches!(self, ByteOffset | ByteSize | FieldExists | Signed | LeftShift | RightShift)
    }

    fn is_enumval(self) -> bool {
        matches!(self, RelocKind::EnumvalExists | RelocKind::EnumvalValue)
    }
}

/// What a record comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resolution {
    pub(crate) kind: RelocKind,
    /// The value that the compiler put into the instruction.
    pub(crate) old: u64,
    /// The kernel's value; `None`: there is none, the instruction must not run.
    pub(crate) new: Option<u64>,
    /// Whether the instruction must hold `old` (not for bit fields, where compilers choose).
    pub(crate) validate: bool,
    /// Size and type of the field here and in the kernel, for loads and stores of a byte offset.
    old_field: Option<Field>,
    new_field: Option<Field>,
    /// The sizes differ and the value cannot be converted by a narrower or wider access.
    fail_resize: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    size: u64,
    ty: TypeId,
}

/// One answer for one spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    value: Option<u64>,
    field: Option<Field>,
    validate: bool,
}

/// What a record is about, in words: `task_struct.scx.flags`.
pub(crate) fn describe(record: &CoreRecord, local: &Btf) -> String {
    match RelocKind::from_number(record.kind).map(|kind| Spec::parse(local, record, kind)) {
        Some(Ok(spec)) => spec.describe(local),
        _ => format!("type {}", record.ty.0),
    }
}

/// Resolves one record against the kernel's types.
///
/// # Errors
/// A sentence: the record is malformed, or two kernel types of that name give different answers. When `steps` ran out,
/// answer and error mean nothing.
pub(crate) fn resolve(
    record: &CoreRecord,
    local: &Btf,
    kernel: &Btf,
    steps: &Steps,
) -> Result<Resolution, String> {
    let kind =
        RelocKind::from_number(record.kind).ok_or_else(|| format!("relocation kind {}", record.kind))?;
    let spec = Spec::parse(local, record, kind)?;
    if kind == RelocKind::LocalTypeId {
        let id = u64::from(record.ty.0);
        return Ok(Resolution {
            kind,
            old: id,
            new: Some(id),
            validate: false,
            old_field: None,
            new_field: None,
            fail_resize: false,
        });
    }
    let name = local.name(record.ty);
    if name.is_empty() {
        return Err("the type has no name to look for".into());
    }
    let old = answer(local, kind, Some(&spec))?;
    let mut best: Option<(Spec, Answer)> = None;
    for candidate in kernel.candidates(essential_name(name)) {
        if !same_kind(local.kind(record.ty), kernel.kind(candidate)) {
            continue;
        }
        let Some(found) = spec.find_in(local, kernel, candidate, steps)? else {
            continue;
        };
        let next = answer(kernel, kind, Some(&found))?;
        if let Some((first, chosen)) = &best {
            if first.bit_offset != found.bit_offset || chosen.value != next.value {
                return Err(format!("the kernel has more than one type `{name}` and they differ here"));
            }
            continue;
        }
        best = Some((found, next));
    }
    let new = match best {
        Some((_, chosen)) => chosen,
        None => answer(kernel, kind, None)?,
    };
    Ok(Resolution {
        kind,
        old: old.value.unwrap_or(0),
        new: new.value,
        validate: old.validate,
        old_field: old.field,
        new_field: new.field,
        fail_resize: !resizable(local, kernel, old.field, new.field),
    })
}

/// Kinds that may stand for each other when candidates are collected.
fn same_kind(a: &Kind, b: &Kind) -> bool {
    let is_enum = |k: &Kind| matches!(k, Kind::Enum(_) | Kind::Enum64(_));
    std::mem::discriminant(a) == std::mem::discriminant(b) || (is_enum(a) && is_enum(b))
}

/// Whether a load of the old field can become a load of the new one: same size, both pointers, or both unsigned.
fn resizable(local: &Btf, kernel: &Btf, old: Option<Field>, new: Option<Field>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return true;
    };
    if old.size == new.size {
        return true;
    }
    match (local.kind(old.ty), kernel.kind(new.ty)) {
        (Kind::Ptr(_), Kind::Ptr(_)) => true,
        (Kind::Int(a), Kind::Int(b)) => !a.signed && !b.signed,
        _ => false,
    }
}

/// The answer of one set of types; `spec` is `None` where the kernel has nothing that matches.
fn answer(btf: &Btf, kind: RelocKind, spec: Option<&Spec>) -> Result<Answer, String> {
    let plain = |value| Answer { value, field: None, validate: true };
    let Some(spec) = spec else {
        return Ok(plain(match kind {
            RelocKind::FieldExists
            | RelocKind::TypeExists
            | RelocKind::TypeMatches
            | RelocKind::TypeSize
            | RelocKind::TargetTypeId
            | RelocKind::EnumvalExists => Some(0),
            _ => None,
        }));
    };
    match kind {
        RelocKind::FieldExists
        | RelocKind::TypeExists
        | RelocKind::TypeMatches
        | RelocKind::EnumvalExists => Ok(plain(Some(1))),
        RelocKind::LocalTypeId | RelocKind::TargetTypeId => {
            Ok(Answer { validate: false, ..plain(Some(u64::from(spec.root.0))) })
        }
        RelocKind::TypeSize => Ok(plain(Some(btf.size_of(spec.root).ok_or("the type has no size")?))),
        RelocKind::EnumvalValue => Ok(plain(Some(spec.enum_value(btf).ok_or("no such enumeration value")?))),
        _ => field_answer(btf, kind, spec),
    }
}

/// The answer about a field: where it is, how large, how to shift a bit field out of a 64-bit register.
fn field_answer(btf: &Btf, kind: RelocKind, spec: &Spec) -> Result<Answer, String> {
    let Some(at) = spec.last_member(btf) else {
        return element_answer(btf, kind, spec);
    };
    let field_ty = btf.resolve(at.ty);
    let bits = u64::from(at.bitfield);
    let (offset, size, width) = if bits > 0 {
        let (offset, size) = bitfield_unit(btf, &at)?;
        (offset, size, bits)
    } else {
        let size = btf.size_of(field_ty).ok_or("the field has no size")?;
        (at.bit_offset / 8, size, size.saturating_mul(8))
    };
    let mut validate = bits == 0;
    let mut field = None;
    let value = match kind {
        RelocKind::ByteOffset => {
            if bits == 0 {
                field = Some(Field { size: element_size(btf, field_ty)?, ty: field_ty });
            }
            offset
        }
        RelocKind::ByteSize => size,
        RelocKind::Signed => {
            validate = true;
            match btf.kind(field_ty) {
                Kind::Enum(e) | Kind::Enum64(e) => u64::from(e.signed),
                Kind::Int(i) => u64::from(i.signed),
                _ => 0,
            }
        }
        RelocKind::LeftShift => {
            64u64.wrapping_sub(at.bit_offset.wrapping_add(width).wrapping_sub(offset * 8))
        }
        RelocKind::RightShift => {
            validate = true;
            64u64.wrapping_sub(width)
        }
        _ => return Err("not a question about a field".into()),
    };
    Ok(Answer { value: Some(value), field, validate })
}

/// A path that ends in an array element, or names the root itself.
fn element_answer(btf: &Btf, kind: RelocKind, spec: &Spec) -> Result<Answer, String> {
    let ty = spec.last_type();
    match kind {
        RelocKind::ByteOffset => {
            let field = Some(Field { size: element_size(btf, ty)?, ty });
            Ok(Answer { value: Some(spec.bit_offset / 8), field, validate: true })
        }
        RelocKind::ByteSize => {
            let size = btf.size_of(ty).ok_or("the element has no size")?;
            Ok(Answer { value: Some(size), field: None, validate: true })
        }
        _ => Err("a question about bits asked of an array element".into()),
    }
}

/// Bytes in one element, however deep the arrays.
fn element_size(btf: &Btf, ty: TypeId) -> Result<u64, String> {
    let mut id = btf.resolve(ty);
    while let Kind::Array(array) = btf.kind(id) {
        id = btf.resolve(array.elem);
    }
    btf.size_of(id).ok_or_else(|| "the field has no size".into())
}

/// The smallest aligned unit of 1 to 8 bytes that holds the whole bit field: (byte offset, bytes).
fn bitfield_unit(btf: &Btf, at: &MemberAt) -> Result<(u64, u64), String> {
    let mut size = btf.size_of(at.ty).filter(|&s| s > 0).ok_or("the bit field has no size")?;
    let end = at.bit_offset + u64::from(at.bitfield);
    let mut offset = at.bit_offset / 8 / size * size;
    while end - offset * 8 > size * 8 {
        if size >= 8 {
            return Err("a bit field that no 64-bit load covers".into());
        }
        size *= 2;
        offset = at.bit_offset / 8 / size * size;
    }
    debug_assert!(offset * 8 <= at.bit_offset && end <= (offset + size) * 8, "the load covers the bit field");
    Ok((offset, size))
}
