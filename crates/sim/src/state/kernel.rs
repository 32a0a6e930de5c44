//! The simulated kernel's state, its clock and costs, and what callbacks may
//! read. The sched_ext kfuncs are in `kfunc`; what runs callbacks is in `sim`.

use crate::class::fair::balance::Balancing;
use crate::class::fair::group::FairGroups;
use crate::event::lock::Timeline;
use crate::event::{Event, EventQueue};
use crate::exec::UserMemory;
use crate::ipc::Descriptors;
use crate::state::cache::Cache;
use crate::state::charge::{Charging, CostTotals};
use crate::state::cpu::Cpu;
use crate::state::deadline::Admitted;
use crate::state::dsq::{Cursor, Dsq};
use crate::state::flat::Flat;
use crate::state::group::Groups;
use crate::state::held::Held;
use crate::state::ops::{OpKind, TracePoint, TracePointKind};
use crate::state::pressure::Pressure;
use crate::state::rq::RtThrottling;
use crate::state::sched::Sched;
use crate::state::scx::ScxState;
use crate::state::starvation::IdleBeside;
use crate::state::subs::Subs;
use crate::state::task::{FIRST_PID, Task, USER_SPACE_PID, View};
use crate::state::timer::TimerState;
use crate::state::topology::Topology;
use crate::state::trace::Tracer;
use schedlab_base::{CpuId, CpuMask, DurationNs, Machine, Prng, StopFlag, TaskId, TaskTable, TimeNs};
use schedlab_trace::{Bounds, WATCHDOG};
use schedlab_workload::{Attribute, ProcessId};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Where and when the present kernel path runs.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The CPU.
    pub cpu: CpuId,
    /// The CPU's local time, everything charged so far included.
    pub now: TimeNs,
    /// The task that runs or was interrupted; nothing is the idle task.
    pub current: Option<TaskId>,
    /// The callback that runs, [`OpKind::None`] outside of callbacks.
    pub op: OpKind,
    /// The task that the callback is about, where it is about one.
    pub op_task: Option<TaskId>,
    /// The CPU whose run queue the callback holds, where it holds one.
    pub rq: Option<CpuId>,
    /// In an interrupt on top of `current`.
    pub interrupt: Interrupt,
    /// The place in the scheduler's code whose call the kernel carries out, as [`crate::SchedExt::source`] understands it.
    pub(crate) site: Option<u32>,
}

impl Context {
    /// CPU 0 idles at time 0.
    fn start() -> Context {
        Context {
            cpu: CpuId(0),
            now: TimeNs::ZERO,
            current: None,
            op: OpKind::None,
            op_task: None,
            rq: None,
            interrupt: Interrupt::None,
            site: None,
        }
    }
}

/// What kind of interrupt runs on top of the current task, as `preempt_count` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interrupt {
    /// None.
    #[default]
    None,
    /// A soft interrupt: a packet over loopback, delivered on top of its sender.
    Soft,
    /// A timer, a disk or another CPU.
    Hard,
}

/// How long the simulated kernel has been up when a run begins, if a scheduler does not say otherwise ([`SchedExt::uptime`]).
/// Chosen: any time but 0, which no program ever reads from a kernel's clock.
///
/// [`SchedExt::uptime`]: crate::SchedExt::uptime
pub const UPTIME: DurationNs = DurationNs::from_secs(10);

/// A change of a task's attributes at some time, made from outside of the run on CPU 0. Has no
/// effect on a task that does not live then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: TimeNs,
    /// Whose.
    pub task: TaskId,
    /// What.
    pub attribute: Attribute,
}

/// The stream of the run's seed that kernel and programs draw from.
const PRNG_STREAM: u64 = 0x6b65_726e_656c;

/// The stream that the phase of the timer ticks is drawn from.
const TICK_STREAM: u64 = 0x7469_636b;

