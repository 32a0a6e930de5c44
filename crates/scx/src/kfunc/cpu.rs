//! CPUs, run queues, clocks and counters.

use crate::args::{Cx, KernelObjects};
use schedlab_bpf::args::Buffer;
use schedlab_bpf::{Fault, GuestAddr};
use schedlab_trace::ExitKind;

pub(super) fn kick_cpu(cx: &mut Cx<'_, '_, '_>, cpu: i32, flags: u64) {
    cx.env.k.kick_cpu(cpu, flags);
}

pub(super) fn cpuperf_cap(cx: &mut Cx<'_, '_, '_>, cpu: i32) -> u32 {
    cx.env.k.cpuperf_cap(cpu)
}

pub(super) fn cpuperf_cur(cx: &mut Cx<'_, '_, '_>, cpu: i32) -> u32 {
    cx.env.k.cpuperf_cur(cpu)
}

pub(super) fn cpuperf_set(cx: &mut Cx<'_, '_, '_>, cpu: i32, perf: u32) {
    let _ = cx.env.k.cpuperf_set(cpu, perf);
}

pub(super) fn nr_node_ids(cx: &mut Cx<'_, '_, '_>) -> u32 {
    cx.env.k.nr_node_ids()
}

pub(super) fn nr_cpu_ids(cx: &mut Cx<'_, '_, '_>) -> u32 {
    cx.env.k.nr_cpu_ids()
}

pub(super) fn all_cpus(cx: &mut Cx<'_, '_, '_>) -> GuestAddr {
    cx.env.state.cpus.all_mask()
}

pub(super) fn online_cpus(cx: &mut Cx<'_, '_, '_>) -> Result<GuestAddr, Fault> {
    cx.online_mask_pointer()
}

pub(super) fn cpu_rq(cx: &mut Cx<'_, '_, '_>, cpu: u32) -> Option<GuestAddr> {
    let cpu = cx.env.cpu_or_error(cpu)?;
    Some(cx.env.state.cpus.rq(cpu))
}

pub(super) fn locked_rq(cx: &mut Cx<'_, '_, '_>) -> Option<GuestAddr> {
    if let Some(cpu) = cx.env.locked_rq() {
        return Some(cx.env.state.cpus.rq(cpu));
    }
    cx.env.k.error(ExitKind::Error, "accessing rq without holding rq lock".into());
    None
}

pub(super) fn cpu_curr(cx: &mut Cx<'_, '_, '_>, cpu: u32) -> Result<Option<GuestAddr>, Fault> {
    match cx.env.cpu_or_error(cpu) {
        Some(cpu) => cx.curr_pointer(cpu).map(Some),
        None => Ok(None),
    }
}

pub(super) fn now(cx: &mut Cx<'_, '_, '_>) -> u64 {
    cx.env.k.now().0
}

/// Copies the counters, as many as the caller has room for.
pub(super) fn events(cx: &mut Cx<'_, '_, '_>, room: Buffer) -> Result<(), Fault> {
    let counters = cx.env.k.events().named();
    for number in 0..cx.env.state.event_order.len() {
        let place = cx.env.state.event_order[number];
        let value = place.map_or(0, |place| counters[place].1);
        if let Some(to) = cx.room(room.0)?.as_chunks_mut::<8>().0.get_mut(number) {
            *to = value.to_le_bytes();
        }
    }
    Ok(())
}
