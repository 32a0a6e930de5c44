//! Timers of sleeping tasks with slack. Each may fire from when it was asked for up to `timer_slack` later. The hardware's
//! timer is set for the latest of these instants. Any timer interrupt of the CPU before that takes those that are due already
//! (`__hrtimer_run_queues()`).

use super::state;
use crate::event::Event;
use crate::state::ops::SchedExt;
use crate::state::sim::{Sim, WakeFlags};
use schedlab_base::{CpuId, TaskId, TimeNs};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The sleeping tasks of a CPU whose timers have slack, by the latest instant of each.
pub(crate) type Sleepers = BinaryHeap<Reverse<Sleeper>>;

/// A sleeping task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sleeper {
    pub(crate) latest: TimeNs,
    pub(crate) earliest: TimeNs,
    pub(crate) task: TaskId,
}

/// Sees to it that `task`, which sleeps on `cpu`, is woken between two instants.
#[inline(always)]
pub(super) fn wake_between<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (earliest, latest): (TimeNs, TimeNs),
) {
    debug_assert!(earliest <= latest, "a sleep's window begins before its end");
    sim.k.cpu_mut(cpu).sleepers.push(Reverse(Sleeper { latest, earliest, task }));
    sim.k.count_timeout(task, true);
    sim.k.queue.push(latest.max(sim.k.ctx.now), Event::Latest { cpu, task });
}

/// The latest instant of a task's timer: false if another interrupt took it before.
pub(crate) fn still_sleeps<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> bool {
    if sim.k.get_task(task).is_none() {
        return false;
    }
    let taken = &mut state(sim, task).taken_timers;
    let before = *taken;
    *taken = before.saturating_sub(1);
    before == 0
}

impl<S: SchedExt> Sim<S> {
    /// A timer interrupt of `cpu` wakes those whose timers are due by now; `of` is the task whose latest instant it is.
    #[inline]
    pub(crate) fn run_sleepers(&mut self, cpu: CpuId, of: Option<TaskId>) {
        if !self.k.cpu(cpu).sleepers.is_empty() {
            self.wake_sleepers(cpu, of);
        }
    }

    #[inline(never)]
    fn wake_sleepers(&mut self, cpu: CpuId, of: Option<TaskId>) {
        let now = self.k.ctx.now;
        while let Some(&Reverse(first)) = self.k.cpu(cpu).sleepers.peek()
            && first.earliest <= now
        {
            self.k.cpu_mut(cpu).sleepers.pop();
            if of != Some(first.task) {
                // Its event comes all the same, and not after that of a later sleep.
                state(self, first.task).taken_timers += 1;
            }
            self.wake(first.task, WakeFlags { from_interrupt: true, ..WakeFlags::default() });
        }
    }

    /// The latest instant of a sleeper's timer.
    pub(crate) fn latest(&mut self, cpu: CpuId, time: TimeNs, task: TaskId) {
        let at = self.k.or_online(cpu);
        if self.postponed(at, time, Event::Latest { cpu, task }) {
            return;
        }
        self.k.count_timeout(task, false);
        if still_sleeps(self, task) {
            self.interrupt(at, time, |sim| {
                sim.run_sleepers(cpu, Some(task));
                sim.k.charge(sim.k.machine.costs.interrupt);
            });
        }
    }
}
