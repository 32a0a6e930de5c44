//! A run from configuration and scenario to result.

pub(crate) mod engine;
mod groups;
mod interleave;
mod stuck;

use crate::Kernel;
use crate::class::ext::sub::SubOutcome;
use crate::event::Event;
use crate::exec::{self, Executor, UserMemory};
use crate::flags::SCX_OPS_SWITCH_PARTIAL;
use crate::ipc::Descriptors;
use crate::state::charge::CostTotals;
use crate::state::held::Conflict;
use crate::state::kernel::Change;
use crate::state::lane::Core;
use crate::state::ops::SchedExt;
use crate::state::sched::EventCounters;
use crate::state::sim::Sim;
use crate::state::states::SharedStates;
use crate::state::task::FIRST_PID;
use crate::state::trace::SharedSink;
use schedlab_base::{CpuMask, DurationNs, KernelChange, Machine, Presence, Start, StopFlag, TaskId, TimeNs};
use schedlab_trace::waits::Party;
use schedlab_trace::{
    ExitRecord, GroupRecord, IdleBeside, Names, RunHash, Summary, TaskRecord, WaitRecord, Warning,
    WarningKind, WorstWait,
};
use schedlab_workload::{End, Measurements, Scenario};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// How to run.
#[derive(Clone)]
pub struct Config {
    /// The machine.
    pub machine: Machine,
    /// The seed of everything random in the run.
    pub seed: u64,
    /// Ends the run after this long, whatever the scenario says.
    pub limit: Option<DurationNs>,
    /// True if the run continues under the fair class after the scheduler has left, false if it ends then.
    pub outlive_exit: bool,
    /// When the scheduler is attached, before the first task exists without, and taken out: the run continues under the fair
    /// class then, and is one with what was before.
    pub presence: Presence,
    /// Check the run's invariants while it runs (panics on a broken one).
    pub checkers: bool,
    /// What else gets the events.
    pub sinks: Vec<SharedSink>,
    /// The sinks get [`schedlab_trace::EventKind::Schedule`] too.
    pub schedule_events: bool,
    /// The sinks get [`schedlab_trace::EventKind::Call`] and [`schedlab_trace::EventKind::Priority`] too.
    pub wait_events: bool,
    /// Changes of tasks from outside (`renice`, `taskset`, `chrt`), in any order.
    pub changes: Vec<Change>,
    /// Which core the run uses; the results are the same.
    pub core: Core,
    /// Keeps the state after each event, in builds with assertions. Takes time in proportion to the number of tasks for each.
    pub states: Option<SharedStates>,
    /// Ends the run with [`SimError::Stopped`].
    pub stop: StopFlag,
}

impl Config {
    /// A run on `machine` with `seed`, without limit, checkers and sinks.
    pub fn new(machine: Machine, seed: u64) -> Config {
        Config {
            machine,
            seed,
            limit: None,
            outlive_exit: false,
            presence: Presence::default(),
            checkers: false,
            sinks: Vec::new(),
            schedule_events: false,
            wait_events: false,
            changes: Vec::new(),
            core: Core::default(),
            states: None,
            stop: StopFlag::default(),
        }
    }
}

/// The scheduler.
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
    /// What followed after the scheduler had left, where the run continued: everything else is from before.
    pub after: Option<Remainder>,
    /// The common metrics' source.
    pub summary: Summary,
    /// What scheduling cost.
    pub costs: CostTotals,
    /// The tasks of the scenario, then one record `(forked)` when there are others.
    pub tasks: Vec<TaskRecord>,
    /// The groups of the scenario, over the whole run.
    pub groups: Vec<GroupRecord>,
    /// How long tasks waited for a CPU.
    pub waits: Vec<WaitRecord>,
    /// Tasks that starved and CPUs that idled beside waiting tasks.
    pub warnings: Vec<Warning>,
    /// For how long together CPUs idled while tasks waited that they may run, in spans from [`schedlab_trace::IDLE_LOOK`] on.
    pub idle_beside: DurationNs,
    /// `SCX_EV_*`.
    pub events: EventCounters,
    /// Events that were taken in the lane ([`Core::Fast`]).
    pub lane_events: u64,
    /// The sub-schedulers of the run, by number.
    pub subs: Vec<SubOutcome>,
    /// The hash of the trace.
    pub trace_hash: RunHash,
    /// The scheduler, given back.
    pub scheduler: Option<S>,
}

