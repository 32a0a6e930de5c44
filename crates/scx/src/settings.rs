//! What a user-space loader would have filled in: `--set`, and names that loaders fill by convention.
//!
//! * `__SCX_NAME` and `__COMPAT_SCX_NAME` in `.rodata` are the kernel's enumerator `SCX_NAME` (the linker fills these);
//! * `nr_cpu_ids`, `nr_cpus`, `nr_cpus_onln`, `nr_cpus_online`, `nr_cpus_possible`, `nr_online_cpus`,
//!   `nr_possible_cpus`, `num_possible_cpus` in `.rodata` are the number of CPUs;
//! * an array that waits for its length (`RESIZABLE_ARRAY()`) has one element a CPU; one with a constant `X_len` beside
//!   it is the buffer of an exit dump, and both get the kernel's default length;
//! * `slice_ns` in `.rodata` is the kernel's default slice where the object leaves it 0;
//! * `map.NAME.max_entries=N` gives a map its size, where a loader would have;
//! * `TABLE.MEMBER=VALUE` sets a member of the scheduler's operations, as `simple_ops.flags=2`;
//! * `VAR=VALUE` sets a `volatile` variable (one that is not `const` too can be set while it runs): numbers, `true` and `false`, enumerators in any case, whole or by
//!   their last words, with `.` for `_` (`profile=2.6.10` for `PROFILE_2_6_10`), elements as `a[0]=1`.

use schedlab_base::TimedSetting;
use schedlab_bpf::btf::{Btf, Enum, Kind};
use schedlab_bpf::error::{LoadError, LoadErrorKind};
use schedlab_bpf::link::Settings;
use schedlab_bpf::object::{CPU_COUNTS, Object, Variable};
use schedlab_sim::flags::{SCX_EXIT_DUMP_DFL_LEN, SCX_SLICE_DFL};

/// The constant that gets the kernel's default slice where it is 0.
const SLICE: &str = "slice_ns";

/// Most values that are listed of an enumeration. Chosen: a longer list is no help, and an object may have thousands of
/// variables of one long enumeration.
const MAX_VALUES: usize = 100;

/// A variable that `--set` can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Its name.
    pub name: String,
    /// Its type as C writes it.
    pub type_name: String,
    /// Its value before any setting: a number, an enumerator, or empty for arrays and structs.
    pub default: String,
    /// The values it can take, for enumerations of at most 100.
    pub values: Vec<String>,
    /// False when it can be changed while the scheduler runs.
    pub constant: bool,
}

/// True for a name that both arms fill in by convention ([`prepare`]).
pub(crate) fn is_filled(name: &str) -> bool {
    name == SLICE || CPU_COUNTS.contains(&name)
}

fn is_constant(variable: &Variable) -> bool {
    variable.section.starts_with(".rodata")
}

/// True for a `volatile` global, `const` or not, that is not one that loaders fill.
fn is_tunable(object: &Object, variable: &Variable) -> bool {
    let filled = variable.name.starts_with("__") || variable.name == "uei_dump_len";
    let volatile = || variable.ty.is_some_and(|ty| object.btf().is_volatile(ty));
    variable.global && !filled && (is_constant(variable) || volatile())
}

/// The variables that `--set` can change, by name.
pub(crate) fn tunables(object: &Object) -> Vec<Tunable> {
    let mut tunables: Vec<Tunable> = object
        .variables()
        .filter(|variable| is_tunable(object, variable))
        .map(|variable| describe(object, variable))
        .collect();
    tunables.sort_by(|a, b| a.name.cmp(&b.name));
    tunables
}

fn describe(object: &Object, variable: &Variable) -> Tunable {
    let btf = object.btf();
    let number = object.initial_number(variable);
    let (mut default, mut values) = (number.map_or(String::new(), |number| number.to_string()), Vec::new());
    let type_name =
        variable.ty.map_or(String::new(), |ty| btf.spell(ty).replace("const ", "").replace("volatile ", ""));
    if let Some(enumeration) = variable.ty.and_then(|ty| enumeration(btf, ty)) {
        let listed = enumeration.values.iter().filter(|_| enumeration.values.len() <= MAX_VALUES);
        values = listed.map(|value| btf.enumerator_name(value).to_string()).collect();
        let named = enumeration.values.iter().find(|value| Some(value.value) == number);
        if let Some(value) = named {
            default = btf.enumerator_name(value).to_string();
        }
    }
    if variable.ty.is_some_and(|ty| matches!(btf.resolved(ty), Kind::Int(int) if int.is_bool)) {
        default = (number == Some(1)).to_string();
    }
    Tunable { name: variable.name.clone(), type_name, default, values, constant: is_constant(variable) }
}

