//! Programs in the lane: computing, sleeping and taking down figures.

use super::{Phase, Step, begin, call, take_figures};
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use schedlab_base::{CpuId, DurationNs, TaskId};
use schedlab_workload::Op;

/// What [`next_straight`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Straight {
    /// The task computes, for so long.
    Computes(DurationNs),
    /// The task sleeps.
    Sleeps,
    /// Another operation was begun, with this step if it has one.
    Began(Option<Step>),
    /// Nothing was done: the task is in another operation.
    Other,
}

/// Continues the program of `task`, of which computing, sleeping and taking down figures has a short way here.
#[inline(always)]
pub(crate) fn next_straight<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId) -> Straight {
    let now = sim.k.ctx.now;
    let entry = sim.k.tasks.living_mut(task);
    match entry.exec.phase {
        Phase::Fetch => {}
        Phase::Enter(op @ Op::Sleep(span)) => {
            call::sleep_by_timer(sim, cpu, task, (op, now + span));
            return Straight::Sleeps;
        }
        Phase::Resume(Op::Sleep(_)) => {
            let used = entry.cpu_time(now);
            entry.exec.phase = Phase::Fetch;
            entry.exec.leave_kernel(used);
            sim.k.return_to_user();
        }
        _ => return Straight::Other,
    }
    loop {
        match take_figures(sim, task) {
            Op::Run(DurationNs::ZERO) => {}
            Op::Run(span) => return Straight::Computes(span),
            op @ Op::Sleep(_) => {
                let cost = call::sleep_cost(sim);
                let entry = sim.k.task_mut(task);
                let used = entry.cpu_time(now);
                entry.exec.enter_kernel(used, op);
                return Straight::Computes(cost);
            }
            op => return Straight::Began(begin(sim, task, op)),
        }
    }
}
