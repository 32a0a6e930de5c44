//! One run on the kernel of this machine: a scheduler is loaded, a workload or command runs under
//! it, everything is taken out again, and one result tells what happened.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use schedlab_base::{Better, DurationNs, Metric, Nice};
use schedlab_trace::waits::{Party, Waits};
use schedlab_trace::{
    CallbackCost, Distribution, ExitKind, GroupRecord, GroupsOfRun, Homes, Printed, Series, TaskOfGroup,
    TaskRecord, WaitRecord, complete_groups,
};
use schedlab_workload::Scenario;

use crate::callbacks::CallbackCounter;
use crate::command::{self, Ended, Invocation, Verdict};
use crate::events::{EventWatcher, Recording};
use crate::exec::{self, ExecError, ExecOptions, ExecOutcome, Looks, SpinRate, Stage, Window};
use crate::kernel_log::KernelLog;
use crate::load::{
    InCharge, LoadError, LoadedScheduler, ProgramReport, SchedulerEnd, SchedulerObject, SubEnd, SubObject,
    Uevents,
};
use crate::observe::{Observer, SeenTask};
use crate::printed::PrintWatcher;
use crate::signals;
use crate::waits::WaitWatcher;

/// What runs.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// A workload as real processes.
    Scenario(&'a Scenario),
    /// A command with arguments.
    Command(Invocation<'a>),
}

impl<'a> Work<'a> {
    fn stage(self) -> Result<Option<Stage<'a>>, ExecError> {
        match self {
            Work::Scenario(scenario) => Stage::set(scenario).map(Some),
            Work::Command(_) => Ok(None),
        }
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct RunPlan<'a> {
    /// Who schedules; the kernel's own fair class without.
    pub scheduler: Option<&'a SchedulerObject>,
    /// Sub-schedulers that are attached below it, to groups of the scenario.
    pub subs: &'a [SubObject],
    /// What runs.
    pub work: Work<'a>,
    /// Whether to count switches and waits in the kernel, which costs a little at every switch;
    /// takes root. Where it is not possible the run has no such metrics.
    pub observe: bool,
    /// Whether to explain who waits for whom; takes root.
    pub explain_waits: bool,
    /// Whether to record every switch and wakeup; takes root.
    pub record: bool,
    /// Whether to have the kernel count the calls of the scheduler's callbacks, which costs each call two looks at the clock.
    pub count_callbacks: bool,
    /// The machine's speed, the same for all runs that are compared; measured without.
    pub spin_rate: Option<SpinRate>,
}

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scheduler could not be put in charge.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The workload failed.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The command could not be started.
    #[error("{program}: {source}")]
    Command {
        /// The command's name.
        program: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The switches could not be kept.
    #[error(
        "the events of the run could not be kept ({0}); free some room in the folder of temporary files (TMPDIR)"
    )]
    NotKept(std::io::Error),
    /// The kernel does not count calls of BPF programs.
    #[error("the calls of the scheduler's callbacks could not be counted ({0}); leave out --callbacks")]
    NotCounted(std::io::Error),
    /// A signal asked for an end.
    #[error("interrupted; the machine is on its own scheduler again")]
    Interrupted,
}

/// What a run has shown.
#[derive(Debug, Default)]
pub struct RunResult {
    /// When it began, on the monotonic clock.
    pub begin_ns: u64,
    /// Length of the run.
    pub elapsed: DurationNs,
    /// Number of CPUs.
    pub cpus: usize,
    /// The workload's metrics, then the common ones that are known.
    pub metrics: Vec<Metric>,
    /// The distributions of the run's latencies by name, where they were observed.
    pub histograms: Vec<(String, Distribution)>,
    /// What the workload reports sample by sample.
    pub series: Vec<Series>,
    /// The workload's tasks in order, then the forked ones in sum.
    pub tasks: Vec<TaskRecord>,
    /// The workload's groups in order.
    pub groups: Vec<GroupRecord>,
    /// How long they waited for a CPU, where it was observed.
    pub task_waits: Vec<WaitRecord>,
    /// The workload's tasks by thread id.
    pub thread_names: Vec<(i32, String)>,
    /// How the scheduler left. The default for the fair class.
    pub scheduler: SchedulerEnd,
    /// What became of its sub-schedulers, in the plan's order.
    pub subs: Vec<SubEnd>,
    /// What its callbacks cost, where it was asked for.
    pub callbacks: Vec<CallbackCost>,
    /// What the verifier made of its programs.
    pub programs: Vec<ProgramReport>,
    /// Exit code of the command; 128 plus the number of the signal that ended it.
    pub exit_code: Option<i32>,
    /// The end of what a silent command wrote to its standard error.
    pub said: String,
    /// Kernel messages of level warning or worse during the run.
    pub kernel_warnings: Vec<String>,
    /// Who waited for whom, where it was asked for.
    pub waits: Option<Waits>,
    /// The run's switches and wakeups, where they were asked for.
    pub recording: Option<Recording>,
    /// What the scheduler printed.
    pub printed: Printed,
    /// Why that is not known.
    pub not_printed: Option<String>,
    /// Why there are no observed metrics, where they were asked for.
    pub not_observed: Option<String>,
}

