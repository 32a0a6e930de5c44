//! BPF maps in guest memory: every kind that a scheduler uses, with the kernel's flags, errors and limits.
//!
//! Values live in guest memory at addresses that depend only on the order of operations; keys are kept on the host
//! side too, where look-ups compare them. A map is known to programs by the address of its handle, a 64-byte kernel
//! object; the table finds the map from that address by arithmetic.
//!
//! Iteration is in order of insertion. Differences from the kernel: an LRU map evicts the element that was used
//! least recently of all, where the kernel approximates that per CPU.

mod arena;
mod declared;
mod entries;
mod handles;
mod hash;
mod inner;
mod places;
mod ring;
mod special;
mod storage;

pub use storage::CREATE as STORAGE_CREATE;

pub use arena::Arena;
pub(crate) use declared::check_types;
pub use entries::MapEntry;
pub(crate) use places::ValuePlace;
pub(crate) use special::find_in as find_special;
pub use special::{Special, SpecialKind};

use crate::btf::Btf;
use crate::code::FuncId;
use crate::memory::{GuestAddr, Memory, MemoryError, Perm};
use crate::object::{MapDef, MapType};
use handles::{Handles, MAX_MAPS};
use hash::HashStore;
use inner::Pattern;
use ring::{DYNPTR_BYTES, Ring};
use storage::{Recent, Storage};

/// Number of a map in its [`MapTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapId(pub u32);

/// A kernel error number, positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Errno = Errno(1);
    /// No such entry.
    pub const ENOENT: Errno = Errno(2);
    /// Too big, or full.
    pub const E2BIG: Errno = Errno(7);
    /// Out of memory.
    pub const ENOMEM: Errno = Errno(12);
    /// Bad address.
    pub const EFAULT: Errno = Errno(14);
    /// In use.
    pub const EBUSY: Errno = Errno(16);
    /// Exists already.
    pub const EEXIST: Errno = Errno(17);
    /// Invalid argument.
    pub const EINVAL: Errno = Errno(22);
    /// No room, in a map or a buffer.
    pub const ENOSPC: Errno = Errno(28);
    /// Not supported for this kind of map (the kernel's own number, 524 in kernel space; programs see 95).
    pub const EOPNOTSUPP: Errno = Errno(95);

    /// What a program sees in r0.
    pub fn to_r0(self) -> u64 {
        debug_assert!(self.0 > 0, "an error number is positive");
        i64::from(-self.0) as u64
    }
}

/// Update flag: only create (`BPF_NOEXIST`).
pub const NOEXIST: u64 = 1;
/// Update flag: only replace (`BPF_EXIST`).
pub const EXIST: u64 = 2;
/// Update flag: under the value's lock (`BPF_F_LOCK`); means nothing where nothing runs at the same time.
pub const LOCK: u64 = 4;

/// Whether values have a lock, without which an update cannot be under it.
fn has_lock(special: &[Special]) -> bool {
    special.iter().any(|part| part.kind == SpecialKind::Lock)
}

/// Most slots of a map of maps or programs (chosen: their slots are kept outside guest memory).
const MAX_SLOTS: u32 = 1 << 20;
/// Bytes that the host keeps for a slot of a map of maps or programs.
const SLOT_BYTES: u64 = 8;

/// One map.
#[derive(Debug, Clone)]
pub struct Map {
    name: String,
    kind: MapType,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    /// Parts of a value that the kernel owns: locks, timers, kernel pointers.
    special: Vec<Special>,
    /// The pattern of the maps that it may hold, if it is a map of maps that declares one.
    inner: Option<Pattern>,
    store: Store,
}

#[derive(Debug, Clone)]
enum Store {
    Array {
        base: GuestAddr,
        stride: u64,
    },
    PercpuArray {
        base: GuestAddr,
        stride: u64,
        cpu_stride: u64,
    },
    Hash(HashStore),
    Queue {
        base: GuestAddr,
        stride: u64,
        head: u32,
        len: u32,
        lifo: bool,
    },
    Ring(Ring),
    Storage(Storage),
    Programs(Vec<Option<FuncId>>),
    MapArray(Vec<Option<MapId>>),
    Arena,
    StructOps,
    /// Perf events, of which there are none.
    Events,
}

