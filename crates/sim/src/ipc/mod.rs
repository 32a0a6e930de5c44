//! Kernel objects that tasks wait on: pure state machines with their queues. They decide which
//! tasks block and which are to be woken; the executor does both.

mod channel;
mod descriptor;
mod file_lock;
mod message;
mod poll;
mod sync;

pub(crate) use channel::{Channel, Moved};
pub use descriptor::{Descriptors, File};
pub(crate) use file_lock::FileLock;
pub(crate) use message::{MessageQueue, Sent};
pub(crate) use poll::PollSet;
pub(crate) use sync::{Barrier, Cond, Disk, Listener, Mutex, PiMutex, Semaphore};

use crate::event::lock::Timeline;
use schedlab_base::TimeNs;
use schedlab_workload::{ChannelId, ChannelKind, MAX_SHARED_TIMERS, Scenario, Watched};

/// The objects of a run, by their ids in the scenario.
#[derive(Debug)]
pub(crate) struct Objects {
    /// The lock of the loopback device, through which all packets go.
    pub(crate) loopback: Timeline,
    /// The channels that are message queues lie unused.
    pub(crate) channels: Vec<Channel>,
    /// By channel: the message queue, if it is one.
    pub(crate) queues: Vec<Option<MessageQueue>>,
    pub(crate) semaphores: Vec<Semaphore>,
    /// By lock, each kind its own; those of other kinds lie unused.
    pub(crate) mutexes: Vec<Mutex>,
    pub(crate) pi_mutexes: Vec<PiMutex>,
    pub(crate) file_locks: Vec<FileLock>,
    pub(crate) polls: Vec<PollSet>,
    pub(crate) words: Vec<u32>,
    pub(crate) conds: Vec<Cond>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) disks: Vec<Disk>,
    pub(crate) listeners: Vec<Listener>,
    /// By channel: when the connection was opened, and when the channel was written to last.
    pub(crate) opened: Vec<TimeNs>,
    pub(crate) written: Vec<TimeNs>,
    /// The last expiries of the timers that all tasks share; nothing before the first wait.
    pub(crate) timers: [Option<TimeNs>; MAX_SHARED_TIMERS],
}

impl Objects {
    pub(crate) fn new(scenario: &Scenario) -> Objects {
        let polled = |wanted| scenario.polls.iter().any(|set| set.watched.contains(&wanted));
        let numbered = || scenario.channels.iter().zip(0..);
        let lengths = scenario.message_lengths();
        Objects {
            loopback: Timeline::default(),
            channels: numbered()
                .map(|(spec, at)| Channel::new(spec, polled(Watched::Channel(ChannelId(at)))))
                .collect(),
            queues: numbered()
                .map(|(spec, at)| {
                    matches!(spec.kind, ChannelKind::SysvQueue | ChannelKind::PosixQueue)
                        .then(|| MessageQueue::new(spec.kind, spec.capacity, lengths[at as usize]))
                })
                .collect(),
            semaphores: scenario.semaphores.iter().map(Semaphore::new).collect(),
            mutexes: scenario.locks.iter().map(|_| Mutex::default()).collect(),
            pi_mutexes: scenario.locks.iter().map(|_| PiMutex::default()).collect(),
            file_locks: scenario.locks.iter().map(|_| FileLock::default()).collect(),
            polls: scenario.polls.iter().map(PollSet::new).collect(),
            words: vec![0; scenario.words as usize],
            conds: (0..scenario.conds).map(|_| Cond::default()).collect(),
            barriers: scenario.barriers.iter().map(|&parties| Barrier::new(parties)).collect(),
            disks: scenario.disks.iter().map(|_| Disk::default()).collect(),
            listeners: (0..scenario.listeners).map(|_| Listener::default()).collect(),
            opened: vec![TimeNs::ZERO; scenario.channels.len()],
            written: vec![TimeNs::ZERO; scenario.channels.len()],
            timers: [None; MAX_SHARED_TIMERS],
        }
    }

    /// True when a poll of the object for reading would say yes.
    pub(crate) fn is_readable(&self, watched: Watched) -> bool {
        match watched {
            Watched::Channel(channel) => match &self.queues[channel.index()] {
                Some(queue) => queue.is_readable(),
                None => self.channels[channel.index()].available() > 0,
            },
            Watched::Semaphore(sem) => self.semaphores[sem.index()].is_readable(),
        }
    }
}
