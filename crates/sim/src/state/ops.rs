//! A loaded scheduler as the sched_ext core sees it: the callbacks of
//! `struct sched_ext_ops` and the trace points that its programs attach to.

use crate::Kernel;
use crate::event::lock::TimerId;
use crate::state::group::{GroupIx, GroupKnobs};
use crate::state::kernel::UPTIME;
pub use crate::state::points::{TracePoint, TracePointKind, TracePoints};
use crate::state::subs::SchedIx;
use schedlab_base::{CpuId, CpuMask, DurationNs, Policy, TaskId, TimeNs, Weight};
use schedlab_trace::ExitRecord;

/// A callback of `struct sched_ext_ops`; also what a kfunc is called from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the kernel's callback names")]
pub enum OpKind {
    /// No callback: the core itself runs.
    None = 0,
    SelectCpu,
    Enqueue,
    Dequeue,
    Dispatch,
    Tick,
    Runnable,
    Running,
    Stopping,
    Quiescent,
    Yield,
    CoreSchedBefore,
    SetWeight,
    SetCpumask,
    UpdateIdle,
    CpuAcquire,
    CpuRelease,
    InitTask,
    ExitTask,
    Enable,
    Disable,
    Dump,
    DumpCpu,
    DumpTask,
    CpuOnline,
    CpuOffline,
    Init,
    Exit,
    CgroupInit,
    CgroupExit,
    CgroupPrepMove,
    CgroupMove,
    CgroupSetWeight,
    CgroupSetBandwidth,
    CgroupSetIdle,
    SubAttach,
    SubDetach,
    SubCapsUpdated,
    SubEcapsUpdated,
    /// A BPF timer's function.
    Timer,
    /// A program attached to a trace point.
    Tracing,
}

/// Which callbacks a scheduler has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpsSet(u64);

impl OpsSet {
    /// None.
    pub const EMPTY: OpsSet = OpsSet(0);

    /// All.
    pub const ALL: OpsSet = OpsSet(u64::MAX);

    /// The callbacks that are about a task (kernel: `SCX_CALL_OP_TASK()` and its like).
    pub const ABOUT_TASKS: OpsSet = OpsSet::EMPTY
        .with(OpKind::SelectCpu)
        .with(OpKind::Enqueue)
        .with(OpKind::Dequeue)
        .with(OpKind::Tick)
        .with(OpKind::Runnable)
        .with(OpKind::Running)
        .with(OpKind::Stopping)
        .with(OpKind::Quiescent)
        .with(OpKind::Yield)
        .with(OpKind::CoreSchedBefore)
        .with(OpKind::SetWeight)
        .with(OpKind::SetCpumask)
        .with(OpKind::ExitTask)
        .with(OpKind::Enable)
        .with(OpKind::Disable)
        .with(OpKind::CgroupMove);

    /// This set with `op`.
    #[must_use]
    pub const fn with(self, op: OpKind) -> OpsSet {
        OpsSet(self.0 | 1 << op as u8)
    }

    /// This set without `op`.
    #[must_use]
    pub(crate) const fn without(self, op: OpKind) -> OpsSet {
        OpsSet(self.0 & !(1 << op as u8))
    }

    /// True if all of `others` are among them.
    pub(crate) const fn has_all(self, others: OpsSet) -> bool {
        self.0 & others.0 == others.0
    }

    /// True when the scheduler has `op`.
    #[inline]
    pub const fn has(self, op: OpKind) -> bool {
        self.0 >> op as u8 & 1 != 0
    }
}

impl FromIterator<OpKind> for OpsSet {
    fn from_iter<I: IntoIterator<Item = OpKind>>(ops: I) -> OpsSet {
        ops.into_iter().fold(OpsSet::EMPTY, OpsSet::with)
    }
}

/// The fixed part of `struct sched_ext_ops`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpsInfo {
    /// `ops.name`.
    pub name: String,
    /// `SCX_OPS_*`.
    pub flags: u64,
    /// `ops.timeout_ms`; zero stands for the kernel's maximum of 30 s.
    pub timeout: DurationNs,
    /// `ops.dispatch_max_batch`; zero stands for 32.
    pub dispatch_max_batch: u32,
    /// `ops.exit_dump_len` in bytes; zero stands for 32768.
    pub exit_dump_len: u32,
    /// `ops.hotplug_seq`: how often CPUs had come and gone when it was opened; 0 does not matter.
    pub hotplug_seq: u64,
    /// `ops.rescue_bandwidth_ppt` and `ops.rescue_quantum_us`; zero stands for the kernel's defaults.
    pub rescue_bandwidth_ppt: u32,
    #[allow(missing_docs, reason = "documented with the one before")]
    pub rescue_quantum_us: u32,
    /// The scheduler speaks of cids (`struct sched_ext_ops_cid`).
    pub cid_form: bool,
    /// The callbacks that exist.
    pub present: OpsSet,
}

