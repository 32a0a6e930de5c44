//! The event loop: interrupts, bursts, and what a CPU does between them.

use crate::Kernel;
use crate::event::{Event, OfCpu};
use crate::exec::{self, Step};
use crate::state::kernel::Interrupt;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::subs::SchedIx;
use crate::state::task::{Burst, RunState};
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};

impl<S: SchedExt> Sim<S> {
    /// Takes an event in the general core.
    #[inline]
    pub(crate) fn take_in_general(&mut self, time: TimeNs, event: Event) {
        match event {
            // Half of all events, and the shortest.
            Event::Work { cpu } => self.work(cpu, time),
            event => self.take(time, event),
        }
        if self.k.checker_on {
            self.check_state(time);
        }
        self.note_state(time, event);
    }

    /// Takes one event.
    pub(crate) fn take(&mut self, time: TimeNs, event: Event) {
        match event {
            Event::Work { cpu } => self.work(cpu, time),
            Event::Pass { cpu } => {
                self.k.enter(cpu, time);
                self.take_up(cpu);
                self.run_current(cpu);
                self.check_exit();
            }
            Event::Tick { cpu } => self.tick(cpu, time),
            Event::HrTick { cpu } => self.hrtick(cpu, time),
            Event::Ipi { cpu } => {
                if self.postponed(cpu, time, event) {
                    return;
                }
                self.k.cpu_mut(cpu).ipi_pending = false;
                let entry = self.k.cpu(cpu);
                if entry.need_resched || !entry.wake_list.is_empty() || self.k.balancing.is_asked(cpu) {
                    self.interrupt(cpu, time, |sim| {
                        sim.take_wake_list(cpu);
                        sim.idle_balance(cpu);
                    });
                }
            }
            Event::Timer { timer } => self.timer(time, timer),
            Event::Late { cpu } => self.late(cpu, time),
            Event::Server { cpu } => self.server_timer(cpu, time),
            Event::Latest { cpu, task } => self.latest(cpu, time, task),
            Event::Replenish { cpu, task } => self.replenish(cpu, time, task),
            Event::RtPeriod { cpu } => self.rt_period(cpu, time),
            Event::Bandwidth { group } => self.bandwidth_timer(time, group, false),
            Event::Slack { group } => self.bandwidth_timer(time, group, true),
            Event::Timeout { cpu, task } => {
                let cpu = self.k.or_online(cpu);
                if !self.postponed(cpu, time, event) {
                    self.k.count_timeout(task, false);
                    self.interrupt(cpu, time, |sim| {
                        exec::timeout(sim, task);
                        // Most of it follows: the next timer is armed, the interrupt ends.
                        sim.k.charge(sim.k.machine.costs.interrupt);
                    });
                }
            }
            Event::Watchdog => self.watchdog(time),
            Event::Change { index } => {
                if !self.postponed(CpuId(0), time, event) {
                    self.interrupt(CpuId(0), time, |sim| sim.apply(index));
                }
            }
            Event::User { turn } => self.user_turn(time, turn),
            Event::Attach | Event::Detach => {
                if !self.postponed(CpuId(0), time, event) {
                    let attach = event == Event::Attach;
                    self.interrupt(CpuId(0), time, if attach { Sim::attach_late } else { Sim::detach });
                }
            }
            Event::Rescue { .. } | Event::AttachSub { .. } | Event::DisableSub { .. } => {
                self.take_of_subs(time, event);
            }
            Event::Disable => {
                if !self.postponed(CpuId(0), time, event) {
                    self.interrupt(CpuId(0), time, Sim::disable);
                }
            }
        }
    }

    /// An event of sub-schedulers.
    #[inline(never)]
    fn take_of_subs(&mut self, time: TimeNs, event: Event) {
        let cpu = if let Event::Rescue { cpu } = event { cpu } else { CpuId(0) };
        if self.postponed(cpu, time, event) {
            return;
        }
        self.interrupt(cpu, time, |sim| match event {
            Event::Rescue { cpu } => {
                sim.k.charge(sim.k.machine.costs.interrupt);
                sim.rescue_timer(cpu);
                sim.run_deferred();
            }
            Event::AttachSub { number } => sim.attach_sub(number as usize),
            Event::DisableSub { sub } => sim.disable_later(SchedIx(sub as u16)),
            _ => unreachable!("{event:?} is not of sub-schedulers"),
        });
    }

