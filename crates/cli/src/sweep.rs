//! Many simulated runs at once. Which worker does which run, in which order, in which
//! process: all that makes no difference, since a run depends on its description alone.
//!
//! A run that a defect of schedlab or `--time-limit` ends is lost alone: the others are made, kept and reported.

use crate::args::SweepArgs;
use crate::deadline::TimeLimit;
use crate::defect;
use crate::failure::{Code, Failure};
use crate::output;
use crate::progress::Progress;
use crate::simulation::Simulation;
use crate::store::Store;
use schedlab_live::signals::LastWords;
use schedlab_report::visible;
use schedlab_trace::RunRecord;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// One of several equal parts of a sweep: `2/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// Its number, from 1.
    number: usize,
    /// How many there are.
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').map(|(number, of)| (number.parse().ok(), of.parse().ok()));
        match parts {
            Some((Some(number), Some(of))) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err(format!("'{text}' is no shard: write NUMBER/SHARDS, as in 1/3, 2/3, 3/3")),
        }
    }
}

impl Shard {
    fn has(self, index: usize) -> bool {
        index % self.of == self.number - 1
    }
}

/// The records of all runs, in the order of their descriptions.
#[derive(Debug)]
pub(crate) struct Made {
    /// Nothing for a run that is lost.
    pub(crate) records: Vec<Option<RunRecord>>,
    /// Why runs are lost, in the same order.
    pub(crate) lost: Vec<Failure>,
}

impl Made {
    /// The failure of a command with lost runs: it names the first one, a defect before a limit.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let defect = self.lost.iter().find(|lost| lost.code == Code::Failed);
        let first = defect.or(self.lost.first())?;
        let more = match self.lost.len() {
            1 => String::new(),
            count => format!(" ({count} runs are not finished in all)"),
        };
        Some(Failure { code: first.code, text: format!("{}{more}", first.text) })
    }

    /// The lost runs, a line each; empty if there are none.
    pub(crate) fn told(&self) -> String {
        if self.lost.is_empty() {
            return String::new();
        }
        let lines: String = self.lost.iter().map(|lost| format!("* {lost}\n")).collect();
        format!("\nNot finished:\n{lines}")
    }
}

/// What became of a run.
#[derive(Clone, Debug)]
enum Outcome {
    Done(Box<RunRecord>),
    /// It alone has no result.
    Lost(Failure),
    /// None of them can be made.
    Refused(Failure),
}

/// Makes all runs, or those of a shard; nothing where other shards are still missing.
///
/// # Errors
/// That of the first run, in their order, which could not take place, and a lost run of a shard.
pub(crate) fn sweep(
    runs: &[Simulation],
    args: &SweepArgs,
    limit: TimeLimit,
    quiet: bool,
) -> Result<Option<Made>, Failure> {
    let make = |simulation: &Simulation| {
        let deadline = limit.begin(&simulation.describe())?;
        simulation.run_alone(&deadline)
    };
    sweep_by(runs, args, quiet, &make)
}

