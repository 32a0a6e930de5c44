//! The wish to stop, from the terminal or from `kill`, and what a signal that ends the process leaves behind.

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
/// True when the first signal is a wish, see [`catch`].
static CAUGHT: AtomicBool = AtomicBool::new(false);

/// Signals by which people and systems end a process.
const ENDS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGXCPU];

/// Most unfinished files at a time: two streamed results, and one for each run of a sweep that is kept. Chosen.
const PLACES: usize = 256;

/// Paths of unfinished files. A pointer belongs to whoever swaps it out.
static UNFINISHED: [AtomicPtr<c_char>; PLACES] = [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];
/// What an interrupted process says last. A pointer belongs to whoever swaps it out.
static LAST_WORDS: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// The process whose files and words they are: a child has a copy of the list, but not the files.
static OWNER: AtomicU32 = AtomicU32::new(0);

extern "C" fn end(signal: libc::c_int) {
    if CAUGHT.load(Ordering::Relaxed) && !STOP.swap(true, Ordering::Relaxed) {
        return;
    }
    if std::process::id() == OWNER.load(Ordering::Relaxed) {
        for place in &UNFINISHED {
            let path = place.swap(ptr::null_mut(), Ordering::AcqRel);
            if !path.is_null() {
                // SAFETY: unlink() is async-signal-safe; the path is NUL-terminated and now ours, and it is never freed.
                unsafe { libc::unlink(path) };
            }
        }
        let words = LAST_WORDS.swap(ptr::null_mut(), Ordering::AcqRel);
        if !words.is_null() {
            // SAFETY: strlen() and write() are async-signal-safe; the text is NUL-terminated and now ours, and it is never freed.
            unsafe { libc::write(libc::STDERR_FILENO, words.cast(), libc::strlen(words)) };
        }
    }
    // SAFETY: both are async-signal-safe. The signal is blocked here and ends the process on the handler's return.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// The signal of a reader that went away.
pub const PIPE: i32 = libc::SIGPIPE;

/// Ends this process by a signal, as if nothing had handled it; returns where that does not end it.
pub fn end_by(signal: i32) {
    // SAFETY: numbers only; the default action needs no handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// A file that grows over the limit of the process: writing fails then, with an error that can be reported.
extern "C" fn too_large(_signal: libc::c_int) {}

/// Sets a handler; with `only_default`, unless the signal is ignored or has one.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int), only_default: bool) {
    // SAFETY: the actions are zeroed and filled in; the handlers are async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if only_default {
            libc::sigaction(signal, ptr::null(), &raw mut action);
            if action.sa_sigaction != libc::SIG_DFL {
                return;
            }
            action = std::mem::zeroed();
        }
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// Makes interrupt, hang-up and termination signals a wish to stop that [`stop_wanted`] tells;
/// a second one ends the process in the usual way.
pub fn catch() {
    CAUGHT.store(true, Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        handle(signal, end, false);
    }
}

/// True after such a signal.
pub fn stop_wanted() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Has a text written to standard error if a signal ends the process while this exists.
#[derive(Debug)]
pub struct LastWords(());

impl LastWords {
    /// Replaces what was to be said before. A text with a NUL in it is not said.
    pub fn new(text: &str) -> LastWords {
        let words = CString::new(text).map_or(ptr::null_mut(), CString::into_raw);
        OWNER.store(std::process::id(), Ordering::Relaxed);
        for signal in ENDS {
            handle(signal, end, true);
        }
        take_back(&LAST_WORDS, words);
        LastWords(())
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        take_back(&LAST_WORDS, ptr::null_mut());
    }
}

/// Puts another text, or none, in the place of one, which is freed.
fn take_back(place: &AtomicPtr<c_char>, other: *mut c_char) {
    let text = place.swap(other, Ordering::AcqRel);
    if !text.is_null() {
        // SAFETY: it came from into_raw(), and the swap made it ours alone.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Has a file removed if a signal ends the process while this exists. The file need not be there yet. Signals that are
/// ignored stay ignored; SIGKILL cannot be handled.
#[derive(Debug)]
pub struct RemovedAtEnd(Option<&'static AtomicPtr<c_char>>);

impl RemovedAtEnd {
    /// For the file at `path`, an absolute one. Beyond 256 files at a time the others stay where a signal ends the process.
    pub fn new(path: &Path) -> RemovedAtEnd {
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return RemovedAtEnd(None) };
        OWNER.store(std::process::id(), Ordering::Relaxed);
        for signal in ENDS {
            handle(signal, end, true);
        }
        handle(libc::SIGXFSZ, too_large, true);
        let path = path.into_raw();
        let free = UNFINISHED.iter().find(|place| {
            place.compare_exchange(ptr::null_mut(), path, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        if free.is_none() {
            // SAFETY: it is the pointer of into_raw() above, which nobody else has seen.
            drop(unsafe { CString::from_raw(path) });
        }
        RemovedAtEnd(free)
    }
}

impl Drop for RemovedAtEnd {
    fn drop(&mut self) {
        let Some(place) = self.0 else { return };
        take_back(place, ptr::null_mut());
    }
}
