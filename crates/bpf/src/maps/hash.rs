//! Hash maps: open addressing over element numbers, elements in guest memory, order of insertion in a linked list.

use super::{EXIST, Errno, NOEXIST};
use crate::memory::{GuestAddr, Memory};

/// No element.
const NONE: u32 = u32::MAX;
/// Bytes that the host keeps for an element besides its key: hash, links, a share of the table, which is between a
/// quarter and half full and is copied when it grows, and a place among the free.
const HOST_BYTES: u64 = 4 + size_of::<Link>() as u64 + 24 + 4;
/// Elements per piece of guest memory at first; pieces double, so addresses never move and small maps stay small.
const FIRST_CHUNK: u32 = 64;

/// Keys and values of one map.
#[derive(Debug, Clone)]
pub(super) struct HashStore {
    /// Number of the map.
    owner: u32,
    key_size: usize,
    value_stride: u64,
    value_offset: u64,
    /// Values per element: 1, or one per CPU.
    copies: u32,
    max_entries: u32,
    lru: bool,
    /// Open addressing with linear probing: element numbers, `NONE` where free. A power of two.
    table: Vec<u32>,
    /// Per element.
    keys: Vec<u8>,
    hashes: Vec<u32>,
    links: Vec<Link>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    len: u32,
    /// Guest memory of elements: piece `n` holds `FIRST_CHUNK << n` of them.
    chunks: Vec<GuestAddr>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
    used: bool,
}

impl HashStore {
    /// An empty map number `owner` with keys and values of these `sizes`.
    pub(super) fn new(
        owner: u32,
        (key_size, value_size): (u32, u32),
        copies: u32,
        max_entries: u32,
        lru: bool,
    ) -> HashStore {
        debug_assert!(copies > 0 && max_entries > 0, "a map has room for an element of each CPU");
        HashStore {
            owner,
            key_size: key_size as usize,
            value_stride: u64::from(value_size).next_multiple_of(8),
            value_offset: u64::from(key_size).next_multiple_of(8),
            copies,
            max_entries,
            lru,
            table: vec![NONE; 16],
            keys: Vec::new(),
            hashes: Vec::new(),
            links: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            len: 0,
            chunks: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn copies(&self) -> u32 {
        self.copies
    }

    fn element_bytes(&self) -> u64 {
        self.value_offset + self.value_stride * u64::from(self.copies)
    }

    /// Piece and place in it of an element.
    fn chunk_of(slot: u32) -> (usize, u32) {
        let chunk = (slot / FIRST_CHUNK + 1).ilog2();
        (chunk as usize, slot - FIRST_CHUNK * ((1 << chunk) - 1))
    }

    pub(super) fn element(&self, slot: u32) -> GuestAddr {
        debug_assert!((slot as usize) < self.links.len(), "the element was made");
        let (chunk, within) = Self::chunk_of(slot);
        self.chunks[chunk].offset(u64::from(within) * self.element_bytes())
    }

    /// Address of the value, for maps with one value per CPU that of `copy`.
    #[inline]
    pub(super) fn value(&self, slot: u32, copy: u32) -> Option<GuestAddr> {
        let at = self.value_offset + u64::from(copy) * self.value_stride;
        (copy < self.copies).then(|| self.element(slot).offset(at))
    }

    pub(super) fn key(&self, slot: u32) -> &[u8] {
        debug_assert!((slot as usize) < self.links.len(), "the element was made");
        let from = slot as usize * self.key_size;
        &self.keys[from..from + self.key_size]
    }

    /// The element with this key.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        if key.len() != self.key_size {
            return None;
        }
        let hash = hash_bytes(key);
        let mask = self.table.len() - 1;
        debug_assert!(self.table.len().is_power_of_two(), "the mask is one of bits");
        debug_assert!((self.len as usize) < self.table.len(), "a search ends at a free place");
        let mut at = hash as usize & mask;
        loop {
            let slot = self.table[at];
            if slot == NONE {
                return None;
            }
            if self.hashes[slot as usize] == hash && self.key(slot) == key {
                return Some(slot);
            }
            at = (at + 1) & mask;
        }
    }

    /// Marks an element as used now, for eviction.
    #[inline]
    pub(super) fn touch(&mut self, slot: u32) {
        if self.lru && self.newest != slot {
            self.unlink(slot);
            self.append(slot);
        }
    }

