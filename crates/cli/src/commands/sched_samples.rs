//! `sched-samples`: samples of `schedule()` read and analysed.

use crate::args::SchedSamplesArgs;
use crate::confine::Named;
use crate::output;
use schedlab_base::counted;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::input;
use schedlab_report::{read_samples, samples_text};
use schedlab_trace::samples::analyse;

/// Prints the analyses.
pub(crate) fn sched_samples(args: &SchedSamplesArgs, quiet: bool) -> Result<(), Failure> {
    Named::new().inputs([&args.file]).enter(&args.sandbox, quiet)?;
    let name = args.file.display().to_string();
    let mut file = read_samples(&content(args, &name)?, &name).map_err(Failure::usage)?;
    if file.rows.is_empty() {
        return Err(Failure::usage(format!("{name}: no samples in it")));
    }
    file.clock_mhz = args.clock.or(file.clock_mhz);
    let figures = analyse(&file.rows, &args.disturbers);
    output::print(&samples_text(&file, &figures, &name))?;
    match figures.violations.len() {
        0 => Ok(()),
        count => {
            let (violations, samples) = (counted(count, "violation"), counted(file.rows.len(), "sample"));
            Err(Failure::failed(format!("{name}: {violations} in {samples}")))
        }
    }
}

fn content(args: &SchedSamplesArgs, name: &str) -> Result<String, Failure> {
    let read = if name == "-" { input::stdin() } else { input::text(&args.file) };
    read.map_err(|error| Failure::usage(format!("{name}: {error}")))
}
