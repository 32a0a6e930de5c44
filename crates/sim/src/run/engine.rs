//! The event loop: interrupts, bursts, and what a CPU does between them.

use crate::core::sim::Sim;
use crate::event::Event;
use crate::exec::{self, Step};
use crate::flags::*;
use crate::state::kernel::Interrupt;
use crate::state::lock::TimerId;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::task::{Burst, RunState, SchedClass};
use schedlab_base::{CpuId, DurationNs, TaskId, TickPhase, TimeNs};
use schedlab_workload::Attribute;

/// Bursts look at the clock at least this often, so that stale events do not
/// pile up behind long ones. Chosen: rare enough to cost nothing.
const BURST_HORIZON: DurationNs = DurationNs::from_ms(50);

impl crate::Kernel {
    /// Makes sure that the tick of a busy CPU is on its way. The phase of the period comes from the seed.
    pub(crate) fn arm_tick(&mut self, cpu: CpuId) {
        if !self.cpus[cpu.index()].tick_armed {
            self.arm_next_tick(cpu);
        }
    }

    #[inline(never)]
    fn arm_next_tick(&mut self, cpu: CpuId) {
        let period = self.machine.tick_period().0;
        let skew = match self.machine.kernel.ticks {
            TickPhase::Aligned => 0,
            TickPhase::Spread => period * u64::from(cpu.0) / self.cpus.len() as u64,
        };
        let offset = (self.tick_phase + skew) % period;
        let now = self.ctx.now.0;
        let next = if now < offset { offset } else { offset + ((now - offset) / period + 1) * period };
        self.cpu_mut(cpu).tick_armed = true;
        self.queue.push(TimeNs(next), Event::Tick { cpu });
    }

    /// The running burst of `cpu` goes on from `now` at the speed that the other CPUs
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

    /// A thread of `cpu`'s core was taken up or given back: the others change speed.
    #[inline(never)]
    pub(crate) fn set_pace_of_siblings(&mut self, cpu: CpuId) {
        for index in 0..self.cpus[cpu.index()].siblings.len() {
            let sibling = self.cpus[cpu.index()].siblings[index];
            let entry = &self.cpus[sibling.index()];
            // Its own kernel paths may be ahead of this CPU, or its burst over by now.
            let now = self.ctx.now.max(entry.clock);
            if entry.burst_active && entry.burst_end > now {
                self.set_pace(sibling, now);
                self.expect_work(sibling, now);
            }
        }
    }

    /// Makes sure that an event comes when the burst of `cpu` ends, or before.
    #[inline]
    fn expect_work(&mut self, cpu: CpuId, now: TimeNs) {
        let entry = &mut self.cpus[cpu.index()];
        let at = entry.burst_end.min(now + BURST_HORIZON);
        if entry.work_event_at > at || entry.work_event_at <= now {
            let generation = entry.burst_generation.wrapping_add(1);
            (entry.burst_generation, entry.work_event_at) = (generation, at);
            self.queue.push(at, Event::Work { cpu, generation });
        }
    }

