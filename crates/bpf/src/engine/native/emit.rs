//! From operations to machine code, one after the other.
//!
//! BPF's registers live in machine registers, r12 points at the run ([`Vm`]), r9 at the guest's memory, before which its pages'
//! permissions lie, r10 and r11 are scratch. Instructions are counted by block: a block takes its number off `left` when it
//! is entered, and where that is not enough the rest of the function is interpreted, which ends exactly at the limit; a
//! jump out of its middle gives back what it leaves out. What is rare or concerns the host leaves the code through a few stubs. Calls of the host find r1 to r5 where
//! they are; they are kept over it only where something reads them later ([`Live`]).

use super::asm::{Alu, Asm, If, Label, Mem, Shift, Width, X};
use super::live::{ARGUMENTS, Live, Set};
use super::plan::{Check, Group, Plan};
use super::stubs::{CallStub, Stubs, behind, run, span, stubs};
use super::{FRAME_BYTES, HOT_HELPERS, MAY_GOTO_LEFT, RETURN_TO, Span, TooLong, displacement};
use crate::code::{Code, Op, OpCode, Reg};
use crate::engine::{MAY_GOTO_LIMIT, Vm};
use crate::insn::op;
use crate::memory::{ARENA_BASE, FRAME_SIZE, Memory, PAGE_COUNT, PAGE_SIZE, Perm};
use std::collections::BTreeMap;
use std::mem::offset_of;

/// Machine registers of r0 to r10: arguments where the host's functions take theirs, r6 to r9 and the frame pointer
/// where those keep them.
pub(super) const REGS: [X; 11] =
    [X::Rax, X::Rdi, X::Rsi, X::Rdx, X::Rcx, X::R8, X::Rbx, X::R13, X::R14, X::R15, X::Rbp];
/// Those that the machine's convention keeps over calls, besides the frame pointer's.
const KEPT: std::ops::RangeInclusive<usize> = 6..=9;
pub(super) const RUN: X = X::R12;
pub(super) const MEMORY: X = X::R9;
const FRAME_POINTER: X = X::Rbp;
/// Addresses, and whatever an operation needs.
pub(super) const TEMP: X = X::R10;
/// Whatever an operation needs.
const TEMP2: X = X::R11;

/// The permission byte of page `n` lies this far before the `n`th byte of the memory.
const PERMS_BEFORE: i32 = displacement(PAGE_COUNT);

/// The same numbers as operands of instructions.
const FRAME_SIZE_IMM: i32 = displacement(FRAME_SIZE as usize);
const MAY_GOTO_LIMIT_IMM: i32 = displacement(MAY_GOTO_LIMIT as usize);
const PAGE_SIZE_IMM: i32 = displacement(PAGE_SIZE as usize);

/// What compiling gives.
pub(super) struct Emitted {
    pub(super) bytes: Vec<u8>,
    /// Offsets of the ways in for the host, by number of the function.
    pub(super) entries: Vec<u32>,
    /// For each operation, how many follow it in its block.
    pub(super) after: Vec<u32>,
}

/// Code that stands behind a function's straight path.
enum Rare {
    /// An operation that the host does; `back` is behind it.
    Step { from: Label, pc: usize, back: Label },
    /// The copy of a stretch from its first lead on, in which all accesses are checked alone.
    Copy { first: usize, end: usize },
    /// A jump out of a block, whose other operations have been counted.
    Leave { from: Label, count: i32, to: Label },
    /// A block for which too few instructions are left.
    Spent { from: Label, pc: usize, count: i32 },
}

struct Emitter<'a> {
    asm: Asm,
    ops: &'a [Op],
    /// By operation.
    labels: Vec<Label>,
    after: Vec<u32>,
    leaders: Vec<bool>,
    /// By operation: whether a stretch of code begins there that is entered nowhere else.
    heads: Vec<bool>,
    plan: Plan,
    /// By operation: the label of the copy of a lead.
    copies: BTreeMap<usize, Label>,
    /// A copy is being emitted.
    copying: bool,
    live: Live,
    stubs: Stubs,
    rare: Vec<Rare>,
    /// By register: its value, where the block has set it to a number. Variables are addressed so.
    constants: [Option<u64>; REGS.len()],
}

