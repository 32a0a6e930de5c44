//! A run from configuration and scenario to result.

use crate::Kernel;
use crate::check::Watch;
use crate::event::Event;
use crate::exec::{Executor, UserMemory};
use crate::ipc::Descriptors;
use crate::kernel::CostTotals;
use crate::ops::SchedExt;
use crate::scx::EventCounters;
use crate::sim::Sim;
use crate::task::NewTask;
use crate::trace::SharedSink;
use schedlab_base::{CpuMask, DurationNs, Machine, TaskId, TimeNs};
use schedlab_trace::{ExitRecord, RunHash, Summary, TaskRecord};
use schedlab_workload::{Attribute, End, Measurements, Scenario};
use std::fmt;

/// How to run.
#[derive(Clone)]
pub struct Config {
    /// The machine.
    pub machine: Machine,
    /// The seed of everything random in the run.
    pub seed: u64,
    /// Ends the run after this long, whatever the scenario says.
    pub limit: Option<DurationNs>,
    /// Check the run's invariants while it runs (panics on a broken one).
    pub checkers: bool,
    /// Who else gets the events.
    pub sinks: Vec<SharedSink>,
    /// The sinks get [`schedlab_trace::EventKind::Schedule`] too.
    pub schedule_events: bool,
    /// The sinks get [`schedlab_trace::EventKind::Call`] and [`schedlab_trace::EventKind::Priority`] too.
    pub wait_events: bool,
    /// Changes of tasks from outside (`renice`, `taskset`, `chrt`), in any order.
    pub changes: Vec<Change>,
}

/// A change of a task's attributes at some time, made by somebody outside of the
/// run on CPU 0. Has no effect on a task that does not live then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: TimeNs,
    /// Whose.
    pub task: TaskId,
    /// What.
    pub attribute: Attribute,
}

impl Config {
    /// A run on `machine` with `seed`, without limit, checkers and sinks.
    pub fn new(machine: Machine, seed: u64) -> Config {
        Config {
            machine,
            seed,
            limit: None,
            checkers: false,
            sinks: Vec::new(),
            schedule_events: false,
            wait_events: false,
            changes: Vec::new(),
        }
    }
}

/// Who schedules.
#[derive(Debug)]
pub enum Class<S> {
    /// The kernel's fair class.
    Fair,
    /// A sched_ext scheduler.
    Ext(S),
}

/// What a run gave.
#[derive(Debug)]
pub struct RunResult<S> {
    /// Length of the run.
    pub duration: DurationNs,
    /// How the scheduler left.
    pub exit: ExitRecord,
    /// The workload's counters and spans.
    pub measurements: Measurements,
    /// The common metrics' source.
    pub summary: Summary,
    /// What scheduling cost.
    pub costs: CostTotals,
    /// The tasks of the scenario, then one record `(forked)` when there are others.
    pub tasks: Vec<TaskRecord>,
    /// `SCX_EV_*`.
    pub events: EventCounters,
    /// The hash of the trace.
    pub trace_hash: RunHash,
    /// The scheduler, given back.
    pub scheduler: Option<S>,
}

/// Why a run could not take place or go on. Names the place and the cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimError(pub String);

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SimError {}

/// Runs `scenario` to its end, that of the configuration, or until its last task
/// has ended. A scheduler that is ejected leaves the run to the fair class.
///
/// # Errors
/// A bad machine or scenario, a task whose affinity has no CPU of the machine, or
/// a scenario whose tasks all wait for each other for ever.
pub fn run<S: SchedExt>(
    config: &Config,
    scenario: &Scenario,
    class: Class<S>,
) -> Result<RunResult<S>, SimError> {
    config
        .machine
        .validate()
        .map_err(|error| SimError(format!("machine {}: {error}", config.machine.name)))?;
    scenario.validate().map_err(|error| SimError(error.to_string()))?;
    check_affinities(config, scenario)?;
    let ops = match class {
        Class::Fair => None,
        Class::Ext(ops) => Some(ops),
    };
    let mut sim = Sim { k: Kernel::new(config), ops, exec: Executor::new(scenario), watch: Watch::default() };
    sim.k.user = UserMemory::new(scenario);
    sim.k.descriptors = Descriptors::new(scenario);
    let limit = match scenario.end {
        End::AllExit | End::ForegroundExit => config.limit,
        End::After(span) => Some(config.limit.map_or(span, |limit| limit.min(span))),
    };
    sim.k.limit = limit.map_or(TimeNs::MAX, |span| TimeNs::ZERO + span);
    for (index, change) in config.changes.iter().enumerate() {
        sim.k.queue.push(change.at, Event::Change { index: index as u32 });
    }
    sim.k.changes.clone_from(&config.changes);
    let turns = sim.ops.as_ref().map(SchedExt::user_times).unwrap_or_default();
    for (turn, at) in turns.into_iter().enumerate() {
        sim.k.queue.push(at, Event::User { turn: turn as u32 });
    }
    sim.start();
    let end = sim.run_events()?;
    Ok(sim.finish(end))
}

