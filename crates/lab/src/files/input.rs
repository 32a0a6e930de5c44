//! Files that the user names, read whole.

use schedlab_bpf::limits::OBJECT_BYTES;
use schedlab_bpf::object::is_executable;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Longest input in MiB. Chosen: tens of millions of numbers; what is longer is a device or the wrong file, and would fill
/// the memory.
const LIMIT_MIB: u64 = 256;

/// Longest definition (a workload, a machine, a scheduler's state) in MiB. Chosen: once it is read it takes up to a hundred times as
/// much memory, and one that was written by hand has some KiB.
const DEFINITION_MIB: u64 = 8;

/// The message for a folder in the place of a file.
const FOLDER: &str = "it is a folder; name a file";

/// Bytes of the header of an ELF file of 64 bits.
const ELF_HEADER: u64 = 64;

/// The content of a file.
///
/// # Errors
/// A file that cannot be read, or is too long.
pub fn bytes(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    all(open(path)?)
}

/// The content of an object file, or of a program that carries one. One that is too long is not read at all where its length
/// is known beforehand.
///
/// # Errors
/// A file that cannot be read, or is longer than an object or a program may be.
pub(crate) fn object_or_program(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut begin = Vec::new();
    file.by_ref().take(ELF_HEADER).read_to_end(&mut begin)?;
    if is_executable(&begin) {
        return all(begin.as_slice().chain(file));
    }
    let refused = |found: String| {
        Error::other(format!("{found} {}, the limit is {}", OBJECT_BYTES.what, OBJECT_BYTES.most))
    };
    let length = file.metadata()?.len();
    if length > OBJECT_BYTES.most {
        return Err(refused(length.to_string()));
    }
    up_to(begin.as_slice().chain(file), OBJECT_BYTES.most)?.ok_or_else(|| refused("too many".to_string()))
}

/// The content of a text file.
///
/// # Errors
/// As of [`bytes`], and a file that is no text.
pub fn text(path: impl AsRef<Path>) -> Result<String> {
    decoded(bytes(path)?)
}

/// The content of a text file that defines something.
///
/// # Errors
/// As of [`text`].
pub(crate) fn definition(path: impl AsRef<Path>) -> Result<String> {
    decoded(at_most(open(path)?, DEFINITION_MIB)?)
}

/// The content of a text file that is open.
///
/// # Errors
/// As of [`text`].
pub fn text_of(file: File) -> Result<String> {
    decoded(all(file)?)
}

/// What comes on standard input.
///
/// # Errors
/// As of [`text`].
pub fn stdin() -> Result<String> {
    decoded(all(std::io::stdin().lock())?)
}

/// Ends of names of traces, ours and others'.
const TRACES: [&str; 5] = [".pftrace", ".perfetto-trace", ".perfetto", "perf.data", ".dat"];

/// What is wrong with a name that is none but lies there: a folder, or a file whose name does not say what it is. `form` is how
/// a file is named.
pub(crate) fn there_instead(name: &str, form: &str) -> Option<String> {
    let path = Path::new(name);
    if path.is_dir() {
        return Some(format!("{FOLDER} ({form})"));
    }
    if TRACES.iter().any(|ending| name.ends_with(ending)) {
        return path.exists().then(|| format!("a trace is a result, and no command reads one; write {form}"));
    }
    path.exists().then(|| format!("there is such a file, but its name does not say what it is; write {form}"))
}

/// Opens what the user names. The sandbox opens no folder, and says so in other words.
///
/// # Errors
/// A file that cannot be opened.
pub fn open(path: impl AsRef<Path>) -> Result<File> {
    if path.as_ref().is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, FOLDER));
    }
    File::open(path)
}

fn all(reader: impl Read) -> Result<Vec<u8>> {
    at_most(reader, LIMIT_MIB)
}

fn at_most(reader: impl Read, mib: u64) -> Result<Vec<u8>> {
    up_to(reader, mib << 20)?.ok_or_else(|| Error::other(format!("it is longer than {mib} MiB")))
}

/// What a reader gives until it ends; nothing if that is longer than `limit` bytes.
fn up_to(reader: impl Read, limit: u64) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

fn decoded(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::new(ErrorKind::InvalidData, format!("it is no text: byte {at} is not UTF-8"))
    })
}