/// All maps of one loaded object.
#[derive(Debug, Clone)]
pub struct MapTable {
    maps: Vec<Map>,
    handles: Handles,
    /// Where callbacks and timers find a key that is stored nowhere else (array indices).
    scratch: GuestAddr,
    nr_cpus: u32,
    /// Values in storages that were found last.
    recent: Recent,
    /// The arena, if a map declares one.
    pub arena: Option<Arena>,
}

impl MapTable {
    /// An empty table for a machine with `nr_cpus` possible CPUs.
    ///
    /// # Errors
    /// Guest memory is full.
    pub fn new(mem: &mut Memory, nr_cpus: u32) -> Result<MapTable, MemoryError> {
        let handles = Handles::new(mem)?;
        let scratch = mem.map(64, Perm::READ)?;
        Ok(MapTable {
            maps: Vec::new(),
            handles,
            scratch,
            nr_cpus: nr_cpus.max(1),
            recent: Recent::new(),
            arena: None,
        })
    }

    /// Possible CPUs, which per-CPU maps have values for.
    pub fn nr_cpus(&self) -> u32 {
        self.nr_cpus
    }

    /// Creates a map; `types` describes its value.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the declaration or what is not modelled.
    pub fn create(&mut self, def: &MapDef, types: &Btf, mem: &mut Memory) -> Result<MapId, String> {
        self.check_count()?;
        self.handles.grow(self.maps.len() as u64, mem).map_err(|error| error.to_string())?;
        declared::check(def)?;
        let inner = def.inner.as_ref().map(|inner| self.pattern(inner)).transpose()?;
        let store = self.make_store(def, mem)?;
        let special = def.value_type.map_or(Vec::new(), |ty| special::find(types, ty));
        self.maps.push(Map {
            name: def.name.clone(),
            kind: def.map_type,
            key_size: def.key_size,
            value_size: def.value_size,
            max_entries: def.max_entries,
            flags: def.flags,
            special,
            inner,
            store,
        });
        debug_assert!(self.maps.len() as u64 <= MAX_MAPS, "the number of maps was checked");
        Ok(MapId(self.maps.len() as u32 - 1))
    }

    /// A data section as a map of one value with these kernel-owned parts; where it lies.
    ///
    /// # Errors
    /// A sentence: more maps than there can be, or no room.
    pub(crate) fn add_section(
        &mut self,
        name: &str,
        size: u32,
        special: Vec<Special>,
        mem: &mut Memory,
    ) -> Result<GuestAddr, String> {
        self.check_count()?;
        let base = room(mem, self.maps.len() as u32, 1, u64::from(size))?;
        self.maps.push(Map {
            name: name.to_string(),
            kind: MapType::ARRAY,
            key_size: 4,
            value_size: size,
            max_entries: 1,
            flags: 0,
            special,
            inner: None,
            store: Store::Array { base, stride: u64::from(size) },
        });
        Ok(base)
    }

    fn check_count(&self) -> Result<(), String> {
        if self.maps.len() as u64 >= MAX_MAPS {
            return Err(format!("more than {MAX_MAPS} maps"));
        }
        Ok(())
    }

