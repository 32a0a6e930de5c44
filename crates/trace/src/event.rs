//! Scheduling events, named as the kernel's trace points.

use crate::waits::Mechanism;
use schedlab_base::{CpuId, DsqId, TaskId, TimeNs};

/// Why a task left the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// Still runnable: preempted, slice used up or yielded.
    Runnable,
    /// Blocked interruptibly.
    Blocked,
    /// Blocked uninterruptibly (disk).
    BlockedIo,
    /// Gone.
    Exited,
}

/// What happened. A missing task (`None`) is the idle task of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A task exists. Emitted before any other event of the task.
    Fork {
        /// The task's creator, when that is a task of the run.
        parent: Option<TaskId>,
        /// The new task.
        child: TaskId,
    },
    /// A blocked or new task became runnable and was put on `cpu`.
    SchedWakeup {
        /// The wakee.
        task: TaskId,
        /// The CPU chosen for it.
        cpu: CpuId,
        /// The task that woke it, if a task did.
        waker: Option<TaskId>,
    },
    /// The CPU of the event switches from `prev` to `next`.
    SchedSwitch {
        /// The task that stops.
        prev: Option<TaskId>,
        /// Why it stops; [`TaskState::Runnable`] for the idle task.
        prev_state: TaskState,
        /// The task that runs.
        next: Option<TaskId>,
    },
    /// A task that is not running changes its CPU.
    SchedMigrate {
        /// The task.
        task: TaskId,
        /// From where.
        from: CpuId,
        /// To where.
        to: CpuId,
    },
    /// The task ended.
    Exit {
        /// The task.
        task: TaskId,
    },
    /// The CPU of the event is at the end of a pass through `schedule()`, whether that
    /// switched or not. For sinks that asked for it; no part of a run's hash.
    Schedule {
        /// When the pass began.
        begin: TimeNs,
        /// The task that runs now.
        next: Option<TaskId>,
        /// The scheduler's mark changed in the pass.
        mark: bool,
    },
    /// The task enters a system call: through what it waits if it blocks there, and the number of
    /// the resource among those of its kind. It is none for calls in which no task waits for
    /// another. For sinks that asked for it; no part of a run's hash.
    Call {
        /// The task.
        task: TaskId,
        /// Mechanism and resource.
        call: Option<(Mechanism, u64)>,
    },
    /// The task has this priority from now on. For sinks that asked for it; no part of a run's hash.
    Priority {
        /// The task.
        task: TaskId,
        /// As the kernel counts (`task->prio`): lower is better.
        prio: i32,
    },
    /// A task was inserted into a dispatch queue.
    DsqInsert {
        /// The task.
        task: TaskId,
        /// The queue.
        dsq: DsqId,
    },
}

/// One event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// When, on the run's clock. Per CPU the times never go back.
    pub time: TimeNs,
    /// Where.
    pub cpu: CpuId,
    /// What.
    pub kind: EventKind,
}

/// Something that takes a run's events in order.
pub trait Sink {
    /// Takes one event.
    fn event(&mut self, event: &Event);

    /// Takes the name of a task, which holds for the events that follow. Told in real runs only: of a simulated one the
    /// names are known beforehand.
    fn named(&mut self, _task: TaskId, _name: &str) {}

    /// Takes a line that the scheduler printed (`bpf_printk()`) on this CPU while this task was the current one; no task is the
    /// idle task.
    fn printed(&mut self, _time: TimeNs, _cpu: CpuId, _task: Option<TaskId>, _text: &str) {}
}

impl Sink for () {
    fn event(&mut self, _event: &Event) {}
}

impl Sink for Vec<Event> {
    fn event(&mut self, event: &Event) {
        self.push(*event);
    }
}
