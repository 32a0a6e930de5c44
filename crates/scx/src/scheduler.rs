//! A loaded sched_ext object as a scheduler of the simulation.

mod callbacks;
mod interleave;
mod results;

pub(crate) use interleave::Interleaving;
pub use interleave::{Access, Interleave, PATIENCE, Pause};

use crate::callbacks::OP_COUNT;
use crate::contents::{Global, MapTypes};
use crate::guest::Guest;
use crate::join::Join;
use crate::paths::Call;
use crate::priority::{PriorityPlace, PriorityWatch};
use crate::programs::{ReadyProgram, Returned};
use crate::state::State;
use crate::subs::Subs;
use crate::user::Joined;
use schedlab_base::{CpuId, DurationNs, KernelVersion, TaskId, TimeNs};
use schedlab_bpf::engine::{Compiler, Engine, Interpreter};
use schedlab_bpf::link::{Image, ImageVariable, StructOps};
use schedlab_bpf::{Done, Fault, FaultKind, FuncId, GuestAddr, Memory};
use schedlab_sim::{Kernel, OpKind, OpsInfo, TracePointKind, TracePoints};
use schedlab_trace::{ExitKind, ExitRecord, Priorities};

/// Least result that is an errno (minus `MAX_ERRNO`), and `EPROTO`.
const LEAST_ERROR: i32 = -4095;
const EPROTO: i32 = 71;

/// Instructions that one callback may execute before the scheduler is ejected. Chosen: a scan of 5,000 tasks with a
/// hundred instructions each, a hundred times over; the kernel itself has no such limit, but a watchdog.
pub const DEFAULT_BUDGET: u64 = 50_000_000;

/// A scheduler made of a BPF object file.
pub struct BpfScheduler {
    pub(crate) info: OpsInfo,
    pub(crate) wants: TracePoints,
    /// The table of operations, as the object or its user space has it.
    pub(crate) table: StructOps,
    /// The version whose verifier decides what a callback may call; nothing if it is not asked.
    pub(crate) verifier: Option<KernelVersion>,
    /// The scheduler's user space.
    pub(crate) user: Joined,
    /// Nothing: `reference` runs everything.
    pub(crate) engine: Option<Compiler>,
    pub(crate) reference: Interpreter,
    /// Code and variables; its runtime has moved to the state.
    pub(crate) image: Image,
    pub(crate) mem: Memory,
    pub(crate) state: State,
    pub(crate) guest: Guest,
    /// Where callbacks are paused, so that other CPUs continue in the middle of them.
    pub(crate) interleaving: Option<Interleaving>,
    /// By [`OpKind`].
    pub(crate) ops: [Option<FuncId>; OP_COUNT],
    /// By [`TracePointKind`]: the programs attached, in order of the object.
    pub(crate) tracing: Vec<Vec<FuncId>>,
    pub(crate) extra: ExtraOps,
    /// Something is to be done before and after each run: [`BpfScheduler::attend`].
    pub(crate) attended: bool,
    pub(crate) budget: u64,
    pub(crate) cid_form: bool,
    /// Counters and where they are, by name.
    pub(crate) counters: Vec<(String, GuestAddr)>,
    /// The object's other integers, in name order, with whether they have a sign, as they were when it was loaded.
    pub(crate) integers: Vec<(String, bool, u64)>,
    /// Tables and where they are, by name.
    pub(crate) tables: Vec<(String, ImageVariable)>,
    /// The counter of [`schedlab_sim::SchedExt::mark`].
    pub(crate) mark: Option<GuestAddr>,
    /// What user space does while the scheduler runs, in order of time.
    pub(crate) turns: Vec<Turn>,
    /// What the programs among them have returned.
    pub(crate) returned: Vec<Returned>,
    /// What runs before it is attached.
    pub(crate) programs: Vec<ReadyProgram>,
    /// Where the object keeps the priority of a task, if it does.
    pub(crate) priority_place: Option<PriorityPlace>,
    /// Where it was asked for and the object shows priorities. Runs are attended then.
    pub(crate) priorities: Option<PriorityWatch>,
    /// By [`OpKind`].
    pub(crate) costs: Costs,
    /// The object's integers as they were, where that was asked for.
    pub(crate) globals: Vec<Global>,
    /// The maps that the object declares.
    pub(crate) map_types: Vec<MapTypes>,
    /// Its sub-schedulers, and which one it is itself.
    pub(crate) subs: Subs,
}

/// What the runs of programs cost, by [`OpKind`]. A table for each number: the host's compiler would put those of one callback
/// together to add them at once, which takes longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    calls: [u64; OP_COUNT],
    insns: [u64; OP_COUNT],
    /// In simulated nanoseconds.
    time: [u64; OP_COUNT],
}

