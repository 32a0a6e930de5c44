//! `sim`: one simulated run.

use crate::args::{SetupArgs, SimArgs};
use crate::confine::Named;
use crate::output;
use crate::progress::{Planned, RunProgress, announce};
use crate::results::{Results, command_line};
use schedlab_base::Machine;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::{self, Target};
use schedlab_lab::hunt::{Again, Case, CaseFile, Property};
use schedlab_lab::machine::kernels;
use schedlab_lab::run::deadline::{Deadline, TimeLimit};
use schedlab_lab::run::defect;
use schedlab_lab::run::interleave;
use schedlab_lab::run::record;
use schedlab_lab::run::simulation::{Simulation, Watch, Watched, announce_engine, ejection, judged};
use schedlab_lab::run::streams::Streams;
use schedlab_lab::run::trust::strict;
use schedlab_lab::run::view::{self, Wanted, no_priorities};
use schedlab_lab::scheduler::Scheduler;
use schedlab_lab::scheduler::entry;
use schedlab_lab::scheduler::run_prog;
use schedlab_lab::scheduler::swap_scope;
use schedlab_lab::shipped;
use schedlab_live::signals::LastWords;
use schedlab_report::{RecordOf, RunTables, priorities_svg, run_text};
use schedlab_trace::RunRecord;
use schedlab_workload::Scenario;
use std::num::NonZeroUsize;

/// What an interrupted run says.
const INTERRUPTED: &str = "\nschedlab: interrupted: nothing is kept, result files are as they were; --duration ends a run with its results\n";

/// Runs and prints.
pub(crate) fn sim(args: &SimArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    let results = Results::new(&args.results)?;
    let streams = Streams::new(
        args.perfetto.as_deref(),
        args.sched_samples.as_deref(),
        args.history.timehist.as_deref(),
        args.record.record.as_deref(),
    )?;
    let pictured = args.priorities.as_deref().map(|path| Target::new("--priorities", path)).transpose()?;
    let others = || streams.targets().chain(&pictured);
    target::distinct(results.targets().chain(others()))?;
    args.history.has_room(results.targets().chain(others()))?;
    let given = Given::new(args)?;
    confine(args, &given, quiet)?;
    let limit = TimeLimit(args.host.time_limit);
    let deadline = limit.begin(&format!("run of {} under {}", given.scheduler, given.workload))?;
    let (simulation, scenario, case) = simulation(args, &given)?;
    // Of a case that runs under the kernel's own class only the load is left.
    let kept = case.as_ref().filter(|_| simulation.scheduler.object.is_some());
    let seed = args.interleave.or_else(|| kept.and_then(|case| case.interleave));
    let simulation = match seed {
        Some(seed) => interleaved(simulation, &scenario, seed, &deadline, quiet)?,
        None => simulation,
    };
    let again = case.as_ref().map(|case| Again::new(case, given.property()));
    if simulation.scheduler.object.is_some() {
        announce_engine(simulation.engine, quiet);
    }
    deadline.check(&simulation.describe())?;
    let planned = Planned::one(&given.workload, &scenario, simulation.limit);
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
    watch.sinks.extend(again.iter().map(Again::sink));
    let open = streams.open(&scenario, &simulation.machine, &mut watch)?;
    let run = defect::guard(|| simulation.describe(), || simulation.run_watched(&scenario, watch));
    drop(deadline);
    progress.borrow().finish();
    let Watched { record, extra_tables, .. } = run?;
    if let (Some(file), Some(again), false) = (&given.case, &again, quiet) {
        output::note(&shown_again(file, again, &record));
    }
    let mut document = judged(record, &scenario.goals);
    let extra = vec![extra_tables];
    let about = || record::about(RecordOf::Run, command_line(), &document, extra.clone());
    let streamed = open.finish(&document, about);
    let (lines, latency, waits) = (args.profile_lines, args.history.latency, args.explain_waits);
    view::only(&mut document, &extra, Wanted { contents: verbose, lines, waits, priorities });
    let in_their_place = others().any(Target::is_stdout);
    let tables = if in_their_place {
        String::new()
    } else {
        run_text(&document, RunTables { verbose, latency, lines })
    };
    let written = results.write(&tables, &document, &[]);
    let pictured = pictured.map_or(Ok(()), |target| write_priorities(&target, &document.runs[0]));
    let ejected = ejection(&document)
        .map_err(|failure| simulation.scheduler.with_cure(failure, &document.runs[0].exit));
    let strict = strict(&document, args.results.strict);
    ejected.and(written).and(streamed).and(pictured).and(strict)
}

/// The run with the pauses that a seed draws for it.
fn interleaved(
    simulation: Simulation,
    scenario: &Scenario,
    seed: u64,
    deadline: &Deadline,
    quiet: bool,
) -> Result<Simulation, Failure> {
    if simulation.scheduler.object.is_none() {
        return Err(Failure::usage("--interleave: the kernel's own class has no callbacks to pause"));
    }
    let what = simulation.describe();
    let draw = || interleave::with_pauses(simulation, scenario, seed, &deadline.stop());
    let simulation = defect::guard(|| what, draw)?;
    if simulation.pauses.as_ref().is_none_or(Vec::is_empty) && !quiet {
        output::note("--interleave: no callback of this run can be paused; it is the run without the option");
    }
    Ok(simulation)
}

