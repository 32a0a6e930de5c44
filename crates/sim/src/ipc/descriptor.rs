//! File descriptors of a scenario's objects as system call arguments show them.
//!
//! All tasks of a run see one table, as processes do that inherited everything from one that opened it. After the
//! standard descriptors come two for each channel. Of a pipe `c` the read end is `3 + 2c` and the write end one
//! above. Of a connection of channels `c` and `d` (`c < d`) the endpoint that sends into `c` is `3 + 2c` and the
//! other one is above. A POSIX message queue has the first. Then one for each semaphore (eventfds), lock (locked
//! files) and poll set (epoll instances); what is no file leaves its number unused.

use schedlab_workload::{
    Channel, ChannelId, ChannelKind, ListenerId, LockId, LockKind, PollId, PollKind, Scenario, SemId,
    SemKind, Watched,
};

/// The first descriptor after the standard ones.
const FIRST: u32 = 3;

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// An end of a channel.
    Channel {
        /// The channel, or the lower one of a connection.
        channel: ChannelId,
        /// What it is made of.
        kind: ChannelKind,
        /// Of a pipe: the write end. Of a connection: the endpoint that sends into the higher channel.
        second: bool,
    },
    /// An eventfd.
    EventFd(SemId),
    /// A regular file, of which only locks are of interest.
    Locked(LockId),
    /// An epoll instance.
    Epoll(PollId),
}

/// The table of descriptors.
#[derive(Clone, Debug, Default)]
pub struct Descriptors {
    channels: Vec<Channel>,
    semaphores: Vec<SemKind>,
    locks: Vec<LockKind>,
    polls: Vec<PollKind>,
    /// By poll set: what is watched.
    watched: Vec<Vec<u32>>,
}

impl Descriptors {
    /// The table of a scenario.
    pub fn new(scenario: &Scenario) -> Descriptors {
        let mut table = Descriptors {
            channels: scenario.channels.clone(),
            semaphores: scenario.semaphores.iter().map(|sem| sem.kind).collect(),
            locks: scenario.locks.clone(),
            polls: scenario.polls.iter().map(|set| set.kind).collect(),
            watched: Vec::new(),
        };
        let fd = |watched: &Watched| match *watched {
            Watched::Channel(channel) => table.channel(channel, false),
            Watched::Semaphore(sem) => table.semaphore(sem),
        };
        let watched = scenario.polls.iter().map(|set| set.watched.iter().map(fd).collect()).collect();
        table.watched = watched;
        table
    }

    /// The descriptors that a poll set watches.
    pub fn watched(&self, set: PollId) -> &[u32] {
        &self.watched[set.index()]
    }

    /// The descriptor through which a task writes (or reads) `channel`; the number in place of one for a System V
    /// message queue, which has none.
    pub fn channel(&self, channel: ChannelId, write: bool) -> u32 {
        let spec = &self.channels[channel.index()];
        debug_assert!(spec.peer.is_none_or(|peer| peer != channel), "the two ends of a connection differ");
        let lower = spec.peer.map_or(channel, |peer| peer.min(channel));
        let second = match spec.kind {
            ChannelKind::Pipe => write,
            ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp => (channel == lower) != write,
            ChannelKind::SysvQueue | ChannelKind::PosixQueue => false,
        };
        FIRST + 2 * lower.0 + u32::from(second)
    }

    /// The descriptor of an eventfd.
    pub fn semaphore(&self, sem: SemId) -> u32 {
        FIRST + 2 * self.channels.len() as u32 + sem.0
    }

    /// The descriptor of a locked file.
    pub fn lock(&self, lock: LockId) -> u32 {
        FIRST + (2 * self.channels.len() + self.semaphores.len()) as u32 + lock.0
    }

    /// The descriptor of an epoll instance.
    pub fn poll(&self, set: PollId) -> u32 {
        FIRST + (2 * self.channels.len() + self.semaphores.len() + self.locks.len()) as u32 + set.0
    }

