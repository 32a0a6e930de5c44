//! A scenario as real processes and threads.
//!
//! Tasks of one process id are threads of one process, all others are processes of their own. They
//! compute in a loop calibrated on this machine, talk over real pipes, sockets, queues, semaphores,
//! locks and signals, fork and execute. A run starts when all tasks stand at a gate.

mod channels;
mod doing;
mod figures;
mod group_slot;
mod groups;
mod handles;
mod hierarchy;
mod hotplug;
mod identity;
mod leader;
mod locks;
mod queues;
mod resume;
mod shared;
mod spin;
mod system;
mod task;
mod walk;
mod words;

pub(crate) use hotplug::Restored;
pub(crate) use resume::continue_if_asked;
pub use spin::SpinRate;
pub(crate) use system::now_ns;

use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use schedlab_base::{DurationNs, Nice, TimeNs};
use schedlab_trace::CpuPressure;
use schedlab_workload::{GroupSettings, Measurements, Op, Scenario, ScenarioError, SpanSample, Spans};

use crate::ending::Ending;
use doing::Doing;
use hierarchy::Hierarchy;
use shared::{Counts, SPAN_ROOM, Shared, UNKNOWN};

/// How often the caller is asked whether to continue.
pub(crate) const POLL: Duration = Duration::from_millis(100);
/// How often it is asked where it has an alarm, from the leader's start on: a look as the run begins would be part of what
/// is measured. Chosen: too rarely to be seen among the switches of a run.
const RARE_POLL: Duration = Duration::from_secs(1);
/// How often it is looked whether such a run has begun, and whether a run is over after an early end.
const QUICK_POLL: Duration = Duration::from_millis(10);
/// Time for the tasks to be gone after an early end. Chosen: killing thousands takes seconds under
/// emulation.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Why a scenario did not run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The scenario refers to something that it does not have.
    #[error("workload: {0}")]
    Scenario(#[from] ScenarioError),
    /// The scenario asks for something that real processes cannot do.
    #[error("task {task}: {what}")]
    NotPossible {
        /// The task.
        task: String,
        /// What it asks for and what to do.
        what: &'static str,
    },
    /// The groups of the scenario cannot be made here.
    #[error("groups: {0}")]
    Groups(String),
    /// A system call outside of any task failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Something failed in a task.
    #[error("task {task}, {doing}: {source}")]
    Task {
        /// The task's name.
        task: String,
        /// What it was doing.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// More spans than there is room for.
    #[error("the workload measured {found} spans, there is room for {room}; make it shorter")]
    TooManySpans {
        /// Spans that ended.
        found: u64,
        /// Room for them.
        room: u64,
    },
}

/// How to run a scenario.
#[derive(Clone, Debug, Default)]
pub struct ExecOptions {
    /// The machine's speed, if it is known from [`SpinRate::measure`]; measured at the start of the
    /// run without. Runs that are compared should use one.
    pub spin_rate: Option<SpinRate>,
    /// Descriptors of the caller that tasks must not hold open.
    pub close: Vec<RawFd>,
    /// When the caller is asked whether to continue.
    pub looks: Looks,
}

/// When the caller of a run is asked whether to continue: at each look the process that asks takes a CPU from the tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Looks {
    /// Every tenth of a second.
    #[default]
    Often,
    /// As soon as a signal has come or this descriptor, if there is one, can be read, and once a second.
    At(Option<RawFd>),
}

/// Something that watches a run from its leader: called in the leader's process.
pub(crate) trait Window {
    /// The leader with this process id is about to start tasks.
    fn follow(&self, leader: u32);
    /// The run begins at this time of the monotonic clock, ns.
    fn open(&self, begin_ns: u64);
    /// The run is over.
    fn close(&self);
}

