//! Machines and their kernels, by name.

#[cfg(feature = "host")]
pub mod calibrated;
#[cfg(feature = "host")]
pub mod host;
#[cfg(not(feature = "host"))]
#[path = "no_host.rs"]
pub mod host;
pub mod kernels;
#[cfg(feature = "host")]
pub mod vm_kernel;

use crate::failure::Failure;
use schedlab_machine::MachineFile;

/// The machine that a text describes; `origin` names it in errors.
pub fn described(text: &str, origin: &str) -> Result<MachineFile, Failure> {
    schedlab_machine::parse(text, origin).map_err(|error| Failure::usage(error.to_string()))
}
