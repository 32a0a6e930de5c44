//! The system calls that tasks make, as small functions.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use schedlab_base::{CpuMask, Policy};

/// Now on the monotonic clock, in ns.
pub(super) fn now_ns() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// CPU time of this thread, in ns.
pub(super) fn thread_cpu_ns() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of a process, in ns; exact to the moment, unlike its files in `/proc`.
pub(super) fn process_cpu_ns(pid: i32) -> Option<u64> {
    let mut id = 0;
    // SAFETY: writes one clock id.
    (unsafe { libc::clock_getcpuclockid(pid, &raw mut id) } == 0).then(|| clock(id))
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Sleeps until a moment of the monotonic clock.
pub(super) fn sleep_until(ns: u64) {
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: reads one timespec; an interrupted absolute sleep is simply repeated.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// Waits while the word has this value.
pub(super) fn futex_wait(word: &AtomicU32, value: u32) {
    // SAFETY: the word lives across the call; no timeout.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, 0usize);
    }
}

/// Wakes up to `count` waiters.
pub(super) fn futex_wake(word: &AtomicU32, count: i32) {
    // SAFETY: the word lives across the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count);
    }
}

/// Takes a place in the queue of a condition variable. The lock that goes with it is held.
pub(super) fn cond_enter(tickets: &AtomicU64) -> u32 {
    tickets.fetch_add(1, Ordering::AcqRel) as u32
}

/// Waits until a ticket is served. Tickets wait on one word, told apart by a bit.
pub(super) fn cond_wait(served: &AtomicU32, ticket: u32) {
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
                libc::FUTEX_WAIT_BITSET,
                seen,
                0usize,
                0usize,
                1u32 << (ticket % 32),
            );
        }
    }
}

/// Serves the next ticket, or all that are given out.
pub(super) fn cond_serve(served: &AtomicU32, tickets: &AtomicU64, all: bool) {
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
    // Whoever waits on the served bit; others with the same bit look again and go on waiting.
    let bits = if all { u32::MAX } else { 1 << (seen % 32) };
    // SAFETY: as above.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            served.as_ptr(),
            libc::FUTEX_WAKE_BITSET,
            i32::MAX,
            0usize,
            0usize,
            bits,
        );
    }
}

/// Waits until `parties` tasks have arrived.
pub(super) fn barrier(generation: &AtomicU32, arrived: &AtomicU64, parties: u32) {
    let present = generation.load(Ordering::Acquire);
    if arrived.fetch_add(1, Ordering::AcqRel) + 1 == u64::from(parties) {
        arrived.store(0, Ordering::Relaxed);
        generation.store(present.wrapping_add(1), Ordering::Release);
        futex_wake(generation, i32::MAX);
        return;
    }
    while generation.load(Ordering::Acquire) == present {
        futex_wait(generation, present);
    }
}

/// Takes a mutex: 0 free, 1 taken, 2 taken with waiters.
pub(super) fn lock(word: &AtomicU32) {
    if word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        return;
    }
    while word.swap(2, Ordering::Acquire) != 0 {
        futex_wait(word, 2);
    }
}

/// Releases a mutex.
pub(super) fn unlock(word: &AtomicU32) {
    if word.swap(0, Ordering::Release) == 2 {
        futex_wake(word, 1);
    }
}

/// Repeats a call that a signal has interrupted.
pub(super) fn retry(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        let result = call();
        if result >= 0 {
            return Ok(result.cast_unsigned());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Writes all bytes.
pub(super) fn write_all(fd: RawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the bytes live across the call.
        let done = retry(|| unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })?;
        bytes = &bytes[done..];
    }
    Ok(())
}

/// Reads exactly as many bytes as the buffer holds.
pub(super) fn read_all(fd: RawFd, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        // SAFETY: the buffer lives across the call.
        match retry(|| unsafe { libc::read(fd, rest.as_mut_ptr().cast(), rest.len()) })? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            done => filled += done,
        }
    }
    Ok(())
}

/// Changes one semaphore of a System V set.
pub(super) fn semop(set: i32, number: u16, change: i16) -> io::Result<()> {
    let mut operation = libc::sembuf { sem_num: number, sem_op: change, sem_flg: 0 };
    // SAFETY: one operation that lives across the call.
    retry(|| unsafe { libc::semop(set, &raw mut operation, 1) } as isize).map(drop)
}

/// This thread's id.
pub(super) fn thread_id() -> u32 {
    // SAFETY: plain query.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// Names this thread; the kernel keeps 15 bytes.
pub(super) fn set_name(name: &str) {
    let mut bytes = [0u8; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    // SAFETY: reads at most 16 bytes up to the NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, bytes.as_ptr()) };
}

/// Restricts a thread (0: this one) to some CPUs.
pub(super) fn set_affinity(tid: u32, mask: &CpuMask) -> io::Result<()> {
    let words = mask.words();
    let cpus = words.as_ptr().cast::<libc::cpu_set_t>();
    // SAFETY: the kernel reads that many bytes.
    check(unsafe { libc::sched_setaffinity(tid.cast_signed(), size_of_val(words), cpus) })
}

/// Sets a thread's nice value (0: this one's), which on Linux is the thread's alone.
pub(super) fn set_nice(tid: u32, nice: i32) -> io::Result<()> {
    // SAFETY: plain system call.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, nice) })
}

/// Sets a thread's policy (0: this one's).
pub(super) fn set_policy(tid: u32, policy: Policy) -> io::Result<()> {
    let (number, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, i32::from(priority)),
        Policy::Rr(priority) => (libc::SCHED_RR, i32::from(priority)),
    };
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: reads one sched_param.
    check(unsafe { libc::sched_setscheduler(tid.cast_signed(), number, &raw const parameter) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Voluntary and involuntary switches of this thread so far.
pub(super) fn thread_switches() -> (u64, u64) {
    // SAFETY: rusage is plain data; it is written by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    (usage.ru_nvcsw.cast_unsigned(), usage.ru_nivcsw.cast_unsigned())
}

/// Ends this process at once, without destructors.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
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
                        lock(&word);
                        let total = std::ptr::with_exposed_provenance_mut::<u64>(address);
                        // SAFETY: the mutex makes this the only access.
                        unsafe { *total += 1 };
                        unlock(&word);
                    }
                });
            }
        });
        assert_eq!(total, 40_000);
        assert_eq!(word.into_inner(), 0);
    }
}
