//! Programs: computing, sleeping and taking down figures.

use super::schedule::Passed;
use crate::event::{Event, OfCpu};
use crate::exec::sleepers::Sleeper;
use crate::state::ops::SchedExt;
use crate::state::programs::{FlatOp, FlatPhase};
use crate::state::sim::Sim;
use crate::state::task::{Burst, RunState};
use schedlab_base::{CpuId, DurationNs, TaskId};
use schedlab_workload::SpanSample;

/// What the program of the running task came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// The task has a burst to do.
    Computes,
    /// The task goes to sleep.
    Sleeps,
    /// The next operation is the general core's.
    Foreign,
}

impl<S: SchedExt> Sim<S> {
    /// [`Sim::run_current`].
    #[inline(never)]
    pub(super) fn lane_run(&mut self, cpu: CpuId) {
        loop {
            self.k.lane_kicks();
            let entry = self.k.cpu(cpu);
            if entry.need_resched {
                if self.k.is_behind() {
                    self.lane_step_back(cpu);
                    break;
                }
                if self.lane_schedule(cpu) == Passed::Over {
                    return;
                }
                continue;
            }
            let Some(task) = entry.curr else { break };
            let entry = self.k.flat(task);
            let (burst, private) = (entry.burst, entry.exec.phase == FlatPhase::Fetch);
            let has_burst = burst.work > DurationNs::ZERO || burst.refill > DurationNs::ZERO;
            if has_burst && !self.lane_start_burst(cpu, task, burst) {
                break;
            }
            let alone = private && self.k.ctx.now < self.k.limit;
            if !alone && self.k.is_behind() {
                self.lane_step_back(cpu);
                break;
            }
            match self.lane_program(cpu, task) {
                Came::Computes => {}
                Came::Sleeps => {
                    self.k.lane_kicks();
                    if self.lane_schedule(cpu) == Passed::Over {
                        return;
                    }
                }
                Came::Foreign => {
                    self.finish_in_general(move |sim| sim.run_current(cpu));
                    return;
                }
            }
        }
        self.k.leave();
    }

    /// [`Sim::start_burst`], at even speed.
    #[inline(always)]
    fn lane_start_burst(&mut self, cpu: CpuId, task: TaskId, burst: Burst) -> bool {
        let k = &mut self.k;
        let end = k.ctx.now + burst.refill + burst.work;
        if end < k.limit && end < k.queue.next_time() {
            k.ctx.now = end;
            k.flat(task).burst = Burst::default();
            return true;
        }
        let entry = &mut k.cpus[cpu.index()];
        (entry.burst_factor, entry.burst_end, entry.burst_active) = (1000, end, true);
        k.queue.expect(OfCpu::Work, cpu, end);
        false
    }

    /// [`Sim::step_back`].
    #[inline(never)]
    fn lane_step_back(&mut self, cpu: CpuId) {
        self.resched_at_local_time(cpu);
        if let Some(task) = self.k.curr(cpu) {
            let burst = self.k.flat(task).burst;
            self.lane_start_burst(cpu, task, burst);
        }
    }

    /// Continues the program of the running task up to what takes time.
    #[inline(always)]
    fn lane_program(&mut self, cpu: CpuId, task: TaskId) -> Came {
        let now = self.k.ctx.now;
        let entry = &mut self.k.flat.tasks[task.index()];
        match entry.exec.phase {
            FlatPhase::Fetch => {}
            FlatPhase::Enter => {
                self.lane_sleep(cpu, task);
                return Came::Sleeps;
            }
            FlatPhase::Resume => {
                let used = entry.cpu_time(now);
                entry.exec.phase = FlatPhase::Fetch;
                entry.exec.system += used - entry.exec.entered;
                self.k.return_to_user();
            }
        }
        let entry = &mut self.k.flat.tasks[task.index()];
        let ops = &self.k.flat.programs.ops;
        let mut at = entry.exec.at as usize;
        let came = loop {
            let op = ops[at];
            at += 1;
            match op {
                FlatOp::Pass => {}
                FlatOp::Jump(to) => at = to as usize,
                FlatOp::Run(span) => {
                    entry.burst.work = span;
                    break Came::Computes;
                }
                FlatOp::Sleep(_) => {
                    entry.exec.entered = entry.cpu_time(now);
                    entry.exec.phase = FlatPhase::Enter;
                    entry.burst.work = self.k.machine.costs.syscall.max(DurationNs(1));
                    break Came::Computes;
                }
                FlatOp::Count(counter, units) => self.exec.counters[counter as usize] += u64::from(units),
                FlatOp::SpanBegin(span) => match entry.exec.open {
                    // Of two open spans the general core keeps a list.
                    Some((other, _)) if other != span => {
                        at -= 1;
                        break Came::Foreign;
                    }
                    _ => entry.exec.open = Some((span, now)),
                },
                FlatOp::SpanEnd(span) => {
                    if let Some((_, begin)) = entry.exec.open.take_if(|open| open.0 == span) {
                        self.exec.spans[span.0 as usize].record(SpanSample { begin, end: now });
                    }
                }
                FlatOp::Other => {
                    at -= 1;
                    break Came::Foreign;
                }
            }
        };
        entry.exec.at = at as u32;
        came
    }

    /// The task sleeps until its timer.
    #[inline(always)]
    fn lane_sleep(&mut self, cpu: CpuId, task: TaskId) {
        let k = &mut self.k;
        let at = k.flat(task).exec.at as usize - 1;
        let FlatOp::Sleep(span) = k.flat.programs.ops[at] else {
            unreachable!("the task has entered a sleep")
        };
        let earliest = k.ctx.now + span;
        k.spend(k.machine.costs.timer);
        let latest = earliest + k.machine.kernel.timer_slack;
        let entry = k.flat(task);
        entry.exec.phase = FlatPhase::Resume;
        entry.set_state(RunState::Interruptible);
        k.cpus[cpu.index()].sleepers.push(Sleeper { latest, earliest, task });
        k.count_timeout(task, true);
        k.queue.push(latest.max(k.ctx.now), Event::Latest { cpu, task });
    }
}
