//! Cache warmth and the speed of computing: what a burst takes longer than its
//! work. All integer arithmetic, a fixed number of steps for a switch.
//!
//! Every core has a cache, and the CPUs of a last-level domain share another one where the machine
//! has it. A task's *footprint* is the part of its working set that a cache holds. It grows to the
//! whole set while the task runs, and is eaten away by what other tasks load into the full cache.
//! Each KiB loaded evicts a KiB that does not belong to the loading task. All of them are equally
//! likely (random replacement, as in Thiebaut and Stone, "Footprints in the cache", 1987). So a
//! footprint falls by the same factor for every task that is away, and one product of these factors
//! in the cache does for all of them. A task notes it when it leaves, and what is left when it
//! comes back is the quotient. This is the decay that Libenzi estimates by jiffies, with the
//! difference that time alone evicts nothing.
//!
//! What is cold is refilled before the work continues: from the next level at
//! `cache_refill_per_kib`, and what the last-level cache has lost from memory at
//! `memory_refill_per_kib` on top.

use crate::Kernel;
use schedlab_base::{CpuId, DurationNs, Machine, TaskId};

/// The factor of a cache that has evicted nothing.
const ONE: u32 = 1 << 31;

/// Factors below it are scaled up, and the cache begins a new epoch.
const LOW: u32 = 1 << 15;

/// By how many bits an epoch scales.
const EPOCH_BITS: u32 = 16;

/// One cache: how full it is, and what footprints have become in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cache {
    /// Size in KiB.
    capacity: u32,
    /// KiB in use.
    resident: u32,
    /// Product of what the evictions left over, from [`ONE`] down to [`LOW`].
    survival: u32,
    /// How often the product was scaled up by [`EPOCH_BITS`].
    epoch: u32,
}

/// What a cache holds of a task, as of when the task left it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Footprint {
    /// Number of the cache plus one; 0 for none.
    cache: u32,
    kib: u32,
    survival: u32,
    epoch: u32,
}

/// The warmth of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Warmth {
    core: Footprint,
    llc: Footprint,
    /// KiB that it had to load into the core's cache when it arrived last.
    cold_kib: u32,
    /// KiB of them that the last-level cache had not either.
    lost_kib: u32,
    /// What that takes, a migration's fixed part included.
    refill: DurationNs,
}

impl Cache {
    fn new(capacity: u32) -> Cache {
        Cache { capacity, resident: 0, survival: ONE, epoch: 0 }
    }

    /// One for each core of the machine.
    pub(crate) fn of_cores(machine: &Machine) -> Vec<Cache> {
        let count = machine.cpus.iter().map(|cpu| cpu.core + 1).max().unwrap_or(0);
        vec![Cache::new(machine.cache_kib); count as usize]
    }

    /// One for each last-level domain; none on a machine without such caches.
    pub(crate) fn of_llcs(machine: &Machine) -> Vec<Cache> {
        let count = machine.cpus.iter().map(|cpu| cpu.llc + 1).max().unwrap_or(0);
        vec![Cache::new(machine.llc_kib); if machine.llc_kib == 0 { 0 } else { count as usize }]
    }

    /// What is left in this cache, whose number is `number`, of a footprint. Rounds down.
    fn left(&self, number: u32, footprint: &Footprint) -> u32 {
        if footprint.cache != number + 1 {
            return 0;
        }
        debug_assert!(footprint.kib <= self.capacity, "a task leaves no more than the cache holds");
        match self.epoch.wrapping_sub(footprint.epoch) {
            0 if self.survival == footprint.survival => footprint.kib,
            epochs @ 0..=1 => {
                let scaled = (u64::from(footprint.kib) * u64::from(self.survival)) >> (epochs * EPOCH_BITS);
                (scaled / u64::from(footprint.survival)) as u32
            }
            _ => 0,
        }
    }

