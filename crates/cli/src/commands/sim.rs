//! `sim`: one simulated run.

use crate::args::{SetupArgs, SimArgs};
use crate::confine::Named;
use crate::deadline::TimeLimit;
use crate::defect;
use crate::entry;
use crate::failure::Failure;
use crate::output;
use crate::progress::{RunProgress, announce};
use crate::results::Results;
use crate::scheduler::Scheduler;
use crate::shipped;
use crate::simulation::{Simulation, Watch, ejection, parties};
use crate::swap_scope;
use crate::target::{self, Draft, Target};
use crate::trust::strict;
use crate::workload::fixed_end;
use schedlab_base::{Machine, TimeNs};
use schedlab_live::signals::LastWords;
use schedlab_report::{
    Document, PerfettoSink, SampleSink, after_ejection_text, counters_table, longest_waits, metrics_table,
    priorities_svg, run_summary, scheduler_tables, task_waits_table, tasks_table, waits_table, warnings_text,
};
use schedlab_sim::FIRST_PID;
use schedlab_trace::RunRecord;
use schedlab_workload::Scenario;
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// Tasks shown without `-v`.
const TASKS_SHOWN: usize = 12;

/// Lines of an exit dump shown without `-v`. Chosen: what the first CPU has queued.
const DUMP_LINES_SHOWN: usize = 40;

/// Pairs that wait shown without `-v`.
const PAIRS_SHOWN: usize = 20;

/// What an interrupted run says.
const INTERRUPTED: &str = "\nschedlab: interrupted: nothing is kept, result files are as they were; --duration ends a run with its results\n";

/// The sink of `--perfetto`.
type Trace = Rc<RefCell<PerfettoSink<Draft>>>;

/// The sink of `--sched-samples`.
type Samples = Rc<RefCell<SampleSink<Draft>>>;

/// Runs and prints.
pub(crate) fn sim(args: &SimArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    let results = Results::new(&args.results)?;
    let perfetto = args.perfetto.as_deref().map(|path| Target::binary("--perfetto", path)).transpose()?;
    let sampled =
        args.sched_samples.as_deref().map(|path| Target::new("--sched-samples", path)).transpose()?;
    let pictured = args.priorities.as_deref().map(|path| Target::new("--priorities", path)).transpose()?;
    let others = || [&perfetto, &sampled, &pictured].into_iter().flatten();
    target::distinct(results.targets().chain(others()))?;
    confine(args, verbose)?;
    let limit = TimeLimit(args.host.time_limit);
    let deadline = limit.begin(&format!("run of {} under {}", args.scheduler, args.setup.workload))?;
    let mut schedulers = Scheduler::find_all(std::slice::from_ref(&args.scheduler), &args.setup.settings)?;
    swap_scope::restrict(&mut schedulers, &args.setup.swap)?;
    let mut scheduler = schedulers.remove(0);
    scheduler.change(&args.changes)?;
    let simulation = Simulation {
        scheduler,
        workload: args.setup.workload.clone(),
        machine: machine(&args.setup, args.cpus)?,
        seed: args.setup.seed,
        limit: args.setup.duration,
        checkers: args.checkers,
        engine: args.setup.engine,
        guest_memory: args.setup.guest_memory,
        after_ejection: args.setup.after_ejection,
        sampling: None,
    };
    let scenario = simulation.scenario()?;
    if simulation.scheduler.object.is_some() {
        simulation.engine.announce(quiet);
    }
    deadline.check(&simulation.describe())?;
    let end = fixed_end(&scenario, simulation.limit);
    announce(1, end, false, quiet);
    let _words = (!quiet).then(|| LastWords::new(INTERRUPTED));
    let progress = RunProgress::new(end, quiet);
    let priorities = args.priorities.is_some() || args.results.html.is_some();
    let mut watch =
        Watch { mark: args.sched_mark.clone(), priorities, stop: deadline.stop(), ..Watch::default() };
    watch.waits = args.explain_waits;
    watch.timeline = args.results.html.is_some().then_some(args.timeline);
    watch.sinks.push(progress.clone());
    let trace = perfetto.as_ref().map(|target| start_trace(target, &scenario)).transpose()?;
    if let Some(trace) = &trace {
        watch.sinks.push(trace.clone());
    }
    let samples = sampled.as_ref().map(|target| start_samples(target, &simulation.machine)).transpose()?;
    if let Some(samples) = &samples {
        watch.sinks.push(samples.clone());
        watch.schedule_events = true;
    }
    let run = defect::guard(|| simulation.describe(), || simulation.run_watched(&scenario, watch));
    drop(deadline);
    progress.borrow().finish();
    let (run, messages) = run?;
    if verbose {
        messages.iter().for_each(|line| output::note(&format!("scheduler: {line}")));
    }
    let document = Document { runs: vec![run], ..Document::default() };
    let in_their_place = others().any(Target::is_stdout);
    let tables = if in_their_place { String::new() } else { tables(&document.runs[0], verbose) };
    let written = results.write(&tables, &document, &[]);
    let traced = finish_trace(perfetto.as_ref(), trace);
    let end = TimeNs::ZERO + document.runs[0].duration;
    let sampled = finish_samples(sampled.as_ref(), samples, end);
    let pictured = pictured.map_or(Ok(()), |target| write_priorities(&target, &document.runs[0]));
    let ejected = ejection(&document).map_err(|failure| simulation.scheduler.with_cure(failure));
    let strict = strict(&document, args.results.strict);
    ejected.and(written).and(traced).and(sampled).and(pictured).and(strict)
}

