//! Mutexes, condition variables and file locks: what the C library does alone, and what
//! their system calls do.

use super::call::{PLAIN, begin, block, hold, leave, wake_waiters};
use super::{Step, burst};
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use schedlab_base::{CpuId, TaskId};
use schedlab_workload::{CondId, LockId, LockKind, Op};

/// Cache lines of a file's locks that an operation writes or reads after another CPU
/// did: the inode, its list of locks, a lock. Chosen.
const FILE_LOCK_LINES: u64 = 3;

/// What the C library does without a system call where it can.
#[inline(never)]
pub(super) fn user_space<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, op: Op) -> Option<Step> {
    let objects = &mut sim.exec.objects;
    let needs_kernel = match op {
        Op::Lock(lock) | Op::Unlock(lock) => {
            let (taking, at) = (matches!(op, Op::Lock(_)), lock.index());
            let needs_kernel = match (sim.exec.scenario.lock_kind(lock), taking) {
                (LockKind::Futex, true) => !objects.mutexes[at].try_take(task),
                (LockKind::Futex, false) => objects.mutexes[at].release(),
                (LockKind::FutexPi, true) => !objects.pi_mutexes[at].try_take(task),
                (LockKind::FutexPi, false) => !objects.pi_mutexes[at].try_release(),
                (LockKind::Flock | LockKind::Fcntl, _) => true,
            };
            write_word(sim, lock);
            needs_kernel
        }
        Op::CondSignal(cond) | Op::CondBroadcast(cond) => objects.conds[cond.index()].waiting() > 0,
        op => unreachable!("{op:?} needs the kernel"),
    };
    Some(if needs_kernel { begin(sim, task, op) } else { burst(sim.k.machine().costs.lock) })
}

/// The word of a mutex, where a program can look at it.
fn write_word<S: SchedExt>(sim: &mut Sim<S>, lock: LockId) {
    let at = lock.index();
    match sim.exec.scenario.lock_kind(lock) {
        LockKind::Futex => sim.k.user.set_mutex(at, sim.exec.objects.mutexes[at].word()),
        LockKind::FutexPi => {
            let mutex = &sim.exec.objects.pi_mutexes[at];
            sim.k.user.set_pi_mutex(at, mutex.owner(), mutex.waiters().next().is_some());
        }
        LockKind::Flock | LockKind::Fcntl => {}
    }
}

/// The call takes effect.
#[inline(never)]
pub(super) fn enter<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    match op {
        Op::CondWait { cond, lock } => wait_on_cond(sim, cpu, task, (op, cond, lock)),
        Op::CondSignal(cond) => {
            wake_waiters(sim, 1, |objects| objects.conds[cond.index()].pop_waiter());
            leave(sim, 1)
        }
        Op::CondBroadcast(cond) => {
            let waiting = sim.exec.objects.conds[cond.index()].waiting();
            wake_waiters(sim, waiting, |objects| objects.conds[cond.index()].pop_waiter());
            leave(sim, waiting as i64)
        }
        Op::Lock(lock) | Op::LockShared(lock) | Op::Unlock(lock) => {
            match (sim.exec.scenario.lock_kind(lock), op) {
                (LockKind::Flock | LockKind::Fcntl, _) => lock_file(sim, cpu, task, (op, lock)),
                (LockKind::Futex, Op::Unlock(_)) => {
                    wake_waiters(sim, 1, |objects| objects.mutexes[lock.index()].pop_waiter());
                    leave(sim, 1)
                }
                (LockKind::Futex, _) => take_contended(sim, cpu, task, lock),
                (LockKind::FutexPi, Op::Unlock(_)) => hand_over(sim, task, lock),
                (LockKind::FutexPi, _) => take_inheriting(sim, cpu, task, lock),
            }
        }
        op => unreachable!("{op:?} uses no lock"),
    }
}

/// The task has been woken inside the call.
#[inline(never)]
pub(super) fn resume<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    match op {
        // Out of the condition's call, and into the lock's. A waiter of a condition
        // cannot know whether others wait: it takes the lock as a contended one.
        Op::CondWait { lock, .. } => {
            leave(sim, 0);
            Some(begin(sim, task, Op::Lock(lock)))
        }
        // The mutex was handed over.
        Op::Lock(lock) if sim.exec.scenario.lock_kind(lock) == LockKind::FutexPi => leave(sim, 0),
        op => enter(sim, cpu, task, op),
    }
}

