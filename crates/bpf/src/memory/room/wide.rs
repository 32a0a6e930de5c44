//! Where guest memory lies in the host's: on 64 bits each address has a place, and the place is the address.

use super::super::GUEST_LIMIT;
use std::ops::Range;

/// The places of guest memory.
#[derive(Debug)]
pub(in super::super) struct Room;

impl Room {
    /// Bytes of all places.
    pub(in super::super) const BYTES: usize = GUEST_LIMIT as usize;

    pub(in super::super) fn new() -> Room {
        Room
    }

    /// The place of an address whose page was mapped.
    #[inline(always)]
    pub(in super::super) fn place(&self, addr: u64) -> usize {
        addr as usize
    }

    /// The places of a range.
    pub(in super::super) fn places(&self, range: Range<u64>) -> Range<usize> {
        range.start as usize..range.end as usize
    }

    /// Refuses what the host has no places for.
    #[inline(always)]
    pub(in super::super) fn expect(&self, _addr: u64, _len: u64) {}

    /// How many bytes of a region have places, of which a small host needs `least`.
    pub(in super::super) const fn backed(len: u64, _least: u64) -> u64 {
        len
    }

    /// The addresses have no places.
    pub(in super::super) fn leave_out(&mut self, addresses: Range<u64>) {
        debug_assert!(addresses.is_empty(), "each address has a place");
    }
}
