//! Machines and their kernels, by name.

pub mod calibrated;
pub mod host;
pub mod kernels;
