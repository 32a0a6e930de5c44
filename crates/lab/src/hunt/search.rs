//! The search: cases are drawn, or made of cases that reached something new, until one shows what is wanted; that is shrunk.

use super::case::Case;
use super::condition::{self, Condition};
use super::judge::{Outcome, judge};
use super::mutate::{interleaved, mutate};
use super::property::{Property, Trouble};
use super::shrink::shrink;
use super::tunables::{Tunable, tunables};
use crate::failure::Failure;
use crate::scheduler::Scheduler;
use schedlab_base::Prng;
use schedlab_sweep::{Outcome as Job, work};
use schedlab_trace::RunRecord;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Cases of a generation: what is made at once, of one corpus. Chosen: enough for the CPUs of a host, and the same for each number
/// of workers, so that the search does not depend on it.
const GENERATION: u64 = 32;

/// One case in so many has the simulator's checkers. Chosen: a hunt is after faults of schedulers.
const CHECKED: u64 = 8;

/// Seeds by which a scheduler must be worse.
const SEEDS: u64 = 3;

/// A scheduler is worse whose tasks get so many percent of the CPU time, or less.
const WORSE_PERCENT: u64 = 80;

/// A load that uses less than this part of one CPU tells nothing. Chosen: more than the start and the end of a run account for.
const MUCH: u64 = 10;

/// Cases that are kept at most; those that reached least go first. Chosen: each is a few KiB.
const MOST_KEPT: usize = 512;

/// What is searched for, and where.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The scheduler.
    pub new: Scheduler,
    /// The scheduler that it is compared with: what this one shows as well is no find.
    pub old: Option<Scheduler>,
    /// What is looked for.
    pub properties: Vec<Property>,
    /// The seed of the search.
    pub seed: u64,
    /// Cases that are tried at most.
    pub runs: Option<u64>,
    /// Host time of the search.
    pub budget: Option<Duration>,
    /// Runs at once.
    pub jobs: NonZeroUsize,
    /// The simulated kernel, as `--kernel` names it.
    pub kernel: Option<String>,
    /// The search ends with the first find.
    pub first: bool,
}

/// How far a search is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Far {
    /// Cases that were tried.
    pub runs: u64,
    /// Cases that were kept, because they reached something new.
    pub corpus: usize,
    /// What was reached in all: ways of callbacks, powers of two of counters.
    pub reached: usize,
    /// Finds.
    pub found: usize,
}

/// A case that shows what was looked for, as small as it was made.
#[derive(Clone, Debug)]
pub struct Find {
    /// The case.
    pub case: Case,
    /// What it shows.
    pub trouble: Trouble,
    /// The run of the scheduler under it.
    pub outcome: Outcome,
    /// Cases that were tried until it was found.
    pub runs: u64,
    /// Tasks and CPUs of the case before it was made smaller.
    pub from: (usize, usize),
}

/// What a search gave.
#[derive(Clone, Debug, Default)]
pub struct Hunted {
    /// How far it came.
    pub far: Far,
    /// What it found.
    pub finds: Vec<Find>,
    /// Cases without a run: the scheduler refused the machine, the settings or the load.
    pub refused: u64,
    /// Why, of the first one.
    pub why: Option<String>,
}

/// A case that reached something new.
struct Kept {
    case: Case,
    new: usize,
}

impl Hunt {
    /// Searches.
    ///
    /// # Errors
    /// A scheduler that no case loads, and a defect: one scheduler in the place of both gave two results.
    pub fn run(&self, told: &dyn Fn(Far)) -> Result<Hunted, Failure> {
        let begin = Instant::now();
        let tunables = self.tunables()?;
        let mut hunted = Hunted::default();
        let (mut kept, mut reached) = (Vec::new(), BTreeSet::new());
        let over = || self.budget.is_some_and(|budget| begin.elapsed() >= budget);
        while !over() && !self.is_done(&hunted) {
            let left = self.runs.map_or(GENERATION, |runs| runs - hunted.far.runs).min(GENERATION);
            let mut figures = BTreeSet::new();
            let cases: Vec<Case> =
                (0..left).map(|at| self.case(hunted.far.runs + at, &kept, &tunables)).collect();
            for (case, outcome) in self.generation(&cases, &over) {
                hunted.far.runs += 1;
                let outcome = outcome?;
                figures.extend(outcome.record.iter().flat_map(|record| condition::names_of(record)));
                self.keep(case, &outcome, &mut kept, &mut reached);
                hunted.refused += u64::from(outcome.record.is_none());
                if let Some(trouble) = outcome.troubles.iter().find(|one| is_refusal(one)) {
                    hunted.why.get_or_insert_with(|| trouble.words.clone());
                }
                self.take(case, &outcome, &mut hunted)?;
                if self.is_done(&hunted) {
                    break;
                }
            }
            if hunted.far.runs <= GENERATION {
                self.check_names(&figures)?;
            }
            let Hunted { far, finds, .. } = &mut hunted;
            (far.corpus, far.reached, far.found) = (kept.len(), reached.len(), finds.len());
            told(*far);
        }
        match hunted.why.as_ref().filter(|_| hunted.refused == hunted.far.runs) {
            Some(why) => Err(Failure::usage(why.clone())),
            None => Ok(hunted),
        }
    }

