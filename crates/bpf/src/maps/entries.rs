//! What is in a map, for people who look at it from outside.

use super::{MapId, MapTable, Store};
use crate::memory::GuestAddr;

/// One value of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry<'a> {
    /// The key's bytes; the number of the owner (a task's slot) in a storage map, none in a queue.
    pub key: &'a [u8],
    /// The CPU whose value it is, in maps with one for each.
    pub cpu: Option<u32>,
    /// Where the value is.
    pub value: GuestAddr,
}

impl MapTable {
    /// Shows the values of a map in its order: arrays by index, hash maps as they were inserted, queues from the oldest, storage
    /// by owner. False for a map without values that can be read: ring buffers, arenas, maps of maps or programs.
    pub fn visit(&self, id: MapId, look: &mut dyn FnMut(MapEntry<'_>)) -> bool {
        let Some(map) = self.get(id) else { return false };
        match &map.store {
            Store::Array { .. } | Store::PercpuArray { .. } => {
                let copies = if matches!(map.store, Store::Array { .. }) { 1 } else { self.nr_cpus };
                for index in 0..map.max_entries {
                    for copy in 0..copies {
                        let Some(value) = map.element(index, copy, self.nr_cpus) else { continue };
                        look(MapEntry {
                            key: &index.to_le_bytes(),
                            cpu: (copies > 1).then_some(copy),
                            value,
                        });
                    }
                }
            }
            Store::Hash(hash) => {
                for slot in hash.slots() {
                    for copy in 0..hash.copies() {
                        let Some(value) = hash.value(slot, copy) else { continue };
                        let cpu = (hash.copies() > 1).then_some(copy);
                        look(MapEntry { key: hash.key(slot), cpu, value });
                    }
                }
            }
            Store::Queue { base, stride, head, len, .. } => {
                for number in 0..u64::from(*len) {
                    debug_assert!(
                        *len <= map.max_entries && *head < map.max_entries,
                        "the queue's place is in it"
                    );
                    let place = (u64::from(*head) + number) % u64::from(map.max_entries.max(1));
                    look(MapEntry { key: &[], cpu: None, value: base.offset(place * stride) });
                }
            }
            Store::Storage(storage) => {
                for (owner, value) in storage.owned() {
                    look(MapEntry { key: &owner.to_le_bytes(), cpu: None, value });
                }
            }
            _ => return false,
        }
        true
    }

    /// The key behind this one in the order of [`MapTable::visit`], the first one behind none and behind one that is not there.
    /// Maps of keys and arrays find it at once.
    #[must_use]
    pub fn key_after(&self, id: MapId, key: Option<&[u8]>) -> Option<Vec<u8>> {
        let map = self.get(id)?;
        match &map.store {
            Store::Array { .. } | Store::PercpuArray { .. } => {
                let index = key.and_then(|key| Some(u32::from_le_bytes(key.try_into().ok()?)));
                let next = index.filter(|index| *index < map.max_entries).map_or(0, |index| index + 1);
                (next < map.max_entries).then(|| next.to_le_bytes().to_vec())
            }
            Store::Hash(hash) => {
                let slot = hash.after(key.and_then(|key| hash.find(key)))?;
                Some(hash.key(slot).to_vec())
            }
            _ => {
                let mut keys = Vec::new();
                self.visit(id, &mut |entry| keys.push(entry.key.to_vec()));
                let at = key.and_then(|key| keys.iter().position(|found| found == key));
                keys.into_iter().nth(at.map_or(0, |at| at + 1))
            }
        }
    }
}
