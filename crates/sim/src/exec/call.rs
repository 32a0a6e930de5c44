//! System calls: what they cost and what they do.

use super::numbers::{SETPRIORITY, call as number};
use super::{Event, Phase, Step, burst, state};
use crate::ipc::{Moved, Objects};
use crate::lock::Timeline;
use crate::ops::SchedExt;
use crate::sim::{Sim, WakeFlags};
use crate::task::NewTask;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_workload::{ChannelId, ChannelKind, CondId, LockId, Op, ProgramId, TimerSlot};

/// A wakeup by a waker that is about to sleep (`WF_SYNC`).
const SYNC: WakeFlags = WakeFlags { sync: true, from_interrupt: false, fork: false };
const PLAIN: WakeFlags = WakeFlags { sync: false, from_interrupt: false, fork: false };

/// Enters the system call of `op`; it takes effect when its costs are paid.
pub(super) fn begin<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, op: Op) -> Step {
    let (nr, mut args) = number(&sim.exec.scenario, &op, waits(&op));
    if let Op::Set { task: Some(other), .. } = op {
        // setpriority() has its kind of id in front.
        let place = usize::from(nr == SETPRIORITY);
        args[place] = sim.k.get_task(TaskId(other.0)).map_or(0, |other| other.pid as u64);
    }
    sim.sys_enter(nr, args);
    let exec = state(sim, task);
    exec.phase = Phase::Enter(op);
    exec.moved = 0;
    burst(entry_cost(sim, &op))
}

fn waits(op: &Op) -> bool {
    matches!(op, Op::Lock(_) | Op::CondWait { .. } | Op::Barrier(_))
}

/// The part of a call's cost that nobody else waits for.
fn entry_cost<S: SchedExt>(sim: &Sim<S>, op: &Op) -> DurationNs {
    let costs = &sim.k.machine().costs;
    let own = match *op {
        Op::Send { channel, .. } | Op::Recv { channel, .. } => transfer_cost(sim, channel) / 2,
        Op::SemWait(_) | Op::SemPost { .. } => costs.sysv / 2,
        Op::Lock(_) | Op::Unlock(_) | Op::CondWait { .. } | Op::CondSignal(_) => costs.futex,
        Op::CondBroadcast(_) | Op::Barrier(_) => costs.futex,
        Op::Yield => costs.sched_yield,
        Op::Fork { .. } => costs.fork,
        Op::Exec => costs.exec,
        Op::Exit => costs.exit,
        _ => DurationNs::ZERO,
    };
    costs.syscall + own
}

/// What a transfer costs besides the system call and copying.
fn transfer_cost<S: SchedExt>(sim: &Sim<S>, channel: ChannelId) -> DurationNs {
    let costs = &sim.k.machine().costs;
    match sim.exec.objects.channels[channel.index()].kind {
        ChannelKind::Pipe => costs.pipe,
        ChannelKind::Unix | ChannelKind::Tcp => costs.socket,
    }
}

fn lines<S: SchedExt>(sim: &Sim<S>, channel: ChannelId) -> u64 {
    match sim.exec.objects.channels[channel.index()].kind {
        ChannelKind::Pipe => PIPE_LINES,
        ChannelKind::Unix => UNIX_LINES,
        ChannelKind::Tcp => TCP_LINES,
    }
}

/// Returns to user space with `ret`.
fn leave<S: SchedExt>(sim: &mut Sim<S>, op: &Op, ret: i64) -> Option<Step> {
    let (nr, _) = number(&sim.exec.scenario, op, false);
    sim.sys_exit(nr, ret);
    None
}

/// Gives the CPU away until somebody wakes the task, which goes on with `op`.
fn block<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    state(sim, task).phase = Phase::Resume(op);
    sim.block(cpu, !matches!(op, Op::Io { .. }));
    Some(Step::Blocked)
}

