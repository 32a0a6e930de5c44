//! Schedulers of runs that are over, for further runs of the same: going back to the start costs a small part of loading again, and
//! what was compiled stays compiled.

use schedlab_base::Machine;
use schedlab_bpf::object::Object;
use schedlab_scx::{BpfScheduler, LoadOptions, Start};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Spares that are kept at most. Chosen: those of a comparison on several numbers of CPUs, on a few threads.
const MOST: usize = 16;

/// What loading depends on.
#[derive(Clone)]
struct Key {
    object: Arc<Object>,
    options: LoadOptions,
    machine: Machine,
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        Arc::ptr_eq(&self.object, &other.object)
            && self.options == other.options
            && self.machine == other.machine
    }
}

/// A scheduler's spares; clones share them.
#[derive(Clone, Default)]
pub struct Spares(Arc<Mutex<Shelf>>);

#[derive(Default)]
struct Shelf {
    /// What was loaded. A start is kept from the second time on, since most commands make one run of a kind.
    seen: Vec<Key>,
    spares: Vec<Spare>,
}

/// A scheduler that can begin again.
struct Spare {
    key: Key,
    start: Start,
    scheduler: BpfScheduler,
}

/// Where a scheduler goes when its run is over.
pub(crate) struct Place {
    spares: Spares,
    key: Key,
    start: Start,
}

impl Place {
    /// Takes the scheduler of a run that is over, unless that had so many tasks that its memory is better free.
    pub(crate) fn give_back(self, scheduler: BpfScheduler) {
        if !scheduler.is_worth_keeping() {
            return;
        }
        let mut shelf = self.spares.shelf();
        shelf.spares.push(Spare { key: self.key, start: self.start, scheduler });
        if shelf.spares.len() > MOST {
            shelf.spares.remove(0);
        }
    }
}

impl std::fmt::Debug for Spares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spares").finish_non_exhaustive()
    }
}

impl Spares {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A scheduler at its start: a spare, or one that `load` makes. The place is where to give it back to, if it is worth while.
    pub(crate) fn ready<E>(
        &self,
        object: &Arc<Object>,
        options: &LoadOptions,
        machine: &Machine,
        load: impl FnOnce() -> Result<BpfScheduler, E>,
    ) -> Result<(BpfScheduler, Option<Place>), E> {
        let key = Key { object: object.clone(), options: options.clone(), machine: machine.clone() };
        let mut shelf = self.shelf();
        if let Some(at) = shelf.spares.iter().position(|spare| spare.key == key) {
            let Spare { key, start, mut scheduler } = shelf.spares.swap_remove(at);
            drop(shelf);
            scheduler.begin_again(&start);
            return Ok((scheduler, Some(Place { spares: self.clone(), key, start })));
        }
        let again = shelf.seen.contains(&key);
        if !again {
            if shelf.seen.len() == MOST {
                shelf.seen.remove(0);
            }
            shelf.seen.push(key.clone());
        }
        drop(shelf);
        let scheduler = load()?;
        let again = again && scheduler.is_worth_keeping();
        let place = again.then(|| Place { spares: self.clone(), start: scheduler.keep(), key });
        Ok((scheduler, place))
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::kernels;
    use crate::run::simulation::{Simulation, Watch};
    use crate::scheduler::Scheduler;
    use crate::shipped;
    use schedlab_base::DurationNs;

    /// Everything that a run of this scheduler gives, with the object's variables and its lines.
    fn made(scheduler: &Scheduler, machine: &str, seed: u64) -> String {
        let machine = kernels::with(shipped::machine(machine).unwrap().machine, None, Some(3)).unwrap();
        let new = Simulation::new(scheduler.clone(), "chat:rooms=1,messages=5", machine);
        let simulation = Simulation { seed, limit: Some(DurationNs(300_000_000)), ..new };
        let watch = Watch { contents: true, lines: true, waits: true, priorities: true, ..Watch::default() };
        let made = simulation.run_watched(&simulation.scenario().unwrap(), watch).unwrap();
        format!("{:?} {:?}", made.record, made.extra_tables)
    }

    /// On the second machine lines of memory have a price.
    #[test]
    fn a_spare_runs_as_one_that_was_loaded() {
        for name in ["o1", "o1+swap", "vanilla", "ule", "bsd4"] {
            let scheduler = Scheduler::find(name).unwrap();
            scheduler.parsed().unwrap().unwrap();
            for machine in ["modern", "p3-700"] {
                for seed in [1, 2, 3, 2] {
                    let fresh = Scheduler::find(name).unwrap();
                    let (again, fresh) = (made(&scheduler, machine, seed), made(&fresh, machine, seed));
                    assert!(again == fresh, "{name} on {machine}, seed {seed}");
                }
            }
            let kept = scheduler.spares.shelf().spares.len();
            assert_eq!(kept, 2, "{name}: one of each machine began again");
        }
    }

    /// A spare of other settings is another scheduler.
    #[test]
    fn settings_are_part_of_what_is_spare() {
        let mut scheduler = Scheduler::find("o1").unwrap();
        scheduler.parsed().unwrap().unwrap();
        let before: Vec<String> = (0..3).map(|_| made(&scheduler, "modern", 1)).collect();
        scheduler.values.push(("tick_ns".into(), "100000".into()));
        let after = made(&scheduler, "modern", 1);
        assert!(before.iter().all(|run| *run == before[0]) && after != before[0]);
    }
}
