//! Arithmetic.

use super::super::asm::{Alu, If, Shift, Width, X};
use super::{Emitter, Operand, TEMP, TEMP2, low_half, x};
use crate::code::OpCode;
use crate::memory::ARENA_BASE;

impl Emitter<'_> {
    pub(super) fn alu(&mut self, width: Width, operation: Alu, dst: X, operand: Operand) {
        match operand {
            Operand::Reg(src) => self.asm.alu(width, operation, dst, src),
            Operand::Imm(imm) => self.asm.alu_imm(width, operation, dst, imm),
        }
    }

    fn mul(&mut self, width: Width, dst: X, operand: Operand) {
        match operand {
            Operand::Reg(src) => self.asm.mul(width, dst, src),
            Operand::Imm(imm) => self.asm.mul_imm(width, dst, imm),
        }
    }

    /// Unsigned division: by zero the quotient is 0, the remainder the dividend.
    fn divide(&mut self, width: Width, dst: X, operand: Operand, remainder: bool) {
        let asm = &mut self.asm;
        match operand {
            Operand::Reg(src) => asm.mov(width, TEMP2, src),
            Operand::Imm(imm) if width == Width::W64 => asm.mov_imm(TEMP2, i64::from(imm).cast_unsigned()),
            Operand::Imm(imm) => asm.mov_imm(TEMP2, u64::from(imm.cast_unsigned())),
        }
        asm.mov(width, TEMP, dst);
        asm.push(X::Rax);
        asm.push(X::Rdx);
        asm.mov(Width::W64, X::Rax, TEMP);
        asm.mov_imm(X::Rdx, 0);
        let (by_zero, done) = (asm.label(), asm.label());
        asm.test(Width::W64, TEMP2, TEMP2);
        asm.jump_if(If::Equal, by_zero);
        asm.div(width, TEMP2);
        asm.mov(Width::W64, TEMP2, if remainder { X::Rdx } else { X::Rax });
        asm.jump(done);
        asm.bind(by_zero);
        asm.mov(Width::W64, TEMP2, if remainder { X::Rax } else { X::Rdx });
        asm.bind(done);
        asm.pop(X::Rdx);
        asm.pop(X::Rax);
        asm.mov(Width::W64, dst, TEMP2);
    }

    fn shift(&mut self, width: Width, shift: Shift, dst: X, operand: Operand) {
        let asm = &mut self.asm;
        match operand {
            Operand::Imm(by) => {
                if width == Width::W32 {
                    // A shift by 0 need not clear the upper half.
                    asm.mov(Width::W32, dst, dst);
                }
                // The machine takes a shift modulo the width, as BPF does; 64 is a multiple of both widths.
                let by: u8 = asm.narrow(by & 63);
                asm.shift_imm(width, shift, dst, by);
            }
            Operand::Reg(by) => {
                asm.mov(width, TEMP2, dst);
                asm.mov(Width::W64, TEMP, X::Rcx);
                asm.mov(Width::W64, X::Rcx, by);
                asm.shift_cl(width, shift, TEMP2);
                asm.mov(Width::W64, X::Rcx, TEMP);
                asm.mov(Width::W64, dst, TEMP2);
            }
        }
    }

    /// Casts of arena pointers between address spaces: the high half names the window, NULL stays NULL.
    fn cast(&mut self, dst: X, src: X) {
        self.asm.mov(Width::W32, dst, src);
        self.asm.test(Width::W32, dst, dst);
        let null = self.asm.label();
        self.asm.jump_if(If::Equal, null);
        let window: u8 = self.asm.narrow(ARENA_BASE.trailing_zeros());
        self.asm.set_bit(dst, window);
        self.asm.bind(null);
    }

    #[rustfmt::skip]
    pub(super) fn arithmetic(&mut self, pc: usize) {
        use OpCode::*;
        use Width::{W32, W64};
        let o = self.ops[pc];
        let (dst, src) = (x(o.dst), x(o.src));
        // A 64-bit move alone has an immediate of more than 32 bits, and takes it whole.
        let k = if o.code == Mov64K { Operand::Reg(src) } else { Operand::Imm(self.imm(pc)) };
        let r = Operand::Reg(src);
        match o.code {
            Add64K => self.alu(W64, Alu::Add, dst, k), Add64X => self.alu(W64, Alu::Add, dst, r),
            Add32K => self.alu(W32, Alu::Add, dst, k), Add32X => self.alu(W32, Alu::Add, dst, r),
            Sub64K => self.alu(W64, Alu::Sub, dst, k), Sub64X => self.alu(W64, Alu::Sub, dst, r),
            Sub32K => self.alu(W32, Alu::Sub, dst, k), Sub32X => self.alu(W32, Alu::Sub, dst, r),
            Or64K => self.alu(W64, Alu::Or, dst, k), Or64X => self.alu(W64, Alu::Or, dst, r),
            Or32K => self.alu(W32, Alu::Or, dst, k), Or32X => self.alu(W32, Alu::Or, dst, r),
            And64K => self.alu(W64, Alu::And, dst, k), And64X => self.alu(W64, Alu::And, dst, r),
            And32K => self.alu(W32, Alu::And, dst, k), And32X => self.alu(W32, Alu::And, dst, r),
            Xor64K => self.alu(W64, Alu::Xor, dst, k), Xor64X => self.alu(W64, Alu::Xor, dst, r),
            Xor32K => self.alu(W32, Alu::Xor, dst, k), Xor32X => self.alu(W32, Alu::Xor, dst, r),
            Mul64K => self.mul(W64, dst, k), Mul64X => self.mul(W64, dst, r),
            Mul32K => self.mul(W32, dst, k), Mul32X => self.mul(W32, dst, r),
            Div64K => self.divide(W64, dst, k, false), Div64X => self.divide(W64, dst, r, false),
            Div32K => self.divide(W32, dst, k, false), Div32X => self.divide(W32, dst, r, false),
            Mod64K => self.divide(W64, dst, k, true), Mod64X => self.divide(W64, dst, r, true),
            Mod32K => self.divide(W32, dst, k, true), Mod32X => self.divide(W32, dst, r, true),
            Lsh64K => self.shift(W64, Shift::Left, dst, k), Lsh64X => self.shift(W64, Shift::Left, dst, r),
            Lsh32K => self.shift(W32, Shift::Left, dst, k), Lsh32X => self.shift(W32, Shift::Left, dst, r),
            Rsh64K => self.shift(W64, Shift::Right, dst, k), Rsh64X => self.shift(W64, Shift::Right, dst, r),
            Rsh32K => self.shift(W32, Shift::Right, dst, k), Rsh32X => self.shift(W32, Shift::Right, dst, r),
            Arsh64K => self.shift(W64, Shift::RightSigned, dst, k), Arsh64X => self.shift(W64, Shift::RightSigned, dst, r),
            Arsh32K => self.shift(W32, Shift::RightSigned, dst, k), Arsh32X => self.shift(W32, Shift::RightSigned, dst, r),
            Mov64K => self.asm.mov_imm(dst, o.imm.cast_unsigned()), Mov64X => self.asm.mov(W64, dst, src),
            Mov32K => self.asm.mov_imm(dst, low_half(o.imm)), Mov32X => self.asm.mov(W32, dst, src),
            Neg64 => self.asm.neg(W64, dst), Neg32 => self.asm.neg(W32, dst),
            Movsx8To32 => self.asm.sign_extend(W32, 1, dst, src), Movsx16To32 => self.asm.sign_extend(W32, 2, dst, src),
            Movsx8To64 => self.asm.sign_extend(W64, 1, dst, src), Movsx16To64 => self.asm.sign_extend(W64, 2, dst, src),
            Movsx32To64 => self.asm.sign_extend(W64, 4, dst, src),
            Zext16 => self.asm.zero_extend_16(dst),
            Swap16 => { self.asm.swap_16(dst); self.asm.zero_extend_16(dst); }
            Swap32 => self.asm.swap(W32, dst), Swap64 => self.asm.swap(W64, dst),
            Cast => self.cast(dst, src),
            // Rare and long: the host does them.
            Sdiv64K | Sdiv64X | Sdiv32K | Sdiv32X | Smod64K | Smod64X | Smod32K | Smod32X => self.step(pc),
            other => unreachable!("{other:?} is no arithmetic"),
        }
    }
}
