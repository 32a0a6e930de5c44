//! Machines and their kernels, by name.

pub mod calibrated;
pub mod host;
pub mod kernels;

use crate::failure::Failure;
use schedlab_machine::MachineFile;

/// The machine that a text describes; `origin` names it in errors.
pub fn described(text: &str, origin: &str) -> Result<MachineFile, Failure> {
    schedlab_machine::parse(text, origin).map_err(|error| Failure::usage(error.to_string()))
}
