//! The scheduler core: `schedule()`, wakeups, fork, exit, changes of attributes.

use super::wake_list::QueuedWakeup;
use crate::flags::*;
use crate::state::ops::{OpKind, SchedExt, TracePoint, TracePointKind};
use crate::state::rq::Served;
use crate::state::sim::{Sim, WakeFlags};
use crate::state::task::{RunState, SchedClass};
use schedlab_base::{CpuId, Policy, TaskId};
use schedlab_trace::{EventKind, TaskState};
use schedlab_workload::ProcessId;

impl crate::Kernel {
    /// The class of tasks with `policy` at present.
    pub(crate) fn class_of(&self, policy: Policy) -> SchedClass {
        if policy.reservation().is_some() {
            SchedClass::Dl
        } else if policy.is_realtime() {
            SchedClass::Rt
        } else if !self.scx.disabling && (self.scx.switch_all || self.scx.enabled && policy == Policy::Ext) {
            SchedClass::Ext
        } else {
            SchedClass::Fair
        }
    }

    /// The same for a task that is lent a real-time priority, or 0.
    pub(crate) fn class_with(&self, policy: Policy, boost: u8) -> SchedClass {
        let class = self.class_of(policy);
        if boost > 0 { class.min(SchedClass::Rt) } else { class }
    }

    /// A new task of `process`: the pid of its first thread, `pid` when it has none yet.
    pub(crate) fn leader_pid(&mut self, process: ProcessId, pid: i32) -> i32 {
        let (leader, tasks) = self.leaders.entry(process).or_insert((pid, 0));
        *tasks += 1;
        *leader
    }

    /// A task of `process` is gone.
    fn leave_process(&mut self, process: ProcessId) {
        if let Some((_, tasks)) = self.leaders.get_mut(&process) {
            debug_assert!(*tasks > 0, "a process has the tasks that it counts");
            *tasks -= 1;
            if *tasks == 0 {
                self.leaders.remove(&process);
            }
        }
    }
}

/// Class operations with callbacks.
impl<S: SchedExt> Sim<S> {
    /// `activate_task()`: on to the run queue of its CPU.
    pub(crate) fn activate(&mut self, task: TaskId, flags: u64) {
        let entry = self.k.task_mut(task);
        assert!(!entry.on_rq, "{task} is activated once");
        entry.set_on_rq(true);
        let (cpu, class) = (entry.cpu, entry.class);
        self.enqueue(task, cpu, class, flags);
    }

    /// The class's `enqueue_task()`, for a task of this CPU and class.
    fn enqueue(&mut self, task: TaskId, cpu: CpuId, class: SchedClass, flags: u64) {
        debug_assert!(self.k.task(task).cpu == cpu, "{task} belongs to {cpu}");
        debug_assert!(self.k.task(task).state != RunState::Dead, "{task} lives");
        match class {
            SchedClass::Dl => self.k.dl_enqueue(cpu, task, flags),
            SchedClass::Rt => self.k.rt_enqueue(cpu, task, flags & SCX_ENQ_HEAD != 0),
            SchedClass::Fair => {
                self.k.count_running(cpu, class, true);
                self.k.fair_enqueue(cpu, task, flags & ENQUEUE_INITIAL != 0);
                if self.k.cpu(cpu).fair.nr == 1 {
                    self.k.server_start(cpu, Served::Fair);
                }
            }
            SchedClass::Ext => self.ext_enqueue(cpu, task, flags),
        }
    }

    /// The class's `dequeue_task()`, for a task of this CPU and class.
    /// False when a task that goes to sleep stays on the queue for the time being.
    fn dequeue(&mut self, task: TaskId, cpu: CpuId, class: SchedClass, flags: u64) -> bool {
        debug_assert!(self.k.task(task).on_rq, "{task} is on a run queue");
        debug_assert!(self.k.task(task).cpu == cpu, "{task} belongs to {cpu}");
        match class {
            SchedClass::Dl => self.k.dl_dequeue(cpu, task),
            SchedClass::Rt => self.k.rt_dequeue(cpu, task),
            SchedClass::Fair => {
                let sleeps = flags & SCX_DEQ_SLEEP != 0 && self.k.task(task).state != RunState::Dead;
                if !self.k.fair_dequeue(cpu, task, sleeps) {
                    return false;
                }
                self.k.count_running(cpu, class, false);
            }
            SchedClass::Ext => self.ext_dequeue(cpu, task, flags),
        }
        true
    }

