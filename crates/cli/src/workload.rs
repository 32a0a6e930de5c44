//! Workloads by name or file.

use crate::failure::Failure;
use crate::input;
use schedlab_base::DurationNs;
use schedlab_workload::{End, Scenario, catalog, file, rtapp};
use std::path::Path;

/// Builds the workload of `-w` with a seed; `duration` goes before a file's own.
///
/// # Errors
/// An unknown name or key, a bad value, an unreadable or wrong file.
pub(crate) fn scenario(spec: &str, seed: u64, duration: Option<DurationNs>) -> Result<Scenario, Failure> {
    let read = |path: &str| {
        input::definition(path).map_err(|error| Failure::usage(format!("workload file {path}: {error}")))
    };
    if spec.ends_with(".json") {
        let files: Result<Vec<(String, String)>, Failure> =
            files(spec).into_iter().map(|path| Ok((path.to_string(), read(path)?))).collect();
        return rtapp::parse_merged(&files?, duration, rtapp::Version::default())
            .map(|read| read.scenario)
            .map_err(|error| refused(spec, &error));
    }
    if spec.ends_with(".toml") {
        return file::parse(&read(spec)?, spec).map_err(|error| refused(spec, &error));
    }
    if let Some(wrong) = input::there_instead(spec, "*.toml or *.json") {
        return Err(Failure::usage(format!("workload {spec}: {wrong}")));
    }
    if spec.split(':').next().is_some_and(|name| name.contains('/')) {
        let cure = "there is no such file; a workload's file is named *.toml or *.json";
        return Err(Failure::usage(format!("workload {spec}: {cure}")));
    }
    catalog::build(spec, seed).map_err(|error| refused(spec, &error))
}

/// The files of `-w`: `a.json+b.json` are two of rt-app that are put together, unless a file has that name.
pub(crate) fn files(spec: &str) -> Vec<&str> {
    if spec.ends_with(".json") && !Path::new(spec).exists() { spec.split('+').collect() } else { vec![spec] }
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

/// The task that keeps a run of a scenario going for ever, if one does.
pub(crate) fn endless(scenario: &Scenario, limit: Option<DurationNs>) -> Option<&str> {
    scenario.endless().filter(|_| limit.is_none()).map(|task| task.name.as_str())
}

/// When a run of a scenario ends, if its work does not decide that.
pub(crate) fn fixed_end(scenario: &Scenario, limit: Option<DurationNs>) -> Option<DurationNs> {
    match (scenario.end, limit) {
        (End::After(end), Some(limit)) => Some(end.min(limit)),
        (End::After(end), None) => Some(end),
        (End::AllExit | End::ForegroundExit, _) => None,
    }
}
