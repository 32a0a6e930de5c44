//! `SCHED_DEADLINE` (`kernel/sched/deadline.c`, Linux 7.3). Each task has a constant bandwidth server (CBS) of its own, a
//! runtime in each period. Of those that have some left, the earliest deadline runs (EDF), before real-time tasks.
//!
//! A task that has used up its runtime, or yields, is throttled: off the queue until its next period, when a timer replenishes
//! it. On several CPUs a waking task looks for one without deadline tasks, or with later ones; waiting tasks are pushed there
//! and pulled from there. Runtime that others leave is not reclaimed (`SCHED_FLAG_RECLAIM`). Which tasks may be deadline tasks
//! at all is decided in [`crate::class::admission`].

use crate::Kernel;
use crate::event::Event;
use crate::flags::*;
use crate::state::deadline::DlEntity;
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, DurationNs, Reservation, TaskId, TimeNs};

/// A replenishment that is due by less than this is waited for (`ktime_us_delta()` of `start_dl_timer()`).
const ROUNDED: DurationNs = DurationNs(1_000);

impl Kernel {
    fn dl(&self, task: TaskId) -> &DlEntity {
        self.task(task).dl.as_deref().expect("a deadline task has an entity")
    }

    fn dl_mut(&mut self, task: TaskId) -> &mut DlEntity {
        self.task_mut(task).dl.as_deref_mut().expect("a deadline task has an entity")
    }

    /// `__setparam_dl()`: the task has this reservation from its next enqueue on; its instance continues.
    pub(crate) fn dl_ask(&mut self, task: TaskId, asked: Reservation) {
        let entry = self.task_mut(task);
        entry.dl.get_or_insert_with(|| Box::new(DlEntity::new(asked))).asked = asked;
    }

    /// `switched_from_dl()`: the task is of another class; returns when its bandwidth is free.
    pub(crate) fn dl_leave(&mut self, task: TaskId) -> TimeNs {
        let entity = self.dl_mut(task);
        entity.yielded = false;
        entity.zero_lag()
    }

    /// The earliest deadline of `cpu` and its task; the running one stays queued.
    #[inline]
    pub(crate) fn dl_first(&self, cpu: CpuId) -> Option<(TimeNs, TaskId)> {
        self.cpus[cpu.index()].dl.first().copied()
    }

    /// True if `task` of this class goes before what runs on `cpu`.
    fn dl_preempts(&self, task: TaskId, cpu: CpuId) -> bool {
        let running = self.curr(cpu).map(|curr| self.task(curr));
        running.is_none_or(|curr| {
            curr.class != SchedClass::Dl || self.dl(task).deadline < self.dl(curr.id).deadline
        })
    }

    /// `wakeup_preempt_dl()`.
    pub(crate) fn dl_wakeup_preempt(&mut self, cpu: CpuId, task: TaskId) {
        if !self.dl(task).is_throttled() && self.dl_preempts(task, cpu) {
            self.resched_curr(cpu);
        }
    }

    /// `enqueue_task_dl()`.
    #[inline(never)]
    pub(crate) fn dl_enqueue(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        let now = self.ctx.now;
        let entity = self.dl_mut(task);
        debug_assert!(!entity.queued, "a task is queued once");
        if !entity.throttled && entity.is_early(now) {
            (entity.throttled, entity.runtime) = (true, entity.runtime.min(0));
            self.dl_arm(task);
        }
        let entity = self.dl_mut(task);
        if entity.throttled {
            return;
        }
        if flags & (SCX_ENQ_WAKEUP | ENQUEUE_INITIAL) != 0 {
            entity.wakes(now);
        } else if flags & DEQUEUE_MOVE != 0 && entity.deadline < now {
            entity.new_period(now);
        }
        self.dl_queue(cpu, task);
    }

    /// `__enqueue_dl_entity()`: by deadline, behind its equals.
    fn dl_queue(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.ctx.now;
        let entity = self.dl_mut(task);
        debug_assert!(!entity.queued, "a task is queued once");
        entity.queued = true;
        let deadline = entity.deadline;
        let queue = &mut self.cpus[cpu.index()].dl;
        let at = queue.partition_point(|(other, _)| *other <= deadline);
        queue.insert(at, (deadline, task));
        debug_assert!(
            queue.is_sorted_by_key(|&(deadline, _)| deadline),
            "the queue is in order of deadlines"
        );
        self.count_running(cpu, SchedClass::Dl, true);
        self.task_mut(task).ready_at = now;
    }

