//! A hint to the host's CPU: it changes when results are there, never what they are.

/// Bytes of a cache line of the host; where it has other ones, the hint is worse, no more.
const LINE: usize = 64;

/// Has the host fetch up to `lines` cache lines of `value` from its beginning, and goes on without them: what is needed
/// soon is there then. A plain read would do too, but the host waits for a read before long.
#[inline(always)]
pub fn prefetch<T>(value: &T, lines: usize) {
    for line in 0..lines.min(size_of::<T>().div_ceil(LINE)) {
        fetch(std::ptr::from_ref(value).wrapping_byte_add(line * LINE).cast());
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fetch(at: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction is part of every x86-64, reads and writes nothing, and takes any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at) }
}

#[cfg(not(target_arch = "x86_64"))]
fn fetch(_at: *const i8) {}
