//! The real-time class: FIFO and RR by priority, above everything but a deadline server that has to run ([`crate::class::server`]).
//! Push and pull are reduced to choosing a CPU at wakeup and pulling when a CPU would otherwise leave real-time work.
//!
//! Kernels before 6.12 have no deadline servers but throttling. Once the real-time tasks of a CPU have run for 950 ms of a
//! second, none of them runs until the next one, even if nothing else does. The seconds are those of one timer for all CPUs,
//! which goes as long as any of them has real-time tasks or time to forget.

use crate::Kernel;
use crate::event::Event;
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
        let at = self.cpus[cpu.index()].rt.iter().position(|&other| {
            let other = self.task(other).rt_priority();
            if head { other <= prio } else { other < prio }
        });
        let queue = &mut self.cpus[cpu.index()].rt;
        let at = at.unwrap_or(queue.len());
        queue.insert(at, task);
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

    /// `select_task_rq_rt()`: the previous CPU, unless a real-time task of at least
    /// this priority runs there and another allowed CPU runs something lower.
    #[inline(never)]
    pub(crate) fn rt_select(&self, task: TaskId, prev: CpuId) -> CpuId {
        let prio = self.task(task).rt_priority();
        let rank = |cpu: CpuId| self.cpus[cpu.index()].rt.first().map_or(0, |&t| self.task(t).rt_priority());
        if self.task(task).allows(prev) && rank(prev) < prio {
            return prev;
        }
        let online = self.task(task).cpus_allowed.and(&self.online);
        let lowest =
            online.iter().min_by_key(|&cpu| (rank(cpu), self.cpus[cpu.index()].curr.is_some(), cpu.0));
        lowest.filter(|&cpu| rank(cpu) < prio).unwrap_or(prev)
    }

    /// `pull_rt_task()`: a waiting real-time task of another CPU that may run here.
    #[inline(never)]
    pub(crate) fn rt_pullable(&self, cpu: CpuId) -> Option<TaskId> {
        let candidates = self.cpus.iter().filter(|other| other.id != cpu && other.rt.len() > 1);
        candidates
            .flat_map(|other| other.rt.iter().filter(|&&task| other.curr != Some(task)))
            .copied()
            .filter(|&task| !self.task(task).on_cpu && self.task(task).allows(cpu))
            .max_by_key(|&task| (self.task(task).rt_priority(), std::cmp::Reverse(task)))
    }
}

impl<S: SchedExt> Sim<S> {
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
