//! A record that two rooms have in common: its numbers are kept by one of them and read, by place, through the other.
//!
//! The simulated kernel keeps what programs see of its objects so: the record lies in the memory that programs address,
//! and each setter of the kernel writes its number there. The room that made the record decides where it lies.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A number that a record has.
pub trait Number: Copy + 'static {
    /// Writes it, little-endian.
    ///
    /// # Safety
    /// `at` is aligned for the number and its bytes may be written.
    #[doc(hidden)]
    unsafe fn store(self, at: *mut u8);
}

macro_rules! numbers {
    ($($number:ty: $cell:ty),*) => { $(
        impl Number for $number {
            #[inline(always)]
            unsafe fn store(self, at: *mut u8) {
                // SAFETY: the caller's promise; what others do with these bytes meanwhile is no data race.
                unsafe { <$cell>::from_ptr(at.cast()).store(self.to_le(), Ordering::Relaxed) }
            }
        }
    )* };
}

numbers!(u8: AtomicU8, u16: AtomicU16, u32: AtomicU32, u64: AtomicU64);

/// Where a number lies in a record of `LEN` bytes.
pub struct Place<T, const LEN: usize> {
    offset: usize,
    number: PhantomData<T>,
}

impl<T: Number, const LEN: usize> Place<T, LEN> {
    /// The place at this distance from the record's start.
    ///
    /// # Panics
    /// If it is not aligned, or does not lie in the record: in a constant an error of the compiler.
    #[must_use]
    pub const fn new(offset: usize) -> Self {
        assert!(offset.is_multiple_of(size_of::<T>()), "a number is aligned");
        assert!(offset <= LEN && size_of::<T>() <= LEN - offset, "a number lies in its record");
        Place { offset, number: PhantomData }
    }

    /// The distance from the record's start, in bytes.
    #[must_use]
    pub const fn offset(self) -> usize {
        self.offset
    }
}

impl<T, const LEN: usize> Clone for Place<T, LEN> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const LEN: usize> Copy for Place<T, LEN> {}

impl<T, const LEN: usize> fmt::Debug for Place<T, LEN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.offset)
    }
}

/// A record of `LEN` bytes.
#[derive(Clone)]
pub struct Shared<const LEN: usize> {
    at: NonNull<u8>,
    /// Whose memory it is: there as long as this is.
    #[expect(dead_code, reason = "it is kept, not read")]
    keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the bytes are touched by atomic operations alone, and `keep` may be sent and shared.
unsafe impl<const LEN: usize> Send for Shared<LEN> {}
// SAFETY: as above.
unsafe impl<const LEN: usize> Sync for Shared<LEN> {}

/// Room of a record that this thread alone sees, aligned as every number is.
#[repr(C, align(64))]
struct Room<const LEN: usize>(std::cell::UnsafeCell<[u8; LEN]>);

// SAFETY: no other code reads it, and `Shared` writes it by atomic operations alone.
unsafe impl<const LEN: usize> Sync for Room<LEN> {}

impl<const LEN: usize> Shared<LEN> {
    /// A record that this thread alone sees.
    #[must_use]
    pub fn unseen() -> Self {
        let room = Arc::new(Room(std::cell::UnsafeCell::new([0; LEN])));
        let at = NonNull::new(room.0.get()).unwrap_or(NonNull::dangling());
        Shared { at: at.cast(), keep: room }
    }

    /// The record of `LEN` bytes at `at`.
    ///
    /// # Safety
    /// The bytes are aligned to 8 and may be written for as long as `keep` exists, and no reference to them lives while
    /// [`Shared::set`] runs.
    #[must_use]
    pub unsafe fn at(at: NonNull<u8>, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Shared { at, keep }
    }

    /// Writes a number.
    #[inline(always)]
    pub fn set<T: Number>(&self, place: Place<T, LEN>, value: T) {
        // SAFETY: `place` was checked to be aligned and to lie in `LEN` bytes, which `keep` keeps.
        unsafe { value.store(self.at.as_ptr().add(place.offset)) }
    }

    /// A number for what the record says, by FNV-1a.
    fn digest(&self) -> u64 {
        (0..LEN).fold(0xcbf2_9ce4_8422_2325, |digest, offset| {
            // SAFETY: the byte is one of `LEN`, which `keep` keeps; what others do with it meanwhile is no data race.
            let byte = unsafe { AtomicU8::from_ptr(self.at.as_ptr().add(offset)) }.load(Ordering::Relaxed);
            (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

impl<const LEN: usize> fmt::Debug for Shared<LEN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("digest", &self.digest()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Place<u32, 16> = Place::new(4);
    const LAST: Place<u64, 16> = Place::new(8);

    #[test]
    fn numbers_are_written_at_their_places() {
        let room = Arc::new(Room(std::cell::UnsafeCell::new([0u8; 16])));
        let start = NonNull::new(room.0.get()).expect("room").cast();
        // SAFETY: the room is aligned, as long as the record, and kept; no other code uses it.
        let shared: Shared<16> = unsafe { Shared::at(start, room.clone()) };
        shared.set(FIRST, 0x0403_0201);
        shared.set(LAST, u64::MAX - 1);
        // SAFETY: nothing is written any more.
        let bytes = unsafe { *room.0.get() };
        assert_eq!(bytes, [0, 0, 0, 0, 1, 2, 3, 4, 254, 255, 255, 255, 255, 255, 255, 255]);
    }

    #[test]
    fn places_outside_or_askew_do_not_exist() {
        for offset in [2, 14, 16, usize::MAX - 3] {
            assert!(std::panic::catch_unwind(|| Place::<u32, 16>::new(offset)).is_err(), "{offset}");
        }
    }

    #[test]
    fn an_unseen_record_takes_everything() {
        Shared::<16>::unseen().set(LAST, 7);
    }
}
