//! `compare`: a matrix of runs, each scheduler against the first, over workloads, numbers of CPUs and seeds.

use super::run::{VM_CPUS, tell};
use super::sim::machine;
use crate::args::{CompareArgs, SwapArgs};
use crate::confine::Named;
use crate::cpu_counts::CpuCounts;
use crate::gate::Gate;
use crate::progress::swept;
use crate::progress::{Planned, Progress, announce};
use crate::results::{Results, command_line};
use crate::typed::{only_simulated, without_vm};
use schedlab_base::{Machine, counted};
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::ready_folder;
use schedlab_lab::gate::baseline::{self, Baseline};
use schedlab_lab::run::batch::in_one_vm;
use schedlab_lab::run::deadline::TimeLimit;
use schedlab_lab::run::real::{Looks, RealRun};
use schedlab_lab::run::record;
use schedlab_lab::run::recorded;
use schedlab_lab::run::simulation::{Extras, Simulation, announce_engine, ejection};
use schedlab_lab::run::sweep::{Made, check_seeds};
use schedlab_lab::run::trace_file::TraceNames;
use schedlab_lab::run::trust::strict;
use schedlab_lab::run::validated::bars_of;
use schedlab_lab::scheduler::Scheduler;
use schedlab_lab::scheduler::entry;
use schedlab_lab::scheduler::own_loader;
use schedlab_lab::scheduler::run_prog;
use schedlab_lab::scheduler::swap_scope;
use schedlab_lab::workload::loads::{Load, loads};
use schedlab_live::load::check_machine;
use schedlab_report::{
    About, Document, RecordOf, add_falls_behind, compare as compare_runs, comparison_text, explained_waits,
    finished_runs, heed_bars, judge_goals, ranking, seed_warnings,
};
use schedlab_trace::{Backend, RunRecord, Window};
use std::fmt::Display;

/// Runs and prints.
pub(crate) fn compare(args: &CompareArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    if !args.command.is_empty() {
        let text =
            "a command is compared by `schedlab bench -s A,B -- COMMAND`; name a workload with -w here";
        return Err(Failure::usage(text));
    }
    let results = Results::new(&args.results)?;
    let gate = Gate::new(&args.gate, &args.budgets, args.runs.get())?;
    let record = recorded::target(args.record.record.as_deref())?;
    gate.distinct(&results, record.as_ref())?;
    let setup = &args.setup;
    check_seeds(setup.seed, args.runs)?;
    let simulated = !args.live && !args.vm;
    args.budgets.iter().try_for_each(|budget| budget.for_runs(simulated))?;
    if simulated {
        let named = named(args)?.folder(args.perfetto.as_ref()).resume(&args.sweep.resume);
        named.enter(&args.host.sandbox, quiet)?;
    } else {
        named(args)?.spare_inputs()?;
        without_vm(&args.machine, args.vm)?;
    }
    let kept = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let least = if kept.is_some() { 1 } else { 2 };
    let mut schedulers = contestants(&args.schedulers, &setup.settings, &setup.swap, least)?;
    run_prog::give(&mut schedulers, &setup.programs)?;
    once("-c", &CpuCounts::all(&args.cpus))?;
    let loads = loads(&args.workloads, setup.seed, setup.duration)?;
    let own: Vec<&str> = loads.iter().flat_map(|load| &load.own).map(String::as_str).collect();
    gate.conditions().check_metrics(&own)?;
    let (document, lost, failed) = if simulated {
        let runs = matrix(args, &schedulers, &loads)?;
        let mut before = kept.as_ref().map_or(Ok(Vec::new()), |kept| kept.beside(&runs))?;
        let Some(mut made) = simulated_runs(args, &schedulers, &loads, &runs, quiet)? else { return Ok(()) };
        name_workloads(made.records.iter_mut().map(Option::as_mut).collect(), &loads);
        name_workloads(before.iter_mut().map(Some).collect(), &loads);
        let compared = complete(&made.records, &schedulers, args);
        let (lost, failed) = (made.told(), made.failure());
        let compared = [before.clone(), compared].concat();
        before.extend(made.records.into_iter().flatten());
        (document(args, &loads, compared, before), lost, failed)
    } else {
        only_simulated(setup.after_ejection)?;
        let (runs, failed) = match real_runs(args, &schedulers, &loads, quiet)? {
            (runs, Some(failure)) if runs.is_empty() => return Err(failure),
            made => made,
        };
        (document(args, &loads, runs.clone(), runs), String::new(), failed)
    };
    let own = |workload: &str, metric: &str| {
        loads.iter().any(|load| load.record.name == workload && load.own.iter().any(|own| own == metric))
    };
    let mut text = comparison_text(&document, own, verbose) + &lost;
    if failed.is_some() {
        text.push_str(&finished_runs(&document.runs, |run, metric| {
            verbose || own(&run.workload.name, metric)
        }));
    }
    text.push_str(&explained_waits(&document.runs, verbose));
    let lines = kept.iter().map(Baseline::line).collect();
    let (written, passed) = gate.finish(&results, &text, &document, own, lines);
    let own = loads.iter().map(|load| (load.record.name.clone(), load.own.clone())).collect();
    let about = record::about(RecordOf::Comparison, command_line(), &document, Vec::new());
    let about = About { own, notes: lost, ..about };
    let recorded = record.map_or(Ok(()), |target| recorded::write(&target, &document, &about));
    let strict = strict(&document, args.results.strict);
    failed.map_or_else(|| ejection(&document), Err).and(written).and(recorded).and(strict).and(passed)
}

