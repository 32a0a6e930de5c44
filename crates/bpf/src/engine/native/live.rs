//! Which registers are read later: what the others hold need not be kept or set.
//!
//! A register is live before an operation if some way from there reads it before it is written. In doubt it is: what is
//! found here spares work and never changes a result.

use crate::code::{Code, Op, OpCode, Reg};

/// A set of registers, by their numbers.
pub(super) type Set = u16;

/// r0 to r10.
const ALL: Set = 0x7ff;
/// What a call takes its arguments from.
pub(super) const ARGUMENTS: Set = 0b11_1110;
const R0: Set = 1;
/// Passes over the code. Chosen: one for each loop in a loop and each call in a call, of which programs have few; where more
/// are needed, all registers are taken for live.
const PASSES: u32 = 16;

/// The live registers before each operation, and at the exits of functions that others call.
pub(super) struct Live {
    before: Vec<Set>,
    at_exit: Set,
}

fn bit(register: Reg) -> Set {
    1 << register as u8
}

impl Live {
    /// The live registers of an image.
    pub(super) fn new(code: &Code) -> Live {
        let mut live = Live { before: vec![0; code.ops.len()], at_exit: R0 };
        if (0..PASSES).all(|_| live.pass(code)) {
            live = Live { before: vec![ALL; code.ops.len()], at_exit: ALL };
        }
        live
    }

    /// One look at all operations, the last first. False when nothing changed.
    fn pass(&mut self, code: &Code) -> bool {
        let (mut changed, at_exit) = (false, self.at_exit);
        for (pc, op) in code.ops.iter().enumerate().rev() {
            let before = self.look(pc, op);
            changed |= before != self.before[pc];
            self.before[pc] = before;
        }
        changed || at_exit != self.at_exit
    }

    /// The live registers before an operation, as far as they are known.
    fn look(&mut self, pc: usize, op: &Op) -> Set {
        match op.code {
            OpCode::Exit => self.at_exit,
            OpCode::CallReg => ALL,
            OpCode::CallLocal => {
                // The callee may leave every register as it is.
                let after = self.after(pc);
                self.at_exit |= after & (ARGUMENTS | R0);
                after | self.before.get(op.imm as usize).copied().unwrap_or(ALL)
            }
            _ => {
                let mut after = if op.code == OpCode::Ja { 0 } else { self.after(pc) };
                if let Some(target) = op.target() {
                    after |= self.before[target];
                }
                after & !sets(op) | reads(op)
            }
        }
    }

    /// The live registers behind an operation that falls through to the next one.
    pub(super) fn after(&self, pc: usize) -> Set {
        debug_assert!(pc < self.before.len(), "the operation is one of the image");
        self.before.get(pc + 1).copied().unwrap_or(ALL)
    }

    /// The live registers before an operation.
    pub(super) fn before(&self, pc: usize) -> Set {
        self.before[pc]
    }
}

/// The register that an operation sets for certain.
#[rustfmt::skip]
pub(super) fn sets(op: &Op) -> Set {
    use OpCode::*;
    match op.code {
        CallHelper | CallKfunc => R0,
        // A load that fails may leave its register alone.
        Load8 | Load16 | Load32 | Load64 | Loads8 | Loads16 | Loads32 if op.keep => 0,
        Store8K | Store16K | Store32K | Store64K | Store8X | Store16X | Store32X | Store64X | Atomic32 | Atomic64
            | CallLocal | CallReg | Exit => 0,
        _ if op.is_jump() => 0,
        _ => bit(op.dst),
    }
}

/// The registers that an operation reads, and perhaps some that it does not.
#[rustfmt::skip]
fn reads(op: &Op) -> Set {
    use OpCode::*;
    match op.code {
        CallHelper | CallKfunc => ARGUMENTS >> op.off & ARGUMENTS,
        Mov32K | Mov64K | Ja | MayGoto | FuncPointer => 0,
        Mov32X | Mov64X | Movsx8To32 | Movsx16To32 | Movsx8To64 | Movsx16To64 | Movsx32To64 | Cast => bit(op.src),
        Load8 | Load16 | Load32 | Load64 | Loads8 | Loads16 | Loads32 if !op.keep => bit(op.src),
        Atomic32 | Atomic64 => R0 | bit(op.dst) | bit(op.src),
        _ => bit(op.dst) | bit(op.src),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{CodeBuilder, Marks};
    use crate::insn::{Insn, op};

    fn live(functions: &[&[Insn]]) -> Live {
        let mut builder = CodeBuilder::new();
        for insns in functions {
            builder.add_function("f", insns, &Marks::default()).expect("it decodes");
        }
        Live::new(&builder.build().expect("it links"))
    }

    #[test]
    fn what_is_set_before_it_is_read_is_not_live() {
        let call = Insn::call_helper(1);
        let found =
            live(&[&[call, Insn::alu64_imm(op::MOV, 2, 7), Insn::alu64_reg(op::ADD, 0, 2), Insn::exit()]]);
        assert_eq!(found.after(0), R0, "r2 is set again");
        let found = live(&[&[call, Insn::alu64_reg(op::ADD, 0, 2), Insn::exit()]]);
        assert_eq!(found.after(0), R0 | 1 << 2);
    }

    #[test]
    fn a_call_reads_no_more_than_its_arguments() {
        let mut builder = CodeBuilder::new();
        let insns = [Insn::call_helper(1), Insn::call_helper(2), Insn::call_helper(3), Insn::exit()];
        let marks = Marks { arguments: [(1, 2), (2, 0)].into(), ..Marks::default() };
        builder.add_function("f", &insns, &marks).expect("it decodes");
        let found = Live::new(&builder.build().expect("it links"));
        assert_eq!((found.after(0), found.after(1)), (0b110, 0));
        assert_eq!(found.before(0), ARGUMENTS, "one that is not marked");
    }

    #[test]
    fn a_loop_keeps_what_its_next_pass_reads() {
        let code = [
            Insn::alu64_imm(op::MOV, 0, 0),
            Insn::call_helper(1),
            Insn::alu64_reg(op::ADD, 0, 6),
            Insn::jump_imm(op::JNE, 0, 0, -3),
            Insn::exit(),
        ];
        let found = live(&[&code]);
        assert_eq!(found.before(3), R0 | 1 << 6 | ARGUMENTS, "the call of the next pass");
    }

    #[test]
    fn a_callee_may_leave_registers_to_its_caller_and_read_them() {
        let main = [Insn::call_local(1), Insn::alu64_reg(op::ADD, 0, 3), Insn::exit()];
        let leaf = [Insn::alu64_reg(op::MOV, 0, 7), Insn::exit()];
        let found = live(&[&main, &leaf]);
        assert_eq!(found.before(0), R0 | 1 << 3 | 1 << 7);
        assert_eq!(found.before(4), R0 | 1 << 3, "at the leaf's exit");
    }
}
