//! Dispatch queues: creating, inserting, moving, asking.

use super::group::{CPU_RELEASE, DISPATCH, ENQUEUE, UNLOCKED};
use super::{Kfunc, arg_addr, arg_i32, errno, grouped, kfunc, signed};
use crate::join::Join;
use schedlab_base::DsqId;
use schedlab_bpf::{Fault, Vm};

fn create_dsq(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(signed(join.k.create_dsq(DsqId(args[0]), arg_i32(args[1]))))
}

fn destroy_dsq(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    join.k.destroy_dsq(DsqId(args[0]));
    Ok(0)
}

fn insert(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(task) = join.task_or_error(args[0], "scx_bpf_dsq_insert") else { return Ok(0) };
    Ok(u64::from(join.k.dsq_insert(task, DsqId(args[1]), args[2], args[3])))
}

fn insert_vtime(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let [task, dsq, slice, vtime, flags] = *args;
    Ok(insert_by_vtime(join, task, [dsq, slice, vtime, flags]))
}

/// The form whose numbers come in a struct: `dsq_id`, `slice`, `vtime`, `enq_flags`.
fn insert_vtime_args(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let numbers = vm.mem.read_words(arg_addr(args[1]))?;
    Ok(insert_by_vtime(join, args[0], numbers))
}

#[inline]
fn insert_by_vtime(join: &mut Join<'_>, task: u64, [dsq, slice, vtime, flags]: [u64; 4]) -> u64 {
    let Some(task) = join.task_or_error(task, "scx_bpf_dsq_insert_vtime") else { return 0 };
    u64::from(join.k.dsq_insert_vtime(task, DsqId(dsq), slice, vtime, flags))
}

fn nr_slots(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(u64::from(join.k.dispatch_nr_slots()))
}

fn cancel(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    join.k.dispatch_cancel();
    Ok(0)
}

fn move_to_local(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(u64::from(join.k.dsq_move_to_local(DsqId(args[0]), 0)))
}

fn move_to_local_v2(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(u64::from(join.k.dsq_move_to_local(DsqId(args[0]), args[1])))
}

fn nr_queued(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(signed(join.k.dsq_nr_queued(DsqId(args[0]))))
}

fn peek(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let task = join.k.dsq_peek(DsqId(args[0]));
    join.task_pointer(task, vm.mem)
}

fn reenqueue_local(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(u64::from(join.k.reenqueue_local()))
}

fn reenqueue_local_v2(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    join.k.reenqueue_local();
    Ok(0)
}

/// No sub-scheduler exists, so none can be dispatched.
fn sub_dispatch(_join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(0)
}

/// No sub-scheduler exists: granting to one or ending one fails as in a kernel where it has gone.
fn sub_absent(_join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(errno(19))
}

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    grouped(UNLOCKED, "s32 scx_bpf_create_dsq(u64 dsq_id, s32 node);", create_dsq),
    kfunc("void scx_bpf_destroy_dsq(u64 dsq_id);", destroy_dsq),
    grouped(
        ENQUEUE,
        "void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);",
        insert,
    ),
    grouped(
        ENQUEUE,
        "bool scx_bpf_dsq_insert___v2(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);",
        insert,
    ),
    grouped(
        ENQUEUE,
        "void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags);",
        insert_vtime,
    ),
    grouped(
        ENQUEUE,
        "bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args);",
        insert_vtime_args,
    ),
    // The names before Linux 6.13.
    grouped(
        ENQUEUE,
        "void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);",
        insert,
    ),
    grouped(
        ENQUEUE,
        "void scx_bpf_dispatch_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags);",
        insert_vtime,
    ),
    grouped(DISPATCH, "bool scx_bpf_consume(u64 dsq_id);", move_to_local),
    grouped(DISPATCH, "u32 scx_bpf_dispatch_nr_slots(void);", nr_slots),
    grouped(DISPATCH, "void scx_bpf_dispatch_cancel(void);", cancel),
    grouped(DISPATCH, "bool scx_bpf_dsq_move_to_local(u64 dsq_id);", move_to_local),
    grouped(DISPATCH, "bool scx_bpf_dsq_move_to_local___v2(u64 dsq_id, u64 enq_flags);", move_to_local_v2),
    grouped(DISPATCH, "bool scx_bpf_sub_dispatch(u64 cgroup_id);", sub_dispatch),
    kfunc("s32 scx_bpf_dsq_nr_queued(u64 dsq_id);", nr_queued),
    kfunc("struct task_struct *scx_bpf_dsq_peek(u64 dsq_id);", peek),
    grouped(CPU_RELEASE, "u32 scx_bpf_reenqueue_local(void);", reenqueue_local),
    kfunc("void scx_bpf_reenqueue_local___v2(void);", reenqueue_local_v2),
    // scx_bpf_dsq_reenq() (7.1, any queue) is not modelled: objects fall back to the one above.
    kfunc(
        "s32 scx_bpf_sub_grant(u64 cgroup_id, u64 caps, const struct scx_cmask *cmask, struct scx_cmask *denied);",
        sub_absent,
    ),
    kfunc("void scx_bpf_sub_revoke(u64 cgroup_id, u64 caps, const struct scx_cmask *cmask);", sub_absent),
    kfunc(
        "s32 scx_bpf_sub_kill_bstr(u64 cgroup_id, char *fmt, unsigned long long *data, u32 data__sz);",
        sub_absent,
    ),
];
