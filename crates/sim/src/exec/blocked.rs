//! What a blocked task waits for, in words.

use super::{Phase, TaskExec};
use schedlab_workload::{ChannelKind, LockKind, Op, Scenario, SemKind};

impl TaskExec {
    /// The task keeps no run alive.
    pub(crate) fn is_background(&self) -> bool {
        self.background
    }

    /// What the task waits for in its present operation, for messages.
    pub(crate) fn waits_for(&self, scenario: &Scenario) -> &'static str {
        let (Phase::Enter(op) | Phase::Resume(op) | Phase::Again(op)) = self.phase else { return "the CPU" };
        match op {
            Op::Recv { channel, .. } => match scenario.channels[channel.index()].kind {
                ChannelKind::Pipe => "data in a pipe",
                ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp => "data in a socket",
                ChannelKind::SysvQueue | ChannelKind::PosixQueue => "a message in a queue",
            },
            Op::Send { channel, .. } => match scenario.channels[channel.index()].kind {
                ChannelKind::Pipe => "room in a pipe",
                ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp => "room in a socket",
                ChannelKind::SysvQueue | ChannelKind::PosixQueue => "room in a queue",
            },
            Op::SemWait(sem) => match scenario.semaphores[sem.index()].kind {
                SemKind::Sysv => "a semaphore",
                SemKind::EventFd => "an eventfd",
            },
            Op::Lock(lock) | Op::LockShared(lock) => match scenario.locks[lock.index()] {
                LockKind::Futex | LockKind::FutexPi => "a mutex",
                LockKind::Flock | LockKind::Fcntl => "a lock of a file",
            },
            Op::CondWait { .. } => "a condition variable",
            Op::Barrier(_) => "a barrier",
            Op::Poll(_) => "one of several descriptors",
            Op::Accept(_) => "a connection",
            Op::SigWait => "a signal",
            Op::WaitChild => "a child",
            Op::Await { .. } => "the value of a word",
            _ => "a wakeup",
        }
    }
}
