//! Code as the host's own instructions (x86-64): the same results, counts and faults as the interpreter's, sooner.
//!
//! The compiler translates one operation after the other (`emit`), which takes no longer than decoding did, so it has no
//! tiers and nothing to tune. Every access of the program is checked as the interpreter checks it; what does not go
//! straight to memory, and every call that leaves the program, comes here, to functions that know the [`Host`].
//! Whatever is unusual is done by the interpreter, on the same registers and frames.

mod asm;
mod emit;

use super::interpret::{self, Registers};
use super::{Frame, Host, NotCompiled, Vm};
use crate::code::{Code, FuncId, OpCode};
use crate::fault::{Fault, FaultKind};
use crate::guard::{self, GUARD_LEN};
use crate::limits::MACHINE_CODE_BYTES;
use crate::memory::{Fresh, MAX_FRAMES};
use memmap2::Mmap;
use std::any::Any;
use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Bytes from one frame to the next, and where its members lie, for the compiler.
const FRAME_BYTES: i32 = displacement(size_of::<Frame>());
const RETURN_TO: i32 = displacement(offset_of!(Frame, return_to));
const MAY_GOTO_LEFT: i32 = displacement(offset_of!(Frame, may_goto_left));

/// A size or distance as the machine's displacement of 32 bits. For constants: one that does not fit is no program.
const fn displacement(bytes: usize) -> i32 {
    assert!(bytes <= i32::MAX as usize, "a displacement has 32 bits");
    bytes as i32
}

/// The machine code is longer than it may be, or has a number that does not fit its field.
#[derive(Debug)]
struct TooLong;

/// Machine code between two guard regions: readable and executable, and never writable once it can be executed.
#[derive(Debug)]
struct Text(Mmap);

impl Text {
    /// What fills the last page behind the code: `int3`, which ends the process.
    const FILLER: u8 = 0xcc;

    fn new(bytes: &[u8]) -> io::Result<Text> {
        let len = bytes.len().next_multiple_of(crate::memory::PAGE_SIZE as usize);
        let mut map = guard::padded(len)?;
        let (code, rest) = map[GUARD_LEN..GUARD_LEN + len].split_at_mut(bytes.len());
        code.copy_from_slice(bytes);
        rest.fill(Text::FILLER);
        let map = map.make_exec()?;
        for range in [0..GUARD_LEN, GUARD_LEN + len..map.len()] {
            // SAFETY: only `address` looks into the mapping, and only at offsets of the code, between the two.
            unsafe { guard::close(map.as_ptr(), map.len(), range)? };
        }
        Ok(Text(map))
    }

    /// The host's address of an offset in the code.
    #[inline]
    fn address(&self, offset: u32) -> *const u8 {
        self.0.as_ptr().wrapping_add(GUARD_LEN + offset as usize)
    }
}

/// The answers of the functions that compiled code calls.
const GO_ON: u32 = 0;
const STOPPED: u32 = 1;
const INTERPRET: u32 = 2;

/// A program image as machine code.
#[derive(Debug)]
pub(crate) struct Native {
    text: Text,
    enter: u32,
    /// Offsets of the functions, by number.
    entries: Vec<u32>,
    /// For each operation, how many follow it in its block: they are counted already when it runs.
    after: Vec<u32>,
}

/// The way in: r1 to r5, and the context, whose `entry` is called; returns r0, which means something if nothing stopped
/// the run.
type Enter = unsafe extern "sysv64" fn(u64, u64, u64, u64, u64, *mut Context) -> u64;

/// A function that compiled code calls for one operation, given by its index.
type CallOut = unsafe extern "sysv64" fn(*mut Context, u32) -> u32;

/// The same with the number of a helper or kernel function.
type HostCall = unsafe extern "sysv64" fn(*mut Context, u32, u32) -> u32;

/// What compiled code calls, for one type of host.
#[repr(C)]
struct CallOuts {
    step: CallOut,
    helper: HostCall,
    kfunc: HostCall,
    interpret: CallOut,
}

/// Why a run ended before its exit.
enum Stopped {
    Fault(Fault),
    Panic(Box<dyn Any + Send>),
}

/// What compiled code knows of a run. It reads and writes members by their offsets: those up to `outs`, and `regs`.
#[repr(C)]
struct Context {
    /// Instructions that may still be executed; those of the running block are taken off already.
    left: u64,
    /// The guest's memory; its pages' permissions are before it.
    map: *mut u8,
    /// The object that loads need not ask the host about.
    fresh: Fresh,
    /// Behind the running function's frame, and behind the last one there can be.
    frame: *mut Frame,
    frames_end: *mut Frame,
    /// The function to run, and its r10.
    entry: *const u8,
    frame_pointer: u64,
    /// The stack pointer to which a stopped run returns.
    stack: u64,
    /// Where the interpreter goes on after [`INTERPRET`].
    resume_at: u32,
    outs: &'static CallOuts,
    /// The `Vm` and the `Host` of the run; their types are those of the functions in `outs`.
    vm: *mut (),
    host: *mut (),
    stopped: Option<Stopped>,
    /// The registers, while the host has control: those that were saved on the way to it. Last, so that nobody clears
    /// them along with their neighbours.
    regs: MaybeUninit<Registers>,
}

