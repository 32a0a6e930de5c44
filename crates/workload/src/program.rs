//! Task programs: lists of operations with counted loops.

use schedlab_base::{CpuId, DurationNs};
use std::fmt;

use crate::measure::{CounterId, SpanId};

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index of the scenario's table.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(
    /// A program of the scenario.
    ProgramId
);
index!(
    /// A one-directional byte channel of the scenario.
    ChannelId
);
index!(
    /// A counting semaphore of the scenario.
    SemId
);
index!(
    /// A lock of the scenario.
    LockId
);
index!(
    /// A set of objects that a task polls.
    PollId
);
index!(
    /// An integer that all tasks of the scenario share; 0 at the start.
    WordId
);
index!(
    /// A disk of the scenario.
    DiskId
);
index!(
    /// A listening socket of the scenario.
    ListenerId
);
index!(
    /// A condition variable of the scenario.
    CondId
);
index!(
    /// A barrier of the scenario.
    BarrierId
);
index!(
    /// A periodic timer: one of the [`MAX_TIMERS`] that every task has of its own, or, from there on, one that all tasks share.
    TimerSlot
);
index!(
    /// A change of a task's attributes, by its place in the scenario's list.
    ChangeId
);
index!(
    /// A group below the root, by its place in the scenario's list.
    GroupId
);
index!(
    /// A change of a group, by its place in the scenario's list.
    GroupChangeId
);
index!(
    /// A task that exists when the scenario starts, by its place in the list.
    TaskRef
);

/// How often a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A fixed number of times; 0 skips the body.
    Times(u64),
    /// Until the task or the run ends.
    Forever,
}

