//! `reproduce`: documents' tables, published beside measured. What is run and by which
//! rules it is judged are data: `published/*.toml`, explained in `docs/reproduction.md`.

use crate::args::ReproduceArgs;
use crate::confine::Named;
use crate::progress::swept;
use crate::results::Results;
use schedlab_base::Machine;
use schedlab_base::did_you_mean;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::{Target, ready_folder};
use schedlab_lab::run::deadline::TimeLimit;
use schedlab_lab::run::simulation::{Simulation, announce_engine, ejection};
use schedlab_lab::run::sweep::check_seeds;
use schedlab_lab::run::trust::strict;
use schedlab_lab::scheduler::Scheduler;
use schedlab_lab::shipped;
use schedlab_report::{
    Document as ResultDocument, LEAST_EFFECT, compare, document_plots, reproduction_text, sensitivity_text,
};
use schedlab_reproduction::{Cell, Document, DocumentOutcome, Form, Library, Plan, Sensitivity};
use schedlab_scx::EngineChoice;
use schedlab_stats::Level;
use schedlab_trace::RunRecord;
use std::path::{Path, PathBuf};

/// The name that stands for all documents.
const ALL: &str = "all";

/// The documents and their figures.
pub(crate) const LIBRARY: Library = Library::new(shipped::PUBLISHED);

/// Runs everything and prints the tables.
pub(crate) fn reproduce(args: &ReproduceArgs, quiet: bool) -> Result<(), Failure> {
    let results = Results::new(&args.results)?;
    check_seeds(args.seed, args.runs)?;
    let named = Named::new().results(&args.results).resume(&args.sweep.resume).inputs(&args.machine_files);
    named.folder(args.figures.as_ref()).enter(&args.host.sandbox, quiet)?;
    if let Some(folder) = &args.figures {
        ready_folder("--figures", folder)?;
    }
    let limit = TimeLimit(args.host.time_limit);
    let documents = documents(args)?;
    let plan = Plan::new(&documents, args.runs.get());
    let changes = changes(args)?;
    let mut runs = simulations(&plan, args.seed, args.engine.into(), limit)?;
    replace_machines(&mut runs, &args.machine_files)?;
    announce_engine(args.engine.into(), quiet);
    let own = runs.len();
    let varied: Vec<Scaling> = changes.into_iter().filter(|change| change.applies(&runs)).collect();
    for change in &varied {
        runs.extend(runs[..own].to_vec().iter().map(|simulation| change.of(simulation)));
    }
    let Some(made) = swept(&runs, &args.sweep, limit, quiet)? else { return Ok(()) };
    let records = &made.records;
    let outcomes = |records: &[Option<RunRecord>]| -> Vec<DocumentOutcome> {
        documents.iter().map(|document| plan.outcome(document, records)).collect()
    };
    let reproduction = outcomes(&records[..own]);
    let others = records.chunks(own.max(1)).skip(1).map(outcomes);
    let changed = |(change, other): (&Scaling, Vec<DocumentOutcome>)| {
        Sensitivity::of(change.parameter, change.factor(), &reproduction, &other)
    };
    let sensitivity: Vec<Sensitivity> = varied.iter().zip(others).map(changed).collect();
    let text = text(&reproduction, args) + &sensitivity_text(&sensitivity) + &made.told();
    // Runs on a changed machine have its name: they are told in `sensitivity` alone.
    let records: Vec<RunRecord> = made.records[..own].iter().flatten().cloned().collect();
    let comparisons =
        if made.lost.is_empty() { compare(&records, Level::P95, LEAST_EFFECT) } else { Vec::new() };
    let document =
        ResultDocument { runs: records, comparisons, reproduction, sensitivity, ..ResultDocument::default() };
    let notes = [("Published beside measured".to_string(), text.clone())];
    let written = results.write(&text, &document, &notes);
    let drawn = args.figures.as_deref().map_or(Ok(()), |folder| draw(&document.reproduction, folder));
    let strict = strict(&document, args.results.strict);
    let lost = made.failure().map_or(Ok(()), Err);
    lost.and(ejection(&document))
        .and(verdict(&document.reproduction, args))
        .and(written)
        .and(drawn)
        .and(strict)
}