/// Cache lines of an object that an operation writes or reads after another CPU did,
/// its lock's included: a semaphore array and its queue; a pipe, its wait queues and
/// its buffer; a socket with its queue and a packet, for TCP the connection's timers
/// and counters too. Chosen, after the sizes of the kernel's structures.
const SEMAPHORE_LINES: u64 = 3;
const PIPE_LINES: u64 = 4;
const UNIX_LINES: u64 = 6;
const TCP_LINES: u64 = 10;

/// Holds an object's lock for `span` of the task's time: waits until it is free,
/// and pays for `lines` cache lines when another CPU used the object last.
fn hold<S: SchedExt>(
    sim: &mut Sim<S>,
    span: DurationNs,
    lines: u64,
    lock: impl FnOnce(&mut Objects) -> &mut Timeline,
) {
    let (now, event, cpu) = (sim.k.ctx().now, sim.k.event_time, sim.k.ctx().cpu);
    let costs = &sim.k.machine().costs;
    let (local, moved) = (costs.lock, costs.lock + costs.lock_transfer * lines);
    let lock = lock(&mut sim.exec.objects);
    let grant = lock.acquire(now, event, cpu);
    let end = grant.at + if grant.transfer { moved } else { local } + span;
    lock.release(end);
    sim.charge_task(end - now);
}

/// The call takes effect.
pub(super) fn enter<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    match op {
        Op::Send { channel, bytes } => send(sim, cpu, task, (op, channel, bytes)),
        Op::Recv { channel, bytes } => receive(sim, cpu, task, (op, channel, bytes)),
        Op::SemWait(sem) => {
            let span = sim.k.machine().costs.sysv / 2;
            hold(sim, span, SEMAPHORE_LINES, |objects| &mut objects.semaphores[sem.index()].lock);
            let taken = sim.exec.objects.semaphores[sem.index()].take(task);
            if taken { leave(sim, &op, 0) } else { block(sim, cpu, task, op) }
        }
        Op::SemPost { sem, units } => {
            let span = sim.k.machine().costs.sysv / 2;
            hold(sim, span, SEMAPHORE_LINES, |objects| &mut objects.semaphores[sem.index()].lock);
            sim.exec.objects.semaphores[sem.index()].add(units);
            while let Some(waiter) = sim.exec.objects.semaphores[sem.index()].grant() {
                sim.wake(waiter, PLAIN);
            }
            leave(sim, &op, 0)
        }
        Op::Lock(lock) => take_contended(sim, cpu, task, lock),
        Op::Unlock(lock) => {
            wake_waiters(sim, 1, |objects| objects.mutexes[lock.index()].pop_waiter());
            leave(sim, &op, 1)
        }
        Op::CondWait { cond, lock } => wait_on_cond(sim, cpu, task, (op, cond, lock)),
        Op::CondSignal(cond) => {
            wake_waiters(sim, 1, |objects| objects.conds[cond.index()].pop_waiter());
            leave(sim, &op, 1)
        }
        Op::CondBroadcast(cond) => {
            let waiting = sim.exec.objects.conds[cond.index()].waiting();
            wake_waiters(sim, waiting, |objects| objects.conds[cond.index()].pop_waiter());
            leave(sim, &op, waiting as i64)
        }
        Op::Barrier(barrier) => match sim.exec.objects.barriers[barrier.index()].arrive(task) {
            None => block(sim, cpu, task, op),
            Some(waiting) => {
                wake_waiters(sim, waiting, |objects| objects.barriers[barrier.index()].pop_waiter());
                leave(sim, &op, waiting as i64)
            }
        },
        Op::Sleep(span) => {
            let until = sim.k.ctx().now + span;
            sleep_until(sim, cpu, task, (op, until))
        }
        Op::TimerWait { timer, period, absolute } => {
            wait_for_timer(sim, cpu, task, (op, timer, period, absolute))
        }
        Op::Io { disk, service } => {
            let now = sim.k.ctx().now;
            let done = sim.exec.objects.disks[disk.index()].submit(now, service);
            sleep_until(sim, cpu, task, (op, done))
        }
        Op::Yield => {
            let (nr, _) = number(&sim.exec.scenario, &op, false);
            state(sim, task).phase = Phase::Leave(nr, 0);
            Some(Step::Yield)
        }
        Op::Fork { program } => fork(sim, task, &op, program),
        Op::Set { task: other, change } => {
            let whose = other.map_or(task, |other| TaskId(other.0));
            sim.set_attribute(whose, sim.exec.scenario.changes[change.index()]);
            leave(sim, &op, 0)
        }
        Op::Exec => {
            sim.exec_image(cpu);
            leave(sim, &op, 0)
        }
        Op::WaitChild => wait_for_child(sim, cpu, task, op),
        Op::Exit => Some(Step::Exit),
        op => unreachable!("{op:?} is no system call"),
    }
}