/// One operation of a task program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Starts a loop that ends at the matching [`Op::EndLoop`]. Free of charge.
    Loop(Amount),
    /// Ends the innermost loop. Free of charge.
    EndLoop,
    /// Needs that much CPU time.
    Run(DurationNs),
    /// Computes until that much time has passed since it began, on the CPU or not.
    RunFor(DurationNs),
    /// Needs that much CPU time inside a system call (reading files that are cached, mapping pages).
    RunKernel(DurationNs),
    /// Walks a buffer of that many KiB, one cache line at a time; what it costs
    /// depends on the caches.
    Touch {
        /// Size of the buffer walked.
        kib: u32,
    },
    /// Blocks for a fixed time.
    Sleep(DurationNs),
    /// Blocks for a request of that service time on a disk with a FIFO queue.
    Io {
        /// Which disk.
        disk: DiskId,
        /// Service time without queueing.
        service: DurationNs,
    },
    /// Makes the disk write a log (`fsync`) with that service time. A task that comes while an
    /// earlier write is under way waits for the next one together with all that come until it
    /// begins (group commit).
    Fsync {
        /// Which disk.
        disk: DiskId,
        /// Service time of one write.
        service: DurationNs,
    },
    /// Writes bytes; blocks while the channel is full. On a message queue or a datagram
    /// socket it is one message.
    Send {
        /// Which channel.
        channel: ChannelId,
        /// Message length in bytes, at least 1.
        bytes: u32,
    },
    /// Reads exactly that many bytes (or one message); blocks until they are there.
    Recv {
        /// Which channel.
        channel: ChannelId,
        /// Message length in bytes, at least 1.
        bytes: u32,
    },
    /// Takes one unit of a semaphore; blocks while it is 0.
    SemWait(SemId),
    /// Adds units to a semaphore.
    SemPost {
        /// Which semaphore.
        sem: SemId,
        /// How many units.
        units: u32,
    },
    /// Takes all units that a System V semaphore has, without blocking (`SETVAL` 0).
    SemDrain(SemId),
    /// Takes an exclusive lock; its kind says in which order waiters are served.
    Lock(LockId),
    /// Takes a file lock together with other readers.
    LockShared(LockId),
    /// Releases a lock that this task holds.
    Unlock(LockId),
    /// Blocks until something can be read of an object of the set.
    Poll(PollId),
    /// Reads a message of that length from the channel that this task's last
    /// [`Op::Poll`] found readable (a unit, if it found an eventfd).
    RecvReady {
        /// Message length in bytes, at least 1.
        bytes: u32,
    },
    /// Writes a message to the peer of the connection that [`Op::RecvReady`] read from.
    Answer {
        /// Message length in bytes, at least 1.
        bytes: u32,
    },
    /// Opens a connection to a listening socket, where it waits to be accepted; does not
    /// block.
    Connect {
        /// To which.
        listener: ListenerId,
        /// The direction of the connection in which this task sends; that of the connection
        /// that [`Op::RecvReady`] read from without.
        channel: Option<ChannelId>,
    },
    /// Takes the longest waiting connection of a listening socket, blocks without one;
    /// [`Op::RecvReady`] and [`Op::Answer`] use it then. Of several waiters the longest is woken.
    Accept(ListenerId),
    /// Closes the connection that [`Op::RecvReady`] read from; its life since [`Op::Connect`] is a
    /// sample of the span.
    Close(SpanId),
    /// Records as a sample of a span how late it is: the time since the expiry that the last
    /// [`Op::TimerWait`] waited for. Free of charge.
    Late {
        /// Which timer of the task.
        timer: TimerSlot,
        /// The span.
        span: SpanId,
    },
    /// Records as a sample of a span the time since the last write into a channel. Free of charge.
    Age {
        /// Which channel.
        channel: ChannelId,
        /// The span.
        span: SpanId,
    },
    /// Sends a signal to a task; one that is pending already is lost.
    Kill(TaskRef),
    /// Blocks until a signal has come, and takes it (`sigsuspend`).
    SigWait,
    /// Sets a shared integer. Free of charge.
    Store {
        /// Which one.
        word: WordId,
        /// The word's new value.
        value: u32,
    },
    /// Adds one to a shared integer. Free of charge.
    Advance(WordId),
    /// Sleeps in steps until a shared integer has this value.
    Await {
        /// Which one.
        word: WordId,
        /// The value.
        value: u32,
        /// How long to sleep between two looks.
        step: DurationNs,
    },
    /// Remembers the value of a shared integer for [`Op::RestartIfChanged`]. Free of
    /// charge.
    Note(WordId),
    /// Continues with the next pass of the program's outermost loop around it, if the
    /// integer differs from the value remembered. Free of charge.
    RestartIfChanged(WordId),
    /// Releases a lock that this task holds, blocks until the condition is
    /// signalled, and takes the lock again. No spurious returns.
    CondWait {
        /// Which condition variable.
        cond: CondId,
        /// The lock given up meanwhile.
        lock: LockId,
    },
    /// Wakes the longest waiter of a condition variable, if there is one.
    CondSignal(CondId),
    /// Wakes all waiters of a condition variable.
    CondBroadcast(CondId),
    /// Blocks until as many tasks as the barrier has parties have arrived.
    Barrier(BarrierId),
    /// Blocks until the next expiry of a periodic timer. The first
    /// expiry is one period after the start of the task that waits first, each further one a period after
    /// the last. An expiry that has passed already does not block.
    TimerWait {
        /// Which timer.
        timer: TimerSlot,
        /// The timer's period, which may change from wait to wait.
        period: DurationNs,
        /// What happens to an expiry that was missed: true keeps the grid, so the
        /// task catches up; false starts a new grid at the present.
        absolute: bool,
    },
    /// Gives the CPU away while staying runnable (`sched_yield`).
    Yield,
    /// Creates a child process that runs a program.
    Fork {
        /// What the child runs.
        program: ProgramId,
    },
    /// Replaces the process image (`execve`); the program continues.
    Exec,
    /// Changes a task's nice value, policy, affinity or group (`setpriority`, `sched_setscheduler`, `sched_setaffinity`, a
    /// write to `cgroup.threads`). Does nothing to a task that has ended, nor with CPUs that the machine lacks or a group
    /// that is not there.
    Set {
        /// Whose; the task's own without.
        task: Option<TaskRef>,
        /// What it becomes.
        change: ChangeId,
    },
    /// Makes, changes or removes a group (a file or a directory below `/sys/fs/cgroup`).
    SetGroup {
        /// Which group.
        group: GroupId,
        /// What becomes of it.
        change: GroupChangeId,
    },
    /// Takes a CPU offline, or brings it back (`/sys/devices/system/cpu/cpuN/online`), which takes root on a real kernel.
    /// Does nothing where it is as wanted.
    Hotplug {
        /// Which CPU; not CPU 0.
        cpu: CpuId,
        /// Whether it is to run tasks.
        online: bool,
    },
    /// Blocks until one child has ended, and reaps it. Does nothing without children.
    WaitChild,
    /// Ends the task; the end of a program does the same.
    Exit,
    /// Adds to a counter of the run. Free of charge.
    Count {
        /// Which counter.
        counter: CounterId,
        /// How much.
        units: u32,
    },
    /// Starts a measured span of this task. Free of charge.
    SpanBegin(SpanId),
    /// Ends the span of this task and records its length. Free of charge.
    SpanEnd(SpanId),
}

/// A checked list of operations: loops are balanced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    ops: Vec<Op>,
    /// For each loop op: the index of its partner; otherwise unused.
    partner: Vec<u32>,
}

/// The deepest nesting of loops in one program. Chosen: no workload needs more.
pub(crate) const MAX_LOOP_DEPTH: usize = 8;

/// The largest number of periodic timers of one task. Chosen.
pub const MAX_TIMERS: usize = 16;

/// The largest number of periodic timers that all tasks share. Chosen.
pub const MAX_SHARED_TIMERS: usize = 16;

impl TimerSlot {
    /// A timer that all tasks share, by its number.
    pub fn of_all(number: u32) -> TimerSlot {
        TimerSlot(MAX_TIMERS as u32 + number)
    }

    /// The timer's number, if all tasks share it.
    pub fn shared(self) -> Option<usize> {
        self.index().checked_sub(MAX_TIMERS)
    }
}

/// Why a list of operations is not a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError(pub String);

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProgramError {}

