//! A scenario: kernel objects, programs and the tasks that run them.

use schedlab_base::{CpuId, CpuMask, DurationNs, Goal, Nice, Policy};
use std::collections::BTreeSet;
use std::fmt;

use crate::group::{GroupChange, GroupSpec, MOST_GROUPS, check_path, check_settings, check_weight};
use crate::measure::{MetricSpec, SeriesSpec, Spans};
use crate::program::{
    Amount, ChannelId, GroupChangeId, GroupId, LockId, MAX_SHARED_TIMERS, Op, Program, ProgramId, SemId,
};

/// Most tasks that a workload starts with. Chosen: a million, which leaves room for the kernel's own below
/// [`schedlab_base::MAX_TASKS`].
pub const MOST_TASKS: u64 = 1_000_000;

/// What a channel is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// A pipe.
    Pipe,
    /// One direction of a Unix stream socket.
    Unix,
    /// One direction of a TCP connection over loopback.
    Tcp,
    /// One direction between two connected UDP sockets over loopback: message by message,
    /// and one for which there is no room is lost.
    Udp,
    /// A System V message queue.
    SysvQueue,
    /// A POSIX message queue: of several waiters the one of the best priority is served.
    PosixQueue,
}

impl ChannelKind {
    /// Carries whole messages instead of a stream of bytes.
    pub fn is_message_based(self) -> bool {
        matches!(self, ChannelKind::Udp | ChannelKind::SysvQueue | ChannelKind::PosixQueue)
    }

    /// Two channels of this kind can be the directions of one connection.
    pub fn is_socket(self) -> bool {
        matches!(self, ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp)
    }
}

/// A bounded one-directional byte channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// What it is made of.
    pub kind: ChannelKind,
    /// Bytes it holds before a sender blocks, at least the largest message.
    pub capacity: u32,
    /// The other direction of the same connection (sockets only).
    pub peer: Option<ChannelId>,
}

/// What a semaphore is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SemKind {
    /// A System V semaphore.
    #[default]
    Sysv,
    /// An eventfd that is read unit by unit (`EFD_SEMAPHORE`).
    EventFd,
}

/// A counting semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semaphore {
    /// What it is made of.
    pub kind: SemKind,
    /// Units it starts with.
    pub initial: u32,
}

/// What a lock is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A mutex on a futex: a woken task competes with newcomers.
    Futex,
    /// A mutex with priority inheritance (`FUTEX_LOCK_PI`): handed to the best waiter.
    FutexPi,
    /// `flock` on a file.
    Flock,
    /// A record lock of `fcntl` on a whole file. It belongs to the process.
    Fcntl,
}

impl LockKind {
    /// On a file: can be shared, and every use is a system call.
    pub fn is_file(self) -> bool {
        matches!(self, LockKind::Flock | LockKind::Fcntl)
    }
}

/// The system call that polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollKind {
    /// `select`.
    Select,
    /// `poll`.
    Poll,
    /// `epoll_wait`, level-triggered.
    Epoll,
}

/// An object that is polled for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// A channel.
    Channel(ChannelId),
    /// An eventfd.
    Semaphore(SemId),
}

/// Objects that are polled together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollSet {
    /// With which system call.
    pub kind: PollKind,
    /// What is watched, at least one object.
    pub watched: Vec<Watched>,
}

/// A disk with one FIFO queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {}

/// What [`Op::Set`] makes of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a scenario has few of them, in a list of their own")]
pub enum Attribute {
    /// The nice value.
    Nice(Nice),
    /// The scheduling policy.
    Policy(Policy),
    /// The CPUs it may use; ignored when the machine has none of them.
    Affinity(CpuMask),
    /// The group that it is in; the root without.
    Group(Option<GroupId>),
}

/// Tasks of one process share an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// The shortest slice that a task can have; the kernel's `__setparam_fair()` brings others into the range.
pub const SHORTEST_SLICE: DurationNs = DurationNs::from_us(100);

/// The longest one.
pub const LONGEST_SLICE: DurationNs = DurationNs::from_ms(100);

