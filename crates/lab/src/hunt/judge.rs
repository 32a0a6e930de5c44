//! Makes the run of a case and says what went wrong and what was reached.

use super::case::Case;
use super::lost::LostTasks;
use super::property::{Property, Trouble, of_record};
use crate::failure::{Code, Failure};
use crate::run::simulation::{Watch, Watched};
use crate::run::{defect, interleave};
use crate::scheduler::Scheduler;
use schedlab_base::{DurationNs, StopFlag, TimeNs};
use schedlab_scx::Call;
use schedlab_sim::SharedSink;
use schedlab_trace::RunRecord;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// What a run showed.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What went wrong, the first kind of [`super::property::Property`] first.
    pub troubles: Vec<Trouble>,
    /// What the run reached: its features as numbers.
    pub reached: BTreeSet<u64>,
    /// CPU time of the workload's tasks.
    pub work: DurationNs,
    /// The last calls of callbacks.
    pub last_calls: Vec<Call>,
    /// The record; nothing where there was no run.
    pub record: Option<Box<RunRecord>>,
}

impl Outcome {
    fn broken(kind: &str, failure: &Failure) -> Outcome {
        Outcome { troubles: vec![Trouble::new(None, kind, failure.to_string())], ..Outcome::default() }
    }

    /// The hash of the run's trace.
    pub fn trace_hash(&self) -> Option<&str> {
        self.record.as_ref()?.trace_hash.as_deref()
    }
}

/// Runs the case.
pub fn judge(scheduler: &Scheduler, case: &Case) -> Outcome {
    judge_with(scheduler, case, Vec::new())
}

/// The same with sinks that look on.
pub(crate) fn judge_with(scheduler: &Scheduler, case: &Case, sinks: Vec<SharedSink>) -> Outcome {
    let what = || format!("the run of a case with seed {}", case.seed);
    match defect::guard(what, || Ok(run_case(scheduler, case, sinks))) {
        Ok(outcome) => outcome,
        Err(failure) => Outcome::broken("checker", &failure),
    }
}

/// What looks on while a case is run again ([`Again::sink`]), and compares what it shows with what it showed.
#[derive(Debug)]
pub struct Again<'a> {
    case: &'a Case,
    property: Option<Property>,
    lost: Rc<RefCell<LostTasks>>,
}

impl<'a> Again<'a> {
    /// Before the run of a case that shows a property.
    pub fn new(case: &'a Case, property: Option<Property>) -> Again<'a> {
        Again { case, property, lost: Rc::new(RefCell::new(LostTasks::new(case))) }
    }

    /// What gets the events.
    pub fn sink(&self) -> SharedSink {
        self.lost.clone()
    }

    /// What went wrong in the run.
    pub fn troubles(&self, record: &RunRecord) -> Vec<Trouble> {
        let mut troubles = of_record(self.case, record);
        if let Some(Property::Condition(condition)) = &self.property {
            troubles.extend(Trouble::of_condition(condition, record, None).ok().flatten());
        }
        if !record.exit.kind.is_ejection() {
            troubles.extend(self.lost.borrow_mut().finish(TimeNs::ZERO + record.duration));
        }
        troubles.sort_by_key(|one| one.property.as_ref().map(Property::rank));
        troubles
    }
}

fn run_case(scheduler: &Scheduler, case: &Case, mut sinks: Vec<SharedSink>) -> Outcome {
    let simulation = match case.simulation(scheduler) {
        Ok(simulation) => simulation,
        Err(failure) => return Outcome::broken("load", &failure),
    };
    let paused = match case.interleave.filter(|_| simulation.scheduler.object.is_some()) {
        Some(seed) => interleave::with_pauses(simulation, &case.scenario, seed, &StopFlag::default()),
        None => Ok(simulation),
    };
    let again = Again::new(case, None);
    sinks.push(again.sink());
    let watch = Watch { sinks, paths: true, ..Watch::default() };
    let watched = match paused.and_then(|simulation| simulation.run_watched(&case.scenario, watch)) {
        Ok(watched) => watched,
        Err(failure) if failure.code == Code::Usage && failure.text.starts_with("workload") => {
            return Outcome::broken("run", &failure);
        }
        Err(failure) => return Outcome::broken("load", &failure),
    };
    let Watched { record, paths, last_calls, .. } = watched;
    let troubles = again.troubles(&record);
    let own = case.scenario.tasks.iter().zip(&record.tasks).filter(|(spec, _)| !spec.background);
    let work = DurationNs(own.map(|(_, task)| task.cpu_time.0).sum());
    let reached = reached(&record, &paths);
    Outcome { troubles, reached, work, last_calls, record: Some(Box::new(record)) }
}

/// What a run reached, a number each. Each callback counts with the numbers of instructions that its calls executed, which stand
/// for its ways through the program. Counters of the scheduler and the kernel, and calls of callbacks, count by powers of two.
fn reached(record: &RunRecord, paths: &[u64]) -> BTreeSet<u64> {
    let power = |value: u64| value.checked_ilog2().map_or(0, |power| u64::from(power) + 1);
    let counters = record.counters.iter().map(|one| hash(&one.name, power(one.value)));
    let calls = record.callbacks.iter().map(|one| hash(&one.name, power(one.calls)));
    let words = record.warnings.iter().map(|one| hash(one.kind.name(), 0));
    let exit = [hash(record.exit.kind.name(), 0)];
    let paths = paths.iter().map(|path| hash("", *path));
    counters.chain(calls).chain(words).chain(exit).chain(paths).collect()
}

/// FNV-1a of a name and a number.
fn hash(name: &str, number: u64) -> u64 {
    let bytes = name.bytes().chain(number.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
