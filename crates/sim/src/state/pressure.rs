//! Pressure of groups: for how long their tasks waited for a CPU, as `cpu.pressure` has it (`kernel/sched/psi.c`).
//!
//! Each group knows of each CPU how many of its tasks are runnable there, with those below it, and whether one of them runs. Of a CPU
//! that gives times exactly. A group's total is their mean, weighted by how long each CPU had something to do for the group since the
//! last mean. The kernel takes one every two seconds while the group is active, and when the file is read.
//!
//! The root has no figures here: results have none of it.

use crate::Kernel;
use crate::state::group::GroupIx;
use crate::state::task::{RunState, Task};
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_trace::CpuPressure;

/// What a task counts as in its groups on its CPU (`psi_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stall {
    /// It sleeps.
    #[default]
    None,
    /// It waits for a disk (`TSK_IOWAIT`), which makes its CPU count as busy.
    Disk,
    /// It is runnable (`TSK_RUNNING`). A throttled task is: it wants the CPU.
    Waits,
    /// It runs (`TSK_ONCPU`).
    Runs,
}

impl Stall {
    /// What the task counts as by its state.
    pub(crate) fn of(task: &Task) -> Stall {
        if task.on_cpu {
            Stall::Runs
        } else if task.on_rq && !task.fair.delayed {
            Stall::Waits
        } else if task.state == RunState::Uninterruptible {
            Stall::Disk
        } else {
            Stall::None
        }
    }
}

/// A group's tasks on a CPU, and the times since the last mean (`struct psi_group_cpu`).
#[derive(Clone, Copy, Debug, Default)]
struct OfCpu {
    /// How many tasks count as each [`Stall`] but `None`.
    counts: [u32; 3],
    /// Up to when the times go.
    until: TimeNs,
    /// A runnable task waited.
    some: DurationNs,
    /// Of that, none of the group ran.
    full: DurationNs,
    /// There was a task, runnable or waiting for a disk.
    busy: DurationNs,
}

impl OfCpu {
    /// Extends the times up to `now` (`record_times()`). Paths of several CPUs are not in the order of their times: one that comes late
    /// has changed nothing before.
    fn record(&mut self, now: TimeNs) {
        let span = now.since(self.until);
        self.until = self.until.max(now);
        let [disk, waits, runs] = self.counts;
        if waits > 0 {
            self.some += span;
            if runs == 0 {
                self.full += span;
            }
        }
        if disk + waits + runs > 0 {
            self.busy += span;
        }
    }

    fn count(&mut self, stall: Stall) -> Option<&mut u32> {
        (stall as usize).checked_sub(1).map(|place| &mut self.counts[place])
    }
}

/// A group (`struct psi_group`).
#[derive(Clone, Debug, Default)]
struct OfGroup {
    /// By CPU; none before the first task.
    cpus: Vec<OfCpu>,
    /// When the next mean is due; nothing while the group is not active.
    next: Option<TimeNs>,
    /// Sum of the means.
    total: CpuPressure,
}

impl OfGroup {
    /// Takes the means that are due. After one without activity the clock stands still until the next change.
    fn advance(&mut self, now: TimeNs, clock: &Clock) {
        while let Some(due) = self.next.filter(|due| *due <= now) {
            let busy = self.mean(due, clock);
            self.next = busy.then_some(due + clock.period);
        }
    }

    /// Adds the mean of the times since the last one; false if no CPU was busy (`collect_percpu_times()`).
    fn mean(&mut self, now: TimeNs, clock: &Clock) -> bool {
        let (mut some, mut full, mut weights, mut busy) = (0u128, 0u128, 0u128, false);
        for cpu in &mut self.cpus {
            cpu.record(now);
            // Less than a jiffy weighs nothing.
            let weight = u128::from(cpu.busy.0 / clock.jiffy.0);
            some += u128::from(cpu.some.0) * weight;
            full += u128::from(cpu.full.0) * weight;
            weights += weight;
            busy |= cpu.busy > DurationNs::ZERO;
            (cpu.some, cpu.full, cpu.busy) = (DurationNs::ZERO, DurationNs::ZERO, DurationNs::ZERO);
        }
        self.total.some += DurationNs((some / weights.max(1)) as u64);
        self.total.full += DurationNs((full / weights.max(1)) as u64);
        busy
    }
}

/// When means are taken.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    jiffy: DurationNs,
    /// From one mean to the next (`PSI_FREQ`).
    period: DurationNs,
}

/// The pressure of all groups of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pressure {
    groups: Vec<OfGroup>,
    clock: Clock,
}

impl Pressure {
    /// Of so many groups, the root among them, on a kernel whose tick has this period.
    pub(crate) fn new(groups: usize, jiffy: DurationNs) -> Pressure {
        // Two seconds in jiffies, and one more.
        let period = DurationNs(2 * (1_000_000_000 / jiffy.0) * jiffy.0) + jiffy;
        Pressure { groups: vec![OfGroup::default(); groups], clock: Clock { jiffy, period } }
    }
}

impl Kernel {
    /// The task may have begun or stopped to wait or to run: its groups learn of it (`psi_task_change()`).
    #[inline(always)]
    pub(crate) fn note_pressure(&mut self, task: TaskId) {
        if !self.groups.is_flat() {
            let stall = Stall::of(self.task(task));
            self.set_stall(task, stall);
        }
    }

