//! One simulated run: from a description of the run to its record.

use crate::failure::{Code, Failure};
use crate::run::trust::{left_out, loader_refused, program_returned, provenance, unconfigured};
use crate::run::validated::validation;
use crate::scheduler::Scheduler;
use crate::scheduler::own_loader;
use crate::scheduler::spares::Place;
use crate::scheduler::subs;
use crate::scheduler::swap_table::{self, SwapTable};
use crate::workload::{self, parties};
use schedlab_base::{Better, DurationNs, Goal, Machine, Metric, StopFlag, TaskId, TimeNs, counted};
use schedlab_base::{KernelChange, did_you_mean};
use schedlab_bpf::Compiler;
use schedlab_bpf::memory::DEFAULT_GUEST_MEMORY;
use schedlab_report::{Document, ExtraTables, judge_goals};
use schedlab_reproduction::Sampling;
use schedlab_scx::{
    Access, BpfScheduler, Call, EngineChoice, Interleave, LoadErrorKind, LoadOptions, Message, Pause, run,
};
use schedlab_sim::{Class, Config, Core, FIRST_PID, Remainder, RunResult, SharedSink, SimError};
use schedlab_trace::waits::Explainer;
use schedlab_trace::{
    Backend, CallbackCost, Printed, PrintedLine, RunRecord, SchedulerTable, Series, TimelineSink, Window,
    WorkloadRecord,
};
use schedlab_workload::Scenario;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

/// What happens when a scheduler is ejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterEjection {
    /// The run ends.
    #[default]
    Stop,
    /// The kernel's own class takes over; figures from before and after stand apart.
    Continue,
}

/// What looks on while a run takes place; nothing of it changes the run.
#[derive(Default)]
pub struct Watch {
    /// What gets the events.
    pub sinks: Vec<SharedSink>,
    /// Every pass through `schedule()` is an event.
    pub schedule_events: bool,
    /// The scheduler's counter that marks such a pass.
    pub mark: Option<String>,
    /// The priorities of tasks go into the record, if the scheduler shows them.
    pub priorities: bool,
    /// The waits of tasks for each other go into the record.
    pub waits: bool,
    /// Which task runs where in this part of the run goes into the record.
    pub timeline: Option<Window>,
    /// The scheduler's maps, and its integers that have changed, go into the record.
    pub contents: bool,
    /// Each cache line that moved, and each place of the source that made lines move, goes into the record.
    pub lines: bool,
    /// The ways of the scheduler's callbacks through their programs are followed.
    pub paths: bool,
    /// Ends the run without a result.
    pub stop: StopFlag,
}

impl Watch {
    /// Wants everything that a view of a record may be made of.
    pub fn for_record(&mut self) {
        self.schedule_events = true;
        (self.priorities, self.waits, self.contents, self.lines) = (true, true, true, true);
    }

    /// Has a scheduler keep what is wanted of it.
    fn prepare(&self, scheduler: &mut BpfScheduler) {
        if self.priorities {
            scheduler.watch_priorities();
        }
        if self.contents {
            scheduler.remember_globals();
        }
        if self.paths {
            scheduler.follow_paths();
        }
    }
}

/// A run that was watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Its record, with everything that was wanted.
    pub record: RunRecord,
    /// Which of its tables are extras.
    pub extra_tables: ExtraTables,
    /// The ways of the callbacks, where they were followed.
    pub paths: Vec<u64>,
    /// The last calls of callbacks, where their ways were followed.
    pub last_calls: Vec<Call>,
    /// Events that were taken in the lane ([`Core::Fast`]).
    pub lane_events: u64,
}

/// What is kept of a run besides its figures, which do not depend on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    /// The waits of tasks for each other go into the record.
    pub waits: bool,
    /// Which task runs where in this part of the run goes into the record.
    pub timeline: Option<Window>,
    /// Where a trace of the run is written.
    pub perfetto: Option<PathBuf>,
}

impl From<schedlab_scx::LoadError> for Failure {
    /// What the host lacks is the environment's fault, the rest is the object's or the setting's.
    fn from(error: schedlab_scx::LoadError) -> Failure {
        let code = if error.kind == LoadErrorKind::Host { Code::Environment } else { Code::Usage };
        Failure { code, text: error.to_string() }
    }
}