fn check_affinities(config: &Config, scenario: &Scenario) -> Result<(), SimError> {
    let all = config.machine.all_cpus();
    let bad = scenario.tasks.iter().find(|task| task.affinity.is_some_and(|mask| mask.and(&all).is_empty()));
    match bad {
        Some(task) => Err(SimError(format!(
            "task {}: none of its CPUs {:?} exists on a machine with {} CPUs; widen the affinity or add CPUs",
            task.name,
            task.affinity.unwrap_or(CpuMask::EMPTY),
            config.machine.cpu_count()
        ))),
        None => Ok(()),
    }
}

impl<S: SchedExt> Sim<S> {
    /// Loads the scheduler and starts the scenario's tasks, all at time 0 and
    /// without cost, in order, as forks of the shell on CPU 0.
    fn start(&mut self) {
        self.k.setup = true;
        // Schedulers take a time of 0 for never, and no machine starts work at 0.
        self.k.ctx.now = TimeNs(1);
        self.load();
        let all = self.k.machine.all_cpus();
        for number in 0..self.exec.scenario.tasks.len() {
            let task = &self.exec.scenario.tasks[number];
            let spec = NewTask {
                name: task.name.clone(),
                process: task.process,
                nice: task.nice,
                policy: task.policy,
                cpus_allowed: task.affinity.map_or(all, |mask| mask.and(&all)),
                working_set_kib: task.working_set_kib,
                kernel_thread: task.kernel_thread,
                exec: self.exec.start(task.program, task.background),
            };
            self.fork(None, spec);
        }
        self.k.run_kicks();
        self.k.setup = false;
        self.check_exit();
    }

    fn is_over(&self) -> bool {
        self.k.live_tasks == 0 || self.exec.is_over()
    }

    /// Takes events until the end; returns when that was.
    #[inline(never)]
    fn run_events(&mut self) -> Result<TimeNs, SimError> {
        let limit = self.k.limit;
        while self.k.queue.next_time() < limit
            && let Some((time, event)) = self.k.queue.pop()
        {
            if self.k.is_stuck() && event.is_idle_source() {
                break;
            }
            self.k.event_time = time;
            self.take(time, event);
            if self.k.checker_on {
                self.check_state(time);
            }
            if self.is_over() {
                return Ok(self.k.ctx.now.min(limit));
            }
        }
        if limit < TimeNs::MAX {
            return Ok(limit);
        }
        let stuck: Vec<String> =
            self.k.live_tasks().take(8).map(|task| format!("{}[{}]", task.name(), task.pid)).collect();
        Err(SimError(format!(
            "{}: every task waits for another one at {}: {}{}; the workload never ends",
            self.exec.scenario.name,
            self.k.ctx.now,
            stuck.join(", "),
            if self.k.live_tasks > 8 { ", ..." } else { "" }
        )))
    }

    /// Closes the run at `end`.
    fn finish(mut self, end: TimeNs) -> RunResult<S> {
        let duration = end.since(TimeNs::ZERO);
        self.k.ctx.now = self.k.ctx.now.max(end);
        self.k.trace.summary.finish(end);
        let costs = self.k.totals;
        let mut exit = self.exit_record();
        self.unload();
        if !self.k.scx.regular_end {
            exit = self.exit_record();
        }
        let cpus = self.k.cpus.len();
        let measurements = self.exec.measurements(duration, cpus, self.k.live_tasks());
        RunResult {
            duration,
            exit,
            measurements,
            costs,
            tasks: self.task_records(duration),
            events: self.k.scx.events,
            trace_hash: self.k.trace.hash,
            summary: self.k.trace.summary,
            scheduler: self.ops,
        }
    }

    /// The scenario's tasks in order, and the forked ones together.
    fn task_records(&self, duration: DurationNs) -> Vec<TaskRecord> {
        let summaries = self.k.trace.summary.tasks();
        let share = |time: DurationNs| if duration.0 == 0 { 0.0 } else { time.0 as f64 / duration.0 as f64 };
        let known = &self.exec.scenario.tasks;
        let mut records: Vec<TaskRecord> = known
            .iter()
            .zip(summaries)
            .map(|(spec, task)| TaskRecord {
                name: spec.name.clone(),
                nice: spec.nice.get(),
                cpu_time: task.cpu_time,
                share: share(task.cpu_time),
                switches: task.switches,
                migrations: task.migrations,
            })
            .collect();
        if let Some(forked) = self.k.trace.summary.forked() {
            records.push(TaskRecord {
                name: "(forked)".into(),
                nice: 0,
                cpu_time: forked.cpu_time,
                share: share(forked.cpu_time),
                switches: forked.switches,
                migrations: forked.migrations,
            });
        }
        records
    }
}