fn enumeration(btf: &Btf, ty: schedlab_bpf::btf::TypeId) -> Option<&Enum> {
    match btf.resolved(ty) {
        Kind::Enum(enumeration) | Kind::Enum64(enumeration) => Some(enumeration),
        _ => None,
    }
}

fn refuse(setting: &str, problem: String, cure: String) -> LoadError {
    LoadError::new(LoadErrorKind::Setting, format!("setting `{setting}`"), problem, cure)
}

/// Applies the settings of map sizes to the object and turns the others, and the conventions, into the linker's form.
pub(crate) fn prepare(
    object: &mut Object,
    settings: &[(String, String)],
    nr_cpus: usize,
) -> Result<Settings, LoadError> {
    let mut out = Settings::new();
    for name in CPU_COUNTS {
        if object.variable(name).is_some_and(|variable| is_tunable(object, variable) && variable.size <= 8) {
            out.set(name, &nr_cpus.to_string());
        }
    }
    give_arrays_a_length(object, nr_cpus, &mut out);
    let slice = object.variable(SLICE).filter(|variable| is_tunable(object, variable));
    if slice.and_then(|variable| object.initial_number(variable)) == Some(0) {
        out.set(SLICE, &SCX_SLICE_DFL.to_string());
    }
    for (name, value) in settings {
        match name.strip_prefix("map.") {
            Some(rest) => resize_map(object, name, rest, value)?,
            None => {
                let value = check(object, name, value)?;
                out.set(name, &value);
            }
        }
    }
    refuse_empty_maps(object)?;
    Ok(out)
}

/// One element a CPU for the arrays that loaders give a length; the buffer `X` of an exit dump has room for one, and
/// `X_len` tells how much.
fn give_arrays_a_length(object: &mut Object, nr_cpus: usize, out: &mut Settings) {
    let arrays = object.resizable_arrays().into_iter().map(|variable| variable.name.clone());
    for name in arrays.collect::<Vec<String>>() {
        let length = format!("{name}_len");
        let is_dump = object.variable(&length).is_some_and(|found| is_constant(found) && found.size <= 8);
        let elements = if is_dump { SCX_EXIT_DUMP_DFL_LEN } else { nr_cpus as u32 };
        let resized = object.resize_array(&name, elements);
        debug_assert!(resized, "{name} is one of the arrays that were asked for");
        if is_dump {
            out.set(&length, &elements.to_string());
        }
    }
}

fn resize_map(object: &mut Object, setting: &str, rest: &str, value: &str) -> Result<(), LoadError> {
    let known: Vec<&str> = object.maps().iter().map(|map| map.name.as_str()).collect();
    let cure = format!("write map.NAME.max_entries=N; maps: {}", known.join(", "));
    let Some(map) = rest.strip_suffix(".max_entries") else {
        return Err(refuse(setting, "of a map only max_entries can be set".into(), cure));
    };
    let Ok(count) = value.parse::<u32>() else {
        return Err(refuse(setting, format!("`{value}` is no number of entries"), cure));
    };
    if object.set_max_entries(map, count) {
        return Ok(());
    }
    Err(refuse(setting, format!("there is no map `{map}`"), cure))
}

/// A map whose size its loader would have set: says how to.
fn refuse_empty_maps(object: &Object) -> Result<(), LoadError> {
    let empty = object.maps().iter().find(|map| map.max_entries == 0 && map.map_type.needs_entries());
    let Some(map) = empty else { return Ok(()) };
    Err(LoadError::new(
        LoadErrorKind::Setting,
        format!("section .maps, map `{}`", map.name),
        "max_entries is 0: the scheduler's own loader sets it",
        format!("add --set map.{}.max_entries=N", map.name),
    ))
}

