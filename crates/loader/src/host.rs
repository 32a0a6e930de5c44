//! What running a loader takes of the host, tried before: a container's filter refuses some of these calls.

use crate::start::memory_file;
use crate::terms::Missing;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Makes a call.
type Attempt = fn() -> io::Result<()>;

/// The first call that this host refuses of those without which no loader can be run; nothing where it has all.
pub fn missing_call() -> Option<Missing> {
    let tries: [(&'static str, Attempt); 4] = [
        ("memfd_create", || memory_file(c"probe").map(drop)),
        ("ptrace", trace_a_child),
        ("process_vm_readv", read_own_memory),
        ("pidfd_getfd", take_own_descriptor),
    ];
    tries.into_iter().find_map(|(call, attempt)| Some(Missing { call, error: attempt().err()? }))
}

/// The result of a system call.
fn done(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A child lets itself be traced, as a loader does.
fn trace_a_child() -> io::Result<()> {
    // SAFETY: between fork and exit the child makes system calls on numbers alone.
    unsafe {
        let child = libc::fork();
        done(child.into())?;
        if child == 0 {
            let traced = libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::_exit(if traced < 0 { *libc::__errno_location() } else { 0 });
        }
        let mut status = 0;
        done(libc::waitpid(child, &raw mut status, 0).into())?;
        match libc::WEXITSTATUS(status) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn read_own_memory() -> io::Result<()> {
    let (from, mut to) = (1u8, 0u8);
    let part = |byte: *mut u8| libc::iovec { iov_base: byte.cast(), iov_len: 1 };
    let (local, remote) = (part(&raw mut to), part((&raw const from).cast_mut()));
    // SAFETY: both parts are a byte of this stack, and the remote one is only read.
    done(unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) }
        as i64)
    .map(drop)
}

fn take_own_descriptor() -> io::Result<()> {
    let file = memory_file(c"probe")?;
    // SAFETY: numbers only; the kernel has just made the descriptors for this process alone.
    unsafe {
        let own = |fd: i64| OwnedFd::from_raw_fd(fd as i32);
        let process = own(done(libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0))?);
        done(libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), file.as_raw_fd(), 0))
            .map(own)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_all_or_names_one() {
        if let Some(Missing { call, error }) = missing_call() {
            assert!(!call.is_empty() && error.raw_os_error().is_some(), "{call}: {error}");
        }
    }
}
