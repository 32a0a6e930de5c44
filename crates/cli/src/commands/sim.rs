//! `sim`: one simulated run.

use crate::args::{HistoryArgs, SetupArgs, SimArgs};
use crate::confine::Named;
use crate::output;
use crate::progress::{Planned, RunProgress, announce};
use crate::results::Results;
use schedlab_base::{Goal, Machine, TimeNs};
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::{self, Target};
use schedlab_lab::machine::kernels;
use schedlab_lab::run::deadline::TimeLimit;
use schedlab_lab::run::defect;
use schedlab_lab::run::simulation::{Simulation, Watch, announce_engine, ejection};
use schedlab_lab::run::streams::Streams;
use schedlab_lab::run::trust::strict;
use schedlab_lab::scheduler::Scheduler;
use schedlab_lab::scheduler::entry;
use schedlab_lab::scheduler::run_prog;
use schedlab_lab::scheduler::swap_scope;
use schedlab_lab::shipped;
use schedlab_live::signals::LastWords;
use schedlab_report::{
    Document, after_ejection_text, callbacks_table, counters_table, goals_text, judge_goals, latency_table,
    loader_text, longest_waits, metrics_table, printed_text, priorities_svg, run_summary, scheduler_tables,
    tasks_table, validation_text, waits_by_group_table, waits_table, warnings_text,
};
use schedlab_trace::{Backend, RunRecord};
use std::num::NonZeroUsize;

/// Tasks shown without `-v`.
const TASKS_SHOWN: usize = 12;

/// The same with `-v`. Chosen: a screen of them; `--latency` and `--json` have all.
const TASKS_SHOWN_VERBOSE: usize = 40;

/// Lines of an exit dump shown without `-v`. Chosen: what the first CPU has queued.
const DUMP_LINES_SHOWN: usize = 40;

/// Pairs that wait shown without `-v`.
pub(super) const PAIRS_SHOWN: usize = 20;

/// What an interrupted run says.
const INTERRUPTED: &str = "\nschedlab: interrupted: nothing is kept, result files are as they were; --duration ends a run with its results\n";

/// Runs and prints.
pub(crate) fn sim(args: &SimArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    let results = Results::new(&args.results)?;
    let streams = Streams::new(
        args.perfetto.as_deref(),
        args.sched_samples.as_deref(),
        args.history.timehist.as_deref(),
    )?;
    let pictured = args.priorities.as_deref().map(|path| Target::new("--priorities", path)).transpose()?;
    let others = || streams.targets().chain(&pictured);
    target::distinct(results.targets().chain(others()))?;
    args.history.has_room(results.targets().chain(others()))?;
    confine(args, quiet)?;
    let limit = TimeLimit(args.host.time_limit);
    let deadline = limit.begin(&format!("run of {} under {}", args.scheduler, args.workload))?;
    let mut schedulers = Scheduler::find_all(std::slice::from_ref(&args.scheduler), &args.setup.settings)?;
    swap_scope::restrict(&mut schedulers, &args.setup.swap.types, &args.setup.swap.exclude)?;
    run_prog::give(&mut schedulers, &args.setup.programs)?;
    let mut scheduler = schedulers.remove(0);
    scheduler.restore(args.state.as_deref())?;
    scheduler.meanwhile(&args.meanwhile.wanted())?;
    let machine = machine(&args.setup, args.kernel.as_deref(), args.cpus)?;
    let simulation = Simulation {
        seed: args.setup.seed,
        limit: args.setup.duration,
        checkers: args.checkers,
        engine: args.setup.engine.into(),
        guest_memory: args.setup.guest_memory.0,
        after_ejection: args.setup.after_ejection.into(),
        ..Simulation::new(scheduler, &args.workload, machine)
    };
    let scenario = simulation.scenario()?;
    if simulation.scheduler.object.is_some() {
        announce_engine(simulation.engine, quiet);
    }
    deadline.check(&simulation.describe())?;
    let planned = Planned::one(&args.workload, &scenario, simulation.limit);
    announce(&[planned], false, quiet);
    let _words = (!quiet).then(|| LastWords::new(INTERRUPTED));
    let progress = RunProgress::new(planned.each, quiet);
    let priorities = args.priorities.is_some() || args.results.html.is_some();
    let mut watch =
        Watch { mark: args.sched_mark.clone(), priorities, stop: deadline.stop(), ..Watch::default() };
    watch.waits = args.explain_waits;
    watch.contents = verbose;
    watch.lines = args.profile_lines;
    note_without_lines(args, &simulation.machine, quiet);
    watch.timeline = args.results.html.is_some().then_some(args.timeline);
    watch.sinks.push(progress.clone());
    let open = streams.open(&scenario, &simulation.machine, &mut watch)?;
    let run = defect::guard(|| simulation.describe(), || simulation.run_watched(&scenario, watch));
    drop(deadline);
    progress.borrow().finish();
    let document = judged(run?, &scenario.goals);
    let in_their_place = others().any(Target::is_stdout);
    let tables = if in_their_place {
        String::new()
    } else {
        tables(&document, Shown { lines: args.profile_lines, ..Shown::of(&args.history, verbose) })
    };
    let written = results.write(&tables, &document, &[]);
    let streamed = open.finish(TimeNs::ZERO + document.runs[0].duration);
    let pictured = pictured.map_or(Ok(()), |target| write_priorities(&target, &document.runs[0]));
    let ejected = ejection(&document)
        .map_err(|failure| simulation.scheduler.with_cure(failure, &document.runs[0].exit));
    let strict = strict(&document, args.results.strict);
    ejected.and(written).and(streamed).and(pictured).and(strict)
}