    /// Finds or creates the element for an update; says whether it is new. A new one is zero.
    pub(super) fn claim(&mut self, key: &[u8], flags: u64, mem: &mut Memory) -> Result<(u32, bool), Errno> {
        if key.len() != self.key_size {
            return Err(Errno::EINVAL);
        }
        if let Some(slot) = self.find(key) {
            if flags == NOEXIST {
                return Err(Errno::EEXIST);
            }
            self.touch(slot);
            return Ok((slot, false));
        }
        if flags == EXIST {
            return Err(Errno::ENOENT);
        }
        if self.len >= self.max_entries {
            if !self.lru {
                return Err(Errno::E2BIG);
            }
            let victim = self.key(self.oldest).to_vec();
            self.remove(&victim, mem)?;
        }
        let slot = self.take_slot(mem)?;
        let from = slot as usize * self.key_size;
        self.keys[from..from + self.key_size].copy_from_slice(key);
        self.hashes[slot as usize] = hash_bytes(key);
        let element = self.element(slot);
        let bytes = mem.slice_mut(element, self.element_bytes()).map_err(|_| Errno::ENOMEM)?;
        bytes.fill(0);
        bytes[..key.len()].copy_from_slice(key);
        debug_assert!(self.len < self.max_entries, "a full map takes no element");
        debug_assert!(!self.is_used(slot), "a new element was free");
        self.append(slot);
        self.len += 1;
        self.insert_in_table(slot);
        Ok((slot, true))
    }

    fn take_slot(&mut self, mem: &mut Memory) -> Result<u32, Errno> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        let slot = self.links.len() as u32;
        debug_assert!(self.hashes.len() == self.links.len(), "each element has a hash and a link");
        let (chunk, _) = Self::chunk_of(slot);
        if chunk == self.chunks.len() {
            let (first, more) = (u64::from(slot), u64::from(FIRST_CHUNK) << chunk);
            // The last piece has room for as many as there can be, no more.
            let elements = more.min(u64::from(self.max_entries).saturating_sub(first).max(1));
            let host = elements * (HOST_BYTES + self.key_size as u64);
            mem.take(host).map_err(|_| Errno::ENOMEM)?;
            let mapped = mem.map_values(self.element_bytes().saturating_mul(elements), self.owner);
            self.chunks.push(mapped.map_err(|_| {
                mem.give_back(host);
                Errno::ENOMEM
            })?);
        }
        self.links.push(Link { older: NONE, newer: NONE, used: false });
        self.hashes.push(0);
        self.keys.resize(self.keys.len() + self.key_size, 0);
        Ok(slot)
    }

    /// Puts an element into the table, which grows to stay at most half full.
    fn insert_in_table(&mut self, slot: u32) {
        if (self.len as usize) * 2 > self.table.len() {
            self.table = vec![NONE; self.table.len() * 2];
            let mut at = self.oldest;
            while at != NONE {
                self.probe_in(at);
                at = self.links[at as usize].newer;
            }
            return;
        }
        self.probe_in(slot);
    }

    fn probe_in(&mut self, slot: u32) {
        let mask = self.table.len() - 1;
        debug_assert!((self.len as usize) * 2 <= self.table.len(), "the table is at most half full");
        let mut at = self.hashes[slot as usize] as usize & mask;
        while self.table[at] != NONE {
            at = (at + 1) & mask;
        }
        self.table[at] = slot;
    }

    /// Removes an element; its memory is reused by the next new one, as in a preallocated kernel map.
    pub(super) fn remove(&mut self, key: &[u8], _mem: &mut Memory) -> Result<(), Errno> {
        let slot =
            self.find(key).ok_or(if key.len() == self.key_size { Errno::ENOENT } else { Errno::EINVAL })?;
        let mask = self.table.len() - 1;
        let mut hole = self.hashes[slot as usize] as usize & mask;
        while self.table[hole] != slot {
            hole = (hole + 1) & mask;
        }
        // Close the gap: move back every later element of the run that may stand there.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let next = self.table[at];
            if next == NONE {
                break;
            }
            let home = self.hashes[next as usize] as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.table[hole] = next;
                hole = at;
            }
        }
        self.table[hole] = NONE;
        self.unlink(slot);
        debug_assert!(self.len > 0, "an element that is found is counted");
        self.free.push(slot);
        self.len -= 1;
        Ok(())
    }

    fn append(&mut self, slot: u32) {
        debug_assert!(!self.links[slot as usize].used, "an element is listed once");
        self.links[slot as usize] = Link { older: self.newest, newer: NONE, used: true };
        match self.newest {
            NONE => self.oldest = slot,
            last => self.links[last as usize].newer = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        debug_assert!(self.links[slot as usize].used, "an element that leaves the list is on it");
        let Link { older, newer, .. } = self.links[slot as usize];
        match older {
            NONE => self.oldest = newer,
            o => self.links[o as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            n => self.links[n as usize].older = older,
        }
        self.links[slot as usize].used = false;
    }

    /// Elements in order of insertion (of last use in an LRU map).
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        let next = |slot: &u32| Some(self.links[*slot as usize].newer).filter(|&n| n != NONE);
        std::iter::successors(Some(self.oldest).filter(|&s| s != NONE), next)
    }

    /// The element behind this one in that order, the first one behind none.
    pub(super) fn after(&self, slot: Option<u32>) -> Option<u32> {
        let next = slot.map_or(self.oldest, |slot| self.links[slot as usize].newer);
        (next != NONE).then_some(next)
    }

    /// Whether an element is in the map.
    pub(super) fn is_used(&self, slot: u32) -> bool {
        self.links.get(slot as usize).is_some_and(|link| link.used)
    }

    /// The element that holds this address in a value, in the piece of memory that begins at `chunk`: (value's address,
    /// key's address).
    pub(super) fn owner_of(&self, addr: u64, chunk: u64) -> Option<(GuestAddr, GuestAddr)> {
        let number = self.chunks.iter().position(|start| start.0 == chunk)?;
        let distance = addr.checked_sub(chunk)?;
        let slot = FIRST_CHUNK * ((1 << number) - 1) + u32::try_from(distance / self.element_bytes()).ok()?;
        let within = (distance % self.element_bytes()).checked_sub(self.value_offset)?;
        let element = GuestAddr(addr - distance % self.element_bytes());
        debug_assert!(element.0 >= chunk, "an element lies in its chunk");
        let value = element.offset(self.value_offset + within / self.value_stride * self.value_stride);
        self.is_used(slot).then_some((value, element))
    }
}

