//! Files that the user names, read whole.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Longest input in MiB. Chosen: tens of millions of numbers; what is longer is a device or the wrong file, and would fill
/// the memory.
const LIMIT_MIB: u64 = 256;

/// The content of a file.
///
/// # Errors
/// A file that cannot be read, or is too long.
pub(crate) fn bytes(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    all(File::open(path)?)
}

/// The content of a text file.
///
/// # Errors
/// As of [`bytes`], and a file that is no text.
pub(crate) fn text(path: impl AsRef<Path>) -> Result<String> {
    decoded(bytes(path)?)
}

/// What comes on standard input.
///
/// # Errors
/// As of [`text`].
pub(crate) fn stdin() -> Result<String> {
    decoded(all(std::io::stdin().lock())?)
}

fn all(reader: impl Read) -> Result<Vec<u8>> {
    let (limit, mut bytes) = (LIMIT_MIB << 20, Vec::new());
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(Error::other(format!("it is longer than {LIMIT_MIB} MiB")));
    }
    Ok(bytes)
}

fn decoded(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::new(ErrorKind::InvalidData, format!("it is no text: byte {at} is not UTF-8"))
    })
}