    /// A task with `own` KiB in this cache loads `kib` more: into free room, then in
    /// place of what others have there. Together they fit the cache.
    fn load(&mut self, kib: u32, own: u32) {
        debug_assert!(kib <= self.capacity && own <= self.resident, "what is warm lies in the cache");
        let others = self.resident.saturating_sub(own);
        let evicted = kib.saturating_sub(self.capacity - self.resident).min(others);
        self.resident = self.capacity.min(self.resident + kib);
        if evicted == 0 {
            return;
        }
        let survival = u64::from(self.survival) * u64::from(others - evicted) / u64::from(others);
        self.survival = survival as u32;
        if self.survival < LOW {
            // Two epochs on, nothing is left of any footprint.
            let gone = self.survival == 0;
            self.survival = if gone { ONE } else { self.survival << EPOCH_BITS };
            self.epoch = self.epoch.wrapping_add(if gone { 2 } else { 1 });
        }
        debug_assert!(self.survival >= LOW && self.survival <= ONE, "the product stays in its range");
    }

    /// The footprint of a task that leaves `kib` in this cache.
    fn footprint(&self, number: u32, kib: u32) -> Footprint {
        debug_assert!(kib <= self.capacity && self.survival > 0, "what is warm fits into the cache");
        Footprint { cache: number + 1, kib, survival: self.survival, epoch: self.epoch }
    }
}

impl Kernel {
    /// The task is about to run on `cpu`: what its cache refill takes.
    #[inline(always)]
    pub(crate) fn cache_arrive(&mut self, cpu: CpuId, task: TaskId) {
        let entry = self.tasks.living_mut(task);
        let from = entry.ran_on.replace(cpu);
        if from.is_some_and(|from| from != cpu) {
            entry.burst.refill = self.machine.costs.migration;
        }
        if entry.working_set_kib > 0 {
            self.cache_load(cpu, task);
        }
    }

    /// Loads the working set of a task that has one.
    #[inline(never)]
    fn cache_load(&mut self, cpu: CpuId, task: TaskId) {
        let here = &self.cpus[cpu.index()];
        let (core, llc) = (here.core, here.llc);
        let costs = &self.machine.costs;
        let entry = self.tasks.living_mut(task);
        let (warmth, set) = (&mut entry.warmth, entry.working_set_kib);
        let cache = &mut self.core_caches[core as usize];
        let set = set.min(cache.capacity);
        let warm = cache.left(core, &warmth.core).min(set);
        let cold = set - warm;
        debug_assert!(cold <= set, "no more is loaded than the working set");
        warmth.lost_kib = 0;
        if cold > 0 {
            cache.load(cold, warm);
            entry.burst.refill += costs.cache_refill_per_kib * u64::from(cold);
            if let Some(shared) = self.llc_caches.get_mut(llc as usize) {
                let set = set.min(shared.capacity);
                let warm = shared.left(llc, &warmth.llc).min(set);
                let lost = cold.min(set - warm);
                shared.load(lost, warm);
                warmth.llc = shared.footprint(llc, warm + lost);
                warmth.lost_kib = lost;
                entry.burst.refill += costs.memory_refill_per_kib * u64::from(lost);
            }
        }
        warmth.cold_kib = cold;
        warmth.refill = entry.burst.refill;
    }

    /// The task stops running on `cpu`. What it had no time to load stays cold.
    pub(crate) fn cache_leave(&mut self, cpu: CpuId, task: TaskId) {
        let entry = self.tasks.living_mut(task);
        if entry.working_set_kib == 0 {
            return;
        }
        let core = self.cpus[cpu.index()].core;
        let cache = &self.core_caches[core as usize];
        let mut kib = entry.working_set_kib.min(cache.capacity);
        let warmth = &mut entry.warmth;
        let left = entry.burst.refill.min(warmth.refill);
        if left > DurationNs::ZERO && warmth.cold_kib > 0 {
            let to_come = |kib: u32| (u64::from(kib) * left.0 / warmth.refill.0) as u32;
            kib -= to_come(warmth.cold_kib);
            warmth.llc.kib -= to_come(warmth.lost_kib);
            entry.burst.refill = DurationNs::ZERO;
        }
        debug_assert!(kib <= entry.working_set_kib, "a task leaves no more than its working set");
        warmth.core = cache.footprint(core, kib);
    }

    /// The task that runs on `cpu` replaces its image: nothing of the new one is in any cache.
    pub(crate) fn cache_forget(&mut self, cpu: CpuId, task: TaskId) {
        let entry = self.task_mut(task);
        (entry.ran_on, entry.warmth) = (None, Warmth::default());
        self.cache_arrive(cpu, task);
    }

