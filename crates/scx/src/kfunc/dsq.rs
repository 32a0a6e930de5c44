//! Dispatch queues: creating, inserting, moving, asking.

use crate::args::{AnyTask, Cx, KernelObjects};
use crate::join::Join;
use schedlab_base::DsqId;
use schedlab_bpf::args::In;
use schedlab_bpf::maps::Errno;
use schedlab_bpf::{Fault, GuestAddr};
use schedlab_sim::flags::{SCX_DSQ_LOCAL_CPU_MASK, SCX_DSQ_LOCAL_ON};

/// Bytes that the simulated kernel keeps for a dispatch queue.
const HOST_BYTES: u64 = 512;

/// The queue that a number means: cid-form schedulers name the CPU of a local one by its cid.
pub(crate) fn dsq_id(join: &Join<'_>, id: u64) -> DsqId {
    if !join.state.cid_form || id & SCX_DSQ_LOCAL_ON.0 != SCX_DSQ_LOCAL_ON.0 {
        return DsqId(id);
    }
    let cid = (id & SCX_DSQ_LOCAL_CPU_MASK) as u32;
    let cpu = join.state.cids.cpu(cid as i32).map_or(cid, |cpu| cpu.0);
    DsqId(SCX_DSQ_LOCAL_ON.0 | u64::from(cpu))
}

pub(super) fn create_dsq(cx: &mut Cx<'_, '_, '_>, dsq: u64, node: i32) -> i32 {
    if !cx.take_host(HOST_BYTES) {
        return -Errno::ENOMEM.0;
    }
    let result = cx.env.k.create_dsq(DsqId(dsq), node);
    if result != 0 {
        cx.give_back_host(HOST_BYTES);
    }
    result
}

pub(super) fn destroy_dsq(cx: &mut Cx<'_, '_, '_>, dsq: u64) {
    if cx.env.k.destroy_dsq(DsqId(dsq)) {
        cx.give_back_host(HOST_BYTES);
    }
}

#[inline(always)]
pub(super) fn insert(cx: &mut Cx<'_, '_, '_>, task: AnyTask, dsq: u64, slice: u64, flags: u64) -> bool {
    let (task, dsq) = (cx.living(task, "scx_bpf_dsq_insert"), dsq_id(cx.env, dsq));
    task.is_some_and(|task| cx.env.k.dsq_insert(task, dsq, slice, flags))
}

#[inline(always)]
pub(super) fn insert_vtime(
    cx: &mut Cx<'_, '_, '_>,
    task: AnyTask,
    dsq: u64,
    slice: u64,
    vtime: u64,
    flags: u64,
) -> bool {
    let (task, dsq) = (cx.living(task, "scx_bpf_dsq_insert_vtime"), dsq_id(cx.env, dsq));
    task.is_some_and(|task| cx.env.k.dsq_insert_vtime(task, dsq, slice, vtime, flags))
}

/// The form whose numbers come in a struct: `dsq_id`, `slice`, `vtime`, `enq_flags`.
#[inline(always)]
pub(super) fn insert_vtime_args(
    cx: &mut Cx<'_, '_, '_>,
    task: AnyTask,
    numbers: In<32>,
) -> Result<bool, Fault> {
    let [dsq, slice, vtime, flags] = cx.words(numbers)?;
    Ok(insert_vtime(cx, task, dsq, slice, vtime, flags))
}

pub(super) fn nr_slots(cx: &mut Cx<'_, '_, '_>) -> u32 {
    cx.env.k.dispatch_nr_slots()
}

pub(super) fn cancel(cx: &mut Cx<'_, '_, '_>) {
    cx.env.k.dispatch_cancel();
}

pub(super) fn move_to_local(cx: &mut Cx<'_, '_, '_>, dsq: u64) -> bool {
    cx.env.k.dsq_move_to_local(DsqId(dsq), 0)
}

pub(super) fn move_to_local_v2(cx: &mut Cx<'_, '_, '_>, dsq: u64, flags: u64) -> bool {
    cx.env.k.dsq_move_to_local(DsqId(dsq), flags)
}

pub(super) fn nr_queued(cx: &mut Cx<'_, '_, '_>, dsq: u64) -> i32 {
    let dsq = dsq_id(cx.env, dsq);
    cx.env.k.dsq_nr_queued(dsq)
}

pub(super) fn peek(cx: &mut Cx<'_, '_, '_>, dsq: u64) -> Result<Option<GuestAddr>, Fault> {
    let task = cx.env.k.dsq_peek(DsqId(dsq));
    cx.task_pointer(task)
}

pub(super) fn reenqueue_local(cx: &mut Cx<'_, '_, '_>) -> u32 {
    cx.env.k.reenqueue_local()
}

pub(super) fn reenqueue_local_v2(cx: &mut Cx<'_, '_, '_>) {
    cx.env.k.reenqueue_local();
}
