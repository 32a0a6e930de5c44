//! System call numbers (x86-64) and arguments of operations, as far as a BPF
//! program can look at them. Addresses are made up but consistent; what lies there
//! is [`super::user`]'s.

use super::user;
use crate::ipc::Descriptors;
use crate::state::task::FIRST_PID;
use schedlab_trace::waits::Mechanism;
use schedlab_workload::{
    Attribute, ChannelId, ChannelKind, GroupChange, LockId, LockKind, Op, PollKind, Scenario, SemKind,
};

/// `FUTEX_PRIVATE_FLAG`.
const PRIVATE: u64 = 128;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_UNLOCK_PI: u64 = 7;
/// `FUTEX_WAIT_BITSET` and `FUTEX_WAKE_BITSET`, by which condition variables wait.
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAKE_BITSET: u64 = 10;
const FUTEX: i64 = 202;
pub(super) const SETPRIORITY: i64 = 141;

const LOCK_SH: u64 = 1;
const LOCK_EX: u64 = 2;
const LOCK_UN: u64 = 8;
const F_SETLK: u64 = 6;
const F_SETLKW: u64 = 7;
/// `SETVAL` of semctl.
const SETVAL: u64 = 16;

/// `SIGUSR2`, the signal that tasks send each other.
const SIGNAL: u64 = 12;

/// No timeout of poll and epoll_wait.
const FOR_EVER: u64 = u64::MAX;

/// What a run's system calls look like.
#[derive(Debug)]
pub(super) struct Calls {
    descriptors: Descriptors,
    kinds: Vec<ChannelKind>,
    locks: Vec<LockKind>,
    /// Which futexes only threads of one process use.
    private_locks: Vec<bool>,
    private_conds: Vec<bool>,
    private_barriers: Vec<bool>,
    polls: Vec<(PollKind, u64)>,
    /// Of the tasks at the start: thread group, and whether it has several threads.
    groups: Vec<(i32, bool)>,
    changes: Vec<Attribute>,
    group_changes: Vec<GroupChange>,
}

impl Calls {
    pub(super) fn new(scenario: &Scenario) -> Calls {
        let group = |task: &schedlab_workload::TaskSpec| {
            let same = |other: &&schedlab_workload::TaskSpec| other.process == task.process;
            let first = scenario.tasks.iter().position(|other| same(&other)).unwrap_or(0);
            (FIRST_PID + first as i32, scenario.tasks.iter().filter(same).nth(1).is_some())
        };
        let kills = scenario.programs.iter().any(|p| p.ops().iter().any(|op| matches!(op, Op::Kill(_))));
        Calls {
            descriptors: Descriptors::new(scenario),
            kinds: scenario.channels.iter().map(|channel| channel.kind).collect(),
            private_locks: scenario.private_objects(scenario.locks.len(), |op| match *op {
                Op::Lock(lock) | Op::Unlock(lock) | Op::CondWait { lock, .. } => Some(lock.index()),
                _ => None,
            }),
            private_conds: scenario.private_objects(scenario.conds as usize, |op| match *op {
                Op::CondWait { cond, .. } | Op::CondSignal(cond) | Op::CondBroadcast(cond) => {
                    Some(cond.index())
                }
                _ => None,
            }),
            private_barriers: scenario.private_objects(scenario.barriers.len(), |op| match *op {
                Op::Barrier(barrier) => Some(barrier.index()),
                _ => None,
            }),
            locks: scenario.locks.clone(),
            changes: scenario.changes.clone(),
            group_changes: scenario.group_changes.clone(),
            polls: scenario.polls.iter().map(|set| (set.kind, set.watched.len() as u64)).collect(),
            groups: if kills { scenario.tasks.iter().map(group).collect() } else { Vec::new() },
        }
    }