/// Puts the machines of these files in the place of those of the same name.
fn replace_machines(runs: &mut [Simulation], files: &[PathBuf]) -> Result<(), Failure> {
    for file in files {
        let machine = shipped::machine_file(file)?.machine;
        let refused = |text: String| Failure::usage(format!("--machine-file {}: {text}", file.display()));
        let mut of_name = runs.iter_mut().filter(|run| run.machine.name == machine.name).peekable();
        if of_name.peek().is_none() {
            return Err(refused(format!("no run is made on a machine named '{}'", machine.name)));
        }
        for run in of_name {
            let cpus = run.machine.cpu_count();
            run.machine = machine.with_cpus(cpus).map_err(|error| refused(error.to_string()))?;
        }
    }
    Ok(())
}

/// Writes the pictures of `--figures`.
fn draw(outcomes: &[DocumentOutcome], folder: &Path) -> Result<(), Failure> {
    for plot in outcomes.iter().flat_map(document_plots) {
        Target::new("--figures", &folder.join(format!("{}.svg", plot.name)))?.write(&plot.svg)?;
    }
    Ok(())
}

/// What DOCUMENT can be.
pub(super) fn names() -> Vec<&'static str> {
    LIBRARY.names(".toml").into_iter().chain([ALL]).collect()
}

/// The documents that were asked for, with the tables that were.
fn documents(args: &ReproduceArgs) -> Result<Vec<Document>, Failure> {
    let known = LIBRARY.names(".toml");
    let asked = args.document.as_str();
    if asked != ALL && !known.contains(&asked) {
        let near = did_you_mean(asked, &known);
        let text = format!("no document named '{asked}'{near}; there are: {}, {ALL}", known.join(", "));
        return Err(Failure::usage(text));
    }
    let form = if args.quick { Form::Quick } else { Form::Full };
    let names = known.into_iter().filter(|name| asked == ALL || asked == *name);
    let mut documents: Vec<Document> = names
        .map(|name| Document::read(&LIBRARY, name, form).map_err(Failure::usage))
        .collect::<Result<_, _>>()?;
    if args.tables.is_empty() {
        return Ok(documents);
    }
    let ids: Vec<String> =
        documents.iter().flat_map(|document| document.tables.iter().map(|table| table.id.clone())).collect();
    if let Some(unknown) = args.tables.iter().find(|table| !ids.contains(table)) {
        let near = did_you_mean(unknown, &ids);
        return Err(Failure::usage(format!(
            "--document-table {unknown}: there are {}{near}",
            ids.join(", ")
        )));
    }
    for document in &mut documents {
        document.tables.retain(|table| args.tables.contains(&table.id));
    }
    documents.retain(|document| !document.tables.is_empty());
    Ok(documents)
}

/// One parameter of the machine, changed.
struct Scaling {
    parameter: &'static str,
    numerator: u32,
    denominator: u32,
}

/// Each parameter of `--sensitivity`, halved and doubled.
fn changes(args: &ReproduceArgs) -> Result<Vec<Scaling>, Failure> {
    let known = schedlab_machine::parameters();
    let mut changes = Vec::new();
    if let Some(unknown) =
        args.sensitivity.iter().find(|name| *name != ALL && !known.contains(&name.as_str()))
    {
        let near = did_you_mean(unknown, &known);
        let text = format!(
            "--sensitivity {unknown}: no parameter of that name{near}; there are {ALL}, {}",
            known.join(", ")
        );
        return Err(Failure::usage(text));
    }
    let wanted = |name: &&str| args.sensitivity.iter().any(|asked| asked == ALL || asked == name);
    for parameter in known.into_iter().filter(wanted) {
        for (numerator, denominator) in [(1, 2), (2, 1)] {
            changes.push(Scaling { parameter, numerator, denominator });
        }
    }
    Ok(changes)
}

