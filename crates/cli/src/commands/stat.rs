//! `stat`: samples read from text, CSV and result files, compared.

use crate::args::StatArgs;
use crate::failure::Failure;
use crate::input;
use crate::output::{self, Target};
use schedlab_report::{Plot, from_json, ministat, scheduler_label, stat_json};
use schedlab_trace::RunRecord;
use std::path::Path;

/// Prints the comparison, and writes it as JSON.
pub(crate) fn stat(args: &StatArgs) -> Result<(), Failure> {
    if args.samples.iter().filter(|name| *name == "-").count() > 1 {
        return Err(Failure::usage("stat: standard input (-) can be one sample only"));
    }
    let samples: Vec<(String, Vec<f64>)> =
        args.samples.iter().map(|name| Ok((name.clone(), read(name)?))).collect::<Result<_, Failure>>()?;
    let json = args.json.as_deref().map(|path| Target::new("--json", path)).transpose()?;
    if let Some(target) = &json {
        target.write(&stat_json(&samples, &args.confidence).map_err(Failure::usage)?)?;
        if target.is_stdout() {
            return Ok(());
        }
    }
    let plot = if args.boxes { Plot::Boxes } else { Plot::Values };
    let width = usize::from(args.width);
    let text = ministat(&samples, &args.confidence, plot, width).map_err(Failure::usage)?;
    output::print(&text)
}

/// Reads a sample: a file of its own, or a column or metric of a file.
fn read(name: &str) -> Result<Vec<f64>, Failure> {
    if name == "-" {
        let text = input::stdin().map_err(|error| Failure::usage(format!("standard input: {error}")))?;
        return plain(&text, "-");
    }
    if let Some((file, field)) =
        name.rsplit_once(':').filter(|(file, _)| !Path::new(name).exists() && !file.is_empty())
    {
        // FILE.json:SCHEDULER:METRIC has two parts behind the file.
        let (file, scheduler) = match file.rsplit_once(':') {
            Some((shorter, scheduler)) if !Path::new(file).exists() => (shorter, Some(scheduler)),
            _ => (file, None),
        };
        let text = content(file)?;
        if text.trim().is_empty() {
            return not_empty(Vec::new(), file);
        }
        return if text.trim_start().starts_with('{') {
            metric(&text, file, scheduler, field)
        } else if let Some(scheduler) = scheduler {
            let cure =
                format!("stat {name}: {file} is no result file; write {file}:COLUMN, without '{scheduler}'");
            Err(Failure::usage(cure))
        } else {
            column(&text, file, field)
        };
    }
    let text = content(name)?;
    if text.trim_start().starts_with('{') {
        let cure = format!("stat {name}: a result file has many metrics; name one, as in {name}:throughput");
        return Err(Failure::usage(cure));
    }
    plain(&text, name)
}

fn content(file: &str) -> Result<String, Failure> {
    let text = input::text(file).map_err(|error| Failure::usage(format!("stat {file}: {error}")))?;
    // Some programs begin a text with a byte order mark.
    Ok(text.trim_start_matches('\u{feff}').to_string())
}

fn plain(text: &str, file: &str) -> Result<Vec<f64>, Failure> {
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

fn not_empty(values: Vec<f64>, name: &str) -> Result<Vec<f64>, Failure> {
    if values.is_empty() {
        return Err(Failure::usage(format!("stat {name}: no numbers in it")));
    }
    Ok(values)
}

fn column(text: &str, file: &str, column: &str) -> Result<Vec<f64>, Failure> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let bad = |error: csv::Error| Failure::usage(format!("stat {file}: {error}"));
    let header = reader.headers().map_err(bad)?.clone();
    let Some(index) = header.iter().position(|name| name == column) else {
        let known: Vec<&str> = header.iter().collect();
        return Err(Failure::usage(format!(
            "stat {file}: no column '{column}'; it has: {}",
            known.join(", ")
        )));
    };
    if header.iter().filter(|name| *name == column).count() > 1 {
        let cure = format!("stat {file}: several columns are named '{column}'; give each a name of its own");
        return Err(Failure::usage(cure));
    }
    let mut values = Vec::new();
    for record in reader.records() {
        let record = record.map_err(bad)?;
        let line = record.position().map_or(0, csv::Position::line);
        match record.get(index).unwrap_or("") {
            "" => {}
            field => {
                values.push(number(field).ok_or_else(|| {
                    Failure::usage(format!("stat {file}:{line}: '{field}' is not a number"))
                })?)
            }
        }
    }
    not_empty(values, &format!("{file}:{column}"))
}

/// The values of a metric in the runs of a result file: all of one scheduler and one number of
/// CPUs, since a mean over several would be of nothing.
fn metric(text: &str, file: &str, scheduler: Option<&str>, name: &str) -> Result<Vec<f64>, Failure> {
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
        let text = format!("stat {file}: no runs of '{scheduler}' in it; it has: {}", labels.join(", "));
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
    let places =
        known(runs.iter().map(|run| format!("{} on {} CPUs", run.workload.name, run.cpus)).collect());
    if places.len() > 1 {
        let text = format!(
            "stat {file}: its runs are of several kinds ({}); write one file for each",
            places.join(", ")
        );
        return Err(Failure::usage(text));
    }
    let values: Vec<f64> = runs.iter().filter_map(|run| run.metric(name)).filter(|v| v.is_finite()).collect();
    if values.is_empty() {
        let metrics =
            known(runs.iter().flat_map(|run| &run.metrics).map(|metric| metric.name.clone()).collect());
        let text = format!("stat {file}: no metric '{name}' in its runs; they have: {}", metrics.join(", "));
        return Err(Failure::usage(text));
    }
    Ok(values)
}
