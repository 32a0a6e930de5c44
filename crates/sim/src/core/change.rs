//! Changes of a queued or running task: its attributes, its class, its CPU.

use crate::flags::*;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, TaskId};

impl<S: SchedExt> Sim<S> {
    /// The `sched_change` pattern: off the queue, change, back on.
    pub(crate) fn change(&mut self, task: TaskId, flags: u64, body: impl FnOnce(&mut Self)) {
        self.change_to(task, flags, 0, body);
    }

    /// The `sched_change` pattern with flags for the enqueue alone.
    pub(crate) fn change_to(&mut self, task: TaskId, flags: u64, enqueue: u64, body: impl FnOnce(&mut Self)) {
        let cpu = self.k.task(task).cpu;
        let running = self.k.curr(cpu) == Some(task);
        self.k.rq_lock(cpu);
        if self.k.is_delayed(task) {
            self.k.fair_leave(task);
        }
        let entry = self.k.task(task);
        let (class, queued) = (entry.class, entry.on_rq);
        if queued {
            self.dequeue(task, cpu, class, flags);
        }
        if running && !(queued && class == SchedClass::Fair) {
            self.put_prev(cpu, task, None);
        }
        body(self);
        if queued {
            let entry = self.k.task(task);
            let flags =
                ENQUEUE_RESTORE | ENQUEUE_NOCLOCK | (flags & (DEQUEUE_MOVE | DEQUEUE_CLASS)) | enqueue;
            self.enqueue(task, entry.cpu, entry.class, flags);
        }
        if running && !(queued && self.k.task(task).class == SchedClass::Fair) {
            // The clock of the run queue stands still meanwhile: the time of the change is the task's.
            let since = self.k.task(task).exec_start;
            self.set_next(cpu, task);
            self.k.task_mut(task).set_exec_start(since);
        }
        self.k.rq_unlock(cpu);
        self.run_deferred();
        self.move_deferred_locals();
    }

    /// `set_load_weight()`: the fair class reads nice at the enqueue that follows.
    pub(crate) fn reweight(&mut self, task: TaskId) {
        let entry = self.k.task(task);
        if entry.class != SchedClass::Ext || entry.scx.flags & SCX_TASK_STATE_MASK != SCX_TASK_ENABLED {
            return;
        }
        let (weight, cpu) = (entry.scx_weight(), entry.cpu);
        self.k.task_mut(task).set_scx_weight(weight);
        if self.k.is_elsewhere(task) {
            return self.with_sched_of(task, |sim| sim.reweight(task));
        }
        if self.has(OpKind::SetWeight) {
            let weight = schedlab_base::Weight(weight);
            self.call(OpKind::SetWeight, Some(task), Some(cpu), |ops, k| ops.set_weight(k, task, weight));
        }
    }

    /// `move_queued_task()`: a waiting task leaves a CPU it may not use.
    pub(crate) fn move_queued(&mut self, task: TaskId) {
        let from = self.k.task(task).cpu;
        assert!(!self.k.task(task).on_cpu, "a running task is pushed off by its CPU");
        assert!(!self.k.is_delayed(task), "{task} is awake");
        self.k.rq_lock(from);
        self.deactivate(task, DEQUEUE_NOCLOCK);
        self.k.rq_unlock(from);
        let to = self.fallback_cpu(task, from);
        self.arrive(task, to);
    }

    /// Activates a migrated task on `to`.
    pub(crate) fn arrive(&mut self, task: TaskId, to: CpuId) {
        debug_assert!(!self.k.task(task).on_rq, "{task} arrives off any run queue");
        debug_assert!(to.index() < self.k.cpus.len(), "{to} is a CPU of the machine");
        self.k.set_task_cpu(task, to);
        self.k.rq_lock(to);
        self.activate(task, 0);
        self.wakeup_preempt(to, task, false);
        self.k.rq_unlock(to);
        self.run_deferred();
        self.move_deferred_locals();
    }
}