/// The values that variables get while the scheduler runs, in order of time, with enumerators in the form that the
/// object has.
pub(crate) fn changes(object: &Object, changes: &[TimedSetting]) -> Result<Vec<TimedSetting>, LoadError> {
    let mut checked = Vec::new();
    for change in changes {
        let refuse = |problem, cure| Err(refuse(&change.to_string(), problem, cure));
        if let Some(table) = object.struct_ops().iter().find(|table| table.name == root_of(&change.variable))
        {
            let cure = format!("set it before, with --set {}={}", change.variable, change.value);
            return refuse(format!("`{}` is read once, when the scheduler is loaded", table.name), cure);
        }
        let value = check(object, &change.variable, &change.value)?;
        if object.variable(root_of(&change.variable)).is_some_and(is_constant) {
            let free = tunables(object).into_iter().filter(|tunable| !tunable.constant);
            let free: Vec<String> = free.map(|tunable| tunable.name).collect();
            let free = if free.is_empty() { "none".to_string() } else { free.join(", ") };
            let problem = format!("`{}` is constant once the scheduler is loaded", change.variable);
            let before = format!("--set {}={}", change.variable, change.value);
            return refuse(problem, format!("set it before, with {before}; while it runs: {free}"));
        }
        checked.push(TimedSetting { value, ..change.clone() });
    }
    checked.sort_by_key(|change| change.at);
    Ok(checked)
}

/// The variable that a path begins with.
fn root_of(path: &str) -> &str {
    &path[..path.find(['[', '.']).unwrap_or(path.len())]
}

/// The variable must be a tunable; enumerators are brought into the form that the object has.
fn check(object: &Object, name: &str, value: &str) -> Result<String, LoadError> {
    let root = root_of(name);
    if object.struct_ops().iter().any(|table| table.name == root) {
        return Ok(value.to_string());
    }
    let setting = format!("{name}={value}");
    let names: Vec<String> = tunables(object).into_iter().map(|tunable| tunable.name).collect();
    let variable = object.variable(root).filter(|variable| is_tunable(object, variable));
    let Some(ty) = variable.and_then(|variable| variable.ty) else {
        let known = if names.is_empty() { "this object has none".into() } else { names.join(", ") };
        return Err(refuse(&setting, format!("there is no tunable `{root}`"), format!("tunables: {known}")));
    };
    let btf = object.btf();
    let at = btf
        .at_path(ty, &name[root.len()..])
        .map_err(|problem| refuse(&setting, problem, "name an element (a[0]) or a member (a.b)".into()))?;
    match enumeration(btf, at.ty) {
        Some(enumeration) => enumerator(btf, enumeration, value).map_err(|known| {
            refuse(
                &setting,
                format!("`{value}` is none of its values"),
                format!("values: {}", known.join(", ")),
            )
        }),
        None => Ok(value.to_string()),
    }
}

/// The enumerator that a text means: its name, or the end of it after a `_`; case and `.` or `-` for `_` do not count.
fn enumerator(btf: &Btf, enumeration: &Enum, text: &str) -> Result<String, Vec<String>> {
    let wanted = text.to_ascii_uppercase().replace(['.', '-'], "_");
    let names: Vec<&str> = enumeration.values.iter().map(|value| btf.enumerator_name(value)).collect();
    let upper = |name: &&&str| name.to_ascii_uppercase();
    let ends = |name: &&&str| upper(name).strip_suffix(&wanted).is_some_and(|head| head.ends_with('_'));
    let exact = names.iter().find(|name| upper(name) == wanted);
    // The shortest name that ends so: `2_6` means PROFILE_2_6, not PROFILE_X_2_6.
    let by_end = || names.iter().filter(ends).min_by_key(|name| name.len());
    if let Some(name) = exact.or_else(by_end) {
        return Ok((*name).to_string());
    }
    match text.parse::<i64>() {
        Ok(number) => Ok(number.to_string()),
        Err(_) => Err(names.iter().map(|name| (*name).to_string()).collect()),
    }
}
