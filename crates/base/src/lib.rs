//! Vocabulary that every room shares: identifiers, time and weight newtypes, CPU masks, the random
//! number generator, metrics and goals. The machine description is here, and how mistakes in files
//! and names are reported, and numbers in sentences.
//!
//! Nothing here does I/O, reads a clock or allocates behind the caller's back,
//! and nothing here depends on another crate.

mod counted;
mod cpumask;
mod goal;
mod group_file;
mod ids;
mod kernel;
mod machine;
mod metric;
mod mistake;
mod nearest;
mod prng;
mod reservation;
mod setting;
mod shared;
mod stop;
mod tail;
mod task_table;
mod time;
mod untouched;
mod weight;

pub use counted::counted;
pub use cpumask::{CpuMask, MAX_CPUS};
pub use goal::{Goal, GoalError, Relation};
pub use group_file::GroupFile;
pub use ids::{CpuId, DsqId, TaskId};
pub use kernel::{
    Background, KernelChange, KernelFeatures, KernelPreset, KernelVersion, Preemption, Start, TickPhase,
    VersionError,
};
pub use machine::{Costs, Cpu, MAX_CACHE_KIB, Machine, MachineError};
pub use metric::{Better, Metric, RUN_METRICS};
pub use mistake::{Mistake, in_one_line};
pub use nearest::did_you_mean;
pub use prng::Prng;
pub use reservation::{FULL_BANDWIDTH, Reservation, ReservationError};
pub use setting::{ParseTimedSettingError, Presence, TimedSetting};
pub use shared::{Number, Place, Shared};
pub use stop::StopFlag;
pub use tail::Tail;
pub use task_table::{MAX_TASKS, OfTask, ROOM_FOR_TASKS, TaskTable};
pub use time::{DurationNs, ParseDurationError, TimeNs};
pub use untouched::Untouched;
pub use weight::{Nice, Policy, Weight};
