//! A scheduler judged against a base by a suite of loads: a score, and reasons.
//!
//! Names, parameters, lengths, orders and seeds of all runs are drawn from a key. Candidate and base make the same runs. A
//! candidate is accepted if its runs are valid, no task falls below a floor, and nothing is shown to be worse than its bound.

mod disguise;
mod drawn;
mod floors;
mod judged;
mod key;
mod progress;
mod range;
mod reasons;
mod score;
pub mod source;
pub mod space;
pub mod suite;
pub mod verify;

pub use key::Key;

use crate::failure::{Code, Failure};
use crate::run::deadline::TimeLimit;
use crate::run::defect;
use crate::run::simulation::{Simulation, Watch};
use crate::run::sweep;
use crate::scheduler::Scheduler;
use drawn::{Drawn, draw};
use floors::{Fault, FaultKind, Seen, faults};
use judged::{Judged, label};
use progress::Progress;
use schedlab_report::{JudgedLoad, Judgement};
use schedlab_sim::SharedSink;
use schedlab_sweep::{Outcome, work};
use score::{Score, is_worse, joined, logarithms, missing, nothing, too_slow};
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::rc::Rc;
use suite::{Suite, SuiteLoad};

/// What is judged, and how.
#[derive(Debug)]
pub struct Trial {
    /// The scheduler that is judged.
    pub candidate: Scheduler,
    /// What it is compared with.
    pub base: Scheduler,
    /// The loads.
    pub suite: Suite,
    /// What is drawn comes from it.
    pub key: Key,
    /// Loads that answers do not show are shown.
    pub show_hidden: bool,
    /// Runs at once; as many as the host has CPUs without.
    pub jobs: Option<NonZeroUsize>,
    /// Host time of each run.
    pub limit: TimeLimit,
}

/// A pair of runs, reduced to what the answer needs.
struct Pair {
    logarithms: Vec<f64>,
    faults: Vec<Fault>,
}

impl Trial {
    /// The answer.
    ///
    /// # Errors
    /// A suite or base that is refused, a run that is lost.
    pub fn judge(&self, told: &(dyn Fn(usize, usize) + Sync)) -> Result<Judgement, Failure> {
        self.base_loads()?;
        if let Some(refusal) = self.refusal()? {
            return Ok(self.refused(&refusal));
        }
        let seeds = self.suite.seeds.get();
        let cells: Vec<(usize, usize)> =
            (0..self.suite.loads.len()).flat_map(|load| (0..seeds).map(move |run| (load, run))).collect();
        told(0, cells.len());
        let attempt = |(load, run): &(usize, usize)| {
            let load = &self.suite.loads[*load];
            match defect::guard_run(|| label(load, true), || self.pair(load, *run)) {
                Ok(Ok(pair)) => Outcome::Done(pair),
                Ok(Err(failure)) | Err(failure) => Outcome::Refused(failure),
            }
        };
        let workers = self.jobs.unwrap_or_else(sweep::available);
        let outcomes = work(&cells, workers, &attempt, &|done| told(done, cells.len()));
        let mut judged: Vec<Judged<'_>> = self
            .suite
            .loads
            .iter()
            .map(|load| Judged { load, logarithms: Vec::new(), faults: Vec::new() })
            .collect();
        for ((load, run), outcome) in cells.iter().zip(outcomes) {
            match outcome {
                Outcome::Done(pair) => {
                    judged[*load].logarithms.push(pair.logarithms);
                    judged[*load].faults.extend(pair.faults.into_iter().map(|fault| (Some(*run), fault)));
                }
                Outcome::Lost(failure) | Outcome::Refused(failure) => return Err(failure),
            }
        }
        Ok(self.answer(judged))
    }

    /// A candidate that takes part in no run, since it does not compile or load.
    pub fn refused(&self, why: &str) -> Judgement {
        refused(&self.candidate.label(), &self.base.label(), &self.suite, &self.key, why)
    }

    /// Fails where the base cannot be run.
    fn base_loads(&self) -> Result<(), Failure> {
        let Some(first) = self.suite.loads.first() else { return Ok(()) };
        let drawn = draw(&self.key, &self.suite, first, 0)?;
        self.simulation(&self.base, first, &drawn).check_object(self.limit)
    }

    /// Why the simulator does not take the candidate.
    fn refusal(&self) -> Result<Option<String>, Failure> {
        let Some(first) = self.suite.loads.first() else { return Ok(None) };
        let drawn = draw(&self.key, &self.suite, first, 0)?;
        match self.simulation(&self.candidate, first, &drawn).check_object(self.limit) {
            Ok(()) => Ok(None),
            Err(failure) if matches!(failure.code, Code::Environment | Code::Inconclusive) => Err(failure),
            Err(failure) => Ok(Some(failure.to_string())),
        }
    }

