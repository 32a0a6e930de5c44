//! Many simulated runs at once. Which worker does which run, in which order, in which
//! process: all that makes no difference, since a run depends on its description alone.

use crate::args::SweepArgs;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::simulation::Simulation;
use crate::store::Store;
use schedlab_trace::RunRecord;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Makes all runs, or those of a shard, and gives the records in the order of the
/// descriptions; nothing where other shards are still missing.
///
/// # Errors
/// That of the first run, in this order, which could not take place.
pub(crate) fn sweep(
    runs: &[Simulation],
    args: &SweepArgs,
    quiet: bool,
) -> Result<Option<Vec<RunRecord>>, Failure> {
    let store = Store::new(&args.resume)?;
    let mut records: Vec<Option<RunRecord>> =
        runs.iter().map(|run| store.load(run)).collect::<Result<_, Failure>>()?;
    let ours = |index: &usize| args.shard.is_none_or(|shard| shard.has(*index));
    let missing: Vec<usize> =
        (0..runs.len()).filter(|&index| records[index].is_none()).filter(ours).collect();
    let todo: Vec<&Simulation> = missing.iter().map(|&index| &runs[index]).collect();
    for (index, record) in missing.iter().zip(work(&todo, args.jobs, quiet, &store)?) {
        records[*index] = Some(record);
    }
    let left = records.iter().filter(|record| record.is_none()).count();
    if left > 0 {
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
    Ok(Some(records.into_iter().flatten().collect()))
}

fn work(
    runs: &[&Simulation],
    jobs: Option<NonZeroUsize>,
    quiet: bool,
    store: &Store,
) -> Result<Vec<RunRecord>, Failure> {
    let workers = jobs.map_or_else(available, NonZeroUsize::get).min(runs.len().max(1));
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<RunRecord, Failure>>>> = Mutex::new(vec![None; runs.len()]);
    let progress = Progress::new("running", Some(runs.len() as u64), quiet);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(simulation) = runs.get(index) else { return };
            let result =
                simulation.run_alone().and_then(|record| store.save(simulation, &record).map(|()| record));
            if result.is_err() {
                // What has begun is finished; nothing new is started.
                next.fetch_max(runs.len(), Ordering::Relaxed);
            }
            lock(&results)[index] = Some(result);
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
    let mut records = Vec::with_capacity(runs.len());
    for result in results.into_iter().flatten() {
        records.push(result?);
    }
    Ok(records)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_numbers_from_one() {
        assert_eq!("2/3".parse(), Ok(Shard { number: 2, of: 3 }));
        for bad in ["0/3", "4/3", "1", "a/b", "1/0", ""] {
            assert!(bad.parse::<Shard>().unwrap_err().contains("1/3"), "{bad}");
        }
    }

    #[test]
    fn each_run_is_in_one_shard() {
        for index in 0..20 {
            assert_eq!((1..=3).filter(|&number| Shard { number, of: 3 }.has(index)).count(), 1);
        }
    }
}
