//! The fair queue of a CPU: its entities by deadline, and the sums behind their average.

use crate::class::fair::division::quotient;
use crate::class::fair::pelt::{Averages, Since};
use crate::class::fair::{FairEntity, WEIGHT_SHIFT};
use crate::state::group::GroupIx;
use schedlab_base::TaskId;

/// A CPU's fair queue; sums include the running entity.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairRq {
    /// Entities that wait, by deadline, those of one deadline in the order of their coming.
    pub(super) order: Vec<(i64, TaskId)>,
    /// The running entity.
    pub(crate) curr: Option<TaskId>,
    /// Sum of weight times vruntime.
    pub(super) sum_weighted: i128,
    pub(super) sum_weight: u64,
    /// Where `V` was when the queue was last empty.
    pub(super) floor: i64,
    /// Entities, running and delayed ones included (`h_nr_queued`).
    pub(crate) nr: u32,
    /// Delayed ones among them.
    pub(crate) delayed: u32,
    /// Queued entities with a slice of their own.
    pub(super) custom: u32,
    /// Weights of the tasks and groups of the root that are queued (`cfs_rq->load`), scaled.
    pub(crate) load: u64,
    /// Groups that have averages here.
    pub(crate) leaves: Vec<GroupIx>,
    /// Of the entities that are here or went to sleep here.
    pub(crate) averages: Averages,
}

impl FairRq {
    /// The average `V`, rounded down.
    pub(super) fn average(&self) -> i64 {
        debug_assert!(self.sum_weight > 0 || self.nr == 0, "queued entities have weight");
        if self.sum_weight == 0 {
            return self.floor;
        }
        quotient(self.sum_weighted, self.sum_weight)
    }

    /// The average of the others, rounded down: from there on the running entity is not eligible (`ineligible_vruntime()`).
    pub(super) fn average_without(&self, entity: &FairEntity) -> i64 {
        debug_assert!(self.sum_weight >= entity.weight, "the entity is one of the sum");
        let weight = self.sum_weight - entity.weight;
        let others = self.sum_weighted - i128::from(entity.vruntime) * i128::from(entity.weight);
        if weight == 0 { entity.vruntime } else { quotient(others, weight) }
    }

    pub(crate) fn eligible(&self, vruntime: i64) -> bool {
        self.sum_weighted >= i128::from(vruntime) * i128::from(self.sum_weight)
    }

    pub(super) fn add(&mut self, vruntime: i64, weight: u64) {
        debug_assert!(weight > 0, "an entity has a weight");
        self.sum_weighted += i128::from(vruntime) * i128::from(weight);
        self.sum_weight += weight;
        self.nr += 1;
    }

    pub(super) fn sub(&mut self, vruntime: i64, weight: u64) {
        self.sum_weighted -= i128::from(vruntime) * i128::from(weight);
        self.sum_weight -= weight;
        self.nr -= 1;
        if self.nr == 0 {
            // The average of one is where it stands.
            self.floor = vruntime;
        }
        debug_assert!(self.nr > 0 || (self.sum_weight == 0 && self.sum_weighted == 0), "sums match");
    }

    pub(super) fn order_insert(&mut self, deadline: i64, task: TaskId) {
        let at = self.order.partition_point(|&(other, _)| other <= deadline);
        self.order.insert(at, (deadline, task));
        debug_assert!(
            self.order.is_sorted_by_key(|&(deadline, _)| deadline),
            "the order is one of deadlines"
        );
    }

    pub(super) fn order_remove(&mut self, deadline: i64, task: TaskId) {
        let from = self.order.partition_point(|&(other, _)| other < deadline);
        let at = self.order[from..].iter().position(|&(_, other)| other == task);
        self.order.remove(from + at.expect("a waiting entity is in the order"));
    }

    /// Accounts for the state up to now, as long as nothing has changed.
    pub(crate) fn since(&self) -> Since {
        let runnable = u64::from(self.runnable());
        Since { load: self.load >> WEIGHT_SHIFT, runnable, running: self.curr.is_some() }
    }

    /// Entities whose tasks do not sleep (`h_nr_runnable`).
    pub(crate) fn runnable(&self) -> u32 {
        self.nr - self.delayed
    }

    /// Queued entities that do not run, delayed ones included, earliest deadline first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.order.iter().map(|&(_, task)| task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_and_eligibility() {
        let mut rq = FairRq::default();
        rq.add(100, 1024);
        rq.add(400, 2048);
        assert_eq!(rq.average(), 300);
        assert!(rq.eligible(300) && !rq.eligible(301));
        rq.sub(400, 2048);
        assert_eq!(rq.average(), 100);
        rq.sub(100, 1024);
        assert_eq!((rq.average(), rq.nr), (100, 0));
    }
}
