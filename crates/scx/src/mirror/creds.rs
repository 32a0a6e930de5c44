//! The `cred` of tasks, one for all tasks of one user and group.

use super::{Members, kernel_perm};
use crate::kernel_model::Offsets;
use schedlab_bpf::{Fault, GuestAddr, Memory, MemoryError};
use std::collections::BTreeMap;

/// How many are made room for at once. Chosen: few runs have as many.
const BLOCK: u64 = 64;

/// Users and groups of users that tasks have had, and where they are.
#[derive(Clone, Debug)]
pub(super) struct Creds {
    size: u64,
    uids: [u64; 4],
    gids: [u64; 4],
    /// That of root, which the system's own tasks have.
    pub(super) root: GuestAddr,
    known: BTreeMap<(u32, u32), GuestAddr>,
    /// The next one, and room for how many there is.
    next: (GuestAddr, u64),
}

impl Creds {
    /// That of root alone.
    pub(super) fn new(mem: &mut Memory, offsets: &Offsets) -> Result<Creds, MemoryError> {
        let root = mem.map(offsets.cred_size, kernel_perm())?;
        let (uids, gids) = (offsets.cred_uids, offsets.cred_gids);
        Ok(Creds { size: offsets.cred_size, uids, gids, root, known: BTreeMap::new(), next: (root, 0) })
    }

    /// That of this user and group.
    pub(super) fn of(&mut self, uid: u32, gid: u32, mem: &mut Memory) -> Result<GuestAddr, Fault> {
        if (uid, gid) == (0, 0) {
            return Ok(self.root);
        }
        if let Some(known) = self.known.get(&(uid, gid)) {
            return Ok(*known);
        }
        if self.next.1 == 0 {
            let base = mem
                .map(self.size * BLOCK, kernel_perm())
                .map_err(|error| Fault::unsupported(error.to_string()))?;
            self.next = (base, BLOCK);
        }
        let (addr, left) = self.next;
        self.next = (addr.offset(self.size), left - 1);
        let mut object = Members(mem.slice_mut(addr, self.size)?);
        self.uids.iter().for_each(|at| object.u32(*at, uid));
        self.gids.iter().for_each(|at| object.u32(*at, gid));
        self.known.insert((uid, gid), addr);
        Ok(addr)
    }
}