/// What one task did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFigures {
    /// The task's name in the scenario; `(forked)` for the sum of all forked ones.
    pub name: String,
    /// The task's nice value at the start.
    pub nice: Nice,
    /// CPU time.
    pub cpu_time: DurationNs,
    /// Times it gave the CPU away by blocking.
    pub voluntary_switches: u64,
    /// Times the CPU was taken from it.
    pub involuntary_switches: u64,
    /// Time it waited for a CPU, where the kernel says.
    pub run_delay: Option<DurationNs>,
    /// Times it changed its CPU, where the kernel says.
    pub migrations: Option<u64>,
    /// The task's thread id while it lived; 0 for forked ones.
    pub thread_id: u32,
}

/// What `cpu.stat` and `cpu.pressure` say that a group has used in the run, with all below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFigures {
    /// CPU time.
    pub cpu_time: DurationNs,
    /// Periods of its quota in which it was active.
    pub periods: u64,
    /// Of them, those at whose end a CPU was throttled.
    pub throttled: u64,
    /// Sum over the CPUs of the time for which they were throttled.
    pub throttled_time: DurationNs,
    /// Periods that used what earlier ones had left.
    pub bursts: u64,
    /// How much of it.
    pub burst_time: DurationNs,
    /// Totals of its `cpu.pressure`; nothing on a kernel that counts none.
    pub pressure: Option<CpuPressure>,
    /// What its files said at the end of the run or of the group; nothing if it was never made.
    pub settings: Option<GroupSettings>,
}

/// What a run has shown.
#[derive(Clone, Debug, Default)]
pub struct ExecOutcome {
    /// Counters, spans, length.
    pub measurements: Measurements,
    /// The tasks in the scenario's order, then the forked ones in sum if there were any.
    pub tasks: Vec<TaskFigures>,
    /// The groups in the scenario's order.
    pub groups: Vec<GroupFigures>,
    /// True when the caller ended it.
    pub stopped_early: bool,
    /// When it began, on the monotonic clock.
    pub begin: TimeNs,
}

/// Runs a scenario. `go_on` is asked as the options say; when it says no, the run ends.
///
/// # Errors
/// See [`ExecError`]; no process of the run is left behind.
pub fn run(
    scenario: &Scenario,
    options: &ExecOptions,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<ExecOutcome, ExecError> {
    Stage::set(scenario)?.run(options, None, &mut |_| go_on())
}

/// A scenario before it runs: what its tasks share and the groups of its start are there, as on a system whose scheduler is loaded
/// later. The groups are gone when this is dropped.
pub(crate) struct Stage<'a> {
    scenario: &'a Scenario,
    groups: Hierarchy,
    shared: Shared,
}

impl<'a> Stage<'a> {
    /// Makes both.
    ///
    /// # Errors
    /// See [`ExecError`].
    pub(crate) fn set(scenario: &'a Scenario) -> Result<Stage<'a>, ExecError> {
        scenario.validate()?;
        check_possible(scenario)?;
        let shared = Shared::new(Counts {
            tasks: scenario.tasks.len(),
            counters: scenario.counters as usize,
            locks: scenario.locks.len(),
            disks: scenario.disks.len(),
            conds: scenario.conds as usize,
            barriers: scenario.barriers.len(),
            words: scenario.words as usize,
            channels: scenario.channels.len(),
            groups: scenario.groups.len(),
        });
        let shared = shared.map_err(|source| ExecError::System { what: "making shared memory", source })?;
        let groups = Hierarchy::make(scenario, &shared)?;
        Ok(Stage { scenario, groups, shared })
    }

    /// What runs on it.
    pub(crate) fn scenario(&self) -> &'a Scenario {
        self.scenario
    }

    /// The directory of a group, by its path from below the root; nothing if the scenario has no such group.
    pub(crate) fn group_place(&self, path: &str) -> Option<PathBuf> {
        let number = self.scenario.groups.iter().position(|group| group.path == path)?;
        self.groups.files.places().nth(number).map(PathBuf::from)
    }

