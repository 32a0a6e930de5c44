//! `compare`: a matrix of runs, each scheduler against the first.

use super::run::VM_CPUS;
use super::sim::machine;
use crate::args::{AfterEjection, CompareArgs, CpuCounts, SwapArgs};
use crate::confine::Named;
use crate::deadline::TimeLimit;
use crate::entry;
use crate::failure::Failure;
use crate::progress::{Progress, announce};
use crate::real::{Looks, RealRun, VmOptions};
use crate::results::Results;
use crate::scheduler::Scheduler;
use crate::simulation::{Simulation, ejection};
use crate::swap_scope;
use crate::sweep::{Made, sweep};
use crate::trust::strict;
use crate::workload::{fixed_end, scenario};
use schedlab_base::DurationNs;
use schedlab_live::load::check_machine;
use schedlab_report::{
    Comparison, Document, advice, compare as compare_runs, comparison_table, metrics_table, run_summary,
    seed_warnings, warnings_text,
};
use schedlab_trace::{Backend, RunRecord};
use std::fmt::Display;

/// Runs and prints.
pub(crate) fn compare(args: &CompareArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    let results = Results::new(&args.results)?;
    let setup = &args.setup;
    let simulated = !args.live && !args.vm;
    if simulated {
        let names = entry::names(&entry::split(&args.schedulers)?)?;
        let inputs = names.iter().chain([&setup.workload, &setup.machine]);
        let named = Named::new().inputs(inputs).results(&args.results).resume(&args.sweep.resume);
        named.enter(&args.host.sandbox, verbose);
    }
    let schedulers = contestants(&args.schedulers, &setup.settings, &setup.swap)?;
    once("-c", &CpuCounts::all(&args.cpus))?;
    let scenario = scenario(&setup.workload, setup.seed, setup.duration)?;
    let end = fixed_end(&scenario, setup.duration);
    let own: Vec<String> = scenario.metrics.into_iter().map(|metric| metric.name).collect();
    let shown = |name: &str| verbose || own.iter().any(|own| own == name);
    let (document, lost, failed) = if simulated {
        let Some(made) = simulated_runs(args, &schedulers, end, quiet)? else { return Ok(()) };
        let comparisons = compare_runs(
            &complete(&made.records, &schedulers, args),
            args.verdict.confidence,
            args.verdict.at_least,
        );
        let (lost, failed) = (made.told(), made.failure());
        let runs = made.records.into_iter().flatten().collect();
        (Document { runs, comparisons, ..Document::default() }, lost, failed)
    } else {
        only_simulated(setup.after_ejection)?;
        let (runs, failed) = match real_runs(args, &schedulers, end, quiet)? {
            (runs, Some(failure)) if runs.is_empty() => return Err(failure),
            made => made,
        };
        let comparisons = compare_runs(&runs, args.verdict.confidence, args.verdict.at_least);
        (Document { runs, comparisons, ..Document::default() }, String::new(), failed)
    };
    let warnings = seed_warnings(&document.runs);
    let document = Document { warnings, ..document };
    let mut text = tables(&document, &own, verbose) + &lost;
    if failed.is_some() {
        text.push_str(&finished(&document.runs, shown));
    }
    let written = results.write(&text, &document, &[]);
    let strict = strict(&document, args.results.strict);
    failed.map_or_else(|| ejection(&document), Err).and(written).and(strict)
}

/// Makes the runs of a simulated comparison.
fn simulated_runs(
    args: &CompareArgs,
    schedulers: &[Scheduler],
    end: Option<DurationNs>,
    quiet: bool,
) -> Result<Option<Made>, Failure> {
    let limit = TimeLimit(args.host.time_limit);
    let runs = matrix(args, schedulers)?;
    if schedulers.iter().any(|scheduler| scheduler.object.is_some()) {
        args.setup.engine.announce(quiet);
    }
    // One seed of each scheduler and machine is enough to find a mistake early.
    for simulation in runs.iter().step_by(args.runs.get()) {
        simulation.check(limit)?;
    }
    announce(runs.len(), end, false, quiet);
    sweep(&runs, &args.sweep, limit, quiet)
}

