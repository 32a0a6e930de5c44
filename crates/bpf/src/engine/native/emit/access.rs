//! Loads, stores and atomics, and the checks before them.

use super::super::asm::{Alu, Asm, If, Label, Mem, Shift, Width, X};
use super::super::plan::{Check, Group};
use super::{
    Emitter, FRAME_POINTER, FRAME_SIZE_IMM, MEMORY, PAGE_SIZE_IMM, PAGES, PERMS_BEFORE, REGS, Rare, TEMP,
    TEMP2, x,
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

/// Bytes that are checked together.
#[derive(Clone, Copy)]
pub(in crate::engine::native) struct Bytes {
    /// The first one, from what a register holds.
    from: i32,
    len: i32,
    /// As [`Group::bounded`].
    bounded: bool,
}

/// What is done with them.
#[derive(Clone, Copy)]
pub(in crate::engine::native) struct Needs {
    reads: bool,
    writes: bool,
}

impl Needs {
    const READ: Needs = Needs { reads: true, writes: false };
    const WRITE: Needs = Needs { reads: false, writes: true };
    const BOTH: Needs = Needs { reads: true, writes: true };

    /// The permission of a page for each, and the one that includes the next page.
    fn permissions(self) -> impl Iterator<Item = (Perm, Perm)> {
        let reads = self.reads.then_some((Perm::READ, Perm::READ_NEXT));
        let writes = self.writes.then_some((Perm::WRITE, Perm::WRITE_NEXT));
        reads.into_iter().chain(writes)
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
        need: Needs,
        body: impl FnOnce(&mut Self, Mem),
    ) -> Option<(Label, Label)> {
        let off = self.ops[pc].off;
        debug_assert!(matches!(size, 1 | 2 | 4 | 8), "an access is of 1, 2, 4 or 8 bytes");
        let own_frame = -FRAME_SIZE_IMM..=-i32::from(size);
        if x(base) == FRAME_POINTER && own_frame.contains(&off) {
            // r10 is never written, and the frame below it always there.
            body(self, Mem { base: MEMORY, index: Some(FRAME_POINTER), disp: off });
            return None;
        }
        let constant = self.constant_address(pc, base, size);
        let place = match constant {
            Some(address) => Mem { base: MEMORY, index: None, disp: address },
            None => Mem { base: MEMORY, index: Some(x(base)), disp: off },
        };
        let alone = self.copying || self.plan.check(pc) == Check::Single;
        if !alone {
            // Not here, unless it is the lead: with the lead of its group.
            if let Check::Lead(group) = self.plan.check(pc) {
                self.check_group(pc, base, group);
            }
            self.touch(pc, place, need.writes);
            body(self, place);
            return None;
        }
        let (slow, back) = (self.asm.label(), self.asm.label());
        match constant {
            Some(address) => self.check_known_page(need, address / PAGE_SIZE_IMM, slow),
            None if self.plan.is_bounded(pc) => {
                self.check_bytes(base, Bytes { from: off, len: size.into(), bounded: true }, need, slow);
            }
            None => self.check_aligned(base, off, size, need, slow),
        }
        self.touch(pc, place, need.writes);
        body(self, place);
        self.asm.bind(back);
        Some((slow, back))
    }

    /// Checks the bytes of a group for its lead, operation `pc`, which accesses memory by `base`.
    fn check_group(&mut self, pc: usize, base: Reg, group: Group) {
        let copy = self.copy_of(pc, group);
        let Group { from, len, reads, writes, bounded, .. } = group;
        debug_assert!(len > 0, "a group covers bytes");
        let need = Needs { reads, writes };
        match group.constant {
            true => self.check_known_page(need, from / PAGE_SIZE_IMM, copy),
            false => self.check_bytes(base, Bytes { from, len, bounded }, need, copy),
        }
    }

    /// Checks that the page of this number has the permissions that are needed; an array's can be read.
    fn check_known_page(&mut self, need: Needs, page: i32, otherwise: Label) {
        debug_assert!((0..PAGES).contains(&page), "a known page lies in the guest");
        let number = u64::from(page.unsigned_abs());
        let before = self.readable.partition_point(|(first, _)| *first <= number);
        let readable = before > 0 && number < self.readable[before - 1].1;
        self.check_page(Needs { reads: need.reads && !readable, ..need }, None, page, otherwise);
    }

    /// Checks bytes, at most a page of them: the page in which they begin says in one byte what can be done with it and the
    /// next one.
    fn check_bytes(&mut self, base: Reg, bytes: Bytes, need: Needs, otherwise: Label) {
        debug_assert!(bytes.len > 0, "a check is of bytes");
        let page_shift: u8 = self.asm.narrow(PAGE_SIZE.trailing_zeros());
        let asm = &mut self.asm;
        asm.lea(TEMP2, Mem { base: x(base), index: None, disp: bytes.from });
        asm.shift_imm(Width::W64, Shift::Right, TEMP2, page_shift);
        if !bytes.bounded {
            asm.alu_imm(Width::W64, Alu::Cmp, TEMP2, PAGES);
            asm.jump_if(If::AboveEqual, otherwise);
        }
        if bytes.len == 1 {
            self.check_page(need, Some(TEMP2), 0, otherwise);
            return;
        }
        let (from, back) = (self.asm.label(), self.asm.label());
        for (_, next) in need.permissions() {
            self.test_page(Some(TEMP2), 0, next, from);
        }
        self.asm.bind(back);
        self.rare.push(Rare::LastPage { from, base, bytes, need, otherwise, back });
    }

    /// Checks the bytes of one access, which goes straight to memory where it is aligned.
    fn check_aligned(&mut self, base: Reg, off: i32, size: u8, need: Needs, otherwise: Label) {
        debug_assert!(size.is_power_of_two(), "a rotation finds addresses that are not aligned");
        // The page's number is what is left of the address without the place in the page. Where that is not aligned, bits
        // come round and make it too large: what is aligned does not leave its page, and the rest is rare.
        let asm = &mut self.asm;
        let aligned: u8 = asm.narrow(size.trailing_zeros());
        let page_shift: u8 = asm.narrow(PAGE_SIZE.trailing_zeros());
        asm.lea(TEMP2, Mem { base: x(base), index: None, disp: off });
        if aligned > 0 {
            asm.shift_imm(Width::W64, Shift::RotateRight, TEMP2, aligned);
        }
        asm.shift_imm(Width::W64, Shift::Right, TEMP2, page_shift - aligned);
        asm.alu_imm(Width::W64, Alu::Cmp, TEMP2, PAGES);
        asm.jump_if(If::AboveEqual, otherwise);
        self.check_page(need, Some(TEMP2), 0, otherwise);
    }

    /// Checks bytes of which at most those in the first page can be accessed; the page's number is in [`TEMP2`].
    pub(super) fn check_last_page(&mut self, base: Reg, bytes: Bytes, need: Needs, otherwise: Label) {
        debug_assert!(bytes.len <= PAGE_SIZE_IMM, "the bytes end in the next page at the latest");
        let asm = &mut self.asm;
        asm.lea(TEMP, Mem { base: x(base), index: None, disp: bytes.from });
        asm.alu_imm(Width::W32, Alu::And, TEMP, PAGE_SIZE_IMM - 1);
        asm.alu_imm(Width::W32, Alu::Cmp, TEMP, PAGE_SIZE_IMM - bytes.len);
        asm.jump_if(If::Above, otherwise);
        self.check_page(need, Some(TEMP2), 0, otherwise);
    }

    /// Checks that a page has the permissions that are needed: the one so many behind that in a register, or of this number.
    fn check_page(&mut self, need: Needs, register: Option<X>, page: i32, otherwise: Label) {
        for (own, _) in need.permissions() {
            self.test_page(register, page, own, otherwise);
        }
    }

    fn test_page(&mut self, register: Option<X>, page: i32, perm: Perm, otherwise: Label) {
        let perms = Mem { base: MEMORY, index: register, disp: page - PERMS_BEFORE };
        self.asm.test_byte(perms, perm.bits());
        self.asm.jump_if(If::Equal, otherwise);
    }

    /// The label of the copy of a lead. The copy of a stretch begins with its first lead.
    fn copy_of(&mut self, pc: usize, group: Group) -> Label {
        debug_assert!((group.first..group.end).contains(&pc), "a lead lies in its stretch");
        let label = self.asm.label();
        if pc == group.first {
            self.rare.push(Rare::Copy { first: pc, end: group.end });
        }
        self.copies.insert(pc, label);
        label
    }

    /// The operations from `first` to before `end` once more, each access checked alone.
    pub(super) fn copy(&mut self, first: usize, end: usize) {
        debug_assert!(
            first < end && end <= self.ops.len() && !self.copying,
            "one stretch is copied at a time"
        );
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
    fn access(&mut self, pc: usize, base: Reg, size: u8, need: Needs, body: impl FnOnce(&mut Asm, Mem)) {
        let body = |this: &mut Self, mem| body(&mut this.asm, mem);
        if let Some((from, back)) = self.checked(pc, base, size, need, body) {
            self.rare.push(Rare::Step { from, pc, back });
        }
    }

    pub(super) fn load(&mut self, pc: usize) {
        let (size, _) = load_form(self.ops[pc].code);
        let body = |this: &mut Self, mem| this.plain_load(pc, mem);
        if let Some((from, back)) = self.checked(pc, self.ops[pc].src, size, Needs::READ, body) {
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
        self.access(pc, o.dst, size, Needs::WRITE, |asm, mem| asm.store(size, mem, x(o.src)));
    }

    pub(super) fn store_imm(&mut self, pc: usize, size: u8) {
        let (o, imm) = (self.ops[pc], self.imm(pc));
        self.access(pc, o.dst, size, Needs::WRITE, |asm, mem| asm.store_imm(size, mem, imm));
    }

    /// An atomic; nothing runs beside the program, so plain instructions do.
    pub(super) fn atomic(&mut self, pc: usize, width: Width) {
        let (o, operation) = (self.ops[pc], self.imm(pc));
        let size = if width == Width::W64 { 8 } else { 4 };
        self.access(pc, o.dst, size, Needs::BOTH, |asm, mem| {
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