    fn simulation(&self, scheduler: &Scheduler, load: &SuiteLoad, drawn: &Drawn) -> Simulation {
        let name = label(load, self.show_hidden);
        Simulation {
            seed: drawn.seed,
            limit: Some(drawn.duration),
            ..Simulation::new(scheduler.clone(), name, drawn.machine.clone())
        }
    }

    /// One run of the base and one of the candidate.
    fn pair(&self, load: &SuiteLoad, run: usize) -> Result<Pair, Failure> {
        let drawn = draw(&self.key, &self.suite, load, run)?;
        let base = self.seen(&self.base, load, &drawn)?;
        let refused = |what: String| {
            let suite = &self.suite.name;
            Failure::usage(format!("suite {suite}: {}: {what}", label(load, self.show_hidden)))
        };
        if base.record.is_void() {
            let why = base.record.standing_reasons().join(", ");
            return Err(refused(format!(
                "the base {} does not last: {why}; take another one",
                self.base.label()
            )));
        }
        let candidate = match self.seen(&self.candidate, load, &drawn) {
            Err(Failure { code: Code::Usage, text }) => {
                // The machine has more CPUs than the object is made for, or less memory.
                let fault = Fault { kind: FaultKind::Left, text, tasks: 1 };
                return Ok(Pair { logarithms: nothing(load), faults: vec![fault] });
            }
            other => other?,
        };
        let mut faults = faults(&drawn, &candidate, &base);
        if !candidate.record.is_void() {
            faults.extend(missing(load, &candidate.record));
        }
        Ok(Pair { logarithms: logarithms(load, &candidate.record, &base.record).map_err(refused)?, faults })
    }

    fn seen(&self, scheduler: &Scheduler, load: &SuiteLoad, drawn: &Drawn) -> Result<Seen, Failure> {
        let simulation = self.simulation(scheduler, load, drawn);
        let deadline = self.limit.begin(&simulation.describe())?;
        let progress = Progress::new(drawn.what.names.len(), drawn.machine.cpu_count());
        let progress = Rc::new(RefCell::new(progress));
        let sinks: Vec<SharedSink> = vec![progress.clone()];
        let watch = Watch { sinks, stop: deadline.stop(), ..Watch::default() };
        let record = simulation.run_watched(&drawn.what.scenario, watch)?.record;
        let progress = Rc::into_inner(progress).expect("the run has dropped its sinks").into_inner();
        Ok(Seen { thirds: progress.thirds(record.duration), record })
    }

    fn answer(&self, mut judged: Vec<Judged<'_>>) -> Judgement {
        let is_valid = judged.iter().all(|one| one.faults.iter().all(|(_, fault)| !fault.kind.voids()));
        for one in &mut judged {
            let slow = too_slow(one.load, &one.logarithms).filter(|_| one.faults.is_empty());
            one.faults.extend(slow.map(|fault| (None, fault)));
        }
        let measured: Vec<&Judged<'_>> = judged.iter().filter(|one| !one.load.hidden).collect();
        let by_load: Vec<Vec<f64>> = measured.iter().map(|one| joined(&one.logarithms)).collect();
        let by_seed = |run: usize| by_load.iter().map(|load| load[run]).sum::<f64>() / by_load.len() as f64;
        let by_seed: Vec<f64> = (0..self.suite.seeds.get()).map(by_seed).collect();
        let score = if is_valid { Score::of(&by_seed) } else { Score::NONE };
        let worse = is_valid && is_worse(score);
        let accepted = !worse && judged.iter().all(|one| one.faults.is_empty());
        let shown =
            judged.iter().filter(|one| self.show_hidden || !one.load.hidden && !one.load.metrics.is_empty());
        let loads: Vec<JudgedLoad> = shown.map(Judged::shown).collect();
        let seeds = self.suite.seeds.get();
        let mut reasons = reasons::of_faults(&judged, seeds, self.show_hidden);
        if worse {
            reasons.insert(0, format!("the score {} is shown to be below 0.95", score.text()));
        }
        reasons.extend(reasons::weakest(&loads));
        Judgement {
            accepted,
            better: accepted && score.interval[0] > 1.0,
            score: score.value,
            interval: score.interval,
            loads,
            reasons,
            ..self.refused("")
        }
    }
}

/// The answer about a candidate that takes part in no run.
pub fn refused(candidate: &str, against: &str, suite: &Suite, key: &Key, why: &str) -> Judgement {
    Judgement {
        accepted: false,
        better: false,
        score: 0.0,
        interval: [0.0, 0.0],
        candidate: candidate.to_string(),
        against: against.to_string(),
        suite: suite.name.clone(),
        seed_key: key.0.clone(),
        loads: Vec::new(),
        more_loads: 0,
        reasons: vec![why.to_string()],
        more_reasons: 0,
        verify: None,
    }
}
