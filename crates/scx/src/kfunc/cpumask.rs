//! `bpf_cpumask_*`: sets of CPUs, the kernel's and those that programs make.
//!
//! Masks have [`MAX_CPUS`] bits in guest memory. As in the kernel, operations cover all bits of the mask, and results
//! that say "none" are `nr_cpu_ids` or more.

use super::{Kfunc, arg_addr, kfunc};
use crate::join::Join;
use schedlab_base::{CpuId, CpuMask, MAX_CPUS};
use schedlab_bpf::{Fault, GuestAddr, Vm};

const MASK_BYTES: u64 = (MAX_CPUS / 8) as u64;

/// The mask at a guest address.
pub(crate) fn read_mask(vm: &Vm<'_>, addr: GuestAddr) -> Result<CpuMask, Fault> {
    let bytes = vm.mem.slice(addr, MASK_BYTES)?;
    let mut mask = CpuMask::EMPTY;
    for (index, word) in bytes.chunks_exact(8).enumerate() {
        let mut le = [0; 8];
        le.copy_from_slice(word);
        mask.set_word(index, u64::from_le_bytes(le));
    }
    Ok(mask)
}

/// Writes a mask to a guest address.
pub(crate) fn write_mask(
    mem: &mut schedlab_bpf::Memory,
    addr: GuestAddr,
    mask: &CpuMask,
) -> Result<(), Fault> {
    let bytes = mem.slice_mut(addr, MASK_BYTES)?;
    for (to, word) in bytes.chunks_exact_mut(8).zip(mask.words()) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    Ok(())
}

fn bit_at(addr: u64, cpu: u32) -> (GuestAddr, u64) {
    (GuestAddr(addr).offset(u64::from(cpu / 64) * 8), 1 << (cpu % 64))
}

/// A CPU argument that is in range (`cpu < nr_cpu_ids` in the kernel).
fn valid_cpu(join: &Join<'_>, arg: u64) -> Option<u32> {
    let cpu = arg as u32;
    ((cpu as usize) < join.nr_cpus()).then_some(cpu)
}

fn create(join: &mut Join<'_>, _args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(join.state.cpumasks.create(vm.mem)?.0)
}

fn acquire(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    join.state.cpumasks.acquire(vm.mem, arg_addr(args[0]))?;
    Ok(args[0])
}

fn release(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    join.state.cpumasks.release(vm.mem, arg_addr(args[0]))?;
    Ok(0)
}

fn test_cpu(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(cpu) = valid_cpu(join, args[0]) else { return Ok(0) };
    let (addr, bit) = bit_at(args[1], cpu);
    Ok(u64::from(vm.mem.read_u64(addr)? & bit != 0))
}

/// Changes one bit of a program's mask and returns whether it was set.
fn change_bit(join: &Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>, set: bool) -> Result<u64, Fault> {
    let Some(cpu) = valid_cpu(join, args[0]) else { return Ok(0) };
    let (addr, bit) = bit_at(args[1], cpu);
    let old = vm.mem.read_u64(addr)?;
    vm.mem.write_u64(addr, if set { old | bit } else { old & !bit })?;
    Ok(u64::from(old & bit != 0))
}

fn set_cpu(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    change_bit(join, args, vm, true)
}

fn clear_cpu(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    change_bit(join, args, vm, false)
}

fn set_all(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    write_mask(vm.mem, arg_addr(args[0]), &CpuMask::first(join.nr_cpus()))?;
    Ok(0)
}

fn clear(_join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    write_mask(vm.mem, arg_addr(args[0]), &CpuMask::EMPTY)?;
    Ok(0)
}

fn copy(_join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let mask = read_mask(vm, arg_addr(args[1]))?;
    write_mask(vm.mem, arg_addr(args[0]), &mask)?;
    Ok(0)
}

/// `dst = a OP b`; returns whether the result has any CPU.
fn combine(args: &[u64; 5], vm: &mut Vm<'_>, op: impl Fn(u64, u64) -> u64) -> Result<u64, Fault> {
    let (a, b) = (read_mask(vm, arg_addr(args[1]))?, read_mask(vm, arg_addr(args[2]))?);
    let mut out = CpuMask::EMPTY;
    for (index, (a, b)) in a.words().iter().zip(b.words()).enumerate() {
        out.set_word(index, op(*a, *b));
    }
    write_mask(vm.mem, arg_addr(args[0]), &out)?;
    Ok(u64::from(!out.is_empty()))
}

fn and(_join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    combine(args, vm, |a, b| a & b)
}

fn or(_join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    combine(args, vm, |a, b| a | b)
}

fn xor(_join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    combine(args, vm, |a, b| a ^ b)
}

/// Whether `test` holds for every pair of words of two masks.
fn every(args: &[u64; 5], vm: &Vm<'_>, test: impl Fn(u64, u64) -> bool) -> Result<u64, Fault> {
    let (a, b) = (read_mask(vm, arg_addr(args[0]))?, read_mask(vm, arg_addr(args[1]))?);
    Ok(u64::from(a.words().iter().zip(b.words()).all(|(a, b)| test(*a, *b))))
}

fn equal(_join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    every(args, vm, |a, b| a == b)
}

fn subset(_join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    every(args, vm, |a, b| a & !b == 0)
}

fn intersects(_join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    every(args, vm, |a, b| a & b == 0).map(|disjoint| 1 - disjoint)
}

fn empty(_join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(u64::from(read_mask(vm, arg_addr(args[0]))?.is_empty()))
}

