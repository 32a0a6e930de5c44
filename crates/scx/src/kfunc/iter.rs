//! Iterators over a dispatch queue.
//!
//! A dispatch queue's iterator is a handle of the simulated kernel; the program's `struct bpf_iter_scx_dsq` holds the
//! handle plus 1 in its first word, 0 when there is none. A program that ends with an iterator open cannot pass the
//! verifier; here the handle would stay open to the end of the run.

use super::group::{DISPATCH, UNLOCKED};
use super::{Kfunc, arg_addr, grouped, kfunc, signed};
use crate::join::Join;
use schedlab_base::DsqId;
use schedlab_bpf::{Fault, Vm};
use schedlab_sim::DsqIter;

fn handle(vm: &Vm<'_>, at: u64) -> Result<Option<DsqIter>, Fault> {
    let word = vm.mem.read_u64(arg_addr(at))?;
    Ok(word.checked_sub(1).map(|handle| DsqIter(handle as u32)))
}

fn dsq_new(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let (word, result) = match join.k.dsq_iter_new(DsqId(args[1]), args[2]) {
        Ok(iter) => (u64::from(iter.0) + 1, 0),
        Err(error) => (0, error),
    };
    vm.mem.write_u64(arg_addr(args[0]), word)?;
    Ok(signed(result))
}

fn dsq_next(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(iter) = handle(vm, args[0])? else { return Ok(0) };
    let task = join.k.dsq_iter_next(iter);
    join.task_pointer(task, vm.mem)
}

fn dsq_destroy(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    if let Some(iter) = handle(vm, args[0])? {
        join.k.dsq_iter_destroy(iter);
        vm.mem.write_u64(arg_addr(args[0]), 0)?;
    }
    Ok(0)
}

fn set_slice(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    if let Some(iter) = handle(vm, args[0])? {
        join.k.dsq_move_set_slice(iter, args[1]);
    }
    Ok(0)
}

fn set_vtime(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    if let Some(iter) = handle(vm, args[0])? {
        join.k.dsq_move_set_vtime(iter, args[1]);
    }
    Ok(0)
}

fn dsq_move(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(iter) = handle(vm, args[0])? else { return Ok(0) };
    let Some(task) = join.task_of(args[1])? else { return Ok(0) };
    Ok(u64::from(join.k.dsq_move(iter, task, DsqId(args[2]), args[3])))
}

fn dsq_move_vtime(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(iter) = handle(vm, args[0])? else { return Ok(0) };
    let Some(task) = join.task_of(args[1])? else { return Ok(0) };
    Ok(u64::from(join.k.dsq_move_vtime(iter, task, DsqId(args[2]), args[3])))
}

const MOVING: u8 = DISPATCH | UNLOCKED;

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    kfunc("int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags);", dsq_new),
    kfunc("struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it);", dsq_next),
    kfunc("void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it);", dsq_destroy),
    grouped(MOVING, "void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice);", set_slice),
    grouped(MOVING, "void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime);", set_vtime),
    grouped(
        MOVING,
        "bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);",
        dsq_move,
    ),
    grouped(
        MOVING,
        "bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);",
        dsq_move_vtime,
    ),
    // The names before Linux 6.13.
    grouped(
        MOVING,
        "void scx_bpf_dispatch_from_dsq_set_slice(struct bpf_iter_scx_dsq *it, u64 slice);",
        set_slice,
    ),
    grouped(
        MOVING,
        "void scx_bpf_dispatch_from_dsq_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime);",
        set_vtime,
    ),
    grouped(
        MOVING,
        "bool scx_bpf_dispatch_from_dsq(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);",
        dsq_move,
    ),
    grouped(
        MOVING,
        "bool scx_bpf_dispatch_vtime_from_dsq(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);",
        dsq_move_vtime,
    ),
];
