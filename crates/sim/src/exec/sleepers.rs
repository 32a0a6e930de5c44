//! Timers of sleeping tasks with slack. Each may fire from when it was asked for up to `timer_slack` later. The hardware's
//! timer is set for the latest of these instants. Any timer interrupt of the CPU before that takes those that are due already
//! (`__hrtimer_run_queues()`).

use super::state;
use crate::event::Event;
use crate::state::ops::SchedExt;
use crate::state::sim::{Sim, WakeFlags};
use schedlab_base::{CpuId, TaskId, TimeNs};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The sleeping tasks of a CPU whose timers have slack, by the latest instant of each.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    /// In order. Most tasks that fall asleep wake behind those that slept before, so that they are added at the end.
    row: VecDeque<Sleeper>,
    /// Those that wake before one of the row.
    heap: BinaryHeap<Reverse<Sleeper>>,
}

impl Sleepers {
    /// Adds one, which is not among them.
    #[inline(always)]
    pub(crate) fn push(&mut self, sleeper: Sleeper) {
        match self.row.back() {
            Some(last) if *last > sleeper => self.heap.push(Reverse(sleeper)),
            _ => self.row.push_back(sleeper),
        }
    }

    /// Takes the first one, if its timer is due by `now`.
    #[inline(always)]
    pub(crate) fn pop_due(&mut self, now: TimeNs) -> Option<Sleeper> {
        if !self.heap.is_empty() {
            return self.pop_due_of_both(now);
        }
        let first = self.row.front().filter(|first| first.earliest <= now).copied()?;
        self.row.pop_front();
        Some(first)
    }

    #[inline(never)]
    fn pop_due_of_both(&mut self, now: TimeNs) -> Option<Sleeper> {
        let &Reverse(other) = self.heap.peek()?;
        let in_row = self.row.front().filter(|first| **first < other).copied();
        let first = Some(in_row.unwrap_or(other)).filter(|first| first.earliest <= now)?;
        if in_row.is_some() {
            self.row.pop_front();
        } else {
            self.heap.pop();
        }
        Some(first)
    }

    /// True without any sleeper.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.row.is_empty() && self.heap.is_empty()
    }
}

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
    sim.k.cpu_mut(cpu).sleepers.push(Sleeper { latest, earliest, task });
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
        while let Some(first) = self.k.cpu_mut(cpu).sleepers.pop_due(now) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Prng;
    use std::collections::BTreeSet;

    /// Against a sorted set: in whatever order they fall asleep, the first one is taken when it is due.
    #[test]
    fn the_first_is_taken() {
        let (mut sleepers, mut model, mut random) = (Sleepers::default(), BTreeSet::new(), Prng::new(1));
        let mut taken = 0;
        for number in 0..10_000 {
            let now = number * 10;
            let latest = TimeNs(now + 50 + random.below(3) * random.below(100));
            let sleeper = Sleeper { latest, earliest: TimeNs(latest.0 - 50), task: TaskId(number as u32) };
            sleepers.push(sleeper);
            model.insert(sleeper);
            while let Some(first) = sleepers.pop_due(TimeNs(now)) {
                assert_eq!(Some(first), model.pop_first());
                taken += 1;
            }
            assert!(model.first().is_none_or(|first| first.earliest > TimeNs(now)));
            assert_eq!(sleepers.is_empty(), model.is_empty());
        }
        assert!(taken > 9_000, "{taken} were taken");
    }
}