    /// Runs it, seen through a window; `go_on` gets how long the tasks have been running, if they are, and is asked as the options
    /// say. The run ends when it says no.
    ///
    /// # Errors
    /// See [`ExecError`]; no process of the run is left behind.
    pub(crate) fn run(
        &self,
        options: &ExecOptions,
        window: Option<&dyn Window>,
        go_on: &mut dyn FnMut(Option<DurationNs>) -> bool,
    ) -> Result<ExecOutcome, ExecError> {
        let Stage { scenario, groups, shared } = self;
        let system = |what: &'static str| move |source| ExecError::System { what, source };
        // SAFETY: the child only runs the leader, whose code expects to be alone in its process.
        let pid = match unsafe { libc::fork() } {
            -1 => return Err(system("starting the run")(io::Error::last_os_error())),
            0 => system::exit_now(leader::lead(scenario, shared, options, groups, window)),
            pid => pid,
        };
        // It and all tasks are gone before the groups are removed.
        let leader = Leader { pid, shared };
        let stopped_early = leader.follow(options.looks, go_on).map_err(system("waiting for the run"))?;
        outcome(scenario, shared, stopped_early)
    }
}

/// Exec replaces the whole process, so it needs one of its own. Only root makes processes of other users.
fn check_possible(scenario: &Scenario) -> Result<(), ExecError> {
    for task in &scenario.tasks {
        identity::check(task)?;
        let execs = scenario.programs[task.program.index()].ops().contains(&Op::Exec);
        let shares = scenario.tasks.iter().filter(|other| other.process == task.process).count() > 1;
        if execs && shares {
            return Err(ExecError::NotPossible {
                task: task.name.clone(),
                what: "exec would end the other tasks of its process; give it a process of its own",
            });
        }
    }
    Ok(())
}

/// The running leader; it and all tasks are gone when this is dropped.
struct Leader<'a> {
    pid: i32,
    shared: &'a Shared,
}

