//! Semaphores, eventfds, futex-based mutexes, condition variables and barriers, and
//! the queues of disks and listening sockets.

use crate::event::lock::Timeline;
use schedlab_base::{DurationNs, TaskId, TimeNs};
use schedlab_workload::{ChannelId, SemKind, Semaphore as Spec};
use std::collections::VecDeque;

/// A System V semaphore or an eventfd. As the kernel does, a post to the former performs the
/// operation of the waiter that it wakes: no other task can get in between. The readers of an
/// eventfd are all woken and try again.
#[derive(Debug)]
pub(crate) struct Semaphore {
    kind: SemKind,
    value: u64,
    waiters: VecDeque<TaskId>,
    /// The set's lock.
    pub(crate) lock: Timeline,
}

impl Semaphore {
    pub(crate) fn new(spec: &Spec) -> Semaphore {
        Semaphore {
            kind: spec.kind,
            value: u64::from(spec.initial),
            waiters: VecDeque::new(),
            lock: Timeline::default(),
        }
    }

    /// True when a unit can be taken.
    pub(crate) fn is_readable(&self) -> bool {
        self.value > 0
    }

    /// True when a woken waiter has its unit: it does not try again.
    pub(crate) fn serves_waiters(&self) -> bool {
        self.kind == SemKind::Sysv
    }

    /// Takes all units.
    pub(crate) fn drain(&mut self) {
        self.value = 0;
    }

    /// Takes a unit or queues the task; false when it has to block.
    pub(crate) fn take(&mut self, task: TaskId) -> bool {
        if self.value > 0 {
            self.value -= 1;
            return true;
        }
        debug_assert!(!self.waiters.contains(&task), "a task waits once");
        self.waiters.push_back(task);
        false
    }

    /// Adds units.
    pub(crate) fn add(&mut self, units: u32) {
        self.value += u64::from(units);
    }

    /// After a post, until none is left: the next waiter to wake, with its unit if waiters are
    /// served.
    pub(crate) fn grant(&mut self) -> Option<TaskId> {
        if !self.serves_waiters() {
            return self.waiters.pop_front();
        }
        if self.value == 0 {
            return None;
        }
        let task = self.waiters.pop_front()?;
        self.value -= 1;
        Some(task)
    }
}

/// The word of a futex mutex as the C library uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MutexWord {
    #[default]
    Free,
    Held,
    /// Held, and the holder has to call the kernel when it unlocks.
    Contended,
}

/// A mutex on a futex: woken waiters compete with newcomers for it, as with the
/// C library's default mutexes.
#[derive(Debug, Default)]
pub(crate) struct Mutex {
    word: MutexWord,
    /// The task that has taken it last; it holds the mutex unless the word is free.
    taker: TaskId,
    waiters: VecDeque<TaskId>,
}

impl Mutex {
    /// The attempt in user space; false when the caller has to ask the kernel.
    pub(crate) fn try_take(&mut self, task: TaskId) -> bool {
        if self.word == MutexWord::Free {
            (self.word, self.taker) = (MutexWord::Held, task);
            return true;
        }
        self.word = MutexWord::Contended;
        false
    }

    /// The attempt of one that has waited or is about to: takes the mutex as a
    /// contended one, or queues; false when the caller has to block.
    pub(crate) fn take_contended(&mut self, task: TaskId) -> bool {
        debug_assert!(!self.waiters.contains(&task), "a task that runs does not wait");
        if self.word == MutexWord::Free {
            (self.word, self.taker) = (MutexWord::Contended, task);
            return true;
        }
        self.word = MutexWord::Contended;
        self.waiters.push_back(task);
        false
    }

    /// The release in user space; true when the caller has to call the kernel.
    pub(crate) fn release(&mut self) -> bool {
        std::mem::take(&mut self.word) == MutexWord::Contended
    }

    /// The longest waiter, to be woken.
    pub(crate) fn pop_waiter(&mut self) -> Option<TaskId> {
        self.waiters.pop_front()
    }

    /// The task that holds it.
    pub(crate) fn holder(&self) -> Option<TaskId> {
        (self.word != MutexWord::Free).then_some(self.taker)
    }

    /// The word in memory: 0 free, 1 held, 2 held with waiters.
    pub(crate) fn word(&self) -> u32 {
        self.word as u32
    }
}

/// A mutex on a priority-inheriting futex: the holder's id is in the word, and a
/// release hands it to the best waiter.
#[derive(Debug, Default)]
pub(crate) struct PiMutex {
    owner: Option<TaskId>,
    waiters: VecDeque<TaskId>,
}

impl PiMutex {
    /// The task that holds it.
    pub(crate) fn owner(&self) -> Option<TaskId> {
        self.owner
    }

