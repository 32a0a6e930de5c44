//! Kernel functions that do not depend on scheduling: arena pages, number iterators, casts, nested locks.

use super::{Env, misuse};
use crate::engine::Vm;
use crate::fault::{Access, Fault};
use crate::maps::Errno;
use crate::memory::GuestAddr;

/// A kernel function of this module; a host maps the names in `Image::kfuncs` to these once, after linking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenericKfunc {
    /// `bpf_arena_alloc_pages(map, addr, count, node, flags)`.
    ArenaAlloc,
    /// `bpf_arena_free_pages(map, addr, count)`.
    ArenaFree,
    /// `bpf_iter_num_new(iterator, start, end)`.
    IterNumNew,
    /// `bpf_iter_num_next(iterator)`.
    IterNumNext,
    /// `bpf_iter_num_destroy(iterator)`.
    IterNumDestroy,
    /// `bpf_rdonly_cast(object, type)` and `bpf_cast_to_kern_ctx(object)`: the object.
    Identity,
    /// `bpf_local_irq_save(flags)`.
    IrqSave,
    /// `bpf_local_irq_restore(flags)`.
    IrqRestore,
    /// `bpf_rcu_read_lock`, `bpf_preempt_disable` and their ends: nothing to do where programs are not preempted.
    Nothing,
    /// `bpf_res_spin_lock(lock)`.
    ResLock,
    /// `bpf_res_spin_unlock(lock)`.
    ResUnlock,
    /// `bpf_res_spin_lock_irqsave(lock, flags)`.
    ResLockIrq,
    /// `bpf_res_spin_unlock_irqrestore(lock, flags)`.
    ResUnlockIrq,
}

impl GenericKfunc {
    /// All names, for a [`crate::link::KernelModel`].
    pub const NAMES: [&'static str; 17] = [
        "bpf_arena_alloc_pages",
        "bpf_arena_free_pages",
        "bpf_iter_num_new",
        "bpf_iter_num_next",
        "bpf_iter_num_destroy",
        "bpf_rdonly_cast",
        "bpf_cast_to_kern_ctx",
        "bpf_local_irq_save",
        "bpf_local_irq_restore",
        "bpf_rcu_read_lock",
        "bpf_rcu_read_unlock",
        "bpf_preempt_disable",
        "bpf_preempt_enable",
        "bpf_res_spin_lock",
        "bpf_res_spin_unlock",
        "bpf_res_spin_lock_irqsave",
        "bpf_res_spin_unlock_irqrestore",
    ];

    /// The function of this name.
    pub fn from_name(name: &str) -> Option<GenericKfunc> {
        use GenericKfunc::*;
        Some(match name {
            "bpf_arena_alloc_pages" => ArenaAlloc,
            "bpf_arena_free_pages" => ArenaFree,
            "bpf_iter_num_new" => IterNumNew,
            "bpf_iter_num_next" => IterNumNext,
            "bpf_iter_num_destroy" => IterNumDestroy,
            "bpf_rdonly_cast" | "bpf_cast_to_kern_ctx" => Identity,
            "bpf_local_irq_save" => IrqSave,
            "bpf_local_irq_restore" => IrqRestore,
            "bpf_rcu_read_lock" | "bpf_rcu_read_unlock" | "bpf_preempt_disable" | "bpf_preempt_enable" => {
                Nothing
            }
            "bpf_res_spin_lock" => ResLock,
            "bpf_res_spin_unlock" => ResUnlock,
            "bpf_res_spin_lock_irqsave" => ResLockIrq,
            "bpf_res_spin_unlock_irqrestore" => ResUnlockIrq,
            _ => return None,
        })
    }

    /// Calls it for a program.
    ///
    /// # Errors
    /// Ends the program for arguments that the kernel's verifier would have refused.
    pub fn call<E: Env>(self, args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
        let first = GuestAddr(args[0]);
        match self {
            GenericKfunc::Identity => Ok(args[0]),
            GenericKfunc::Nothing => Ok(0),
            GenericKfunc::IterNumNew => iter_new(first, args[1] as i32, args[2] as i32, vm),
            GenericKfunc::IterNumNext => iter_next(first, vm),
            GenericKfunc::IterNumDestroy => vm.mem.write_u64(first, 0).map(|()| 0),
            GenericKfunc::ArenaAlloc => arena_alloc(args, vm, env),
            GenericKfunc::ArenaFree => {
                let arena = env.runtime().maps.arena.as_mut().ok_or_else(no_arena)?;
                arena.release(args[1], args[2] as u32, vm.mem);
                Ok(0)
            }
            GenericKfunc::IrqSave => save(first, vm, env),
            GenericKfunc::IrqRestore => restore(env),
            GenericKfunc::ResLock => env.lock(first, vm).map(|()| 0),
            GenericKfunc::ResUnlock => env.unlock(first, vm).map(|()| 0),
            GenericKfunc::ResLockIrq => {
                save(GuestAddr(args[1]), vm, env)?;
                env.lock(first, vm).map(|()| 0)
            }
            GenericKfunc::ResUnlockIrq => {
                env.unlock(first, vm)?;
                restore(env)
            }
        }
    }
}

fn no_arena() -> Fault {
    misuse("the object has no arena")
}

fn arena_alloc<E: Env>(args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    let [_, addr, count, _node, flags] = *args;
    let arena = env.runtime().maps.arena.as_mut().ok_or_else(no_arena)?;
    if flags != 0 {
        return Ok(0);
    }
    let at = (addr != 0).then_some(addr);
    Ok(arena.alloc(at, count as u32, vm.mem).map_or(0, |page| page.0))
}

/// The iterator holds the last number given (low half) and the end (high half), as the kernel's does.
fn iter_new(at: GuestAddr, start: i32, end: i32, vm: &mut Vm<'_>) -> Result<u64, Fault> {
    vm.mem.check_program_access(at, 8, Access::Write)?;
    let error = match i64::from(end) - i64::from(start) {
        span if span < 0 => Some(Errno::EINVAL),
        span if span > super::MAX_LOOPS as i64 => Some(Errno::E2BIG),
        _ => None,
    };
    if let Some(error) = error {
        vm.mem.write_u64(at, 0)?;
        return Ok(error.to_r0());
    }
    vm.mem.write_u32(at, start.wrapping_sub(1) as u32)?;
    vm.mem.write_u32(at.offset(4), end as u32)?;
    Ok(0)
}

/// The address of the next number, or NULL.
fn iter_next(at: GuestAddr, vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let (last, end) = (vm.mem.read_u32(at)? as i32, vm.mem.read_u32(at.offset(4))? as i32);
    let next = last.wrapping_add(1);
    if next >= end {
        vm.mem.write_u64(at, 0)?;
        return Ok(0);
    }
    vm.mem.write_u32(at, next as u32)?;
    Ok(at.0)
}

fn save<E: Env>(flags: GuestAddr, vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    vm.mem.check_program_access(flags, 8, Access::Write)?;
    let depth = env.runtime().irq_depth;
    env.runtime().irq_depth = depth.saturating_add(1);
    vm.mem.write_u64(flags, u64::from(depth)).map(|()| 0)
}

fn restore<E: Env>(env: &mut E) -> Result<u64, Fault> {
    let depth = env.runtime().irq_depth;
    let outer = depth.checked_sub(1).ok_or_else(|| misuse("interrupts were not disabled"))?;
    env.runtime().irq_depth = outer;
    Ok(0)
}