    /// `deactivate_task()` and `block_task()`: off the run queue, or of the fair class to stay there delayed.
    pub(crate) fn deactivate(&mut self, task: TaskId, flags: u64) {
        let entry = self.k.task(task);
        assert!(entry.on_rq, "{task} is on a run queue");
        if self.dequeue(task, entry.cpu, entry.class, flags) {
            self.k.task_mut(task).set_on_rq(false);
        }
    }

    fn put_prev(&mut self, cpu: CpuId, task: TaskId, next: Option<TaskId>) {
        match self.k.task(task).class {
            SchedClass::Dl => self.k.dl_update_curr(cpu, task),
            SchedClass::Rt => self.k.rt_update_curr(cpu, task),
            SchedClass::Fair => self.k.fair_put_prev(cpu, task),
            SchedClass::Ext => self.ext_put_prev(cpu, task, next),
        }
    }

    fn set_next(&mut self, cpu: CpuId, task: TaskId) {
        match self.k.task(task).class {
            SchedClass::Dl | SchedClass::Rt => {
                let now = self.k.ctx.now;
                self.k.task_mut(task).set_exec_start(now);
            }
            SchedClass::Fair => self.k.fair_set_next(cpu, task),
            SchedClass::Ext => self.ext_set_next(cpu, task),
        }
    }

    /// The `sched_change` pattern: off the queue, change, back on.
    pub(crate) fn change(&mut self, task: TaskId, flags: u64, body: impl FnOnce(&mut Self)) {
        let cpu = self.k.task(task).cpu;
        let running = self.k.curr(cpu) == Some(task);
        self.k.rq_lock(cpu);
        if self.k.is_delayed(task) {
            self.k.fair_leave(task);
        }
        let entry = self.k.task(task);
        let (class, queued) = (entry.class, entry.on_rq);
        if queued {
            self.dequeue(task, cpu, class, flags);
        }
        if running && !(queued && class == SchedClass::Fair) {
            self.put_prev(cpu, task, None);
        }
        body(self);
        if queued {
            let entry = self.k.task(task);
            let flags = ENQUEUE_RESTORE | ENQUEUE_NOCLOCK | (flags & DEQUEUE_MOVE);
            self.enqueue(task, entry.cpu, entry.class, flags);
        }
        if running && !(queued && self.k.task(task).class == SchedClass::Fair) {
            // The clock of the run queue stands still meanwhile: the time of the change is the task's.
            let since = self.k.task(task).exec_start;
            self.set_next(cpu, task);
            self.k.task_mut(task).set_exec_start(since);
        }
        self.k.rq_unlock(cpu);
        self.run_deferred();
        self.move_deferred_locals();
    }

    /// `set_load_weight()`: the fair class reads nice at the enqueue that follows.
    pub(crate) fn reweight(&mut self, task: TaskId) {
        let entry = self.k.task(task);
        if entry.class != SchedClass::Ext || entry.scx.flags & SCX_TASK_STATE_MASK != SCX_TASK_ENABLED {
            return;
        }
        let (weight, cpu) = (entry.scx_weight(), entry.cpu);
        self.k.task_mut(task).set_scx_weight(weight);
        if self.has(OpKind::SetWeight) {
            let weight = schedlab_base::Weight(weight);
            self.call(OpKind::SetWeight, Some(task), Some(cpu), |ops, k| ops.set_weight(k, task, weight));
        }
    }

    /// `move_queued_task()`: a waiting task leaves a CPU it may not use.
    pub(crate) fn move_queued(&mut self, task: TaskId) {
        let from = self.k.task(task).cpu;
        assert!(!self.k.task(task).on_cpu, "a running task is pushed off by its CPU");
        assert!(!self.k.is_delayed(task), "{task} is awake");
        self.k.rq_lock(from);
        self.deactivate(task, DEQUEUE_NOCLOCK);
        self.k.rq_unlock(from);
        let to = self.fallback_cpu(task, from);
        self.arrive(task, to);
    }

    /// Activates a migrated task on `to`.
    pub(crate) fn arrive(&mut self, task: TaskId, to: CpuId) {
        debug_assert!(!self.k.task(task).on_rq, "{task} arrives off any run queue");
        debug_assert!(to.index() < self.k.cpus.len(), "{to} is a CPU of the machine");
        self.k.set_task_cpu(task, to);
        self.k.rq_lock(to);
        self.activate(task, 0);
        self.wakeup_preempt(to, task, false);
        self.k.rq_unlock(to);
        self.run_deferred();
        self.move_deferred_locals();
    }
}