    /// The tasks that wait, in order of arrival.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.waiters.iter().copied()
    }

    /// The attempt in user space, by which the holder's id is written into the word.
    pub(crate) fn try_take(&mut self, task: TaskId) -> bool {
        if self.owner.is_none() {
            self.owner = Some(task);
        }
        self.owner == Some(task)
    }

    /// Queues a task that found the mutex taken.
    pub(crate) fn wait(&mut self, task: TaskId) {
        debug_assert!(
            self.owner.is_some() && self.owner != Some(task),
            "a task waits for another one's lock"
        );
        self.waiters.push_back(task);
    }

    /// The release in user space; false when the holder has to call the kernel.
    pub(crate) fn try_release(&mut self) -> bool {
        if self.waiters.is_empty() {
            self.owner = None;
        }
        self.waiters.is_empty()
    }

    /// The release in the kernel: the new holder, to be woken. `rank` orders waiters,
    /// the smallest first, equals by arrival.
    pub(crate) fn hand_over(&mut self, rank: impl Fn(TaskId) -> i32) -> Option<TaskId> {
        debug_assert!(self.owner.is_some(), "a lock that is handed over has an owner");
        let best = (0..self.waiters.len()).min_by_key(|&at| (rank(self.waiters[at]), at));
        self.owner = best.and_then(|at| self.waiters.remove(at));
        self.owner
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub(crate) struct Cond {
    waiters: VecDeque<TaskId>,
}

impl Cond {
    /// Queues a waiter.
    pub(crate) fn wait(&mut self, task: TaskId) {
        debug_assert!(!self.waiters.contains(&task), "a task waits once");
        self.waiters.push_back(task);
    }

    /// The number of waiters.
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// The longest waiter, to be woken.
    pub(crate) fn pop_waiter(&mut self) -> Option<TaskId> {
        self.waiters.pop_front()
    }
}

/// A barrier for a fixed number of parties; it can be used again and again.
#[derive(Debug)]
pub(crate) struct Barrier {
    parties: usize,
    waiters: VecDeque<TaskId>,
}

impl Barrier {
    pub(crate) fn new(parties: u32) -> Barrier {
        Barrier { parties: parties as usize, waiters: VecDeque::new() }
    }

    /// How many tasks are at the barrier, and how many it waits for.
    pub(crate) fn arrived(&self) -> (usize, usize) {
        (self.waiters.len(), self.parties)
    }

    /// A task arrives; true when it is the last one, and how many it has to wake.
    pub(crate) fn arrive(&mut self, task: TaskId) -> Option<usize> {
        debug_assert!(
            self.waiters.len() < self.parties && !self.waiters.contains(&task),
            "the last one to arrive frees all"
        );
        if self.waiters.len() + 1 == self.parties {
            return Some(self.waiters.len());
        }
        self.waiters.push_back(task);
        None
    }

    /// The next waiter to wake.
    pub(crate) fn pop_waiter(&mut self) -> Option<TaskId> {
        self.waiters.pop_front()
    }
}

/// A disk: one request after the other.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    free_at: TimeNs,
    /// The last write of a log: when it begins and when it is done.
    log: Option<(TimeNs, TimeNs)>,
}

impl Disk {
    /// Adds a request at `now`; it is done at the instant returned.
    pub(crate) fn submit(&mut self, now: TimeNs, service: DurationNs) -> TimeNs {
        self.free_at = self.free_at.max(now) + service;
        debug_assert!(self.free_at >= now, "a request ends after it is made");
        self.free_at
    }

    /// Adds a write of a log at `now`, or joins one that has not begun; it is done at the
    /// instant returned.
    pub(crate) fn sync(&mut self, now: TimeNs, service: DurationNs) -> TimeNs {
        if let Some((_, done)) = self.log.filter(|&(begin, _)| begin > now) {
            return done;
        }
        let begin = self.free_at.max(now);
        let done = self.submit(now, service);
        self.log = Some((begin, done));
        done
    }
}

/// A listening socket: connections that wait to be accepted, and the tasks that wait for one.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    pending: VecDeque<ChannelId>,
    waiters: VecDeque<TaskId>,
    /// The socket's lock.
    pub(crate) lock: Timeline,
}

impl Listener {
    /// Queues a connection; the waiter to be woken for it.
    pub(crate) fn connect(&mut self, channel: ChannelId) -> Option<TaskId> {
        self.pending.push_back(channel);
        self.waiters.pop_front()
    }