    /// The CPU takes the first of the interrupts that came while it was busy.
    #[inline(never)]
    fn late(&mut self, cpu: CpuId, time: TimeNs) {
        let entry = self.k.cpu_mut(cpu);
        if entry.clock > time {
            let clock = entry.clock;
            self.k.queue.expect(OfCpu::Late, cpu, clock);
            return;
        }
        let event = entry.late.pop_front().expect("the event stands for interrupts");
        if !entry.late.is_empty() {
            debug_assert!(entry.clock <= time, "the interrupt comes when the CPU is free");
            // The path that begins now does not run past the next one.
            self.k.queue.expect(OfCpu::Late, cpu, time);
        }
        self.take(time, event);
    }

    /// An interrupt on `cpu`: `body`, then kicks, then `schedule()` if it was asked for; otherwise
    /// the interrupted burst continues.
    pub(crate) fn interrupt(&mut self, cpu: CpuId, time: TimeNs, body: impl FnOnce(&mut Self)) {
        self.k.enter(cpu, time);
        self.k.ctx.interrupt = Interrupt::Hard;
        let idle = self.k.cpu(cpu).is_idle();
        if idle {
            self.k.set_idle_path(cpu, time, true);
            self.k.charge(self.k.machine.costs.idle_exit);
        }
        body(self);
        self.k.run_kicks();
        self.k.ctx.interrupt = Interrupt::None;
        let entry = self.k.cpu(cpu);
        if entry.need_resched || entry.lazy_resched {
            self.save_burst(cpu, time);
            if self.schedule(cpu) {
                self.k.run_kicks();
                self.run_current(cpu);
            }
        } else {
            let spent = self.k.ctx.now - time;
            let entry = self.k.cpu_mut(cpu);
            if entry.burst_active {
                entry.burst_end += spent;
                if self.k.topology.even_speed {
                    self.k.queue.expect(OfCpu::Work, cpu, self.k.cpus[cpu.index()].burst_end);
                }
            }
            self.k.leave();
        }
        if idle {
            self.k.set_idle_path(cpu, self.k.ctx.now, false);
        }
        self.check_exit();
    }

    /// The burst stops at `time`: what is left of it goes back to the task.
    fn save_burst(&mut self, cpu: CpuId, time: TimeNs) {
        let entry = self.k.cpu_mut(cpu);
        if !std::mem::take(&mut entry.burst_active) {
            return;
        }
        let left = entry.burst_end.since(time);
        let factor = u64::from(entry.burst_factor);
        debug_assert!(entry.burst_factor > 0, "work takes time");
        let task = entry.curr.expect("a burst has a task");
        let burst = &mut self.k.task_mut(task).burst;
        // The refill comes first, so it is what is left beyond the work.
        let work_wall = burst.work.scale(factor, 1000);
        burst.refill = left.saturating_sub(work_wall);
        if left < work_wall {
            burst.work = left.scale(1000, factor);
        }
    }

    /// The running task computes for `burst` from now on. A burst that ends before anything else happens needs no
    /// event: true when it was done.
    #[inline(always)]
    fn start_burst(&mut self, cpu: CpuId, task: TaskId, burst: Burst) -> bool {
        let factor = self.k.speed_factor(cpu);
        let work = if factor == 1000 { burst.work } else { burst.work.scale(u64::from(factor), 1000) };
        let now = self.k.ctx.now;
        let end = now + burst.refill + work;
        debug_assert!(end >= now, "a burst does not end in the past");
        if !self.k.over(end) && end < self.k.queue.next_time() {
            self.k.ctx.now = end;
            self.k.task_mut(task).burst = Burst::default();
            return true;
        }
        let entry = self.k.cpu_mut(cpu);
        entry.burst_factor = factor;
        entry.burst_end = end;
        entry.burst_active = true;
        self.k.expect_work(cpu, now);
        false
    }

    /// A burst may be over, or the CPU had stepped back to let others go first.
    #[inline]
    pub(crate) fn work(&mut self, cpu: CpuId, time: TimeNs) {
        let entry = self.k.cpu_mut(cpu);
        if !entry.burst_active || entry.burst_end > time {
            if entry.burst_active {
                // A kernel path of this CPU may be ahead of the event.
                let now = time.max(entry.clock);
                self.k.set_pace(cpu, now);
                self.k.expect_work(cpu, now);
            }
            return;
        }
        entry.burst_active = false;
        self.k.enter(cpu, time);
        debug_assert!(self.k.cpu(cpu).burst_end <= time, "the burst is over");
        if let Some(task) = self.k.curr(cpu) {
            self.k.task_mut(task).burst = Default::default();
        }
        self.run_current(cpu);
        self.check_exit();
    }

