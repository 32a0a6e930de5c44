//! Values for a scheduler's variables: from the user by name, from the kernel by convention.

use schedlab_base::{DurationNs, TimedSetting};
use schedlab_bpf::link::is_loaded;
use schedlab_bpf::object::{CPU_COUNTS, enumerator_of};

use super::btf::{Btf, Kind, Variable};
use super::raw::{Map, Object};
use super::{LoadError, SchedulerObject};

/// Room for the debug dump of an ejected scheduler, as the kernel's own tools have it.
const DUMP_SIZE: u32 = 32 << 10;

/// Sets the variables that the user has named, then those that every loader fills in.
pub(super) fn apply(object: &Object, settings: &[(String, String)]) -> Result<(), LoadError> {
    let Some(btf) = object.btf() else {
        return match settings.first() {
            None => Ok(()),
            Some((name, _)) => Err(unknown(name, &[])),
        };
    };
    let variables = btf.variables();
    let tables = btf.struct_ops();
    for (name, value) in settings {
        let bad = |why| LoadError::BadValue { name: name.clone(), value: value.clone(), why };
        if let Some(map) = name.strip_prefix("map.") {
            resize_map(object, map, value).map_err(bad)?;
        } else if let Some((table, member)) = table_member(&tables, name) {
            set_member(object, table, member, value).map_err(bad)?;
        } else {
            let variable =
                variables.iter().find(|v| v.name == *name).ok_or_else(|| unknown(name, &variables))?;
            let bytes = encode(variable, value).map_err(bad)?;
            write(object, variable, &bytes);
        }
    }
    let free: Vec<&Variable> = variables
        .iter()
        .filter(|v| v.section == ".rodata" && settings.iter().all(|(name, _)| *name != v.name))
        .collect();
    fill_kernel_enums(object, &free);
    fill_cpu_counts(object, &free);
    fill_slice(object, &free);
    fill_dump_room(object, &free);
    give_arrays_a_length(object, &btf, &variables);
    Ok(())
}

/// Has the optional programs loaded whose condition the settings meet (see `schedlab_bpf::link::is_loaded`).
pub(super) fn choose_programs(object: &Object, scheduler: &SchedulerObject) -> Result<(), LoadError> {
    // What only libbpf can read has no conditions of ours.
    let Ok(file) = schedlab_bpf::object::Object::parse(&scheduler.name, &scheduler.bytes) else {
        return Ok(());
    };
    for program in file.programs().iter().filter(|program| !program.autoload) {
        let value = |variable: &schedlab_bpf::object::Variable| {
            let offset = usize::try_from(variable.offset).ok()?;
            section_map(object, &variable.section)?.read(offset, usize::try_from(variable.size).ok()?)
        };
        let wanted = is_loaded(&file, program, value).map_err(|error| LoadError::Open {
            name: scheduler.name.clone(),
            words: vec![error.to_string()],
        })?;
        if let (true, Some(found)) = (wanted, object.programs().find(|found| found.name() == program.name)) {
            found.load_too();
        }
    }
    Ok(())
}

/// Bytes for a variable of a loaded object.
pub(super) struct Write {
    pub(super) at: DurationNs,
    variable: Variable,
    bytes: Vec<u8>,
}

impl Write {
    /// Programs see the value at once. A number of up to eight bytes is not seen in parts.
    pub(super) fn write(&self, object: &Object) {
        let written = section_map(object, self.variable.section)
            .is_some_and(|map| map.write_present(self.variable.offset, &self.bytes));
        assert!(written, "{} lies outside of its section", self.variable.name);
    }
}

/// What is to be written while the scheduler runs, in order of time.
pub(super) fn writes(object: &Object, changes: &[TimedSetting]) -> Result<Vec<Write>, LoadError> {
    let variables = object.btf().map(|btf| btf.variables()).unwrap_or_default();
    let mut writes = Vec::new();
    for change in changes {
        let found = variables.iter().find(|v| v.name == change.variable && is_tunable(v));
        let variable = found.ok_or_else(|| unknown(&change.variable, &variables))?;
        if variable.section == ".rodata" {
            let free = variables.iter().filter(|v| v.section != ".rodata");
            return Err(LoadError::Constant { change: change.clone(), known: tunables(free) });
        }
        let (name, value) = (change.variable.clone(), change.value.clone());
        let bytes =
            encode(variable, &change.value).map_err(|why| LoadError::BadValue { name, value, why })?;
        writes.push(Write { at: change.at, variable: variable.clone(), bytes });
    }
    writes.sort_by_key(|write| write.at);
    Ok(writes)
}

/// `volatile` marks what is changed from outside, before the load or later; of constants all are.
fn is_tunable(variable: &Variable) -> bool {
    variable.section == ".rodata" || variable.volatile
}

/// Names of tunables, in order.
fn tunables<'a>(variables: impl Iterator<Item = &'a Variable>) -> Vec<String> {
    let mut names: Vec<String> = variables
        .filter(|v| is_tunable(v) && !v.name.starts_with("__"))
        .filter(|v| !matches!(v.kind, Kind::Struct { .. } | Kind::Other))
        .map(|v| v.name.clone())
        .collect();
    names.sort();
    names
}

