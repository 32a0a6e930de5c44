//! Machines on which no loader runs: tracing one reads the registers of x86-64.

use crate::terms::{Config, Failure, Missing, Report};
use schedlab_scx::{BpfScheduler, LoadOptions};
use std::env::consts::ARCH;

/// A scheduler's own user-space program; there is none on this machine.
#[derive(Debug)]
pub enum Loader {}

impl Loader {
    /// Refuses to run a loader, by the name of what is missing.
    ///
    /// # Errors
    /// Always.
    pub fn load(config: Config<'_>, _: &LoadOptions, _: &[u8]) -> Result<(BpfScheduler, Report), Failure> {
        Err(Failure(format!(
            "{}: a scheduler's own program runs on x86-64 alone, and this schedlab is built for {ARCH}; \
             give its object in place of exec:",
            config.command.words.join(" ")
        )))
    }
}

/// The system call that this host refuses; the refusal of [`Loader::load`] comes before any of them matters.
pub fn missing_call() -> Option<Missing> {
    None
}
