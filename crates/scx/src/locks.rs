//! Locks of programs: which simulated lock stands for the word at a guest address.

use schedlab_bpf::args::misuse;
use schedlab_bpf::helpers::LockKind;
use schedlab_bpf::{Fault, GuestAddr, Memory};
use schedlab_sim::{Kernel, SimLockId};
use std::collections::BTreeMap;

/// Entries of the direct-mapped cache. Chosen: a scheduler has a lock or two for each CPU.
const CACHE: usize = 256;
/// An empty entry's address, at which no lock can be taken.
const NOWHERE: u64 = 0;
/// Locks that a program may hold at once (kernel: `RES_NR_HELD`).
const MAX_HELD: usize = 31;
/// Bytes that the host keeps for a lock, here and in the simulated kernel.
const HOST_BYTES: u64 = 128;

/// The locks that programs have used so far.
#[derive(Clone, Debug)]
pub(crate) struct Locks {
    by_addr: BTreeMap<u64, SimLockId>,
    cache: Box<[(u64, SimLockId); CACHE]>,
    /// Locks that the running program holds.
    held: Vec<Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    at: u64,
    id: SimLockId,
    kind: LockKind,
}

impl Locks {
    pub(crate) fn new() -> Locks {
        Locks {
            by_addr: BTreeMap::new(),
            cache: Box::new([(NOWHERE, SimLockId(0)); CACHE]),
            held: Vec::new(),
        }
    }

    /// The place of a lock in the cache. Locks are at least 4 bytes; those of an array are often 4 to 64 apart.
    fn entry(addr: GuestAddr) -> usize {
        (addr.0 >> 2 ^ addr.0 >> 10) as usize % CACHE
    }

    /// Whether a program has taken the lock at an address before.
    #[inline]
    pub(crate) fn is_known(&self, addr: GuestAddr) -> bool {
        // A program's word for NULL must not meet an empty entry.
        addr.0 != NOWHERE && (self.cache[Self::entry(addr)].0 == addr.0 || self.by_addr.contains_key(&addr.0))
    }

    #[inline(always)]
    fn id(&mut self, addr: GuestAddr, k: &mut Kernel, mem: &mut Memory) -> Result<SimLockId, Fault> {
        let (at, id) = self.cache[Self::entry(addr)];
        if at != addr.0 {
            return self.id_beyond_cache(addr, k, mem);
        }
        debug_assert!(self.by_addr.get(&addr.0) == Some(&id), "the cache has what the table has");
        Ok(id)
    }

    /// Finds or makes a lock, and keeps it in the cache.
    #[inline(never)]
    fn id_beyond_cache(
        &mut self,
        addr: GuestAddr,
        k: &mut Kernel,
        mem: &mut Memory,
    ) -> Result<SimLockId, Fault> {
        let id = match self.by_addr.get(&addr.0) {
            Some(id) => *id,
            None => {
                mem.take(HOST_BYTES).map_err(|error| misuse(error.to_string()))?;
                *self.by_addr.entry(addr.0).or_insert_with(|| k.lock_new())
            }
        };
        self.cache[Self::entry(addr)] = (addr.0, id);
        Ok(id)
    }

    /// Takes the lock at an address.
    ///
    /// # Errors
    /// Ends the program: it holds the lock already, or may not take another one.
    #[inline(always)]
    pub(crate) fn acquire(
        &mut self,
        addr: GuestAddr,
        kind: LockKind,
        k: &mut Kernel,
        mem: &mut Memory,
    ) -> Result<(), Fault> {
        if !self.held.is_empty() {
            self.may_take(addr, kind)?;
        }
        let id = self.id(addr, k, mem)?;
        debug_assert!(self.held.len() < MAX_HELD, "a program holds {MAX_HELD} locks at the most");
        debug_assert!(self.held.iter().all(|held| held.at != addr.0), "a lock is taken once");
        self.held.push(Held { at: addr.0, id, kind });
        k.lock_acquire(id);
        mem.brought_by_lock(addr);
        Ok(())
    }

    /// Whether a program that holds locks may take another one.
    #[cold]
    fn may_take(&self, addr: GuestAddr, kind: LockKind) -> Result<(), Fault> {
        debug_assert!(!self.held.is_empty(), "a program without locks may take any");
        if self.held.iter().any(|held| held.at == addr.0) {
            return Err(misuse(format!("deadlock: the lock at {addr} is held by this program")));
        }
        if kind == LockKind::Spin {
            return Err(misuse(format!(
                "takes the lock at {addr}, but a bpf_spin_lock can be taken by programs that hold no lock only"
            )));
        }
        if self.held.len() >= MAX_HELD {
            return Err(misuse(format!("holds {MAX_HELD} locks, and takes the one at {addr} besides")));
        }
        Ok(())
    }

    /// Gives the lock at an address back, which is the one that was taken last.
    ///
    /// # Errors
    /// Ends the program: it does not hold the lock, took it in another way, or took another one since.
    #[inline(always)]
    pub(crate) fn release(&mut self, addr: GuestAddr, kind: LockKind, k: &mut Kernel) -> Result<(), Fault> {
        match self.held.last() {
            Some(held) if held.at == addr.0 && held.kind == kind => k.lock_release(held.id),
            _ => return Err(self.may_not_release(addr)),
        }
        self.held.pop();
        Ok(())
    }

    #[cold]
    fn may_not_release(&self, addr: GuestAddr) -> Fault {
        let last = self.held.last().map(|held| GuestAddr(held.at));
        misuse(match last {
            _ if !self.held.iter().any(|held| held.at == addr.0) => {
                format!("the lock at {addr} is not held")
            }
            Some(last) if last != addr => {
                format!("gives the lock at {addr} back before the one at {last}, which it took later")
            }
            _ => format!("the lock at {addr} was taken by the function of another kind of lock"),
        })
    }

    /// The program has ended: gives back what it still held, and says where the last one of that is.
    pub(crate) fn release_all(&mut self, k: &mut Kernel) -> Option<GuestAddr> {
        let last = self.held.last().map(|held| GuestAddr(held.at));
        for held in self.held.drain(..).rev() {
            k.lock_release(held.id);
        }
        last
    }

    /// Whether the running program holds a lock.
    #[inline]
    pub(crate) fn any_held(&self) -> bool {
        !self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_known_before_a_lock_is_taken() {
        let locks = Locks::new();
        for addr in [0, 4, 1 << 20, u64::MAX] {
            assert!(!locks.is_known(GuestAddr(addr)), "{addr:#x}");
        }
    }
}