/// Why sched_ext lost a CPU (`enum scx_cpu_preempt_reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptReason {
    /// A real-time task.
    Rt,
    /// A deadline task.
    Dl,
    /// The stop task (never here).
    Stop,
    /// Another class above sched_ext, for example the fair class.
    Unknown,
}

/// The task of a scheduler's own user space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSpaceTask {
    /// The task's name.
    pub name: String,
    /// The task's policy.
    pub policy: Policy,
    /// The CPUs that it may use.
    pub affinity: Box<CpuMask>,
}

/// What a turn of a scheduler's user space took, and what its task does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSpaceTurn {
    /// System calls that it made.
    pub calls: u64,
    /// The CPUs that its task may use from now on, if they change.
    pub affinity: Option<Box<CpuMask>>,
    /// What follows.
    pub next: UserSpaceNext,
}

impl UserSpaceTurn {
    /// User code between two system calls. Chosen: loaders look at a few maps or format a line.
    pub const BETWEEN_CALLS: DurationNs = DurationNs::from_us(1);
}

/// What the task of a scheduler's user space does when a turn is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserSpaceNext {
    /// The user space sleeps until this time, or indefinitely.
    Wait(Option<TimeNs>),
    /// The user space calls `sched_yield()` and has another turn when it runs again.
    Yield,
    /// The user space has another turn at once.
    GoOn,
    /// The user space computes without end, and makes no further call.
    Compute,
}

/// A sub-scheduler that a run attaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubWish {
    /// The path of its group, from below the root.
    pub group: String,
    /// When it is attached, from the beginning of the run.
    pub at: DurationNs,
}

/// From where to where a task moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMove {
    /// The group that it is in before.
    pub from: GroupIx,
    /// The group that it is in afterwards.
    pub to: GroupIx,
}

/// A loaded scheduler. A callback is called only when [`OpsInfo::present`] has
/// it; the bodies given here are never reached otherwise.
///
/// In every callback `k` is the kernel; the running CPU, its local time and
/// its current task are [`Kernel::ctx`]. A callback that faults calls
/// [`Kernel::error`] and returns a neutral value; the core then ejects it.
///
/// Nothing that a callback calls on `k` calls back into the scheduler. Where a
/// kernel would do so (`ops.dequeue()` for a task that a kfunc moves to a local
/// DSQ, `sched_migrate_task` for the same), the call follows directly after the
/// callback returns.
#[allow(unused_variables, reason = "the names document the arguments")]
pub trait SchedExt {
    /// The fixed part of the ops.
    fn info(&self) -> &OpsInfo;

    /// How long the kernel has been up when the run begins: a scheduler whose user space read its clock before continues from there.
    fn uptime(&self) -> DurationNs {
        UPTIME
    }

    /// The trace points that have a program attached.
    fn wants(&self) -> TracePoints {
        TracePoints::NONE
    }

    /// A program reads the registers that tasks saved when they entered the kernel ([`crate::Task::syscall`]).
    fn reads_registers(&self) -> bool {
        false
    }

    /// The callback that ran last is paused in the middle: the number of the pause, and how long other CPUs have before the
    /// callback continues. Only callbacks without a result are paused.
    fn paused(&self) -> Option<(usize, DurationNs)> {
        None
    }

    /// Continues the paused callback, which ends or is paused again.
    fn resume(&mut self, k: &mut Kernel) {
        let _ = k;
    }

    /// The lane may make its callbacks ([`SchedExt::lane_call`]).
    fn fits_lane(&self) -> bool {
        false
    }

    /// The pointer by which programs know a task; 0 if no program knows it.
    fn seen_at(&self, task: TaskId) -> u64 {
        0
    }

    /// Shows programs a task; the pointer to it.
    fn show(&mut self, k: &mut Kernel, task: TaskId) -> u64 {
        0
    }

    /// A callback in the lane with its arguments as programs get them, about the task of the kernel's context; what it returns. Of tasks the
    /// kernel is to be asked by the functions whose names begin with `lane_` alone, but within [`Kernel::in_general`].
    fn lane_call(&mut self, k: &mut Kernel, op: OpKind, args: [u64; 3]) -> u64 {
        0
    }

    /// When the scheduler's user space takes a turn, by number of the turn.
    fn user_times(&self) -> Vec<TimeNs> {
        Vec::new()
    }

    /// The task of the scheduler's own user space, if it takes part in the run ([`SchedExt::user_space_turn`]).
    fn user_space(&self) -> Option<UserSpaceTask> {
        None
    }

