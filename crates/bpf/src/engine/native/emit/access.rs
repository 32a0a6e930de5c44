//! Loads, stores and atomics, and the checks before them.

use super::super::asm::{Alu, Asm, If, Label, Mem, Shift, Width, X};
use super::super::plan::{Check, Group};
use super::{
    Emitter, FRAME_POINTER, FRAME_SIZE_IMM, MEMORY, PAGE_SIZE_IMM, PERMS_BEFORE, REGS, Rare, TEMP, TEMP2, x,
};
use crate::code::{OpCode, Reg};
use crate::insn::op;
use crate::memory::{PAGE_SIZE, Perm};

/// Bytes that a load takes, and whether it extends their sign.
fn load_form(code: OpCode) -> (u8, bool) {
    match code {
        OpCode::Load8 => (1, false),
        OpCode::Load16 => (2, false),
        OpCode::Load32 => (4, false),
        OpCode::Load64 => (8, false),
        OpCode::Loads8 => (1, true),
        OpCode::Loads16 => (2, true),
        OpCode::Loads32 => (4, true),
        other => unreachable!("{other:?} is no load"),
    }
}

impl Emitter<'_> {
    /// Where operation `pc` accesses `size` bytes by register `base`, if that is known and lies within one page below
    /// 2 GiB, so that it fits a displacement.
    fn constant_address(&self, pc: usize, base: Reg, size: u8) -> Option<i32> {
        let value = self.constants[base as usize]?;
        let value = value.wrapping_add_signed(i64::from(self.ops[pc].off));
        let address = i32::try_from(value).ok()?;
        let page_left = PAGE_SIZE - value % PAGE_SIZE;
        (u64::from(size) <= page_left).then_some(address)
    }

    /// The machine's form of an access of `size` bytes at `base + off`, `body`, in which the host has done the checks;
    /// where they fail control goes to the first label and is to come back to the second.
    fn checked(
        &mut self,
        pc: usize,
        base: Reg,
        size: u8,
        need: &[Perm],
        body: impl FnOnce(&mut Self, Mem),
    ) -> Option<(Label, Label)> {
        let off = self.ops[pc].off;
        let own_frame = -FRAME_SIZE_IMM..=-i32::from(size);
        if x(base) == FRAME_POINTER && own_frame.contains(&off) {
            // r10 is never written, and the frame below it always there.
            body(self, Mem { base: MEMORY, index: Some(FRAME_POINTER), disp: off });
            return None;
        }
        let constant = self.constant_address(pc, base, size);
        match self.plan.check(pc) {
            _ if self.copying => {}
            Check::Single => {}
            // Not here: with the lead of its group.
            planned => {
                if let Check::Lead(group) = planned {
                    self.check_group(pc, base, group);
                }
                let place = match constant {
                    Some(address) => Mem { base: MEMORY, index: None, disp: address },
                    None => Mem { base: MEMORY, index: Some(x(base)), disp: off },
                };
                self.touch(pc, place, need);
                body(self, place);
                return None;
            }
        }
        let asm = &mut self.asm;
        let (slow, back) = (asm.label(), asm.label());
        if let Some(address) = constant {
            let page = address / PAGE_SIZE_IMM;
            let perms = Mem { base: MEMORY, index: None, disp: page - PERMS_BEFORE };
            for perm in need {
                asm.test_byte(perms, perm.bits());
                asm.jump_if(If::Equal, slow);
            }
            let place = Mem { base: MEMORY, index: None, disp: address };
            self.touch(pc, place, need);
            body(self, place);
            self.asm.bind(back);
            return Some((slow, back));
        }
        // The page's number is what is left of the address without the place in the page. Where that is not aligned, bits
        // come round and make it too large: what is aligned does not leave its page, and the rest is rare.
        let aligned: u8 = asm.narrow(size.trailing_zeros());
        let page_shift: u8 = asm.narrow(PAGE_SIZE.trailing_zeros());
        asm.lea(TEMP2, Mem { base: x(base), index: None, disp: off });
        if aligned > 0 {
            asm.shift_imm(Width::W64, Shift::RotateRight, TEMP2, aligned);
        }
        asm.shift_imm(Width::W64, Shift::Right, TEMP2, page_shift - aligned);
        asm.alu_imm(Width::W64, Alu::Cmp, TEMP2, PERMS_BEFORE);
        asm.jump_if(If::AboveEqual, slow);
        for perm in need {
            asm.test_byte(Mem { base: MEMORY, index: Some(TEMP2), disp: -PERMS_BEFORE }, perm.bits());
            asm.jump_if(If::Equal, slow);
        }
        let place = Mem { base: MEMORY, index: Some(x(base)), disp: off };
        self.touch(pc, place, need);
        body(self, place);
        self.asm.bind(back);
        Some((slow, back))
    }

    /// Checks the bytes of a group for its lead, operation `pc`, which accesses memory by `base`.
    fn check_group(&mut self, pc: usize, base: Reg, group: Group) {
        let copy = self.copy_of(pc, group);
        if group.constant {
            self.check_page(group, None, group.from / PAGE_SIZE_IMM, copy);
            return;
        }
        let asm = &mut self.asm;
        let (from, back) = (asm.label(), asm.label());
        asm.lea(TEMP2, Mem { base: x(base), index: None, disp: group.from });
        asm.mov(Width::W32, TEMP, TEMP2);
        asm.alu_imm(Width::W32, Alu::And, TEMP, PAGE_SIZE_IMM - 1);
        asm.alu_imm(Width::W32, Alu::Cmp, TEMP, PAGE_SIZE_IMM - group.len);
        asm.jump_if(If::Above, from);
        self.check_limit(PERMS_BEFORE, copy);
        self.check_page(group, Some(TEMP2), 0, copy);
        self.asm.bind(back);
        self.rare.push(Rare::Straddle { from, base, group, copy, back });
    }

    /// Checks the bytes of a group that lie in two pages.
    pub(super) fn check_two_pages(&mut self, base: Reg, group: Group, copy: Label) {
        self.asm.lea(TEMP2, Mem { base: x(base), index: None, disp: group.from });
        self.check_limit(PERMS_BEFORE - 1, copy);
        for page in 0..2 {
            self.check_page(group, Some(TEMP2), page, copy);
        }
    }

    /// Makes the address in [`TEMP2`] the number of its page, which has to be below `limit`.
    fn check_limit(&mut self, limit: i32, otherwise: Label) {
        let page_shift: u8 = self.asm.narrow(PAGE_SIZE.trailing_zeros());
        self.asm.shift_imm(Width::W64, Shift::Right, TEMP2, page_shift);
        self.asm.alu_imm(Width::W64, Alu::Cmp, TEMP2, limit);
        self.asm.jump_if(If::AboveEqual, otherwise);
    }

    /// Checks that a page has the permissions of a group: the one so many behind that in a register, or of this number.
    fn check_page(&mut self, group: Group, register: Option<X>, page: i32, otherwise: Label) {
        let perms = Mem { base: MEMORY, index: register, disp: page - PERMS_BEFORE };
        let needs = [(group.reads, Perm::READ), (group.writes, Perm::WRITE)];
        for (_, perm) in needs.into_iter().filter(|(needed, _)| *needed) {
            self.asm.test_byte(perms, perm.bits());
            self.asm.jump_if(If::Equal, otherwise);
        }
    }

    /// The label of the copy of a lead. The copy of a stretch begins with its first lead.
    fn copy_of(&mut self, pc: usize, group: Group) -> Label {
        let label = self.asm.label();
        if pc == group.first {
            self.rare.push(Rare::Copy { first: pc, end: group.end });
        }
        self.copies.insert(pc, label);
        label
    }

    /// The operations from `first` to before `end` once more, each access checked alone.
    pub(super) fn copy(&mut self, first: usize, end: usize) {
        self.copying = true;
        self.constants = [None; REGS.len()];
        for pc in first..end {
            if pc != first {
                self.begin_region(pc);
            }
            if let Some(label) = self.copies.get(&pc) {
                self.asm.bind(*label);
            }
            self.operation(pc);
            self.go_on(pc);
            self.note_constant(pc);
            if self.asm.is_spoiled() {
                break;
            }
        }
        self.copying = false;
        if matches!(self.ops[end - 1].code, OpCode::Exit | OpCode::Ja | OpCode::CallReg) {
            return;
        }
        if self.plan.relies(end) {
            let count: i32 = self.asm.narrow(self.counts.along(end));
            self.interpret_from(end, count);
        } else {
            self.asm.jump(self.labels[end]);
        }
    }

    /// An access that the host does where its checks fail.
    fn access(&mut self, pc: usize, base: Reg, size: u8, need: &[Perm], body: impl FnOnce(&mut Asm, Mem)) {
        let body = |this: &mut Self, mem| body(&mut this.asm, mem);
        if let Some((from, back)) = self.checked(pc, base, size, need, body) {
            self.rare.push(Rare::Step { from, pc, back });
        }
    }

    pub(super) fn load(&mut self, pc: usize) {
        let (size, _) = load_form(self.ops[pc].code);
        let body = |this: &mut Self, mem| this.plain_load(pc, mem);
        if let Some((from, back)) = self.checked(pc, self.ops[pc].src, size, &[Perm::READ], body) {
            self.rare.push(Rare::Step { from, pc, back });
        }
    }

    /// The load of operation `pc` without any check.
    fn plain_load(&mut self, pc: usize, from: Mem) {
        let (size, signed) = load_form(self.ops[pc].code);
        self.asm.load(size, signed, x(self.ops[pc].dst), from);
    }

    pub(super) fn store(&mut self, pc: usize, size: u8) {
        let o = self.ops[pc];
        self.access(pc, o.dst, size, &[Perm::WRITE], |asm, mem| asm.store(size, mem, x(o.src)));
    }

    pub(super) fn store_imm(&mut self, pc: usize, size: u8) {
        let (o, imm) = (self.ops[pc], self.imm(pc));
        self.access(pc, o.dst, size, &[Perm::WRITE], |asm, mem| asm.store_imm(size, mem, imm));
    }

    /// An atomic; nothing runs beside the program, so plain instructions do.
    pub(super) fn atomic(&mut self, pc: usize, width: Width) {
        let (o, operation) = (self.ops[pc], self.imm(pc));
        let size = if width == Width::W64 { 8 } else { 4 };
        self.access(pc, o.dst, size, &[Perm::READ, Perm::WRITE], |asm, mem| {
            let source = x(o.src);
            if operation == op::CMPXCHG {
                asm.compare_exchange(width, mem, source);
                if width == Width::W32 {
                    asm.mov(Width::W32, X::Rax, X::Rax);
                }
                return;
            }
            let fetch = operation & op::FETCH != 0;
            if fetch {
                asm.load(size, false, TEMP2, mem);
            }
            match operation & !op::FETCH {
                0x00 => asm.alu(width, Alu::Add, mem, source),
                0x40 => asm.alu(width, Alu::Or, mem, source),
                0x50 => asm.alu(width, Alu::And, mem, source),
                0xa0 => asm.alu(width, Alu::Xor, mem, source),
                _ => asm.store(size, mem, source),
            }
            if fetch {
                asm.mov(Width::W64, source, TEMP2);
            }
        });
    }
}
