//! Which runs are comparable: those of one cell. Their schedulers by name.

use schedlab_base::counted;
use schedlab_trace::{Backend, RunRecord, WorkloadRecord};
use std::collections::BTreeSet;

/// What must be equal for two runs to be comparable.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The workload with its parameters.
    pub workload: WorkloadRecord,
    /// Machine name.
    pub machine: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// Where the runs took place.
    pub backend: Backend,
}

/// The scheduler's name with its settings: `o1` or `o1[profile=d1]`.
pub fn scheduler_label(run: &RunRecord) -> String {
    if run.settings.is_empty() {
        return run.scheduler.clone();
    }
    let settings: Vec<String> = run.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{}[{}]", run.scheduler, settings.join(","))
}

/// The first run of each scheduler in each cell: one seed stands for the others.
pub fn first_runs(runs: &[RunRecord]) -> Vec<&RunRecord> {
    let mut seen = Vec::new();
    let mut is_new = |run: &&RunRecord| {
        let place = (cell_of(run), scheduler_label(run));
        let new = !seen.contains(&place);
        if new {
            seen.push(place);
        }
        new
    };
    runs.iter().filter(|run| is_new(run)).collect()
}

/// The name of a workload's main metric: the first one of its runs, those that end too early left out.
pub(crate) fn main_metric<'a>(runs: &'a [RunRecord], workload: &WorkloadRecord) -> Option<&'a str> {
    let run = runs.iter().find(|run| run.workload == *workload && !run.is_void());
    run.and_then(|run| run.metrics.first()).map(|metric| metric.name.as_str())
}

/// The cell of a run.
pub fn cell_of(run: &RunRecord) -> Cell {
    Cell {
        workload: run.workload.clone(),
        machine: run.machine.clone(),
        cpus: run.cpus,
        backend: run.backend,
    }
}

pub(crate) fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

/// `a, b and c`.
pub(crate) fn listed(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.collect();
    match texts.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => texts.concat(),
    }
}

/// `2, 4 and 8 CPUs`.
pub(crate) fn cpus_text(counts: impl Iterator<Item = usize>) -> String {
    let counts: BTreeSet<usize> = counts.collect();
    match counts.len() {
        0 | 1 => counted(counts.first().copied().unwrap_or(0), "CPU"),
        _ => format!("{} CPUs", listed(counts.iter().map(usize::to_string))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;

    #[test]
    fn settings_are_part_of_the_name() {
        let mut one = run("o1", 1, 1.0);
        one.settings.push(("profile".into(), "d1".into()));
        assert_eq!(scheduler_label(&one), "o1[profile=d1]");
    }
}
