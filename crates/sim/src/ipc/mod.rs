//! Kernel objects that tasks wait on: pure state machines with FIFO queues. They
//! decide who blocks and who is to be woken; the executor does both.

mod channel;
mod descriptor;
mod sync;

pub(crate) use channel::{Channel, Moved};
pub use descriptor::{Descriptor, descriptor, resolve};
pub(crate) use sync::{Barrier, Cond, Disk, Mutex, Semaphore};

use schedlab_workload::Scenario;

/// The objects of a run, by their ids in the scenario.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) channels: Vec<Channel>,
    pub(crate) semaphores: Vec<Semaphore>,
    pub(crate) mutexes: Vec<Mutex>,
    pub(crate) conds: Vec<Cond>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) disks: Vec<Disk>,
}

impl Objects {
    pub(crate) fn new(scenario: &Scenario) -> Objects {
        Objects {
            channels: scenario.channels.iter().map(Channel::new).collect(),
            semaphores: scenario.semaphores.iter().map(|sem| Semaphore::new(sem.initial)).collect(),
            mutexes: scenario.locks.iter().map(|_| Mutex::default()).collect(),
            conds: (0..scenario.conds).map(|_| Cond::default()).collect(),
            barriers: scenario.barriers.iter().map(|&parties| Barrier::new(parties)).collect(),
            disks: scenario.disks.iter().map(|_| Disk::default()).collect(),
        }
    }
}
