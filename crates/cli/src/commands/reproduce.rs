//! `reproduce`: a document's tables, published beside measured. The rules of the
//! verdicts are in `docs/reproduction.md` and in `report`.

use crate::args::{DocumentName, ReproduceArgs};
use crate::failure::Failure;
use crate::results::Results;
use crate::scheduler::Scheduler;
use crate::shipped;
use crate::simulation::{Simulation, ejection};
use crate::sweep::sweep;
use schedlab_base::Better;
use schedlab_report::{
    AGREEMENT_PERCENT, Document, Figures, PublishedRow, agreeing, compare, reproduction_table,
};
use schedlab_stats::{Level, mean};
use schedlab_trace::RunRecord;
use std::collections::BTreeMap;

/// One published table and how its rows are run here.
struct Table {
    workload: &'static str,
    csv: &'static str,
    /// Column that, besides the CPUs, tells the rows apart, and the workload's own
    /// name for it.
    column: (&'static str, &'static str),
    /// Further parameters, in full and quick form.
    params: [&'static str; 2],
    /// Name of the metric here.
    metric: &'static str,
    better: Better,
    /// What a measured figure is divided by, in full and quick form.
    divisor: [f64; 2],
}

const KRAVETZ: [Table; 3] = [
    Table {
        workload: "mkbench",
        csv: include_str!("../../../../published/kravetz_mkbench.csv"),
        column: ("parallel_makes", "makes"),
        params: ["scale=1", "scale=0.1"],
        metric: "build_time_avg",
        better: Better::Lower,
        divisor: [1.0, 0.1],
    },
    Table {
        workload: "chat",
        csv: include_str!("../../../../published/kravetz_chat.csv"),
        column: ("rooms", "rooms"),
        params: ["messages=200", "messages=20"],
        metric: "throughput",
        better: Better::Higher,
        divisor: [1.0, 1.0],
    },
    Table {
        workload: "reflex",
        csv: include_str!("../../../../published/kravetz_reflex.csv"),
        column: ("tasks", "tasks"),
        params: ["rounds=5000", "rounds=500"],
        metric: "time_per_round",
        better: Better::Lower,
        divisor: [1.0, 1.0],
    },
];

/// The document's schedulers that exist here: published name, name, setting.
const COMPARED: [(&str, &str, &str); 2] =
    [("vanilla-2.5.2-pre9", "vanilla", "profile=tsss"), ("o1-D1", "o1", "profile=d1")];

/// The document's machine.
const MACHINE: &str = "p3-700";

/// A published row before it is measured.
struct Planned {
    row: PublishedRow,
    /// The workload as `-w` takes it.
    spec: String,
    cpus: usize,
    divisor: f64,
}

/// Runs everything and prints the tables.
pub(crate) fn reproduce(args: &ReproduceArgs, quiet: bool) -> Result<(), Failure> {
    let results = Results::new(&args.results)?;
    let DocumentName::Kravetz = args.document;
    let mut planned = Vec::new();
    for table in &KRAVETZ {
        planned.extend(rows(table, args.quick)?);
    }
    let runs = simulations(&planned, args)?;
    let records = sweep(&runs, args.jobs, quiet)?;
    let per_row = COMPARED.len() * args.runs.get();
    for (planned, records) in planned.iter_mut().zip(records.chunks(per_row)) {
        planned.row.measured = measured(planned, records);
    }
    let rows: Vec<PublishedRow> = planned.into_iter().map(|planned| planned.row).collect();
    let tables = tables(&rows, args);
    let comparisons = compare(&records, Level::P95);
    let document = Document { runs: records, comparisons, reproduction: rows };
    let notes = [("Published beside measured".to_string(), tables.clone())];
    let written = results.write(&tables, &document, &notes);
    ejection(&document).and(verdict(&document.reproduction)).and(written)
}

/// The rows of a table, in the order of the document.
fn rows(table: &Table, quick: bool) -> Result<Vec<Planned>, Failure> {
    let broken = |what: String| Failure::usage(format!("published figures of {}: {what}", table.workload));
    let mut reader = csv::Reader::from_reader(table.csv.as_bytes());
    let header = reader.headers().map_err(|error| broken(error.to_string()))?.clone();
    let mut groups: Vec<((String, usize), BTreeMap<String, f64>)> = Vec::new();
    let mut unit = String::new();
    for record in reader.records() {
        let record = record.map_err(|error| broken(error.to_string()))?;
        let field = |name: &str| {
            let index = header.iter().position(|column| column == name);
            index.and_then(|index| record.get(index)).ok_or_else(|| broken(format!("no column {name}")))
        };
        let number = |name: &str| {
            let text = field(name)?;
            text.parse::<f64>().map_err(|_| broken(format!("{name} '{text}' is not a number")))
        };
        unit = field("unit")?.to_string();
        let key = (field(table.column.0)?.to_string(), number("cpus")? as usize);
        let entry = (field("scheduler")?.to_string(), number("value")?);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, values)) => {
                values.insert(entry.0, entry.1);
            }
            None => groups.push((key, BTreeMap::from([entry]))),
        }
    }
    let form = usize::from(quick);
    let plan = |((value, cpus), mut values): ((String, usize), BTreeMap<String, f64>)| {
        let mut take =
            |name: &str| values.remove(name).ok_or_else(|| broken(format!("no figure of {name} at {value}")));
        let published = Figures { reference: take(COMPARED[0].0)?, candidate: take(COMPARED[1].0)? };
        let row = PublishedRow {
            workload: table.workload.to_string(),
            place: format!("{}={value}, {cpus} CPUs", table.column.1),
            metric: table.metric.to_string(),
            unit: unit.clone(),
            better: table.better,
            published,
            measured: None,
            others: values.into_iter().collect(),
        };
        let spec = format!("{}:{}={value},{}", table.workload, table.column.1, table.params[form]);
        Ok(Planned { row, spec, cpus, divisor: table.divisor[form] })
    };
    groups.into_iter().map(plan).collect()
}

