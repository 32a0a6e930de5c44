//! The kernel's constants of the sched_ext interface (Linux 7.3), by their
//! kernel names: values are ABI, so objects compiled for a kernel agree with them.

use schedlab_base::DsqId;

/// Keep the built-in idle tracking although `ops.update_idle()` exists.
pub const SCX_OPS_KEEP_BUILTIN_IDLE: u64 = 1;
/// Call `ops.enqueue()` for the last runnable task of a CPU.
pub const SCX_OPS_ENQ_LAST: u64 = 1 << 1;
/// Call `ops.enqueue()` for exiting tasks.
pub const SCX_OPS_ENQ_EXITING: u64 = 1 << 2;
/// Only tasks of policy `SCHED_EXT` are switched to sched_ext.
pub const SCX_OPS_SWITCH_PARTIAL: u64 = 1 << 3;
/// Call `ops.enqueue()` for migration-disabled tasks.
pub const SCX_OPS_ENQ_MIGRATION_DISABLED: u64 = 1 << 4;
/// Wakeups may be queued on the target CPU (not modelled: they never are).
pub const SCX_OPS_ALLOW_QUEUED_WAKEUP: u64 = 1 << 5;
/// One built-in idle mask per NUMA node.
pub const SCX_OPS_BUILTIN_IDLE_PER_NODE: u64 = 1 << 6;
/// Every insert into a local DSQ carries [`SCX_ENQ_IMMED`].
pub const SCX_OPS_ALWAYS_ENQ_IMMED: u64 = 1 << 7;
/// `scx_bpf_tid_to_task()` may be used.
pub const SCX_OPS_TID_TO_TASK: u64 = 1 << 8;
/// All flags an object may set.
pub const SCX_OPS_ALL_FLAGS: u64 = 511;

/// An exit that asks for a restart of the scheduler.
pub const SCX_ECODE_ACT_RESTART: i64 = 1 << 48;
/// A CPU has come or gone.
pub const SCX_ECODE_RSN_HOTPLUG: i64 = 1 << 32;
/// `exit_code` of a sub-scheduler whose group goes.
pub const SCX_ECODE_RSN_CGROUP_OFFLINE: i64 = 2 << 32;

/// The task is woken up.
pub const SCX_ENQ_WAKEUP: u64 = 1;
/// The task is put back after a change of its attributes.
pub const ENQUEUE_RESTORE: u64 = 1 << 1;
/// The attribute change may move the task in its queue.
pub const ENQUEUE_MOVE: u64 = 1 << 2;
/// The caller has updated the run queue's clock.
pub const ENQUEUE_NOCLOCK: u64 = 1 << 3;
/// Insert at the head.
pub const SCX_ENQ_HEAD: u64 = 1 << 16;
/// The task changed its CPU during the wakeup.
pub const ENQUEUE_MIGRATED: u64 = 1 << 18;
/// First enqueue of a new task.
pub const ENQUEUE_INITIAL: u64 = 1 << 19;
/// `ops.select_cpu()` was called for this wakeup.
pub const SCX_ENQ_CPU_SELECTED: u64 = 1 << 20;
/// Preempt the running task of the target CPU; implies head insertion.
pub const SCX_ENQ_PREEMPT: u64 = 1 << 32;
/// The task must run at once or be re-enqueued.
pub const SCX_ENQ_IMMED: u64 = 1 << 33;
/// Rescue insert of a sub-scheduler (accepted for local DSQs, without effect).
pub const SCX_ENQ_RESCUE: u64 = 1 << 34;
/// The task comes back from a local DSQ.
pub const SCX_ENQ_REENQ: u64 = 1 << 40;
/// The task is the last runnable one of its CPU.
pub const SCX_ENQ_LAST: u64 = 1 << 41;
/// Flags that objects may not pass.
pub const SCX_ENQ_INTERNAL_MASK: u64 = 0xff << 56;
pub(crate) const SCX_ENQ_CLEAR_OPSS: u64 = 1 << 56;
pub(crate) const SCX_ENQ_DSQ_PRIQ: u64 = 1 << 57;
pub(crate) const SCX_ENQ_GDSQ_FALLBACK: u64 = 1 << 59;
pub(crate) const SCX_ENQ_APPLY_SLICE: u64 = 1 << 61;

