//! `schedlab`: a laboratory for Linux CPU schedulers.

mod failure;
mod machine_file;

fn main() {}
