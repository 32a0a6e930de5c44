//! Machine code that asks whether the running CPU's cache has the line of an access: see `memory/lines.rs` for the rules.
//!
//! Emitted for an image that follows lines, and for no other. The question is the test of a mask against the line's word,
//! after the access has been checked and before it is made; what is not there goes to the host.

use super::asm::{Alu, Asm, If, Label, Mem, Shift, Width, X};
use super::emit::{Emitter, MEMORY, RUN, Rare, TEMP, TEMP2};
use super::stubs::{behind, call_out, run, span};
use super::{CallOuts, Span};
use crate::engine::Vm;
use crate::memory::{Memory, NO_LINES, View};
use std::mem::offset_of;

/// What compiled code calls for a line that is not there: with the run, the host's address of the line's word, and whether
/// the access writes.
pub(super) type LineMissed = unsafe extern "sysv64" fn(*mut Vm<'_>, u64, u64);

/// Registers of the machine that a call of the host may change and that hold the program's.
const LOST: [X; 6] = [X::Rax, X::Rdi, X::Rsi, X::Rdx, X::Rcx, X::R8];

/// Binary logarithm of the bytes of a line's word.
const WORD_SHIFT: u8 = size_of::<u64>().trailing_zeros() as u8;

/// Takes what the memory says of lines into the span, where code finds it sooner.
pub(super) fn enter(asm: &mut Asm) {
    asm.load(8, false, TEMP, run(offset_of!(Vm<'static>, mem)));
    for member in [offset_of!(View, words), offset_of!(View, others), offset_of!(View, own)] {
        asm.load(8, false, TEMP2, behind(TEMP, Memory::LINE_VIEW_AT + member));
        asm.store(8, span(offset_of!(Span, lines) + member), TEMP2);
    }
}

/// A stub that tells the host of a line whose word's address is in [`TEMP2`].
pub(super) fn stub(asm: &mut Asm, write: bool) -> Label {
    let here = asm.here();
    LOST.iter().for_each(|register| asm.push(*register));
    asm.mov(Width::W64, X::Rdi, RUN);
    asm.mov(Width::W64, X::Rsi, TEMP2);
    asm.mov_imm(X::Rdx, u64::from(write));
    call_out(asm, offset_of!(CallOuts, line));
    LOST.iter().rev().for_each(|register| asm.pop(*register));
    asm.load(8, false, MEMORY, span(offset_of!(Span, map)));
    asm.ret();
    here
}

impl Emitter<'_> {
    /// Asks for the line of operation `pc`'s access to `place`, which has been checked.
    pub(super) fn touch(&mut self, pc: usize, place: Mem, write: bool) {
        if self.line_shift == NO_LINES || self.plan.has_line(pc) {
            return;
        }
        debug_assert!(self.line_shift >= WORD_SHIFT, "a line has a word at least");
        let shift = self.line_shift - WORD_SHIFT;
        let asm = &mut self.asm;
        let view = |member| span(offset_of!(Span, lines) + member);
        match place.index {
            Some(base) => {
                asm.lea(TEMP2, Mem { base, index: None, disp: place.disp });
                asm.shift_imm(Width::W64, Shift::Right, TEMP2, shift);
                asm.alu_imm(Width::W64, Alu::And, TEMP2, -(1 << WORD_SHIFT));
                asm.add_mem(TEMP2, view(offset_of!(View, words)));
            }
            None => {
                asm.load(8, false, TEMP2, view(offset_of!(View, words)));
                let distance = place.disp >> shift & -(1 << WORD_SHIFT);
                asm.alu_imm(Width::W64, Alu::Add, TEMP2, distance);
            }
        }
        let word = Mem { base: TEMP2, index: None, disp: 0 };
        let (from, back) = (asm.label(), asm.label());
        if write {
            asm.load(8, false, TEMP, view(offset_of!(View, others)));
            asm.alu(Width::W64, Alu::Cmp, word, TEMP);
        } else {
            asm.load(8, false, TEMP, view(offset_of!(View, own)));
            asm.test(Width::W64, word, TEMP);
        }
        asm.jump_if(If::NotEqual, from);
        asm.bind(back);
        self.rare.push(Rare::Line { from, pc, write, back });
    }

    /// What follows where the line is not here.
    pub(super) fn line_elsewhere(&mut self, from: Label, pc: usize, write: bool, back: Label) {
        let stubs = self.stubs.lines.expect("an image that follows lines has these stubs");
        self.asm.bind(from);
        self.name_operation(pc);
        self.asm.call(stubs[usize::from(write)]);
        self.asm.jump(back);
    }
}

/// Takes a line to the running CPU.
///
/// # Safety
/// `vm` is that of a run whose code waits for the caller, and `word` the address of one of its memory's words.
pub(super) unsafe extern "sysv64" fn missed(vm: *mut Vm<'_>, word: u64, write: u64) {
    // SAFETY: the run's code waits for us, and `enter`, which has lent `vm`, waits for that.
    let vm = unsafe { &mut *vm };
    debug_assert!(write <= 1, "the flag is 0 or 1");
    vm.mem.line_missed(word, write != 0, vm.at);
}
