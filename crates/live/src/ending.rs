//! The end of a child process, waited for without looking again and again: what looks takes the CPU from what it looks at.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A descriptor that can be read as soon as the process has ended; pidfd_open(2), Linux 5.3.
pub(crate) struct Ending(OwnedFd);

impl Ending {
    /// That of a child which has not been waited for.
    ///
    /// # Errors
    /// The kernel's reason, such as no room for a descriptor.
    pub(crate) fn of(process: i32) -> io::Result<Ending> {
        // SAFETY: a system call without pointers.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
        match i32::try_from(descriptor) {
            // SAFETY: the call has just made it, for us alone.
            Ok(descriptor) if descriptor >= 0 => Ok(Ending(unsafe { OwnedFd::from_raw_fd(descriptor) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sleeps until the process has ended, a signal has come, `alarm` can be read, or `time` is over; true for the first.
    ///
    /// # Errors
    /// The kernel cannot wait, such as for want of memory.
    pub(crate) fn within(&self, time: Duration, alarm: Option<RawFd>) -> io::Result<bool> {
        let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // The kernel passes over a descriptor of -1.
        let mut polls = [wanted(self.0.as_raw_fd()), wanted(alarm.unwrap_or(-1))];
        let millis = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: as many structures as are said, which live across the call.
        let ready = unsafe { libc::poll(polls.as_mut_ptr(), 2, millis) };
        match io::Error::last_os_error() {
            error if ready < 0 && error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(ready > 0 && polls[0].revents != 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_end_and_an_alarm_end_the_sleep() {
        let begin = Instant::now();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let ending = Ending::of(child.id().cast_signed()).unwrap();
        assert!(!ending.within(Duration::from_millis(1), None).unwrap());
        let (reader, writer) = io::pipe().unwrap();
        assert!(!ending.within(Duration::from_millis(1), Some(reader.as_raw_fd())).unwrap());
        io::Write::write_all(&mut &writer, b"x").unwrap();
        assert!(!ending.within(LONG, Some(reader.as_raw_fd())).unwrap());
        child.kill().unwrap();
        assert!(ending.within(LONG, None).unwrap());
        child.wait().unwrap();
        assert!(begin.elapsed() < LONG);
    }
}
