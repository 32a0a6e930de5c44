//! Executing task programs: from the next operation to what the core does.

use crate::ops::SchedExt;
use crate::sim::Sim;
use schedlab_base::{CpuId, DurationNs, TaskId};
use schedlab_workload::{Cursor, Op, ProgramId, Scenario};

/// The executor's part of a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskExec {
    pub(crate) program: ProgramId,
    pub(crate) cursor: Cursor,
}

/// A device or timer event of the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A sleeping task's timer.
    Timeout(TaskId),
}

/// What a task does after its present burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It needs that much work on the CPU; then the executor is asked again.
    Compute(DurationNs),
    /// It has been marked by [`Sim::block`] and gives the CPU away; the executor
    /// is asked again when it has been woken and runs.
    Blocked,
    /// `sched_yield`; the executor is asked again when it runs next.
    Yield,
    /// It ends.
    Exit,
}

/// The executor's state of a run.
#[derive(Debug)]
pub(crate) struct Executor {
    pub(crate) scenario: Scenario,
}

impl Executor {
    /// An executor for `scenario`.
    pub(crate) fn new(scenario: &Scenario) -> Executor {
        Executor { scenario: scenario.clone() }
    }

    /// The executor's part of a task that starts `program`.
    pub(crate) fn start(&self, program: ProgramId) -> TaskExec {
        TaskExec { program, cursor: Cursor::start() }
    }
}

/// Goes on with the program of `task`, the current task of `cpu`: walks its
/// operations, does its system calls (charging them with [`Sim::charge_task`]
/// and waking others with [`Sim::wake`]) and says what comes next.
pub(crate) fn next<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId) -> Step {
    loop {
        let exec = &mut sim.k.task_mut(task).exec;
        let program = &sim.exec.scenario.programs[exec.program.index()];
        match exec.cursor.next(program) {
            Op::Run(span) => return Step::Compute(span),
            Op::Sleep(span) => {
                let syscall = sim.k.machine().costs.syscall;
                sim.charge_task(syscall);
                let at = sim.k.ctx().now + span;
                sim.block(cpu, true);
                sim.at(at, cpu, Event::Timeout(task));
                return Step::Blocked;
            }
            Op::Yield => return Step::Yield,
            Op::Exit => return Step::Exit,
            _ => {}
        }
    }
}

/// A device or timer interrupt on `cpu` (interrupt context).
pub(crate) fn event<S: SchedExt>(sim: &mut Sim<S>, _cpu: CpuId, event: Event) {
    match event {
        Event::Timeout(task) => {
            sim.wake(task, crate::sim::WakeFlags { from_interrupt: true, ..Default::default() });
        }
    }
}

/// `task`, the current one of `cpu`, ends: wake who waits for it.
pub(crate) fn exited<S: SchedExt>(_sim: &mut Sim<S>, _cpu: CpuId, _task: TaskId) {}