impl Native {
    /// Compiles an image.
    ///
    /// # Errors
    /// The machine code would be too long, or the host gives no executable memory.
    pub(crate) fn compile(code: &Code) -> Result<Native, NotCompiled> {
        Native::within(code, MACHINE_CODE_BYTES.most_len())
    }

    /// The same to at most `most` bytes.
    fn within(code: &Code, most: usize) -> Result<Native, NotCompiled> {
        let emitted = emit::compile(code, most).map_err(|TooLong| NotCompiled::TooLong)?;
        let text = Text::new(&emitted.bytes).map_err(|error| NotCompiled::Forbidden(error.to_string()))?;
        Ok(Native { text, enter: emitted.enter, entries: emitted.entries, after: emitted.after })
    }
}

/// Runs `func` as the bottom frame of a new span of frames, until its exit.
#[inline(always)]
pub(super) fn call<H: Host>(
    vm: &mut Vm<'_>,
    native: &Native,
    func: FuncId,
    args: [u64; 5],
    host: &mut H,
) -> Result<u64, Fault> {
    let bottom = vm.mem.frames_used;
    let Some(entry) = native.entries.get(func.0 as usize) else {
        return Err(FaultKind::BadCall { target: u64::from(func.0) }.into());
    };
    let frame_pointer = vm.push_frame(0)?;
    let map = vm.mem.base();
    let frames = vm.frames.as_mut_ptr_range();
    let mut context = Context {
        left: vm.budget.saturating_sub(vm.executed),
        map,
        fresh: vm.mem.fresh(),
        frame: frames.start.wrapping_add(vm.mem.frames_used as usize),
        frames_end: frames.end,
        entry: native.text.address(*entry),
        frame_pointer,
        stack: 0,
        resume_at: 0,
        outs: const { &CallOuts { step: step::<H>, helper: helper::<H>, kfunc: kfunc::<H>, interpret: rest::<H> } },
        vm: (vm as *mut Vm<'_>).cast(),
        host: (host as *mut H).cast(),
        stopped: None,
        regs: MaybeUninit::uninit(),
    };
    // SAFETY: `enter` is the offset of the way in, which follows the convention of this type and is never freed while
    // `native` is borrowed.
    let enter: Enter = unsafe { std::mem::transmute(native.text.address(native.enter)) };
    let [a, b, c, d, e] = args;
    // SAFETY: the code was emitted for these operations, whose jumps and callees were checked when they were decoded, and
    // the text is not written any more. It touches: the context, by the offsets of its members; its own stack, no
    // deeper than MAX_FRAMES calls; frames below `frames_end`; the guest's memory at offsets below its length, which it
    // compares before each access (in its own frame the offsets are constants within the stack's region, and loads from
    // `fresh` end inside the guest's memory, as `Memory::set_fresh` checked), and the permission byte of such an offset's
    // page, before it. The functions it calls have this context's types. While it runs, `vm` and `host` are used by nobody else, and
    // those functions use them only while it waits.
    let r0 = unsafe { enter(a, b, c, d, e, &raw mut context) };
    match context.stopped {
        None => {
            vm.executed = vm.budget - context.left;
            Ok(r0)
        }
        Some(stopped) => Err(end(stopped, vm, bottom)),
    }
}

/// Ends a run that did not reach its exit.
#[cold]
fn end(stopped: Stopped, vm: &Vm<'_>, bottom: u32) -> Fault {
    match stopped {
        Stopped::Fault(fault) => interpret::locate(vm, fault, bottom),
        Stopped::Panic(panic) => resume_unwind(panic),
    }
}

/// Lends a run's `Vm` and host to `body`, at operation `pc`, with exact counts: `after` more instructions than are
/// executed have been taken off.
///
/// # Safety
/// `context` is that of a run whose host is an `H`, and the run's code waits for the caller.
#[inline(always)]
unsafe fn lend<H: Host>(
    context: *mut Context,
    pc: u32,
    after: u64,
    body: impl FnOnce(&mut MaybeUninit<Registers>, &mut Vm<'_>, &mut H) -> Result<(), Fault>,
) -> u32 {
    // SAFETY: the run's code waits for us, and `call`, which made the context, waits for that.
    let context = unsafe { &mut *context };
    // SAFETY: as above; `call` stored references of these types and uses neither before the code returns.
    let (vm, host) = unsafe { (&mut *context.vm.cast::<Vm<'_>>(), &mut *context.host.cast::<H>()) };
    vm.at = pc as usize;
    // SAFETY: both point into the run's frames, or right behind them.
    let depth = unsafe { context.frame.offset_from(vm.frames.as_ptr()) };
    vm.mem.frames_used = u32::try_from(depth).unwrap_or(MAX_FRAMES);
    vm.executed = vm.budget - context.left - after;
    // Compiled code cannot be unwound through.
    match catch_unwind(AssertUnwindSafe(|| body(&mut context.regs, vm, host))) {
        Ok(Ok(())) => {
            context.fresh = vm.mem.fresh();
            let left = vm.budget.saturating_sub(vm.executed);
            if left < after {
                // The host used up what the block had counted on.
                context.left = left;
                context.resume_at = pc + 1;
                return INTERPRET;
            }
            context.left = left - after;
            GO_ON
        }
        Ok(Err(fault)) => {
            context.stopped = Some(Stopped::Fault(fault));
            STOPPED
        }
        Err(panic) => {
            context.stopped = Some(Stopped::Panic(panic));
            STOPPED
        }
    }
}

/// All registers of a run, for the interpreter.
///
/// # Safety
/// r0 to r10 have been saved.
unsafe fn all_saved(regs: &mut MaybeUninit<Registers>) -> &mut Registers {
    // SAFETY: the other five are written here, inside the array.
    unsafe {
        regs.as_mut_ptr().cast::<u64>().add(11).write_bytes(0, size_of::<Registers>() / 8 - 11);
        regs.assume_init_mut()
    }
}

/// Does the operation `pc`, which compiled code does not do itself or not this time.
///
/// # Safety
/// As for [`lend`].
unsafe extern "sysv64" fn step<H: Host>(context: *mut Context, pc: u32) -> u32 {
    // SAFETY: the run's code waits, so nobody uses its `Vm`, and has saved all registers; the
    // rest is passed on.
    unsafe {
        let native = (*(*context).vm.cast::<Vm<'_>>()).native;
        let after = native.map_or(0, |native| u64::from(native.after[pc as usize]));
        lend::<H>(context, pc, after, |regs, vm, host| {
            let code = vm.code;
            let op = &code.ops[pc as usize];
            if op.code == OpCode::CallLocal {
                return Err(FaultKind::CallDepth { limit: MAX_FRAMES }.into());
            }
            interpret::one(vm, op, all_saved(regs), host)
        })
    }
}

/// Calls helper number `id` for operation `pc`, the last of its block.
///
/// # Safety
/// As for [`lend`]; r1 to r5 have been saved.
unsafe extern "sysv64" fn helper<H: Host>(context: *mut Context, pc: u32, id: u32) -> u32 {
    // SAFETY: passed on.
    unsafe { lend::<H>(context, pc, 0, |regs, vm, host| call_saved(regs, |args| host.helper(id, args, vm))) }
}

/// Calls the kernel function of this index for operation `pc`, the last of its block.
///
/// # Safety
/// As for [`lend`]; r1 to r5 have been saved.
unsafe extern "sysv64" fn kfunc<H: Host>(context: *mut Context, pc: u32, index: u32) -> u32 {
    // SAFETY: passed on.
    unsafe {
        lend::<H>(context, pc, 0, |regs, vm, host| call_saved(regs, |args| host.kfunc(index, args, vm)))
    }
}

/// Calls `body` with r1 to r5; its result becomes r0.
///
/// # Safety
/// r1 to r5 have been saved.
#[inline(always)]
unsafe fn call_saved(
    regs: &mut MaybeUninit<Registers>,
    body: impl FnOnce(&[u64; 5]) -> Result<u64, Fault>,
) -> Result<(), Fault> {
    let regs = regs.as_mut_ptr().cast::<u64>();
    // SAFETY: the five lie one after the other in the array and have been written.
    let r0 = body(unsafe { &*regs.add(1).cast::<[u64; 5]>() })?;
    // SAFETY: r0 is the first of the array.
    unsafe { regs.write(r0) };
    Ok(())
}

/// Interprets the running function from operation `pc` to its exit.
///
/// # Safety
/// As for [`lend`].
unsafe extern "sysv64" fn rest<H: Host>(context: *mut Context, pc: u32) -> u32 {
    // SAFETY: the way to this function saves all registers; the rest is passed on.
    unsafe {
        // The code has given back what it had counted of the block from here on.
        lend::<H>(context, pc, 0, |regs, vm, host| {
            let bottom = vm.mem.frames_used - 1;
            interpret::run(vm, all_saved(regs), pc as usize, bottom, host)
        })
    }
}

#[cfg(test)]
mod tests;
