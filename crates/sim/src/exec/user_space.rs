//! The task of the scheduler's own user space: whenever it runs it takes a turn, then it sleeps or yields.
//!
//! What a turn does takes effect when it begins; the CPU time that it took follows.

use super::{Phase, Step, burst, call, sleepers, state};
use crate::state::ops::{OpKind, SchedExt, UserSpaceNext};
use crate::state::sim::Sim;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};

/// User code between two system calls. Chosen: loaders look at a few maps or format a line.
const BETWEEN_CALLS: DurationNs = DurationNs::from_us(1);
/// How long it sleeps where its scheduler is not attached yet. Chosen: a tenth of what loaders wait between turns.
const NOT_ATTACHED: DurationNs = DurationNs::from_ms(10);

/// The task takes a turn.
pub(super) fn turn<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> Option<Step> {
    if sim.ops.is_none() || !sim.k.scx.loaded {
        let over = sim.k.scx.exit.is_some() || sim.k.scx.detached;
        let until = (!over).then(|| sim.k.ctx.now + NOT_ATTACHED);
        state(sim, task).phase = Phase::TurnOver(UserSpaceNext::Wait(until));
        return None;
    }
    let turn = sim.call(OpKind::Init, None, None, |ops, k| ops.user_space_turn(k));
    state(sim, task).phase = Phase::TurnOver(turn.next);
    let costs = &sim.k.machine.costs;
    let yields = if turn.next == UserSpaceNext::Yield { costs.sched_yield } else { DurationNs::ZERO };
    Some(burst((costs.syscall + BETWEEN_CALLS) * turn.calls.max(1) + yields))
}

/// The turn is over: the next one begins when the task runs again.
pub(super) fn over<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, next: UserSpaceNext) -> Step {
    state(sim, task).phase = Phase::Turn;
    match next {
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
    }
}