/// The files that it reads and writes.
fn named(args: &CompareArgs) -> Result<Named, Failure> {
    let names = entry::names(&entry::split(&args.schedulers)?)?;
    let inputs = names.iter().chain(&args.workloads).chain([&args.setup.machine]);
    let named = Named::new().inputs(inputs).results(&args.results).gate(&args.gate);
    let named = named.files(args.baseline.iter().map(|named| baseline::file(named)));
    Ok(named.outputs([&args.record.record]))
}

/// The results: what the `compared` ones of the `runs` say about each other.
fn document(
    args: &CompareArgs,
    loads: &[Load],
    mut compared: Vec<RunRecord>,
    mut runs: Vec<RunRecord>,
) -> Document {
    add_falls_behind(&mut compared);
    add_falls_behind(&mut runs);
    let mut comparisons = compare_runs(&compared, args.verdict.confidence, args.verdict.at_least);
    heed_bars(&mut comparisons, &compared, bars_of);
    let ranking = ranking(&comparisons, &runs);
    let warnings = seed_warnings(&runs);
    let of_loads: Vec<_> = loads.iter().map(|load| (load.record.clone(), load.goals.clone())).collect();
    let goals = judge_goals(&runs, &of_loads);
    Document { runs, comparisons, ranking, goals, warnings, ..Document::default() }
}

/// Gives the runs of each workload the name by which results tell it from the others. `records` are those of a matrix.
fn name_workloads(mut records: Vec<Option<&mut RunRecord>>, loads: &[Load]) {
    let each = records.len() / loads.len();
    for (records, load) in records.chunks_mut(each.max(1)).zip(loads) {
        records.iter_mut().flatten().for_each(|run| run.workload.name.clone_from(&load.record.name));
    }
}

/// Makes the runs of a simulated comparison.
fn simulated_runs(
    args: &CompareArgs,
    schedulers: &[Scheduler],
    loads: &[Load],
    runs: &[Simulation],
    quiet: bool,
) -> Result<Option<Made>, Failure> {
    let limit = TimeLimit(args.host.time_limit);
    if schedulers.iter().any(|scheduler| scheduler.object.is_some()) {
        announce_engine(args.setup.engine.into(), quiet);
    }
    // One seed of each scheduler, machine and workload is enough to find a mistake early.
    for simulation in runs.iter().step_by(args.runs.get()) {
        simulation.check(limit)?;
    }
    announce_loads(loads, runs.len(), false, quiet);
    swept(runs, &args.sweep, limit, quiet)
}

/// Says beforehand how much there is to do: `runs` in all, as many of each workload.
fn announce_loads(loads: &[Load], runs: usize, real: bool, quiet: bool) {
    let mut planned = Vec::new();
    for Load { spec, end, endless, .. } in loads {
        let (runs, endless) = (runs / loads.len(), endless.as_deref());
        planned.push(Planned { runs, each: *end, workload: spec, endless });
    }
    announce(&planned, real, quiet);
}

