//! Workloads by name or file.

pub mod loads;
mod parties;

pub use parties::parties;

use crate::failure::Failure;
use crate::files::input;
use schedlab_base::DurationNs;
use schedlab_workload::rtapp::{self, Version};
use schedlab_workload::{End, Scenario, catalog, file};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What the command line says of rt-app's files: the version that is followed, and whether notes are kept silent.
static FOLLOWED: OnceLock<(Version, bool)> = OnceLock::new();

/// Notes that were given. A workload is built once for each run, and a note is given once.
static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Sets the version of rt-app that this command follows.
pub fn follow(version: Version, quiet: bool) {
    // A second call would be one of the same command line.
    let _ = FOLLOWED.set((version, quiet));
}

/// The version of rt-app that this command follows.
pub fn followed() -> Version {
    FOLLOWED.get().map_or_else(Version::default, |(version, _)| *version)
}

/// Builds the workload of `-w` with a seed; `duration` goes before a file's own.
///
/// # Errors
/// An unknown name or key, a bad value, an unreadable or wrong file.
pub fn scenario(spec: &str, seed: u64, duration: Option<DurationNs>) -> Result<Scenario, Failure> {
    scenario_on(spec, seed, duration, None)
}

/// [`scenario`] for a machine of so many CPUs.
///
/// # Errors
/// As there, and a CPU in an rt-app file that the machine lacks.
pub(crate) fn scenario_on(
    spec: &str,
    seed: u64,
    duration: Option<DurationNs>,
    cpus: Option<u32>,
) -> Result<Scenario, Failure> {
    let read = |path: &str| {
        input::definition(path).map_err(|error| Failure::usage(format!("workload file {path}: {error}")))
    };
    if spec.ends_with(".json") {
        let files: Result<Vec<(String, String)>, Failure> =
            files(spec).into_iter().map(|path| Ok((path.to_string(), read(path)?))).collect();
        return rt_app(spec, &files?, duration, cpus);
    }
    if spec.ends_with(".toml") {
        return of_text(spec, &read(spec)?, duration, cpus);
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

/// The workload of a file with this name and content, for a machine of so many CPUs.
///
/// # Errors
/// A name that ends otherwise than such files do, and as of [`scenario`].
pub fn of_text(
    name: &str,
    text: &str,
    duration: Option<DurationNs>,
    cpus: Option<u32>,
) -> Result<Scenario, Failure> {
    if name.ends_with(".json") {
        return rt_app(name, &[(name.to_string(), text.to_string())], duration, cpus);
    }
    if !name.ends_with(".toml") {
        return Err(Failure::usage(format!("workload {name}: a workload's file is named *.toml or *.json")));
    }
    file::parse(text, name).map_err(|error| refused(name, &error))
}

/// A workload of rt-app. Its notes are given once.
fn rt_app(
    spec: &str,
    files: &[(String, String)],
    duration: Option<DurationNs>,
    cpus: Option<u32>,
) -> Result<Scenario, Failure> {
    let read = rtapp::parse_merged(files, duration, followed()).map_err(|error| refused(spec, &error))?;
    if let (Some((cpu, path)), Some(cpus)) = (&read.highest_cpu, cpus)
        && cpu.0 >= cpus
    {
        return Err(Failure::usage(format!(
            "{spec}: {path}: CPU {} is not there, and rt-app ends with an error: the machine has the CPUs 0 to {}; \
             take another machine or change the list",
            cpu.0,
            cpus.saturating_sub(1)
        )));
    }
    let quiet = FOLLOWED.get().is_none_or(|(_, quiet)| *quiet);
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    for note in read.notes.into_iter().filter(|_| !quiet) {
        let note = format!("{spec}: {note}");
        if told.insert(note.clone()) {
            log::info!("{note}");
        }
    }
    Ok(read.scenario)
}

/// The CPUs that this machine's kernel could ever have, which rt-app counts; none where it does not tell.
pub fn cpus_here() -> Option<u32> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/present").ok()?;
    let last = list.trim().rsplit(['-', ',']).next()?;
    last.parse::<u32>().ok().map(|last| last + 1)
}

/// The files of `-w`: `a.json+b.json` are two of rt-app that are put together, unless a file has that name.
pub fn files(spec: &str) -> Vec<&str> {
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

/// The task that keeps a run of a scenario going indefinitely, if one does.
pub fn endless(scenario: &Scenario, limit: Option<DurationNs>) -> Option<&str> {
    scenario.endless().filter(|_| limit.is_none()).map(|task| task.name.as_str())
}

/// When a run of a scenario ends, if its work does not decide that.
pub fn fixed_end(scenario: &Scenario, limit: Option<DurationNs>) -> Option<DurationNs> {
    match (scenario.end, limit) {
        (End::After(end), Some(limit)) => Some(end.min(limit)),
        (End::After(end), None) => Some(end),
        (End::AllExit | End::ForegroundExit, _) => None,
    }
}