/// The task goes to sleep.
pub const SCX_DEQ_SLEEP: u64 = 1;
/// Taken out for a change of its attributes.
pub const DEQUEUE_SAVE: u64 = 1 << 1;
/// See [`ENQUEUE_MOVE`].
pub const DEQUEUE_MOVE: u64 = 1 << 2;
/// See [`ENQUEUE_NOCLOCK`].
pub const DEQUEUE_NOCLOCK: u64 = 1 << 3;
/// `DEQUEUE_CLASS`, and `ENQUEUE_CLASS`: the task changes its class.
pub const DEQUEUE_CLASS: u64 = 1 << 6;
/// `SCX_ENQ_IGNORE_CAPS`: a task that runs on comes back to its local queue whatever sub-schedulers may.
pub const SCX_ENQ_IGNORE_CAPS: u64 = 1 << 60;
/// Dequeued because core scheduling runs it (never happens here).
pub const SCX_DEQ_CORE_SCHED_EXEC: u64 = 1 << 32;
/// Dequeued for a property change, not for sleep.
pub const SCX_DEQ_SCHED_CHANGE: u64 = 1 << 33;

/// Wakeup of a new task.
pub const SCX_WAKE_FORK: u64 = 4;
/// An ordinary wakeup.
pub const SCX_WAKE_TTWU: u64 = 8;
/// The waker is about to sleep.
pub const SCX_WAKE_SYNC: u64 = 16;

/// Bit of built-in queue ids.
pub const SCX_DSQ_FLAG_BUILTIN: u64 = 1 << 63;
/// With [`SCX_DSQ_FLAG_BUILTIN`]: the local queue of the CPU in the low bits.
pub const SCX_DSQ_FLAG_LOCAL_ON: u64 = 1 << 62;
/// No queue.
pub const SCX_DSQ_INVALID: DsqId = DsqId(SCX_DSQ_FLAG_BUILTIN);
/// The global queue of the task's node.
pub const SCX_DSQ_GLOBAL: DsqId = DsqId(SCX_DSQ_FLAG_BUILTIN | 1);
/// The local queue of the CPU in question.
pub const SCX_DSQ_LOCAL: DsqId = DsqId(SCX_DSQ_FLAG_BUILTIN | 2);
/// The queue of bypassed tasks.
pub const SCX_DSQ_BYPASS: DsqId = DsqId(SCX_DSQ_FLAG_BUILTIN | 3);
/// The queue of tasks that a sub-scheduler may not have on a local one.
pub const SCX_DSQ_REJECT: DsqId = DsqId(SCX_DSQ_FLAG_BUILTIN | 4);
/// OR a CPU number to it: that CPU's local queue.
pub const SCX_DSQ_LOCAL_ON: DsqId = DsqId(SCX_DSQ_FLAG_BUILTIN | SCX_DSQ_FLAG_LOCAL_ON);
/// The CPU number within a [`SCX_DSQ_LOCAL_ON`] id.
pub const SCX_DSQ_LOCAL_CPU_MASK: u64 = 0xffff_ffff;

/// Iterate a queue backwards.
pub const SCX_DSQ_ITER_REV: u64 = 1 << 16;

/// Kick only when the CPU is idle.
pub const SCX_KICK_IDLE: u64 = 1;
/// Zero the slice of the running task.
pub const SCX_KICK_PREEMPT: u64 = 1 << 1;
/// Wait until the kicked CPU has rescheduled.
pub const SCX_KICK_WAIT: u64 = 1 << 2;

/// Pick a CPU whose SMT siblings are idle too.
pub const SCX_PICK_IDLE_CORE: u64 = 1;
/// Pick in the given node only.
pub const SCX_PICK_IDLE_IN_NODE: u64 = 1 << 1;

/// Default slice: 20 ms.
pub const SCX_SLICE_DFL: u64 = 20_000_000;
/// Slice while bypassing: 5 ms.
pub const SCX_SLICE_BYPASS: u64 = 5_000_000;
/// A slice that is never used up.
pub const SCX_SLICE_INF: u64 = u64::MAX;

