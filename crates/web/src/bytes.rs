//! Bytes between an instance and its host, and the words of a panic.

use std::sync::{Mutex, Once, PoisonError};

/// How far the heap grows at first. Each growth of linear memory may start a collection of the host's garbage. Measured: 24 MiB
/// are enough for most runs.
const HEAP: usize = 24 << 20;

static BEGUN: Once = Once::new();
static WORDS: Mutex<String> = Mutex::new(String::new());

/// Has panics leave their words, and the heap grow once.
fn begin() {
    std::panic::set_hook(Box::new(|info| {
        *WORDS.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string();
    }));
    drop(std::hint::black_box(Vec::<u8>::with_capacity(HEAP)));
}

/// Room for bytes of the caller's, zeros at first. A function that takes such bytes frees them.
#[unsafe(no_mangle)]
pub extern "C" fn give(len: usize) -> *mut u8 {
    BEGUN.call_once(begin);
    Box::into_raw(vec![0_u8; len].into_boxed_slice()).cast()
}

/// Takes back what [`give`] gave.
///
/// # Safety
/// `at` and `len` are those of one call of [`give`], and this is the only call for them.
pub(crate) unsafe fn taken(at: *mut u8, len: usize) -> Box<[u8]> {
    // SAFETY: the caller's promise.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, len)) }
}

/// Parts as the host reads them, which are never freed: their number and their lengths as 32-bit words, then their bytes.
pub(crate) fn answered(parts: &[Vec<u8>]) -> *const u8 {
    let lengths = std::iter::once(parts.len()).chain(parts.iter().map(Vec::len));
    let mut all: Vec<u8> = lengths.flat_map(|length| (length as u32).to_le_bytes()).collect();
    parts.iter().for_each(|part| all.extend_from_slice(part));
    Box::leak(all.into_boxed_slice()).as_ptr()
}

/// The words of a panic, after the trap that it ended in: an answer of one part.
#[unsafe(no_mangle)]
pub extern "C" fn last_words() -> *const u8 {
    let words = WORDS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    answered(&[words.into_bytes()])
}