    /// The number and arguments of the call that `op` makes. `waits` tells a futex
    /// wait from a wake.
    pub(super) fn call(&self, op: &Op, waits: bool) -> (i64, [u64; 6]) {
        match *op {
            Op::Send { channel, bytes } => self.transfer(channel, bytes, true),
            Op::Recv { channel, bytes } => self.transfer(channel, bytes, false),
            Op::SemWait(_) | Op::SemPost { .. } | Op::SemDrain(_) => self.semaphore(op),
            Op::Lock(lock) | Op::LockShared(lock) | Op::Unlock(lock) => self.lock(op, lock, waits),
            Op::CondWait { cond, .. } => {
                futex(user::COND, cond.0, FUTEX_WAIT_BITSET, self.private_conds[cond.index()])
            }
            Op::CondSignal(cond) | Op::CondBroadcast(cond) => {
                futex(user::COND, cond.0, FUTEX_WAKE_BITSET, self.private_conds[cond.index()])
            }
            Op::Barrier(barrier) => {
                let what = if waits { FUTEX_WAIT } else { FUTEX_WAKE };
                futex(user::BARRIER, barrier.0, what, self.private_barriers[barrier.index()])
            }
            Op::Poll(set) => {
                let (kind, count) = self.polls[set.index()];
                let at = user::POLL.at(set.0);
                match kind {
                    // As the C library does it: pselect6() of the read set.
                    PollKind::Select => (270, [u64::from(self.descriptors.count()), at, 0, 0, 0, 0]),
                    PollKind::Poll => (7, [at, count, FOR_EVER, 0, 0, 0]),
                    PollKind::Epoll => {
                        let fd = u64::from(self.descriptors.poll(set));
                        (232, [fd, user::BUFFER.at(0), 1, FOR_EVER, 0, 0])
                    }
                }
            }
            Op::Kill(task) => match self.groups[task.index()] {
                (group, true) => {
                    (234, [group as u64, u64::from(FIRST_PID.cast_unsigned() + task.0), SIGNAL, 0, 0, 0])
                }
                (group, false) => (62, [group as u64, SIGNAL, 0, 0, 0, 0]),
            },
            // rt_sigsuspend() with the mask's size.
            Op::SigWait => (130, [user::BUFFER.at(0), 8, 0, 0, 0, 0]),
            Op::Sleep(span) | Op::Await { step: span, .. } => (230, [1, 0, span.0, 0, 0, 0]),
            Op::TimerWait { .. } => (230, [1, 1, user::BUFFER.at(0), 0, 0, 0]),
            // A read of a file that is not cached.
            Op::Io { disk, .. } => (17, [1000 + u64::from(disk.0), user::BUFFER.at(0), 4096, 0, 0, 0]),
            Op::Fsync { disk, .. } => (74, [1000 + u64::from(disk.0), 0, 0, 0, 0, 0]),
            // A read of a cached file.
            Op::RunKernel(_) => (17, [999, user::BUFFER.at(0), 4096, 0, 0, 0]),
            Op::Connect { listener, .. } => {
                (42, [u64::from(self.descriptors.listener(listener)), user::BUFFER.at(0), 16, 0, 0, 0])
            }
            Op::Accept(listener) => (288, [u64::from(self.descriptors.listener(listener)), 0, 0, 0, 0, 0]),
            Op::Close(_) => (3, [0; 6]),
            Op::Yield => (24, [0; 6]),
            Op::Set { change, .. } => of_change(&self.changes[change.index()]),
            Op::SetGroup { change, .. } => of_group_change(&self.group_changes[change.index()]),
            // A write into a file of sysfs.
            Op::Hotplug { .. } => (1, [998, user::BUFFER.at(0), 1, 0, 0, 0]),
            // clone() with CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD.
            Op::Fork { .. } => (56, [0x0120_0011, 0, 0, 0, 0, 0]),
            Op::Exec => (59, [user::BUFFER.at(0), user::BUFFER.at(0), user::BUFFER.at(0), 0, 0, 0]),
            Op::WaitChild => (61, [u64::MAX, user::BUFFER.at(0), 0, 0, 0, 0]),
            Op::Exit => (231, [0; 6]),
            no_calls!() => unreachable!("{op:?} is no system call"),
        }
    }

