//! `run`: a scheduler on a real kernel, with a workload or a command under it.

use super::compare::only_simulated;
use super::sim::tables;
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::output;
use crate::real::{RealRun, VmOptions, record, run_here};
use crate::results::Results;
use crate::scheduler::Scheduler;
use crate::simulation::ejection;
use crate::swap_scope;
use crate::trust::{provenance, strict};
use schedlab_live::session::Work;
use schedlab_report::Document;
use schedlab_trace::{Backend, RunRecord, WorkloadRecord};

/// CPUs of a VM without `-c`. Chosen: what makes a scheduler one for several CPUs.
pub(crate) const VM_CPUS: u32 = 2;

/// Runs and prints.
pub(crate) fn run(args: &RunArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    let results = Results::new(&args.results)?;
    only_simulated(args.after_ejection)?;
    let mut schedulers = Scheduler::find_all(std::slice::from_ref(&args.scheduler), &args.settings)?;
    swap_scope::restrict(&mut schedulers, &args.swap)?;
    let mut scheduler = schedulers.remove(0);
    scheduler.change(&args.changes)?;
    if args.cpus.is_some() && !args.vm {
        let text = "-c: a real machine has the CPUs that it has; with --vm it is the VM's number of CPUs";
        return Err(Failure::usage(text));
    }
    let mut code = None;
    let run = match &args.workload {
        Some(workload) => {
            let run = RealRun {
                scheduler: scheduler.clone(),
                workload: workload.clone(),
                seed: args.seed,
                limit: args.duration,
                explain_waits: args.explain_waits,
            };
            real_run(&run, args, quiet)?
        }
        None if args.vm => {
            let text =
                "a VM holds this command and its objects only: with --vm give a workload (-w), no command";
            return Err(Failure::usage(text));
        }
        None => {
            let (run, ended) = command(&scheduler, args, quiet)?;
            code = Some(ended);
            run
        }
    };
    let document = Document { runs: vec![run], ..Document::default() };
    let written = results.write(&tables(&document.runs[0], verbose), &document, &[]);
    let ended = code.map_or(Ok(()), |code| command_failure(&args.command[0], code));
    let strict = strict(&document, args.results.strict);
    ejection(&document).map_err(|failure| scheduler.with_cure(failure)).and(ended).and(written).and(strict)
}

fn real_run(run: &RealRun, args: &RunArgs, quiet: bool) -> Result<RunRecord, Failure> {
    if !args.vm {
        return run.here(if args.as_guest { Backend::Vm } else { Backend::Host }, quiet);
    }
    let cpus = args.cpus.map_or(VM_CPUS, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    run.in_vm(&VmOptions::new(cpus, &args.machine), &mut |line| {
        if !quiet {
            output::note(line);
        }
    })
}

/// Runs a command under the scheduler and takes its time.
fn command(scheduler: &Scheduler, args: &RunArgs, quiet: bool) -> Result<(RunRecord, i32), Failure> {
    if args.duration.is_some() {
        let text =
            "--duration is for workloads; put timeout(1) in front of the command: -- timeout 10 COMMAND";
        return Err(Failure::usage(text));
    }
    let result = run_here(scheduler, Work::Command(&args.command), args.explain_waits, quiet)?;
    let code = result.exit_code.unwrap_or(0);
    let params = vec![("command".to_string(), args.command.join(" "))];
    let workload = WorkloadRecord { name: "command".to_string(), params };
    let made_of = provenance(scheduler, None, None);
    Ok((record(scheduler, (workload, args.seed), Backend::Host, made_of, result), code))
}

fn command_failure(program: &str, code: i32) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    Err(Failure::failed(format!("command {program} ended with code {code}")))
}
