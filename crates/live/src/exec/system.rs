//! The system calls that tasks make, as small functions.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU32;

use schedlab_base::{CpuMask, DurationNs, Policy, Reservation};

/// Now on the monotonic clock, in ns.
pub(crate) fn now_ns() -> u64 {
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

/// Which tasks use a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Threads of one process alone (`FUTEX_PRIVATE_FLAG`).
    Process,
    /// Any.
    Run,
}

impl Scope {
    /// That of an object which is private to a process or not.
    pub(super) fn of(private: bool) -> Scope {
        if private { Scope::Process } else { Scope::Run }
    }

    /// A futex operation with the flag that goes with it.
    pub(super) fn operation(self, operation: libc::c_int) -> libc::c_int {
        if self == Scope::Process { operation | libc::FUTEX_PRIVATE_FLAG } else { operation }
    }
}

/// Waits while the word has this value.
pub(super) fn futex_wait(word: &AtomicU32, value: u32) {
    futex_wait_in(Scope::Run, word, value);
}

/// As [`futex_wait`] in a scope.
pub(super) fn futex_wait_in(scope: Scope, word: &AtomicU32, value: u32) {
    // SAFETY: the word lives across the call; no timeout.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), scope.operation(libc::FUTEX_WAIT), value, 0usize);
    }
}

/// Wakes up to `count` waiters.
pub(super) fn futex_wake(word: &AtomicU32, count: i32) {
    futex_wake_in(Scope::Run, word, count);
}

/// As [`futex_wake`] in a scope.
pub(super) fn futex_wake_in(scope: Scope, word: &AtomicU32, count: i32) {
    // SAFETY: the word lives across the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), scope.operation(libc::FUTEX_WAKE), count);
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

/// Sends all bytes over a socket.
pub(super) fn send_all(fd: RawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the bytes live across the call.
        let done = retry(|| unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) })?;
        bytes = &bytes[done..];
    }
    Ok(())
}

/// Receives exactly as many bytes from a socket as the buffer holds.
pub(super) fn receive_all(fd: RawFd, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        // SAFETY: the buffer lives across the call.
        match retry(|| unsafe { libc::recv(fd, rest.as_mut_ptr().cast(), rest.len(), 0) })? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            done => filled += done,
        }
    }
    Ok(())
}

/// Changes a System V set of one semaphore.
pub(super) fn semop(set: i32, change: i16) -> io::Result<()> {
    let mut operation = libc::sembuf { sem_num: 0, sem_op: change, sem_flg: 0 };
    // SAFETY: one operation that lives across the call.
    retry(|| unsafe { libc::semop(set, &raw mut operation, 1) } as isize).map(drop)
}

/// Takes all units of a System V set of one semaphore.
pub(super) fn drain(set: i32) -> io::Result<()> {
    // SAFETY: SETVAL takes an int.
    retry(|| unsafe { libc::semctl(set, 0, libc::SETVAL, 0 as libc::c_int) } as isize).map(drop)
}

/// The signal that tasks send each other.
pub(super) const SIGNAL: libc::c_int = libc::SIGUSR2;

extern "C" fn take_note(_signal: libc::c_int) {}

/// Keeps the signal of tasks pending until they wait for it. For the whole process.
pub(super) fn prepare_signals() {
    let handler: extern "C" fn(libc::c_int) = take_note;
    // SAFETY: the handler does nothing; the set is initialised by the call before its use.
    unsafe {
        libc::signal(SIGNAL, handler as libc::sighandler_t);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, SIGNAL);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// `sched_yield()`.
pub(super) fn give_way() {
    // SAFETY: plain system call, which cannot fail.
    unsafe { libc::sched_yield() };
}

/// Waits until the signal of tasks has come, and takes it.
pub(super) fn wait_for_signal() {
    // SAFETY: the set is initialised by the call before its use.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigsuspend(&raw const set);
    }
}

/// Sends the signal of tasks to a process, or to one thread of it. One that has ended has no need of it.
pub(super) fn signal(pid: u32, thread: Option<u32>) -> io::Result<()> {
    // SAFETY: plain system calls.
    let done = unsafe {
        match thread {
            None => libc::kill(pid.cast_signed(), SIGNAL),
            Some(thread) => libc::syscall(libc::SYS_tgkill, pid, thread, SIGNAL) as libc::c_int,
        }
    };
    let error = io::Error::last_os_error();
    if done == 0 || error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) }
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
    set_scheduler(tid, policy, 0)
}

/// Sets this thread's policy; its children start without it, and without a negative nice value.
pub(super) fn set_own_policy(policy: Policy) -> io::Result<()> {
    set_scheduler(0, policy, libc::SCHED_RESET_ON_FORK)
}

/// What sched_setattr(2) takes, in its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks the fair class for slices of this length for this thread, whose other attributes stay.
pub(super) fn set_own_slice(slice: DurationNs) -> io::Result<()> {
    let size = size_of::<SchedAttr>() as u32;
    let mut attr = SchedAttr::default();
    // SAFETY: writes at most that many bytes.
    check(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) } as libc::c_int)?;
    (attr.size, attr.runtime) = (size, slice.0);
    // SAFETY: reads that many bytes.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } as libc::c_int)
}

/// `SCHED_EXT` (include/uapi/linux/sched.h).
const SCHED_EXT: libc::c_int = 7;

/// `SCHED_DEADLINE` (the same place).
const SCHED_DEADLINE: u32 = 6;

/// `SCHED_FLAG_RESET_ON_FORK` (the same place).
const FLAG_RESET_ON_FORK: u64 = 1;

/// `sched_setattr(2)` with a reservation.
fn set_deadline(tid: u32, reservation: Reservation, reset_on_fork: bool) -> io::Result<()> {
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: SCHED_DEADLINE,
        flags: if reset_on_fork { FLAG_RESET_ON_FORK } else { 0 },
        runtime: reservation.runtime().0,
        deadline: reservation.deadline().0,
        period: reservation.period().0,
        ..SchedAttr::default()
    };
    // SAFETY: reads as many bytes as the size says.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0) } as libc::c_int)
}

fn set_scheduler(tid: u32, policy: Policy, flags: libc::c_int) -> io::Result<()> {
    let (number, priority) = match policy {
        Policy::Deadline(reservation) => {
            return set_deadline(tid, reservation, flags & libc::SCHED_RESET_ON_FORK != 0);
        }
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
        Policy::Ext => (SCHED_EXT, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, i32::from(priority)),
        Policy::Rr(priority) => (libc::SCHED_RR, i32::from(priority)),
    };
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: reads one sched_param.
    check(unsafe { libc::sched_setscheduler(tid.cast_signed(), number | flags, &raw const parameter) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Voluntary and involuntary switches of this thread so far.
pub(super) fn thread_switches() -> (u64, u64) {
    let usage = thread_usage();
    (usage.ru_nvcsw.cast_unsigned(), usage.ru_nivcsw.cast_unsigned())
}

/// CPU time that this thread has used in the kernel so far, ns.
pub(super) fn thread_kernel_ns() -> u64 {
    let time = thread_usage().ru_stime;
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_usec.cast_unsigned() * 1_000
}

fn thread_usage() -> libc::rusage {
    // SAFETY: rusage is plain data; it is written by the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    }
}

/// Ends this process at once, without destructors.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}
