//! System calls: what they cost and what they do. Those that move data are in
//! [`super::transfer`], those on locks in [`super::locks`].

use super::numbers::{SETPRIORITY, through};
use super::{Phase, Step, burst, locks, pages, sleepers, state, transfer};
use crate::event::lock::Timeline;
use crate::flags::PF_KTHREAD;
use crate::ipc::Objects;
use crate::state::group::GroupIx;
use crate::state::ops::SchedExt;
use crate::state::sim::{Sim, WakeFlags};
use crate::state::task::NewTask;
use schedlab_base::{CpuId, DurationNs, Nice, Policy, TaskId, TimeNs};
use schedlab_trace::EventKind;
use schedlab_workload::{
    Attribute, ChannelKind, LockKind, Op, PollKind, ProgramId, SemKind, TaskRef, TimerSlot,
};

/// A wakeup by a waker that is about to sleep (`WF_SYNC`).
pub(super) const SYNC: WakeFlags = WakeFlags { sync: true, from_interrupt: false, fork: false };
pub(super) const PLAIN: WakeFlags = WakeFlags { sync: false, from_interrupt: false, fork: false };

/// Cache lines of a semaphore array and its queue that an operation writes or reads
/// after another CPU did. Chosen, after the sizes of the kernel's structures.
const SEMAPHORE_LINES: u64 = 3;

/// Error numbers that calls return.
mod errno {
    pub(super) const ESRCH: i64 = -3;
    pub(super) const EINTR: i64 = -4;
    pub(super) const ECHILD: i64 = -10;
    pub(super) const EAGAIN: i64 = -11;
}

/// Enters the system call of `op`; it takes effect when its costs are paid.
pub(super) fn begin<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, op: Op) -> Step {
    let now = sim.k.ctx.now;
    let entry = sim.k.task_mut(task);
    let used = entry.cpu_time(now);
    debug_assert!(used >= entry.exec.entered, "CPU time does not go back");
    entry.exec.enter_kernel(used, op);
    if sim.k.scx.shows_calls || sim.k.wait_events {
        show(sim, task, op);
    }
    burst(entry_cost(sim, &op))
}

/// Tells programs and sinks of the call that the task enters.
#[inline(never)]
fn show<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, op: Op) {
    let (mut nr, mut args) = sim.exec.calls.call(&op, waits(&op));
    if let Op::Set { task: Some(other), change } = op
        && !matches!(sim.exec.scenario.changes[change.index()], Attribute::Group(_))
    {
        // setpriority() has its kind of id in front.
        let place = usize::from(nr == SETPRIORITY);
        args[place] = sim.k.get_task(TaskId(other.0)).map_or(0, |other| other.pid as u64);
    }
    let entry = sim.k.task(task);
    if op == Op::Exit && entry.pid != entry.tgid {
        // A thread ends alone.
        nr = 60;
    }
    if sim.k.wait_events {
        let (cpu, call) = (sim.k.ctx().cpu, through(&sim.exec.scenario, &op));
        sim.k.tell_sinks(cpu, EventKind::Call { task, call });
    }
    sim.sys_enter(nr, args);
}

fn waits(op: &Op) -> bool {
    matches!(op, Op::Lock(_) | Op::CondWait { .. } | Op::Barrier(_))
}

