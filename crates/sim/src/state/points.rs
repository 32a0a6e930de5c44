//! Trace points: which there are, which have a program attached, and what one says.

use crate::state::group::GroupIx;
use schedlab_base::{CpuId, TaskId};

/// A trace point that a program can attach to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the kernel's trace point names")]
pub enum TracePointKind {
    SchedSwitch,
    SchedWaking,
    SchedWakeup,
    SchedWakeupNew,
    SchedMigrateTask,
    SchedProcessFork,
    SchedProcessExit,
    SchedProcessExec,
    TaskRename,
    SysEnter,
    SysExit,
    CgroupMkdir,
    CgroupRmdir,
    CgroupAttachTask,
    /// The entry of the function `cpuset_write_resmask()`, which is no trace point.
    CpusetWrite,
}

/// The trace points with a program attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracePoints(u32);

impl TracePoints {
    /// None.
    pub const NONE: TracePoints = TracePoints(0);

    /// The points of either set.
    #[must_use]
    pub(crate) const fn with_all(self, others: TracePoints) -> TracePoints {
        TracePoints(self.0 | others.0)
    }

    /// This set with `kind`.
    #[must_use]
    pub const fn with(self, kind: TracePointKind) -> TracePoints {
        TracePoints(self.0 | 1 << kind as u8)
    }

    /// This set without the trace points of groups, at which no event of the lane is.
    pub(crate) const fn besides_groups(self) -> TracePoints {
        let groups = TracePoints::NONE
            .with(TracePointKind::CgroupMkdir)
            .with(TracePointKind::CgroupRmdir)
            .with(TracePointKind::CgroupAttachTask)
            .with(TracePointKind::CpusetWrite);
        TracePoints(self.0 & !groups.0)
    }

    /// True when a program is attached to `kind`.
    pub const fn wants(self, kind: TracePointKind) -> bool {
        self.0 >> kind as u8 & 1 != 0
    }
}

/// A trace point that fired. The CPU, the time and `current` are those of
/// [`crate::Kernel::ctx`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePoint {
    /// `sched_switch`; a missing task is the CPU's idle task.
    SchedSwitch {
        /// Preempted, i.e. `prev` is still runnable.
        preempt: bool,
        /// The task that stops.
        prev: Option<TaskId>,
        /// The task that runs.
        next: Option<TaskId>,
        /// `prev`'s state as the kernel's `__state` bits (0 running, 1
        /// interruptible, 2 uninterruptible, 0x80 dead).
        prev_state: u32,
    },
    /// `sched_waking`: in the waker's context, before a CPU is selected.
    SchedWaking {
        /// The wakee.
        task: TaskId,
    },
    /// `sched_wakeup`: the task is runnable.
    SchedWakeup {
        /// The wakee.
        task: TaskId,
    },
    /// `sched_wakeup_new`: a new task is runnable.
    SchedWakeupNew {
        /// The new task.
        task: TaskId,
    },
    /// `sched_migrate_task`.
    SchedMigrateTask {
        /// The task; its `cpu` is still the old one in the kernel, here the new one.
        task: TaskId,
        /// Where it goes.
        dest: CpuId,
    },
    /// `sched_process_fork`.
    SchedProcessFork {
        /// The creator, when it is a task of the run.
        parent: Option<TaskId>,
        /// The new task.
        child: TaskId,
    },
    /// `sched_process_exit`.
    SchedProcessExit {
        /// The task.
        task: TaskId,
        /// The task is the last thread of its process.
        group_dead: bool,
    },
    /// `sched_process_exec`.
    SchedProcessExec {
        /// The task.
        task: TaskId,
    },
    /// `task_rename`: here a program that a task begins has the task's name.
    TaskRename {
        /// The task.
        task: TaskId,
    },
    /// `sys_enter`, in the context of the calling task.
    SysEnter {
        /// The call's number (x86-64).
        nr: i64,
        /// The call's arguments.
        args: [u64; 6],
    },
    /// `sys_exit`.
    SysExit {
        /// The call's number (x86-64).
        nr: i64,
        /// The call's arguments.
        args: [u64; 6],
        /// The call's result.
        ret: i64,
    },
    /// `cgroup_mkdir`: the group is online.
    CgroupMkdir {
        /// The group.
        group: GroupIx,
    },
    /// `cgroup_rmdir`: the directory is gone, and the group goes offline next.
    CgroupRmdir {
        /// The group.
        group: GroupIx,
    },
    /// `cgroup_attach_task`: a task has been moved.
    CgroupAttachTask {
        /// Where it is now.
        group: GroupIx,
        /// The task.
        task: TaskId,
    },
    /// `cpuset_write_resmask()` is called: tasks do not follow yet.
    CpusetWrite {
        /// The group, whose [`crate::Group::cpus`] is what is written.
        group: GroupIx,
    },
}

impl TracePoint {
    /// The kind of the trace point.
    pub fn kind(&self) -> TracePointKind {
        match self {
            TracePoint::SchedSwitch { .. } => TracePointKind::SchedSwitch,
            TracePoint::SchedWaking { .. } => TracePointKind::SchedWaking,
            TracePoint::SchedWakeup { .. } => TracePointKind::SchedWakeup,
            TracePoint::SchedWakeupNew { .. } => TracePointKind::SchedWakeupNew,
            TracePoint::SchedMigrateTask { .. } => TracePointKind::SchedMigrateTask,
            TracePoint::SchedProcessFork { .. } => TracePointKind::SchedProcessFork,
            TracePoint::SchedProcessExit { .. } => TracePointKind::SchedProcessExit,
            TracePoint::SchedProcessExec { .. } => TracePointKind::SchedProcessExec,
            TracePoint::TaskRename { .. } => TracePointKind::TaskRename,
            TracePoint::SysEnter { .. } => TracePointKind::SysEnter,
            TracePoint::SysExit { .. } => TracePointKind::SysExit,
            TracePoint::CgroupMkdir { .. } => TracePointKind::CgroupMkdir,
            TracePoint::CgroupRmdir { .. } => TracePointKind::CgroupRmdir,
            TracePoint::CgroupAttachTask { .. } => TracePointKind::CgroupAttachTask,
            TracePoint::CpusetWrite { .. } => TracePointKind::CpusetWrite,
        }
    }
}
