//! The event loop: interrupts, bursts, and what a CPU does between them.

use crate::event::lock::TimerId;
use crate::event::{Event, OfCpu};
use crate::exec::{self, Step};
use crate::flags::*;
use crate::state::group::GroupIx;
use crate::state::kernel::Interrupt;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::task::{Burst, RunState, SchedClass};
use schedlab_base::{CpuId, DurationNs, Prng, TaskId, TickPhase, TimeNs};
use schedlab_workload::Attribute;

/// Where the speed of CPUs depends on each other, bursts look at it at least this often. Chosen: rare enough to cost
/// nothing.
const PACE_HORIZON: DurationNs = DurationNs::from_ms(50);

impl crate::Kernel {
    /// Makes sure that the tick of a busy CPU is on its way. The phase of the period comes from the seed.
    pub(crate) fn arm_tick(&mut self, cpu: CpuId) {
        if !self.cpus[cpu.index()].tick_armed {
            self.arm_next_tick(cpu);
        }
    }

    #[inline(never)]
    fn arm_next_tick(&mut self, cpu: CpuId) {
        debug_assert!(!self.cpus[cpu.index()].tick_armed, "a tick is armed once");
        let next = self.tick_after(cpu, self.ctx.now);
        self.cpu_mut(cpu).tick_armed = true;
        self.queue.expect(OfCpu::Tick, cpu, next);
    }

    /// When the first tick of `cpu` after `time` is, if it is busy then.
    pub(crate) fn tick_after(&self, cpu: CpuId, time: TimeNs) -> TimeNs {
        let period = self.machine.tick_period().0;
        let skew = match self.machine.kernel.ticks {
            TickPhase::Aligned => 0,
            TickPhase::Spread => period * u64::from(cpu.0) / self.cpus.len() as u64,
        };
        let offset = (self.tick_phase + skew) % period;
        // Of the ticks whose instants are past the last one may still be to come.
        debug_assert!(offset < period, "ticks of a CPU lie in the period");
        let past = (time.0 + period).saturating_sub(offset) / period;
        let tick = |number: u64| TimeNs(offset + number * period + self.tick_jitter(cpu, number));
        let last = past.saturating_sub(1);
        if past > 0 && tick(last) > time { tick(last) } else { tick(past) }
    }

    /// How late a CPU's tick of this number is, ns.
    fn tick_jitter(&self, cpu: CpuId, number: u64) -> u64 {
        let most = self.machine.kernel.tick_jitter.0;
        if most == 0 || self.cpus.len() == 1 {
            return 0;
        }
        let stream = number * self.cpus.len() as u64 + u64::from(cpu.0);
        Prng::stream(self.tick_phase, stream).below(most + 1)
    }

    /// The running burst of `cpu` continues from `now` at the speed that the other CPUs
    /// leave it.
    #[inline]
    fn set_pace(&mut self, cpu: CpuId, now: TimeNs) {
        if !self.topology.even_speed {
            self.set_uneven_pace(cpu, now);
        }
    }

    #[inline(never)]
    fn set_uneven_pace(&mut self, cpu: CpuId, now: TimeNs) {
        let factor = self.speed_factor(cpu);
        let entry = &self.cpus[cpu.index()];
        if factor == entry.burst_factor {
            return;
        }
        let task = entry.curr.expect("a burst has a task");
        let old = u64::from(entry.burst_factor);
        let left = entry.burst_end.since(now);
        let work = left.min(self.task(task).burst.work.scale(old, 1000));
        let entry = self.cpu_mut(cpu);
        entry.burst_end = now + (left - work) + work.scale(u64::from(factor), old);
        entry.burst_factor = factor;
    }

    /// `cpu` began or ceased to execute: those that share its core or processor change speed at `time`.
    #[inline(never)]
    pub(crate) fn set_pace_beside(&mut self, cpu: CpuId, time: TimeNs) {
        if self.topology.one_processor {
            for number in 0..self.cpus.len() as u32 {
                self.set_pace_from(CpuId(number), time);
            }
            return;
        }
        for index in 0..self.cpus[cpu.index()].siblings.len() {
            self.set_pace_from(self.cpus[cpu.index()].siblings[index], time);
        }
    }