/// Compiles all functions to at most `most` bytes.
///
/// # Errors
/// The code would be longer, or a number does not fit its field in an instruction.
pub(super) fn compile(code: &Code, most: usize) -> Result<Emitted, TooLong> {
    let ops = &code.ops[..];
    let mut asm = Asm::new(most);
    let stubs = stubs(&mut asm);
    let labels = ops.iter().map(|_| asm.label()).collect();
    let heads = heads(code);
    let leaders = leaders(code, &heads);
    let mut emitter = Emitter {
        asm,
        ops,
        labels,
        after: after(&leaders)?,
        plan: Plan::new(code, &heads),
        leaders,
        heads,
        copies: BTreeMap::new(),
        copying: false,
        live: Live::new(code),
        stubs,
        rare: Vec::new(),
        constants: [None; REGS.len()],
    };
    let mut entries = Vec::new();
    for (first, count) in code.ranges() {
        entries.push(emitter.way_in(first, count));
        for pc in first..first + count {
            emitter.asm.bind(emitter.labels[pc]);
            if emitter.heads[pc] {
                emitter.constants = [None; REGS.len()];
            }
            if emitter.leaders[pc] {
                emitter.enter_block(pc);
            }
            emitter.operation(pc);
            emitter.note_constant(pc);
            if emitter.asm.is_spoiled() {
                return Err(TooLong);
            }
        }
        emitter.finish_rare()?;
    }
    let entries = entries.into_iter().map(|entry| emitter.asm.offset(entry)).collect();
    Ok(Emitted { bytes: emitter.asm.finish()?, entries, after: emitter.after })
}

/// The operations that begin a block, which is counted at once: the heads of stretches, and what follows a loop, so that its
/// passes do not count it and give it back.
fn leaders(code: &Code, heads: &[bool]) -> Vec<bool> {
    let mut leaders = heads.to_vec();
    for (pc, op) in code.ops.iter().enumerate() {
        let goes_back = op.target().is_some_and(|target| target <= pc);
        if let Some(next) = leaders.get_mut(pc + 1) {
            *next |= goes_back;
        }
    }
    leaders
}

/// The operations at which stretches begin that are entered nowhere else: entries, targets of jumps, and what follows an
/// operation that never goes on to it or during which the host may take pages away.
fn heads(code: &Code) -> Vec<bool> {
    let mut heads = vec![false; code.ops.len() + 1];
    for (first, _) in code.ranges() {
        heads[first] = true;
    }
    for (pc, op) in code.ops.iter().enumerate() {
        if let Some(target) = op.target() {
            heads[target] = true;
        }
        heads[pc + 1] |= matches!(
            op.code,
            OpCode::CallHelper
                | OpCode::CallKfunc
                | OpCode::CallLocal
                | OpCode::CallReg
                | OpCode::Exit
                | OpCode::Ja
        );
    }
    heads.pop();
    heads
}

/// For each operation, how many follow it in its block.
fn after(leaders: &[bool]) -> Result<Vec<u32>, TooLong> {
    let mut after = vec![0u32; leaders.len()];
    for pc in (1..leaders.len()).rev() {
        if !leaders[pc] {
            after[pc - 1] = after[pc].checked_add(1).ok_or(TooLong)?;
        }
    }
    Ok(after)
}

fn x(register: Reg) -> X {
    REGS[register as usize]
}

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

/// The low 32 bits of an immediate.
fn low_half(imm: i64) -> u64 {
    imm.cast_unsigned() & u64::from(u32::MAX)
}

fn is_store(code: OpCode) -> bool {
    use OpCode::*;
    matches!(code, Store8K | Store8X | Store16K | Store16X | Store32K | Store32X | Store64K | Store64X)
}

/// An arithmetic operand: the source register, or the immediate.
#[derive(Clone, Copy)]
enum Operand {
    Reg(X),
    Imm(i32),
}

