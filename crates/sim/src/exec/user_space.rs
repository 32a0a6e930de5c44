//! The task of the scheduler's own user space: whenever it runs it takes a turn, then it sleeps or yields.
//!
//! What a turn does takes effect when it begins; the CPU time that it took follows.

use super::{Phase, Step, burst, call, sleepers, state};
use crate::state::ops::{OpKind, SchedExt, UserSpaceNext, UserSpaceTurn};
use crate::state::sim::Sim;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_workload::Attribute;

/// Pieces of a computation without end.
const ENDLESS: DurationNs = DurationNs::from_secs(1);
/// How long it sleeps where its scheduler is not attached yet. Chosen: a tenth of what loaders wait between turns.
const NOT_ATTACHED: DurationNs = DurationNs::from_ms(10);

/// Turns that it takes while nothing else runs. Chosen: what loaders do once their scheduler is attached, until they wait, is one
/// turn, and one more for each change of the CPUs that they may use.
const ALONE: usize = 16;

/// The scheduler has been attached on a machine that runs nothing else yet: its user space runs until it waits. A workload
/// begins later on real kernels too, where the scheduler's being enabled is waited for.
pub(crate) fn settle<S: SchedExt>(sim: &mut Sim<S>) {
    let Some(number) = sim.exec.user_space() else { return };
    for _ in 0..ALONE {
        if !sim.k.scx.loaded || sim.k.sched.exit.is_some() {
            return;
        }
        let affinity = &sim.exec.scenario.tasks[number].affinity;
        sim.k.ctx.cpu = affinity.as_ref().and_then(|mask| mask.lowest()).unwrap_or(CpuId(0));
        let turn = sim.call(OpKind::Init, None, None, |ops, k| ops.user_space_turn(k));
        sim.exec.settled = Some(turn.next);
        if turn.affinity.is_some() {
            sim.exec.scenario.tasks[number].affinity = turn.affinity;
        }
        if turn.next != UserSpaceNext::GoOn {
            break;
        }
    }
    sim.k.ctx.cpu = CpuId(0);
}

/// The task takes a turn.
pub(super) fn turn<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> Option<Step> {
    if sim.ops.is_none() || !sim.k.scx.loaded {
        let over = sim.k.sched.exit.is_some() || sim.k.scx.detached;
        let until = (!over).then(|| sim.k.ctx.now + NOT_ATTACHED);
        state(sim, task).phase = Phase::TurnOver(UserSpaceNext::Wait(until));
        return None;
    }
    let turn = sim.call(OpKind::Init, None, None, |ops, k| ops.user_space_turn(k));
    state(sim, task).phase = Phase::TurnOver(turn.next);
    if let Some(mask) = turn.affinity {
        sim.set_attribute(task, Attribute::Affinity(*mask));
    }
    let costs = &sim.k.machine.costs;
    let yields = if turn.next == UserSpaceNext::Yield { costs.sched_yield } else { DurationNs::ZERO };
    Some(burst((costs.syscall + UserSpaceTurn::BETWEEN_CALLS) * turn.calls.max(1) + yields))
}

/// The turn is over and paid for: what the task does until its next one. Nothing: that begins at once.
pub(super) fn over<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    next: UserSpaceNext,
) -> Option<Step> {
    state(sim, task).phase = Phase::Turn;
    let step = match next {
        UserSpaceNext::GoOn => return None,
        UserSpaceNext::Compute => {
            state(sim, task).phase = Phase::TurnOver(next);
            burst(ENDLESS)
        }
        UserSpaceNext::Yield => Step::Yield,
        UserSpaceNext::Wait(until) => {
            let soon = sim.k.ctx.now + DurationNs::from_us(1);
            sim.block(cpu, true);
            if let Some(until) = until.map(|until: TimeNs| until.max(soon)) {
                let latest = until + call::timer_slack(sim, task);
                sleepers::wake_between(sim, cpu, task, (until, latest));
            }
            Step::Blocked
        }
    };
    Some(step)
}