/// Wakeups.
impl<S: SchedExt> Sim<S> {
    /// Wakes `task` (`try_to_wake_up()`): select_task_rq, enqueue, preemption
    /// check. False when it does not sleep.
    pub(crate) fn wake(&mut self, task: TaskId, flags: WakeFlags) -> bool {
        let Some(entry) = self.k.get_task(task) else { return false };
        if !entry.state.is_blocked() || entry.waking {
            return false;
        }
        self.trace(TracePointKind::SchedWaking, || TracePoint::SchedWaking { task });
        let waker = if flags.from_interrupt { None } else { self.k.ctx.current };
        let entry = self.k.task_mut(task);
        entry.last_waker = waker;
        let prev = entry.cpu;
        if entry.on_rq {
            self.wake_queued(task, waker);
            return true;
        }
        let fair = entry.class == SchedClass::Fair;
        if !fair {
            self.charge_wakeup(task);
        }
        let wake_flags = SCX_WAKE_TTWU | if flags.sync { SCX_WAKE_SYNC } else { 0 };
        let (cpu, selected) = self.select_task_rq(task, prev, wake_flags);
        let mut enq_flags = SCX_ENQ_WAKEUP | ENQUEUE_NOCLOCK;
        if selected {
            enq_flags |= SCX_ENQ_CPU_SELECTED;
        }
        if cpu != prev {
            enq_flags |= ENQUEUE_MIGRATED;
            self.k.set_task_cpu(task, cpu);
        }
        if fair {
            if self.k.queues_wakeup(cpu) {
                self.k.queue_wakeup(cpu, QueuedWakeup { task, enq_flags, waker });
                return true;
            }
            self.charge_wakeup(task);
        }
        self.finish_wake(task, cpu, enq_flags, waker);
        true
    }

    /// What waking a task of its class costs the waker.
    fn charge_wakeup(&mut self, task: TaskId) {
        let costs = &self.k.machine.costs;
        let fair = self.k.task(task).class == SchedClass::Fair;
        self.k.charge(if fair { costs.wakeup + costs.fair_wakeup } else { costs.wakeup });
    }

    /// `ttwu_runnable()`: a task on its way to sleep just goes on; one whose delayed entity is still queued goes on
    /// where it is.
    #[inline(never)]
    fn wake_queued(&mut self, task: TaskId, waker: Option<TaskId>) {
        if !self.k.is_delayed(task) {
            self.k.task_mut(task).set_state(RunState::Runnable);
            self.trace(TracePointKind::SchedWakeup, || TracePoint::SchedWakeup { task });
            return;
        }
        debug_assert!(self.k.task(task).class == SchedClass::Fair, "the fair class alone delays");
        self.charge_wakeup(task);
        let cpu = self.k.task(task).cpu;
        self.k.rq_lock(cpu);
        self.k.fair_requeue(cpu, task);
        if !self.k.task(task).on_cpu {
            self.wakeup_preempt(cpu, task, false);
        }
        self.woken(task, waker);
        self.k.rq_unlock(cpu);
    }

    /// `ttwu_do_wakeup()`.
    fn woken(&mut self, task: TaskId, waker: Option<TaskId>) {
        let entry = self.k.task_mut(task);
        entry.set_state(RunState::Runnable);
        let cpu = entry.cpu;
        self.k.emit(EventKind::SchedWakeup { task, cpu, waker });
        self.trace(TracePointKind::SchedWakeup, || TracePoint::SchedWakeup { task });
    }

    /// The part of a wakeup under the target's rq lock.
    pub(crate) fn finish_wake(&mut self, task: TaskId, cpu: CpuId, enq_flags: u64, waker: Option<TaskId>) {
        self.k.rq_lock(cpu);
        self.activate(task, enq_flags);
        self.wakeup_preempt(cpu, task, false);
        self.woken(task, waker);
        self.k.rq_unlock(cpu);
        self.run_deferred();
        self.move_deferred_locals();
    }

