//! A scenario: kernel objects, programs and the tasks that run them.

use schedlab_base::{CpuId, CpuMask, DurationNs, Goal, Nice, Policy};
use std::collections::BTreeSet;
use std::fmt;

use crate::group::{GroupChange, GroupSpec};
use crate::identity::Identity;
use crate::measure::{MetricSpec, SeriesSpec, Spans};
use crate::program::{Amount, ChannelId, GroupId, LockId, Op, Program, ProgramId, SemId};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// A thread of the kernel: no address space of its own. Only the simulator can make one.
    pub kernel_thread: bool,
    /// Whose it is.
    pub identity: Identity,
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