/// Runs the plan on this machine. Call [`signals::catch`] before to have interrupts handled.
///
/// # Errors
/// See [`RunError`]. An ejection of the scheduler is no error of this function: the run ends then,
/// and the result's `scheduler.exit` tells the kind. Whatever happens, the machine is on its own
/// scheduler again afterwards.
pub fn run(plan: &RunPlan<'_>) -> Result<RunResult, RunError> {
    run_inspected(plan, &mut |_| {})
}

/// A run, with a last look at the scheduler before it is taken out.
///
/// # Errors
/// See [`run`].
pub fn run_inspected(
    plan: &RunPlan<'_>,
    inspect: &mut dyn FnMut(&LoadedScheduler),
) -> Result<RunResult, RunError> {
    let log = KernelLog::from_now().ok();
    let stage = plan.work.stage()?;
    let (observer, not_observed) = match plan.observe.then(Observer::start) {
        None => (None, None),
        Some(Ok(Some(observer))) => (Some(observer), None),
        Some(Ok(None)) => (None, Some("this build has no observer (no clang was found)".to_string())),
        Some(Err(error)) => (None, Some(error.to_string())),
    };
    let watcher = plan.explain_waits.then(WaitWatcher::start).transpose()?;
    let events = plan.record.then(EventWatcher::start).transpose()?;
    // Before the scheduler is there, which may print as it begins.
    let (printed, not_printed) = match plan.scheduler.map(|_| PrintWatcher::start()) {
        None => (None, None),
        Some(Ok(watcher)) => (Some(watcher), None),
        Some(Err(error)) => (None, Some(error.to_string())),
    };
    let load = |scheduler| InCharge::load(scheduler, with_places(plan.subs, stage.as_ref()));
    let mut loaded = plan.scheduler.map(load).transpose().map_err(|error| match error {
        LoadError::Loader { .. } if signals::stop_wanted() => RunError::Interrupted,
        error => error.into(),
    })?;
    let counted = plan.scheduler.zip(loaded.as_ref()).filter(|_| plan.count_callbacks);
    let counter = counted.map(|(object, loaded)| CallbackCounter::start(object, loaded));
    let counter = counter.transpose().map_err(RunError::NotCounted)?;
    let watchers = Watchers {
        callbacks: counter.as_ref(),
        observer: observer.as_ref(),
        waits: watcher.as_ref(),
        events: events.as_ref(),
        printed: printed.as_ref(),
    };
    let mut result = match (&stage, plan.work) {
        (Some(stage), _) => run_scenario(plan, stage, loaded.as_mut(), watchers)?,
        (None, Work::Command(command)) => run_command(command, loaded.as_mut(), watchers)?,
        (None, Work::Scenario(_)) => unreachable!("a scenario has a stage"),
    };
    result.callbacks = counter.map(CallbackCounter::finish).unwrap_or_default();
    if let Some(events) = events {
        let names = result.thread_names.iter().map(|(thread, name)| (thread.cast_unsigned(), name.clone()));
        let recording = events.finish(result.begin_ns, result.elapsed, names.collect());
        result.recording = Some(recording.map_err(RunError::NotKept)?);
    }
    if let Some(watcher) = watcher {
        result.waits = Some(with_names(watcher.read(result.elapsed), &result.thread_names));
    }
    result.not_observed = not_observed;
    if let Some(loaded) = loaded {
        loaded.object().into_iter().for_each(inspect);
        result.programs = loaded.programs();
        (result.scheduler, result.subs) = loaded.unload(result.elapsed);
        let exit = &mut result.scheduler.exit;
        if exit.kind != ExitKind::None {
            // Out since the last look.
            exit.after.get_or_insert(result.elapsed);
        }
    }
    if let Some(printed) = printed {
        result.printed = printed.finish(result.begin_ns, &result.thread_names);
    }
    result.not_printed = not_printed;
    if let Some(log) = log {
        let warnings = log.messages().into_iter().filter(|message| message.is_warning());
        result.kernel_warnings = warnings.map(|message| message.text).collect();
    }
    Ok(result)
}

