//! The workloads of a comparison, one for each `-w`.

use crate::failure::Failure;
use crate::progress::Planned;
use crate::workload::{files, scenario};
use schedlab_base::{DurationNs, Goal};
use schedlab_trace::WorkloadRecord;
use std::path::Path;

/// A workload of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Load {
    /// As the user named it.
    pub(crate) spec: String,
    /// What results call it.
    pub(crate) record: WorkloadRecord,
    /// Its own metrics, the main one first.
    pub(crate) own: Vec<String>,
    /// How long a run takes of its own time, where its work does not decide that.
    pub(crate) end: Option<DurationNs>,
    /// A task that keeps a run going for ever.
    pub(crate) endless: Option<String>,
    /// Bounds that its figures are to keep.
    pub(crate) goals: Vec<Goal>,
}

/// Builds the workloads of `specs`. Where results would call two files the same, each has its path for a name.
///
/// # Errors
/// What [`scenario`] refuses, and a workload that is named twice.
pub(crate) fn loads(specs: &[String], seed: u64, limit: Option<DurationNs>) -> Result<Vec<Load>, Failure> {
    let load = |spec: &String| {
        let scenario = scenario(spec, seed, limit)?;
        let Planned { each: end, endless, .. } = Planned::one(spec, &scenario, limit);
        let endless = endless.map(str::to_string);
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