/// The runs that can be compared: all of a scheduler, workload and number of CPUs, or none, since those that are lost are
/// the long ones. There are none of that workload and number of CPUs without the baseline.
fn complete(records: &[Option<RunRecord>], schedulers: &[Scheduler], args: &CompareArgs) -> Vec<RunRecord> {
    let runs = args.runs.get();
    let whole = |group: &&[Option<RunRecord>]| group.iter().all(Option::is_some);
    let by_cell = records.chunks(runs * schedulers.len());
    let compared = by_cell.filter(|group| group.chunks(runs).take(1).all(|baseline| whole(&baseline)));
    compared.flat_map(|group| group.chunks(runs)).filter(whole).flatten().flatten().cloned().collect()
}

/// The schedulers of a comparison, the baseline first, each with a name of its own; at least so many.
///
/// # Errors
/// Fewer, and what [`Scheduler::find_all`] refuses.
pub(super) fn contestants(
    lists: &[String],
    settings: &[String],
    swap: &SwapArgs,
    least: usize,
) -> Result<Vec<Scheduler>, Failure> {
    let entries = entry::split(lists)?;
    if entries.len() < least {
        let text = "-s needs two schedulers or more to compare, as in -s vanilla,o1; `schedlab sim` and `schedlab run` take one";
        return Err(Failure::usage(text));
    }
    let mut schedulers = Scheduler::find_all(&entries, settings)?;
    swap_scope::restrict(&mut schedulers, &swap.types, &swap.exclude)?;
    Scheduler::distinct(&mut schedulers)?;
    Ok(schedulers)
}

/// The numbers of CPUs of VMs.
pub(super) fn vm_cpus(list: &[CpuCounts]) -> Vec<u32> {
    vm_cpus_or(list, VM_CPUS)
}

/// The numbers of CPUs of a list, `other` without one.
pub(super) fn vm_cpus_or(list: &[CpuCounts], other: u32) -> Vec<u32> {
    match CpuCounts::all(list).as_slice() {
        [] => vec![other],
        counts => counts.iter().map(|count| u32::try_from(count.get()).unwrap_or(u32::MAX)).collect(),
    }
}

/// Refuses what is named twice: the same runs would count as several.
pub(super) fn once<T: PartialEq + Display>(option: &str, named: &[T]) -> Result<(), Failure> {
    let twice = named.iter().enumerate().find(|(at, one)| named[..*at].contains(one));
    twice
        .map_or(Ok(()), |(_, one)| Err(Failure::usage(format!("{option} names {one} twice; once is enough"))))
}

/// Workloads, then CPU counts, then schedulers, then seeds.
fn matrix(args: &CompareArgs, schedulers: &[Scheduler], loads: &[Load]) -> Result<Vec<Simulation>, Failure> {
    let counts = CpuCounts::all(&args.cpus);
    let kernel = args.machine.kernel.as_ref().map(|kernel| kernel.display().to_string());
    let counts = if counts.is_empty() { vec![None] } else { counts.into_iter().map(Some).collect() };
    let machines: Vec<Machine> = counts
        .into_iter()
        .map(|count| machine(&args.setup, kernel.as_deref(), count))
        .collect::<Result<_, _>>()?;
    let mut extras = AllExtras::new(args)?;
    let mut runs = Vec::new();
    for load in loads {
        for machine in &machines {
            for scheduler in schedulers {
                for run in 0..args.runs.get() as u64 {
                    let seed = args.setup.seed + run;
                    let place = (scheduler, load.record.name.as_str(), machine.cpu_count(), seed);
                    runs.push(Simulation {
                        seed,
                        limit: args.setup.duration,
                        engine: args.setup.engine.into(),
                        guest_memory: args.setup.guest_memory.0,
                        after_ejection: args.setup.after_ejection.into(),
                        extras: extras.next(place, run == 0),
                        ..Simulation::new(scheduler.clone(), &load.spec, machine.clone())
                    });
                }
            }
        }
    }
    Ok(runs)
}

/// What is kept of each run besides its figures.
struct AllExtras<'a> {
    waits: bool,
    timeline: Option<Window>,
    traces: Option<TraceNames<'a>>,
}

