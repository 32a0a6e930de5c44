//! Execution: what a run is given, what it returns, and what it may call.
//!
//! One interface, [`Engine`], so that callers do not depend on how code is executed; [`Interpreter`] is the reference,
//! [`Compiler`] the fast one.
//! Every engine counts executed instructions exactly (one for each, a 64-bit immediate load included; callbacks
//! included; the faulting one included), because simulated time is made of them.
//!
//! Differences from the kernel, all deliberate:
//! * `may_goto` stops a loop after 8,388,608 passes in each function call (the kernel's `BPF_MAX_LOOPS`, counted per call
//!   as in the kernel's own expansion); newer x86 kernels look at the clock instead, which no deterministic run can.
//! * Arena pointers cast to address space 0 keep 1 in their high half, where the kernel has 0; NULL is 0 in both.
//! * A failed arena access reads 0 or is dropped (atomics and acquiring loads leave their register alone), as in the
//!   kernel, and is counted ([`Done::probe_faults`]); but through
//!   a NULL arena pointer it is a fault, unless marked, since the machine cannot tell it from another NULL.
//! * Registers r1 to r5 keep their values over calls; verified programs cannot tell.

//!
//! ```
//! use schedlab_bpf::insn::op;
//! use schedlab_bpf::{CodeBuilder, Engine, Insn, Interpreter, Marks, Memory, NoHost};
//!
//! let mut builder = CodeBuilder::new();
//! let double = [Insn::alu64_reg(op::MOV, 0, 1), Insn::alu64_reg(op::ADD, 0, 1), Insn::exit()];
//! let func = builder.add_function("double", &double, &Marks::default())?;
//! let code = builder.build()?;
//! let mut mem = Memory::new()?;
//! let done = Interpreter::new().run(&code, func, &[21], &mut mem, &mut NoHost, 1_000_000)?;
//! assert_eq!((done.r0, done.insns), (42, 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod interpret;
#[cfg(target_arch = "x86_64")]
mod native;
#[cfg(not(target_arch = "x86_64"))]
#[path = "engine/interpreted_only.rs"]
mod native;
mod pause;

pub(crate) use native::Native;
pub use pause::{Paused, Progress, SharedAccess, SharedPlace};

use crate::code::{Code, CodeBuilder, FuncId, Marks};
use crate::fault::{Fault, FaultKind, Location};
use crate::insn::Insn;
use crate::limits::MACHINE_CODE_BYTES;
use crate::memory::{FRAME_SIZE, GuestAddr, MAX_FRAMES, Memory};
use std::fmt;

/// Passes after which `may_goto` leaves its loop (kernel: `BPF_MAX_LOOPS`, 8 Mi).
pub const MAY_GOTO_LIMIT: u64 = 8 << 20;

/// Bytes that the price of a call covers. What a call reads or writes beyond them counts as instructions, one for each
/// [`WORK_BYTES`], so that the work is paid for in simulated time and ends with the budget. Chosen: four cache lines, more
/// than the keys and values of a scheduler's maps.
pub const WORK_FREE: u64 = 256;
/// Bytes beyond [`WORK_FREE`] that count as one instruction. Chosen: a register's width.
pub const WORK_BYTES: u64 = 8;

/// Instructions that a helper executes around each call of a callback, which count as the program's: as in the loop of the
/// kernel's `bpf_loop()`, which sets five registers, calls through a pointer, looks at the result and counts (estimated
/// from its source).
pub const CALLBACK_INSNS: u64 = 10;

/// Helpers during which no page is taken away from a program: look-up and update in a map, clocks, random number, number of the
/// CPU, current task and its pid, lock, unlock, task storage. Chosen: those that schedulers call between accesses by one
/// pointer, and that call nothing back.
pub const KEEPS_PAGES: [u32; 14] = [1, 2, 5, 7, 8, 14, 35, 93, 94, 118, 125, 156, 158, 160];

/// Kernel functions that compiled code can enter directly ([`Host::direct_kfunc`]). Chosen: those that schedulers call most.
pub const DIRECT_KFUNCS: usize = 18;