    fn make_store(&mut self, def: &MapDef, mem: &mut Memory) -> Result<Store, String> {
        let (entries, stride) = (u64::from(def.max_entries), u64::from(def.value_size).next_multiple_of(8));
        let cpus = u64::from(self.nr_cpus);
        let owner = self.maps.len() as u32;
        match def.map_type {
            MapType::ARRAY => {
                let base = room(mem, owner, entries, stride)?;
                Ok(Store::Array { base, stride })
            }
            MapType::PERCPU_ARRAY => {
                let base = room(mem, owner, entries * cpus, stride)?;
                Ok(Store::PercpuArray { base, stride, cpu_stride: entries * stride })
            }
            MapType::HASH | MapType::LRU_HASH | MapType::PERCPU_HASH | MapType::LRU_PERCPU_HASH => {
                let percpu = matches!(def.map_type, MapType::PERCPU_HASH | MapType::LRU_PERCPU_HASH);
                let lru = matches!(def.map_type, MapType::LRU_HASH | MapType::LRU_PERCPU_HASH);
                let copies = if percpu { self.nr_cpus } else { 1 };
                let sizes = (def.key_size, def.value_size);
                Ok(Store::Hash(HashStore::new(owner, sizes, copies, def.max_entries, lru)))
            }
            MapType::HASH_OF_MAPS => {
                Ok(Store::Hash(HashStore::new(owner, (def.key_size, 8), 1, def.max_entries, false)))
            }
            MapType::ARRAY_OF_MAPS => Ok(Store::MapArray(slots(def, mem)?)),
            MapType::PROG_ARRAY => Ok(Store::Programs(slots(def, mem)?)),
            MapType::QUEUE | MapType::STACK => {
                let base = room(mem, owner, entries, stride)?;
                Ok(Store::Queue { base, stride, head: 0, len: 0, lifo: def.map_type == MapType::STACK })
            }
            MapType::RINGBUF => Ok(Store::Ring(Ring::new(owner, def.max_entries, 0, mem)?)),
            MapType::USER_RINGBUF => Ok(Store::Ring(Ring::new(owner, def.max_entries, DYNPTR_BYTES, mem)?)),
            MapType::TASK_STORAGE | MapType::CGRP_STORAGE => {
                Ok(Store::Storage(Storage::new(owner, def.value_size)))
            }
            MapType::ARENA => {
                self.arena = Some(Arena::new(def.max_entries, self.arena.is_some())?);
                Ok(Store::Arena)
            }
            MapType::STRUCT_OPS => Ok(Store::StructOps),
            MapType::PERF_EVENT_ARRAY => Ok(Store::Events),
            other => Err(format!("maps of type {} ({}) are not modelled", other.name(), other.0)),
        }
    }

    /// The map of this number.
    pub fn get(&self, id: MapId) -> Option<&Map> {
        self.maps.get(id.0 as usize)
    }

    fn get_mut(&mut self, id: MapId) -> Option<&mut Map> {
        self.maps.get_mut(id.0 as usize)
    }

    /// The map of this name.
    pub fn find(&self, name: &str) -> Option<MapId> {
        self.iter().find(|(_, m)| m.name == name).map(|(id, _)| id)
    }

    /// All maps with their numbers, data sections included.
    pub fn iter(&self) -> impl Iterator<Item = (MapId, &Map)> {
        (0u32..).map(MapId).zip(self.maps.iter())
    }

    /// The value by which programs refer to the map.
    pub fn handle(&self, id: MapId) -> GuestAddr {
        self.handles.of(id)
    }

    /// The map that a program's value refers to.
    #[inline]
    pub fn by_handle(&self, value: u64) -> Option<MapId> {
        self.handles.find(value, self.maps.len() as u64)
    }

    /// A key for callbacks on array maps, put where programs can read it.
    pub(crate) fn scratch_key(&self, index: u32, mem: &mut Memory) -> GuestAddr {
        mem.write(self.scratch, &index.to_le_bytes()).expect("the scratch page stays mapped");
        self.scratch
    }

    /// Looks up a value as a program on `cpu` does: its address, or NULL.
    ///
    /// For a map of maps this is the inner map's handle.
    pub fn lookup(&mut self, id: MapId, key: &[u8], cpu: u32, mem: &Memory) -> Option<GuestAddr> {
        let (handles, nr_cpus) = (self.handles, self.nr_cpus);
        let map = self.maps.get_mut(id.0 as usize)?;
        match &mut map.store {
            Store::Array { .. } | Store::PercpuArray { .. } => map.element(index_of(key)?, cpu, nr_cpus),
            Store::Hash(hash) => {
                let slot = hash.find(key)?;
                hash.touch(slot);
                let at = hash.value(slot, if hash.copies() > 1 { cpu } else { 0 })?;
                if map.kind == MapType::HASH_OF_MAPS {
                    mem.read_u64(at).ok().map(GuestAddr)
                } else {
                    Some(at)
                }
            }
            Store::MapArray(slots) => {
                let inner = (*slots.get(index_of(key)? as usize)?)?;
                Some(handles.of(inner))
            }
            _ => None,
        }
    }

    /// The value of a key as a program on `cpu` has it: its address. Nobody has looked it up.
    pub(crate) fn value(&self, id: MapId, key: &[u8], cpu: u32) -> Option<GuestAddr> {
        let map = self.get(id)?;
        match &map.store {
            Store::Array { .. } | Store::PercpuArray { .. } => map.element(index_of(key)?, cpu, self.nr_cpus),
            Store::Hash(hash) => hash.value(hash.find(key)?, if hash.copies() > 1 { cpu } else { 0 }),
            _ => None,
        }
    }