    /// The task is about to change its CPU or its group: where it is it counts no more. [`Kernel::note_pressure`] is to follow.
    #[inline(always)]
    pub(crate) fn leave_pressure(&mut self, task: TaskId) {
        if !self.groups.is_flat() {
            self.set_stall(task, Stall::None);
        }
    }

    #[inline(never)]
    fn set_stall(&mut self, task: TaskId, stall: Stall) {
        let entry = self.task_mut(task);
        let before = std::mem::replace(&mut entry.stall, stall);
        let (mut group, cpu) = (entry.group, entry.cpu);
        if before == stall {
            return;
        }
        let (now, cpus) = (self.ctx.now, self.cpus.len());
        while !group.is_root() {
            let clock = self.pressure.clock;
            let entry = &mut self.pressure.groups[group.index()];
            if entry.cpus.is_empty() {
                entry.cpus = vec![OfCpu::default(); cpus];
            }
            entry.advance(now, &clock);
            entry.next.get_or_insert(now + clock.period);
            let place = &mut entry.cpus[cpu.index()];
            place.record(now);
            if let Some(count) = place.count(before) {
                assert!(*count > 0, "{task} was counted");
                *count -= 1;
            }
            if let Some(count) = place.count(stall) {
                *count += 1;
            }
            group = self.groups.get(group).parent.unwrap_or(GroupIx::ROOT);
        }
    }

    /// The run begins: what was before is no part of it.
    pub(crate) fn begin_pressure(&mut self) {
        let (now, clock) = (self.ctx.now, self.pressure.clock);
        for group in &mut self.pressure.groups {
            group.advance(now, &clock);
            group.mean(now, &clock);
            group.total = CpuPressure::default();
        }
    }

    /// The group is no longer there; one that is made in its place has a clock of its own.
    pub(crate) fn end_pressure(&mut self, group: GroupIx) {
        let (now, clock) = (self.ctx.now, self.pressure.clock);
        let entry = &mut self.pressure.groups[group.index()];
        entry.advance(now, &clock);
        entry.mean(now, &clock);
        entry.next = None;
    }

    /// What the file `cpu.pressure` of a group says `now` as totals of the run; nothing of a group that was never made.
    pub fn group_pressure(&self, group: GroupIx, now: TimeNs) -> Option<CpuPressure> {
        let known = self.pressure.groups.get(group.index());
        let mut entry = known.filter(|_| self.groups.get(group).id > 0)?.clone();
        entry.advance(now, &self.pressure.clock);
        entry.mean(now, &self.pressure.clock);
        Some(entry.total)
    }

    /// By CPU, how many tasks of a group count as waiting for a disk, runnable, and running; none before its first task.
    pub(crate) fn stalls(&self, group: GroupIx) -> impl Iterator<Item = (CpuId, [u32; 3])> + '_ {
        let cpus = &self.pressure.groups[group.index()].cpus;
        (0..).map(CpuId).zip(cpus.iter().map(|place| place.counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock = Clock { jiffy: DurationNs::from_ms(4), period: DurationNs::from_ms(2_004) };

    fn at(ms: u64) -> TimeNs {
        TimeNs(ms * 1_000_000)
    }

    /// A group on two CPUs: on the first one task waits behind another for a second, on the second a task runs for three.
    fn group() -> OfGroup {
        let mut group =
            OfGroup { cpus: vec![OfCpu::default(); 2], next: Some(at(2_004)), ..OfGroup::default() };
        group.cpus[0].counts = [0, 1, 1];
        group.cpus[1].counts = [0, 0, 1];
        group.cpus[0].record(at(1_000));
        group.cpus[0].counts = [0, 0, 0];
        group
    }

    #[test]
    fn a_mean_weighs_cpus_by_the_time_that_they_had_something_to_do() {
        let mut group = group();
        group.mean(at(3_000), &CLOCK);
        // 1 s on the first CPU, which was busy for 1 of 4 s in all.
        assert_eq!(group.total, CpuPressure { some: DurationNs::from_ms(250), full: DurationNs::ZERO });
        group.mean(at(3_000), &CLOCK);
        assert_eq!(group.total.some, DurationNs::from_ms(250));
    }

    #[test]
    fn means_are_taken_when_they_are_due_and_stop_with_the_activity() {
        let mut group = group();
        group.advance(at(3_000), &CLOCK);
        // 250 jiffies of 751.
        assert_eq!((group.total.some.0, group.next), (1_000_000_000 * 250 / 751, Some(at(4_008))));
        group.cpus[1].record(at(3_000));
        group.cpus[1].counts = [0; 3];
        group.advance(at(10_000), &CLOCK);
        assert_eq!(group.next, None);
    }

    #[test]
    fn full_is_the_time_in_which_none_runs_and_disks_make_a_cpu_busy() {
        let mut cpu = OfCpu { counts: [0, 2, 0], ..OfCpu::default() };
        cpu.record(at(5));
        cpu.counts = [1, 0, 0];
        cpu.record(at(7));
        // A path that began earlier.
        cpu.record(at(6));
        let ms = DurationNs::from_ms;
        assert_eq!((cpu.some, cpu.full, cpu.busy, cpu.until), (ms(5), ms(5), ms(7), at(7)));
    }
}
