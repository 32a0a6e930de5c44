//! Locks as timelines, and the ids of locks and timers.
//!
//! Kernel paths run on the host one after the other, so nobody ever waits in
//! host time. A lock remembers instead, in simulated time, since when it has
//! been busy without a gap and when it becomes free; who takes it in between
//! waits until then. A path that starts before the busy period (host order is
//! not exactly time order within a few microseconds) does not wait.

use schedlab_base::{CpuId, TimeNs};

/// A lock with a timeline: a run queue's, a DSQ's or one of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimLockId(pub u32);

/// A BPF timer; numbered by whoever arms it, densely from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u32);

/// One lock's timeline.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeline {
    busy_from: TimeNs,
    free_at: TimeNs,
    holder: Option<CpuId>,
}

/// What taking a lock means for the taker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// When the taker has it (before the costs of taking it).
    pub(crate) at: TimeNs,
    /// The lock's line comes from another CPU.
    pub(crate) transfer: bool,
}

impl Timeline {
    /// Takes the lock at `now`.
    pub(crate) fn acquire(&mut self, now: TimeNs, cpu: CpuId) -> Grant {
        let at = if now >= self.free_at {
            self.busy_from = now;
            now
        } else if now >= self.busy_from {
            self.free_at
        } else {
            now
        };
        let transfer = self.holder.is_some_and(|holder| holder != cpu);
        self.holder = Some(cpu);
        debug_assert!(at >= now, "a lock is not granted in the past");
        Grant { at, transfer }
    }

    /// Gives the lock back at `now`.
    pub(crate) fn release(&mut self, now: TimeNs) {
        self.free_at = self.free_at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_holders_queue_up() {
        let mut lock = Timeline::default();
        let (a, b) = (CpuId(0), CpuId(1));
        assert_eq!(lock.acquire(TimeNs(10), a), Grant { at: TimeNs(10), transfer: false });
        lock.release(TimeNs(30));
        assert_eq!(lock.acquire(TimeNs(15), b), Grant { at: TimeNs(30), transfer: true });
        lock.release(TimeNs(50));
        assert_eq!(lock.acquire(TimeNs(20), a).at, TimeNs(50));
        lock.release(TimeNs(70));
        assert_eq!(lock.acquire(TimeNs(100), a), Grant { at: TimeNs(100), transfer: false });
        lock.release(TimeNs(110));
    }

    #[test]
    fn an_earlier_path_does_not_wait_for_a_later_one() {
        let mut lock = Timeline::default();
        lock.acquire(TimeNs(100), CpuId(0));
        lock.release(TimeNs(120));
        assert_eq!(lock.acquire(TimeNs(90), CpuId(1)).at, TimeNs(90));
    }
}
