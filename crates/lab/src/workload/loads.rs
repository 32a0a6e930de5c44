//! The workloads of a comparison, one for each `-w`.

use crate::failure::Failure;
use crate::workload::{endless, files, fixed_end, scenario};
use schedlab_base::{DurationNs, Goal};
use schedlab_trace::WorkloadRecord;
use std::path::Path;

/// A workload of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// As the user named it.
    pub spec: String,
    /// What results call it.
    pub record: WorkloadRecord,
    /// The workload's own metrics, the main one first.
    pub own: Vec<String>,
    /// How long a run takes of its own time, where its work does not decide that.
    pub end: Option<DurationNs>,
    /// A task that keeps a run going indefinitely.
    pub endless: Option<String>,
    /// Bounds that its figures are to keep.
    pub goals: Vec<Goal>,
}

/// Builds the workloads of `specs`. Where results would call two files the same, each has its path for a name.
///
/// # Errors
/// What [`scenario`] refuses, and a workload that is named twice.
pub fn loads(specs: &[String], seed: u64, limit: Option<DurationNs>) -> Result<Vec<Load>, Failure> {
    let load = |spec: &String| {
        let scenario = scenario(spec, seed, limit)?;
        let (end, endless) = (fixed_end(&scenario, limit), endless(&scenario, limit).map(str::to_string));
        let goals = scenario.goals;
        let own = scenario.metrics.into_iter().map(|metric| metric.name).collect();
        let record = WorkloadRecord { name: scenario.name, params: scenario.params };
        Ok(Load { spec: spec.clone(), record, own, end, endless, goals })
    };
    let loads: Vec<Load> = specs.iter().map(load).collect::<Result<_, Failure>>()?;
    named_apart(loads)
}

fn named_apart(mut loads: Vec<Load>) -> Result<Vec<Load>, Failure> {
    let records: Vec<WorkloadRecord> = loads.iter().map(|load| load.record.clone()).collect();
    for (at, load) in loads.iter_mut().enumerate() {
        if records.iter().filter(|record| **record == records[at]).count() > 1 && is_file(&load.spec) {
            load.record.name.clone_from(&load.spec);
        }
    }
    for (at, load) in loads.iter().enumerate() {
        if let Some(first) = loads[..at].iter().find(|first| first.record == load.record) {
            let text =
                if first.spec == load.spec { "twice" } else { "a second time, with the same parameters" };
            return Err(Failure::usage(format!(
                "-w {} names {} {text}; once is enough",
                load.spec, first.spec
            )));
        }
    }
    Ok(loads)
}

fn is_file(spec: &str) -> bool {
    files(spec).into_iter().all(|path| Path::new(path).is_file())
}
