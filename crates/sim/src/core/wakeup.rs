//! Wakeups: a CPU is selected, the task is activated there, and whether it preempts is decided.

use super::wake_list::QueuedWakeup;
use crate::flags::*;
use crate::state::ops::{SchedExt, TracePoint, TracePointKind};
use crate::state::sim::{Sim, WakeFlags};
use crate::state::task::{RunState, SchedClass};
use schedlab_base::{CpuId, TaskId};
use schedlab_trace::EventKind;

impl<S: SchedExt> Sim<S> {
    /// Wakes `task` (`try_to_wake_up()`): select_task_rq, enqueue, preemption
    /// check. False when it does not sleep.
    pub(crate) fn wake(&mut self, task: TaskId, flags: WakeFlags) -> bool {
        let Some(entry) = self.k.get_task(task) else { return false };
        if !entry.state.is_blocked() || entry.waking {
            return false;
        }
        if self.k.held.on {
            self.k.wake_meets(task);
        }
        self.trace(TracePointKind::SchedWaking, || TracePoint::SchedWaking { task });
        let waker = if flags.from_interrupt { None } else { self.k.ctx.current };
        let entry = self.k.task_mut(task);
        entry.last_waker = waker;
        let prev = entry.cpu;
        if entry.on_rq {
            self.wake_queued(task, waker);
            return true;
        }
        entry.show_waking();
        let fair = entry.class == SchedClass::Fair;
        if !fair {
            self.charge_wakeup(task);
        }
        let wake_flags = SCX_WAKE_TTWU | if flags.sync { SCX_WAKE_SYNC } else { 0 };
        let (cpu, selected) = self.select_task_rq(task, prev, wake_flags);
        let mut enq_flags = SCX_ENQ_WAKEUP | ENQUEUE_NOCLOCK;
        if selected {
            enq_flags |= SCX_ENQ_CPU_SELECTED;
        }
        if cpu != prev {
            enq_flags |= ENQUEUE_MIGRATED;
            self.k.set_task_cpu(task, cpu);
        }
        if fair {
            if self.k.queues_wakeup(cpu) {
                self.k.queue_wakeup(cpu, QueuedWakeup { task, enq_flags, waker });
                return true;
            }
            self.charge_wakeup(task);
        }
        self.finish_wake(task, cpu, enq_flags, waker);
        true
    }

    /// What waking a task of its class costs the waker.
    fn charge_wakeup(&mut self, task: TaskId) {
        let costs = &self.k.machine.costs;
        let fair = self.k.task(task).class == SchedClass::Fair;
        self.k.charge(if fair { costs.wakeup + costs.fair_wakeup } else { costs.wakeup });
    }

    /// `ttwu_runnable()`: a task on its way to sleep just keeps running; one whose delayed entity is still queued stays
    /// where it is.
    #[inline(never)]
    fn wake_queued(&mut self, task: TaskId, waker: Option<TaskId>) {
        if !self.k.is_delayed(task) {
            self.k.task_mut(task).set_woken();
            self.trace(TracePointKind::SchedWakeup, || TracePoint::SchedWakeup { task });
            return;
        }
        debug_assert!(self.k.task(task).class == SchedClass::Fair, "the fair class alone delays");
        self.charge_wakeup(task);
        let cpu = self.k.task(task).cpu;
        self.k.rq_lock(cpu);
        self.k.fair_requeue(cpu, task);
        self.k.note_pressure(task);
        if !self.k.task(task).on_cpu {
            self.wakeup_preempt(cpu, task, false);
        }
        self.woken(task, waker);
        self.k.rq_unlock(cpu);
    }

    /// `ttwu_do_wakeup()`.
    #[inline(always)]
    fn woken(&mut self, task: TaskId, waker: Option<TaskId>) {
        debug_assert!(self.k.task(task).state != RunState::Dead, "the dead are not woken");
        let entry = self.k.task_mut(task);
        entry.set_woken();
        let cpu = entry.cpu;
        self.k.emit(EventKind::SchedWakeup { task, cpu, waker });
        self.trace(TracePointKind::SchedWakeup, || TracePoint::SchedWakeup { task });
    }

