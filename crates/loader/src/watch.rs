//! Ends a loader that has had its share of CPU time. A thread looks at the clock of its process, since the loader itself may
//! ignore every limit whose end is a signal.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often the thread looks.
const EVERY: Duration = Duration::from_millis(100);

/// What the thread knows. It ends with [`Watch`].
#[derive(Debug)]
struct Watched {
    /// CPU time that the loader may take in all; nothing once it is not watched any more.
    most: Mutex<Option<Duration>>,
    changed: Condvar,
    /// The loader took more, and was ended.
    ended: AtomicBool,
}

impl Watched {
    fn most(&self) -> MutexGuard<'_, Option<Duration>> {
        self.most.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A loader that is watched.
#[derive(Debug)]
pub(crate) struct Watch {
    process: libc::pid_t,
    watched: Arc<Watched>,
}

impl Watch {
    /// Watches the process of this number, a child that is not reaped yet.
    ///
    /// # Errors
    /// The host gives no thread or no descriptor of the process.
    pub(crate) fn begin(process: libc::pid_t, most: Duration) -> io::Result<Watch> {
        // SAFETY: numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel has just made it for us alone.
        let handle = unsafe { OwnedFd::from_raw_fd(fd) };
        let (most, ended) = (Mutex::new(Some(most)), AtomicBool::new(false));
        let watched = Arc::new(Watched { most, changed: Condvar::new(), ended });
        let own = Arc::clone(&watched);
        let body = move || watch(&own, process, &handle);
        std::thread::Builder::new().name("loader-time".into()).spawn(body)?;
        Ok(Watch { process, watched })
    }

    /// True if the loader was ended because it took more CPU time than it may.
    pub(crate) fn has_ended_it(&self) -> bool {
        self.watched.ended.load(Ordering::Acquire)
    }

    /// Allows this much CPU time from now on.
    pub(crate) fn allow_more(&self, more: Duration) {
        if let Some(time) = cpu_time(self.process) {
            *self.watched.most() = Some(time + more);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.watched.most() = None;
        self.watched.changed.notify_all();
    }
}

fn watch(watched: &Watched, process: libc::pid_t, handle: &OwnedFd) {
    let mut most = watched.most();
    while let Some(limit) = *most {
        let time = cpu_time(process);
        if time.is_none_or(|time| time >= limit) {
            watched.ended.store(time.is_some(), Ordering::Release);
            // SAFETY: numbers, and no information about the signal. A process that is gone gets none.
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), libc::SIGKILL, 0, 0) };
            return;
        }
        most = watched.changed.wait_timeout(most, EVERY).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// CPU time of all threads of a process; nothing for one that is gone.
fn cpu_time(process: libc::pid_t) -> Option<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both places are ours.
    let done = unsafe {
        libc::clock_getcpuclockid(process, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    done.then(|| Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32))
}
