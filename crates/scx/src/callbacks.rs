//! The callbacks by name: members of `struct sched_ext_ops` and of its cid form, and trace points.

use schedlab_sim::{OpKind, TracePointKind};

/// Number of kinds of callback.
pub(crate) const OP_COUNT: usize = OpKind::Tracing as usize + 1;

/// Callbacks that the simulated core calls: kind, member of `sched_ext_ops`, member of `sched_ext_ops_cid`.
pub(crate) const OPS: [(OpKind, &str, &str); 27] = [
    (OpKind::SelectCpu, "select_cpu", "select_cid"),
    (OpKind::Enqueue, "enqueue", "enqueue"),
    (OpKind::Dequeue, "dequeue", "dequeue"),
    (OpKind::Dispatch, "dispatch", "dispatch"),
    (OpKind::Tick, "tick", "tick"),
    (OpKind::Runnable, "runnable", "runnable"),
    (OpKind::Running, "running", "running"),
    (OpKind::Stopping, "stopping", "stopping"),
    (OpKind::Quiescent, "quiescent", "quiescent"),
    (OpKind::Yield, "yield", "yield"),
    (OpKind::CoreSchedBefore, "core_sched_before", "core_sched_before"),
    (OpKind::SetWeight, "set_weight", "set_weight"),
    (OpKind::SetCpumask, "set_cpumask", "set_cmask"),
    (OpKind::UpdateIdle, "update_idle", "update_idle"),
    (OpKind::CpuAcquire, "cpu_acquire", ""),
    (OpKind::CpuRelease, "cpu_release", ""),
    (OpKind::InitTask, "init_task", "init_task"),
    (OpKind::ExitTask, "exit_task", "exit_task"),
    (OpKind::Enable, "enable", "enable"),
    (OpKind::Disable, "disable", "disable"),
    (OpKind::Dump, "dump", "dump"),
    (OpKind::DumpCpu, "dump_cpu", "dump_cid"),
    (OpKind::DumpTask, "dump_task", "dump_task"),
    (OpKind::CpuOnline, "cpu_online", "cid_online"),
    (OpKind::CpuOffline, "cpu_offline", "cid_offline"),
    (OpKind::Init, "init", "init"),
    (OpKind::Exit, "exit", "exit"),
];

/// How messages name a callback.
pub(crate) fn op_name(op: OpKind) -> String {
    match OPS.iter().find(|(kind, ..)| *kind == op) {
        Some((_, name, _)) => format!("ops.{name}()"),
        None if op == OpKind::Timer => "a timer".into(),
        None if op == OpKind::Tracing => "a tracing program".into(),
        None => "outside of callbacks".into(),
    }
}

/// Trace points by name.
pub(crate) const TRACE_POINTS: [(TracePointKind, &str); 11] = [
    (TracePointKind::SchedSwitch, "sched_switch"),
    (TracePointKind::SchedWaking, "sched_waking"),
    (TracePointKind::SchedWakeup, "sched_wakeup"),
    (TracePointKind::SchedWakeupNew, "sched_wakeup_new"),
    (TracePointKind::SchedMigrateTask, "sched_migrate_task"),
    (TracePointKind::SchedProcessFork, "sched_process_fork"),
    (TracePointKind::SchedProcessExit, "sched_process_exit"),
    (TracePointKind::SchedProcessExec, "sched_process_exec"),
    (TracePointKind::TaskRename, "task_rename"),
    (TracePointKind::SysEnter, "sys_enter"),
    (TracePointKind::SysExit, "sys_exit"),
];