/// The part of a run after its scheduler has left.
#[derive(Debug)]
pub struct Remainder {
    /// How long it took.
    pub duration: DurationNs,
    /// The workload's counters and spans of this part.
    pub measurements: Measurements,
    /// The common metrics' source.
    pub summary: Summary,
    /// The tasks in this part.
    pub tasks: Vec<TaskRecord>,
}

/// The part of a run up to the exit of its scheduler.
#[derive(Debug)]
struct Before {
    end: TimeNs,
    summary: Summary,
    measurements: Measurements,
    costs: CostTotals,
    idle_beside: DurationNs,
}

/// Why a run could not take place or continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimError {
    /// The run is refused, or cannot continue. The text names the place and the cure.
    Refused(String),
    /// [`Config::stop`] was raised when the run had reached this time.
    Stopped(TimeNs),
    /// A path of another CPU needed what a paused callback held.
    Conflict {
        /// When.
        at: TimeNs,
        /// The number of the pause.
        pause: usize,
    },
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Refused(text) => f.write_str(text),
            SimError::Stopped(at) => write!(f, "stopped at {at} of simulated time"),
            SimError::Conflict { at, .. } => {
                write!(f, "at {at} a path needs a lock that the paused callback holds")
            }
        }
    }
}

impl std::error::Error for SimError {}

/// Runs `scenario` to its end, that of the configuration, or until its last task
/// has ended. It ends when the scheduler leaves, unless it is to outlive that ([`Config::outlive_exit`]); then the fair
/// class takes over.
///
/// # Errors
/// A bad machine or scenario, a task whose affinity has no CPU of the machine. A scenario whose tasks all wait for
/// each other indefinitely, and a run that was stopped.
pub fn run<S: SchedExt>(
    config: &Config,
    scenario: &Scenario,
    class: Class<S>,
) -> Result<RunResult<S>, SimError> {
    catch_unwind(AssertUnwindSafe(|| whole(config, scenario, class))).unwrap_or_else(|payload| match payload
        .downcast_ref::<Conflict>(
    ) {
        Some(&Conflict { at, pause }) => Err(SimError::Conflict { at, pause }),
        None => resume_unwind(payload),
    })
}

/// Puts down what comes at a time that is known: changes, turns of the user space, schedulers that come and go.
fn look_ahead<S: SchedExt>(sim: &mut Sim<S>, config: &Config) {
    let origin = sim.k.origin;
    let later = |at: TimeNs| origin + at.since(TimeNs::ZERO);
    for (index, change) in config.changes.iter().enumerate() {
        sim.k.queue.push(later(change.at), Event::Change { index: index as u32 });
    }
    sim.k.changes.clone_from(&config.changes);
    let turns = sim.ops.as_ref().map(SchedExt::user_times).unwrap_or_default();
    for (turn, at) in turns.into_iter().enumerate() {
        sim.k.queue.push(later(at), Event::User { turn: turn as u32 });
    }
    let is_ext = sim.ops.is_some();
    for (at, event) in [(config.presence.attach, Event::Attach), (config.presence.detach, Event::Detach)] {
        if let Some(at) = at.filter(|_| is_ext) {
            sim.k.queue.push(origin + at, event);
        }
    }
    for (number, wish) in sim.ops.iter().flat_map(|ops| ops.subs()).enumerate() {
        sim.k.queue.push(origin + wish.at, Event::AttachSub { number: number as u32 });
    }
}

