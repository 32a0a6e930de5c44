//! The event vocabulary that the simulation and the real kernel share, the hash
//! of a whole run, the streaming summary of a run's events, and the record of a
//! finished run that reports are made of.

mod event;
mod hash;
mod histogram;
mod record;
mod summary;

pub use event::{Event, EventKind, Sink, TaskState};
pub use hash::RunHash;
pub use histogram::Histogram;
pub use record::{Backend, Counter, ExitKind, ExitRecord, RunRecord, TaskRecord, WorkloadRecord};
pub use summary::{Summary, TaskSummary};
