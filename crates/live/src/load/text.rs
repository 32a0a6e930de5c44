//! Strings of C, as libbpf gives them.

use std::ffi::{CStr, c_char};

/// A copy; empty for null.
///
/// # Safety
/// `from` is null or a NUL-terminated string.
pub(super) unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: by the contract of this function.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}