/// The part of a call's cost that no other task waits for.
fn entry_cost<S: SchedExt>(sim: &Sim<S>, op: &Op) -> DurationNs {
    let costs = &sim.k.machine().costs;
    let scenario = &sim.exec.scenario;
    let own = match *op {
        Op::Send { channel, .. } | Op::Recv { channel, .. } => transfer::cost(sim, channel) / 2,
        Op::SemWait(sem) | Op::SemPost { sem, .. } | Op::SemDrain(sem) => {
            match scenario.semaphores[sem.index()].kind {
                SemKind::Sysv => costs.sysv / 2,
                SemKind::EventFd => costs.pipe / 2,
            }
        }
        Op::Lock(lock) | Op::LockShared(lock) | Op::Unlock(lock) => match scenario.lock_kind(lock) {
            LockKind::Futex | LockKind::FutexPi => costs.futex,
            // Priced as a semaphore operation: a lock, a list, sometimes a wakeup. Chosen.
            LockKind::Flock | LockKind::Fcntl => costs.sysv / 2,
        },
        Op::CondWait { .. } | Op::CondSignal(_) => costs.futex,
        Op::CondBroadcast(_) | Op::Barrier(_) => costs.futex,
        // Looking at one object is half of reading it (chosen); an epoll instance has a list of
        // those that are ready.
        Op::Poll(set) => {
            let set = &scenario.polls[set.index()];
            let looked_at = if set.kind == PollKind::Epoll { 1 } else { set.watched.len() as u64 };
            costs.pipe / 2 * looked_at
        }
        // Three packets of a handshake (a Unix socket needs none), a descriptor and a socket, a packet
        // that ends the connection. Chosen.
        Op::Connect { channel: Some(channel), .. }
            if scenario.channels[channel.index()].kind != ChannelKind::Tcp =>
        {
            costs.socket / 2
        }
        Op::Connect { .. } => costs.socket * 3 / 2,
        Op::Accept(_) | Op::Close(_) => costs.socket / 2,
        Op::RunKernel(span) => span,
        Op::Kill(_) | Op::SigWait => costs.sysv,
        Op::Yield => costs.sched_yield,
        Op::Fork { .. } => costs.fork,
        Op::Exec => costs.exec,
        Op::Exit => costs.exit,
        Op::Sleep(_) | Op::Await { .. } | Op::TimerWait { .. } | Op::Io { .. } | Op::Fsync { .. } => {
            DurationNs::ZERO
        }
        Op::Set { .. } | Op::SetGroup { .. } | Op::Hotplug { .. } | Op::WaitChild => DurationNs::ZERO,
        no_calls!() => unreachable!("{op:?} is no system call"),
    };
    costs.syscall + own
}

/// Returns to user space with `ret`.
pub(super) fn leave<S: SchedExt>(sim: &mut Sim<S>, ret: i64) -> Option<Step> {
    if sim.k.scx.shows_calls {
        sim.sys_exit(ret);
    }
    sim.k.return_to_user();
    if let Some(current) = sim.k.ctx.current {
        let now = sim.k.ctx.now;
        let entry = sim.k.task_mut(current);
        let used = entry.cpu_time(now);
        entry.exec.leave_kernel(used);
        if entry.fair.leaves {
            let cpu = sim.k.ctx.cpu;
            sim.k.resched_curr(cpu);
        }
    }
    None
}

/// Gives the CPU away until the task is woken, which then continues with `op`.
pub(super) fn block<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    state(sim, task).phase = Phase::Resume(op);
    sim.block(cpu, !matches!(op, Op::Io { .. } | Op::Fsync { .. }));
    Some(Step::Blocked)
}

/// Holds an object's lock for `span` of the task's time. It waits until the lock is free, which the tasks that spin on
/// it make longer. It pays for `lines` cache lines when another CPU used the object last.
pub(super) fn hold<S: SchedExt>(
    sim: &mut Sim<S>,
    span: DurationNs,
    lines: u64,
    lock: impl FnOnce(&mut Objects) -> &mut Timeline,
) {
    let (now, event, cpu) = (sim.k.ctx().now, sim.k.event_time, sim.k.ctx().cpu);
    let costs = &sim.k.machine().costs;
    let (local, moved) = (costs.lock, costs.lock + costs.lock_transfer * lines);
    let lock = lock(&mut sim.exec.objects);
    debug_assert!(event <= now, "no path is behind its event");
    let grant = lock.acquire(now, event, cpu);
    let spun = if grant.at > now { costs.lock_spinner * grant.spinners } else { DurationNs::ZERO };
    let end = grant.at + spun + if grant.transfer { moved } else { local } + span;
    debug_assert!(end >= now, "a section is not over before it begins");
    lock.release(end);
    sim.charge_task(end - now);
}

