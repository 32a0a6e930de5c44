//! Errors of the command and its exit codes: the one place that decides them.

use std::fmt;

/// How the command ends. The numbers are a contract with scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Done.
    Done = 0,
    /// The comparison or the check failed.
    Failed = 1,
    /// A usage or input error.
    Usage = 2,
    /// The results do not allow an answer.
    Inconclusive = 3,
    /// The scheduler was ejected.
    Ejected = 4,
    /// The environment lacks something.
    Environment = 5,
}

impl Code {
    /// The code of an exit status, if it is one of ours.
    pub fn from_number(number: i32) -> Option<Code> {
        use Code::{Done, Ejected, Environment, Failed, Inconclusive, Usage};
        [Done, Failed, Usage, Inconclusive, Ejected, Environment]
            .into_iter()
            .find(|code| *code as i32 == number)
    }
}

/// Why a command stops: one line that names the place and the cure, and its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: Code,
    /// The line, without the program's name.
    pub text: String,
}

impl Failure {
    /// Wrong arguments or input.
    pub fn usage(text: impl Into<String>) -> Failure {
        Failure { code: Code::Usage, text: text.into() }
    }

    /// Something is missing here: a right, a program, room on the disk.
    pub fn environment(text: impl Into<String>) -> Failure {
        Failure { code: Code::Environment, text: text.into() }
    }

    /// A scheduler was ejected; the text names the exit kind.
    pub fn ejected(text: impl Into<String>) -> Failure {
        Failure { code: Code::Ejected, text: text.into() }
    }

    /// A run that the time limit ended; `place` says where it was.
    pub fn stopped(what: &str, place: &str) -> Failure {
        let text = format!(
            "{what}: not finished, --time-limit ended it {place}; give it more host time (--time-limit) or a shorter \
             workload (--duration)"
        );
        Failure { code: Code::Inconclusive, text }
    }

    /// A comparison or check that does not hold.
    pub fn failed(text: impl Into<String>) -> Failure {
        Failure { code: Code::Failed, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text.replace('\n', " "))
    }
}

impl std::error::Error for Failure {}
