//! BPF object files and the user-space machine that runs them. Knows no scheduling.
//!
//! Two halves. The loader turns an object file into linked functions and maps:
//!
//! * [`object`]: what is in the file; [`btf`]: the types that it and the kernel describe themselves with;
//! * [`settings`]: what a user gives to an object's variables, tables and maps;
//! * [`link`]: an object joined to a kernel model and to these settings;
//! * [`maps`]: maps in guest memory; [`helpers`]: what programs call that has nothing to do with scheduling.
//!
//! The machine (bottom up) runs them:
//!
//! * [`insn`]: instruction slots as they stand in the file;
//! * [`memory`]: the guest address space, the only memory that a program can reach;
//! * [`code`]: functions checked and decoded once;
//! * [`engine`]: execution with an exact instruction count, and what a host has to offer;
//! * [`fault`]: why a run ended early, and where;
//! * [`limits`]: what an object may have at most.

pub mod args;
pub mod btf;
pub mod code;
mod core_relo;
pub mod engine;
pub mod error;
pub mod fault;
mod guard;
pub mod helpers;
pub mod insn;
pub mod limits;
pub mod link;
pub mod maps;
pub mod memory;
pub mod object;
pub mod settings;

pub use code::{Code, CodeBuilder, CodeError, FuncId, Marks};
pub use engine::{
    Compiler, Done, Engine, Host, Interpreter, NoHost, NotCompiled, Paused, Progress, SharedAccess,
    SharedPlace, Vm,
};
pub use fault::{Access, Fault, FaultKind, Location};
pub use insn::Insn;
pub use memory::{GuestAddr, Memory, MemoryError, Perm};
