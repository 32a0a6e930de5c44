//! CPUs, run queues, clocks and counters.

use super::{Kfunc, arg_addr, arg_i32, kfunc};
use crate::join::Join;
use schedlab_bpf::{Fault, Vm};
use schedlab_trace::ExitKind;

fn kick_cpu(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    join.k.kick_cpu(arg_i32(args[0]), args[1]);
    Ok(0)
}

fn cpuperf_cap(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(u64::from(join.k.cpuperf_cap(arg_i32(args[0]))))
}

fn cpuperf_cur(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(u64::from(join.k.cpuperf_cur(arg_i32(args[0]))))
}

fn cpuperf_set(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    join.k.cpuperf_set(arg_i32(args[0]), args[1] as u32);
    Ok(0)
}

fn nr_node_ids(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(u64::from(join.k.nr_node_ids()))
}

fn nr_cpu_ids(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(u64::from(join.k.nr_cpu_ids()))
}

/// Possible and online CPUs are the same: hotplug is not modelled.
fn all_cpus(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(join.state.cpus.all_mask().0)
}

fn cpu_rq(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(join.cpu_or_error(args[0]).map_or(0, |cpu| join.state.cpus.rq(cpu).0))
}

fn locked_rq(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    if let Some(cpu) = join.locked_rq() {
        return Ok(join.state.cpus.rq(cpu).0);
    }
    join.k.error(ExitKind::Error, "accessing rq without holding rq lock".into());
    Ok(0)
}

fn cpu_curr(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(cpu) = join.cpu_or_error(args[0]) else { return Ok(0) };
    join.curr_pointer(cpu, vm.mem)
}

fn now(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(join.k.now().0)
}

/// Copies the counters, as many as the caller has room for.
fn events(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let counters = join.k.events().named();
    let names = &join.state.event_names;
    let size = args[1].min(names.len() as u64 * 8);
    let room = vm.mem.slice_mut(arg_addr(args[0]), size)?;
    for (to, name) in room.chunks_exact_mut(8).zip(names) {
        let value = counters.iter().find(|(counter, _)| counter == name).map_or(0, |(_, value)| *value);
        to.copy_from_slice(&value.to_le_bytes());
    }
    Ok(0)
}

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    kfunc("void scx_bpf_kick_cpu(s32 cpu, u64 flags);", kick_cpu),
    kfunc("u32 scx_bpf_cpuperf_cap(s32 cpu);", cpuperf_cap),
    kfunc("u32 scx_bpf_cpuperf_cur(s32 cpu);", cpuperf_cur),
    kfunc("void scx_bpf_cpuperf_set(s32 cpu, u32 perf);", cpuperf_set),
    kfunc("u32 scx_bpf_nr_node_ids(void);", nr_node_ids),
    kfunc("u32 scx_bpf_nr_cpu_ids(void);", nr_cpu_ids),
    kfunc("const struct cpumask *scx_bpf_get_possible_cpumask(void);", all_cpus),
    kfunc("const struct cpumask *scx_bpf_get_online_cpumask(void);", all_cpus),
    // Gone since Linux 7.1; objects of that time need it.
    kfunc("struct rq *scx_bpf_cpu_rq(s32 cpu);", cpu_rq),
    kfunc("struct rq *scx_bpf_locked_rq(void);", locked_rq),
    kfunc("struct task_struct *scx_bpf_cpu_curr(s32 cpu);", cpu_curr),
    kfunc("u64 scx_bpf_now(void);", now),
    kfunc("void scx_bpf_events(struct scx_event_stats *events, size_t events__sz);", events),
];
