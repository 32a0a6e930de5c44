//! Tasks: looking them up, reading and setting what programs may set; the one cgroup.

use super::group::CPU_FORM;
use super::{Kfunc, kfunc};
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

fn tid_to_task(cx: &mut Cx<'_, '_, '_>, tid: u64) -> Result<Option<GuestAddr>, Fault> {
    if cx.env.state.ops_flags & SCX_OPS_TID_TO_TASK == 0 {
        let text = "scx_bpf_tid_to_task() called without SCX_OPS_TID_TO_TASK";
        cx.env.k.error(ExitKind::Error, text.into());
        return Ok(None);
    }
    let task = cx.env.k.task_by_tid(tid);
    cx.task_pointer(task)
}

fn task_from_pid(cx: &mut Cx<'_, '_, '_>, pid: i32) -> Result<Option<GuestAddr>, Fault> {
    let task = cx.env.k.task_by_pid(pid);
    cx.task_pointer(task)
}

/// References are not counted: a task's memory stays readable, and its slot is reused only after it is gone.
fn task_acquire(cx: &mut Cx<'_, '_, '_>, task: TaskArg) -> Option<GuestAddr> {
    let exists = task.living.is_some() || cx.env.is_system_task(task.at);
    exists.then_some(task.at)
}

fn task_release(_cx: &mut Cx<'_, '_, '_>, _task: TaskArg) {}

fn root_cgroup(cx: &mut Cx<'_, '_, '_>, _task: TaskArg) -> GuestAddr {
    cx.env.state.tasks.cgroup()
}

fn cgroup_from_id(cx: &mut Cx<'_, '_, '_>, id: u64) -> Option<GuestAddr> {
    (id == ROOT_CGROUP_ID).then(|| cx.env.state.tasks.cgroup())
}

fn cgroup_acquire(_cx: &mut Cx<'_, '_, '_>, cgroup: CgroupArg) -> GuestAddr {
    cgroup.0
}

fn cgroup_release(_cx: &mut Cx<'_, '_, '_>, _cgroup: CgroupArg) {}

fn cgroup_ancestor(_cx: &mut Cx<'_, '_, '_>, cgroup: CgroupArg, level: i32) -> Option<GuestAddr> {
    (level == 0).then_some(cgroup.0)
}

/// Every task is in the root cgroup.
fn under_cgroup(cx: &mut Cx<'_, '_, '_>, _task: TaskArg, ancestor: Pointer) -> Result<bool, Errno> {
    if ancestor.0.is_null() { Err(Errno::EINVAL) } else { Ok(ancestor.0 == cx.env.state.tasks.cgroup()) }
}

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    kfunc!("bool scx_bpf_task_running(const struct task_struct *p);", task_running),
    kfunc!(CPU_FORM, "s32 scx_bpf_task_cpu(const struct task_struct *p);", task_cpu),
    kfunc!("bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice);", task_set_slice),
    kfunc!("bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime);", task_set_dsq_vtime),
    kfunc!("struct task_struct *scx_bpf_tid_to_task(u64 tid);", tid_to_task),
    kfunc!("struct task_struct *bpf_task_from_pid(s32 pid);", task_from_pid),
    kfunc!("struct task_struct *bpf_task_from_vpid(s32 vpid);", task_from_pid),
    kfunc!("struct task_struct *bpf_task_acquire(struct task_struct *p);", task_acquire),
    kfunc!("void bpf_task_release(struct task_struct *p);", task_release),
    kfunc!("struct cgroup *scx_bpf_task_cgroup(struct task_struct *p);", root_cgroup),
    kfunc!("struct cgroup *bpf_cgroup_from_id(u64 cgid);", cgroup_from_id),
    kfunc!("struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp);", cgroup_acquire),
    kfunc!("void bpf_cgroup_release(struct cgroup *cgrp);", cgroup_release),
    kfunc!("struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level);", cgroup_ancestor),
    kfunc!("long bpf_task_under_cgroup(struct task_struct *task, struct cgroup *ancestor);", under_cgroup),
];
