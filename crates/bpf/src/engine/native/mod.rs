//! Code as the host's own instructions (x86-64): the same results, counts and faults as the interpreter's, sooner.
//!
//! The compiler translates one operation after the other (`emit`), which takes no longer than decoding did, so it has no
//! tiers and nothing to tune. Every access of the program is checked as the interpreter checks it; what does not go
//! straight to memory, and every call that leaves the program, comes here, to functions that know the [`Host`].
//! Whatever is unusual is done by the interpreter, on the same registers and frames.

mod asm;
mod count;
mod emit;
mod enter;
mod known;
mod lines;
mod live;
mod plan;
mod stubs;

use super::interpret::{self, Registers};
use super::{DIRECT_KFUNCS, Frame, Frames, Host, NotCompiled, Vm};
use crate::code::{Code, OpCode};
use crate::fault::{Fault, FaultKind};
use crate::guard::{self, GUARD_LEN};
use crate::limits::MACHINE_CODE_BYTES;
use crate::maps::STORAGE_CREATE;
use crate::memory::{MAX_FRAMES, Memory, View};
use enter::tell;
pub(super) use enter::{nested, run, run_first};
use lines::LineMissed;
use memmap2::Mmap;
use std::any::Any;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{fmt, io, ptr};

/// Bytes from one frame to the next, and where its members lie, for the compiler.
const FRAME_BYTES: i32 = displacement(size_of::<Frame>());
const RETURN_TO: usize = offset_of!(Frame, return_to);
const MAY_GOTO_LEFT: usize = offset_of!(Frame, may_goto_left);

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
    /// Offsets of the ways into the functions, by number.
    entries: Vec<u32>,
    /// For each operation, how many more than are executed are counted already when it runs.
    ahead: Vec<u32>,
    /// As [`Code`] had it when this was made.
    line_shift: u8,
}

/// What a call of the host returns, in two registers.
#[repr(C)]
struct Answer {
    /// r0.
    r0: u64,
    /// [`GO_ON`] or [`STOPPED`].
    status: u64,
}