    fn is_done(&self, hunted: &Hunted) -> bool {
        let found = |property: &Property| {
            hunted.finds.iter().any(|one| one.trouble.property.as_ref() == Some(property))
        };
        self.runs.is_some_and(|runs| hunted.far.runs >= runs)
            || self.first && !hunted.finds.is_empty()
            || self.properties.iter().all(found)
    }

    fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.properties.iter().filter_map(|property| match property {
            Property::Condition(condition) => Some(condition),
            _ => None,
        })
    }

    /// Refuses a condition with a figure that no run of the first generation had: its name is wrong.
    fn check_names(&self, known: &BTreeSet<String>) -> Result<(), Failure> {
        let mut names =
            self.conditions().flat_map(|one| one.names().into_iter().map(move |name| (one, name)));
        match names.find(|(_, name)| !known.is_empty() && !known.contains(*name)) {
            Some((condition, name)) => Err(Failure::usage(condition::unknown(condition, name, known))),
            None => Ok(()),
        }
    }

    /// What may be set: what both schedulers have.
    fn tunables(&self) -> Result<Vec<Tunable>, Failure> {
        let own = tunables(&self.new)?;
        let Some(old) = &self.old else { return Ok(own) };
        let others = tunables(old)?;
        Ok(own.into_iter().filter(|one| others.iter().any(|other| other.name == one.name)).collect())
    }

    /// The case of a number: a third are drawn, the others made of what was kept.
    fn case(&self, number: u64, kept: &[Kept], tunables: &[Tunable]) -> Case {
        let mut prng = Prng::stream(self.seed, number + 1);
        let stays = self.pair().any(|one| one.loader.is_some() || one.object.is_none());
        if kept.len() < 8 || prng.chance(1, 3) {
            let mut case = Case::draw_small(prng.next_u64() >> 32, tunables, stays);
            case.kernel.clone_from(&self.kernel);
            case.checked = prng.chance(1, CHECKED);
            return interleaved(case, &mut prng);
        }
        // Those that reached much are chosen more often: the better of two.
        let mut choose = || {
            let two = [0, 1].map(|_| &kept[prng.below(kept.len() as u64) as usize]);
            if two[0].new >= two[1].new { &two[0].case } else { &two[1].case }
        };
        let (case, other) = (choose(), choose());
        let checked = prng.chance(1, CHECKED);
        Case { checked, ..mutate(case, other, tunables, &mut prng) }
    }

    fn pair(&self) -> impl Iterator<Item = &Scheduler> {
        [&self.new].into_iter().chain(&self.old)
    }

    /// Makes the runs of cases, in their order; those that the end of the time leaves out are missing.
    fn generation<'a>(
        &self,
        cases: &'a [Case],
        over: &(dyn Fn() -> bool + Sync),
    ) -> Vec<(&'a Case, Result<Outcome, Failure>)> {
        let attempt = |case: &Case| match over() {
            true => Job::Lost(()),
            false => Job::Done(self.examine(case)),
        };
        let jobs = work(cases, self.jobs, &attempt, &|_| {});
        let made = cases.iter().zip(jobs).filter_map(|(case, job)| match job {
            Job::Done(outcome) => Some((case, outcome)),
            Job::Lost(()) | Job::Refused(()) => None,
        });
        made.collect()
    }

    /// Runs a case. Of what went wrong the outcome has what is looked for and the older scheduler does not show.
    ///
    /// # Errors
    /// A defect: one scheduler in the place of both gave two results.
    fn examine(&self, case: &Case) -> Result<Outcome, Failure> {
        let mut outcome = judge(&self.new, case);
        let wanted =
            |one: &Trouble| one.property.as_ref().is_none_or(|property| self.properties.contains(property));
        outcome.troubles.retain(wanted);
        self.add_conditions(&mut outcome, None)?;
        let Some(old) = &self.old else { return Ok(outcome) };
        let worse = self.properties.contains(&Property::Worse);
        let compared = worse || self.conditions().any(Condition::compares);
        if outcome.record.is_none() || outcome.troubles.is_empty() && !compared {
            return Ok(outcome);
        }
        let mut before = judge(old, case);
        if before.record.is_none() {
            outcome.troubles.clear();
            return Ok(outcome);
        }
        if self.are_one() && before.trace_hash() != outcome.trace_hash() {
            let text = format!(
                "defect in schedlab: one scheduler gave two results under a case with seed {}",
                case.seed
            );
            return Err(Failure::failed(text));
        }
        self.add_conditions(&mut before, None)?;
        outcome.troubles.retain(|one| before.troubles.iter().all(|other| other.property != one.property));
        self.add_conditions(&mut outcome, before.record.as_deref())?;
        if worse && outcome.troubles.is_empty() {
            outcome.troubles.extend(self.worse(old, case, &outcome, &before));
        }
        Ok(outcome)
    }

    /// Adds the conditions that hold: those on one run, or those that compare it with one of the older scheduler.
    fn add_conditions(&self, outcome: &mut Outcome, older: Option<&RunRecord>) -> Result<(), Failure> {
        let Some(record) = &outcome.record else { return Ok(()) };
        for condition in self.conditions().filter(|one| one.compares() == older.is_some()) {
            let found = Trouble::of_condition(condition, record, older);
            outcome.troubles.extend(found.map_err(|why| Failure::usage(format!("--property: {why}")))?);
        }
        Ok(())
    }

    /// Whether both schedulers are one: the same object, loader and settings.
    fn are_one(&self) -> bool {
        self.old.as_ref().is_some_and(|old| {
            let words = |one: &Scheduler| one.loader.as_ref().map(|loader| loader.words.clone());
            old.object == self.new.object
                && words(old) == words(&self.new)
                && old.choice == self.new.choice
                && old.values == self.new.values
        })
    }

    /// The tasks got far less CPU time than under the older scheduler, with each of several seeds.
    fn worse(&self, old: &Scheduler, case: &Case, now: &Outcome, before: &Outcome) -> Option<Trouble> {
        let is_worse = |now: &Outcome, before: &Outcome| {
            let whole =
                |one: &Outcome| one.record.as_ref().is_some_and(|record| !record.exit.kind.is_ejection());
            let enough = before.work.0 >= case.length().0 / MUCH;
            whole(now) && whole(before) && enough && now.work.0 < before.work.0 / 100 * WORSE_PERCENT
        };
        let other_seed = |more: u64| {
            let case = Case { seed: case.seed + more, ..case.clone() };
            is_worse(&judge(&self.new, &case), &judge(old, &case))
        };
        (is_worse(now, before) && (1..SEEDS).all(other_seed)).then(|| {
            let words = format!(
                "the tasks got {:.3} s of CPU time, and {:.3} s under {}; less than {WORSE_PERCENT} % with {SEEDS} seeds",
                now.work.as_secs_f64(),
                before.work.as_secs_f64(),
                old.name
            );
            Trouble::new(Some(Property::Worse), "worse", words)
        })
    }

    /// Keeps a case that reached something new.
    fn keep(&self, case: &Case, outcome: &Outcome, kept: &mut Vec<Kept>, reached: &mut BTreeSet<u64>) {
        let before = reached.len();
        reached.extend(&outcome.reached);
        let new = reached.len() - before;
        if new > 0 {
            kept.push(Kept { case: case.clone(), new });
        }
        if kept.len() > MOST_KEPT {
            kept.sort_by_key(|one| Reverse(one.new));
            kept.truncate(MOST_KEPT / 2);
        }
    }

    /// Makes finds of what went wrong in a run; of each property one.
    fn take(&self, case: &Case, outcome: &Outcome, hunted: &mut Hunted) -> Result<(), Failure> {
        for trouble in outcome.troubles.iter().filter(|one| !is_refusal(one)) {
            if hunted.finds.iter().any(|find| find.trouble.property == trouble.property) {
                continue;
            }
            let end = self.budget.map(|_| Instant::now() + SHRINKING);
            let mut again = |case: &Case| {
                let over = end.is_some_and(|end| Instant::now() >= end);
                let outcome = (!over).then(|| self.examine(case).ok()).flatten()?;
                outcome.troubles.into_iter().find(|one| one.is_like(trouble))
            };
            let (small, last) = shrink(case.clone(), trouble.clone(), &mut again);
            let from = (case.scenario.tasks.len(), case.machine.cpu_count());
            let outcome = judge(&self.new, &small);
            let runs = hunted.far.runs;
            hunted.finds.push(Find { case: small, trouble: last, outcome, runs, from });
            if self.first {
                break;
            }
        }
        Ok(())
    }
}

/// Host time that a find may take to be made smaller, beyond the budget if need be.
const SHRINKING: Duration = Duration::from_secs(60);

/// A case that does not fit the scheduler is no find.
fn is_refusal(trouble: &Trouble) -> bool {
    trouble.property.is_none() && trouble.kind != "checker"
}
