//! The text of `--timehist`, from a simulated run, a real one, or one in a VM.

use crate::args::HistoryArgs;
use crate::failure::Failure;
use crate::output;
use crate::target::{Draft, Target};
use schedlab_base::{TaskId, TimeNs};
use schedlab_live::Recording;
use schedlab_report::TimehistSink;
use schedlab_sim::FIRST_PID;
use schedlab_trace::Sink;
use schedlab_trace::waits::Party;
use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;

/// The history of a simulated run, while it goes on.
pub(crate) type History = Rc<RefCell<TimehistSink<Draft>>>;

impl HistoryArgs {
    /// Refuses `--latency` where a result takes the place of the tables.
    ///
    /// # Errors
    /// The two options, and the cure.
    pub(crate) fn has_room<'a>(&self, mut targets: impl Iterator<Item = &'a Target>) -> Result<(), Failure> {
        match targets.find(|target| self.latency && target.is_stdout()) {
            Some(target) => Err(Failure::usage(format!(
                "--latency: {} writes to standard output in place of the tables; name a file for it",
                target.option()
            ))),
            None => Ok(()),
        }
    }
}

/// Where the text goes, checked before anything runs.
pub(crate) fn target(path: Option<&Path>) -> Result<Option<Target>, Failure> {
    path.map(|path| Target::new("--timehist", path)).transpose()
}

/// Begins the history of a simulated run of these tasks.
pub(crate) fn start(target: &Target, parties: &[Party], cpus: usize) -> Result<History, Failure> {
    let mut sink = TimehistSink::new(target.create()?, cpus, FIRST_PID);
    for (number, party) in (0..).zip(parties) {
        sink.named(TaskId(number), &party.name);
    }
    Ok(Rc::new(RefCell::new(sink)))
}

/// Completes it, if there is one.
pub(crate) fn finish(target: Option<&Target>, history: Option<History>, end: TimeNs) -> Result<(), Failure> {
    let (Some(target), Some(history)) = (target, history) else { return Ok(()) };
    let sink = Rc::into_inner(history).expect("the run has dropped its sinks").into_inner();
    target.finish(sink.finish(end).map_err(|error| target.failure(&error))?)
}

/// Writes that of a real run on `cpus` CPUs.
pub(crate) fn write(target: &Target, recording: &Recording, cpus: usize, quiet: bool) -> Result<(), Failure> {
    let mut sink = TimehistSink::new(target.create()?, cpus, 0);
    recording.replay(&mut sink).map_err(|error| Failure::environment(format!("--timehist: {error}")))?;
    if recording.lost > 0 && !quiet {
        let lost = recording.lost;
        output::note(&format!("--timehist: {lost} switches and wakeups came too fast and are missing"));
    }
    target.finish(sink.finish(recording.end).map_err(|error| target.failure(&error))?)
}

/// Writes what a guest has written.
pub(crate) fn write_guests(target: &Target, text: &[u8]) -> Result<(), Failure> {
    let mut draft = target.create()?;
    draft.write_all(text).map_err(|error| target.failure(&error))?;
    target.finish(draft)
}
