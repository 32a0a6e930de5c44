//! Published statistics computed again from published figures alone: the comparisons of
//! ministat(1), and what follows from printed samples of `schedule()`.

use crate::library::{Library, Record, number};
use crate::outcome::RowOutcome;
use crate::rule::{Judgement, Published, Qualifier, Rule};
use schedlab_stats::{Level, Moments, TwoSample, student};
use schedlab_trace::samples::{SampleFigures, SchedSample, analyse};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What is computed again, and from which files.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Recompute {
    /// Student's t as ministat prints it, from printed means and deviations.
    Ministat {
        /// The printed comparisons.
        comparisons: String,
        /// The printed means and deviations.
        tables: Vec<String>,
        /// The candidate and the reference by name.
        schedulers: [String; 2],
    },
    /// Facts that follow from printed samples.
    Samples {
        /// The facts: trace, cpu, metric, value.
        facts: String,
        /// The printed samples, by number of the trace.
        traces: Vec<TraceFile>,
        /// PIDs of tasks that disturb others.
        disturbers: Vec<u64>,
    },
}

/// Printed samples.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceFile {
    csv: String,
    clock_mhz: u32,
}

impl Recompute {
    /// The rows, judged.
    pub(crate) fn rows(&self, library: &Library) -> Result<Vec<RowOutcome>, String> {
        match self {
            Recompute::Ministat { comparisons, tables, schedulers } => {
                ministat(library, comparisons, tables, schedulers)
            }
            Recompute::Samples { facts, traces, disturbers } => samples(library, facts, traces, disturbers),
        }
    }
}

/// A row that no run is behind.
fn row(
    place: String,
    figure: &str,
    published: Option<Published>,
    measured: Option<f64>,
    rule: &Rule,
) -> RowOutcome {
    RowOutcome {
        place,
        cells: Vec::new(),
        figure: figure.to_string(),
        unit: String::new(),
        published,
        says: String::new(),
        measured,
        half_width: None,
        values: measured.into_iter().collect(),
        rule: rule.text(),
        verdict: rule.judge(published, measured),
        counts: true,
        explanation: String::new(),
        unanswerable: String::new(),
    }
}

fn is(value: f64) -> Option<Published> {
    Some(Published { value, qualifier: Qualifier::Is })
}

fn text<'a>(record: &'a Record, column: &str) -> Result<&'a str, String> {
    record.get(column).map(String::as_str).ok_or_else(|| format!("no column {column}"))
}

fn ministat(
    library: &Library,
    comparisons: &str,
    tables: &[String],
    schedulers: &[String; 2],
) -> Result<Vec<RowOutcome>, String> {
    let key = |record: &Record| -> Result<[String; 3], String> {
        Ok([text(record, "table")?, text(record, "make_j")?, text(record, "metric")?].map(str::to_string))
    };
    let mut moments: BTreeMap<([String; 3], String), Moments> = BTreeMap::new();
    for file in tables {
        for record in library.records(file)? {
            let [count, mean, sd] = ["n", "value", "stddev"].map(|column| number(&record, column));
            let found = Moments { count: count? as usize, mean: mean?, sd: sd? };
            moments.insert((key(&record)?, text(&record, "scheduler")?.to_string()), found);
        }
    }
    let mut rows = Vec::new();
    for record in library.records(comparisons)? {
        let of = |scheduler: &String| {
            let place = (key(&record)?, scheduler.clone());
            moments.get(&place).ok_or_else(|| format!("no figure of {scheduler} for {:?}", place.0))
        };
        let level: Level = text(&record, "confidence_pct")?.parse()?;
        let test =
            student(of(&schedulers[0])?, of(&schedulers[1])?, level).map_err(|error| error.to_string())?;
        let reference = of(&schedulers[1])?.mean;
        rows.push(compared(&record, &test, reference, schedulers)?);
    }
    Ok(rows)
}

