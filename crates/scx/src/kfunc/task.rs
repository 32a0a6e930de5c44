//! Tasks: looking them up, reading and setting what programs may set; the one cgroup.

use super::{Kfunc, arg_addr, arg_i32, errno, kfunc};
use crate::join::Join;
use schedlab_bpf::{Fault, Vm};
use schedlab_sim::flags::SCX_OPS_TID_TO_TASK;
use schedlab_trace::ExitKind;

/// Inode number of the root cgroup, the only one.
const ROOT_CGROUP_ID: u64 = 1;

fn task_running(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    if let Some(task) = join.living_task(args[0]) {
        return Ok(u64::from(join.k.task_running(task)));
    }
    let on_cpu = join.task_member(args[0], join.state.offsets.task.on_cpu, vm.mem)?;
    Ok(u64::from(vm.mem.read_u8(on_cpu)?))
}

fn task_cpu(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    if let Some(task) = join.living_task(args[0]) {
        return Ok(u64::from(join.k.task_cpu(task).0));
    }
    // One of the system, or what is left of one that is gone.
    let cpu = join.task_member(args[0], join.state.offsets.task.cpu, vm.mem)?;
    Ok(u64::from(vm.mem.read_u32(cpu)?))
}

fn task_set_slice(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(task) = join.task_of(args[0])? else { return Ok(0) };
    Ok(u64::from(join.k.task_set_slice(task, args[1])))
}

fn task_set_dsq_vtime(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(task) = join.task_of(args[0])? else { return Ok(0) };
    Ok(u64::from(join.k.task_set_dsq_vtime(task, args[1])))
}

fn tid_to_task(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    if join.state.ops_flags & SCX_OPS_TID_TO_TASK == 0 {
        let text = "scx_bpf_tid_to_task() called without SCX_OPS_TID_TO_TASK";
        join.k.error(ExitKind::Error, text.into());
        return Ok(0);
    }
    let task = join.k.task_by_tid(args[0]);
    join.task_pointer(task, vm.mem)
}

fn task_from_pid(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let task = join.k.task_by_pid(arg_i32(args[0]));
    join.task_pointer(task, vm.mem)
}

/// References are not counted: a task's memory stays readable, and its slot is reused only after it is gone.
fn task_acquire(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let gone = join.task_of(args[0])?.is_none() && !join.is_system_task(args[0]);
    Ok(if gone { 0 } else { args[0] })
}

fn nothing(_join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(0)
}

fn root_cgroup(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(join.state.tasks.cgroup().0)
}

fn same(_join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(args[0])
}

fn cgroup_from_id(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(if args[0] == ROOT_CGROUP_ID { join.state.tasks.cgroup().0 } else { 0 })
}

fn cgroup_ancestor(_join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(if arg_i32(args[1]) == 0 { args[0] } else { 0 })
}

/// Every task is in the root cgroup.
fn under_cgroup(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let root = join.state.tasks.cgroup();
    Ok(if arg_addr(args[1]).is_null() { errno(22) } else { u64::from(arg_addr(args[1]) == root) })
}

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    kfunc("bool scx_bpf_task_running(const struct task_struct *p);", task_running),
    kfunc("s32 scx_bpf_task_cpu(const struct task_struct *p);", task_cpu),
    kfunc("bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice);", task_set_slice),
    kfunc("bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime);", task_set_dsq_vtime),
    kfunc("struct task_struct *scx_bpf_tid_to_task(u64 tid);", tid_to_task),
    kfunc("struct task_struct *bpf_task_from_pid(s32 pid);", task_from_pid),
    kfunc("struct task_struct *bpf_task_from_vpid(s32 vpid);", task_from_pid),
    kfunc("struct task_struct *bpf_task_acquire(struct task_struct *p);", task_acquire),
    kfunc("void bpf_task_release(struct task_struct *p);", nothing),
    kfunc("struct cgroup *scx_bpf_task_cgroup(struct task_struct *p);", root_cgroup),
    kfunc("struct cgroup *bpf_cgroup_from_id(u64 cgid);", cgroup_from_id),
    kfunc("struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp);", same),
    kfunc("void bpf_cgroup_release(struct cgroup *cgrp);", nothing),
    kfunc("struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level);", cgroup_ancestor),
    kfunc("long bpf_task_under_cgroup(struct task_struct *task, struct cgroup *ancestor);", under_cgroup),
];
