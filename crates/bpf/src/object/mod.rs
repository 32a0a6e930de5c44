//! A BPF object file as data: its programs, maps, variables, struct_ops tables and what it wants from the kernel.
//!
//! Nothing here depends on a kernel; joining an object to one is `link`.

mod choice;
mod data;
pub(crate) mod elf;
mod embedded;
mod maps;
mod program;
mod tables;
mod tunables;
mod uses;

pub use data::{ARENA_SECTION, Extern, ExternKind, StructOpsVar, Variable};
pub(crate) use data::{is_data_section, little_endian};
pub use embedded::{is_executable, scheduler_within};
pub use maps::{MapDef, MapType};
pub(crate) use program::CodeSection;
pub use program::{Program, ProgramKind};
pub use tables::Table;
pub use tunables::{Description, Range};
pub use uses::Uses;

use crate::btf::ext::{BtfExt, LineRecord};
use crate::btf::{Btf, Kind};
use crate::error::LoadError;
use crate::limits::OBJECT_BYTES;
use elf::Elf;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The variable in which sched_ext's own examples keep the number of the group that they are attached to as a sub-scheduler, 0 for none. Their
/// loader sets it, and the member of this name of the table.
pub const SUB_GROUP: &str = "sub_cgroup_id";

/// Names of the variables in which objects expect their loader to put the number of CPUs.
pub const CPU_COUNTS: [&str; 8] = [
    "nr_cpu_ids",
    "nr_cpus",
    "nr_cpus_onln",
    "nr_cpus_online",
    "nr_cpus_possible",
    "nr_online_cpus",
    "nr_possible_cpus",
    "num_possible_cpus",
];

/// The kernel's enumerator that a variable stands for: `SCX_NAME` for `__SCX_NAME` and `__COMPAT_SCX_NAME`.
pub fn enumerator_of(variable: &str) -> Option<&str> {
    let name = variable.strip_prefix("__COMPAT_").or_else(|| variable.strip_prefix("__"))?;
    name.starts_with("SCX_").then_some(name)
}

/// A variable in which an object counts something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter<'a> {
    /// The variable.
    pub variable: &'a Variable,
    /// What it counts, as the object says by `__attribute__((btf_decl_tag("...")))` on the variable; empty if it does not.
    pub meaning: &'a str,
}

/// One parsed object file.
#[derive(Debug, Clone)]
pub struct Object {
    pub(crate) file: String,
    pub(crate) elf: Elf,
    pub(crate) btf: Arc<Btf>,
    pub(crate) ext: BtfExt,
    pub(crate) code: Vec<CodeSection>,
    programs: Vec<Program>,
    maps: Vec<MapDef>,
    variables: Vec<Variable>,
    /// Number of the variable that a name means.
    by_name: BTreeMap<String, usize>,
    /// What the object says of its tunables, by name.
    descriptions: BTreeMap<String, Description>,
    /// The first tag of each variable that has one, by its name.
    tags: BTreeMap<String, String>,
    externs: Vec<Extern>,
    struct_ops: Vec<StructOpsVar>,
}

