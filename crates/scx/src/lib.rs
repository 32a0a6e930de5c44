//! Joins the BPF machine and the simulated kernel: a loaded sched_ext object becomes a scheduler of the simulation.

mod callbacks;
mod guest;
mod helpers;
mod join;
mod kernel_model;
mod kfunc;
mod load;
mod locks;
mod mirror;
mod pool;
mod requirements;
mod scheduler;
mod settings;
mod state;

pub use load::LoadOptions;
pub use requirements::{MapNeed, Need, ProgramNeed, Requirements, requirements, tunables};
pub use schedlab_bpf::error::{LoadError, LoadErrorKind};
pub use scheduler::{BpfScheduler, DEFAULT_BUDGET};
pub use settings::Tunable;
