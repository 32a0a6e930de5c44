//! Iterators over a dispatch queue.
//!
//! A dispatch queue's iterator is one of the simulated kernel's; the program's `struct bpf_iter_scx_dsq` names it. A program
//! that ends with an iterator open cannot pass the verifier; here that ends the scheduler.

use super::dsq::dsq_id;
use super::group::{DISPATCH, UNLOCKED};
use super::{Kfunc, kfunc};
use crate::args::{Cx, KernelObjects, NewIter, OpenIter, TaskArg};
use schedlab_base::DsqId;
use schedlab_bpf::{Fault, GuestAddr};

fn dsq_new(cx: &mut Cx<'_, '_, '_>, place: NewIter, dsq: u64, flags: u64) -> Result<i32, Fault> {
    let made = cx.env.k.dsq_iter_new(DsqId(dsq), flags);
    cx.open_iter(place, made.ok())?;
    Ok(made.err().unwrap_or(0))
}

fn dsq_next(cx: &mut Cx<'_, '_, '_>, iter: OpenIter) -> Result<Option<GuestAddr>, Fault> {
    let task = iter.iter.and_then(|iter| cx.env.k.dsq_iter_next(iter));
    cx.task_pointer(task)
}

fn dsq_destroy(cx: &mut Cx<'_, '_, '_>, iter: OpenIter) -> Result<(), Fault> {
    if let Some(open) = iter.iter {
        cx.env.k.dsq_iter_destroy(open);
    }
    cx.close_iter(iter)
}

fn set_slice(cx: &mut Cx<'_, '_, '_>, iter: OpenIter, slice: u64) {
    if let Some(iter) = iter.iter {
        cx.env.k.dsq_move_set_slice(iter, slice);
    }
}

fn set_vtime(cx: &mut Cx<'_, '_, '_>, iter: OpenIter, vtime: u64) {
    if let Some(iter) = iter.iter {
        cx.env.k.dsq_move_set_vtime(iter, vtime);
    }
}

fn dsq_move(cx: &mut Cx<'_, '_, '_>, iter: OpenIter, task: TaskArg, dsq: u64, flags: u64) -> bool {
    let Some((iter, task)) = iter.iter.zip(task.living) else { return false };
    let dsq = dsq_id(cx.env, dsq);
    cx.env.k.dsq_move(iter, task, dsq, flags)
}

fn dsq_move_vtime(cx: &mut Cx<'_, '_, '_>, iter: OpenIter, task: TaskArg, dsq: u64, flags: u64) -> bool {
    let Some((iter, task)) = iter.iter.zip(task.living) else { return false };
    let dsq = dsq_id(cx.env, dsq);
    cx.env.k.dsq_move_vtime(iter, task, dsq, flags)
}

const MOVING: u8 = DISPATCH | UNLOCKED;

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    kfunc!("int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags);", dsq_new),
    kfunc!("struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it);", dsq_next),
    kfunc!("void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it);", dsq_destroy),
    kfunc!(MOVING, "void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice);", set_slice),
    kfunc!(MOVING, "void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime);", set_vtime),
    kfunc!(
        MOVING,
        "bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);",
        dsq_move,
    ),
    kfunc!(
        MOVING,
        "bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);",
        dsq_move_vtime,
    ),
    // The names before Linux 6.13.
    kfunc!(
        MOVING,
        "void scx_bpf_dispatch_from_dsq_set_slice(struct bpf_iter_scx_dsq *it, u64 slice);",
        set_slice,
    ),
    kfunc!(
        MOVING,
        "void scx_bpf_dispatch_from_dsq_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime);",
        set_vtime,
    ),
    kfunc!(
        MOVING,
        "bool scx_bpf_dispatch_from_dsq(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);",
        dsq_move,
    ),
    kfunc!(
        MOVING,
        "bool scx_bpf_dispatch_vtime_from_dsq(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);",
        dsq_move_vtime,
    ),
];