/// For each row, the runs of the first scheduler, then those of the second.
fn simulations(planned: &[Planned], args: &ReproduceArgs) -> Result<Vec<Simulation>, Failure> {
    let machine = shipped::machine(MACHINE)?.machine;
    let names = COMPARED.map(|(_, name, _)| name.to_string());
    let settings = COMPARED.map(|(_, name, setting)| format!("{name}:{setting}"));
    let schedulers = Scheduler::find_all(&names, &settings)?;
    let mut runs = Vec::new();
    for planned in planned {
        let machine = machine.with_cpus(planned.cpus).map_err(|error| Failure::usage(error.to_string()))?;
        for scheduler in &schedulers {
            for run in 0..args.runs.get() as u64 {
                runs.push(Simulation {
                    scheduler: scheduler.clone(),
                    workload: planned.spec.clone(),
                    machine: machine.clone(),
                    seed: args.seed.wrapping_add(run),
                    limit: None,
                    checkers: false,
                });
            }
        }
    }
    Ok(runs)
}

/// The mean figures of a row; nothing when a side has none.
fn measured(planned: &Planned, records: &[RunRecord]) -> Option<Figures> {
    let figure = |name: &str| {
        let values: Vec<f64> = records
            .iter()
            .filter(|run| run.scheduler == name && !run.exit.kind.is_ejection())
            .filter_map(|run| run.metric(&planned.row.metric))
            .collect();
        mean(&values).map(|value| value / planned.divisor)
    };
    Some(Figures { reference: figure(COMPARED[0].1)?, candidate: figure(COMPARED[1].1)? })
}

fn tables(rows: &[PublishedRow], args: &ReproduceArgs) -> String {
    let form = if args.quick { "quick form" } else { "full form" };
    let mut text = format!(
        "Kravetz, 8 January 2002, on {MACHINE}: {form}, {} run(s) a row from seed {}. `factor` is how many times\n\
         better {} is than {}. haMQ is not built yet: its figures are shown and not counted.\n\n",
        args.runs, args.seed, COMPARED[1].1, COMPARED[0].1
    );
    text.push_str(&reproduction_table(rows, [COMPARED[0].1, COMPARED[1].1]));
    text
}

fn verdict(rows: &[PublishedRow]) -> Result<(), Failure> {
    let percent = 100.0 * agreeing(rows) as f64 / rows.len().max(1) as f64;
    if percent >= AGREEMENT_PERCENT {
        return Ok(());
    }
    Err(Failure::failed(format!("{percent:.1} % of the rows agree, {AGREEMENT_PERCENT:.0} % are wanted")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_published_rows_are_planned() {
        let counts: Vec<usize> = KRAVETZ.iter().map(|table| rows(table, true).unwrap().len()).collect();
        assert_eq!(counts, [12, 9, 21]);
        let chat = rows(&KRAVETZ[1], false).unwrap();
        assert_eq!(chat[8].spec, "chat:rooms=30,messages=200");
        assert_eq!(chat[8].row.published, Figures { reference: 42133.0, candidate: 302513.0 });
        assert_eq!(chat[8].row.others, [("haMQ".to_string(), 283817.0)]);
        for table in &KRAVETZ {
            for planned in rows(table, true).unwrap() {
                crate::workload::scenario(&planned.spec, 1, None).unwrap();
            }
        }
    }
}
