//! One task: walks its program and makes the system calls that the operations stand for.

use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use schedlab_base::Policy;
use std::os::fd::OwnedFd;

use schedlab_workload::{
    Attribute, ChannelId, ChannelKind, Cursor, LockId, LockKind, MAX_TIMERS, Op, PollId, Program, SemId,
    SemKind, TaskRef, TaskSpec, TimerSlot, Watched, WordId,
};

use super::doing::{Doing, Failure, of_policy};
use super::figures::KernelFigures;
use super::groups::GroupFiles;
use super::handles::Handles;
use super::hotplug;
use super::identity;
use super::locks::{self, FileLock};
use super::queues::{self, HEADER};
use super::resume;
use super::shared::{Shared, UNKNOWN};
use super::spin::SpinRate;
use super::system::{self, Scope, exit_now, now_ns};
use super::walk::Walk;

/// What all tasks of a run have in common.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) shared: &'a Shared,
    pub(super) programs: &'a [Program],
    pub(super) handles: &'a Handles,
    /// What [`Op::Set`] makes of tasks.
    pub(super) changes: &'a [Attribute],
    pub(super) groups: &'a GroupFiles,
    pub(super) spans: usize,
    pub(super) rate: SpinRate,
}

/// A task's own state.
pub(super) struct RunningTask<'a> {
    pub(super) context: Context<'a>,
    /// Index of its figures; the number of tasks for a forked one.
    pub(super) slot: usize,
    pub(super) program: usize,
    /// Whether the run may end without it.
    pub(super) background: bool,
    pub(super) cursor: Cursor,
    /// Begin of each open span, else 0.
    pub(super) open: Vec<u64>,
    /// Last expiry of each periodic timer, its start at first; monotonic, ns.
    pub(super) timers: [u64; MAX_TIMERS],
    /// Values of shared integers remembered.
    pub(super) noted: Vec<(WordId, u32)>,
    /// What the last poll found, and the channel that was read from since.
    pub(super) ready: Option<Watched>,
    pub(super) answered: Option<ChannelId>,
    /// Locked files, opened by this task when it first uses them.
    files: Vec<Option<OwnedFd>>,
    /// Room for the longest message, after a queue's header.
    message: Vec<u8>,
    /// What `touch` walks, mapped at its first use: of this task alone, and without pages before they are written. It is as long
    /// as the longest walk.
    walk: Walk,
}

