//! Functions: which are needed, what their references become, and handing them to the machine.

use super::externs::{KFUNC_TAG, Resolved};
use super::struct_ops::Checked;
use super::{ImageFunction, Linker, Settings, TRAP_BASE, flow, is_loaded, walked};
use crate::btf::essential_name;
use crate::btf::ext::{CoreRecord, LineRecord, Record};
use crate::code::{Code, CodeBuilder, CodeError, FuncId, Marks};
use crate::core_relo::{self, Outcome};
use crate::error::{LoadError, LoadErrorKind};
use crate::helpers;
use crate::insn::{Insn, op};
use crate::limits::PROGRAM_INSNS;
use crate::memory::Memory;
use crate::object::elf::{Symbol, SymbolKind};
use crate::object::{CodeSection, Object, ProgramKind};
use std::collections::{BTreeMap, BTreeSet};

/// A function by its place: code section, function in it.
type Key = (usize, usize);

/// All linked functions.
pub(super) struct Linked {
    pub(super) code: Code,
    pub(super) functions: Vec<ImageFunction>,
    /// Loaded programs by name.
    pub(super) by_name: BTreeMap<String, FuncId>,
}

/// A reference that is not settled when a function's constants are put in: what it is decides by reachability.
enum Pending {
    /// A call of, or pointer to, a function of the object.
    Function(Key),
    /// A call that must not be executed, and why.
    Forbidden(String),
    /// A kernel function that the kernel does not have.
    MissingKfunc(String),
    /// A kernel variable that the kernel does not have.
    MissingKsym(String),
    /// A helper that is not modelled.
    Helper(u32),
}

/// Functions still to be linked and those that are.
struct Work {
    ids: BTreeMap<Key, FuncId>,
    queue: Vec<(Key, String)>,
    linked: Vec<(ImageFunction, BTreeSet<usize>)>,
}

impl Work {
    /// The number of a function, given out when it is first wanted; `user` is the program that wants it.
    fn want(&mut self, key: Key, user: &str) -> FuncId {
        let next = FuncId(self.ids.len() as u32);
        debug_assert_eq!(self.ids.len(), self.queue.len(), "a function with a number is queued");
        *self.ids.entry(key).or_insert_with(|| {
            self.queue.push((key, user.to_string()));
            next
        })
    }
}

/// Links every program that is loaded and everything that these can reach.
pub(super) fn link_code(
    linker: &mut Linker,
    tables: &[Checked],
    settings: &Settings,
    mem: &Memory,
) -> Result<Linked, LoadError> {
    let mut work = Work { ids: BTreeMap::new(), queue: Vec::new(), linked: Vec::new() };
    let mut by_name = BTreeMap::new();
    let used: BTreeSet<&str> =
        tables.iter().flat_map(|t| t.functions.iter().map(|(_, f)| f.as_str())).collect();
    for program in linker.object.programs() {
        // A struct_ops program is loaded if a table names it, any other unless its section or its condition says otherwise.
        let wanted = match program.kind {
            ProgramKind::StructOps(_) => used.contains(program.name.as_str()),
            _ if settings.leaves_out(&program.name) => false,
            _ => is_loaded(linker.object, program, |variable| {
                let addr = linker.variable_address(&variable.name)?;
                Some(mem.slice(addr, variable.size).ok()?.to_vec())
            })?,
        };
        if !wanted {
            continue;
        }
        let key = find_program(linker, &program.name).ok_or_else(|| {
            LoadError::malformed(format!("program `{}`", program.name), "its code is missing")
        })?;
        by_name.insert(program.name.clone(), work.want(key, &program.name));
    }
    let mut next = 0;
    while next < work.queue.len() {
        let (key, user) = work.queue[next].clone();
        next += 1;
        link_function(linker, &mut work, key, &user, mem)?;
    }
    debug_assert_eq!(work.linked.len(), work.ids.len(), "each wanted function is linked");
    check_lengths(linker, &work.linked, &by_name)?;
    let core: Vec<_> = work.linked.iter().map(|(f, core)| (f.insns.as_slice(), core)).collect();
    let probes = walked::probe_marks(&core, &linker.kfuncs, &linker.steps);
    linker.steps.check(|| "code".to_string())?;
    let mut builder = CodeBuilder::new().in_line(linker.maps.arrays());
    let mut functions = Vec::new();
    for ((mut function, _), probe_mem) in work.linked.into_iter().zip(probes) {
        function.probe_mem = probe_mem.clone();
        let arguments = arguments(linker, &function.insns);
        let added = builder.add_function(&function.name, &function.insns, &Marks { probe_mem, arguments });
        added.map_err(|e| refused(linker.object, &function, &e))?;
        functions.push(function);
    }
    let code = builder.build().map_err(|e| LoadError::malformed("code", e.to_string()))?;
    Ok(Linked { code, functions, by_name })
}

