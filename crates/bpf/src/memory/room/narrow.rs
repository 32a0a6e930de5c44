//! Where guest memory lies in the host's: on 32 bits the host has places for a part of both windows.
//!
//! Addresses are those of every host, since programs see them. Window 0 has places from its start on, but for the parts of
//! large regions that are left out; window 1 has them from its start on.

use super::super::{ARENA_BASE, DEFAULT_GUEST_MEMORY};
use std::ops::Range;

/// Bytes of window 0 that have places. Chosen: what an object may take, and the kernel's own objects beside it.
const FIRST_WINDOW: u64 = 640 << 20;
/// Bytes of window 1 that have places: the largest arena that an object may fill.
const SECOND_WINDOW: u64 = DEFAULT_GUEST_MEMORY;
/// Parts that can be left out: of the tasks, and of what is beside them.
const PARTS: usize = 2;

/// The places of guest memory.
#[derive(Debug)]
pub(in super::super) struct Room {
    /// Where a part without places ends, and how many bytes have none up to there.
    left_out: [(u64, u64); PARTS],
}

impl Room {
    /// Bytes of all places.
    pub(in super::super) const BYTES: usize = (FIRST_WINDOW + SECOND_WINDOW) as usize;

    pub(in super::super) fn new() -> Room {
        Room { left_out: [(u64::MAX, 0); PARTS] }
    }

    /// Where an address lies, if places had no end.
    #[inline(always)]
    fn distance(&self, addr: u64) -> u64 {
        if addr >= ARENA_BASE {
            return addr - ARENA_BASE + FIRST_WINDOW;
        }
        let [(first, one), (second, both)] = self.left_out;
        addr - if addr >= second {
            both
        } else if addr >= first {
            one
        } else {
            0
        }
    }

    /// The place of an address whose page was mapped.
    #[inline(always)]
    pub(in super::super) fn place(&self, addr: u64) -> usize {
        let at = self.distance(addr);
        debug_assert!(at < Room::BYTES as u64, "a page without places is never mapped");
        at as usize
    }

    /// The places of a range, without the addresses behind the last place.
    pub(in super::super) fn places(&self, range: Range<u64>) -> Range<usize> {
        let start = self.distance(range.start).min(Room::BYTES as u64);
        let end = start.saturating_add(range.end - range.start).min(Room::BYTES as u64);
        start as usize..end as usize
    }

    /// Refuses what the host has no places for. It ends the run, because an answer to the program would be another one than
    /// on other hosts.
    ///
    /// # Panics
    /// If the range has no places.
    #[inline]
    pub(in super::super) fn expect(&self, addr: u64, len: u64) {
        let end = if addr >= ARENA_BASE { Room::BYTES as u64 } else { FIRST_WINDOW };
        let (at, part) = (self.distance(addr), if addr >= ARENA_BASE { "arena" } else { "memory" });
        assert!(
            at <= end && len <= end - at,
            "the object's {part} is larger than a host of 32 bits has room for; the command line runs it"
        );
    }

    /// How many bytes of a region have places, of which a small host needs `least`.
    pub(in super::super) fn backed(len: u64, least: u64) -> u64 {
        least.min(len)
    }

    /// The addresses have no places.
    ///
    /// # Panics
    /// If there are too many such parts.
    pub(in super::super) fn leave_out(&mut self, addresses: Range<u64>) {
        let free =
            self.left_out.iter().position(|(end, _)| *end == u64::MAX).expect("two regions are left out");
        let before = if free == 0 { 0 } else { self.left_out[free - 1].1 };
        self.left_out[free] = (addresses.end, before + (addresses.end - addresses.start));
    }
}