/// The simulated kernel, as callbacks of a scheduler see it.
///
/// In memory the members lie as they are declared: the code that reaches the first ones is shorter, and the host waits
/// for code more than for data.
#[derive(Debug)]
#[repr(C)]
pub struct Kernel {
    pub(crate) ctx: Context,
    pub(crate) charging: Charging,
    pub(crate) kicks_pending: bool,
    /// The settled pick is to be followed by another one.
    pub(crate) resched_after_pick: bool,
    pub(crate) checker_on: bool,
    /// When the event that is being taken happens; no path begins earlier any more.
    pub(crate) event_time: TimeNs,
    /// The living tasks.
    pub(crate) tasks: TaskTable<Task>,
    /// The same, while the lane has them.
    pub(crate) flat: Flat,
    /// Where tasks are shown that no program knows.
    pub(crate) unseen: View,
    /// Tasks made so far: the id of the next one.
    pub(crate) tasks_made: u32,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) dsqs: Vec<Dsq>,
    pub(crate) limit: TimeNs,
    pub(crate) stop: StopFlag,
    pub(crate) queue: EventQueue,
    pub(crate) totals: CostTotals,
    pub(crate) trace: Tracer,
    pub(crate) scx: ScxState,
    /// The scheduler at hand.
    pub(crate) sched: Sched,
    pub(crate) subs: Subs,
    /// `ops.dequeue()` calls and trace points that wait for the callback to return.
    pub(crate) deferred: VecDeque<Deferred>,
    pub(crate) machine: Machine,
    pub(crate) topology: Topology,
    pub(crate) balancing: Balancing,
    pub(crate) online: CpuMask,
    /// How often CPUs have come and gone.
    pub(crate) hotplugs: u64,
    /// By core.
    pub(crate) core_caches: Vec<Cache>,
    /// By last-level domain; empty when the machine has no such caches.
    pub(crate) llc_caches: Vec<Cache>,
    pub(crate) live_tasks: u32,
    /// Runnable tasks, running ones included.
    pub(crate) total_running: u32,
    /// CPUs that run a task, for contention.
    pub(crate) busy_cpus: u32,
    /// An idle CPU is in a kernel path; known on a machine of [`Machine::one_processor`].
    pub(crate) idle_path: bool,
    /// Wakeups on their way (timeouts, and what other CPUs have queued), those of the kernel's own tasks apart.
    pub(crate) pending_wakeups: u32,
    foreign: Range<u32>,
    /// How long it had been up when the run was set up.
    pub(crate) uptime: DurationNs,
    /// When the run began; what was before is not told.
    pub(crate) origin: TimeNs,
    /// The run has not begun yet.
    pub(crate) silent: bool,
    pub(crate) ps_remainder: u64,
    pub(crate) nr_nodes: u32,
    pub(crate) prng: Prng,
    /// When in their period the ticks come: a run begins at any time of it.
    pub(crate) tick_phase: u64,
    /// [`Machine::tick_period`], which is a division.
    pub(crate) tick_period: DurationNs,
    pub(crate) cursors: Vec<Cursor>,
    pub(crate) locks: Vec<Timeline>,
    pub(crate) timers: Vec<TimerState>,
    /// First thread's pid and the number of threads, by process.
    pub(crate) leaders: BTreeMap<ProcessId, (i32, u32)>,
    pub(crate) changes: Vec<Change>,
    /// Sinks want every pass through `schedule()`.
    pub(crate) schedule_events: bool,
    pub(crate) wait_events: bool,
    pub(crate) user: UserMemory,
    pub(crate) descriptors: Descriptors,
    /// From when on waits are worth a warning.
    pub(crate) bounds: Bounds,
    pub(crate) idle_beside: IdleBeside,
    pub(crate) rt_throttling: RtThrottling,
    pub(crate) dl_admitted: Admitted,
    /// Why the run cannot continue, if it cannot.
    pub(crate) refusal: Option<String>,
    /// What a paused callback holds.
    pub(crate) held: Held,
    pub(crate) groups: Groups,
    pub(crate) fair_groups: FairGroups,
    pub(crate) pressure: Pressure,
}

/// A call into the scheduler that has to wait for the present one to return.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deferred {
    Dequeue(TaskId, u64),
    Trace(TracePoint),
}

impl Kernel {
    /// A kernel of a machine that runs nothing, for what a loader has programs do before it attaches the scheduler.
    pub fn unloaded(machine: &schedlab_base::Machine, seed: u64, uptime: DurationNs) -> Kernel {
        let mut k = Kernel::new(&crate::Config::new(machine.clone(), seed));
        k.uptime = uptime;
        k.scx.loaded = true;
        k.ctx.op = OpKind::Init;
        k
    }

    /// Puts such a kernel on this CPU of its machine.
    pub fn stand_on(&mut self, cpu: CpuId) {
        assert!(cpu.index() < self.machine.cpu_count(), "{cpu} is one of the machine's");
        self.ctx.cpu = cpu;
    }

    /// How long it had been up at time 0 of the run.
    pub fn uptime(&self) -> DurationNs {
        self.uptime
    }

    /// A program has a timer.
    pub fn has_timers(&self) -> bool {
        !self.timers.is_empty()
    }

    /// Counts a line that a program prints; its number.
    pub fn count_line(&mut self) -> u64 {
        self.scx.lines += 1;
        self.scx.lines
    }

    /// Why the scheduler is to be ejected, if it is.
    pub fn failure(&self) -> Option<&str> {
        self.sched.exit.as_ref().map(|exit| exit.message.as_str())
    }

