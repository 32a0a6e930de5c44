//! Values attached to an owner (a task, a cgroup), found by the owner's small integer in constant time.

use super::{Errno, Map, MapId, MapTable, Store, special};
use crate::memory::{GuestAddr, Memory};

/// Create the value if there is none (`BPF_LOCAL_STORAGE_GET_F_CREATE`).
pub const CREATE: u64 = 1;
/// Elements per piece of guest memory.
const CHUNK: u32 = 64;
/// Largest owner number (chosen: above the kernel's largest pid, 2^22).
const MAX_OWNER: u32 = 1 << 23;

/// Values that are remembered. Chosen: more than the tasks that switches are about at once, and 8 KiB.
const REMEMBERED: usize = 256;

/// Values of tasks that were found, by the values that stand for map and task.
#[derive(Debug, Clone)]
pub(super) struct Recent {
    found: Box<[Found; REMEMBERED]>,
    /// How often a value has been removed, and one: what was found before that is not valid any more.
    time: u64,
}

/// A value that was found at a time; at 0 none was.
#[derive(Debug, Clone, Copy)]
struct Found {
    map: u64,
    task: u64,
    value: GuestAddr,
    time: u64,
}

const NOTHING: Found = Found { map: 0, task: 0, value: GuestAddr::NULL, time: 0 };

impl Recent {
    pub(super) fn new() -> Recent {
        Recent { found: Box::new([NOTHING; REMEMBERED]), time: 1 }
    }

    fn forget(&mut self) {
        self.time += 1;
    }

    /// The place of what is found for a task in a map. Tasks lie an odd number of cache lines apart, and the values that
    /// stand for maps one.
    #[inline(always)]
    fn place(map: u64, task: u64) -> usize {
        ((task >> 6) ^ (map >> 6)) as usize % REMEMBERED
    }
}

#[derive(Debug, Clone)]
pub(super) struct Storage {
    /// Number of the map.
    map: u32,
    stride: u64,
    /// By owner: element number plus 1, 0 for none.
    by_owner: Vec<u32>,
    free: Vec<u32>,
    next: u32,
    chunks: Vec<GuestAddr>,
    len: u32,
}

impl Storage {
    pub(super) fn new(map: u32, value_size: u32) -> Storage {
        debug_assert!(value_size > 0, "a value has bytes");
        Storage {
            map,
            stride: u64::from(value_size).next_multiple_of(8),
            by_owner: Vec::new(),
            free: Vec::new(),
            next: 0,
            chunks: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn find(&self, owner: u32) -> Option<GuestAddr> {
        match self.by_owner.get(owner as usize) {
            Some(&n) if n != 0 => Some(self.address(n - 1)),
            _ => None,
        }
    }

    /// The owners with their values, in order of the owners.
    pub(super) fn owned(&self) -> impl Iterator<Item = (u32, GuestAddr)> + '_ {
        (0u32..)
            .zip(&self.by_owner)
            .filter(|(_, slot)| **slot != 0)
            .map(|(owner, slot)| (owner, self.address(slot - 1)))
    }

    fn address(&self, slot: u32) -> GuestAddr {
        debug_assert!(slot < self.next, "the element was made");
        self.chunks[(slot / CHUNK) as usize].offset(u64::from(slot % CHUNK) * self.stride)
    }

    /// The start of the value that an address lies in, in the piece of memory that begins at `chunk`.
    pub(super) fn value_around(&self, addr: u64, chunk: u64) -> Option<GuestAddr> {
        let within = addr.checked_sub(chunk)?;
        debug_assert!(self.stride > 0, "a value has bytes");
        (within < self.stride * u64::from(CHUNK)).then(|| GuestAddr(addr - within % self.stride))
    }

    fn create(&mut self, owner: u32, mem: &mut Memory) -> Option<GuestAddr> {
        if owner > MAX_OWNER {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                if self.next as usize == self.chunks.len() * CHUNK as usize {
                    self.chunks.push(mem.map_values(self.stride * u64::from(CHUNK), self.map).ok()?);
                }
                self.next += 1;
                self.next - 1
            }
        };
        if self.by_owner.len() <= owner as usize {
            self.by_owner.resize(owner as usize + 1, 0);
        }
        debug_assert_eq!(self.by_owner[owner as usize], 0, "an owner has one element");
        self.by_owner[owner as usize] = slot + 1;
        self.len += 1;
        let at = self.address(slot);
        mem.slice_mut(at, self.stride).ok()?.fill(0);
        Some(at)
    }

