//! What the classes have in common: each one's part at the points where the core asks it.

use crate::flags::*;
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use crate::state::task::{RunState, SchedClass};
use schedlab_base::{CpuId, TaskId};

impl<S: SchedExt> Sim<S> {
    /// `activate_task()`: on to the run queue of its CPU.
    #[inline(never)]
    pub(crate) fn activate(&mut self, task: TaskId, flags: u64) {
        let entry = self.k.task_mut(task);
        assert!(!entry.on_rq, "{task} is activated once");
        entry.begin_activation();
        let (cpu, class) = (entry.cpu, entry.class);
        let flags = if entry.migrating { flags | ENQUEUE_MIGRATED } else { flags };
        self.enqueue(task, cpu, class, flags);
        let entry = self.k.task_mut(task);
        entry.migrating = false;
        entry.show_on_rq();
        self.k.note_pressure(task);
    }

    /// The class's `enqueue_task()`, for a task of this CPU and class.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, task: TaskId, cpu: CpuId, class: SchedClass, flags: u64) {
        debug_assert!(self.k.task(task).cpu == cpu, "{task} belongs to {cpu}");
        debug_assert!(self.k.task(task).state != RunState::Dead, "{task} lives");
        match class {
            SchedClass::Dl => self.k.dl_enqueue(cpu, task, flags),
            SchedClass::Rt => self.k.rt_enqueue(cpu, task, flags & SCX_ENQ_HEAD != 0),
            SchedClass::Fair => {
                if !self.k.bandwidth_used() || !self.k.fair_enter_limbo(cpu, task) {
                    self.k.fair_join(cpu, task, flags & ENQUEUE_INITIAL != 0);
                }
            }
            SchedClass::Ext => self.ext_enqueue(cpu, task, flags),
        }
    }

    /// The class's `dequeue_task()`, for a task of this CPU and class.
    /// False when a task that goes to sleep stays on the queue for the time being.
    #[inline(always)]
    pub(super) fn dequeue(&mut self, task: TaskId, cpu: CpuId, class: SchedClass, flags: u64) -> bool {
        debug_assert!(self.k.task(task).on_rq, "{task} is on a run queue");
        debug_assert!(self.k.task(task).cpu == cpu, "{task} belongs to {cpu}");
        match class {
            SchedClass::Dl => self.k.dl_dequeue(cpu, task),
            SchedClass::Rt => self.k.rt_dequeue(cpu, task),
            SchedClass::Fair => {
                if self.k.bandwidth_used() && self.k.fair_leave_limbo(cpu, task) {
                    return true;
                }
                let sleeps = flags & SCX_DEQ_SLEEP != 0 && self.k.task(task).state != RunState::Dead;
                if !self.k.fair_dequeue(cpu, task, sleeps) {
                    return false;
                }
                self.k.count_running(cpu, class, false);
            }
            SchedClass::Ext => self.ext_dequeue(cpu, task, flags),
        }
        true
    }

    /// `deactivate_task()` and `block_task()`: off the run queue, or of the fair class to stay there delayed.
    #[inline(never)]
    pub(crate) fn deactivate(&mut self, task: TaskId, flags: u64) {
        let entry = self.k.task_mut(task);
        assert!(entry.on_rq, "{task} is on a run queue");
        if flags & SCX_DEQ_SLEEP != 0 {
            entry.show_blocked();
        } else {
            entry.migrating = true;
            entry.show_on_rq();
        }
        let (cpu, class) = (entry.cpu, entry.class);
        if self.dequeue(task, cpu, class, flags) {
            self.k.task_mut(task).set_on_rq(false);
        }
        self.k.note_pressure(task);
    }

    #[inline(always)]
    pub(super) fn put_prev(&mut self, cpu: CpuId, task: TaskId, next: Option<TaskId>) {
        match self.k.task(task).class {
            SchedClass::Dl => self.k.dl_update_curr(cpu, task),
            SchedClass::Rt => self.k.rt_update_curr(cpu, task),
            SchedClass::Fair => self.k.fair_put_prev(cpu, task),
            SchedClass::Ext => self.ext_put_prev(cpu, task, next),
        }
    }

    #[inline(always)]
    pub(super) fn set_next(&mut self, cpu: CpuId, task: TaskId) {
        match self.k.task(task).class {
            SchedClass::Dl | SchedClass::Rt => {
                let now = self.k.ctx.now;
                self.k.task_mut(task).set_exec_start(now);
            }
            SchedClass::Fair => self.k.fair_set_next(cpu, task),
            SchedClass::Ext => self.ext_set_next(cpu, task),
        }
    }

    /// The class's `task_tick()`.
    pub(crate) fn tick_of_class(&mut self, cpu: CpuId, task: TaskId) {
        match self.k.task(task).class {
            SchedClass::Dl => self.k.dl_tick(cpu, task),
            SchedClass::Rt => {
                self.k.rt_update_curr(cpu, task);
                self.k.rt_tick(cpu, task);
            }
            SchedClass::Fair => self.k.fair_tick(cpu, task),
            SchedClass::Ext => self.ext_tick(cpu, task),
        }
    }
}
