//! The loader's threads: one runs at a time, and those that wait do so in simulated time.
//!
//! The order depends on nothing of the host: the thread that ran continues until it waits, then the one that has been ready
//! longest. Futexes are kept here, since the thread that would wake another one in the host's kernel is stopped there.

use crate::tracee::{Call, Tracee};
use std::collections::VecDeque;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A futex: its address, the bits of the waiter, and the value it had.
    Futex { addr: u64, bits: u32, value: u32 },
    /// A descriptor: the call is made again whenever another thread has run.
    Ready,
    /// The deadline of the wait; nothing for a wait without one.
    Time,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The thread may run; the call that it is in returns this.
    Ready(Option<i64>),
    /// The thread may run, and makes its call again.
    Again,
    /// Before a call that waits for the simulated kernel.
    Held,
    /// The thread waits, until the loader's clock shows this.
    Waiting {
        what: Wait,
        until: Option<u64>,
        expired: i64,
    },
    Gone,
}

/// A thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) tracee: Tracee,
    pub(crate) state: State,
    /// The call that it is in.
    pub(crate) call: Option<Call>,
    /// A call that is made again keeps the deadline that it had first.
    pub(crate) until: Option<Option<u64>>,
    /// A signal that the thread gets when it is resumed.
    pub(crate) signal: i32,
    /// The thread looked at its descriptor and may read it.
    pub(crate) looked: bool,
}

/// All threads, in the order they were made.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    pub(crate) all: Vec<Thread>,
    /// The threads that may run, the one that waits longest first.
    queue: VecDeque<usize>,
    /// Threads that have stopped at their beginning before their maker reported them.
    begun: Vec<Tracee>,
}

impl Threads {
    /// The first thread.
    pub(crate) fn new(first: Tracee) -> Threads {
        let mut threads = Threads { all: Vec::new(), queue: VecDeque::new(), begun: Vec::new() };
        threads.add(first);
        threads
    }

    pub(crate) fn add(&mut self, tracee: Tracee) {
        self.queue.push_back(self.all.len());
        let state = State::Ready(None);
        self.all.push(Thread { tracee, state, call: None, until: None, signal: 0, looked: false });
    }

    /// The kernel tells that another thread than the one that ran has stopped, or that it is gone.
    pub(crate) fn told(&mut self, tracee: Tracee, stopped: bool) {
        if stopped {
            self.begun.push(tracee);
        } else if let Some(thread) = self.all.iter_mut().rfind(|thread| thread.tracee == tracee) {
            thread.state = State::Gone;
        }
    }

    /// True for a thread that has stopped at its beginning, once.
    pub(crate) fn take_begun(&mut self, tracee: Tracee) -> bool {
        let at = self.begun.iter().position(|begun| *begun == tracee);
        at.map(|at| self.begun.swap_remove(at)).is_some()
    }

    /// The thread to run next.
    pub(crate) fn next(&mut self) -> Option<usize> {
        while let Some(number) = self.queue.pop_front() {
            if matches!(self.all[number].state, State::Ready(_) | State::Again | State::Held) {
                return Some(number);
            }
        }
        None
    }

    /// True if a thread may run.
    pub(crate) fn has_ready(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The thread runs before all others.
    pub(crate) fn first(&mut self, number: usize) {
        self.queue.push_front(number);
    }

    /// The thread's turn comes after those that are ready.
    pub(crate) fn last(&mut self, number: usize) {
        self.queue.push_back(number);
    }

    /// Makes a waiting thread ready: its call gives `result`.
    fn ready(&mut self, number: usize, result: i64) {
        self.all[number].state = State::Ready(Some(result));
        self.all[number].until = None;
        self.queue.push_back(number);
    }

    /// Wakes up to `count` threads that wait for a futex.
    pub(crate) fn wake(&mut self, addr: u64, bits: u32, count: u64) -> u64 {
        let mut woken = 0;
        for number in 0..self.all.len() {
            let State::Waiting { what: Wait::Futex { addr: at, bits: own, .. }, .. } = self.all[number].state
            else {
                continue;
            };
            if at == addr && own & bits != 0 && woken < count {
                self.ready(number, 0);
                woken += 1;
            }
        }
        woken
    }

    /// A thread is gone: the kernel has cleared a word for those that wait for its end.
    pub(crate) fn wake_changed(&mut self) {
        for number in 0..self.all.len() {
            let thread = &self.all[number];
            let State::Waiting { what: Wait::Futex { addr, value, .. }, .. } = thread.state else { continue };
            if self.living().is_some_and(|tracee| tracee.number::<4>(addr) != Some(u64::from(value))) {
                self.ready(number, 0);
            }
        }
    }

    /// The threads that wait for descriptors look again.
    pub(crate) fn look_again(&mut self) {
        for number in 0..self.all.len() {
            if let State::Waiting { what: Wait::Ready, until, .. } = self.all[number].state {
                self.all[number].state = State::Again;
                self.all[number].until = Some(until);
                self.queue.push_back(number);
            }
        }
    }

    /// The earliest deadline.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let until = |thread: &Thread| match thread.state {
            State::Waiting { until, .. } => until,
            _ => None,
        };
        self.all.iter().filter_map(until).min()
    }

    /// Ends the waits whose deadlines have come.
    pub(crate) fn expire(&mut self, now: u64) {
        for number in 0..self.all.len() {
            if let State::Waiting { until: Some(until), expired, .. } = self.all[number].state
                && until <= now
            {
                self.ready(number, expired);
            }
        }
    }

    /// True if no thread is left.
    pub(crate) fn are_gone(&self) -> bool {
        self.all.iter().all(|thread| thread.state == State::Gone)
    }

    /// A thread through which the process can be looked at.
    pub(crate) fn living(&self) -> Option<Tracee> {
        self.all.iter().find(|thread| thread.state != State::Gone).map(|thread| thread.tracee)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(threads: &mut Threads, number: usize, what: Wait, until: Option<u64>) {
        threads.all[number].state = State::Waiting { what, until, expired: -110 };
    }

    #[test]
    fn futexes_wake_in_order_and_deadlines_end_waits() {
        let mut threads = Threads::new(Tracee(1));
        (2..5).for_each(|tid| threads.add(Tracee(tid)));
        assert_eq!(
            [threads.next(), threads.next(), threads.next(), threads.next(), threads.next()],
            [Some(0), Some(1), Some(2), Some(3), None]
        );
        let futex = |bits: u32| Wait::Futex { addr: 64, bits, value: 0 };
        waits(&mut threads, 0, futex(1), None);
        waits(&mut threads, 1, futex(u32::MAX), Some(500));
        waits(&mut threads, 2, futex(u32::MAX), Some(400));
        waits(&mut threads, 3, Wait::Time, Some(300));
        assert_eq!(threads.wake(64, 2, 1), 1, "the first one whose bits are meant");
        assert_eq!(threads.next(), Some(1));
        assert_eq!(threads.wake(65, 1, 9), 0);
        assert_eq!(threads.deadline(), Some(300));
        threads.expire(400);
        assert_eq!([threads.next(), threads.next(), threads.next()], [Some(2), Some(3), None]);
        assert_eq!(threads.all[3].state, State::Ready(Some(-110)));
    }
}
