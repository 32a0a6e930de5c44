//! Samples in text: a number a line, a column of a CSV file, a metric of a result file.

use crate::failure::Failure;
use schedlab_base::{counted, did_you_mean};
use schedlab_report::{from_cell, from_json, scheduler_label};
use schedlab_trace::RunRecord;

/// A number a line; what follows a # is a remark.
pub fn plain(text: &str, file: &str) -> Result<Vec<f64>, Failure> {
    let lines =
        text.lines().enumerate().map(|(index, line)| (index, line.split('#').next().unwrap_or("").trim()));
    let values: Vec<f64> = lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| {
            number(line).ok_or_else(|| {
                Failure::usage(format!(
                    "stat {file}:{}: '{line}' is not a number; for a column of a CSV file write {file}:COLUMN",
                    index + 1
                ))
            })
        })
        .collect::<Result<_, _>>()?;
    not_empty(values, file)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// A sample has at least one number.
pub fn not_empty(values: Vec<f64>, name: &str) -> Result<Vec<f64>, Failure> {
    if values.is_empty() {
        return Err(Failure::usage(format!("stat {name}: no numbers in it")));
    }
    Ok(values)
}

/// The numbers of a column of a CSV file.
pub fn column(text: &str, file: &str, column: &str) -> Result<Vec<f64>, Failure> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    if !text.matches('"').count().is_multiple_of(2) {
        return Err(Failure::usage(format!(
            "stat {file}: a quote is not closed; the file is cut or damaged"
        )));
    }
    let bad = |error: csv::Error| match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => Failure::usage(format!(
            "stat {file}:{}: the line has {}, the header {expected_len}; the file is cut or damaged",
            pos.as_ref().map_or(0, csv::Position::line),
            counted(*len, "field"),
        )),
        _ => Failure::usage(format!("stat {file}: {error}")),
    };
    let header = reader.headers().map_err(bad)?.clone();
    let named = |name: &str| name == column || from_cell(name) == column;
    let Some(index) = header.iter().position(named) else {
        let known: Vec<&str> = header.iter().collect();
        let near = did_you_mean(column, &known);
        return Err(Failure::usage(format!(
            "stat {file}: no column '{column}'{near}; it has: {}",
            known.join(", ").escape_debug()
        )));
    };
    if header.iter().filter(|name| named(name)).count() > 1 {
        let cure = format!("stat {file}: several columns are named '{column}'; give each a name of its own");
        return Err(Failure::usage(cure));
    }
    let mut values = Vec::new();
    for record in reader.records() {
        let record = record.map_err(bad)?;
        let line = record.position().map_or(0, csv::Position::line);
        match record.get(index).unwrap_or("") {
            "" => {}
            field => values.push(number(field).ok_or_else(|| {
                Failure::usage(format!("stat {file}:{line}: '{}' is not a number", field.escape_debug()))
            })?),
        }
    }
    not_empty(values, &format!("{file}:{column}"))
}

/// The values of a metric in the runs of a result file: all of one scheduler and one number of
/// CPUs, since a mean over several would be of nothing.
pub fn metric(text: &str, file: &str, scheduler: Option<&str>, name: &str) -> Result<Vec<f64>, Failure> {
    let document = from_json(text).map_err(|error| Failure::usage(format!("stat {file}: {error}")))?;
    if document.runs.is_empty() {
        return Err(Failure::usage(format!("stat {file}: no runs in it")));
    }
    let known = |mut names: Vec<String>| {
        names.sort_unstable();
        names.dedup();
        names
    };
    let labels = known(document.runs.iter().map(scheduler_label).collect());
    let wanted = |run: &&RunRecord| {
        scheduler.is_none_or(|scheduler| run.scheduler == scheduler || scheduler_label(run) == scheduler)
    };
    let runs: Vec<&RunRecord> = document.runs.iter().filter(wanted).collect();
    if let (true, Some(scheduler)) = (runs.is_empty(), scheduler) {
        let near = did_you_mean(scheduler, &labels);
        let text =
            format!("stat {file}: no runs of '{scheduler}' in it{near}; it has: {}", labels.join(", "));
        return Err(Failure::usage(text));
    }
    if known(runs.iter().map(|run| scheduler_label(run)).collect()).len() > 1 {
        let text = format!(
            "stat {file}: it has runs of several schedulers ({}); name one, as in {file}:{}:{name}",
            labels.join(", "),
            labels[0]
        );
        return Err(Failure::usage(text));
    }
    let places = known(
        runs.iter().map(|run| format!("{} on {}", run.workload.name, counted(run.cpus, "CPU"))).collect(),
    );
    if places.len() > 1 {
        let text = format!(
            "stat {file}: its runs are of several kinds ({}); write one file for each",
            places.join(", ")
        );
        return Err(Failure::usage(text));
    }
    let values: Vec<f64> = runs.iter().filter_map(|run| run.metric(name)).filter(|v| v.is_finite()).collect();
    if values.is_empty() {
        let metrics: Vec<String> =
            known(runs.iter().flat_map(|run| &run.metrics).map(|metric| metric.name.clone()).collect());
        let near = did_you_mean(name, &metrics);
        let text =
            format!("stat {file}: no metric '{name}' in its runs{near}; they have: {}", metrics.join(", "));
        return Err(Failure::usage(text));
    }
    Ok(values)
}
