//! System calls that move data: pipes, sockets, message queues, and polling them.

use super::call::{PLAIN, SYNC, begin, block, hold, leave};
use super::{Step, record, state};
use crate::ipc::{Moved, Sent};
use crate::state::kernel::Interrupt;
use crate::state::ops::SchedExt;
use crate::state::sim::{Sim, WakeFlags};
use schedlab_base::{CpuId, DurationNs, TaskId};
use schedlab_workload::{ChannelId, ChannelKind, ListenerId, Op, PollId, SpanId, Watched};

/// Cache lines of an object that an operation writes or reads after another CPU did, its lock's
/// included. They are a pipe, its wait queues and its buffer; a message queue and a message; a
/// socket with its queue and a packet. Over loopback they are the connection's timers and counters
/// too. Chosen, after the sizes of the kernel's structures.
const PIPE_LINES: u64 = 4;
const QUEUE_LINES: u64 = 4;
const UNIX_LINES: u64 = 6;
const TCP_LINES: u64 = 10;
/// Cache lines of the loopback device that a packet writes: its queue's lock, its sender's lock with the owner, its
/// reference count, its counters of packets and bytes. (Linux 2.4: `dev_queue_xmit()` and `netif_rx()` in
/// net/core/dev.c, `loopback_xmit()` in drivers/net/loopback.c.)
const DEVICE_LINES: u64 = 4;

/// What a transfer costs besides the system call and copying.
pub(super) fn cost<S: SchedExt>(sim: &Sim<S>, channel: ChannelId) -> DurationNs {
    let costs = &sim.k.machine().costs;
    match sim.exec.scenario.channels[channel.index()].kind {
        ChannelKind::Pipe => costs.pipe,
        ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp => costs.socket,
        ChannelKind::SysvQueue | ChannelKind::PosixQueue => costs.sysv,
    }
}

fn lines<S: SchedExt>(sim: &Sim<S>, channel: ChannelId) -> u64 {
    match sim.exec.scenario.channels[channel.index()].kind {
        ChannelKind::Pipe => PIPE_LINES,
        ChannelKind::SysvQueue | ChannelKind::PosixQueue => QUEUE_LINES,
        ChannelKind::Unix => UNIX_LINES,
        ChannelKind::Tcp | ChannelKind::Udp => TCP_LINES,
    }
}

fn is_queue<S: SchedExt>(sim: &Sim<S>, channel: ChannelId) -> bool {
    sim.exec.objects.queues[channel.index()].is_some()
}

/// The call takes effect.
#[inline(never)]
pub(super) fn enter<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    match op {
        Op::Send { channel, bytes } if is_queue(sim, channel) => {
            enqueue(sim, cpu, task, (op, channel, bytes))
        }
        Op::Recv { channel, bytes } if is_queue(sim, channel) => {
            dequeue(sim, cpu, task, (op, channel, bytes))
        }
        Op::Send { channel, bytes } => send(sim, cpu, task, (op, channel, bytes)),
        Op::Recv { channel, bytes } => receive(sim, cpu, task, (op, channel, bytes)),
        Op::Poll(set) => poll(sim, cpu, task, set),
        Op::Connect { listener, channel: Some(channel) } => queue_connection(sim, listener, channel),
        Op::Accept(listener) => accept(sim, cpu, task, listener),
        op => unreachable!("{op:?} moves no data"),
    }
}

/// The task has been woken inside the call. A task that waited for a message has been handed it,
/// and one that waited to send into a POSIX queue has sent.
#[inline(never)]
pub(super) fn resume<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    match op {
        Op::Recv { channel, bytes } if is_queue(sim, channel) => {
            sim.charge_task(copy_cost(sim, bytes));
            leave(sim, i64::from(bytes))
        }
        Op::Send { channel, .. }
            if sim.exec.objects.queues[channel.index()].as_ref().is_some_and(|q| q.serves_senders()) =>
        {
            leave(sim, 0)
        }
        Op::Recv { channel, .. } if sim.exec.objects.channels[channel.index()].woke_for_nothing() => {
            // unix_stream_data_wait() looks at the queue and sleeps again, inside its loop.
            sim.exec.objects.channels[channel.index()].wait_to_read(task);
            block(sim, cpu, task, op)
        }
        op => enter(sim, cpu, task, op),
    }
}