/// The call takes effect.
pub(super) fn enter<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    match op {
        Op::Send { .. } | Op::Recv { .. } | Op::Poll(_) | Op::Connect { .. } | Op::Accept(_) => {
            transfer::enter(sim, cpu, task, op)
        }
        Op::RunKernel(_) | Op::Close(_) => leave(sim, 0),
        Op::SemWait(_) | Op::SemPost { .. } | Op::SemDrain(_) => semaphore(sim, cpu, task, op),
        Op::Lock(_) | Op::LockShared(_) | Op::Unlock(_) => locks::enter(sim, cpu, task, op),
        Op::CondWait { .. } | Op::CondSignal(_) | Op::CondBroadcast(_) => locks::enter(sim, cpu, task, op),
        Op::Barrier(barrier) => match sim.exec.objects.barriers[barrier.index()].arrive(task) {
            None => block(sim, cpu, task, op),
            Some(waiting) => {
                wake_waiters(sim, waiting, |objects| objects.barriers[barrier.index()].pop_waiter());
                leave(sim, waiting as i64)
            }
        },
        Op::Kill(target) => kill(sim, target),
        Op::SigWait => wait_for_signal(sim, cpu, task),
        Op::Sleep(span) | Op::Await { step: span, .. } => {
            let until = sim.k.ctx().now + span;
            sleep_by_timer(sim, cpu, task, (op, until))
        }
        Op::TimerWait { timer, period, absolute } => {
            wait_for_timer(sim, cpu, task, (op, timer, period, absolute))
        }
        Op::Io { disk, service } => {
            let now = sim.k.ctx().now;
            let done = sim.exec.objects.disks[disk.index()].submit(now, service);
            sleep_until(sim, cpu, task, (op, done))
        }
        Op::Fsync { disk, service } => {
            let now = sim.k.ctx().now;
            let done = sim.exec.objects.disks[disk.index()].sync(now, service);
            sleep_until(sim, cpu, task, (op, done))
        }
        Op::Yield => {
            state(sim, task).phase = Phase::Leave(0);
            Some(Step::Yield)
        }
        Op::Fork { program } => fork(sim, task, program),
        Op::Set { task: other, change } => {
            let whose = other.map_or(task, |other| TaskId(other.0));
            sim.set_attribute(whose, sim.exec.scenario.changes[change.index()]);
            leave(sim, 0)
        }
        Op::SetGroup { group, change } => {
            let change = sim.exec.scenario.group_changes[change.index()];
            sim.change_group(GroupIx::from(Some(group)), change);
            leave(sim, 1)
        }
        Op::Hotplug { cpu: other, online } => {
            sim.hotplug(other, online);
            leave(sim, 1)
        }
        Op::Exec => {
            pages::leave(sim, task);
            sim.exec_image(cpu);
            leave(sim, 0)
        }
        Op::WaitChild => wait_for_child(sim, cpu, task, op),
        Op::Exit => Some(Step::Exit),
        no_calls!() => unreachable!("{op:?} is no system call"),
    }
}

/// The task has been woken inside the call of `op`.
pub(super) fn resume<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    match op {
        Op::Send { .. } | Op::Recv { .. } | Op::Poll(_) | Op::Accept(_) => {
            transfer::resume(sim, cpu, task, op)
        }
        Op::Lock(_) | Op::LockShared(_) | Op::CondWait { .. } => locks::resume(sim, cpu, task, op),
        Op::SemWait(sem) if !sim.exec.objects.semaphores[sem.index()].serves_waiters() => {
            semaphore(sim, cpu, task, op)
        }
        Op::SigWait => leave(sim, errno::EINTR),
        Op::Await { .. } => {
            leave(sim, 0);
            state(sim, task).phase = Phase::Again(op);
            None
        }
        Op::WaitChild => wait_for_child(sim, cpu, task, op),
        Op::SemWait(_) | Op::Barrier(_) | Op::Connect { .. } => leave(sim, 0),
        Op::Sleep(_) | Op::TimerWait { .. } | Op::Io { .. } | Op::Fsync { .. } => leave(sim, 0),
        Op::RunKernel(_) | Op::SemPost { .. } | Op::SemDrain(_) | Op::Unlock(_) => {
            unreachable!("{op:?} does not block")
        }
        Op::Close(_) | Op::Kill(_) | Op::CondSignal(_) | Op::CondBroadcast(_) | Op::Yield => {
            unreachable!("{op:?} does not block")
        }
        Op::Fork { .. } | Op::Exec | Op::Set { .. } | Op::SetGroup { .. } | Op::Hotplug { .. } | Op::Exit => {
            unreachable!("{op:?} does not block")
        }
        no_calls!() => unreachable!("{op:?} is no system call"),
    }
}

