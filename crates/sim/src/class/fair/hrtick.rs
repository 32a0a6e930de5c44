//! HRTICK (`hrtick_start_fair()` and what is behind it in `kernel/sched/core.c`): a timer of each CPU. It ends the
//! running entity's request of the fair class to the nanosecond, where without it the next tick does.

use crate::Kernel;
use crate::event::{Event, OfCpu};
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};

/// Requests are not cut shorter than this (`hrtick_start()`).
const SHORTEST: DurationNs = DurationNs(10_000);
/// An armed timer is not moved by less (`hrtick_needs_rearm()`).
const NEAR: u64 = 5_000;

/// The timer of a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HrTick {
    /// When it fires, while armed.
    at: Option<TimeNs>,
    /// What `schedule()` has noted: how long after its end the timer fires.
    noted: Option<DurationNs>,
}

impl HrTick {
    /// It is not armed, and will not be when the pass through `schedule()` ends.
    pub(crate) fn is_off(&self) -> bool {
        self.at.is_none() && self.noted.is_none()
    }
}

impl Kernel {
    /// How long the running entity of `cpu` has until its deadline, where others wait; nothing when it has none left,
    /// which is a reason to reschedule.
    fn hrtick_delay(&mut self, cpu: CpuId, task: TaskId) -> Option<DurationNs> {
        if self.cpus[cpu.index()].fair.nr <= 1 {
            return None;
        }
        let Ok(left) = u64::try_from(self.task(task).fair.until_deadline()) else {
            self.resched_curr(cpu);
            return None;
        };
        Some(DurationNs(left).max(SHORTEST))
    }

    /// `hrtick_update()`: an entity has joined the queue.
    #[inline]
    pub(crate) fn hrtick_update(&mut self, cpu: CpuId) {
        let entry = &self.cpus[cpu.index()];
        if self.machine.kernel.hrtick
            && entry.hrtick.at.is_none()
            && let Some(task) = entry.fair.curr
            && let Some(delay) = self.hrtick_delay(cpu, task)
        {
            if cpu != self.ctx.cpu && !self.in_setup() {
                // The other CPU arms it itself (`smp_call_function_single_async()`).
                self.charge(self.machine.costs.ipi_send);
            }
            self.hrtick_arm(cpu, delay);
        }
    }

    /// `schedule()` has chosen `task`: the timer starts at its end.
    #[inline]
    pub(crate) fn hrtick_note(&mut self, cpu: CpuId, task: TaskId) {
        if self.machine.kernel.hrtick
            && let Some(delay) = self.hrtick_delay(cpu, task)
        {
            self.cpus[cpu.index()].hrtick.noted = Some(delay);
        }
    }

    /// The timer starts for an entity that has so much left.
    pub(crate) fn hrtick_note_span(&mut self, cpu: CpuId, left: DurationNs) {
        if self.machine.kernel.hrtick {
            self.cpus[cpu.index()].hrtick.noted = Some(left.max(SHORTEST));
        }
    }

    /// The running task keeps the CPU for so long after a tick.
    pub(crate) fn hrtick_again(&mut self, cpu: CpuId, left: DurationNs) {
        if self.machine.kernel.hrtick {
            self.hrtick_arm(cpu, left.max(SHORTEST));
        }
    }

    /// `hrtick_schedule_exit()`: `schedule()` ends.
    #[inline]
    pub(crate) fn hrtick_settle(&mut self, cpu: CpuId) {
        if !self.machine.kernel.hrtick {
            return;
        }
        let entry = &mut self.cpus[cpu.index()];
        if let Some(delay) = entry.hrtick.noted.take() {
            self.hrtick_arm(cpu, delay);
        } else if entry.curr.is_none() {
            entry.hrtick.at = None;
            self.queue.forget(OfCpu::HrTick, cpu);
        }
    }

    fn hrtick_arm(&mut self, cpu: CpuId, delay: DurationNs) {
        debug_assert!(delay >= SHORTEST, "the timer is not armed for less than its shortest span");
        let at = self.ctx.now + delay;
        let timer = &mut self.cpus[cpu.index()].hrtick;
        if timer.at.is_some_and(|armed| armed.0.abs_diff(at.0) <= NEAR) {
            return;
        }
        timer.at = Some(at);
        self.queue.expect(OfCpu::HrTick, cpu, at);
        if cpu == self.ctx.cpu {
            self.charge(self.machine.costs.timer);
        }
    }
}

impl<S: SchedExt> Sim<S> {
    /// The timer fires: a tick of the running class, which for the fair one is the end of the request.
    #[inline(never)]
    pub(crate) fn hrtick(&mut self, cpu: CpuId, time: TimeNs) {
        // While it waited for the end of a kernel path, it may have been cancelled or armed again.
        let is_stale = self.k.cpu(cpu).hrtick.at.is_none_or(|at| at > time);
        if is_stale || self.postponed(cpu, time, Event::HrTick { cpu }) {
            return;
        }
        self.k.cpu_mut(cpu).hrtick.at = None;
        let Some(task) = self.k.curr(cpu) else { return };
        self.interrupt(cpu, time, |sim| {
            sim.k.charge(sim.k.machine.costs.interrupt);
            sim.run_sleepers(cpu, None);
            sim.k.rq_lock(cpu);
            if sim.k.task(task).class == SchedClass::Fair {
                sim.k.fair_update_curr(cpu);
                sim.k.resched_curr(cpu);
            } else {
                sim.tick_of_class(cpu, task);
            }
            sim.k.rq_unlock(cpu);
            sim.run_deferred();
        });
    }
}
