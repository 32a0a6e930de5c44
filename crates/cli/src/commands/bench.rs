//! `bench`: a command of the user's under several schedulers, which take turns.

use super::compare::{Real, contestants, in_turn, once, vm_cpus};
use super::run::tell;
use crate::args::BenchArgs;
use crate::confine::Named;
use crate::cpu_counts::CpuCounts;
use crate::gate::Gate;
use crate::results::Results;
use crate::typed::without_vm;
use schedlab_lab::failure::Failure;
use schedlab_lab::run::command::{CommandRun, GuestBench};
use schedlab_lab::run::real::Looks;
use schedlab_lab::run::simulation::ejection;
use schedlab_lab::run::trust::strict;
use schedlab_lab::scheduler::Scheduler;
use schedlab_lab::scheduler::entry;
use schedlab_lab::scheduler::own_loader;
use schedlab_live::command::Streams;
use schedlab_live::load::check_machine;
use schedlab_report::{Document, add_falls_behind, compare as compare_runs, comparison_text, seed_warnings};
use schedlab_trace::{Backend, RunRecord};

/// What is shown without `-v`.
const SHOWN: [&str; 7] = [
    "elapsed",
    "user",
    "system",
    "context_switches",
    "migrations",
    "wakeup_latency_ns_p50",
    "wakeup_latency_ns_p99",
];

/// Runs and prints.
pub(crate) fn bench(args: &BenchArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    without_vm(&args.machine, args.vm)?;
    let results = Results::new(&args.results)?;
    let gate = Gate::new(&args.gate, &[], args.runs.get())?;
    gate.distinct(&results, None)?;
    let names = entry::names(&entry::split(&args.schedulers)?)?;
    Named::new().inputs(names).results(&args.results).gate(&args.gate).spare_inputs()?;
    gate.conditions().check_metrics(&SHOWN)?;
    let schedulers = contestants(&args.schedulers, &args.settings, &args.swap, 2)?;
    own_loader::check_real(&schedulers)?;
    once("-c", &CpuCounts::all(&args.cpus))?;
    let (mut runs, failed) =
        if args.vm { in_vm(args, &schedulers, quiet)? } else { here(args, &schedulers, quiet)? };
    if let (Some(failure), true) = (&failed, runs.is_empty()) {
        return Err(failure.clone());
    }
    add_falls_behind(&mut runs);
    let comparisons = compare_runs(&runs, args.verdict.confidence, args.verdict.at_least);
    let warnings = seed_warnings(&runs);
    let document = Document { runs, comparisons, warnings, ..Document::default() };
    let own = |_: &str, metric: &str| SHOWN.contains(&metric);
    let shown = comparison_text(&document, own, verbose);
    let (written, passed) = gate.finish(&results, &shown, &document, own, Vec::new());
    let strict = strict(&document, args.results.strict);
    failed.map_or_else(|| ejection(&document), Err).and(written).and(strict).and(passed)
}

/// One run of the command under each scheduler, as many times as is wanted; the first rounds warm up and do not count.
fn rounds(args: &BenchArgs) -> impl Iterator<Item = (u64, bool)> {
    let (warmup, runs) = (args.warmup as u64, args.runs.get() as u64);
    (0..warmup + runs).map(move |round| (round.saturating_sub(warmup) + 1, round < warmup))
}

/// The runs on this machine's kernel.
fn here(args: &BenchArgs, schedulers: &[Scheduler], quiet: bool) -> Result<Real, Failure> {
    if schedulers.iter().any(|scheduler| scheduler.object.is_some()) {
        // Before the runs that need none of it.
        check_machine()?;
    }
    let backend = if args.as_guest { Backend::Vm } else { Backend::Host };
    let mut runs = Vec::new();
    for (seed, warms_up) in rounds(args) {
        for scheduler in schedulers {
            let run = CommandRun {
                scheduler: scheduler.clone(),
                command: args.command.clone(),
                looks: Looks::default(),
                seed,
            };
            let round = if warms_up { "warm-up".to_string() } else { format!("run {seed}") };
            let make = move || match run.here(Streams::Silent, backend, quiet || warms_up)? {
                (_, Some(failure)) => Err(failure),
                (record, None) => Ok(record),
            };
            runs.push((format!("{}, {round}", scheduler.label()), make));
        }
    }
    let (records, failed) = in_turn(&runs, quiet);
    let warm = args.warmup * schedulers.len();
    Ok((records.into_iter().skip(warm).collect(), failed))
}

/// The runs in a VM for each number of CPUs, booted once for all of them.
fn in_vm(args: &BenchArgs, schedulers: &[Scheduler], quiet: bool) -> Result<Real, Failure> {
    let mut records: Vec<RunRecord> = Vec::new();
    for cpus in vm_cpus(&args.cpus) {
        let job = GuestBench {
            schedulers,
            command: &args.command,
            with: &args.with,
            runs: args.runs.get(),
            warmup: args.warmup,
        };
        let options = args.machine.options(cpus);
        let (more, failed) = job.boot(options, &mut |line| tell(line, quiet))?;
        records.extend(more);
        if failed.is_some() {
            return Ok((records, failed));
        }
    }
    Ok((records, None))
}
