//! Executing task programs: from the next operation to what the core does.
//!
//! A system call takes place in steps, so that everything happens at its time. First `sys_enter`
//! fires and its CPU cost becomes a burst of the task. When the burst is over the call takes effect
//! (and wakes others), or the task blocks and continues when it has been woken. Then `sys_exit`
//! fires. The part of a channel operation that holds the object's lock is charged at the effect, so
//! that tasks of several CPUs wait for each other.

/// Operations that are no system calls, as a pattern. Where code distinguishes operations, every one is named: a new one does
/// not compile until each place says what it is there.
macro_rules! no_calls {
    () => {
        Op::Loop(_)
            | Op::EndLoop
            | Op::Run(_)
            | Op::RunFor(_)
            | Op::Touch { .. }
            | Op::RecvReady { .. }
            | Op::Answer { .. }
            | Op::Late { .. }
            | Op::Age { .. }
            | Op::Store { .. }
            | Op::Advance(_)
            | Op::Note(_)
            | Op::RestartIfChanged(_)
            | Op::Count { .. }
            | Op::SpanBegin(_)
            | Op::SpanEnd(_)
    };
}

mod blocked;
mod call;
mod exit;
mod flat;
mod gate;
mod locks;
mod numbers;
mod pages;
pub(crate) mod sleepers;
mod transfer;
mod user;
mod user_space;
mod wait_words;

pub(crate) use blocked::Waits;
pub(crate) use exit::exit;
pub(crate) use gate::{open, prepare};
pub(crate) use user::UserMemory;
pub(crate) use user_space::settle;

use pages::Pages;

use crate::ipc::Objects;
use crate::state::ops::{SchedExt, UserSpaceNext};
use crate::state::sim::{Sim, WakeFlags};
use crate::state::task::Task;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_workload::{
    ChannelId, Cursor, End, MAX_TIMERS, Measurements, Op, ProcessId, ProgramId, Scenario, SpanId, SpanSample,
    Spans, Watched, WordId,
};

/// The executor's part of a task. What every operation touches lies in the first two cache lines, up to the count of
/// the outermost loop.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct TaskExec {
    phase: Phase,
    /// CPU time in system calls, without the present one; and the CPU time used when that began.
    system: DurationNs,
    entered: DurationNs,
    program: ProgramId,
    /// Bytes that the present transfer has moved.
    moved: u32,
    /// What few tasks have.
    rare: Option<Box<Rare>>,
    /// The open span, where only one is; [`Rare`] has the others.
    open: Option<(SpanId, TimeNs)>,
    cursor: Cursor,
    /// Children not yet reaped, and the pids of those of them that have exited.
    children: u32,
    zombies: Vec<i32>,
    /// Blocked in [`Op::WaitChild`].
    waits_for_child: bool,
    /// Blocked in [`Op::SigWait`]; a signal that came at another time.
    waits_for_signal: bool,
    signal_pending: bool,
    background: bool,
    /// Events of its timers that are still to come and mean nothing: it was woken before ([`sleepers`]).
    taken_timers: u32,
}

/// Timers, further open spans and what programs remember of a task.
#[derive(Clone, Debug)]
struct Rare {
    /// The last expiry of each timer.
    timers: [Option<TimeNs>; MAX_TIMERS],
    open: Vec<(SpanId, TimeNs)>,
    /// What the last poll found, and the channel that was read from since.
    ready: Option<Watched>,
    answered: Option<ChannelId>,
    /// Values of shared integers remembered.
    noted: Vec<(WordId, u32)>,
    pages: Pages,
}

/// Where a task is in its present operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A forked process before its first operation.
    Born,
    /// Before the next one.
    Fetch,
    /// The costs of entering the system call are paid; it takes effect.
    Enter(Op),
    /// The task blocked in the call and has been woken.
    Resume(Op),
    /// In [`Op::RunFor`] until that instant.
    Until(TimeNs),
    /// The system call returns this.
    Leave(i64),
    /// Looks whether the operation is over.
    Again(Op),
    /// The leader, which makes the others.
    Lead(gate::Lead),
    /// A task of the start, on its way to the gate.
    Arrive,
    /// A task of the start that has paid for this thread of its process.
    Clone(TaskId),
    /// The task is at the gate.
    AtGate,
    /// The scheduler's own user space takes a turn.
    Turn,
    /// The user space has taken a turn, and has paid for it.
    TurnOver(UserSpaceNext),
}

