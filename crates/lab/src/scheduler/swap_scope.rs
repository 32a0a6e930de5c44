//! `--swap-types` and `--swap-exclude`: flags that become tunables of the schedulers that carry SWAP.

use crate::failure::Failure;
use crate::scheduler::{SWAP, Scheduler};
use schedlab_base::did_you_mean;
use schedlab_bpf::btf::{Btf, Kind};
use schedlab_bpf::object::Object;

/// The tunable with a bit per type, the enumeration that names the types, and what its names begin with.
const TYPES: (&str, &str, &str) = ("swap_types", "swap_type", "SWAP_");
/// The tunable with the names.
const EXCLUDE: &str = "swap_exclude";
/// Bytes of a task's name that the kernel keeps (`TASK_COMM_LEN` without the 0 at the end).
const COMM: usize = 15;

/// Gives the flags to all schedulers that carry SWAP.
///
/// # Errors
/// An unknown type, a name that no task has, or no scheduler that carries SWAP.
pub fn restrict(schedulers: &mut [Scheduler], types: &[String], exclude: &[String]) -> Result<(), Failure> {
    if types.is_empty() && exclude.is_empty() {
        return Ok(());
    }
    let flag = if types.is_empty() { "--swap-exclude" } else { "--swap-types" };
    let mut carried = false;
    for scheduler in schedulers {
        let object = scheduler.object.as_ref().and_then(|bytes| Object::parse(&scheduler.name, bytes).ok());
        let Some(object) = object.filter(|object| object.variable(TYPES.0).is_some()) else { continue };
        carried = true;
        if !types.is_empty() && !scheduler.has_own(TYPES.0) {
            scheduler.set(TYPES.0, &bits(object.btf(), types)?.to_string())?;
        }
        if !exclude.is_empty() && !scheduler.has_own(EXCLUDE) {
            scheduler.set(EXCLUDE, &exclude.join(","))?;
        }
    }
    if carried {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{flag}: no scheduler of this command carries SWAP; name one with it: -s o1{SWAP}"
    )))
}

/// Refuses a value with a name that no task has, however it was given.
///
/// # Errors
/// The name, and what the kernel keeps of it.
pub fn check(variable: &str, value: &str) -> Result<(), Failure> {
    let long = value.split(',').find(|name| variable == EXCLUDE && name.len() > COMM);
    let Some(long) = long else { return Ok(()) };
    let fits = |(at, c): &(usize, char)| at + c.len_utf8() <= COMM;
    let kept: String = long.char_indices().take_while(fits).map(|(_, c)| c).collect();
    Err(Failure::usage(format!(
        "{EXCLUDE}={value}: the kernel keeps {COMM} bytes of a task's name, so no task is called '{long}'; write '{kept}'"
    )))
}

/// Names of the types as the flag takes them, each with its number.
fn known(btf: &Btf) -> Vec<(String, u64)> {
    let found = btf.find(TYPES.1, |kind| matches!(kind, Kind::Enum(_)));
    let Some(Kind::Enum(enumeration)) = found.map(|id| btf.kind(id)) else { return Vec::new() };
    let named = enumeration.values.iter().map(|value| (btf.enumerator_name(value), value.value));
    // The last one is their number.
    let types = named.take(enumeration.values.len().saturating_sub(1));
    let plain = |name: &str| name.strip_prefix(TYPES.2).unwrap_or(name).to_lowercase().replace('_', "-");
    types.map(|(name, value)| (plain(name), value)).collect()
}

fn bits(btf: &Btf, types: &[String]) -> Result<u32, Failure> {
    let known = known(btf);
    let mut bits = 0u32;
    for wanted in types {
        let found = known.iter().find(|(name, _)| name == wanted);
        let Some(bit) = found.and_then(|(_, value)| 1u32.checked_shl(*value as u32)) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
            let near = did_you_mean(wanted, &names);
            return Err(Failure::usage(format!(
                "--swap-types {wanted}: types are {}{near}",
                names.join(", ")
            )));
        };
        bits |= bit;
    }
    Ok(bits)
}
