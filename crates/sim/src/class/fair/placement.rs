//! Where a task of the fair class goes that wakes up or is new (`select_task_rq_fair()`). It goes near the waker or where it
//! was, on an idle CPU of that cache if one is found.

use crate::Kernel;
use crate::flags::{SCX_WAKE_FORK, SCX_WAKE_SYNC};
use schedlab_base::{CpuId, CpuMask, DurationNs, Policy, TaskId, TimeNs};

/// How often a task halves what it remembers of the tasks that it wakes (`record_wakee()`).
const FORGETS: DurationNs = DurationNs::from_secs(1);

/// What a task's wakeups tell about where it should be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wakes {
    /// How often it has woken another task than before (`wakee_flips`).
    flips: u32,
    halved: TimeNs,
    last: Option<TaskId>,
    /// Where it was the time before last (`recent_used_cpu`).
    recent: Option<CpuId>,
}

impl Kernel {
    /// `available_idle_cpu()`, or one that has nothing but a `SCHED_IDLE` task to do (`sched_idle_cpu()`).
    fn takes_at_once(&self, cpu: CpuId) -> bool {
        let entry = &self.cpus[cpu.index()];
        let idles = |task: TaskId| entry.nr_running == 1 && self.task(task).policy == Policy::Idle;
        entry.online && entry.curr.map_or(self.is_free(cpu), idles)
    }

    pub(crate) fn is_free(&self, cpu: CpuId) -> bool {
        let entry = &self.cpus[cpu.index()];
        entry.online && entry.curr.is_none() && entry.nr_running == 0 && entry.wake_list.is_empty()
    }

    pub(crate) fn is_core_free(&self, cpu: CpuId) -> bool {
        self.is_free(cpu) && self.cpus[cpu.index()].siblings.iter().all(|&other| self.is_free(other))
    }

    fn share_cache(&self, a: CpuId, b: CpuId) -> bool {
        self.cpus[a.index()].llc == self.cpus[b.index()].llc
    }

    /// `select_task_rq_fair()`.
    #[inline(never)]
    pub(crate) fn fair_select(&mut self, task: TaskId, prev: CpuId, wake_flags: u64) -> CpuId {
        if wake_flags & SCX_WAKE_FORK != 0 {
            return self.idlest(task, prev);
        }
        self.record_wakee(task);
        let here = self.ctx.cpu;
        let mut target = prev;
        if here != prev && !self.wakes_many(task) && self.task(task).allows(here) {
            target = self.wake_affine(task, prev, wake_flags & SCX_WAKE_SYNC != 0);
        }
        self.idle_sibling(task, prev, target)
    }

    /// `sched_balance_find_dst_cpu()`, over the whole machine at once: an idle core, an idle CPU, else the least load.
    fn idlest(&self, task: TaskId, prev: CpuId) -> CpuId {
        let online = self.task(task).cpus_allowed.and(&self.online);
        let key = |cpu: CpuId| {
            let free = self.is_free(cpu);
            let load = if free { 0 } else { self.cpus[cpu.index()].fair.averages.load };
            (!free, !self.is_core_free(cpu), load, !self.share_cache(cpu, prev), cpu.0)
        };
        online.iter().min_by_key(|&cpu| key(cpu)).unwrap_or(prev)
    }

    /// `record_wakee()`: the current task wakes this one.
    fn record_wakee(&mut self, wakee: TaskId) {
        let (now, Some(waker)) = (self.ctx.now, self.ctx.current) else { return };
        let wakes = &mut self.task_mut(waker).fair.wakes;
        if now > wakes.halved + FORGETS {
            (wakes.flips, wakes.halved) = (wakes.flips / 2, now);
        }
        if wakes.last != Some(wakee) {
            wakes.last = Some(wakee);
            wakes.flips += 1;
        }
    }

