//! The paths: the end of a burst, a timer, a reschedule interrupt, and the wakeup and the pass through `schedule()` that
//! follow.

use crate::event::{Event, OfCpu};
use crate::exec::sleepers::still_sleeps;
use crate::exec::{self, Step, Straight};
use crate::flags::*;
use crate::state::kernel::Interrupt;
use crate::state::ops::SchedExt;
use crate::state::sim::{Sim, WakeFlags};
use crate::state::task::{Burst, RunState, SchedClass};
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_trace::{EventKind, TaskState};

/// What a program has come to.
enum Next {
    /// A burst, whose end is an event, or what others have to do first.
    Waits,
    /// The CPU was asked to schedule.
    Schedules,
    /// The task sleeps.
    Sleeps,
    /// The step of an operation that is not the lane's.
    Step(Option<Step>),
}

/// Events.
impl<S: SchedExt> Sim<S> {
    /// Takes the event if its kind is one of the lane's.
    #[inline(always)]
    pub(super) fn take_straight(&mut self, time: TimeNs, event: Event) -> bool {
        match event {
            Event::Work { cpu } => self.straight_work(cpu, time),
            Event::Latest { cpu, task } => self.straight_latest(cpu, time, task),
            Event::Ipi { cpu } => self.straight_ipi(cpu, time),
            Event::Late { cpu } => self.late(cpu, time),
            _ => return false,
        }
        true
    }

    /// [`Sim::work`], at even speed.
    #[inline(always)]
    fn straight_work(&mut self, cpu: CpuId, time: TimeNs) {
        let entry = self.k.cpu_mut(cpu);
        if !entry.burst_active || entry.burst_end > time {
            if entry.burst_active {
                let end = entry.burst_end;
                self.k.queue.expect(OfCpu::Work, cpu, end);
            }
            return;
        }
        entry.burst_active = false;
        self.k.enter(cpu, time);
        if let Some(task) = self.k.curr(cpu) {
            self.k.task_mut(task).burst = Burst::default();
        }
        self.straight_run(cpu);
        self.end_straight();
    }

    /// [`Sim::latest`], where all CPUs are online.
    #[inline(always)]
    fn straight_latest(&mut self, cpu: CpuId, time: TimeNs, task: TaskId) {
        if self.postponed(cpu, time, Event::Latest { cpu, task }) {
            return;
        }
        self.k.count_timeout(task, false);
        if still_sleeps(self, task) {
            self.straight_interrupt(cpu, time, |sim| {
                sim.straight_sleepers(cpu, task);
                sim.k.charge(sim.k.machine.costs.interrupt);
            });
        }
    }

    /// A reschedule interrupt.
    #[inline(never)]
    fn straight_ipi(&mut self, cpu: CpuId, time: TimeNs) {
        if self.postponed(cpu, time, Event::Ipi { cpu }) {
            return;
        }
        let entry = self.k.cpu_mut(cpu);
        entry.ipi_pending = false;
        let asked = !entry.wake_list.is_empty();
        if asked || self.k.balancing.is_asked(cpu) {
            self.interrupt(cpu, time, |sim| {
                sim.take_wake_list(cpu);
                sim.idle_balance(cpu);
            });
            self.look_at_lane();
        } else if self.k.cpu(cpu).need_resched {
            self.straight_interrupt(cpu, time, |_| {});
        }
    }

    /// [`Sim::interrupt`].
    #[inline(always)]
    fn straight_interrupt(&mut self, cpu: CpuId, time: TimeNs, body: impl FnOnce(&mut Self)) {
        self.k.enter(cpu, time);
        self.k.ctx.interrupt = Interrupt::Hard;
        if self.k.ctx.current.is_none() {
            self.k.charge(self.k.machine.costs.idle_exit);
        }
        body(self);
        self.k.run_kicks();
        self.k.ctx.interrupt = Interrupt::None;
        let spent = self.k.ctx.now - time;
        let entry = self.k.cpu_mut(cpu);
        if entry.need_resched || entry.lazy_resched {
            self.save_burst(cpu, time);
            if self.straight_schedule(cpu) {
                self.k.run_kicks();
                self.straight_run(cpu);
            }
        } else {
            if entry.burst_active {
                entry.burst_end += spent;
                let end = entry.burst_end;
                self.k.queue.expect(OfCpu::Work, cpu, end);
            }
            self.k.leave();
        }
        self.end_straight();
    }

    /// The path is over: an exit that was claimed in it ends the lane.
    #[inline(always)]
    fn end_straight(&mut self) {
        if self.k.scx.exit.is_some() {
            self.check_exit();
            self.look_at_lane();
        }
    }