    /// The burst of `cpu`, if there is one, has its present pace from `time` on.
    fn set_pace_from(&mut self, cpu: CpuId, time: TimeNs) {
        let entry = &self.cpus[cpu.index()];
        // Its own kernel paths may be ahead of that, or its burst over by now.
        let now = time.max(entry.clock);
        if entry.burst_active && entry.burst_end > now {
            self.set_pace(cpu, now);
            self.expect_work(cpu, now);
        }
    }

    /// Makes sure that an event comes when the burst of `cpu` ends, or before.
    #[inline]
    fn expect_work(&mut self, cpu: CpuId, now: TimeNs) {
        let end = self.cpus[cpu.index()].burst_end;
        if self.topology.even_speed {
            self.queue.expect(OfCpu::Work, cpu, end);
            return;
        }
        // An earlier event stays: the speed is looked at then.
        let (at, expected) = (end.min(now + PACE_HORIZON), self.queue.expected(OfCpu::Work, cpu));
        if expected > at || expected <= now {
            self.queue.expect(OfCpu::Work, cpu, at);
        }
    }

    /// True if another CPU's event comes before this CPU's local time, or the run ends before it.
    pub(crate) fn is_behind(&self) -> bool {
        let now = self.ctx.now;
        self.queue.next_time() < now || self.over(now)
    }

    /// Begins a kernel path on `cpu` at `time`.
    #[inline]
    pub(crate) fn enter(&mut self, cpu: CpuId, time: TimeNs) {
        let entry = &self.cpus[cpu.index()];
        assert!(entry.clock <= time, "the clock of {cpu} does not go back");
        self.ctx.cpu = cpu;
        self.ctx.now = time;
        self.ctx.current = entry.curr;
    }

    /// Ends the kernel path: the CPU is busy with it until now.
    pub(crate) fn leave(&mut self) {
        let (cpu, now) = (self.ctx.cpu, self.ctx.now);
        debug_assert!(now >= self.cpus[cpu.index()].clock, "the clock of a CPU does not go back");
        self.cpu_mut(cpu).clock = now;
    }

    /// `kick_cpus_irq_workfn()`: kicks requested by the path that ends.
    #[inline]
    pub(crate) fn run_kicks(&mut self) {
        if self.kicks_pending {
            self.run_pending_kicks();
        }
    }

    #[inline(never)]
    fn run_pending_kicks(&mut self) {
        self.kicks_pending = false;
        self.charge(self.machine.costs.irq_work);
        let here = self.ctx.cpu;
        let kicks = self.cpu_mut(here).kicks.take();
        for kick in &kicks {
            let target = kick.cpu;
            let entry = &self.cpus[target.index()];
            let class = entry.curr.map(|curr| (curr, self.task(curr).class));
            if kick.flags & SCX_KICK_IDLE != 0 {
                if class.is_none() {
                    self.resched_curr(target);
                }
                continue;
            }
            match class {
                Some((curr, SchedClass::Ext)) => {
                    if kick.flags & SCX_KICK_PREEMPT != 0 {
                        self.task_mut(curr).set_slice(0);
                    }
                    self.resched_curr(target);
                    if kick.flags & SCX_KICK_WAIT != 0 && target != here {
                        self.charge(self.machine.costs.ipi_latency + self.machine.costs.schedule);
                    }
                }
                None => self.resched_curr(target),
                Some(_) => {}
            }
        }
        self.cpu_mut(here).kicks.reuse(kicks);
    }
}

