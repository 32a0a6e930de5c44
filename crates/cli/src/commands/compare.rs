//! `compare`: a matrix of runs, each scheduler against the first.

use super::run::VM_CPUS;
use super::sim::machine;
use crate::args::CompareArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::real::{RealRun, VmOptions};
use crate::results::Results;
use crate::scheduler::Scheduler;
use crate::simulation::{Simulation, ejection};
use crate::swap_scope;
use crate::sweep::sweep;
use crate::workload::scenario;
use schedlab_live::load::check_machine;
use schedlab_report::{
    Comparison, Document, advice, compare as compare_runs, comparison_table, metrics_table, run_summary,
};
use schedlab_trace::{Backend, RunRecord};
use std::fmt::Display;

/// Runs and prints.
pub(crate) fn compare(args: &CompareArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    let results = Results::new(&args.results)?;
    let schedulers = schedulers(args)?;
    let setup = &args.setup;
    let scenario = scenario(&setup.workload, setup.seed, setup.duration)?;
    let own: Vec<String> = scenario.metrics.into_iter().map(|metric| metric.name).collect();
    let (records, failed) = if args.live || args.vm {
        match real_runs(args, &schedulers, quiet)? {
            (records, Some(failure)) if records.is_empty() => return Err(failure),
            made => made,
        }
    } else {
        let runs = matrix(args, &schedulers)?;
        // One seed of each scheduler and machine is enough to find a mistake early.
        for simulation in runs.iter().step_by(args.runs.get()) {
            simulation.check()?;
        }
        let Some(records) = sweep(&runs, &args.sweep, quiet)? else { return Ok(()) };
        (records, None)
    };
    let comparisons = compare_runs(&records, args.confidence);
    let document = Document { runs: records, comparisons, ..Document::default() };
    let mut text = tables(&document, &own, verbose);
    if failed.is_some() {
        text.push_str(&finished(&document.runs, |name| verbose || own.iter().any(|own| own == name)));
    }
    let written = results.write(&text, &document, &[]);
    failed.map_or_else(|| ejection(&document), Err).and(written)
}

fn schedulers(args: &CompareArgs) -> Result<Vec<Scheduler>, Failure> {
    if args.schedulers.len() < 2 {
        return Err(Failure::usage("-s needs two schedulers or more to compare, as in -s vanilla,o1"));
    }
    let mut schedulers = Scheduler::find_all(&args.schedulers, &args.setup.settings)?;
    once("-s", &args.schedulers)?;
    once("-c", &args.cpus)?;
    swap_scope::restrict(&mut schedulers, &args.setup.swap)?;
    Ok(schedulers)
}

/// Refuses what is named twice: the same runs would count as several.
fn once<T: PartialEq + Display>(option: &str, named: &[T]) -> Result<(), Failure> {
    let twice = named.iter().enumerate().find(|(at, one)| named[..*at].contains(one));
    twice
        .map_or(Ok(()), |(_, one)| Err(Failure::usage(format!("{option} names {one} twice; once is enough"))))
}

/// CPU counts, then schedulers, then seeds.
fn matrix(args: &CompareArgs, schedulers: &[Scheduler]) -> Result<Vec<Simulation>, Failure> {
    let counts =
        if args.cpus.is_empty() { vec![None] } else { args.cpus.iter().copied().map(Some).collect() };
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
                    sampling: None,
                });
            }
        }
    }
    Ok(runs)
}

/// Runs that have finished, and why there are no more, if there were to be.
type Made = (Vec<RunRecord>, Option<Failure>);

/// Real runs, one after the other. The schedulers take turns, so that whatever else
/// changes on the machine meets all of them.
///
/// # Errors
/// A machine that cannot do any of them.
fn real_runs(args: &CompareArgs, schedulers: &[Scheduler], quiet: bool) -> Result<Made, Failure> {
    if args.live && schedulers.iter().any(|scheduler| scheduler.object.is_some()) {
        // Before the runs that need none of it.
        check_machine()?;
    }
    let counts: Vec<u32> = match args.cpus.as_slice() {
        [] => vec![VM_CPUS],
        counts => counts.iter().map(|count| u32::try_from(count.get()).unwrap_or(u32::MAX)).collect(),
    };
    let mut runs = Vec::new();
    for cpus in counts {
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
                        explain_waits: false,
                    };
                    if args.vm {
                        run.in_vm(&VmOptions::new(cpus, &args.machine), &mut |_| {})
                    } else {
                        run.here(Backend::Host, quiet)
                    }
                };
                runs.push((format!("{}{place}, seed {seed}", scheduler.name), make));
            }
        }
    }
    Ok(in_turn(&runs, quiet))
}

/// Makes runs, each with what it is, until one fails; the failure names it.
fn in_turn(runs: &[(String, impl Fn() -> Result<RunRecord, Failure>)], quiet: bool) -> Made {
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
    let mut text = String::from("\nFinished before one failed:\n");
    for run in runs {
        let mut run = run.clone();
        run.metrics.retain(|metric| shown(&metric.name));
        text.push_str(&run_summary(&run));
        text.push_str(&metrics_table(&run));
    }
    text
}

/// The workload's own metrics, or all with `-v`, with advice where they show little.
fn tables(document: &Document, own: &[String], verbose: bool) -> String {
    let shown: Vec<Comparison> =
        document.comparisons.iter().filter(|c| verbose || own.contains(&c.metric)).cloned().collect();
    let mut text = comparison_table(&shown);
    let ejected: Vec<_> = document.runs.iter().filter(|run| run.exit.kind.is_ejection()).collect();
    if !ejected.is_empty() {
        text.push_str("\nLeft out, because the scheduler was ejected:\n");
        text.extend(ejected.into_iter().map(run_summary));
    }
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
