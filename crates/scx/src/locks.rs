//! Locks of programs: which simulated lock stands for the word at a guest address.

use schedlab_bpf::GuestAddr;
use schedlab_sim::{Kernel, SimLockId};
use std::collections::BTreeMap;

/// Entries of the direct-mapped cache. Chosen: a scheduler has a lock or two for each CPU.
const CACHE: usize = 256;
/// An empty entry's address: no lock lies at NULL.
const NOWHERE: u64 = 0;

/// The locks that programs have used so far.
#[derive(Debug)]
pub(crate) struct Locks {
    by_addr: BTreeMap<u64, SimLockId>,
    cache: Box<[(u64, SimLockId)]>,
    /// Locks that the running program holds.
    held: Vec<(u64, SimLockId)>,
}

impl Locks {
    pub(crate) fn new() -> Locks {
        Locks {
            by_addr: BTreeMap::new(),
            cache: vec![(NOWHERE, SimLockId(0)); CACHE].into_boxed_slice(),
            held: Vec::new(),
        }
    }

    #[inline]
    fn id(&mut self, addr: GuestAddr, k: &mut Kernel) -> SimLockId {
        // Locks are at least 4 bytes; those of an array are often 4 to 64 apart.
        let entry = &mut self.cache[(addr.0 >> 2 ^ addr.0 >> 10) as usize % CACHE];
        if entry.0 != addr.0 {
            *entry = (addr.0, *self.by_addr.entry(addr.0).or_insert_with(|| k.lock_new()));
        }
        entry.1
    }

    /// Takes the lock at an address; false if the running program holds it already.
    pub(crate) fn acquire(&mut self, addr: GuestAddr, k: &mut Kernel) -> bool {
        if self.held.iter().any(|(held, _)| *held == addr.0) {
            return false;
        }
        let id = self.id(addr, k);
        self.held.push((addr.0, id));
        k.lock_acquire(id);
        true
    }

    /// Gives the lock at an address back; false if the running program does not hold it.
    pub(crate) fn release(&mut self, addr: GuestAddr, k: &mut Kernel) -> bool {
        // Mostly the one that was taken last.
        let Some(place) = self.held.iter().rposition(|(held, _)| *held == addr.0) else { return false };
        let (_, id) = self.held.swap_remove(place);
        k.lock_release(id);
        true
    }

    /// The program has ended: gives back what a faulting one still held.
    pub(crate) fn release_all(&mut self, k: &mut Kernel) {
        for (_, id) in self.held.drain(..).rev() {
            k.lock_release(id);
        }
    }
}
