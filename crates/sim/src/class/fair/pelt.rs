//! Load tracking by entity (PELT, `kernel/sched/pelt.c`): averages over the past in which what was 32 periods ago counts half.
//!
//! A period is 1024 us. The averages steer where the fair class places its tasks and how it spreads them.

/// What `0.5^(k/32)` is for k in 0..32, times 2^32 - 1 (`runnable_avg_yN_inv`).
const DECAY: [u32; 32] = decay_table();
/// Of an endless sequence of busy periods with that decay: what all of them come to (`LOAD_AVG_MAX`).
const SUM_MAX: u64 = 47_742;
/// us in a period, and the capacity of a CPU.
pub(crate) const SCALE: u64 = 1024;

/// By square roots in fixed point, 64 binary places.
const fn decay_table() -> [u32; 32] {
    let mut step = 1u128 << 63;
    let mut roots = 0;
    while roots < 5 {
        step = (step << 64).isqrt();
        roots += 1;
    }
    let (mut table, mut power, mut k) = ([0; 32], 1u128 << 64, 0);
    while k < 32 {
        table[k] = ((power * u32::MAX as u128) >> 64) as u32;
        power = (power * step) >> 64;
        k += 1;
    }
    table
}

/// `decay_load()`: a sum as it is after so many periods.
fn decayed(sum: u64, periods: u64) -> u64 {
    if periods > 63 * 32 {
        return 0;
    }
    let halved = sum >> (periods / 32);
    ((u128::from(halved) * u128::from(DECAY[(periods % 32) as usize])) >> 32) as u64
}

/// The state since the last update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    /// Weight on the queue; of an entity 1 or 0.
    pub(crate) load: u64,
    /// Entities that ran or wanted to.
    pub(crate) runnable: u64,
    /// One of them ran.
    pub(crate) running: bool,
}

/// Averages of an entity or of a queue (`struct sched_avg`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Averages {
    /// ns.
    updated: u64,
    /// us of the present period that are in the sums.
    within: u64,
    load_sum: u64,
    runnable_sum: u64,
    util_sum: u64,
    /// Weight while runnable.
    pub(crate) load: u64,
    /// Number of runnable entities, times [`SCALE`].
    pub(crate) runnable: u64,
    /// Share of the time in which it ran, times [`SCALE`].
    pub(crate) util: u64,
}

impl Averages {
    /// Of a new task: its load is its weight, and it takes half of what the queue has left, or as much as its weight among
    /// those there (`init_entity_runnable_average()`, `post_init_entity_util_avg()`).
    pub(crate) fn of_new(weight: u64, queue: &Averages) -> Averages {
        let most = SCALE.saturating_sub(queue.util) / 2;
        let util = if queue.util == 0 { most } else { (queue.util * weight / (queue.load + 1)).min(most) };
        Averages { load: weight, runnable: util, util, ..Averages::default() }
    }

    fn divider(&self) -> u64 {
        SUM_MAX - SCALE + self.within
    }