    fn transfer(&self, channel: ChannelId, bytes: u32, write: bool) -> (i64, [u64; 6]) {
        let (buffer, bytes) = (user::BUFFER.at(0), u64::from(bytes));
        let fd = u64::from(self.descriptors.channel(channel, write));
        let id = u64::from(channel.0);
        match (self.kinds[channel.index()], write) {
            (ChannelKind::Pipe, false) => (0, [fd, buffer, bytes, 0, 0, 0]),
            (ChannelKind::Pipe, true) => (1, [fd, buffer, bytes, 0, 0, 0]),
            (ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp, true) => {
                (44, [fd, buffer, bytes, 0, 0, 0])
            }
            (ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp, false) => {
                (45, [fd, buffer, bytes, 0, 0, 0])
            }
            (ChannelKind::SysvQueue, true) => (69, [id, buffer, bytes, 0, 0, 0]),
            (ChannelKind::SysvQueue, false) => (70, [id, buffer, bytes, 0, 0, 0]),
            (ChannelKind::PosixQueue, true) => (242, [fd, buffer, bytes, 0, 0, 0]),
            (ChannelKind::PosixQueue, false) => (243, [fd, buffer, bytes, 0, 0, 0]),
        }
    }

    fn semaphore(&self, op: &Op) -> (i64, [u64; 6]) {
        let (sem, units) = match *op {
            Op::SemWait(sem) | Op::SemDrain(sem) => (sem, 0),
            Op::SemPost { sem, units } => (sem, units),
            _ => unreachable!("{op:?} uses no semaphore"),
        };
        let fd = u64::from(self.descriptors.semaphore(sem));
        let id = u64::from(sem.0);
        let eventfd = self.descriptors.resolve(fd as u32).is_some();
        match op {
            Op::SemWait(_) if eventfd => (0, [fd, user::BUFFER.at(0), 8, 0, 0, 0]),
            Op::SemPost { .. } if eventfd => (1, [fd, user::BUFFER.at(0), 8, 0, 0, 0]),
            Op::SemDrain(_) => (66, [id, 0, SETVAL, 0, 0, 0]),
            // The set is the semaphore alone; what is done to it tells a wait from a post.
            _ => (65, [id, user::SEMBUF.at(units), 1, 0, 0, 0]),
        }
    }

    fn lock(&self, op: &Op, lock: LockId, waits: bool) -> (i64, [u64; 6]) {
        let fd = u64::from(self.descriptors.lock(lock));
        let private = self.private_locks[lock.index()];
        match (self.locks[lock.index()], op) {
            (LockKind::Futex, _) => {
                futex(user::LOCK, lock.0, if waits { FUTEX_WAIT } else { FUTEX_WAKE }, private)
            }
            (LockKind::FutexPi, Op::Unlock(_)) => futex(user::LOCK, lock.0, FUTEX_UNLOCK_PI, private),
            (LockKind::FutexPi, _) => futex(user::LOCK, lock.0, FUTEX_LOCK_PI, private),
            (LockKind::Flock, Op::Lock(_)) => (73, [fd, LOCK_EX, 0, 0, 0, 0]),
            (LockKind::Flock, Op::LockShared(_)) => (73, [fd, LOCK_SH, 0, 0, 0, 0]),
            (LockKind::Flock, _) => (73, [fd, LOCK_UN, 0, 0, 0, 0]),
            (LockKind::Fcntl, Op::Lock(_)) => (72, [fd, F_SETLKW, user::FLOCK.at(user::F_WRLCK), 0, 0, 0]),
            (LockKind::Fcntl, Op::LockShared(_)) => {
                (72, [fd, F_SETLKW, user::FLOCK.at(user::F_RDLCK), 0, 0, 0])
            }
            (LockKind::Fcntl, _) => (72, [fd, F_SETLK, user::FLOCK.at(user::F_UNLCK), 0, 0, 0]),
        }
    }
}

