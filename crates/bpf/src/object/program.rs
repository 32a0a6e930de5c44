//! Code sections, the functions in them, and which of these are entry points of what kind.

use super::elf::{Elf, SymbolKind};
use crate::error::LoadError;
use crate::insn::Insn;
use crate::limits::{OBJECT_INSNS, PROGRAM_INSNS, PROGRAMS};

/// An executable section, decoded.
#[derive(Debug, Clone)]
pub(crate) struct CodeSection {
    pub(crate) name: String,
    /// Index in the ELF section table.
    pub(crate) index: usize,
    pub(crate) insns: Vec<Insn>,
    /// In order of place; they do not overlap.
    pub(crate) functions: Vec<FunctionDef>,
}

/// A function of a code section.
#[derive(Debug, Clone)]
pub(crate) struct FunctionDef {
    pub(crate) name: String,
    /// First slot in the section.
    pub(crate) start: usize,
    /// Slots.
    pub(crate) len: usize,
    pub(crate) local: bool,
}

/// An entry point of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Name of the function.
    pub name: String,
    /// Name of the section: `struct_ops/enqueue`, `tp_btf/sched_waking`, `syscall`.
    pub section: String,
    /// What it attaches to.
    pub kind: ProgramKind,
    /// Loaded without being asked for; false for sections that begin with `?`.
    pub autoload: bool,
}

/// What a program attaches to; the string is the target named by the section, possibly empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramKind {
    /// A member of a struct_ops table.
    StructOps(String),
    /// A trace point with typed arguments (`tp_btf`).
    TpBtf(String),
    /// A trace point with raw arguments (`raw_tp`).
    RawTp(String),
    /// A trace point with a formatted record (`tp`): `category/name`.
    Tp(String),
    /// Entry of a kernel function.
    Fentry(String),
    /// Return of a kernel function.
    Fexit(String),
    /// Entry or return of any kernel instruction (`kprobe`, `kretprobe`).
    Kprobe(String),
    /// Run on request by user space.
    Syscall,
    /// An iterator over kernel objects.
    Iter(String),
    /// A timer or counter event.
    PerfEvent,
    /// Any other section; its name is given whole.
    Other(String),
}

impl ProgramKind {
    /// The kind by libbpf's section names; `.s` marks a sleepable program.
    fn of_section(section: &str) -> ProgramKind {
        let (head, target) = section.split_once('/').unwrap_or((section, ""));
        let target = target.to_string();
        match head {
            "struct_ops" | "struct_ops.s" => ProgramKind::StructOps(target),
            "tp_btf" => ProgramKind::TpBtf(target),
            "raw_tp" | "raw_tracepoint" | "raw_tp.w" | "raw_tracepoint.w" => ProgramKind::RawTp(target),
            "tp" | "tracepoint" => ProgramKind::Tp(target),
            "fentry" | "fentry.s" => ProgramKind::Fentry(target),
            "fexit" | "fexit.s" => ProgramKind::Fexit(target),
            "kprobe" | "kretprobe" => ProgramKind::Kprobe(target),
            "syscall" => ProgramKind::Syscall,
            "iter" | "iter.s" => ProgramKind::Iter(target),
            "perf_event" => ProgramKind::PerfEvent,
            _ => ProgramKind::Other(section.to_string()),
        }
    }
}

/// Decodes all executable sections that have content.
pub(super) fn code_sections(elf: &Elf) -> Result<Vec<CodeSection>, LoadError> {
    let mut out = Vec::new();
    let mut slots = 0;
    for (index, section) in elf.sections.iter().enumerate() {
        if !section.executable || section.data.is_empty() {
            continue;
        }
        let place = format!("section {}", section.name);
        let functions = functions(elf, index, section.data.len() / 8, &place)?;
        slots += section.data.len() / 8;
        OBJECT_INSNS.check(slots, || place.clone())?;
        let Some(insns) = Insn::all_from_bytes(&section.data) else {
            return Err(LoadError::malformed(place, "the length is no multiple of 8"));
        };
        out.push(CodeSection { name: section.name.clone(), index, insns, functions });
    }
    Ok(out)
}

/// The functions of one section by its symbols, in order; of two symbols at one place the first wins.
fn functions(elf: &Elf, index: usize, slots: usize, place: &str) -> Result<Vec<FunctionDef>, LoadError> {
    let mut out: Vec<FunctionDef> = Vec::new();
    for symbol in elf.defined(index).filter(|symbol| symbol.kind == SymbolKind::Function) {
        let place = format!("{place}, function `{}`", symbol.name);
        if symbol.value % 8 != 0 || symbol.size % 8 != 0 || symbol.size == 0 {
            return Err(LoadError::malformed(place, "does not start and end at instruction boundaries"));
        }
        let end = symbol.value.checked_add(symbol.size).filter(|&e| e <= slots as u64 * 8);
        if end.is_none() {
            return Err(LoadError::malformed(place, "reaches beyond its section"));
        }
        PROGRAM_INSNS.check((symbol.size / 8) as usize, || place.clone())?;
        out.push(FunctionDef {
            name: symbol.name.clone(),
            start: (symbol.value / 8) as usize,
            len: (symbol.size / 8) as usize,
            local: symbol.local,
        });
    }
    out.sort_by_key(|f| f.start);
    out.dedup_by_key(|f| f.start);
    for pair in out.windows(2) {
        if pair[0].start + pair[0].len > pair[1].start {
            let problem = format!("functions `{}` and `{}` overlap", pair[0].name, pair[1].name);
            return Err(LoadError::malformed(place, problem));
        }
    }
    Ok(out)
}

/// Every global function outside `.text` is an entry point.
pub(super) fn programs(elf: &Elf, code: &[CodeSection]) -> Result<Vec<Program>, LoadError> {
    let mut out = Vec::new();
    for section in code.iter().filter(|s| s.name != ".text") {
        for function in &section.functions {
            let place = format!("section {}, function `{}`", section.name, function.name);
            if function.local {
                return Err(LoadError::unsupported(
                    place,
                    "a static function cannot be an entry point",
                    "drop `static` or SEC(...)",
                ));
            }
            let (autoload, name) = match section.name.strip_prefix('?') {
                Some(rest) => (false, rest),
                None => (true, section.name.as_str()),
            };
            PROGRAMS.check(out.len() + 1, || place)?;
            out.push(Program {
                name: function.name.clone(),
                section: name.to_string(),
                kind: ProgramKind::of_section(name),
                autoload,
            });
        }
    }
    debug_assert!(elf.sections.len() >= code.len());
    Ok(out)
}