/// Everything that determines a simulated run.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The workload as the user named it.
    pub workload: String,
    /// The machine with its final number of CPUs.
    pub machine: Machine,
    /// The seed.
    pub seed: u64,
    /// `--duration`.
    pub limit: Option<DurationNs>,
    /// `--checkers`.
    pub checkers: bool,
    /// `--engine`; results do not depend on it.
    pub engine: EngineChoice,
    /// Which core of the simulator it uses; results do not depend on it.
    pub core: Core,
    /// `--guest-memory`: the most bytes that an object may take.
    pub guest_memory: u64,
    /// `--after-ejection`.
    pub after_ejection: AfterEjection,
    /// Figures of samples of `schedule()` are metrics of the record.
    pub sampling: Option<Sampling>,
    /// Where callbacks are paused in the middle, so that other CPUs continue meanwhile ([`crate::run::interleave`]).
    pub pauses: Option<Vec<Pause>>,
    /// `--explain-waits`, `--timeline` and `--perfetto` of a comparison.
    pub extras: Extras,
}

impl Simulation {
    /// A run with seed 1 to the workload's own end, with nothing kept but the record.
    pub fn new(scheduler: Scheduler, workload: impl Into<String>, machine: Machine) -> Simulation {
        Simulation {
            scheduler,
            workload: workload.into(),
            machine,
            seed: 1,
            limit: None,
            checkers: false,
            engine: EngineChoice::Patient,
            core: Core::default(),
            guest_memory: DEFAULT_GUEST_MEMORY,
            after_ejection: AfterEjection::Stop,
            sampling: None,
            pauses: None,
            extras: Extras::default(),
        }
    }

    /// Builds the scenario.
    pub fn scenario(&self) -> Result<Scenario, Failure> {
        workload::scenario_on(&self.workload, self.seed, self.limit, Some(self.machine.cpu_count() as u32))
    }

    /// What it is, for messages.
    pub fn describe(&self) -> String {
        let scheduler = self.scheduler.label();
        let (workload, machine) = (&self.workload, &self.machine);
        let (cpus, seed) = (counted(machine.cpu_count(), "CPU"), self.seed);
        format!("run of {scheduler} under {workload} on {} with {cpus}, seed {seed}", machine.name)
    }

    /// The scheduler, ready to run, with the counter that marks passes, and where it goes afterwards.
    fn class(&self, mark: Option<&str>) -> Result<(Class<BpfScheduler>, Option<Place>), Failure> {
        let named = |error: String| {
            Failure::usage(format!("--sched-mark: scheduler {}: {error}", self.scheduler.name))
        };
        match (self.ready()?, mark) {
            ((Class::Ext(mut scheduler), place), Some(mark)) => {
                scheduler.mark_by(mark).map_err(|error| {
                    let counters = scheduler.counters().into_iter().map(|(name, _)| name);
                    named(error + &did_you_mean(mark, counters))
                })?;
                Ok((Class::Ext(scheduler), place))
            }
            ((Class::Fair, _), Some(_)) => Err(named("it has no counters".into())),
            (ready, None) => Ok(ready),
        }
    }

    /// The scheduler as for a run, perhaps one of a run that is over.
    fn ready(&self) -> Result<(Class<BpfScheduler>, Option<Place>), Failure> {
        let interleave = self.pauses.clone().map(Interleave::Pause);
        match (self.scheduler.parsed(), &self.scheduler.object) {
            (Some(Ok(object)), Some(bytes)) if interleave.is_none() && self.scheduler.loader.is_none() => {
                let (spares, options) = (&self.scheduler.spares, self.load_options(None));
                let load = || self.load(bytes, None);
                let (scheduler, place) = spares.ready(&object, &options, &self.machine, load)?;
                Ok((Class::Ext(scheduler), place))
            }
            _ => Ok((self.loaded(interleave)?, None)),
        }
    }

    fn load_options(&self, interleave: Option<Interleave>) -> LoadOptions {
        let (engine, guest_memory) = (self.engine, self.guest_memory);
        LoadOptions { engine, guest_memory, interleave, ..self.scheduler.load_options() }
    }