/// A multiplicative hash over 8-byte words (constant: 2^64 divided by the golden ratio), high bits folded down.
#[inline]
fn hash_bytes(key: &[u8]) -> u32 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = key.as_chunks::<8>();
    let mut hash = key.len() as u64;
    for word in words {
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(GOLDEN);
    }
    let mut tail = 0u64;
    for (shift, byte) in rest.iter().enumerate() {
        tail |= u64::from(*byte) << (8 * shift);
    }
    hash = (hash.rotate_left(23) ^ tail).wrapping_mul(GOLDEN);
    (hash ^ hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn pieces_of_memory_number_elements_without_gaps() {
        assert_eq!(HashStore::chunk_of(0), (0, 0));
        assert_eq!(HashStore::chunk_of(63), (0, 63));
        assert_eq!(HashStore::chunk_of(64), (1, 0));
        assert_eq!(HashStore::chunk_of(191), (1, 127));
        assert_eq!(HashStore::chunk_of(192), (2, 0));
    }

    #[test]
    fn random_operations_agree_with_an_ordered_map() {
        let mut mem = Memory::new().expect("memory");
        let mut hash = HashStore::new(0, (4, 8), 1, 300, false);
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        let mut state = 12345u64;
        for step in 0..20_000u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = ((state >> 33) % 500) as u32;
            let bytes = key.to_le_bytes();
            if state >> 60 < 9 {
                match hash.claim(&bytes, 0, &mut mem) {
                    Ok((slot, _)) => {
                        mem.write_u32(hash.value(slot, 0).expect("value"), step).expect("mapped");
                        model.insert(key, step);
                    }
                    Err(e) => {
                        assert_eq!(e, Errno::E2BIG);
                        assert_eq!(model.len(), 300);
                    }
                }
            } else {
                assert_eq!(hash.remove(&bytes, &mut mem).is_ok(), model.remove(&key).is_some());
            }
            let walked = std::iter::successors(hash.after(None), |slot| hash.after(Some(*slot)));
            assert!(step % 1000 != 0 || walked.eq(hash.slots()));
            let found =
                hash.find(&bytes).map(|s| mem.read_u32(hash.value(s, 0).expect("value")).expect("mapped"));
            assert_eq!(found, model.get(&key).copied());
            assert_eq!(hash.len() as usize, model.len());
        }
        assert_eq!(hash.slots().count(), model.len());
    }

    #[test]
    fn a_full_lru_map_evicts_what_was_used_least_recently() {
        let mut mem = Memory::new().expect("memory");
        let mut hash = HashStore::new(0, (4, 4), 1, 2, true);
        let key = |k: u32| k.to_le_bytes();
        hash.claim(&key(1), 0, &mut mem).expect("room");
        hash.claim(&key(2), 0, &mut mem).expect("room");
        let one = hash.find(&key(1)).expect("there");
        hash.touch(one);
        hash.claim(&key(3), 0, &mut mem).expect("evicts");
        assert!(hash.find(&key(2)).is_none());
        assert!(hash.find(&key(1)).is_some() && hash.find(&key(3)).is_some());
    }
}
