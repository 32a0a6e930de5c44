//! Values that a user gives to what an object declares, checked against its types: the one place that decides, for the
//! simulator and for a real kernel, what can be set and what a value's bytes are.
//!
//! * `VARIABLE=VALUE`: a variable of `.rodata`, `.data` or `.bss`; elements and members as `weights[3]`, `limits.max`.
//! * `TABLE.MEMBER=VALUE`: a member of a struct_ops table that is no function; `ops` names the table of an object that has
//!   one.
//! * `map.NAME.max_entries=N`: a map's size; `map.NAME[KEY]=VALUE`, `map.NAME[KEY].member=VALUE`: an entry of a map.
//!
//! A variable that its object describes ([`Object::description`]) takes the values alone that the description allows.

mod allowed;
mod map;
mod value;

pub use value::{BYTES, bytes_of_digits};

use crate::btf::Kind;
use crate::error::{LoadError, LoadErrorKind};
use crate::object::{Object, StructOpsVar, Variable};
pub(crate) use allowed::is_number;
pub use allowed::values;
use schedlab_base::{TimedSetting, did_you_mean};
use value::{Piece, encode_of_any_length, spelled};
pub(crate) use value::{encode, parse_number};

/// What begins the name of a setting for a map.
const MAP: &str = "map.";
/// What stands for the only struct_ops table.
const OPS: &str = "ops";

/// What a setting changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Bytes of a variable or of a struct_ops table.
    Bytes {
        /// Whose bytes they are.
        of: Holder,
        /// Bytes from its start.
        offset: u64,
        /// What is written.
        bytes: Vec<u8>,
    },
    /// A map's number of entries.
    MapSize {
        /// The map.
        map: String,
        /// Entries.
        max_entries: u32,
    },
    /// Bytes of a map's value, on all CPUs where each has its own. Others of a new entry are 0.
    MapEntry {
        /// The map.
        map: String,
        /// The key.
        key: Vec<u8>,
        /// Bytes from the start of the value.
        offset: u64,
        /// What is written.
        bytes: Vec<u8>,
    },
}

/// What bytes belong to, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A variable of a data section.
    Variable(String),
    /// A struct_ops table.
    Table(String),
}

/// What `path=value` changes. An array that waits for its length ([`Object::resizable_arrays`]) takes any index; who writes
/// the bytes checks that they lie within it.
///
/// # Errors
/// Names the setting, what is wrong with it, and the cure.
pub fn changes(object: &Object, path: &str, value: &str) -> Result<Vec<Change>, LoadError> {
    let fail = |(problem, cure): (String, String)| {
        LoadError::new(LoadErrorKind::Setting, format!("setting `{path}={value}`"), problem, cure)
    };
    if let Some(rest) = path.strip_prefix(MAP) {
        return map::changes(object, rest, value).map_err(fail);
    }
    // A static of a function is called `function.name`.
    let root = if object.variable(path).is_some() { path } else { root_of(path) };
    if let Some(table) = table(object, root) {
        return member(object, table, &path[root.len()..], value).map_err(fail);
    }
    let variable = variable(object, root).map_err(fail)?;
    bytes_of(object, variable, &path[root.len()..], value).map_err(fail)
}

/// The changes for a value that a variable gets while the scheduler runs.
///
/// # Errors
/// As of [`changes`], and for what is read once, when the scheduler is loaded.
pub fn timed_changes(object: &Object, change: &TimedSetting) -> Result<Vec<Change>, LoadError> {
    let fail = |problem: String, cure: String| {
        Err(LoadError::new(LoadErrorKind::Setting, format!("setting `{change}`"), problem, cure))
    };
    let before = format!("--set {}={}", change.variable, change.value);
    let root = root_of(&change.variable);
    let name = table(object, root).map_or(root, |table| &table.name);
    if table(object, root).is_some() || change.variable.starts_with(MAP) {
        let problem = format!("`{name}` is read once, when the scheduler is loaded");
        return fail(problem, format!("set it before, with {before}"));
    }
    let found = object.variable(root).filter(|variable| is_tunable(object, variable));
    let Some(variable) = found else {
        let (problem, cure) = unknown(object, root);
        return fail(problem, cure);
    };
    let changes = bytes_of(object, variable, &change.variable[root.len()..], &change.value);
    let changes = changes.or_else(|(problem, cure)| fail(problem, cure))?;
    if is_constant(variable) {
        let free = tunables(object).filter(|variable| !is_constant(variable));
        let free = names(free.map(|variable| variable.name.as_str()));
        let problem = format!("`{}` is constant once the scheduler is loaded", change.variable);
        return fail(problem, format!("set it before, with {before}; while it runs: {free}"));
    }
    Ok(changes)
}

/// True for what its author means to be set: a `volatile` global, `const` or not, that is not one that every loader fills.
pub fn is_tunable(object: &Object, variable: &Variable) -> bool {
    let filled = variable.name.starts_with("__") || variable.name == "uei_dump_len";
    variable.global && !filled && is_volatile(object, variable)
}

