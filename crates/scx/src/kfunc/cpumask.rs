//! `bpf_cpumask_*`: sets of CPUs, the kernel's and those that programs make.
//!
//! Masks have [`schedlab_base::MAX_CPUS`] bits in guest memory. As in the kernel, changes cover all bits of a mask, looks at it those of the machine's CPUs, and
//! results that say "none" are `nr_cpu_ids`.

use super::EACCES;
use crate::args::{Cx, KernelObjects, MadeMask, MaskArg, OwnMask};
use crate::join::Join;
use schedlab_base::{CpuId, CpuMask};
use schedlab_bpf::args::Bytes;
use schedlab_bpf::maps::Errno;
use schedlab_bpf::{Fault, GuestAddr};

/// A CPU argument that is in range (`cpu < nr_cpu_ids` in the kernel).
fn valid_cpu(cx: &Cx<'_, '_, '_>, cpu: u32) -> Option<CpuId> {
    ((cpu as usize) < cx.env.nr_cpus()).then_some(CpuId(cpu))
}

pub(super) fn create(cx: &mut Cx<'_, '_, '_>) -> Result<Option<GuestAddr>, Fault> {
    cx.new_mask()
}

pub(super) fn acquire(cx: &mut Cx<'_, '_, '_>, mask: MadeMask) -> Result<GuestAddr, Fault> {
    cx.acquire_mask(mask)
}

pub(super) fn release(cx: &mut Cx<'_, '_, '_>, mask: MadeMask) -> Result<(), Fault> {
    cx.release_mask(mask)
}

pub(super) fn test_cpu(cx: &mut Cx<'_, '_, '_>, cpu: u32, mask: MaskArg) -> Result<bool, Fault> {
    match valid_cpu(cx, cpu) {
        Some(cpu) => cx.mask_has(mask, cpu),
        None => Ok(false),
    }
}

/// Sets one bit of a program's mask and returns whether it was set.
pub(super) fn set_cpu(cx: &mut Cx<'_, '_, '_>, cpu: u32, mask: OwnMask) -> Result<bool, Fault> {
    match valid_cpu(cx, cpu) {
        Some(cpu) => cx.change_cpu(mask, cpu, true),
        None => Ok(false),
    }
}

/// Clears one bit of a program's mask and returns whether it was set.
pub(super) fn clear_cpu(cx: &mut Cx<'_, '_, '_>, cpu: u32, mask: OwnMask) -> Result<bool, Fault> {
    match valid_cpu(cx, cpu) {
        Some(cpu) => cx.change_cpu(mask, cpu, false),
        None => Ok(false),
    }
}

pub(super) fn set_all(cx: &mut Cx<'_, '_, '_>, mask: OwnMask) -> Result<(), Fault> {
    // `bitmap_fill()` fills whole words.
    let all = CpuMask::first(cx.env.nr_cpus().next_multiple_of(64));
    cx.change_mask(mask, |bits| *bits = all)
}

pub(super) fn clear(cx: &mut Cx<'_, '_, '_>, mask: OwnMask) -> Result<(), Fault> {
    cx.change_mask(mask, |bits| *bits = CpuMask::EMPTY)
}

pub(super) fn copy(cx: &mut Cx<'_, '_, '_>, mask: OwnMask, from: MaskArg) -> Result<(), Fault> {
    let from = cx.mask(from)?;
    cx.change_mask(mask, |bits| *bits = from)
}

/// `dst = a OP b`; returns whether the result has any CPU.
fn combine(
    cx: &mut Cx<'_, '_, '_>,
    to: OwnMask,
    (a, b): (MaskArg, MaskArg),
    op: impl Fn(u64, u64) -> u64,
) -> Result<bool, Fault> {
    let (a, b) = (cx.mask(a)?, cx.mask(b)?);
    cx.change_mask(to, |bits| {
        for (index, (a, b)) in a.words().iter().zip(b.words()).enumerate() {
            bits.set_word(index, op(*a, *b));
        }
        !bits.is_empty()
    })
}

pub(super) fn and(cx: &mut Cx<'_, '_, '_>, to: OwnMask, a: MaskArg, b: MaskArg) -> Result<bool, Fault> {
    combine(cx, to, (a, b), |a, b| a & b)
}

pub(super) fn or(cx: &mut Cx<'_, '_, '_>, to: OwnMask, a: MaskArg, b: MaskArg) -> Result<(), Fault> {
    combine(cx, to, (a, b), |a, b| a | b).map(|_| ())
}

pub(super) fn xor(cx: &mut Cx<'_, '_, '_>, to: OwnMask, a: MaskArg, b: MaskArg) -> Result<(), Fault> {
    combine(cx, to, (a, b), |a, b| a ^ b).map(|_| ())
}