/// What programs call out to: helpers, kernel functions, stores into kernel objects.
///
/// A host may call back into the program with [`Vm::call`]. A fault that it returns ends the run; the engine adds
/// place and count. It may take pages away from the program in a call of a kernel function or of a helper that is none of
/// [`KEEPS_PAGES`], never in [`Host::kernel_store`] or [`Host::kernel_load`]: a program's accesses around those may have
/// been checked together.
pub trait Host {
    /// Calls helper number `id` with r1 to r5; the result goes to r0.
    ///
    /// # Errors
    /// Ends the run.
    fn helper(&mut self, id: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault>;

    /// Calls the kernel function of this index (the linker's numbering) with r1 to r5; the result goes to r0.
    ///
    /// # Errors
    /// Ends the run.
    fn kfunc(&mut self, index: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault>;

    /// As [`Host::kfunc`], of an index that [`Code::enter_directly`] gave this slot ([`Vm::called`]). Each slot is a function of
    /// its own, in which the compiler of the host knows what is called.
    ///
    /// # Errors
    /// Ends the run.
    #[inline(always)]
    fn direct_kfunc<const SLOT: usize>(&mut self, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        self.kfunc(vm.called(), args, vm)
    }

    /// As [`Host::direct_kfunc`] where nothing can go wrong and the caller need not be charged before: nothing if it is not so, and then nothing
    /// has been changed. Panics are not allowed in it.
    #[inline(always)]
    fn ready_kfunc<const SLOT: usize>(&mut self, args: [u64; 5], vm: &Vm<'_>) -> Option<u64> {
        let _ = (args, vm);
        None
    }

    /// As [`Host::helper`], under the same conditions.
    #[inline(always)]
    fn ready_helper<const ID: u32>(&mut self, vm: &Vm<'_>) -> Option<u64> {
        let _ = vm;
        None
    }

    /// Decides on a store of the low `size` bytes (1, 2, 4 or 8) of `value` to a page marked
    /// [`crate::memory::Perm::KERNEL`]; writing it, with [`Memory::write`], is the host's part too.
    ///
    /// # Errors
    /// Ends the run.
    fn kernel_store(&mut self, addr: GuestAddr, size: u8, value: u64, vm: &mut Vm<'_>) -> Result<(), Fault>;

    /// The number of the CPU that the program runs on, which stays the same for the length of a run.
    fn current_cpu(&self) -> u32 {
        0
    }

    /// So many look-ups in arrays and questions for the CPU's number have been answered in line, without a call of
    /// [`Host::helper`]: told before any other call, and at the end of the run.
    fn answered(&mut self, helpers: u64) {
        let _ = helpers;
    }

    /// The value of a task in a task storage, by the values that stand for the map and the task, where
    /// `bpf_task_storage_get()` has found it before and it has been there since: so told, the call counts as one of the helper.
    /// Panics are not allowed in it.
    fn recall(&mut self, map: u64, task: u64) -> Option<u64> {
        let _ = (map, task);
        None
    }

    /// Brings an object on pages marked [`crate::memory::Perm::LAZY`] up to date before a load at `addr`.
    ///
    /// # Errors
    /// Ends the run.
    fn kernel_load(&mut self, addr: GuestAddr, mem: &mut Memory) -> Result<(), Fault> {
        let _ = (addr, mem);
        Ok(())
    }
}

/// A host that offers nothing: every call is refused by number, every store to a kernel page by address.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn helper(&mut self, id: u32, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
        Err(Fault::unsupported(format!("helper {id}")))
    }

    fn kfunc(&mut self, index: u32, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
        Err(Fault::unsupported(format!("kernel function {index}")))
    }

    fn kernel_store(
        &mut self,
        addr: GuestAddr,
        size: u8,
        _value: u64,
        _vm: &mut Vm<'_>,
    ) -> Result<(), Fault> {
        Err(Fault::unsupported(format!("store of {size} bytes to a kernel object at {addr}")))
    }
}

/// What a run that reached its exit leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Register 0 at the exit.
    pub r0: u64,
    /// Instructions executed, callbacks and the work of calls ([`Vm::work`]) included.
    pub insns: u64,
    /// Accesses that failed and were skipped: marked ones, and those to unmapped arena pages.
    pub probe_faults: u64,
}