/// Sub-schedulers with the directories of their groups. One of a group that the scenario does not have, or of a command, which has none,
/// gets a directory that does not exist, and the kernel's refusal.
fn with_places(subs: &[SubObject], stage: Option<&Stage<'_>>) -> Vec<(SubObject, PathBuf)> {
    let place = |sub: &SubObject| stage.and_then(|stage| stage.group_place(&sub.group)).unwrap_or_default();
    subs.iter().map(|sub| (sub.clone(), place(sub))).collect()
}

/// Gives the tasks of a workload their names in it.
fn with_names(mut waits: Waits, names: &[(i32, String)]) -> Waits {
    let parties = waits.pairs.iter_mut().flat_map(|pair| [&mut pair.requester, &mut pair.provider]);
    for party in parties {
        if let Some((_, name)) = names.iter().find(|(thread, _)| *thread == party.thread) {
            party.name.clone_from(name);
        }
    }
    waits
}

/// Who watches a workload from its leader.
#[derive(Clone, Copy)]
struct Watchers<'a> {
    callbacks: Option<&'a CallbackCounter>,
    observer: Option<&'a Observer>,
    waits: Option<&'a WaitWatcher>,
    events: Option<&'a EventWatcher>,
    printed: Option<&'a PrintWatcher>,
}

impl Watchers<'_> {
    fn all(&self) -> impl Iterator<Item = &dyn Window> {
        let observer = self.observer.map(|observer| observer as &dyn Window);
        let waits = self.waits.map(|waits| waits as &dyn Window);
        let events = self.events.map(|events| events as &dyn Window);
        let callbacks = self.callbacks.map(|callbacks| callbacks as &dyn Window);
        [observer, waits, events, callbacks].into_iter().flatten()
    }

    /// Takes what has been recorded since the last look.
    fn drain(&self) {
        if let Some(events) = self.events {
            events.drain();
        }
        if let Some(printed) = self.printed {
            printed.drain();
        }
    }
}

impl Window for Watchers<'_> {
    fn follow(&self, leader: u32) {
        self.all().for_each(|window| window.follow(leader));
    }

    fn open(&self, begin_ns: u64) {
        self.all().for_each(|window| window.open(begin_ns));
    }

    fn close(&self) {
        self.all().for_each(Window::close);
    }
}

/// Whether a run makes sense any more at `elapsed` since it began.
fn goes_on(loaded: Option<&mut InCharge>, elapsed: DurationNs) -> bool {
    !signals::stop_wanted() && loaded.is_none_or(|loaded| loaded.stays(elapsed))
}

