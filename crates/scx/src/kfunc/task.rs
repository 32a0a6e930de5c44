//! Tasks: looking them up, reading and setting what programs may set; the one cgroup.

use crate::args::{CgroupArg, Cx, KernelObjects, TaskArg};
use schedlab_bpf::args::Pointer;
use schedlab_bpf::maps::Errno;
use schedlab_bpf::{Fault, GuestAddr};
use schedlab_sim::flags::SCX_OPS_TID_TO_TASK;
use schedlab_trace::ExitKind;

/// Inode number of the root cgroup, the only one.
pub(crate) const ROOT_CGROUP_ID: u64 = 1;

pub(super) fn task_running(cx: &mut Cx<'_, '_, '_>, task: TaskArg) -> bool {
    match task.living {
        Some(task) => cx.env.k.task_running(task),
        None => cx.remains(task).0,
    }
}

pub(super) fn task_cpu(cx: &mut Cx<'_, '_, '_>, task: TaskArg) -> u32 {
    match task.living {
        Some(task) => cx.env.k.task_cpu(task).0,
        None => cx.remains(task).1.0,
    }
}

pub(super) fn task_set_slice(cx: &mut Cx<'_, '_, '_>, task: TaskArg, slice: u64) -> bool {
    task.living.is_some_and(|task| cx.env.k.has_task(task) && cx.env.k.task_set_slice(task, slice))
}

pub(super) fn task_set_dsq_vtime(cx: &mut Cx<'_, '_, '_>, task: TaskArg, vtime: u64) -> bool {
    task.living.is_some_and(|task| cx.env.k.has_task(task) && cx.env.k.task_set_dsq_vtime(task, vtime))
}

pub(super) fn tid_to_task(cx: &mut Cx<'_, '_, '_>, tid: u64) -> Result<Option<GuestAddr>, Fault> {
    if cx.env.state.ops_flags & SCX_OPS_TID_TO_TASK == 0 {
        let text = "scx_bpf_tid_to_task() called without SCX_OPS_TID_TO_TASK";
        cx.env.k.error(ExitKind::Error, text.into());
        return Ok(None);
    }
    let task = cx.env.k.task_by_tid(tid);
    cx.task_pointer(task)
}

pub(super) fn task_from_pid(cx: &mut Cx<'_, '_, '_>, pid: i32) -> Result<Option<GuestAddr>, Fault> {
    let task = cx.env.k.task_by_pid(pid);
    cx.task_pointer(task)
}

/// References are not counted: a task's memory stays readable, and its slot is reused only after it is gone.
pub(super) fn task_acquire(cx: &mut Cx<'_, '_, '_>, task: TaskArg) -> Option<GuestAddr> {
    let exists = task.living.is_some() || cx.env.is_system_task(task.at);
    exists.then_some(task.at)
}

pub(super) fn task_release(_cx: &mut Cx<'_, '_, '_>, _task: TaskArg) {}

pub(super) fn root_cgroup(cx: &mut Cx<'_, '_, '_>, _task: TaskArg) -> GuestAddr {
    cx.env.state.tasks.cgroup()
}

pub(super) fn cgroup_from_id(cx: &mut Cx<'_, '_, '_>, id: u64) -> Option<GuestAddr> {
    (id == ROOT_CGROUP_ID).then(|| cx.env.state.tasks.cgroup())
}

pub(super) fn cgroup_acquire(_cx: &mut Cx<'_, '_, '_>, cgroup: CgroupArg) -> GuestAddr {
    cgroup.0
}

pub(super) fn cgroup_release(_cx: &mut Cx<'_, '_, '_>, _cgroup: CgroupArg) {}

pub(super) fn cgroup_ancestor(_cx: &mut Cx<'_, '_, '_>, cgroup: CgroupArg, level: i32) -> Option<GuestAddr> {
    (level == 0).then_some(cgroup.0)
}

/// Every task is in the root cgroup.
pub(super) fn under_cgroup(
    cx: &mut Cx<'_, '_, '_>,
    _task: TaskArg,
    ancestor: Pointer,
) -> Result<bool, Errno> {
    if ancestor.0.is_null() { Err(Errno::EINVAL) } else { Ok(ancestor.0 == cx.env.state.tasks.cgroup()) }
}
