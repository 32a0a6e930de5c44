//! `-m host` where nothing is known of the machine that simulates.

use crate::failure::Failure;
use schedlab_machine::MachineFile;

/// The name of the host's machine.
pub const HOST: &str = "host";

/// Refuses the host's machine.
///
/// # Errors
/// Always.
pub fn machine() -> Result<MachineFile, Failure> {
    Err(Failure::environment(format!(
        "-m {HOST}: nothing is known of this machine; the command line describes its own"
    )))
}
