//! Jumps.

use super::super::asm::{Alu, If, Label, Width};
use super::{Emitter, Operand, Rare, x};
use crate::code::OpCode;

impl Emitter<'_> {
    fn jump(&mut self, pc: usize, width: Width, condition: If, operand: Operand) {
        self.alu(width, Alu::Cmp, x(self.ops[pc].dst), operand);
        let target = self.target(pc);
        self.asm.jump_if(condition, target);
    }

    fn jump_on_bits(&mut self, pc: usize, width: Width, operand: Operand) {
        let o = self.ops[pc];
        match operand {
            Operand::Reg(src) => self.asm.test(width, x(o.dst), src),
            Operand::Imm(imm) => self.asm.test_imm(width, x(o.dst), imm),
        }
        let target = self.target(pc);
        self.asm.jump_if(If::NotEqual, target);
    }

    /// Where operation `pc` jumps to: the operation there, by way of giving back what has been counted too much.
    pub(super) fn target(&mut self, pc: usize) -> Label {
        let target = self.ops[pc].target().expect("a jump has a target");
        let to = self.labels[target];
        if self.copying && self.plan.relies(target) {
            let (from, count) = (self.asm.label(), self.asm.narrow(self.counts.ahead(pc)));
            self.rare.push(Rare::Spent { from, pc: target, count });
            return from;
        }
        let count: i32 = self.asm.narrow(self.counts.given_back(pc, target));
        if count == 0 {
            return to;
        }
        let from = self.asm.label();
        self.rare.push(Rare::Leave { from, count, to });
        from
    }

    #[rustfmt::skip]
    pub(super) fn jump_operation(&mut self, pc: usize) {
        use OpCode::*;
        use Width::{W32, W64};
        let o = self.ops[pc];
        let (k, r) = (Operand::Imm(self.imm(pc)), Operand::Reg(x(o.src)));
        match o.code {
            Ja => { let target = self.target(pc); self.asm.jump(target) }
            MayGoto => self.may_goto(pc),
            Jeq64K => self.jump(pc, W64, If::Equal, k), Jeq64X => self.jump(pc, W64, If::Equal, r),
            Jeq32K => self.jump(pc, W32, If::Equal, k), Jeq32X => self.jump(pc, W32, If::Equal, r),
            Jne64K => self.jump(pc, W64, If::NotEqual, k), Jne64X => self.jump(pc, W64, If::NotEqual, r),
            Jne32K => self.jump(pc, W32, If::NotEqual, k), Jne32X => self.jump(pc, W32, If::NotEqual, r),
            Jgt64K => self.jump(pc, W64, If::Above, k), Jgt64X => self.jump(pc, W64, If::Above, r),
            Jgt32K => self.jump(pc, W32, If::Above, k), Jgt32X => self.jump(pc, W32, If::Above, r),
            Jge64K => self.jump(pc, W64, If::AboveEqual, k), Jge64X => self.jump(pc, W64, If::AboveEqual, r),
            Jge32K => self.jump(pc, W32, If::AboveEqual, k), Jge32X => self.jump(pc, W32, If::AboveEqual, r),
            Jlt64K => self.jump(pc, W64, If::Below, k), Jlt64X => self.jump(pc, W64, If::Below, r),
            Jlt32K => self.jump(pc, W32, If::Below, k), Jlt32X => self.jump(pc, W32, If::Below, r),
            Jle64K => self.jump(pc, W64, If::BelowEqual, k), Jle64X => self.jump(pc, W64, If::BelowEqual, r),
            Jle32K => self.jump(pc, W32, If::BelowEqual, k), Jle32X => self.jump(pc, W32, If::BelowEqual, r),
            Jsgt64K => self.jump(pc, W64, If::Greater, k), Jsgt64X => self.jump(pc, W64, If::Greater, r),
            Jsgt32K => self.jump(pc, W32, If::Greater, k), Jsgt32X => self.jump(pc, W32, If::Greater, r),
            Jsge64K => self.jump(pc, W64, If::GreaterEqual, k), Jsge64X => self.jump(pc, W64, If::GreaterEqual, r),
            Jsge32K => self.jump(pc, W32, If::GreaterEqual, k), Jsge32X => self.jump(pc, W32, If::GreaterEqual, r),
            Jslt64K => self.jump(pc, W64, If::Less, k), Jslt64X => self.jump(pc, W64, If::Less, r),
            Jslt32K => self.jump(pc, W32, If::Less, k), Jslt32X => self.jump(pc, W32, If::Less, r),
            Jsle64K => self.jump(pc, W64, If::LessEqual, k), Jsle64X => self.jump(pc, W64, If::LessEqual, r),
            Jsle32K => self.jump(pc, W32, If::LessEqual, k), Jsle32X => self.jump(pc, W32, If::LessEqual, r),
            Jset64K => self.jump_on_bits(pc, W64, k), Jset64X => self.jump_on_bits(pc, W64, r),
            Jset32K => self.jump_on_bits(pc, W32, k), Jset32X => self.jump_on_bits(pc, W32, r),
            other => unreachable!("{other:?} is no jump"),
        }
    }
}