/// The same with another way to make a run.
fn sweep_by(
    runs: &[Simulation],
    args: &SweepArgs,
    quiet: bool,
    make: &(impl Fn(&Simulation) -> Result<RunRecord, Failure> + Sync),
) -> Result<Option<Made>, Failure> {
    let store = Store::new(&args.resume)?;
    let mut unused = Vec::new();
    let mut records: Vec<Option<RunRecord>> =
        runs.iter().map(|run| store.load(run, &mut unused)).collect::<Result<_, Failure>>()?;
    if !quiet {
        tell_unused(&unused);
    }
    let ours = |index: &usize| args.shard.is_none_or(|shard| shard.has(*index));
    let missing: Vec<usize> =
        (0..runs.len()).filter(|&index| records[index].is_none()).filter(ours).collect();
    let todo: Vec<&Simulation> = missing.iter().map(|&index| &runs[index]).collect();
    let attempt = |simulation: &Simulation| attempt(simulation, make, &store);
    let _words = (!quiet).then(|| LastWords::new(&last_words(&args.resume)));
    let mut lost = Vec::new();
    for (index, outcome) in missing.iter().zip(work(&todo, args.jobs, quiet, &attempt)) {
        match outcome {
            Outcome::Done(record) => records[*index] = Some(*record),
            Outcome::Lost(failure) => lost.push(failure),
            Outcome::Refused(failure) => return Err(failure),
        }
    }
    let left = records.iter().filter(|record| record.is_none()).count();
    if left > lost.len() {
        let made = Made { records: Vec::new(), lost };
        if let Some(failure) = made.failure() {
            return Err(failure);
        }
        let text = format!(
            "{} of {} runs are there; the same command without --shard, with all folders in --resume, reports them",
            runs.len() - left,
            runs.len()
        );
        if !quiet {
            output::note(&text);
        }
        return Ok(None);
    }
    Ok(Some(Made { records, lost }))
}

/// What an interrupted sweep says: what is kept, and how to go on.
fn last_words(folders: &[PathBuf]) -> String {
    let kept = match folders.first() {
        Some(folder) => {
            let folder = folder.display().to_string();
            let folder = visible(&folder);
            format!("finished runs are kept in {folder}; the same command makes the others")
        }
        None => {
            "nothing is kept; with --resume DIR finished runs are, and the same command goes on".to_string()
        }
    };
    format!("\nschedlab: interrupted: {kept}\n")
}

/// Records told one by one; the others are counted. Chosen: what is read.
const UNUSED_TOLD: usize = 5;

/// Warns of the records that are there and not used.
fn tell_unused(unused: &[String]) {
    for record in unused.iter().take(UNUSED_TOLD) {
        output::note(&format!("warning: --resume: {record}; it is not used, the run is made again"));
    }
    if unused.len() > UNUSED_TOLD {
        let more = unused.len() - UNUSED_TOLD;
        output::note(&format!(
            "warning: --resume: {more} more records are not used; their runs are made again"
        ));
    }
}

/// Makes one run and keeps it.
fn attempt(
    simulation: &Simulation,
    make: &impl Fn(&Simulation) -> Result<RunRecord, Failure>,
    store: &Store,
) -> Outcome {
    let made = defect::guard_run(|| simulation.describe(), || make(simulation));
    let kept = |record: RunRecord| store.save(simulation, &record).map(|()| record);
    match made.map(|made| made.and_then(kept)) {
        Ok(Ok(record)) => Outcome::Done(Box::new(record)),
        Ok(Err(failure)) if failure.code == Code::Inconclusive => Outcome::Lost(failure),
        Ok(Err(failure)) => Outcome::Refused(failure),
        Err(defect) => Outcome::Lost(defect),
    }
}