impl Default for Costs {
    fn default() -> Costs {
        Costs { calls: [0; OP_COUNT], insns: [0; OP_COUNT], time: [0; OP_COUNT] }
    }
}

impl Costs {
    #[inline(always)]
    pub(crate) fn add(&mut self, op: OpKind, insns: u64, begin: TimeNs, end: TimeNs) {
        debug_assert!(end >= begin, "time does not go back in a callback");
        self.calls[op as usize] += 1;
        self.insns[op as usize] += insns;
        self.time[op as usize] += end.0.wrapping_sub(begin.0);
    }
}

/// What user space does at a time.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) at: TimeNs,
    pub(crate) kind: TurnKind,
}

#[derive(Clone, Debug)]
pub(crate) enum TurnKind {
    /// The user space writes bytes into a variable.
    Write { addr: GuestAddr, bytes: Vec<u8> },
    /// The user space runs a program.
    Run(ReadyProgram),
}

/// Callbacks that the simulated core does not know, called here around those that it does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExtraOps {
    pub(crate) init_cids: Option<FuncId>,
}

impl std::fmt::Debug for BpfScheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BpfScheduler")
            .field("info", &self.info)
            .field("wants", &self.wants)
            .finish_non_exhaustive()
    }
}

impl BpfScheduler {
    /// Takes a look at a task's priority after a callback.
    #[cold]
    fn look_at_priority(&mut self, k: &Kernel, op: OpKind, task: TaskId) {
        let (Some(watch), Some(slot)) = (&mut self.priorities, self.state.tasks.slot(task)) else { return };
        let running = match op {
            OpKind::Running => Some(true),
            OpKind::Stopping => Some(false),
            _ => None,
        };
        if Priorities::keeps(task) {
            let what = (k.ctx().now, task, running);
            watch.look(what, slot, &mut self.state.runtime.maps, &self.image, &mut self.mem);
        }
    }

    /// Runs one program (the core has charged the call itself) with the arguments that a kernel's trampoline would
    /// store; 0 after a fault.
    #[inline]
    fn run<const N: usize>(&mut self, k: &mut Kernel, func: FuncId, op: OpKind, args: &[u64; N]) -> u64 {
        let context = self.guest.context(args);
        self.start(k, func, op, context)
    }

    /// As [`BpfScheduler::enter`] with the context.
    #[inline(never)]
    fn start(&mut self, k: &mut Kernel, func: FuncId, op: OpKind, context: u64) -> u64 {
        if self.attended {
            return self.enter(k, func, op, &[context]);
        }
        self.enter_program(k, func, op, context)
    }

    /// Runs a program with its context; 0 after a fault. Machine code that nothing else is to be done for is entered here.
    #[inline(always)]
    fn enter_program(&mut self, k: &mut Kernel, func: FuncId, op: OpKind, context: u64) -> u64 {
        debug_assert!(!self.attended, "nothing is to be done before and after the run");
        let (code, mem) = (&self.image.code, &mut self.mem);
        let Some(ready) = self.engine.as_mut().and_then(|compiler| compiler.ready(code, mem)) else {
            return self.enter(k, func, op, &[context]);
        };
        let begin = k.ctx().now;
        let mut join = Join { k, state: &mut self.state, charged: 0, owed: DurationNs::ZERO, op };
        match ready.run(func, context, mem, &mut join, self.budget) {
            Ok(done) => {
                let (charged, owed) = (join.charged, join.owed);
                k.charge_call(done.insns - charged, owed);
                self.costs.add(op, done.insns, begin, k.ctx().now);
                if self.state.left_open() { self.left_open(k, func) } else { done.r0 }
            }
            Err(fault) => {
                let due = (join.charged, join.owed);
                self.ended(k, (func, op, begin), Err(fault), due)
            }
        }
    }

    /// Runs a function with `args` in its registers; 0 after a fault.
    #[inline(never)]
    pub(crate) fn enter(&mut self, k: &mut Kernel, func: FuncId, op: OpKind, args: &[u64]) -> u64 {
        if self.attended {
            if let Err(fault) = self.attend(k) {
                self.report(k, &fault);
                return 0;
            }
            if self.interleaving.is_some() {
                return self.enter_interleaved(k, func, op, args);
            }
        }
        let begin = k.ctx().now;
        let mut join = Join { k, state: &mut self.state, charged: 0, owed: DurationNs::ZERO, op };
        let (code, mem, budget) = (&self.image.code, &mut self.mem, self.budget);
        let outcome = match &mut self.engine {
            Some(compiler) => compiler.run(code, func, args, mem, &mut join, budget),
            None => self.reference.run(code, func, args, mem, &mut join, budget),
        };
        let due = (join.charged, join.owed);
        self.ended(k, (func, op, begin), outcome, due)
    }

