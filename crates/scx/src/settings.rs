//! What a user-space loader would have filled in by convention, and what `--set` can change.
//!
//! * `__SCX_NAME` and `__COMPAT_SCX_NAME` in `.rodata` are the kernel's enumerator `SCX_NAME` (the linker fills these);
//! * `nr_cpu_ids`, `nr_cpus`, `nr_cpus_onln`, `nr_cpus_online`, `nr_cpus_possible`, `nr_online_cpus`,
//!   `nr_possible_cpus`, `num_possible_cpus` in `.rodata` are the number of CPUs;
//! * an array that waits for its length (`RESIZABLE_ARRAY()`) has one element a CPU; one with a constant `X_len` beside
//!   it is the buffer of an exit dump, and both get the kernel's default length;
//! * `slice_ns` in `.rodata` is the kernel's default slice where the object leaves it 0.
//!
//! What the user sets comes after that ([`schedlab_bpf::settings`]).

use crate::auxiliary::not_run;
use crate::programs::RunProgram;
use crate::user::Recorded;
use schedlab_bpf::btf::{Btf, Enum, Kind};
use schedlab_bpf::error::LoadError;
use schedlab_bpf::link::Settings;
use schedlab_bpf::object::{CPU_COUNTS, Object, Range, SUB_GROUP, Variable};
use schedlab_bpf::settings::{is_constant, is_tunable, values as values_in_words};
use schedlab_sim::flags::{SCX_EXIT_DUMP_DFL_LEN, SCX_SLICE_DFL};

/// The constant that gets the kernel's default slice where it is 0.
const SLICE: &str = "slice_ns";

/// Most values that are listed of an enumeration. Chosen: a longer list is no help, and an object may have thousands of
/// variables of one long enumeration.
const MAX_VALUES: usize = 100;

/// A variable that its author means to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// The tunable's name.
    pub name: String,
    /// The tunable's type as C writes it.
    pub type_name: String,
    /// The tunable's value before any setting: a number, an enumerator, or empty for arrays and structs.
    pub default: String,
    /// The values it can take, for enumerations of at most 100.
    pub values: Vec<String>,
    /// What setting it does, as the object says; empty if it does not.
    pub meaning: String,
    /// The numbers that it takes, if the object says so.
    pub range: Option<Range>,
    /// The values that it takes in words; empty where its type alone says it.
    pub takes: String,
    /// False when it can be changed while the scheduler runs.
    pub constant: bool,
}

/// True for a name that both arms fill in by convention ([`prepare`]), as a run attaches the scheduler.
pub(crate) fn is_filled(name: &str) -> bool {
    name == SLICE || name == SUB_GROUP || CPU_COUNTS.contains(&name)
}

/// The variables that their author means to be set, by name.
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
    let described = object.description(variable);
    Tunable {
        name: variable.name.clone(),
        type_name,
        default,
        values,
        meaning: described.map_or(String::new(), |described| described.meaning.clone()),
        range: described.and_then(|described| described.range.clone()),
        takes: values_in_words(object, variable),
        constant: is_constant(variable),
    }
}

fn enumeration(btf: &Btf, ty: schedlab_bpf::btf::TypeId) -> Option<&Enum> {
    match btf.resolved(ty) {
        Kind::Enum(enumeration) | Kind::Enum64(enumeration) => Some(enumeration),
        _ => None,
    }
}

/// The conventions and then the user's settings, in the linker's form.
pub(crate) fn prepare(object: &mut Object, settings: &[(String, String)], nr_cpus: usize) -> Settings {
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
    for (path, value) in settings {
        out.set(path, value);
    }
    out
}

/// What a loader has decided, and then the user's settings, in the linker's form.
///
/// # Errors
/// A program that the loader has loaded and that is not modelled.
pub(crate) fn recorded(
    object: &mut Object,
    recorded: &Recorded,
    settings: &[(String, String)],
) -> Result<Settings, LoadError> {
    let mut out = Settings::new();
    for (section, content) in &recorded.sections {
        object.resize_section(section, content.len() as u64);
        out.set_content(section, content.clone());
    }
    for (map, entries) in &recorded.max_entries {
        out.set(&format!("map.{map}.max_entries"), &entries.to_string());
    }
    for (path, value) in settings {
        out.set(path, value);
    }
    let run = |name: &String| RunProgram { name: name.clone(), context: Vec::new() };
    let run: Vec<RunProgram> = recorded.on_request.iter().map(run).collect();
    // A loader may also load what its section marks as optional (`?`).
    object.load_only(|name| !recorded.left_out.iter().any(|out| out == name));
    for program in not_run(object, &run)? {
        out.leave_out(&program.name);
    }
    for name in &recorded.left_out {
        out.leave_out(name);
    }
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
