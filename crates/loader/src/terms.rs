//! What a loader is started with, and what comes of it: the same words on machines where none can run.

use crate::command::Command;
use schedlab_base::Machine;
use schedlab_bpf::btf::Btf;
use schedlab_bpf::object::Object;
use std::fmt;
use std::io;
use std::time::Duration;

/// CPU time until the scheduler is attached, and of each turn from then on. Chosen: loaders need less than a second.
pub const CPU_TIME: Duration = Duration::from_secs(10);

/// What a loader is started with.
#[derive(Debug)]
pub struct Config<'a> {
    /// The command.
    pub command: &'a Command,
    /// The object of the loader's program.
    pub object: Object,
    /// The machine that it finds.
    pub machine: &'a Machine,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The kernel's types that it finds.
    pub types: &'a Btf,
    /// True if the loader takes part in the run; else it ends when the scheduler is attached.
    pub stays: bool,
}

/// Why a loader did not attach its scheduler: a sentence, with the last of its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// What a loader did until its scheduler was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Variables of the object that it wrote: name, and value in words.
    pub variables: Vec<(String, String)>,
    /// Members of the operations, as they were attached.
    pub operations: Vec<(String, String)>,
    /// Maps whose size it set.
    pub sizes: Vec<(String, u32)>,
    /// Programs that it ran, with what they returned.
    pub runs: Vec<(String, u32)>,
    /// What it asked for and did not get.
    pub refused: Vec<String>,
    /// What it wrote to its output.
    pub output: String,
}

/// A system call that the host refuses, and the reason that it gives.
#[derive(Debug)]
pub struct Missing {
    /// The call's name.
    pub call: &'static str,
    /// Why.
    pub error: io::Error,
}
