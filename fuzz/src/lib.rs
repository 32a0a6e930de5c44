//! Fuzz targets: everything that reads what strangers wrote, each as a function of bytes that must not panic.
//!
//! `make fuzz` runs them under libFuzzer with the compiler's coverage. `cargo test -p schedlab-fuzz` replays the corpus
//! and runs a short smoke. `cargo run -p schedlab-fuzz --bin replay TARGET FILE` runs one input.

pub mod boundary;
pub mod calls;
// The modules of the command name each other by these paths.

mod machine;
pub mod noise;
pub mod objects;
mod settings;
pub mod text;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name; the corpus is `corpus/NAME`.
    pub name: &'static str,
    /// What it does with an input. Panics on a defect.
    pub run: fn(&[u8]),
    /// Random inputs that the smoke test runs.
    pub smoke: usize,
}

/// All of them.
pub const TARGETS: [Target; 12] = [
    Target { name: "boundary", run: boundary::run, smoke: 3000 },
    Target { name: "whole", run: boundary::run_whole, smoke: 10 },
    Target { name: "engines", run: machine::run, smoke: 3000 },
    Target { name: "object", run: objects::run, smoke: 200 },
    Target { name: "machine-file", run: text::machine_file, smoke: 1000 },
    Target { name: "workload-file", run: text::workload_file, smoke: 1000 },
    Target { name: "rt-app", run: text::rt_app, smoke: 1000 },
    Target { name: "results", run: text::results, smoke: 1000 },
    Target { name: "samples", run: text::samples, smoke: 1000 },
    Target { name: "csv", run: text::csv, smoke: 1000 },
    Target { name: "settings", run: settings::lines, smoke: 200 },
    Target { name: "state", run: settings::dump, smoke: 200 },
];

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