fn copy_cost<S: SchedExt>(sim: &Sim<S>, bytes: u32) -> DurationNs {
    DurationNs(u64::from(bytes) * sim.k.machine().costs.copy_byte_ps / 1000)
}

/// Holds the channel for its part of a transfer and the copy of the `bytes` that it moves.
fn hold_to_copy<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, channel: ChannelId, bytes: u32) {
    let span = cost(sim, channel) / 2 + copy_cost(sim, bytes);
    hold(sim, span, lines(sim, channel), |objects| &mut objects.channels[channel.index()].lock);
    state(sim, task).moved += bytes;
}

/// Writes what is left of the message; blocks when the channel is full.
fn send<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, channel, bytes): (Op, ChannelId, u32),
) -> Option<Step> {
    let left = bytes - state(sim, task).moved;
    let moved = sim.exec.objects.channels[channel.index()].put(left);
    hold_to_copy(sim, task, channel, moved.bytes);
    pass_device(sim, channel);
    sim.exec.objects.written[channel.index()] = sim.k.ctx().now;
    if moved.bytes < left {
        sim.exec.objects.channels[channel.index()].wait_to_write(task);
    }
    wake_channel(sim, channel, moved);
    if moved.bytes < left { block(sim, cpu, task, op) } else { leave(sim, i64::from(bytes)) }
}

/// Reads what the message still lacks; blocks when it is not all there.
fn receive<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, channel, bytes): (Op, ChannelId, u32),
) -> Option<Step> {
    let left = bytes - state(sim, task).moved;
    let moved = sim.exec.objects.channels[channel.index()].take(left);
    hold_to_copy(sim, task, channel, moved.bytes);
    if moved.bytes > 0 && sim.exec.objects.channels[channel.index()].tells_of_space() {
        wake_readers_of_sender(sim, channel);
    }
    wake_channel(sim, channel, moved);
    if moved.bytes < left {
        sim.exec.objects.channels[channel.index()].wait_to_read(task);
        return block(sim, cpu, task, op);
    }
    leave(sim, i64::from(bytes))
}

/// A packet that was read is freed, and `unix_write_space()` wakes all that sleep on the sender's socket (`net/unix/af_unix.c`, Linux
/// 7.3). Tasks that wait there to read are among them: `unix_stream_data_wait()` does not look at the key of a wakeup. Pollers and
/// the waits of TCP and UDP do.
fn wake_readers_of_sender<S: SchedExt>(sim: &mut Sim<S>, channel: ChannelId) {
    let Some(back) = sim.exec.scenario.channels[channel.index()].peer else { return };
    for _ in 0..sim.exec.objects.channels[back.index()].waiting_readers() {
        let Some(reader) = sim.exec.objects.channels[back.index()].pop_reader() else { break };
        sim.wake(reader, SYNC);
    }
}

/// Wakes the readers and writers that a transfer calls for. Pipes and sockets use
/// synchronous wakeups, except for writers of TCP sockets. A loopback packet is
/// delivered by a soft interrupt on the sender's CPU, on top of the sender.
fn wake_channel<S: SchedExt>(sim: &mut Sim<S>, channel: ChannelId, moved: Moved) {
    let kind = sim.exec.objects.channels[channel.index()].kind;
    if matches!(kind, ChannelKind::Tcp | ChannelKind::Udp) {
        in_soft_interrupt(sim, |sim| wake_ends(sim, channel, moved));
    } else {
        wake_ends(sim, channel, moved);
    }
}

/// A packet over loopback passes the device, which has one lock for all CPUs in kernels that price it.
fn pass_device<S: SchedExt>(sim: &mut Sim<S>, channel: ChannelId) {
    let span = sim.k.machine().costs.loopback;
    let kind = sim.exec.objects.channels[channel.index()].kind;
    if span > DurationNs::ZERO && matches!(kind, ChannelKind::Tcp | ChannelKind::Udp) {
        hold(sim, span, DEVICE_LINES, |objects| &mut objects.loopback);
    }
}

