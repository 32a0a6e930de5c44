//! Workloads as data: a [`Scenario`] names kernel objects, programs and tasks; a [`Program`] is a
//! list of [`Op`]s; a [`Cursor`] walks it, from state to next operation. The executor of the
//! operations (the simulator, or real processes on a real kernel) brings CPUs and clocks; nothing
//! here knows either.
//!
//! All randomness is drawn when a scenario is built: (workload, parameters,
//! seed) is one exact program, so schedulers are compared on identical work.

pub mod catalog;
pub mod file;
pub mod rtapp;

mod background;
mod cursor;
mod group;
mod group_use;
mod identity;
mod measure;
mod mechanisms;
mod program;
mod scenario;
mod validate;

pub use background::STARTERS;
pub use cursor::{CURSOR_WORDS, Cursor};
pub use group::{
    DEEPEST_GROUP, DEFAULT_WEIGHT, GroupChange, GroupSettings, GroupSpec, LARGEST_WEIGHT, LONGEST_PERIOD,
    MOST_GROUPS, Quota, SHORTEST_PERIOD,
};
pub use identity::{HIGHEST_ID, Identity};
pub use measure::{
    CounterId, Formula, Measurements, MetricSpec, SeriesSpec, SpanFigure, SpanId, SpanSample, Spans, TimeUnit,
};
pub use program::{
    Amount, BarrierId, ChangeId, ChannelId, CondId, DiskId, GroupChangeId, GroupId, ListenerId, LockId,
    MAX_SHARED_TIMERS, MAX_TIMERS, Op, PollId, Program, ProgramBuilder, ProgramError, ProgramId, SemId,
    TaskRef, TimerSlot, WordId,
};
pub use scenario::{
    Attribute, Channel, ChannelKind, ChildSpec, Disk, End, LONGEST_SLICE, LockKind, MOST_TASKS, PollKind,
    PollSet, ProcessId, SHORTEST_SLICE, Scenario, ScenarioError, SemKind, Semaphore, TaskSpec, Watched,
};
