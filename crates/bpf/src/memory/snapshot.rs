//! Guest memory as it was at one moment, to go back to: for whoever runs one loaded object many times.

use super::{ARENA_BASE, GuestAddr, Memory, PAGE_SHIFT, PAGE_SIZE, Perm, Region, STACK_BASE, STACK_SIZE};
use std::collections::BTreeMap;

/// A page that nobody has written.
static NOTHING: [u8; PAGE_SIZE as usize] = [0; PAGE_SIZE as usize];

/// What [`Memory::snapshot`] keeps: the pages that hold anything, and which pages are mapped.
#[derive(Debug, Clone)]
pub struct Snapshot {
    bump: u64,
    used: u64,
    regions: BTreeMap<u64, Region>,
    free: BTreeMap<u64, Vec<u64>>,
    /// Mapped pages: first address, bytes, permission.
    mapped: Vec<(u64, u64, Perm)>,
    /// Pages that are not all zero.
    pages: Vec<(u64, Box<[u8]>)>,
}

impl Memory {
    /// Copies what is there. Of regions that are filled from their start, `filled` says how far, in bytes; behind that they are not
    /// looked at. From now on the host backs the memory with small pages: what is given back at each [`Memory::restore`] and
    /// touched again would otherwise be zeroed by 2 MiB.
    #[must_use]
    pub fn snapshot(&self, filled: &[(GuestAddr, u64)]) -> Snapshot {
        #[cfg(target_os = "linux")]
        let _ = self.map.mapping().advise(memmap2::Advice::NoHugePage);
        let mapped = self.mapped();
        let mut pages = Vec::new();
        for (start, len, _) in &mapped {
            let filled = filled.iter().find(|(region, _)| region.0 == *start);
            let end = filled.map_or(start + len, |(region, bytes)| region.0 + bytes);
            for page in (*start..end.min(start + len)).step_by(PAGE_SIZE as usize) {
                let at = self.room.place(page);
                let bytes = &self.guest()[at..at + PAGE_SIZE as usize];
                if *bytes != NOTHING {
                    pages.push((page, bytes.into()));
                }
            }
        }
        Snapshot {
            bump: self.bump,
            used: self.used,
            regions: self.regions.clone(),
            free: self.free.clone(),
            mapped,
            pages,
        }
    }

