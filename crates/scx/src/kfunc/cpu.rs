//! CPUs, run queues, clocks and counters.

use super::group::CPU_FORM;
use super::{Kfunc, kfunc};
use crate::args::{Cx, KernelObjects};
use schedlab_bpf::args::Buffer;
use schedlab_bpf::{Fault, GuestAddr};
use schedlab_trace::ExitKind;

pub(super) fn kick_cpu(cx: &mut Cx<'_, '_, '_>, cpu: i32, flags: u64) {
    cx.env.k.kick_cpu(cpu, flags);
}

fn cpuperf_cap(cx: &mut Cx<'_, '_, '_>, cpu: i32) -> u32 {
    cx.env.k.cpuperf_cap(cpu)
}

fn cpuperf_cur(cx: &mut Cx<'_, '_, '_>, cpu: i32) -> u32 {
    cx.env.k.cpuperf_cur(cpu)
}

fn cpuperf_set(cx: &mut Cx<'_, '_, '_>, cpu: i32, perf: u32) {
    let _ = cx.env.k.cpuperf_set(cpu, perf);
}

fn nr_node_ids(cx: &mut Cx<'_, '_, '_>) -> u32 {
    cx.env.k.nr_node_ids()
}

pub(super) fn nr_cpu_ids(cx: &mut Cx<'_, '_, '_>) -> u32 {
    cx.env.k.nr_cpu_ids()
}

fn all_cpus(cx: &mut Cx<'_, '_, '_>) -> GuestAddr {
    cx.env.state.cpus.all_mask()
}

fn online_cpus(cx: &mut Cx<'_, '_, '_>) -> Result<GuestAddr, Fault> {
    cx.online_mask_pointer()
}

fn cpu_rq(cx: &mut Cx<'_, '_, '_>, cpu: u32) -> Option<GuestAddr> {
    let cpu = cx.env.cpu_or_error(cpu)?;
    Some(cx.env.state.cpus.rq(cpu))
}

fn locked_rq(cx: &mut Cx<'_, '_, '_>) -> Option<GuestAddr> {
    if let Some(cpu) = cx.env.locked_rq() {
        return Some(cx.env.state.cpus.rq(cpu));
    }
    cx.env.k.error(ExitKind::Error, "accessing rq without holding rq lock".into());
    None
}

fn cpu_curr(cx: &mut Cx<'_, '_, '_>, cpu: u32) -> Result<Option<GuestAddr>, Fault> {
    match cx.env.cpu_or_error(cpu) {
        Some(cpu) => cx.curr_pointer(cpu).map(Some),
        None => Ok(None),
    }
}

pub(super) fn now(cx: &mut Cx<'_, '_, '_>) -> u64 {
    cx.env.k.now().0
}

/// Copies the counters, as many as the caller has room for.
fn events(cx: &mut Cx<'_, '_, '_>, room: Buffer) -> Result<(), Fault> {
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

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    kfunc!(CPU_FORM, "void scx_bpf_kick_cpu(s32 cpu, u64 flags);", kick_cpu),
    kfunc!(CPU_FORM, "u32 scx_bpf_cpuperf_cap(s32 cpu);", cpuperf_cap),
    kfunc!(CPU_FORM, "u32 scx_bpf_cpuperf_cur(s32 cpu);", cpuperf_cur),
    kfunc!(CPU_FORM, "void scx_bpf_cpuperf_set(s32 cpu, u32 perf);", cpuperf_set),
    kfunc!("u32 scx_bpf_nr_node_ids(void);", nr_node_ids),
    kfunc!("u32 scx_bpf_nr_cpu_ids(void);", nr_cpu_ids),
    kfunc!(CPU_FORM, "const struct cpumask *scx_bpf_get_possible_cpumask(void);", all_cpus),
    kfunc!(CPU_FORM, "const struct cpumask *scx_bpf_get_online_cpumask(void);", online_cpus),
    // Gone since Linux 7.1; objects of that time need it.
    kfunc!("struct rq *scx_bpf_cpu_rq(s32 cpu);", cpu_rq),
    kfunc!("struct rq *scx_bpf_locked_rq(void);", locked_rq),
    kfunc!(CPU_FORM, "struct task_struct *scx_bpf_cpu_curr(s32 cpu);", cpu_curr),
    kfunc!("u64 scx_bpf_now(void);", now),
    kfunc!("void scx_bpf_events(struct scx_event_stats *events, size_t events__sz);", events),
];