impl Program {
    /// Checks a list of operations.
    ///
    /// # Errors
    /// Unbalanced or too deeply nested loops, messages without a byte, and loops
    /// whose body makes no system call and needs no CPU time.
    pub fn new(ops: Vec<Op>) -> Result<Program, ProgramError> {
        let mut partner = vec![0; ops.len()];
        let mut open = Vec::new();
        let mut depth = 0;
        for (at, op) in ops.iter().enumerate() {
            match op {
                Op::Loop(_) => {
                    open.push(at);
                    depth = depth.max(open.len());
                }
                Op::EndLoop => {
                    let start = open
                        .pop()
                        .ok_or_else(|| ProgramError(format!("op {at}: loop end without a start")))?;
                    partner[start] = at as u32;
                    partner[at] = start as u32;
                    check_body(&ops[start..at], &partner[start..at], start)?;
                }
                Op::Send { bytes: 0, .. }
                | Op::Recv { bytes: 0, .. }
                | Op::RecvReady { bytes: 0 }
                | Op::Answer { bytes: 0 } => {
                    return Err(ProgramError(format!("op {at}: a message needs at least one byte")));
                }
                Op::RestartIfChanged(_) if open.is_empty() => {
                    return Err(ProgramError(format!("op {at}: no loop around it to go on with")));
                }
                _ => {}
            }
        }
        if let Some(start) = open.pop() {
            return Err(ProgramError(format!("op {start}: loop without an end")));
        }
        if depth > MAX_LOOP_DEPTH {
            return Err(ProgramError(format!(
                "loops nest {depth} deep, at most {MAX_LOOP_DEPTH} are supported"
            )));
        }
        Ok(Program { ops, partner })
    }

    /// The operations.
    #[inline]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The partner of the loop operation at `at`.
    #[inline]
    pub(crate) fn partner(&self, at: usize) -> usize {
        self.partner[at] as usize
    }
}

/// A loop must do something that takes time, or an executor would walk it without
/// end while the clock stands still.
fn check_body(body: &[Op], partner: &[u32], start: usize) -> Result<(), ProgramError> {
    let repeats = !matches!(body[0], Op::Loop(Amount::Times(0 | 1)));
    let takes_time = |op: &Op| match op {
        Op::Run(span) | Op::RunFor(span) | Op::RunKernel(span) => *span > DurationNs::ZERO,
        Op::TimerWait { period, .. } => *period > DurationNs::ZERO,
        Op::Sleep(span) => *span > DurationNs::ZERO,
        Op::CondSignal(_) | Op::CondBroadcast(_) | Op::SemPost { .. } => true,
        Op::Loop(_) | Op::EndLoop | Op::Count { .. } | Op::SpanBegin(_) | Op::SpanEnd(_) => false,
        Op::Late { .. } | Op::Age { .. } => false,
        Op::Store { .. } | Op::Advance(_) | Op::Note(_) | Op::RestartIfChanged(_) => false,
        // The loop may find its value at once, in every pass.
        Op::Await { .. } => false,
        _ => true,
    };
    let (mut at, mut found) = (1, false);
    while at < body.len() && !found {
        found = takes_time(&body[at]);
        // What is never run takes no time either.
        at = if body[at] == Op::Loop(Amount::Times(0)) { partner[at] as usize - start + 1 } else { at + 1 };
    }
    if repeats && !found {
        return Err(ProgramError(format!("op {start}: a loop whose body takes no time")));
    }
    Ok(())
}

/// Writes a program down in order.
#[derive(Clone, Debug, Default)]
pub struct ProgramBuilder {
    ops: Vec<Op>,
}

impl ProgramBuilder {
    /// An empty program.
    pub fn new() -> ProgramBuilder {
        ProgramBuilder::default()
    }

    /// Appends one operation.
    pub fn op(mut self, op: Op) -> ProgramBuilder {
        self.ops.push(op);
        self
    }

    /// Appends what another builder has.
    pub fn append(mut self, other: ProgramBuilder) -> ProgramBuilder {
        self.ops.extend(other.ops);
        self
    }

    /// Appends `body` as a loop.
    pub fn repeat(
        mut self,
        amount: Amount,
        body: impl FnOnce(ProgramBuilder) -> ProgramBuilder,
    ) -> ProgramBuilder {
        self.ops.push(Op::Loop(amount));
        let mut built = body(self);
        built.ops.push(Op::EndLoop);
        built
    }

    /// The program.
    ///
    /// # Errors
    /// See [`Program::new`].
    pub fn build(self) -> Result<Program, ProgramError> {
        Program::new(self.ops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_programs_are_refused() {
        let endless =
            vec![Op::Loop(Amount::Forever), Op::Count { counter: CounterId(0), units: 1 }, Op::EndLoop];
        let skipped = ProgramBuilder::new().repeat(Amount::Times(2), |b| {
            b.repeat(Amount::Times(0), |b| b.op(Op::Yield)).op(Op::Run(DurationNs::ZERO))
        });
        assert!(skipped.build().is_err());
        for ops in [vec![Op::EndLoop], vec![Op::Loop(Amount::Forever)], endless] {
            assert!(Program::new(ops).is_err());
        }
        let empty = Op::Send { channel: ChannelId(0), bytes: 0 };
        assert!(Program::new(vec![empty]).is_err());
    }
}