    /// A turn of the scheduler's user space, whose task runs: it lasts until all of the user space waits or yields.
    fn user_space_turn(&mut self, k: &mut Kernel) -> UserSpaceTurn {
        UserSpaceTurn { calls: 0, affinity: None, next: UserSpaceNext::Wait(None) }
    }

    /// The user space's turn of this number: it may write to what it shares with
    /// the programs. Costs the machine nothing, and happens between callbacks.
    fn user_turn(&mut self, turn: usize) {}

    /// True if the turn runs a program of the scheduler instead (`BPF_PROG_RUN`).
    fn turn_runs(&self, turn: usize) -> bool {
        false
    }

    /// A turn of the user space on top of what runs on CPU 0. Not taken without the scheduler.
    fn run_turn(&mut self, k: &mut Kernel, turn: usize) {}

    /// `ops.init()`. # Errors: the errno (positive).
    fn init(&mut self, k: &mut Kernel) -> Result<(), i32> {
        Ok(())
    }

    /// `ops.exit()`.
    fn exit(&mut self, k: &mut Kernel, exit: &ExitRecord) {}

    /// `ops.init_task()`. # Errors: the errno (positive).
    fn init_task(&mut self, k: &mut Kernel, task: TaskId, fork: bool) -> Result<(), i32> {
        Ok(())
    }

    /// `ops.exit_task()`. Called for every task that was initialised, with or
    /// without the callback in the object: per-task storage ends here.
    fn exit_task(&mut self, k: &mut Kernel, task: TaskId, cancelled: bool) {}

    /// The memory of a task is given back, initialised or not; its id is never used again.
    fn task_gone(&mut self, task: TaskId) {}

    /// The tasks of the start are there, and the run begins: what is counted is counted from now on.
    fn run_begins(&mut self) {}

    /// `ops.enable()`.
    fn enable(&mut self, k: &mut Kernel, task: TaskId) {}

    /// `ops.disable()`.
    fn disable(&mut self, k: &mut Kernel, task: TaskId) {}

