//! Runs: simulated ones, real ones, and many of them.

pub mod batch;
pub mod command;
pub mod deadline;
pub mod defect;
pub mod key;
pub mod real;
pub mod recorded;
pub mod simulation;
pub mod streamed;
pub mod streams;
pub mod sweep;
pub mod timehist;
pub mod trace_file;
pub mod trust;
pub mod validated;
pub mod view;
