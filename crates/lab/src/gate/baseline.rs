//! A kept baseline: runs of an earlier command, read from its record or results, in the place of the baseline's runs.

use crate::failure::Failure;
use crate::files::input;
use crate::run::shown;
use crate::run::simulation::Simulation;
use crate::run::trust::{build_id, provenance};
use crate::workload::fixed_end;
use schedlab_base::{DurationNs, counted, did_you_mean};
use schedlab_report::{from_json, scheduler_label};
use schedlab_trace::{Backend, Provenance, RunRecord, WorkloadRecord};
use schedlab_workload::Scenario;
use std::path::{Path, PathBuf};

/// What a record begins with.
const RECORD: &[u8] = b"schedlab record ";

/// Digits of a hash in a message. Chosen: as in `git log --oneline`, and some more.
const DIGITS: usize = 12;

/// The runs of one scheduler of an earlier command.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The file.
    path: String,
    /// Its runs of the scheduler.
    runs: Vec<RunRecord>,
    /// `--duration` of the command that made them, where the file says the command.
    duration: Option<Option<String>>,
}

/// The file of `FILE` or `FILE:SCHEDULER`, and the scheduler.
fn parts(named: &str) -> (PathBuf, Option<&str>) {
    if Path::new(named).exists() {
        return (named.into(), None);
    }
    let split = named.match_indices(':').map(|(at, _)| (&named[..at], &named[at + 1..]));
    let mut found = split.filter(|(path, _)| Path::new(path).is_file());
    found.next().map_or((named.into(), None), |(path, scheduler)| (path.into(), Some(scheduler)))
}

/// The file that `--baseline` names.
pub fn file(named: &str) -> PathBuf {
    parts(named).0
}

impl Baseline {
    /// Reads the runs of the file's first scheduler, or of the one that is named.
    ///
    /// # Errors
    /// A file that cannot be read, has no simulated runs, or none of the scheduler.
    pub fn read(named: &str) -> Result<Baseline, Failure> {
        let (path, wanted) = parts(named);
        let refused =
            |error: &dyn std::fmt::Display| Failure::usage(format!("--baseline {}: {error}", path.display()));
        let bytes = input::bytes(&path).map_err(|error| refused(&error))?;
        let (document, command) = if bytes.starts_with(RECORD) {
            let record = shown::open(&path)?;
            (record.document, Some(record.about.command))
        } else {
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_| refused(&"it is neither a record (-o) nor results (--json)"))?;
            (from_json(&text).map_err(|error| refused(&error))?, None)
        };
        let runs: Vec<RunRecord> =
            document.runs.into_iter().filter(|run| run.backend == Backend::Sim).collect();
        let mut labels: Vec<String> = Vec::new();
        for label in runs.iter().map(scheduler_label) {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        let label = match (wanted, labels.first()) {
            (_, None) => return Err(refused(&"it has no simulated runs")),
            (Some(wanted), _) if labels.iter().any(|label| label == wanted) => wanted.to_string(),
            (Some(wanted), _) => {
                let near = did_you_mean(wanted, &labels);
                let labels = labels.join(", ");
                return Err(refused(&format!("it has no runs of '{wanted}'{near}; it has: {labels}")));
            }
            (None, Some(first)) => first.clone(),
        };
        let runs = runs.into_iter().filter(|run| scheduler_label(run) == label).collect();
        let duration = command.map(|command| duration_of(&command));
        Ok(Baseline { path: path.display().to_string(), runs, duration })
    }

    /// What stands in results: the scheduler, the file, the hash of the object and the build.
    pub fn line(&self) -> String {
        let Provenance { object, build, .. } = &self.runs[0].provenance;
        let object = object.as_deref().map_or("no object".to_string(), |hash| format!("object {hash}"));
        let build = build.as_deref().unwrap_or("unknown");
        let other = if self.is_of_this_build() { "" } else { ", not this one, which may change figures too" };
        let label = scheduler_label(&self.runs[0]);
        format!("baseline: {label} of {}, {object}, made by build {build}{other}", self.path)
    }

    fn is_of_this_build(&self) -> bool {
        self.runs[0].provenance.build.as_deref() == Some(&build_id())
    }

    /// The kept runs that stand beside these, one for each workload, machine and seed, in their order. Results call their
    /// scheduler kept.
    ///
    /// # Errors
    /// The first run that has no partner, and what differs.
    pub fn beside(&self, runs: &[Simulation]) -> Result<Vec<RunRecord>, Failure> {
        let mut found: Vec<RunRecord> = Vec::new();
        let mut seen: Vec<(&str, usize, u64)> = Vec::new();
        for run in runs {
            let place = (run.workload.as_str(), run.machine.cpu_count(), run.seed);
            if seen.contains(&place) {
                continue;
            }
            seen.push(place);
            let kept = self.partner(run)?;
            found.push(RunRecord { scheduler: format!("{} (kept)", kept.scheduler), ..kept.clone() });
        }
        Ok(found)
    }

