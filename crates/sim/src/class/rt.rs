//! The real-time class: FIFO and RR by priority, above everything but a deadline server that has to run ([`crate::class::server`]).
//! A task that waits behind another one is pushed where less runs: after a switch to a real-time task, and when it wakes. A CPU
//! that leaves real-time work pulls.
//!
//! Kernels before 6.12 have no deadline servers but throttling. Once the real-time tasks of a CPU have run for 950 ms of a
//! second, none of them runs until the next one, even if nothing else does. The seconds are those of one timer for all CPUs,
//! which goes as long as any of them has real-time tasks or time to forget.

use crate::Kernel;
use crate::event::Event;
use crate::flags::DEQUEUE_NOCLOCK;
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, DurationNs, Policy, TaskId, TimeNs};

/// `sched_rt_period_us`: 1 s.
const PERIOD: DurationNs = DurationNs::from_secs(1);

/// `sched_rr_timeslice`: 100 ms.
pub const RR_SLICE: DurationNs = DurationNs::from_ms(100);

impl Kernel {
    /// Queues by priority, highest first; behind or before its equals.
    #[inline(never)]
    pub(crate) fn rt_enqueue(&mut self, cpu: CpuId, task: TaskId, head: bool) {
        self.rt_insert(cpu, task, head);
        self.rt_count(cpu, true);
        if self.rt_throttling.runtime.is_some() && !self.rt_throttling.ticks {
            self.rt_throttling.ticks = true;
            self.queue.push(self.ctx.now + PERIOD, Event::RtPeriod { cpu: self.ctx.cpu });
        }
    }

    /// Throttled tasks do not count as running.
    fn rt_count(&mut self, cpu: CpuId, on: bool) {
        if !self.cpus[cpu.index()].rt_budget.throttled {
            self.count_running(cpu, SchedClass::Rt, on);
        }
    }

    fn rt_insert(&mut self, cpu: CpuId, task: TaskId, head: bool) {
        let prio = self.task(task).rt_priority();
        debug_assert!(!self.cpus[cpu.index()].rt.contains(&task), "a task is queued once");
        let at = self.cpus[cpu.index()].rt.iter().position(|&other| {
            let other = self.task(other).rt_priority();
            if head { other <= prio } else { other < prio }
        });
        let queue = &mut self.cpus[cpu.index()].rt;
        let at = at.unwrap_or(queue.len());
        queue.insert(at, task);
        debug_assert!(
            self.cpus[cpu.index()]
                .rt
                .is_sorted_by_key(|&task| std::cmp::Reverse(self.task(task).rt_priority())),
            "the queue is in order of priority"
        );
        self.task_mut(task).ready_at = self.ctx.now;
    }

    #[inline(never)]
    pub(crate) fn rt_dequeue(&mut self, cpu: CpuId, task: TaskId) {
        self.rt_remove(cpu, task);
        self.rt_count(cpu, false);
    }

    fn rt_remove(&mut self, cpu: CpuId, task: TaskId) {
        let queue = &mut self.cpus[cpu.index()].rt;
        let at = queue.iter().position(|&other| other == task).expect("a queued task is on the queue");
        queue.remove(at);
    }

    /// The first task of the highest priority; the running one stays queued.
    pub(crate) fn rt_pick(&self, cpu: CpuId) -> Option<TaskId> {
        let entry = &self.cpus[cpu.index()];
        if entry.rt_budget.throttled { None } else { entry.rt.first().copied() }
    }

    /// `update_curr_rt()` of the running task: those of its CPU are throttled when they have had their part of the period.
    pub(crate) fn rt_update_curr(&mut self, cpu: CpuId, task: TaskId) {
        let delta = self.charge_runtime(task);
        let Some(runtime) = self.rt_throttling.runtime else { return };
        let budget = &mut self.cpus[cpu.index()].rt_budget;
        budget.used += DurationNs(delta);
        if budget.used > runtime && !budget.throttled {
            self.rt_throttle(cpu, true);
            self.resched_curr(cpu);
        }
    }

    /// All real-time tasks of `cpu` come off its queue, or on to it again.
    fn rt_throttle(&mut self, cpu: CpuId, throttled: bool) {
        debug_assert!(
            self.cpus[cpu.index()].rt_budget.throttled != throttled,
            "a queue is throttled or not, in turns"
        );
        let waiting = self.cpus[cpu.index()].rt.len();
        self.cpus[cpu.index()].rt_budget.throttled = throttled;
        for _ in 0..waiting {
            self.count_running(cpu, SchedClass::Rt, !throttled);
        }
    }