impl Scaling {
    fn factor(&self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }

    fn machine(&self, machine: &Machine) -> Option<Machine> {
        schedlab_machine::scaled(machine, self.parameter, self.numerator, self.denominator)
    }

    /// False where no machine has that parameter: what is 0 stays 0.
    fn applies(&self, runs: &[Simulation]) -> bool {
        runs.iter().any(|simulation| self.machine(&simulation.machine).is_some())
    }

    fn of(&self, simulation: &Simulation) -> Simulation {
        let machine = self.machine(&simulation.machine).unwrap_or_else(|| simulation.machine.clone());
        Simulation { machine, ..simulation.clone() }
    }
}

/// The runs of a plan, all seeds from `first` on.
fn simulations(
    plan: &Plan,
    first: u64,
    engine: EngineChoice,
    limit: TimeLimit,
) -> Result<Vec<Simulation>, Failure> {
    let mut runs = Vec::new();
    for (cell, seeds) in plan.runs() {
        let simulation = Simulation { seed: first, engine, ..simulation(cell)? };
        // One seed of each is enough to find a mistake early.
        simulation.check(limit)?;
        let seeds = (0..seeds as u64).map(|run| first + run);
        runs.extend(seeds.map(|seed| Simulation { seed, ..simulation.clone() }));
    }
    Ok(runs)
}

/// The run behind a cell, with a seed and an engine to be chosen.
fn simulation(cell: &Cell) -> Result<Simulation, Failure> {
    let settings: Vec<String> = cell.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let scheduler = Scheduler::find_all(std::slice::from_ref(&cell.scheduler), &settings)?.remove(0);
    let machine: Machine = shipped::machine(&cell.machine)?.machine;
    let machine = match cell.cpus {
        Some(cpus) => machine.with_cpus(cpus).map_err(|error| Failure::usage(error.to_string()))?,
        None => machine,
    };
    let limit = cell.duration.as_ref().map(|text| text.parse()).transpose();
    let limit = limit.map_err(|error| Failure::usage(format!("duration of {}: {error}", cell.workload)))?;
    let sampling = cell.is_sampled().then(|| cell.sampling.clone());
    let workload = cell.workload.clone();
    Ok(Simulation { limit, sampling, ..Simulation::new(scheduler, workload, machine) })
}

fn text(outcomes: &[DocumentOutcome], args: &ReproduceArgs) -> String {
    let form = if args.quick { "quick form" } else { "full form" };
    let seeds = match args.runs.get() {
        1 => format!("seed {}", args.seed),
        runs => format!("{runs} runs a row from seed {}", args.seed),
    };
    format!("{form}, {seeds}; rules: docs/reproduction.md\n\n{}", reproduction_text(outcomes))
}

