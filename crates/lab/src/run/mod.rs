//! Runs: simulated ones, real ones, and many of them.

#[cfg(feature = "host")]
mod alone;
#[cfg(feature = "host")]
pub mod batch;
#[cfg(feature = "host")]
pub mod command;
#[cfg(feature = "host")]
pub mod deadline;
#[cfg(feature = "host")]
pub mod defect;
pub mod interleave;
#[cfg(feature = "host")]
pub mod key;
#[cfg(feature = "host")]
pub mod real;
pub mod record;
#[cfg(feature = "host")]
pub mod recorded;
pub mod request;
#[cfg(feature = "host")]
pub mod shown;
pub mod simulation;
#[cfg(feature = "host")]
pub mod streamed;
#[cfg(feature = "host")]
pub mod streams;
#[cfg(feature = "host")]
pub mod sweep;
#[cfg(feature = "host")]
pub mod timehist;
#[cfg(feature = "host")]
pub mod trace_file;
pub mod trust;
pub mod validated;
pub mod view;