/// The task has been woken inside the call of `op`.
pub(super) fn resume<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    match op {
        Op::Send { channel, bytes } => send(sim, cpu, task, (op, channel, bytes)),
        Op::Recv { channel, bytes } => receive(sim, cpu, task, (op, channel, bytes)),
        Op::Lock(lock) => take_contended(sim, cpu, task, lock),
        // Out of the condition's call, and into the lock's.
        Op::CondWait { lock, .. } => {
            leave(sim, &op, 0);
            relock(sim, task, lock)
        }
        Op::WaitChild => wait_for_child(sim, cpu, task, op),
        op => leave(sim, &op, 0),
    }
}

/// What the C library does without a system call where it can.
pub(super) fn user_space<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, op: Op) -> Option<Step> {
    let objects = &mut sim.exec.objects;
    let needs_kernel = match op {
        Op::Lock(lock) => !objects.mutexes[lock.index()].try_take(),
        Op::Unlock(lock) => objects.mutexes[lock.index()].release(),
        Op::CondSignal(cond) | Op::CondBroadcast(cond) => objects.conds[cond.index()].waiting() > 0,
        op => unreachable!("{op:?} needs the kernel"),
    };
    Some(if needs_kernel { begin(sim, task, op) } else { burst(sim.k.machine().costs.lock) })
}

fn relock<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, lock: LockId) -> Option<Step> {
    // A waiter of a condition cannot know whether others wait: it takes the lock
    // as a contended one.
    Some(begin(sim, task, Op::Lock(lock)))
}

fn take_contended<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, lock: LockId) -> Option<Step> {
    let op = Op::Lock(lock);
    if sim.exec.objects.mutexes[lock.index()].take_contended(task) {
        leave(sim, &op, 0)
    } else {
        block(sim, cpu, task, op)
    }
}

fn wait_on_cond<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, cond, lock): (Op, CondId, LockId),
) -> Option<Step> {
    if sim.exec.objects.mutexes[lock.index()].release() {
        wake_waiters(sim, 1, |objects| objects.mutexes[lock.index()].pop_waiter());
    }
    sim.exec.objects.conds[cond.index()].wait(task);
    block(sim, cpu, task, op)
}

/// Wakes up to `count` waiters in order, as futexes do: after the operation and
/// without the sync flag.
fn wake_waiters<S: SchedExt>(sim: &mut Sim<S>, count: usize, pop: impl Fn(&mut Objects) -> Option<TaskId>) {
    for _ in 0..count {
        let Some(waiter) = pop(&mut sim.exec.objects) else { return };
        sim.wake(waiter, PLAIN);
    }
}

fn copy_cost<S: SchedExt>(sim: &Sim<S>, bytes: u32) -> DurationNs {
    DurationNs(u64::from(bytes) * sim.k.machine().costs.copy_byte_ps / 1000)
}

/// Writes what is left of the message; blocks when the channel is full.
fn send<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, channel, bytes): (Op, ChannelId, u32),
) -> Option<Step> {
    let left = bytes - state(sim, task).moved;
    let span = transfer_cost(sim, channel) / 2 + copy_cost(sim, left);
    hold(sim, span, lines(sim, channel), |objects| &mut objects.channels[channel.index()].lock);
    let moved = sim.exec.objects.channels[channel.index()].put(left);
    state(sim, task).moved += moved.bytes;
    if moved.bytes < left {
        sim.exec.objects.channels[channel.index()].wait_to_write(task);
    }
    wake_channel(sim, channel, moved);
    if moved.bytes < left { block(sim, cpu, task, op) } else { leave(sim, &op, i64::from(bytes)) }
}

