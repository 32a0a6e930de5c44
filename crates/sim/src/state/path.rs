//! Kernel paths on a CPU: where they begin and end, the ticks that interrupt it, the pace of its burst, and the kicks that a path leaves.

use crate::event::{Event, OfCpu};
use crate::flags::*;
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, DurationNs, Prng, TaskId, TickPhase, TimeNs};

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
        let period = self.tick_period.0;
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
    pub(crate) fn set_pace(&mut self, cpu: CpuId, now: TimeNs) {
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
    pub(crate) fn expect_work(&mut self, cpu: CpuId, now: TimeNs) {
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
                    if kick.flags & SCX_KICK_PREEMPT != 0 && self.may_cut(curr) {
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
}