    /// [`Sim::run_sleepers`] for the latest instant of the timer of `of`.
    #[inline(always)]
    fn straight_sleepers(&mut self, cpu: CpuId, of: TaskId) {
        let now = self.k.ctx.now;
        while let Some(task) = exec::sleepers::due(self, cpu, now, Some(of)) {
            self.straight_wake(task);
        }
    }
}

/// Programs.
impl<S: SchedExt> Sim<S> {
    /// [`Sim::run_current`].
    #[inline(never)]
    fn straight_run(&mut self, cpu: CpuId) {
        loop {
            self.k.run_kicks();
            let entry = self.k.cpu(cpu);
            if entry.need_resched {
                if self.k.is_behind() {
                    self.step_back(cpu);
                    break;
                }
                if !self.straight_schedule(cpu) {
                    return;
                }
                continue;
            }
            let Some(task) = entry.curr else { break };
            match self.straight_program(cpu, task) {
                Next::Waits => break,
                Next::Schedules => {}
                Next::Sleeps => {
                    let complete = self.straight_schedule(cpu);
                    debug_assert!(complete, "a task that sleeps waits on no queue");
                }
                Next::Step(step) => {
                    if !self.run_on(cpu, task, step) {
                        return;
                    }
                }
            }
        }
        self.k.leave();
    }

    /// Runs the program of the running task through bursts that end before anything else happens. No kick and no other task
    /// comes in between.
    #[inline(always)]
    fn straight_program(&mut self, cpu: CpuId, task: TaskId) -> Next {
        loop {
            let k = &mut self.k;
            let entry = k.tasks.living_mut(task);
            let (burst, private) = (entry.burst, entry.exec.is_private());
            if burst.work > DurationNs::ZERO || burst.refill > DurationNs::ZERO {
                let end = k.ctx.now + burst.refill + burst.work;
                if end >= k.limit || end >= k.queue.next_time() {
                    let entry = k.cpu_mut(cpu);
                    (entry.burst_factor, entry.burst_end, entry.burst_active) = (1000, end, true);
                    k.queue.expect(OfCpu::Work, cpu, end);
                    return Next::Waits;
                }
                k.ctx.now = end;
                entry.burst = Burst::default();
            }
            if !(private && k.ctx.now < k.limit) && k.is_behind() {
                self.step_back(cpu);
                return Next::Waits;
            }
            match exec::next_straight(self, cpu, task) {
                Straight::Computes(work) => self.k.task_mut(task).burst.work = work,
                Straight::Sleeps => return Next::Sleeps,
                Straight::Began(step) => return Next::Step(step),
                Straight::Other => return Next::Step(Some(exec::next(self, cpu, task))),
            }
            if self.k.cpu(cpu).need_resched {
                return Next::Schedules;
            }
        }
    }

    /// The general core takes the step that an operation has come to that is not the lane's, and continues where the lane may not any
    /// more. False if there is nothing left to do.
    #[inline(never)]
    fn run_on(&mut self, cpu: CpuId, task: TaskId, step: Option<Step>) -> bool {
        let complete = step.is_none_or(|step| self.take_step(cpu, task, step));
        self.look_at_lane();
        if complete && !self.lane.open {
            self.run_current(cpu);
        }
        complete && self.lane.open
    }
}

/// Wakeups.
impl<S: SchedExt> Sim<S> {
    /// [`Sim::wake`] by a timer.
    #[inline(never)]
    fn straight_wake(&mut self, task: TaskId) {
        let Some(entry) = self.k.tasks.get_mut(task) else { return };
        let pinned = entry.nr_cpus_allowed <= 1 || entry.migration_disabled > 0;
        if entry.class != SchedClass::Ext
            || entry.on_rq
            || pinned
            || entry.waking
            || !entry.state.is_blocked()
        {
            self.wake(task, WakeFlags { from_interrupt: true, ..WakeFlags::default() });
            return;
        }
        entry.last_waker = None;
        entry.show_waking();
        let prev = entry.cpu;
        self.k.charge(self.k.machine.costs.wakeup);
        let mut cpu = self.ext_select(task, prev, SCX_WAKE_TTWU);
        if !self.k.task(task).allows_of(cpu, self.k.cpus.len()) {
            cpu = self.fallback_cpu(task, prev);
        }
        let mut flags = SCX_ENQ_WAKEUP | ENQUEUE_NOCLOCK | SCX_ENQ_CPU_SELECTED;
        if cpu != prev {
            flags |= ENQUEUE_MIGRATED;
            self.k.set_task_cpu(task, cpu);
        }
        self.k.rq_lock(cpu);
        self.k.task_mut(task).begin_activation();
        self.ext_enqueue(cpu, task, flags);
        self.k.task_mut(task).show_on_rq();
        if self.k.curr(cpu).is_none() {
            self.k.resched_curr(cpu);
        }
        self.k.task_mut(task).set_woken();
        self.k.emit(EventKind::SchedWakeup { task, cpu, waker: None });
        self.k.rq_unlock(cpu);
        self.run_deferred();
        self.move_deferred_locals();
    }
}

