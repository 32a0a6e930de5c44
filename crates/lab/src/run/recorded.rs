//! The record of `-o`: where it goes, and what is written into it besides events.

use crate::failure::Failure;
use crate::files::target::{Draft, Target};
use schedlab_live::Recording;
use schedlab_report::{About, Document, Record, RecordSink, RecordWriter, RunHead, to_json};
use std::cell::RefCell;
use std::io::Cursor;
use std::path::Path;
use std::rc::Rc;

/// Where the record goes, checked before anything runs.
///
/// # Errors
/// A path that cannot be a file.
pub fn target(path: Option<&Path>) -> Result<Option<Target>, Failure> {
    path.map(|path| Target::binary("-o", path)).transpose()
}

/// Writes the record of results without events.
///
/// # Errors
/// A place that cannot be written.
pub fn write(target: &Target, document: &Document, about: &About) -> Result<(), Failure> {
    complete(target, RecordWriter::new(target.create()?), document, about)
}

fn complete(
    target: &Target,
    mut writer: RecordWriter<Draft>,
    document: &Document,
    about: &About,
) -> Result<(), Failure> {
    writer.results(&to_json(document), about);
    let draft = writer.finish().map_err(|error| target.failure(&error))?;
    target.finish(draft)
}

/// Where the record of a real run goes, with the events of the run until its results are complete.
#[derive(Clone, Debug)]
pub struct RealRecord {
    target: Target,
    events: Rc<RefCell<Events>>,
}

/// The events of a real run.
#[derive(Debug, Default)]
enum Events {
    /// None yet.
    #[default]
    None,
    /// Of this machine's kernel.
    Here(Recording),
    /// In the record that a guest has written.
    Guest(Vec<u8>),
}

impl RealRecord {
    /// Will write to `target`.
    pub fn new(target: Target) -> RealRecord {
        RealRecord { target, events: Rc::default() }
    }

    /// Where it goes.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Keeps the events of this machine's kernel.
    pub(crate) fn keep(&self, recording: Recording) {
        *self.events.borrow_mut() = Events::Here(recording);
    }

    /// Keeps what a guest has written.
    pub(crate) fn keep_guests(&self, record: &[u8]) {
        *self.events.borrow_mut() = Events::Guest(record.to_vec());
    }

    /// Writes the record.
    ///
    /// # Errors
    /// A place that cannot be written, and events that cannot be read.
    pub fn finish(&self, document: &Document, mut about: About) -> Result<(), Failure> {
        let unread = |error: &dyn std::fmt::Display| Failure::environment(format!("-o: the events: {error}"));
        let writer = RecordWriter::new(self.target.create()?);
        let writer = match self.events.take() {
            Events::None => writer,
            Events::Here(recording) => {
                let head = RunHead { cpus: document.runs[0].cpus, ..RunHead::default() };
                let mut sink = RecordSink::new(writer, &head);
                recording.replay(&mut sink).map_err(|error| unread(&error))?;
                about.lost = recording.lost;
                sink.finish()
            }
            Events::Guest(bytes) => {
                let mut guests = Record::open(Cursor::new(bytes)).map_err(|error| unread(&error))?;
                about.lost = guests.about.lost;
                let heads = guests.runs();
                let copied = |writer, (place, head): (usize, &RunHead)| {
                    let mut sink = RecordSink::new(writer, head);
                    guests.replay(place, &mut sink).map(|()| sink.finish())
                };
                heads.iter().enumerate().try_fold(writer, copied).map_err(|error| unread(&error))?
            }
        };
        complete(&self.target, writer, document, &about)
    }
}
