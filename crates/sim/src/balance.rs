//! Placing and spreading tasks of the fair class: wakeup placement, balancing
//! of a CPU that becomes idle, and of busy CPUs at the tick.
//!
//! Reduced from `kernel/sched/fair.c`: load is the number of queued entities,
//! domains are the last-level cache and the machine, and a CPU that becomes
//! idle always takes a waiting task if there is one it may run.

use crate::Kernel;
use crate::flags::{SCX_WAKE_FORK, SCX_WAKE_SYNC};
use crate::ops::SchedExt;
use crate::sim::Sim;
use schedlab_base::{CpuId, CpuMask, DurationNs, TaskId};

/// Ticks between two balancing attempts of a busy CPU, times the CPUs that are
/// balanced: the kernel's interval is the domain's weight in ms, times 16 when busy.
const BUSY_FACTOR: u64 = 16;

impl Kernel {
    fn fair_load(&self, cpu: CpuId) -> u32 {
        let entry = &self.cpus[cpu.index()];
        entry.nr_running - entry.fair.delayed
    }

    /// `select_task_rq_fair()`.
    #[inline(never)]
    pub(crate) fn fair_select(&self, task: TaskId, prev: CpuId, wake_flags: u64) -> CpuId {
        let allowed = &self.task(task).cpus_allowed;
        if wake_flags & SCX_WAKE_FORK != 0 {
            return self.idlest(allowed, prev);
        }
        let target = self.wake_affine(task, prev, wake_flags & SCX_WAKE_SYNC != 0);
        self.idle_sibling(allowed, prev, target)
    }

    /// `find_idlest_cpu()`: an idle whole core, an idle CPU, else the least loaded.
    fn idlest(&self, allowed: &CpuMask, prev: CpuId) -> CpuId {
        let online = allowed.iter().take_while(|cpu| cpu.index() < self.cpus.len());
        let key = |cpu: CpuId| {
            let entry = &self.cpus[cpu.index()];
            let partner_busy = entry.siblings.iter().any(|&other| self.fair_load(other) > 0);
            (self.fair_load(cpu), partner_busy, entry.llc != self.cpus[prev.index()].llc, cpu.0)
        };
        online.min_by_key(|&cpu| key(cpu)).unwrap_or(prev)
    }

    /// `wake_affine()`: near the waker or where it ran before.
    fn wake_affine(&self, task: TaskId, prev: CpuId, sync: bool) -> CpuId {
        let here = self.ctx.cpu;
        if here == prev || !self.task(task).allows(here) {
            return prev;
        }
        let shares = self.cpus[here.index()].llc == self.cpus[prev.index()].llc;
        let (here_load, prev_load) = (self.fair_load(here), self.fair_load(prev));
        if here_load == 0 && shares {
            return if prev_load == 0 { prev } else { here };
        }
        if sync && here_load == 1 {
            return here;
        }
        if prev_load == 0 {
            return prev;
        }
        if here_load.saturating_sub(u32::from(sync)) < prev_load { here } else { prev }
    }

    /// `select_idle_sibling()`: an idle CPU that shares the target's cache.
    fn idle_sibling(&self, allowed: &CpuMask, prev: CpuId, target: CpuId) -> CpuId {
        let idle = |cpu: CpuId| allowed.contains(cpu) && self.fair_load(cpu) == 0;
        if idle(target) {
            return target;
        }
        let llc = self.cpus[target.index()].llc;
        if prev != target && self.cpus[prev.index()].llc == llc && idle(prev) {
            return prev;
        }
        if self.busy_cpus as usize >= self.cpus.len() {
            return target;
        }
        let near = &self.topology.llc_masks[llc as usize];
        let start = target.index();
        let mut some = None;
        let count = self.cpus.len();
        for cpu in (0..count).map(|step| CpuId(((start + step) % count) as u32)) {
            if !near.contains(cpu) || !idle(cpu) {
                continue;
            }
            if self.cpus[cpu.index()].siblings.iter().all(|&other| self.fair_load(other) == 0) {
                return cpu;
            }
            some = some.or(Some(cpu));
        }
        some.unwrap_or(target)
    }

