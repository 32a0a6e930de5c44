//! `stat`: samples read from text, CSV and result files, compared.

use crate::args::StatArgs;
use crate::confine::Named;
use crate::output;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::input;
use schedlab_lab::files::numbers::{column, metric, not_empty, plain};
use schedlab_lab::files::target::Target;
use schedlab_report::{Plot, ministat, stat_json};
use std::path::Path;

/// Prints the comparison, and writes it as JSON.
pub(crate) fn stat(args: &StatArgs, quiet: bool) -> Result<(), Failure> {
    let named = Named::new().inputs(args.samples.iter().flat_map(|name| files(name)));
    named.outputs([&args.json]).enter(&args.sandbox, quiet)?;
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

/// What may be the file of a sample: the parts behind it are cut off at colons.
fn files(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| name.rsplit_once(':').map(|(file, _)| file))
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