/// A way to execute code.
pub trait Engine {
    /// Runs a function to its exit with up to five arguments in r1 to r5, spending at most `budget` instructions.
    ///
    /// Hosts may run further code in the same memory from within a call; the stack is shared.
    ///
    /// # Errors
    /// The fault, with its place and the number of instructions executed.
    ///
    /// # Panics
    /// If there are more than five arguments.
    fn run<H: Host>(
        &mut self,
        code: &Code,
        func: FuncId,
        args: &[u64],
        mem: &mut Memory,
        host: &mut H,
        budget: u64,
    ) -> Result<Done, Fault>;
}

/// A caller's state while its callee runs; a cache line of the host's, which also makes its place a shift.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Frame {
    /// Index of the operation to return to.
    return_to: usize,
    /// r6 to r9.
    saved: [u64; 4],
    /// Passes that the *callee* has left at its `may_goto` instructions.
    may_goto_left: u64,
}

/// The frames that can be in use at once.
type Frames = [Frame; MAX_FRAMES as usize];

/// The reference engine: one pre-decoded operation after the other.
///
/// The interpreter holds only scratch space, so one serves any number of programs and memories, one run after the other.
#[derive(Debug)]
pub struct Interpreter {
    frames: Box<Frames>,
}

impl Interpreter {
    /// An interpreter.
    #[must_use]
    pub fn new() -> Self {
        Interpreter { frames: Box::new([Frame::default(); MAX_FRAMES as usize]) }
    }
}

impl Default for Interpreter {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for Interpreter {
    fn run<H: Host>(
        &mut self,
        code: &Code,
        func: FuncId,
        args: &[u64],
        mem: &mut Memory,
        host: &mut H,
        budget: u64,
    ) -> Result<Done, Fault> {
        let (frames_used, args) = (mem.frames_used, registers(args));
        debug_assert!(frames_used <= MAX_FRAMES, "the stack has the frames");
        let mut vm = Vm::new(code, None, mem, &mut self.frames, budget, native::Span::default());
        let result = interpret::call(&mut vm, func, args, host);
        vm.done(result, frames_used)
    }
}

/// A patient [`Compiler`] compiles an image when it has interpreted so many instructions for each one of the image. By then
/// interpreting has cost what compiling does: of `o1` compiling takes 1,700 host instructions an operation, and an
/// interpreted instruction 22 more than a compiled one (callgrind on the `bench` example).
const PATIENCE: u64 = 64;

/// The fast engine: translates an image into the host's own instructions.
///
/// Where the host's are not x86-64's, or it gives no executable memory, it interprets.
#[derive(Debug, Default)]
pub struct Compiler {
    scratch: Interpreter,
    /// See [`Compiler::patient`].
    patient: bool,
    /// Instructions that it has interpreted.
    interpreted: u64,
}

impl Compiler {
    /// A compiler that translates an image when it first runs it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A compiler that interprets until that has cost about as much as translating the image would. Results are the same.
    #[must_use]
    pub fn patient() -> Self {
        Compiler { patient: true, ..Self::default() }
    }

    /// Whether this host runs compiled code, found out by compiling one instruction.
    ///
    /// # Errors
    /// Why it does not.
    pub fn available() -> Result<(), NotCompiled> {
        let mut builder = CodeBuilder::new();
        let added = builder.add_function("probe", &[Insn::exit()], &Marks::default());
        added.and_then(|_| builder.build()).map_or(Ok(()), |code| code.compile())
    }
}

/// Why code is interpreted and not compiled. Results are the same, and take longer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotCompiled {
    /// The compiler does not know the instructions of this host.
    OtherHost,
    /// The host gives no executable memory, in its words.
    Forbidden(String),
    /// The machine code would be longer than [`MACHINE_CODE_BYTES`].
    TooLong,
}

impl fmt::Display for NotCompiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotCompiled::OtherHost => f.write_str("the compiler knows x86-64 only"),
            NotCompiled::Forbidden(words) => write!(f, "this host gives no executable memory: {words}"),
            NotCompiled::TooLong => {
                write!(f, "more {} than the limit of {}", MACHINE_CODE_BYTES.what, MACHINE_CODE_BYTES.most)
            }
        }
    }
}

impl std::error::Error for NotCompiled {}

