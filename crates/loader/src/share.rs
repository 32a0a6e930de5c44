//! Memory that the loader has mapped and the simulated programs use: kept the same on both sides.
//!
//! Loader and programs never run at the same time, so a copy at each change of sides is enough.

use crate::bpf::{fill, kind, parts};
use crate::loader::Loader;
use crate::rings::{collect, deliver};
use crate::terms::Failure;
use schedlab_bpf::GuestAddr;
use schedlab_bpf::maps::MapId;
use schedlab_scx::UserCalls;
use std::os::unix::fs::FileExt;

/// Bytes of the arena that a loader may have written. Chosen: twice what guest memory has by default.
const MOST_ARENA: u64 = 1 << 30;

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
                    for part in parts(memory) {
                        let mut bytes = vec![0; (part.end - part.start) as usize];
                        if memory.read_exact_at(&mut bytes, part.start).is_ok() {
                            kernel.write_arena(part.start, &bytes);
                        }
                    }
                }
                kind::ARRAY => {
                    let Some((addr, len)) = kernel.row(id) else { continue };
                    for part in parts(memory) {
                        let size = len.min(part.end).saturating_sub(part.start);
                        if let Some(bytes) = kernel.bytes_mut(GuestAddr(addr.0 + part.start), size) {
                            // Nobody makes the file shorter.
                            let _ = memory.read_exact_at(bytes, part.start);
                        }
                    }
                }
                kind::USER_RINGBUF => collect(map, id, kernel),
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
                        let _ = fill(memory, bytes, 0);
                    }
                }
                kind::RINGBUF => deliver(map, id, kernel),
                _ => {}
            }
        }
    }
}