/// What a task does after its present burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The task needs that much work on the CPU; then the executor is asked again.
    Compute(DurationNs),
    /// The task has been marked by [`Sim::block`] and gives the CPU away; the executor
    /// is asked again when it has been woken and runs.
    Blocked,
    /// `sched_yield`; the executor is asked again when it runs next.
    Yield,
    /// The task ends.
    Exit,
}

/// The executor's state of a run.
#[derive(Debug)]
pub(crate) struct Executor {
    pub(crate) scenario: Scenario,
    calls: numbers::Calls,
    objects: Objects,
    pub(crate) counters: Vec<u64>,
    pub(crate) spans: Vec<Spans>,
    next_process: u32,
    /// Tasks alive that keep the run alive.
    foreground: u32,
    /// The scenario's last task is the scheduler's own user space.
    has_user_space: bool,
    /// What that does first, if it has had a turn before it is a task.
    settled: Option<UserSpaceNext>,
    /// Where tasks of the start wait for the run to begin; nothing once that is open.
    pub(crate) gate: Option<gate::Gate>,
    /// CPU time that foreground tasks had used when it began.
    used_before: DurationNs,
    /// CPU time of such tasks that have ended: all, and in system calls.
    ended: (DurationNs, DurationNs),
    /// Since when no task of the workload could run any more, and what each waited for.
    pub(crate) stuck: Option<String>,
}

impl Executor {
    /// An executor for `scenario`, whose last task may be the scheduler's own user space.
    pub(crate) fn new(scenario: Scenario, has_user_space: bool) -> Executor {
        let processes = scenario.tasks.iter().map(|task| task.process.0 + 1).max();
        Executor {
            calls: numbers::Calls::new(&scenario),
            objects: Objects::new(&scenario),
            counters: vec![0; scenario.counters as usize],
            spans: scenario.empty_spans(),
            next_process: processes.unwrap_or(0),
            foreground: 0,
            has_user_space,
            settled: None,
            gate: None,
            used_before: DurationNs::ZERO,
            ended: (DurationNs::ZERO, DurationNs::ZERO),
            stuck: None,
            scenario,
        }
    }

    /// The executor's part of a task that starts `program`.
    pub(crate) fn start(&mut self, program: ProgramId, background: bool) -> TaskExec {
        self.foreground += u32::from(!background);
        TaskExec {
            program,
            cursor: Cursor::start(),
            phase: if self.gate.is_some() { Phase::Arrive } else { Phase::Fetch },
            moved: 0,
            children: 0,
            zombies: Vec::new(),
            waits_for_child: false,
            waits_for_signal: false,
            signal_pending: false,
            background,
            taken_timers: 0,
            system: DurationNs::ZERO,
            entered: DurationNs::ZERO,
            rare: None,
            open: None,
        }
    }

    /// The executor's part of the scenario's task of that number.
    pub(crate) fn start_task(&mut self, number: usize) -> TaskExec {
        let task = &self.scenario.tasks[number];
        let mut exec = self.start(task.program, task.background);
        if self.user_space() == Some(number) {
            exec.phase = self.settled.map_or(Phase::Turn, Phase::TurnOver);
        }
        exec
    }

    /// The number of the task that is the scheduler's own user space.
    pub(crate) fn user_space(&self) -> Option<usize> {
        self.has_user_space.then(|| self.scenario.tasks.len() - 1)
    }

