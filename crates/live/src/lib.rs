//! The real kernel: schedulers loaded into it, workloads run on it as processes and threads, its
//! scheduling observed, and a virtual machine for hosts whose own kernel will not do.
//!
//! All privilege of the project is in this crate.

pub mod guest;
pub mod kernel_image;
pub mod kernel_log;
pub mod load;
mod machine;
pub mod vm;
mod wire;
