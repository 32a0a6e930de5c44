//! bpf
pub mod btf;
pub mod error;