    /// The part of a wakeup under the target's rq lock.
    #[inline(always)]
    pub(crate) fn finish_wake(&mut self, task: TaskId, cpu: CpuId, enq_flags: u64, waker: Option<TaskId>) {
        debug_assert!(
            self.k.task(task).cpu == cpu && !self.k.task(task).on_rq,
            "a task is woken off any run queue"
        );
        self.k.rq_lock(cpu);
        self.activate(task, enq_flags);
        self.wakeup_preempt(cpu, task, false);
        self.woken(task, waker);
        self.k.rq_unlock(cpu);
        if self.k.task(task).class < SchedClass::Fair {
            self.woken_above(task, cpu);
        }
        self.run_deferred();
        self.move_deferred_locals();
    }

    /// `wake_up_new_task()`.
    pub(crate) fn wake_new(&mut self, task: TaskId) {
        debug_assert!(self.k.task(task).state == RunState::New, "a task is new once");
        let entry = self.k.task_mut(task);
        entry.set_state(RunState::Runnable);
        let prev = entry.cpu;
        let (cpu, selected) = self.select_task_rq(task, prev, SCX_WAKE_FORK);
        self.k.set_task_cpu(task, cpu);
        let mut flags = ENQUEUE_NOCLOCK | ENQUEUE_INITIAL;
        if selected {
            flags |= SCX_ENQ_CPU_SELECTED;
        }
        self.k.rq_lock(cpu);
        self.activate(task, flags);
        let waker = self.k.ctx.current;
        self.k.emit(EventKind::SchedWakeup { task, cpu, waker });
        self.trace(TracePointKind::SchedWakeupNew, || TracePoint::SchedWakeupNew { task });
        self.wakeup_preempt(cpu, task, true);
        self.k.rq_unlock(cpu);
        self.run_deferred();
        self.move_deferred_locals();
    }

    /// `select_task_rq()`: the CPU, and whether the class was asked.
    #[inline(always)]
    fn select_task_rq(&mut self, task: TaskId, prev: CpuId, wake_flags: u64) -> (CpuId, bool) {
        let entry = self.k.task(task);
        let (cpu, selected) = if entry.nr_cpus_allowed > 1 && entry.migration_disabled == 0 {
            let cpu = match entry.class {
                SchedClass::Dl => self.k.dl_select(task, prev, wake_flags),
                SchedClass::Rt => self.k.rt_select(task, prev),
                SchedClass::Fair => self.k.fair_select(task, prev, wake_flags),
                SchedClass::Ext => self.ext_select(task, prev, wake_flags),
            };
            (cpu, true)
        } else if entry.migration_disabled > 0 {
            (prev, false)
        } else {
            (entry.cpus_allowed.lowest().expect("an affinity mask is not empty"), false)
        };
        if self.k.task(task).allows_of(cpu, self.k.cpus.len()) && self.k.is_online(cpu) {
            (cpu, selected)
        } else {
            (self.fallback_cpu(task, prev), selected)
        }
    }

    /// `wakeup_preempt()`: between classes the higher one wins, within one it decides. `new` for a task that has just been
    /// forked.
    #[inline(always)]
    pub(crate) fn wakeup_preempt(&mut self, cpu: CpuId, task: TaskId, new: bool) {
        let class = self.k.task(task).class;
        let Some(curr) = self.k.curr(cpu) else {
            self.k.resched_curr(cpu);
            return;
        };
        // A task of the lowest class preempts none.
        if class != SchedClass::Ext {
            self.preempt_by_class(cpu, task, new, curr);
        }
    }

    #[inline(never)]
    fn preempt_by_class(&mut self, cpu: CpuId, task: TaskId, new: bool, curr: TaskId) {
        let (class, running) = (self.k.task(task).class, self.k.task(curr).class);
        debug_assert!(curr != task, "a task does not preempt itself");
        if class < running {
            if running == SchedClass::Ext && self.k.cpu(cpu).nr_immed > 0 {
                self.k.cpu_mut(cpu).reenq_local = true;
            }
            self.k.resched_curr(cpu);
        } else if class == running {
            match class {
                SchedClass::Dl => self.k.dl_wakeup_preempt(cpu, task),
                SchedClass::Rt => {
                    if self.k.task(task).rt_priority() > self.k.task(curr).rt_priority() {
                        self.k.resched_curr(cpu);
                    }
                }
                SchedClass::Fair => self.k.fair_wakeup_preempt(cpu, task, new),
                SchedClass::Ext => {}
            }
        }
    }
}
