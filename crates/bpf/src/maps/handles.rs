//! The values by which programs refer to maps: addresses that nothing else has.

use super::MapId;
use crate::memory::{GuestAddr, Memory, MemoryError, Perm};

/// Bytes between two of them.
const STRIDE: u64 = 64;
/// Maps that have theirs in the first place. Chosen: an object has tens.
const FIRST: u64 = 1024;
/// Most maps of an object. Chosen: a map of maps may be filled with thousands.
pub(super) const MAX_MAPS: u64 = 8192;

/// Where they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handles {
    first: GuestAddr,
    /// Of the maps beyond [`FIRST`]; NULL until there are some.
    more: GuestAddr,
}

impl Handles {
    /// Room for those of the first maps.
    ///
    /// # Errors
    /// Guest memory is full.
    pub(super) fn new(mem: &mut Memory) -> Result<Handles, MemoryError> {
        let first = mem.map(STRIDE * FIRST, Perm::READ | Perm::KERNEL)?;
        Ok(Handles { first, more: GuestAddr::NULL })
    }

    /// Makes room for that of one more map than these.
    ///
    /// # Errors
    /// Guest memory is full.
    pub(super) fn grow(&mut self, count: u64, mem: &mut Memory) -> Result<(), MemoryError> {
        debug_assert!(count < MAX_MAPS, "the number of maps was checked");
        if count == FIRST {
            self.more = mem.map(STRIDE * (MAX_MAPS - FIRST), Perm::READ | Perm::KERNEL)?;
        }
        Ok(())
    }

    /// That of a map.
    pub(super) fn of(self, id: MapId) -> GuestAddr {
        debug_assert!(
            u64::from(id.0) < FIRST || self.more != GuestAddr::NULL,
            "a map beyond the first table has a place in the second"
        );
        match u64::from(id.0) {
            number @ ..FIRST => self.first.offset(STRIDE * number),
            number => self.more.offset(STRIDE * (number - FIRST)),
        }
    }

    /// Which of so many maps a value is that of.
    #[inline]
    pub(super) fn find(self, value: u64, count: u64) -> Option<MapId> {
        let distance = value.wrapping_sub(self.first.0);
        let index = distance / STRIDE;
        match distance.is_multiple_of(STRIDE) && index < count.min(FIRST) {
            true => Some(MapId(index as u32)),
            false => self.find_more(value, count),
        }
    }

    #[cold]
    fn find_more(self, value: u64, count: u64) -> Option<MapId> {
        let distance = value.wrapping_sub(self.more.0);
        let index = FIRST + distance / STRIDE;
        let is_one = self.more != GuestAddr::NULL && distance.is_multiple_of(STRIDE);
        (is_one && index < count).then_some(MapId(index as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_maps_have_handles() {
        let mut mem = Memory::new().unwrap();
        let mut handles = Handles::new(&mut mem).unwrap();
        handles.grow(3, &mut mem).unwrap();
        assert_eq!(handles.find(handles.of(MapId(2)).0, 3), Some(MapId(2)));
        assert_eq!(handles.find(handles.of(MapId(3)).0, 3), None);
        handles.grow(FIRST, &mut mem).unwrap();
        let count = FIRST + 3;
        for number in [0, FIRST - 1, FIRST, FIRST + 2] {
            let id = MapId(number as u32);
            assert_eq!(handles.find(handles.of(id).0, count), Some(id), "{number}");
        }
        assert_eq!(handles.find(handles.of(MapId(FIRST as u32 + 3)).0, count), None);
        assert_eq!(handles.find(handles.first.0 + STRIDE * FIRST, count), None);
        assert_eq!(handles.find(handles.of(MapId(FIRST as u32)).0 + 1, count), None);
    }
}