/// What happens when a loopback packet arrives.
fn in_soft_interrupt<S: SchedExt>(sim: &mut Sim<S>, arrives: impl FnOnce(&mut Sim<S>)) {
    let outer = sim.k.ctx.interrupt;
    if outer == Interrupt::None {
        sim.k.ctx.interrupt = Interrupt::Soft;
    }
    arrives(sim);
    sim.k.ctx.interrupt = outer;
}

fn wake_ends<S: SchedExt>(sim: &mut Sim<S>, channel: ChannelId, moved: Moved) {
    let tcp = sim.exec.objects.channels[channel.index()].kind == ChannelKind::Tcp;
    debug_assert!(
        moved.wake_readers <= sim.exec.objects.channels[channel.index()].waiting_readers(),
        "those that are woken wait"
    );
    if moved.announced {
        // Pollers stand at the head of the wait queue.
        wake_pollers(sim, Watched::Channel(channel), SYNC);
    }
    for _ in 0..moved.wake_readers {
        let Some(reader) = sim.exec.objects.channels[channel.index()].pop_reader() else { break };
        sim.wake(reader, SYNC);
    }
    for _ in 0..moved.wake_writers {
        let Some(writer) = sim.exec.objects.channels[channel.index()].pop_writer() else { break };
        sim.wake(writer, if tcp { PLAIN } else { SYNC });
    }
}

/// The direction in which a task sends of the connection that it read from last.
pub(super) fn connection<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> Option<ChannelId> {
    let from = state(sim, task).rare().answered?;
    sim.exec.scenario.channels[from.index()].peer
}

/// Opens a connection, that which was read from last without `channel`; nothing without one.
#[inline(never)]
pub(super) fn connect<S: SchedExt>(
    sim: &mut Sim<S>,
    task: TaskId,
    listener: ListenerId,
    channel: Option<ChannelId>,
) -> Option<Step> {
    let channel = match channel {
        Some(channel) => channel,
        None => connection(sim, task)?,
    };
    sim.exec.objects.opened[channel.index()] = sim.k.ctx().now;
    Some(begin(sim, task, Op::Connect { listener, channel: Some(channel) }))
}

/// The handshake is done when the call of the connecting task is.
fn queue_connection<S: SchedExt>(sim: &mut Sim<S>, listener: ListenerId, channel: ChannelId) -> Option<Step> {
    let span = sim.k.machine().costs.socket / 2;
    hold(sim, span, TCP_LINES, |objects| &mut objects.listeners[listener.index()].lock);
    let waiter = sim.exec.objects.listeners[listener.index()].connect(channel);
    match waiter {
        Some(waiter) if sim.exec.scenario.channels[channel.index()].kind == ChannelKind::Tcp => {
            in_soft_interrupt(sim, |sim| {
                sim.wake(waiter, SYNC);
            });
        }
        Some(waiter) => {
            sim.wake(waiter, SYNC);
        }
        None => {}
    }
    leave(sim, 0)
}

/// Takes a connection; a task that was woken for one that another has taken waits again.
fn accept<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, listener: ListenerId) -> Option<Step> {
    let span = sim.k.machine().costs.socket / 2;
    hold(sim, span, TCP_LINES, |objects| &mut objects.listeners[listener.index()].lock);
    let Some(channel) = sim.exec.objects.listeners[listener.index()].accept(task) else {
        return block(sim, cpu, task, Op::Accept(listener));
    };
    let rare = state(sim, task).rare();
    (rare.ready, rare.answered) = (Some(Watched::Channel(channel)), Some(channel));
    leave(sim, i64::from(sim.k.descriptors.channel(channel, false)))
}

