//! Deterministic discrete-event simulation of the Linux scheduling core: CPUs,
//! tasks, the real-time, fair and sched_ext classes, and what tasks do in the
//! kernel. No BPF here: a scheduler is anything that implements [`SchedExt`].
//!
//! A kernel path (wakeup, schedule, tick, system call) runs on the host at once, while its costs
//! advance the CPU's local clock. What follows on that CPU begins at that time. Paths are ordered
//! by the times at which they begin, so two CPUs may see each other's effects out of order by the
//! length of one path (about a microsecond). What must not happen out of order waits: locks have
//! timelines, and a task never runs before the instant it was queued at.
//!
//! The host waits for code more than for data: what few paths reach is kept out of
//! line (`#[inline(never)]`), so that the code of a switch lies close together.

mod check;
mod class;
mod core;
mod event;
mod exec;
pub mod flags;
mod ipc;
mod lane;
mod run;
mod state;

pub use class::ext::sub::SubOutcome;
pub use class::fair::bandwidth::BandwidthFigures;
pub use class::rt::RR_SLICE;
pub use event::lock::{SimLockId, TimerId};
pub use exec::TaskExec;
pub use ipc::{Descriptors, File};
pub use run::{Class, Config, Remainder, RunResult, SimError, run};
pub use state::charge::CostTotals;
pub use state::cpu::Cpu;
pub use state::dsq::DsqIter;
pub use state::group::{Group, GroupIx, GroupKnobs, GroupLife, Groups};
pub use state::kernel::{Change, Context, Interrupt, Kernel, UPTIME};
pub use state::lane::Core;
pub use state::ops::{
    GroupMove, OpKind, OpsInfo, OpsSet, PreemptReason, SchedExt, SubWish, TracePoint, TracePointKind,
    TracePoints, UserSpaceNext, UserSpaceTask, UserSpaceTurn,
};
pub use state::sched::EventCounters;
pub use state::states::{SharedStates, States};
pub use state::subs::{CAP_ALL, CAP_ENQ, CAP_ENQ_IMMED, CAP_PERF, CAP_PREEMPT, SchedIx};
pub use state::task::{
    ENABLER_COMM, ENABLER_PID, FIRST_PID, MEMBERS, Member, NewTask, OpsState, RunState, SHELL_PID,
    SchedClass, ScxEntity, ScxSeen, Seen, TASK_BYTES, Task, USER_SPACE_PID, Writer,
};
pub use state::trace::SharedSink;