    /// The longest waiting connection; without one the task is queued, and has to block.
    pub(crate) fn accept(&mut self, task: TaskId) -> Option<ChannelId> {
        let channel = self.pending.pop_front();
        debug_assert!(channel.is_some() || !self.waiters.contains(&task), "a task waits once");
        if channel.is_none() {
            self.waiters.push_back(task);
        }
        channel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semaphores_hand_units_over_in_order() {
        let mut sem = Semaphore::new(&Spec { kind: SemKind::Sysv, initial: 1 });
        assert!(sem.take(TaskId(1)));
        assert!(!sem.take(TaskId(2)));
        assert!(!sem.take(TaskId(3)));
        sem.add(1);
        assert_eq!(sem.grant(), Some(TaskId(2)));
        assert_eq!(sem.grant(), None);
        sem.add(2);
        assert_eq!((sem.grant(), sem.grant()), (Some(TaskId(3)), None));
        assert!(sem.take(TaskId(4)));
    }

    #[test]
    fn readers_of_an_eventfd_all_try_again() {
        let mut eventfd = Semaphore::new(&Spec { kind: SemKind::EventFd, initial: 0 });
        assert!(!eventfd.take(TaskId(1)) && !eventfd.take(TaskId(2)));
        eventfd.add(1);
        assert_eq!((eventfd.grant(), eventfd.grant()), (Some(TaskId(1)), Some(TaskId(2))));
        assert_eq!(eventfd.grant(), None);
        assert!(eventfd.take(TaskId(2)) && !eventfd.take(TaskId(1)));
    }

    #[test]
    fn a_priority_inheriting_mutex_is_handed_to_the_best_waiter() {
        let mut mutex = PiMutex::default();
        assert!(mutex.try_take(TaskId(1)));
        assert!(!mutex.try_take(TaskId(2)));
        mutex.wait(TaskId(2));
        mutex.wait(TaskId(3));
        assert!(!mutex.try_release());
        assert_eq!(mutex.hand_over(|task| if task == TaskId(3) { 98 } else { 99 }), Some(TaskId(3)));
        assert!(!mutex.try_take(TaskId(1)));
        assert_eq!(mutex.hand_over(|_| 99), Some(TaskId(2)));
        assert!(mutex.try_release() && mutex.owner().is_none());
    }

    #[test]
    fn uncontended_mutexes_stay_out_of_the_kernel() {
        let mut mutex = Mutex::default();
        assert!(mutex.try_take(TaskId(1)));
        assert!(!mutex.release());
        assert!(mutex.try_take(TaskId(1)));
        assert!(!mutex.try_take(TaskId(1)));
        assert!(!mutex.take_contended(TaskId(2)));
        assert!(mutex.release());
        assert_eq!(mutex.pop_waiter(), Some(TaskId(2)));
        // A newcomer is faster; the woken one queues again.
        assert!(mutex.try_take(TaskId(1)));
        assert!(!mutex.take_contended(TaskId(2)));
    }

    #[test]
    fn barriers_work_again() {
        let mut barrier = Barrier::new(2);
        for _ in 0..2 {
            assert_eq!(barrier.arrive(TaskId(1)), None);
            assert_eq!(barrier.arrive(TaskId(2)), Some(1));
            assert_eq!(barrier.pop_waiter(), Some(TaskId(1)));
        }
        assert_eq!(Barrier::new(1).arrive(TaskId(1)), Some(0));
    }

    #[test]
    fn disk_requests_queue_up() {
        let mut disk = Disk::default();
        let ms = DurationNs::from_ms;
        assert_eq!(disk.submit(TimeNs(0), ms(4)), TimeNs(4_000_000));
        assert_eq!(disk.submit(TimeNs(1_000_000), ms(2)), TimeNs(6_000_000));
        assert_eq!(disk.submit(TimeNs(50_000_000), ms(2)), TimeNs(52_000_000));
    }

    #[test]
    fn log_writes_are_shared_by_those_who_come_before_they_begin() {
        let mut disk = Disk::default();
        let ms = |ms| TimeNs::ZERO + DurationNs::from_ms(ms);
        assert_eq!(disk.sync(ms(0), DurationNs::from_ms(5)), ms(5));
        // The first one is under way: a second one for the next two.
        assert_eq!(disk.sync(ms(1), DurationNs::from_ms(5)), ms(10));
        assert_eq!(disk.submit(ms(2), DurationNs::from_ms(3)), ms(13));
        assert_eq!(disk.sync(ms(4), DurationNs::from_ms(5)), ms(10));
        assert_eq!(disk.sync(ms(5), DurationNs::from_ms(5)), ms(18));
    }

    #[test]
    fn connections_are_accepted_in_order_by_the_longest_waiter() {
        let mut listener = Listener::default();
        assert_eq!(listener.accept(TaskId(1)), None);
        assert_eq!(listener.accept(TaskId(2)), None);
        assert_eq!(listener.connect(ChannelId(7)), Some(TaskId(1)));
        assert_eq!(listener.connect(ChannelId(9)), Some(TaskId(2)));
        assert_eq!(listener.connect(ChannelId(3)), None);
        // A newcomer may be faster than the woken task.
        assert_eq!(listener.accept(TaskId(3)), Some(ChannelId(7)));
        assert_eq!(listener.accept(TaskId(1)), Some(ChannelId(9)));
    }
}