/// The way in: r1 to r5, and the run, which nobody else touches meanwhile; returns r0, which means something if nothing
/// stopped the run.
type Enter = unsafe extern "sysv64" fn(u64, u64, u64, u64, u64, *mut Vm<'_>) -> u64;

/// A function that compiled code calls for the operation [`Vm`]'s `at`.
type CallOut = unsafe extern "sysv64" fn(*mut Vm<'_>) -> u32;

/// A function that compiled code calls in the place of the operation's helper or kernel function: r1 to r5 are where the
/// machine's convention has them.
type HostCall = unsafe extern "sysv64" fn(u64, u64, u64, u64, u64, *mut Vm<'_>) -> Answer;

/// Helpers that schedulers call most: map look-up, clock, number of the CPU, lock, unlock, task storage. Each has a function
/// of its own, in which the compiler of the host knows which one it is. Nothing else depends on what is in here.
const HOT_HELPERS: [u32; 6] = [LOOKUP, 5, CPU_NUMBER, 93, 94, TASK_STORAGE];

/// `bpf_map_lookup_elem()` and `bpf_get_smp_processor_id()`, which are answered in line where that can be.
const LOOKUP: u32 = 1;
const CPU_NUMBER: u32 = 8;
/// `bpf_task_storage_get()`, whose answer is mostly one that was given before.
const TASK_STORAGE: u32 = 156;

/// What compiled code calls, for one type of host.
#[repr(C)]
#[derive(Debug)]
struct CallOuts {
    step: CallOut,
    helper: HostCall,
    hot_helpers: [HostCall; HOT_HELPERS.len()],
    kfunc: HostCall,
    direct_kfuncs: [HostCall; DIRECT_KFUNCS],
    interpret: CallOut,
    line: LineMissed,
}

/// Why a run ended before its exit.
enum Stopped {
    Fault(Fault),
    Panic(Box<dyn Any + Send>),
}

/// What compiled code keeps of a run besides the first members of [`Vm`]: the span of frames that it fills.
#[repr(C)]
pub(super) struct Span {
    /// The number of the helper or kernel function that is called.
    number: u32,
    /// Where the interpreter continues after [`INTERPRET`].
    resume_at: u32,
    /// The CPU that the program runs on.
    cpu: u32,
    /// Helpers that the code has answered itself and not yet reported to the host.
    answered: u64,
    /// The guest's memory; its pages' permissions are before it.
    map: *mut u8,
    /// Behind the running function's frame, and behind the last one there can be.
    frame: *mut Frame,
    frames_end: *mut Frame,
    /// r10 of the function to run.
    frame_pointer: u64,
    /// The stack pointer to which a stopped run returns: compiled code sets it before it needs it.
    stack: MaybeUninit<u64>,
    outs: *const CallOuts,
    /// The `Host` of the run; its type is that of the functions in `outs`.
    host: *mut (),
    /// Room for the registers, while the host has control: those that were saved on the way to it.
    regs: *mut u64,
    stopped: Option<Stopped>,
    /// Who has which line: code that asks takes it over from the memory when it begins.
    lines: MaybeUninit<View>,
}

impl Span {
    /// One that begins with the next frame.
    #[inline(always)]
    fn new<H: Host>(
        mem: &mut Memory,
        frames: &mut Frames,
        host: &mut H,
        regs: &mut MaybeUninit<Registers>,
    ) -> Span {
        let used = mem.frames_used;
        let frames = frames.as_mut_ptr_range();
        Span {
            number: 0,
            resume_at: 0,
            cpu: host.current_cpu(),
            answered: 0,
            map: mem.base(),
            frame: frames.start.wrapping_add(used as usize + 1),
            frames_end: frames.end,
            frame_pointer: Memory::frame_pointer(used),
            stack: MaybeUninit::uninit(),
            outs: const {
                &CallOuts {
                    step: step::<H>,
                    helper: helper::<H>,
                    hot_helpers: [
                        hot_helper::<H, { HOT_HELPERS[0] }>,
                        hot_helper::<H, { HOT_HELPERS[1] }>,
                        hot_helper::<H, { HOT_HELPERS[2] }>,
                        hot_helper::<H, { HOT_HELPERS[3] }>,
                        hot_helper::<H, { HOT_HELPERS[4] }>,
                        task_storage::<H>,
                    ],
                    kfunc: kfunc::<H>,
                    direct_kfuncs: direct_kfuncs::<H>(),
                    interpret: rest::<H>,
                    line: lines::missed,
                }
            },
            host: (host as *mut H).cast(),
            regs: regs.as_mut_ptr().cast(),
            stopped: None,
            lines: MaybeUninit::uninit(),
        }
    }
}

/// The span of a run that is interpreted.
impl Default for Span {
    fn default() -> Span {
        let (map, frame, host, regs) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        Span {
            number: 0,
            resume_at: 0,
            cpu: 0,
            answered: 0,
            map,
            frame,
            frames_end: frame,
            frame_pointer: 0,
            stack: MaybeUninit::uninit(),
            outs: ptr::null(),
            host,
            regs,
            stopped: None,
            lines: MaybeUninit::uninit(),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("frame_pointer", &self.frame_pointer).finish_non_exhaustive()
    }
}

impl Native {
    /// Compiles an image.
    ///
    /// # Errors
    /// The machine code would be too long, or the host gives no executable memory.
    pub(crate) fn compile(code: &Code) -> Result<Native, NotCompiled> {
        Native::within(code, MACHINE_CODE_BYTES.most_len())
    }

    /// Compiles an image to at most `most` bytes.
    fn within(code: &Code, most: usize) -> Result<Native, NotCompiled> {
        let emitted = emit::compile(code, most).map_err(|TooLong| NotCompiled::TooLong)?;
        let text = Text::new(&emitted.bytes).map_err(|error| NotCompiled::Forbidden(error.to_string()))?;
        let line_shift = code.line_shift;
        Ok(Native { text, entries: emitted.entries, ahead: emitted.ahead, line_shift })
    }

    /// Whether it follows lines as this memory does.
    #[inline(always)]
    pub(crate) fn follows(&self, mem: &Memory) -> bool {
        self.line_shift == mem.line_shift()
    }
}

/// Calls the host for a call of the program's, with r1 to r5; compiled code cannot be unwound through.
///
/// # Safety
/// `vm` is that of a run whose host is an `H`, and the run's code waits for the caller.
#[inline(always)]
unsafe fn call_out<H: Host>(
    vm: *mut Vm<'_>,
    body: impl FnOnce(&mut H, u32, &mut Vm<'_>) -> Result<u64, Fault>,
) -> Answer {
    // SAFETY: the run's code waits for us, and `enter`, which has lent `vm` and stored a reference of this type, waits
    // for that.
    let (vm, host) = unsafe { (&mut *vm, &mut *(*vm).span.host.cast::<H>()) };
    tell(vm, host);
    match catch_unwind(AssertUnwindSafe(|| body(host, vm.span.number, vm))) {
        Ok(Ok(r0)) => Answer { r0, status: u64::from(GO_ON) },
        Ok(Err(fault)) => stop(vm, Stopped::Fault(fault)),
        Err(panic) => stop(vm, Stopped::Panic(panic)),
    }
}

/// Remembers why a run stops.
#[cold]
#[inline(never)]
fn stop(vm: &mut Vm<'_>, why: Stopped) -> Answer {
    debug_assert!(vm.span.stopped.is_none(), "a run stops once");
    vm.span.stopped = Some(why);
    Answer { r0: 0, status: u64::from(STOPPED) }
}

/// Calls a helper for operation `at`, the last of its region.
///
/// # Safety
/// As for [`call_out`].
unsafe extern "sysv64" fn helper<H: Host>(a: u64, b: u64, c: u64, d: u64, e: u64, vm: *mut Vm<'_>) -> Answer {
    // SAFETY: passed on.
    unsafe { call_out::<H>(vm, |host, number, vm| host.helper(number, &[a, b, c, d, e], vm)) }
}

/// Calls helper number `ID` for operation `at`, the last of its region.
///
/// # Safety
/// As for [`call_out`].
#[inline(never)]
unsafe extern "sysv64" fn hot_helper<H: Host, const ID: u32>(
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    vm: *mut Vm<'_>,
) -> Answer {
    // SAFETY: passed on, and as in `call_out`.
    unsafe {
        let (run, host) = (&mut *vm, &mut *(*vm).span.host.cast::<H>());
        // What the helper sees of the time includes that.
        tell(run, host);
        match host.ready_helper::<ID>(run) {
            Some(r0) => Answer { r0, status: u64::from(GO_ON) },
            None => call_out::<H>(vm, |host, _, vm| host.helper(ID, &[a, b, c, d, e], vm)),
        }
    }
}

/// Calls `bpf_task_storage_get()`, unless the host has the answer ready: then this is short.
///
/// # Safety
/// As for [`call_out`].
unsafe extern "sysv64" fn task_storage<H: Host>(
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    vm: *mut Vm<'_>,
) -> Answer {
    // SAFETY: passed on.
    unsafe {
        match recall::<H>(a, b, d, vm) {
            Some(r0) => Answer { r0, status: u64::from(GO_ON) },
            None => hot_helper::<H, TASK_STORAGE>(a, b, c, d, e, vm),
        }
    }
}

/// The answer to `bpf_task_storage_get(map, task, _, flags)` that the host has ready.
///
/// # Safety
/// As for [`call_out`].
#[inline(always)]
unsafe fn recall<H: Host>(map: u64, task: u64, flags: u64, vm: *mut Vm<'_>) -> Option<u64> {
    // SAFETY: as in `call_out`.
    let (vm, host) = unsafe { (&mut *vm, &mut *(*vm).span.host.cast::<H>()) };
    if vm.is_locked() || flags & !STORAGE_CREATE != 0 { None } else { host.recall(map, task) }
}

/// Calls a kernel function for operation `at`, the last of its region.
///
/// # Safety
/// As for [`call_out`].
unsafe extern "sysv64" fn kfunc<H: Host>(a: u64, b: u64, c: u64, d: u64, e: u64, vm: *mut Vm<'_>) -> Answer {
    // SAFETY: passed on.
    unsafe { call_out::<H>(vm, |host, number, vm| host.kfunc(number, &[a, b, c, d, e], vm)) }
}

/// Calls the kernel function of a slot for operation `at`, the last of its region.
///
/// # Safety
/// As for [`call_out`].
unsafe extern "sysv64" fn direct_kfunc<H: Host, const SLOT: usize>(
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    vm: *mut Vm<'_>,
) -> Answer {
    // SAFETY: passed on, and as in `call_out`.
    unsafe {
        match (*(*vm).span.host.cast::<H>()).ready_kfunc::<SLOT>([a, b, c, d, e], &*vm) {
            Some(r0) => Answer { r0, status: u64::from(GO_ON) },
            None => call_out::<H>(vm, |host, _, vm| host.direct_kfunc::<SLOT>(&[a, b, c, d, e], vm)),
        }
    }
}

/// The function of each slot.
const fn direct_kfuncs<H: Host>() -> [HostCall; DIRECT_KFUNCS] {
    macro_rules! slots {
        ($($slot:literal)*) => { [$(direct_kfunc::<H, $slot>),*] };
    }
    slots!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17)
}

/// Lends a run's registers, `Vm` and host to `body`, with exact counts: `after` more instructions than are executed have
/// been taken off.
///
/// # Safety
/// As for [`call_out`], and the code has saved all registers of the program.
#[inline(always)]
unsafe fn lend<H: Host>(
    vm: *mut Vm<'_>,
    after: u64,
    body: impl FnOnce(&mut Registers, &mut Vm<'_>, &mut H) -> Result<(), Fault>,
) -> u32 {
    // SAFETY: as in `call_out`. `enter` has room for the registers, which nobody else uses; the five that no program has
    // are written here.
    let (vm, host, regs) = unsafe {
        let (vm, host, regs) = (&mut *vm, &mut *(*vm).span.host.cast::<H>(), (*vm).span.regs);
        regs.add(11).write_bytes(0, size_of::<Registers>() / 8 - 11);
        (vm, host, &mut *regs.cast::<Registers>())
    };
    tell(vm, host);
    vm.left += after;
    match catch_unwind(AssertUnwindSafe(|| body(regs, vm, host))) {
        Ok(Ok(())) if vm.left < after => {
            // The host used up what the region had counted on.
            vm.span.resume_at = vm.at + 1;
            INTERPRET
        }
        Ok(Ok(())) => {
            vm.left -= after;
            GO_ON
        }
        Ok(Err(fault)) => {
            stop(vm, Stopped::Fault(fault));
            STOPPED
        }
        Err(panic) => {
            stop(vm, Stopped::Panic(panic));
            STOPPED
        }
    }
}

/// Does the operation `at`, which compiled code does not do itself or not this time.
///
/// # Safety
/// As for [`lend`].
unsafe extern "sysv64" fn step<H: Host>(vm: *mut Vm<'_>) -> u32 {
    // SAFETY: the run's code waits, so nobody uses its `Vm`; the rest is passed on.
    unsafe {
        let pc = (*vm).at as usize;
        let after = (*vm).native.map_or(0, |native| u64::from(native.ahead[pc]));
        lend::<H>(vm, after, |regs, vm, host| {
            let code = vm.code;
            let op = &code.ops[pc];
            if op.code == OpCode::CallLocal {
                return Err(FaultKind::CallDepth { limit: MAX_FRAMES }.into());
            }
            interpret::one(vm, op, regs, host)
        })
    }
}

/// Interprets the running function from operation `at` to its exit.
///
/// # Safety
/// As for [`lend`].
unsafe extern "sysv64" fn rest<H: Host>(vm: *mut Vm<'_>) -> u32 {
    // SAFETY: the way to this function saves all registers; the rest is passed on.
    unsafe {
        // The code has given back what it had counted from here on.
        lend::<H>(vm, 0, |regs, vm, host| {
            let frames_used = vm.mem.frames_used;
            debug_assert!(frames_used > 0, "a program that runs has a frame");
            interpret::run(vm, regs, vm.at as usize, frames_used - 1, vm.budget, host)?;
            // The frame is the code's, which gives it back.
            vm.mem.frames_used = frames_used;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
