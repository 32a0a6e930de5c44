//! Tasks: looking them up, reading and setting what programs may set; cgroups.

use crate::args::{CgroupArg, Cx, KernelObjects, TaskArg};
use schedlab_bpf::args::Pointer;
use schedlab_bpf::maps::Errno;
use schedlab_bpf::{Fault, GuestAddr};
use schedlab_sim::flags::SCX_OPS_TID_TO_TASK;
use schedlab_sim::{ENABLER_PID, GroupIx};
use schedlab_trace::ExitKind;

/// Inode number of the root cgroup.
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
    if pid == ENABLER_PID {
        return cx.enabler_pointer().map(Some);
    }
    let task = cx.env.k.task_by_pid(pid);
    cx.task_pointer(task)
}

/// References are not counted: a task's memory stays readable, and its slot is reused only after it is gone.
pub(super) fn task_acquire(cx: &mut Cx<'_, '_, '_>, task: TaskArg) -> Option<GuestAddr> {
    let exists = task.living.is_some() || cx.env.is_system_task(task.at);
    exists.then_some(task.at)
}

pub(super) fn task_release(_cx: &mut Cx<'_, '_, '_>, _task: TaskArg) {}

/// The scheduler's view (`sched_task_group`), with a reference; the root after an error.
pub(super) fn task_cgroup(cx: &mut Cx<'_, '_, '_>, task: TaskArg) -> Result<GuestAddr, Fault> {
    let cgroup = match cx.env.k.operates_on(task.living) {
        true => cx.cgroup_of(task)?,
        false => cx.env.state.tasks.groups.cgroup(GroupIx::ROOT),
    };
    Ok(hold(cx, cgroup).unwrap_or(cgroup))
}

pub(super) fn cgroup_from_id(cx: &mut Cx<'_, '_, '_>, id: u64) -> Option<GuestAddr> {
    let cgroup = cx.env.state.tasks.groups.by_id(id)?;
    hold(cx, cgroup)
}

/// None where the group is gone and no program holds it: its memory may be another one's soon.
pub(super) fn cgroup_acquire(cx: &mut Cx<'_, '_, '_>, cgroup: CgroupArg) -> Option<GuestAddr> {
    cx.env.state.tasks.groups.hold(cgroup.place).then_some(cgroup.at)
}

pub(super) fn cgroup_release(cx: &mut Cx<'_, '_, '_>, cgroup: CgroupArg) {
    cx.env.state.tasks.groups.release(cgroup.place);
}

pub(super) fn cgroup_ancestor(cx: &mut Cx<'_, '_, '_>, cgroup: CgroupArg, level: i32) -> Option<GuestAddr> {
    let groups = &cx.env.state.tasks.groups;
    let (group, level) = (groups.owner(cgroup.place)?, u32::try_from(level).ok()?);
    let above = cx.env.k.groups().ancestor(group, level)?;
    let cgroup = groups.cgroup(above);
    hold(cx, cgroup)
}

/// The cgroup with a reference more.
fn hold(cx: &mut Cx<'_, '_, '_>, cgroup: GuestAddr) -> Option<GuestAddr> {
    let groups = &mut cx.env.state.tasks.groups;
    let place = groups.place_at(cgroup)?;
    groups.hold(place).then_some(cgroup)
}

/// The group is `ancestor` or below it.
pub(super) fn under_cgroup(
    cx: &mut Cx<'_, '_, '_>,
    task: TaskArg,
    ancestor: Pointer,
) -> Result<Result<bool, Errno>, Fault> {
    if ancestor.0.is_null() {
        return Ok(Err(Errno::EINVAL));
    }
    let entering = task.living.and_then(|task| cx.env.state.tasks.entering(task));
    let cgroup = match entering {
        Some(group) => cx.env.state.tasks.groups.cgroup(group),
        None => cx.cgroup_of(task)?,
    };
    let groups = &cx.env.state.tasks.groups;
    let group = |cgroup| groups.living_at(cgroup).and_then(|place| groups.owner(place));
    let pair = group(cgroup).zip(group(ancestor.0));
    Ok(Ok(pair.is_some_and(|(group, above)| cx.env.k.groups().is_below(group, above))))
}
