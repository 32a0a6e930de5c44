//! The memory that all processes of a run share: start gate, results, locks.
//!
//! It is a memfd, so that a task can replace its process image and map it again. Everything in it
//! is an atomic or written before others may read it.

use super::group_slot::GroupSlot;
use schedlab_workload::MAX_SHARED_TIMERS;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Span samples that fit. Chosen: far above any workload of ours; untouched pages cost nothing.
pub(super) const SPAN_ROOM: u64 = 1 << 20;

/// Value of a figure that could not be had.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// The fixed part.
#[repr(C, align(64))]
pub(super) struct Header {
    /// 0 until the run starts; tasks wait on it.
    pub(super) go: AtomicU32,
    /// Tasks that wait at the gate.
    pub(super) ready: AtomicU32,
    /// Set by the caller when the run is to end early.
    pub(super) stop: AtomicU32,
    /// 1 as soon as one failure is recorded.
    pub(super) failed: AtomicU32,
    /// Of the first failure: the system's error number.
    pub(super) errno: AtomicU32,
    /// Of the first failure: what was being done ([`super::doing::Doing`]).
    pub(super) doing: AtomicU32,
    /// Of the first failure: task slot, or the number of slots for forked tasks.
    pub(super) culprit: AtomicU32,
    /// The leader's process group for tasks; 0 until it exists.
    pub(super) group: AtomicU32,
    /// Monotonic time of the start, ns.
    pub(super) begin: AtomicU64,
    /// Monotonic time of the end, ns; 0 while it lasts.
    pub(super) end: AtomicU64,
    /// Span samples claimed, those without room included.
    pub(super) spans: AtomicU64,
    /// Iterations of the spin loop per CPU microsecond, times 2^20.
    pub(super) spin_rate: AtomicU64,
    /// Tasks of the scenario that keep the run alive and have not ended.
    pub(super) foreground: AtomicU32,
    /// Process id of the leader.
    pub(super) leader: AtomicU32,
    /// Forked tasks that have ended.
    pub(super) forked: AtomicU64,
    /// CPU time in user space and in system calls of tasks that have ended and kept the run alive, and of
    /// their children, ns.
    pub(super) user_ns: AtomicU64,
    pub(super) system_ns: AtomicU64,
    /// The last expiries of the timers that all tasks share, monotonic ns; 0 before the first wait.
    pub(super) timers: [AtomicU64; MAX_SHARED_TIMERS],
}

/// What is known of one task.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// Thread id; 0 before the task exists.
    pub(super) tid: AtomicU32,
    /// Process id; 0 before the task exists.
    pub(super) pid: AtomicU32,
    /// 1 when the figures are final.
    pub(super) ended: AtomicU32,
    /// CPU time in ns since the gate.
    pub(super) cpu_ns: AtomicU64,
    /// CPU time in ns up to the gate: that of becoming the task, which is no part of the run.
    pub(super) before_ns: AtomicU64,
    /// The part of it in the kernel.
    pub(super) before_kernel_ns: AtomicU64,
    /// Switches that it asked for by blocking.
    pub(super) voluntary: AtomicU64,
    /// Switches that were forced on it.
    pub(super) involuntary: AtomicU64,
    /// Time it waited for a CPU in ns, or [`UNKNOWN`].
    pub(super) delay_ns: AtomicU64,
    /// Times it changed its CPU, or [`UNKNOWN`].
    pub(super) migrations: AtomicU64,
}

/// A word on a cache line of its own.
#[repr(C, align(64))]
pub(super) struct Word {
    /// Locks (disks have one too): their state. Condition variables: tickets served. Barriers: their generation. Shared
    /// integers: their value.
    pub(super) state: AtomicU32,
    /// Disks: monotonic time from which on the disk is idle, ns. Condition variables: tickets
    /// given out. Barriers: tasks that have arrived. Channels: when the connection was opened.
    pub(super) extra: AtomicU64,
    /// Disks: when the last write of a log begins. Channels: when the last message was sent.
    pub(super) more: AtomicU64,
}

/// One span sample; written once, by whoever claimed it.
#[repr(C)]
pub(super) struct Sample {
    pub(super) span: AtomicU64,
    pub(super) begin: AtomicU64,
    pub(super) end: AtomicU64,
}

/// How many of each there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) tasks: usize,
    pub(super) counters: usize,
    pub(super) locks: usize,
    pub(super) disks: usize,
    pub(super) conds: usize,
    pub(super) barriers: usize,
    pub(super) words: usize,
    pub(super) channels: usize,
    pub(super) groups: usize,
}

impl Counts {
    /// Counters of one task, rounded up to whole cache lines so that tasks do not share one.
    fn row(&self) -> usize {
        self.counters.div_ceil(8) * 8
    }

    fn slots_at(self) -> usize {
        size_of::<Header>()
    }

    /// One slot more than tasks, for the forked ones.
    fn words_at(&self) -> usize {
        self.slots_at() + (self.tasks + 1) * size_of::<Slot>()
    }

    fn counters_at(&self) -> usize {
        let words = self.locks + self.disks + self.conds + self.barriers + self.words + self.channels;
        self.words_at() + words * size_of::<Word>()
    }

    fn groups_at(&self) -> usize {
        self.counters_at() + (self.tasks + 1) * self.row() * 8
    }

    fn samples_at(&self) -> usize {
        self.groups_at() + self.groups * size_of::<GroupSlot>()
    }

    fn size(&self) -> usize {
        self.samples_at() + SPAN_ROOM as usize * size_of::<Sample>()
    }
}

/// The mapped memory. Unmapped when dropped.
pub(super) struct Shared {
    base: NonNull<u8>,
    counts: Counts,
    fd: OwnedFd,
}