impl AllExtras<'_> {
    /// What the command line asks for.
    ///
    /// # Errors
    /// A folder of `--perfetto` that cannot be made or written.
    fn new(args: &CompareArgs) -> Result<AllExtras<'_>, Failure> {
        if let Some(folder) = &args.perfetto {
            ready_folder("--perfetto", folder)?;
        }
        let traces = args.perfetto.as_deref().map(TraceNames::new);
        Ok(AllExtras { waits: args.explain_waits, timeline: args.timeline, traces })
    }

    /// That of a run, in the order of the runs; `first` is the one whose picture stands for those of other seeds.
    fn next(&mut self, place: (&Scheduler, &str, usize, u64), first: bool) -> Extras {
        let (scheduler, workload, cpus, seed) = place;
        let trace = |names: &mut TraceNames| names.next(&scheduler.label(), workload, cpus, seed);
        Extras {
            waits: self.waits,
            timeline: self.timeline.filter(|_| first),
            perfetto: self.traces.as_mut().map(trace),
        }
    }
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
    loads: &[Load],
    quiet: bool,
) -> Result<Real, Failure> {
    own_loader::check_real(schedulers)?;
    if args.live && schedulers.iter().any(|scheduler| scheduler.object.is_some()) {
        // Before the runs that need none of it.
        check_machine()?;
    }
    let number = loads.len() * args.runs.get() * schedulers.len();
    if args.vm {
        announce_loads(loads, number * vm_cpus(&args.cpus).len(), true, quiet);
        return vm_runs(args, schedulers, loads, quiet);
    }
    announce_loads(loads, number, true, quiet);
    let mut runs = Vec::new();
    for load in loads {
        for run in 0..args.runs.get() as u64 {
            for scheduler in schedulers {
                let seed = args.setup.seed + run;
                let under = if loads.len() > 1 { format!(" under {}", load.spec) } else { String::new() };
                let make = move || {
                    let mut record = real_run(args, scheduler, load, seed).here(Backend::Host, quiet)?;
                    record.workload.name.clone_from(&load.record.name);
                    Ok(record)
                };
                runs.push((format!("{}{under}, seed {seed}", scheduler.label()), make));
            }
        }
    }
    Ok(in_turn(&runs, quiet))
}

/// A run of each scheduler and seed under a load in VMs, one boot for each number of CPUs.
fn vm_runs(
    args: &CompareArgs,
    schedulers: &[Scheduler],
    loads: &[Load],
    quiet: bool,
) -> Result<Real, Failure> {
    let (mut records, mut failed) = (Vec::new(), None);
    let total = loads.len() * args.runs.get() * schedulers.len() * vm_cpus(&args.cpus).len();
    for (place, cpus) in vm_cpus(&args.cpus).into_iter().enumerate() {
        let mut runs = Vec::new();
        for load in loads {
            for run in 0..args.runs.get() as u64 {
                let seed = args.setup.seed + run;
                runs.extend(schedulers.iter().map(|scheduler| (real_run(args, scheduler, load, seed), load)));
            }
        }
        let plans: Vec<RealRun> = runs.iter().map(|(run, _)| run.clone()).collect();
        let options = args.machine.options(cpus);
        let results = in_one_vm(&plans, &options, &mut |line| tell(line, quiet));
        let before = total / vm_cpus(&args.cpus).len() * place;
        for (number, (result, (run, load))) in results.into_iter().zip(runs).enumerate() {
            match result {
                Ok(mut record) => {
                    record.workload.name.clone_from(&load.record.name);
                    records.push(record);
                }
                Err(Failure { code, text }) if failed.is_none() => {
                    let under = if loads.len() > 1 { format!(" under {}", load.spec) } else { String::new() };
                    let what = format!(
                        "{}{under} on {}, seed {}",
                        run.scheduler.label(),
                        counted(cpus, "CPU"),
                        run.seed
                    );
                    let text = format!("run {} of {total} ({what}): {text}", before + number + 1);
                    failed = Some(Failure { code, text });
                }
                Err(_) => {}
            }
        }
    }
    Ok((records, failed))
}

fn real_run(args: &CompareArgs, scheduler: &Scheduler, load: &Load, seed: u64) -> RealRun {
    RealRun {
        scheduler: scheduler.clone(),
        workload: load.spec.clone(),
        seed,
        limit: args.setup.duration,
        looks: Looks { explain_waits: args.explain_waits, ..Looks::default() },
    }
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
        progress.set(records.len() as u64, format!("{} of {}", records.len(), counted(total, "run")));
    }
    progress.finish();
    (records, failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_lab::failure::Code;
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
        let told = finished_runs(&records, |_, name| name == "work");
        assert_eq!(told.matches("eevdf on m").count(), 2, "{told}");
        assert!(told.contains("work") && !told.contains("migrations"), "{told}");
        assert_eq!(in_turn(&[run(1)], true), (vec![record()], None));
    }
}
