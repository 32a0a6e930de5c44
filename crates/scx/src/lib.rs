//! Joins the BPF machine and the simulated kernel: a loaded sched_ext object becomes a scheduler of the simulation.
//!
//! [`BpfScheduler::load`] links an object file against the types of the simulated kernel (`kernel_model`, written down
//! as C declarations). The result implements [`schedlab_sim::SchedExt`]: each callback runs the object's own program in
//! the BPF machine. On the way out of a program everything passes through `join`: kernel functions (`kfunc`, a table with
//! one row each), helpers (`helpers`), and stores to kernel objects. Operations have one row each in `callbacks`. On the way
//! in, `mirror` holds tasks, run queues and masks in guest memory as the simulated kernel has them.
//!
//! Costs: every executed instruction is charged to the simulated CPU before anything that can tell the time, and each
//! call that leaves a program costs what the machine description says.
//!
//! A kernel function that a callback may not call, or that sleeps where the program may not, is refused at load
//! (`contexts`). What else the kernel's verifier would refuse, the machine finds when it happens. That is a NULL pointer,
//! a lock taken twice, too many instructions, or a store to a field that is the kernel's. The scheduler is then ejected
//! with the program, the instruction and the reason. A task pointer that is kept beyond its task reads the remains of
//! that task, then another task.
//!
//! Not modelled: sub-schedulers, `scx_bpf_dsq_reenq()` (objects fall back to
//! `scx_bpf_reenqueue_local()`), `fentry` programs (they are loaded and never run). `docs/sched-ext.md` compares each
//! name of sched_ext with the kernel, and `page` checks it against this code.

mod again;
mod args;
mod auxiliary;
mod callbacks;
mod contents;
mod contexts;
mod files;
mod guest;
mod helpers;
mod join;
mod kernel_model;
mod kfunc;
mod lane;
mod lines;
mod load;
mod locks;
mod masks;
mod mirror;
#[cfg(test)]
mod page;
mod paths;
mod pool;
mod priority;
mod programs;
mod requirements;
mod run;
mod scheduler;
mod settings;
mod state;
mod subs;
mod unconfigured;
mod user;

pub use again::Start;
pub use auxiliary::{is_at_interrupt, is_probe, left_out};
pub use callbacks::counted_callbacks;
pub use helpers::Message;
pub use kernel_model::declarations as kernel_declarations;
pub use kfunc::prototypes;
pub use load::{EngineChoice, LoadOptions, kernel_header, kernel_types};
pub use paths::Call;
pub use programs::{Returned, RunProgram, TimedProgram, check_programs};
pub use requirements::{MapNeed, Need, ProgramNeed, Requirements, requirements, tunables};
pub use run::run;
pub use schedlab_bpf::error::{LoadError, LoadErrorKind};
pub use schedlab_sim::{
    BandwidthFigures, UPTIME, USER_SPACE_PID, UserSpaceNext, UserSpaceTask, UserSpaceTurn,
};
pub use schedlab_workload::GroupSettings;
pub use scheduler::{Access, BpfScheduler, DEFAULT_BUDGET, Interleave, PATIENCE, Pause};
pub use settings::Tunable;
pub use unconfigured::LeftToLoader;
pub use user::{Attached, Recorded, Turn, UserCalls, UserGroup, UserSpace};
