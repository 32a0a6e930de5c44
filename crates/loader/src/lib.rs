//! A scheduler as it is shipped: its own user-space program runs here, against an emulated bpf(2).
//!
//! The program is a traced process (ptrace(2)). Each of its system calls comes here first: calls that concern the machine, the
//! kernel, time, chance or other processes are answered for the simulated machine; a few that only concern the process
//! itself are left to the host; all others are refused. Nothing of the program or its libraries is changed, so static
//! and dynamic programs are alike.
//!
//! * `tracee` is the process: registers, memory, stops. `start` begins it: limits, no vDSO, no time stamp counter, no random
//!   addresses.
//! * `threads` lets one thread run at a time, in an order that depends on nothing of the host; a thread that waits does so in
//!   simulated time. Same command, machine and seed: the same system calls in the same order.
//! * `calls` decides about each system call; `files` about paths, `world` has the simulated machine's files.
//! * `bpf` answers bpf(2): maps are memory files, so that what the program maps it shares; from the moment the programs are
//!   linked they are the simulated kernel's maps, and `share` keeps what is mapped the same on both sides.
//! * `watch` ends a loader that computes for too long.
//! * `recorded` is what the program had decided by then.
//! * `terms` has the words that also exist where no loader runs; there `absent` refuses each.
//!
//! [`Loader`] is the whole: it runs up to the first call that needs the scheduler's programs, is joined to the simulated kernel,
//! and takes its turns from then on ([`schedlab_scx::UserSpace`]).

#[cfg(not(target_arch = "x86_64"))]
mod absent;
#[cfg(target_arch = "x86_64")]
mod bpf;
#[cfg(target_arch = "x86_64")]
mod calls;
mod command;
#[cfg(target_arch = "x86_64")]
mod descriptors;
#[cfg(target_arch = "x86_64")]
mod files;
#[cfg(target_arch = "x86_64")]
mod groups;
#[cfg(target_arch = "x86_64")]
mod host;
#[cfg(target_arch = "x86_64")]
mod loader;
#[cfg(target_arch = "x86_64")]
mod output;
#[cfg(target_arch = "x86_64")]
mod recorded;
#[cfg(target_arch = "x86_64")]
mod refusals;
#[cfg(target_arch = "x86_64")]
mod rings;
#[cfg(target_arch = "x86_64")]
mod share;
#[cfg(target_arch = "x86_64")]
mod start;
mod terms;
#[cfg(target_arch = "x86_64")]
mod threads;
#[cfg(target_arch = "x86_64")]
mod tracee;
#[cfg(target_arch = "x86_64")]
mod watch;
mod watches;
#[cfg(target_arch = "x86_64")]
mod world;

#[cfg(not(target_arch = "x86_64"))]
pub use absent::{Loader, missing_call};
pub use command::{Command, PREFIX, not_a_program};
#[cfg(target_arch = "x86_64")]
pub use host::missing_call;
#[cfg(target_arch = "x86_64")]
pub use loader::Loader;
pub use terms::{CPU_TIME, Config, Failure, Missing, Report};