/// Default of `ops.dispatch_max_batch`.
pub const SCX_DSP_DFL_MAX_BATCH: u32 = 32;
/// Rounds of `ops.dispatch()` in one pick.
pub(crate) const SCX_DSP_MAX_LOOPS: u32 = 32;
/// Full speed of a CPU.
pub const SCX_CPUPERF_ONE: u32 = 1024;
/// Re-enqueues without running before ejection.
pub(crate) const SCX_REENQ_MAX_REPEAT: u32 = 256;
/// Length of the exit message.
pub(crate) const SCX_EXIT_MSG_LEN: usize = 1024;
/// Default length of the exit dump in bytes.
pub const SCX_EXIT_DUMP_DFL_LEN: u32 = 32768;
/// The longest watchdog timeout, in seconds.
pub const SCX_WATCHDOG_MAX_TIMEOUT_SECS: u64 = 30;

/// `p->scx.flags`: on the run queue.
pub const SCX_TASK_QUEUED: u32 = 1;
/// In the custody of the BPF scheduler.
pub const SCX_TASK_IN_CUSTODY: u32 = 2;
/// The wait begins again at the next enqueue.
pub const SCX_TASK_RESET_RUNNABLE_AT: u32 = 4;
/// The last dequeue was for sleep.
pub const SCX_TASK_DEQD_FOR_SLEEP: u32 = 8;
/// Inserted with [`SCX_ENQ_IMMED`].
pub const SCX_TASK_IMMED: u32 = 32;
/// Where the task state starts in the flags.
pub const SCX_TASK_STATE_SHIFT: u32 = 8;
/// The task state's bits.
pub const SCX_TASK_STATE_MASK: u32 = 7 << SCX_TASK_STATE_SHIFT;
/// Unknown to the scheduler.
pub const SCX_TASK_NONE: u32 = 0;
/// `ops.init_task()` runs.
pub const SCX_TASK_INIT_BEGIN: u32 = 1 << SCX_TASK_STATE_SHIFT;
/// `ops.init_task()` succeeded.
pub const SCX_TASK_INIT: u32 = 2 << SCX_TASK_STATE_SHIFT;
/// Fully initialised, not on sched_ext.
pub const SCX_TASK_READY: u32 = 3 << SCX_TASK_STATE_SHIFT;
/// On sched_ext.
pub const SCX_TASK_ENABLED: u32 = 4 << SCX_TASK_STATE_SHIFT;
/// Gone.
pub const SCX_TASK_DEAD: u32 = 5 << SCX_TASK_STATE_SHIFT;
/// Why a task is re-enqueued: bits of the reason.
pub const SCX_TASK_REENQ_REASON_MASK: u32 = 7 << 12;
/// Re-enqueued by a kfunc.
pub const SCX_TASK_REENQ_KFUNC: u32 = 1 << 12;
/// Re-enqueued because it could not run at once.
pub const SCX_TASK_REENQ_IMMED: u32 = 2 << 12;
/// Re-enqueued because it was preempted.
pub const SCX_TASK_REENQ_PREEMPTED: u32 = 3 << 12;
/// Re-enqueued because its sub-scheduler lacks a capability on the CPU.
pub const SCX_TASK_REENQ_CAP: u32 = 4 << 12;

/// `p->flags`: exiting.
pub const PF_EXITING: u32 = 4;
/// `PF_POSTCOREDUMP`, which an exiting task has from `exit_signals()` on.
pub const PF_POSTCOREDUMP: u32 = 8;
/// `PF_FORKNOEXEC`: forked, and has not executed a program since.
pub const PF_FORKNOEXEC: u32 = 0x40;
/// `PF_RANDOMIZE`: its addresses are random, as those of all programs of a distribution.
pub const PF_RANDOMIZE: u32 = 0x0040_0000;
/// `p->flags`: kernel thread.
pub const PF_KTHREAD: u32 = 0x0020_0000;

/// Linux errno values that kfuncs return negated.
pub mod errno {
    /// Permission denied.
    pub const EACCES: i32 = 13;
    /// No such file or directory.
    pub const ENOENT: i32 = 2;
    /// Out of memory.
    pub const ENOMEM: i32 = 12;
    /// Device or resource busy.
    pub const EBUSY: i32 = 16;
    /// File exists.
    pub const EEXIST: i32 = 17;
    /// No such device.
    pub const ENODEV: i32 = 19;
    /// Invalid argument.
    pub const EINVAL: i32 = 22;
    /// Argument list too long.
    pub const E2BIG: i32 = 7;
    /// Operation not supported.
    pub const EOPNOTSUPP: i32 = 95;
}
