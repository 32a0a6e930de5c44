//! Kernel objects in guest memory: tasks, run queues, masks, groups.
//!
//! A program reads them like any kernel memory, and finds what the simulated kernel has: that keeps the members of a
//! task's record itself ([`schedlab_sim::MEMBERS`]). Run queues are read seldom and change with the clock; they lie in pages
//! whose loads come to [`crate::state::State::freshen`] first. Programs' stores are decided one by one ([`Tasks::field`]).
//!
//! A task's place (its slot) is given back when the task is gone and goes to a later task. A pointer that a program
//! keeps beyond that finds a dead task's remains, then another task, as with memory under RCU that was not protected.

mod beside;
mod cpus;
mod creds;
mod groups;
mod tasks;
mod variables;

pub(crate) use cpus::Cpus;
pub(crate) use groups::Css;
pub(crate) use tasks::{Field, Tasks};

use schedlab_bpf::Perm;

/// Bytes of a mask.
const MASK_BYTES: u64 = (schedlab_base::MAX_CPUS / 8) as u64;

/// Pages that programs may read and whose stores the kernel decides on.
pub(crate) fn kernel_perm() -> Perm {
    Perm::READ | Perm::KERNEL
}

/// Kernel pages that are written when they are looked at.
fn lazy_perm() -> Perm {
    Perm::LAZY | Perm::KERNEL
}

/// Little-endian stores into the host's view of an object.
pub(crate) struct Members<'a>(pub(crate) &'a mut [u8]);

impl Members<'_> {
    pub(crate) fn u64(&mut self, at: u64, value: u64) {
        self.0[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, at: u64, value: u32) {
        self.0[at as usize..at as usize + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, at: u64, bytes: &[u8]) {
        self.0[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }
}