    /// True when all tasks that are not in the background have exited and the scenario ends with them.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.foreground == 0 && self.scenario.end == End::ForegroundExit
    }

    /// Restarts the measurements here.
    pub(crate) fn restart(&mut self) {
        self.counters = vec![0; self.scenario.counters as usize];
        self.spans = self.scenario.empty_spans();
    }

    /// What the run measured so far, or since [`Executor::restart`], which must follow if the run continues; `living` are the tasks
    /// that have not ended.
    pub(crate) fn measurements<'a>(
        &mut self,
        elapsed: DurationNs,
        cpus: usize,
        living: impl Iterator<Item = &'a Task>,
    ) -> Measurements {
        let mut total = self.ended;
        for task in living.filter(|task| !task.exec.background) {
            total = (total.0 + task.sum_exec_runtime, total.1 + task.exec.system);
        }
        Measurements {
            counters: std::mem::take(&mut self.counters),
            spans: std::mem::take(&mut self.spans),
            elapsed,
            cpus,
            user: (total.0 - total.1.min(total.0)).saturating_sub(self.used_before),
            system: total.1.min(total.0),
        }
    }

    fn new_process(&mut self) -> ProcessId {
        self.next_process += 1;
        ProcessId(self.next_process - 1)
    }
}

impl TaskExec {
    /// The task enters the system call of `op` after it has used this much CPU time.
    fn enter_kernel(&mut self, used: DurationNs, op: Op) {
        self.entered = used;
        self.phase = Phase::Enter(op);
        self.moved = 0;
    }

    /// The task returns from a system call after it has used this much CPU time.
    fn leave_kernel(&mut self, used: DurationNs) {
        debug_assert!(used >= self.entered, "CPU time does not go back");
        self.system += used - self.entered;
    }

    /// The task computes, or is about to fetch its next operation: it is in no system call.
    pub(crate) fn is_in_user_mode(&self) -> bool {
        matches!(self.phase, Phase::Fetch | Phase::Until(_) | Phase::Turn)
    }

    /// True when what comes next concerns the task alone (fetching an operation,
    /// leaving a call): it may be done although others are behind in time.
    pub(crate) fn is_private(&self) -> bool {
        matches!(self.phase, Phase::Fetch | Phase::Leave(_))
    }

    /// Opens a span, or begins it again.
    fn begin_span(&mut self, span: SpanId, now: TimeNs) {
        if let Some(rare) = &mut self.rare {
            rare.open.retain(|open| open.0 != span);
        }
        match self.open {
            Some((other, _)) if other != span => self.rare().open.push((span, now)),
            _ => self.open = Some((span, now)),
        }
    }

    /// Closes a span; when it began, if it was open.
    fn end_span(&mut self, span: SpanId) -> Option<TimeNs> {
        if let Some((_, begin)) = self.open.take_if(|open| open.0 == span) {
            return Some(begin);
        }
        let open = &mut self.rare.as_mut()?.open;
        let at = open.iter().position(|open| open.0 == span)?;
        Some(open.swap_remove(at).1)
    }

    #[inline(never)]
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(|| {
            Box::new(Rare {
                timers: [None; MAX_TIMERS],
                open: Vec::new(),
                ready: None,
                answered: None,
                noted: Vec::new(),
                pages: Pages::default(),
            })
        })
    }
}

/// The executor's part of a living task. No scheduler sees it, so the task does
/// not become dirty.
fn state<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> &mut TaskExec {
    &mut sim.k.task_mut(task).exec
}

/// A burst of at least a nanosecond: no program makes calls without end in no time.
fn burst(span: DurationNs) -> Step {
    Step::Compute(span.max(DurationNs(1)))
}