impl<S: SchedExt> Sim<S> {
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
            Event::Disable => {
                if !self.postponed(CpuId(0), time, event) {
                    self.interrupt(CpuId(0), time, Sim::disable);
                }
            }
        }
    }

    /// A CPU in the middle of a kernel path takes the interrupt when that is over, behind those that came before it. One
    /// event stands for all of them: a million that meet a busy CPU are each looked at once.
    pub(crate) fn postponed(&mut self, cpu: CpuId, time: TimeNs, event: Event) -> bool {
        let entry = self.k.cpu_mut(cpu);
        let clock = entry.clock;
        if clock <= time && entry.pass.is_none() {
            return false;
        }
        entry.late.push_back(event);
        if entry.late.len() == 1 {
            self.k.queue.expect(OfCpu::Late, cpu, clock);
        }
        true
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

    /// The CPU was asked to schedule and steps back before it does.
    #[inline(always)]
    pub(crate) fn resched_at_local_time(&mut self, cpu: CpuId) {
        let now = self.k.ctx.now;
        let entry = self.k.cpu_mut(cpu);
        if entry.need_resched && !entry.ipi_pending {
            entry.ipi_pending = true;
            self.k.queue.expect(OfCpu::Ipi, cpu, now);
        }
    }

    /// The task that a tick is for, with the next one expected; nothing if the tick is postponed, or stops because the CPU is idle.
    #[inline(always)]
    pub(crate) fn begin_tick(&mut self, cpu: CpuId, time: TimeNs) -> Option<TaskId> {
        if self.postponed(cpu, time, Event::Tick { cpu }) {
            return None;
        }
        let task = self.k.curr(cpu);
        if task.is_none() {
            self.k.cpu_mut(cpu).tick_armed = false;
            return None;
        }
        let next = self.k.tick_after(cpu, time);
        self.k.queue.expect(OfCpu::Tick, cpu, next);
        debug_assert!(next > time, "the next tick comes later");
        task
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

    /// The class's `task_tick()`.
    pub(crate) fn tick_of_class(&mut self, cpu: CpuId, task: TaskId) {
        match self.k.task(task).class {
            SchedClass::Dl => self.k.dl_tick(cpu, task),
            SchedClass::Rt => {
                self.k.rt_update_curr(cpu, task);
                self.k.rt_tick(cpu, task);
            }
            SchedClass::Fair => self.k.fair_tick(cpu, task),
            SchedClass::Ext => self.ext_tick(cpu, task),
        }
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

    /// Gives a task that lives another nice value, policy, affinity or group.
    pub(crate) fn set_attribute(&mut self, task: TaskId, attribute: Attribute) {
        if self.k.get_task(task).is_none_or(|task| task.state == RunState::Dead) {
            return;
        }
        match attribute {
            Attribute::Nice(nice) => self.set_nice(task, nice),
            Attribute::Policy(policy) => self.set_policy(task, policy),
            Attribute::Affinity(mask) => {
                if !mask.and(&self.k.machine.all_cpus()).is_empty() {
                    self.set_affinity(task, &mask);
                }
            }
            Attribute::Group(group) => self.move_to_group(task, GroupIx::from(group)),
        }
    }

    #[inline(never)]
    fn timer(&mut self, time: TimeNs, timer: u32) {
        let cpu = self.k.or_online(self.k.timers[timer as usize].cpu);
        let entry = &mut self.k.timers[timer as usize];
        (entry.event, entry.cpu) = (None, cpu);
        let state = *entry;
        if !state.armed || !self.k.scx.loaded {
            self.k.timers[timer as usize].event_at = None;
            return;
        }
        let event = Event::Timer { timer };
        if state.at > time {
            let pending = self.k.queue.push(state.at, event);
            let entry = &mut self.k.timers[timer as usize];
            (entry.event, entry.event_at) = (Some(pending), Some(state.at));
            return;
        }
        if self.postponed(state.cpu, time, event) {
            return;
        }
        self.k.timers[timer as usize].armed = false;
        self.k.timers[timer as usize].event_at = None;
        self.interrupt(state.cpu, time, |sim| {
            sim.k.charge(sim.k.machine.costs.interrupt);
            sim.run_sleepers(state.cpu, None);
            sim.call(OpKind::Timer, None, None, |ops, k| ops.timer_fired(k, TimerId(timer)));
        });
    }
}
