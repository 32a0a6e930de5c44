//! What deadline tasks have, each and together: what the class of that name looks into.

use schedlab_base::{FULL_BANDWIDTH, Reservation, TaskId, TimeNs};

/// Bits that times lose before they are multiplied (`DL_SCALE`).
const SCALE: u32 = 10;

/// What a task has of its reservation (`struct sched_dl_entity`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct DlEntity {
    /// What it asked for.
    pub(crate) asked: Reservation,
    /// What is left of it in this period, ns; below zero when it overran.
    pub(crate) runtime: i64,
    /// When the instance is due; zero before the first one.
    pub(crate) deadline: TimeNs,
    /// The entity is on the queue of its CPU, running included.
    pub(crate) queued: bool,
    /// The entity waits for its next period.
    pub(crate) throttled: bool,
    /// The entity gave up the rest of this period.
    pub(crate) yielded: bool,
    /// The entity's replenishment is pending.
    pub(crate) armed: bool,
}

impl DlEntity {
    /// One that has not begun.
    pub(crate) fn new(asked: Reservation) -> DlEntity {
        DlEntity {
            asked,
            runtime: 0,
            deadline: TimeNs::ZERO,
            queued: false,
            throttled: false,
            yielded: false,
            armed: false,
        }
    }

    /// True if the entity waits for its next period, and is on no queue.
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttled && !self.queued
    }

    /// `dl_next_period()`.
    pub(crate) fn next_period(&self) -> TimeNs {
        self.deadline + (self.asked.period() - self.asked.deadline())
    }

    /// `replenish_dl_new_period()`.
    pub(crate) fn new_period(&mut self, now: TimeNs) {
        debug_assert!(self.asked.deadline() <= self.asked.period(), "a deadline lies in its period");
        self.deadline = now + self.asked.deadline();
        self.runtime = self.asked.runtime().0.cast_signed();
    }

    /// `replenish_dl_entity()`: runtime for as many periods as it takes to have some.
    pub(crate) fn replenish(&mut self, now: TimeNs) {
        if self.yielded {
            self.runtime = self.runtime.min(0);
        }
        if self.runtime <= 0 {
            let runtime = self.asked.runtime().0.cast_signed();
            debug_assert!(runtime > 0, "a reservation has a runtime");
            let periods = (-self.runtime / runtime + 1).cast_unsigned();
            self.deadline += self.asked.period() * periods;
            self.runtime += runtime * periods.cast_signed();
        }
        if self.deadline < now {
            self.new_period(now);
        }
        (self.yielded, self.throttled) = (false, false);
        debug_assert!(
            self.runtime > 0 && self.deadline >= now,
            "a replenished entity has runtime ahead of its deadline"
        );
    }

    /// `dl_entity_overflow()`: what is left of its runtime is more than its part of what is left until the deadline.
    pub(crate) fn overflows(&self, now: TimeNs) -> bool {
        let left = i128::from(self.asked.deadline().0 >> SCALE) * i128::from(self.runtime >> SCALE);
        let right =
            i128::from(self.deadline.since(now).0 >> SCALE) * i128::from(self.asked.runtime().0 >> SCALE);
        right < left
    }

    /// `update_dl_entity()`: the entity wakes, in an instance that can continue or in a new one.
    pub(crate) fn wakes(&mut self, now: TimeNs) {
        let passed = self.deadline < now;
        if !passed && !self.overflows(now) {
            return;
        }
        if passed || self.asked.is_implicit() {
            self.new_period(now);
        } else {
            // update_dl_revised_wakeup(): its part of what is left.
            let laxity = u128::from(self.deadline.since(now).0);
            self.runtime = (laxity * u128::from(self.asked.density()) / u128::from(FULL_BANDWIDTH)) as i64;
        }
    }

    /// True if it is activated after its deadline and before its next period (`dl_check_constrained_dl()`).
    pub(crate) fn is_early(&self, now: TimeNs) -> bool {
        !self.asked.is_implicit()
            && self.deadline > TimeNs::ZERO
            && self.deadline < now
            && now < self.next_period()
    }

    /// When its unused runtime would have been used up at its own bandwidth (`task_non_contending()`).
    pub(crate) fn zero_lag(&self) -> TimeNs {
        let asked = self.asked;
        debug_assert!(self.asked.runtime().0 > 0, "a reservation has a runtime");
        let left = u128::from(self.runtime.max(0).cast_unsigned());
        let span = left * u128::from(asked.period().0) / u128::from(asked.runtime().0);
        TimeNs(self.deadline.0.saturating_sub(span as u64))
    }
}

