//! The arena: pages that programs allocate in window 1 of guest memory, lowest address first.

use crate::memory::{ARENA_BASE, GuestAddr, Memory, PAGE_SIZE, Perm};
use std::collections::BTreeMap;

/// Pages of one arena.
///
/// Page 0 is given out only by explicit address, so that no automatic allocation has 0 in its low half and looks
/// like NULL to code that works on offsets.
#[derive(Debug, Clone)]
pub struct Arena {
    pages: u32,
    /// Free runs: first page to number of pages; never adjacent.
    free: BTreeMap<u32, u32>,
}

impl Arena {
    /// An arena of `pages` pages, at most 4 GiB.
    pub(super) fn new(pages: u32, second: bool) -> Result<Arena, String> {
        if second {
            return Err("an object can have one arena only".into());
        }
        if pages == 0 || u64::from(pages) * PAGE_SIZE > 1 << 32 {
            return Err(format!("an arena of {pages} pages; 1 to 1048576 are possible"));
        }
        Ok(Arena { pages, free: BTreeMap::from([(0, pages)]) })
    }

    /// Size in pages.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Runs of allocated pages: the first page and the number of pages of each.
    pub fn taken(&self) -> Vec<(u32, u32)> {
        let mut taken = Vec::new();
        let mut from = 0;
        for (&start, &len) in &self.free {
            debug_assert!(start >= from, "free runs are in order and apart");
            if start > from {
                taken.push((from, start - from));
            }
            from = start + len;
        }
        if from < self.pages {
            taken.push((from, self.pages - from));
        }
        taken
    }

    /// Runs of free pages, which an allocation may have to look at.
    pub(crate) fn runs(&self) -> usize {
        self.free.len()
    }

    /// Pages not allocated.
    pub fn free_pages(&self) -> u32 {
        self.free.values().sum()
    }

    /// Allocates `count` zeroed pages, at `at` if given (its low half counts); `None` if they are not free.
    pub fn alloc(&mut self, at: Option<u64>, count: u32, mem: &mut Memory) -> Option<GuestAddr> {
        if count == 0 || count > self.pages {
            return None;
        }
        let first = match at {
            Some(addr) => {
                let offset = addr & 0xffff_ffff;
                (offset % PAGE_SIZE == 0).then_some((offset / PAGE_SIZE) as u32)?
            }
            None => self.free.iter().find_map(|(&start, &len)| {
                let start_at = start.max(1);
                (len >= count + (start_at - start)).then_some(start_at)
            })?,
        };
        let bytes = u64::from(count) * PAGE_SIZE;
        self.take(first, count)?;
        debug_assert!(
            u64::from(first) + u64::from(count) <= u64::from(self.pages),
            "the pages are those of the arena"
        );
        let addr = GuestAddr(ARENA_BASE + u64::from(first) * PAGE_SIZE);
        if mem.take(bytes).is_err() || mem.map_at(addr, bytes, Perm::READ_WRITE).is_err() {
            self.give(first, count);
            return None;
        }
        Some(addr)
    }

    /// Marks a run as allocated if it is free.
    fn take(&mut self, first: u32, count: u32) -> Option<()> {
        let (&start, &len) = self.free.range(..=first).next_back()?;
        let end = first.checked_add(count)?;
        debug_assert!(len > 0 && start + len <= self.pages, "a free run has pages, all of the arena");
        if end > start + len {
            return None;
        }
        self.free.remove(&start);
        if first > start {
            self.free.insert(start, first - start);
        }
        if end < start + len {
            self.free.insert(end, start + len - end);
        }
        Some(())
    }

    /// Frees pages; parts that are not allocated or not in the arena are passed over, as in the kernel.
    pub fn release(&mut self, addr: u64, count: u32, mem: &mut Memory) {
        let first = ((addr & 0xffff_ffff) / PAGE_SIZE) as u32;
        let end = first.saturating_add(count).min(self.pages);
        for page in first..end {
            if self.is_free(page) {
                continue;
            }
            mem.unmap(GuestAddr(ARENA_BASE + u64::from(page) * PAGE_SIZE), PAGE_SIZE);
            mem.give_back(PAGE_SIZE);
            self.give(page, 1);
        }
    }

    fn is_free(&self, page: u32) -> bool {
        self.free.range(..=page).next_back().is_some_and(|(&start, &len)| page < start + len)
    }

    fn give(&mut self, first: u32, count: u32) {
        let (mut start, mut len) = (first, count);
        if let Some((&before, &before_len)) = self.free.range(..first).next_back()
            && before + before_len == first
        {
            self.free.remove(&before);
            (start, len) = (before, before_len + len);
        }
        if let Some(after) = self.free.remove(&(start + len)) {
            len += after;
        }
        debug_assert!(start + len <= self.pages, "the run is in the arena");
        debug_assert!(!self.is_free(first), "pages are given back once");
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_lowest_first_and_merge_when_freed() {
        let mut mem = Memory::new().expect("memory");
        let mut arena = Arena::new(100, false).expect("arena");
        let a = arena.alloc(None, 2, &mut mem).expect("room");
        let b = arena.alloc(None, 3, &mut mem).expect("room");
        assert_eq!((a.0, b.0), (ARENA_BASE + PAGE_SIZE, ARENA_BASE + 3 * PAGE_SIZE));
        mem.write_u64(b, 7).expect("mapped");
        arena.release(a.0, 2, &mut mem);
        assert!(mem.read_u64(a).is_err());
        assert_eq!(arena.alloc(None, 3, &mut mem).map(|p| p.0), Some(b.0 + 3 * PAGE_SIZE));
        assert_eq!(arena.alloc(None, 2, &mut mem), Some(a));
        arena.release(a.0, 90, &mut mem);
        assert_eq!(arena.free_pages(), 100);
        let again = arena.alloc(Some(b.0), 1, &mut mem).expect("free");
        assert_eq!(mem.read_u64(again).ok(), Some(0), "pages come back zeroed");
        assert_eq!(arena.alloc(Some(b.0), 1, &mut mem), None, "taken");
        assert_eq!(arena.alloc(None, 100, &mut mem), None);
    }
}