/// `--profile-lines` shows nothing on a machine that does not price lines, and says so.
fn note_without_lines(args: &SimArgs, machine: &Machine, quiet: bool) {
    if args.profile_lines && !quiet && machine.line_bytes == 0 {
        output::note(&format!(
            "--profile-lines: the machine {} has no line_bytes, so no cache lines are followed; docs/machines.md tells which have",
            machine.name
        ));
    }
}

/// The results of one run of a workload that has these goals.
pub(crate) fn judged(run: RunRecord, goals: &[Goal]) -> Document {
    let runs = vec![run];
    let goals = judge_goals(&runs, &[(runs[0].workload.clone(), goals.to_vec())]);
    Document { runs, goals, ..Document::default() }
}

/// Gives up what the run does not need.
fn confine(args: &SimArgs, quiet: bool) -> Result<(), Failure> {
    let setup = &args.setup;
    let schedulers = entry::names(std::slice::from_ref(&args.scheduler))?;
    let inputs = schedulers.iter().chain([&args.workload, &setup.machine]);
    let named = Named::new().inputs(inputs).inputs(&args.state).results(&args.results);
    let others = [&args.perfetto, &args.sched_samples, &args.priorities, &args.history.timehist];
    named.outputs(others).enter(&args.host.sandbox, quiet)?;
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

/// The machine of `-m` with the kernel of `--kernel` and the CPUs of `-c`.
pub(crate) fn machine(
    setup: &SetupArgs,
    kernel: Option<&str>,
    cpus: Option<NonZeroUsize>,
) -> Result<Machine, Failure> {
    let machine = kernels::under(shipped::machine(&setup.machine)?.machine, kernel)?;
    match cpus {
        None => Ok(machine),
        Some(count) => {
            machine.with_cpus(count.get()).map_err(|error| Failure::usage(format!("-c {count}: {error}")))
        }
    }
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

/// Which tables are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// `-v`.
    verbose: bool,
    /// `--latency`.
    latency: bool,
    /// `--profile-lines`.
    lines: bool,
}

impl Shown {
    /// Those that the command line wants.
    pub(crate) fn of(history: &HistoryArgs, verbose: bool) -> Shown {
        Shown { verbose, latency: history.latency, lines: false }
    }
}

/// The tables of one run.
pub(crate) fn tables(document: &Document, Shown { verbose, latency, lines }: Shown) -> String {
    let (run, goals) = (&document.runs[0], &document.goals);
    let mut text = run_summary(run);
    text.push('\n');
    text.push_str(&metrics_table(run));
    let validation = validation_text(run);
    if !validation.is_empty() {
        text.push_str(&format!("\n{validation}"));
    }
    let longest = longest_waits(run);
    if !longest.is_empty() {
        text.push_str(&format!("\n{longest}"));
    }
    // What a scheduler's author looks for comes first, and long lists last. A real run has costs where they were asked for.
    if (verbose || run.backend != Backend::Sim) && !run.callbacks.is_empty() {
        text.push_str(&format!("\n{}", callbacks_table(run)));
    }
    if verbose && !run.counters.is_empty() {
        text.push_str(&format!("\n{}", counters_table(run)));
    }
    if !run.tasks.is_empty() {
        text.push('\n');
        text.push_str(&tasks_table(run, if verbose { TASKS_SHOWN_VERBOSE } else { TASKS_SHOWN }));
    }
    if latency {
        text.push_str(&format!("\n{}", latency_table(run)));
    }
    if let Some(waits) = &run.waits {
        let limit = if verbose { usize::MAX } else { PAIRS_SHOWN };
        text.push_str(&format!("\nWho waited for whom\n{}", waits_table(waits, 0, limit)));
    }
    if verbose {
        text.push_str(&format!("\n{}", waits_by_group_table(run)));
        if !latency {
            text.push_str("--latency has a line for each task\n");
        }
        text.push_str(&scheduler_tables(run, |_| true));
    } else if lines {
        text.push_str(&scheduler_tables(run, |name| name.starts_with("lines")));
    }
    let printed = printed_text(run, if verbose { usize::MAX } else { 0 });
    if !printed.is_empty() {
        text.push_str(&format!("\n{printed}"));
    }
    let loader = loader_text(run, verbose);
    if !loader.is_empty() {
        text.push_str(&format!("\n{loader}"));
    }
    text.push_str(&goals_text(goals));
    text.push_str(&after_ejection_text(run));
    let warnings: Vec<String> = run.warnings.iter().map(|warning| warning.text.clone()).collect();
    text.push_str(&warnings_text(&warnings));
    if !run.exit.dump.is_empty() && (verbose || run.exit.kind.is_ejection()) {
        let limit = if verbose { usize::MAX } else { DUMP_LINES_SHOWN };
        text.push_str(&format!("\nDump:\n{}", first_lines(run.exit.dump.trim_end(), limit)));
    }
    text
}