    /// `__dequeue_dl_entity()`, of a task that may be off the queue already.
    fn dl_unqueue(&mut self, cpu: CpuId, task: TaskId) {
        let entity = self.dl_mut(task);
        if !std::mem::take(&mut entity.queued) {
            return;
        }
        let deadline = entity.deadline;
        let queue = &mut self.cpus[cpu.index()].dl;
        let from = queue.partition_point(|(other, _)| *other < deadline);
        let at = queue[from..].iter().position(|(_, other)| *other == task);
        queue.remove(from + at.expect("a queued task is on the queue"));
        self.count_running(cpu, SchedClass::Dl, false);
    }

    /// `dequeue_task_dl()`.
    #[inline(never)]
    pub(crate) fn dl_dequeue(&mut self, cpu: CpuId, task: TaskId) {
        if self.curr(cpu) == Some(task) {
            self.dl_update_curr(cpu, task);
        }
        self.dl_unqueue(cpu, task);
    }

    /// `update_curr_dl()` of the running task: it is throttled when its runtime is used up.
    #[inline(never)]
    pub(crate) fn dl_update_curr(&mut self, cpu: CpuId, task: TaskId) {
        let delta = self.charge_runtime(task);
        let entity = self.dl_mut(task);
        entity.runtime -= delta.cast_signed();
        if (delta > 0 && entity.runtime <= 0 || entity.yielded) && !entity.throttled {
            self.dl_throttle(cpu, task);
        }
    }

    fn dl_throttle(&mut self, cpu: CpuId, task: TaskId) {
        self.dl_unqueue(cpu, task);
        debug_assert!(!self.dl(task).queued, "a throttled task is on no queue");
        self.dl_mut(task).throttled = true;
        if !self.dl_arm(task) {
            let now = self.ctx.now;
            self.dl_mut(task).replenish(now);
            if self.task(task).on_rq {
                self.dl_queue(cpu, task);
            }
        }
        if self.dl_first(cpu).is_none_or(|(_, first)| first != task) {
            self.resched_curr(cpu);
        }
    }

    /// `start_dl_timer()`: false if the next period has begun.
    fn dl_arm(&mut self, task: TaskId) -> bool {
        let now = self.ctx.now;
        let entity = self.dl_mut(task);
        let at = entity.next_period();
        if at + ROUNDED <= now {
            return false;
        }
        if !std::mem::replace(&mut entity.armed, true) {
            let cpu = self.ctx.cpu;
            self.count_timeout(task, true);
            self.queue.push(at.max(now), Event::Replenish { cpu, task });
        }
        true
    }

    /// `set_next_task_dl()`: with HRTICK a timer ends the runtime of a deadline task to the nanosecond, else a tick does.
    #[inline]
    pub(crate) fn dl_note(&mut self, cpu: CpuId, task: TaskId) {
        if self.task(task).class == SchedClass::Dl {
            let left = self.dl(task).runtime;
            self.hrtick_note_span(cpu, DurationNs(left.max(0).cast_unsigned()));
        }
    }

    /// `task_tick_dl()`.
    #[inline(never)]
    pub(crate) fn dl_tick(&mut self, cpu: CpuId, task: TaskId) {
        self.dl_update_curr(cpu, task);
        let left = self.dl(task).runtime;
        if left > 0 && self.dl_first(cpu).is_some_and(|(_, first)| first == task) {
            self.hrtick_again(cpu, DurationNs(left.cast_unsigned()));
        }
    }

    /// `yield_task_dl()`: off the CPU until the next period.
    pub(crate) fn dl_yield(&mut self, cpu: CpuId, task: TaskId) {
        self.dl_mut(task).yielded = true;
        self.dl_update_curr(cpu, task);
    }

    /// `select_task_rq_dl()`: the previous CPU, unless a task runs there that goes first.
    #[inline(never)]
    pub(crate) fn dl_select(&self, task: TaskId, prev: CpuId, wake_flags: u64) -> CpuId {
        let moves = wake_flags & SCX_WAKE_TTWU != 0
            && self.curr(prev).is_some_and(|curr| {
                let pinned = self.task(curr).nr_cpus_allowed < 2;
                self.task(curr).class == SchedClass::Dl && (pinned || !self.dl_preempts(task, prev))
            });
        if !moves {
            return prev;
        }
        self.dl_later(task, prev).filter(|&cpu| self.dl_would_be_first(task, cpu)).unwrap_or(prev)
    }

    /// `dl_task_is_earliest_deadline()`.
    fn dl_would_be_first(&self, task: TaskId, cpu: CpuId) -> bool {
        self.dl_first(cpu).is_none_or(|(first, _)| self.dl(task).deadline < first)
    }

