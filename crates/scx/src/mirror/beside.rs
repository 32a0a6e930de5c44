//! What tasks point at: address spaces and their files.

use super::kernel_perm;
use crate::kernel_model::Offsets;
use schedlab_base::{MAX_TASKS, ROOM_FOR_TASKS};
use schedlab_bpf::{GuestAddr, Memory, MemoryError};
use schedlab_workload::ProcessId;
use std::collections::BTreeMap;

/// Bytes from one address space object to the next, and from its start to the process's `files_struct`.
const MM_STRIDE: u64 = 128;
pub(super) const FILES: u64 = 64;

/// Address spaces: one object for each process that lives.
#[derive(Clone, Debug)]
pub(super) struct Mms {
    base: GuestAddr,
    by_process: BTreeMap<ProcessId, (u32, u32)>,
    free: Vec<u32>,
    next: u32,
}

impl Mms {
    /// Room for as many as there can be tasks.
    pub(super) fn new(mem: &mut Memory, offsets: &Offsets) -> Result<Mms, MemoryError> {
        assert!(offsets.mm_size <= FILES, "an mm_struct fits its place");
        assert!(FILES + offsets.files.files_size <= MM_STRIDE, "a files_struct fits its place");
        let [all, room] = [MAX_TASKS, ROOM_FOR_TASKS].map(|tasks| MM_STRIDE * u64::from(tasks));
        let base = mem.map_first(all, room, kernel_perm())?;
        Ok(Mms { base, by_process: BTreeMap::new(), free: Vec::new(), next: 0 })
    }

    /// Where they begin, and how many bytes were ever filled.
    pub(super) fn filled(&self) -> (GuestAddr, u64) {
        (self.base, MM_STRIDE * u64::from(self.next))
    }

    /// The object of a process that has one more task.
    pub(super) fn acquire(&mut self, process: ProcessId) -> GuestAddr {
        let slot = match self.by_process.get_mut(&process) {
            Some((slot, users)) => {
                *users += 1;
                *slot
            }
            None => {
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.next += 1;
                    self.next - 1
                });
                self.by_process.insert(process, (slot, 1));
                slot
            }
        };
        self.base.offset(u64::from(slot) * MM_STRIDE)
    }

    /// The process has one task less.
    pub(super) fn release(&mut self, process: ProcessId) {
        if let Some((slot, users)) = self.by_process.get_mut(&process) {
            *users -= 1;
            if *users == 0 {
                self.free.push(*slot);
                self.by_process.remove(&process);
            }
        }
    }
}
