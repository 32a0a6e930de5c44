//! The events that the lane takes: the end of a burst, a timer, a tick, interrupts between CPUs, and passes that were laid down.

use super::schedule::Passed;
use crate::event::{Event, OfCpu};
use crate::state::kernel::Interrupt;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::task::Burst;
use schedlab_base::{CpuId, TaskId, TimeNs};

impl<S: SchedExt> Sim<S> {
    /// Takes an event; false if it is the general core's. Nothing has been changed then.
    #[inline(always)]
    pub(super) fn lane_take(&mut self, time: TimeNs, event: Event) -> bool {
        match event {
            Event::Work { cpu } => self.lane_work(cpu, time),
            Event::Latest { cpu, task } => self.lane_latest(cpu, time, task),
            event => return self.lane_take_rarer(time, event),
        }
        true
    }

    #[inline(never)]
    fn lane_take_rarer(&mut self, time: TimeNs, event: Event) -> bool {
        match event {
            Event::Ipi { cpu } => return self.lane_ipi(cpu, time),
            Event::Tick { cpu } => self.lane_tick(cpu, time),
            Event::Late { cpu } => return self.lane_late(cpu, time),
            Event::Pass { cpu } => {
                if self.k.cpu(cpu).servers.running().is_some() {
                    return false;
                }
                self.k.enter(cpu, time);
                self.lane_take_up(cpu);
                self.lane_run(cpu);
            }
            _ => return false,
        }
        true
    }

    /// [`Sim::work`], at even speed.
    #[inline(always)]
    fn lane_work(&mut self, cpu: CpuId, time: TimeNs) {
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
            self.k.flat(task).burst = Burst::default();
        }
        self.lane_run(cpu);
    }

    /// [`Sim::latest`], where all CPUs are online.
    #[inline(always)]
    fn lane_latest(&mut self, cpu: CpuId, time: TimeNs, task: TaskId) {
        if self.postponed(cpu, time, Event::Latest { cpu, task }) {
            return;
        }
        self.k.count_timeout(task, false);
        let taken = &mut self.k.flat(task).exec.taken_timers;
        if *taken > 0 {
            *taken -= 1;
            return;
        }
        self.lane_enter_interrupt(cpu, time);
        self.lane_sleepers(cpu, Some(task));
        self.k.lane_charge(self.k.machine.costs.interrupt);
        self.lane_leave_interrupt(cpu, time);
    }

    /// [`Sim::run_sleepers`].
    #[inline(always)]
    fn lane_sleepers(&mut self, cpu: CpuId, of: Option<TaskId>) {
        let now = self.k.ctx.now;
        while let Some(first) = self.k.cpu_mut(cpu).sleepers.pop_due(now) {
            if of != Some(first.task) {
                // Its event comes all the same, and not after that of a later sleep.
                self.k.flat(first.task).exec.taken_timers += 1;
            }
            self.lane_wake(first.task);
        }
    }

    /// A reschedule interrupt.
    #[inline(never)]
    fn lane_ipi(&mut self, cpu: CpuId, time: TimeNs) -> bool {
        if !self.k.cpu(cpu).wake_list.is_empty() || self.k.balancing.is_asked(cpu) {
            return false;
        }
        if self.postponed(cpu, time, Event::Ipi { cpu }) {
            return true;
        }
        let entry = self.k.cpu_mut(cpu);
        entry.ipi_pending = false;
        if entry.need_resched {
            self.lane_enter_interrupt(cpu, time);
            self.lane_leave_interrupt(cpu, time);
        }
        true
    }

    /// [`Sim::tick`].
    #[inline(never)]
    fn lane_tick(&mut self, cpu: CpuId, time: TimeNs) {
        let Some(task) = self.begin_tick(cpu, time) else { return };
        self.lane_enter_interrupt(cpu, time);
        self.k.lane_charge(self.k.machine.costs.tick);
        self.lane_sleepers(cpu, None);
        self.k.rq_lock(cpu);
        self.k.lane_update_curr(task);
        if self.has(OpKind::Tick) {
            let pointer = self.lane_pointer(task);
            self.lane_call(OpKind::Tick, Some(task), Some(cpu), [pointer, 0, 0]);
        }
        if self.k.flat(task).slice == 0 {
            self.k.resched_curr(cpu);
        }
        self.k.rq_unlock(cpu);
        self.lane_leave_interrupt(cpu, time);
    }

    /// [`Sim::late`]; false if the first of the interrupts is the general core's.
    #[inline(never)]
    fn lane_late(&mut self, cpu: CpuId, time: TimeNs) -> bool {
        let entry = self.k.cpu_mut(cpu);
        if entry.clock > time {
            let clock = entry.clock;
            self.k.queue.expect(OfCpu::Late, cpu, clock);
            return true;
        }
        let first = *entry.late.front().expect("the event stands for interrupts");
        if !matches!(first, Event::Latest { .. } | Event::Tick { .. } | Event::Ipi { .. }) {
            return false;
        }
        entry.late.pop_front();
        if !entry.late.is_empty() {
            self.k.queue.expect(OfCpu::Late, cpu, time);
        }
        if !self.lane_take(time, first) {
            self.finish_in_general(move |sim| sim.take(time, first));
        }
        true
    }

    /// [`Sim::interrupt`], up to what it is for.
    #[inline(always)]
    fn lane_enter_interrupt(&mut self, cpu: CpuId, time: TimeNs) {
        self.k.enter(cpu, time);
        self.k.ctx.interrupt = Interrupt::Hard;
        if self.k.ctx.current.is_none() {
            self.k.lane_charge(self.k.machine.costs.idle_exit);
        }
    }

    /// The same from there on.
    #[inline(always)]
    fn lane_leave_interrupt(&mut self, cpu: CpuId, time: TimeNs) {
        self.k.lane_kicks();
        self.k.ctx.interrupt = Interrupt::None;
        let spent = self.k.ctx.now - time;
        let entry = &mut self.k.cpus[cpu.index()];
        if entry.need_resched {
            if std::mem::take(&mut entry.burst_active) {
                let (left, task) = (entry.burst_end.since(time), entry.curr.expect("a burst has a task"));
                // The refill comes first, so it is what is left beyond the work.
                let burst = &mut self.k.flat(task).burst;
                burst.refill = left.saturating_sub(burst.work);
                burst.work = burst.work.min(left);
            }
            if self.lane_schedule(cpu) == Passed::On {
                self.k.lane_kicks();
                self.lane_run(cpu);
            }
        } else {
            if entry.burst_active {
                entry.burst_end += spent;
                let end = entry.burst_end;
                self.k.queue.expect(OfCpu::Work, cpu, end);
            }
            self.k.leave();
        }
    }
}
