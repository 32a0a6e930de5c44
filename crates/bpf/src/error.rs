//! The one error of loading: which file, which place in it, what is wrong, and what to do about it.

use std::fmt;

/// Why an object could not be loaded; every message names the file, the place and the cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// What kind of failure this is, for callers that decide on it.
    pub kind: LoadErrorKind,
    /// The object file as the caller named it; empty until the file is known.
    pub file: String,
    /// The section, program, instruction, map or variable at fault.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
    /// What the user can do.
    pub cure: String,
}

/// The kinds of load failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadErrorKind {
    /// The bytes are not a BPF object file at all (other format, machine or byte order).
    NotAnObject,
    /// A BPF object file whose content contradicts itself or ends early.
    Malformed,
    /// A valid object that uses something that this machine does not model; the name is in the problem.
    Unsupported,
    /// Something the object needs is not in the kernel it is loaded against.
    Unresolved,
    /// A setting that names no variable, or a value that does not fit its variable.
    Setting,
    /// More of something than an object may have; see [`crate::limits`].
    Limit,
    /// Guest memory ran out.
    Memory,
    /// The host does not give what guest memory takes.
    Host,
}

impl LoadError {
    /// An error without a file name; [`LoadError::in_file`] adds it where the file is known.
    pub fn new(
        kind: LoadErrorKind,
        place: impl Into<String>,
        problem: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        LoadError {
            kind,
            file: String::new(),
            place: place.into(),
            problem: problem.into(),
            cure: cure.into(),
        }
    }

    /// A contradiction inside the file: the only cure is to build the file again.
    pub(crate) fn malformed(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::new(
            LoadErrorKind::Malformed,
            place,
            problem,
            "the file is damaged or was written by an unknown tool; build it again with clang -target bpf -g -O2",
        )
    }

    /// Something real that is not modelled here.
    pub(crate) fn unsupported(
        place: impl Into<String>,
        problem: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self::new(LoadErrorKind::Unsupported, place, problem, cure)
    }

    /// The error with the file's name, unless it has one already.
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Self {
        if self.file.is_empty() {
            self.file = file.to_string();
        }
        self
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}: ", self.file)?;
        }
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        write!(f, "{}", self.problem)?;
        match self.cure.as_str() {
            "" => {}
            // Not two brackets beside each other.
            cure if self.problem.ends_with(')') => write!(f, "; {cure}")?,
            cure => write!(f, " ({cure})")?,
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}
