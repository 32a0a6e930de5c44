//! Wakeups that the CPU completes where the task is to run (`ttwu_queue_wakelist()`): the waker only sends an interrupt.

use crate::Kernel;
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use schedlab_base::{CpuId, TaskId};

/// A task on its way to a CPU (`TASK_WAKING`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedWakeup {
    pub(crate) task: TaskId,
    pub(crate) enq_flags: u64,
    pub(crate) waker: Option<TaskId>,
}

impl Kernel {
    /// `ttwu_queue_cond()`: the CPU of the context leaves it to `cpu`, which is idle or has another cache, to activate a task of
    /// the fair class.
    pub(crate) fn queues_wakeup(&self, cpu: CpuId) -> bool {
        let (here, there) = (self.ctx.cpu, &self.cpus[cpu.index()]);
        if cpu == here || self.in_setup() {
            return false;
        }
        there.llc != self.cpus[here.index()].llc || there.curr.is_none() && there.nr_running == 0
    }

    /// `__ttwu_queue_wakelist()`.
    pub(crate) fn queue_wakeup(&mut self, cpu: CpuId, wakeup: QueuedWakeup) {
        self.charge(self.machine.costs.wakeup_queued);
        self.task_mut(wakeup.task).waking = true;
        self.pending_wakeups += 1;
        self.cpu_mut(cpu).wake_list.push_back(wakeup);
        self.send_ipi(cpu);
    }
}

impl<S: SchedExt> Sim<S> {
    /// `sched_ttwu_pending()`: the interrupted CPU activates what others have woken for it.
    pub(crate) fn take_wake_list(&mut self, cpu: CpuId) {
        while let Some(QueuedWakeup { task, enq_flags, waker }) = self.k.cpu_mut(cpu).wake_list.pop_front() {
            self.k.pending_wakeups -= 1;
            self.k.task_mut(task).waking = false;
            let costs = &self.k.machine.costs;
            self.k.charge((costs.wakeup + costs.fair_wakeup).saturating_sub(costs.wakeup_queued));
            let allowed = self.k.task(task).allows(cpu) && self.k.is_online(cpu);
            let to = if allowed { cpu } else { self.fallback_cpu(task, cpu) };
            if to != cpu {
                self.k.set_task_cpu(task, to);
            }
            self.finish_wake(task, to, enq_flags, waker);
        }
    }
}
