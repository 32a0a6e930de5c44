//! The ways into machine code and out of it: a run's record is made, the code entered, and what ended it found.

use super::{Enter, Native, Span, Stopped};
use crate::code::{Code, FuncId};
use crate::engine::interpret::{self, Registers};
use crate::engine::{Done, Frames, Host, Vm};
use crate::fault::{Fault, FaultKind};
use crate::memory::Memory;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::panic::resume_unwind;

/// Runs `func` with r1 to r5, from its entry to its exit.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "all that a run is made of")]
pub(in crate::engine) fn run<H: Host>(
    code: &Code,
    native: &Native,
    func: FuncId,
    args: [u64; 5],
    mem: &mut Memory,
    frames: &mut Frames,
    host: &mut H,
    budget: u64,
) -> Result<Done, Fault> {
    run_here(code, native, func, args, mem, frames, host, budget)
}

/// As [`run`], where no other run waits: the first frame is at a known place.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "as there; one caller, into which this is inlined")]
pub(in crate::engine) fn run_first<H: Host>(
    code: &Code,
    native: &Native,
    func: FuncId,
    args: [u64; 5],
    mem: &mut Memory,
    frames: &mut Frames,
    host: &mut H,
    budget: u64,
) -> Result<Done, Fault> {
    assert_eq!(mem.frames_used, 0, "no other run waits");
    run_here(code, native, func, args, mem, frames, host, budget)
}

/// As [`run`], in the next frame.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "as there")]
fn run_here<H: Host>(
    code: &Code,
    native: &Native,
    func: FuncId,
    args: [u64; 5],
    mem: &mut Memory,
    frames: &mut Frames,
    host: &mut H,
    budget: u64,
) -> Result<Done, Fault> {
    let mut regs: MaybeUninit<Registers> = MaybeUninit::uninit();
    let frames_used = mem.frames_used;
    let span = Span::new(mem, frames, host, &mut regs);
    // Nothing is left to drop: `enter` takes what stopped the run.
    let mut vm = ManuallyDrop::new(Vm::new(code, Some(native), mem, frames, budget, span));
    match enter(&mut vm, native, func, args) {
        Ok(r0) => {
            tell(&mut vm, host);
            vm.done(Ok(r0), frames_used)
        }
        Err(fault) => failed(&mut vm, fault, host, frames_used),
    }
}

/// What a run comes to that a fault has ended. Apart, so that the result of all others stays in registers.
#[cold]
#[inline(never)]
fn failed<H: Host>(vm: &mut Vm<'_>, fault: Fault, host: &mut H, frames_used: u32) -> Result<Done, Fault> {
    tell(vm, host);
    vm.done(Err(fault), frames_used)
}

/// Runs `func` as the bottom frame of a new span of frames, until its exit, while compiled code of the same run waits for
/// the host.
#[inline(never)]
pub(in crate::engine) fn nested<H: Host>(
    vm: &mut Vm<'_>,
    native: &Native,
    func: FuncId,
    args: [u64; 5],
    host: &mut H,
) -> Result<u64, Fault> {
    let mut regs: MaybeUninit<Registers> = MaybeUninit::uninit();
    let span = Span::new(vm.mem, vm.frames, host, &mut regs);
    let waiting = mem::replace(&mut vm.span, span);
    let result = enter(vm, native, func, args);
    tell(vm, host);
    vm.span = waiting;
    result
}

/// Tells the host which helpers the code has answered itself, if there are any.
#[inline(always)]
pub(super) fn tell<H: Host>(vm: &mut Vm<'_>, host: &mut H) {
    if vm.span.answered != 0 {
        host.answered(mem::take(&mut vm.span.answered));
    }
}

/// Runs `func` in a span that is new.
#[inline(always)]
fn enter(vm: &mut Vm<'_>, native: &Native, func: FuncId, args: [u64; 5]) -> Result<u64, Fault> {
    let bottom = vm.mem.frames_used;
    let Some(entry) = native.entries.get(func.0 as usize) else {
        return Err(FaultKind::BadCall { target: u64::from(func.0) }.into());
    };
    vm.push_frame(0)?;
    // SAFETY: `entry` is the offset of a way in, which follows the convention of this type and is never freed while
    // `native` is borrowed.
    let enter: Enter = unsafe { mem::transmute(native.text.address(*entry)) };
    let [a, b, c, d, e] = args;
    // SAFETY: the code was emitted for these operations, whose jumps and callees were checked when they were decoded, and
    // the text is not written any more. It touches: `vm` and the `Memory` behind it, by the offsets of a few of their
    // members; the span's room for registers; its own stack, no deeper than MAX_FRAMES calls; frames below `frames_end`;
    // the guest's memory at offsets below its length, which it compares before each access (in its own frame the offsets
    // are constants within the stack's region), and the permission byte of such an offset's page, before it. The functions it calls
    // have the type of the span's host. While it runs, `vm` and that host are used by nobody else, and those functions use
    // them only while it waits. The callers of this function hold host and room until it returns.
    let r0 = unsafe { enter(a, b, c, d, e, vm) };
    if vm.span.stopped.is_none() { Ok(r0) } else { Err(end(vm, bottom)) }
}

/// Ends a run that did not reach its exit.
#[cold]
#[inline(never)]
fn end(vm: &mut Vm<'_>, bottom: u32) -> Fault {
    match vm.span.stopped.take().expect("what stops a run says why") {
        Stopped::Fault(fault) => interpret::locate(vm, fault, bottom),
        Stopped::Panic(panic) => resume_unwind(panic),
    }
}
