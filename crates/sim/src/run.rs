//! A run from configuration and scenario to result.

use crate::kernel::CostTotals;
use crate::ops::SchedExt;
use crate::scx::EventCounters;
use crate::trace::SharedSink;
use schedlab_base::{DurationNs, Machine};
use schedlab_trace::{ExitRecord, RunHash, Summary, TaskRecord};
use schedlab_workload::{Measurements, Scenario};
use std::fmt;

/// How to run.
#[derive(Clone)]
pub struct Config {
    /// The machine.
    pub machine: Machine,
    /// The seed of everything random in the run.
    pub seed: u64,
    /// Ends the run after this long, whatever the scenario says.
    pub limit: Option<DurationNs>,
    /// Check the run's invariants while it runs (panics on a broken one).
    pub checkers: bool,
    /// Who else gets the events.
    pub sinks: Vec<SharedSink>,
}

impl Config {
    /// A run on `machine` with `seed`, without limit, checkers and sinks.
    pub fn new(machine: Machine, seed: u64) -> Config {
        Config { machine, seed, limit: None, checkers: false, sinks: Vec::new() }
    }
}

/// Who schedules.
#[derive(Debug)]
pub enum Class<S> {
    /// The kernel's fair class.
    Fair,
    /// A sched_ext scheduler.
    Ext(S),
}

/// What a run gave.
#[derive(Debug)]
pub struct RunResult<S> {
    /// Length of the run.
    pub duration: DurationNs,
    /// How the scheduler left.
    pub exit: ExitRecord,
    /// The workload's counters and spans.
    pub measurements: Measurements,
    /// The common metrics' source.
    pub summary: Summary,
    /// What scheduling cost.
    pub costs: CostTotals,
    /// The tasks of the scenario, then one record `(forked)` when there are others.
    pub tasks: Vec<TaskRecord>,
    /// `SCX_EV_*`.
    pub events: EventCounters,
    /// The hash of the trace.
    pub trace_hash: RunHash,
    /// The scheduler, given back.
    pub scheduler: Option<S>,
}

/// Why a run could not take place or go on. Names the place and the cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimError(pub String);

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SimError {}

/// Runs `scenario` to its end.
///
/// # Errors
/// A bad machine or scenario.
pub fn run<S: SchedExt>(
    config: &Config,
    scenario: &Scenario,
    class: Class<S>,
) -> Result<RunResult<S>, SimError> {
    config.machine.validate().map_err(|error| SimError(error.to_string()))?;
    scenario.validate().map_err(|error| SimError(error.to_string()))?;
    let _ = class;
    unimplemented!()
}