    /// `wake_up_new_task()`.
    pub(crate) fn wake_new(&mut self, task: TaskId) {
        let prev = self.k.task(task).cpu;
        let (cpu, selected) = self.select_task_rq(task, prev, SCX_WAKE_FORK);
        self.k.set_task_cpu(task, cpu);
        let mut flags = ENQUEUE_NOCLOCK | ENQUEUE_INITIAL;
        if selected {
            flags |= SCX_ENQ_CPU_SELECTED;
        }
        self.k.rq_lock(cpu);
        self.k.task_mut(task).set_state(RunState::Runnable);
        self.activate(task, flags);
        let waker = self.k.ctx.current;
        self.k.emit(EventKind::SchedWakeup { task, cpu, waker });
        self.trace(TracePointKind::SchedWakeupNew, || TracePoint::SchedWakeupNew { task });
        self.wakeup_preempt(cpu, task, true);
        self.k.rq_unlock(cpu);
        self.run_deferred();
        self.move_deferred_locals();
    }

    /// `select_task_rq()`: the CPU, and whether the class was asked.
    fn select_task_rq(&mut self, task: TaskId, prev: CpuId, wake_flags: u64) -> (CpuId, bool) {
        let entry = self.k.task(task);
        let (cpu, selected) = if entry.nr_cpus_allowed > 1 && entry.migration_disabled == 0 {
            let cpu = match entry.class {
                SchedClass::Dl => self.k.dl_select(task, prev, wake_flags),
                SchedClass::Rt => self.k.rt_select(task, prev),
                SchedClass::Fair => self.k.fair_select(task, prev, wake_flags),
                SchedClass::Ext => self.ext_select(task, prev, wake_flags),
            };
            (cpu, true)
        } else if entry.migration_disabled > 0 {
            (prev, false)
        } else {
            (entry.cpus_allowed.lowest().expect("an affinity mask is not empty"), false)
        };
        if self.k.task(task).allows_of(cpu, self.k.cpus.len()) && self.k.is_online(cpu) {
            (cpu, selected)
        } else {
            (self.fallback_cpu(task, prev), selected)
        }
    }

    /// `wakeup_preempt()`: between classes the higher one wins, within one it decides. `new` for a task that has just been
    /// forked.
    pub(crate) fn wakeup_preempt(&mut self, cpu: CpuId, task: TaskId, new: bool) {
        let class = self.k.task(task).class;
        let Some(curr) = self.k.curr(cpu) else {
            self.k.resched_curr(cpu);
            return;
        };
        let running = self.k.task(curr).class;
        if class < running {
            if running == SchedClass::Ext && self.k.cpu(cpu).nr_immed > 0 {
                self.k.cpu_mut(cpu).reenq_local = true;
            }
            self.k.resched_curr(cpu);
        } else if class == running {
            match class {
                SchedClass::Dl => self.k.dl_wakeup_preempt(cpu, task),
                SchedClass::Rt => {
                    if self.k.task(task).rt_priority() > self.k.task(curr).rt_priority() {
                        self.k.resched_curr(cpu);
                    }
                }
                SchedClass::Fair => self.k.fair_wakeup_preempt(cpu, task, new),
                SchedClass::Ext => {}
            }
        }
    }
}

/// `schedule()`.
impl<S: SchedExt> Sim<S> {
    /// Picks the task that runs on `cpu`, the CPU of the context, and switches to it.
    pub(crate) fn schedule(&mut self, cpu: CpuId) {
        if !self.k.schedule_events || self.k.setup {
            return self.pass(cpu);
        }
        let mark = |sim: &Sim<S>| sim.ops.as_ref().map_or(0, SchedExt::mark);
        let (begin, before) = (self.k.in_run(self.k.ctx.now), mark(self));
        self.pass(cpu);
        let kind = EventKind::Schedule { begin, next: self.k.curr(cpu), mark: mark(self) != before };
        self.k.tell_sinks(cpu, kind);
    }

    /// A pass through `schedule()`.
    fn pass(&mut self, cpu: CpuId) {
        assert_eq!(self.k.ctx.cpu, cpu, "a CPU schedules for itself");
        let prev = self.k.curr(cpu);
        self.k.charge(self.k.machine.costs.schedule);
        self.k.rq_lock(cpu);
        self.k.cpu_mut(cpu).kick_sync += 1;
        let state = prev.map_or(RunState::Runnable, |task| self.k.task(task).state);
        let voluntary = state.is_blocked() || state == RunState::Dead;
        if let Some(task) = prev.filter(|_| voluntary) {
            self.deactivate(task, SCX_DEQ_SLEEP | DEQUEUE_NOCLOCK);
        }
        let pushed = self.push_off(cpu, prev);
        let next = self.pick_next(cpu, prev);
        if next == prev {
            if prev.is_none() {
                self.idle_again(cpu);
            }
            self.clear_resched(cpu);
            self.k.rq_unlock(cpu);
        } else {
            if let Some(prev) = prev {
                self.put_prev(cpu, prev, next);
            }
            self.switch_idle(cpu, prev, next);
            if let Some(next) = next {
                self.set_next(cpu, next);
                self.k.dl_note(cpu, next);
            }
            self.clear_resched(cpu);
            self.context_switch(cpu, prev, next, voluntary);
        }
        self.k.hrtick_settle(cpu);
        self.run_deferred();
        self.after_switch(cpu, pushed);
        if let Some(task) = prev.filter(|_| state == RunState::Dead) {
            self.k.track_departure(task);
            self.bury(task);
        }
    }

