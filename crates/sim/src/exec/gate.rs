//! The beginning of a run as a real one has it: tasks that are made one after the other wait at a gate until all are there.

use super::{Event, Phase, Step, burst, state};
use crate::ops::SchedExt;
use crate::sim::{Sim, WakeFlags};
use crate::task::RunState;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_trace::EventKind;

/// How long all tasks sleep before the gate opens. Chosen: some of a leader's looks at whether they are there.
const REST: DurationNs = DurationNs::from_ms(10);

/// Sees to it that the scenario's tasks are made, the workload's (the first `own` of `all`) one by one at the pace of forks, the
/// kernel's own behind them, and that the gate opens when they have had the time to arrive. Returns when that is.
pub(crate) fn prepare<S: SchedExt>(sim: &mut Sim<S>, own: u32, all: u32) -> TimeNs {
    let (cpu, pace) = (CpuId(0), sim.k.machine.costs.fork + sim.k.machine.costs.exit);
    let now = sim.k.ctx.now;
    let opens = now + pace * u64::from(own) + REST;
    for number in 0..all {
        sim.at(now + pace * u64::from((number + 1).min(own)), cpu, Event::Make(number));
    }
    sim.at(opens, cpu, Event::Open);
    sim.exec.gated = true;
    sim.k.silent = true;
    opens
}

/// The leader forks a task.
pub(super) fn make<S: SchedExt>(sim: &mut Sim<S>, number: u32) {
    let spec = sim.spec_of(number as usize);
    sim.fork(None, spec);
}

/// A new task prepares itself: its memory, its name, its attributes. It takes what making it took. The kernel's own threads do
/// neither that nor wait.
pub(super) fn arrive<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> Option<Step> {
    if sim.k.is_own_thread(task) {
        return None;
    }
    state(sim, task).phase = Phase::AtGate;
    Some(burst(sim.k.machine.costs.fork))
}

/// The current task of `cpu` has come to the gate.
pub(super) fn wait<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId) -> Option<Step> {
    if !sim.exec.gated {
        return None;
    }
    sim.block(cpu, true);
    Some(Step::Blocked)
}

/// The run begins: whoever looks on is told of the tasks that are there, then those at the gate are woken in order.
pub(super) fn open<S: SchedExt>(sim: &mut Sim<S>) {
    sim.exec.gated = false;
    sim.k.silent = false;
    sim.k.totals = Default::default();
    let own = |task: &&crate::Task| !task.exec.background;
    sim.exec.used_before =
        sim.k.live_tasks().filter(own).fold(DurationNs::ZERO, |sum, task| sum + task.sum_exec_runtime);
    let here: Vec<TaskId> =
        (0..sim.k.tasks_made).map(TaskId).filter(|&id| sim.k.get_task(id).is_some()).collect();
    for &task in &here {
        sim.k.emit(EventKind::Fork { parent: None, child: task });
        sim.k.tell_priority(task);
    }
    let woken: Vec<TaskId> = here.into_iter().filter(|&task| tell(sim, task)).collect();
    for task in woken {
        sim.wake(task, WakeFlags::default());
    }
}

/// Tells of a task that does not sleep; true for one that waits at the gate.
fn tell<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> bool {
    let entry = sim.k.task(task);
    let (cpu, queued, running, state) = (entry.cpu, entry.on_rq, entry.on_cpu, entry.state);
    if state == RunState::Runnable && queued {
        sim.k.emit(EventKind::SchedWakeup { task, cpu, waker: None });
    }
    if running {
        let prev_state = schedlab_trace::TaskState::Runnable;
        sim.k.emit_on(cpu, EventKind::SchedSwitch { prev: None, prev_state, next: Some(task) });
    }
    state.is_blocked() && !sim.k.is_own_thread(task)
}
