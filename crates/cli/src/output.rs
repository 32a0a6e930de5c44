//! Standard output and standard error: nothing else prints.

use schedlab_lab::failure::Failure;
use schedlab_lab::files::stdout::{plain, write_stdout};
use schedlab_report::{fit, visible};
use std::borrow::Cow;
use std::io::{self, Write};

/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Writes results for people to standard output, without what a name in them could do to a terminal, and no wider than that.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_exact(&fitted(text))
}

/// Writes results line by line: scripts, commands to copy.
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

/// Tells the user something that is not a result.
pub(crate) fn note(text: &str) {
    let mut err = io::stderr().lock();
    // A failure of this has no place where it could be reported.
    let _ = writeln!(err, "schedlab: {}", one_line(text));
}

/// Writes lines that a CI system reads to standard error, where they do not mix with results.
pub(crate) fn annotate(lines: &str) {
    // A failure of this has no place where it could be reported.
    let _ = io::stderr().lock().write_all(lines.as_bytes());
}

/// Tells why the command stops, on one line.
pub(crate) fn error(text: &str) {
    // A failure of this has no place where it could be reported.
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

/// Shows what the laboratory says: notes, and last words as errors.
struct Told;

impl log::Log for Told {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("schedlab")
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let text = record.args().to_string();
        if record.level() == log::Level::Error { error(&text) } else { note(&text) }
    }

    fn flush(&self) {}
}

/// Lets the laboratory speak.
pub(crate) fn listen() {
    // A second call would be one of the same command.
    if log::set_logger(&Told).is_ok() {
        log::set_max_level(log::LevelFilter::Info);
    }
}
