//! Idle CPUs: selecting one, the masks.

use crate::args::{AnyTask, Cx, KernelObjects, MaskArg};
use schedlab_bpf::args::{In, Out};
use schedlab_bpf::maps::Errno;
use schedlab_bpf::{Fault, GuestAddr};

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

pub(super) fn select_cpu_and(
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
pub(super) fn select_cpu_and_args(
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

pub(super) fn pick_idle(cx: &mut Cx<'_, '_, '_>, mask: MaskArg, flags: u64) -> Result<i32, Fault> {
    let mask = cx.mask(mask)?;
    Ok(cx.env.k.pick_idle_cpu(&mask, flags))
}

pub(super) fn pick_any(cx: &mut Cx<'_, '_, '_>, mask: MaskArg, flags: u64) -> Result<i32, Fault> {
    let mask = cx.mask(mask)?;
    Ok(cx.env.k.pick_any_cpu(&mask, flags))
}

pub(super) fn pick_idle_node(
    cx: &mut Cx<'_, '_, '_>,
    mask: MaskArg,
    node: i32,
    flags: u64,
) -> Result<i32, Fault> {
    let mask = cx.mask(mask)?;
    Ok(cx.env.k.pick_idle_cpu_node(&mask, node, flags))
}

pub(super) fn pick_any_node(
    cx: &mut Cx<'_, '_, '_>,
    mask: MaskArg,
    node: i32,
    flags: u64,
) -> Result<i32, Fault> {
    let mask = cx.mask(mask)?;
    Ok(cx.env.k.pick_any_cpu_node(&mask, node, flags))
}

pub(super) fn idle_cpumask(cx: &mut Cx<'_, '_, '_>) -> Result<GuestAddr, Fault> {
    cx.idle_mask_pointer(false, None)
}

pub(super) fn idle_smtmask(cx: &mut Cx<'_, '_, '_>) -> Result<GuestAddr, Fault> {
    cx.idle_mask_pointer(true, None)
}

pub(super) fn idle_cpumask_node(cx: &mut Cx<'_, '_, '_>, node: i32) -> Result<GuestAddr, Fault> {
    cx.idle_mask_pointer(false, Some(node))
}

pub(super) fn idle_smtmask_node(cx: &mut Cx<'_, '_, '_>, node: i32) -> Result<GuestAddr, Fault> {
    cx.idle_mask_pointer(true, Some(node))
}

pub(super) fn put_mask(_cx: &mut Cx<'_, '_, '_>, _mask: MaskArg) {}

pub(super) fn cpu_node(cx: &mut Cx<'_, '_, '_>, cpu: u32) -> i32 {
    cx.env.cpu_or_error(cpu).map_or(-1, |cpu| cx.env.k.machine().cpus[cpu.index()].node as i32)
}