// SAFETY: everything behind the pointer is accessed through atomics only.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Fresh memory, all zero.
    pub(super) fn new(counts: Counts) -> io::Result<Shared> {
        // SAFETY: the name is NUL-terminated; a descriptor or -1 is returned.
        let fd = unsafe { libc::memfd_create(c"schedlab".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened and owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: plain system call on an open descriptor.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), counts.size() as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Shared::map(fd, counts)
    }

    /// Maps the memory behind a descriptor that [`Shared::new`] made.
    pub(super) fn map(fd: OwnedFd, counts: Counts) -> io::Result<Shared> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                counts.size(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Shared { base, counts, fd })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    fn at<T>(&self, offset: usize) -> &T {
        assert!(offset + size_of::<T>() <= self.counts.size(), "outside of the shared memory");
        // SAFETY: inside the mapping (above); all offsets are multiples of the types' alignment;
        // the types consist of atomics, for which any content is valid.
        unsafe { self.base.add(offset).cast::<T>().as_ref() }
    }

    pub(super) fn header(&self) -> &Header {
        self.at(0)
    }

    /// Slot of a task; the number of tasks stands for all forked ones.
    pub(super) fn slot(&self, task: usize) -> &Slot {
        self.at(self.counts.slots_at() + task * size_of::<Slot>())
    }

    pub(super) fn lock(&self, lock: usize) -> &Word {
        self.at(self.counts.words_at() + lock * size_of::<Word>())
    }

    pub(super) fn disk(&self, disk: usize) -> &Word {
        self.lock(self.counts.locks + disk)
    }

    pub(super) fn cond(&self, cond: usize) -> &Word {
        self.disk(self.counts.disks + cond)
    }

    pub(super) fn barrier(&self, barrier: usize) -> &Word {
        self.cond(self.counts.conds + barrier)
    }

    /// A shared integer.
    pub(super) fn word(&self, word: usize) -> &AtomicU32 {
        &self.barrier(self.counts.barriers + word).state
    }

    /// What is known of a channel.
    pub(super) fn channel(&self, channel: usize) -> &Word {
        self.barrier(self.counts.barriers + self.counts.words + channel)
    }

    /// What is known of a group.
    pub(super) fn group(&self, group: usize) -> &GroupSlot {
        self.at(self.counts.groups_at() + group * size_of::<GroupSlot>())
    }

    /// A task's part of a counter.
    pub(super) fn counter(&self, task: usize, counter: usize) -> &AtomicU64 {
        self.at(self.counts.counters_at() + (task * self.counts.row() + counter) * 8)
    }

    /// A counter's value over all tasks.
    pub(super) fn counter_total(&self, counter: usize) -> u64 {
        (0..=self.counts.tasks).map(|task| self.counter(task, counter).load(Relaxed)).sum()
    }

    /// Records a finished span; without room it is only counted.
    pub(super) fn add_span(&self, span: u32, begin: u64, end: u64) {
        let place = self.header().spans.fetch_add(1, Relaxed);
        if place < SPAN_ROOM {
            let sample = self.sample(place);
            sample.span.store(u64::from(span) + 1, Relaxed);
            sample.begin.store(begin, Relaxed);
            sample.end.store(end, std::sync::atomic::Ordering::Release);
        }
    }

    pub(super) fn sample(&self, place: u64) -> &Sample {
        self.at(self.counts.samples_at() + place as usize * size_of::<Sample>())
    }

    /// Records the first failure of a run.
    pub(super) fn fail(&self, task: usize, doing: u32, errno: i32) {
        let header = self.header();
        if header.failed.compare_exchange(0, 1, Relaxed, Relaxed).is_ok() {
            header.culprit.store(task as u32, Relaxed);
            header.doing.store(doing, Relaxed);
            header.errno.store(errno.cast_unsigned(), Relaxed);
            header.failed.store(2, std::sync::atomic::Ordering::Release);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: our own mapping, not used afterwards.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.counts.size()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        let counts = Counts {
            tasks: 3,
            counters: 9,
            locks: 2,
            disks: 1,
            conds: 1,
            barriers: 1,
            words: 1,
            channels: 1,
            groups: 2,
        };
        let shared = Shared::new(counts).unwrap();
        shared.slot(3).cpu_ns.store(7, Relaxed);
        shared.disk(0).extra.store(8, Relaxed);
        shared.barrier(0).extra.store(6, Relaxed);
        shared.word(0).store(5, Relaxed);
        shared.channel(0).more.store(4, Relaxed);
        shared.counter(3, 8).store(9, Relaxed);
        shared.add_span(4, 10, 20);
        assert_eq!(shared.slot(3).cpu_ns.load(Relaxed), 7);
        assert_eq!(shared.disk(0).extra.load(Relaxed), 8);
        assert_eq!((shared.word(0).load(Relaxed), shared.barrier(0).extra.load(Relaxed)), (5, 6));
        assert_eq!(shared.counter_total(8), 9);
        assert_eq!(shared.channel(0).more.load(Relaxed), 4);
        assert_eq!(shared.sample(0).span.load(Relaxed), 5);
        assert_eq!(shared.group(1).figures(), super::super::GroupFigures::default());
        assert_eq!(shared.counter_total(0), 0);
    }

    #[test]
    fn only_the_first_failure_is_kept() {
        let shared = Shared::new(Counts { tasks: 1, ..Counts::default() }).unwrap();
        shared.fail(0, 3, 5);
        shared.fail(1, 4, 6);
        assert_eq!(shared.header().errno.load(Relaxed), 5);
    }
}
