//! Simulated runs for WebAssembly: the laboratory without a host, behind a C ABI.
//!
//! The module imports nothing, so an instance reaches nothing. `web/schedlab.mjs` is the other side, and `web/README.md` says how
//! it is used. Requests and answers are bytes: a request is JSON ([`schedlab_lab::run::request::Request`]), an answer is parts
//! behind a table of their lengths. The first part is JSON: what became of the request, or `{"error": ..., "code": ...}`.
//!
//! An instance is for one run: linear memory does not shrink, and a panic is a trap, whose words [`last_words`] has.

mod bytes;
mod lists;
mod requests;

pub use bytes::{give, last_words};

use bytes::{answered, taken};
use schedlab_lab::failure::Failure;

/// What stands in an answer: its head, and bytes behind it.
type Parts = Vec<Vec<u8>>;

/// The answer, or the failure in its place.
fn answer(parts: Result<Parts, Failure>) -> *const u8 {
    answered(&parts.unwrap_or_else(|failure| vec![requests::refused(&failure)]))
}

/// One run. The parts are its head, the document as `--json` writes it, and a record if one was asked for. No bytes of an object
/// mean a scheduler by name.
///
/// # Safety
/// Both rows of bytes are [`give`]'s, written whole, and are given away here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn run(object: *mut u8, object_len: usize, request: *mut u8, len: usize) -> *const u8 {
    // SAFETY: the caller's promise.
    let (object, request) = unsafe { (taken(object, object_len), taken(request, len)) };
    answer(requests::run(object.into_vec(), &request))
}

/// A view of a record. The parts are the head and the view.
///
/// # Safety
/// As of [`run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn view(record: *mut u8, record_len: usize, request: *mut u8, len: usize) -> *const u8 {
    // SAFETY: the caller's promise.
    let (record, request) = unsafe { (taken(record, record_len), taken(request, len)) };
    answer(requests::view(&record, &request))
}

/// What can be named in a request, and what it takes; of an object, its schedulers' tunables.
///
/// # Safety
/// As of [`run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lists(object: *mut u8, object_len: usize) -> *const u8 {
    // SAFETY: the caller's promise.
    let object = unsafe { taken(object, object_len) };
    answer(if object.is_empty() { lists::all() } else { lists::of_object(&object) })
}
