//! Idle CPUs: selecting one, the masks.

use super::group::{CPU_FORM, ENQUEUE, SELECT_CPU, UNLOCKED};
use super::{Kfunc, kfunc};
use crate::args::{AnyTask, Cx, KernelObjects, MaskArg};
use schedlab_bpf::args::{In, Out};
use schedlab_bpf::maps::Errno;
use schedlab_bpf::{Fault, GuestAddr};

const SELECTING: u8 = SELECT_CPU | UNLOCKED | CPU_FORM;
const _: () = assert!(SELECTING & ENQUEUE == 0, "selecting a CPU is a group of its own");

/// The task's choice; an idle one is told in `*is_idle`.
#[inline(always)]
pub(super) fn select_cpu_dfl(
    cx: &mut Cx<'_, '_, '_>,
    task: AnyTask,
    prev: i32,
    wake: u64,
    is_idle: Out<1>,
) -> Result<i32, Fault> {
    let Some(task) = cx.living(task, "scx_bpf_select_cpu_dfl") else { return Ok(prev) };
    let (cpu, idle) = cx.env.k.select_cpu_dfl(task, prev, wake);
    cx.fill(is_idle.0, &[u8::from(idle)])?;
    Ok(cpu)
}

fn select_cpu_and(
    cx: &mut Cx<'_, '_, '_>,
    task: AnyTask,
    prev: i32,
    wake: u64,
    mask: MaskArg,
    flags: u64,
) -> Result<i32, Fault> {
    let Some(task) = cx.living(task, "scx_bpf_select_cpu_and") else { return Ok(-Errno::EINVAL.0) };
    let mask = cx.mask(mask)?;
    Ok(cx.env.k.select_cpu_and(task, prev, wake, &mask, flags))
}

/// The form whose numbers come in a struct: `prev_cpu`, `wake_flags`, `flags`.
fn select_cpu_and_args(
    cx: &mut Cx<'_, '_, '_>,
    task: AnyTask,
    mask: MaskArg,
    numbers: In<24>,
) -> Result<i32, Fault> {
    let [prev, wake, flags] = cx.words(numbers)?;
    select_cpu_and(cx, task, prev as u32 as i32, wake, mask, flags)
}

pub(super) fn test_and_clear(cx: &mut Cx<'_, '_, '_>, cpu: i32) -> bool {
    cx.env.k.test_and_clear_cpu_idle(cpu)
}

fn pick_idle(cx: &mut Cx<'_, '_, '_>, mask: MaskArg, flags: u64) -> Result<i32, Fault> {
    let mask = cx.mask(mask)?;
    Ok(cx.env.k.pick_idle_cpu(&mask, flags))
}

fn pick_any(cx: &mut Cx<'_, '_, '_>, mask: MaskArg, flags: u64) -> Result<i32, Fault> {
    let mask = cx.mask(mask)?;
    Ok(cx.env.k.pick_any_cpu(&mask, flags))
}

fn pick_idle_node(cx: &mut Cx<'_, '_, '_>, mask: MaskArg, node: i32, flags: u64) -> Result<i32, Fault> {
    let mask = cx.mask(mask)?;
    Ok(cx.env.k.pick_idle_cpu_node(&mask, node, flags))
}

fn pick_any_node(cx: &mut Cx<'_, '_, '_>, mask: MaskArg, node: i32, flags: u64) -> Result<i32, Fault> {
    let mask = cx.mask(mask)?;
    Ok(cx.env.k.pick_any_cpu_node(&mask, node, flags))
}

fn idle_cpumask(cx: &mut Cx<'_, '_, '_>) -> Result<GuestAddr, Fault> {
    cx.idle_mask_pointer(false, None)
}

fn idle_smtmask(cx: &mut Cx<'_, '_, '_>) -> Result<GuestAddr, Fault> {
    cx.idle_mask_pointer(true, None)
}

fn idle_cpumask_node(cx: &mut Cx<'_, '_, '_>, node: i32) -> Result<GuestAddr, Fault> {
    cx.idle_mask_pointer(false, Some(node))
}

fn idle_smtmask_node(cx: &mut Cx<'_, '_, '_>, node: i32) -> Result<GuestAddr, Fault> {
    cx.idle_mask_pointer(true, Some(node))
}

fn put_mask(_cx: &mut Cx<'_, '_, '_>, _mask: MaskArg) {}

fn cpu_node(cx: &mut Cx<'_, '_, '_>, cpu: u32) -> i32 {
    cx.env.cpu_or_error(cpu).map_or(-1, |cpu| cx.env.k.machine().cpus[cpu.index()].node as i32)
}

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    kfunc!(
        SELECTING,
        "s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle);",
        select_cpu_dfl,
    ),
    kfunc!(
        SELECTING,
        "s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags, const struct cpumask *cpus_allowed, u64 flags);",
        select_cpu_and,
    ),
    kfunc!(
        SELECTING,
        "s32 __scx_bpf_select_cpu_and(struct task_struct *p, const struct cpumask *cpus_allowed, struct scx_bpf_select_cpu_and_args *args);",
        select_cpu_and_args,
    ),
    kfunc!(CPU_FORM, "bool scx_bpf_test_and_clear_cpu_idle(s32 cpu);", test_and_clear),
    kfunc!(CPU_FORM, "s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags);", pick_idle),
    kfunc!(CPU_FORM, "s32 scx_bpf_pick_any_cpu(const struct cpumask *cpus_allowed, u64 flags);", pick_any),
    kfunc!(
        CPU_FORM,
        "s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *cpus_allowed, int node, u64 flags);",
        pick_idle_node,
    ),
    kfunc!(
        CPU_FORM,
        "s32 scx_bpf_pick_any_cpu_node(const struct cpumask *cpus_allowed, int node, u64 flags);",
        pick_any_node,
    ),
    kfunc!(CPU_FORM, "const struct cpumask *scx_bpf_get_idle_cpumask(void);", idle_cpumask),
    kfunc!(CPU_FORM, "const struct cpumask *scx_bpf_get_idle_smtmask(void);", idle_smtmask),
    kfunc!(CPU_FORM, "const struct cpumask *scx_bpf_get_idle_cpumask_node(int node);", idle_cpumask_node),
    kfunc!(CPU_FORM, "const struct cpumask *scx_bpf_get_idle_smtmask_node(int node);", idle_smtmask_node),
    kfunc!(CPU_FORM, "void scx_bpf_put_idle_cpumask(const struct cpumask *idle_mask);", put_mask),
    kfunc!(CPU_FORM, "void scx_bpf_put_cpumask(const struct cpumask *cpumask);", put_mask),
    kfunc!(CPU_FORM, "s32 scx_bpf_cpu_node(s32 cpu);", cpu_node),
];
