//! Joining an object to a kernel: an [`Object`], a [`KernelModel`] and [`Settings`] become an [`Image`] that runs.
//!
//! The order is libbpf's: settings into data sections, externs, maps, then for each function that a loaded program
//! can reach its CO-RE records and its references. What no program can reach, and branches that constants rule out
//! (read-only variables, unresolved weak symbols, `bpf_core_field_exists`), are not required to resolve: as in the
//! kernel, whose verifier prunes them. Reaching such an instruction all the same ends the program with its name.

mod code;
mod externs;
mod flow;
mod optional;
mod sections;
mod settings;
mod struct_ops;
mod walked;

pub use optional::is_loaded;
pub use settings::Settings;
pub use struct_ops::StructOps;

use crate::btf::ext::LineRecord;
use crate::btf::{Btf, MemberAt, TypeId};
use crate::code::{Code, FuncId};
use crate::error::{LoadError, LoadErrorKind};
use crate::fault::Location;
use crate::helpers::{Objects, Timers};
use crate::insn::Insn;
use crate::limits::Steps;
use crate::maps::{MapId, MapTable, check_types};
use crate::memory::{GuestAddr, Memory};
use crate::object::{Object, ProgramKind};
use crate::settings::root_of;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What an object is loaded against: the kernel as far as objects can see it.
#[derive(Debug, Clone, Default)]
pub struct KernelModel {
    /// The kernel's types: structs that CO-RE looks into, enumerations, prototypes of kernel functions.
    pub btf: Arc<Btf>,
    /// Kernel functions that the host implements, by name.
    pub kfuncs: BTreeSet<String>,
    /// Kernel functions that other versions have: by name, why this one lacks it and the cure.
    pub other_versions: BTreeMap<String, (String, String)>,
    /// Helpers that the host implements beyond [`crate::helpers`]' own, by number.
    pub helpers: BTreeSet<u32>,
    /// How many arguments helpers and kernel functions take, as far as that is known: programs' other registers are not kept
    /// for those.
    pub helper_arguments: BTreeMap<u32, u8>,
    /// As above, by name.
    pub kfunc_arguments: BTreeMap<String, u8>,
    /// Kernel variables: where they are in guest memory (per-CPU ones: the template that `bpf_per_cpu_ptr` knows).
    pub ksyms: BTreeMap<String, GuestAddr>,
    /// Kernel configuration, by full name (`CONFIG_HZ`).
    pub kconfig: BTreeMap<String, KconfigValue>,
    /// `LINUX_KERNEL_VERSION`: major << 16 | minor << 8 | patch.
    pub version: u32,
    /// Possible CPUs.
    pub nr_cpus: u32,
}

/// A kernel configuration value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KconfigValue {
    /// `y`.
    Yes,
    /// `n`, or not set.
    No,
    /// `m`.
    Module,
    /// A number.
    Number(u64),
    /// A string, without quotes.
    Text(String),
}

/// An object joined to a kernel, with its data and maps in guest memory.
#[derive(Debug, Clone)]
pub struct Image {
    /// All functions, ready to run.
    pub code: Code,
    /// The functions again as linked instructions, by [`FuncId`]: for listings and comparisons.
    pub functions: Vec<ImageFunction>,
    /// Kernel functions that the code calls; a call's index points here.
    pub kfuncs: Vec<KfuncRef>,
    /// struct_ops tables, such as the scheduler's operations.
    pub struct_ops: Vec<StructOps>,
    /// Entry points that were loaded.
    pub programs: Vec<ImageProgram>,
    /// Global variables by name (statics too, where no global has their name).
    pub variables: BTreeMap<String, ImageVariable>,
    /// What helpers work on.
    pub runtime: Runtime,
    /// The object's types, for reading variables.
    pub types: Arc<Btf>,
}

/// What generic helpers work on while the image runs.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// All maps, data sections included.
    pub maps: MapTable,
    /// Reasons for instructions that must not run, by number (see [`TRAP_BASE`]).
    pub traps: Vec<String>,
    /// Timers that were initialised.
    pub(crate) timers: Timers,
    /// Objects that programs have made.
    pub(crate) objects: Objects,
    /// The object's types, for the sizes of those.
    pub(crate) types: Arc<Btf>,
    /// State of interrupts as `bpf_local_irq_save` has it.
    pub(crate) irq_depth: u32,
}

/// Helper number of the first instruction that must not run; number n says why in `Runtime::traps[n]`.
///
/// Chosen: far above every helper, below 2^31.
pub const TRAP_BASE: u32 = 0x7bad_0000;

