//! Ring buffers as the loader has them mapped: the reader's page, the writer's, and the data twice.

use crate::bpf::{Map, kind};
use schedlab_bpf::maps::MapId;
use schedlab_scx::UserCalls;
use std::fs::File;
use std::os::unix::fs::FileExt;

const PAGE: u64 = 4096;

/// Bytes before each record: its length and the page it lies in.
const HEADER: u64 = 8;
/// Flags of a length: the record is still being written (`BPF_RINGBUF_BUSY_BIT`), or is none (`BPF_RINGBUF_DISCARD_BIT`).
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// Positions of reader and writer of a mapped ring buffer.
fn positions(map: &Map) -> Option<(u64, u64)> {
    let is_ring = matches!(map.kind, kind::RINGBUF | kind::USER_RINGBUF);
    let memory = map.memory.as_ref().filter(|_| is_ring)?;
    Some((word(memory, 0)?, word(memory, PAGE)?))
}

fn word(memory: &File, at: u64) -> Option<u64> {
    let mut word = [0; 8];
    memory.read_exact_at(&mut word, at).ok().map(|()| u64::from_le_bytes(word))
}

/// True for a ring buffer with something to read.
pub(crate) fn has_records(map: &Map) -> bool {
    map.kind == kind::RINGBUF && positions(map).is_some_and(|(read, written)| read != written)
}

/// Puts the records of a simulated ring buffer into the mapped one, as far as there is room.
pub(crate) fn deliver(map: &Map, id: MapId, kernel: &mut UserCalls<'_>) {
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

/// Puts the records that the loader has written into the simulated ring buffer, as far as there is room.
pub(crate) fn collect(map: &Map, id: MapId, kernel: &mut UserCalls<'_>) {
    let (Some((mut read, end)), Some(memory)) = (positions(map), &map.memory) else { return };
    let size = u64::from(map.max_entries);
    // Both positions and all lengths lie in memory that the loader writes: what does not fit together ends it.
    while end.wrapping_sub(read).wrapping_sub(HEADER) < size {
        let place = read % size;
        let Some(header) = word(memory, 2 * PAGE + place) else { break };
        let flags = header as u32;
        let len = u64::from(flags & !(BUSY | DISCARDED));
        let bytes = (HEADER + len).next_multiple_of(8);
        if flags & BUSY != 0 || bytes > end.wrapping_sub(read) || bytes > size {
            break;
        }
        let mut record = vec![0; len as usize];
        let found = memory.read_exact_at(&mut record, 2 * PAGE + place + HEADER).is_ok();
        if flags & DISCARDED == 0 && !(found && kernel.put_record(id, &record)) {
            break;
        }
        read = read.wrapping_add(bytes);
    }
    let _ = memory.write_all_at(&read.to_le_bytes(), 0);
}
