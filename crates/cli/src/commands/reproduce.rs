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

/// A scheduler of the document and what stands for it.
struct Compared {
    published: &'static str,
    name: &'static str,
    setting: Option<&'static str>,
}

const COMPARED: [Compared; 3] = [
    Compared { published: "vanilla-2.5.2-pre9", name: "vanilla", setting: Some("profile=tsss") },
    Compared { published: "o1-D1", name: "o1", setting: Some("profile=d1") },
    Compared { published: "haMQ", name: "hamq", setting: None },
];

/// Which of them are judged against each other: reference and candidate.
const PAIRS: [[usize; 2]; 3] = [[BASELINE, 1], [BASELINE, 2], [1, 2]];

/// The document's own reference. Rows against it decide; the factors of other pairs are quotients of theirs.
const BASELINE: usize = 0;

/// The document's machine.
const MACHINE: &str = "p3-700";

/// A published row before it is measured.
struct Planned {
    /// One row a pair of schedulers.
    rows: Vec<PublishedRow>,
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
        for row in &mut planned.rows {
            row.measured = measured(row, planned.divisor, records);
        }
    }
    // All rows of one pair, then those of the next.
    let of_pair = |pair: usize| planned.iter().map(move |planned| planned.rows[pair].clone());
    let rows: Vec<PublishedRow> = (0..PAIRS.len()).flat_map(of_pair).collect();
    let tables = tables(&rows, args);
    let comparisons = compare(&records, Level::P95);
    let document = Document { runs: records, comparisons, reproduction: rows, ..Document::default() };
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
    let plan = |((value, cpus), values): ((String, usize), BTreeMap<String, f64>)| {
        let figure = |scheduler: usize| {
            let name = COMPARED[scheduler].published;
            values.get(name).copied().ok_or_else(|| broken(format!("no figure of {name} at {value}")))
        };
        let row = |[reference, candidate]: [usize; 2]| {
            Ok(PublishedRow {
                workload: table.workload.to_string(),
                schedulers: [reference, candidate].map(|scheduler| COMPARED[scheduler].name.to_string()),
                place: format!("{}={value}, {cpus} CPUs", table.column.1),
                metric: table.metric.to_string(),
                unit: unit.clone(),
                better: table.better,
                published: Figures { reference: figure(reference)?, candidate: figure(candidate)? },
                measured: None,
            })
        };
        let rows = PAIRS.into_iter().map(row).collect::<Result<_, Failure>>()?;
        let spec = format!("{}:{}={value},{}", table.workload, table.column.1, table.params[form]);
        Ok(Planned { rows, spec, cpus, divisor: table.divisor[form] })
    };
    groups.into_iter().map(plan).collect()
}

/// For each row, the runs of the first scheduler, then those of the next.
fn simulations(planned: &[Planned], args: &ReproduceArgs) -> Result<Vec<Simulation>, Failure> {
    let machine = shipped::machine(MACHINE)?.machine;
    let names: Vec<String> = COMPARED.iter().map(|compared| compared.name.to_string()).collect();
    let set = |compared: &Compared| Some(format!("{}:{}", compared.name, compared.setting?));
    let settings: Vec<String> = COMPARED.iter().filter_map(set).collect();
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
fn measured(row: &PublishedRow, divisor: f64, records: &[RunRecord]) -> Option<Figures> {
    let figure = |name: &str| {
        let values: Vec<f64> = records
            .iter()
            .filter(|run| run.scheduler == name && !run.exit.kind.is_ejection())
            .filter_map(|run| run.metric(&row.metric))
            .collect();
        mean(&values).map(|value| value / divisor)
    };
    let [reference, candidate] = &row.schedulers;
    Some(Figures { reference: figure(reference)?, candidate: figure(candidate)? })
}

fn tables(rows: &[PublishedRow], args: &ReproduceArgs) -> String {
    let form = if args.quick { "quick form" } else { "full form" };
    let mut text = format!(
        "Kravetz, 8 January 2002, on {MACHINE}: {form}, {} run(s) a row from seed {}. `factor` is how many times\n\
         better the second scheduler of a table is than the first. Rows against {} decide.\n\n",
        args.runs, args.seed, COMPARED[BASELINE].name
    );
    text.push_str(&reproduction_table(rows));
    text
}

fn verdict(rows: &[PublishedRow]) -> Result<(), Failure> {
    let baseline = COMPARED[BASELINE].name;
    let counted: Vec<PublishedRow> =
        rows.iter().filter(|row| row.schedulers[0] == baseline).cloned().collect();
    let percent = 100.0 * agreeing(&counted) as f64 / counted.len().max(1) as f64;
    if percent >= AGREEMENT_PERCENT {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{percent:.1} % of the rows against {baseline} agree, {AGREEMENT_PERCENT:.0} % are wanted"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_against_the_baseline_decide() {
        let row = |pair: usize, measured: (f64, f64)| {
            let mut row = rows(&KRAVETZ[1], true).unwrap()[8].rows[pair].clone();
            row.measured = Some(Figures { reference: measured.0, candidate: measured.1 });
            row
        };
        let (good, bad) = (row(0, (1.0, 7.0)), row(2, (1.0, 7.0)));
        assert!(verdict(&[good.clone(), bad.clone(), bad.clone()]).is_ok());
        let text = verdict(&[good, row(1, (7.0, 1.0)), bad]).unwrap_err().text;
        assert!(text.contains("50.0 % of the rows against vanilla"), "{text}");
    }

    #[test]
    fn all_published_rows_are_planned() {
        let counts: Vec<usize> = KRAVETZ.iter().map(|table| rows(table, true).unwrap().len()).collect();
        assert_eq!(counts, [12, 9, 21]);
        let chat = rows(&KRAVETZ[1], false).unwrap();
        assert_eq!(chat[8].spec, "chat:rooms=30,messages=200");
        let published = |pair: usize| chat[8].rows[pair].published;
        assert_eq!(published(0), Figures { reference: 42133.0, candidate: 302513.0 });
        assert_eq!(published(1), Figures { reference: 42133.0, candidate: 283817.0 });
        assert_eq!(published(2), Figures { reference: 302513.0, candidate: 283817.0 });
        assert_eq!(chat[8].rows[2].schedulers, ["o1", "hamq"]);
        for table in &KRAVETZ {
            for planned in rows(table, true).unwrap() {
                crate::workload::scenario(&planned.spec, 1, None).unwrap();
            }
        }
    }
}
