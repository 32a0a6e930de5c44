//! `schedule()`: the pick, the switch, and the end of a task that has exited.

use crate::event::OfCpu;
use crate::flags::*;
use crate::state::cpu::Pass;
use crate::state::ops::{SchedExt, TracePoint, TracePointKind};
use crate::state::sim::Sim;
use crate::state::task::{RunState, SchedClass};
use schedlab_base::{CpuId, DurationNs, TaskId};
use schedlab_trace::{EventKind, TaskState};
use schedlab_workload::ProcessId;

impl crate::Kernel {
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

/// `schedule()`.
impl<S: SchedExt> Sim<S> {
    /// Picks the task that runs on `cpu`, the CPU of the context, and switches to it. False when the pass was laid down: an
    /// event of the CPU continues it, and the caller has nothing to do any more.
    #[inline(always)]
    pub(crate) fn schedule(&mut self, cpu: CpuId) -> bool {
        if !self.k.schedule_events {
            return self.pass(cpu);
        }
        self.schedule_shown(cpu)
    }

    /// [`Sim::schedule`], with the pass reported to the sinks.
    #[inline(never)]
    fn schedule_shown(&mut self, cpu: CpuId) -> bool {
        if self.k.in_setup() {
            return self.pass(cpu);
        }
        let (begin, before) = (self.k.in_run(self.k.ctx.now), self.mark());
        let complete = self.pass(cpu);
        let begun = Pass { begin, mark: self.mark() != before };
        if complete {
            self.tell_pass(cpu, begun);
        } else {
            self.k.cpu_mut(cpu).pass = Some(begun);
        }
        complete
    }

    fn mark(&self) -> u64 {
        self.ops.as_ref().map_or(0, SchedExt::mark)
    }

    fn tell_pass(&mut self, cpu: CpuId, Pass { begin, mark }: Pass) {
        let kind = EventKind::Schedule { begin, next: self.k.curr(cpu), mark };
        self.k.tell_sinks(cpu, kind);
    }

    /// A pass through `schedule()`; false when it was laid down.
    #[inline(never)]
    fn pass(&mut self, cpu: CpuId) -> bool {
        assert_eq!(self.k.ctx.cpu, cpu, "a CPU schedules for itself");
        let prev = self.k.curr(cpu);
        self.k.charge(self.k.machine.costs.schedule);
        self.k.rq_lock(cpu);
        self.k.cpu_mut(cpu).kick_sync += 1;
        let state = prev.map_or(RunState::Runnable, |task| self.k.task(task).state);
        let voluntary = state.is_blocked() || state == RunState::Dead;
        if let Some(task) = prev.filter(|_| voluntary) {
            if state.is_blocked() {
                self.k.charge(self.k.machine.costs.block);
            }
            self.deactivate(task, SCX_DEQ_SLEEP | DEQUEUE_NOCLOCK);
        }
        debug_assert!(
            prev.is_none_or(|task| self.k.task(task).cpu == cpu),
            "the running task belongs to its CPU"
        );
        if self.k.bandwidth_used()
            && let Some(task) = prev.filter(|_| !voluntary)
            && self.k.task(task).fair.leaves
            && self.k.task(task).exec.is_in_user_mode()
        {
            self.k.fair_throttle_task(cpu, task);
        }
        let pushed = self.push_off(cpu, prev);
        let next = self.pick_next(cpu, prev);
        if self.is_to_lay_down(prev, next) {
            self.lay_down(cpu);
            return false;
        }
        if next == prev {
            if prev.is_none() {
                self.idle_again(cpu);
            }
            self.clear_resched(cpu);
            self.k.rq_unlock(cpu);
        } else {
            self.switch(cpu, (prev, next), voluntary);
        }
        self.end_pass(cpu, pushed);
        if let Some(task) = prev.filter(|_| state == RunState::Dead) {
            self.k.track_departure(task);
            self.bury(task);
        }
        true
    }

    /// The task that leaves goes back on a queue, and other CPUs have something to do before the present time. A task that is
    /// taken from a shared queue is gone from it for a while before the one that leaves is there. CPUs whose slices end at the same tick look
    /// at the queue in between, find it empty, and keep their tasks.
    #[inline(always)]
    fn is_to_lay_down(&self, prev: Option<TaskId>, next: Option<TaskId>) -> bool {
        let (Some(leaves), true) = (prev, next.is_some() && next != prev) else { return false };
        let entry = self.k.task(leaves);
        let queued = entry.on_rq && entry.class == SchedClass::Ext && self.k.scx.switch_all;
        queued
            && self.k.queue.next_time() < self.k.ctx.now
            && self.k.scx.deferred_locals.is_empty()
            && !self.k.in_setup()
    }

    /// Lays the pass down behind `ops.dispatch()`. The picked task stays on the local queue meanwhile.
    #[inline(never)]
    pub(crate) fn lay_down(&mut self, cpu: CpuId) {
        self.clear_resched(cpu);
        debug_assert!(self.k.cpu(cpu).pass.is_none(), "one pass is laid down at a time");
        self.k.rq_unlock(cpu);
        self.k.kicks_pending = false;
        self.k.cpu_mut(cpu).pass = Some(Pass::default());
        let now = self.k.ctx.now;
        self.k.queue.expect(OfCpu::Pass, cpu, now);
        self.k.leave();
    }