/// A task that exists when the run starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Name in results, for example `hog/0`; its first 15 bytes are the `comm`.
    pub name: String,
    /// What it runs.
    pub program: ProgramId,
    /// The task's process: tasks with equal ids are threads of one process.
    pub process: ProcessId,
    /// Nice value.
    pub nice: Nice,
    /// Scheduling policy.
    pub policy: Policy,
    /// The slice that it asks the fair class for, [`SHORTEST_SLICE`] to [`LONGEST_SLICE`] (`sched_setattr()`, Linux 6.12); the kernel's own without.
    pub slice: Option<DurationNs>,
    /// CPUs it may use; all without. Few tasks have one, and a mask takes ten times the rest.
    pub affinity: Option<Box<CpuMask>>,
    /// Working set in KiB that must be warm in the cache while the task computes.
    pub working_set_kib: u32,
    /// Background load: does not keep the run alive ([`End::ForegroundExit`]).
    pub background: bool,
    /// The group that it starts in, and its children after it; the root without.
    pub group: Option<GroupId>,
    /// A thread of the kernel: no address space of its own. Only the simulator can make one; a real run has an ordinary
    /// process in its place.
    pub kernel_thread: bool,
}

/// What forked children inherit or get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildSpec {
    /// Working set of a child in KiB.
    pub working_set_kib: u32,
    /// Children of real-time tasks and of tasks with a negative nice value start as
    /// time-sharing tasks of nice 0 (`SCHED_RESET_ON_FORK` of all tasks).
    pub reset_on_fork: bool,
}

/// When a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// When all tasks have exited.
    AllExit,
    /// When all tasks that are not [`TaskSpec::background`] have exited; the
    /// background tasks are then killed.
    ForegroundExit,
    /// After this long, whatever runs.
    After(DurationNs),
}

/// The task that makes a workload file's changes.
pub(crate) const CHANGER: &str = "changes";

/// Why a task cannot be in a group: cgroup v2 wants no tasks in a group whose children have controllers.
const NO_HOME: &str = "a group with groups in it has no tasks (cgroup v2)";

/// A complete workload with parameters and seed applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Workload name, for example `chat`.
    pub name: String,
    /// Effective parameters in display order, defaults included.
    pub params: Vec<(String, String)>,
    /// Programs by [`ProgramId`].
    pub programs: Vec<Program>,
    /// Channels by [`ChannelId`].
    pub channels: Vec<Channel>,
    /// Semaphores by [`crate::SemId`].
    pub semaphores: Vec<Semaphore>,
    /// Locks by [`LockId`].
    pub locks: Vec<LockKind>,
    /// Sets of polled objects by [`crate::PollId`].
    pub polls: Vec<PollSet>,
    /// Number of shared integers.
    pub words: u32,
    /// Number of condition variables.
    pub conds: u32,
    /// Barriers by [`crate::BarrierId`]: how many tasks each one waits for, at least 1.
    pub barriers: Vec<u32>,
    /// Disks by [`crate::DiskId`].
    pub disks: Vec<Disk>,
    /// Number of listening sockets.
    pub listeners: u32,
    /// Changes of attributes by [`crate::ChangeId`].
    pub changes: Vec<Attribute>,
    /// Groups below the root by [`GroupId`], parents first.
    pub groups: Vec<GroupSpec>,
    /// Changes of groups by [`crate::GroupChangeId`].
    pub group_changes: Vec<GroupChange>,
    /// The tasks at the start. They become runnable in this order at time 0,
    /// forked by a common parent (the shell, which is not part of the results).
    pub tasks: Vec<TaskSpec>,
    /// What forked children get.
    pub child: ChildSpec,
    /// Number of counters.
    pub counters: u32,
    /// Number of span kinds.
    pub spans: u32,
    /// When it is over.
    pub end: End,
    /// The figures it reports.
    pub metrics: Vec<MetricSpec>,
    /// The spans whose samples it reports one by one.
    pub series: Vec<SeriesSpec>,
    /// The bounds that its figures are to keep. They judge a run and change nothing of it.
    pub goals: Vec<Goal>,
}