    /// An idle CPU that may run one of the tasks waiting on `cpu`.
    fn idle_taker(&self, cpu: CpuId) -> Option<CpuId> {
        let waiting = &self.cpus[cpu.index()].fair;
        let movable = |task: TaskId, to: CpuId| self.task(task).allows(to) && !self.is_delayed(task);
        let takes = |idle: CpuId| waiting.waiting().any(|task| movable(task, idle));
        let idle = self.cpus.iter().filter(|other| other.nr_running == 0 && !other.need_resched);
        idle.map(|other| other.id).find(|&other| takes(other))
    }

    /// A waiting fair task of another CPU that may run here, from the fullest run
    /// queue; near ones first. `least` is how many tasks that queue must have.
    fn pullable(&self, cpu: CpuId, least: u32) -> Option<TaskId> {
        let llc = self.cpus[cpu.index()].llc;
        let movable = |from: CpuId| {
            let mut waiting = self.cpus[from.index()].fair.waiting();
            let here = |task: TaskId| self.task(task).allows(cpu) && !self.task(task).on_cpu;
            waiting.find(|&task| here(task) && !self.is_delayed(task))
        };
        let others = self.cpus.iter().filter(|other| other.id != cpu && other.nr_running >= least);
        let mut best: Option<(bool, u32, TaskId)> = None;
        for other in others {
            let (near, load) = (other.llc == llc, other.nr_running);
            if best.is_some_and(|(best_near, best_load, _)| (best_near, best_load) >= (near, load)) {
                continue;
            }
            if let Some(task) = movable(other.id) {
                best = Some((near, load, task));
            }
        }
        best.map(|(_, _, task)| task)
    }
}

impl<S: SchedExt> Sim<S> {
    /// `sched_balance_newidle()`. Holds the rq lock of `cpu`.
    #[inline(never)]
    pub(crate) fn newidle_balance(&mut self, cpu: CpuId, prev: Option<TaskId>) {
        let running = self.k.busy_cpus - u32::from(prev.is_some());
        if self.k.total_running <= running {
            return;
        }
        // The kernel leaves a queue with a single task alone: that one is about to run.
        if let Some(task) = self.k.pullable(cpu, 2) {
            self.pull(task, cpu);
        }
    }

    /// `sched_balance_trigger()` and the idle balancer's kick: at the tick of a busy
    /// CPU.
    pub(crate) fn tick_balance(&mut self, cpu: CpuId) {
        if self.k.cpu(cpu).nr_running >= 2 && (self.k.busy_cpus as usize) < self.k.cpus.len() {
            for _ in 0..self.k.cpu(cpu).fair.waiting().count() {
                let Some(idle) = self.k.idle_taker(cpu) else { break };
                self.k.resched_curr(idle);
            }
        }
        let now = self.k.ctx.now;
        if now < self.k.cpu(cpu).next_balance {
            return;
        }
        let period = self.k.machine.tick_period() * (self.k.cpus.len() as u64 * BUSY_FACTOR);
        // Up to a quarter later, from the run's seed: in step with the slices the same
        // task would wait at every attempt. Real machines are never that regular.
        let jitter = DurationNs(self.k.prng.below(period.0 / 4 + 1));
        self.k.cpu_mut(cpu).next_balance = now + period + jitter;
        if let Some(task) = self.busy_pull(cpu) {
            self.k.rq_lock(cpu);
            self.pull(task, cpu);
            self.wakeup_preempt(cpu, task, false);
            self.k.rq_unlock(cpu);
        }
    }

    /// Whom a busy CPU takes over. A queue that is longer by one task only gives it
    /// up after repeated attempts, so that three tasks on two CPUs take turns: the
    /// imbalance is the load over the CPUs, and `detach_tasks()` halves a task's load
    /// for every failed attempt before it compares.
    fn busy_pull(&mut self, cpu: CpuId) -> Option<TaskId> {
        let mine = self.k.cpu(cpu).nr_running;
        let attempts = self.k.cpus.len().next_power_of_two().ilog2();
        let far = self.k.pullable(cpu, mine + 2);
        let near = if far.is_some() { far } else { self.k.pullable(cpu, mine + 1) };
        let entry = self.k.cpu_mut(cpu);
        if near.is_some() && far.is_none() && entry.balance_failed < attempts {
            entry.balance_failed += 1;
            return None;
        }
        entry.balance_failed = 0;
        near
    }
}
