//! Memory that the loader has mapped and the simulated programs use: kept the same on both sides.
//!
//! Loader and programs never run at the same time, so a copy at each change of sides is enough.

use crate::bpf::{Map, kind, written};
use crate::loader::{Failure, Loader};
use schedlab_bpf::maps::MapId;
use schedlab_scx::UserCalls;
use std::os::unix::fs::FileExt;

const PAGE: u64 = 4096;

/// Bytes of the arena that a loader may have written. Chosen: twice what guest memory has by default.
const MOST_ARENA: u64 = 1 << 30;

/// Bytes before each record of a ring buffer: its length and the page it lies in.
const HEADER: u64 = 8;

impl Loader {
    /// Joins the loader's maps to the linked ones, with what they hold.
    pub(crate) fn link(&mut self, kernel: &mut UserCalls<'_>) -> Result<(), Failure> {
        for (number, name) in self.named_maps() {
            let Some(id) = kernel.find_map(&name) else { continue };
            let Some(map) = self.bpf.map_mut(number) else { continue };
            map.linked = Some(id);
        }
        let numbers: Vec<usize> =
            self.bpf.maps().filter(|(_, map)| map.linked.is_some()).map(|(n, _)| n).collect();
        for number in numbers {
            let Some(map) = self.bpf.map_mut(number) else { continue };
            let (name, entries) = (map.name.clone(), std::mem::take(&mut map.entries));
            let Some(id) = map.linked else { continue };
            let of_maps = matches!(map.kind, kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS);
            for (key, value) in entries {
                let done = match of_maps {
                    true => self.put_inner(id, &key, &value, kernel),
                    false => kernel.update(id, &key, &value, 0).map_err(|errno| errno.0),
                };
                done.map_err(|errno| {
                    self.failure(&format!("filled map {name}, which does not take it (errno {errno})"))
                })?;
            }
        }
        self.share_to(kernel);
        Ok(())
    }

    fn put_inner(
        &mut self,
        outer: MapId,
        key: &[u8],
        value: &[u8],
        kernel: &mut UserCalls<'_>,
    ) -> Result<(), i32> {
        let number = u32::from_le_bytes(value.try_into().map_err(|_| libc::EINVAL)?) as usize;
        let inner = self.bpf.inner(number, kernel)?;
        kernel.set_inner(outer, key, inner).map_err(|errno| errno.0)
    }

    /// What the loader wrote becomes what programs read. One that has written too much of its arena is ended.
    pub(crate) fn share_to(&mut self, kernel: &mut UserCalls<'_>) {
        if self.bpf.maps().any(|(_, map)| map.kind == kind::ARENA && map.bytes_taken() > MOST_ARENA) {
            self.refused.note(&format!("more than {} MiB of its arena", MOST_ARENA >> 20));
            return self.end();
        }
        for (_, map) in self.bpf.maps().filter(|(_, map)| !map.frozen) {
            let (Some(id), Some(memory)) = (map.linked, &map.memory) else { continue };
            match map.kind {
                kind::ARENA => {
                    for (at, bytes) in written(memory) {
                        kernel.write_arena(at, &bytes);
                    }
                }
                kind::ARRAY => {
                    let Some((addr, len)) = kernel.row(id) else { continue };
                    let mut bytes = vec![0; len as usize];
                    if memory.read_at(&mut bytes, 0).is_ok() {
                        kernel.write(addr, &bytes);
                    }
                }
                _ => {}
            }
        }
    }

    /// The other way, with the records that programs put into ring buffers.
    pub(crate) fn share_from(&mut self, kernel: &mut UserCalls<'_>) {
        for (_, map) in self.bpf.maps().filter(|(_, map)| !map.frozen) {
            let (Some(id), Some(memory)) = (map.linked, &map.memory) else { continue };
            // A file in memory takes what fits into it.
            match map.kind {
                kind::ARENA => {
                    for (at, bytes) in kernel.arena() {
                        let _ = memory.write_all_at(bytes, at);
                    }
                }
                kind::ARRAY => {
                    let Some((addr, len)) = kernel.row(id) else { continue };
                    if let Some(bytes) = kernel.read(addr, len) {
                        let _ = memory.write_all_at(bytes, 0);
                    }
                }
                kind::RINGBUF => deliver(map, id, kernel),
                _ => {}
            }
        }
    }
}

/// Positions of reader and writer of a mapped ring buffer.
fn positions(map: &Map) -> Option<(u64, u64)> {
    let memory = map.memory.as_ref().filter(|_| map.kind == kind::RINGBUF)?;
    let position = |at: u64| {
        let mut word = [0; 8];
        memory.read_exact_at(&mut word, at).ok().map(|()| u64::from_le_bytes(word))
    };
    Some((position(0)?, position(PAGE)?))
}

/// True for a ring buffer with something to read.
pub(crate) fn has_records(map: &Map) -> bool {
    positions(map).is_some_and(|(read, written)| read != written)
}

/// Puts the records of a simulated ring buffer into the mapped one, as far as there is room.
fn deliver(map: &Map, id: MapId, kernel: &mut UserCalls<'_>) {
    let (Some((read, mut end)), Some(memory)) = (positions(map), &map.memory) else { return };
    let size = u64::from(map.max_entries);
    let bytes = |record: &[u8]| (HEADER + record.len() as u64).next_multiple_of(8);
    // Both positions lie in memory that the loader writes.
    let fits = |end: u64, record: &[u8]| end.wrapping_sub(read).saturating_add(bytes(record)) <= size;
    while let Some(record) = kernel.next_record(id, |record| fits(end, record)) {
        let place = end % size;
        let mut out = (record.len() as u32).to_le_bytes().to_vec();
        out.extend_from_slice(&((place / PAGE) as u32).to_le_bytes());
        out.extend_from_slice(&record);
        // The data lie there twice, one behind the other, so that no record is cut in two.
        for copy in [place, place + size] {
            let fits = out.len().min((2 * size - copy) as usize);
            let _ = memory.write_all_at(&out[..fits], 2 * PAGE + copy);
        }
        if place + out.len() as u64 > size {
            let _ = memory.write_all_at(&out[(size - place) as usize..], 2 * PAGE);
        }
        end = end.wrapping_add(bytes(&record));
    }
    let _ = memory.write_all_at(&end.to_le_bytes(), PAGE);
}