/// A function of the image.
#[derive(Debug, Clone)]
pub struct ImageFunction {
    /// Name in C.
    pub name: String,
    /// Section in the object file.
    pub section: String,
    /// First slot in that section.
    pub start: usize,
    /// As handed to the machine.
    pub insns: Vec<Insn>,
    /// For each slot, whether execution can reach it once the linker's constants are known.
    pub reachable: Vec<bool>,
    /// Addresses of functions that calls are handed, such as a timer's: slot of the call, slot of the load.
    pub handed: BTreeSet<(u32, u32)>,
    /// Slots whose faulting loads yield 0.
    pub probe_mem: BTreeSet<u32>,
    /// The function's source lines, where the object has them.
    pub(crate) lines: Vec<LineRecord>,
}

/// A kernel function that the code calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KfuncRef {
    /// Name in the kernel: the extern's without its flavour.
    pub name: String,
    /// Prototype in the object's types.
    pub proto: Option<TypeId>,
    /// The kernel may lack it.
    pub weak: bool,
}

/// An entry point of the image.
#[derive(Debug, Clone)]
pub struct ImageProgram {
    /// Name of the function.
    pub name: String,
    /// Section, without `?`.
    pub section: String,
    /// What it attaches to.
    pub kind: ProgramKind,
    /// The function.
    pub func: FuncId,
}

/// A variable of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageVariable {
    /// Where it is.
    pub addr: GuestAddr,
    /// Bytes.
    pub size: u64,
    /// Type in [`Image::types`].
    pub ty: Option<TypeId>,
}

/// Links an object against a kernel; its data and maps are put into `mem`.
///
/// Equal arguments and a fresh `mem` give the same image, byte for byte and address for address.
///
/// # Errors
/// Names file, place, problem and cure: an unknown setting, a kernel function, helper, map type or field that a
/// reachable instruction needs and the kernel does not have, or a contradiction inside the file.
pub fn link(
    object: &Object,
    kernel: &KernelModel,
    settings: &Settings,
    mem: &mut Memory,
) -> Result<Image, LoadError> {
    Linker::run(object, kernel, settings, mem).map_err(|e| e.in_file(object.file()))
}

/// Everything known while linking.
struct Linker<'a> {
    object: &'a Object,
    kernel: &'a KernelModel,
    maps: MapTable,
    /// Map of each entry of `object.maps()`.
    map_ids: Vec<MapId>,
    /// By ELF section index.
    sections: BTreeMap<usize, sections::Placed>,
    /// By name.
    externs: BTreeMap<String, externs::Resolved>,
    kfuncs: Vec<KfuncRef>,
    traps: Vec<String>,
    /// Numbers of the reasons in `traps`.
    trap_numbers: BTreeMap<String, usize>,
    /// Code section of each ELF section.
    code_sections: BTreeMap<usize, usize>,
    /// Frozen sections, in order of place.
    frozen: Vec<sections::Placed>,
    /// What may still be looked at.
    steps: Steps,
}

impl<'a> Linker<'a> {
    fn run(
        object: &'a Object,
        kernel: &'a KernelModel,
        settings: &Settings,
        mem: &mut Memory,
    ) -> Result<Image, LoadError> {
        let maps = MapTable::new(mem, kernel.nr_cpus).map_err(|e| memory("maps", &e))?;
        let mut linker = Linker {
            object,
            kernel,
            maps,
            map_ids: Vec::new(),
            sections: BTreeMap::new(),
            externs: BTreeMap::new(),
            kfuncs: Vec::new(),
            traps: Vec::new(),
            trap_numbers: BTreeMap::new(),
            code_sections: object
                .code
                .iter()
                .enumerate()
                .map(|(code, section)| (section.index, code))
                .collect(),
            frozen: Vec::new(),
            steps: Steps::new(),
        };
        linker.create_maps(settings, mem)?;
        linker.place_sections(mem)?;
        linker.fill_enum_variables(mem)?;
        linker.fill_sections(settings.contents(), mem)?;
        settings.apply(object, |name| linker.variable_address(name), mem)?;
        linker.resolve_externs(mem)?;
        linker.protect_read_only(mem);
        let tables = linker.check_struct_ops(settings)?;
        let linked = code::link_code(&mut linker, &tables, settings, mem)?;
        linker.fill_map_slots(&linked, mem)?;
        settings.fill_maps(object, &mut linker.maps, mem)?;
        linker.finish(tables, linked)
    }