/// What the command line names, or the case that it names.
struct Given {
    scheduler: String,
    workload: String,
    case: Option<CaseFile>,
}

impl Given {
    /// The names in the command line, or in the file of `--case`. The file alone is read before the command gives up its rights, and
    /// no more of it than names.
    fn new(args: &SimArgs) -> Result<Given, Failure> {
        let case = args.case.as_deref().map(CaseFile::read).transpose()?;
        let scheduler = match &case {
            Some(case) => case.entry(args.scheduler.as_deref())?,
            None => args.scheduler.clone().unwrap_or_default(),
        };
        let shown = args.case.as_ref().map(|path| path.display().to_string());
        let workload = args.workload.clone().or(shown).unwrap_or_default();
        Ok(Given { scheduler, workload, case })
    }

    /// What the case shows.
    fn property(&self) -> Option<Property> {
        self.case.as_ref()?.trouble().property
    }
}

/// Whether a case shows what it was kept for.
fn shown_again(file: &CaseFile, again: &Again<'_>, record: &RunRecord) -> String {
    let was = file.trouble();
    let found = again.troubles(record).into_iter().find(|one| one.is_like(&was));
    let same = match (&file.trace, &record.trace_hash) {
        (Some(was), Some(now)) if was == now => "the same run",
        _ => "another run than the one that was kept",
    };
    match found {
        None if file.compares() => format!(
            "the case compares two schedulers ({}), which one run does not show ({same}); it was: {}",
            file.property, file.saw
        ),
        Some(found) => format!("the case shows {} again ({same}): {}", file.property, found.words),
        None => format!("the case does not show {} ({same}); it was: {}", file.property, file.saw),
    }
}

/// The run that the command line describes, with its scenario; and its case, if it is one.
fn simulation(args: &SimArgs, given: &Given) -> Result<(Simulation, Scenario, Option<Case>), Failure> {
    let mut schedulers = Scheduler::find_all(std::slice::from_ref(&given.scheduler), &args.setup.settings)?;
    swap_scope::restrict(&mut schedulers, &args.setup.swap.types, &args.setup.swap.exclude)?;
    run_prog::give(&mut schedulers, &args.setup.programs)?;
    let mut scheduler = schedulers.remove(0);
    scheduler.restore(args.state.as_deref())?;
    scheduler.meanwhile(&args.meanwhile.wanted())?;
    scheduler.attach_subs(&args.subs.sub)?;
    let made = |simulation: Simulation| Simulation {
        engine: args.setup.engine.into(),
        guest_memory: args.setup.guest_memory.0,
        after_ejection: args.setup.after_ejection.into(),
        ..simulation
    };
    if let Some(file) = &given.case {
        if args.scheduler.is_none() {
            file.check(&scheduler)?;
        }
        let case = file.case()?;
        let simulation = made(case.simulation(&scheduler)?);
        return Ok((simulation, case.scenario.clone(), Some(case)));
    }
    let machine = machine(&args.setup, args.kernel.as_deref(), args.cpus)?;
    let simulation = made(Simulation {
        seed: args.setup.seed,
        limit: args.setup.duration,
        checkers: args.checkers,
        ..Simulation::new(scheduler, &given.workload, machine)
    });
    let scenario = simulation.scenario()?;
    simulation.scheduler.check_subs(&simulation.workload, &scenario)?;
    Ok((simulation, scenario, None))
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

/// Gives up what the run does not need.
fn confine(args: &SimArgs, given: &Given, quiet: bool) -> Result<(), Failure> {
    let setup = &args.setup;
    let entries: Vec<String> = std::iter::once(given.scheduler.clone()).chain(args.subs.names()?).collect();
    let schedulers = entry::names(&entries)?;
    let inputs = schedulers.iter().chain([&given.workload, &setup.machine]);
    let named = Named::new().inputs(inputs).inputs(&args.state).results(&args.results);
    let others =
        [&args.perfetto, &args.sched_samples, &args.priorities, &args.history.timehist, &args.record.record];
    named.outputs(others).enter(&args.host.sandbox, quiet)?;
    Ok(())
}

/// Writes the picture of `--priorities`.
fn write_priorities(target: &Target, run: &RunRecord) -> Result<(), Failure> {
    target.write(&priorities_svg(run).ok_or_else(|| no_priorities("--priorities", &run.scheduler))?)
}

/// The machine of `-m` with the kernel of `--kernel` and the CPUs of `-c`.
pub(crate) fn machine(
    setup: &SetupArgs,
    kernel: Option<&str>,
    cpus: Option<NonZeroUsize>,
) -> Result<Machine, Failure> {
    kernels::with(shipped::machine(&setup.machine)?.machine, kernel, cpus.map(NonZeroUsize::get))
}
