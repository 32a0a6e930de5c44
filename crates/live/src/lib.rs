//! The real kernel: schedulers loaded into it, workloads run on it as processes and threads, its
//! scheduling observed, and a virtual machine for hosts whose own kernel will not do.
//!
//! All privilege of the project is in this crate.

pub mod calibrate;
mod callbacks;
pub mod command;
mod ending;
mod events;
pub mod exec;
pub mod guest;
pub mod host;
pub mod kernel_image;
pub mod kernel_log;
pub mod load;
mod machine;
mod observe;
mod printed;
mod private;
pub mod session;
pub mod signals;
pub mod vm;
pub mod waits;
mod wire;

pub use events::Recording;

/// Takes on the role that this process was started for, if it is not an ordinary one: the first
/// process of a VM, or a task of a workload that has replaced its process image. A program that
/// uses this crate calls it first in `main`. Returns in an ordinary process only.
pub fn enter() {
    if guest::is_init() {
        guest::main();
    }
    exec::continue_if_asked();
}
