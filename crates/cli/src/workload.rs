//! Workloads by name or file.

use crate::failure::Failure;
use crate::input;
use schedlab_base::DurationNs;
use schedlab_workload::{Scenario, catalog, file, rtapp};

/// Builds the workload of `-w` with a seed; `duration` goes before a file's own.
///
/// # Errors
/// An unknown name or key, a bad value, an unreadable or wrong file.
pub(crate) fn scenario(spec: &str, seed: u64, duration: Option<DurationNs>) -> Result<Scenario, Failure> {
    let read = || input::text(spec).map_err(|error| Failure::usage(format!("workload file {spec}: {error}")));
    if spec.ends_with(".json") {
        return rtapp::parse(&read()?, spec, duration).map_err(|error| refused(spec, &error));
    }
    if spec.ends_with(".toml") {
        return file::parse(&read()?, spec).map_err(|error| refused(spec, &error));
    }
    catalog::build(spec, seed).map_err(|error| refused(spec, &error))
}

/// Puts the workload in front of a message that does not name it.
fn refused(spec: &str, error: &dyn std::fmt::Display) -> Failure {
    let text = error.to_string();
    let name = spec.split(':').next().unwrap_or(spec);
    if text.contains(name) {
        Failure::usage(text)
    } else {
        Failure::usage(format!("workload {spec}: {text}"))
    }
}
