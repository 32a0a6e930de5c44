//! What a callback holds that is paused in the middle, while other CPUs continue.

use crate::Kernel;
use schedlab_base::{CpuId, TaskId, TimeNs};

/// The run queue that is locked, if one is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// A callback is paused: what follows is looked at only then.
    pub(crate) on: bool,
    /// The number of the pause, while other CPUs continue.
    pub(crate) pause: Option<usize>,
    /// The CPU that is paused.
    pub(crate) cpu: CpuId,
    /// The CPU whose rq lock the paused path holds.
    pub(crate) rq: Option<CpuId>,
    /// The task that the callback is about.
    pub(crate) task: Option<TaskId>,
}

impl Default for Held {
    fn default() -> Held {
        Held { on: false, pause: None, cpu: CpuId(0), rq: None, task: None }
    }
}

/// A path needs what the paused one holds. It would wait, which it cannot here: the run is void. The run's stack is unwound with
/// this value, because neither path can continue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conflict {
    /// When.
    pub(crate) at: TimeNs,
    /// The number of the pause.
    pub(crate) pause: usize,
}

impl Kernel {
    /// A path takes or gives back the rq lock of `cpu`.
    #[cold]
    pub(crate) fn lock_meets(&self, cpu: CpuId) {
        if self.held.rq == Some(cpu) {
            self.conflict();
        }
    }

    /// A path wakes a task. It would wait for the rq lock of a queued one, or until a running one is off its CPU.
    #[cold]
    pub(crate) fn wake_meets(&self, task: TaskId) {
        let entry = self.task(task);
        let (cpu, queued, runs) = (entry.cpu, entry.on_rq, entry.on_cpu);
        let held = &self.held;
        if (queued && held.rq == Some(cpu)) || (runs && held.cpu == cpu) || held.task == Some(task) {
            self.conflict();
        }
    }

    /// Ends the run, unless the paused path itself continues.
    fn conflict(&self) {
        if let Some(pause) = self.held.pause {
            std::panic::resume_unwind(Box::new(Conflict { at: self.ctx.now, pause }));
        }
    }
}