    /// Goes back to the snapshot of this memory: the same pages, with the same content and permission, and no line of them that
    /// any CPU lacks.
    ///
    /// # Panics
    /// If a program runs in it.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        assert_eq!(self.frames_used, 0, "no program runs");
        for (start, end) in self.extents() {
            self.zero_pages(start, end);
            let kept = snapshot.mapped.iter().find(|(first, len, _)| (*first, first + len) == (start, end));
            if !kept.is_some_and(|run| self.has(*run)) {
                self.set_perms(start, end - start, Perm::NONE);
            }
        }
        self.forget_all_lines();
        for run in &snapshot.mapped {
            let (start, len, perm) = *run;
            if !self.has(*run) {
                self.set_perms(start, len, perm);
            }
        }
        for (page, bytes) in &snapshot.pages {
            self.write(GuestAddr(*page), bytes).expect("mapped just now");
        }
        (self.bump, self.used) = (snapshot.bump, snapshot.used);
        self.regions.clone_from(&snapshot.regions);
        self.free.clone_from(&snapshot.free);
    }

    /// Whether all pages of a run have its permission. Large tables keep theirs, and looking takes less than setting.
    fn has(&self, (start, len, perm): (u64, u64, Perm)) -> bool {
        let pages = &self.perms()[(start >> PAGE_SHIFT) as usize..((start + len) >> PAGE_SHIFT) as usize];
        let Some((last, others)) = pages.split_last() else { return true };
        let inside = perm.followed_by(perm.0);
        // In blocks, so that a block is compared with vectors.
        let same = |block: &[u8]| block.iter().fold(0, |other, page| other | (page ^ inside)) == 0;
        Perm::of_page(*last) == perm && others.chunks(1 << 10).all(same)
    }

    /// Where pages can be mapped now: the stack, the live regions, the arena. First address and end of each.
    pub(super) fn extents(&self) -> Vec<(u64, u64)> {
        let regions = self.regions.iter().map(|(start, region)| (*start, start + region.size));
        let arena = (ARENA_BASE, self.arena_end);
        [(STACK_BASE, STACK_BASE + STACK_SIZE), arena]
            .into_iter()
            .chain(regions)
            .filter(|(a, b)| a < b)
            .collect()
    }

    /// The mapped pages as runs of one permission.
    fn mapped(&self) -> Vec<(u64, u64, Perm)> {
        let mut runs: Vec<(u64, u64, Perm)> = Vec::new();
        for (start, end) in self.extents() {
            let pages = &self.perms()[(start >> PAGE_SHIFT) as usize..(end >> PAGE_SHIFT) as usize];
            for (page, perm) in (start >> PAGE_SHIFT..).zip(pages).filter(|(_, perm)| **perm != 0) {
                let (at, perm) = (page << PAGE_SHIFT, Perm::of_page(*perm));
                match runs.last_mut() {
                    Some((first, len, same)) if *first + *len == at && *same == perm => *len += PAGE_SIZE,
                    _ => runs.push((at, PAGE_SIZE, perm)),
                }
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of which a page and a bit are filled, and behind it one whose end was written.
    #[test]
    fn what_is_filled_from_its_start_is_kept_so_far() {
        let mut mem = Memory::new().unwrap();
        let table = mem.map(1 << 30, Perm::READ_WRITE).unwrap();
        let other = mem.map(3 * PAGE_SIZE, Perm::READ_WRITE).unwrap();
        mem.write_u64(table.offset(PAGE_SIZE), 5).unwrap();
        mem.write_u64(other.offset(3 * PAGE_SIZE - 8), 6).unwrap();
        let snapshot = mem.snapshot(&[(table, PAGE_SIZE + 8)]);
        assert_eq!(snapshot.pages.len(), 2);
        mem.write_u64(table.offset(1 << 29), 7).unwrap();
        mem.restore(&snapshot);
        assert_eq!(mem.read_u64(table.offset(PAGE_SIZE)).unwrap(), 5);
        assert_eq!(mem.read_u64(other.offset(3 * PAGE_SIZE - 8)).unwrap(), 6);
        assert_eq!(mem.read_u64(table.offset(1 << 29)).unwrap(), 0);
    }

    #[test]
    fn what_was_written_and_mapped_since_is_gone() {
        let mut mem = Memory::new().unwrap();
        let kept = mem.map(3 * PAGE_SIZE, Perm::READ_WRITE).unwrap();
        let large = mem.map(1 << 20, Perm::READ | Perm::KERNEL).unwrap();
        mem.write_u64(kept.offset(PAGE_SIZE), 7).unwrap();
        mem.write_u64(large.offset(1 << 19), 8).unwrap();
        let snapshot = mem.snapshot(&[]);
        mem.write_u64(kept, 1).unwrap();
        mem.write_u64(large.offset(8), 1).unwrap();
        mem.write_u64(large.offset(1 << 19), 1).unwrap();
        mem.unmap(kept, 3 * PAGE_SIZE);
        mem.protect(large, PAGE_SIZE, Perm::READ_WRITE);
        let later = mem.map(PAGE_SIZE, Perm::READ_WRITE).unwrap();
        mem.map_at(GuestAddr(ARENA_BASE), PAGE_SIZE, Perm::READ_WRITE).unwrap();
        mem.write_u64(GuestAddr(ARENA_BASE), 1).unwrap();
        mem.restore(&snapshot);
        assert_eq!(mem.read_u64(kept).unwrap(), 0);
        assert_eq!(mem.read_u64(kept.offset(PAGE_SIZE)).unwrap(), 7);
        assert_eq!(mem.read_u64(large.offset(8)).unwrap(), 0);
        assert_eq!(mem.read_u64(large.offset(1 << 19)).unwrap(), 8);
        assert_eq!(mem.perm_at(large), Perm::READ | Perm::KERNEL);
        assert!(mem.read_u64(later).is_err() && mem.read_u64(GuestAddr(ARENA_BASE)).is_err());
        assert_eq!(mem.map(PAGE_SIZE, Perm::READ_WRITE).unwrap(), later, "addresses repeat");
    }
}
