//! The BPF machine and its loader from outside, in one program: each further one would be linked with all of it again.

mod arena;
mod built;
mod checks;
mod conformance;
mod damaged;
mod differential;
mod engine;
mod limits;
mod objects;
mod oracle;
mod random;
mod support;
mod tunables;
