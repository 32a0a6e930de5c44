//! Files that are read as input and written as results.

pub mod input;
pub mod numbers;
pub mod stdout;
pub mod target;