/// Wakes up to `count` waiters in order, as futexes do: after the operation and
/// without the sync flag.
pub(super) fn wake_waiters<S: SchedExt>(
    sim: &mut Sim<S>,
    count: usize,
    pop: impl Fn(&mut Objects) -> Option<TaskId>,
) {
    for _ in 0..count {
        let Some(waiter) = pop(&mut sim.exec.objects) else { return };
        sim.wake(waiter, PLAIN);
    }
}

/// Semaphores and eventfds.
#[inline(never)]
fn semaphore<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    let (Op::SemWait(sem) | Op::SemPost { sem, .. } | Op::SemDrain(sem)) = op else {
        unreachable!("{op:?} uses no semaphore");
    };
    let sysv = sim.exec.objects.semaphores[sem.index()].serves_waiters();
    let costs = &sim.k.machine().costs;
    let span = if sysv { costs.sysv / 2 } else { costs.pipe / 2 };
    hold(sim, span, SEMAPHORE_LINES, |objects| &mut objects.semaphores[sem.index()].lock);
    // Reads and writes of an eventfd move a number of 8 bytes.
    let done = if sysv { 0 } else { 8 };
    let semaphore = &mut sim.exec.objects.semaphores[sem.index()];
    match op {
        Op::SemWait(_) => {
            let taken = semaphore.take(task);
            if taken { leave(sim, done) } else { block(sim, cpu, task, op) }
        }
        Op::SemPost { units, .. } => {
            semaphore.add(units);
            transfer::wake_pollers(sim, schedlab_workload::Watched::Semaphore(sem), PLAIN);
            // Each one once: a task that is woken now may be back before the last one is.
            let mut waiters = Vec::new();
            while let Some(waiter) = sim.exec.objects.semaphores[sem.index()].grant() {
                waiters.push(waiter);
            }
            for waiter in waiters {
                sim.wake(waiter, PLAIN);
            }
            leave(sim, done)
        }
        _ => {
            semaphore.drain();
            leave(sim, 0)
        }
    }
}

/// A signal that is pending already is not sent again.
#[inline(never)]
fn kill<S: SchedExt>(sim: &mut Sim<S>, target: TaskRef) -> Option<Step> {
    // Tasks that exist at the start have the scenario's numbers.
    let target = TaskId(target.0);
    if sim.k.get_task(target).is_none_or(|task| task.is_exiting()) {
        return leave(sim, errno::ESRCH);
    }
    let exec = state(sim, target);
    if std::mem::take(&mut exec.waits_for_signal) {
        sim.wake(target, PLAIN);
    } else {
        exec.signal_pending = true;
    }
    leave(sim, 0)
}

#[inline(never)]
fn wait_for_signal<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId) -> Option<Step> {
    let exec = state(sim, task);
    if std::mem::take(&mut exec.signal_pending) {
        return leave(sim, errno::EINTR);
    }
    exec.waits_for_signal = true;
    block(sim, cpu, task, Op::SigWait)
}

/// How much later than it asked the task is woken: real-time tasks are not kept waiting.
pub(super) fn timer_slack<S: SchedExt>(sim: &Sim<S>, task: TaskId) -> DurationNs {
    let exact = sim.k.task(task).policy.is_realtime();
    if exact { DurationNs::ZERO } else { sim.k.machine.kernel.timer_slack }
}