/// The run, unless a pause cannot take place.
fn whole<S: SchedExt>(
    config: &Config,
    scenario: &Scenario,
    class: Class<S>,
) -> Result<RunResult<S>, SimError> {
    let machine = &config.machine;
    machine.validate().map_err(|error| SimError::Refused(format!("machine {}: {error}", machine.name)))?;
    scenario.validate().map_err(|error| SimError::Refused(error.to_string()))?;
    groups::check_queues(config, scenario)?;
    check_affinities(config, scenario)?;
    check_hotplug(config, scenario)?;
    match &class {
        Class::Ext(ops) => check_version(config, &ops.info().name)?,
        Class::Fair => check_groups(config, scenario)?,
    }
    let ops = if let Class::Ext(ops) = class { Some(ops) } else { None };
    let own = scenario.tasks.len() as u32;
    let gated = config.machine.kernel.start == Start::Gate;
    let surrounded = scenario.surrounded(&config.machine, config.seed);
    let user_space = ops.as_ref().and_then(SchedExt::user_space);
    let scenario = match &user_space {
        Some(task) => surrounded.with_user_space(&task.name, task.policy, *task.affinity),
        None => surrounded,
    };
    let exec = Executor::new(scenario, user_space.is_some());
    let mut sim = Sim::new(Kernel::new(config), ops, exec, config);
    if let Some(ops) = &sim.ops {
        sim.k.uptime = ops.uptime();
    }
    sim.k.scx.user_space = sim.exec.user_space().map(|number| TaskId(number as u32));
    let scenario = &sim.exec.scenario;
    sim.k.set_foreign(own..scenario.tasks.len() as u32);
    sim.k.user = UserMemory::new(scenario);
    sim.k.descriptors = Descriptors::new(scenario);
    groups::make(&mut sim.k, scenario);
    let limit = match scenario.end {
        End::AllExit | End::ForegroundExit => config.limit,
        End::After(span) => Some(config.limit.map_or(span, |limit| limit.min(span))),
    };
    sim.start(own, gated.then_some(config.seed), config.presence.attach.is_none());
    if gated {
        sim.gather(config.outlive_exit)?;
    }
    let origin = sim.k.origin;
    sim.k.limit = limit.map_or(TimeNs::MAX, |span| origin + span);
    look_ahead(&mut sim, config);
    let mut before = None;
    let mut end = sim.run_events(true)?;
    if sim.k.scx.detached && !sim.ended(end) {
        end = sim.run_events(false)?;
    } else if config.outlive_exit && sim.k.sched.exit.is_some() && !sim.ended(end) {
        before = Some(sim.split(end));
        end = sim.run_events(false)?;
    }
    let result = sim.finish(before, end);
    // Callbacks of the end may have been left out.
    if config.stop.is_raised() { Err(SimError::Stopped(end)) } else { Ok(result) }
}

/// A kernel that has no sched_ext loads no scheduler.
fn check_version(config: &Config, name: &str) -> Result<(), SimError> {
    let version = config.machine.kernel.version;
    let since = KernelChange::ALL.iter().find(|(change, ..)| *change == KernelChange::SchedExt);
    match since {
        Some((_, since, _)) if version < *since => Err(SimError::Refused(format!(
            "{name}: Linux {version} has no sched_ext, which came with {since}; take a newer kernel, or -s eevdf"
        ))),
        _ => Ok(()),
    }
}

/// Groups of the fair class are those of one version and later ones.
fn check_groups(config: &Config, scenario: &Scenario) -> Result<(), SimError> {
    let version = config.machine.kernel.version;
    if scenario.groups.is_empty() || version.has(KernelChange::FlatGroups) {
        return Ok(());
    }
    Err(SimError::Refused(format!(
        "{}: the fair class of Linux {version} picks group by group, which is not modelled; take a kernel from 7.3 on, or a scheduler of sched_ext",
        scenario.name
    )))
}

fn check_hotplug(config: &Config, scenario: &Scenario) -> Result<(), SimError> {
    let count = config.machine.cpu_count();
    match scenario.hotplugged().into_iter().find(|cpu| cpu.index() >= count) {
        None => Ok(()),
        Some(cpu) => Err(SimError::Refused(format!(
            "a program takes CPU {} on or off, which does not exist on a machine with {count} CPUs; name another or add CPUs",
            cpu.0
        ))),
    }
}

fn check_affinities(config: &Config, scenario: &Scenario) -> Result<(), SimError> {
    let (all, count) = (config.machine.all_cpus(), config.machine.cpu_count());
    let without = |cpus: &CpuMask| cpus.and(&all).is_empty();
    scenario.check_group_cpus(&all).map_err(SimError::Refused)?;
    let bad = scenario.tasks.iter().find(|task| task.affinity.as_deref().is_some_and(without));
    match bad {
        Some(task) => Err(SimError::Refused(format!(
            "task {}: none of its CPUs {:?} exists on a machine with {count} CPUs; widen the affinity or add CPUs",
            task.name,
            task.affinity.as_deref().unwrap_or(&CpuMask::EMPTY)
        ))),
        None => Ok(()),
    }
}

impl<S: SchedExt> Sim<S> {
    /// Loads the scheduler if it is to come first, and starts the scenario's tasks, of which the first `own` are the workload's, as forks of the
    /// shell on CPU 0. All start at time 0 and without cost, in order, or by way of a gate.
    fn start(&mut self, own: u32, gate_seed: Option<u64>, load: bool) {
        self.k.set_setup(true);
        // Schedulers take a time of 0 for never, and no machine starts work at 0.
        self.k.ctx.now = TimeNs(1);
        if load {
            self.load();
            exec::settle(self);
        }
        let parents = self.exec.scenario.parents();
        for number in 0..if gate_seed.is_some() { 0 } else { self.exec.scenario.tasks.len() } {
            if self.k.stop.is_raised() {
                break;
            }
            let spec = self.spec_of(number);
            let child = self.fork(parents.get(&number).map(|parent| TaskId(*parent as u32)), spec);
            self.count_child(child);
        }
        if let Some(seed) = gate_seed {
            exec::prepare(self, own, seed);
        }
        self.k.run_kicks();
        self.k.set_setup(false);
        self.check_exit();
    }