fn take_contended<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, lock: LockId) -> Option<Step> {
    let taken = sim.exec.objects.mutexes[lock.index()].take_contended(task);
    write_word(sim, lock);
    if taken { leave(sim, 0) } else { block(sim, cpu, task, Op::Lock(lock)) }
}

fn wait_on_cond<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, cond, lock): (Op, CondId, LockId),
) -> Option<Step> {
    let contended = sim.exec.objects.mutexes[lock.index()].release();
    write_word(sim, lock);
    if contended {
        wake_waiters(sim, 1, |objects| objects.mutexes[lock.index()].pop_waiter());
    }
    sim.exec.objects.conds[cond.index()].wait(task);
    block(sim, cpu, task, op)
}

/// `FUTEX_LOCK_PI`: the holder runs with the priority of its best waiter.
fn take_inheriting<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, lock: LockId) -> Option<Step> {
    let mutex = &mut sim.exec.objects.pi_mutexes[lock.index()];
    let taken = mutex.try_take(task);
    if !taken {
        mutex.wait(task);
    }
    let owner = mutex.owner();
    write_word(sim, lock);
    if taken {
        return leave(sim, 0);
    }
    let step = block(sim, cpu, task, Op::Lock(lock));
    if let Some(owner) = owner {
        inherit(sim, owner);
    }
    step
}

/// `FUTEX_UNLOCK_PI`: the best waiter has the mutex when it wakes.
fn hand_over<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, lock: LockId) -> Option<Step> {
    let mut mutexes = std::mem::take(&mut sim.exec.objects.pi_mutexes);
    // Time-sharing waiters are equal to each other (`__waiter_prio()` of rt_mutex).
    let rank = |task: TaskId| sim.k.get_task(task).map_or(i32::MAX, |task| task.prio().min(100));
    let next = mutexes[lock.index()].hand_over(rank);
    sim.exec.objects.pi_mutexes = mutexes;
    write_word(sim, lock);
    inherit(sim, task);
    if let Some(next) = next {
        inherit(sim, next);
        sim.wake(next, PLAIN);
    }
    leave(sim, 0)
}

/// Gives the holder of mutexes the real-time priority of the best of all their waiters.
/// That of time-sharing waiters makes no difference: neither class looks at it. A chain
/// of holders that wait for each other is not followed.
fn inherit<S: SchedExt>(sim: &mut Sim<S>, holder: TaskId) {
    if sim.k.get_task(holder).is_none() {
        return;
    }
    let held = sim.exec.objects.pi_mutexes.iter().filter(|mutex| mutex.owner() == Some(holder));
    let waiters = held.flat_map(|mutex| mutex.waiters()).filter_map(|task| sim.k.get_task(task));
    let (mut best, mut lends_deadline) = (0, None);
    for waiter in waiters {
        best = best.max(waiter.rt_priority());
        lends_deadline = lends_deadline.or(waiter.policy.reservation().map(|_| waiter.id));
    }
    if let Some(waiter) = lends_deadline {
        let name = sim.k.task(waiter).name().to_string();
        sim.k.refuse(format!(
            "task {name}: a deadline task that waits for a mutex with priority inheritance would lend its reservation, \
             which is not modelled; give the mutex no inheritance, or the task the policy fifo"
        ));
    }
    sim.boost(holder, best);
}

fn lock_file<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, lock): (Op, LockId),
) -> Option<Step> {
    let span = sim.k.machine().costs.sysv / 2;
    hold(sim, span, FILE_LOCK_LINES, |objects| &mut objects.file_locks[lock.index()].lock);
    let mut woken = Vec::new();
    let file = &mut sim.exec.objects.file_locks[lock.index()];
    let done = match op {
        Op::Unlock(_) => {
            file.release(task, &mut woken);
            true
        }
        op => file.take(task, matches!(op, Op::LockShared(_)), &mut woken),
    };
    for waiter in woken {
        sim.wake(waiter, PLAIN);
    }
    if done { leave(sim, 0) } else { block(sim, cpu, task, op) }
}

/// A task that ends gives its file locks up, as the kernel does when it closes the files.
pub(super) fn exited<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) {
    for lock in 0..sim.exec.objects.file_locks.len() {
        let mut woken = Vec::new();
        sim.exec.objects.file_locks[lock].release(task, &mut woken);
        for waiter in woken {
            sim.wake(waiter, PLAIN);
        }
    }
}
