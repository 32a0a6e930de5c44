//! The text of `--timehist`, from a simulated run, a real one, or one in a VM.

use crate::failure::Failure;
use crate::files::target::{Draft, Target};
use crate::run::streamed::Streamed;
use crate::run::view::tell_lost;
use schedlab_base::TaskId;
use schedlab_live::Recording;
use schedlab_report::TimehistSink;
use schedlab_sim::FIRST_PID;
use schedlab_trace::Sink;
use schedlab_trace::waits::Party;
use std::io::Write;
use std::path::Path;

/// Where the text goes, checked before anything runs.
pub fn target(path: Option<&Path>) -> Result<Option<Target>, Failure> {
    path.map(|path| Target::new("--timehist", path)).transpose()
}

/// Begins the history of a simulated run of these tasks.
pub(crate) fn start(
    target: &Target,
    parties: &[Party],
    cpus: usize,
) -> Result<Streamed<TimehistSink<Draft>>, Failure> {
    Streamed::start(target, |draft| {
        let mut sink = TimehistSink::new(draft, cpus, FIRST_PID);
        for (number, party) in (0..).zip(parties) {
            sink.named(TaskId(number), &party.name);
        }
        sink
    })
}

/// Writes that of a real run on `cpus` CPUs. What is missing from it is told in its last line, which comes out of a VM too.
pub fn write(target: &Target, recording: &Recording, cpus: usize) -> Result<(), Failure> {
    let mut sink = TimehistSink::new(target.create()?, cpus, 0);
    recording.replay(&mut sink).map_err(|error| Failure::environment(format!("--timehist: {error}")))?;
    let mut draft = sink.finish(recording.end).map_err(|error| target.failure(&error))?;
    tell_lost(&mut draft, recording.lost).map_err(|error| target.failure(&error))?;
    target.finish(draft)
}

/// Writes what a guest has written.
pub(crate) fn write_guests(target: &Target, text: &[u8]) -> Result<(), Failure> {
    let mut draft = target.create()?;
    draft.write_all(text).map_err(|error| target.failure(&error))?;
    target.finish(draft)
}