    /// The descriptor of a listening socket, behind all others.
    pub fn listener(&self, listener: ListenerId) -> u32 {
        self.count() + listener.0
    }

    /// One more than the largest number in use of what can be polled.
    pub fn count(&self) -> u32 {
        self.poll(PollId(self.polls.len() as u32))
    }

    /// What descriptor `fd` stands for, if anything.
    pub fn resolve(&self, fd: u32) -> Option<File> {
        let mut at = fd.checked_sub(FIRST)?;
        if at < 2 * self.channels.len() as u32 {
            let (channel, second) = (ChannelId(at / 2), at % 2 == 1);
            let spec = &self.channels[channel.index()];
            let shared = spec.peer.is_some_and(|peer| peer < channel);
            let exists = match spec.kind {
                ChannelKind::SysvQueue => false,
                ChannelKind::PosixQueue => !second,
                _ => !shared,
            };
            return exists.then_some(File::Channel { channel, kind: spec.kind, second });
        }
        at -= 2 * self.channels.len() as u32;
        if let Some(kind) = self.semaphores.get(at as usize) {
            return (*kind == SemKind::EventFd).then_some(File::EventFd(SemId(at)));
        }
        at -= self.semaphores.len() as u32;
        if let Some(kind) = self.locks.get(at as usize) {
            return kind.is_file().then_some(File::Locked(LockId(at)));
        }
        at -= self.locks.len() as u32;
        let kind = self.polls.get(at as usize)?;
        (*kind == PollKind::Epoll).then_some(File::Epoll(PollId(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::{End, PollSet, Semaphore};

    fn table() -> Descriptors {
        let socket = |peer| Channel { kind: ChannelKind::Tcp, capacity: 1, peer: Some(ChannelId(peer)) };
        let other = |kind| Channel { kind, capacity: 1, peer: None };
        let mut scenario = Scenario::empty("test", End::AllExit);
        let queues =
            [other(ChannelKind::Pipe), other(ChannelKind::SysvQueue), other(ChannelKind::PosixQueue)];
        scenario.channels = [&[socket(1), socket(0)], &queues[..]].concat();
        scenario.semaphores =
            [SemKind::Sysv, SemKind::EventFd].map(|kind| Semaphore { kind, initial: 0 }).into();
        scenario.locks = vec![LockKind::Futex, LockKind::Flock];
        scenario.polls =
            vec![PollSet { kind: PollKind::Epoll, watched: vec![Watched::Channel(ChannelId(2))] }];
        Descriptors::new(&scenario)
    }

    #[test]
    fn both_directions_of_an_endpoint_are_one_descriptor() {
        let table = table();
        let fd = |channel, write| table.channel(ChannelId(channel), write);
        assert_eq!((fd(0, true), fd(1, false)), (3, 3));
        assert_eq!((fd(0, false), fd(1, true)), (4, 4));
        assert_eq!((fd(2, false), fd(2, true)), (7, 8));
        let tcp = |second| Some(File::Channel { channel: ChannelId(0), kind: ChannelKind::Tcp, second });
        assert_eq!((table.resolve(3), table.resolve(4)), (tcp(false), tcp(true)));
        assert_eq!(table.resolve(5), None);
    }

    #[test]
    fn every_file_is_found_by_its_number() {
        let table = table();
        assert_eq!(table.resolve(table.semaphore(SemId(1))), Some(File::EventFd(SemId(1))));
        assert_eq!(table.resolve(table.lock(LockId(1))), Some(File::Locked(LockId(1))));
        assert_eq!(table.resolve(table.poll(PollId(0))), Some(File::Epoll(PollId(0))));
        let nothing = [table.semaphore(SemId(0)), table.lock(LockId(0)), 1, 9, 12, table.count(), 9999];
        assert!(nothing.iter().all(|&fd| table.resolve(fd).is_none()));
        assert_eq!(table.watched(PollId(0)), [7]);
        assert!(matches!(table.resolve(11), Some(File::Channel { channel: ChannelId(4), .. })));
    }
}