/// Gives up what the run does not need.
fn confine(args: &SimArgs, verbose: bool) -> Result<(), Failure> {
    let setup = &args.setup;
    let schedulers = entry::names(std::slice::from_ref(&args.scheduler))?;
    let inputs = schedulers.iter().chain([&setup.workload, &setup.machine]);
    let named = Named::new().inputs(inputs).results(&args.results);
    named.outputs([&args.perfetto, &args.sched_samples, &args.priorities]).enter(&args.host.sandbox, verbose);
    Ok(())
}

/// Writes the picture of `--priorities`.
fn write_priorities(target: &Target, run: &RunRecord) -> Result<(), Failure> {
    let none = || {
        Failure::usage(format!(
            "--priorities: scheduler {} shows no priorities: what it keeps per task has no number called prio",
            run.scheduler
        ))
    };
    target.write(&priorities_svg(run).ok_or_else(none)?)
}

/// The machine of `-m` with the CPUs of `-c`.
pub(crate) fn machine(setup: &SetupArgs, cpus: Option<NonZeroUsize>) -> Result<Machine, Failure> {
    let machine = shipped::machine(&setup.machine)?.machine;
    match cpus {
        None => Ok(machine),
        Some(count) => {
            machine.with_cpus(count.get()).map_err(|error| Failure::usage(format!("-c {count}: {error}")))
        }
    }
}

fn start_trace(target: &Target, scenario: &Scenario) -> Result<Trace, Failure> {
    let sink = PerfettoSink::new(target.create()?, parties(scenario), FIRST_PID);
    Ok(Rc::new(RefCell::new(sink)))
}

fn finish_trace(target: Option<&Target>, trace: Option<Trace>) -> Result<(), Failure> {
    let (Some(target), Some(trace)) = (target, trace) else { return Ok(()) };
    let sink = Rc::into_inner(trace).expect("the run has dropped its sinks").into_inner();
    let (draft, _) = sink.finish().map_err(|error| target.failure(&error))?;
    target.finish(draft)
}

fn start_samples(target: &Target, machine: &Machine) -> Result<Samples, Failure> {
    let first_pid = FIRST_PID.cast_unsigned();
    let sink = SampleSink::new(target.create()?, machine.cpu_count(), machine.clock_mhz, first_pid);
    Ok(Rc::new(RefCell::new(sink)))
}

fn finish_samples(target: Option<&Target>, samples: Option<Samples>, end: TimeNs) -> Result<(), Failure> {
    let (Some(target), Some(samples)) = (target, samples) else { return Ok(()) };
    let sink = Rc::into_inner(samples).expect("the run has dropped its sinks").into_inner();
    target.finish(sink.finish(end).map_err(|error| target.failure(&error))?)
}

/// The first lines of a text, and how many more there are.
fn first_lines(text: &str, limit: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines.len().min(limit);
    let mut first: String = lines[..shown].iter().map(|line| format!("{line}\n")).collect();
    if shown < lines.len() {
        first.push_str(&format!("({} more lines; -v and --json have all)\n", lines.len() - shown));
    }
    first
}

/// The tables of one run.
pub(crate) fn tables(run: &RunRecord, verbose: bool) -> String {
    let mut text = run_summary(run);
    text.push('\n');
    text.push_str(&metrics_table(run));
    let longest = longest_waits(run);
    if !longest.is_empty() {
        text.push_str(&format!("\n{longest}"));
    }
    if !run.tasks.is_empty() {
        text.push('\n');
        text.push_str(&tasks_table(run, if verbose { usize::MAX } else { TASKS_SHOWN }));
    }
    if let Some(waits) = &run.waits {
        let limit = if verbose { usize::MAX } else { PAIRS_SHOWN };
        text.push_str(&format!("\nWho waited for whom\n{}", waits_table(waits, 0, limit)));
    }
    if verbose && !run.counters.is_empty() {
        text.push('\n');
        text.push_str(&counters_table(run));
    }
    if verbose {
        text.push_str(&format!("\n{}", task_waits_table(run)));
        text.push_str(&scheduler_tables(run));
    }
    text.push_str(&after_ejection_text(run));
    let warnings: Vec<String> = run.warnings.iter().map(|warning| warning.text.clone()).collect();
    text.push_str(&warnings_text(&warnings));
    if !run.exit.dump.is_empty() && (verbose || run.exit.kind.is_ejection()) {
        let limit = if verbose { usize::MAX } else { DUMP_LINES_SHOWN };
        text.push_str(&format!("\nDump:\n{}", first_lines(run.exit.dump.trim_end(), limit)));
    }
    text
}