impl Object {
    /// Reads an object file; `name` is used in messages only.
    ///
    /// # Errors
    /// `NotAnObject` for other files, `Malformed` for damaged ones, `Unsupported` for old or foreign conventions.
    /// Never panics, whatever the bytes.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Object, LoadError> {
        let whole = || embedded::parts_of_program(bytes).map_or(Ok(()), |parts| parts.map(drop));
        whole()
            .and_then(|()| Self::parse_unnamed(bytes))
            .map(|o| Object { file: name.to_string(), ..o })
            .map_err(|e| e.in_file(name))
    }

    fn parse_unnamed(bytes: &[u8]) -> Result<Object, LoadError> {
        OBJECT_BYTES.check(bytes.len(), || "object file".to_string())?;
        let elf = Elf::parse(bytes)?;
        let Some((_, btf_section)) = elf.section(".BTF") else {
            return Err(LoadError::unsupported(
                "ELF sections",
                "there is no .BTF section",
                "compile with -g, and do not strip the object (llvm-strip -g keeps .BTF)",
            ));
        };
        let btf = Btf::parse(&btf_section.data)?;
        let ext = match elf.section(".BTF.ext") {
            Some((_, s)) => BtfExt::parse(&s.data, &btf)?,
            None => BtfExt::default(),
        };
        if elf.section("maps").is_some() {
            return Err(LoadError::unsupported(
                "section maps",
                "maps are declared in the old way",
                "declare them in SEC(\".maps\") with BTF (__uint, __type)",
            ));
        }
        let code = program::code_sections(&elf)?;
        let programs = program::programs(&elf, &code)?;
        let maps = maps::read(&elf, &btf)?;
        let variables = data::variables(&elf, &btf);
        let by_name = by_name(&variables);
        let descriptions = tunables::descriptions(&btf, &variables)?;
        let tags = btf.variable_tags().into_iter().map(|(name, tag)| (name.into(), tag.into())).collect();
        let externs = data::externs(&elf, &btf)?;
        let struct_ops = data::struct_ops(&elf, &btf)?;
        Ok(Object {
            file: String::new(),
            elf,
            btf: Arc::new(btf),
            ext,
            code,
            programs,
            maps,
            variables,
            by_name,
            descriptions,
            tags,
            externs,
            struct_ops,
        })
    }

    /// The name given to [`Object::parse`].
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The object's own types.
    pub fn btf(&self) -> &Btf {
        &self.btf
    }

    /// Entry points, in order of section and place.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Declared maps, in order of declaration; data sections are not among them.
    pub fn maps(&self) -> &[MapDef] {
        &self.maps
    }

    /// Global and static variables of all data sections, in order of section and place.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.variables.iter()
    }

    /// The variable of this name; a global one wins over statics of the same name.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.get(*self.by_name.get(name)?)
    }

    /// Counters, in name order: global 64-bit integers outside of `.rodata` whose names start with `nr_`. Those into which
    /// loaders put the number of CPUs are none, nor are described tunables.
    pub fn counters(&self) -> Vec<Counter<'_>> {
        let is_number = |ty| matches!(self.btf.resolved(ty), Kind::Int(int) if int.size == 8);
        let is_counter = |v: &&Variable| {
            v.global
                && v.name.starts_with("nr_")
                && !v.section.starts_with(".rodata")
                && v.ty.is_some_and(is_number)
        };
        let variables = self.variables.iter().filter(is_counter);
        let meaning = |variable: &Variable| self.tags.get(&variable.name).map_or("", String::as_str);
        let mut counters: Vec<Counter<'_>> = variables
            .filter(|v| !CPU_COUNTS.contains(&v.name.as_str()) && self.description(v).is_none())
            .map(|variable| Counter { variable, meaning: meaning(variable) })
            .collect();
        counters.sort_by(|a, b| a.variable.name.cmp(&b.variable.name));
        counters
    }

    /// Integers besides the counters that a run can change, in name order, with whether they have a sign: global, of at most
    /// 8 bytes, outside of `.rodata`. Where one has changed, it counts something or keeps the scheduler's state.
    pub fn integers(&self) -> Vec<(&Variable, bool)> {
        let counters: BTreeSet<&str> =
            self.counters().iter().map(|counter| counter.variable.name.as_str()).collect();
        let signed = |v: &Variable| match self.btf.resolved(v.ty?) {
            Kind::Int(int) if int.size <= 8 => Some(int.signed),
            _ => None,
        };
        let others = self.variables.iter().filter(|v| v.global && !v.section.starts_with(".rodata"));
        let others =
            others.filter(|v| !counters.contains(v.name.as_str()) && !CPU_COUNTS.contains(&v.name.as_str()));
        let mut integers: Vec<(&Variable, bool)> = others.filter_map(|v| Some((v, signed(v)?))).collect();
        integers.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        integers
    }

    /// The number that a variable of at most 8 bytes has in the file (zero-extended); `None` for larger ones.
    pub fn initial_number(&self, variable: &Variable) -> Option<u64> {
        let content = self.content(variable)?;
        let is_number = (1..=8).contains(&variable.size);
        is_number.then(|| little_endian(content).unwrap_or(0))
    }

    /// Whether the object initialises all of a variable with zeros.
    pub fn is_zero(&self, variable: &Variable) -> bool {
        self.content(variable).is_none_or(|content| content.iter().all(|byte| *byte == 0))
    }

    /// The bytes that a variable has in the object.
    pub fn initial_bytes(&self, variable: &Variable) -> Vec<u8> {
        let mut bytes = self.content(variable).unwrap_or(&[]).to_vec();
        bytes.resize(usize::try_from(variable.size).unwrap_or(0), 0);
        bytes
    }

    /// A variable's bytes in the file; none for one of zeros in a section without content (.bss).
    fn content(&self, variable: &Variable) -> Option<&[u8]> {
        let (_, section) = self.elf.section(&variable.section)?;
        let from = usize::try_from(variable.offset).ok()?;
        let end = from.checked_add(usize::try_from(variable.size).ok()?)?;
        Some(section.data.get(from..end).unwrap_or(&[]))
    }

    /// A number of at most eight bytes that a struct_ops table has as the object initialises it; nothing where it has no
    /// such member.
    pub fn initial_member(&self, table: &StructOpsVar, member: &str) -> Option<u64> {
        let found = self.btf.members(table.ty).iter().find(|found| self.btf.member_name(found) == member)?;
        little_endian(table.content(&self.btf, found))
    }

    /// Arrays that loaders give a length: each is declared with one element and stands alone in a section that has its
    /// name (`SEC(".data.X") X[1]`), which is how `RESIZABLE_ARRAY()` of the sched_ext headers declares them.
    pub fn resizable_arrays(&self) -> Vec<&Variable> {
        self.variables.iter().filter(|variable| self.is_resizable(variable)).collect()
    }

    pub(crate) fn is_resizable(&self, v: &Variable) -> bool {
        let is_array = |ty| matches!(self.btf.resolved(ty), Kind::Array(array) if array.count == 1);
        [".data.", ".rodata.", ".bss."].iter().any(|p| v.section.strip_prefix(p) == Some(v.name.as_str()))
            && v.offset == 0
            && self.elf.section(&v.section).map(|(_, section)| section.size) == Some(v.size)
            && v.ty.is_some_and(is_array)
    }

    /// Gives one of the [`Object::resizable_arrays`] its number of elements; the new ones are zero. False without such an
    /// array, or for a size that is no section's.
    pub fn resize_array(&mut self, name: &str, elements: u32) -> bool {
        let found = self.variables.iter().find(|v| v.name == name && self.is_resizable(v));
        let Some((section, size)) = found.map(|v| (v.section.clone(), v.size)) else { return false };
        let Some(size) = size.checked_mul(u64::from(elements)).filter(|size| *size <= u64::from(u32::MAX))
        else {
            return false;
        };
        for variable in self.variables.iter_mut().filter(|v| v.section == section) {
            variable.size = size;
        }
        for found in self.elf.sections.iter_mut().filter(|s| s.name == section) {
            found.size = size;
        }
        true
    }

    /// The data sections, in order of the file, with their sizes.
    pub fn data_sections(&self) -> Vec<(&str, u64)> {
        let sections = self.elf.sections.iter();
        let data = sections.filter(|s| s.allocated && s.size > 0 && is_data_section(&s.name));
        data.map(|s| (s.name.as_str(), s.size)).collect()
    }

    /// Gives a data section another size, as loaders do; its last variable grows or shrinks with it.
    pub fn resize_section(&mut self, name: &str, size: u64) {
        for found in self.elf.sections.iter_mut().filter(|s| s.name == name) {
            found.size = size;
        }
        let last = self.variables.iter().filter(|v| v.section == name).map(|v| v.offset).max();
        for variable in self.variables.iter_mut().filter(|v| v.section == name && Some(v.offset) == last) {
            variable.size = size.saturating_sub(variable.offset);
        }
    }

    /// Loads of the programs that no table names those that are `wanted`, whatever their sections say.
    pub fn load_only(&mut self, wanted: impl Fn(&str) -> bool) {
        self.programs.iter_mut().for_each(|program| program.autoload = wanted(&program.name));
    }

    /// What the object expects to find: kernel functions, kernel variables, kernel configuration.
    pub fn externs(&self) -> &[Extern] {
        &self.externs
    }

    /// The struct_ops tables, such as a scheduler's `sched_ext_ops`.
    pub fn struct_ops(&self) -> &[StructOpsVar] {
        &self.struct_ops
    }

    /// The text of the `license` section.
    pub fn license(&self) -> String {
        let bytes = self.elf.section("license").map_or(&[][..], |(_, s)| &s.data);
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// What loaders, this one and libbpf, do not do although the file asks for it; one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let ignored = |s: &&elf::Section| data::is_data_section(&s.name) && !s.relocs.is_empty();
        let sentence = |s: &elf::Section| {
            format!("section {}: {} initialised pointers stay 0; assign them in code", s.name, s.relocs.len())
        };
        self.elf.sections.iter().filter(ignored).map(sentence).collect()
    }

    /// The source line of an instruction, as `file:line`, where the object carries line information.
    pub(crate) fn source_line(&self, section: &str, insn: usize) -> Option<String> {
        Some(LineRecord::of(self.ext.lines.get(section)?, insn)?.place(&self.btf))
    }
}

/// The variable that each name means: the first global one, else the first static one.
fn by_name(variables: &[Variable]) -> BTreeMap<String, usize> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for (number, variable) in variables.iter().enumerate() {
        let better =
            numbers.get(&variable.name).is_none_or(|&known| variable.global && !variables[known].global);
        if better {
            numbers.insert(variable.name.clone(), number);
        }
    }
    numbers
}
