//! `run`: a scheduler on a real kernel, with a workload or a command under it.

use crate::args::RunArgs;
use crate::confine::Named;
use crate::output;
use crate::progress::{Planned, announce};
use crate::results::{Results, command_line};
use crate::typed::{only_simulated, without_vm};
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::{self, Target};
use schedlab_lab::run::command::CommandRun;
use schedlab_lab::run::real::{Looks, RealRun, VmOptions};
use schedlab_lab::run::record;
use schedlab_lab::run::recorded::{self, RealRecord};
use schedlab_lab::run::simulation::{ejection, judged};
use schedlab_lab::run::timehist;
use schedlab_lab::run::trust::strict;
use schedlab_lab::scheduler::Scheduler;
use schedlab_lab::scheduler::entry;
use schedlab_lab::scheduler::own_loader;
use schedlab_lab::scheduler::run_prog;
use schedlab_lab::scheduler::swap_scope;
use schedlab_lab::workload::scenario;
use schedlab_live::command::Streams;
use schedlab_report::{RecordOf, RunTables, run_text};
use schedlab_trace::{Backend, RunRecord};
use schedlab_workload::Scenario;

/// CPUs of a VM without `-c`. Chosen: what makes a scheduler one for several CPUs.
pub(crate) const VM_CPUS: u32 = 2;

/// Runs and prints.
pub(crate) fn run(args: &RunArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    without_vm(&args.machine, args.vm)?;
    let results = Results::new(&args.results)?;
    let looks = looks(args, &results)?;
    let entries: Vec<String> = std::iter::once(args.scheduler.clone()).chain(args.subs.names()?).collect();
    let schedulers = entry::names(&entries)?;
    let named = Named::new().inputs(schedulers.iter().chain(&args.workload)).inputs(&args.state);
    named.results(&args.results).outputs([&args.history.timehist, &args.record.record]).spare_inputs()?;
    only_simulated(args.after_ejection)?;
    let mut schedulers = Scheduler::find_all(std::slice::from_ref(&args.scheduler), &args.settings)?;
    swap_scope::restrict(&mut schedulers, &args.swap.types, &args.swap.exclude)?;
    run_prog::give(&mut schedulers, &args.programs)?;
    let mut scheduler = schedulers.remove(0);
    scheduler.restore(args.state.as_deref())?;
    scheduler.meanwhile(&args.meanwhile.wanted())?;
    scheduler.attach_subs(&args.subs.sub)?;
    if args.workload.is_none() && !scheduler.subs.is_empty() {
        let text = "--sub: a command has no groups; give a workload that has some (-w, [[groups]])";
        return Err(Failure::usage(text));
    }
    own_loader::check_real(std::slice::from_ref(&scheduler))?;
    if args.cpus.is_some() && !args.vm {
        let text = "-c: a real machine has the CPUs that it has; with --vm it is the VM's number of CPUs";
        return Err(Failure::usage(text));
    }
    let (mut failed, mut goals) = (None, Vec::new());
    let run = match &args.workload {
        Some(workload) => {
            let scenario = planned(workload, args, quiet)?;
            scheduler.check_real_subs(workload, &scenario)?;
            goals = scenario.goals;
            let run = RealRun {
                scheduler: scheduler.clone(),
                workload: workload.clone(),
                seed: args.seed,
                limit: args.duration,
                looks: looks.clone(),
            };
            real_run(&run, args, quiet)?
        }
        None => {
            let run = command(scheduler.clone(), &looks, args)?;
            let streams = args.command_output.as_deref().map_or(Streams::Inherited, Streams::Into);
            let (run, ended) = if args.vm {
                run.in_vm((&args.with, args.warmup), &vm_options(args), &mut |line| tell(line, quiet))?
            } else {
                run.warm_up(args.warmup, backend(args))?;
                run.here(streams, backend(args), quiet)?
            };
            failed = ended;
            run
        }
    };
    let document = judged(run, &goals);
    let in_their_place = looks.timehist.as_ref().is_some_and(Target::is_stdout);
    let shown = RunTables { verbose, latency: args.history.latency, lines: false };
    let shown = if in_their_place { String::new() } else { run_text(&document, shown) };
    let written = results.write(&shown, &document, &[]);
    let about = || record::about(RecordOf::Run, command_line(), &document, Vec::new());
    let recorded = looks.record.as_ref().map_or(Ok(()), |record| record.finish(&document, about()));
    let ended = failed.map_or(Ok(()), Err);
    let strict = strict(&document, args.results.strict);
    ejection(&document)
        .map_err(|failure| scheduler.with_cure(failure, &document.runs[0].exit))
        .and(ended)
        .and(written)
        .and(recorded)
        .and(strict)
}

/// The workload of a run, whose length is told beforehand where it is known and much.
fn planned(workload: &str, args: &RunArgs, quiet: bool) -> Result<Scenario, Failure> {
    let scenario = scenario(workload, args.seed, args.duration)?;
    // The command outside of a VM has announced what the one inside does.
    let planned = Planned::one(workload, &scenario, args.duration);
    announce(&[planned], true, quiet || args.as_guest);
    Ok(scenario)
}

/// What is wanted of the run besides its figures, each with a place of its own.
fn looks(args: &RunArgs, results: &Results) -> Result<Looks, Failure> {
    let timehist = timehist::target(args.history.timehist.as_deref())?;
    let record = recorded::target(args.record.record.as_deref())?;
    let others = || timehist.iter().chain(&record);
    target::distinct(results.targets().chain(others()))?;
    args.history.has_room(results.targets().chain(others()))?;
    let (explain_waits, callbacks) = (args.explain_waits, args.callbacks);
    Ok(Looks { explain_waits, callbacks, record: record.map(RealRecord::new), timehist })
}

fn real_run(run: &RealRun, args: &RunArgs, quiet: bool) -> Result<RunRecord, Failure> {
    if !args.vm {
        return run.here(backend(args), quiet);
    }
    run.in_vm(&vm_options(args), &mut |line| tell(line, quiet))
}

fn backend(args: &RunArgs) -> Backend {
    if args.as_guest { Backend::Vm } else { Backend::Host }
}

fn vm_options(args: &RunArgs) -> VmOptions {
    let cpus = args.cpus.map_or(VM_CPUS, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    args.machine.options(cpus)
}

/// A line of progress, unless none is wanted.
pub(super) fn tell(line: &str, quiet: bool) {
    if !quiet {
        output::note(line);
    }
}

fn command(scheduler: Scheduler, looks: &Looks, args: &RunArgs) -> Result<CommandRun, Failure> {
    if args.duration.is_some() {
        let text =
            "--duration is for workloads; put timeout(1) in front of the command: -- timeout 10 COMMAND";
        return Err(Failure::usage(text));
    }
    Ok(CommandRun { scheduler, command: args.command.clone(), looks: looks.clone(), seed: args.seed })
}