    /// What walking a buffer of `kib` costs the task running on `cpu`: all of it when
    /// it does not fit the cache, refilled from the level that holds it. Such a walk
    /// leaves nothing of other tasks in the cache.
    pub(crate) fn touch_cost(&mut self, cpu: CpuId, kib: u32) -> DurationNs {
        let here = &self.cpus[cpu.index()];
        let (core, llc) = (here.core, here.llc);
        let costs = &self.machine.costs;
        let mut cost = DurationNs::ZERO;
        let cache = &mut self.core_caches[core as usize];
        if kib > cache.capacity {
            cache.load(cache.capacity, 0);
            cost += costs.cache_refill_per_kib * u64::from(kib);
            if let Some(shared) = self.llc_caches.get_mut(llc as usize)
                && kib > shared.capacity
            {
                shared.load(shared.capacity, 0);
                cost += costs.memory_refill_per_kib * u64::from(kib);
            }
        }
        cost
    }

    /// How long work takes on `cpu` at present, in permille: contention of the busy
    /// CPUs, and a busy SMT sibling.
    #[inline]
    pub(crate) fn speed_factor(&self, cpu: CpuId) -> u32 {
        if self.topology.even_speed { 1000 } else { self.uneven_speed_factor(cpu) }
    }

    #[inline(never)]
    fn uneven_speed_factor(&self, cpu: CpuId) -> u32 {
        if self.topology.one_processor {
            return 1000 * self.executing();
        }
        let mut factor = self.machine.contention(self.busy_cpus as usize);
        if self.topology.smt {
            let busy = |&other: &CpuId| self.cpus[other.index()].curr.is_some();
            if self.cpus[cpu.index()].siblings.iter().any(busy) {
                factor = factor * 100 / self.machine.smt_speed_percent;
            }
        }
        debug_assert!(factor > 0, "work takes time");
        factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets tasks with working sets `sets` run in turn `rounds` times; what each one had
    /// to load in the last round.
    fn last_round(cache: &mut Cache, sets: &[u32], rounds: u32) -> Vec<u32> {
        let mut footprints = vec![Footprint::default(); sets.len()];
        let mut cold = vec![0; sets.len()];
        for _ in 0..rounds {
            for (task, &set) in sets.iter().enumerate() {
                let warm = cache.left(0, &footprints[task]).min(set);
                cold[task] = set - warm;
                cache.load(set - warm, warm);
                footprints[task] = cache.footprint(0, set);
                assert!(cache.resident <= cache.capacity);
            }
        }
        cold
    }

    #[test]
    fn what_fits_together_stays_warm() {
        assert_eq!(last_round(&mut Cache::new(1024), &[300, 300, 424], 5), [0, 0, 0]);
        assert_eq!(last_round(&mut Cache::new(1024), &[1024], 3), [0]);
    }

    #[test]
    fn what_does_not_fit_displaces_each_other() {
        // With a footprint of 500 before and 500 k^2 after the two others ran,
        // 500 (1 + k + k^2) = 1024, so k = 0.6395 and 295.5 KiB are loaded each time.
        let cold = last_round(&mut Cache::new(1024), &[500, 500, 500], 200);
        assert!(cold.iter().all(|cold| (294..=298).contains(cold)), "{cold:?}");
        // Two sets of the cache's size leave nothing of each other.
        assert_eq!(last_round(&mut Cache::new(256), &[256, 256], 9), [256, 256]);
    }

    #[test]
    fn a_footprint_is_eaten_away_bit_by_bit_and_then_gone() {
        let mut cache = Cache::new(1000);
        cache.load(1000, 0);
        let footprint = cache.footprint(3, 1000);
        let mut last = 1000u32;
        for _ in 0..40 {
            cache.load(500, 0);
            let left = cache.left(3, &footprint);
            assert!(left <= last.div_ceil(2), "{left} of {last}");
            last = left;
        }
        assert_eq!((last, cache.left(2, &cache.footprint(3, 10))), (0, 0));
        assert!(cache.epoch >= 2 && cache.survival >= LOW);
    }
}
