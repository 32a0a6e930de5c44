//! Idle CPUs: selecting one, the masks.

use super::group::{ENQUEUE, SELECT_CPU, UNLOCKED};
use super::{Kfunc, arg_addr, arg_i32, grouped, kfunc, read_mask, signed};
use crate::join::Join;
use schedlab_base::{CpuId, CpuMask};
use schedlab_bpf::{Fault, Vm};
use schedlab_sim::flags::SCX_PICK_IDLE_IN_NODE;

const SELECTING: u8 = SELECT_CPU | UNLOCKED;
const _: () = assert!(SELECTING & ENQUEUE == 0, "selecting a CPU is a group of its own");

/// Writes the task's choice; an idle one in `*is_idle`.
fn select_cpu_dfl(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(task) = join.task_or_error(args[0], "scx_bpf_select_cpu_dfl") else { return Ok(args[1]) };
    let (cpu, is_idle) = join.k.select_cpu_dfl(task, arg_i32(args[1]), args[2]);
    vm.mem.write_u8(arg_addr(args[3]), u8::from(is_idle))?;
    Ok(signed(cpu))
}

fn select_and(
    join: &mut Join<'_>,
    task: u64,
    prev: u64,
    wake: u64,
    mask: u64,
    flags: u64,
    vm: &Vm<'_>,
) -> Result<u64, Fault> {
    let Some(task) = join.task_or_error(task, "scx_bpf_select_cpu_and") else { return Ok(super::errno(22)) };
    let mask = read_mask(vm, arg_addr(mask))?;
    Ok(signed(join.k.select_cpu_and(task, arg_i32(prev), wake, &mask, flags)))
}

fn select_cpu_and(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    select_and(join, args[0], args[1], args[2], args[3], args[4], vm)
}

/// The form whose numbers come in a struct: `prev_cpu`, `wake_flags`, `flags`.
fn select_cpu_and_args(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let at = arg_addr(args[2]);
    let prev = u64::from(vm.mem.read_u32(at)?);
    let (wake, flags) = (vm.mem.read_u64(at.offset(8))?, vm.mem.read_u64(at.offset(16))?);
    select_and(join, args[0], prev, wake, args[1], flags, vm)
}

fn test_and_clear(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(u64::from(join.k.test_and_clear_cpu_idle(arg_i32(args[0]))))
}

fn pick_idle(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let mask = read_mask(vm, arg_addr(args[0]))?;
    Ok(signed(join.k.pick_idle_cpu(&mask, args[1])))
}

fn pick_any(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let mask = read_mask(vm, arg_addr(args[0]))?;
    Ok(signed(join.k.pick_any_cpu(&mask, args[1])))
}

/// The CPUs of a mask that are in a node; all of them for no node (-1).
fn within_node(join: &Join<'_>, mask: &CpuMask, node: i32) -> CpuMask {
    let mut within = *mask;
    if node >= 0 {
        let elsewhere = |cpu: &CpuId| {
            join.k.machine().cpus.get(cpu.index()).is_none_or(|place| place.node != node as u32)
        };
        mask.iter().filter(elsewhere).for_each(|cpu| within.clear(cpu));
    }
    within
}

/// An idle CPU of the node, else, without `SCX_PICK_IDLE_IN_NODE`, of any node.
fn idle_in_node(join: &mut Join<'_>, mask: &CpuMask, node: i32, flags: u64) -> i32 {
    let near = within_node(join, mask, node);
    let plain = flags & !SCX_PICK_IDLE_IN_NODE;
    let cpu = join.k.pick_idle_cpu(&near, plain);
    if cpu >= 0 || flags & SCX_PICK_IDLE_IN_NODE != 0 { cpu } else { join.k.pick_idle_cpu(mask, plain) }
}

fn pick_idle_node(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let mask = read_mask(vm, arg_addr(args[0]))?;
    Ok(signed(idle_in_node(join, &mask, arg_i32(args[1]), args[2])))
}

fn pick_any_node(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let mask = read_mask(vm, arg_addr(args[0]))?;
    let (node, flags) = (arg_i32(args[1]), args[2]);
    let idle = idle_in_node(join, &mask, node, flags);
    if idle >= 0 {
        return Ok(signed(idle));
    }
    let from = if flags & SCX_PICK_IDLE_IN_NODE != 0 { within_node(join, &mask, node) } else { mask };
    Ok(signed(join.k.pick_any_cpu(&from, flags & !SCX_PICK_IDLE_IN_NODE)))
}

fn idle_cpumask(join: &mut Join<'_>, _args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    join.idle_mask_pointer(vm.mem, false, -1)
}

fn idle_smtmask(join: &mut Join<'_>, _args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    join.idle_mask_pointer(vm.mem, true, -1)
}

fn idle_cpumask_node(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    join.idle_mask_pointer(vm.mem, false, arg_i32(args[0]))
}

fn idle_smtmask_node(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    join.idle_mask_pointer(vm.mem, true, arg_i32(args[0]))
}

fn put_mask(_join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(0)
}

fn cpu_node(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(cpu) = join.cpu_or_error(args[0]) else { return Ok(signed(-1)) };
    Ok(u64::from(join.k.machine().cpus[CpuId::index(cpu)].node))
}

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    grouped(
        SELECTING,
        "s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle);",
        select_cpu_dfl,
    ),
    grouped(
        SELECTING,
        "s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags, const struct cpumask *cpus_allowed, u64 flags);",
        select_cpu_and,
    ),
    grouped(
        SELECTING,
        "s32 __scx_bpf_select_cpu_and(struct task_struct *p, const struct cpumask *cpus_allowed, struct scx_bpf_select_cpu_and_args *args);",
        select_cpu_and_args,
    ),
    kfunc("bool scx_bpf_test_and_clear_cpu_idle(s32 cpu);", test_and_clear),
    kfunc("s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags);", pick_idle),
    kfunc("s32 scx_bpf_pick_any_cpu(const struct cpumask *cpus_allowed, u64 flags);", pick_any),
    kfunc(
        "s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *cpus_allowed, int node, u64 flags);",
        pick_idle_node,
    ),
    kfunc(
        "s32 scx_bpf_pick_any_cpu_node(const struct cpumask *cpus_allowed, int node, u64 flags);",
        pick_any_node,
    ),
    kfunc("const struct cpumask *scx_bpf_get_idle_cpumask(void);", idle_cpumask),
    kfunc("const struct cpumask *scx_bpf_get_idle_smtmask(void);", idle_smtmask),
    kfunc("const struct cpumask *scx_bpf_get_idle_cpumask_node(int node);", idle_cpumask_node),
    kfunc("const struct cpumask *scx_bpf_get_idle_smtmask_node(int node);", idle_smtmask_node),
    kfunc("void scx_bpf_put_idle_cpumask(const struct cpumask *idle_mask);", put_mask),
    kfunc("void scx_bpf_put_cpumask(const struct cpumask *cpumask);", put_mask),
    kfunc("s32 scx_bpf_cpu_node(s32 cpu);", cpu_node),
];
