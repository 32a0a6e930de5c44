//! From operations to machine code, one after the other.
//!
//! BPF's registers live in machine registers, r12 points at the run ([`Vm`]), r9 at the guest's memory, before which its pages'
//! permissions lie, r10 and r11 are scratch. Instructions are counted by region ([`Counts`]): one takes its longest way off `left`
//! when it begins, and where that is not enough the rest of the function is interpreted, which ends exactly at the limit; a
//! step to a shorter way gives back what it leaves out. What is rare or concerns the host leaves the code through a few stubs. Calls of the host find r1 to r5 where
//! they are; they are kept over it only where something reads them later ([`Live`]).

mod access;
mod arithmetic;
mod jumps;

use super::asm::{Alu, Asm, If, Label, Mem, Width, X};
use super::count::{Counts, goes_on};
use super::live::{ARGUMENTS, Live, Set};
use super::plan::Plan;
use super::stubs::{CallStub, Stubs, behind, run, span, stubs};
use super::{
    CPU_NUMBER, FRAME_BYTES, HOT_HELPERS, MAY_GOTO_LEFT, RETURN_TO, Span, TooLong, displacement, lines,
};
use crate::code::{ArrayPlace, Arrays, Code, Op, OpCode, Reg};
use crate::engine::{KEEPS_PAGES, MAY_GOTO_LIMIT, Vm};
use crate::memory::{FRAME_SIZE, Memory, NO_LINES, PAGE_COUNT, PAGE_SIZE, PERM_BYTES};
use access::{Bytes, Needs};
use std::collections::BTreeMap;
use std::mem::offset_of;

/// Machine registers of r0 to r10: arguments where the host's functions take theirs, r6 to r9 and the frame pointer
/// where those keep them.
pub(super) const REGS: [X; 11] =
    [X::Rax, X::Rdi, X::Rsi, X::Rdx, X::Rcx, X::R8, X::Rbx, X::R13, X::R14, X::R15, X::Rbp];
/// The registers that the machine's convention keeps over calls, besides the frame pointer's.
const KEPT: std::ops::RangeInclusive<usize> = 6..=9;
pub(super) const RUN: X = X::R12;
pub(super) const MEMORY: X = X::R9;
const FRAME_POINTER: X = X::Rbp;
/// Addresses, and whatever an operation needs.
pub(super) const TEMP: X = X::R10;
/// Whatever an operation needs.
pub(super) const TEMP2: X = X::R11;

/// The permission byte of page `n` lies this far before the `n`th byte of the memory.
const PERMS_BEFORE: i32 = displacement(PERM_BYTES);
/// The number of pages.
const PAGES: i32 = displacement(PAGE_COUNT);

/// These numbers as operands of instructions.
const FRAME_SIZE_IMM: i32 = displacement(FRAME_SIZE as usize);
const MAY_GOTO_LIMIT_IMM: i32 = displacement(MAY_GOTO_LIMIT as usize);
const PAGE_SIZE_IMM: i32 = displacement(PAGE_SIZE as usize);

/// The passes that are left at the `may_goto` instructions of the running function, whose end of its frame is in [`TEMP`].
const PASSES_LEFT: Mem = Mem { base: TEMP, index: None, disp: displacement(MAY_GOTO_LEFT) - FRAME_BYTES };

/// What compiling gives.
pub(super) struct Emitted {
    pub(super) bytes: Vec<u8>,
    /// Offsets of the ways in for the host, by number of the function.
    pub(super) entries: Vec<u32>,
    /// For each operation, how far the count is ahead while it runs.
    pub(super) ahead: Vec<u32>,
}

/// Code that stands behind a function's straight path.
pub(super) enum Rare {
    /// An operation that the host does; `back` is behind it.
    Step { from: Label, pc: usize, back: Label },
    /// The copy of a stretch from its first lead on, in which all accesses are checked alone.
    Copy { first: usize, end: usize },
    /// A jump to a shorter way than has been counted.
    Leave { from: Label, count: i32, to: Label },
    /// The page behind the one in which these bytes begin, whose number is in [`TEMP2`], lacks a permission that they need:
    /// they may lie in the first one alone.
    LastPage { from: Label, base: Reg, bytes: Bytes, need: Needs, otherwise: Label, back: Label },
    /// The passes of a loop were used up already.
    LastPass { from: Label, to: Label },
    /// A look-up that finds nothing.
    Null { from: Label, back: Label },
    /// A region for which too few instructions are left, what relies on checks that were not made, or a call that is refused.
    Spent { from: Label, pc: usize, count: i32 },
    /// An access whose line the running CPU lacks, or must take from others.
    Line { from: Label, pc: usize, write: bool, back: Label },
}

