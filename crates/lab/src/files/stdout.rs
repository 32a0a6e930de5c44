//! Standard output as a place of results.

use crate::failure::{Code, Failure};
use schedlab_report::visible;
use std::io::{self, IsTerminal, Write};

/// Lines and their tabs, without what a name in them could do to a terminal.
pub fn plain(text: &str) -> String {
    let lines: Vec<String> =
        text.split('\n').map(|line| line.split('\t').map(visible).collect::<Vec<_>>().join("\t")).collect();
    lines.join("\n")
}

/// Writes a file's content to standard output: as it is, but for a terminal.
pub(crate) fn write_text_result(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { write_stdout(&plain(text)) } else { write_stdout(text) }
}

/// Writes results to standard output. A reader that went away ends the command
/// silently and successfully.
pub fn write_stdout(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| stdout_failure(&error))
}

/// The failure of writing to standard output: none, silently, when the reader went away.
pub fn stdout_failure(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure { code: Code::Done, text: String::new() };
    }
    Failure::environment(format!("standard output: {error}"))
}
