//! A scenario: kernel objects, programs and the tasks that run them.

use schedlab_base::{CpuMask, DurationNs, Nice, Policy};
use std::fmt;

use crate::measure::MetricSpec;
use crate::program::{ChannelId, LockId, MAX_TIMERS, Op, Program, ProgramId};

/// What a channel is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// A pipe.
    Pipe,
    /// One direction of a Unix stream socket.
    Unix,
    /// One direction of a TCP connection over loopback.
    Tcp,
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

/// A counting semaphore (System V).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semaphore {
    /// Units it starts with.
    pub initial: u32,
}

/// What a lock is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A mutex on a futex.
    Futex,
}

/// A disk with one FIFO queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {}

/// What [`Op::Set`] makes of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// The nice value.
    Nice(Nice),
    /// The scheduling policy.
    Policy(Policy),
    /// The CPUs it may use; ignored when the machine has none of them.
    Affinity(CpuMask),
}

/// Tasks of one process share an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A task that exists when the run starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Name in results, for example `hog/0`; its first 15 bytes are the `comm`.
    pub name: String,
    /// What it runs.
    pub program: ProgramId,
    /// Its process: tasks with equal ids are threads of one process.
    pub process: ProcessId,
    /// Nice value.
    pub nice: Nice,
    /// Scheduling policy.
    pub policy: Policy,
    /// CPUs it may use; all without.
    pub affinity: Option<CpuMask>,
    /// Working set in KiB that has to be warm in the cache while it computes.
    pub working_set_kib: u32,
    /// Background load: does not keep the run alive ([`End::ForegroundExit`]).
    pub background: bool,
}

/// What forked children inherit or get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildSpec {
    /// Working set of a child in KiB.
    pub working_set_kib: u32,
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

/// A complete workload with parameters and seed applied.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Number of condition variables.
    pub conds: u32,
    /// Barriers by [`crate::BarrierId`]: how many tasks each one waits for, at least 1.
    pub barriers: Vec<u32>,
    /// Disks by [`crate::DiskId`].
    pub disks: Vec<Disk>,
    /// Changes of attributes by [`crate::ChangeId`].
    pub changes: Vec<Attribute>,
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
            conds: 0,
            barriers: Vec::new(),
            disks: Vec::new(),
            changes: Vec::new(),
            tasks: Vec::new(),
            child: ChildSpec { working_set_kib: 0 },
            counters: 0,
            spans: 0,
            end,
            metrics: Vec::new(),
        }
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
        for task in &self.tasks {
            if task.program.index() >= self.programs.len() {
                return Err(ScenarioError(format!("task {}: no program {}", task.name, task.program.0)));
            }
            if task.affinity.is_some_and(|mask| mask.is_empty()) {
                return Err(ScenarioError(format!("task {}: an empty affinity mask", task.name)));
            }
        }
        for (number, program) in self.programs.iter().enumerate() {
            for (at, op) in program.ops().iter().enumerate() {
                self.check_op(op)
                    .map_err(|text| ScenarioError(format!("program {number}, op {at} ({op:?}): {text}")))?;
            }
        }
        Ok(())
    }

    fn check_op(&self, op: &Op) -> Result<(), &'static str> {
        let known = |index: usize, len: usize| if index < len { Ok(()) } else { Err("no such object") };
        match *op {
            Op::Send { channel, bytes } | Op::Recv { channel, bytes } => {
                known(channel.index(), self.channels.len())?;
                if bytes > self.channels[channel.index()].capacity {
                    return Err("the message is larger than the channel");
                }
                Ok(())
            }
            Op::SemWait(sem) | Op::SemPost { sem, .. } => known(sem.index(), self.semaphores.len()),
            Op::Lock(lock) | Op::Unlock(lock) => known(lock.index(), self.locks.len()),
            Op::CondWait { cond, lock } => {
                known(cond.index(), self.conds as usize)?;
                known(lock.index(), self.locks.len())
            }
            Op::CondSignal(cond) | Op::CondBroadcast(cond) => known(cond.index(), self.conds as usize),
            Op::Barrier(barrier) => {
                known(barrier.index(), self.barriers.len())?;
                if self.barriers[barrier.index()] == 0 {
                    return Err("a barrier needs at least one party");
                }
                Ok(())
            }
            Op::TimerWait { timer, .. } if timer.index() >= MAX_TIMERS => Err("too many timers in a task"),
            Op::Io { disk, .. } => known(disk.index(), self.disks.len()),
            Op::Set { task, change } => {
                known(change.index(), self.changes.len())?;
                if matches!(self.changes[change.index()], Attribute::Affinity(mask) if mask.is_empty()) {
                    return Err("an empty affinity mask");
                }
                task.map_or(Ok(()), |task| known(task.index(), self.tasks.len()))
            }
            Op::Fork { program } => known(program.index(), self.programs.len()),
            Op::Count { counter, .. } => known(counter.0 as usize, self.counters as usize),
            Op::SpanBegin(span) | Op::SpanEnd(span) => known(span.0 as usize, self.spans as usize),
            _ => Ok(()),
        }
    }

    /// The lock table's kind of `lock`.
    pub fn lock_kind(&self, lock: LockId) -> LockKind {
        self.locks[lock.index()]
    }
}