    /// What follows when a program has ended: its costs, and its result, which is 0 after a fault.
    #[inline(never)]
    pub(crate) fn ended(
        &mut self,
        k: &mut Kernel,
        (func, op, begin): (FuncId, OpKind, TimeNs),
        outcome: Result<Done, Fault>,
        (charged, owed): (u64, DurationNs),
    ) -> u64 {
        match outcome {
            Ok(done) => {
                self.end(k, op, done.insns, charged, owed);
                self.costs.add(op, done.insns, begin, k.ctx().now);
                if self.state.left_open() { self.left_open(k, func) } else { done.r0 }
            }
            Err(fault) => {
                self.fail(k, op, &fault, charged, owed);
                self.costs.add(op, fault.insns(), begin, k.ctx().now);
                0
            }
        }
    }

    /// A program has ended after `insns` instructions, of which so many are charged already, and calls that are not.
    #[inline(always)]
    fn end(&mut self, k: &mut Kernel, op: OpKind, insns: u64, charged: u64, calls: DurationNs) {
        k.charge_call(insns - charged, calls);
        if self.attended {
            self.look_after(k, op, insns);
        }
    }

    /// Whether programs read `__preempt_count`, have ring buffers or lines that are followed. A run whose paths are followed is
    /// attended too.
    pub(crate) fn is_attended(state: &State, mem: &Memory) -> bool {
        state.reads_preempt_count() || state.rings.are_there() || mem.follows_lines()
    }

    /// What is to be done before a run of an attended scheduler.
    #[inline(never)]
    fn attend(&mut self, k: &Kernel) -> Result<(), Fault> {
        if self.mem.follows_lines() {
            self.mem.run_on(k.machine().cpus[k.ctx().cpu.index()].core);
        }
        self.state.prepare(k, &mut self.mem)
    }

    /// What is to be done after a run of an attended scheduler.
    #[inline(never)]
    fn look_after(&mut self, k: &mut Kernel, op: OpKind, insns: u64) {
        let moved = self.mem.take_moved();
        if moved > 0 {
            k.charge_lines(moved);
        }
        self.state.rings.after_run(&mut self.state.runtime, &self.mem);
        if let Some(paths) = &mut self.state.paths {
            let ctx = k.ctx();
            let call = Call { time: ctx.now, cpu: ctx.cpu, current: ctx.current, name: "", insns };
            paths.take(op, call);
        }
    }

    /// Ends a run that has a fault.
    #[cold]
    fn fail(&mut self, k: &mut Kernel, op: OpKind, fault: &Fault, charged: u64, calls: DurationNs) {
        debug_assert!(fault.insns() >= charged, "instructions are charged once");
        self.end(k, op, fault.insns(), charged, calls);
        self.state.close_all(k);
        self.report(k, fault);
    }

    /// Ends a run that has left an iterator or a lock open.
    #[cold]
    pub(crate) fn left_open(&mut self, k: &mut Kernel, func: FuncId) -> u64 {
        if let Some(fault) = self.state.close_all(k) {
            let name = self.image.code.function(func).map_or("?", |function| function.name());
            k.error(ExitKind::Error, format!("BPF program {name}: {fault}"));
        }
        0
    }

    /// A fault ends the scheduler: the kernel's verifier would have refused the program, or its watchdog found it.
    #[cold]
    fn report(&mut self, k: &mut Kernel, fault: &Fault) {
        let place = fault.backtrace().last().map_or("?", |outermost| outermost.function.as_str());
        let text = match fault.kind() {
            FaultKind::Budget { limit } => {
                format!("BPF program ran too long: {place} executed more than {limit} instructions")
            }
            _ => format!("BPF program {place}: {fault}"),
        };
        let line = self.image.fault_lines(fault.backtrace());
        let line = line.map_or(String::new(), |line| format!("; {line}"));
        k.set_site(None);
        k.error(ExitKind::Error, text + &line);
    }

    #[inline]
    pub(crate) fn call<const N: usize>(&mut self, k: &mut Kernel, op: OpKind, args: &[u64; N]) -> u64 {
        match self.ops[op as usize] {
            Some(func) => self.run(k, func, op, args),
            None => 0,
        }
    }

    /// As [`BpfScheduler::call`] with a task as the first argument.
    #[inline]
    fn call_task(&mut self, k: &mut Kernel, op: OpKind, task: TaskId, second: u64) -> u64 {
        self.call_about(k, op, task, second, 0).unwrap_or(0)
    }

