//! Where results go: standard output, files, and nothing else prints.

use crate::failure::{Code, Failure};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Writes results for people to standard output, without what a name in them could do to a terminal.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write_stdout(&plain(text))
}

/// Writes them to a terminal in place of what it shows.
pub(crate) fn print_anew(text: &str) -> Result<(), Failure> {
    write_stdout(&format!("{CLEAR}{}", plain(text)))
}

fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', " ")
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
    // Nobody is left to tell when this fails.
    let _ = writeln!(err, "schedlab: {}", one_line(text));
}

/// Tells why the command stops, on one line.
pub(crate) fn error(text: &str) {
    // Nobody is left to tell when this fails.
    let _ = writeln!(io::stderr().lock(), "schedlab: error: {}", one_line(text));
}

/// The text on one line, without what a file that it quotes could do to a terminal.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Help for a command line without a command.
pub(crate) fn help_as_error(text: &str) {
    let _ = write!(io::stderr().lock(), "{text}");
}

/// Refuses two results in one place, of which the later would overwrite the earlier or be mixed with it.
/// A device such as /dev/null takes any number.
///
/// # Errors
/// The options and the path that they share.
pub(crate) fn distinct<'a>(targets: impl IntoIterator<Item = &'a Target>) -> Result<(), Failure> {
    let mut seen: Vec<&Target> = Vec::new();
    for target in targets {
        if let Some(first) = seen.iter().find(|first| first.place() == target.place()) {
            let options = format!("{} and {}", first.option, target.option);
            if target.is_stdout() {
                return Err(Failure::usage(format!("only one of {options} can be - (standard output)")));
            }
            if target.path.is_file() || !target.path.exists() {
                let path = target.path.display();
                return Err(Failure::usage(format!("{options} both name {path}; name a file for each")));
            }
        }
        seen.push(target);
    }
    Ok(())
}

/// The failure to write the file or folder of an option: a path that cannot be written is an input error, a full disk one
/// of the environment.
pub(crate) fn unwritten(option: &str, what: &str, error: &io::Error) -> Failure {
    let wrong_path = [
        io::ErrorKind::AlreadyExists,
        io::ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::ReadOnlyFilesystem,
        io::ErrorKind::IsADirectory,
        io::ErrorKind::NotADirectory,
        io::ErrorKind::InvalidFilename,
    ];
    if wrong_path.contains(&error.kind()) {
        Failure::usage(format!("{option}: {error}; name a {what} that you may write"))
    } else {
        Failure::environment(format!("{option}: {error}; free some room or name another {what}"))
    }
}

/// A file that results are written to; `-` is standard output.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The option that names it, for messages.
    option: &'static str,
    path: PathBuf,
}

impl Target {
    /// Checks early, before any work is done, that the path can be a file.
    pub(crate) fn new(option: &'static str, path: &Path) -> Result<Target, Failure> {
        let target = Target { option, path: path.to_path_buf() };
        if target.is_stdout() {
            return Ok(target);
        }
        if path.is_dir() {
            return Err(Failure::usage(format!("{option} {}: it is a folder; name a file", path.display())));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) {
            let text = format!("{option} {}: its folder does not exist; make it first", path.display());
            return Err(Failure::usage(text));
        }
        target.probe().map_err(|error| target.failure(&error))?;
        Ok(target)
    }

    /// Opens the file as [`Target::write`] will, and leaves it as it was. Pipes and devices would notice.
    fn probe(&self) -> io::Result<()> {
        let mut append = std::fs::File::options();
        append.append(true);
        match std::fs::symlink_metadata(&self.path) {
            Ok(_) if self.path.is_file() => append.open(&self.path).map(drop),
            Ok(_) => Ok(()),
            Err(_) => {
                append.create_new(true).open(&self.path)?;
                std::fs::remove_file(&self.path)
            }
        }
    }

    /// Where it lies, however it is spelled.
    fn place(&self) -> PathBuf {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        let inside = folder.ok().zip(self.path.file_name()).map(|(folder, name)| folder.join(name));
        self.path.canonicalize().ok().or(inside).unwrap_or_else(|| self.path.clone())
    }

    /// True for `-`.
    pub(crate) fn is_stdout(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Writes everything, or says why not: a path that cannot be written is an input
    /// error, a full disk one of the environment.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        if self.is_stdout() {
            return write_stdout(text);
        }
        std::fs::write(&self.path, text).map_err(|error| self.failure(&error))
    }

    /// Opens it for a result that is written while it is made.
    pub(crate) fn create(&self) -> Result<Box<dyn Write>, Failure> {
        if self.is_stdout() {
            return Ok(Box::new(io::stdout()));
        }
        let file = std::fs::File::create(&self.path).map_err(|error| self.failure(&error))?;
        Ok(Box::new(io::BufWriter::with_capacity(1 << 18, file)))
    }

    /// The error of writing it.
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        if self.is_stdout() {
            return stdout_failure(error);
        }
        unwritten(&format!("{} {}", self.option, self.path.display()), "file", error)
    }
}