/// Continues the program of `task`, the current task of `cpu`. Walks its operations, does its
/// system calls (charging them with [`Sim::charge_task`] and waking others with [`Sim::wake`]) and
/// says what comes next.
pub(crate) fn next<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId) -> Step {
    loop {
        let step = match std::mem::replace(&mut state(sim, task).phase, Phase::Fetch) {
            Phase::Born => Some(burst(sim.k.machine().costs.fork_child)),
            Phase::Fetch => fetch(sim, task),
            Phase::Enter(op) => call::enter(sim, cpu, task, op),
            Phase::Resume(op) => call::resume(sim, cpu, task, op),
            Phase::Until(end) => run_until(sim, task, end),
            Phase::Leave(ret) => call::leave(sim, ret),
            Phase::Again(op) => look_again(sim, task, op),
            Phase::Lead(at) => gate::lead(sim, cpu, task, at),
            Phase::Arrive => gate::arrive(sim, task),
            Phase::Clone(made) => gate::clone_thread(sim, task, made),
            Phase::AtGate => gate::wait(sim, cpu),
            Phase::Turn => user_space::turn(sim, task),
            Phase::TurnOver(next) => user_space::over(sim, cpu, task, next),
        };
        if let Some(step) = step {
            return step;
        }
    }
}

/// Begins the next operation that is more than taking down a figure.
fn fetch<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> Option<Step> {
    let now = sim.k.ctx.now;
    let exec = &mut sim.k.task_mut(task).exec;
    let program = &sim.exec.scenario.programs[exec.program.index()];
    let op = loop {
        match exec.cursor.next(program) {
            Op::Count { counter, units } => sim.exec.counters[counter.0 as usize] += u64::from(units),
            Op::SpanBegin(span) => exec.begin_span(span, now),
            Op::SpanEnd(span) => {
                if let Some(begin) = exec.end_span(span) {
                    sim.exec.spans[span.0 as usize].record(SpanSample { begin, end: now });
                }
            }
            op => break op,
        }
    };
    match op {
        Op::Run(span) => (span > DurationNs::ZERO).then_some(Step::Compute(span)),
        Op::RunFor(span) => {
            let end = sim.k.ctx().now + span;
            run_until(sim, task, end)
        }
        Op::Touch { kib } => Some(burst(touch_cost(sim, task, kib))),
        Op::Lock(_) | Op::Unlock(_) | Op::CondSignal(_) | Op::CondBroadcast(_) => {
            locks::user_space(sim, task, op)
        }
        Op::Connect { listener, channel } => transfer::connect(sim, task, listener, channel),
        Op::Close(span) => transfer::close(sim, task, span),
        Op::Late { .. } | Op::Age { .. } => record_delay(sim, task, op),
        Op::RecvReady { bytes } => receive_ready(sim, task, bytes),
        Op::Answer { bytes } => answer(sim, task, bytes),
        Op::Await { .. } => look_again(sim, task, op),
        Op::Store { .. } | Op::Advance(_) | Op::Note(_) | Op::RestartIfChanged(_) => {
            use_word(sim, task, op);
            None
        }
        Op::RunKernel(_)
        | Op::Sleep(_)
        | Op::Io { .. }
        | Op::Fsync { .. }
        | Op::Send { .. }
        | Op::Recv { .. }
        | Op::SemWait(_)
        | Op::SemPost { .. }
        | Op::SemDrain(_)
        | Op::LockShared(_)
        | Op::Poll(_)
        | Op::Accept(_)
        | Op::Kill(_)
        | Op::SigWait
        | Op::CondWait { .. }
        | Op::Barrier(_)
        | Op::TimerWait { .. }
        | Op::Yield
        | Op::Fork { .. }
        | Op::Exec
        | Op::Set { .. }
        | Op::SetGroup { .. }
        | Op::Hotplug { .. }
        | Op::WaitChild
        | Op::Exit => Some(call::begin(sim, task, op)),
        Op::Loop(_) | Op::EndLoop | Op::Count { .. } | Op::SpanBegin(_) | Op::SpanEnd(_) => {
            unreachable!("{op:?} is done by the cursor or above")
        }
    }
}

/// A sample of how late a timer was, or of how old what was read is.
#[inline(never)]
fn record_delay<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, op: Op) -> Option<Step> {
    match op {
        Op::Late { timer, span } => {
            if let Some(begin) = state(sim, task).rare().timers[timer.index()] {
                record(sim, span, begin);
            }
        }
        Op::Age { channel, span } => {
            let begin = sim.exec.objects.written[channel.index()];
            record(sim, span, begin);
        }
        op => unreachable!("{op:?} measures nothing"),
    }
    None
}