    /// Refuses a machine with more CPUs than the object says that it is made for.
    fn fits(&self) -> Result<(), Failure> {
        let (limit, cpus) = (self.scheduler.most_cpus(), self.machine.cpu_count());
        match limit.filter(|limit| *limit < cpus) {
            None => Ok(()),
            Some(limit) => Err(Failure::usage(format!(
                "scheduler {} is made for at most {limit} CPUs, and {} has {cpus}; -c {limit} is the most",
                self.scheduler.name, self.machine.name
            ))),
        }
    }

    /// The scheduler, ready to run.
    ///
    /// # Errors
    /// An object or setting that is refused.
    pub(crate) fn loaded(&self, interleave: Option<Interleave>) -> Result<Class<BpfScheduler>, Failure> {
        match &self.scheduler.object {
            Some(object) => self.load(object, interleave).map(Class::Ext),
            None => Ok(Class::Fair),
        }
    }

    pub(crate) fn load(
        &self,
        object: &[u8],
        interleave: Option<Interleave>,
    ) -> Result<BpfScheduler, Failure> {
        self.fits()?;
        let options = self.load_options(interleave);
        if let Some(command) = &self.scheduler.loader {
            let stays = true;
            if let Some(sub) = self.scheduler.subs.first() {
                let text = format!(
                    "--sub {}: a loader's scheduler takes none here; give the object itself",
                    sub.group
                );
                return Err(Failure::usage(text));
            }
            return own_loader::load(command, object, &options, &self.machine, self.seed, stays)
                .map(|(scheduler, _)| scheduler);
        }
        let name = &self.scheduler.name;
        let loaded = match self.scheduler.parsed() {
            // With the scheduler that was chosen, which alone is left.
            Some(Ok(object)) => BpfScheduler::of((*object).clone(), name, &options, &self.machine),
            _ => BpfScheduler::load(name, object, &options, &self.machine),
        };
        let mut loaded =
            loaded.map_err(|error| Failure { text: format!("scheduler {error}"), ..error.into() })?;
        self.add_subs(&mut loaded)?;
        Ok(loaded)
    }

    /// Adds the sub-schedulers to a root scheduler that is loaded.
    ///
    /// # Errors
    /// A kernel that has none, a group that the workload lacks, and objects that are refused.
    fn add_subs(&self, root: &mut BpfScheduler) -> Result<(), Failure> {
        let version = self.machine.kernel.version;
        if let Some(sub) = self.scheduler.subs.first().filter(|_| !version.has(KernelChange::SubSchedulers)) {
            return Err(Failure::usage(format!(
                "--sub {}: Linux {version} has no sub-schedulers; --kernel 7.3 has",
                sub.group
            )));
        }
        for sub in &self.scheduler.subs {
            let named = |text: String| Failure::usage(format!("--sub {}: {text}", sub.group));
            let alone = Simulation { scheduler: sub.scheduler.clone(), ..self.clone() };
            let Some(object) = &sub.scheduler.object else { continue };
            let child = alone.load(object, None)?;
            root.add_sub(&sub.group, sub.at, child).map_err(|error| named(error.to_string()))?;
        }
        Ok(())
    }

