//! What a callback holds that is paused in the middle, while other CPUs continue.

use crate::Kernel;
use schedlab_base::{CpuId, TaskId};

/// The run queue that is locked, if one is, and whether another path has asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// A callback is paused, or a conflict was met: what follows is looked at only then.
    pub(crate) on: bool,
    /// A callback is paused: the number of the pause.
    pub(crate) pause: Option<usize>,
    /// The CPU that is paused.
    pub(crate) cpu: CpuId,
    /// The CPU whose rq lock the paused path holds.
    pub(crate) rq: Option<CpuId>,
    /// The task that the callback is about.
    pub(crate) task: Option<TaskId>,
    /// The first pause in which a path needed what the paused one holds. It would have waited, which it cannot: the run is
    /// void.
    pub(crate) conflict: Option<usize>,
}

impl Default for Held {
    fn default() -> Held {
        Held { on: false, pause: None, cpu: CpuId(0), rq: None, task: None, conflict: None }
    }
}

impl Held {
    /// A path takes or gives back the rq lock of `cpu`, which a paused path holds: true, and a conflict. What follows in the
    /// void run takes no lock any more.
    #[cold]
    pub(crate) fn meets(&mut self, cpu: CpuId) -> bool {
        if self.rq == Some(cpu) {
            self.conflict = self.conflict.or(self.pause);
        }
        self.conflict.is_some()
    }
}

impl Kernel {
    /// A path wakes a task. It would wait for the rq lock of a queued one, or until a running one is off its CPU. True, and a
    /// conflict, where the paused path is in the middle of either.
    #[cold]
    pub(crate) fn wake_conflicts(&mut self, task: TaskId) -> bool {
        let entry = self.task(task);
        let (cpu, queued, runs) = (entry.cpu, entry.on_rq, entry.on_cpu);
        let held = &mut self.held;
        let waits = (queued && held.rq == Some(cpu)) || (runs && held.cpu == cpu) || held.task == Some(task);
        if waits && held.pause.is_some() {
            held.conflict = held.conflict.or(held.pause);
        }
        held.conflict.is_some()
    }
}
