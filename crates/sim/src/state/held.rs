//! What a callback holds that is paused in the middle, while other CPUs continue.

use schedlab_base::{CpuId, TaskId};

/// The run queue that is locked, if one is, and whether another path has asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
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
        Held { pause: None, cpu: CpuId(0), rq: None, task: None, conflict: None }
    }
}

impl Held {
    /// A path takes or gives back the rq lock of `cpu`, which a paused path holds: true, and a conflict. What follows in the
    /// void run takes no lock any more.
    #[inline(always)]
    pub(crate) fn meets(&mut self, cpu: CpuId) -> bool {
        if self.rq == Some(cpu) {
            self.conflict = self.conflict.or(self.pause);
        }
        self.conflict.is_some()
    }

    /// A path wakes a task of the CPU `cpu` that is queued there or runs. It would wait for the rq lock, or until the task is off
    /// the CPU. True, and a conflict, where the paused path is in the middle of either.
    pub(crate) fn meets_task(&mut self, task: TaskId, cpu: CpuId, (queued, runs): (bool, bool)) -> bool {
        let waits = (queued && self.rq == Some(cpu)) || (runs && self.cpu == cpu) || self.task == Some(task);
        if waits {
            self.conflict = self.conflict.or(self.pause);
        }
        self.conflict.is_some()
    }
}
