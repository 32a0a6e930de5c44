//! Records in files, and their views in files.

use crate::failure::Failure;
use crate::files::input;
use crate::files::target::Target;
use crate::run::view::{Showing, stream, text};
use schedlab_report::{Record, RecordError};
use std::fs::File;
use std::path::Path;

/// Opens a record.
///
/// # Errors
/// A file that cannot be read, or is no whole record of this version.
pub fn open(path: &Path) -> Result<Record<File>, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
    let file = input::open(path).map_err(|error| named(&error))?;
    Record::open(file).map_err(|error| match error {
        RecordError::NoRecord { .. } => {
            named(&format!("{error}; `schedlab sim -o {}` makes one", path.display()))
        }
        _ => named(&error),
    })
}

/// Writes a view of a record to its place.
///
/// # Errors
/// A view that the record has nothing for, a broken record, and a place that cannot be written.
pub fn show(record: &mut Record<File>, showing: &Showing, target: &Target) -> Result<(), Failure> {
    if !showing.view.is_streamed() {
        return target.write(&text(record, showing)?);
    }
    let draft = stream(record, showing, target.create()?, |error| target.failure(&error))?;
    target.finish(draft)
}
