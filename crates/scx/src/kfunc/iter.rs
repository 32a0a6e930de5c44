//! Iterators over a dispatch queue.
//!
//! A dispatch queue's iterator is one of the simulated kernel's; the program's `struct bpf_iter_scx_dsq` names it. A program
//! that ends with an iterator open cannot pass the verifier; here that ends the scheduler.

use super::dsq::dsq_id;
use crate::args::{Cx, KernelObjects, NewIter, OpenIter, TaskArg};
use schedlab_base::DsqId;
use schedlab_bpf::{Fault, GuestAddr};

pub(super) fn dsq_new(cx: &mut Cx<'_, '_, '_>, place: NewIter, dsq: u64, flags: u64) -> Result<i32, Fault> {
    let made = cx.env.k.dsq_iter_new(DsqId(dsq), flags);
    cx.open_iter(place, made.ok())?;
    Ok(made.err().unwrap_or(0))
}

pub(super) fn dsq_next(cx: &mut Cx<'_, '_, '_>, iter: OpenIter) -> Result<Option<GuestAddr>, Fault> {
    let task = iter.iter.and_then(|iter| cx.env.k.dsq_iter_next(iter));
    cx.task_pointer(task)
}

pub(super) fn dsq_destroy(cx: &mut Cx<'_, '_, '_>, iter: OpenIter) -> Result<(), Fault> {
    if let Some(open) = iter.iter {
        cx.env.k.dsq_iter_destroy(open);
    }
    cx.close_iter(iter)
}

pub(super) fn set_slice(cx: &mut Cx<'_, '_, '_>, iter: OpenIter, slice: u64) {
    if let Some(iter) = iter.iter {
        cx.env.k.dsq_move_set_slice(iter, slice);
    }
}

pub(super) fn set_vtime(cx: &mut Cx<'_, '_, '_>, iter: OpenIter, vtime: u64) {
    if let Some(iter) = iter.iter {
        cx.env.k.dsq_move_set_vtime(iter, vtime);
    }
}

pub(super) fn dsq_move(cx: &mut Cx<'_, '_, '_>, iter: OpenIter, task: TaskArg, dsq: u64, flags: u64) -> bool {
    let Some((iter, task)) = iter.iter.zip(task.living) else { return false };
    let dsq = dsq_id(cx.env, dsq);
    cx.env.k.dsq_move(iter, task, dsq, flags)
}

pub(super) fn dsq_move_vtime(
    cx: &mut Cx<'_, '_, '_>,
    iter: OpenIter,
    task: TaskArg,
    dsq: u64,
    flags: u64,
) -> bool {
    let Some((iter, task)) = iter.iter.zip(task.living) else { return false };
    let dsq = dsq_id(cx.env, dsq);
    cx.env.k.dsq_move_vtime(iter, task, dsq, flags)
}
