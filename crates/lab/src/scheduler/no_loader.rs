//! Schedulers as they are shipped, `exec:COMMAND`, where no program can be started.

use crate::failure::Failure;
use crate::scheduler::Scheduler;
use schedlab_base::{Machine, TimeNs};
use schedlab_scx::{BpfScheduler, LoadOptions};
use schedlab_trace::Warning;

/// What the entry of a command begins with.
pub const PREFIX: &str = "exec:";

/// A command that loads a scheduler: there is none.
#[derive(Clone, Debug)]
pub enum Command {}

/// Refuses a command.
///
/// # Errors
/// Always.
pub fn find(command: &str) -> Result<(Command, Vec<u8>), Failure> {
    Err(Failure::environment(format!(
        "-s exec:{command}: no program can be started here; the command line runs it, and here an object file does without it"
    )))
}

/// Has a command load its scheduler.
///
/// # Errors
/// None: there is no command.
pub fn load(
    command: &Command,
    _object: &[u8],
    _options: &LoadOptions,
    _machine: &Machine,
    _seed: u64,
    _stays: bool,
) -> Result<(BpfScheduler, ()), Failure> {
    match *command {}
}

/// A warning about a loader that computes: there is none.
pub(crate) fn computes(_scheduler: &Scheduler, _since: Option<TimeNs>) -> Option<Warning> {
    None
}