    /// A kernel at time 0 with idle CPUs and no task.
    pub(crate) fn new(config: &crate::Config) -> Kernel {
        let (machine, online) = (config.machine.clone(), config.machine.all_cpus());
        let topology = Topology::new(&machine, &online);
        let groups = Groups::new(&[], topology.machine.clone());
        let (cpus, nr_nodes) = (Cpu::all(&machine), topology.node_masks.len() as u32);
        let ctx = Context::start();
        Kernel {
            ctx,
            prng: Prng::stream(config.seed, PRNG_STREAM),
            tick_phase: Prng::stream(config.seed, TICK_STREAM).below(machine.tick_period().0),
            tick_period: machine.tick_period(),
            tasks: TaskTable::new(),
            flat: Flat::default(),
            unseen: View::none(),
            tasks_made: 0,
            live_tasks: 0,
            dsqs: Dsq::built_in(&cpus, nr_nodes),
            nr_nodes,
            cursors: Vec::new(),
            queue: EventQueue::new(cpus.len()),
            locks: Vec::new(),
            timers: Vec::new(),
            scx: ScxState::default(),
            sched: Sched::default(),
            subs: Subs::default(),
            trace: Tracer::new(cpus.len(), config.sinks.clone(), config.checkers),
            totals: CostTotals::default(),
            deferred: VecDeque::new(),
            busy_cpus: 0,
            idle_path: false,
            charging: Charging::Nothing,
            event_time: TimeNs::ZERO,
            ps_remainder: 0,
            topology,
            online,
            hotplugs: 0,
            balancing: Balancing::new(&machine, config.seed),
            core_caches: Cache::of_cores(&machine),
            llc_caches: Cache::of_llcs(&machine),
            leaders: BTreeMap::new(),
            kicks_pending: false,
            resched_after_pick: false,
            pending_wakeups: 0,
            foreign: 0..0,
            uptime: UPTIME,
            origin: TimeNs::ZERO,
            silent: false,
            total_running: 0,
            limit: TimeNs::MAX,
            stop: config.stop.clone(),
            changes: Vec::new(),
            checker_on: config.checkers,
            schedule_events: config.schedule_events,
            wait_events: config.wait_events,
            user: UserMemory::default(),
            descriptors: Descriptors::default(),
            bounds: Bounds { watchdog: WATCHDOG },
            idle_beside: IdleBeside::default(),
            rt_throttling: RtThrottling::new(machine.kernel.version),
            dl_admitted: Admitted::default(),
            refusal: None,
            held: Held::default(),
            groups,
            fair_groups: FairGroups::default(),
            pressure: Pressure::default(),
            machine,
            cpus,
        }
    }

    /// The descriptors that all tasks of the run have open.
    pub fn descriptors(&self) -> &Descriptors {
        &self.descriptors
    }

    /// `length` bytes of user memory, the same in all processes, as far as something is known to lie there. That
    /// is futex words, and what the arguments of semop, fcntl, poll and select point to.
    pub fn read_user(&self, addr: u64, length: usize) -> Option<Vec<u8>> {
        self.user.read(addr, length)
    }

    /// True when `now` is beyond the end of the run.
    pub(crate) fn over(&self, now: TimeNs) -> bool {
        now >= self.limit
    }

    /// Tasks that are the kernel's own: no part of the workload.
    pub(crate) fn set_foreign(&mut self, foreign: Range<u32>) {
        debug_assert!(foreign.start <= foreign.end, "a range begins before its end");
        self.foreign = foreign.clone();
        self.trace.summary.pass_over(foreign);
    }

    /// A time of the machine as one of the run.
    #[inline]
    pub(crate) fn in_run(&self, time: TimeNs) -> TimeNs {
        TimeNs(time.0.saturating_sub(self.origin.0))
    }

    /// The present time on the run's clock: 0 before it has begun.
    pub fn run_time(&self) -> TimeNs {
        self.in_run(self.ctx.now.min(self.limit))
    }

    /// The living tasks of the workload.
    pub(crate) fn own_tasks(&self) -> impl Iterator<Item = &Task> {
        self.live_tasks().filter(|task| !self.foreign.contains(&task.id.0))
    }

    /// The task is the kernel's own.
    pub(crate) fn is_own_thread(&self, task: TaskId) -> bool {
        self.foreign.contains(&task.0)
    }