    /// A microsecond or more has passed since they were brought up to date.
    #[inline(always)]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now.saturating_sub(self.updated) >> 10 > 0
    }

    /// `___update_load_sum()` and `___update_load_avg()`: up to `now` (ns), of an entity with this weight; 1 for a queue.
    #[inline(always)]
    pub(crate) fn update(&mut self, now: u64, since: Since, weight: u64) {
        let us = now.saturating_sub(self.updated) >> 10;
        if us == 0 {
            return;
        }
        self.updated += us << 10;
        debug_assert!(self.within < SCALE, "a part of a period is shorter than the period");
        let since = if since.load == 0 { Since { runnable: 0, running: false, ..since } } else { since };
        if us + self.within >= SCALE {
            return self.end_periods(us, since, weight);
        }
        self.within += us;
        self.accumulate(us, since);
    }

    /// A period has ended, or several have. Few updates are of this kind.
    #[inline(never)]
    fn end_periods(&mut self, us: u64, since: Since, weight: u64) {
        let total = us + self.within;
        let periods = total / SCALE;
        debug_assert!(periods > 0, "a period has ended");
        for sum in [&mut self.load_sum, &mut self.runnable_sum, &mut self.util_sum] {
            *sum = decayed(*sum, periods);
        }
        // The rest of the first period, the whole ones, the begin of the present one.
        let whole = SUM_MAX - decayed(SUM_MAX, periods) - SCALE;
        let part = decayed(SCALE - self.within, periods) + whole + total % SCALE;
        self.within = total % SCALE;
        self.accumulate(part, since);
        let divider = self.divider();
        self.load = weight * self.load_sum / divider;
        self.runnable = self.runnable_sum / divider;
        self.util = self.util_sum / divider;
    }

    /// `accumulate_sum()`: `part` us, as they count at the end of them.
    #[inline(always)]
    fn accumulate(&mut self, part: u64, since: Since) {
        self.load_sum += since.load * part;
        self.runnable_sum += since.runnable * part * SCALE;
        self.util_sum += if since.running { part * SCALE } else { 0 };
    }

    /// `attach_entity_load_avg()`: the entity with this weight counts in the averages of the queue from now on.
    pub(crate) fn attach(&mut self, queue: &mut Averages, weight: u64) {
        (self.updated, self.within) = (queue.updated, queue.within);
        debug_assert!(weight > 0, "an entity has a weight");
        let divider = queue.divider();
        self.load_sum = self.load * divider / weight;
        (self.runnable_sum, self.util_sum) = (self.runnable * divider, self.util * divider);
        queue.load += self.load;
        queue.load_sum += self.load_sum * weight;
        queue.runnable += self.runnable;
        queue.runnable_sum += self.runnable_sum;
        queue.util += self.util;
        queue.util_sum += self.util_sum;
    }

    /// `detach_entity_load_avg()`: it does not any more. Sums are at least what the averages say, against rounding.
    pub(crate) fn detach(&self, queue: &mut Averages, weight: u64) {
        debug_assert!(weight > 0, "an entity has a weight");
        let least = SUM_MAX - SCALE;
        queue.load = queue.load.saturating_sub(self.load);
        queue.load_sum = queue.load_sum.saturating_sub(self.load_sum * weight).max(queue.load * least);
        queue.runnable = queue.runnable.saturating_sub(self.runnable);
        queue.runnable_sum = queue.runnable_sum.saturating_sub(self.runnable_sum).max(queue.runnable * least);
        queue.util = queue.util.saturating_sub(self.util);
        queue.util_sum = queue.util_sum.saturating_sub(self.util_sum).max(queue.util * least);
    }

    /// The sum behind the load, of one entity.
    pub(crate) fn load_sum(&self) -> u64 {
        self.load_sum
    }

    /// Nothing is left of the past (`load_avg_is_decayed()`).
    pub(crate) fn is_decayed(&self) -> bool {
        self.load_sum == 0 && self.runnable_sum == 0 && self.util_sum == 0
    }

    /// A group's entity, which has no past, counts in the averages of a queue from now on.
    pub(crate) fn align(&mut self, queue: &Averages) {
        debug_assert!(self.is_decayed(), "what has a past is attached");
        (self.updated, self.within) = (queue.updated, queue.within);
    }

    /// `propagate_entity_load_avg()`: in a group's queue (`below`, of this unscaled load) the averages of entities came or went, `moved` in sum. Its entity,
    /// which has this weight, and the queue that the entity is in follow.
    pub(crate) fn follow(
        &mut self,
        queue: &mut Averages,
        below: &Averages,
        (weight, load, moved): (u64, u64, i64),
    ) {
        let divider = queue.divider();
        let shift = |avg: &mut u64, sum: &mut u64, (from_avg, to_avg): (u64, u64), (from, to): (u64, u64)| {
            *avg = (*avg + to_avg).saturating_sub(from_avg);
            *sum = (*sum + to).saturating_sub(from).max(*avg * (SUM_MAX - SCALE));
        };
        let (util, runnable) = (below.util * divider, below.runnable * divider);
        shift(&mut queue.util, &mut queue.util_sum, (self.util, below.util), (self.util_sum, util));
        shift(
            &mut queue.runnable,
            &mut queue.runnable_sum,
            (self.runnable, below.runnable),
            (self.runnable_sum, runnable),
        );
        (self.util, self.util_sum, self.runnable, self.runnable_sum) =
            (below.util, util, below.runnable, runnable);
        if moved == 0 {
            return;
        }
        let sum = if moved > 0 {
            (self.load_sum + moved as u64).min(divider)
        } else {
            // As if all tasks of the queue were runnable for the same part of the time.
            self.load_sum.min(below.load_sum.checked_div(load).unwrap_or(0))
        };
        let sum = sum.max(self.util_sum >> 10);
        let new = weight * sum / divider;
        shift(&mut queue.load, &mut queue.load_sum, (self.load, new), (weight * self.load_sum, weight * sum));
        (self.load, self.load_sum) = (new, sum);
    }

    /// `reweight_entity()`: another weight of one that counts in the averages of a queue.
    pub(crate) fn reweigh_within(&mut self, queue: &mut Averages, (old, new): (u64, u64)) {
        queue.load = queue.load.saturating_sub(self.load);
        queue.load_sum =
            queue.load_sum.saturating_sub(old * self.load_sum).max(queue.load * (SUM_MAX - SCALE));
        self.reweigh(new);
        queue.load += self.load;
        queue.load_sum += new * self.load_sum;
    }

    /// `reweight_entity()`: another weight of one that counts nowhere.
    pub(crate) fn reweigh(&mut self, weight: u64) {
        self.load = weight * self.load_sum / self.divider();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const BUSY: Since = Since { load: 1, runnable: 1, running: true };
    const ASLEEP: Since = Since { load: 0, runnable: 0, running: false };

    #[test]
    fn half_is_forgotten_in_32_periods() {
        assert_eq!(
            (DECAY[0], DECAY[1], DECAY[16], DECAY[31]),
            (0xffff_ffff, 0xfa83_b2da, 0xb504_f333, 0x82cd_8698)
        );
        assert_eq!((decayed(1 << 40, 32), decayed(1 << 40, 64) >> 20), ((1 << 39) - 128, (1 << 18) - 1));
        assert_eq!(decayed(u64::MAX, 3_000), 0);
    }

    #[test]
    fn averages_follow_what_goes_on() {
        let mut task = Averages::default();
        for ms in 1..=1_000 {
            task.update(ms * MS, BUSY, 1024);
        }
        assert!((1020..=1024).contains(&task.util) && (1020..=1024).contains(&task.load), "{task:?}");
        // 32 periods are 33.6 ms (of 1000 us, 1024 of 1024 ns each).
        task.update(1_000 * MS + 32 * 1024 * 1024, ASLEEP, 1024);
        assert!((508..=514).contains(&task.util), "{task:?}");
        // In one step or in many.
        let mut often = Averages::default();
        let mut once = often;
        for us in 1..=50_000 {
            often.update(us * 1024, BUSY, 335);
        }
        once.update(50_000 * 1024, BUSY, 335);
        assert!(
            often.util.abs_diff(once.util) <= 8 && often.load.abs_diff(once.load) <= 8,
            "{often:?} {once:?}"
        );
    }

    #[test]
    fn a_quarter_of_the_time_is_a_quarter() {
        let mut task = Averages::default();
        for cycle in 0..500 {
            task.update((cycle * 8 + 2) * MS, BUSY, 1024);
            task.update((cycle * 8 + 8) * MS, ASLEEP, 1024);
        }
        assert!((220..=256).contains(&task.util), "{task:?}");
    }

    #[test]
    fn what_comes_and_goes_leaves_nothing() {
        let mut queue = Averages::default();
        queue.update(700 * MS, ASLEEP, 1);
        let mut task = Averages::of_new(1024, &queue);
        assert_eq!((task.load, task.util), (1024, 512));
        task.attach(&mut queue, 1024);
        assert_eq!((queue.load, queue.util), (1024, 512));
        let other = Averages::of_new(1024, &queue);
        assert_eq!(other.util, 256, "half of what is left");
        task.update(710 * MS, BUSY, 1024);
        queue.update(710 * MS, Since { load: 1024, ..BUSY }, 1);
        task.detach(&mut queue, 1024);
        assert!(queue.load <= 2 && queue.util <= 2, "{queue:?}");
        task.reweigh(2048);
        assert!((2000..=2048).contains(&task.load), "{task:?}");
    }
}