/// Through what a task waits in the call of `op`, and the number of the resource among those
/// of its kind; none where it waits for no task.
pub(super) fn through(scenario: &Scenario, op: &Op) -> Option<(Mechanism, u64)> {
    let lock = |lock: LockId| match scenario.lock_kind(lock) {
        LockKind::Futex | LockKind::FutexPi => Mechanism::Futex,
        LockKind::Flock => Mechanism::Flock,
        LockKind::Fcntl => Mechanism::Fcntl,
    };
    let futex = |area: user::Area, index| (Mechanism::Futex, area.at(index));
    Some(match *op {
        Op::Send { channel, .. } | Op::Recv { channel, .. } => {
            let mechanism = match scenario.channels[channel.index()].kind {
                ChannelKind::Pipe => Mechanism::Pipe,
                ChannelKind::Unix => Mechanism::Unix,
                ChannelKind::Tcp => Mechanism::Tcp,
                ChannelKind::Udp => Mechanism::Udp,
                ChannelKind::SysvQueue => Mechanism::Message,
                ChannelKind::PosixQueue => Mechanism::PosixMessage,
            };
            (mechanism, u64::from(channel.0))
        }
        Op::SemWait(sem) | Op::SemPost { sem, .. } => {
            let mechanism = match scenario.semaphores[sem.index()].kind {
                SemKind::Sysv => Mechanism::Semaphore,
                SemKind::EventFd => Mechanism::Eventfd,
            };
            (mechanism, u64::from(sem.0))
        }
        Op::Lock(id) | Op::LockShared(id) | Op::Unlock(id) => match lock(id) {
            Mechanism::Futex => futex(user::LOCK, id.0),
            file => (file, u64::from(id.0)),
        },
        Op::CondWait { cond, .. } | Op::CondSignal(cond) | Op::CondBroadcast(cond) => {
            futex(user::COND, cond.0)
        }
        Op::Barrier(barrier) => futex(user::BARRIER, barrier.0),
        Op::Poll(set) => {
            let mechanism = match scenario.polls[set.index()].kind {
                PollKind::Select => Mechanism::Select,
                PollKind::Poll => Mechanism::Poll,
                PollKind::Epoll => Mechanism::Epoll,
            };
            (mechanism, u64::from(set.0))
        }
        // Numbered behind the channels.
        Op::Connect { listener, .. } | Op::Accept(listener) => {
            (Mechanism::Tcp, scenario.channels.len() as u64 + u64::from(listener.0))
        }
        Op::Kill(_) | Op::SigWait => (Mechanism::Signal, 0),
        Op::WaitChild => (Mechanism::Child, 0),
        Op::SemDrain(_) | Op::Sleep(_) | Op::Await { .. } | Op::TimerWait { .. } => return None,
        Op::Io { .. } | Op::Fsync { .. } | Op::RunKernel(_) | Op::Close(_) | Op::Yield => return None,
        Op::Set { .. } | Op::SetGroup { .. } | Op::Hotplug { .. } | Op::Fork { .. } | Op::Exec | Op::Exit => {
            return None;
        }
        no_calls!() => return None,
    })
}

/// A change of the task's own attributes (process id 0); the caller knows other ids.
fn of_change(change: &Attribute) -> (i64, [u64; 6]) {
    match change {
        Attribute::Nice(nice) => (SETPRIORITY, [0, 0, i64::from(nice.get()) as u64, 0, 0, 0]),
        Attribute::Policy(_) => (144, [0, 0, user::BUFFER.at(0), 0, 0, 0]),
        Attribute::Affinity(_) => (203, [0, 64, user::BUFFER.at(0), 0, 0, 0]),
        Attribute::Group(_) => (1, [997, user::BUFFER.at(0), 8, 0, 0, 0]),
    }
}

/// `mkdir()`, `rmdir()`, or a write into a file of the group.
fn of_group_change(change: &GroupChange) -> (i64, [u64; 6]) {
    match change {
        GroupChange::Make => (83, [user::BUFFER.at(0), 0o755, 0, 0, 0, 0]),
        GroupChange::Remove => (84, [user::BUFFER.at(0), 0, 0, 0, 0, 0]),
        _ => (1, [997, user::BUFFER.at(0), 8, 0, 0, 0]),
    }
}

fn futex(area: user::Area, index: u32, what: u64, private: bool) -> (i64, [u64; 6]) {
    let value = match what {
        FUTEX_WAIT => 2,
        FUTEX_WAKE if area.is(user::BARRIER) => i32::MAX as u64,
        FUTEX_WAKE => 1,
        FUTEX_WAKE_BITSET => i32::MAX as u64,
        _ => 0,
    };
    let bits = if matches!(what, FUTEX_WAIT_BITSET | FUTEX_WAKE_BITSET) { 1 } else { 0 };
    (FUTEX, [area.at(index), what | if private { PRIVATE } else { 0 }, value, 0, 0, bits])
}