/// What a mask has of the machine's CPUs: looks at masks go no further (`small_cpumask_bits`, include/linux/cpumask.h).
fn of_cpus(cx: &mut Cx<'_, '_, '_>, mask: MaskArg) -> Result<CpuMask, Fault> {
    let nr_cpus = cx.env.nr_cpus();
    let mut mask = cx.mask(mask)?;
    let (whole, rest) = (nr_cpus / 64, nr_cpus % 64);
    for index in whole..mask.words().len() {
        let kept = if index == whole { (1u64 << rest) - 1 } else { 0 };
        if mask.words()[index] & !kept != 0 {
            mask.set_word(index, mask.words()[index] & kept);
        }
    }
    Ok(mask)
}

/// Whether a relation holds between all words of two masks.
fn every(
    cx: &mut Cx<'_, '_, '_>,
    (a, b): (MaskArg, MaskArg),
    holds: impl Fn(u64, u64) -> bool,
) -> Result<bool, Fault> {
    let (a, b) = (of_cpus(cx, a)?, of_cpus(cx, b)?);
    Ok(a.words().iter().zip(b.words()).all(|(a, b)| holds(*a, *b)))
}

pub(super) fn equal(cx: &mut Cx<'_, '_, '_>, a: MaskArg, b: MaskArg) -> Result<bool, Fault> {
    every(cx, (a, b), |a, b| a == b)
}

pub(super) fn subset(cx: &mut Cx<'_, '_, '_>, a: MaskArg, b: MaskArg) -> Result<bool, Fault> {
    every(cx, (a, b), |a, b| a & !b == 0)
}

pub(super) fn intersects(cx: &mut Cx<'_, '_, '_>, a: MaskArg, b: MaskArg) -> Result<bool, Fault> {
    every(cx, (a, b), |a, b| a & b == 0).map(|disjoint| !disjoint)
}

pub(super) fn empty(cx: &mut Cx<'_, '_, '_>, mask: MaskArg) -> Result<bool, Fault> {
    Ok(of_cpus(cx, mask)?.is_empty())
}

pub(super) fn full(cx: &mut Cx<'_, '_, '_>, mask: MaskArg) -> Result<bool, Fault> {
    let all = CpuMask::first(cx.env.nr_cpus());
    Ok(cx.mask(mask)?.and(&all) == all)
}

pub(super) fn weight(cx: &mut Cx<'_, '_, '_>, mask: MaskArg) -> Result<u32, Fault> {
    Ok(of_cpus(cx, mask)?.count() as u32)
}

fn lowest(join: &Join<'_>, mask: &CpuMask) -> u32 {
    mask.lowest().map_or(join.nr_cpus() as u32, |cpu| cpu.0)
}

pub(super) fn first(cx: &mut Cx<'_, '_, '_>, mask: MaskArg) -> Result<u32, Fault> {
    let mask = of_cpus(cx, mask)?;
    Ok(lowest(cx.env, &mask))
}

pub(super) fn first_zero(cx: &mut Cx<'_, '_, '_>, mask: MaskArg) -> Result<u32, Fault> {
    let mut mask = cx.mask(mask)?;
    for index in 0..mask.words().len() {
        mask.set_word(index, !mask.words()[index]);
    }
    Ok(lowest(cx.env, &mask).min(cx.env.nr_cpus() as u32))
}

pub(super) fn first_and(cx: &mut Cx<'_, '_, '_>, a: MaskArg, b: MaskArg) -> Result<u32, Fault> {
    let both = of_cpus(cx, a)?.and(&of_cpus(cx, b)?);
    Ok(lowest(cx.env, &both))
}

/// The next CPU of the mask after the one picked last on this CPU, around; `nr_cpu_ids` without any.
fn distribute(join: &mut Join<'_>, mask: &CpuMask) -> u32 {
    join.k.any_distribute(mask).map_or(join.nr_cpus() as u32, |cpu| cpu.0)
}

pub(super) fn any_distribute(cx: &mut Cx<'_, '_, '_>, mask: MaskArg) -> Result<u32, Fault> {
    let mask = of_cpus(cx, mask)?;
    Ok(distribute(cx.env, &mask))
}

pub(super) fn any_and_distribute(cx: &mut Cx<'_, '_, '_>, a: MaskArg, b: MaskArg) -> Result<u32, Fault> {
    let both = of_cpus(cx, a)?.and(&of_cpus(cx, b)?);
    Ok(distribute(cx.env, &both))
}

/// Fills a program's mask from words; `-EACCES` for too few bytes and `-EINVAL` for a bad alignment, as the kernel.
pub(super) fn populate(
    cx: &mut Cx<'_, '_, '_>,
    to: OwnMask,
    from: Bytes,
) -> Result<Result<(), Errno>, Fault> {
    let needed = cx.env.nr_cpus().div_ceil(64) * 8;
    if (from.0.size() as usize) < needed {
        return Ok(Err(EACCES));
    }
    if !from.0.at().0.is_multiple_of(8) {
        return Ok(Err(Errno::EINVAL));
    }
    let mut mask = CpuMask::EMPTY;
    for (index, word) in cx.bytes(from.0)?[..needed].as_chunks::<8>().0.iter().enumerate() {
        mask.set_word(index, u64::from_le_bytes(*word));
    }
    cx.change_mask(to, |bits| *bits = mask).map(Ok)
}
