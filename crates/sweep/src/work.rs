//! Workers that make the runs of a sweep.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T, E> {
    /// The result of the job.
    Done(T),
    /// This job alone has no result.
    Lost(E),
    /// None of the runs can be made.
    Refused(E),
}

/// Attempts all runs with at most `workers` threads, and tells `progress` how many are done. The outcomes are in the order of the
/// runs; those that come after a refused one may be missing.
pub fn work<Run: Sync, T: Send, E: Send>(
    runs: &[Run],
    workers: NonZeroUsize,
    attempt: &(impl Fn(&Run) -> Outcome<T, E> + Sync),
    progress: &(impl Fn(usize) + Sync),
) -> Vec<Outcome<T, E>> {
    let workers = workers.get().min(runs.len().max(1));
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Outcome<T, E>>>> = Mutex::new(runs.iter().map(|_| None).collect());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = runs.get(index) else { return };
            let outcome = attempt(run);
            if matches!(outcome, Outcome::Refused(_)) {
                // What has begun is finished; nothing new is started.
                next.fetch_max(runs.len(), Ordering::Relaxed);
            }
            lock(&results)[index] = Some(outcome);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
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
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    #[test]
    fn outcomes_are_in_the_order_of_the_runs_whatever_the_workers() {
        let runs: Vec<u64> = (0..50).collect();
        let attempt = |run: &u64| if run % 7 == 3 { Outcome::Lost(*run) } else { Outcome::Done(*run) };
        let one = work(&runs, workers(1), &attempt, &|_| {});
        assert_eq!(one.len(), 50);
        assert_eq!(one[3], Outcome::Lost(3));
        for count in [2, 3, 100] {
            let told = Mutex::new(Vec::new());
            assert_eq!(work(&runs, workers(count), &attempt, &|done| lock(&told).push(done)), one);
            let mut told = told.into_inner().unwrap();
            told.sort_unstable();
            assert_eq!(told, (1..=50).collect::<Vec<usize>>());
        }
    }

    #[test]
    fn nothing_is_started_after_a_refusal() {
        let attempt = |run: &u64| if *run == 2 { Outcome::Refused("no") } else { Outcome::Done(*run) };
        let outcomes = work(&[0, 1, 2, 3, 4], workers(1), &attempt, &|_| {});
        assert_eq!(outcomes, [Outcome::Done(0), Outcome::Done(1), Outcome::Refused("no")]);
    }

    #[test]
    fn no_runs_have_no_outcomes() {
        assert!(work(&[], workers(4), &|&(): &()| Outcome::<(), ()>::Done(()), &|_| {}).is_empty());
    }
}