    /// Creates the declared maps and, for maps of maps, the inner ones that they name.
    fn create_maps(&mut self, settings: &Settings, mem: &mut Memory) -> Result<(), LoadError> {
        for def in self.object.maps() {
            let mut def = def.clone();
            let place = format!("section .maps, map `{}`", def.name);
            def.max_entries = settings.max_entries(self.object, &def.name)?.unwrap_or(def.max_entries);
            if def.max_entries == 0 && def.map_type.needs_entries() {
                let problem = "max_entries is 0: the scheduler's own loader sets it";
                let cure = format!("add --set map.{}.max_entries=N", def.name);
                return Err(LoadError::new(LoadErrorKind::Setting, place, problem, cure));
            }
            def.complete(self.kernel.nr_cpus);
            let made = check_types(&def).and_then(|()| self.maps.create(&def, self.object.btf(), mem));
            let id = made.map_err(|problem| {
                LoadError::unsupported(place, problem, "use a map type and size that the simulator models")
            })?;
            self.map_ids.push(id);
        }
        debug_assert_eq!(self.map_ids.len(), self.object.maps().len(), "each map of the object has a number");
        Ok(())
    }

    /// Fills the slots that declarations give: inner maps, programs of a program array.
    fn fill_map_slots(&mut self, linked: &code::Linked, mem: &mut Memory) -> Result<(), LoadError> {
        // The first map of a name counts.
        debug_assert_eq!(self.map_ids.len(), self.object.maps().len(), "each map of the object has a number");
        let named = self.object.maps().iter().map(|map| map.name.as_str()).zip(self.map_ids.clone());
        let named: BTreeMap<&str, MapId> = named.rev().collect();
        for (def, &id) in self.object.maps().iter().zip(&self.map_ids.clone()) {
            for (slot, target) in &def.slots {
                let key = slot.to_le_bytes();
                let done = match (named.get(target.as_str()), linked.by_name.get(target)) {
                    (Some(&inner), _) => self.maps.set_inner(id, &key, inner, mem),
                    (None, Some(&func)) => self.maps.set_program(id, *slot, func),
                    // A program that is not loaded leaves its slot empty.
                    (None, None) => Ok(()),
                };
                if let Err(error) = done {
                    let place = format!("section .maps, map `{}`", def.name);
                    let problem = format!("slot {slot} cannot hold `{target}` (errno {})", error.0);
                    return Err(LoadError::malformed(place, problem));
                }
            }
        }
        Ok(())
    }

    fn finish(self, tables: Vec<struct_ops::Checked>, linked: code::Linked) -> Result<Image, LoadError> {
        let mut variables = BTreeMap::new();
        for variable in self.object.variables() {
            let Some(addr) = self.variable_address(&variable.name) else {
                continue;
            };
            let place = ImageVariable { addr, size: variable.size, ty: variable.ty };
            if variable.global || !variables.contains_key(&variable.name) {
                variables.insert(variable.name.clone(), place);
            }
        }
        let programs = self.object.programs().iter().filter_map(|p| {
            let func = *linked.by_name.get(&p.name)?;
            Some(ImageProgram {
                name: p.name.clone(),
                section: p.section.clone(),
                kind: p.kind.clone(),
                func,
            })
        });
        let struct_ops = tables.into_iter().map(|t| t.finish(&linked.by_name)).collect();
        debug_assert_eq!(
            linked.code.functions().len(),
            linked.functions.len(),
            "each function is known by its source"
        );
        Ok(Image {
            programs: programs.collect(),
            code: linked.code,
            functions: linked.functions,
            kfuncs: self.kfuncs,
            struct_ops,
            variables,
            runtime: Runtime {
                maps: self.maps,
                traps: self.traps,
                timers: Timers::default(),
                objects: Objects::default(),
                types: self.object.btf.clone(),
                irq_depth: 0,
            },
            types: self.object.btf.clone(),
        })
    }

    /// A call that ends the program with this reason.
    fn trap(&mut self, reason: String) -> Insn {
        let index = *self.trap_numbers.entry(reason).or_insert_with_key(|reason| {
            self.traps.push(reason.clone());
            self.traps.len() - 1
        });
        debug_assert!(index < self.traps.len(), "a trap has a reason");
        Insn::call_helper((TRAP_BASE + index as u32) as i32)
    }
}

/// Most callers of a fault that are named. Chosen: what a person reads.
const CALLERS_TOLD: usize = 3;