    /// `find_later_rq()`: a CPU without deadline tasks, near first; else the one whose earliest deadline is the latest, if
    /// that is later.
    fn dl_later(&self, task: TaskId, prev: CpuId) -> Option<CpuId> {
        let allowed = self.task(task).cpus_allowed.and(&self.online);
        let free = allowed.iter().filter(|&cpu| self.dl_first(cpu).is_none());
        let llc = self.cpu(prev).llc;
        let far = |cpu: CpuId| (cpu != prev, self.cpu(cpu).llc != llc, cpu != self.ctx.cpu, cpu.0);
        free.min_by_key(|&cpu| far(cpu)).or_else(|| {
            let latest = allowed.iter().max_by_key(|&cpu| (self.dl_first(cpu), std::cmp::Reverse(cpu.0)));
            latest.filter(|&cpu| self.dl_would_be_first(task, cpu))
        })
    }

    /// `pick_earliest_pushable_dl_task()`: of those that wait on `from` and may go elsewhere.
    fn dl_pushable(&self, from: CpuId, may: impl Fn(&crate::Task) -> bool) -> Option<(TimeNs, TaskId)> {
        let waiting = |&(_, task): &(TimeNs, TaskId)| {
            let entry = self.task(task);
            self.curr(from) != Some(task) && !entry.on_cpu && entry.migration_disabled == 0 && may(entry)
        };
        self.cpu(from).dl.iter().copied().find(waiting)
    }

    /// `pull_dl_task()`: a task that waits elsewhere and would be the first here.
    #[inline(never)]
    pub(crate) fn dl_pullable(&self, cpu: CpuId) -> Option<TaskId> {
        let others = self.cpus.iter().filter(|other| other.id != cpu && other.dl.len() > 1);
        let candidates = others.filter_map(|other| {
            let found = self.dl_pushable(other.id, |task| task.allows(cpu))?;
            // One that goes first there is about to run there.
            (!self.dl_preempts(found.1, other.id)).then_some(found)
        });
        candidates.min().map(|(_, task)| task).filter(|&task| self.dl_would_be_first(task, cpu))
    }
}

impl<S: SchedExt> Sim<S> {
    /// What runs before real-time tasks: the earliest deadline of the tasks and servers of `cpu`. A server without a task stops
    /// (`pick_task_dl()`).
    #[inline]
    pub(crate) fn pick_deadline(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        let first = self.k.dl_first(cpu);
        let served = self.server_pick(cpu, prev, first.map_or(TimeNs::MAX, |(deadline, _)| deadline));
        served.or(first.map(|(_, task)| task))
    }

    /// `dl_task_timer()`: the next period of a throttled task has begun.
    #[inline(never)]
    pub(crate) fn replenish(&mut self, cpu: CpuId, time: TimeNs, task: TaskId) {
        let at = self.k.or_online(cpu);
        if self.postponed(at, time, Event::Replenish { cpu, task }) {
            return;
        }
        self.k.count_timeout(task, false);
        self.interrupt(at, time, |sim| {
            sim.k.charge(sim.k.machine.costs.interrupt);
            sim.run_sleepers(at, None);
            sim.replenish_now(task);
        });
    }

    fn replenish_now(&mut self, task: TaskId) {
        let now = self.k.ctx.now;
        let Some(entry) = self.k.get_task(task) else { return };
        let (cpu, on_rq, is_deadline) = (entry.cpu, entry.on_rq, entry.class == SchedClass::Dl);
        let entity = self.k.dl_mut(task);
        entity.armed = false;
        if !is_deadline || !entity.throttled {
            entity.throttled = false;
            return;
        }
        self.k.rq_lock(cpu);
        self.k.dl_mut(task).replenish(now);
        if on_rq {
            self.k.dl_queue(cpu, task);
            self.k.dl_wakeup_preempt(cpu, task);
        }
        self.k.rq_unlock(cpu);
        self.push_deadline(cpu);
    }

    /// `push_dl_task()`: waiting deadline tasks of `cpu` go to CPUs where they are first.
    #[inline(never)]
    pub(crate) fn push_deadline(&mut self, cpu: CpuId) {
        while let Some((_, task)) = self.k.dl_pushable(cpu, |task| task.nr_cpus_allowed > 1) {
            let curr = self.k.curr(cpu).map(|curr| self.k.task(curr));
            let moves = curr.is_some_and(|curr| curr.class == SchedClass::Dl && curr.nr_cpus_allowed > 1);
            if moves && self.k.dl_preempts(task, cpu) {
                self.k.resched_curr(cpu);
                return;
            }
            let later = self.k.dl_later(task, cpu);
            let Some(to) = later.filter(|&to| to != cpu && self.k.dl_would_be_first(task, to)) else {
                return;
            };
            self.k.rq_lock(cpu);
            self.deactivate(task, DEQUEUE_NOCLOCK);
            self.k.rq_unlock(cpu);
            self.arrive(task, to);
        }
    }
}