/// How many arguments calls of helpers and kernel functions take, by slot, where that is known.
fn arguments(linker: &Linker, insns: &[Insn]) -> BTreeMap<u32, u8> {
    let known = |insn: &Insn| match insn.src {
        // A trap looks at nothing.
        op::CALL_HELPER if insn.imm as u32 >= TRAP_BASE => Some(&0),
        op::CALL_HELPER => linker.kernel.helper_arguments.get(&(insn.imm as u32)),
        op::CALL_KFUNC => {
            let wanted = linker.kfuncs.get(insn.imm as usize)?;
            linker.kernel.kfunc_arguments.get(&wanted.name)
        }
        _ => None,
    };
    let calls = insns.iter().enumerate().filter(|(_, insn)| insn.code == op::CALL_K);
    calls.filter_map(|(slot, insn)| Some((slot as u32, *known(insn)?))).collect()
}

/// Refuses a program that, with all that it can reach, has more instructions than a program may have.
fn check_lengths(
    linker: &Linker,
    linked: &[(ImageFunction, BTreeSet<usize>)],
    programs: &BTreeMap<String, FuncId>,
) -> Result<(), LoadError> {
    let slots: usize = linked.iter().map(|(function, _)| function.insns.len()).sum();
    if slots <= PROGRAM_INSNS.most_len() {
        return Ok(());
    }
    let callees: Vec<BTreeSet<usize>> =
        linked.iter().map(|(function, _)| function.insns.iter().filter_map(callee).collect()).collect();
    for (name, func) in programs {
        let place = || format!("program `{name}`");
        let (mut reached, mut work, mut slots) = (vec![false; linked.len()], vec![func.0 as usize], 0);
        while let Some(index) = work.pop() {
            let Some((function, _)) =
                linked.get(index).filter(|_| !std::mem::replace(&mut reached[index], true))
            else {
                continue;
            };
            slots += function.insns.len();
            linker.steps.take(callees[index].len() as u64 + 1);
            linker.steps.check(place)?;
            work.extend(&callees[index]);
        }
        PROGRAM_INSNS.check(slots, place)?;
    }
    Ok(())
}

/// The function that a linked instruction calls or refers to, by number.
fn callee(insn: &Insn) -> Option<usize> {
    let call = insn.code == op::CALL_K && insn.src == op::CALL_LOCAL;
    let reference = insn.is_ld_imm64() && insn.src == op::PSEUDO_FUNC;
    if call || reference { usize::try_from(insn.imm).ok() } else { None }
}

fn refused(object: &Object, function: &ImageFunction, error: &CodeError) -> LoadError {
    let line = LineRecord::of(&function.lines, function.start + error.insn as usize);
    let line = line.map_or(String::new(), |line| format!(" ({})", line.place(object.btf())));
    let (section, name, insn) = (&function.section, &function.name, error.insn);
    LoadError::unsupported(
        format!("section {section}, function `{name}`, instruction {insn}{line}"),
        error.kind.to_string(),
        "compile with clang -target bpf -mcpu=v3 (or v4)",
    )
}

fn find_program(linker: &Linker, name: &str) -> Option<Key> {
    linker.object.code.iter().enumerate().filter(|(_, s)| s.name != ".text").find_map(|(index, section)| {
        section.functions.iter().position(|f| f.name == name).map(|f| (index, f))
    })
}

