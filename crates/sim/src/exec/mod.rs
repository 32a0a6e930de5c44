//! Executing task programs: from the next operation to what the core does.
//!
//! A system call takes place in steps, so that everything happens at its time:
//! `sys_enter` fires and its CPU cost becomes a burst of the task; when the burst is
//! over the call takes effect (and wakes others), or the task blocks and goes on
//! when it has been woken; then `sys_exit` fires. The part of a channel operation
//! that holds the object's lock is charged at the effect, so that tasks of several
//! CPUs wait for each other.

mod call;
mod numbers;

use crate::ipc::Objects;
use crate::ops::SchedExt;
use crate::sim::{Sim, WakeFlags};
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_workload::{
    Cursor, MAX_TIMERS, Measurements, Op, ProcessId, ProgramId, Scenario, SpanId, SpanSample,
};

/// The executor's part of a task.
#[derive(Clone, Debug)]
pub struct TaskExec {
    program: ProgramId,
    cursor: Cursor,
    phase: Phase,
    /// Bytes that the present transfer has moved.
    moved: u32,
    /// Children not yet reaped, and those of them that have exited.
    children: u32,
    zombies: u32,
    /// Blocked in [`Op::WaitChild`].
    waits_for_child: bool,
    background: bool,
    /// What few tasks have.
    rare: Option<Box<Rare>>,
}

/// Timers and open spans of a task.
#[derive(Clone, Debug)]
struct Rare {
    /// The last expiry of each timer.
    timers: [Option<TimeNs>; MAX_TIMERS],
    open: Vec<(SpanId, TimeNs)>,
}

/// Where a task is in its present operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before the next one.
    Fetch,
    /// The costs of entering the system call are paid; it takes effect.
    Enter(Op),
    /// It blocked in the call and has been woken.
    Resume(Op),
    /// In [`Op::RunFor`] until that instant.
    Until(TimeNs),
    /// The system call with this number returns this.
    Leave(i64, i64),
}

/// A device or timer event of the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A sleeping task's timer, or the completion of its disk request.
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
    objects: Objects,
    counters: Vec<u64>,
    spans: Vec<Vec<SpanSample>>,
    next_process: u32,
    /// Tasks alive that keep the run alive.
    foreground: u32,
}

impl Executor {
    /// An executor for `scenario`.
    pub(crate) fn new(scenario: &Scenario) -> Executor {
        let processes = scenario.tasks.iter().map(|task| task.process.0 + 1).max();
        Executor {
            objects: Objects::new(scenario),
            counters: vec![0; scenario.counters as usize],
            spans: vec![Vec::new(); scenario.spans as usize],
            next_process: processes.unwrap_or(0),
            foreground: 0,
            scenario: scenario.clone(),
        }
    }

    /// The executor's part of a task that starts `program`.
    pub(crate) fn start(&mut self, program: ProgramId, background: bool) -> TaskExec {
        self.foreground += u32::from(!background);
        TaskExec {
            program,
            cursor: Cursor::start(),
            phase: Phase::Fetch,
            moved: 0,
            children: 0,
            zombies: 0,
            waits_for_child: false,
            background,
            rare: None,
        }
    }

    /// True when all tasks that are not in the background have exited.
    pub(crate) fn foreground_is_over(&self) -> bool {
        self.foreground == 0
    }

    /// What the run measured.
    pub(crate) fn measurements(&mut self, elapsed: DurationNs, cpus: usize) -> Measurements {
        Measurements {
            counters: std::mem::take(&mut self.counters),
            spans: std::mem::take(&mut self.spans),
            elapsed,
            cpus,
        }
    }

    fn new_process(&mut self) -> ProcessId {
        self.next_process += 1;
        ProcessId(self.next_process - 1)
    }
}

impl TaskExec {
    /// True when what comes next concerns the task alone (fetching an operation,
    /// leaving a call): it may be done although others are behind in time.
    pub(crate) fn is_private(&self) -> bool {
        matches!(self.phase, Phase::Fetch | Phase::Leave(..))
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(|| Box::new(Rare { timers: [None; MAX_TIMERS], open: Vec::new() }))
    }
}

/// The executor's part of a living task. No scheduler sees it, so the task does
/// not become dirty.
fn state<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> &mut TaskExec {
    &mut sim.k.tasks[task.index()].as_deref_mut().expect("a task that runs exists").exec
}

/// A burst of at least a nanosecond: no program makes calls without end in no time.
fn burst(span: DurationNs) -> Step {
    Step::Compute(span.max(DurationNs(1)))
}