/// Attempts all runs, in their order; those that come after a refused one may be missing.
fn work(
    runs: &[&Simulation],
    jobs: Option<NonZeroUsize>,
    quiet: bool,
    attempt: &(impl Fn(&Simulation) -> Outcome + Sync),
) -> Vec<Outcome> {
    let workers = jobs.map_or_else(available, NonZeroUsize::get).min(runs.len().max(1));
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; runs.len()]);
    let progress = Progress::new("running", Some(runs.len() as u64), quiet);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(simulation) = runs.get(index) else { return };
            let outcome = attempt(simulation);
            if matches!(outcome, Outcome::Refused(_)) {
                // What has begun is finished; nothing new is started.
                next.fetch_max(runs.len(), Ordering::Relaxed);
            }
            lock(&results)[index] = Some(outcome);
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress.set(count as u64, format!("{count} of {} runs", runs.len()));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            // Where the system gives no more threads, fewer do the same.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    progress.finish();
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.into_iter().flatten().collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The CPUs of the host that this process may use, as they were at the first call.
pub(crate) fn available() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::stopped;
    use crate::scheduler::Scheduler;
    use schedlab_base::Machine;

    #[test]
    fn shards_are_numbers_from_one() {
        assert_eq!("2/3".parse(), Ok(Shard { number: 2, of: 3 }));
        for bad in ["0/3", "4/3", "1", "a/b", "1/0", ""] {
            assert!(bad.parse::<Shard>().unwrap_err().contains("1/3"), "{bad}");
        }
    }

    /// Runs of the fair class that differ in their seeds.
    fn simulations(seeds: u64) -> Vec<Simulation> {
        let simulation = |seed| Simulation {
            scheduler: Scheduler::find("eevdf").unwrap(),
            workload: "cpuhog:ntasks=1,ttime=1ms".to_string(),
            machine: Machine::uniform("test", 1),
            seed,
            limit: None,
            checkers: false,
            after_ejection: crate::args::AfterEjection::Stop,
            engine: crate::args::EngineKind::default(),
            guest_memory: crate::args::GuestMemory::default(),
            sampling: None,
            extras: crate::simulation::Extras::default(),
        };
        (0..seeds).map(simulation).collect()
    }

    fn args(resume: Vec<PathBuf>) -> SweepArgs {
        SweepArgs { jobs: NonZeroUsize::new(2), resume, shard: None }
    }

    fn seeds(made: &Made) -> Vec<Option<u64>> {
        made.records.iter().map(|record| record.as_ref().map(|record| record.seed)).collect()
    }

    fn run(simulation: &Simulation) -> Result<RunRecord, Failure> {
        simulation.run_alone(&TimeLimit(None).begin("a run")?)
    }

    #[test]
    fn a_defect_or_a_limit_loses_its_run_alone() {
        defect::install();
        let folder = std::env::temp_dir().join(format!("schedlab-sweep-{}", std::process::id()));
        let make = |simulation: &Simulation| match simulation.seed {
            1 => Err(stopped(&simulation.describe(), "at 3 s of simulated time")),
            2 => panic!("a counter is negative"),
            _ => run(simulation),
        };
        let made = sweep_by(&simulations(5), &args(vec![folder.clone()]), true, &make).unwrap().unwrap();
        assert_eq!(seeds(&made), [Some(0), None, None, Some(3), Some(4)]);
        let failure = made.failure().unwrap();
        assert_eq!(failure.code, Code::Failed);
        for part in ["defect in schedlab: a counter is negative", "sweep.rs:", "eevdf", "seed 2", "(2 runs"] {
            assert!(failure.text.contains(part), "{part}: {failure}");
        }
        let told = made.told();
        assert!(told.contains("seed 1: not finished") && told.lines().count() == 4, "{told}");
        // What was made is kept, and only the rest is made again.
        let again = |simulation: &Simulation| match simulation.seed {
            1 | 2 => run(simulation),
            seed => Err(Failure::usage(format!("run {seed} was there"))),
        };
        let made = sweep_by(&simulations(5), &args(vec![folder.clone()]), true, &again).unwrap().unwrap();
        assert!(made.records.iter().all(Option::is_some) && made.failure().is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_limit_alone_is_inconclusive_and_a_refusal_ends_all() {
        let limited = |simulation: &Simulation| match simulation.seed {
            1 => Err(stopped(&simulation.describe(), "at 3 s of simulated time")),
            _ => run(simulation),
        };
        let made = sweep_by(&simulations(2), &args(Vec::new()), true, &limited).unwrap().unwrap();
        assert_eq!(made.failure().unwrap().code, Code::Inconclusive);
        let refused = |_: &Simulation| Err(Failure::usage("no such thing"));
        let failure = sweep_by(&simulations(2), &args(Vec::new()), true, &refused).unwrap_err();
        assert_eq!(failure, Failure::usage("no such thing"));
    }

    #[test]
    fn each_run_is_in_one_shard() {
        for index in 0..20 {
            assert_eq!((1..=3).filter(|&number| Shard { number, of: 3 }.has(index)).count(), 1);
        }
    }
}