/// `NAME.max_entries=N` gives a map its size, where a loader of its own would have.
fn resize_map(object: &Object, setting: &str, value: &str) -> Result<(), String> {
    let form = "write map.NAME.max_entries=N";
    let map = setting.strip_suffix(".max_entries").ok_or(form)?;
    let count = value.parse().map_err(|_| format!("it is a number of entries: {form}"))?;
    let found = object.maps().find(|found| found.name() == map);
    let found = found.ok_or_else(|| format!("there is no map {map}"))?;
    found.set_max_entries(count).map_err(|error| error.to_string())
}

/// The table and the member that `TABLE.MEMBER` names.
fn table_member<'a, 'b>(tables: &'a [Variable], setting: &'b str) -> Option<(&'a Variable, &'b str)> {
    let (table, member) = setting.split_once('.')?;
    Some((tables.iter().find(|found| found.name == table)?, member))
}

/// Sets a number in the scheduler's operations, as loaders do with flags and time-outs.
fn set_member(object: &Object, table: &Variable, member: &str, value: &str) -> Result<(), String> {
    let Kind::Struct { members } = &table.kind else { return Err("its table is no struct".to_string()) };
    let found = members.iter().find(|(name, _, size)| name == member && matches!(size, 1 | 2 | 4 | 8));
    let (_, offset, size) = found.ok_or_else(|| format!("there is no number {member} in it"))?;
    let number = parse_number(value).ok_or("it is a whole number")?;
    if number < 0 || number >= 1i128 << (8 * size) {
        return Err(format!("it has {size} bytes and no sign"));
    }
    let map = object.maps().find(|map| map.is_struct_ops() && map.name() == table.name);
    let written = map.is_some_and(|map| map.write_initial(*offset, &number.to_le_bytes()[..*size]));
    if written { Ok(()) } else { Err("its table cannot be written".to_string()) }
}

fn unknown(name: &str, variables: &[Variable]) -> LoadError {
    LoadError::UnknownVariable { name: name.to_string(), known: tunables(variables.iter()) }
}

/// The compatibility headers of sched_ext read the kernel's constants from variables called `__NAME` or
/// `__COMPAT_NAME`, which a loader has to fill in; one that this kernel does not know stays 0.
fn fill_kernel_enums(object: &Object, variables: &[&Variable]) {
    if variables.iter().all(|v| enumerator_of(&v.name).is_none()) {
        return;
    }
    let Some(kernel) = Btf::of_kernel() else { return };
    let known = kernel.enumerators_with("SCX_");
    for variable in variables {
        let Some(name) = enumerator_of(&variable.name) else { continue };
        if let Some((_, value)) = known.iter().find(|(n, _)| n == name) {
            write(object, variable, &value.to_le_bytes()[..variable.size.min(8)]);
        }
    }
}

fn cpu_count() -> u32 {
    // SAFETY: plain query.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    u32::try_from(count).unwrap_or(1).max(1)
}

/// Whatever stands there (some schedulers have a 1 or a 64 for tools that only verify them) is replaced.
fn fill_cpu_counts(object: &Object, variables: &[&Variable]) {
    for variable in variables.iter().filter(|v| CPU_COUNTS.contains(&v.name.as_str()) && v.size <= 8) {
        let count = u64::from(cpu_count());
        write(object, variable, &count.to_le_bytes()[..variable.size]);
    }
}

/// A slice that is left 0 is the kernel's default.
fn fill_slice(object: &Object, variables: &[&Variable]) {
    for variable in variables.iter().filter(|v| v.name == "slice_ns" && v.size == 8) {
        let unset = section_read(object, variable).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
        let default = || {
            let known = Btf::of_kernel()?.enumerators_with("SCX_SLICE_DFL");
            known.first().map(|(_, value)| *value)
        };
        if let Some(value) = unset.then(default).flatten() {
            write(object, variable, &value.to_le_bytes());
        }
    }
}

/// Arrays that wait for their length (alone in a section of their name) get one element a CPU;
/// the buffer `X` of an exit dump, which has a variable `X_len`, has its own rule.
fn give_arrays_a_length(object: &Object, btf: &Btf, variables: &[Variable]) {
    for map in object.maps() {
        let section = map.name();
        let name = [".data.", ".rodata.", ".bss."].iter().find_map(|prefix| section.strip_prefix(prefix));
        let Some(name) = name.filter(|name| btf.is_lone_array(&section, name)) else { continue };
        let is_dump = variables.iter().any(|v| v.name.strip_suffix("_len") == Some(name));
        let size = section_size(&map).and_then(|size| size.checked_mul(cpu_count()));
        if let (false, Some(size)) = (is_dump, size) {
            // A size that the library refuses leaves the array as it is; the verifier then tells.
            let _ = map.set_value_size(size);
        }
    }
}

fn section_size(map: &Map<'_>) -> Option<u32> {
    u32::try_from(map.initial_size()?).ok()
}

