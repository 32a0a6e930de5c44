//! Semaphores, futex-based mutexes, condition variables and barriers, and the
//! disk's queue.

use crate::lock::Timeline;
use schedlab_base::{DurationNs, TaskId, TimeNs};
use std::collections::VecDeque;

/// A System V semaphore. As the kernel does, a post performs the operation of
/// the waiter that it wakes: nobody can get in between.
#[derive(Debug)]
pub(crate) struct Semaphore {
    value: u64,
    waiters: VecDeque<TaskId>,
    /// The set's lock.
    pub(crate) lock: Timeline,
}

impl Semaphore {
    pub(crate) fn new(initial: u32) -> Semaphore {
        Semaphore { value: u64::from(initial), waiters: VecDeque::new(), lock: Timeline::default() }
    }

    /// Takes a unit or queues the task; false when it has to block.
    pub(crate) fn take(&mut self, task: TaskId) -> bool {
        if self.value > 0 {
            self.value -= 1;
            return true;
        }
        self.waiters.push_back(task);
        false
    }

    /// Adds units.
    pub(crate) fn add(&mut self, units: u32) {
        self.value += u64::from(units);
    }

    /// Gives a unit to the longest waiter; it is to be woken.
    pub(crate) fn grant(&mut self) -> Option<TaskId> {
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
    waiters: VecDeque<TaskId>,
}

impl Mutex {
    /// The attempt in user space; false when the caller has to ask the kernel.
    pub(crate) fn try_take(&mut self) -> bool {
        if self.word == MutexWord::Free {
            self.word = MutexWord::Held;
            return true;
        }
        self.word = MutexWord::Contended;
        false
    }

    /// The attempt of one that has waited or is about to: takes the mutex as a
    /// contended one, or queues; false when the caller has to block.
    pub(crate) fn take_contended(&mut self, task: TaskId) -> bool {
        if self.word == MutexWord::Free {
            self.word = MutexWord::Contended;
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
}

/// A condition variable.
#[derive(Debug, Default)]
pub(crate) struct Cond {
    waiters: VecDeque<TaskId>,
}

impl Cond {
    /// Queues a waiter.
    pub(crate) fn wait(&mut self, task: TaskId) {
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

    /// A task arrives; true when it is the last one, and how many it has to wake.
    pub(crate) fn arrive(&mut self, task: TaskId) -> Option<usize> {
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
}

impl Disk {
    /// Adds a request at `now`; it is done at the instant returned.
    pub(crate) fn submit(&mut self, now: TimeNs, service: DurationNs) -> TimeNs {
        self.free_at = self.free_at.max(now) + service;
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semaphores_hand_units_over_in_order() {
        let mut sem = Semaphore::new(1);
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
    fn uncontended_mutexes_stay_out_of_the_kernel() {
        let mut mutex = Mutex::default();
        assert!(mutex.try_take());
        assert!(!mutex.release());
        assert!(mutex.try_take());
        assert!(!mutex.try_take());
        assert!(!mutex.take_contended(TaskId(2)));
        assert!(mutex.release());
        assert_eq!(mutex.pop_waiter(), Some(TaskId(2)));
        // A newcomer is faster; the woken one queues again.
        assert!(mutex.try_take());
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
}