/// Goes on with the program of `task`, the current task of `cpu`: walks its
/// operations, does its system calls (charging them with [`Sim::charge_task`]
/// and waking others with [`Sim::wake`]) and says what comes next.
pub(crate) fn next<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId) -> Step {
    loop {
        let step = match std::mem::replace(&mut state(sim, task).phase, Phase::Fetch) {
            Phase::Fetch => fetch(sim, task),
            Phase::Enter(op) => call::enter(sim, cpu, task, op),
            Phase::Resume(op) => call::resume(sim, cpu, task, op),
            Phase::Until(end) => run_until(sim, task, end),
            Phase::Leave(nr, ret) => {
                sim.sys_exit(nr, ret);
                None
            }
        };
        if let Some(step) = step {
            return step;
        }
    }
}

/// Begins the next operation. What costs nothing is done at once.
fn fetch<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> Option<Step> {
    let exec = &mut sim.k.tasks[task.index()].as_deref_mut().expect("a task that runs exists").exec;
    let op = exec.cursor.next(&sim.exec.scenario.programs[exec.program.index()]);
    match op {
        Op::Run(span) => (span > DurationNs::ZERO).then_some(Step::Compute(span)),
        Op::RunFor(span) => {
            let end = sim.k.ctx().now + span;
            run_until(sim, task, end)
        }
        Op::Touch { kib } => Some(burst(touch_cost(sim, kib))),
        Op::Count { counter, units } => {
            sim.exec.counters[counter.0 as usize] += u64::from(units);
            None
        }
        Op::SpanBegin(span) => {
            let now = sim.k.ctx().now;
            let open = &mut state(sim, task).rare().open;
            open.retain(|entry| entry.0 != span);
            open.push((span, now));
            None
        }
        Op::SpanEnd(span) => {
            end_span(sim, task, span);
            None
        }
        Op::Lock(_) | Op::Unlock(_) | Op::CondSignal(_) | Op::CondBroadcast(_) => {
            call::user_space(sim, task, op)
        }
        op => Some(call::begin(sim, task, op)),
    }
}

/// Computes until `end`, looking at the clock now and then: the task may be
/// preempted meanwhile.
fn run_until<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, end: TimeNs) -> Option<Step> {
    /// Chosen: fine enough for milliseconds, coarse enough to be cheap.
    const CHUNK: DurationNs = DurationNs::from_us(50);
    let left = end.since(sim.k.ctx().now);
    if left == DurationNs::ZERO {
        return None;
    }
    state(sim, task).phase = Phase::Until(end);
    Some(Step::Compute(left.min(CHUNK)))
}

/// Walking a warm buffer costs an eighth of refilling it (chosen: lines that are
/// prefetched from the own cache); what the cache cannot hold is refilled on top. The
/// refill after migration and displacement is the core's, by working set.
fn touch_cost<S: SchedExt>(sim: &mut Sim<S>, kib: u32) -> DurationNs {
    let cpu = sim.k.ctx().cpu;
    let walk = sim.k.machine().costs.cache_refill_per_kib * u64::from(kib) / 8;
    walk + sim.k.touch_cost(cpu, kib)
}

fn end_span<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, span: SpanId) {
    let end = sim.k.ctx().now;
    let open = &mut state(sim, task).rare().open;
    if let Some(at) = open.iter().position(|entry| entry.0 == span) {
        let begin = open.swap_remove(at).1;
        sim.exec.spans[span.0 as usize].push(SpanSample { begin, end });
    }
}

/// A device or timer interrupt on `cpu` (interrupt context).
pub(crate) fn event<S: SchedExt>(sim: &mut Sim<S>, _cpu: CpuId, event: Event) {
    match event {
        Event::Timeout(task) => {
            sim.wake(task, WakeFlags { from_interrupt: true, ..WakeFlags::default() });
        }
    }
}

/// `task`, the current one of `cpu`, ends: wake who waits for it.
pub(crate) fn exited<S: SchedExt>(sim: &mut Sim<S>, _cpu: CpuId, task: TaskId) {
    if !state(sim, task).background {
        sim.exec.foreground -= 1;
    }
    let parent = sim.k.task(task).parent.filter(|&parent| sim.k.get_task(parent).is_some());
    let Some(parent) = parent else { return };
    let exec = state(sim, parent);
    exec.zombies += 1;
    if std::mem::take(&mut exec.waits_for_child) {
        // __wake_up_parent() is a synchronous wakeup: the child is about to be gone.
        sim.wake(parent, WakeFlags { sync: true, ..WakeFlags::default() });
    }
}
