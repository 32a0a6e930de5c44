//! The code that all functions share: ways to the host and back.

use super::asm::{Alu, Asm, If, Label, Mem, Width, X};
use super::emit::{MEMORY, REGS, RUN, TEMP};
use super::{CallOuts, HOT_HELPERS, HostCall, Span, displacement, lines};
use crate::engine::{DIRECT_KFUNCS, Vm};
use std::mem::offset_of;

/// Where stubs begin.
pub(super) struct Stubs {
    /// Does one operation in the host and continues behind the call.
    pub(super) step: Label,
    /// Call the helper or kernel function whose number the run has.
    pub(super) helper: CallStub,
    pub(super) kfunc: CallStub,
    /// Call the kernel functions of these slots; nothing for those that the code does not call.
    pub(super) direct_kfuncs: [Option<CallStub>; DIRECT_KFUNCS],
    /// Call these helpers.
    pub(super) hot_helpers: [CallStub; HOT_HELPERS.len()],
    /// Interprets the rest of the function, then returns from it.
    pub(super) interpret: Label,
    /// Tell that a line is not here, for a load and for a store; nothing where nobody follows lines.
    pub(super) lines: Option<[Label; 2]>,
}

/// Two ways to call the host.
#[derive(Clone, Copy)]
pub(super) struct CallStub {
    /// Leaves anything in r1 to r5.
    pub(super) plain: Label,
    /// Keeps them.
    pub(super) keeping: Label,
}

/// A member of the run.
pub(super) fn run(offset: usize) -> Mem {
    Mem { base: RUN, index: None, disp: displacement(offset) }
}

/// A member of its span.
pub(super) fn span(offset: usize) -> Mem {
    run(offset_of!(Vm<'static>, span) + offset)
}

/// A member of what `base` points at.
pub(super) fn behind(base: X, offset: usize) -> Mem {
    Mem { base, index: None, disp: displacement(offset) }
}

/// Saves registers where the host finds them.
fn save(asm: &mut Asm, registers: std::ops::RangeInclusive<usize>) {
    debug_assert!(*registers.end() < REGS.len(), "the guest has these registers");
    asm.load(8, false, TEMP, span(offset_of!(Span, regs)));
    for register in registers {
        asm.store(8, behind(TEMP, 8 * register), REGS[register]);
    }
}

fn restore(asm: &mut Asm, registers: std::ops::RangeInclusive<usize>) {
    debug_assert!(*registers.end() < REGS.len(), "the guest has these registers");
    asm.load(8, false, TEMP, span(offset_of!(Span, regs)));
    for register in registers {
        asm.load(8, false, REGS[register], behind(TEMP, 8 * register));
    }
}

/// Calls a host's function, a member of [`CallOuts`].
pub(super) fn call_out(asm: &mut Asm, function: usize) {
    asm.load(8, false, TEMP, span(offset_of!(Span, outs)));
    asm.call_indirect(behind(TEMP, function));
}

/// The stubs that call a helper or kernel function by this member of [`CallOuts`].
fn call_stubs(asm: &mut Asm, stopped: Label, function: usize) -> CallStub {
    let [plain, keeping] = [false, true].map(|keeps| call_stub(asm, stopped, function, keeps));
    CallStub { plain, keeping }
}

fn call_stub(asm: &mut Asm, stopped: Label, function: usize, keeps: bool) -> Label {
    let here = asm.here();
    if keeps {
        save(asm, 1..=5);
    }
    asm.mov(Width::W64, X::R9, RUN);
    call_out(asm, function);
    asm.test(Width::W32, X::Rdx, X::Rdx);
    asm.jump_if(If::NotEqual, stopped);
    if keeps {
        restore(asm, 1..=5);
    }
    asm.load(8, false, MEMORY, span(offset_of!(Span, map)));
    asm.ret();
    here
}

/// The code that all functions share.
pub(super) fn stubs(asm: &mut Asm, follows_lines: bool, direct: &[Option<u8>]) -> Stubs {
    debug_assert!(
        direct.iter().flatten().all(|slot| usize::from(*slot) < DIRECT_KFUNCS),
        "a direct kernel function has a slot"
    );
    // Something stopped the run: all of the program's frames end, and its way in continues behind its call.
    let stopped = asm.here();
    asm.load(8, false, X::Rsp, span(offset_of!(Span, stack)));
    asm.alu_imm(Width::W64, Alu::Sub, X::Rsp, 8);
    asm.ret();

    let helper = call_stubs(asm, stopped, offset_of!(CallOuts, helper));
    let kfunc = call_stubs(asm, stopped, offset_of!(CallOuts, kfunc));
    let hot_helpers = std::array::from_fn(|index| {
        let function = offset_of!(CallOuts, hot_helpers) + index * size_of::<HostCall>();
        call_stubs(asm, stopped, function)
    });

    let direct_kfuncs = std::array::from_fn(|slot| {
        let function = offset_of!(CallOuts, direct_kfuncs) + slot * size_of::<HostCall>();
        let called = direct.iter().flatten().any(|other| usize::from(*other) == slot);
        called.then(|| call_stubs(asm, stopped, function))
    });

    let step = asm.here();
    save(asm, 0..=10);
    asm.mov(Width::W64, X::Rdi, RUN);
    call_out(asm, offset_of!(CallOuts, step));
    let otherwise = asm.label();
    asm.test(Width::W32, X::Rax, X::Rax);
    asm.jump_if(If::NotEqual, otherwise);
    restore(asm, 0..=9);
    asm.load(8, false, MEMORY, span(offset_of!(Span, map)));
    asm.ret();
    asm.bind(otherwise);
    asm.alu_imm(Width::W32, Alu::Cmp, X::Rax, 1);
    asm.jump_if(If::Equal, stopped);
    // The step used up what was left: the place to continue at is in the span, and the return address is dropped.
    asm.load(4, false, TEMP, span(offset_of!(Span, resume_at)));
    asm.store(4, run(offset_of!(Vm<'static>, at)), TEMP);
    asm.pop(X::Rcx);
    let saved_already = asm.label();
    asm.jump(saved_already);

    let interpret = asm.here();
    save(asm, 0..=10);
    asm.bind(saved_already);
    // The function's frame is as at its entry: one word above the alignment.
    asm.push(X::Rax);
    asm.mov(Width::W64, X::Rdi, RUN);
    call_out(asm, offset_of!(CallOuts, interpret));
    asm.pop(X::Rcx);
    asm.test(Width::W32, X::Rax, X::Rax);
    asm.jump_if(If::NotEqual, stopped);
    restore(asm, 0..=9);
    asm.load(8, false, MEMORY, span(offset_of!(Span, map)));
    asm.ret();
    let lines = follows_lines.then(|| [false, true].map(|write| lines::stub(asm, write)));
    Stubs { step, helper, kfunc, direct_kfuncs, hot_helpers, interpret, lines }
}