/// The runs that can be compared: all of a scheduler and number of CPUs, or none, since those that are lost are the long
/// ones; and none on that number of CPUs without the baseline.
fn complete(records: &[Option<RunRecord>], schedulers: &[Scheduler], args: &CompareArgs) -> Vec<RunRecord> {
    let runs = args.runs.get();
    let whole = |group: &&[Option<RunRecord>]| group.iter().all(Option::is_some);
    let by_cpus = records.chunks(runs * schedulers.len());
    let compared = by_cpus.filter(|group| group.chunks(runs).take(1).all(|baseline| whole(&baseline)));
    compared.flat_map(|group| group.chunks(runs)).filter(whole).flatten().flatten().cloned().collect()
}

/// The schedulers of a comparison, the baseline first, each with a name of its own.
///
/// # Errors
/// Fewer than two, and what [`Scheduler::find_all`] refuses.
pub(super) fn contestants(
    lists: &[String],
    settings: &[String],
    swap: &SwapArgs,
) -> Result<Vec<Scheduler>, Failure> {
    let entries = entry::split(lists)?;
    if entries.len() < 2 {
        let text = "-s needs two schedulers or more to compare, as in -s vanilla,o1; `schedlab sim` and `schedlab run` take one";
        return Err(Failure::usage(text));
    }
    let mut schedulers = Scheduler::find_all(&entries, settings)?;
    swap_scope::restrict(&mut schedulers, swap)?;
    Scheduler::distinct(&mut schedulers)?;
    Ok(schedulers)
}

/// The numbers of CPUs of VMs.
pub(super) fn vm_cpus(list: &[CpuCounts]) -> Vec<u32> {
    match CpuCounts::all(list).as_slice() {
        [] => vec![VM_CPUS],
        counts => counts.iter().map(|count| u32::try_from(count.get()).unwrap_or(u32::MAX)).collect(),
    }
}

/// Refuses what a real run cannot do: its figures cannot be split.
pub(crate) fn only_simulated(after_ejection: AfterEjection) -> Result<(), Failure> {
    if after_ejection == AfterEjection::Stop {
        return Ok(());
    }
    let text = "--after-ejection continue: a real run ends when its scheduler is ejected; leave the flag out, or simulate";
    Err(Failure::usage(text))
}

/// Refuses what is named twice: the same runs would count as several.
pub(super) fn once<T: PartialEq + Display>(option: &str, named: &[T]) -> Result<(), Failure> {
    let twice = named.iter().enumerate().find(|(at, one)| named[..*at].contains(one));
    twice
        .map_or(Ok(()), |(_, one)| Err(Failure::usage(format!("{option} names {one} twice; once is enough"))))
}

/// CPU counts, then schedulers, then seeds.
fn matrix(args: &CompareArgs, schedulers: &[Scheduler]) -> Result<Vec<Simulation>, Failure> {
    let counts = CpuCounts::all(&args.cpus);
    let counts = if counts.is_empty() { vec![None] } else { counts.into_iter().map(Some).collect() };
    let mut runs = Vec::new();
    for count in counts {
        let machine = machine(&args.setup, count)?;
        for scheduler in schedulers {
            for run in 0..args.runs.get() as u64 {
                runs.push(Simulation {
                    scheduler: scheduler.clone(),
                    workload: args.setup.workload.clone(),
                    machine: machine.clone(),
                    seed: args.setup.seed.wrapping_add(run),
                    limit: args.setup.duration,
                    checkers: false,
                    engine: args.setup.engine,
                    guest_memory: args.setup.guest_memory,
                    after_ejection: args.setup.after_ejection,
                    sampling: None,
                });
            }
        }
    }
    Ok(runs)
}

/// Runs that have finished, and why there are no more, if there were to be.
pub(super) type Real = (Vec<RunRecord>, Option<Failure>);

/// Real runs, one after the other. The schedulers take turns, so that whatever else
/// changes on the machine meets all of them.
///
/// # Errors
/// A machine that cannot do any of them.
fn real_runs(
    args: &CompareArgs,
    schedulers: &[Scheduler],
    end: Option<DurationNs>,
    quiet: bool,
) -> Result<Real, Failure> {
    if args.live && schedulers.iter().any(|scheduler| scheduler.object.is_some()) {
        // Before the runs that need none of it.
        check_machine()?;
    }
    let mut runs = Vec::new();
    for cpus in vm_cpus(&args.cpus) {
        for run in 0..args.runs.get() as u64 {
            for scheduler in schedulers {
                let seed = args.setup.seed.wrapping_add(run);
                let place = if args.vm { format!(" on {cpus} CPUs") } else { String::new() };
                let make = move || {
                    let run = RealRun {
                        scheduler: scheduler.clone(),
                        workload: args.setup.workload.clone(),
                        seed,
                        limit: args.setup.duration,
                        looks: Looks::default(),
                    };
                    if args.vm {
                        run.in_vm(&VmOptions::new(cpus, &args.machine), &mut |_| {})
                    } else {
                        run.here(Backend::Host, quiet)
                    }
                };
                runs.push((format!("{}{place}, seed {seed}", scheduler.label()), make));
            }
        }
    }
    announce(runs.len(), end, true, quiet);
    Ok(in_turn(&runs, quiet))
}

