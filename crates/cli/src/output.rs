//! Standard output and standard error: nothing else prints.

use crate::failure::{Code, Failure};
use schedlab_report::{fit, visible};
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Writes results for people to standard output, without what a name in them could do to a terminal, and no wider than that.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_exact(&fitted(text))
}

/// The same line by line: scripts, commands to copy.
pub(crate) fn print_exact(text: &str) -> Result<(), Failure> {
    write_stdout(&plain(text))
}

/// Writes results to a terminal in place of what it shows.
pub(crate) fn print_anew(text: &str) -> Result<(), Failure> {
    write_stdout(&format!("{CLEAR}{}", plain(&fitted(text))))
}

/// The text for the width of standard output: that of the variable COLUMNS, else of the terminal; elsewhere as it is.
fn fitted(text: &str) -> Cow<'_, str> {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse::<usize>().ok());
    let terminal = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    match said.or_else(terminal).filter(|width| *width > 0) {
        Some(width) => fit(text, width).into(),
        None => text.into(),
    }
}

/// Lines and their tabs, without what a name in them could do to a terminal.
fn plain(text: &str) -> String {
    let lines: Vec<String> =
        text.split('\n').map(|line| line.split('\t').map(visible).collect::<Vec<_>>().join("\t")).collect();
    lines.join("\n")
}

/// Writes a file's content to standard output: as it is, but for a terminal.
pub(crate) fn write_text_result(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { print_exact(text) } else { write_stdout(text) }
}

/// Writes results to standard output. A reader that went away ends the command
/// silently and successfully.
fn write_stdout(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| stdout_failure(&error))
}

/// The failure of writing to standard output: none, silently, when the reader went away.
pub(crate) fn stdout_failure(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure { code: Code::Done, text: String::new() };
    }
    Failure::environment(format!("standard output: {error}"))
}

/// Tells the user something that is not a result.
pub(crate) fn note(text: &str) {
    let mut err = io::stderr().lock();
    // It cannot be told when this fails.
    let _ = writeln!(err, "schedlab: {}", one_line(text));
}

/// Tells why the command stops, on one line.
pub(crate) fn error(text: &str) {
    // It cannot be told when this fails.
    let _ = writeln!(io::stderr().lock(), "schedlab: error: {}", one_line(text));
}

/// Most characters of a message. Chosen: what the messages of a kernel's verifier need; a file that is quoted can be longer.
const LONGEST: usize = 10_000;

/// The text on one line, without what a file that it quotes could do to a terminal, and not longer than [`LONGEST`]. The end
/// stays: it has the cure.
fn one_line(text: &str) -> String {
    let line = text.replace(['\n', '\t'], " ");
    let count = line.chars().count();
    if count <= LONGEST {
        return visible(&line).into_owned();
    }
    let begin: String = line.chars().take(LONGEST / 2).collect();
    let end: String = line.chars().skip(count - LONGEST / 2).collect();
    visible(&format!("{begin} ... {end}")).into_owned()
}

/// Help for a command line without a command.
pub(crate) fn help_as_error(text: &str) {
    let _ = write!(io::stderr().lock(), "{text}");
}