    /// `wake_wide()`: one wakes many tasks, which cannot all be near it.
    fn wakes_many(&self, wakee: TaskId) -> bool {
        let flips = |task: TaskId| self.task(task).fair.wakes.flips;
        let (waker, wakee) = (self.ctx.current.map_or(0, flips), flips(wakee));
        let (few, many) = (waker.min(wakee), waker.max(wakee));
        let llc = self.cpus[self.ctx.cpu.index()].llc as usize;
        let factor = self.topology.llc_masks[llc].count() as u32;
        few >= factor && many >= few * factor
    }

    /// `wake_affine()`: here or where it was.
    fn wake_affine(&self, task: TaskId, prev: CpuId, sync: bool) -> CpuId {
        let here = self.ctx.cpu;
        if self.is_free(here) && self.share_cache(here, prev) {
            return if self.is_free(prev) { prev } else { here };
        }
        let entry = &self.cpus[here.index()];
        if sync && entry.nr_running - entry.fair.delayed == 1 {
            return here;
        }
        if self.is_free(prev) || !self.weighs_less_here(task, prev, sync) { prev } else { here }
    }

    /// `wake_affine_weight()`: the load here with the task is less than that there without it, which counts for 8 % more.
    fn weighs_less_here(&self, task: TaskId, prev: CpuId, sync: bool) -> bool {
        const BIAS_PERCENT: i64 = 100 + (117 - 100) / 2;
        let load = |cpu: CpuId| self.cpus[cpu.index()].fair.averages.load as i64;
        let of = |task: TaskId| self.fair_task_load(task) as i64;
        let mut here = load(self.ctx.cpu);
        if sync {
            let current = self.ctx.current.map_or(0, of);
            if current > here {
                return true;
            }
            here -= current;
        }
        let here = (here + of(task)) * 100;
        here < (load(prev) - of(task)) * BIAS_PERCENT + i64::from(sync)
    }

    /// `select_idle_sibling()`: an idle CPU that shares the target's cache.
    fn idle_sibling(&mut self, task: TaskId, prev: CpuId, target: CpuId) -> CpuId {
        let recent = self.task_mut(task).fair.wakes.recent.replace(prev);
        let allowed = &self.task(task).cpus_allowed;
        let idle = |cpu: CpuId| allowed.contains(cpu) && self.takes_at_once(cpu);
        if idle(target) {
            return target;
        }
        let near = |cpu: CpuId| cpu != target && self.share_cache(cpu, target) && idle(cpu);
        if near(prev) {
            return prev;
        }
        if let Some(cpu) = recent.filter(|&cpu| cpu != prev && near(cpu)) {
            return cpu;
        }
        self.search_idle(allowed, prev, target).unwrap_or(target)
    }

    /// `select_idle_smt()` and `select_idle_cpu()`: an idle core where there is one, else an idle CPU among as many as the cache's
    /// utilisation leaves to look at (`SIS_UTIL`).
    fn search_idle(&self, allowed: &CpuMask, prev: CpuId, target: CpuId) -> Option<CpuId> {
        let llc = self.cpus[target.index()].llc as usize;
        let near = self.topology.llc_masks[llc].and(allowed);
        let core = self.topology.smt.then(|| near.iter().any(|cpu| self.is_core_free(cpu)));
        let idle = |cpu: &CpuId| near.contains(*cpu) && self.takes_at_once(*cpu);
        if core == Some(false)
            && self.share_cache(prev, target)
            && let Some(&thread) = self.cpus[prev.index()].siblings.iter().find(|&cpu| idle(cpu))
        {
            return Some(thread);
        }
        let scan = self.balancing.idle_scan[llc] as usize;
        if scan == 0 {
            return None;
        }
        let from = target.index() + 1;
        let mut behind =
            near.iter().skip_while(|cpu| cpu.index() < from).chain(near.iter()).take(near.count());
        if core == Some(true) {
            return behind.find(|&cpu| self.is_core_free(cpu));
        }
        behind.take(scan).find(idle)
    }
}