    /// `do_sched_rt_period_timer()`: a period is over; false if no CPU has anything to do with the next one.
    fn rt_next_period(&mut self, runtime: DurationNs) -> bool {
        let mut goes_on = false;
        for cpu in (0..self.cpus.len() as u32).map(CpuId) {
            let entry = self.cpu_mut(cpu);
            let before = entry.rt_budget.used;
            entry.rt_budget.used = before.saturating_sub(runtime);
            goes_on |= before > DurationNs::ZERO || !entry.rt.is_empty();
            if entry.rt_budget.throttled && entry.rt_budget.used < runtime {
                self.rq_lock(cpu);
                self.rt_throttle(cpu, false);
                if !self.cpu(cpu).rt.is_empty() {
                    self.resched_curr(cpu);
                }
                self.rq_unlock(cpu);
            }
        }
        goes_on
    }

    /// A tick: RR tasks go behind their equals when their 100 ms are used up.
    #[inline(never)]
    pub(crate) fn rt_tick(&mut self, cpu: CpuId, task: TaskId) {
        if !matches!(self.task(task).policy, Policy::Rr(_)) {
            return;
        }
        let tick = self.machine.tick_period();
        let left = self.task(task).rt_slice.saturating_sub(tick);
        self.task_mut(task).rt_slice = left;
        if left > DurationNs::ZERO {
            return;
        }
        self.task_mut(task).rt_slice = RR_SLICE;
        self.rt_yield(cpu, task);
        if self.rt_pick(cpu) != Some(task) {
            self.resched_curr(cpu);
        }
    }

    /// Behind its equals.
    pub(crate) fn rt_yield(&mut self, cpu: CpuId, task: TaskId) {
        self.rt_remove(cpu, task);
        self.rt_insert(cpu, task, false);
    }

    /// `select_task_rq_rt()`: the previous CPU, unless a real-time task runs there that this one does not preempt, or that cannot
    /// move, and another allowed CPU runs something lower.
    #[inline(never)]
    pub(crate) fn rt_select(&self, task: TaskId, prev: CpuId) -> CpuId {
        let prio = self.task(task).rt_priority();
        let moves = self.curr(prev).is_some_and(|curr| {
            let curr = self.task(curr);
            curr.class == SchedClass::Rt && (curr.nr_cpus_allowed < 2 || curr.rt_priority() >= prio)
        });
        if moves { self.rt_lowest(task).unwrap_or(prev) } else { prev }
    }

    /// The highest priority of the real-time tasks of a CPU, 0 without any; nothing where deadline tasks are (`CPUPRI_HIGHER`).
    fn rt_rank(&self, cpu: CpuId) -> Option<u8> {
        let entry = self.cpu(cpu);
        let highest = entry.rt.first().map_or(0, |&first| self.task(first).rt_priority());
        entry.dl.is_empty().then_some(highest)
    }

    /// `find_lowest_rq()`: of the allowed CPUs with the lowest priority, if that is lower than the task's: its own CPU, else the
    /// present one, else one that is near.
    fn rt_lowest(&self, task: TaskId) -> Option<CpuId> {
        let entry = self.task(task);
        let (own, llc) = (entry.cpu, self.cpu(entry.cpu).llc);
        let allowed = entry.cpus_allowed.and(&self.online);
        let ranked = allowed.iter().filter_map(|cpu| Some((self.rt_rank(cpu)?, cpu)));
        let near = |cpu: CpuId| (cpu != own, self.cpu(cpu).llc != llc, cpu != self.ctx.cpu, cpu.0);
        let (rank, cpu) = ranked.min_by_key(|&(rank, cpu)| (rank, near(cpu)))?;
        (rank < entry.rt_priority()).then_some(cpu)
    }

    /// `pick_next_pushable_task()`: the first of those that wait and may go elsewhere.
    fn rt_pushable(&self, cpu: CpuId) -> Option<TaskId> {
        let curr = self.curr(cpu);
        let waits = |task: &TaskId| {
            let entry = self.task(*task);
            curr != Some(*task) && !entry.on_cpu && entry.nr_cpus_allowed > 1 && entry.migration_disabled == 0
        };
        self.cpu(cpu).rt.iter().copied().find(waits)
    }

