//! Which loads follow a pointer that was itself read from kernel memory.
//!
//! The kernel trusts the pointers that a program is given (arguments of callbacks, results of kernel functions after
//! their NULL check), and lets a load through one that the program found by walking (`p->cpus_ptr->...`) fail softly
//! with 0 (`BPF_PROBE_MEM`). The same distinction is drawn here by a forward analysis over all functions: a load with
//! a relocated field offset reads kernel memory, so the pointer that it yields is walked; moves, additions, spills,
//! arguments and results carry that on. A NULL argument that is dereferenced directly stays a fault.

use super::KfuncRef;
use crate::insn::{Insn, op};
use crate::limits::Steps;
use std::collections::BTreeSet;

/// Registers (bit n: r n) and 8-byte stack slots (bit n: r10 - 8 (n+1)) that hold a walked pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Walked {
    registers: u16,
    stack: u64,
}

/// What is known of a function from its callers and to them.
#[derive(Debug, Clone, Copy, Default)]
struct Summary {
    /// Arguments that some caller passes a walked pointer in; `None` until a caller is seen.
    entry: u16,
    returns: bool,
}

/// Kernel functions whose result is a pointer that may not be trusted.
const UNTRUSTED_KFUNCS: [&str; 1] = ["bpf_rdonly_cast"];

/// For each function (linked instructions, slots with a relocated field), the slots of soft loads. When `steps` ran out,
/// the answer means nothing.
pub(super) fn probe_marks(
    functions: &[(&[Insn], &BTreeSet<usize>)],
    kfuncs: &[KfuncRef],
    steps: &Steps,
) -> Vec<BTreeSet<u32>> {
    let mut summaries = vec![Summary::default(); functions.len()];
    let mut marks = vec![BTreeSet::new(); functions.len()];
    let callers = callers(functions);
    // Functions about whose arguments or callees something became known since they were looked at.
    let mut due: BTreeSet<usize> = (0..functions.len()).collect();
    while let Some(index) = due.pop_first() {
        let (insns, core) = functions[index];
        let mut pass = Pass { insns, core, kfuncs, steps, summaries: &mut summaries, due: &mut due };
        let (found, returns) = pass.run(index);
        if returns && !summaries[index].returns {
            summaries[index].returns = true;
            due.extend(&callers[index]);
        }
        marks[index] = found;
    }
    marks
}

/// For each function those that call it.
fn callers(functions: &[(&[Insn], &BTreeSet<usize>)]) -> Vec<BTreeSet<usize>> {
    let mut callers = vec![BTreeSet::new(); functions.len()];
    for (caller, (insns, _)) in functions.iter().enumerate() {
        for insn in insns.iter().filter(|insn| is_local_call(**insn)) {
            if let Some(callers) = callers.get_mut(insn.imm as usize) {
                callers.insert(caller);
            }
        }
    }
    callers
}

fn is_local_call(insn: Insn) -> bool {
    insn.code == op::CALL_K && insn.src == op::CALL_LOCAL
}

struct Pass<'a> {
    insns: &'a [Insn],
    core: &'a BTreeSet<usize>,
    kfuncs: &'a [KfuncRef],
    steps: &'a Steps,
    summaries: &'a mut [Summary],
    due: &'a mut BTreeSet<usize>,
}