/// `schedule()`.
impl<S: SchedExt> Sim<S> {
    /// [`Sim::schedule`] where there are tasks of sched_ext alone.
    #[inline(never)]
    fn straight_schedule(&mut self, cpu: CpuId) -> bool {
        let entry = self.k.cpu(cpu);
        let prev = entry.curr;
        let others = entry.nr_running != entry.scx_nr_running || entry.servers.running().is_some();
        let moves = entry.push_off | entry.push_to.is_some() | entry.cpu_released;
        let state = prev.map_or(RunState::Runnable, |task| self.k.task(task).state);
        let other = prev.is_some_and(|task| self.k.task(task).class != SchedClass::Ext);
        if others || moves || other || state == RunState::Dead {
            return self.schedule(cpu);
        }
        self.k.charge(self.k.machine.costs.schedule);
        self.k.rq_lock(cpu);
        self.k.cpu_mut(cpu).kick_sync += 1;
        let voluntary = state != RunState::Runnable;
        if let Some(task) = prev.filter(|_| voluntary) {
            self.k.charge(self.k.machine.costs.block);
            self.k.task_mut(task).show_blocked();
            self.ext_dequeue(cpu, task, SCX_DEQ_SLEEP | DEQUEUE_NOCLOCK);
            self.k.task_mut(task).set_on_rq(false);
        }
        let next = self.ext_pick(cpu, prev);
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
            self.straight_switch(cpu, prev, next, voluntary);
        }
        self.k.hrtick_settle(cpu);
        self.run_deferred();
        self.move_deferred_locals();
        self.reenqueue_locals(cpu);
        true
    }

    #[inline(always)]
    fn straight_switch(&mut self, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>, voluntary: bool) {
        if let Some(prev) = prev {
            self.ext_put_prev(cpu, prev, next);
        }
        self.switch_idle(cpu, prev, next);
        if let Some(next) = next {
            self.ext_set_next(cpu, next);
        }
        self.clear_resched(cpu);
        self.straight_context_switch(cpu, prev, next, voluntary);
    }

    #[inline(always)]
    fn straight_context_switch(
        &mut self,
        cpu: CpuId,
        prev: Option<TaskId>,
        next: Option<TaskId>,
        voluntary: bool,
    ) {
        let k = &mut self.k;
        if let Some(next) = next {
            k.ctx.now = k.ctx.now.max(k.task(next).ready_at);
        }
        if prev.is_none() {
            k.server_update_idle(cpu);
        }
        k.rq_unlock(cpu);
        let costs = &k.machine.costs;
        k.charge(if prev.is_some() && next.is_some() { costs.context_switch } else { costs.idle_switch });
        let mut prev_state = TaskState::Runnable;
        if let Some(prev) = prev {
            k.cache_leave(cpu, prev);
            let entry = k.task_mut(prev);
            prev_state = match entry.state {
                RunState::Interruptible => TaskState::Blocked,
                RunState::Uninterruptible => TaskState::BlockedIo,
                _ => TaskState::Runnable,
            };
            entry.set_on_cpu(false);
            entry.count_switch(voluntary);
        }
        k.totals.switches += 1;
        let mut moves = false;
        if let Some(next) = next {
            let entry = k.task_mut(next);
            entry.set_on_cpu(true);
            let mm = entry.process.0;
            moves = k.cpus[cpu.index()].last_mm.replace(mm) != Some(mm);
            k.cache_arrive(cpu, next);
        }
        k.busy_cpus = k.busy_cpus + u32::from(next.is_some()) - u32::from(prev.is_some());
        let now = k.ctx.now;
        let entry = k.cpu_mut(cpu);
        entry.set_curr(next);
        entry.nr_switches += 1;
        entry.last_switch = now;
        k.ctx.current = next;
        k.emit(EventKind::SchedSwitch { prev, prev_state, next });
        if next.is_some() {
            let costs = &k.machine.costs;
            let space = if moves { costs.address_space_switch } else { DurationNs::ZERO };
            k.charge(space + costs.switch_end);
            k.arm_tick(cpu);
        } else {
            k.charge(k.machine.costs.idle_enter);
        }
    }
}