/// Operations on shared integers.
#[inline(never)]
fn use_word<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, op: Op) {
    match op {
        Op::Store { word, value } => sim.exec.objects.words[word.index()] = value,
        Op::Advance(word) => {
            let value = &mut sim.exec.objects.words[word.index()];
            *value = value.wrapping_add(1);
        }
        Op::Note(word) => {
            let value = sim.exec.objects.words[word.index()];
            let noted = &mut state(sim, task).rare().noted;
            noted.retain(|entry| entry.0 != word);
            noted.push((word, value));
        }
        Op::RestartIfChanged(word) => {
            let value = sim.exec.objects.words[word.index()];
            let exec = &mut sim.k.tasks.living_mut(task).exec;
            let noted = exec.rare().noted.iter().find(|entry| entry.0 == word).map_or(0, |entry| entry.1);
            if noted != value {
                exec.cursor.restart(&sim.exec.scenario.programs[exec.program.index()]);
            }
        }
        op => unreachable!("{op:?} uses no integer"),
    }
}

/// [`Op::Await`]: continues, or sleeps for another step.
#[inline(never)]
fn look_again<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, op: Op) -> Option<Step> {
    let Op::Await { word, value, .. } = op else { unreachable!("{op:?} does not look again") };
    (sim.exec.objects.words[word.index()] != value).then(|| call::begin(sim, task, op))
}

/// Reads from what the last poll found; nothing without one.
#[inline(never)]
fn receive_ready<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, bytes: u32) -> Option<Step> {
    let rare = state(sim, task).rare();
    let op = match rare.ready? {
        Watched::Channel(channel) => {
            rare.answered = Some(channel);
            Op::Recv { channel, bytes }
        }
        Watched::Semaphore(sem) => Op::SemWait(sem),
    };
    Some(call::begin(sim, task, op))
}

/// Writes to the peer of the connection read from; nothing without one.
#[inline(never)]
fn answer<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, bytes: u32) -> Option<Step> {
    let channel = transfer::connection(sim, task)?;
    Some(call::begin(sim, task, Op::Send { channel, bytes }))
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
#[inline(never)]
fn touch_cost<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, kib: u32) -> DurationNs {
    let cpu = sim.k.ctx().cpu;
    let costs = &sim.k.machine().costs;
    let walk = costs.touch_per_kib * u64::from(kib) + costs.cache_refill_per_kib * u64::from(kib) / 8;
    walk + pages::faults(sim, task, kib) + sim.k.touch_cost(cpu, kib)
}

/// A sample that began at `begin` and ends now.
fn record<S: SchedExt>(sim: &mut Sim<S>, span: SpanId, begin: TimeNs) {
    let end = sim.k.ctx().now;
    sim.exec.spans[span.0 as usize].record(SpanSample { begin, end });
}

/// The timer of a sleeping task, or the completion of its disk request, interrupts a CPU.
pub(crate) fn timeout<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) {
    sim.wake(task, WakeFlags { from_interrupt: true, ..WakeFlags::default() });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_overlap_and_begin_anew() {
        let scenario = schedlab_workload::catalog::build("periodic", 1).expect("a workload of the catalogue");
        let mut exec = Executor::new(scenario, false).start(ProgramId(0), true);
        let (a, b) = (SpanId(0), SpanId(1));
        assert_eq!(exec.end_span(a), None);
        exec.begin_span(a, TimeNs(1));
        exec.begin_span(b, TimeNs(2));
        exec.begin_span(b, TimeNs(3));
        assert_eq!((exec.end_span(a), exec.end_span(a)), (Some(TimeNs(1)), None));
        // The place of the first one is free; the other one is open all the same, once.
        exec.begin_span(b, TimeNs(4));
        assert_eq!((exec.end_span(b), exec.end_span(b)), (Some(TimeNs(4)), None));
    }
}
