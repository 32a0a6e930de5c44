//! User memory, as far as system call arguments point to it and a program may want to look: futex words, and
//! the structures of semop, fcntl, poll and select. Everything else reads as not mapped.
//!
//! Addresses are the same in all processes, as after a fork.

use schedlab_base::TaskId;
use schedlab_workload::{PollId, PollKind, Scenario};

use crate::ipc::Descriptors;
use crate::state::task::FIRST_PID;

/// A range of addresses with equally spaced objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    base: u64,
    stride: u64,
}

impl Area {
    const fn new(number: u64, stride: u64) -> Area {
        Area { base: 0x7f00_0000_0000 + (number << 36), stride }
    }

    /// The address of an object.
    pub(super) const fn at(self, index: u32) -> u64 {
        self.base + self.stride * index as u64
    }

    pub(super) fn is(self, other: Area) -> bool {
        self == other
    }

    /// The object that an address lies in, and the distance from its start.
    fn find(self, addr: u64) -> Option<(usize, usize)> {
        let within = addr.checked_sub(self.base).filter(|distance| *distance < 1 << 36)?;
        Some((usize::try_from(within / self.stride).ok()?, (within % self.stride) as usize))
    }
}

/// Mutexes: a word on a cache line of its own each.
pub(super) const LOCK: Area = Area::new(1, 64);
/// Condition variables, the same.
pub(super) const COND: Area = Area::new(2, 64);
/// Barriers, the same.
pub(super) const BARRIER: Area = Area::new(3, 64);
/// Message buffers, masks and the like, whose content is not modelled.
pub(super) const BUFFER: Area = Area::new(4, 4096);
/// `struct sembuf` by units posted; 0 stands for taking one.
pub(super) const SEMBUF: Area = Area::new(5, 8);
/// `struct flock` by type.
pub(super) const FLOCK: Area = Area::new(6, 32);
/// Arrays of `struct pollfd`, or descriptor sets, by poll set.
pub(super) const POLL: Area = Area::new(7, 1 << 20);

/// `l_type` values of `struct flock`.
pub(super) const F_RDLCK: u32 = 0;
pub(super) const F_WRLCK: u32 = 1;
pub(super) const F_UNLCK: u32 = 2;

/// `POLLIN`.
const POLLIN: u16 = 1;
/// `FUTEX_WAITERS`.
const FUTEX_WAITERS: u32 = 0x8000_0000;

/// The content.
#[derive(Debug, Default)]
pub(crate) struct UserMemory {
    /// The words of mutexes.
    locks: Vec<u32>,
    polls: Vec<Vec<u8>>,
}

impl UserMemory {
    /// The memory at the start of a run.
    pub(crate) fn new(scenario: &Scenario) -> UserMemory {
        let table = Descriptors::new(scenario);
        let bytes = |(set, number): (&schedlab_workload::PollSet, u32)| match set.kind {
            PollKind::Select => descriptor_set(table.watched(PollId(number))),
            PollKind::Poll => table.watched(PollId(number)).iter().flat_map(|fd| pollfd(*fd)).collect(),
            PollKind::Epoll => Vec::new(),
        };
        UserMemory {
            locks: vec![0; scenario.locks.len()],
            polls: scenario.polls.iter().zip(0..).map(bytes).collect(),
        }
    }

    /// Sets the word of a mutex: 0 free, 1 held, 2 held with waiters.
    pub(super) fn set_mutex(&mut self, lock: usize, word: u32) {
        self.locks[lock] = word;
    }

    /// Sets the word of a priority-inheriting mutex.
    pub(super) fn set_pi_mutex(&mut self, lock: usize, owner: Option<TaskId>, waited_for: bool) {
        let owner = owner.map_or(0, |task| FIRST_PID.cast_unsigned() + task.0);
        self.locks[lock] = owner | if waited_for { FUTEX_WAITERS } else { 0 };
    }

    /// `length` bytes at `addr`, if they are there.
    pub(crate) fn read(&self, addr: u64, length: usize) -> Option<Vec<u8>> {
        let slice =
            |bytes: &[u8], from: usize| bytes.get(from..from.checked_add(length)?).map(<[u8]>::to_vec);
        if let Some((index, from)) = LOCK.find(addr) {
            return slice(&self.locks.get(index)?.to_le_bytes(), from);
        }
        if let Some((units, from)) = SEMBUF.find(addr) {
            let change = if units == 0 { -1 } else { i16::try_from(units).ok()? };
            let [low, high] = change.to_le_bytes();
            return slice(&[0, 0, low, high, 0, 0], from);
        }
        if let Some((kind, from)) = FLOCK.find(addr) {
            // The whole file: everything but the type is 0.
            let mut flock = [0; 32];
            flock[0] = u8::try_from(kind).ok().filter(|kind| u32::from(*kind) <= F_UNLCK)?;
            return slice(&flock, from);
        }
        let (set, from) = POLL.find(addr)?;
        slice(self.polls.get(set)?, from)
    }
}

/// `{ fd, events, revents }`.
fn pollfd(fd: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&fd.to_le_bytes());
    bytes[4..6].copy_from_slice(&POLLIN.to_le_bytes());
    bytes
}

/// `fd_set`: 1024 bits, or as many as are needed.
fn descriptor_set(fds: &[u32]) -> Vec<u8> {
    let last = fds.iter().max().map_or(0, |fd| *fd as usize / 8);
    let mut bits = vec![0u8; 128.max(last + 1)];
    fds.iter().for_each(|fd| bits[*fd as usize / 8] |= 1 << (fd % 8));
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::{Channel, ChannelId, ChannelKind, End, LockKind, PollSet, Watched};

    #[test]
    fn calls_find_their_structures() {
        let mut scenario = Scenario::empty("test", End::AllExit);
        scenario.channels = vec![Channel { kind: ChannelKind::Pipe, capacity: 1, peer: None }; 2];
        let watched = vec![Watched::Channel(ChannelId(1))];
        scenario.polls =
            [PollKind::Poll, PollKind::Select].map(|kind| PollSet { kind, watched: watched.clone() }).into();
        scenario.locks = vec![LockKind::FutexPi];
        let mut memory = UserMemory::new(&scenario);
        // The read end of pipe 1 is descriptor 5.
        assert_eq!(memory.read(POLL.at(0), 8), Some(vec![5, 0, 0, 0, 1, 0, 0, 0]));
        assert_eq!(memory.read(POLL.at(1), 2), Some(vec![1 << 5, 0]));
        assert_eq!(memory.read(POLL.at(0) + 4, 8), None);
        memory.set_pi_mutex(0, Some(TaskId(0)), true);
        let word = memory.read(LOCK.at(0), 4).unwrap();
        assert_eq!(u32::from_le_bytes(word.try_into().unwrap()), FUTEX_WAITERS | 1001);
        assert_eq!(memory.read(SEMBUF.at(0) + 2, 2), Some((-1i16).to_le_bytes().to_vec()));
        assert_eq!(memory.read(SEMBUF.at(3) + 2, 1), Some(vec![3]));
        assert_eq!(memory.read(FLOCK.at(F_WRLCK), 2), Some(vec![1, 0]));
        let nothing = [LOCK.at(1), FLOCK.at(3), BUFFER.at(0), 0, u64::MAX];
        assert!(nothing.iter().all(|&addr| memory.read(addr, 1).is_none()));
    }
}