/// Ends a connection's life, as the task that opened it sees it; nothing without one.
#[inline(never)]
pub(super) fn close<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, span: SpanId) -> Option<Step> {
    let channel = connection(sim, task)?;
    let opened = sim.exec.objects.opened[channel.index()];
    record(sim, span, opened);
    Some(begin(sim, task, Op::Close(span)))
}

/// Wakes the tasks that poll the object, which can be read now.
pub(super) fn wake_pollers<S: SchedExt>(sim: &mut Sim<S>, watched: Watched, flags: WakeFlags) {
    for set in 0..sim.exec.objects.polls.len() {
        if !sim.exec.objects.polls[set].watched.contains(&watched) {
            continue;
        }
        for _ in 0..sim.exec.objects.polls[set].to_wake() {
            let Some(poller) = sim.exec.objects.polls[set].pop_waiter() else { break };
            sim.wake(poller, flags);
        }
    }
}

/// The order in which waiters of a message queue are served: by `task->prio`.
fn rank<S: SchedExt>(sim: &Sim<S>) -> impl Fn(TaskId) -> i32 + '_ {
    |task| sim.k.get_task(task).map_or(i32::MAX, crate::state::task::Task::prio)
}

/// Holds the queue for its part of a transfer and the copy of the `bytes` that it moves.
fn hold_queue<S: SchedExt>(sim: &mut Sim<S>, channel: ChannelId, bytes: u32) {
    let span = cost(sim, channel) / 2 + copy_cost(sim, bytes);
    let at = channel.index();
    hold(sim, span, QUEUE_LINES, |objects| &mut objects.queues[at].as_mut().expect("it is a queue").lock);
}

/// Sends a message into a queue; blocks when it is full.
fn enqueue<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, channel, bytes): (Op, ChannelId, u32),
) -> Option<Step> {
    let at = channel.index();
    // A message that found the queue full is in the kernel already (`load_msg()`).
    let left = bytes - std::mem::replace(&mut state(sim, task).moved, bytes);
    hold_queue(sim, channel, left);
    let mut queue = sim.exec.objects.queues[at].take().expect("it is a queue");
    let sent = queue.send(task, rank(sim));
    sim.exec.objects.written[at] = sim.k.ctx().now;
    sim.exec.objects.queues[at] = Some(queue);
    match sent {
        Sent::Full => return block(sim, cpu, task, op),
        Sent::Handed(receiver) => {
            sim.wake(receiver, PLAIN);
        }
        Sent::Queued => wake_pollers(sim, Watched::Channel(channel), PLAIN),
    }
    leave(sim, 0)
}

/// Receives a message from a queue; blocks when there is none.
fn dequeue<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, channel, bytes): (Op, ChannelId, u32),
) -> Option<Step> {
    let at = channel.index();
    let received = sim.exec.objects.queues[at].as_mut().expect("it is a queue").receive(task);
    hold_queue(sim, channel, if received { bytes } else { 0 });
    let mut queue = sim.exec.objects.queues[at].take().expect("it is a queue");
    let mut senders = Vec::new();
    while let Some(sender) = received.then(|| queue.next_sender(rank(sim))).flatten() {
        senders.push(sender);
    }
    sim.exec.objects.queues[at] = Some(queue);
    if !received {
        return block(sim, cpu, task, op);
    }
    for sender in senders {
        sim.wake(sender, PLAIN);
    }
    leave(sim, i64::from(bytes))
}

/// Looks for something to read; blocks when there is nothing.
fn poll<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, set: PollId) -> Option<Step> {
    let mut polled = std::mem::take(&mut sim.exec.objects.polls);
    let found = polled[set.index()].choose(|watched| sim.exec.objects.is_readable(watched));
    sim.exec.objects.polls = polled;
    let Some((ready, count)) = found else {
        sim.exec.objects.polls[set.index()].wait(task);
        return block(sim, cpu, task, Op::Poll(set));
    };
    state(sim, task).rare().ready = Some(ready);
    let epoll = sim.exec.scenario.polls[set.index()].kind == schedlab_workload::PollKind::Epoll;
    // epoll_wait() has room for one.
    leave(sim, if epoll { 1 } else { count as i64 })
}
