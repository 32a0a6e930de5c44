//! Ring buffers and queues: programs write, the host reads (or other programs, for queues; or the other way round, for user ring
//! buffers).

use super::{EXIST, Errno, MapId, MapTable, Store};
use crate::memory::{GuestAddr, Memory};
use crate::object::MapType;
use std::collections::VecDeque;

/// Bytes before each record in the kernel's ring (`BPF_RINGBUF_HDR_SZ`); they count against its size.
const HEADER: u64 = 8;

#[derive(Debug, Clone)]
pub(super) struct Ring {
    size: u64,
    /// Twice `size`, so that a record is never cut in two at the end.
    base: GuestAddr,
    produced: u64,
    consumed: u64,
    /// A program is shown the oldest record.
    draining: bool,
    records: VecDeque<Record>,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    at: GuestAddr,
    len: u64,
    end: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Busy,
    Ready,
    Discarded,
}

impl Ring {
    /// With `behind` bytes behind the data.
    pub(super) fn new(owner: u32, bytes: u32, behind: u64, mem: &mut Memory) -> Result<Ring, String> {
        if !bytes.is_power_of_two() || !bytes.is_multiple_of(4096) {
            return Err(format!(
                "a ring buffer of {bytes} bytes; it has to be a power of two of whole pages"
            ));
        }
        let size = u64::from(bytes);
        debug_assert!(bytes.is_power_of_two(), "the size was checked");
        // The smallest record takes two words of the ring, and the host keeps an entry for each.
        let entries = size / (2 * HEADER) * size_of::<Record>() as u64;
        mem.take(entries).map_err(|e| e.to_string())?;
        let base = mem.map_values(size * 2 + behind, owner).map_err(|e| e.to_string())?;
        Ok(Ring { size, base, produced: 0, consumed: 0, draining: false, records: VecDeque::new() })
    }

    fn reserve(&mut self, len: u64) -> Option<GuestAddr> {
        let total = len.max(1).checked_add(HEADER)?.checked_next_multiple_of(8)?;
        // The ring is never full to its last byte (`rb->mask`, __bpf_ringbuf_reserve(), kernel/bpf/ringbuf.c).
        if self.produced - self.consumed + total > self.size - 1 {
            return None;
        }
        debug_assert!(self.consumed <= self.produced, "what is read was written");
        debug_assert!(self.produced.is_multiple_of(8), "records begin at words");
        let at = self.base.offset(self.produced % self.size + HEADER);
        self.produced += total;
        self.records.push_back(Record { at, len, end: self.produced, state: State::Busy });
        Some(at)
    }

    /// The unread record that was reserved at an address. Records lie one after the other, so the address says how
    /// far behind the reader it begins.
    fn record_at(&mut self, at: GuestAddr) -> Option<&mut Record> {
        let place = at.0.checked_sub(self.base.0 + HEADER).filter(|place| *place < self.size)?;
        let behind = (place + self.size - self.consumed % self.size) % self.size;
        let begin = self.consumed + behind;
        debug_assert!(behind < self.size, "an unread record lies within a round");
        let index = self.records.partition_point(|record| record.end <= begin);
        self.records.get_mut(index).filter(|record| record.at == at)
    }
}

/// `struct bpf_dynptr` of a record that a program is shown, which stands behind the data of a user ring buffer: here the address of
/// the record and its length.
pub(super) const DYNPTR_BYTES: u64 = 16;

/// Where a dynptr points to: address and length.
pub(crate) type Extent = (GuestAddr, u64);

impl MapTable {
    /// Puts a record into a user ring buffer. False: there is no room.
    pub fn user_ring_put(&mut self, id: MapId, record: &[u8], mem: &mut Memory) -> bool {
        let Some(at) = self.ring_reserve(id, record.len() as u64, mem) else { return false };
        mem.write(at, record).is_ok() && self.ring_finish(at, false, mem).is_ok()
    }

