//! Deterministic discrete-event simulation of the Linux scheduling core: CPUs,
//! tasks, the real-time, fair and sched_ext classes, and what tasks do in the
//! kernel. No BPF here: a scheduler is anything that implements [`SchedExt`].
//!
//! A kernel path (wakeup, schedule, tick, system call) runs on the host at once,
//! while its costs advance the CPU's local clock; what follows on that CPU
//! begins at that time. Paths are ordered by the times at which they begin, so
//! two CPUs may see each other's effects out of order by the length of one path
//! (about a microsecond). What must not happen out of order waits: locks have
//! timelines, and a task never runs before the instant it was queued at.
//!
//! The host waits for code more than for data: what few paths reach is kept out of
//! line (`#[inline(never)]`), so that the code of a switch lies close together.

mod balance;
mod cache;
mod check;
mod cpu;
mod domains;
mod dsq;
mod dump;
mod engine;
mod event;
mod exec;
mod ext;
mod fair;
pub mod flags;
mod hrtick;
mod idle;
mod imbalance;
mod ipc;
mod kernel;
mod kfunc;
mod life;
mod lock;
mod ops;
mod pelt;
mod placement;
mod queue;
mod rq;
mod rt;
mod run;
mod sched;
mod scx;
mod server;
mod sim;
mod starvation;
mod task;
mod trace;
mod tracking;

pub use cpu::Cpu;
pub use dsq::DsqIter;
pub use exec::TaskExec;
pub use ipc::{Descriptors, File};
pub use kernel::{Context, CostTotals, Interrupt, Kernel, UPTIME};
pub use lock::{SimLockId, TimerId};
pub use ops::{OpKind, OpsInfo, OpsSet, PreemptReason, SchedExt, TracePoint, TracePointKind, TracePoints};
pub use run::{Change, Class, Config, Remainder, RunResult, SimError, run};
pub use scx::EventCounters;
pub use task::{FIRST_PID, NewTask, OpsState, RunState, SHELL_PID, SchedClass, ScxEntity, Task};
pub use trace::SharedSink;