/// Reads what the message still lacks; blocks when it is not all there.
fn receive<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, channel, bytes): (Op, ChannelId, u32),
) -> Option<Step> {
    let left = bytes - state(sim, task).moved;
    let span = transfer_cost(sim, channel) / 2 + copy_cost(sim, left);
    hold(sim, span, lines(sim, channel), |objects| &mut objects.channels[channel.index()].lock);
    let moved = sim.exec.objects.channels[channel.index()].take(left);
    state(sim, task).moved += moved.bytes;
    wake_channel(sim, channel, moved);
    if moved.bytes < left {
        sim.exec.objects.channels[channel.index()].wait_to_read(task);
        return block(sim, cpu, task, op);
    }
    leave(sim, &op, i64::from(bytes))
}

/// Wakes the readers and writers that a transfer calls for. Pipes and sockets use
/// synchronous wakeups, except for writers of TCP sockets. A loopback packet is
/// delivered by a soft interrupt on the sender's CPU, on top of the sender.
fn wake_channel<S: SchedExt>(sim: &mut Sim<S>, channel: ChannelId, moved: Moved) {
    let tcp = sim.exec.objects.channels[channel.index()].kind == ChannelKind::Tcp;
    let outer = sim.k.ctx.in_interrupt;
    sim.k.ctx.in_interrupt |= tcp;
    for _ in 0..moved.wake_readers {
        let Some(reader) = sim.exec.objects.channels[channel.index()].pop_reader() else { break };
        sim.wake(reader, SYNC);
    }
    for _ in 0..moved.wake_writers {
        let Some(writer) = sim.exec.objects.channels[channel.index()].pop_writer() else { break };
        sim.wake(writer, if tcp { PLAIN } else { SYNC });
    }
    sim.k.ctx.in_interrupt = outer;
}

/// Blocks until an interrupt at `until` on this CPU.
fn sleep_until<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, until): (Op, TimeNs),
) -> Option<Step> {
    let step = block(sim, cpu, task, op);
    sim.at(until, cpu, Event::Timeout(task));
    step
}

fn wait_for_timer<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, timer, period, absolute): (Op, TimerSlot, DurationNs, bool),
) -> Option<Step> {
    let (now, started) = (sim.k.ctx().now, sim.k.task(task).start_time);
    let last = &mut state(sim, task).rare().timers[timer.index()];
    let expiry = last.unwrap_or(started) + period;
    let missed = expiry <= now;
    *last = Some(if missed && !absolute { now } else { expiry });
    if missed { leave(sim, &op, 0) } else { sleep_until(sim, cpu, task, (op, expiry)) }
}

/// The child inherits nice value, policy and affinity, and gets an address space
/// of its own.
fn fork<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, op: &Op, program: ProgramId) -> Option<Step> {
    let background = state(sim, task).background;
    let exec = sim.exec.start(program, background);
    let process = sim.exec.new_process();
    let working_set_kib = sim.exec.scenario.child.working_set_kib;
    let parent = sim.k.task(task);
    let spec = NewTask {
        name: parent.name().to_string(),
        process,
        nice: parent.nice,
        policy: parent.policy,
        cpus_allowed: parent.cpus_allowed,
        working_set_kib,
        exec,
    };
    state(sim, task).children += 1;
    let child = sim.fork(Some(task), spec);
    let pid = sim.k.get_task(child).map_or(0, |child| child.pid);
    leave(sim, op, i64::from(pid))
}

fn wait_for_child<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    /// `ECHILD`.
    const NO_CHILDREN: i64 = -10;
    let exec = state(sim, task);
    if exec.children == 0 {
        return leave(sim, &op, NO_CHILDREN);
    }
    if exec.zombies == 0 {
        exec.waits_for_child = true;
        return block(sim, cpu, task, op);
    }
    exec.zombies -= 1;
    exec.children -= 1;
    leave(sim, &op, 1)
}
