//! How the tasks of a run reach its kernel objects: descriptors and identifiers, by the scenario's ids.

use std::os::fd::RawFd;

use schedlab_workload::{
    ChannelId, ChannelKind, LockKind, Op, PollKind, Scenario, SemId, SemKind, TaskSpec, Watched,
};

use super::words::Words;

/// The two ends of a one-directional channel. A System V message queue has its identifier in both places, a POSIX
/// one its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) kind: ChannelKind,
    pub(super) read: RawFd,
    pub(super) write: RawFd,
}

/// A semaphore: the identifier of a System V set with this one alone, or an eventfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SemHandle {
    pub(super) kind: SemKind,
    pub(super) id: i32,
}

/// A lock: whether its futex is private to a process, or the descriptor of the file, which each task opens itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockHandle {
    pub(super) kind: LockKind,
    pub(super) private: bool,
    pub(super) file: RawFd,
}

/// A set of polled objects, with the descriptor of its epoll instance if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PollHandle {
    pub(super) kind: PollKind,
    pub(super) epoll: RawFd,
    pub(super) watched: Vec<Watched>,
}

/// A barrier: how many tasks it waits for, and whether its futex is private to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BarrierHandle {
    pub(super) parties: u32,
    pub(super) private: bool,
}

/// All handles of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Handles {
    pub(super) channels: Vec<Ends>,
    pub(super) semaphores: Vec<SemHandle>,
    pub(super) locks: Vec<LockHandle>,
    /// Whether each condition variable's futex is private to a process.
    pub(super) conds: Vec<bool>,
    pub(super) barriers: Vec<BarrierHandle>,
    pub(super) polls: Vec<PollHandle>,
    /// Queues of listening sockets: a pipe through which the numbers of connections go that exist already.
    pub(super) listeners: Vec<Ends>,
    /// By channel: the other direction of its connection.
    pub(super) peers: Vec<Option<ChannelId>>,
    /// By task: whether its process has other threads.
    pub(super) has_threads: Vec<bool>,
}

const CHANNEL_KINDS: [ChannelKind; 6] = [
    ChannelKind::Pipe,
    ChannelKind::Unix,
    ChannelKind::Tcp,
    ChannelKind::Udp,
    ChannelKind::SysvQueue,
    ChannelKind::PosixQueue,
];
const SEM_KINDS: [SemKind; 2] = [SemKind::Sysv, SemKind::EventFd];
const LOCK_KINDS: [LockKind; 4] = [LockKind::Futex, LockKind::FutexPi, LockKind::Flock, LockKind::Fcntl];
const POLL_KINDS: [PollKind; 3] = [PollKind::Select, PollKind::Poll, PollKind::Epoll];

/// The place of a value in its list; every kind is in it.
fn place<T: PartialEq>(kinds: &[T], kind: &T) -> u64 {
    kinds.iter().position(|other| other == kind).unwrap_or(kinds.len()) as u64
}

impl Handles {
    /// What follows from the scenario alone, without any descriptor.
    pub(super) fn of(scenario: &Scenario) -> Handles {
        let locks = scenario.private_objects(scenario.locks.len(), |op| match *op {
            Op::Lock(lock) | Op::Unlock(lock) | Op::CondWait { lock, .. } => Some(lock.index()),
            _ => None,
        });
        let conds = scenario.private_objects(scenario.conds as usize, |op| match *op {
            Op::CondWait { cond, .. } | Op::CondSignal(cond) | Op::CondBroadcast(cond) => Some(cond.index()),
            _ => None,
        });
        let barriers = scenario.private_objects(scenario.barriers.len(), |op| match *op {
            Op::Barrier(barrier) => Some(barrier.index()),
            _ => None,
        });
        let mut threads = std::collections::BTreeMap::new();
        for task in &scenario.tasks {
            *threads.entry(task.process).or_insert(0) += 1;
        }
        Handles {
            locks: (scenario.locks.iter().zip(locks))
                .map(|(&kind, private)| LockHandle { kind, private, file: -1 })
                .collect(),
            conds,
            barriers: (scenario.barriers.iter().zip(barriers))
                .map(|(&parties, private)| BarrierHandle { parties, private })
                .collect(),
            polls: (scenario.polls.iter())
                .map(|set| PollHandle { kind: set.kind, epoll: -1, watched: set.watched.clone() })
                .collect(),
            peers: scenario.channels.iter().map(|channel| channel.peer).collect(),
            has_threads: scenario.tasks.iter().map(|task: &TaskSpec| threads[&task.process] > 1).collect(),
            ..Handles::default()
        }
    }

    /// The descriptor that a poll of the object looks at.
    pub(super) fn pollable(&self, watched: Watched) -> RawFd {
        match watched {
            Watched::Channel(channel) => self.channels[channel.index()].read,
            Watched::Semaphore(sem) => self.semaphores[sem.index()].id,
        }
    }