    /// Runs the current task's program up to its next burst, through as many system calls and
    /// switches as come before the next event of any CPU.
    pub(crate) fn run_current(&mut self, cpu: CpuId) {
        loop {
            self.k.run_kicks();
            let entry = self.k.cpu(cpu);
            if entry.need_resched {
                if self.k.is_behind() {
                    self.step_back(cpu);
                    break;
                }
                if !self.schedule(cpu) {
                    return;
                }
                continue;
            }
            let Some(task) = entry.curr else { break };
            let burst = self.k.task(task).burst;
            let has_burst = burst.work > DurationNs::ZERO || burst.refill > DurationNs::ZERO;
            if has_burst && !self.start_burst(cpu, task, burst) {
                break;
            }
            let alone = self.k.task(task).exec.is_private() && !self.k.over(self.k.ctx.now);
            if !alone && self.k.is_behind() {
                self.step_back(cpu);
                break;
            }
            match exec::next(self, cpu, task) {
                Step::Compute(work) => self.k.task_mut(task).burst.work = work,
                Step::Blocked => {
                    if self.k.task(task).state != RunState::Runnable {
                        self.k.run_kicks();
                        let complete = self.schedule(cpu);
                        debug_assert!(complete, "a task that sleeps waits on no queue");
                    }
                }
                Step::Yield => {
                    if !self.yield_current(cpu, task) {
                        return;
                    }
                }
                Step::Exit => exec::exit(self, cpu, task),
            }
        }
        self.k.leave();
    }

    /// Another CPU's event comes first: the CPU continues at its local time.
    #[inline(never)]
    fn step_back(&mut self, cpu: CpuId) {
        self.resched_at_local_time(cpu);
        if let Some(task) = self.k.curr(cpu) {
            // Without work in hand it asks what comes next when the others have been.
            let burst = self.k.task(task).burst;
            self.start_burst(cpu, task, burst);
        }
    }

    #[inline(never)]
    fn tick(&mut self, cpu: CpuId, time: TimeNs) {
        let Some(task) = self.begin_tick(cpu, time) else { return };
        self.interrupt(cpu, time, |sim| {
            sim.k.charge(sim.k.machine.costs.tick);
            sim.run_sleepers(cpu, None);
            sim.k.rq_lock(cpu);
            sim.tick_of_class(cpu, task);
            sim.k.rq_unlock(cpu);
            sim.run_deferred();
            if !sim.k.scx.switch_all {
                sim.tick_balance(cpu);
            }
        });
    }

    /// A turn of the scheduler's user space.
    #[inline(never)]
    fn user_turn(&mut self, time: TimeNs, turn: u32) {
        let Some(ops) = &mut self.ops else { return };
        if !ops.turn_runs(turn as usize) {
            ops.user_turn(turn as usize);
        } else if self.k.scx.loaded && !self.postponed(CpuId(0), time, Event::User { turn }) {
            self.interrupt(CpuId(0), time, |sim| {
                sim.k.charge(sim.k.machine.costs.syscall);
                sim.call(OpKind::Init, None, None, |ops, k| ops.run_turn(k, turn as usize));
            });
        }
    }

    /// A change from outside.
    #[inline(never)]
    fn apply(&mut self, index: u32) {
        let change = self.k.changes[index as usize];
        self.k.charge(self.k.machine.costs.syscall);
        self.set_attribute(change.task, change.attribute);
    }

    #[inline(never)]
    fn timer(&mut self, time: TimeNs, timer: u32) {
        let (sched, number) = Kernel::timer_of(timer);
        let cpu = self.k.timer(timer).cpu;
        let cpu = self.k.or_online(cpu);
        let entry = self.k.timer(timer);
        (entry.event, entry.cpu) = (None, cpu);
        let state = *entry;
        if !state.armed || !self.k.scx.loaded || self.k.is_gone(sched) {
            self.k.timer(timer).event_at = None;
            return;
        }
        let event = Event::Timer { timer };
        if state.at > time {
            let pending = self.k.queue.push(state.at, event);
            let entry = self.k.timer(timer);
            (entry.event, entry.event_at) = (Some(pending), Some(state.at));
            return;
        }
        if self.postponed(state.cpu, time, event) {
            return;
        }
        let entry = self.k.timer(timer);
        (entry.armed, entry.event_at) = (false, None);
        self.interrupt(state.cpu, time, |sim| {
            sim.k.charge(sim.k.machine.costs.interrupt);
            sim.run_sleepers(state.cpu, None);
            let call = |ops: &mut S, k: &mut Kernel| ops.timer_fired(k, number);
            sim.with_sched(sched, |sim| sim.call(OpKind::Timer, None, None, call));
        });
    }
}