    /// Begins to drain a user ring buffer, or ends that (`on`: false).
    ///
    /// # Errors
    /// `EBUSY` if it is drained already, `EINVAL` for other kinds of map.
    pub fn user_ring_drains(&mut self, id: MapId, on: bool) -> Result<(), Errno> {
        let is_user = self.get(id).is_some_and(|map| map.kind() == MapType::USER_RINGBUF);
        let ring = self.ring(id).filter(|_| is_user).ok_or(Errno::EINVAL)?;
        if ring.draining && on {
            return Err(Errno::EBUSY);
        }
        ring.draining = on;
        Ok(())
    }

    /// The oldest record of a user ring buffer as a program is shown it: the address of its dynptr.
    pub fn user_ring_show(&mut self, id: MapId, mem: &mut Memory) -> Option<GuestAddr> {
        let ring = self.ring(id)?;
        let record = *ring.records.front()?;
        debug_assert!(ring.consumed < record.end, "an unread record lies ahead");
        let dynptr = ring.base.offset(ring.size * 2);
        let bytes = [record.at.0.to_le_bytes(), record.len.to_le_bytes()].concat();
        mem.write(dynptr, &bytes).ok().map(|()| dynptr)
    }

    /// The program has seen the oldest record, which goes.
    pub fn user_ring_seen(&mut self, id: MapId) {
        if let Some(ring) = self.ring(id)
            && let Some(record) = ring.records.pop_front()
        {
            debug_assert!(
                ring.consumed < record.end && record.end <= ring.produced,
                "records are read in order"
            );
            ring.consumed = record.end;
        }
    }

    /// The record that the dynptr at this address shows. Nothing: there is no dynptr, or its program has seen it.
    pub(crate) fn dynptr(&mut self, at: GuestAddr, mem: &Memory) -> Option<Extent> {
        let (owner, _) = mem.owner(at.0)?;
        let ring = self.ring(MapId(owner)).filter(|ring| ring.draining)?;
        // Programs may write to it: what it shows is known here.
        let record = ring.records.front()?;
        debug_assert!(ring.consumed < record.end, "an unread record lies ahead");
        (at == ring.base.offset(ring.size * 2)).then_some((record.at, record.len))
    }

    fn ring(&mut self, id: MapId) -> Option<&mut Ring> {
        match &mut self.get_mut(id)?.store {
            Store::Ring(ring) => Some(ring),
            _ => None,
        }
    }

    /// Room for a record of `len` bytes in a ring buffer, zeroed; `None` if it is full.
    pub fn ring_reserve(&mut self, id: MapId, len: u64, mem: &mut Memory) -> Option<GuestAddr> {
        let at = self.ring(id)?.reserve(len)?;
        mem.slice_mut(at, len).ok()?.fill(0);
        Some(at)
    }

    /// Hands a reserved record (in whichever ring buffer it is) to the reader, or drops it.
    ///
    /// # Errors
    /// `EINVAL` if no record is reserved at this address.
    pub fn ring_finish(&mut self, at: GuestAddr, discard: bool, mem: &Memory) -> Result<(), Errno> {
        let (owner, _) = mem.owner(at.0).ok_or(Errno::EINVAL)?;
        let record = self.ring(MapId(owner)).and_then(|ring| ring.record_at(at));
        let record = record.filter(|record| record.state == State::Busy).ok_or(Errno::EINVAL)?;
        record.state = if discard { State::Discarded } else { State::Ready };
        Ok(())
    }