    /// A timeout of a task has been made, or taken (`on`: false). Those of the kernel's own tasks keep no run going.
    pub(crate) fn count_timeout(&mut self, task: TaskId, on: bool) {
        if !self.is_own_thread(task) {
            debug_assert!(
                on || self.pending_wakeups > 0 || self.is_own_thread(task),
                "a wakeup that comes was pending"
            );
            self.pending_wakeups = if on { self.pending_wakeups + 1 } else { self.pending_wakeups - 1 };
        }
    }

    /// The event comes by itself, however long the workload's tasks wait.
    pub(crate) fn is_idle_source(&self, event: Event) -> bool {
        match event {
            Event::Timeout { task, .. } | Event::Latest { task, .. } => self.is_own_thread(task),
            Event::Late { cpu } => self.cpu(cpu).late.front().is_none_or(|&event| self.is_idle_source(event)),
            event => event.is_idle_source(),
        }
    }

    /// True when no task runs, is runnable, or waits for something that will come.
    #[inline]
    pub(crate) fn is_stuck(&self) -> bool {
        self.total_running == 0 && self.busy_cpus == 0 && self.pending_wakeups == 0
    }

    /// Where and when the present kernel path runs.
    pub fn ctx(&self) -> &Context {
        &self.ctx
    }

    /// The scheduler calls the kernel from this place of its code; an exit that is claimed from now on names it.
    #[inline]
    pub fn set_site(&mut self, site: Option<u32>) {
        self.ctx.site = site;
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// 32 random bits from the run's seed.
    pub fn prandom_u32(&mut self) -> u32 {
        (self.prng.next_u64() >> 32) as u32
    }

    /// The task `id`, which exists. Panics when it does not (any more), in a release build perhaps with another task; use
    /// [`Kernel::get_task`] for ids from elsewhere.
    #[inline]
    pub fn task(&self, id: TaskId) -> &Task {
        debug_assert!(!self.is_flat(), "the lane has {id}");
        self.tasks.living(id)
    }

    #[inline]
    pub(crate) fn task_mut(&mut self, id: TaskId) -> &mut Task {
        debug_assert!(!self.is_flat(), "the lane has {id}");
        self.tasks.living_mut(id)
    }

    /// The task `id`, if it exists and is not yet gone.
    pub fn get_task(&self, id: TaskId) -> Option<&Task> {
        debug_assert!(!self.is_flat(), "the lane has {id}");
        self.tasks.get(id)
    }

    /// As [`Kernel::get_task`], also while the lane has the tasks. The task may then be asked for what the lane does not change: its
    /// numbers, its name, its class, its group, and the CPUs that it may use.
    #[inline]
    pub fn lasting(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id)
    }

    /// The task with this pid, if it lives.
    pub fn task_by_pid(&self, pid: i32) -> Option<TaskId> {
        if pid == USER_SPACE_PID && self.scx.user_space.is_some() {
            return self.scx.user_space;
        }
        let id = TaskId(u32::try_from(pid.checked_sub(FIRST_PID)?).ok()?);
        // The scheduler's user space has a pid of its own, and no other.
        self.lasting(id).filter(|task| task.pid == pid).map(|task| task.id)
    }

    /// The task with this `scx.tid`, if it lives.
    pub fn task_by_tid(&self, tid: u64) -> Option<TaskId> {
        let id = TaskId(u32::try_from(tid.checked_sub(1)?).ok()?);
        self.lasting(id).map(|task| task.id)
    }

    /// The living tasks in creation order.
    pub fn live_tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter()
    }

    /// The CPU `cpu`.
    #[inline]
    pub fn cpu(&self, cpu: CpuId) -> &Cpu {
        &self.cpus[cpu.index()]
    }

    #[inline]
    pub(crate) fn cpu_mut(&mut self, cpu: CpuId) -> &mut Cpu {
        &mut self.cpus[cpu.index()]
    }

    /// The task that runs on `cpu`; nothing is the idle task.
    #[inline]
    pub fn curr(&self, cpu: CpuId) -> Option<TaskId> {
        self.cpus[cpu.index()].curr
    }

    /// How long each CPU has run tasks.
    pub fn busy_times(&self) -> impl Iterator<Item = DurationNs> {
        self.trace.summary.busy(self.ctx.now)
    }

    /// The totals of scheduling costs so far.
    pub fn totals(&self) -> &CostTotals {
        &self.totals
    }

    /// Records that a trace point fired, if a program is attached to it. Delivered
    /// when the core has control next.
    pub(crate) fn fire(&mut self, kind: TracePointKind, point: impl FnOnce() -> TracePoint) {
        if self.scx.wants.wants(kind) {
            self.defer(Deferred::Trace(point()));
        }
    }

    /// Leaves a call behind until the core has control.
    #[inline(never)]
    pub(crate) fn defer(&mut self, call: Deferred) {
        self.deferred.push_back(call);
    }
}