    /// Takes up the pass of `cpu` that was laid down. What was asked of the CPU meanwhile stands: it came behind the pick.
    pub(crate) fn take_up(&mut self, cpu: CpuId) {
        let begun = self.k.cpu_mut(cpu).pass.take().expect("a pass was laid down");
        let before = self.mark();
        let entry = self.k.cpu(cpu);
        let asked = (entry.need_resched, entry.lazy_resched);
        self.k.kicks_pending = !entry.kicks.is_empty();
        self.k.rq_relock(cpu);
        let prev = self.k.curr(cpu);
        // The task that leaves may have lost the CPU meanwhile.
        let pushed = self.push_off(cpu, prev);
        let next = self.pick_next(cpu, prev);
        if next == prev {
            self.clear_resched(cpu);
            self.k.rq_unlock(cpu);
        } else {
            self.switch(cpu, (prev, next), false);
        }
        let entry = self.k.cpu_mut(cpu);
        entry.need_resched |= asked.0;
        entry.lazy_resched |= asked.1;
        self.end_pass(cpu, pushed);
        if self.k.schedule_events {
            self.tell_pass(cpu, Pass { mark: begun.mark || self.mark() != before, ..begun });
        }
    }

    /// From one task to another, or the idle task. Gives the rq lock back.
    #[inline(always)]
    fn switch(&mut self, cpu: CpuId, (prev, next): (Option<TaskId>, Option<TaskId>), voluntary: bool) {
        debug_assert!(prev != next, "a switch changes the task");
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

    #[inline(always)]
    fn end_pass(&mut self, cpu: CpuId, pushed: Option<(TaskId, CpuId)>) {
        self.k.hrtick_settle(cpu);
        self.run_deferred();
        self.after_switch(cpu, pushed);
    }

    /// The pick is final: requests from before it are answered.
    pub(crate) fn clear_resched(&mut self, cpu: CpuId) {
        let again = std::mem::take(&mut self.k.resched_after_pick);
        let entry = self.k.cpu_mut(cpu);
        entry.need_resched = again;
        entry.lazy_resched = false;
    }

    /// A running task that may not stay, or is to continue elsewhere, leaves its CPU, as the stopper thread would do it; with where it goes.
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
        debug_assert!(self.k.is_online(to), "a task is pushed to a CPU that is online");
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
        if self.k.cpu(cpu).rt.len() > 1
            && self.k.curr(cpu).is_some_and(|curr| self.k.task(curr).class == SchedClass::Rt)
        {
            self.push_realtime(cpu);
        }
    }

    /// Highest class first. Mostly there are tasks of sched_ext alone.
    #[inline(always)]
    fn pick_next(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        let entry = self.k.cpu(cpu);
        let others = entry.nr_running != entry.scx_nr_running || entry.servers.running().is_some();
        let (switch_all, ext) = (self.k.scx.switch_all && self.k.scx.enabled, SchedClass::Ext);
        if switch_all && !others && prev.is_none_or(|task| self.k.task(task).class == ext) {
            return self.ext_pick(cpu, prev);
        }
        self.pick_by_class(cpu, prev)
    }

    /// Picks where there may be tasks of other classes; an idle CPU of the fair class looks for work elsewhere.
    #[inline(never)]
    fn pick_by_class(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        if prev.is_some_and(|task| self.k.task(task).class == SchedClass::Dl)
            && self.k.is_online(cpu)
            && let Some(task) = self.k.dl_pullable(cpu)
        {
            self.pull(task, cpu);
        }
        if self.k.is_online(cpu)
            && prev.is_some_and(|task| self.k.rt_lowers(cpu, task))
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
        debug_assert!(from != cpu, "a pull changes the CPU");
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
        // The run queue has the next task when programs see the switch; `current` is still the one before.
        self.k.cpu_mut(cpu).set_curr(next);
        self.trace(TracePointKind::SchedSwitch, || TracePoint::SchedSwitch {
            preempt: !voluntary && prev.is_some(),
            prev,
            next,
            prev_state: state.bits(),
        });
        let k = &mut self.k;
        k.totals.switches += 1;
        let (mut above, mut moves) = (None, false);
        if let Some(next) = next {
            let entry = k.task_mut(next);
            entry.set_on_cpu(true);
            above = Some(entry.class);
            let mm = entry.process.0;
            moves = k.cpus[cpu.index()].last_mm.replace(mm) != Some(mm);
            k.cache_arrive(cpu, next);
        }
        prev.into_iter().chain(next).for_each(|task| k.note_pressure(task));
        k.busy_cpus = k.busy_cpus + u32::from(next.is_some()) - u32::from(prev.is_some());
        k.idle_path &= next.is_none();
        let now = k.ctx.now;
        k.cpu_mut(cpu).count_switch(now);
        k.ctx.current = next;
        let prev_state = match state {
            RunState::Runnable | RunState::New => TaskState::Runnable,
            RunState::Interruptible => TaskState::Blocked,
            RunState::Uninterruptible => TaskState::BlockedIo,
            RunState::Dead => TaskState::Exited,
        };
        k.emit(EventKind::SchedSwitch { prev, prev_state, next });
        if next.is_some() {
            let costs = &k.machine.costs;
            let space = if moves { costs.address_space_switch } else { DurationNs::ZERO };
            k.charge(space + costs.switch_end);
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

    /// `sched_yield()` of the current task; false as [`Sim::schedule`].
    #[inline(never)]
    pub(crate) fn yield_current(&mut self, cpu: CpuId, task: TaskId) -> bool {
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
        self.schedule(cpu)
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
        debug_assert!(self.k.live_tasks > 0, "a task that ends was counted");
        self.k.live_tasks -= 1;
        self.leave_group(task);
        self.k.leave_process(self.k.task(task).process);
        self.k.tasks.remove(task);
        if let Some(ops) = &mut self.ops {
            ops.task_gone(task);
        }
    }
}