impl Leader<'_> {
    /// Waits for the leader's end; true when the caller wanted an early one.
    fn follow(mut self, looks: Looks, go_on: &mut dyn FnMut(Option<DurationNs>) -> bool) -> io::Result<bool> {
        let ending = Ending::of(self.pid)?;
        let mut stop_since: Option<Instant> = None;
        while !self.has_ended() {
            let (time, alarm) = match (stop_since, looks) {
                (None, Looks::At(alarm)) => (RARE_POLL, alarm),
                (None, Looks::Often) if self.elapsed().is_some() => (POLL, None),
                _ => (QUICK_POLL, None),
            };
            if ending.within(time, alarm)? {
                continue;
            }
            match stop_since {
                None if !go_on(self.elapsed()) => {
                    self.shared.header().stop.store(1, Release);
                    // SAFETY: our own child, which is not reaped yet.
                    unsafe { libc::kill(self.pid, libc::SIGUSR1) };
                    stop_since = Some(Instant::now());
                }
                Some(since) if since.elapsed() > END_LIMIT => break,
                _ => {}
            }
        }
        Ok(stop_since.is_some())
    }

    /// How long the tasks have been running, if they are.
    fn elapsed(&self) -> Option<DurationNs> {
        let begin = self.shared.header().begin.load(Acquire);
        (begin != 0).then(|| DurationNs(system::now_ns().saturating_sub(begin)))
    }

    fn has_ended(&mut self) -> bool {
        // SAFETY: our own child; the status is not asked for.
        let ended = unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), libc::WNOHANG) };
        if ended != 0 {
            self.pid = 0;
        }
        ended != 0
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let group = self.shared.header().group.load(Acquire).cast_signed();
        // SAFETY: our own child and the process group of its children. The group's number can not
        // have been reused: its anchor is the leader's child, and the leader is not reaped yet.
        unsafe {
            if self.pid > 0 {
                if group > 0 {
                    libc::kill(-group, libc::SIGKILL);
                }
                libc::kill(self.pid, libc::SIGKILL);
                libc::waitpid(self.pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

fn outcome(scenario: &Scenario, shared: &Shared, stopped_early: bool) -> Result<ExecOutcome, ExecError> {
    let header = shared.header();
    if header.failed.load(Acquire) != 0 {
        return Err(failure(scenario, shared));
    }
    let (begin, end) = (header.begin.load(Acquire), header.end.load(Acquire));
    if end == 0 && !stopped_early {
        let source = io::Error::other("the process that leads the run was killed");
        return Err(ExecError::System { what: "running the workload", source });
    }
    let found = header.spans.load(Relaxed);
    if found > SPAN_ROOM {
        return Err(ExecError::TooManySpans { found, room: SPAN_ROOM });
    }
    let measurements = Measurements {
        counters: (0..scenario.counters as usize).map(|c| shared.counter_total(c)).collect(),
        spans: spans(scenario, shared, begin, found),
        elapsed: DurationNs(end.saturating_sub(begin)),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        user: DurationNs(header.user_ns.load(Relaxed)),
        system: DurationNs(header.system_ns.load(Relaxed)),
    };
    let tasks = figures(scenario, shared);
    let groups = (0..scenario.groups.len()).map(|group| shared.group(group).figures()).collect();
    Ok(ExecOutcome { measurements, tasks, groups, stopped_early, begin: TimeNs(begin) })
}

fn failure(scenario: &Scenario, shared: &Shared) -> ExecError {
    let header = shared.header();
    let doing = Doing::from_number(header.doing.load(Relaxed)).unwrap_or(Doing::Crash);
    let source = match header.errno.load(Relaxed) {
        0 if doing == Doing::Crash => io::Error::other("it did not end by itself"),
        0 => io::Error::other("the other end is gone"),
        errno => io::Error::from_raw_os_error(errno.cast_signed()),
    };
    let doing = doing.words();
    let culprit = header.culprit.load(Relaxed) as usize;
    match scenario.tasks.get(culprit) {
        Some(task) => ExecError::Task { task: task.name.clone(), doing, source },
        None if culprit == scenario.tasks.len() => {
            ExecError::Task { task: "(forked)".to_string(), doing, source }
        }
        None => ExecError::System { what: doing, source },
    }
}

fn spans(scenario: &Scenario, shared: &Shared, begin: u64, found: u64) -> Vec<Spans> {
    let mut spans: Vec<Vec<SpanSample>> = vec![Vec::new(); scenario.spans as usize];
    for place in 0..found {
        let sample = shared.sample(place);
        // A task that was stopped in between has claimed its place without filling it.
        let end = sample.end.load(Acquire);
        let kind = sample.span.load(Relaxed).checked_sub(1);
        if let Some(kind) = kind.filter(|_| end != 0)
            && let Some(list) = spans.get_mut(kind as usize)
        {
            let on_run_clock = |time: u64| TimeNs(time.saturating_sub(begin));
            list.push(SpanSample { begin: on_run_clock(sample.begin.load(Relaxed)), end: on_run_clock(end) });
        }
    }
    for list in &mut spans {
        list.sort_by_key(|sample| sample.end);
    }
    let mut kept = scenario.empty_spans();
    for (spans, samples) in kept.iter_mut().zip(spans) {
        samples.into_iter().for_each(|sample| spans.record(sample));
    }
    kept
}

fn figures(scenario: &Scenario, shared: &Shared) -> Vec<TaskFigures> {
    let of_slot = |slot: usize, name: &str, nice: Nice| {
        let slot = shared.slot(slot);
        let known = |value: u64| (value != UNKNOWN).then_some(value);
        TaskFigures {
            name: name.to_string(),
            nice,
            cpu_time: DurationNs(slot.cpu_ns.load(Relaxed)),
            voluntary_switches: slot.voluntary.load(Relaxed),
            involuntary_switches: slot.involuntary.load(Relaxed),
            run_delay: known(slot.delay_ns.load(Relaxed)).map(DurationNs),
            migrations: known(slot.migrations.load(Relaxed)),
            thread_id: slot.tid.load(Relaxed),
        }
    };
    let mut tasks: Vec<TaskFigures> = scenario
        .tasks
        .iter()
        .enumerate()
        .map(|(number, task)| of_slot(number, &task.name, task.nice))
        .collect();
    if shared.header().forked.load(Relaxed) > 0 {
        let mut forked = of_slot(scenario.tasks.len(), "(forked)", Nice::ZERO);
        (forked.run_delay, forked.migrations) = (None, None);
        tasks.push(forked);
    }
    tasks
}