    /// All descriptors, for those who want to keep them open.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        let channels =
            self.channels.iter().chain(&self.listeners).filter(|ends| ends.kind != ChannelKind::SysvQueue);
        let eventfds = self.semaphores.iter().filter(|sem| sem.kind == SemKind::EventFd).map(|sem| sem.id);
        let files = self.locks.iter().map(|lock| lock.file).chain(self.polls.iter().map(|set| set.epoll));
        channels.flat_map(|ends| [ends.read, ends.write]).chain(eventfds).chain(files.filter(|&fd| fd >= 0))
    }

    /// The handles as numbers, for [`Handles::decode`].
    pub(super) fn encode(&self, words: &mut Vec<u64>) {
        for list in [&self.channels, &self.listeners] {
            words.push(list.len() as u64);
            for ends in list {
                words.extend([place(&CHANNEL_KINDS, &ends.kind), ends.read as u64, ends.write as u64]);
            }
        }
        words.push(self.semaphores.len() as u64);
        for sem in &self.semaphores {
            words.extend([place(&SEM_KINDS, &sem.kind), sem.id as u64]);
        }
        words.push(self.locks.len() as u64);
        for lock in &self.locks {
            words.extend([place(&LOCK_KINDS, &lock.kind), lock.private.into(), lock.file as i64 as u64]);
        }
        words.push(self.conds.len() as u64);
        words.extend(self.conds.iter().map(|private| u64::from(*private)));
        words.push(self.barriers.len() as u64);
        for barrier in &self.barriers {
            words.extend([u64::from(barrier.parties), u64::from(barrier.private)]);
        }
        words.push(self.polls.len() as u64);
        for set in &self.polls {
            words.extend([place(&POLL_KINDS, &set.kind), set.epoll as i64 as u64, set.watched.len() as u64]);
            words.extend(set.watched.iter().flat_map(|watched| encode_watched(*watched)));
        }
        words.push(self.peers.len() as u64);
        // One more than the number, 0 for none.
        words.extend(self.peers.iter().map(|peer| peer.map_or(0, |peer| u64::from(peer.0) + 1)));
        words.push(self.has_threads.len() as u64);
        words.extend(self.has_threads.iter().map(|threads| u64::from(*threads)));
    }

    /// Reads what [`Handles::encode`] wrote; nothing for numbers that are none.
    pub(super) fn decode(words: &mut Words) -> Option<Handles> {
        let ends = |w: &mut Words| {
            Some(Ends { kind: *CHANNEL_KINDS.get(w.size()?)?, read: w.number()?, write: w.number()? })
        };
        Some(Handles {
            channels: words.list(ends)?,
            listeners: words.list(ends)?,
            semaphores: words
                .list(|w| Some(SemHandle { kind: *SEM_KINDS.get(w.size()?)?, id: w.number()? }))?,
            locks: words.list(|w| {
                Some(LockHandle { kind: *LOCK_KINDS.get(w.size()?)?, private: w.flag()?, file: w.number()? })
            })?,
            conds: words.list(Words::flag)?,
            barriers: words.list(|w| Some(BarrierHandle { parties: w.short()?, private: w.flag()? }))?,
            polls: words.list(|w| {
                let (kind, epoll) = (*POLL_KINDS.get(w.size()?)?, w.number()?);
                Some(PollHandle { kind, epoll, watched: w.list(decode_watched)? })
            })?,
            peers: words.list(|w| Some(w.short()?.checked_sub(1).map(ChannelId)))?,
            has_threads: words.list(Words::flag)?,
        })
    }
}

/// A polled object as two numbers.
pub(super) fn encode_watched(watched: Watched) -> [u64; 2] {
    match watched {
        Watched::Channel(channel) => [0, channel.0.into()],
        Watched::Semaphore(sem) => [1, sem.0.into()],
    }
}

/// Reads what [`encode_watched`] wrote.
pub(super) fn decode_watched(words: &mut Words) -> Option<Watched> {
    match (words.next()?, words.short()?) {
        (0, channel) => Some(Watched::Channel(ChannelId(channel))),
        (1, sem) => Some(Watched::Semaphore(SemId(sem))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_survive_coding() {
        let ends = |kind, fd| Ends { kind, read: fd, write: fd + 1 };
        let handles = Handles {
            channels: CHANNEL_KINDS.iter().zip(3..).map(|(kind, fd)| ends(*kind, fd)).collect(),
            semaphores: SEM_KINDS.map(|kind| SemHandle { kind, id: 7 }).into(),
            locks: LOCK_KINDS.map(|kind| LockHandle { kind, private: true, file: -1 }).into(),
            conds: vec![true, false],
            barriers: vec![BarrierHandle { parties: 3, private: false }],
            polls: POLL_KINDS
                .map(|kind| PollHandle {
                    kind,
                    epoll: -1,
                    watched: vec![Watched::Channel(ChannelId(1)), Watched::Semaphore(SemId(1))],
                })
                .into(),
            listeners: vec![ends(ChannelKind::Pipe, 40)],
            peers: vec![None, Some(ChannelId(0))],
            has_threads: vec![false, true],
        };
        let mut numbers = Vec::new();
        handles.encode(&mut numbers);
        let mut words = Words::new(numbers.clone());
        assert_eq!(Handles::decode(&mut words), Some(handles));
        assert_eq!(words.next(), None);
        assert_eq!(Handles::decode(&mut Words::new(numbers[..9].to_vec())), None);
    }
}
