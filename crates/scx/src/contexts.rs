//! Which kernel functions a program may call, told before it runs: the verifier's rules by callback and by sleepability.
//!
//! The verifier walks a program with all that it can reach: other functions of the object, and the functions that it hands
//! to helpers, such as a timer's. All of them count as the program of that member of the operations. Code that constants
//! rule out is not walked.
//!
//! Before Linux 7.1 the kernel found a call in the wrong callback when it was made (commit d1d3c1c6ae36 brought
//! `scx_kfunc_context_filter()`); so it is here, in `join`. That a program must be sleepable was always told at load.

use crate::callbacks::operation;
use crate::kfunc::{self, Program};
use schedlab_base::KernelVersion;
use schedlab_bpf::error::{LoadError, LoadErrorKind};
use schedlab_bpf::fault::Location;
use schedlab_bpf::insn::{Insn, op};
use schedlab_bpf::link::{Image, ImageFunction, ImageProgram, StructOps};
use schedlab_bpf::object::ProgramKind;
use schedlab_bpf::{FuncId, helpers};
use std::collections::BTreeSet;

/// The first version whose verifier knows which callback may call what.
const FILTER_SINCE: (u32, u32) = (7, 1);

/// Helpers with `might_sleep` (`kernel/bpf/helpers.c`, 7.3): `bpf_copy_from_user` and `bpf_copy_from_user_task`.
const SLEEPING_HELPERS: [u32; 2] = [148, 191];

/// `bpf_timer_set_callback`: its function runs in an interrupt.
const TIMER_SET_CALLBACK: i32 = 170;

/// True for a table of operations in the cid form.
pub(crate) fn is_cid_form(table: &StructOps) -> bool {
    table.type_name == "sched_ext_ops_cid"
}

/// Refuses an object with a program that the verifier of Linux `version` refuses for what it calls. True for a scheduler
/// of the cid form.
pub(crate) fn check(image: &Image, table: &StructOps, version: KernelVersion) -> Result<bool, LoadError> {
    let cid_form = is_cid_form(table);
    let has_filter = version >= KernelVersion::nearest(FILTER_SINCE.0, FILTER_SINCE.1);
    for (member, func) in &table.functions {
        let Some(program) = image.programs.iter().find(|program| program.func == *func) else { continue };
        if is_sleepable(program) && !may_sleep(member) {
            return Err(cannot_sleep(member, program));
        }
        Walk { image, has_filter, cid_form, program, caller: Program::Member(member) }.run()?;
    }
    for program in &image.programs {
        let caller = match program.kind {
            ProgramKind::Syscall => Program::Syscall,
            ProgramKind::TpBtf(_) | ProgramKind::RawTp(_) | ProgramKind::Fentry(_) => Program::Tracing,
            _ => continue,
        };
        Walk { image, has_filter, cid_form, program, caller }.run()?;
    }
    Ok(cid_form)
}

/// True if the program of a callback may be sleepable.
pub(crate) fn may_sleep(member: &str) -> bool {
    operation(member).is_some_and(|operation| operation.may_sleep)
}

/// True for a program that may sleep. Programs that user space runs always may.
fn is_sleepable(program: &ImageProgram) -> bool {
    let head = program.section.split('/').next().unwrap_or_default();
    head.ends_with(".s") || program.kind == ProgramKind::Syscall
}

fn cannot_sleep(member: &str, program: &ImageProgram) -> LoadError {
    LoadError::new(
        LoadErrorKind::Malformed,
        format!("program `{}`, section {}", program.name, program.section),
        format!("ops.{member}() takes no sleepable program"),
        format!("SEC(\"struct_ops/{}\"), without .s (BPF_STRUCT_OPS does)", program.name),
    )
}

/// A walk through one program.
struct Walk<'a> {
    image: &'a Image,
    /// The verifier knows which callback may call what.
    has_filter: bool,
    cid_form: bool,
    program: &'a ImageProgram,
    caller: Program<'a>,
}