/// Bandwidth that deadline tasks have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admitted {
    /// Of all of them (`dl_b->total_bw` without the servers').
    pub(crate) tasks: u64,
    /// What tasks that are none any more still have, and until when.
    pub(crate) leaving: Vec<(TimeNs, TaskId, u64)>,
}

impl Admitted {
    /// What tasks have at `now`.
    pub(crate) fn at(&mut self, now: TimeNs) -> u64 {
        self.leaving.retain(|(until, ..)| *until > now);
        self.tasks + self.leaving.iter().map(|(.., bandwidth)| bandwidth).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn entity(asked: &str) -> DlEntity {
        DlEntity::new(asked.parse().unwrap())
    }

    #[test]
    fn a_first_instance_begins_when_it_wakes() {
        let mut task = entity("3ms/8ms/10ms");
        task.wakes(TimeNs(1));
        assert_eq!(
            (task.deadline.0, task.runtime, task.next_period().0),
            (8 * MS + 1, 3_000_000, 10 * MS + 1)
        );
    }

    #[test]
    fn an_overrun_is_paid_back() {
        let mut task = entity("3ms/10ms");
        task.wakes(TimeNs(1));
        (task.runtime, task.throttled) = (-1_000_000, true);
        task.replenish(TimeNs(10 * MS));
        assert_eq!((task.runtime, task.deadline.0, task.throttled), (2_000_000, 20 * MS + 1, false));
        task.runtime = -7_000_000;
        task.replenish(TimeNs(20 * MS));
        assert_eq!((task.runtime, task.deadline.0), (2_000_000, 50 * MS + 1));
    }

    #[test]
    fn who_yields_keeps_nothing() {
        let mut task = entity("3ms/10ms");
        task.wakes(TimeNs(1));
        task.yielded = true;
        task.replenish(TimeNs(10 * MS));
        assert_eq!((task.runtime, task.deadline.0, task.yielded), (3_000_000, 20 * MS + 1, false));
    }

    #[test]
    fn a_wakeup_goes_on_with_what_its_bandwidth_allows() {
        let mut task = entity("3ms/10ms");
        task.wakes(TimeNs(1));
        // 1 of 3 ms used after 1 of 10: the instance continues; 2 of 3 left with 1 of 10 to go: a new instance.
        task.runtime = 2_000_000;
        task.wakes(TimeNs(MS));
        assert_eq!((task.runtime, task.deadline.0), (2_000_000, 10 * MS + 1));
        task.wakes(TimeNs(9 * MS));
        assert_eq!((task.runtime, task.deadline.0), (3_000_000, 19 * MS));
    }

    #[test]
    fn a_constrained_task_gets_its_density() {
        let mut task = entity("2ms/4ms/10ms");
        task.wakes(TimeNs(1));
        task.wakes(TimeNs(3 * MS));
        assert_eq!((task.runtime, task.deadline.0), (500_000, 4 * MS + 1));
        assert!(task.is_early(TimeNs(5 * MS)) && !task.is_early(TimeNs(10 * MS + 1)));
    }

    #[test]
    fn bandwidth_is_free_at_the_zero_lag_time() {
        let mut task = entity("3ms/10ms");
        task.wakes(TimeNs(1));
        task.runtime = 1_500_000;
        assert_eq!(task.zero_lag().0, 5 * MS + 1);
    }
}