/// Links one function and wants those that it reaches.
fn link_function(
    linker: &mut Linker,
    work: &mut Work,
    key: Key,
    user: &str,
    mem: &Memory,
) -> Result<(), LoadError> {
    let section = &linker.object.code[key.0];
    let def = &section.functions[key.1];
    debug_assert!(def.start + def.len <= section.insns.len(), "a function lies in its section");
    let mut one = OneFunction {
        section,
        start: def.start,
        insns: section.insns[def.start..def.start + def.len].to_vec(),
        core: BTreeSet::new(),
        pending: BTreeMap::new(),
        kfunc_calls: BTreeSet::new(),
        user,
    };
    one.apply_core(linker)?;
    one.apply_relocations(linker)?;
    one.note_calls(linker)?;
    let loads = one.function_loads();
    let constant = |addr, size| linker.constant(addr, size, mem);
    let reached = flow::reached(&one.insns, &loads, constant, &linker.steps);
    linker.steps.check(|| format!("program `{user}`, function `{}`", def.name))?;
    one.settle(linker, work, &reached.slots)?;
    let lines = linker.object.ext.lines.get(&section.name).map_or(&[][..], |lines| lines);
    let function = ImageFunction {
        name: def.name.clone(),
        section: section.name.clone(),
        start: def.start,
        insns: one.insns,
        reachable: reached.slots,
        handed: reached.handed,
        probe_mem: BTreeSet::new(),
        lines: LineRecord::within(lines, def.start..def.start + def.len).to_vec(),
    };
    debug_assert_eq!(function.reachable.len(), function.insns.len(), "each slot is reachable or not");
    work.linked.push((function, one.core));
    Ok(())
}

/// One function while its references are put in. Slots count from the function's start.
struct OneFunction<'a> {
    section: &'a CodeSection,
    start: usize,
    insns: Vec<Insn>,
    /// Slots of loads and stores with a relocated field offset.
    core: BTreeSet<usize>,
    pending: BTreeMap<usize, Pending>,
    /// Slots of calls of kernel functions that a relocation named.
    kfunc_calls: BTreeSet<usize>,
    user: &'a str,
}

