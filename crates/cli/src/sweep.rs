//! Many simulated runs at once. Which worker does which run makes no difference to
//! the results: a run depends on its description alone.

use crate::failure::Failure;
use crate::progress::Progress;
use crate::simulation::Simulation;
use schedlab_trace::RunRecord;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs everything and gives the records in the order of the descriptions.
///
/// # Errors
/// That of the first run, in this order, which could not take place.
pub(crate) fn sweep(
    runs: &[Simulation],
    jobs: Option<NonZeroUsize>,
    quiet: bool,
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
            let result = simulation.scenario().and_then(|scenario| simulation.run(&scenario));
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
            scope.spawn(work);
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