    /// Runs a scenario with observers.
    ///
    /// # Errors
    /// An object or setting that is refused, and a run that was stopped.
    pub fn run_watched(&self, scenario: &Scenario, watch: Watch) -> Result<Watched, Failure> {
        let mut config = self.config();
        config.sinks.clone_from(&watch.sinks);
        config.schedule_events = watch.schedule_events;
        config.stop = watch.stop.clone();
        let explainer = watch
            .waits
            .then(|| Rc::new(RefCell::new(Explainer::new(parties(scenario, &self.machine), FIRST_PID))));
        if let Some(explainer) = &explainer {
            config.sinks.push(explainer.clone());
            config.wait_events = true;
        }
        let timeline = watch.timeline.map(|window| Rc::new(RefCell::new(TimelineSink::new(window))));
        if let Some(timeline) = &timeline {
            config.sinks.push(timeline.clone());
        }
        let (mut class, place) = self.class(watch.mark.as_deref())?;
        if let Class::Ext(scheduler) = &mut class {
            watch.prepare(scheduler);
        }
        let mut result = run(&config, scenario, class).map_err(|error| self.unfinished(error))?;
        drop(config);
        let scheduler = result.scheduler.take();
        let followed = scheduler.as_ref();
        let confidences = followed.filter(|_| explainer.is_some()).and_then(|loaded| {
            let (name, object) = (&self.scheduler.name, self.scheduler.object.as_deref());
            let table = SwapTable::find(name, object, |name| loaded.variable(name).ok())?;
            Some(table.confidences(&|pointer, len| loaded.arena_bytes(pointer, len)))
        });
        let loaded = followed.filter(|_| watch.contents);
        let contents = loaded.map(|loaded| loaded.changed_globals().into_iter().chain(loaded.map_contents()));
        let contents: Vec<SchedulerTable> = contents.into_iter().flatten().collect();
        let (switches, lane_events) = (result.costs.switches, result.lane_events);
        let by_symbol = followed.and_then(|loaded| loaded.lines_by_symbol(switches));
        let paths = followed.map(BpfScheduler::paths).unwrap_or_default();
        let last_calls = followed.map(BpfScheduler::last_calls).unwrap_or_default();
        let by_line = followed.filter(|_| watch.lines).map(|loaded| loaded.line_profile(switches));
        let by_line = by_line.unwrap_or_default();
        let mut record = self.record(scenario, result, followed);
        if let Some((place, scheduler)) = place.zip(scheduler) {
            place.give_back(scheduler);
        }
        let tables = &mut record.tables;
        let first = tables.len();
        tables.extend(contents);
        let contents = first..tables.len();
        tables.extend(by_symbol);
        let first = tables.len();
        tables.extend(by_line);
        let extra_tables = ExtraTables { contents, lines: first..tables.len() };
        let explainer = explainer.and_then(Rc::into_inner).map(RefCell::into_inner);
        record.waits = explainer.map(|explainer| explainer.finish(record.duration));
        if let (Some(waits), Some(confidences)) = (&mut record.waits, &confidences) {
            swap_table::apply(waits, confidences);
        }
        let timeline = timeline.and_then(Rc::into_inner).map(RefCell::into_inner);
        record.timeline = timeline.map(|timeline| timeline.finish(TimeNs::ZERO + record.duration));
        Ok(Watched { record, extra_tables, paths, last_calls, lane_events })
    }

    /// What determines the run, without observers.
    fn config(&self) -> Config {
        let mut config = Config::new(self.machine.clone(), self.seed);
        config.limit = self.limit;
        config.checkers = self.checkers;
        config.core = self.core;
        config.outlive_exit = self.after_ejection == AfterEjection::Continue;
        config.presence = self.scheduler.presence;
        config
    }

    /// Runs it for its pauses alone: how many calls could be paused and what those that are watched access; or the number of the
    /// pause that cannot take place.
    ///
    /// # Errors
    /// As of [`Simulation::run_watched`].
    pub(crate) fn try_interleave(
        &self,
        scenario: &Scenario,
        interleave: Interleave,
        stop: StopFlag,
    ) -> Result<Result<(u64, Vec<Access>), usize>, Failure> {
        let config = Config { stop, checkers: false, ..self.config() };
        match run(&config, scenario, self.loaded(Some(interleave))?) {
            Ok(result) => {
                let calls = result.scheduler.as_ref().map(BpfScheduler::calls_to_pause);
                Ok(Ok(calls.map_or_else(Default::default, |(calls, all)| (calls, all.to_vec()))))
            }
            Err(SimError::Conflict { pause, .. }) => Ok(Err(pause)),
            Err(error) => Err(self.unfinished(error)),
        }
    }

    /// The failure of a run that did not come to its end.
    fn unfinished(&self, error: SimError) -> Failure {
        match error {
            SimError::Refused(text) => Failure::usage(format!("workload {}: {text}", self.workload)),
            SimError::Stopped(at) => {
                let seconds = at.0 as f64 / 1e9;
                Failure::stopped(&self.describe(), &format!("at {seconds:.3} s of simulated time"))
            }
            conflict @ SimError::Conflict { .. } => {
                Failure::usage(format!("{}: these pauses do not fit the run: {conflict}", self.describe()))
            }
        }
    }

