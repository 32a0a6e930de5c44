//! Places in guest memory: which map a value belongs to, and what kernel-owned part of it begins at an address.

use super::{Map, MapId, MapTable, SpecialKind, Store};
use crate::code::{ArrayPlace, Arrays};
use crate::memory::{GuestAddr, Memory};
use crate::object::MapType;

/// A value of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValuePlace {
    /// The map.
    pub(crate) map: MapId,
    /// Where the value begins.
    pub(crate) start: GuestAddr,
    /// How its key is found.
    key: KeyPlace,
}

/// How the key of a value is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyPlace {
    /// An index, which is stored nowhere.
    Index(u32),
    /// The key is in guest memory.
    At(GuestAddr),
    /// The owner of a storage's value, no key.
    Owner,
}

impl MapTable {
    /// Where the elements of all arrays lie, by the values that stand for the maps.
    pub(crate) fn arrays(&self) -> Arrays {
        let place = |(id, map): (MapId, &Map)| {
            let (base, stride, cpu_stride) = match map.store {
                Store::Array { base, stride } => (base, stride, 0),
                Store::PercpuArray { base, stride, cpu_stride } => (base, stride, cpu_stride),
                _ => return None,
            };
            debug_assert!(stride > 0 && map.max_entries > 0, "an array has elements, and they have bytes");
            let place = ArrayPlace { base: base.0, stride, entries: map.max_entries, cpu_stride };
            Some((self.handle(id).0, place))
        };
        self.iter().filter_map(place).collect()
    }

    /// The value that an address lies in, if it lies in one that is in use.
    pub(crate) fn value_at(&self, addr: u64, mem: &Memory) -> Option<ValuePlace> {
        let (owner, region) = mem.owner(addr)?;
        let map = self.maps.get(owner as usize)?;
        let (start, key) = match &map.store {
            Store::Array { base, stride } => {
                let index = addr.checked_sub(base.0)? / stride;
                (index < u64::from(map.max_entries)).then_some(())?;
                (base.offset(index * stride), KeyPlace::Index(index as u32))
            }
            Store::PercpuArray { base, stride, .. } => {
                let index = addr.checked_sub(base.0)? / stride;
                let entries = u64::from(map.max_entries);
                (index < entries * u64::from(self.nr_cpus)).then_some(())?;
                (base.offset(index * stride), KeyPlace::Index((index % entries) as u32))
            }
            Store::Hash(hash) => {
                let (value, key) = hash.owner_of(addr, region)?;
                (value, KeyPlace::At(key))
            }
            Store::Storage(storage) => (storage.value_around(addr, region)?, KeyPlace::Owner),
            _ => return None,
        };
        debug_assert!(start.0 <= addr, "a value begins at or before what lies in it");
        Some(ValuePlace { map: MapId(owner), start, key })
    }

    /// The map whose value an address lies in, and where that value begins.
    #[must_use]
    pub fn value_around(&self, addr: GuestAddr, mem: &Memory) -> Option<(MapId, GuestAddr)> {
        self.value_at(addr.0, mem).map(|place| (place.map, place.start))
    }

    /// The value in which a kernel-owned part of this kind begins at an address.
    pub(crate) fn special_at(&self, addr: u64, kind: SpecialKind, mem: &Memory) -> Option<ValuePlace> {
        let place = self.value_at(addr, mem)?;
        let within = addr - place.start.0;
        debug_assert!(place.start.0 <= addr, "a value begins at or before what lies in it");
        let parts = &self.get(place.map)?.special;
        parts.iter().any(|part| part.kind == kind && part.offset == within).then_some(place)
    }

    /// Where a value's key can be read; NULL for a storage's.
    pub(crate) fn key_of(&self, place: &ValuePlace, mem: &mut Memory) -> GuestAddr {
        match place.key {
            KeyPlace::Index(index) => self.scratch_key(index, mem),
            KeyPlace::At(at) => at,
            KeyPlace::Owner => GuestAddr::NULL,
        }
    }

    /// Numbers of the elements that a map of keys has now, in order of insertion; nothing for other kinds.
    pub(crate) fn slots(&self, id: MapId) -> Option<Vec<u32>> {
        match &self.get(id)?.store {
            Store::Hash(hash) => Some(hash.slots().collect()),
            _ => None,
        }
    }

    /// Key and value, for a program on `cpu`, of an element by its number; nothing if it has been removed.
    pub(crate) fn slot(&self, id: MapId, slot: u32, cpu: u32) -> Option<(GuestAddr, GuestAddr)> {
        match &self.get(id)?.store {
            Store::Hash(hash) if hash.is_used(slot) => {
                let copy = if hash.copies() > 1 { cpu } else { 0 };
                Some((hash.element(slot), hash.value(slot, copy)?))
            }
            _ => None,
        }
    }

    /// Whether programs can walk the elements of a map by index.
    pub(crate) fn is_indexed(&self, id: MapId) -> bool {
        self.get(id).is_some_and(|map| matches!(map.kind, MapType::ARRAY | MapType::PERCPU_ARRAY))
    }
}
