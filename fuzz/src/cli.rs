//! Readers of files that live in the command, which is no library: their modules, compiled once more.

#![allow(dead_code, reason = "each module is the command's, and a target uses its reader only")]

#[path = "../../crates/cli/src/failure.rs"]
pub(crate) mod failure;
#[path = "../../crates/cli/src/input.rs"]
pub(crate) mod input;
#[path = "../../crates/cli/src/numbers.rs"]
pub(crate) mod numbers;
#[path = "../../crates/cli/src/state.rs"]
pub(crate) mod state;