    fn remove(&mut self, owner: u32) -> bool {
        match self.by_owner.get_mut(owner as usize).map(std::mem::take) {
            Some(n) if n != 0 => {
                debug_assert!(n <= self.next && self.len > 0, "what is removed was made and counted");
                self.free.push(n - 1);
                self.len -= 1;
                true
            }
            _ => false,
        }
    }
}

impl MapTable {
    /// The value that was found for a task in a map, by the values that stand for them, unless one has been removed since.
    #[inline(always)]
    pub fn recalled(&self, map: u64, task: u64) -> Option<u64> {
        let found = self.recent.found[Recent::place(map, task)];
        let same = found.map == map && found.task == task && found.time == self.recent.time;
        same.then_some(found.value.0)
    }

    /// Remembers the value that was found for a task in a map.
    pub(crate) fn remember(&mut self, id: MapId, task: u64, value: GuestAddr) {
        let map = self.handle(id).0;
        let time = self.recent.time;
        self.recent.found[Recent::place(map, task)] = Found { map, task, value, time };
    }

    /// The value that `owner` has in a storage map, if it has one.
    #[inline]
    pub(crate) fn storage_find(&self, id: MapId, owner: u32) -> Option<GuestAddr> {
        match &self.get(id)?.store {
            Store::Storage(storage) => storage.find(owner),
            _ => None,
        }
    }

    /// The value that `owner` has in a storage map; with `create`, made (from `init`, else zero) if there is none.
    pub fn storage_get(
        &mut self,
        id: MapId,
        owner: u32,
        create: bool,
        init: Option<&[u8]>,
        mem: &mut Memory,
    ) -> Option<GuestAddr> {
        let Map { store: Store::Storage(storage), special, .. } = self.maps.get_mut(id.0 as usize)? else {
            return None;
        };
        if let Some(at) = storage.find(owner) {
            return Some(at);
        }
        if !create {
            return None;
        }
        let at = storage.create(owner, mem)?;
        if let Some(init) = init {
            special::store(at, init, special, mem);
        }
        Some(at)
    }

    /// Removes the value that `owner` has.
    ///
    /// # Errors
    /// `ENOENT` if it has none.
    pub fn storage_delete(&mut self, id: MapId, owner: u32) -> Result<(), Errno> {
        self.recent.forget();
        match self.maps.get_mut(id.0 as usize).map(|m| &mut m.store) {
            Some(Store::Storage(storage)) => storage.remove(owner).then_some(()).ok_or(Errno::ENOENT),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Removes what a vanished owner has in all storage maps of this kind, as the kernel does when a task is freed.
    pub fn storage_owner_gone(&mut self, kind: super::MapType, owner: u32) {
        self.recent.forget();
        for map in self.maps.iter_mut().filter(|m| m.kind == kind) {
            if let Store::Storage(storage) = &mut map.store {
                storage.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::Btf;
    use crate::object::{MapDef, MapType};

    #[test]
    fn what_was_found_is_remembered_until_a_value_is_removed() {
        let mut mem = Memory::new().expect("memory");
        let mut maps = MapTable::new(&mut mem, 1).expect("room");
        let kind = MapType::TASK_STORAGE;
        let def = MapDef::plain("m", kind, [4, 8, 0], 1);
        let ids = [(); 2].map(|()| maps.create(&def, &Btf::default(), &mut mem).expect("it is modelled"));
        let handles = ids.map(|id| maps.handle(id).0);
        // The second task's values are remembered in the places of the first one's.
        let tasks = [0x10_0000, 0x10_0000 + (REMEMBERED as u64) * 64];
        assert_eq!(Recent::place(handles[0], tasks[0]), Recent::place(handles[0], tasks[1]));
        assert_eq!(maps.recalled(handles[0], tasks[0]), None);
        for end in 0..3 {
            for id in ids {
                let value = maps.storage_get(id, 1, true, None, &mut mem).expect("it is made");
                maps.remember(id, tasks[0], value);
                assert_eq!(maps.recalled(maps.handle(id).0, tasks[0]), Some(value.0));
                assert_eq!(maps.recalled(maps.handle(id).0, tasks[1]), None, "another task's");
            }
            match end {
                0 => assert!(maps.storage_delete(ids[0], 1).is_ok()),
                1 => maps.storage_owner_gone(kind, 1),
                _ => maps.remember(ids[0], tasks[1], GuestAddr(8)),
            }
            assert_eq!(maps.recalled(handles[0], tasks[0]), None);
        }
        assert_eq!((maps.recalled(0, 0), maps.recalled(handles[0], tasks[1])), (None, Some(8)));
    }
}