    fn partner(&self, run: &Simulation) -> Result<&RunRecord, Failure> {
        let scenario = run.scenario()?;
        let made_of = provenance(&run.scheduler, Some(&scenario), Some(&run.machine));
        let (name, cpus) = (&scenario.name, run.machine.cpu_count());
        let differs = |what: String| {
            let cure = if self.is_of_this_build() { "" } else { "; another build made it: make it again" };
            Failure::usage(format!("--baseline {}: {what}{cure}", self.path))
        };
        let all: Vec<&RunRecord> = self.runs.iter().collect();
        let named =
            |run: &&RunRecord| run.workload.name == *name || run.workload.name == runs_name(&scenario);
        let left = narrowed(all, named, |run| run.workload.name.clone())
            .map_err(|has| differs(format!("no run of workload {name}; it has {has}")))?;
        let left = narrowed(left, |run| run.cpus == cpus, |run| run.cpus.to_string()).map_err(|has| {
            differs(format!("no run of {name} on {}; its numbers of CPUs: {has}", counted(cpus, "CPU")))
        })?;
        let seed = |kept: &&RunRecord| kept.seed == run.seed;
        let left = narrowed(left, seed, |run| run.seed.to_string())
            .map_err(|has| differs(format!("no run of {name} with seed {}; its seeds: {has}", run.seed)))?;
        let record = WorkloadRecord { name: name.clone(), params: scenario.params.clone() };
        let params = difference(&left[0].workload, &record);
        let left = narrowed(
            left,
            |run| run.provenance.workload == made_of.workload,
            |run| short(&run.provenance.workload),
        )
        .map_err(|has| {
            let here = short(&made_of.workload);
            differs(format!("the workload {name} differs{params}: {has} there, {here} here"))
        })?;
        let left = narrowed(
            left,
            |run| run.provenance.machine == made_of.machine,
            |run| format!("{} ({})", run.machine, short(&run.provenance.machine)),
        )
        .map_err(|has| {
            let here = format!("{} ({})", run.machine.name, short(&made_of.machine));
            differs(format!("the machine differs: {has} there, {here} here"))
        })?;
        let kept = left[0];
        self.same_length(kept, &scenario, run.limit).map_err(differs)?;
        if kept.is_void() {
            let why = kept.standing_reasons().join(", ");
            return Err(differs(format!("its run of {name} with seed {} is void ({why})", run.seed)));
        }
        Ok(kept)
    }

    /// Refuses runs that `--duration` has cut in another way.
    fn same_length(
        &self,
        kept: &RunRecord,
        scenario: &Scenario,
        limit: Option<DurationNs>,
    ) -> Result<(), String> {
        let end = fixed_end(scenario, limit).or(limit);
        let exact = fixed_end(scenario, limit).is_some();
        if let Some(end) = end
            && (kept.duration > end || exact && kept.duration < end)
        {
            return Err(format!("its runs take {}, these {end}: --duration differs", kept.duration));
        }
        let Some(there) = &self.duration else { return Ok(()) };
        let parsed = there.as_ref().and_then(|text| text.parse::<DurationNs>().ok());
        if parsed == limit || exact {
            return Ok(());
        }
        Err(format!("--duration differs: {} there", there.as_deref().unwrap_or("none")))
    }
}

/// The name that results give a workload where its path has to tell it from another one.
fn runs_name(scenario: &Scenario) -> &str {
    scenario.params.iter().find(|(name, _)| name == "file").map_or(&scenario.name, |(_, value)| value)
}

/// Those that fit, or what the others have, each once.
fn narrowed(
    runs: Vec<&RunRecord>,
    fits: impl Fn(&&RunRecord) -> bool,
    has: impl Fn(&RunRecord) -> String,
) -> Result<Vec<&RunRecord>, String> {
    let left: Vec<&RunRecord> = runs.iter().copied().filter(|run| fits(run)).collect();
    if !left.is_empty() {
        return Ok(left);
    }
    let mut others: Vec<String> = Vec::new();
    for run in runs {
        let one = has(run);
        if !others.contains(&one) {
            others.push(one);
        }
    }
    Err(others.join(", "))
}

fn short(hash: &Option<String>) -> String {
    hash.as_deref().map_or("no hash".to_string(), |hash| hash.chars().take(DIGITS).collect())
}

/// The parameters in which two workloads differ: ` (rooms=1 there, rooms=2 here)`.
fn difference(there: &WorkloadRecord, here: &WorkloadRecord) -> String {
    let only = |one: &WorkloadRecord, other: &WorkloadRecord| {
        let params = one.params.iter().filter(|param| !other.params.contains(param));
        let params: Vec<String> = params.map(|(name, value)| format!("{name}={value}")).collect();
        if params.is_empty() { "nothing".to_string() } else { params.join(",") }
    };
    if there.params == here.params {
        return String::new();
    }
    format!(" ({} there, {} here)", only(there, here), only(here, there))
}

/// The value of `--duration` in a command line.
fn duration_of(command: &str) -> Option<String> {
    let mut words = command.split(' ').skip_while(|word| !word.starts_with("--duration"));
    let first = words.next()?;
    let value = first.strip_prefix("--duration=").or_else(|| words.next())?;
    Some(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_its_duration() {
        assert_eq!(duration_of("schedlab sim -s o1 -w chat --duration 2s -c 2").as_deref(), Some("2s"));
        assert_eq!(duration_of("schedlab sim --duration=500ms -s o1").as_deref(), Some("500ms"));
        assert_eq!(duration_of("schedlab sim -s o1 -w chat"), None);
    }

    #[test]
    fn parameters_that_differ_are_named() {
        let of = |params: &[(&str, &str)]| WorkloadRecord {
            name: "chat".to_string(),
            params: params.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect(),
        };
        let (one, other) = (of(&[("rooms", "1"), ("hogs", "0")]), of(&[("rooms", "2"), ("hogs", "0")]));
        assert_eq!(difference(&one, &other), " (rooms=1 there, rooms=2 here)");
        assert_eq!(difference(&one, &one), "");
    }
}