impl Pass<'_> {
    /// The soft loads of one function, and whether it returns a walked pointer.
    fn run(&mut self, index: usize) -> (BTreeSet<u32>, bool) {
        debug_assert!(index < self.summaries.len(), "the function has a summary");
        let mut states: Vec<Option<Walked>> = vec![None; self.insns.len()];
        let mut marks = BTreeSet::new();
        let mut returns = false;
        let mut work = vec![0usize];
        if let Some(first) = states.first_mut() {
            *first = Some(Walked { registers: self.summaries[index].entry, stack: 0 });
        }
        while let Some(at) = work.pop() {
            let Some(state) = states.get(at).copied().flatten().filter(|_| self.steps.take(1)) else {
                continue;
            };
            let insn = self.insns[at];
            if is_load(insn) && state.registers >> insn.src & 1 == 1 {
                marks.insert(at as u32);
            }
            if insn.code == op::EXIT_K {
                returns |= state.registers & 1 == 1;
                continue;
            }
            let after = self.step(insn, at, state);
            for slot in insn.successors(at).into_iter().flatten() {
                let Some(state) = states.get_mut(slot) else { continue };
                let merged = state.map_or(after, |old| Walked {
                    registers: old.registers | after.registers,
                    stack: old.stack | after.stack,
                });
                if state.replace(merged) != Some(merged) {
                    work.push(slot);
                }
            }
        }
        (marks, returns)
    }

    fn step(&mut self, insn: Insn, at: usize, mut s: Walked) -> Walked {
        let has = |s: &Walked, r: u8| s.registers >> r & 1 == 1;
        match insn.code & 7 {
            op::LD => set(&mut s, insn.dst, false),
            op::LDX => {
                let wide = insn.code & 0x18 == op::DW && is_load(insn);
                let value = if insn.src == 10 {
                    stack_slot(insn.off).is_some_and(|b| s.stack >> b & 1 == 1)
                } else {
                    wide && (self.core.contains(&at) || has(&s, insn.src))
                };
                set(&mut s, insn.dst, value);
            }
            op::STX if insn.code & 0xe0 == op::MEM && insn.dst == 10 => {
                if let Some(bit) = stack_slot(insn.off) {
                    s.stack &= !(1 << bit);
                    s.stack |= u64::from(has(&s, insn.src) && insn.code & 0x18 == op::DW) << bit;
                }
            }
            op::ALU64 => match insn.code & 0xf0 {
                op::MOV => {
                    let value = insn.code & op::X != 0 && insn.off == 0 && has(&s, insn.src);
                    set(&mut s, insn.dst, value);
                }
                op::ADD => {
                    let value = has(&s, insn.dst) || (insn.code & op::X != 0 && has(&s, insn.src));
                    set(&mut s, insn.dst, value);
                }
                op::SUB | op::AND | op::OR => {}
                _ => set(&mut s, insn.dst, false),
            },
            op::ALU => set(&mut s, insn.dst, false),
            op::JMP if insn.code & 0xf0 == op::CALL => self.call(insn, &mut s),
            _ => {}
        }
        s
    }

    /// Passes arguments on to the callee and takes its result.
    fn call(&mut self, insn: Insn, s: &mut Walked) {
        debug_assert_eq!(insn.code & 0xf0, op::CALL, "the instruction calls");
        let arguments = s.registers & 0b11_1110;
        let mut result = false;
        if is_local_call(insn) {
            if let Some(callee) = self.summaries.get_mut(insn.imm as usize) {
                if callee.entry | arguments != callee.entry {
                    callee.entry |= arguments;
                    self.due.insert(insn.imm as usize);
                }
                result = callee.returns;
            }
        } else if insn.code == op::CALL_K && insn.src == op::CALL_KFUNC {
            let name = self.kfuncs.get(insn.imm as usize).map_or("", |k| k.name.as_str());
            result = UNTRUSTED_KFUNCS.contains(&name);
        }
        s.registers &= !0b11_1111;
        set(s, 0, result);
    }
}

fn is_load(insn: Insn) -> bool {
    insn.code & 7 == op::LDX && matches!(insn.code & 0xe0, op::MEM | op::MEMSX)
}

fn set(s: &mut Walked, register: u8, value: bool) {
    debug_assert!(register < 16, "a register has four bits");
    s.registers &= !(1 << register);
    s.registers |= u16::from(value) << register;
}

/// The bit of the 8-byte stack slot at this distance from r10.
fn stack_slot(off: i16) -> Option<u32> {
    (-512..0).contains(&off).then(|| ((-i32::from(off) - 1) / 8) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// r2 = arg->ptr; r3 = r2->ptr; r0 = *(spilled r3)
    #[test]
    fn a_pointer_that_was_loaded_is_soft_and_an_argument_is_not() {
        let program = [
            Insn::load(op::DW, 2, 1, 8),
            Insn::load(op::DW, 3, 2, 16),
            Insn::store(op::DW, 10, -8, 3),
            Insn::load(op::DW, 4, 10, -8),
            Insn::load(op::W, 0, 4, 0),
            Insn::exit(),
        ];
        let core = BTreeSet::from([0, 1, 4]);
        let marks = probe_marks(&[(&program, &core)], &[], &Steps::new());
        assert_eq!(marks[0], BTreeSet::from([1, 4]));
    }

    #[test]
    fn walked_pointers_pass_through_calls() {
        let caller =
            [Insn::load(op::DW, 1, 1, 8), Insn::call_local(1), Insn::load(op::W, 0, 0, 4), Insn::exit()];
        let callee = [Insn::load(op::W, 2, 1, 0), Insn::alu64_reg(op::MOV, 0, 1), Insn::exit()];
        let (first, second) = (BTreeSet::from([0, 2]), BTreeSet::from([0]));
        let marks = probe_marks(&[(&caller, &first), (&callee, &second)], &[], &Steps::new());
        assert_eq!(marks[1], BTreeSet::from([0]), "the callee's argument");
        assert_eq!(marks[0], BTreeSet::from([2]), "the callee's result");
    }
}
