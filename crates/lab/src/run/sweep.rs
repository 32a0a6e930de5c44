//! Many simulated runs at once, as `schedlab-sweep` shares them out and keeps them.
//!
//! A run that a defect of schedlab or `--time-limit` ends is lost alone: the others are made, kept and reported.

use crate::failure::{Code, Failure};
use crate::files::input::text_of;
use crate::files::target::{ready_folder, unwritten, write_whole};
use crate::run::deadline::TimeLimit;
use crate::run::defect;
use crate::run::key::key_of;
use crate::run::simulation::Simulation;
use schedlab_live::signals::LastWords;
use schedlab_report::visible;
use schedlab_sweep::{Build, Key, NotKept, Outcome, Shard, Store, Unused, work};
use schedlab_trace::RunRecord;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The option that names the folders of finished runs.
const RESUME: &str = "--resume";

/// This command: `build.rs` hashes the sources that results depend on.
const BUILD: Build = Build { version: env!("CARGO_PKG_VERSION"), sources: env!("SCHEDLAB_BUILD") };

/// How runs are shared out and kept.
#[derive(Clone, Debug, Default)]
pub struct SweepOptions {
    /// Runs at once; as many as the host has CPUs without.
    pub jobs: Option<NonZeroUsize>,
    /// Folders of finished runs, which are not made again; new ones go into the first.
    pub resume: Vec<PathBuf>,
    /// The part of the runs that is made here.
    pub shard: Option<Shard>,
}

/// The records of all runs, in the order of their descriptions.
#[derive(Debug)]
pub struct Made {
    /// Nothing for a run that is lost.
    pub records: Vec<Option<RunRecord>>,
    /// Why runs are lost, in the same order.
    pub lost: Vec<Failure>,
}

impl Made {
    /// The failure of a command with lost runs: it names the first one, a defect before a limit.
    pub fn failure(&self) -> Option<Failure> {
        let defect = self.lost.iter().find(|lost| lost.code == Code::Failed);
        let first = defect.or(self.lost.first())?;
        let more = match self.lost.len() {
            1 => String::new(),
            count => format!(" ({count} runs are not finished in all)"),
        };
        Some(Failure { code: first.code, text: format!("{}{more}", first.text) })
    }

    /// The lost runs, a line each; empty if there are none.
    pub fn told(&self) -> String {
        if self.lost.is_empty() {
            return String::new();
        }
        let lines: String = self.lost.iter().map(|lost| format!("* {lost}\n")).collect();
        format!("\nNot finished:\n{lines}")
    }
}

/// Makes all runs, or those of a shard; nothing where other shards are still missing.
///
/// # Errors
/// That of the first run, in their order, which could not take place, and a lost run of a shard.
pub fn sweep(
    runs: &[Simulation],
    options: &SweepOptions,
    limit: TimeLimit,
    quiet: bool,
    told: &(dyn Fn(usize, usize) + Sync),
) -> Result<Option<Made>, Failure> {
    let make = |simulation: &Simulation| {
        let deadline = limit.begin(&simulation.describe())?;
        simulation.run_alone(&deadline)
    };
    sweep_by(runs, options, quiet, told, &make)
}

/// The same with another way to make a run.
fn sweep_by(
    runs: &[Simulation],
    options: &SweepOptions,
    quiet: bool,
    told: &(dyn Fn(usize, usize) + Sync),
    make: &(impl Fn(&Simulation) -> Result<RunRecord, Failure> + Sync),
) -> Result<Option<Made>, Failure> {
    let store = open_store(&options.resume)?;
    let mut unused = Vec::new();
    let mut keyed = Vec::with_capacity(runs.len());
    let mut records = Vec::with_capacity(runs.len());
    for run in runs {
        let key = if store.keeps() { Some(key_of(run)?) } else { None };
        if let Some(path) = key.as_ref().and_then(|key| store.blocked(key)) {
            let path = path.display();
            return Err(Failure::usage(format!(
                "{RESUME} {path}: it is a folder, and a record has this name; remove it"
            )));
        }
        let mut found = key.as_ref().map(|key| store.load(key)).unwrap_or_default();
        unused.append(&mut found.unused);
        records.push(found.record);
        keyed.push((run, key));
    }
    if !quiet {
        tell_unused(&unused);
    }
    let ours = |index: &usize| options.shard.is_none_or(|shard| shard.has(*index));
    let missing: Vec<usize> =
        (0..runs.len()).filter(|&index| records[index].is_none()).filter(ours).collect();
    let todo: Vec<&(&Simulation, Option<Key>)> = missing.iter().map(|&index| &keyed[index]).collect();
    let attempt = |(run, key): &&(&Simulation, Option<Key>)| attempt(run, key.as_ref(), make, &store);
    told(0, todo.len());
    let told = |count: usize| told(count, todo.len());
    let _words = (!quiet).then(|| LastWords::new(&last_words(&options.resume)));
    let mut lost = Vec::new();
    let workers = options.jobs.unwrap_or_else(available);
    let outcomes = work(&todo, workers, &attempt, &told);
    for (index, outcome) in missing.iter().zip(outcomes) {
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
            log::info!("{text}");
        }
        return Ok(None);
    }
    Ok(Some(Made { records, lost }))
}