    /// Whether a map's values stand in a row, for [`MapTable::element`].
    #[inline]
    pub(crate) fn is_array(&self, id: MapId) -> bool {
        self.get(id).is_some_and(|map| matches!(map.store, Store::Array { .. } | Store::PercpuArray { .. }))
    }

    /// The value of this index in an array, for a program on `cpu`: its address, if it is in range.
    #[inline]
    pub fn element(&self, id: MapId, index: u32, cpu: u32) -> Option<GuestAddr> {
        self.get(id)?.element(index, cpu, self.nr_cpus)
    }

    /// Sets a value as a program on `cpu` does; kernel-owned parts of it (locks, timers, pointers) keep their content.
    ///
    /// # Errors
    /// The kernel's: `E2BIG` (full, or index out of range), `EEXIST`, `ENOENT`, `EINVAL`.
    pub fn update(
        &mut self,
        id: MapId,
        key: &[u8],
        value: &[u8],
        flags: u64,
        cpu: u32,
        mem: &mut Memory,
    ) -> Result<(), Errno> {
        let nr_cpus = self.nr_cpus;
        let map = self.get_mut(id).ok_or(Errno::EINVAL)?;
        if flags & !LOCK > EXIST || value.len() != map.value_size as usize {
            return Err(Errno::EINVAL);
        }
        match &mut map.store {
            Store::Array { .. } | Store::PercpuArray { .. } => {
                let index = index_of(key).ok_or(Errno::EINVAL)?;
                let at = map.element(index, cpu, nr_cpus).ok_or(Errno::E2BIG)?;
                if flags & NOEXIST != 0 {
                    return Err(Errno::EEXIST);
                }
                if flags & LOCK != 0 && !has_lock(&map.special) {
                    return Err(Errno::EINVAL);
                }
                special::store(at, value, &map.special, mem);
                Ok(())
            }
            Store::Hash(hash) => {
                if map.kind == MapType::HASH_OF_MAPS || flags & LOCK != 0 && !has_lock(&map.special) {
                    return Err(Errno::EINVAL);
                }
                let (slot, _) = hash.claim(key, flags & !LOCK, mem)?;
                let copy = if hash.copies() > 1 { cpu } else { 0 };
                let at = hash.value(slot, copy).ok_or(Errno::EINVAL)?;
                special::store(at, value, &map.special, mem);
                Ok(())
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Removes an element.
    ///
    /// # Errors
    /// `ENOENT` if there is none, `EINVAL` for arrays.
    pub fn delete(&mut self, id: MapId, key: &[u8], mem: &mut Memory) -> Result<(), Errno> {
        let map = self.get_mut(id).ok_or(Errno::EINVAL)?;
        match &mut map.store {
            Store::Hash(hash) => hash.remove(key, mem),
            Store::Array { .. } | Store::PercpuArray { .. } => Err(Errno::EINVAL),
            Store::MapArray(slots) => {
                let index = index_of(key).ok_or(Errno::EINVAL)?;
                let slot = slots.get_mut(index as usize).ok_or(Errno::E2BIG)?;
                slot.take().map(|_| ()).ok_or(Errno::ENOENT)
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Puts a program into a program array.
    pub(crate) fn set_program(&mut self, id: MapId, index: u32, program: FuncId) -> Result<(), Errno> {
        match &mut self.get_mut(id).ok_or(Errno::EINVAL)?.store {
            Store::Programs(slots) => {
                *slots.get_mut(index as usize).ok_or(Errno::E2BIG)? = Some(program);
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// The program in a slot of a program array.
    pub fn program(&self, id: MapId, index: u32) -> Option<FuncId> {
        match &self.get(id)?.store {
            Store::Programs(slots) => *slots.get(index as usize)?,
            _ => None,
        }
    }

    /// The number of elements now; `max_entries` for arrays.
    pub fn len(&self, id: MapId) -> u32 {
        match self.get(id).map(|m| (&m.store, m.max_entries)) {
            Some((Store::Hash(hash), _)) => hash.len(),
            Some((Store::Queue { len, .. }, _)) => *len,
            Some((Store::Storage(storage), _)) => storage.len(),
            Some((_, max)) => max,
            None => 0,
        }
    }
}

impl Map {
    /// Name of its variable, or of its data section.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kind.
    pub fn kind(&self) -> MapType {
        self.kind
    }

    /// Bytes in a key.
    pub fn key_size(&self) -> u32 {
        self.key_size
    }

    /// Bytes in a value.
    pub fn value_size(&self) -> u32 {
        self.value_size
    }

    /// Most entries.
    pub fn max_entries(&self) -> u32 {
        self.max_entries
    }

    /// `BPF_F_...` flags.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// Kernel-owned parts of a value.
    pub fn special(&self) -> &[Special] {
        &self.special
    }

    /// The value of this index in an array, for a program on `cpu` of `nr_cpus`: its address, if it is in range.
    #[inline]
    fn element(&self, index: u32, cpu: u32, nr_cpus: u32) -> Option<GuestAddr> {
        if index >= self.max_entries {
            return None;
        }
        match self.store {
            Store::Array { base, stride } => Some(base.offset(u64::from(index) * stride)),
            Store::PercpuArray { base, stride, cpu_stride } if cpu < nr_cpus => {
                Some(base.offset(u64::from(cpu) * cpu_stride + u64::from(index) * stride))
            }
            _ => None,
        }
    }
}

/// Room on the host for the slots of a map of maps or programs.
fn slots<T: Clone>(def: &MapDef, mem: &mut Memory) -> Result<Vec<Option<T>>, String> {
    if def.max_entries > MAX_SLOTS {
        return Err(format!("{} slots, the limit is {MAX_SLOTS}", def.max_entries));
    }
    mem.take(u64::from(def.max_entries) * SLOT_BYTES).map_err(|e| e.to_string())?;
    Ok(vec![None; def.max_entries as usize])
}

/// Room in the guest for the values of map number `owner`.
fn room(mem: &mut Memory, owner: u32, entries: u64, stride: u64) -> Result<GuestAddr, String> {
    let bytes = entries.checked_mul(stride).ok_or("the size is beyond 2^64")?;
    mem.map_values(bytes, owner).map_err(|e| e.to_string())
}

fn index_of(key: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(key.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> (MapTable, Memory) {
        let mut mem = Memory::new().expect("memory");
        (MapTable::new(&mut mem, 2).expect("room"), mem)
    }

    fn def(map_type: u32, key_size: u32, value_size: u32, max_entries: u32) -> MapDef {
        let map_type = MapType(map_type);
        MapDef { name: "m".into(), map_type, key_size, value_size, max_entries, ..MapDef::empty() }
    }

    #[test]
    fn what_is_not_modelled_is_refused_by_name() {
        let (mut maps, mut mem) = table();
        let mut refused = |d: MapDef| maps.create(&d, &Btf::default(), &mut mem).expect_err("refused");
        assert!(refused(def(30, 0, 8, 4)).contains("BLOOM_FILTER (30)"));
        assert!(refused(def(999, 4, 4, 4)).contains("unknown (999)"));
        assert!(refused(def(2, 8, 4, 4)).contains("keys of 4 bytes"));
        assert!(refused(def(1, 0, 4, 4)).contains("key has no size"));
        assert!(refused(def(1, 4, 4, 0)).contains("max_entries is 0"));
        assert!(refused(def(2, 4, u32::MAX, u32::MAX)).contains("--guest-memory"));
        assert!(refused(def(27, 0, 0, 5000)).contains("power of two"));
        assert!(refused(def(3, 4, 4, u32::MAX)).contains("slots"));
    }

    #[test]
    fn handles_find_their_maps_and_nothing_else() {
        let (mut maps, mut mem) = table();
        let first = maps.create(&def(2, 4, 8, 2), &Btf::default(), &mut mem).expect("array");
        let second = maps.create(&def(1, 4, 8, 2), &Btf::default(), &mut mem).expect("hash");
        assert_eq!(maps.by_handle(maps.handle(first).0), Some(first));
        assert_eq!(maps.by_handle(maps.handle(second).0), Some(second));
        assert_eq!(maps.by_handle(maps.handle(second).0 + 1), None);
        assert_eq!(maps.by_handle(maps.handle(second).0 + 64), None);
        assert_eq!(maps.by_handle(0), None);
    }
}