    /// What the scheduler printed, with the workload's names of tasks.
    fn printed(&self, scenario: &Scenario, loaded: &BpfScheduler) -> Printed {
        let scenario = scenario.surrounded(&self.machine, self.seed);
        let (lines, count) = loaded.messages();
        let name = |(task, comm): &(TaskId, [u8; 16])| match scenario.tasks.get(task.index()) {
            Some(task) => task.name.clone(),
            None => {
                String::from_utf8_lossy(comm.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
            }
        };
        let line = |line: &Message| PrintedLine {
            time: line.time,
            cpu: line.cpu,
            task: line.current.as_ref().map(name).unwrap_or_default(),
            text: line.text.clone(),
        };
        Printed { lines: lines.iter().map(line).collect(), left_out: count - lines.len() as u64 }
    }

    fn record(
        &self,
        scenario: &Scenario,
        result: RunResult<BpfScheduler>,
        loaded: Option<&BpfScheduler>,
    ) -> RunRecord {
        let mut metrics: Vec<Metric> =
            scenario.metrics.iter().filter_map(|spec| spec.evaluate(&result.measurements)).collect();
        let series = scenario.series.iter().map(|spec| Series {
            name: spec.name.clone(),
            unit: "ms",
            values: spec.evaluate(&result.measurements),
        });
        let series = series.collect();
        let mut made_of = provenance(&self.scheduler, Some(scenario), Some(&self.machine));
        made_of.pauses = self.pauses.as_ref().map(|pauses| pauses.len() as u64);
        metrics.extend(result.summary.metrics());
        let callbacks = loaded.map(BpfScheduler::callback_costs).unwrap_or_default();
        metrics.extend(cost_metrics(&result, &callbacks, loaded.is_some_and(BpfScheduler::follows_lines)));
        let own = loaded.map(|loaded| [loaded.counters(), loaded.changed_integers()].concat());
        let own = own.unwrap_or_default();
        let returned = loaded.map(|loaded| loaded.returned().to_vec()).unwrap_or_default();
        let returned = returned.iter().filter_map(|one| program_returned(&one.name, one.value));
        let computes = loaded.and_then(BpfScheduler::user_computes);
        let refused = loaded.map(BpfScheduler::user_refused).unwrap_or_default();
        let tables = loaded.map(BpfScheduler::tables).unwrap_or_default();
        let subs = self.scheduler.sub_records(result.subs.clone());
        let of_subs = subs::warnings(&subs);
        let events = result.events.named().into_iter().map(|(name, value)| (name.to_string(), value));
        RunRecord {
            scheduler: self.scheduler.name.clone(),
            settings: self.scheduler.settings.clone(),
            workload: WorkloadRecord { name: scenario.name.clone(), params: scenario.params.clone() },
            machine: self.machine.name.clone(),
            cpus: self.machine.cpu_count(),
            seed: self.seed,
            backend: Backend::Sim,
            duration: result.duration,
            validation: Some(validation(&self.machine, &made_of, &metrics)),
            exit: result.exit,
            metrics,
            histograms: result.summary.latencies(),
            series,
            counters: self.scheduler.counters(own.into_iter().chain(events)),
            tables: self.scheduler.tables(&tables),
            printed: loaded.map(|loaded| self.printed(scenario, loaded)).unwrap_or_default(),
            loader_output: loaded.map(BpfScheduler::user_output).unwrap_or_default(),
            callbacks,
            tasks: result.tasks,
            groups: result.groups,
            subs,
            task_waits: result.waits,
            warnings: (self.scheduler.with_subs().filter_map(unconfigured))
                .chain(self.scheduler.with_subs().flat_map(left_out))
                .chain(own_loader::computes(&self.scheduler, computes))
                .chain(loader_refused(&self.scheduler, &refused))
                .chain(self.scheduler.not_reached(result.duration, scenario.last_change()))
                .chain(of_subs)
                .chain(result.warnings)
                .chain(returned)
                .collect(),
            after_ejection: result.after.map(|after| after_ejection(scenario, after)),
            provenance: made_of,
            trace_hash: Some(result.trace_hash.to_string()),
            priorities: loaded.map(|loaded| loaded.priorities().to_vec()).unwrap_or_default(),
            timeline: None,
            waits: None,
        }
    }
}

/// The results of one run of a workload that has these goals.
pub fn judged(run: RunRecord, goals: &[Goal]) -> Document {
    let runs = vec![run];
    let goals = judge_goals(&runs, &[(runs[0].workload.clone(), goals.to_vec())]);
    Document { runs, goals, ..Document::default() }
}

/// Says that programs will be interpreted where they were to be compiled and this host does not run compiled ones.
/// A command says it once.
pub fn announce_engine(engine: EngineChoice, quiet: bool) {
    if engine != EngineChoice::Interpreted
        && !quiet
        && let Err(why) = Compiler::available()
    {
        log::info!("{why}; programs are interpreted: results are the same, runs take longer");
    }
}

/// The part of a run after its scheduler has left.
fn after_ejection(scenario: &Scenario, after: Remainder) -> schedlab_trace::AfterEjection {
    let own = scenario.metrics.iter().filter_map(|spec| spec.evaluate(&after.measurements));
    let metrics = own.chain(after.summary.metrics()).collect();
    schedlab_trace::AfterEjection { duration: after.duration, metrics, tasks: after.tasks }
}

/// What scheduling cost, as metrics; `callbacks` are the costs of its scheduler's, which may follow cache lines.
fn cost_metrics(
    result: &RunResult<BpfScheduler>,
    callbacks: &[CallbackCost],
    follows_lines: bool,
) -> Vec<Metric> {
    let costs = &result.costs;
    let mut metrics = Vec::new();
    if costs.switches > 0 {
        let per_switch = |value: u64| value as f64 / costs.switches as f64;
        let (cost, insns) = (per_switch(costs.sched_cost.0), per_switch(costs.bpf_insns));
        metrics.push(Metric::new("sched_cost_ns_per_switch", cost, "ns", Better::Lower));
        metrics.push(Metric::new("bpf_insns_per_switch", insns, "insns", Better::Lower));
        // Ticks come with time, not with switches: a load that seldom switches is all ticks.
        let ticks = callbacks.iter().find(|cost| cost.name == "tick").and_then(|cost| cost.insns);
        let ticks = per_switch(ticks.unwrap_or(0));
        metrics.push(Metric::new("bpf_tick_insns_per_switch", ticks, "insns", Better::Lower));
    }
    if costs.switches > 0 && follows_lines {
        let lines = costs.lines as f64 / costs.switches as f64;
        metrics.push(Metric::new("lines_per_switch", lines, "lines", Better::Lower));
    }
    let idle = result.idle_beside.0 as f64;
    metrics.push(Metric::new("idle_beside_waiting_ns", idle, "ns", Better::Lower));
    metrics.push(Metric::new("lock_wait_ns", costs.lock_wait.0 as f64, "ns", Better::Lower));
    metrics
}

/// The failure of a command whose runs include void ones: a scheduler that was ejected, or left before the end; to be told after
/// the results.
pub fn ejection(document: &Document) -> Result<(), Failure> {
    let ejected: Vec<&RunRecord> = document.runs.iter().filter(|run| run.is_void()).collect();
    let Some(first) = ejected.first() else { return Ok(()) };
    let words: Vec<&str> = [&first.exit.reason, &first.exit.message]
        .into_iter()
        .map(String::as_str)
        .filter(|word| !word.is_empty())
        .collect();
    let more = if ejected.len() > 1 { format!(" ({} runs in all)", ejected.len()) } else { String::new() };
    let left = if first.exit.kind.is_ejection() { "was ejected from" } else { "left before the end of" };
    Err(Failure::ejected(format!(
        "scheduler {} {left} {} on {}, {}: {}{more}",
        first.scheduler,
        first.workload.name,
        counted(first.cpus, "CPU"),
        first.exit.kind.name(),
        words.join(": ")
    )))
}