/// Why a scenario is refused: names the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError(pub String);

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// A scenario without anything in it, to be filled.
    pub fn empty(name: &str, end: End) -> Scenario {
        Scenario {
            name: name.to_string(),
            params: Vec::new(),
            programs: Vec::new(),
            channels: Vec::new(),
            semaphores: Vec::new(),
            locks: Vec::new(),
            polls: Vec::new(),
            words: 0,
            conds: 0,
            barriers: Vec::new(),
            disks: Vec::new(),
            listeners: 0,
            changes: Vec::new(),
            groups: Vec::new(),
            group_changes: Vec::new(),
            tasks: Vec::new(),
            child: ChildSpec { working_set_kib: 0, reset_on_fork: false },
            counters: 0,
            spans: 0,
            end,
            metrics: Vec::new(),
            series: Vec::new(),
            goals: Vec::new(),
        }
    }

    /// When the last of the changes comes that a workload file makes at times of its own, if it makes any.
    #[must_use]
    pub fn last_change(&self) -> Option<DurationNs> {
        let changer = self.tasks.iter().find(|task| task.name == CHANGER && task.background)?;
        let waited = |op: &Op| match op {
            Op::TimerWait { period, absolute: true, .. } => Some(period.0),
            _ => None,
        };
        let ops = self.programs.get(changer.program.0 as usize)?.ops();
        Some(DurationNs(ops.iter().filter_map(waited).fold(0, u64::saturating_add)))
    }

    /// The first task that keeps the run going indefinitely: it repeats something without end, and nothing else ends the run.
    #[must_use]
    pub fn endless(&self) -> Option<&TaskSpec> {
        let waits_for = |task: &&TaskSpec| match self.end {
            End::AllExit => true,
            End::ForegroundExit => !task.background,
            End::After(_) => false,
        };
        let never_ends = |task: &&TaskSpec| {
            let ops = self.programs.get(task.program.0 as usize).map_or(&[][..], Program::ops);
            ops.contains(&Op::Loop(Amount::Forever)) && !ops.contains(&Op::Exit)
        };
        self.tasks.iter().filter(waits_for).find(never_ends)
    }

    /// What a run starts with to keep its spans in, by [`crate::SpanId`]: each counts what the figures ask for.
    #[must_use]
    pub fn empty_spans(&self) -> Vec<Spans> {
        let limits = |span: u32| {
            let asked = self.metrics.iter().filter_map(move |metric| metric.formula.limit());
            asked.filter(move |(of, _)| of.0 == span).map(|(_, limit)| limit).collect::<BTreeSet<_>>()
        };
        (0..self.spans).map(|span| Spans::counting(limits(span))).collect()
    }

    /// Checks that every index points at something and that every message fits
    /// its channel. Executors rely on it.
    ///
    /// # Errors
    /// Names the first offending task, program or operation.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        if self.tasks.is_empty() {
            return Err(ScenarioError(format!("{}: a scenario needs at least one task", self.name)));
        }
        self.check_groups()?;
        let inner: BTreeSet<GroupId> = self.groups.iter().filter_map(|group| group.parent).collect();
        for task in &self.tasks {
            self.check_start(task, &inner)
                .map_err(|text| ScenarioError(format!("task {}: {text}", task.name)))?;
            if task.program.index() >= self.programs.len() {
                return Err(ScenarioError(format!("task {}: no program {}", task.name, task.program.0)));
            }
            if task.affinity.as_ref().is_some_and(|mask| mask.is_empty()) {
                return Err(ScenarioError(format!("task {}: an empty affinity mask", task.name)));
            }
        }
        for (number, program) in self.programs.iter().enumerate() {
            for (at, op) in program.ops().iter().enumerate() {
                self.check_op(op)
                    .map_err(|text| ScenarioError(format!("program {number}, op {at} ({op:?}): {text}")))?;
            }
        }
        self.check_objects()
    }

    /// Checks one operation of a program as [`Scenario::validate`] does.
    pub(crate) fn check_op(&self, op: &Op) -> Result<(), &'static str> {
        match *op {
            Op::Send { channel, bytes } | Op::Recv { channel, bytes } => {
                known(channel.index(), self.channels.len())?;
                if bytes > self.channels[channel.index()].capacity {
                    return Err("the message is larger than the channel");
                }
                Ok(())
            }
            Op::SemWait(sem) | Op::SemPost { sem, .. } => known(sem.index(), self.semaphores.len()),
            Op::SemDrain(sem) => {
                known(sem.index(), self.semaphores.len())?;
                if self.semaphores[sem.index()].kind != SemKind::Sysv {
                    return Err("only System V semaphores can be drained");
                }
                Ok(())
            }
            Op::Lock(_)
            | Op::Unlock(_)
            | Op::LockShared(_)
            | Op::CondWait { .. }
            | Op::CondSignal(_)
            | Op::CondBroadcast(_)
            | Op::Barrier(_) => self.check_lock(op),
            Op::Poll(set) => known(set.index(), self.polls.len()),
            Op::Kill(task) => known(task.index(), self.tasks.len()),
            Op::Store { word, .. }
            | Op::Advance(word)
            | Op::Await { word, .. }
            | Op::Note(word)
            | Op::RestartIfChanged(word) => known(word.index(), self.words as usize),
            Op::TimerWait { timer, .. }
                if timer.shared().is_some_and(|number| number >= MAX_SHARED_TIMERS) =>
            {
                Err("too many timers")
            }
            Op::Late { timer, .. } if timer.shared().is_some() => Err("too many timers in a task"),
            Op::Io { disk, .. } | Op::Fsync { disk, .. } => known(disk.index(), self.disks.len()),
            Op::Accept(listener) => known(listener.index(), self.listeners as usize),
            Op::Connect { listener, channel } => {
                known(listener.index(), self.listeners as usize)?;
                match channel.map(|channel| self.channels.get(channel.index())) {
                    Some(None) => Err("no such object"),
                    Some(Some(channel)) if channel.peer.is_none() => {
                        Err("only one of two channels that are each other's peer can be connected")
                    }
                    _ => Ok(()),
                }
            }
            Op::Age { channel, span } => {
                known(channel.index(), self.channels.len())?;
                known(span.0 as usize, self.spans as usize)
            }
            Op::Close(span) | Op::Late { span, .. } => known(span.0 as usize, self.spans as usize),
            Op::Set { task, change } => {
                known(change.index(), self.changes.len())?;
                if matches!(self.changes[change.index()], Attribute::Affinity(mask) if mask.is_empty()) {
                    return Err("an empty affinity mask");
                }
                if let Attribute::Group(Some(group)) = self.changes[change.index()] {
                    self.check_home(group)?;
                }
                task.map_or(Ok(()), |task| known(task.index(), self.tasks.len()))
            }
            Op::SetGroup { group, change } => self.check_group_change(group, change),
            Op::Hotplug { cpu: CpuId(0), .. } => Err("CPU 0 stays online"),
            Op::Fork { program } => known(program.index(), self.programs.len()),
            Op::Count { counter, .. } => known(counter.0 as usize, self.counters as usize),
            Op::SpanBegin(span) | Op::SpanEnd(span) => known(span.0 as usize, self.spans as usize),
            _ => Ok(()),
        }
    }

    /// Tasks can be in the group.
    fn check_home(&self, group: GroupId) -> Result<(), &'static str> {
        known(group.index(), self.groups.len())?;
        let inner = self.groups.iter().any(|other| other.parent == Some(group));
        if inner { Err(NO_HOME) } else { Ok(()) }
    }

    fn check_group_change(&self, group: GroupId, change: GroupChangeId) -> Result<(), &'static str> {
        known(group.index(), self.groups.len())?;
        known(change.index(), self.group_changes.len())?;
        match self.group_changes[change.index()] {
            GroupChange::Weight(weight) if check_weight(weight).is_err() => Err("a weight is 1 to 10000"),
            GroupChange::Cpus(mask) if mask.is_empty() => Err("an empty set of CPUs"),
            GroupChange::Make if !self.groups[group.index()].later => {
                Err("only a group with later = true can be made by a program")
            }
            GroupChange::Remove if self.groups.iter().any(|other| other.parent == Some(group)) => {
                Err("a group with groups in it cannot be removed")
            }
            _ => Ok(()),
        }
    }

    fn check_groups(&self) -> Result<(), ScenarioError> {
        if self.groups.len() > MOST_GROUPS {
            let text = format!("{} groups, at most {MOST_GROUPS} are supported", self.groups.len());
            return Err(ScenarioError(text));
        }
        let mut paths = BTreeSet::new();
        for (number, group) in self.groups.iter().enumerate() {
            let refused = |text: String| Err(ScenarioError(format!("group {}: {text}", group.path)));
            check_path(&group.path).and_then(|()| check_settings(&group.settings)).or_else(refused)?;
            let parent = match group.parent {
                Some(parent) if parent.index() >= number => {
                    return refused("its parent comes after it".to_string());
                }
                parent => parent.map(|parent| &self.groups[parent.index()]),
            };
            let above = group.path.rsplit_once('/').map(|(above, _)| above);
            if parent.map(|parent| parent.path.as_str()) != above || !paths.insert(&group.path) {
                return refused("it is not the one of its path".to_string());
            }
            if parent.is_some_and(|parent| parent.later && !group.later) {
                return refused("its parent is not there at the start".to_string());
            }
            if group.cpus.is_some_and(|cpus| cpus.is_empty()) {
                return refused("an empty set of CPUs".to_string());
            }
        }
        Ok(())
    }

    /// The task can start in its group.
    fn check_start(&self, task: &TaskSpec, inner: &BTreeSet<GroupId>) -> Result<(), &'static str> {
        let Some(group) = task.group else { return Ok(()) };
        known(group.index(), self.groups.len())?;
        match self.groups[group.index()].later {
            _ if inner.contains(&group) => Err(NO_HOME),
            true => Err("its group is not there at the start"),
            false => Ok(()),
        }
    }

    fn check_lock(&self, op: &Op) -> Result<(), &'static str> {
        match *op {
            Op::Lock(lock) | Op::Unlock(lock) => known(lock.index(), self.locks.len()),
            Op::LockShared(lock) => {
                known(lock.index(), self.locks.len())?;
                if !self.locks[lock.index()].is_file() {
                    return Err("only file locks can be shared");
                }
                Ok(())
            }
            Op::CondWait { cond, lock } => {
                known(cond.index(), self.conds as usize)?;
                known(lock.index(), self.locks.len())?;
                if self.locks[lock.index()] != LockKind::Futex {
                    return Err("a condition variable goes with a mutex");
                }
                Ok(())
            }
            Op::CondSignal(cond) | Op::CondBroadcast(cond) => known(cond.index(), self.conds as usize),
            Op::Barrier(barrier) => {
                known(barrier.index(), self.barriers.len())?;
                if self.barriers[barrier.index()] == 0 {
                    return Err("a barrier needs at least one party");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Poll sets watch what can be watched, messages of one queue have one length, and
    /// record locks are not shared by threads.
    fn check_objects(&self) -> Result<(), ScenarioError> {
        for (number, set) in self.polls.iter().enumerate() {
            let fail = |text: &str| Err(ScenarioError(format!("poll set {number}: {text}")));
            if set.watched.is_empty() {
                return fail("it watches nothing");
            }
            for watched in &set.watched {
                let kind = match *watched {
                    Watched::Channel(channel) => self.channels.get(channel.index()).map(|c| {
                        if c.kind == ChannelKind::SysvQueue { "a System V message queue" } else { "" }
                    }),
                    Watched::Semaphore(sem) => self
                        .semaphores
                        .get(sem.index())
                        .map(|s| if s.kind == SemKind::Sysv { "a System V semaphore" } else { "" }),
                };
                match kind {
                    None => return fail("it watches an object that does not exist"),
                    Some("") => {}
                    Some(what) => return fail(&format!("{what} cannot be polled")),
                }
            }
        }
        self.check_messages()?;
        self.check_record_locks()
    }

    fn check_messages(&self) -> Result<(), ScenarioError> {
        if !self.channels.iter().any(|channel| channel.kind.is_message_based()) {
            return Ok(());
        }
        let lengths = self.message_lengths();
        for op in self.programs.iter().flat_map(|program| program.ops()) {
            if let Op::Send { channel, bytes } | Op::Recv { channel, bytes } = *op
                && self.channels[channel.index()].kind.is_message_based()
                && lengths[channel.index()] != bytes
            {
                return Err(ScenarioError(format!(
                    "channel {}: all messages of a queue or datagram socket need one length",
                    channel.0
                )));
            }
        }
        Ok(())
    }

    /// By channel: the length of the first message that a program sends into it or reads from it,
    /// its capacity if none does. All messages of message-based channels have it.
    pub fn message_lengths(&self) -> Vec<u32> {
        let mut lengths: Vec<Option<u32>> = vec![None; self.channels.len()];
        for op in self.programs.iter().flat_map(|program| program.ops()) {
            if let Op::Send { channel, bytes } | Op::Recv { channel, bytes } = *op {
                lengths[channel.index()].get_or_insert(bytes);
            }
        }
        let known = lengths.into_iter().zip(&self.channels);
        known.map(|(length, channel)| length.unwrap_or(channel.capacity)).collect()
    }

    fn check_record_locks(&self) -> Result<(), ScenarioError> {
        for (number, _) in self.locks.iter().enumerate().filter(|(_, kind)| **kind == LockKind::Fcntl) {
            let uses =
                |op: &Op| matches!(*op, Op::Lock(lock) | Op::LockShared(lock) if lock.index() == number);
            let users: Vec<ProcessId> = self
                .tasks
                .iter()
                .filter(|task| self.programs[task.program.index()].ops().iter().any(uses))
                .map(|task| task.process)
                .collect();
            let mut distinct = users.clone();
            distinct.sort_unstable();
            distinct.dedup();
            if distinct.len() < users.len() {
                return Err(ScenarioError(format!(
                    "lock {number}: a record lock belongs to a process, its threads cannot exclude each other"
                )));
            }
        }
        Ok(())
    }

    /// Of `count` objects of one kind, of which `used` tells the one that an operation uses: whether
    /// only threads of one process use it. Its futex is private to that process then.
    pub fn private_objects(&self, count: usize, used: impl Fn(&Op) -> Option<usize>) -> Vec<bool> {
        let by_program: Vec<Vec<usize>> = self
            .programs
            .iter()
            .map(|program| {
                let mut objects: Vec<usize> = program.ops().iter().filter_map(&used).collect();
                objects.sort_unstable();
                objects.dedup();
                objects
            })
            .collect();
        let (mut private, mut user) = (vec![true; count], vec![None; count]);
        for op in self.programs.iter().flat_map(|program| program.ops()) {
            if let Op::Fork { program } = op {
                by_program[program.index()].iter().for_each(|&object| private[object] = false);
            }
        }
        for task in &self.tasks {
            for &object in &by_program[task.program.index()] {
                private[object] &= *user[object].get_or_insert(task.process) == task.process;
            }
        }
        private
    }

    /// The CPUs that programs take offline or bring back, in order.
    pub fn hotplugged(&self) -> BTreeSet<CpuId> {
        let ops = self.programs.iter().flat_map(Program::ops);
        ops.filter_map(|op| if let Op::Hotplug { cpu, .. } = op { Some(*cpu) } else { None }).collect()
    }

    /// The lock table's kind of `lock`.
    pub fn lock_kind(&self, lock: LockId) -> LockKind {
        self.locks[lock.index()]
    }
}

fn known(index: usize, len: usize) -> Result<(), &'static str> {
    if index < len { Ok(()) } else { Err("no such object") }
}