/// Guest memory is full.
fn memory(what: &str, error: &dyn std::fmt::Display) -> LoadError {
    LoadError::new(LoadErrorKind::Memory, what, error.to_string(), "declare smaller maps and arrays")
}

impl Image {
    /// The struct_ops table of this type.
    pub fn struct_ops_of(&self, type_name: &str) -> Option<&StructOps> {
        self.struct_ops.iter().find(|s| s.type_name == type_name)
    }

    /// Where in the source an instruction comes from, `file:line: text`; nothing where the object does not say.
    pub fn source_line(&self, at: &Location) -> Option<String> {
        let (_, line) = self.line_of(at)?;
        let (place, text) = (line.place(&self.types), self.types.string(line.text).trim());
        Some(if text.is_empty() { place } else { format!("{place}: {text}") })
    }

    /// The source line of a call or a fault. Where it is in an inline function, the line before it of the function that the instruction
    /// is in is named too: objects say no more of where a function was inlined.
    pub fn calling_line(&self, at: &Location) -> Option<String> {
        let line = self.source_line(at)?;
        let inlined = self.inlined_after(at).map(|after| format!("{line} (inlined after {after})"));
        Some(inlined.unwrap_or(line))
    }

    /// The lines of a fault: where it happened, and the calls that led there. `backtrace` is that of the fault.
    pub fn fault_lines(&self, backtrace: &[Location]) -> Option<String> {
        let (at, callers) = backtrace.split_first()?;
        let mut text = self.calling_line(at)?;
        for caller in callers.iter().take(CALLERS_TOLD) {
            let Some((_, line)) = self.line_of(caller) else { break };
            text.push_str(&format!(" (called by {} at {})", caller.function, line.place(&self.types)));
        }
        Some(text)
    }

    /// The line of the function itself before an instruction that is of an inline function: of another file, or of a line before the
    /// function's first.
    fn inlined_after(&self, at: &Location) -> Option<String> {
        let (function, line) = self.line_of(at)?;
        let first = LineRecord::of(&function.lines, function.start)?;
        let own = |line: &LineRecord| {
            self.types.string(line.file) == self.types.string(first.file) && line.line >= first.line
        };
        if own(line) {
            return None;
        }
        let before = (0..at.insn as usize).rev();
        let mut before = before.filter_map(|insn| LineRecord::of(&function.lines, function.start + insn));
        before.find(|line| own(line)).map(|line| line.place(&self.types))
    }

    fn line_of(&self, at: &Location) -> Option<(&ImageFunction, &LineRecord)> {
        let function = self.functions.get(at.func.0 as usize)?;
        Some((function, LineRecord::of(&function.lines, function.start + at.insn as usize)?))
    }

    /// Reads a variable, or an element or member of one (`counts[3]`, `state.x`), as a number.
    ///
    /// # Errors
    /// A sentence: no such variable, or not a number.
    pub fn read_variable(&self, path: &str, mem: &Memory) -> Result<u64, String> {
        let name = root_of(path);
        let variable = self.variables.get(name).ok_or_else(|| format!("there is no variable `{name}`"))?;
        let ty = variable.ty.ok_or_else(|| format!("the type of `{name}` is not known"))?;
        let at = self.types.at_path(ty, &path[name.len()..])?;
        self.number_at(variable.addr, &at, mem)
    }

    /// Reads the number of this type and at this distance from an address.
    ///
    /// # Errors
    /// A sentence: no number, or nothing at that address.
    pub fn number_at(&self, addr: GuestAddr, at: &MemberAt, mem: &Memory) -> Result<u64, String> {
        let size = self.types.size_of(at.ty).unwrap_or(0);
        let bytes = mem.slice(addr.offset(at.offset()), size).map_err(|e| e.to_string())?;
        settings::number_of(&self.types, at, bytes)
            .ok_or_else(|| format!("a {} is no number", self.types.spell(at.ty)))
    }

    /// Reads a member (`.base.pid`, `.hist[2]`) of the object's struct `name` at an address, as a number.
    ///
    /// # Errors
    /// A sentence: no such struct or member, no number, or nothing at that address.
    pub fn read_member(&self, name: &str, addr: GuestAddr, path: &str, mem: &Memory) -> Result<u64, String> {
        let ty = self.types.find_struct(name).ok_or_else(|| format!("there is no struct `{name}`"))?;
        let at = self.types.at_path(ty, path)?;
        self.number_at(addr, &at, mem)
    }
}
