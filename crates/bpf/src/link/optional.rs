//! Optional programs: sections that begin with `?`, which libbpf leaves out unless a loader asks for them.
//!
//! Ours asks for those whose function carries the tag `loaded_if:NAME=VALUE` (`btf_decl_tag`) when the constant `NAME`
//! has that value once all settings are made: `detect=DETECT_PAPER`. So a way of working that needs hooks of its own
//! costs nothing where it is not chosen. Any other loader leaves these programs out.

use crate::error::LoadError;
use crate::object::{Object, Program, Variable};
use crate::settings;

/// What the tag of an optional program begins with.
const TAG: &str = "loaded_if:";

/// Whether a program that is not in a table of operations is loaded; `value` gives the present bytes of a variable.
///
/// # Errors
/// The program's condition names no constant of the object, or a value that does not fit it.
pub fn is_loaded(
    object: &Object,
    program: &Program,
    value: impl FnOnce(&Variable) -> Option<Vec<u8>>,
) -> Result<bool, LoadError> {
    if program.autoload {
        return Ok(true);
    }
    let mut tags = object.btf().function_tags().filter(|(name, _)| *name == program.name);
    let Some(condition) = tags.find_map(|(_, tag)| tag.strip_prefix(TAG)) else { return Ok(false) };
    let malformed = |problem: &str| {
        let place = format!("program `{}`", program.name);
        LoadError::malformed(place, format!("its condition `{condition}`: {problem}"))
    };
    let (name, wanted) = condition.split_once('=').ok_or_else(|| malformed("it is no NAME=VALUE"))?;
    let variable = object.variable(name).filter(|variable| variable.section.starts_with(".rodata"));
    let variable = variable.ok_or_else(|| malformed("there is no such constant"))?;
    let ty = variable.ty.ok_or_else(|| malformed("the constant's type is not known"))?;
    let at = object.btf().at_path(ty, "").map_err(|problem| malformed(&problem))?;
    let wanted = settings::encode(object.btf(), &at, wanted).map_err(|problem| malformed(&problem))?;
    Ok(value(variable).is_some_and(|bytes| wanted == [(0, bytes)]))
}