/// Blocks until a timer of this CPU that the task has armed for `until`.
fn sleep_by_timer<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, until): (Op, TimeNs),
) -> Option<Step> {
    if sim.k.task(task).flags & PF_KTHREAD != 0 {
        // Their timers are looked at by ticks (`schedule_timeout()`).
        let tick = sim.k.tick_after(cpu, until);
        return sleep_until(sim, cpu, task, (op, tick));
    }
    sim.charge_task(sim.k.machine.costs.timer);
    let latest = until + timer_slack(sim, task);
    if sim.k.machine.kernel.timer_slack == DurationNs::ZERO {
        return sleep_until(sim, cpu, task, (op, until));
    }
    let step = block(sim, cpu, task, op);
    sleepers::wake_between(sim, cpu, task, (until, latest));
    step
}

/// Blocks until an interrupt at `until` on this CPU.
fn sleep_until<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, until): (Op, TimeNs),
) -> Option<Step> {
    let step = block(sim, cpu, task, op);
    sim.wake_at(until, cpu, task);
    step
}

#[inline(never)]
fn wait_for_timer<S: SchedExt>(
    sim: &mut Sim<S>,
    cpu: CpuId,
    task: TaskId,
    (op, timer, period, absolute): (Op, TimerSlot, DurationNs, bool),
) -> Option<Step> {
    let (now, started) = (sim.k.ctx().now, sim.k.task(task).start_time.max(sim.k.origin));
    let last = match timer.shared() {
        Some(number) => &mut sim.exec.objects.timers[number],
        None => &mut state(sim, task).rare().timers[timer.index()],
    };
    let expiry = last.unwrap_or(started) + period;
    let missed = expiry <= now;
    *last = Some(if missed && !absolute { now } else { expiry });
    if missed { leave(sim, 0) } else { sleep_by_timer(sim, cpu, task, (op, expiry)) }
}

/// The child inherits nice value, policy (unless they are reset) and affinity, and gets
/// an address space of its own.
#[inline(never)]
fn fork<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, program: ProgramId) -> Option<Step> {
    let background = state(sim, task).background;
    let mut exec = sim.exec.start(program, background);
    if sim.k.machine().costs.fork_child > DurationNs::ZERO {
        exec.phase = Phase::Born;
    }
    let process = sim.exec.new_process();
    let child = sim.exec.scenario.child;
    let parent = sim.k.task(task);
    let reset = child.reset_on_fork;
    if parent.policy.reservation().is_some() && !reset {
        let name = parent.name().to_string();
        sim.k.refuse(format!("task {name}: fork(): EAGAIN: a deadline task has no children"));
        return leave(sim, errno::EAGAIN);
    }
    let spec = NewTask {
        name: parent.name().to_string(),
        process,
        nice: if reset { parent.nice.max(Nice::ZERO) } else { parent.nice },
        policy: if reset && parent.policy.is_realtime() { Policy::Other } else { parent.policy },
        slice: if reset { None } else { parent.fair.custom_slice },
        cpus_allowed: parent.cpus_allowed.clone(),
        user_cpus: parent.user_cpus.clone(),
        working_set_kib: child.working_set_kib,
        group: parent.group,
        kernel_thread: false,
        uid: parent.uid,
        gid: parent.gid,
        exec,
    };
    let parent = state(sim, task);
    parent.children += 1;
    if let Some(rare) = &mut parent.rare {
        rare.pages.fork();
    }
    let child = sim.fork(Some(task), spec);
    let pid = sim.k.get_task(child).map_or(0, |child| child.pid);
    leave(sim, i64::from(pid))
}

#[inline(never)]
fn wait_for_child<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, op: Op) -> Option<Step> {
    let exec = state(sim, task);
    if exec.children == 0 {
        return leave(sim, errno::ECHILD);
    }
    if exec.zombies.is_empty() {
        exec.waits_for_child = true;
        return block(sim, cpu, task, op);
    }
    let pid = exec.zombies.remove(0);
    exec.children -= 1;
    leave(sim, i64::from(pid))
}
