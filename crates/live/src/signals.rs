//! The wish to stop, from the terminal or from `kill`.

use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Makes interrupt, hang-up and termination signals a wish to stop that [`stop_wanted`] tells;
/// a second one ends the process in the usual way.
pub fn catch() {
    let handler: extern "C" fn(libc::c_int) = note;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the action is zeroed and filled in; the handler only stores to an atomic.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// True after such a signal.
pub fn stop_wanted() -> bool {
    STOP.load(Ordering::Relaxed)
}
