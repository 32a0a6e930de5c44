//! The tasks while the lane has them: in rows, and the ways in and out.
//!
//! CPUs, queues, locks, events and figures stay where they are: their records are flat already. Tasks alone lie each behind a pointer of
//! its own, with much that no switch touches. So the lane takes over what changes of them, and gives it back.

use crate::Kernel;
use crate::state::programs::FlatPrograms;
use crate::state::task::FlatTask;
use schedlab_base::TaskId;

/// The tasks of the lane.
#[derive(Debug, Default)]
pub(crate) struct Flat {
    /// By id, while the lane has them; else empty.
    pub(crate) tasks: Vec<FlatTask>,
    pub(crate) programs: FlatPrograms,
    /// The general core has had the tasks in the middle of the event that is being taken.
    pub(crate) interrupted: bool,
}

impl Kernel {
    /// True while the lane has the tasks, and [`Kernel::task`] shows them as they were before.
    #[inline(always)]
    pub fn is_flat(&self) -> bool {
        !self.flat.tasks.is_empty()
    }

    /// The task in the lane.
    #[inline(always)]
    pub(crate) fn flat(&mut self, task: TaskId) -> &mut FlatTask {
        &mut self.flat.tasks[task.index()]
    }

    /// Takes all tasks over; false if one of them is more than the lane knows. `pointer` is where programs see a task.
    pub(crate) fn take_over(&mut self, pointer: impl Fn(TaskId) -> u64) -> bool {
        debug_assert!(!self.is_flat() && self.live_tasks == self.tasks_made, "all tasks are there");
        let (cpus, programs) = (self.cpus.len(), &self.flat.programs);
        let flat: Option<Vec<_>> =
            self.tasks.iter().map(|task| task.flatten(cpus, pointer(task.id), programs)).collect();
        self.flat.tasks = flat.unwrap_or_default();
        self.is_flat()
    }

    /// Gives all tasks back.
    pub(crate) fn give_back(&mut self) {
        self.lend();
    }

    /// Gives all tasks back, and returns their rows for [`Kernel::take_back`].
    pub(crate) fn lend(&mut self) -> Vec<FlatTask> {
        let rows = std::mem::take(&mut self.flat.tasks);
        for (number, row) in rows.iter().enumerate() {
            self.tasks.living_mut(TaskId(number as u32)).restore(row, &self.flat.programs);
        }
        rows
    }

    /// Takes the tasks over again in the middle of an event, after which the lane ends.
    pub(crate) fn take_back(&mut self, mut rows: Vec<FlatTask>) {
        let cpus = self.cpus.len();
        for (number, row) in rows.iter_mut().enumerate() {
            row.refresh(self.task(TaskId(number as u32)), cpus);
        }
        self.flat.tasks = rows;
        self.flat.interrupted = true;
    }

    /// Has the general core do something in the middle of an event, of which the lane knows nothing. Takes time in proportion to the
    /// number of tasks; so the lane leaves the next events to the general core.
    #[cold]
    #[inline(never)]
    pub fn in_general<R>(&mut self, body: impl FnOnce(&mut Kernel) -> R) -> R {
        let rows = self.lend();
        let result = body(self);
        self.take_back(rows);
        result
    }
}
