//! Mutexes, condition variables and barriers on futexes, and locks on files.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use schedlab_workload::LockKind;

use super::system::{Scope, futex_wait_in, futex_wake_in, retry, thread_id};

/// Takes a place in the queue of a condition variable. The lock that goes with it is held.
pub(super) fn cond_enter(tickets: &AtomicU64) -> u32 {
    tickets.fetch_add(1, Ordering::AcqRel) as u32
}

/// Waits until a ticket is served. Tickets wait on one word, told apart by a bit.
pub(super) fn cond_wait(scope: Scope, served: &AtomicU32, ticket: u32) {
    loop {
        let seen = served.load(Ordering::Acquire);
        if seen.wrapping_sub(ticket).cast_signed() > 0 {
            return;
        }
        // SAFETY: the word lives across the call; no timeout, no second word.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                served.as_ptr(),
                scope.operation(libc::FUTEX_WAIT_BITSET),
                seen,
                0usize,
                0usize,
                1u32 << (ticket % 32),
            );
        }
    }
}

/// Serves the next ticket, or all that are given out.
pub(super) fn cond_serve(scope: Scope, served: &AtomicU32, tickets: &AtomicU64, all: bool) {
    let given = tickets.load(Ordering::Acquire) as u32;
    let mut seen = served.load(Ordering::Relaxed);
    loop {
        if seen == given {
            return;
        }
        let next = if all { given } else { seen.wrapping_add(1) };
        match served.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => break,
            Err(other) => seen = other,
        }
    }
    // The task that waits on the served bit; others with the same bit look again and wait on.
    let bits = if all { u32::MAX } else { 1 << (seen % 32) };
    // SAFETY: as above.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            served.as_ptr(),
            scope.operation(libc::FUTEX_WAKE_BITSET),
            i32::MAX,
            0usize,
            0usize,
            bits,
        );
    }
}

/// Waits until `parties` tasks have arrived.
pub(super) fn barrier(scope: Scope, generation: &AtomicU32, arrived: &AtomicU64, parties: u32) {
    let present = generation.load(Ordering::Acquire);
    if arrived.fetch_add(1, Ordering::AcqRel) + 1 == u64::from(parties) {
        arrived.store(0, Ordering::Relaxed);
        generation.store(present.wrapping_add(1), Ordering::Release);
        futex_wake_in(scope, generation, i32::MAX);
        return;
    }
    while generation.load(Ordering::Acquire) == present {
        futex_wait_in(scope, generation, present);
    }
}

/// Takes a mutex: 0 free, 1 taken, 2 taken with waiters.
pub(super) fn lock(scope: Scope, word: &AtomicU32) {
    if word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        return;
    }
    while word.swap(2, Ordering::Acquire) != 0 {
        futex_wait_in(scope, word, 2);
    }
}

/// Releases a mutex.
pub(super) fn unlock(scope: Scope, word: &AtomicU32) {
    if word.swap(0, Ordering::Release) == 2 {
        futex_wake_in(scope, word, 1);
    }
}

/// Takes a mutex with priority inheritance, whose word is the holder's thread id.
pub(super) fn lock_inheriting(scope: Scope, word: &AtomicU32) -> io::Result<()> {
    if word.compare_exchange(0, thread_id(), Ordering::Acquire, Ordering::Relaxed).is_ok() {
        return Ok(());
    }
    futex_inheriting(scope, word, libc::FUTEX_LOCK_PI)
}

/// Releases a mutex with priority inheritance.
pub(super) fn unlock_inheriting(scope: Scope, word: &AtomicU32) -> io::Result<()> {
    if word.compare_exchange(thread_id(), 0, Ordering::Release, Ordering::Relaxed).is_ok() {
        return Ok(());
    }
    futex_inheriting(scope, word, libc::FUTEX_UNLOCK_PI)
}

fn futex_inheriting(scope: Scope, word: &AtomicU32, operation: libc::c_int) -> io::Result<()> {
    let operation = scope.operation(operation);
    // SAFETY: the word lives across the call; no timeout.
    retry(|| unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 0, 0usize) } as isize)
        .map(drop)
}

/// Opens a file again, so that its locks are this task's own.
pub(super) fn reopen(file: RawFd) -> io::Result<OwnedFd> {
    let path = std::ffi::CString::new(format!("/proc/self/fd/{file}"))?;
    // SAFETY: the path is NUL-terminated; the descriptor is owned from here on.
    unsafe {
        match libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) {
            fd if fd < 0 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// What is done to a lock on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileLock {
    Exclusive,
    Shared,
    Released,
}

/// Takes or releases the lock of a file; waits for it.
pub(super) fn lock_file(kind: LockKind, file: &OwnedFd, what: FileLock) -> io::Result<()> {
    let fd = file.as_raw_fd();
    let done = if kind == LockKind::Flock {
        let operation = match what {
            FileLock::Exclusive => libc::LOCK_EX,
            FileLock::Shared => libc::LOCK_SH,
            FileLock::Released => libc::LOCK_UN,
        };
        // SAFETY: plain system call.
        retry(|| unsafe { libc::flock(fd, operation) } as isize)
    } else {
        let (command, kind) = match what {
            FileLock::Exclusive => (libc::F_SETLKW, libc::F_WRLCK),
            FileLock::Shared => (libc::F_SETLKW, libc::F_RDLCK),
            FileLock::Released => (libc::F_SETLK, libc::F_UNLCK),
        };
        // SAFETY: plain data; all zero is the whole file.
        let mut record: libc::flock = unsafe { std::mem::zeroed() };
        record.l_type = kind as libc::c_short;
        // SAFETY: reads the record.
        retry(|| unsafe { libc::fcntl(fd, command, &raw mut record) } as isize)
    };
    done.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mutex_excludes() {
        let (word, mut total) = (AtomicU32::new(0), 0u64);
        let address = (&raw mut total).expose_provenance();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        lock(Scope::Process, &word);
                        let total = std::ptr::with_exposed_provenance_mut::<u64>(address);
                        // SAFETY: the mutex makes this the only access.
                        unsafe { *total += 1 };
                        unlock(Scope::Process, &word);
                    }
                });
            }
        });
        assert_eq!(total, 40_000);
        assert_eq!(word.into_inner(), 0);
    }

    #[test]
    fn an_inheriting_mutex_excludes() {
        let (word, total) = (AtomicU32::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        lock_inheriting(Scope::Process, &word).unwrap();
                        let seen = total.load(Ordering::Relaxed);
                        std::thread::yield_now();
                        total.store(seen + 1, Ordering::Relaxed);
                        unlock_inheriting(Scope::Process, &word).unwrap();
                    }
                });
            }
        });
        assert_eq!((total.into_inner(), word.into_inner()), (4_000, 0));
    }
}