    /// Takes events until all tasks stand at the gate and it opens; an exit of the scheduler opens it too, unless the run
    /// is to outlive that.
    fn gather(&mut self, outlive_exit: bool) -> Result<(), SimError> {
        while self.exec.gate.is_some()
            && (outlive_exit || self.k.sched.exit.is_none())
            && let Some((time, event)) = self.k.queue.pop()
        {
            self.take_checked(time, event)?;
        }
        if self.exec.gate.is_some() {
            exec::open(self);
        }
        Ok(())
    }

    /// Takes an event, looks at the state where that is wanted, and whether the run is to stop.
    #[inline]
    fn take_checked(&mut self, time: TimeNs, event: Event) -> Result<(), SimError> {
        self.k.event_time = time;
        self.take_in_general(time, event);
        self.check_broken_off(time)
    }

    fn is_over(&self) -> bool {
        !self.k.silent && (self.k.live_tasks == 0 || self.exec.is_over())
    }

    /// True if the run is over at `end` for another reason than the scheduler's exit.
    fn ended(&self, end: TimeNs) -> bool {
        self.is_over() || end >= self.k.limit
    }

    /// Closes the part of the run up to now, `end`; what follows is measured from zero.
    fn split(&mut self, end: TimeNs) -> Before {
        let end = self.k.in_run(end);
        let next = self.k.trace.summary.restart(end);
        self.k.look_at_the_end(end);
        let mut summary = std::mem::replace(&mut self.k.trace.summary, next);
        summary.finish(end);
        let (cpus, duration) = (self.k.cpus.len(), end.since(TimeNs::ZERO));
        let measurements = self.exec.measurements(duration, cpus, self.k.live_tasks());
        self.exec.restart();
        let idle_beside = self.k.idle_beside.sum;
        Before { end, summary, measurements, costs: self.k.totals, idle_beside }
    }