    /// Whether the current task of a CPU comes behind a real-time one of that priority.
    fn rt_preempts(&self, prio: u8, cpu: CpuId) -> bool {
        self.curr(cpu).is_none_or(|curr| {
            let curr = self.task(curr);
            curr.class > SchedClass::Rt || curr.class == SchedClass::Rt && curr.rt_priority() < prio
        })
    }

    /// `need_pull_rt_task()`: `prev` has left, and what is left on its CPU is of a lower priority.
    pub(crate) fn rt_lowers(&self, cpu: CpuId, prev: TaskId) -> bool {
        let prev = self.task(prev);
        let left = self.cpu(cpu).rt.first().map_or(0, |&first| self.task(first).rt_priority());
        prev.class == SchedClass::Rt && !prev.on_rq && left < prev.rt_priority()
    }

    /// `pull_rt_task()`: a waiting real-time task of another CPU that would be the first here.
    #[inline(never)]
    pub(crate) fn rt_pullable(&self, cpu: CpuId) -> Option<TaskId> {
        let others = self.cpus.iter().filter(|other| other.id != cpu && !other.rt.is_empty());
        let candidates = others.filter_map(|other| {
            let task = self.rt_pushable(other.id)?;
            let entry = self.task(task);
            // One that goes first there is about to run there.
            (entry.allows(cpu) && !self.rt_preempts(entry.rt_priority(), other.id)).then_some(task)
        });
        let best = candidates.max_by_key(|&task| (self.task(task).rt_priority(), std::cmp::Reverse(task)))?;
        let here = self.cpu(cpu).rt.first().map_or(0, |&first| self.task(first).rt_priority());
        (self.task(best).rt_priority() > here).then_some(best)
    }
}

impl<S: SchedExt> Sim<S> {
    /// `push_rt_tasks()`: waiting real-time tasks of `cpu` go where less runs.
    #[inline(never)]
    pub(crate) fn push_realtime(&mut self, cpu: CpuId) {
        while let Some(task) = self.k.rt_pushable(cpu) {
            if self.k.rt_preempts(self.k.task(task).rt_priority(), cpu) {
                self.k.resched_curr(cpu);
                return;
            }
            let Some(to) = self.k.rt_lowest(task).filter(|&to| to != cpu) else { return };
            self.k.rq_lock(cpu);
            debug_assert!(self.k.is_online(to), "a task is pushed to a CPU that is online");
            self.deactivate(task, DEQUEUE_NOCLOCK);
            self.k.rq_unlock(cpu);
            self.arrive(task, to);
        }
    }

    /// `task_woken_rt()`, `task_woken_dl()`: a woken task that preempts nothing here may go elsewhere at once.
    #[inline(never)]
    pub(crate) fn woken_above(&mut self, task: TaskId, cpu: CpuId) {
        let entry = self.k.task(task);
        let (class, stays) = (entry.class, entry.on_cpu || entry.nr_cpus_allowed < 2);
        let running = self.k.curr(cpu).map(|curr| self.k.task(curr).class);
        if stays || self.k.cpu(cpu).need_resched {
            return;
        }
        match (class, running) {
            (SchedClass::Dl, Some(SchedClass::Dl)) => self.push_deadline(cpu),
            (SchedClass::Rt, Some(SchedClass::Dl | SchedClass::Rt)) => self.push_realtime(cpu),
            _ => {}
        }
    }

    /// The timer of real-time throttling.
    #[inline(never)]
    pub(crate) fn rt_period(&mut self, cpu: CpuId, time: TimeNs) {
        let at = self.k.or_online(cpu);
        let Some(runtime) = self.k.rt_throttling.runtime else { return };
        if self.postponed(at, time, Event::RtPeriod { cpu }) {
            return;
        }
        self.interrupt(at, time, |sim| {
            sim.k.charge(sim.k.machine.costs.interrupt);
            sim.run_sleepers(at, None);
            sim.k.rt_throttling.ticks = sim.k.rt_next_period(runtime);
            if sim.k.rt_throttling.ticks {
                sim.k.queue.push(time + PERIOD, Event::RtPeriod { cpu: at });
            }
        });
    }
}