    /// The pick is final: requests from before it are answered.
    fn clear_resched(&mut self, cpu: CpuId) {
        let again = std::mem::take(&mut self.k.resched_after_pick);
        let entry = self.k.cpu_mut(cpu);
        entry.need_resched = again;
        entry.lazy_resched = false;
    }

    /// A running task that may not stay, or is to go on elsewhere, leaves its CPU, as the stopper thread would do it; with where it goes.
    fn push_off(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<(TaskId, CpuId)> {
        let entry = self.k.cpu_mut(cpu);
        let (off, to) = (std::mem::take(&mut entry.push_off), entry.push_to.take());
        if off || to.is_some() { self.push_off_now(cpu, prev?, to) } else { None }
    }

    #[inline(never)]
    fn push_off_now(&mut self, cpu: CpuId, task: TaskId, to: Option<CpuId>) -> Option<(TaskId, CpuId)> {
        let entry = self.k.task(task);
        if !entry.on_rq || self.k.is_delayed(task) {
            return None;
        }
        let to = if entry.allows(cpu) && self.k.is_online(cpu) {
            let movable =
                |to: &CpuId| entry.class == SchedClass::Fair && entry.allows(*to) && self.k.is_online(*to);
            to.filter(movable)?
        } else {
            self.fallback_cpu(task, cpu)
        };
        self.deactivate(task, DEQUEUE_NOCLOCK);
        Some((task, to))
    }

    /// What follows the switch with the rq lock released: the arrival of a pushed task,
    /// deferred moves and re-enqueues.
    fn after_switch(&mut self, cpu: CpuId, pushed: Option<(TaskId, CpuId)>) {
        if let Some((task, to)) = pushed {
            self.arrive(task, to);
        }
        self.move_deferred_locals();
        self.reenqueue_locals(cpu);
        if self.k.cpu(cpu).dl.len() > 1 {
            self.push_deadline(cpu);
        }
    }

    /// Highest class first; an idle CPU of the fair class looks for work elsewhere.
    fn pick_next(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        if prev.is_some_and(|task| self.k.task(task).class == SchedClass::Dl)
            && self.k.is_online(cpu)
            && let Some(task) = self.k.dl_pullable(cpu)
        {
            self.pull(task, cpu);
        }
        if self.k.cpu(cpu).rt.is_empty()
            && self.k.is_online(cpu)
            && prev.is_some_and(|task| self.k.task(task).class == SchedClass::Rt)
            && let Some(task) = self.k.rt_pullable(cpu)
        {
            self.pull(task, cpu);
        }
        if let Some(task) = self.pick_deadline(cpu, prev).or_else(|| self.k.rt_pick(cpu)) {
            return Some(task);
        }
        if let Some(task) = self.pick_fair(cpu, prev) {
            return Some(task);
        }
        if self.k.scx.enabled { self.ext_pick(cpu, prev) } else { None }
    }

    /// `pick_task_fair()`: where the queue is empty, or has been left by those that slept, others' tasks are looked for.
    fn pick_fair(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        loop {
            if self.k.cpu(cpu).fair.nr == 0 && !self.k.scx.switch_all && self.k.is_online(cpu) {
                self.newidle_balance(cpu, prev);
            }
            if self.k.cpu(cpu).fair.nr == 0 {
                return None;
            }
            self.k.fair_update_curr(cpu);
            if let Some(task) = self.k.fair_pick_next(cpu, true) {
                return Some(task);
            }
        }
    }

    /// Pulls a waiting task of a class without callbacks to this CPU, whose lock
    /// is held.
    #[inline(never)]
    pub(crate) fn pull(&mut self, task: TaskId, cpu: CpuId) {
        let from = self.k.task(task).cpu;
        assert!(self.k.task(task).class != SchedClass::Ext, "sched_ext tasks move by dispatch");
        self.k.rq_lock(from);
        self.deactivate(task, DEQUEUE_NOCLOCK);
        self.k.rq_unlock(from);
        self.k.set_task_cpu(task, cpu);
        self.activate(task, 0);
    }

    fn context_switch(&mut self, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>, voluntary: bool) {
        let k = &mut self.k;
        if let Some(next) = next {
            k.ctx.now = k.ctx.now.max(k.task(next).ready_at);
        }
        if prev.is_none() {
            k.server_update_idle(cpu);
        }
        k.rq_unlock(cpu);
        let fair = |task: Option<TaskId>| task.is_some_and(|task| k.task(task).class == SchedClass::Fair);
        let halves = u64::from(fair(prev)) + u64::from(fair(next));
        let costs = &k.machine.costs;
        let switch = if prev.is_some() && next.is_some() { costs.context_switch } else { costs.idle_switch };
        k.charge(switch + costs.fair_switch * halves / 2);
        let mut state = RunState::Runnable;
        if let Some(prev) = prev {
            k.cache_leave(cpu, prev);
            let entry = k.task_mut(prev);
            state = entry.state;
            entry.set_on_cpu(false);
            entry.count_switch(voluntary);
        }
        self.trace(TracePointKind::SchedSwitch, || TracePoint::SchedSwitch {
            preempt: !voluntary && prev.is_some(),
            prev,
            next,
            prev_state: state.bits(),
        });
        let k = &mut self.k;
        k.totals.switches += 1;
        let mut above = None;
        if let Some(next) = next {
            let entry = k.task_mut(next);
            entry.set_on_cpu(true);
            above = Some(entry.class);
            let mm = entry.process.0;
            if k.cpus[cpu.index()].last_mm.replace(mm) != Some(mm) {
                k.charge(k.machine.costs.address_space_switch);
            }
            k.cache_arrive(cpu, next);
        }
        k.busy_cpus = k.busy_cpus + u32::from(next.is_some()) - u32::from(prev.is_some());
        k.idle_path &= next.is_none();
        let now = k.ctx.now;
        let entry = k.cpu_mut(cpu);
        entry.set_curr(next);
        entry.nr_switches += 1;
        entry.last_switch = now;
        k.ctx.current = next;
        let prev_state = match state {
            RunState::Runnable | RunState::New => TaskState::Runnable,
            RunState::Interruptible => TaskState::Blocked,
            RunState::Uninterruptible => TaskState::BlockedIo,
            RunState::Dead => TaskState::Exited,
        };
        k.emit(EventKind::SchedSwitch { prev, prev_state, next });
        if next.is_some() {
            k.arm_tick(cpu);
        } else {
            k.charge(k.machine.costs.idle_enter);
        }
        if !k.topology.even_speed && prev.is_some() != next.is_some() {
            k.set_pace_beside(cpu, k.ctx.now);
        }
        if above.is_some_and(|class| k.starves_others(class)) {
            k.server_arm(cpu);
        }
    }

    /// `sched_yield()` of the current task.
    #[inline(never)]
    pub(crate) fn yield_current(&mut self, cpu: CpuId, task: TaskId) {
        let costs = &self.k.machine.costs;
        let cost = costs.syscall + costs.sched_yield;
        self.charge_task(cost);
        self.k.rq_lock(cpu);
        match self.k.task(task).class {
            SchedClass::Dl => self.k.dl_yield(cpu, task),
            SchedClass::Rt => self.k.rt_yield(cpu, task),
            SchedClass::Fair => self.k.fair_yield(cpu, task),
            SchedClass::Ext => self.ext_yield(cpu, task),
        }
        self.k.rq_unlock(cpu);
        self.schedule(cpu);
    }

    /// `finish_task_switch()` of a dead task: the scheduler forgets it, its memory
    /// is reused.
    #[inline(never)]
    fn bury(&mut self, task: TaskId) {
        assert!(!self.k.task(task).on_rq && !self.k.task(task).on_cpu, "the dead do not run");
        self.ext_dead(task);
        if self.k.task(task).policy.reservation().is_some() {
            self.k.dl_release(task);
        }
        self.k.live_tasks -= 1;
        self.k.leave_process(self.k.task(task).process);
        self.k.tasks.remove(task);
        if let Some(ops) = &mut self.ops {
            ops.task_gone(task);
        }
    }
}