/// A document of which too few rows agree. Single tables decide nothing.
fn verdict(outcomes: &[DocumentOutcome], args: &ReproduceArgs) -> Result<(), Failure> {
    let missed = outcomes.iter().filter(|document| args.tables.is_empty() && !document.reached());
    let words = |document: &DocumentOutcome| {
        let (measured, computed) = (document.measured(), document.recomputed());
        let mut text = format!(
            "{}: {:.1} % of the rows agree, {:.0} % are wanted",
            document.name,
            measured.percent(),
            document.wanted_percent
        );
        if computed.agreeing < computed.rows {
            text.push_str(&format!(", {} of {} computed ones do", computed.agreeing, computed.rows));
        }
        text
    };
    let missed: Vec<String> = missed.map(words).collect();
    if missed.is_empty() { Ok(()) } else { Err(Failure::failed(missed.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_report::from_json;
    use schedlab_reproduction::value_of;

    #[test]
    fn every_definition_can_be_read_and_run() {
        for name in LIBRARY.names(".toml") {
            for form in [Form::Quick, Form::Full] {
                let document = Document::read(&LIBRARY, name, form).unwrap();
                let plan = Plan::new(std::slice::from_ref(&document), 1);
                for (cell, _) in plan.runs() {
                    let simulation = simulation(cell).unwrap();
                    let scenario = simulation.scenario().unwrap();
                    let known = |metric: &str| scenario.metrics.iter().any(|spec| spec.name == metric);
                    let common = cell.metric.contains('.') || cell.metric.ends_with("_per_switch");
                    assert!(
                        common || known(&cell.metric),
                        "{name}: {} has no {}",
                        cell.workload,
                        cell.metric
                    );
                }
            }
        }
    }

    #[test]
    fn a_cell_has_its_own_number_of_seeds() {
        let document = Document::read(&LIBRARY, "swap", Form::Quick).unwrap();
        let cells = |id: &str| {
            let table = document.tables.iter().find(|table| table.id == id).unwrap();
            table.rows[0].cells[0].clone()
        };
        let plan = Plan::of(&[cells("fig2"), cells("fig6"), cells("fig5")], 2);
        assert_eq!(
            simulations(&plan, 9, EngineChoice::Compiled, TimeLimit(None))
                .unwrap()
                .iter()
                .map(|run| run.seed)
                .collect::<Vec<_>>(),
            [9, 10, 9, 10, 11, 12, 13, 9, 10]
        );
        let records: Vec<u64> = (0..9).collect();
        assert_eq!(plan.records(&cells("fig2"), &records), [0, 1]);
        assert_eq!(plan.records(&cells("fig6"), &records), [2, 3, 4, 5, 6]);
        assert_eq!(plan.records(&cells("fig5"), &records), [7, 8]);
    }

    #[test]
    fn growth_rows_need_no_run_of_their_own() {
        for form in [Form::Quick, Form::Full] {
            let document = Document::read(&LIBRARY, "kravetz", form).unwrap();
            let rows: Vec<usize> = document.tables.iter().map(|table| table.growth.len()).collect();
            assert_eq!(rows, [24, 27, 42]);
            let plan = Plan::new(std::slice::from_ref(&document), 1);
            let grown = document.tables.iter().flat_map(|table| &table.growth).flat_map(|row| &row.cells);
            for cell in grown {
                let records: Vec<()> = plan.runs().flat_map(|(_, seeds)| vec![(); seeds]).collect();
                assert!(!plan.records(cell, &records).is_empty(), "{cell:?}");
            }
        }
    }

    #[test]
    fn recomputed_statistics_agree() {
        for name in LIBRARY.names(".toml") {
            let mut document = Document::read(&LIBRARY, name, Form::Quick).unwrap();
            for table in &mut document.tables {
                table.rows.clear();
                table.growth.clear();
            }
            let outcome = Plan::new(&[], 1).outcome(&document, &[]);
            let share = outcome.recomputed();
            assert_eq!(share.agreeing, share.rows, "{name}");
        }
    }

    #[test]
    fn values_are_metrics_counters_and_parts_of_series() {
        let text = r#"{"schedlab":{"version":"0","schema":1},"runs":[{"scheduler":"o1","workload":{"name":"w"},
            "machine":"m","cpus":1,"seed":1,"backend":"sim","duration_ns":1,"exit":{"kind":"none"},
            "metrics":{"time":{"value":3.0,"unit":"s","better":"lower"},"none":{"value":null,"unit":"s","better":"lower"}},
            "series":{"turn":{"unit":"ms","values":[9.0,1.0,2.0,3.0]}},"counters":{"nr_x":7}}]}"#;
        let mut run = from_json(text).unwrap().runs.remove(0);
        let of = |metric: &str| value_of(&run, metric);
        assert_eq!((of("time"), of("none"), of("other")), (Some(3.0), None, None));
        assert_eq!((of("counters.nr_x"), of("series.turn[2..4]")), (Some(7.0), Some(2.0)));
        assert_eq!(
            (of("series.turn[0..1]"), of("series.turn[4..9]"), of("series.turn[x]")),
            (None, None, None)
        );
        run.exit.kind = schedlab_trace::ExitKind::ErrorStall;
        assert_eq!(value_of(&run, "time"), None);
    }
}