/// Makes runs, each with what it is, until one fails; the failure names it.
pub(super) fn in_turn(runs: &[(String, impl Fn() -> Result<RunRecord, Failure>)], quiet: bool) -> Real {
    let total = runs.len();
    let progress = Progress::new("running", Some(total as u64), quiet);
    let mut records = Vec::with_capacity(total);
    let mut failed = None;
    for (what, make) in runs {
        match make() {
            Ok(record) => records.push(record),
            Err(Failure { code, text }) => {
                let text = format!("run {} of {total} ({what}): {text}", records.len() + 1);
                failed = Some(Failure { code, text });
                break;
            }
        }
        progress.set(records.len() as u64, format!("{} of {total} runs", records.len()));
    }
    progress.finish();
    (records, failed)
}

/// The runs that a failed comparison has made, with the metrics that are to be shown.
fn finished(runs: &[RunRecord], shown: impl Fn(&str) -> bool) -> String {
    let mut text = String::from("\nFinished:\n");
    for run in runs {
        let mut run = run.clone();
        run.metrics.retain(|metric| shown(&metric.name));
        text.push_str(&run_summary(&run));
        text.push_str(&metrics_table(&run));
    }
    text
}

/// The workload's own metrics, or all with `-v`, with advice where they show little.
pub(super) fn tables(document: &Document, own: &[String], verbose: bool) -> String {
    let shown: Vec<Comparison> =
        document.comparisons.iter().filter(|c| verbose || own.contains(&c.metric)).cloned().collect();
    let mut text = comparison_table(&shown);
    let ejected: Vec<_> = document.runs.iter().filter(|run| run.exit.kind.is_ejection()).collect();
    if !ejected.is_empty() {
        text.push_str("\nLeft out, because the scheduler was ejected:\n");
        text.extend(ejected.into_iter().map(run_summary));
    }
    text.push_str(&warnings_text(&document.warnings()));
    let advice = advice(&shown);
    if !advice.is_empty() {
        text.push_str("\nWhat these runs do not show:\n");
        text.extend(advice.iter().map(|line| format!("* {line}\n")));
    }
    if shown.is_empty() {
        text.push_str("no metric to compare: every run of one side is missing or has no figure\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;
    use schedlab_report::from_json;

    /// A finished run, as results have it.
    fn record() -> RunRecord {
        let text = r#"{ "schedlab": { "version": "0", "schema": 1 }, "comparisons": [], "runs": [ {
            "scheduler": "eevdf", "settings": {}, "workload": { "name": "cpuhog", "params": {} }, "machine": "m", "cpus": 2,
            "seed": 1, "backend": "vm", "duration_ns": 5, "exit": { "kind": "none" }, "tasks": [], "trace_hash": null,
            "metrics": { "work": { "value": 7, "unit": "ms", "better": "higher" },
                         "migrations": { "value": 8, "unit": "1", "better": "neither" } } } ] }"#;
        from_json(text).unwrap().runs.remove(0)
    }

    #[test]
    fn what_has_finished_survives_a_failure() {
        let lacking = || Err(Failure::environment("no QEMU"));
        let run = |seed: u32| {
            let make = move || if seed == 3 { lacking() } else { Ok(record()) };
            (format!("eevdf, seed {seed}"), make)
        };
        let (records, failed) = in_turn(&[run(1), run(2), run(3), run(4)], true);
        assert_eq!(records, [record(), record()]);
        let failed = failed.unwrap();
        assert_eq!(
            (failed.code, failed.text.as_str()),
            (Code::Environment, "run 3 of 4 (eevdf, seed 3): no QEMU")
        );
        let told = finished(&records, |name| name == "work");
        assert_eq!(told.matches("eevdf on m").count(), 2, "{told}");
        assert!(told.contains("work") && !told.contains("migrations"), "{told}");
        assert_eq!(in_turn(&[run(1)], true), (vec![record()], None));
    }
}
