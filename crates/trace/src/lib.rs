//! The event vocabulary that the simulation and the real kernel share, the hash of a whole run, and the streaming
//! summary of a run's events. The record of a finished run is what reports are made of. There are also a window of a
//! run's time line, samples of `schedule()`, and the waits of tasks for each other.

mod distribution;
mod event;
mod group;
mod hash;
mod histogram;
mod latency;
mod priority;
mod record;
pub mod samples;
mod standing;
mod summary;
mod task_summary;
mod timeline;
mod wait_record;
pub mod waits;
mod warnings;
mod words;

pub use distribution::{Bucket, Distribution, DistributionError, latencies, percentile_metrics};
pub use event::{Event, EventKind, Sink, TaskState};
pub use group::{
    CpuPressure, GroupRecord, GroupsOfRun, TaskOfGroup, complete as complete_groups,
    unheard as unheard_groups,
};
pub use hash::RunHash;
pub use histogram::Histogram;
pub use latency::{LongWait, TaskWaits, WaitKind};
pub use priority::{Priorities, PriorityCourse, PriorityPoint};
pub use record::{
    AfterEjection, Backend, CallbackCost, Counter, ExitKind, ExitRecord, Printed, PrintedLine, Provenance,
    RunRecord, SchedulerTable, Series, SubRecord, TaskRecord, Validation, WorkloadRecord,
};
pub use standing::Standing;
pub use summary::{Look, Summary};
pub use task_summary::TaskSummary;
pub use timeline::{ParseWindowError, Stretch, Timeline, TimelineSink, Wakeup, Window};
pub use wait_record::{Homes, Names, WaitFigures, WaitRecord, WaitScope, WorstWait};
pub use warnings::{Bounds, IDLE_LOOK, IdleBeside, WATCHDOG, Warning, WarningKind, falls_behind};