/// Schedulers that record their exit have a buffer `X_dump` in a section of its own and its
/// length in `X_dump_len`.
fn fill_dump_room(object: &Object, variables: &[&Variable]) {
    for variable in variables {
        let Some(name) = variable.name.strip_suffix("_len") else { continue };
        let wanted = format!(".data.{name}");
        let map = object.maps().find(|map| map.name().ends_with(&wanted));
        if map.is_some_and(|map| map.set_value_size(DUMP_SIZE).is_ok()) {
            write(object, variable, &DUMP_SIZE.to_le_bytes()[..variable.size.min(4)]);
        }
    }
}

/// The map that holds a section; libbpf names it after the object and the section.
pub(super) fn section_map<'a>(object: &'a Object, section: &str) -> Option<super::raw::Map<'a>> {
    object.maps().find(|map| {
        let name = map.name();
        name == section || name.strip_suffix(section).is_some_and(|head| !head.contains('.'))
    })
}

fn section_read(object: &Object, variable: &Variable) -> Option<Vec<u8>> {
    section_map(object, variable.section)?.read(variable.offset, variable.size)
}

fn write(object: &Object, variable: &Variable, bytes: &[u8]) {
    let written =
        section_map(object, variable.section).is_some_and(|map| map.write_initial(variable.offset, bytes));
    assert!(written, "{} lies outside of its section", variable.name);
}

/// The bytes of a value given as text.
fn encode(variable: &Variable, value: &str) -> Result<Vec<u8>, String> {
    let number = match &variable.kind {
        Kind::Bool => match value {
            "true" | "yes" | "on" | "1" => 1,
            "false" | "no" | "off" | "0" => 0,
            _ => return Err("it is a yes or no: give true or false".to_string()),
        },
        Kind::Int { .. } => parse_number(value).ok_or("it is a whole number")?,
        Kind::Enum { enumerators, .. } => enumerators
            .iter()
            .find(|(name, _)| name == value)
            .map(|(_, number)| i128::from(*number))
            .or_else(|| parse_number(value))
            .ok_or_else(|| {
                let names: Vec<&str> = enumerators.iter().map(|(n, _)| n.as_str()).collect();
                format!("it is one of {}", names.join(", "))
            })?,
        Kind::Text => return encode_text(variable.size, value),
        _ => return Err("only numbers, booleans, enumerations and texts can be set".to_string()),
    };
    let signed = matches!(variable.kind, Kind::Int { signed: true } | Kind::Enum { signed: true, .. });
    let bits = 8 * variable.size.min(8) as u32;
    let (low, high) =
        if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
    if number < low || number > high {
        return Err(format!("it is {low} to {high}"));
    }
    Ok(number.to_le_bytes()[..variable.size.min(8)].to_vec())
}

/// A text in an array of characters, with zeros up to its end.
fn encode_text(size: usize, text: &str) -> Result<Vec<u8>, String> {
    if text.len() >= size || text.contains('\0') {
        return Err(format!("it is a text of at most {} bytes", size.saturating_sub(1)));
    }
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(size, 0);
    Ok(bytes)
}

fn parse_number(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(size: usize, kind: Kind) -> Variable {
        Variable { name: "x".to_string(), section: ".rodata", offset: 0, size, kind, volatile: true }
    }

    #[test]
    fn values_fit_their_types() {
        let byte = variable(1, Kind::Int { signed: false });
        assert_eq!(encode(&byte, "255"), Ok(vec![255]));
        assert_eq!(encode(&byte, "0x10"), Ok(vec![16]));
        assert_eq!(encode(&byte, "256"), Err("it is 0 to 255".to_string()));
        let signed = variable(4, Kind::Int { signed: true });
        assert_eq!(encode(&signed, "-2"), Ok(vec![0xfe, 0xff, 0xff, 0xff]));
        let wide = variable(8, Kind::Int { signed: false });
        assert_eq!(encode(&wide, "18446744073709551615"), Ok(vec![0xff; 8]));
        assert!(encode(&wide, "-1").is_err());
    }

    #[test]
    fn texts_leave_room_for_their_end() {
        let name = variable(4, Kind::Text);
        assert_eq!(encode(&name, "ab"), Ok(b"ab\0\0".to_vec()));
        assert_eq!(encode(&name, "abcd"), Err("it is a text of at most 3 bytes".to_string()));
        assert!(encode(&name, "a\0b").is_err());
    }

    #[test]
    fn enumerators_go_by_name_or_number() {
        let enumerators = vec![("PROFILE_D1".to_string(), 0), ("PROFILE_RH8".to_string(), 1)];
        let profile = variable(4, Kind::Enum { enumerators, signed: false });
        assert_eq!(encode(&profile, "PROFILE_RH8"), Ok(vec![1, 0, 0, 0]));
        assert_eq!(encode(&profile, "1"), Ok(vec![1, 0, 0, 0]));
        assert_eq!(encode(&profile, "rh8"), Err("it is one of PROFILE_D1, PROFILE_RH8".to_string()));
        assert_eq!(encode(&variable(1, Kind::Bool), "true"), Ok(vec![1]));
        assert!(encode(&variable(1, Kind::Bool), "maybe").is_err());
    }
}
