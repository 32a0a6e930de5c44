//! A loaded sched_ext object as a scheduler of the simulation.

use crate::callbacks::{OP_COUNT, OPS};
use crate::contents::{Global, MapTypes};
use crate::guest::Guest;
use crate::helpers::Message;
use crate::join::{Join, TASK_PT_REGS};
use crate::priority::{PriorityPlace, PriorityWatch};
use crate::programs::ReadyProgram;
use crate::state::State;
use schedlab_base::{CpuId, CpuMask, DurationNs, TaskId, TimeNs, Weight};
use schedlab_bpf::engine::{Compiler, Engine, Interpreter};
use schedlab_bpf::insn::{Insn, op};
use schedlab_bpf::link::{Image, ImageVariable};
use schedlab_bpf::memory::ARENA_BASE;
use schedlab_bpf::{Fault, FaultKind, FuncId, GuestAddr, Memory};
use schedlab_sim::{
    Kernel, OpKind, OpsInfo, PreemptReason, SchedExt, TimerId, TracePoint, TracePointKind, TracePoints,
};
use schedlab_trace::{CallbackCost, ExitKind, ExitRecord, Priorities, PriorityCourse};

/// Instructions that one callback may execute before the scheduler is ejected. Chosen: a scan of 5,000 tasks with a
/// hundred instructions each, a hundred times over; the kernel itself has no such limit, but a watchdog.
pub const DEFAULT_BUDGET: u64 = 50_000_000;

/// A scheduler made of a BPF object file.
pub struct BpfScheduler {
    pub(crate) info: OpsInfo,
    pub(crate) wants: TracePoints,
    /// Nothing: `reference` runs everything.
    pub(crate) engine: Option<Compiler>,
    pub(crate) reference: Interpreter,
    /// Code and variables; its runtime has moved to the state.
    pub(crate) image: Image,
    pub(crate) mem: Memory,
    pub(crate) state: State,
    pub(crate) guest: Guest,
    /// By [`OpKind`].
    pub(crate) ops: [Option<FuncId>; OP_COUNT],
    /// By [`TracePointKind`]: the programs attached, in order of the object.
    pub(crate) tracing: Vec<Vec<FuncId>>,
    pub(crate) extra: ExtraOps,
    pub(crate) budget: u64,
    pub(crate) cid_form: bool,
    /// Counters and where they are, by name.
    pub(crate) counters: Vec<(String, GuestAddr)>,
    /// The object's other integers, in name order, as they were when it was loaded.
    pub(crate) integers: Vec<(String, u64)>,
    /// Tables and where they are, by name.
    pub(crate) tables: Vec<(String, ImageVariable)>,
    /// The counter of [`SchedExt::mark`].
    pub(crate) mark: Option<GuestAddr>,
    /// What user space writes while the scheduler runs, in order of time.
    pub(crate) writes: Vec<Write>,
    /// What runs before it is attached.
    pub(crate) programs: Vec<ReadyProgram>,
    /// Where the object keeps the priority of a task, if it does.
    pub(crate) priority_place: Option<PriorityPlace>,
    /// Where it was asked for and the object shows priorities.
    pub(crate) priorities: Option<PriorityWatch>,
    /// By [`OpKind`].
    pub(crate) costs: [Cost; OP_COUNT],
    /// The object's integers as they were, where that was asked for.
    pub(crate) globals: Vec<Global>,
    /// The maps that the object declares.
    pub(crate) map_types: Vec<MapTypes>,
}

/// What the runs of programs cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    calls: u64,
    insns: u64,
    /// In simulated nanoseconds.
    time: u64,
}

impl Cost {
    #[inline(always)]
    fn add(&mut self, insns: u64, begin: TimeNs, end: TimeNs) {
        self.calls += 1;
        self.insns += insns;
        self.time += end.0.saturating_sub(begin.0);
    }
}

/// Bytes that user space writes into a variable.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) at: TimeNs,
    pub(crate) addr: GuestAddr,
    pub(crate) bytes: Vec<u8>,
}