pub(super) struct Emitter<'a> {
    pub(super) asm: Asm,
    ops: &'a [Op],
    arrays: Option<&'a Arrays>,
    /// Slots of kernel functions, by index.
    direct: &'a [Option<u8>],
    /// Pages that hold arrays, first and behind the last, in order: programs can read them for as long as they exist.
    readable: Vec<(u64, u64)>,
    /// By operation.
    labels: Vec<Label>,
    counts: Counts,
    /// By operation: whether a stretch of code begins there that is entered nowhere else.
    heads: Vec<bool>,
    pub(super) plan: Plan,
    /// Binary logarithm of a line's bytes, where lines are followed.
    pub(super) line_shift: u8,
    /// By operation: the label of the copy of a lead.
    copies: BTreeMap<usize, Label>,
    /// A copy is being emitted.
    copying: bool,
    live: Live,
    pub(super) stubs: Stubs,
    pub(super) rare: Vec<Rare>,
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
    let stubs = stubs(&mut asm, code.line_shift != NO_LINES, &code.direct);
    let labels = ops.iter().map(|_| asm.label()).collect();
    let heads = heads(code);
    let plan = Plan::new(code, &heads);
    let arrays = code.arrays.as_ref();
    let counts = Counts::new(code, |pc| answer(ops, arrays, &plan, pc).is_some())?;
    let mut emitter = Emitter {
        asm,
        ops,
        arrays,
        direct: &code.direct,
        readable: pages_of(arrays),
        labels,
        counts,
        plan,
        line_shift: code.line_shift,
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
            emitter.begin_region(pc);
            emitter.operation(pc);
            emitter.go_on(pc);
            emitter.note_constant(pc);
            if emitter.asm.is_spoiled() {
                return Err(TooLong);
            }
        }
        emitter.finish_rare()?;
    }
    debug_assert_eq!(entries.len(), code.ranges().count(), "each function has a way in");
    let entries = entries.into_iter().map(|entry| emitter.asm.offset(entry)).collect();
    let ahead = (0..ops.len()).map(|pc| emitter.counts.ahead(pc)).collect();
    Ok(Emitted { bytes: emitter.asm.finish()?, entries, ahead })
}

/// The pages of the object's arrays.
fn pages_of(arrays: Option<&Arrays>) -> Vec<(u64, u64)> {
    let pages = |array: &ArrayPlace| {
        let end = array.base + array.stride * u64::from(array.entries);
        debug_assert!(array.base.is_multiple_of(PAGE_SIZE), "an array begins at a page");
        (array.base / PAGE_SIZE, end.div_ceil(PAGE_SIZE))
    };
    let mut found: Vec<_> = arrays.into_iter().flat_map(|arrays| arrays.values().map(pages)).collect();
    found.sort_unstable();
    found
}

/// How code answers a helper without the host.
#[derive(Clone, Copy)]
enum Answer {
    CpuNumber,
    Element(Element),
}

/// The element of an array whose index lies at a distance from the frame pointer; all numbers fit their fields.
#[derive(Clone, Copy)]
struct Element {
    key: i32,
    base: u64,
    entries: i32,
    stride: i32,
    cpu_stride: i32,
}

/// How the code answers the helper that operation `pc` calls; nothing where the host does.
fn answer(ops: &[Op], arrays: Option<&Arrays>, plan: &Plan, pc: usize) -> Option<Answer> {
    let arrays = arrays?;
    if ops[pc].imm == i64::from(CPU_NUMBER) {
        return Some(Answer::CpuNumber);
    }
    let lookup = plan.lookup(pc)?;
    let &ArrayPlace { base, stride, entries, cpu_stride } = arrays.get(&lookup.map)?;
    let field = |number: u64| i32::try_from(number).ok();
    let (entries, stride) = (field(u64::from(entries))?, field(stride)?);
    let cpu_stride = field(cpu_stride)?;
    Some(Answer::Element(Element { key: lookup.key, base, entries, stride, cpu_stride }))
}