/// Does with the scheduler what is due at `elapsed` or before the next look, for which it waits: that makes it as exact as
/// a sleep.
fn take_turns(loaded: Option<&mut InCharge>, elapsed: DurationNs, look: Duration) -> Result<(), LoadError> {
    let Some(loaded) = loaded else { return Ok(()) };
    let begin = Instant::now();
    let now = || elapsed + DurationNs(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let until = elapsed + DurationNs(u64::try_from(look.as_nanos()).unwrap_or(u64::MAX));
    while let Some(at) = loaded.next_turn().filter(|at| *at <= until) {
        std::thread::sleep(Duration::from_nanos(at.0.saturating_sub(now().0)));
        loaded.take_turns(now())?;
    }
    Ok(())
}

/// When a run of a workload is looked at: as rarely as what it needs allows.
fn looks(loaded: Option<&InCharge>, watchers: Watchers<'_>, uevents: Option<&Uevents>) -> Looks {
    let records = watchers.events.is_some();
    let changes = loaded.is_some_and(InCharge::wants_looks);
    // Nothing tells of the scheduler's end.
    let unheard = loaded.is_some() && uevents.is_none();
    if records || changes || unheard { Looks::Often } else { Looks::At(uevents.map(Uevents::descriptor)) }
}

fn run_scenario(
    plan: &RunPlan<'_>,
    stage: &Stage<'_>,
    mut loaded: Option<&mut InCharge>,
    watchers: Watchers<'_>,
) -> Result<RunResult, RunError> {
    let scenario = stage.scenario();
    let _cpus = exec::Restored::of(scenario);
    let mut close = loaded.as_deref().map(InCharge::descriptors).unwrap_or_default();
    let observer = watchers.observer;
    close.extend(observer.map(Observer::descriptors).unwrap_or_default());
    close.extend(watchers.waits.map(WaitWatcher::descriptors).unwrap_or_default());
    close.extend(watchers.events.map(EventWatcher::descriptors).unwrap_or_default());
    close.extend(watchers.printed.map(PrintWatcher::descriptors).unwrap_or_default());
    // An end of the scheduler that comes before is seen at the first look.
    let uevents = loaded.as_ref().and_then(|_| Uevents::listen().ok());
    close.extend(uevents.as_ref().map(Uevents::descriptor));
    let looks = looks(loaded.as_deref(), watchers, uevents.as_ref());
    let options = ExecOptions { spin_rate: plan.spin_rate, close, looks };
    let mut failed = None;
    let outcome = stage.run(&options, Some(&watchers), &mut |elapsed| {
        watchers.drain();
        uevents.iter().for_each(Uevents::drain);
        if let Some(elapsed) = elapsed {
            failed = take_turns(loaded.as_deref_mut(), elapsed, exec::POLL).err();
        }
        failed.is_none() && goes_on(loaded.as_deref_mut(), elapsed.unwrap_or_default())
    })?;
    if signals::stop_wanted() {
        return Err(RunError::Interrupted);
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    let (elapsed, cpus) = (outcome.measurements.elapsed, outcome.measurements.cpus);
    let seen = observer.map(|observer| observer.read(outcome.begin.0, elapsed, cpus));
    let tasks = task_records(&outcome, seen.as_ref().map(|seen| seen.tasks.as_slice()));
    let mut metrics: Vec<Metric> =
        scenario.metrics.iter().filter_map(|metric| metric.evaluate(&outcome.measurements)).collect();
    let mut histograms = Vec::new();
    let mut task_waits = Vec::new();
    match seen {
        Some(seen) => {
            task_waits = seen.wait_records(&parties(&outcome, scenario), &homes(scenario));
            metrics.extend(seen.metrics);
            histograms = seen.histograms;
        }
        None => metrics.extend(summed_metrics(&tasks, elapsed, cpus)),
    }
    let series = scenario.series.iter().map(|spec| Series {
        name: spec.name.clone(),
        unit: "ms",
        values: spec.evaluate(&outcome.measurements),
    });
    let series = series.collect();
    let named = outcome.tasks.iter().filter(|task| task.thread_id != 0);
    let thread_names = named.map(|task| (task.thread_id.cast_signed(), task.name.clone())).collect();
    let groups = group_records(scenario, &outcome);
    let known =
        RunResult { elapsed, cpus, metrics, histograms, series, tasks, groups, ..RunResult::default() };
    Ok(RunResult { begin_ns: outcome.begin.0, task_waits, thread_names, ..known })
}

/// Figures of the groups; weights and quotas as their files said at the end, or as the scenario has them for a group that was never
/// made.
fn group_records(scenario: &Scenario, outcome: &ExecOutcome) -> Vec<GroupRecord> {
    let seen = scenario.groups.iter().zip(&outcome.groups).map(|(spec, seen)| {
        let settings = seen.settings.unwrap_or(spec.settings);
        GroupRecord {
            name: spec.path.clone(),
            weight: settings.weight,
            idle: settings.idle,
            quota: settings.quota.map(|quota| (quota.runtime, quota.period)),
            burst: settings.burst,
            cpu_time: seen.cpu_time,
            periods: seen.periods,
            throttled: seen.throttled,
            throttled_time: seen.throttled_time,
            bursts: seen.bursts,
            burst_time: seen.burst_time,
            pressure: seen.pressure,
            ..GroupRecord::default()
        }
    });
    let mut records: Vec<GroupRecord> = seen.collect();
    let parents: Vec<Option<usize>> =
        scenario.groups.iter().map(|spec| spec.parent.map(|group| group.index())).collect();
    let tasks = scenario.tasks.iter().zip(&outcome.tasks).map(|(spec, task)| TaskOfGroup {
        group: spec.group.map(|group| group.index()),
        run_delay: task.run_delay.unwrap_or_default(),
    });
    let tasks: Vec<TaskOfGroup> = tasks.collect();
    // The kernel counts groups and tasks at different times.
    let of_tasks = DurationNs(outcome.tasks.iter().map(|task| task.cpu_time.0).sum());
    let below_root = records.iter().zip(&parents).filter(|(_, parent)| parent.is_none());
    let of_groups = DurationNs(below_root.map(|(record, _)| record.cpu_time.0).sum());
    let changes = scenario.changes_groups();
    let (elapsed, total) = (outcome.measurements.elapsed, of_tasks.max(of_groups));
    let loads: Vec<u32> = scenario.groups.iter().map(|spec| spec.settings.load_weight()).collect();
    let (parents, loads, tasks) = (&parents[..], &loads[..], &tasks[..]);
    complete_groups(&mut records, &GroupsOfRun { elapsed, parents, loads, tasks, total, changes });
    records
}

/// The groups that the tasks of the start begin in.
fn homes(scenario: &Scenario) -> Homes<'_> {
    let index = |group: Option<schedlab_workload::GroupId>| group.map(|group| group.index());
    Homes {
        tasks: scenario.tasks.iter().map(|task| index(task.group)).collect(),
        groups: scenario.groups.iter().map(|group| (group.path.as_str(), index(group.parent))).collect(),
    }
}

/// The tasks of the start with their thread ids; a process is identified by its first thread.
fn parties(outcome: &ExecOutcome, scenario: &Scenario) -> Vec<Party> {
    let mut leaders = BTreeMap::new();
    let known = scenario.tasks.iter().zip(&outcome.tasks);
    known
        .map(|(spec, task)| {
            let thread = task.thread_id.cast_signed();
            let process = *leaders.entry(spec.process).or_insert(thread);
            Party { name: spec.name.clone(), thread, process, prio: spec.nice.static_prio() }
        })
        .collect()
}

/// Figures of the tasks; switches and migrations as observed, else as the kernel counts them.
fn task_records(outcome: &ExecOutcome, seen: Option<&[SeenTask]>) -> Vec<TaskRecord> {
    let elapsed = outcome.measurements.elapsed.0;
    let known: std::collections::BTreeSet<u32> =
        outcome.tasks.iter().map(|task| task.thread_id).filter(|id| *id != 0).collect();
    outcome
        .tasks
        .iter()
        .map(|task| {
            let counted = (task.voluntary_switches + task.involuntary_switches, task.migrations.unwrap_or(0));
            let is_forked = task.thread_id == 0;
            let (switches, migrations) = seen.map_or(counted, |seen| {
                seen.iter()
                    .filter(|s| {
                        if is_forked { !known.contains(&s.thread_id) } else { s.thread_id == task.thread_id }
                    })
                    .fold((0, 0), |sum, s| (sum.0 + s.switches, sum.1 + s.migrations))
            });
            TaskRecord {
                name: task.name.clone(),
                nice: task.nice.get(),
                cpu_time: task.cpu_time,
                share: if elapsed > 0 { task.cpu_time.0 as f64 / elapsed as f64 } else { 0.0 },
                switches,
                migrations,
            }
        })
        .collect()
}

/// What is known without the observer. Waits are unknown then and left out.
fn summed_metrics(tasks: &[TaskRecord], elapsed: DurationNs, cpus: usize) -> Vec<Metric> {
    let switches: u64 = tasks.iter().map(|task| task.switches).sum();
    let migrations: u64 = tasks.iter().map(|task| task.migrations).sum();
    let busy: u64 = tasks.iter().map(|task| task.cpu_time.0).sum();
    let mut metrics = vec![
        Metric::new("context_switches", switches as f64, "1", Better::Neither),
        Metric::new("migrations", migrations as f64, "1", Better::Neither),
    ];
    let capacity = elapsed.0 as f64 * cpus as f64;
    if capacity > 0.0 {
        let fraction = (busy as f64 / capacity).min(1.0);
        metrics.push(Metric::new("cpu_busy_fraction", fraction, "1", Better::Neither));
    }
    metrics
}

/// Runs a command; what it and its descendants did is seen as of one task.
fn run_command(
    invocation: Invocation<'_>,
    mut loaded: Option<&mut InCharge>,
    watchers: Watchers<'_>,
) -> Result<RunResult, RunError> {
    let program = invocation.args.first().cloned().unwrap_or_else(|| "no command given".to_string());
    watchers.follow(std::process::id());
    watchers.open(exec::now_ns());
    let mut failed = None;
    let ended = command::run(invocation, &mut |elapsed| {
        watchers.drain();
        if signals::stop_wanted() {
            return Verdict::Forget;
        }
        failed = take_turns(loaded.as_deref_mut(), elapsed, command::LOOK).err();
        // What comes after an ejection is not the scheduler's work: the run is over.
        if failed.is_none() && goes_on(loaded.as_deref_mut(), elapsed) {
            Verdict::GoesOn
        } else {
            Verdict::End
        }
    });
    watchers.close();
    if let Some(error) = failed {
        return Err(error.into());
    }
    let ended = ended.map_err(|source| RunError::Command { program: program.clone(), source })?;
    let ended = ended.ok_or(RunError::Interrupted)?;
    Ok(command_result(&program, ended, watchers.observer))
}

/// Without the observer nothing has counted its switches, and there is no row of a task.
fn command_result(program: &str, ended: Ended, observer: Option<&Observer>) -> RunResult {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let seconds = |name: &str, time: DurationNs| Metric::new(name, time.as_secs_f64(), "s", Better::Lower);
    let times = [("elapsed", ended.elapsed), ("user", ended.user), ("system", ended.system)];
    let mut result = RunResult {
        begin_ns: ended.begin_ns,
        elapsed: ended.elapsed,
        cpus,
        metrics: times.map(|(name, time)| seconds(name, time)).to_vec(),
        exit_code: Some(ended.code),
        said: ended.said,
        ..RunResult::default()
    };
    if let Some(observer) = observer {
        let seen = observer.read(ended.begin_ns, ended.elapsed, cpus);
        let name = program.rsplit('/').next().unwrap_or(program).to_string();
        let sum = |count: fn(&SeenTask) -> u64| seen.tasks.iter().map(count).sum();
        let cpu_time = ended.user + ended.system;
        result.tasks = vec![TaskRecord {
            name: name.clone(),
            nice: 0,
            cpu_time,
            share: if ended.elapsed.0 > 0 { cpu_time.0 as f64 / ended.elapsed.0 as f64 } else { 0.0 },
            switches: sum(|task| task.switches),
            migrations: sum(|task| task.migrations),
        }];
        let process = ended.process;
        let party = Party { name, thread: process, process, prio: Nice::ZERO.static_prio() };
        result.task_waits = seen.wait_records(&[party], &Homes::default());
        result.metrics.extend(seen.metrics);
        result.histograms = seen.histograms;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Streams;

    fn plan(work: Work<'_>) -> RunPlan<'_> {
        RunPlan {
            scheduler: None,
            subs: &[],
            work,
            observe: false,
            explain_waits: false,
            record: false,
            count_callbacks: false,
            spin_rate: None,
        }
    }

    #[test]
    fn commands_are_timed_and_their_codes_kept() {
        let command = ["sh", "-c", "sleep 0.1; exit 3"].map(str::to_string);
        let result =
            run(&plan(Work::Command(Invocation { args: &command, streams: Streams::Silent }))).unwrap();
        assert_eq!(result.exit_code, Some(3));
        assert!(result.elapsed >= DurationNs::from_ms(100));
        let missing = ["no-such-program-here".to_string()];
        let error = run(&plan(Work::Command(Invocation { args: &missing, streams: Streams::Silent })))
            .unwrap_err()
            .to_string();
        assert!(error.contains("no-such-program-here"), "{error}");
        assert!(run(&plan(Work::Command(Invocation { args: &[], streams: Streams::Silent }))).is_err());
    }
}