    /// Takes the finished records out of a ring buffer, oldest first, up to the first one still being written.
    pub fn ring_drain(&mut self, id: MapId, mem: &Memory) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let Some(ring) = self.ring(id) else {
            return out;
        };
        while let Some(record) = ring.records.front().copied().filter(|r| r.state != State::Busy) {
            if record.state == State::Ready
                && let Ok(bytes) = mem.slice(record.at, record.len)
            {
                out.push(bytes.to_vec());
            }
            debug_assert!(
                ring.consumed < record.end && record.end <= ring.produced,
                "records are read in order"
            );
            ring.consumed = record.end;
            ring.records.pop_front();
        }
        out
    }

    /// Takes the oldest finished record of a ring buffer out, if it `fits`.
    pub fn ring_next(&mut self, id: MapId, mem: &Memory, fits: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let ring = self.ring(id)?;
        while let Some(record) = ring.records.front().copied().filter(|r| r.state != State::Busy) {
            let bytes = mem.slice(record.at, record.len).ok().filter(|_| record.state == State::Ready);
            if bytes.is_some_and(|bytes| !fits(bytes)) {
                return None;
            }
            let bytes = bytes.map(<[u8]>::to_vec);
            debug_assert!(
                ring.consumed < record.end && record.end <= ring.produced,
                "records are read in order"
            );
            ring.consumed = record.end;
            ring.records.pop_front();
            if bytes.is_some() {
                return bytes;
            }
        }
        None
    }

    /// Unread bytes, size, reader's and writer's position of a ring buffer (`bpf_ringbuf_query`).
    pub fn ring_query(&mut self, id: MapId) -> Option<[u64; 4]> {
        let ring = self.ring(id)?;
        debug_assert!(ring.produced - ring.consumed <= ring.size, "a ring holds its size at most");
        Some([ring.produced - ring.consumed, ring.size, ring.consumed, ring.produced])
    }

    /// Appends to a queue or stack; with `EXIST` a full one loses its oldest element.
    ///
    /// # Errors
    /// `E2BIG` if full, `EINVAL` for other flags or kinds of map.
    pub fn push(&mut self, id: MapId, value: &[u8], flags: u64, mem: &mut Memory) -> Result<(), Errno> {
        let map = self.get_mut(id).ok_or(Errno::EINVAL)?;
        let Store::Queue { base, stride, head, len, .. } = &mut map.store else {
            return Err(Errno::EINVAL);
        };
        if flags & !EXIST != 0 || value.len() != map.value_size as usize {
            return Err(Errno::EINVAL);
        }
        if *len == map.max_entries {
            if flags != EXIST {
                return Err(Errno::E2BIG);
            }
            *head = (*head + 1) % map.max_entries;
            *len -= 1;
        }
        let index = (u64::from(*head) + u64::from(*len)) % u64::from(map.max_entries);
        debug_assert!(*len < map.max_entries, "a full queue takes no element");
        mem.write(base.offset(index * *stride), value).map_err(|_| Errno::EFAULT)?;
        *len += 1;
        Ok(())
    }

    /// The next element of a queue (oldest) or stack (newest), removed if `take`.
    ///
    /// # Errors
    /// `ENOENT` if empty, `EINVAL` for other kinds of map.
    pub fn pop(&mut self, id: MapId, take: bool, mem: &Memory) -> Result<Vec<u8>, Errno> {
        let map = self.get_mut(id).ok_or(Errno::EINVAL)?;
        let Store::Queue { base, stride, head, len, lifo } = &mut map.store else {
            return Err(Errno::EINVAL);
        };
        if *len == 0 {
            return Err(Errno::ENOENT);
        }
        debug_assert!(*len <= map.max_entries && *head < map.max_entries, "the queue's place is in it");
        let entries = map.max_entries;
        let index = if *lifo {
            (u64::from(*head) + u64::from(*len) - 1) % u64::from(entries)
        } else {
            u64::from(*head)
        };
        let bytes =
            mem.slice(base.offset(index * *stride), u64::from(map.value_size)).map_err(|_| Errno::EFAULT)?;
        let out = bytes.to_vec();
        if take {
            *len -= 1;
            if !*lifo {
                *head = (*head + 1) % entries;
            }
        }
        Ok(out)
    }
}