impl Walk<'_> {
    /// Looks at all that the program can reach.
    fn run(&self) -> Result<(), LoadError> {
        let mut seen = BTreeSet::new();
        let mut work = vec![(self.program.func.0 as usize, is_sleepable(self.program))];
        while let Some((index, sleepable)) = work.pop() {
            let Some(function) = self.image.functions.get(index).filter(|_| seen.insert((index, sleepable)))
            else {
                continue;
            };
            work.extend(handed(function, sleepable));
            let slots = function.insns.iter().enumerate();
            for (slot, insn) in slots.filter(|(slot, _)| function.reachable[*slot]) {
                self.look(index, slot, *insn, sleepable)?;
                work.extend(callee(*insn).map(|callee| (callee, sleepable)));
            }
        }
        Ok(())
    }

    /// Looks at one instruction.
    fn look(&self, index: usize, slot: usize, insn: Insn, sleepable: bool) -> Result<(), LoadError> {
        debug_assert!(
            slot < self.image.functions[index].insns.len(),
            "the instruction is one of the function"
        );
        if insn.code != op::CALL_K {
            return Ok(());
        }
        match insn.src {
            op::CALL_KFUNC => {
                let Some(wanted) = self.image.kfuncs.get(insn.imm as usize) else { return Ok(()) };
                let name = wanted.name.as_str();
                if self.has_filter && !kfunc::may_call(self.caller, self.cid_form, name) {
                    return Err(self.wrong_caller(index, slot, name));
                }
                if !sleepable && kfunc::sleeps(name) {
                    return Err(self.must_sleep(index, slot, name));
                }
            }
            op::CALL_HELPER if !sleepable && SLEEPING_HELPERS.contains(&(insn.imm as u32)) => {
                return Err(self.must_sleep(index, slot, &helpers::name(insn.imm as u32)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Where a call is, for messages.
    fn place(&self, index: usize, slot: usize) -> String {
        let function = &self.image.functions[index];
        let at = Location { func: FuncId(index as u32), function: function.name.clone(), insn: slot as u32 };
        let line = self.image.calling_line(&at).map_or(String::new(), |line| format!(" ({line})"));
        let within = match function.name == self.program.name {
            true => String::new(),
            false => format!(", function `{}`", function.name),
        };
        format!(
            "program `{}`{within}, section {}, instruction {}{line}",
            self.program.name,
            function.section,
            function.start + slot
        )
    }

    /// How messages name the caller.
    fn caller(&self) -> String {
        match self.caller {
            Program::Member(member) => format!("ops.{member}()"),
            Program::Syscall => "a program that user space runs".into(),
            Program::Tracing => "a program at a trace point".into(),
        }
    }

    fn wrong_caller(&self, index: usize, slot: usize, name: &str) -> LoadError {
        let callers: Vec<String> =
            kfunc::callers_of(name, self.cid_form).iter().map(|member| format!("ops.{member}()")).collect();
        let (problem, cure) = if callers.is_empty() {
            let problem = format!("calling kernel function {name} is not allowed from cid-form schedulers");
            (problem, "call the function of cids in its place (scx_bpf_kick_cid for scx_bpf_kick_cpu)".into())
        } else {
            let problem = format!("calling kernel function {name} is not allowed from {}", self.caller());
            (problem, format!("call it in {}", callers.join(", ")))
        };
        LoadError::new(LoadErrorKind::Unresolved, self.place(index, slot), problem, cure)
    }

    fn must_sleep(&self, index: usize, slot: usize, name: &str) -> LoadError {
        let problem = format!("{name} may sleep, and {} calls it from code that may not", self.caller());
        let cure = match self.caller {
            Program::Member(member) if may_sleep(member) && !is_sleepable(self.program) => {
                format!("SEC(\"struct_ops.s/{}\") (BPF_STRUCT_OPS_SLEEPABLE does)", self.program.name)
            }
            _ => "call it in a sleepable program, such as ops.init()".to_string(),
        };
        LoadError::new(LoadErrorKind::Unresolved, self.place(index, slot), problem, cure)
    }
}

/// The function that a local call enters.
fn callee(insn: Insn) -> Option<usize> {
    let local = insn.code == op::CALL_K && insn.src == op::CALL_LOCAL;
    usize::try_from(insn.imm).ok().filter(|_| local)
}

/// The functions that a function hands to calls, and whether they may sleep there: a timer's may not.
fn handed(function: &ImageFunction, sleepable: bool) -> impl Iterator<Item = (usize, bool)> + '_ {
    function.handed.iter().filter_map(move |(call, load)| {
        let taker = function.insns.get(*call as usize)?;
        let timer = taker.src == op::CALL_HELPER && taker.imm == TIMER_SET_CALLBACK;
        let load = function.insns.get(*load as usize).filter(|load| load.src == op::PSEUDO_FUNC)?;
        Some((usize::try_from(load.imm).ok()?, sleepable && !timer))
    })
}