    /// `ops.select_cpu()`: the CPU or a bad number (an error then).
    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev_cpu: CpuId, wake_flags: u64) -> i32 {
        prev_cpu.0 as i32
    }

    /// `ops.enqueue()`.
    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, enq_flags: u64) {}

    /// `ops.dequeue()`.
    fn dequeue(&mut self, k: &mut Kernel, task: TaskId, deq_flags: u64) {}

    /// `ops.dispatch()`; `prev` only when it is a sched_ext task.
    fn dispatch(&mut self, k: &mut Kernel, cpu: CpuId, prev: Option<TaskId>) {}

    /// `ops.tick()`.
    fn tick(&mut self, k: &mut Kernel, task: TaskId) {}

    /// `ops.runnable()`.
    fn runnable(&mut self, k: &mut Kernel, task: TaskId, enq_flags: u64) {}

    /// `ops.running()`.
    fn running(&mut self, k: &mut Kernel, task: TaskId) {}

    /// `ops.stopping()`.
    fn stopping(&mut self, k: &mut Kernel, task: TaskId, runnable: bool) {}

    /// `ops.quiescent()`.
    fn quiescent(&mut self, k: &mut Kernel, task: TaskId, deq_flags: u64) {}

    /// `ops.yield()`.
    fn yield_task(&mut self, k: &mut Kernel, from: TaskId, to: Option<TaskId>) -> bool {
        false
    }

    /// `ops.core_sched_before()`; core scheduling is not modelled.
    fn core_sched_before(&mut self, k: &mut Kernel, a: TaskId, b: TaskId) -> bool {
        false
    }

    /// `ops.set_weight()`.
    fn set_weight(&mut self, k: &mut Kernel, task: TaskId, weight: Weight) {}

    /// `ops.set_cpumask()`.
    fn set_cpumask(&mut self, k: &mut Kernel, task: TaskId, mask: &CpuMask) {}

    /// `ops.update_idle()`.
    fn update_idle(&mut self, k: &mut Kernel, cpu: CpuId, idle: bool) {}

    /// `ops.cpu_acquire()`.
    fn cpu_acquire(&mut self, k: &mut Kernel, cpu: CpuId) {}

    /// `ops.cpu_release()`; `task` takes the CPU.
    fn cpu_release(&mut self, k: &mut Kernel, cpu: CpuId, reason: PreemptReason, task: Option<TaskId>) {}

    /// Programs see a group from now on, or what its files say has changed.
    fn show_group(&mut self, k: &Kernel, group: GroupIx) {}

    /// A group is gone; programs may still point at it.
    fn group_gone(&mut self, group: GroupIx) {}

    /// A task belongs to another group, where its scheduler does not have it yet.
    fn task_enters(&mut self, task: TaskId, group: GroupIx) {}

    /// The scheduler has a task in another group.
    fn task_moved(&mut self, k: &Kernel, task: TaskId) {}

    /// `ops.cgroup_init()`. # Errors: the errno (positive).
    fn cgroup_init(&mut self, k: &mut Kernel, group: GroupIx) -> Result<(), i32> {
        Ok(())
    }

    /// `ops.cgroup_exit()`.
    fn cgroup_exit(&mut self, k: &mut Kernel, group: GroupIx) {}

    /// `ops.cgroup_prep_move()`. # Errors: the errno (positive), with which the move fails.
    fn cgroup_prep_move(&mut self, k: &mut Kernel, task: TaskId, way: GroupMove) -> Result<(), i32> {
        Ok(())
    }

    /// `ops.cgroup_move()`.
    fn cgroup_move(&mut self, k: &mut Kernel, task: TaskId, way: GroupMove) {}

    /// `ops.cgroup_set_weight()`.
    fn cgroup_set_weight(&mut self, k: &mut Kernel, group: GroupIx, weight: u32) {}

    /// `ops.cgroup_set_bandwidth()`, with what the files say now.
    fn cgroup_set_bandwidth(&mut self, k: &mut Kernel, group: GroupIx, knobs: GroupKnobs) {}

    /// `ops.cgroup_set_idle()`.
    fn cgroup_set_idle(&mut self, k: &mut Kernel, group: GroupIx, idle: bool) {}

    /// The sub-schedulers that the run attaches, by number.
    fn subs(&self) -> &[SubWish] {
        &[]
    }

    /// Gives one of them away, to be [adopted](SchedExt::adopt).
    fn take_sub(&mut self, number: usize) -> Box<Self> {
        unreachable!("there is no sub-scheduler {number}")
    }

    /// A sub-scheduler belongs to this one from now on.
    #[allow(clippy::boxed_local, reason = "schedulers are large, and this body is never reached")]
    fn adopt(&mut self, ix: SchedIx, sub: Box<Self>) {
        unreachable!("{ix:?} is a sub-scheduler of a scheduler that has none: {}", sub.info().name)
    }

    /// A child of this scheduler.
    fn sub(&mut self, ix: SchedIx) -> &mut Self {
        unreachable!("there is no sub-scheduler {ix:?}")
    }

    /// A task belongs to this scheduler from now on: what programs see of it follows the kernel.
    fn owns(&mut self, k: &mut Kernel, task: TaskId) {}

    /// `ops.sub_attach()`. # Errors: the errno (positive), with which it is refused.
    fn sub_attach(&mut self, k: &mut Kernel, child: SchedIx) -> Result<(), i32> {
        Ok(())
    }

    /// `ops.sub_detach()`.
    fn sub_detach(&mut self, k: &mut Kernel, child: SchedIx) {}

    /// `ops.sub_caps_updated()`: capabilities that have changed, and CPUs of one cache domain where they have.
    fn sub_caps_updated(&mut self, k: &mut Kernel, cpus: &CpuMask, caps: u8) {}

    /// `ops.sub_ecaps_updated()`.
    fn sub_ecaps_updated(&mut self, k: &mut Kernel, cpu: CpuId, before: u8, after: u8) {}

    /// `ops.cpu_online()`.
    fn cpu_online(&mut self, k: &mut Kernel, cpu: CpuId) {}

    /// `ops.cpu_offline()`.
    fn cpu_offline(&mut self, k: &mut Kernel, cpu: CpuId) {}

    /// `ops.dump()`: text goes to [`Kernel::dump_line`].
    fn dump(&mut self, k: &mut Kernel, exit: &ExitRecord) {}

    /// `ops.dump_cpu()`.
    fn dump_cpu(&mut self, k: &mut Kernel, exit: &ExitRecord, cpu: CpuId, idle: bool) {}

    /// `ops.dump_task()`.
    fn dump_task(&mut self, k: &mut Kernel, exit: &ExitRecord, task: TaskId) {}

    /// A BPF timer that was armed with [`Kernel::timer_arm`] fired.
    fn timer_fired(&mut self, k: &mut Kernel, timer: TimerId) {}

    /// An attached trace point fired.
    fn tracepoint(&mut self, k: &mut Kernel, point: &TracePoint) {}

    /// The program and the source line of a place in the scheduler's code ([`Kernel::set_site`]), for people.
    fn source(&self, site: u32) -> Option<String> {
        None
    }

    /// Any figure: a pass through `schedule()` that changes it is marked in
    /// [`schedlab_trace::EventKind::Schedule`].
    fn mark(&self) -> u64 {
        0
    }
}