/// Callbacks that the simulated core does not know, called here around those that it does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExtraOps {
    pub(crate) cgroup_init: Option<FuncId>,
    pub(crate) cgroup_exit: Option<FuncId>,
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
    /// The scheduler's own counters ([`schedlab_bpf::object::Object::counters`]) as they are now, in order of name.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let read = |(name, addr): &(String, GuestAddr)| Some((name.clone(), self.mem.read_u64(*addr).ok()?));
        self.counters.iter().filter_map(read).collect()
    }

    /// The object's other integers ([`schedlab_bpf::object::Object::integers`]) that are not what they were when it was loaded,
    /// in order of name; negative ones as two's complement.
    pub fn changed_integers(&self) -> Vec<(String, u64)> {
        let now = |(name, before): &(String, u64)| {
            let now = self.variable(name).ok().filter(|now| now != before)?;
            Some((name.clone(), now))
        };
        self.integers.iter().filter_map(now).collect()
    }

    /// The bytes of the scheduler's tables ([`schedlab_bpf::object::Object::tables`]) as they are now, in order of name.
    pub fn tables(&self) -> Vec<(String, Vec<u8>)> {
        let read = |(name, place): &(String, ImageVariable)| {
            Some((name.clone(), self.mem.slice(place.addr, place.size).ok()?.to_vec()))
        };
        self.tables.iter().filter_map(read).collect()
    }

    /// Passes through `schedule()` in which the counter of this name rises are marked.
    ///
    /// # Errors
    /// A sentence: no such counter, and which there are.
    pub fn mark_by(&mut self, counter: &str) -> Result<(), String> {
        let found = self.counters.iter().find(|(name, _)| name == counter);
        self.mark = Some(found.map(|&(_, addr)| addr).ok_or_else(|| {
            let names: Vec<&str> = self.counters.iter().map(|(name, _)| name.as_str()).collect();
            let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            format!("no counter named '{counter}'; it has: {known}")
        })?);
        Ok(())
    }

    /// Watches the priorities of tasks from now on. False: the object does not show them.
    pub fn watch_priorities(&mut self) -> bool {
        self.priorities = self.priority_place.map(PriorityWatch::new);
        self.priorities.is_some()
    }

    /// How the priorities of tasks went, by [`TaskId`]; nothing where nobody watched.
    pub fn priorities(&self) -> &[PriorityCourse] {
        self.priorities.as_ref().map_or(&[], |watch| watch.seen.courses())
    }

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

    /// What the programs printed with `bpf_printk()`: the first lines, and the number of all.
    pub fn messages(&self) -> (&[Message], u64) {
        (&self.state.messages.lines, self.state.messages.count)
    }

    /// What the callbacks that were called cost so far, in the order of `struct sched_ext_ops`; timers and trace points last.
    pub fn callback_costs(&self) -> Vec<CallbackCost> {
        let named =
            OPS.iter().map(|(op, name, cid_name)| (*op, if self.cid_form { *cid_name } else { *name }));
        let all = named.chain([(OpKind::Timer, "timer"), (OpKind::Tracing, "tracing")]);
        let cost = |(op, name): (OpKind, &str)| {
            let Cost { calls, insns, time } = self.costs[op as usize];
            CallbackCost { name: name.to_string(), calls, insns: Some(insns), time: DurationNs(time) }
        };
        all.map(cost).filter(|cost| cost.calls > 0).collect()
    }

    /// Records that programs put into ring buffers and that were taken out for the reader there is not.
    pub fn ring_records(&self) -> u64 {
        self.state.rings.records
    }

    /// A global variable, or an element or member of one (`counts[3]`), as a number.
    ///
    /// # Errors
    /// A sentence: no such variable, or not a number.
    pub fn variable(&self, path: &str) -> Result<u64, String> {
        self.image.read_variable(path, &self.mem)
    }

    /// A member (`.base.pid`) of the object's struct `name` that lies in its arena, where `pointer`, a value that
    /// [`BpfScheduler::variable`] or this function gave, points to.
    ///
    /// # Errors
    /// A sentence: no such struct or member, not a number, or nothing in the arena at that place.
    pub fn arena_member(&self, name: &str, pointer: u64, path: &str) -> Result<u64, String> {
        // Arena pointers differ in their high halves: the object's own view and the user's.
        let addr = GuestAddr(ARENA_BASE | pointer & 0xffff_ffff);
        self.image.read_member(name, addr, path, &self.mem)
    }

    /// A copy of `len` bytes of the object's arena where `pointer`, as above, points to; nothing outside of it.
    pub fn arena_bytes(&self, pointer: u64, len: u64) -> Option<Vec<u8>> {
        let addr = GuestAddr(ARENA_BASE | pointer & 0xffff_ffff);
        self.mem.slice(addr, len).ok().map(<[u8]>::to_vec)
    }

    /// Runs one program (the core has charged the call itself) with the arguments that a kernel's trampoline would
    /// store; 0 after a fault.
    #[inline]
    fn run<const N: usize>(&mut self, k: &mut Kernel, func: FuncId, op: OpKind, args: &[u64; N]) -> u64 {
        let context = self.guest.context(args, &mut self.mem);
        self.start(k, func, op, context)
    }

    /// As [`BpfScheduler::enter`] with the context.
    #[inline(never)]
    fn start(&mut self, k: &mut Kernel, func: FuncId, op: OpKind, context: u64) -> u64 {
        self.enter(k, func, op, [context])
    }

    /// Runs a function with `args` in its registers; 0 after a fault.
    #[inline(always)]
    pub(crate) fn enter<const N: usize>(
        &mut self,
        k: &mut Kernel,
        func: FuncId,
        op: OpKind,
        args: [u64; N],
    ) -> u64 {
        if let Err(fault) = self.state.prepare(k, &mut self.mem) {
            self.report(k, &fault);
            return 0;
        }
        let begin = k.ctx().now;
        let mut join = Join { k, state: &mut self.state, charged: 0, op };
        let (code, mem, budget) = (&self.image.code, &mut self.mem, self.budget);
        let outcome = match &mut self.engine {
            Some(compiler) => compiler.run(code, func, &args, mem, &mut join, budget),
            None => self.reference.run(code, func, &args, mem, &mut join, budget),
        };
        let charged = join.charged;
        match outcome {
            Ok(done) => {
                self.end(k, done.insns - charged);
                self.costs[op as usize].add(done.insns, begin, k.ctx().now);
                if self.state.left_open() { self.left_open(k, func) } else { done.r0 }
            }
            Err(fault) => {
                self.fail(k, &fault, charged);
                self.costs[op as usize].add(fault.insns(), begin, k.ctx().now);
                0
            }
        }
    }

    /// A program has ended after `insns` instructions that are not charged yet.
    #[inline(always)]
    fn end(&mut self, k: &mut Kernel, insns: u64) {
        k.charge_insns(insns);
        self.state.rings.after_run(&mut self.state.runtime, &self.mem);
    }

    /// The same with a fault.
    #[cold]
    fn fail(&mut self, k: &mut Kernel, fault: &Fault, charged: u64) {
        self.end(k, fault.insns() - charged);
        self.state.close_all(k);
        self.report(k, fault);
    }

    /// The same with an iterator or a lock left open.
    #[cold]
    fn left_open(&mut self, k: &mut Kernel, func: FuncId) -> u64 {
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
        let line = fault.location().and_then(|at| self.image.source_line(at));
        let line = line.map_or(String::new(), |line| format!("; {line}"));
        k.set_site(None);
        k.error(ExitKind::Error, text + &line);
    }

    #[inline]
    fn call<const N: usize>(&mut self, k: &mut Kernel, op: OpKind, args: &[u64; N]) -> u64 {
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
        let context = self.guest.context(&[pointer, second, third], &mut self.mem);
        let r0 = self.enter(k, func, op, [context]);
        // The choice of a CPU is not yet about its priority.
        if self.priorities.is_some() && op != OpKind::SelectCpu {
            self.look_at_priority(k, op, task);
        }
        Some(r0)
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

    /// The same for the task that a callback is about.
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

    /// Calls the callbacks of the root cgroup that follow `ops.init()` in the kernel's enable path.
    fn init_cgroup(&mut self, k: &mut Kernel) -> Result<(), i32> {
        let Some(func) = self.extra.cgroup_init else { return Ok(()) };
        let args = [self.state.tasks.cgroup().0, self.guest.cgroup_init_args.0];
        let r0 = self.run(k, func, OpKind::Init, &args);
        Self::outcome(r0)
    }

    /// Hands the dump callbacks their context.
    fn dump_context(&mut self, k: &Kernel, exit: &ExitRecord) -> u64 {
        self.guest.write_dump_context(&self.state.offsets, exit, k, &mut self.mem)
    }

    fn end_dump(&mut self, k: &mut Kernel) {
        Join { k, state: &mut self.state, charged: 0, op: OpKind::Dump }.flush_dump();
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

impl SchedExt for BpfScheduler {
    fn info(&self) -> &OpsInfo {
        &self.info
    }

    fn wants(&self) -> TracePoints {
        self.wants
    }

    fn reads_registers(&self) -> bool {
        let reads = |insn: &Insn| {
            insn.code == op::CALL_K && insn.src == op::CALL_HELPER && insn.imm as u32 == TASK_PT_REGS
        };
        self.image.functions.iter().any(|function| function.insns.iter().any(reads))
    }

    fn user_times(&self) -> Vec<TimeNs> {
        self.writes.iter().map(|write| write.at).collect()
    }

    fn user_turn(&mut self, turn: usize) {
        let write = &self.writes[turn];
        let written = self.mem.write(write.addr, &write.bytes);
        debug_assert!(written.is_ok(), "the variable has this place since the object was linked");
    }

    fn init(&mut self, k: &mut Kernel) -> Result<(), i32> {
        let table = self.state.tasks.fd_table();
        crate::files::build(&mut self.mem, &self.state.offsets, k.descriptors(), table)
            .map_err(|_| schedlab_sim::flags::errno::ENOMEM)?;
        self.state.tasks.show_system(k, &mut self.mem).expect("the system's tasks are mapped");
        self.run_programs(k)?;
        if let Some(func) = self.extra.init_cids {
            let r0 = self.run(k, func, OpKind::Init, &[]);
            Self::outcome(r0)?;
        }
        let r0 = self.call(k, OpKind::Init, &[]);
        Self::outcome(r0)?;
        self.state.initialized = self.ops[OpKind::Init as usize].is_some();
        self.init_cgroup(k)
    }

    fn exit(&mut self, k: &mut Kernel, exit: &ExitRecord) {
        if let Some(func) = self.extra.cgroup_exit {
            let root = self.state.tasks.cgroup().0;
            self.run(k, func, OpKind::Exit, &[root]);
        }
        let info =
            self.guest.write_exit_info(&self.state.offsets, exit, k, self.state.initialized, &mut self.mem);
        self.call(k, OpKind::Exit, &[info]);
    }

    fn init_task(&mut self, k: &mut Kernel, task: TaskId, fork: bool) -> Result<(), i32> {
        let Some(pointer) = self.task(k, task) else { return Err(schedlab_sim::flags::errno::ENOMEM) };
        let cgroup = self.state.tasks.cgroup();
        let args = self.guest.write_init_task_args(fork, cgroup, &mut self.mem);
        let r0 = self.call(k, OpKind::InitTask, &[pointer, args]);
        Self::outcome(r0)?;
        let disallow = self.state.tasks.disallow_at(GuestAddr(pointer));
        if self.mem.read_u8(disallow).is_ok_and(|flag| flag != 0) {
            let task = k.task(task);
            let who = format!("{}[{}] during fork", task.name(), task.pid);
            k.error(ExitKind::Error, format!("ops.init_task() set task->scx.disallow for {who}"));
        }
        Ok(())
    }

    fn exit_task(&mut self, k: &mut Kernel, task: TaskId, cancelled: bool) {
        if self.ops[OpKind::ExitTask as usize].is_some()
            && let Some(pointer) = self.task(k, task)
        {
            let args = self.guest.write_exit_task_args(cancelled, &mut self.mem);
            self.call(k, OpKind::ExitTask, &[pointer, args]);
        }
        // What a program still points at stays as the task was last.
        k.hide_task(task);
        self.state.forget_task(task);
    }

    fn run_begins(&mut self) {
        self.costs = Default::default();
    }

    fn task_gone(&mut self, task: TaskId) {
        self.state.forget_task(task);
    }

    fn enable(&mut self, k: &mut Kernel, task: TaskId) {
        let args = self.guest.enable_args.0;
        let mask = k.task(task).cpus_allowed;
        if self.cid_form {
            self.guest.write_cmask(&self.state.cids, &mask, &mut self.mem);
        }
        self.call_task(k, OpKind::Enable, task, args);
        if self.cid_form {
            // The kernel follows up with the mask, so that it need not be read in two places.
            self.set_cpumask(k, task, &mask);
        }
    }

    fn disable(&mut self, k: &mut Kernel, task: TaskId) {
        self.call_task(k, OpKind::Disable, task, 0);
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev_cpu: CpuId, wake_flags: u64) -> i32 {
        let prev = self.cpu_number(prev_cpu);
        let Some(chosen) = self.call_about(k, OpKind::SelectCpu, task, prev, wake_flags) else {
            return prev_cpu.0 as i32;
        };
        let chosen = chosen as u32 as i32;
        if !self.cid_form {
            return chosen;
        }
        self.state.cids.cpu(chosen).map_or(-1, |cpu| cpu.0 as i32)
    }

    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, enq_flags: u64) {
        self.call_task(k, OpKind::Enqueue, task, enq_flags);
    }

    fn dequeue(&mut self, k: &mut Kernel, task: TaskId, deq_flags: u64) {
        self.call_task(k, OpKind::Dequeue, task, deq_flags);
    }

    fn dispatch(&mut self, k: &mut Kernel, cpu: CpuId, prev: Option<TaskId>) {
        if let Some(pointer) = self.optional(k, prev) {
            let cpu = self.cpu_number(cpu);
            self.call(k, OpKind::Dispatch, &[cpu, pointer]);
        }
        if let (true, Some(prev)) = (self.priorities.is_some(), prev) {
            self.look_at_priority(k, OpKind::Dispatch, prev);
        }
    }

    fn tick(&mut self, k: &mut Kernel, task: TaskId) {
        self.call_task(k, OpKind::Tick, task, 0);
    }

    fn runnable(&mut self, k: &mut Kernel, task: TaskId, enq_flags: u64) {
        self.call_task(k, OpKind::Runnable, task, enq_flags);
    }

    fn running(&mut self, k: &mut Kernel, task: TaskId) {
        self.call_task(k, OpKind::Running, task, 0);
    }

    fn stopping(&mut self, k: &mut Kernel, task: TaskId, runnable: bool) {
        self.call_task(k, OpKind::Stopping, task, u64::from(runnable));
    }

    fn quiescent(&mut self, k: &mut Kernel, task: TaskId, deq_flags: u64) {
        self.call_task(k, OpKind::Quiescent, task, deq_flags);
    }

    fn yield_task(&mut self, k: &mut Kernel, from: TaskId, to: Option<TaskId>) -> bool {
        match self.optional(k, to) {
            Some(to) => self.call_task(k, OpKind::Yield, from, to) & 1 != 0,
            None => false,
        }
    }

    fn core_sched_before(&mut self, k: &mut Kernel, a: TaskId, b: TaskId) -> bool {
        match self.task(k, b) {
            Some(b) => self.call_task(k, OpKind::CoreSchedBefore, a, b) & 1 != 0,
            None => false,
        }
    }

    fn set_weight(&mut self, k: &mut Kernel, task: TaskId, weight: Weight) {
        self.call_task(k, OpKind::SetWeight, task, u64::from(weight.0));
    }

    fn set_cpumask(&mut self, k: &mut Kernel, task: TaskId, mask: &CpuMask) {
        if self.ops[OpKind::SetCpumask as usize].is_none() {
            return;
        }
        let argument = match self.cid_form {
            true => self.guest.write_cmask(&self.state.cids, mask, &mut self.mem),
            false => self.guest.write_cpumask(mask, &mut self.mem),
        };
        self.call_task(k, OpKind::SetCpumask, task, argument);
    }

    fn update_idle(&mut self, k: &mut Kernel, cpu: CpuId, idle: bool) {
        let cpu = self.cpu_number(cpu);
        self.call(k, OpKind::UpdateIdle, &[cpu, u64::from(idle)]);
    }

    fn cpu_acquire(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.call(k, OpKind::CpuAcquire, &[u64::from(cpu.0), 0]);
    }

    fn cpu_release(&mut self, k: &mut Kernel, cpu: CpuId, reason: PreemptReason, task: Option<TaskId>) {
        if let Some(task) = self.optional(k, task) {
            let args = self.guest.write_release_args(reason, task, &mut self.mem);
            self.call(k, OpKind::CpuRelease, &[u64::from(cpu.0), args]);
        }
    }

    fn cpu_online(&mut self, k: &mut Kernel, cpu: CpuId) {
        let cpu = self.cpu_number(cpu);
        self.call(k, OpKind::CpuOnline, &[cpu]);
    }

    fn cpu_offline(&mut self, k: &mut Kernel, cpu: CpuId) {
        let cpu = self.cpu_number(cpu);
        self.call(k, OpKind::CpuOffline, &[cpu]);
    }

    fn dump(&mut self, k: &mut Kernel, exit: &ExitRecord) {
        let context = self.dump_context(k, exit);
        self.call(k, OpKind::Dump, &[context]);
        self.end_dump(k);
    }

    fn dump_cpu(&mut self, k: &mut Kernel, exit: &ExitRecord, cpu: CpuId, idle: bool) {
        let (context, cpu) = (self.dump_context(k, exit), self.cpu_number(cpu));
        self.call(k, OpKind::DumpCpu, &[context, cpu, u64::from(idle)]);
        self.end_dump(k);
    }

    fn dump_task(&mut self, k: &mut Kernel, exit: &ExitRecord, task: TaskId) {
        if let Some(pointer) = self.task(k, task) {
            let context = self.dump_context(k, exit);
            self.call(k, OpKind::DumpTask, &[context, pointer]);
            self.end_dump(k);
        }
    }

    fn timer_fired(&mut self, k: &mut Kernel, timer: TimerId) {
        let Some(due) = self.state.timer_due(timer, &mut self.mem) else { return };
        self.enter(k, due.func, OpKind::Timer, due.args);
        self.state.timer_done();
    }

    fn source(&self, site: u32) -> Option<String> {
        let at = self.image.code.location(site);
        let line = self.image.calling_line(&at)?;
        Some(format!("BPF program {}: {line}", at.function))
    }

    fn mark(&self) -> u64 {
        self.mark.and_then(|addr| self.mem.read_u64(addr).ok()).unwrap_or(0)
    }

    fn tracepoint(&mut self, k: &mut Kernel, point: &TracePoint) {
        let kind = point.kind();
        if self.tracing[kind as usize].is_empty() {
            return;
        }
        if let Some(args) = self.trace_args(k, point) {
            self.trace(k, kind, &args);
        }
    }
}

impl BpfScheduler {
    /// The typed arguments of a trace point (kernel: include/trace/events/sched.h, syscalls.h).
    fn trace_args(&mut self, k: &mut Kernel, point: &TracePoint) -> Option<[u64; 4]> {
        let idle = self.state.tasks.idle(k.ctx().cpu).0;
        let mut or_idle = |k: &mut Kernel, task: Option<TaskId>| match task {
            Some(task) => self.task(k, task),
            None => Some(idle),
        };
        Some(match *point {
            TracePoint::SchedSwitch { preempt, prev, next, prev_state } => {
                [u64::from(preempt), or_idle(k, prev)?, or_idle(k, next)?, u64::from(prev_state)]
            }
            TracePoint::SchedWaking { task }
            | TracePoint::SchedWakeup { task }
            | TracePoint::SchedWakeupNew { task } => [self.task(k, task)?, 0, 0, 0],
            TracePoint::SchedMigrateTask { task, dest } => [self.task(k, task)?, u64::from(dest.0), 0, 0],
            TracePoint::SchedProcessFork { parent, child } => {
                let shell = self.state.tasks.shell().0;
                let parent = match parent {
                    Some(parent) => self.task(k, parent)?,
                    None => shell,
                };
                [parent, self.task(k, child)?, 0, 0]
            }
            TracePoint::SchedProcessExit { task, group_dead } => {
                [self.task(k, task)?, u64::from(group_dead), 0, 0]
            }
            TracePoint::SchedProcessExec { task } => {
                let pid = k.task(task).pid;
                [self.task(k, task)?, pid as u64, self.guest.scratch.0, 0]
            }
            TracePoint::SysEnter { nr, args } => [self.write_regs(k, (nr, args), None)?, nr as u64, 0, 0],
            TracePoint::SysExit { nr, args, ret } => {
                [self.write_regs(k, (nr, args), Some(ret))?, ret as u64, 0, 0]
            }
        })
    }
}
