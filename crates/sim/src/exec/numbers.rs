//! System call numbers (x86-64) and arguments of operations, as far as a BPF
//! program can look at them. Addresses are made up but consistent.

use crate::ipc::descriptor;
use schedlab_workload::{Attribute, ChannelId, ChannelKind, Op, Scenario};

/// `FUTEX_WAIT | FUTEX_PRIVATE_FLAG`.
pub(super) const FUTEX_WAIT: u64 = 128;
/// `FUTEX_WAKE | FUTEX_PRIVATE_FLAG`.
pub(super) const FUTEX_WAKE: u64 = 129;
const FUTEX: i64 = 202;
pub(super) const SETPRIORITY: i64 = 141;

/// Where the user-space objects of a run are: one cache line each.
const LOCKS: u64 = 0x7f10_0000_0000;
const CONDS: u64 = 0x7f20_0000_0000;
const BARRIERS: u64 = 0x7f30_0000_0000;
/// A task's message buffer.
const BUFFER: u64 = 0x7f40_0000_0000;

/// The number and arguments of the call that `op` makes. `waits` tells a futex
/// wait from a wake.
pub(super) fn call(scenario: &Scenario, op: &Op, waits: bool) -> (i64, [u64; 6]) {
    let futex = |base: u64, index: usize, wake: u64| {
        let address = base + 64 * index as u64;
        let (what, value) = if waits { (FUTEX_WAIT, 2) } else { (FUTEX_WAKE, wake) };
        (FUTEX, [address, what, value, 0, 0, 0])
    };
    match *op {
        Op::Send { channel, bytes } => transfer(scenario, channel, bytes, true),
        Op::Recv { channel, bytes } => transfer(scenario, channel, bytes, false),
        Op::SemWait(sem) | Op::SemPost { sem, .. } => (65, [u64::from(sem.0), BUFFER, 1, 0, 0, 0]),
        Op::Lock(lock) | Op::Unlock(lock) => futex(LOCKS, lock.index(), 1),
        Op::CondWait { cond, .. } => (FUTEX, [CONDS + 64 * cond.index() as u64, FUTEX_WAIT, 0, 0, 0, 0]),
        Op::CondSignal(cond) => futex(CONDS, cond.index(), 1),
        Op::CondBroadcast(cond) => futex(CONDS, cond.index(), i32::MAX as u64),
        Op::Barrier(barrier) => futex(BARRIERS, barrier.index(), i32::MAX as u64),
        Op::Sleep(span) => (230, [1, 0, span.0, 0, 0, 0]),
        Op::TimerWait { .. } => (230, [1, 1, BUFFER, 0, 0, 0]),
        // A read of a file that is not cached.
        Op::Io { disk, .. } => (17, [1000 + u64::from(disk.0), BUFFER, 4096, 0, 0, 0]),
        Op::Yield => (24, [0; 6]),
        // On the task itself (process id 0); the caller knows other ids.
        Op::Set { change, .. } => match scenario.changes[change.index()] {
            Attribute::Nice(nice) => (SETPRIORITY, [0, 0, i64::from(nice.get()) as u64, 0, 0, 0]),
            Attribute::Policy(_) => (144, [0, 0, BUFFER, 0, 0, 0]),
            Attribute::Affinity(_) => (203, [0, 64, BUFFER, 0, 0, 0]),
        },
        // clone() with CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD.
        Op::Fork { .. } => (56, [0x0120_0011, 0, 0, 0, 0, 0]),
        Op::Exec => (59, [BUFFER, BUFFER, BUFFER, 0, 0, 0]),
        Op::WaitChild => (61, [u64::MAX, BUFFER, 0, 0, 0, 0]),
        Op::Exit => (231, [0; 6]),
        _ => unreachable!("{op:?} is no system call"),
    }
}

fn transfer(scenario: &Scenario, channel: ChannelId, bytes: u32, write: bool) -> (i64, [u64; 6]) {
    let fd = u64::from(descriptor(&scenario.channels, channel, write));
    let pipe = scenario.channels[channel.index()].kind == ChannelKind::Pipe;
    let nr = match (pipe, write) {
        (true, false) => 0,
        (true, true) => 1,
        (false, true) => 44,
        (false, false) => 45,
    };
    (nr, [fd, BUFFER, u64::from(bytes), 0, 0, 0])
}