impl<'a> RunningTask<'a> {
    /// A task at the beginning of a program.
    pub(super) fn new(context: Context<'a>, slot: usize, program: usize) -> RunningTask<'a> {
        let (mut message, mut longest_walk) = (0, 0);
        for op in context.programs[program].ops() {
            match *op {
                Op::Send { bytes, .. }
                | Op::Recv { bytes, .. }
                | Op::RecvReady { bytes }
                | Op::Answer { bytes } => message = message.max(bytes as usize),
                Op::Touch { kib } => longest_walk = longest_walk.max(kib as usize * 1024),
                _ => {}
            }
        }
        let mut message = vec![0x5a; HEADER + message];
        message[..HEADER].copy_from_slice(&queues::TYPE.to_ne_bytes());
        RunningTask {
            context,
            slot,
            program,
            background: false,
            cursor: Cursor::start(),
            open: vec![0; context.spans],
            timers: [now_ns(); MAX_TIMERS],
            noted: Vec::new(),
            ready: None,
            answered: None,
            files: context.handles.locks.iter().map(|_| None).collect(),
            message,
            walk: Walk::new(longest_walk),
        }
    }

    /// Takes the properties that the scenario gives, then waits for the start.
    pub(super) fn wait_at_gate(&mut self, spec: &TaskSpec, reset_on_fork: bool) -> Result<(), Failure> {
        system::set_name(&spec.name);
        if spec.group.is_some() {
            let entered = self.context.groups.enter(self.context.shared, 0, spec.group);
            entered.map_err(|error| Failure(Doing::Groups, error))?;
        }
        if let Some(mask) = &spec.affinity {
            system::set_affinity(0, mask).map_err(|e| Failure(Doing::Affinity, e))?;
        }
        system::set_nice(0, spec.nice.get()).map_err(|e| Failure(Doing::Policy, e))?;
        if reset_on_fork {
            system::set_own_policy(spec.policy).map_err(|e| Failure(of_policy(spec.policy), e))?;
        } else if spec.policy != Policy::Other {
            system::set_policy(0, spec.policy).map_err(|e| Failure(of_policy(spec.policy), e))?;
        }
        if let Some(slice) = spec.slice {
            system::set_own_slice(slice).map_err(|e| Failure(Doing::Policy, e))?;
        }
        identity::become_user(spec.identity.uid, spec.identity.gid)
            .map_err(|e| Failure(Doing::Identity, e))?;
        let header = self.context.shared.header();
        let slot = self.context.shared.slot(self.slot);
        slot.tid.store(system::thread_id(), Relaxed);
        slot.pid.store(std::process::id(), Relaxed);
        let settle = || {
            slot.before_kernel_ns.store(system::thread_kernel_ns(), Relaxed);
            slot.before_ns.store(system::thread_cpu_ns(), Relaxed);
        };
        // Once more behind the gate: the way to it takes milliseconds under emulation. A task may never get there.
        settle();
        header.ready.fetch_add(1, Release);
        system::futex_wake(&header.ready, 1);
        while header.go.load(Acquire) == 0 {
            system::futex_wait(&header.go, 0);
        }
        settle();
        self.timers = [header.begin.load(Relaxed); MAX_TIMERS];
        Ok(())
    }

    /// Runs to the end of the program.
    pub(super) fn run(&mut self) -> Result<(), Failure> {
        let programs = self.context.programs;
        loop {
            let op = self.cursor.next(&programs[self.program]);
            if op == Op::Exit {
                return Ok(());
            }
            self.step(op)?;
        }
    }

    fn step(&mut self, op: Op) -> Result<(), Failure> {
        let shared = self.context.shared;
        match op {
            Op::Run(span) => self.context.rate.run(span.0),
            Op::RunFor(span) => self.context.rate.run_for(span.0),
            Op::RunKernel(span) => run_in_kernel(span.0),
            Op::Touch { kib } => self.walk.touch(kib as usize * 1024)?,
            Op::Sleep(span) => system::sleep_until(now_ns() + span.0),
            Op::Io { disk, service } => self.wait_for_disk(disk.index(), service.0, false),
            Op::Fsync { disk, service } => self.wait_for_disk(disk.index(), service.0, true),
            Op::Connect { .. } | Op::Accept(_) | Op::Close(_) => self.use_connection(op)?,
            Op::Send { channel, bytes } => self.send(channel, bytes)?,
            Op::Recv { channel, bytes } => self.receive(channel, bytes)?,
            Op::SemWait(_) | Op::SemPost { .. } | Op::SemDrain(_) => self.use_semaphore(op)?,
            Op::Lock(lock) | Op::LockShared(lock) | Op::Unlock(lock) => self.use_lock(op, lock)?,
            Op::CondWait { .. } | Op::CondSignal(_) | Op::CondBroadcast(_) | Op::Barrier(_) => {
                self.meet(op);
            }
            Op::Poll(set) => self.poll(set)?,
            Op::RecvReady { bytes } => match self.ready {
                Some(Watched::Channel(channel)) => {
                    self.answered = Some(channel);
                    self.receive(channel, bytes)?;
                }
                Some(Watched::Semaphore(sem)) => self.use_semaphore(Op::SemWait(sem))?,
                None => {}
            },
            Op::Answer { bytes } => {
                if let Some(channel) = self.answered {
                    // The endpoint that was read from is the one that writes to its peer.
                    let ends = self.context.handles.channels[channel.index()];
                    if let Some(peer) = self.context.handles.peers[channel.index()] {
                        shared.channel(peer.index()).more.store(now_ns(), Relaxed);
                    }
                    self.write(ends.kind, ends.read, bytes)?;
                }
            }
            Op::Kill(task) => {
                let slot = shared.slot(task.index());
                let thread = self.context.handles.has_threads[task.index()].then(|| slot.tid.load(Relaxed));
                system::signal(slot.pid.load(Relaxed), thread).map_err(|e| Failure(Doing::Signal, e))?;
            }
            Op::SigWait => system::wait_for_signal(),
            Op::Store { .. } | Op::Advance(_) | Op::Await { .. } | Op::Note(_) | Op::RestartIfChanged(_) => {
                self.use_word(op);
            }
            Op::TimerWait { timer, period, absolute } => {
                self.wait_for_timer(timer, period.0, absolute);
            }
            Op::Yield => system::give_way(),
            Op::Fork { program } => self.fork(program.index())?,
            Op::Set { task, change } => self.set(task, self.context.changes[change.index()])?,
            Op::Hotplug { cpu, online } => {
                hotplug::set_online(cpu, online).map_err(|error| Failure(Doing::Hotplug, error))?;
            }
            Op::SetGroup { group, change } => self.context.groups.change(shared, group, change)?,
            Op::Exec => return Err(Failure(Doing::Exec, resume::exec(self))),
            Op::WaitChild => wait_for_child()?,
            Op::Count { .. } | Op::SpanBegin(_) | Op::SpanEnd(_) | Op::Late { .. } | Op::Age { .. } => {
                self.measure(op);
            }
            Op::Loop(_) | Op::EndLoop | Op::Exit => {}
        }
        Ok(())
    }

    /// Counters and spans.
    fn measure(&mut self, op: Op) {
        let shared = self.context.shared;
        match op {
            Op::Count { counter, units } => {
                let place = shared.counter(self.slot, counter.0 as usize);
                place.fetch_add(u64::from(units), Relaxed);
            }
            Op::SpanBegin(span) => self.open[span.0 as usize] = now_ns(),
            Op::SpanEnd(span) => {
                let begin = std::mem::take(&mut self.open[span.0 as usize]);
                if begin != 0 {
                    shared.add_span(span.0, begin, now_ns());
                }
            }
            Op::Late { timer, span } => shared.add_span(span.0, self.timers[timer.index()], now_ns()),
            Op::Age { channel, span } => {
                let written = shared.channel(channel.index()).more.load(Relaxed);
                shared.add_span(span.0, written, now_ns());
            }
            _ => {}
        }
    }

    fn wait_for_timer(&mut self, timer: TimerSlot, period_ns: u64, absolute: bool) {
        let header = self.context.shared.header();
        let next = |last: u64| {
            let (expiry, now) = (last + period_ns, now_ns());
            let kept = if now < expiry || absolute { expiry } else { now };
            (expiry, kept, now < expiry)
        };
        let (expiry, waits) = match timer.shared() {
            Some(number) => {
                let (place, begin) = (&header.timers[number], header.begin.load(Relaxed));
                let begun = |last: u64| if last == 0 { begin } else { last };
                let mut last = place.load(Relaxed);
                loop {
                    let (expiry, kept, waits) = next(begun(last));
                    match place.compare_exchange_weak(last, kept, Relaxed, Relaxed) {
                        Ok(_) => break (expiry, waits),
                        Err(other) => last = other,
                    }
                }
            }
            None => {
                let (expiry, kept, waits) = next(self.timers[timer.index()]);
                self.timers[timer.index()] = kept;
                (expiry, waits)
            }
        };
        if waits {
            system::sleep_until(expiry);
        }
    }

    /// The disk serves requests in the order in which they come, each for its service time. A log write is
    /// shared with all who come before it begins.
    fn wait_for_disk(&self, disk: usize, service_ns: u64, log: bool) {
        let word = self.context.shared.disk(disk);
        locks::lock(Scope::Run, &word.state);
        let now = now_ns();
        let log_begins = word.more.load(Relaxed);
        let done = if log && log_begins > now {
            log_begins + service_ns
        } else {
            let begin = word.extra.load(Relaxed).max(now);
            word.extra.store(begin + service_ns, Relaxed);
            if log {
                word.more.store(begin, Relaxed);
            }
            begin + service_ns
        };
        locks::unlock(Scope::Run, &word.state);
        system::sleep_until(done);
    }

    /// Connections exist from the start; what goes through the listening socket's queue is the number of one.
    fn use_connection(&mut self, op: Op) -> Result<(), Failure> {
        let (shared, handles) = (self.context.shared, self.context.handles);
        // The direction in which this task sends of the connection that it read from last.
        let own = self.answered.and_then(|from| handles.peers[from.index()]);
        match op {
            Op::Connect { listener, channel } => {
                let Some(channel) = channel.or(own) else { return Ok(()) };
                shared.channel(channel.index()).extra.store(now_ns(), Relaxed);
                let queue = handles.listeners[listener.index()].write;
                system::write_all(queue, &channel.0.to_ne_bytes()).map_err(|e| Failure(Doing::Send, e))?;
            }
            Op::Accept(listener) => {
                let mut number = [0; 4];
                system::read_all(handles.listeners[listener.index()].read, &mut number)
                    .map_err(|e| Failure(Doing::Receive, e))?;
                let channel = ChannelId(u32::from_ne_bytes(number));
                (self.ready, self.answered) = (Some(Watched::Channel(channel)), Some(channel));
            }
            Op::Close(span) => {
                let Some(channel) = own else { return Ok(()) };
                let opened = shared.channel(channel.index()).extra.load(Relaxed);
                shared.add_span(span.0, opened, now_ns());
            }
            _ => {}
        }
        Ok(())
    }

    fn send(&self, channel: ChannelId, bytes: u32) -> Result<(), Failure> {
        self.context.shared.channel(channel.index()).more.store(now_ns(), Relaxed);
        let ends = self.context.handles.channels[channel.index()];
        self.write(ends.kind, ends.write, bytes)
    }

    fn write(&self, kind: ChannelKind, to: i32, bytes: u32) -> Result<(), Failure> {
        let (whole, text) =
            (&self.message[..HEADER + bytes as usize], &self.message[HEADER..HEADER + bytes as usize]);
        let done = match kind {
            ChannelKind::Pipe => system::write_all(to, text),
            ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp => system::send_all(to, text),
            ChannelKind::SysvQueue => queues::send_sysv(to, whole),
            ChannelKind::PosixQueue => queues::send_posix(to, text),
        };
        done.map_err(|e| Failure(Doing::Send, e))
    }

    fn receive(&mut self, channel: ChannelId, bytes: u32) -> Result<(), Failure> {
        let ends = self.context.handles.channels[channel.index()];
        let whole = &mut self.message[..HEADER + bytes as usize];
        let done = match ends.kind {
            ChannelKind::SysvQueue => queues::receive_sysv(ends.read, whole),
            ChannelKind::PosixQueue => queues::receive_posix(ends.read, &mut whole[HEADER..]),
            ChannelKind::Pipe => system::read_all(ends.read, &mut whole[HEADER..]),
            ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp => {
                system::receive_all(ends.read, &mut whole[HEADER..])
            }
        };
        done.map_err(|e| Failure(Doing::Receive, e))
    }

    fn poll(&mut self, set: PollId) -> Result<(), Failure> {
        let handles = self.context.handles;
        let set = &handles.polls[set.index()];
        let found = queues::poll(handles, set).map_err(|e| Failure(Doing::Poll, e))?;
        self.ready = set.watched.get(found).copied();
        Ok(())
    }

    fn use_semaphore(&self, op: Op) -> Result<(), Failure> {
        let handle = |sem: SemId| self.context.handles.semaphores[sem.index()];
        let done = match op {
            Op::SemWait(sem) if handle(sem).kind == SemKind::EventFd => {
                system::read_all(handle(sem).id, &mut [0; 8])
            }
            Op::SemPost { sem, units } if handle(sem).kind == SemKind::EventFd => {
                system::write_all(handle(sem).id, &u64::from(units).to_ne_bytes())
            }
            Op::SemWait(sem) => system::semop(handle(sem).id, -1),
            Op::SemPost { sem, units } => {
                parts(units).try_for_each(|part| system::semop(handle(sem).id, part))
            }
            Op::SemDrain(sem) => system::drain(handle(sem).id),
            _ => Ok(()),
        };
        done.map_err(|e| Failure(Doing::Semaphore, e))
    }

    fn use_lock(&mut self, op: Op, lock: LockId) -> Result<(), Failure> {
        let handle = self.context.handles.locks[lock.index()];
        let (word, scope) = (&self.context.shared.lock(lock.index()).state, Scope::of(handle.private));
        let fail = |e| Failure(Doing::Lock, e);
        let release = matches!(op, Op::Unlock(_));
        match handle.kind {
            LockKind::Futex if release => locks::unlock(scope, word),
            LockKind::Futex => locks::lock(scope, word),
            LockKind::FutexPi if release => locks::unlock_inheriting(scope, word).map_err(fail)?,
            LockKind::FutexPi => locks::lock_inheriting(scope, word).map_err(fail)?,
            LockKind::Flock | LockKind::Fcntl => {
                let what = match op {
                    Op::Lock(_) => FileLock::Exclusive,
                    Op::LockShared(_) => FileLock::Shared,
                    _ => FileLock::Released,
                };
                let place = &mut self.files[lock.index()];
                let file = match place {
                    Some(file) => file,
                    None => place.insert(locks::reopen(handle.file).map_err(fail)?),
                };
                locks::lock_file(handle.kind, file, what).map_err(fail)?;
            }
        }
        Ok(())
    }

    /// Condition variables and barriers.
    fn meet(&self, op: Op) {
        let (shared, handles) = (self.context.shared, self.context.handles);
        match op {
            Op::CondWait { cond, lock } => {
                let scope = Scope::of(handles.locks[lock.index()].private);
                let (word, mutex) = (shared.cond(cond.index()), &shared.lock(lock.index()).state);
                let ticket = locks::cond_enter(&word.extra);
                locks::unlock(scope, mutex);
                locks::cond_wait(Scope::of(handles.conds[cond.index()]), &word.state, ticket);
                locks::lock(scope, mutex);
            }
            Op::CondSignal(cond) | Op::CondBroadcast(cond) => {
                let (word, scope) = (shared.cond(cond.index()), Scope::of(handles.conds[cond.index()]));
                locks::cond_serve(scope, &word.state, &word.extra, matches!(op, Op::CondBroadcast(_)));
            }
            Op::Barrier(barrier) => {
                let (word, handle) = (shared.barrier(barrier.index()), handles.barriers[barrier.index()]);
                locks::barrier(Scope::of(handle.private), &word.state, &word.extra, handle.parties);
            }
            _ => {}
        }
    }

    fn use_word(&mut self, op: Op) {
        let word = |word: WordId| self.context.shared.word(word.index());
        match op {
            Op::Store { word: id, value } => word(id).store(value, Release),
            Op::Advance(id) => drop(word(id).fetch_add(1, AcqRel)),
            Op::Await { word: id, value, step } => {
                while word(id).load(Acquire) != value {
                    system::sleep_until(now_ns() + step.0);
                }
            }
            Op::Note(id) => {
                let value = word(id).load(Acquire);
                self.noted.retain(|entry| entry.0 != id);
                self.noted.push((id, value));
            }
            Op::RestartIfChanged(id) => {
                let noted = self.noted.iter().find(|entry| entry.0 == id).map_or(0, |entry| entry.1);
                if word(id).load(Acquire) != noted {
                    self.cursor.restart(&self.context.programs[self.program]);
                }
            }
            _ => {}
        }
    }

    /// Changes an attribute of a task; one that has ended keeps what it had.
    fn set(&self, task: Option<TaskRef>, attribute: Attribute) -> Result<(), Failure> {
        let slot = task.map(|task| self.context.shared.slot(task.index()));
        if slot.is_some_and(|slot| slot.ended.load(Acquire) != 0) {
            return Ok(());
        }
        let tid = slot.map_or(0, |slot| slot.tid.load(Relaxed));
        let (doing, done) = match attribute {
            Attribute::Nice(nice) => (Doing::Policy, system::set_nice(tid, nice.get())),
            Attribute::Policy(policy) => (of_policy(policy), system::set_policy(tid, policy)),
            Attribute::Affinity(mask) => (Doing::Affinity, system::set_affinity(tid, &mask)),
            Attribute::Group(group) => {
                (Doing::Groups, self.context.groups.enter(self.context.shared, tid, group))
            }
        };
        match done {
            // It has ended meanwhile, or the machine lacks these CPUs.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL)) => Ok(()),
            done => done.map_err(|error| Failure(doing, error)),
        }
    }

    fn fork(&self, program: usize) -> Result<(), Failure> {
        // SAFETY: the child uses only what this task could use, and never returns from here.
        match unsafe { libc::fork() } {
            -1 => Err(Failure(Doing::Fork, io::Error::last_os_error())),
            0 => {
                let slot = self.context.shared.counts().tasks;
                let mut child = RunningTask::new(self.context, slot, program);
                child.background = self.background;
                let code = child.run_and_record();
                exit_now(code)
            }
            _ => Ok(()),
        }
    }

    /// Runs to the end, leaves figures or the failure in shared memory; the exit code.
    pub(super) fn run_and_record(&mut self) -> i32 {
        match self.run() {
            Ok(()) => {
                self.record();
                self.context.groups.leave(self.context.shared);
                0
            }
            Err(failure) => {
                self.fail(&failure);
                1
            }
        }
    }

    pub(super) fn fail(&self, failure: &Failure) {
        let errno = failure.1.raw_os_error().unwrap_or(0);
        self.context.shared.fail(self.slot, failure.0 as u32, errno);
        // The leader hears of the end of its own children alone.
        // SAFETY: plain system call; the leader lives until its tasks are gone.
        unsafe {
            libc::kill(self.context.shared.header().leader.load(Relaxed).cast_signed(), libc::SIGUSR1);
        }
    }

    /// Leaves this thread's figures in its slot; forked tasks add up in theirs.
    fn record(&self) {
        let shared = self.context.shared;
        let slot = shared.slot(self.slot);
        let (voluntary, involuntary) = system::thread_switches();
        // Forked tasks have no gate, and nothing before it.
        let used = system::thread_cpu_ns().saturating_sub(slot.before_ns.load(Relaxed));
        let in_kernel = system::thread_kernel_ns().saturating_sub(slot.before_kernel_ns.load(Relaxed));
        if !self.background {
            shared.header().user_ns.fetch_add(used.saturating_sub(in_kernel), Relaxed);
            shared.header().system_ns.fetch_add(in_kernel.min(used), Relaxed);
        }
        slot.cpu_ns.fetch_add(used, Relaxed);
        slot.voluntary.fetch_add(voluntary, Relaxed);
        slot.involuntary.fetch_add(involuntary, Relaxed);
        if self.slot == shared.counts().tasks {
            shared.header().forked.fetch_add(1, Relaxed);
            return;
        }
        let figures = KernelFigures::read("/proc/thread-self");
        slot.delay_ns.store(figures.delay_ns.unwrap_or(UNKNOWN), Relaxed);
        slot.migrations.store(figures.migrations.unwrap_or(UNKNOWN), Relaxed);
        slot.ended.store(1, Release);
        if !self.background && shared.header().foreground.fetch_sub(1, AcqRel) == 1 {
            // The last one that the leader may be waiting for.
            // SAFETY: plain system call; the leader lives until its tasks are gone.
            unsafe { libc::kill(shared.header().leader.load(Relaxed).cast_signed(), libc::SIGUSR1) };
        }
    }
}

/// Uses that much CPU time in the kernel: asks it for the time used, which it has to compute.
fn run_in_kernel(span_ns: u64) {
    let end = system::thread_cpu_ns() + span_ns;
    while system::thread_cpu_ns() < end {}
}

/// One change of a semaphore is at most its largest value, 32767.
fn parts(units: u32) -> impl Iterator<Item = i16> {
    let mut left = units;
    std::iter::from_fn(move || {
        let part = left.min(32767);
        left -= part;
        (part > 0).then_some(part as i16)
    })
}

/// Waits for one child of this thread; without children there is nothing to wait for.
fn wait_for_child() -> Result<(), Failure> {
    // SAFETY: the status is not asked for.
    let done =
        system::retry(|| unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::__WNOTHREAD) } as isize);
    match done {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(()),
        Err(error) => Err(Failure(Doing::Wait, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_posts_are_split() {
        assert_eq!(parts(70_000).map(i64::from).sum::<i64>(), 70_000);
        assert_eq!(parts(0).count(), 0);
    }
}
