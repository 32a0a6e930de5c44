//! The state of the sched_ext core besides tasks, CPUs and queues.

use crate::state::ops::TracePoints;
use crate::state::task::SchedClass;
use schedlab_base::{CpuMask, DurationNs, Policy, TaskId};

/// What the sched_ext core knows.
#[derive(Debug, Default)]
pub(crate) struct ScxState {
    /// The task of the scheduler's own user space.
    pub(crate) user_space: Option<TaskId>,
    /// A scheduler is loaded and not yet removed.
    pub(crate) loaded: bool,
    /// Tasks can be of its class (`scx_enabled()`).
    pub(crate) enabled: bool,
    /// It learns of groups (`scx_cgroup_enabled`).
    pub(crate) groups: bool,
    /// The scheduler's loader has taken it out.
    pub(crate) detached: bool,
    /// A task has been of its class.
    pub(crate) had_tasks: bool,
    /// All normal tasks are, not only those of the policy `SCHED_EXT` (`scx_switching_all`).
    pub(crate) switch_all: bool,
    pub(crate) wants: TracePoints,
    /// Programs can look at the system calls of tasks.
    pub(crate) shows_calls: bool,
    pub(crate) builtin_idle: bool,
    pub(crate) idle_per_node: bool,
    /// An exit was claimed, of the scheduler or of one below it, and may not have been noticed.
    pub(crate) exit_claimed: bool,
    /// The exit was noticed and the helper is on its way.
    pub(crate) disabling: bool,
    /// Freed places of user queues.
    pub(crate) dsq_free: Vec<u32>,
    /// Tasks with a direct dispatch to a remote local queue, not yet moved.
    pub(crate) deferred_locals: Vec<(TaskId, Option<u32>)>,
    pub(crate) idle_cpus: IdleMasks,
    pub(crate) runnable_seq: u64,
    /// Lines that programs have printed.
    pub(crate) lines: u64,
    pub(crate) watchdog_interval: DurationNs,
    /// The run ended with the scheduler in place.
    pub(crate) regular_end: bool,
    /// At the end of the run, tasks that waited longest then, in words where.
    pub(crate) still_waiting: Vec<(TaskId, String)>,
}

/// The built-in idle tracking: one pair of masks, or one per node.
#[derive(Debug, Default)]
pub(crate) struct IdleMasks {
    pub(crate) cpu: Vec<CpuMask>,
    pub(crate) smt: Vec<CpuMask>,
}

impl crate::Kernel {
    /// The class of tasks with `policy` at present.
    pub(crate) fn class_of(&self, policy: Policy) -> SchedClass {
        if policy.reservation().is_some() {
            SchedClass::Dl
        } else if policy.is_realtime() {
            SchedClass::Rt
        } else if !self.scx.disabling && (self.scx.switch_all || self.scx.enabled && policy == Policy::Ext) {
            SchedClass::Ext
        } else {
            SchedClass::Fair
        }
    }

    /// The class of a task that is lent a real-time priority, or 0.
    pub(crate) fn class_with(&self, policy: Policy, boost: u8) -> SchedClass {
        let class = self.class_of(policy);
        if boost > 0 { class.min(SchedClass::Rt) } else { class }
    }
}