impl OneFunction<'_> {
    /// Where an instruction is, for messages.
    fn place(&self, linker: &Linker, slot: usize) -> String {
        let insn = self.start + slot;
        let line = linker.object.source_line(&self.section.name, insn);
        let line = line.map_or(String::new(), |l| format!(" ({l})"));
        format!("program `{}`, section {}, instruction {insn}{line}", self.user, self.section.name)
    }

    fn malformed(&self, linker: &Linker, slot: usize, problem: impl Into<String>) -> LoadError {
        LoadError::malformed(self.place(linker, slot), problem)
    }

    /// Answers the CO-RE records of this function's instructions.
    fn apply_core(&mut self, linker: &mut Linker) -> Result<(), LoadError> {
        let object = linker.object;
        let records = object.ext.core.get(&self.section.name).map_or(&[][..], |records| records);
        for record in CoreRecord::within(records, self.start..self.start + self.insns.len()) {
            let slot = record.insn_off as usize / 8 - self.start;
            debug_assert!(slot < self.insns.len(), "the record is one of this function");
            let about = || core_relo::describe(record, &object.btf);
            let wrong = |e: String| format!("CO-RE record for {}: {e}", about());
            let answer = core_relo::resolve(record, &object.btf, &linker.kernel.btf, &linker.steps);
            linker.steps.check(|| self.place(linker, slot))?;
            let answer = answer.map_err(|e| self.malformed(linker, slot, wrong(e)))?;
            let before = self.insns.get(slot).copied().unwrap_or_default();
            let outcome = core_relo::apply(&mut self.insns, slot, &answer)
                .map_err(|e| self.malformed(linker, slot, wrong(e)))?;
            if outcome == Outcome::Poisoned {
                let reason = format!("{} does not exist in the simulated kernel", about());
                // Both slots of a 64-bit constant became calls.
                for slot in slot..slot + if before.is_ld_imm64() { 2 } else { 1 } {
                    self.pending.insert(slot, Pending::Forbidden(reason.clone()));
                }
            } else if answer.kind.is_field() && matches!(before.code & 7, op::LDX | op::ST | op::STX) {
                self.core.insert(slot);
            }
        }
        Ok(())
    }

    /// Puts in what the ELF relocations name.
    fn apply_relocations(&mut self, linker: &Linker) -> Result<(), LoadError> {
        let object = linker.object;
        let bytes = self.start as u64 * 8..(self.start + self.insns.len()) as u64 * 8;
        for reloc in object.elf.sections[self.section.index].relocs_within(bytes) {
            let slot = (reloc.offset / 8) as usize - self.start;
            debug_assert!(slot < self.insns.len(), "the relocation is one of this function");
            if reloc.offset % 8 != 0 || self.pending.contains_key(&slot) {
                continue;
            }
            let symbol = &object.elf.symbols[reloc.symbol];
            let insn = self.insns[slot];
            if insn.is_ld_imm64() && slot + 1 < self.insns.len() {
                self.relocate_constant(linker, slot, symbol)?;
            } else if insn.code == op::CALL_K && insn.src == op::CALL_LOCAL {
                self.relocate_call(linker, slot, symbol)?;
            } else {
                return Err(self.malformed(linker, slot, format!("`{}` relocates {insn:?}", symbol.name)));
            }
        }
        Ok(())
    }

    /// A 64-bit constant becomes the address of a map, a variable, an extern or a function.
    fn relocate_constant(&mut self, linker: &Linker, slot: usize, symbol: &Symbol) -> Result<(), LoadError> {
        debug_assert!(slot + 1 < self.insns.len(), "a constant has two slots");
        let addend = i64::from(self.insns[slot].imm) as u64;
        let value = if symbol.undefined {
            match linker.externs.get(&symbol.name) {
                Some(Resolved::Address(addr)) => *addr,
                Some(Resolved::Kfunc(index)) => KFUNC_TAG | u64::from(*index),
                Some(Resolved::Absent) => 0,
                Some(Resolved::Missing) => {
                    self.pending.insert(slot, Pending::MissingKsym(symbol.name.clone()));
                    0
                }
                None => {
                    return Err(self.malformed(linker, slot, format!("`{}` is not declared", symbol.name)));
                }
            }
        } else {
            let section = symbol.section.unwrap_or(0);
            if let Some(&code) = linker.code_sections.get(&section) {
                let target = symbol.value.wrapping_add(addend) / 8;
                let key = self.function_at(linker, slot, code, target as i64)?;
                self.pending.insert(slot, Pending::Function(key));
                return Ok(());
            }
            self.data_address(linker, slot, symbol, section, addend)?
        };
        let pair = Insn::ld_imm64(self.insns[slot].dst, 0, value);
        self.insns[slot..slot + 2].copy_from_slice(&pair);
        Ok(())
    }

    fn data_address(
        &self,
        linker: &Linker,
        slot: usize,
        symbol: &Symbol,
        section: usize,
        addend: u64,
    ) -> Result<u64, LoadError> {
        if let Some(placed) = linker.sections.get(&section) {
            return Ok(placed.base.0.wrapping_add(symbol.value).wrapping_add(addend));
        }
        let name = linker.object.elf.sections.get(section).map_or("", |s| s.name.as_str());
        if name == ".maps" {
            let offset =
                symbol.value.wrapping_add(if symbol.kind == SymbolKind::Section { addend } else { 0 });
            let maps = linker.object.maps();
            if let Ok(index) = maps.binary_search_by_key(&offset, |map| map.offset) {
                return Ok(linker.maps.handle(linker.map_ids[index]).0);
            }
        }
        Err(LoadError::unsupported(
            self.place(linker, slot),
            format!("refers to `{}` in section `{name}`, which holds no variables", symbol.name),
            "keep variables in .data, .bss or .rodata sections",
        ))
    }

    /// A call becomes one of another function of the object, or of a kernel function.
    fn relocate_call(&mut self, linker: &Linker, slot: usize, symbol: &Symbol) -> Result<(), LoadError> {
        if !symbol.undefined {
            let section = symbol.section.unwrap_or(0);
            let Some(&code) = linker.code_sections.get(&section) else {
                return Err(self.malformed(
                    linker,
                    slot,
                    format!("calls `{}`, which is no code", symbol.name),
                ));
            };
            let target = (symbol.value / 8) as i64 + i64::from(self.insns[slot].imm) + 1;
            let key = self.function_at(linker, slot, code, target)?;
            self.pending.insert(slot, Pending::Function(key));
            return Ok(());
        }
        let name = &symbol.name;
        match linker.externs.get(name) {
            Some(Resolved::Kfunc(index)) => {
                self.insns[slot] = Insn::call_kfunc(*index as i32);
                self.kfunc_calls.insert(slot);
            }
            // libbpf loads a program that calls a weak function which is not there, and the verifier refuses the call if it is reached.
            Some(Resolved::Absent | Resolved::Missing) => {
                self.pending.insert(slot, Pending::MissingKfunc(name.clone()));
            }
            _ => return Err(self.malformed(linker, slot, format!("calls `{name}`, which is no function"))),
        }
        Ok(())
    }

    /// The function that begins at a slot of a code section.
    fn function_at(&self, linker: &Linker, slot: usize, code: usize, target: i64) -> Result<Key, LoadError> {
        let section = &linker.object.code[code];
        let found = section.functions.binary_search_by_key(&target, |f| f.start as i64);
        found.map(|f| (code, f)).map_err(|_| {
            let problem = format!("no function begins at instruction {target} of section {}", section.name);
            self.malformed(linker, slot, problem)
        })
    }

    /// Notes the calls that have no relocation: local ones within the section, and helpers.
    fn note_calls(&mut self, linker: &Linker) -> Result<(), LoadError> {
        let code = linker.code_sections.get(&self.section.index).copied().unwrap_or(0);
        let mut slot = 0;
        while slot < self.insns.len() {
            let insn = self.insns[slot];
            let width = if insn.is_ld_imm64() { 2 } else { 1 };
            if insn.code == op::CALL_K && !self.pending.contains_key(&slot) {
                if insn.src == op::CALL_KFUNC && !self.kfunc_calls.contains(&slot) {
                    return Err(self.malformed(linker, slot, "a kernel function is called by number"));
                }
                if insn.src == op::CALL_LOCAL {
                    let target = (self.start + slot) as i64 + i64::from(insn.imm) + 1;
                    let key = self.function_at(linker, slot, code, target)?;
                    self.pending.insert(slot, Pending::Function(key));
                } else if insn.src == op::CALL_HELPER {
                    let id = insn.imm as u32;
                    if !helpers::is_implemented(id) && !linker.kernel.helpers.contains(&id) {
                        self.pending.insert(slot, Pending::Helper(id));
                    }
                }
            } else if insn.is_ld_imm64() && insn.src == op::PSEUDO_FUNC && !self.pending.contains_key(&slot) {
                return Err(self.malformed(linker, slot, "a function's address without a relocation"));
            }
            slot += width;
        }
        Ok(())
    }

    /// The slots that load the address of a function, in order.
    fn function_loads(&self) -> Vec<usize> {
        let loads = |(slot, pending): (&usize, &Pending)| {
            let load = matches!(pending, Pending::Function(_)) && self.insns[*slot].is_ld_imm64();
            load.then_some(*slot)
        };
        self.pending.iter().filter_map(loads).collect()
    }

    /// Settles what depends on whether an instruction can be reached.
    fn settle(&mut self, linker: &mut Linker, work: &mut Work, reachable: &[bool]) -> Result<(), LoadError> {
        for (slot, pending) in std::mem::take(&mut self.pending) {
            let live = reachable[slot];
            let insn = self.insns[slot];
            let trap = match pending {
                Pending::Function(key) if live => {
                    let id = work.want(key, self.user).0 as i32;
                    self.insns[slot].imm = id;
                    if insn.is_ld_imm64() {
                        let pair = Insn::ld_imm64(insn.dst, op::PSEUDO_FUNC, id as u32 as u64);
                        self.insns[slot..slot + 2].copy_from_slice(&pair);
                    }
                    continue;
                }
                Pending::Forbidden(reason) => reason,
                _ if !live => "code that constants rule out".to_string(),
                Pending::MissingKfunc(name) => return Err(self.missing_kfunc(linker, slot, &name)),
                Pending::MissingKsym(name) => {
                    let problem =
                        format!("needs kernel variable `{name}`, which the simulated kernel does not have");
                    return Err(self.unresolved(linker, slot, problem));
                }
                Pending::Helper(id) => {
                    let problem = format!("needs helper {id} ({}), which is not modelled", helpers::name(id));
                    return Err(self.unresolved(linker, slot, problem));
                }
                Pending::Function(_) => unreachable!("settled above, live or not"),
            };
            let call = linker.trap(trap);
            self.insns[slot] = call;
            if insn.is_ld_imm64() {
                self.insns[slot + 1] = call;
            }
            self.core.remove(&slot);
        }
        Ok(())
    }

    /// A call is reached, and the kernel does not have its function.
    fn missing_kfunc(&self, linker: &Linker, slot: usize, name: &str) -> LoadError {
        let essential = essential_name(name);
        if let Some((problem, cure)) = linker.kernel.other_versions.get(essential) {
            return LoadError::new(LoadErrorKind::Unresolved, self.place(linker, slot), problem, cure);
        }
        let lack = match linker.kernel.btf.find_func(essential) {
            Some(_) => "the simulator does not model (or with another prototype)",
            None => "the simulated kernel does not have",
        };
        self.unresolved(linker, slot, format!("needs kernel function `{name}`, which {lack}"))
    }

    fn unresolved(&self, linker: &Linker, slot: usize, problem: String) -> LoadError {
        let cure = "guard it with bpf_ksym_exists() or bpf_core_..._exists() on a __weak extern, or run it on a real kernel";
        LoadError::new(LoadErrorKind::Unresolved, self.place(linker, slot), problem, cure)
    }
}