/// Opens the folders of `--resume`; the first one is made where it is missing.
fn open_store(folders: &[PathBuf]) -> Result<Store, Failure> {
    if let Some(first) = folders.first() {
        ready_folder(RESUME, first)?;
    }
    if let Some(missing) = folders.iter().find(|folder| !folder.is_dir()) {
        return Err(Failure::usage(format!("{RESUME} {}: there is no such folder", missing.display())));
    }
    Ok(Store::new(folders.to_vec(), BUILD, write_whole, text_of))
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
fn tell_unused(unused: &[Unused]) {
    for Unused { path, why } in unused.iter().take(UNUSED_TOLD) {
        let path = path.display();
        log::info!("warning: {RESUME}: {path}: {why}; it is not used, the run is made again");
    }
    if unused.len() > UNUSED_TOLD {
        let more = unused.len() - UNUSED_TOLD;
        log::info!("warning: {RESUME}: {more} more records are not used; their runs are made again");
    }
}

/// Makes one run and keeps it.
fn attempt(
    simulation: &Simulation,
    key: Option<&Key>,
    make: &impl Fn(&Simulation) -> Result<RunRecord, Failure>,
    store: &Store,
) -> Outcome<Box<RunRecord>, Failure> {
    let made = defect::guard_run(|| simulation.describe(), || make(simulation));
    let kept = |record: RunRecord| match key.map_or(Ok(()), |key| store.save(key, &record)) {
        Ok(()) => Ok(record),
        Err(NotKept { folder, error }) => {
            Err(unwritten(&format!("{RESUME} {}", folder.display()), "folder", &error))
        }
    };
    match made.map(|made| made.and_then(kept)) {
        Ok(Ok(record)) => Outcome::Done(Box::new(record)),
        Ok(Err(failure)) if failure.code == Code::Inconclusive => Outcome::Lost(failure),
        Ok(Err(failure)) => Outcome::Refused(failure),
        Err(defect) => Outcome::Lost(defect),
    }
}

/// Refuses seeds that would begin anew at 0: run k has the seed `first` + k.
///
/// # Errors
/// The largest seed that goes with so many runs.
pub fn check_seeds(first: u64, runs: NonZeroUsize) -> Result<(), Failure> {
    let most = u64::MAX - (runs.get() as u64 - 1);
    if first > most {
        return Err(Failure::usage(format!("--seed {first}: with --runs {runs} the largest seed is {most}")));
    }
    Ok(())
}

/// The CPUs of the host that this process may use, as they were at the first call.
pub fn available() -> NonZeroUsize {
    static COUNT: OnceLock<NonZeroUsize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::Scheduler;
    use schedlab_base::Machine;

    /// Runs of the fair class that differ in their seeds.
    fn simulations(seeds: u64) -> Vec<Simulation> {
        let (scheduler, machine) = (Scheduler::find("eevdf").unwrap(), Machine::uniform("test", 1));
        let one = Simulation::new(scheduler, "cpuhog:ntasks=1,ttime=1ms", machine);
        let simulation = |seed| Simulation { seed, ..one.clone() };
        (0..seeds).map(simulation).collect()
    }

    fn options(resume: Vec<PathBuf>) -> SweepOptions {
        SweepOptions { jobs: NonZeroUsize::new(2), resume, shard: None }
    }

    fn seeds(made: &Made) -> Vec<Option<u64>> {
        made.records.iter().map(|record| record.as_ref().map(|record| record.seed)).collect()
    }

    fn run(simulation: &Simulation) -> Result<RunRecord, Failure> {
        simulation.run()
    }

    #[test]
    fn a_defect_or_a_limit_loses_its_run_alone() {
        defect::install();
        let folder = std::env::temp_dir().join(format!("schedlab-sweep-{}", std::process::id()));
        let make = |simulation: &Simulation| match simulation.seed {
            1 => Err(Failure::stopped(&simulation.describe(), "at 3 s of simulated time")),
            2 => panic!("a counter is negative"),
            _ => run(simulation),
        };
        let made = sweep_by(&simulations(5), &options(vec![folder.clone()]), true, &|_, _| {}, &make)
            .unwrap()
            .unwrap();
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
        let made = sweep_by(&simulations(5), &options(vec![folder.clone()]), true, &|_, _| {}, &again)
            .unwrap()
            .unwrap();
        assert!(made.records.iter().all(Option::is_some) && made.failure().is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_limit_alone_is_inconclusive_and_a_refusal_ends_all() {
        let limited = |simulation: &Simulation| match simulation.seed {
            1 => Err(Failure::stopped(&simulation.describe(), "at 3 s of simulated time")),
            _ => run(simulation),
        };
        let made =
            sweep_by(&simulations(2), &options(Vec::new()), true, &|_, _| {}, &limited).unwrap().unwrap();
        assert_eq!(made.failure().unwrap().code, Code::Inconclusive);
        let refused = |_: &Simulation| Err(Failure::usage("no such thing"));
        let failure =
            sweep_by(&simulations(2), &options(Vec::new()), true, &|_, _| {}, &refused).unwrap_err();
        assert_eq!(failure, Failure::usage("no such thing"));
    }
}