    /// The same with up to two further arguments; nothing where there is no such callback. Most runs of a program begin
    /// here, so that all of it is one function.
    #[inline(never)]
    fn call_about(
        &mut self,
        k: &mut Kernel,
        op: OpKind,
        task: TaskId,
        second: u64,
        third: u64,
    ) -> Option<u64> {
        let func = self.ops[op as usize]?;
        let pointer = self.shown_task(k, task)?;
        let context = self.guest.context(&[pointer, second, third]);
        if self.attended {
            return Some(self.call_attended(k, func, op, task, context));
        }
        Some(self.enter_program(k, func, op, context))
    }

    /// The run of a program about a task where something is to be done before and after it.
    #[inline(never)]
    fn call_attended(&mut self, k: &mut Kernel, func: FuncId, op: OpKind, task: TaskId, context: u64) -> u64 {
        let r0 = self.enter(k, func, op, &[context]);
        // The choice of a CPU is not yet about its priority.
        if self.priorities.is_some() && op != OpKind::SelectCpu {
            self.look_at_priority(k, op, task);
        }
        r0
    }

    /// The pointer to a task; an error of the run when there is no room for it.
    #[inline]
    fn task(&mut self, k: &mut Kernel, task: TaskId) -> Option<u64> {
        match self.state.tasks.known(task) {
            Some(addr) => Some(addr.0),
            None => self.new_task(k, task),
        }
    }

    #[cold]
    fn new_task(&mut self, k: &mut Kernel, task: TaskId) -> Option<u64> {
        match self.state.tasks.pointer(task, k, &mut self.mem) {
            Ok(addr) => Some(addr.0),
            Err(fault) => {
                self.report(k, &fault);
                None
            }
        }
    }

    /// The pointer to the task that a callback is about.
    #[inline]
    fn shown_task(&mut self, k: &mut Kernel, task: TaskId) -> Option<u64> {
        if let Some(addr) = self.state.tasks.shown(task) {
            return Some(addr.0);
        }
        let pointer = self.task(k, task)?;
        self.state.tasks.show(task, GuestAddr(pointer));
        Some(pointer)
    }

    /// A task or NULL.
    fn optional(&mut self, k: &mut Kernel, task: Option<TaskId>) -> Option<u64> {
        task.map_or(Some(0), |task| self.task(k, task))
    }

    /// How the scheduler numbers a CPU.
    #[inline]
    fn cpu_number(&self, cpu: CpuId) -> u64 {
        if self.cid_form { u64::from(self.state.cids.cid(cpu)) } else { u64::from(cpu.0) }
    }

    /// The result of an init callback: 0 or a negative errno.
    fn outcome(r0: u64) -> Result<(), i32> {
        match r0 as u32 as i32 {
            0 => Ok(()),
            error => Err(error
                .checked_neg()
                .filter(|errno| *errno > 0)
                .unwrap_or(schedlab_sim::flags::errno::EINVAL)),
        }
    }

    /// The result of a callback about a cgroup: as [`BpfScheduler::outcome`], and a number that is no errno ejects the scheduler
    /// (`scx_ops_sanitize_err()`).
    fn sane_outcome(k: &mut Kernel, name: &str, r0: u64) -> Result<(), i32> {
        match r0 as u32 as i32 {
            0 => Ok(()),
            error @ LEAST_ERROR..0 => Err(-error),
            other => {
                k.error(ExitKind::Error, format!("ops.{name}() returned an invalid errno {other}"));
                Err(EPROTO)
            }
        }
    }

    /// Hands the dump callbacks their context.
    fn dump_context(&mut self, k: &Kernel, exit: &ExitRecord) -> u64 {
        self.guest.write_dump_context(&self.state.offsets, exit, k, &mut self.mem)
    }

    fn end_dump(&mut self, k: &mut Kernel) {
        let (charged, owed) = (0, DurationNs::ZERO);
        Join { k, state: &mut self.state, charged, owed, op: OpKind::Dump }.flush_dump();
    }

    /// Runs the programs attached to a trace point.
    fn trace(&mut self, k: &mut Kernel, kind: TracePointKind, args: &[u64; 4]) {
        for index in 0..self.tracing[kind as usize].len() {
            let func = self.tracing[kind as usize][index];
            self.run(k, func, OpKind::Tracing, args);
        }
    }

    /// Writes the current task's registers as a system call's trace point shows them and returns where they are.
    fn write_regs(&mut self, k: &mut Kernel, call: (i64, [u64; 6]), ret: Option<i64>) -> Option<u64> {
        let current = k.ctx().current?;
        let task = GuestAddr(self.task(k, current)?);
        self.state.write_regs(task, Some(call), &mut self.mem).ok()?;
        let regs = self.state.tasks.regs(task);
        if let Some(ret) = ret {
            self.mem.write_u64(regs.offset(self.state.offsets.regs.ax), ret as u64).ok()?;
        }
        Some(regs.0)
    }
}