fn full(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let all = CpuMask::first(join.nr_cpus());
    Ok(u64::from(read_mask(vm, arg_addr(args[0]))?.and(&all) == all))
}

fn weight(_join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(read_mask(vm, arg_addr(args[0]))?.count() as u64)
}

fn lowest(join: &Join<'_>, mask: &CpuMask) -> u64 {
    mask.lowest().map_or(join.nr_cpus() as u64, |cpu| u64::from(cpu.0))
}

fn first(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(lowest(join, &read_mask(vm, arg_addr(args[0]))?))
}

fn first_zero(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let mut mask = read_mask(vm, arg_addr(args[0]))?;
    for index in 0..mask.words().len() {
        mask.set_word(index, !mask.words()[index]);
    }
    Ok(lowest(join, &mask))
}

fn first_and(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let mask = read_mask(vm, arg_addr(args[0]))?.and(&read_mask(vm, arg_addr(args[1]))?);
    Ok(lowest(join, &mask))
}

/// The next CPU of the mask after the one returned last on this CPU, around; `nr_cpu_ids` without any.
fn distribute(join: &mut Join<'_>, mask: &CpuMask) -> u64 {
    let at = join.k.ctx().cpu.index();
    let last = &mut join.state.distribute_from[at];
    let Some(cpu) = mask.next_from(*last as usize + 1).or_else(|| mask.lowest()) else {
        return join.nr_cpus() as u64;
    };
    *last = cpu.0;
    u64::from(cpu.0)
}

fn any_distribute(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let mask = read_mask(vm, arg_addr(args[0]))?;
    Ok(distribute(join, &mask))
}

fn any_and_distribute(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let mask = read_mask(vm, arg_addr(args[0]))?.and(&read_mask(vm, arg_addr(args[1]))?);
    Ok(distribute(join, &mask))
}

/// Fills a program's mask from words; `-EACCES` for too few bytes and `-EINVAL` for a bad alignment, as the kernel.
fn populate(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let needed = join.nr_cpus().div_ceil(64) * 8;
    if (args[2] as usize) < needed {
        return Ok(super::errno(13));
    }
    if !args[1].is_multiple_of(8) {
        return Ok(super::errno(22));
    }
    let words = vm.mem.slice(arg_addr(args[1]), needed as u64)?.to_vec();
    let mut mask = CpuMask::EMPTY;
    for (byte, bits) in words.iter().enumerate() {
        for bit in (0..8).filter(|bit| bits >> bit & 1 != 0) {
            mask.set(CpuId((byte * 8 + bit) as u32));
        }
    }
    write_mask(vm.mem, arg_addr(args[0]), &mask)?;
    Ok(0)
}

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    kfunc("struct bpf_cpumask *bpf_cpumask_create(void);", create),
    kfunc("struct bpf_cpumask *bpf_cpumask_acquire(struct bpf_cpumask *cpumask);", acquire),
    kfunc("void bpf_cpumask_release(struct bpf_cpumask *cpumask);", release),
    kfunc("u32 bpf_cpumask_first(const struct cpumask *cpumask);", first),
    kfunc("u32 bpf_cpumask_first_zero(const struct cpumask *cpumask);", first_zero),
    kfunc("u32 bpf_cpumask_first_and(const struct cpumask *src1, const struct cpumask *src2);", first_and),
    kfunc("void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *cpumask);", set_cpu),
    kfunc("void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *cpumask);", clear_cpu),
    kfunc("bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask);", test_cpu),
    kfunc("bool bpf_cpumask_test_and_set_cpu(u32 cpu, struct bpf_cpumask *cpumask);", set_cpu),
    kfunc("bool bpf_cpumask_test_and_clear_cpu(u32 cpu, struct bpf_cpumask *cpumask);", clear_cpu),
    kfunc("void bpf_cpumask_setall(struct bpf_cpumask *cpumask);", set_all),
    kfunc("void bpf_cpumask_clear(struct bpf_cpumask *cpumask);", clear),
    kfunc("void bpf_cpumask_copy(struct bpf_cpumask *dst, const struct cpumask *src);", copy),
    kfunc(
        "bool bpf_cpumask_and(struct bpf_cpumask *dst, const struct cpumask *src1, const struct cpumask *src2);",
        and,
    ),
    kfunc(
        "void bpf_cpumask_or(struct bpf_cpumask *dst, const struct cpumask *src1, const struct cpumask *src2);",
        or,
    ),
    kfunc(
        "void bpf_cpumask_xor(struct bpf_cpumask *dst, const struct cpumask *src1, const struct cpumask *src2);",
        xor,
    ),
    kfunc("bool bpf_cpumask_equal(const struct cpumask *src1, const struct cpumask *src2);", equal),
    kfunc("bool bpf_cpumask_intersects(const struct cpumask *src1, const struct cpumask *src2);", intersects),
    kfunc("bool bpf_cpumask_subset(const struct cpumask *src1, const struct cpumask *src2);", subset),
    kfunc("bool bpf_cpumask_empty(const struct cpumask *cpumask);", empty),
    kfunc("bool bpf_cpumask_full(const struct cpumask *cpumask);", full),
    kfunc("u32 bpf_cpumask_weight(const struct cpumask *cpumask);", weight),
    kfunc("u32 bpf_cpumask_any_distribute(const struct cpumask *cpumask);", any_distribute),
    kfunc(
        "u32 bpf_cpumask_any_and_distribute(const struct cpumask *src1, const struct cpumask *src2);",
        any_and_distribute,
    ),
    kfunc("int bpf_cpumask_populate(struct bpf_cpumask *cpumask, void *src, size_t src__sz);", populate),
];