impl Emitter<'_> {
    /// The host's way into a function, like any function of the host: r1 to r5 are where they belong, the run is in the
    /// sixth argument's register. Registers that the program may read before it sets them are 0.
    fn way_in(&mut self, first: usize, count: usize) -> Label {
        let ops = &self.ops[first..first + count];
        let calls = ops.iter().any(|op| matches!(op.code, OpCode::CallLocal | OpCode::CallReg));
        let live = self.live.before(first);
        let named = ops.iter().fold(0, |named: Set, op| named | 1 << op.dst as u8 | 1 << op.src as u8);
        let used = if calls { Set::MAX } else { named };
        let mut pushed = vec![RUN, FRAME_POINTER];
        pushed.extend(KEPT.filter(|register| used >> register & 1 != 0).map(|register| REGS[register]));
        if pushed.len().is_multiple_of(2) {
            // The stack's alignment.
            pushed.push(X::Rax);
        }
        let asm = &mut self.asm;
        let here = asm.here();
        pushed.iter().for_each(|register| asm.push(*register));
        asm.mov(Width::W64, RUN, X::R9);
        asm.store(8, span(offset_of!(Span, stack)), X::Rsp);
        asm.load(8, false, FRAME_POINTER, span(offset_of!(Span, frame_pointer)));
        asm.load(8, false, MEMORY, span(offset_of!(Span, map)));
        for register in [0].into_iter().chain(KEPT).filter(|register| calls || live >> register & 1 != 0) {
            asm.mov_imm(REGS[register], 0);
        }
        asm.call(self.labels[first]);
        pushed.iter().rev().for_each(|&register| asm.pop(if register == X::Rax { X::Rcx } else { register }));
        asm.ret();
        here
    }

    fn enter_block(&mut self, pc: usize) {
        let count: i32 = self.asm.narrow(i64::from(self.after[pc]) + 1);
        let from = self.asm.label();
        self.asm.alu_imm(Width::W64, Alu::Sub, run(offset_of!(Vm<'static>, left)), count);
        self.asm.jump_if(If::Below, from);
        self.rare.push(Rare::Spent { from, pc, count });
    }

    /// Keeps `constants` true over operation `pc`.
    fn note_constant(&mut self, pc: usize) {
        let o = self.ops[pc];
        let mut set = |register: Reg, value| self.constants[register as usize] = value;
        match o.code {
            OpCode::Mov64K => set(o.dst, Some(o.imm.cast_unsigned())),
            OpCode::Mov32K => set(o.dst, Some(low_half(o.imm))),
            OpCode::Atomic32 | OpCode::Atomic64 => {
                set(o.src, None);
                set(Reg::R0, None);
            }
            // A store changes no register: its place is in `dst`.
            code if is_store(code) => {}
            _ => set(o.dst, None),
        }
    }

    /// Where operation `pc` accesses `size` bytes by register `base`, if that is known and lies within one page below
    /// 2 GiB, so that it fits a displacement.
    fn constant_address(&self, pc: usize, base: Reg, size: u8) -> Option<i32> {
        let value = self.constants[base as usize]?;
        let value = value.wrapping_add_signed(i64::from(self.ops[pc].off));
        let address = i32::try_from(value).ok()?;
        let page_left = PAGE_SIZE - value % PAGE_SIZE;
        (u64::from(size) <= page_left).then_some(address)
    }

    /// Emits what stands behind the function, which may leave more of that.
    ///
    /// # Errors
    /// The code is too long.
    fn finish_rare(&mut self) -> Result<(), TooLong> {
        while !self.rare.is_empty() {
            for rare in std::mem::take(&mut self.rare) {
                self.emit_rare(rare);
                if self.asm.is_spoiled() {
                    return Err(TooLong);
                }
            }
        }
        Ok(())
    }

    fn emit_rare(&mut self, rare: Rare) {
        match rare {
            Rare::Copy { first, end } => self.copy(first, end),
            Rare::Leave { from, count, to } => {
                self.asm.bind(from);
                self.asm.alu_imm(Width::W64, Alu::Add, run(offset_of!(Vm<'static>, left)), count);
                self.asm.jump(to);
            }
            Rare::Step { from, pc, back } => {
                self.asm.bind(from);
                self.step(pc);
                self.asm.jump(back);
            }
            Rare::Spent { from, pc, count } => {
                self.asm.bind(from);
                self.interpret_from(pc, count);
            }
        }
    }

    /// Gives the block's last `count` instructions back and leaves the rest of the function to the interpreter.
    fn interpret_from(&mut self, pc: usize, count: i32) {
        self.asm.alu_imm(Width::W64, Alu::Add, run(offset_of!(Vm<'static>, left)), count);
        self.name_operation(pc);
        self.asm.jump(self.stubs.interpret);
    }

    /// Puts the operation's index where the host's functions find it.
    fn name_operation(&mut self, pc: usize) {
        let index: i32 = self.asm.narrow(pc);
        self.asm.store_imm(4, run(offset_of!(Vm<'static>, at)), index);
    }

    /// The operation is done by the host.
    fn step(&mut self, pc: usize) {
        self.name_operation(pc);
        self.asm.call(self.stubs.step);
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
                body(
                    self,
                    match constant {
                        Some(address) => Mem { base: MEMORY, index: None, disp: address },
                        None => Mem { base: MEMORY, index: Some(x(base)), disp: off },
                    },
                );
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
            body(self, Mem { base: MEMORY, index: None, disp: address });
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
        body(self, Mem { base: MEMORY, index: Some(x(base)), disp: off });
        self.asm.bind(back);
        Some((slow, back))
    }

    /// Checks the bytes of a group for its lead, operation `pc`, which accesses memory by `base`.
    fn check_group(&mut self, pc: usize, base: Reg, group: Group) {
        let copy = self.copy_of(pc, group);
        let asm = &mut self.asm;
        let needs = [(group.reads, Perm::READ), (group.writes, Perm::WRITE)];
        let needs = needs.into_iter().filter(|(needed, _)| *needed).map(|(_, perm)| perm);
        if group.constant {
            let page = group.from / PAGE_SIZE_IMM;
            for perm in needs {
                asm.test_byte(Mem { base: MEMORY, index: None, disp: page - PERMS_BEFORE }, perm.bits());
                asm.jump_if(If::Equal, copy);
            }
            return;
        }
        asm.lea(TEMP2, Mem { base: x(base), index: None, disp: group.from });
        asm.mov(Width::W32, TEMP, TEMP2);
        asm.alu_imm(Width::W32, Alu::And, TEMP, PAGE_SIZE_IMM - 1);
        asm.alu_imm(Width::W32, Alu::Cmp, TEMP, PAGE_SIZE_IMM - group.len);
        asm.jump_if(If::Above, copy);
        let page_shift: u8 = asm.narrow(PAGE_SIZE.trailing_zeros());
        asm.shift_imm(Width::W64, Shift::Right, TEMP2, page_shift);
        asm.alu_imm(Width::W64, Alu::Cmp, TEMP2, PERMS_BEFORE);
        asm.jump_if(If::AboveEqual, copy);
        for perm in needs {
            asm.test_byte(Mem { base: MEMORY, index: Some(TEMP2), disp: -PERMS_BEFORE }, perm.bits());
            asm.jump_if(If::Equal, copy);
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
    fn copy(&mut self, first: usize, end: usize) {
        self.copying = true;
        self.constants = [None; REGS.len()];
        for pc in first..end {
            if pc != first && self.leaders[pc] {
                self.enter_block(pc);
            }
            if let Some(label) = self.copies.get(&pc) {
                self.asm.bind(*label);
            }
            self.operation(pc);
            self.note_constant(pc);
            if self.asm.is_spoiled() {
                break;
            }
        }
        self.copying = false;
        if !matches!(self.ops[end - 1].code, OpCode::Exit | OpCode::Ja | OpCode::CallReg) {
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

    fn load(&mut self, pc: usize) {
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

    fn store(&mut self, pc: usize, size: u8) {
        let o = self.ops[pc];
        self.access(pc, o.dst, size, &[Perm::WRITE], |asm, mem| asm.store(size, mem, x(o.src)));
    }

    fn store_imm(&mut self, pc: usize, size: u8) {
        let (o, imm) = (self.ops[pc], self.imm(pc));
        self.access(pc, o.dst, size, &[Perm::WRITE], |asm, mem| asm.store_imm(size, mem, imm));
    }

    /// An atomic; nothing runs beside the program, so plain instructions do.
    fn atomic(&mut self, pc: usize, width: Width) {
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

    fn alu(&mut self, width: Width, operation: Alu, dst: X, operand: Operand) {
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

    /// Where operation `pc` jumps to: the operation there, by way of giving back what its block has counted too much.
    fn target(&mut self, pc: usize) -> Label {
        let to = self.labels[self.ops[pc].target().expect("a jump has a target")];
        let count: i32 = self.asm.narrow(self.after[pc]);
        if count == 0 {
            return to;
        }
        let from = self.asm.label();
        self.rare.push(Rare::Leave { from, count, to });
        from
    }

    /// The immediate of operation `pc`, of 32 bits in all that ask for it.
    fn imm(&mut self, pc: usize) -> i32 {
        self.asm.narrow(self.ops[pc].imm)
    }

    /// Leaves the loop when its passes are used up, else takes one off.
    fn may_goto(&mut self, pc: usize) {
        let left = Mem { base: TEMP, index: None, disp: displacement(MAY_GOTO_LEFT) - FRAME_BYTES };
        self.asm.load(8, false, TEMP, span(offset_of!(Span, frame)));
        self.asm.alu_imm(Width::W64, Alu::Cmp, left, 0);
        let target = self.target(pc);
        self.asm.jump_if(If::Equal, target);
        self.asm.alu_imm(Width::W64, Alu::Sub, left, 1);
    }

    fn call_local(&mut self, pc: usize) {
        let callee = self.asm.narrow::<_, u32>(self.ops[pc].imm);
        let callee = self.labels[callee as usize];
        let return_to: i32 = self.asm.narrow(pc + 1);
        let (too_deep, back) = (self.asm.label(), self.asm.label());
        self.rare.push(Rare::Step { from: too_deep, pc, back });
        let frame = span(offset_of!(Span, frame));
        let mut kept: Vec<X> = vec![];
        let live = self.live.after(pc);
        kept.extend(KEPT.filter(|register| live >> register & 1 != 0).map(|register| REGS[register]));
        if kept.len().is_multiple_of(2) {
            // The stack's alignment.
            kept.push(FRAME_POINTER);
        }
        let asm = &mut self.asm;
        asm.load(8, false, TEMP, frame);
        asm.cmp_mem(TEMP, span(offset_of!(Span, frames_end)));
        asm.jump_if(If::AboveEqual, too_deep);
        asm.store_imm(8, behind(TEMP, RETURN_TO), return_to);
        asm.store_imm(8, behind(TEMP, MAY_GOTO_LEFT), MAY_GOTO_LIMIT_IMM);
        asm.alu_imm(Width::W64, Alu::Add, frame, FRAME_BYTES);
        Self::count_frame(asm, Alu::Add);
        kept.iter().for_each(|register| asm.push(*register));
        asm.alu_imm(Width::W64, Alu::Sub, FRAME_POINTER, FRAME_SIZE_IMM);
        asm.call(callee);
        asm.alu_imm(Width::W64, Alu::Add, FRAME_POINTER, FRAME_SIZE_IMM);
        kept.iter().rev().for_each(|register| asm.pop(*register));
        Self::count_frame(asm, Alu::Sub);
        asm.alu_imm(Width::W64, Alu::Sub, frame, FRAME_BYTES);
        asm.bind(back);
    }

    /// Counts a frame more or less where the host sees it.
    fn count_frame(asm: &mut Asm, operation: Alu) {
        asm.load(8, false, TEMP, run(offset_of!(Vm<'static>, mem)));
        asm.alu_imm(Width::W32, operation, behind(TEMP, Memory::FRAMES_USED_AT), 1);
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

    fn call_helper(&mut self, pc: usize) {
        let hot = HOT_HELPERS.iter().position(|id| i64::from(*id) == self.ops[pc].imm);
        match hot {
            Some(index) => self.call_host(pc, self.stubs.hot_helpers[index]),
            None => self.call_numbered(pc, self.stubs.helper),
        }
    }

    /// Calls the host for the function with the operation's number.
    fn call_numbered(&mut self, pc: usize, stub: CallStub) {
        // The field is of 32 bits, whatever they mean.
        let number: u32 = self.asm.narrow(self.ops[pc].imm);
        self.asm.store_imm(4, span(offset_of!(Span, number)), number.cast_signed());
        self.call_host(pc, stub);
    }

    /// Calls the host, and keeps r1 to r5 where somebody reads them later.
    fn call_host(&mut self, pc: usize, stub: CallStub) {
        self.name_operation(pc);
        let kept = self.live.after(pc) & ARGUMENTS != 0;
        self.asm.call(if kept { stub.keeping } else { stub.plain });
    }

    /// One operation; a line for each kind here and in the two tables below.
    #[rustfmt::skip]
    fn operation(&mut self, pc: usize) {
        use OpCode::*;
        match self.ops[pc].code {
            Load8 | Load16 | Load32 | Load64 | Loads8 | Loads16 | Loads32 => self.load(pc),
            Store8K => self.store_imm(pc, 1), Store16K => self.store_imm(pc, 2),
            Store32K => self.store_imm(pc, 4), Store64K => self.store_imm(pc, 8),
            Store8X => self.store(pc, 1), Store16X => self.store(pc, 2),
            Store32X => self.store(pc, 4), Store64X => self.store(pc, 8),
            Atomic32 => self.atomic(pc, Width::W32), Atomic64 => self.atomic(pc, Width::W64),

            CallHelper => self.call_helper(pc), CallKfunc => self.call_numbered(pc, self.stubs.kfunc),
            CallLocal => self.call_local(pc),
            // A call through a register is rare outside of helpers, which make it themselves.
            CallReg => self.interpret_from(pc, 1),
            Exit => self.asm.ret(),
            FuncPointer => unreachable!("linked by CodeBuilder::build"),
            _ if self.ops[pc].is_jump() => self.jump_operation(pc),
            _ => self.arithmetic(pc),
        }
    }

    #[rustfmt::skip]
    fn jump_operation(&mut self, pc: usize) {
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

    #[rustfmt::skip]
    fn arithmetic(&mut self, pc: usize) {
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