    /// Others have something to do before the present time, or the run is over by then.
    fn is_behind(&self) -> bool {
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
                        self.task_mut(curr).scx.slice = 0;
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
            Event::Work { cpu, generation } => self.work(cpu, time, generation),
            Event::Tick { cpu } => self.tick(cpu, time),
            Event::HrTick { cpu, generation } => self.hrtick(cpu, time, generation),
            Event::Ipi { cpu } => {
                if self.postponed(cpu, time, event) {
                    return;
                }
                self.k.cpu_mut(cpu).ipi_pending = false;
                if self.k.cpu(cpu).need_resched || self.k.balancing.is_asked(cpu) {
                    self.interrupt(cpu, time, |sim| sim.idle_balance(cpu));
                }
            }
            Event::Timer { timer, generation } => self.timer(time, timer, generation),
            Event::LateTimer { cpu } => self.late_timer(cpu, time),
            Event::Server { cpu } => self.server_timer(cpu, time),
            Event::Exec { cpu, event: inner } => {
                if !self.postponed(cpu, time, event) {
                    self.k.count_exec(inner, false);
                    self.interrupt(cpu, time, |sim| {
                        sim.k.charge(sim.k.machine.costs.interrupt);
                        exec::event(sim, cpu, inner);
                    });
                }
            }
            Event::Watchdog => self.watchdog(time),
            Event::Change { index } => {
                if !self.postponed(CpuId(0), time, event) {
                    self.interrupt(CpuId(0), time, |sim| sim.apply(index));
                }
            }
            Event::User { turn } => {
                if let Some(ops) = self.ops.as_mut().filter(|_| self.k.scx.loaded) {
                    ops.user_turn(turn as usize);
                }
            }
            Event::Disable => {
                if !self.postponed(CpuId(0), time, event) {
                    self.interrupt(CpuId(0), time, Sim::disable);
                }
            }
        }
    }

    /// A CPU in the middle of a kernel path takes the event when that is over.
    pub(crate) fn postponed(&mut self, cpu: CpuId, time: TimeNs, event: Event) -> bool {
        let clock = self.k.cpu(cpu).clock;
        if clock > time {
            self.k.queue.push(clock, event);
        }
        clock > time
    }

    /// An interrupt on `cpu`: `body`, then kicks, then `schedule()` if somebody
    /// asked for it; otherwise the interrupted burst goes on.
    pub(crate) fn interrupt(&mut self, cpu: CpuId, time: TimeNs, body: impl FnOnce(&mut Self)) {
        self.k.enter(cpu, time);
        self.k.ctx.interrupt = Interrupt::Hard;
        if self.k.cpu(cpu).is_idle() {
            self.k.charge(self.k.machine.costs.idle_exit);
        }
        body(self);
        self.k.run_kicks();
        self.k.ctx.interrupt = Interrupt::None;
        let entry = self.k.cpu(cpu);
        if entry.need_resched || entry.lazy_resched {
            self.save_burst(cpu, time);
            self.schedule(cpu);
            self.k.run_kicks();
            self.run_current(cpu);
        } else {
            let spent = self.k.ctx.now - time;
            let entry = self.k.cpu_mut(cpu);
            if entry.burst_active {
                entry.burst_end += spent;
            }
            self.k.leave();
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
        let task = entry.curr.expect("a burst has a task");
        let burst = &mut self.k.hidden(task).burst;
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
        if !self.k.over(end) && end < self.k.queue.next_time() {
            self.k.ctx.now = end;
            self.k.hidden(task).burst = Burst::default();
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
    fn work(&mut self, cpu: CpuId, time: TimeNs, generation: u32) {
        let entry = self.k.cpu_mut(cpu);
        if entry.burst_generation != generation {
            return;
        }
        entry.work_event_at = TimeNs::ZERO;
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
        if let Some(task) = self.k.curr(cpu) {
            self.k.hidden(task).burst = Default::default();
        }
        self.run_current(cpu);
        self.check_exit();
    }

    /// Runs the current task's program up to its next burst, through as many
    /// system calls and switches as come before the next event of anybody.
    fn run_current(&mut self, cpu: CpuId) {
        loop {
            self.k.run_kicks();
            let entry = self.k.cpu(cpu);
            if entry.need_resched {
                if self.k.is_behind() {
                    self.step_back(cpu);
                    break;
                }
                self.schedule(cpu);
                continue;
            }
            let Some(task) = entry.curr else { break };
            let entry = self.k.task(task);
            let burst = entry.burst;
            if burst.work > DurationNs::ZERO || burst.refill > DurationNs::ZERO {
                if self.start_burst(cpu, task, burst) {
                    continue;
                }
                break;
            }
            let alone = entry.exec.is_private() && !self.k.over(self.k.ctx.now);
            if !alone && self.k.is_behind() {
                self.step_back(cpu);
                break;
            }
            match exec::next(self, cpu, task) {
                Step::Compute(work) => self.k.hidden(task).burst.work = work,
                Step::Blocked => {
                    if self.k.task(task).state != RunState::Runnable {
                        self.k.run_kicks();
                        self.schedule(cpu);
                    }
                }
                Step::Yield => self.yield_current(cpu, task),
                Step::Exit => self.exit_current(cpu, task),
            }
        }
        self.k.leave();
    }

    /// Somebody else's event comes first: the CPU goes on at its local time.
    #[inline(never)]
    fn step_back(&mut self, cpu: CpuId) {
        let now = self.k.ctx.now;
        let entry = self.k.cpu_mut(cpu);
        if entry.need_resched && !entry.ipi_pending {
            entry.ipi_pending = true;
            self.k.queue.push(now, Event::Ipi { cpu });
        }
        if let Some(task) = self.k.curr(cpu) {
            // Without work in hand it asks what comes next when the others have been.
            let burst = self.k.task(task).burst;
            self.start_burst(cpu, task, burst);
        }
    }

    #[inline(never)]
    fn tick(&mut self, cpu: CpuId, time: TimeNs) {
        if self.postponed(cpu, time, Event::Tick { cpu }) {
            return;
        }
        let Some(task) = self.k.curr(cpu) else {
            self.k.cpu_mut(cpu).tick_armed = false;
            return;
        };
        let next = time + self.k.machine.tick_period();
        self.k.queue.push(next, Event::Tick { cpu });
        self.interrupt(cpu, time, |sim| {
            sim.k.charge(sim.k.machine.costs.tick);
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
            SchedClass::Rt => {
                self.k.charge_runtime(task);
                self.k.rt_tick(cpu, task);
            }
            SchedClass::Fair => self.k.fair_tick(cpu, task),
            SchedClass::Ext => self.ext_tick(cpu, task),
        }
    }

    /// A change from outside.
    #[inline(never)]
    fn apply(&mut self, index: u32) {
        let change = self.k.changes[index as usize];
        self.k.charge(self.k.machine.costs.syscall);
        self.set_attribute(change.task, change.attribute);
    }

    /// Gives a task that lives another nice value, policy or affinity.
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
        }
    }

    #[inline(never)]
    fn timer(&mut self, time: TimeNs, timer: u32, generation: u32) {
        let state = self.k.timers[timer as usize];
        if state.generation != generation {
            return;
        }
        if !state.armed || !self.k.scx.loaded {
            self.k.timers[timer as usize].event_at = None;
            return;
        }
        let event = Event::Timer { timer, generation };
        if state.at > time {
            self.k.timers[timer as usize].event_at = Some(state.at);
            self.k.queue.push(state.at, event);
            return;
        }
        if self.k.cpu(state.cpu).clock > time {
            self.k.cpu_mut(state.cpu).late_timers.push_back((timer, generation));
            self.call_late_timer(state.cpu, time);
            return;
        }
        self.k.timers[timer as usize].armed = false;
        self.k.timers[timer as usize].event_at = None;
        self.interrupt(state.cpu, time, |sim| {
            sim.k.charge(sim.k.machine.costs.interrupt);
            sim.call(OpKind::Timer, None, None, |ops, k| ops.timer_fired(k, TimerId(timer)));
        });
    }

    /// Sees to it that a CPU takes the first of its late timers when its kernel path is over. One event stands for all of
    /// them: a million timers that are due at once are each looked at once.
    fn call_late_timer(&mut self, cpu: CpuId, now: TimeNs) {
        let entry = self.k.cpu_mut(cpu);
        if entry.late_event || entry.late_timers.is_empty() {
            return;
        }
        entry.late_event = true;
        let over = entry.clock.max(now);
        self.k.queue.push(over, Event::LateTimer { cpu });
    }

    #[inline(never)]
    fn late_timer(&mut self, cpu: CpuId, time: TimeNs) {
        if self.postponed(cpu, time, Event::LateTimer { cpu }) {
            return;
        }
        self.k.cpu_mut(cpu).late_event = false;
        if let Some((timer, generation)) = self.k.cpu_mut(cpu).late_timers.pop_front() {
            self.timer(time, timer, generation);
        }
        self.call_late_timer(cpu, time);
    }
}