/// One printed comparison: the row agrees when verdict, difference, plus/minus, pooled
/// deviation and the faster side come out.
fn compared(
    record: &Record,
    test: &TwoSample,
    reference: f64,
    schedulers: &[String; 2],
) -> Result<RowOutcome, String> {
    let rule = Rule::Exact { within: 1e-5 };
    let jobs = text(record, "make_j")?;
    let jobs = if jobs.is_empty() { String::new() } else { format!(" -j{jobs}") };
    let place = format!("{}{jobs}, {}", text(record, "table")?, text(record, "metric")?);
    let proven = text(record, "significant")? == "yes";
    let percent = test.percent.filter(|_| test.proven);
    // The document's ministat took the reference's mean for exact.
    let half_width = percent.map(|_| (100.0 * test.half_width / reference).abs());
    let mut wrong = Vec::new();
    if proven != test.proven {
        wrong.push("verdict");
    }
    let mut published = None;
    if proven {
        let columns = ["difference_pct", "plusminus_pct", "students_t_as_printed"];
        let computed = [percent.map(|p| p.center.abs()), half_width, Some(test.pooled_sd)];
        for ((column, name), computed) in
            columns.into_iter().zip(["difference", "+/-", "deviation"]).zip(computed)
        {
            if rule.judge(is(number(record, column)?), computed) != Judgement::Agrees {
                wrong.push(name);
            }
        }
        let candidate_better = (test.difference > 0.0) == (text(record, "better")? == "higher");
        if text(record, "faster")? != schedulers[usize::from(!candidate_better)] {
            wrong.push("faster side");
        }
        published = is(number(record, "difference_pct")?);
    }
    let mut outcome = row(place, "difference", published, percent.map(|p| p.center.abs()), &rule);
    outcome.unit = "%".to_string();
    outcome.half_width = half_width;
    if !proven {
        outcome.says = "no difference".to_string();
    }
    outcome.verdict = if wrong.is_empty() { Judgement::Agrees } else { Judgement::Differs(wrong.join(", ")) };
    Ok(outcome)
}

fn samples(
    library: &Library,
    facts: &str,
    traces: &[TraceFile],
    disturbers: &[u64],
) -> Result<Vec<RowOutcome>, String> {
    let mut figures: Vec<SampleFigures> = Vec::new();
    let mut rows = Vec::new();
    for (index, trace) in traces.iter().enumerate() {
        let records = library.records(&trace.csv)?;
        let read: Vec<SchedSample> = records.iter().map(sample).collect::<Result<_, _>>()?;
        let found = analyse(&read, disturbers);
        let rule = Rule::Exact { within: 0.0 };
        let place = format!("trace {}: {} samples, both equations", index + 1, read.len());
        rows.push(row(place, "violations", is(0.0), Some(found.violations.len() as f64), &rule));
        figures.push(found);
    }
    for record in library.records(facts)? {
        let (cpu, metric) = (text(&record, "cpu")?, text(&record, "metric")?);
        let trace = number(&record, "trace")? as usize;
        let (Some(found), Some(file)) =
            (figures.get(trace.wrapping_sub(1)), traces.get(trace.wrapping_sub(1)))
        else {
            return Err(format!("{facts}: there is no trace {trace}"));
        };
        let value = found.named(metric, cpu.parse().ok(), file.clock_mhz);
        let printed = text(&record, "value")?;
        let published = number(&record, "value")?;
        // Half a unit of the last digit that is printed.
        let digits = printed.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let unit = 0.1f64.powi(i32::try_from(digits).unwrap_or(0));
        let within = (unit / 2.0 + 1e-9) / published.abs().max(1e-9);
        let place = if cpu == "all" { format!("trace {trace}") } else { format!("trace {trace}, CPU {cpu}") };
        let mut outcome = row(place, metric, is(published), value, &Rule::Exact { within });
        outcome.unit = text(&record, "unit")?.to_string();
        rows.push(outcome);
    }
    Ok(rows)
}

fn sample(record: &Record) -> Result<SchedSample, String> {
    let of = |column: &str| -> Result<u64, String> {
        let text = text(record, column)?;
        text.parse().map_err(|_| format!("{column} '{text}' is not a whole number"))
    };
    Ok(SchedSample {
        cpu: u32::try_from(of("cpu")?).map_err(|_| "cpu is too large".to_string())?,
        seq: of("seq")?,
        start: of("CYSTART")?,
        end: of("CYEND")?,
        cost: of("SCHCY")?,
        pid: of("PID")?,
        run: of("PRUN")?,
        mark: of("recalc_mark")? != 0,
    })
}
