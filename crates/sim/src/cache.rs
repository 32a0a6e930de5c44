//! Cache warmth and the speed of computing: what a burst takes longer than its
//! work. All integer arithmetic, evaluated when a burst starts.
//!
//! Each CPU counts the KiB that were loaded into its cache. A task that comes
//! back finds of its working set what was not displaced since: the cache holds
//! `cache_kib`, so the first `cache_kib - working set` loaded by others displace
//! nothing. On another CPU everything is cold. Refilling takes
//! `cache_refill_per_kib` for each cold KiB before the work goes on.

use crate::Kernel;
use schedlab_base::{CpuId, DurationNs, TaskId};

impl Kernel {
    /// The task is about to run on `cpu`: what its cache refill takes.
    pub(crate) fn cache_arrive(&mut self, cpu: CpuId, task: TaskId) {
        let capacity = u64::from(self.machine.cache_kib);
        let filled = self.cpus[cpu.index()].cache_filled;
        let costs = &self.machine.costs;
        let (per_kib, migration) = (costs.cache_refill_per_kib, costs.migration);
        let entry = self.hidden(task);
        let set = u64::from(entry.working_set_kib).min(capacity);
        let moved = entry.ran_on.is_some_and(|last| last != cpu);
        let same = entry.ran_on == Some(cpu);
        entry.ran_on = Some(cpu);
        let cold = if same {
            let displaced = (filled - entry.cache_mark).saturating_sub(capacity - set);
            displaced.min(set)
        } else {
            set
        };
        if !same {
            entry.burst.refill = DurationNs::ZERO;
        }
        entry.burst.refill += per_kib * cold;
        if moved {
            entry.burst.refill += migration;
        }
        self.cpu_mut(cpu).cache_filled = filled + cold;
    }

    /// The task stops running on `cpu`.
    pub(crate) fn cache_leave(&mut self, cpu: CpuId, task: TaskId) {
        let filled = self.cpus[cpu.index()].cache_filled;
        self.hidden(task).cache_mark = filled;
    }

    /// What walking a buffer of `kib` costs the task running on `cpu`: the part
    /// that does not fit the cache, refilled from the next level.
    pub(crate) fn touch_cost(&mut self, cpu: CpuId, kib: u32) -> DurationNs {
        let capacity = u64::from(self.machine.cache_kib);
        let kib = u64::from(kib);
        let misses = if kib > capacity { kib } else { 0 };
        self.cpu_mut(cpu).cache_filled += misses;
        self.machine.costs.cache_refill_per_kib * misses
    }

    /// How long work takes on `cpu` at present, in permille: contention of the busy
    /// CPUs, and a busy SMT sibling. Holds until the next burst starts.
    pub(crate) fn speed_factor(&self, cpu: CpuId) -> u32 {
        if self.topology.even_speed {
            return 1000;
        }
        let mut factor = self.machine.contention(self.busy_cpus as usize);
        if self.topology.smt {
            let busy = |&other: &CpuId| self.cpus[other.index()].curr.is_some();
            if self.cpus[cpu.index()].siblings.iter().any(busy) {
                factor = factor * 100 / self.machine.smt_speed_percent;
            }
        }
        factor
    }
}