/// The operations at which stretches begin that are entered nowhere else: entries, targets of jumps, and what follows an
/// operation that never falls through to it or during which the host may take pages away.
fn heads(code: &Code) -> Vec<bool> {
    let mut heads = vec![false; code.ops.len() + 1];
    for (first, _) in code.ranges() {
        heads[first] = true;
    }
    for (pc, op) in code.ops.iter().enumerate() {
        if let Some(target) = op.target() {
            heads[target] = true;
        }
        heads[pc + 1] |= match op.code {
            OpCode::CallHelper => !KEEPS_PAGES.iter().any(|id| i64::from(*id) == op.imm),
            OpCode::CallKfunc | OpCode::CallLocal | OpCode::CallReg | OpCode::Exit | OpCode::Ja => true,
            _ => false,
        };
    }
    heads.pop();
    heads
}

fn x(register: Reg) -> X {
    REGS[register as usize]
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
        debug_assert!(count > 0, "a function has operations");
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
        debug_assert!(!pushed.len().is_multiple_of(2), "the stack is aligned where the host is called");
        let asm = &mut self.asm;
        let here = asm.here();
        pushed.iter().for_each(|register| asm.push(*register));
        asm.mov(Width::W64, RUN, X::R9);
        asm.store(8, span(offset_of!(Span, stack)), X::Rsp);
        asm.load(8, false, FRAME_POINTER, span(offset_of!(Span, frame_pointer)));
        asm.load(8, false, MEMORY, span(offset_of!(Span, map)));
        if self.line_shift != NO_LINES {
            lines::enter(asm);
        }
        for register in [0].into_iter().chain(KEPT).filter(|register| live >> register & 1 != 0) {
            asm.mov_imm(REGS[register], 0);
        }
        asm.call(self.labels[first]);
        pushed.iter().rev().for_each(|&register| asm.pop(if register == X::Rax { X::Rcx } else { register }));
        asm.ret();
        here
    }

    /// Counts the region that begins at operation `pc`, if one does.
    fn begin_region(&mut self, pc: usize) {
        let Some(taken) = self.counts.taken(pc) else { return };
        debug_assert!(taken > 0, "a region counts its operations");
        let count: i32 = self.asm.narrow(taken);
        let from = self.asm.label();
        self.asm.alu_imm(Width::W64, Alu::Sub, run(offset_of!(Vm<'static>, left)), count);
        self.asm.jump_if(If::Below, from);
        self.rare.push(Rare::Spent { from, pc, count });
    }

    /// Gives back what the way from operation `pc` to the next one leaves out.
    fn go_on(&mut self, pc: usize) {
        if goes_on(&self.ops[pc]) {
            let count: i32 = self.asm.narrow(self.counts.given_back(pc, pc + 1));
            if count > 0 {
                self.asm.alu_imm(Width::W64, Alu::Add, run(offset_of!(Vm<'static>, left)), count);
            }
        }
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
            Rare::LastPass { from, to } => {
                self.asm.bind(from);
                self.asm.alu_imm(Width::W64, Alu::Add, PASSES_LEFT, 1);
                self.asm.jump(to);
            }
            Rare::Null { from, back } => {
                self.asm.bind(from);
                self.asm.mov_imm(x(Reg::R0), 0);
                self.asm.jump(back);
            }
            Rare::LastPage { from, base, bytes, need, otherwise, back } => {
                self.asm.bind(from);
                self.check_last_page(base, bytes, need, otherwise);
                self.asm.jump(back);
            }
            Rare::Spent { from, pc, count } => {
                self.asm.bind(from);
                self.interpret_from(pc, count);
            }
            Rare::Line { from, pc, write, back } => self.line_elsewhere(from, pc, write, back),
        }
    }

    /// Gives `count` instructions back and leaves the rest of the function to the interpreter.
    fn interpret_from(&mut self, pc: usize, count: i32) {
        debug_assert!(pc < self.ops.len() && count >= 0, "the interpreter continues at an operation");
        self.asm.alu_imm(Width::W64, Alu::Add, run(offset_of!(Vm<'static>, left)), count);
        self.name_operation(pc);
        self.asm.jump(self.stubs.interpret);
    }

    /// Puts the operation's index where the host's functions find it.
    pub(super) fn name_operation(&mut self, pc: usize) {
        debug_assert!(pc < self.ops.len(), "the operation is one of the image");
        let index: i32 = self.asm.narrow(pc);
        self.asm.store_imm(4, run(offset_of!(Vm<'static>, at)), index);
    }

    /// The operation is done by the host.
    fn step(&mut self, pc: usize) {
        self.name_operation(pc);
        self.asm.call(self.stubs.step);
    }

    /// The immediate of operation `pc`, of 32 bits in all that ask for it.
    fn imm(&mut self, pc: usize) -> i32 {
        self.asm.narrow(self.ops[pc].imm)
    }

    /// Leaves the loop when its passes are used up, else takes one off.
    fn may_goto(&mut self, pc: usize) {
        let from = self.asm.label();
        self.asm.load(8, false, TEMP, span(offset_of!(Span, frame)));
        self.asm.alu_imm(Width::W64, Alu::Sub, PASSES_LEFT, 1);
        self.asm.jump_if(If::Below, from);
        let to = self.target(pc);
        self.rare.push(Rare::LastPass { from, to });
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
        debug_assert!(!kept.len().is_multiple_of(2), "the stack is aligned in the callee");
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

    fn call_helper(&mut self, pc: usize) {
        if self.answer_in_line(pc).is_some() {
            return;
        }
        let hot = HOT_HELPERS.iter().position(|id| i64::from(*id) == self.ops[pc].imm);
        match hot {
            Some(index) => self.call_host(pc, self.stubs.hot_helpers[index]),
            None => self.call_numbered(pc, self.stubs.helper),
        }
    }

    /// Answers a helper without the host, where that can be.
    fn answer_in_line(&mut self, pc: usize) -> Option<()> {
        let answer = answer(self.ops, self.arrays, &self.plan, pc)?;
        self.unless_locked(pc);
        match answer {
            Answer::CpuNumber => self.asm.load(4, false, x(Reg::R0), span(offset_of!(Span, cpu))),
            Answer::Element(element) => self.look_up(element),
        }
        self.asm.alu_imm(Width::W64, Alu::Add, span(offset_of!(Span, answered)), 1);
        Some(())
    }

    /// While the program holds a lock it may not call the helper: the host says so.
    fn unless_locked(&mut self, pc: usize) {
        let (from, count) = (self.asm.label(), self.asm.narrow(i64::from(self.counts.ahead(pc)) + 1));
        self.asm.alu_imm(Width::W32, Alu::Cmp, run(offset_of!(Vm<'static>, locks)), 0);
        self.asm.jump_if(If::NotEqual, from);
        self.rare.push(Rare::Spent { from, pc, count });
    }

    /// Sets r0 to the address of an element, or to NULL.
    fn look_up(&mut self, element: Element) {
        let Element { key, base, entries, stride, cpu_stride } = element;
        debug_assert!(entries > 0 && stride > 0, "an array has elements, and they have bytes");
        let (r0, asm) = (x(Reg::R0), &mut self.asm);
        let (from, back) = (asm.label(), asm.label());
        asm.load(4, false, r0, Mem { base: MEMORY, index: Some(FRAME_POINTER), disp: key });
        asm.alu_imm(Width::W32, Alu::Cmp, r0, entries);
        asm.jump_if(If::AboveEqual, from);
        asm.mul_imm(Width::W64, r0, stride);
        if cpu_stride != 0 {
            asm.load(4, false, TEMP, span(offset_of!(Span, cpu)));
            asm.mul_imm(Width::W64, TEMP, cpu_stride);
            asm.alu(Width::W64, Alu::Add, r0, TEMP);
        }
        asm.mov_imm(TEMP, base);
        asm.alu(Width::W64, Alu::Add, r0, TEMP);
        asm.bind(back);
        self.rare.push(Rare::Null { from, back });
    }

    fn call_kfunc(&mut self, pc: usize) {
        let index = usize::try_from(self.ops[pc].imm).ok();
        let slot = index.and_then(|index| self.direct.get(index).copied().flatten());
        let direct = slot.and_then(|slot| self.stubs.direct_kfuncs[usize::from(slot)]);
        match direct {
            // It knows what is called.
            Some(stub) => self.call_host(pc, stub),
            None => self.call_numbered(pc, self.stubs.kfunc),
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

            CallHelper => self.call_helper(pc), CallKfunc => self.call_kfunc(pc),
            CallLocal => self.call_local(pc),
            // A call through a register is rare outside of helpers, which make it themselves.
            CallReg => self.interpret_from(pc, 1),
            Exit => self.asm.ret(),
            FuncPointer => unreachable!("linked by CodeBuilder::build"),
            _ if self.ops[pc].is_jump() => self.jump_operation(pc),
            _ => self.arithmetic(pc),
        }
    }
}