/// True for a variable that is constant once the object is loaded.
pub fn is_constant(variable: &Variable) -> bool {
    variable.section.starts_with(".rodata")
}

/// The variable or table that a path begins with.
pub(crate) fn root_of(path: &str) -> &str {
    &path[..path.find(['[', '.']).unwrap_or(path.len())]
}

/// True for a variable that changes behind the program's back: the compiler reads it where the program does.
pub fn is_volatile(object: &Object, variable: &Variable) -> bool {
    variable.ty.is_some_and(|ty| object.btf().is_volatile(ty))
}

fn tunables(object: &Object) -> impl Iterator<Item = &Variable> {
    object.variables().filter(|variable| is_tunable(object, variable))
}

/// Names for a message, in order.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// What is wrong, and the cure.
type Refusal = (String, String);

/// The variable of a name that can be set.
fn variable<'a>(object: &'a Object, name: &str) -> Result<&'a Variable, Refusal> {
    let Some(found) = object.variable(name) else { return Err(unknown(object, name)) };
    if is_constant(found) && !is_volatile(object, found) {
        let problem =
            format!("`{name}` is `const` without `volatile`: the compiler has put its value into the code");
        return Err((problem, "declare it `const volatile`".into()));
    }
    Ok(found)
}

fn unknown(object: &Object, name: &str) -> Refusal {
    let tables = object.struct_ops().iter().map(|table| table.name.as_str());
    let names_of_all = object.variables().map(|variable| variable.name.as_str()).chain(tables);
    let near = match object.variable(name) {
        Some(_) => ": the variable is not `volatile`".to_string(),
        None => did_you_mean(name, names_of_all),
    };
    let known = names(tunables(object).map(|variable| variable.name.as_str()));
    (format!("there is no tunable `{name}`{near}"), format!("tunables: {known}"))
}

/// The table that a name means.
fn table<'a>(object: &'a Object, name: &str) -> Option<&'a StructOpsVar> {
    let tables = object.struct_ops();
    let named = tables.iter().find(|table| table.name == name);
    let only =
        || tables.first().filter(|_| name == OPS && tables.len() == 1 && object.variable(OPS).is_none());
    named.or_else(only)
}

fn bytes_of(object: &Object, variable: &Variable, path: &str, value: &str) -> Result<Vec<Change>, Refusal> {
    let btf = object.btf();
    let ty = variable.ty.ok_or_else(|| {
        let problem = format!("the type of `{}` is not known", variable.name);
        (problem, "compile with -g".to_string())
    })?;
    let grows = object.is_resizable(variable);
    let found = if grows { btf.at_path_of_any_length(ty, path) } else { btf.at_path(ty, path) };
    let at = found.map_err(|problem| {
        let cure = format!(
            "`{}` is of type {}; name an element (a[0]) or a member (a.b)",
            variable.name,
            spelled(btf, ty)
        );
        (problem, cure)
    })?;
    let pieces = match grows && path.is_empty() {
        true => encode_of_any_length(btf, &at, value),
        false => encode(btf, &at, value),
    };
    let pieces = pieces.and_then(|pieces| allowed::check(object, variable, at.ty, pieces));
    let pieces = pieces.map_err(|problem| {
        let cure = || format!("`{}{path}` is of type {}", variable.name, spelled(btf, at.ty));
        (problem, allowed::told(object, variable).unwrap_or_else(cure))
    })?;
    let of = Holder::Variable(variable.name.clone());
    let size = if grows { u64::MAX } else { variable.size };
    let change = |found| {
        let (offset, bytes) = piece(found, size)?;
        Ok(Change::Bytes { of: of.clone(), offset, bytes })
    };
    pieces.into_iter().map(change).collect()
}

fn member(object: &Object, table: &StructOpsVar, path: &str, value: &str) -> Result<Vec<Change>, Refusal> {
    let btf = object.btf();
    let is_function = |ty| matches!(btf.resolved(ty), Kind::Ptr(_));
    let cure = || {
        let numbers = btf.members(table.ty).iter().filter(|member| !is_function(member.ty));
        let members = names(numbers.map(|member| btf.member_name(member)));
        format!("name a member that is a number or a text: {members}")
    };
    let refuse = |problem: String| (problem, cure());
    let at = btf.at_path(table.ty, path).map_err(refuse)?;
    let pieces = encode(btf, &at, value).map_err(refuse)?;
    let of = Holder::Table(table.name.clone());
    let change = |(offset, bytes)| Change::Bytes { of: of.clone(), offset, bytes };
    Ok(pieces.into_iter().map(change).collect())
}

/// A piece that lies within `size` bytes.
fn piece((offset, bytes): Piece, size: u64) -> Result<Piece, Refusal> {
    let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= size);
    let refused =
        || ("the type does not fit into its place".to_string(), "build the object again".to_string());
    end.map(|_| (offset, bytes)).ok_or_else(refused)
}