impl Engine for Compiler {
    #[inline(always)]
    fn run<H: Host>(
        &mut self,
        code: &Code,
        func: FuncId,
        args: &[u64],
        mem: &mut Memory,
        host: &mut H,
        budget: u64,
    ) -> Result<Done, Fault> {
        match code.compiled().or_else(|| self.compile(code)) {
            Some(native) if native.follows(mem) => {
                native::run(code, native, func, registers(args), mem, &mut self.scratch.frames, host, budget)
            }
            _ => {
                let result = self.scratch.run(code, func, args, mem, host, budget);
                let insns = result.as_ref().map_or_else(Fault::insns, |done| done.insns);
                self.interpreted = self.interpreted.saturating_add(insns);
                result
            }
        }
    }
}

impl Compiler {
    /// What runs this image's machine code in the first frame of a memory; nothing where the image is not compiled, follows
    /// lines in another way, or another run waits.
    #[inline(always)]
    pub fn ready<'a>(&'a mut self, code: &'a Code, mem: &Memory) -> Option<Ready<'a>> {
        let native = code.compiled().filter(|native| native.follows(mem) && mem.frames_used == 0)?;
        Some(Ready { code, native, frames: &mut self.scratch.frames })
    }

    /// Translates the image, unless that is not worth it yet.
    #[cold]
    fn compile<'a>(&self, code: &'a Code) -> Option<&'a Native> {
        let worth = code.ops.len() as u64 * PATIENCE;
        if self.patient && self.interpreted < worth { None } else { code.native() }
    }
}

/// What [`Compiler::ready`] has found: a run of it takes the short way. All that [`Engine::run`] asks besides has been asked.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing is compiled there"))]
pub struct Ready<'a> {
    code: &'a Code,
    native: &'a Native,
    frames: &'a mut Frames,
}

impl Ready<'_> {
    /// As [`Engine::run`], with the first argument alone.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn run<H: Host>(
        self,
        func: FuncId,
        argument: u64,
        mem: &mut Memory,
        host: &mut H,
        budget: u64,
    ) -> Result<Done, Fault> {
        let args = [argument, 0, 0, 0, 0];
        native::run_first(self.code, self.native, func, args, mem, self.frames, host, budget)
    }
}

/// A run in progress, as its host sees it.
///
/// Compiled code reads and writes members by their offsets (`native`); the first ones are those that it needs most.
#[derive(Debug)]
#[repr(C)]
pub struct Vm<'a> {
    /// Instructions that may still be executed. While compiled code runs, those of its running block are taken off already.
    left: u64,
    /// Index of the operation that called the host.
    at: u32,
    /// Locks that the program holds.
    locks: u32,
    /// What compiled code keeps of the run.
    span: native::Span,
    /// The guest's memory.
    pub mem: &'a mut Memory,
    /// The program.
    pub code: &'a Code,
    native: Option<&'a Native>,
    frames: &'a mut Frames,
    budget: u64,
    probe_faults: u64,
}