    /// Takes events until the end, or the exit of the scheduler; returns when that was.
    #[inline(never)]
    fn run_events(&mut self, until_exit: bool) -> Result<TimeNs, SimError> {
        let limit = self.k.limit;
        if until_exit && self.k.sched.exit.is_some() {
            return Ok(self.k.ctx.now.min(limit));
        }
        let mut look = if limit == TimeNs::MAX { self.k.ctx.now + stuck::FIRST_LOOK } else { limit };
        'events: loop {
            loop {
                if self.run_lane(look) {
                    self.check_broken_off(self.k.event_time)?;
                    if self.is_done(until_exit) {
                        return Ok(self.k.ctx.now.min(limit));
                    }
                }
                if self.k.queue.next_time() >= look {
                    break;
                }
                let Some((time, event)) = self.k.queue.pop() else { break };
                if self.k.is_stuck() && self.k.is_idle_source(event) {
                    break 'events;
                }
                self.take_checked(time, event)?;
                if self.is_done(until_exit) {
                    return Ok(self.k.ctx.now.min(limit));
                }
            }
            if look == limit || self.k.queue.next_time() == limit {
                break;
            }
            if !self.k.is_stuck() {
                self.can_end()?;
            }
            if look >= stuck::LAST_LOOK {
                return Err(self.beyond_time());
            }
            look = TimeNs(look.0.saturating_mul(2));
        }
        if self.k.stop.is_raised() {
            // Not even the start was completed.
            return Err(SimError::Stopped(self.k.event_time));
        }
        let stuck = self.stuck();
        if limit < TimeNs::MAX {
            self.exec.stuck = stuck;
            return Ok(limit);
        }
        let stuck = stuck.unwrap_or_default();
        Err(SimError::Refused(format!("{}: {stuck}; the workload never ends", self.exec.scenario.name)))
    }

    /// Closes the run at `end`; `before` is the part up to the scheduler's exit of a run that has outlived it.
    fn finish(mut self, before: Option<Before>, end: TimeNs) -> RunResult<S> {
        self.k.ctx.now = self.k.ctx.now.max(end);
        let end = self.k.in_run(end);
        if before.is_none() {
            self.k.look_at_the_end(end);
        }
        self.k.trace.summary.finish(end);
        let mut exit = self.exit_record();
        let costs = before.as_ref().map_or(self.k.totals, |before| before.costs);
        let idle_beside = before.as_ref().map_or(self.k.idle_beside.sum, |before| before.idle_beside);
        self.unload();
        let subs = self.sub_outcomes();
        if !self.k.scx.regular_end {
            exit = self.exit_record();
        }
        let cpus = self.k.cpus.len();
        let begin = before.as_ref().map_or(TimeNs::ZERO, |before| before.end);
        let rest = self.exec.measurements(end.since(begin), cpus, self.k.live_tasks());
        let last = std::mem::replace(&mut self.k.trace.summary, Summary::new(0));
        let (end, summary, measurements, after) = match before {
            None => (end, last, rest, None),
            Some(Before { end: split, summary, measurements, .. }) => {
                let duration = end.since(split);
                // CPU time is counted over the whole run.
                let (user, system) = (rest.user - measurements.user, rest.system - measurements.system);
                let rest = Measurements { user, system, ..rest };
                let tasks = self.task_records(&last, duration);
                (
                    split,
                    summary,
                    measurements,
                    Some(Remainder { duration, measurements: rest, summary: last, tasks }),
                )
            }
        };
        let duration = end.since(TimeNs::ZERO);
        let tasks = self.task_records(&summary, duration);
        let groups = self.group_records(&summary, duration);
        let (waits, warnings) = self.wait_records(&summary, &tasks, duration);
        RunResult {
            duration,
            exit,
            measurements,
            after,
            costs,
            tasks,
            groups,
            waits,
            warnings,
            idle_beside,
            events: self.k.sched.events,
            subs,
            lane_events: self.lane.events,
            trace_hash: self.k.trace.hash,
            summary,
            scheduler: self.ops,
        }
    }

    /// How long the tasks waited, and what is conspicuous about it.
    fn wait_records(
        &self,
        summary: &Summary,
        tasks: &[TaskRecord],
        duration: DurationNs,
    ) -> (Vec<WaitRecord>, Vec<Warning>) {
        let mut leaders = BTreeMap::new();
        let known = self.exec.scenario.tasks.iter().enumerate();
        let parties: Vec<Party> = known
            .map(|(number, task)| {
                let thread = FIRST_PID + number as i32;
                let process = *leaders.entry(task.process).or_insert(thread);
                Party { name: task.name.clone(), thread, process, prio: task.nice.static_prio() }
            })
            .collect();
        let names = Names { parties: &parties, first_pid: FIRST_PID };
        let mut waits = names.records(summary.waits(), summary.forked_waits());
        names.add_cgroups(&mut waits, &self.homes(), summary.waits(), summary.forked_waits());
        let mut warnings = self.k.bounds.starvation(tasks, &waits, duration);
        self.lead_to_queues(&mut warnings, &names, duration);
        warnings.extend(self.nothing_to_schedule());
        warnings.extend(self.unheard_groups());
        warnings.extend(self.stuck_warning());
        warnings.extend(self.k.idle_beside.worst.and_then(|worst| {
            let task = names
                .of(worst.task, self.k.get_task(worst.task).and_then(|t| t.parent).unwrap_or(worst.task));
            let (since, length) = (worst.since.since(TimeNs::ZERO), worst.length);
            let worst = WorstWait { task, since, length, cpu: worst.cpu.0, behind: Vec::new() };
            let (count, sum) = (self.k.idle_beside.count, self.k.idle_beside.sum);
            let machine = DurationNs(duration.0.saturating_mul(self.k.cpus.len() as u64));
            self.k.bounds.idle_beside(IdleBeside { count, worst, sum, machine })
        }));
        (waits, warnings)
    }

    /// The warning that a scheduler that does not take all tasks had none.
    fn nothing_to_schedule(&self) -> Option<Warning> {
        let text = "the scheduler takes tasks of the policy ext alone (SCX_OPS_SWITCH_PARTIAL), and no task had it: all \
                    ran under the fair class; give tasks policy = \"ext\" in a workload file";
        let none = self.k.sched.flags & SCX_OPS_SWITCH_PARTIAL != 0 && !self.k.scx.had_tasks;
        let kind = WarningKind::NothingToSchedule;
        none.then(|| Warning { kind, text: text.to_string(), count: 1, worst: None })
    }

    /// The scenario's tasks in order, and the forked ones together.
    fn task_records(&self, summary: &Summary, duration: DurationNs) -> Vec<TaskRecord> {
        let summaries = summary.tasks();
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
        if let Some(forked) = summary.forked() {
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
