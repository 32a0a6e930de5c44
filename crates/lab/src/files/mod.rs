//! Files that are read as input and written as results.

pub mod input;
#[cfg(feature = "host")]
pub mod numbers;
#[cfg(feature = "host")]
pub mod stdout;
#[cfg(feature = "host")]
pub mod target;