impl<'a> Vm<'a> {
    #[inline(always)]
    fn new(
        code: &'a Code,
        native: Option<&'a Native>,
        mem: &'a mut Memory,
        frames: &'a mut Frames,
        budget: u64,
        span: native::Span,
    ) -> Vm<'a> {
        Vm { left: budget, at: 0, locks: 0, span, mem, code, native, frames, budget, probe_faults: 0 }
    }

    /// What the run comes to; `frames_used` were in use before it. By reference: compiled code has its address, so that to
    /// take it by value would copy all of it.
    #[inline(always)]
    fn done(&mut self, result: Result<u64, Fault>, frames_used: u32) -> Result<Done, Fault> {
        debug_assert!(self.mem.frames_used >= frames_used, "a program ends no frame of another one");
        self.mem.frames_used = frames_used;
        match result {
            Ok(r0) => Ok(Done { r0, insns: self.insns(), probe_faults: self.probe_faults }),
            Err(mut fault) => {
                fault.set_insns(self.insns());
                Err(fault)
            }
        }
    }

    /// Instructions executed so far in this run, callbacks and the one that called the host included.
    #[inline]
    #[must_use]
    pub fn insns(&self) -> u64 {
        debug_assert!(self.left <= self.budget, "the budget only shrinks");
        self.budget - self.left
    }

    /// Sets that number, which is no more than the budget.
    #[inline(always)]
    fn set_insns(&mut self, executed: u64) {
        debug_assert!(executed <= self.budget, "no more is executed than the budget has");
        self.left = self.budget - executed;
    }

    /// Whether the program holds a lock, under which it may call hardly anything.
    #[inline(always)]
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locks != 0
    }

    /// The program has taken a lock.
    #[inline(always)]
    pub(crate) fn lock_taken(&mut self) {
        self.locks += 1;
    }

    /// The program has given one back.
    #[inline(always)]
    pub(crate) fn lock_given(&mut self) {
        debug_assert!(self.locks > 0, "a lock that is given was taken");
        self.locks -= 1;
    }

    /// Counts work that a call does for the program, as if it were so many instructions: see [`WORK_FREE`].
    ///
    /// # Errors
    /// [`FaultKind::Budget`] when the run's budget is used up by it.
    #[inline]
    pub fn work(&mut self, insns: u64) -> Result<(), Fault> {
        match self.left.checked_sub(insns) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.exhausted()),
        }
    }

    /// As [`Vm::work`], for `bytes` that a call reads or writes.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn work_bytes(&mut self, bytes: u64) -> Result<(), Fault> {
        if bytes <= WORK_FREE {
            return Ok(());
        }
        self.work((bytes - WORK_FREE) / WORK_BYTES)
    }

    #[cold]
    fn exhausted(&mut self) -> Fault {
        self.left = 0;
        FaultKind::Budget { limit: self.budget }.into()
    }

    /// The instruction that called the host.
    #[must_use]
    pub fn location(&self) -> Location {
        self.location_of(self.at as usize)
    }

    /// The instruction that called the host as a number, which [`Code::location`] turns into a place.
    #[inline]
    #[must_use]
    pub fn site(&self) -> u32 {
        self.at
    }

    /// The index of the kernel function that the program has called.
    #[inline]
    #[must_use]
    pub fn called(&self) -> u32 {
        // All kernel functions' indices are of 32 bits.
        self.code.ops[self.at as usize].imm as u32
    }

    /// Calls a function of the program from within a host's call, with r1 to r5, and returns its r0. The callee continues
    /// on the same stack and spends the same budget.
    ///
    /// # Errors
    /// The fault that ended the callee; pass it on to end the whole run.
    #[inline(never)]
    pub fn call<H: Host>(&mut self, func: FuncId, args: [u64; 5], host: &mut H) -> Result<u64, Fault> {
        let frames_used = self.mem.frames_used;
        let caller = self.at;
        let result = match self.native {
            Some(native) => native::nested(self, native, func, args, host),
            None => interpret::call(self, func, args, host),
        };
        debug_assert!(self.mem.frames_used >= frames_used, "a callback ends no frame of its caller");
        self.mem.frames_used = frames_used;
        self.at = caller;
        result
    }

    /// As [`Vm::call`], through a program's function value (what `bpf_loop` and timers are given).
    ///
    /// # Errors
    /// [`FaultKind::BadCall`] if the value is no function of this program; else as `call`.
    pub fn call_pointer<H: Host>(&mut self, pointer: u64, args: &[u64], host: &mut H) -> Result<u64, Fault> {
        let func = FuncId::from_pointer(pointer).ok_or(FaultKind::BadCall { target: pointer })?;
        self.call(func, registers(args), host)
    }

    fn location_of(&self, index: usize) -> Location {
        self.code.location(index as u32)
    }

    /// Enters a frame and says what its r10 is; what else its exit restores is the caller's to remember.
    #[inline(always)]
    fn push_frame(&mut self, return_to: usize) -> Result<u64, FaultKind> {
        let depth = self.mem.frames_used;
        debug_assert!(depth <= MAX_FRAMES, "the stack has the frames");
        let Some(frame) = self.frames.get_mut(depth as usize) else {
            return Err(FaultKind::CallDepth { limit: MAX_FRAMES });
        };
        frame.return_to = return_to;
        frame.may_goto_left = MAY_GOTO_LIMIT;
        self.mem.frames_used = depth + 1;
        Ok(Memory::frame_pointer(depth))
    }
}

/// Arguments as r1 to r5; what is not given is 0.
#[inline(always)]
pub(crate) fn registers(args: &[u64]) -> [u64; 5] {
    assert!(args.len() <= 5, "a BPF function takes at most five arguments");
    std::array::from_fn(|number| args.get(number).copied().unwrap_or(0))
}

const _: () = assert!(FRAME_SIZE.is_multiple_of(8), "frame pointers stay aligned");
