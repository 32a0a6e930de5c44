//! Values for a scheduler's variables: from the kernel by convention, then from the user by name.

use schedlab_base::DurationNs;
use schedlab_bpf::link::is_loaded;
use schedlab_bpf::object::{ARENA_SECTION, CPU_COUNTS, Object as File, enumerator_of};
use schedlab_bpf::settings::{Change, Holder, changes, timed_changes};

use super::btf::{Btf, Variable};
use super::raw::{Map, Object};
use super::{LoadError, SchedulerObject};

/// Room for the debug dump of an ejected scheduler, as the kernel's own tools have it.
const DUMP_SIZE: u32 = 32 << 10;

/// Sets the variables that every loader fills in, then what the user has named.
pub(super) fn apply(object: &Object, scheduler: &SchedulerObject) -> Result<(), LoadError> {
    if let Some(btf) = object.btf() {
        let variables = btf.variables();
        let constants: Vec<&Variable> = variables.iter().filter(|v| v.section == ".rodata").collect();
        fill_kernel_enums(object, &constants);
        fill_cpu_counts(object, &constants);
        fill_slice(object, &constants);
        fill_dump_room(object, &constants);
        give_arrays_a_length(object, &btf, &variables);
    }
    if scheduler.settings.is_empty() {
        return Ok(());
    }
    let file = chosen(scheduler)?;
    for (path, value) in &scheduler.settings {
        for change in changes(&file, path, value)? {
            make(object, &file, &change)
                .map_err(|problem| LoadError::Setting { setting: format!("{path}={value}"), problem })?;
        }
    }
    Ok(())
}

/// Writes the entries of maps of a loaded object.
pub(super) fn fill_maps(object: &Object, scheduler: &SchedulerObject) -> Result<(), LoadError> {
    if scheduler.settings.is_empty() {
        return Ok(());
    }
    let file = chosen(scheduler)?;
    for (path, value) in &scheduler.settings {
        for change in changes(&file, path, value)? {
            let Change::MapEntry { map, key, offset, bytes } = change else { continue };
            let found = object.maps().find(|found| found.name() == map);
            let written = found.map_or(Err(std::io::ErrorKind::NotFound.into()), |found| {
                found.write_entry(&key, usize::try_from(offset).unwrap_or(usize::MAX), &bytes)
            });
            written.map_err(|error| LoadError::Setting {
                setting: format!("{path}={value}"),
                problem: format!("map `{map}` does not take this entry: {error}"),
            })?;
        }
    }
    Ok(())
}

/// The object as our own loader reads it, which knows what can be set, with the scheduler that is meant.
fn chosen(scheduler: &SchedulerObject) -> Result<File, LoadError> {
    let mut file = File::parse(&scheduler.name, &scheduler.bytes)?;
    file.choose(scheduler.scheduler.as_deref()).map_err(|error| error.in_file(&scheduler.name))?;
    Ok(file)
}

/// Of several schedulers leaves all out but the one that is meant.
pub(super) fn choose_table(object: &Object, scheduler: &SchedulerObject) -> Result<(), LoadError> {
    let tables = || object.maps().filter(Map::is_struct_ops);
    if scheduler.scheduler.is_none() && tables().count() <= 1 {
        return Ok(());
    }
    let file = chosen(scheduler)?;
    let is_meant = |map: &Map<'_>| file.struct_ops().iter().any(|table| table.name == map.name());
    tables().filter(|map| !is_meant(map)).for_each(|map| map.leave_out());
    Ok(())
}

/// Makes a change of an object that is not loaded yet.
fn make(object: &Object, file: &File, change: &Change) -> Result<(), String> {
    match change {
        // Maps are there once the object is loaded.
        Change::MapEntry { .. } => Ok(()),
        Change::MapSize { map, max_entries } => {
            let found = object.maps().find(|found| found.name() == *map).ok_or("libbpf has no such map")?;
            found.set_max_entries(*max_entries).map_err(|error| error.to_string())
        }
        Change::Bytes { of, offset, bytes } => {
            let (map, start) = match of {
                Holder::Table(table) => {
                    (object.maps().find(|map| map.is_struct_ops() && map.name() == *table), 0)
                }
                Holder::Variable(name) => match file.variable(name) {
                    Some(variable) => (section_map(object, &variable.section), variable.offset),
                    None => (None, 0),
                },
            };
            let map = map.ok_or("libbpf has no place for it")?;
            let at = start.checked_add(*offset).and_then(|at| usize::try_from(at).ok());
            if at.is_some_and(|at| map.write_initial(at, bytes)) {
                return Ok(());
            }
            let size = map.initial_size().unwrap_or(0);
            Err(format!("there is no such element: its section has {size} bytes here"))
        }
    }
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
    section: String,
    offset: usize,
    bytes: Vec<u8>,
}

impl Write {
    /// Programs see the value at once. A number of up to eight bytes is not seen in parts.
    pub(super) fn write(&self, object: &Object) {
        let written =
            section_map(object, &self.section).is_some_and(|map| map.write_present(self.offset, &self.bytes));
        assert!(written, "byte {} lies outside of section {}", self.offset, self.section);
    }
}

/// What is to be written while the scheduler runs, in order of time.
pub(super) fn writes(scheduler: &SchedulerObject) -> Result<Vec<(DurationNs, Write)>, LoadError> {
    if scheduler.changes.is_empty() {
        return Ok(Vec::new());
    }
    let file = chosen(scheduler)?;
    let mut writes = Vec::new();
    for change in &scheduler.changes {
        for part in timed_changes(&file, change)? {
            let Change::Bytes { of: Holder::Variable(name), offset, bytes } = part else { continue };
            let Some(variable) = file.variable(&name) else { continue };
            let offset = variable.offset.saturating_add(offset);
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            writes.push((change.at, Write { section: variable.section.clone(), offset, bytes }));
        }
    }
    Ok(writes)
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

/// The map that holds a section; libbpf names it after the object and the section. Variables of the arena stand in its map.
pub(super) fn section_map<'a>(object: &'a Object, section: &str) -> Option<Map<'a>> {
    if section == ARENA_SECTION {
        return object.maps().find(Map::is_arena);
    }
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
