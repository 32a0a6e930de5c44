//! Run queue basics that need no callback: reschedule requests, accounting of
//! run time, changes of CPU.

use crate::Kernel;
use crate::event::OfCpu;
use crate::flags::SCX_SLICE_INF;
use crate::state::ops::{TracePoint, TracePointKind};
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, DurationNs, KernelVersion, Preemption, TaskId};
use schedlab_trace::EventKind;

/// Whose deadline server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// `rq->fair_server`.
    Fair,
    /// `rq->ext_server`.
    Ext,
}

/// What the real-time tasks of a CPU have had (`struct rt_rq`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RtBudget {
    /// CPU time since the period began, of which each new period takes its part (`rt_time`).
    pub(crate) used: DurationNs,
    /// The tasks wait for the next period (`rt_throttled`).
    pub(crate) throttled: bool,
}

/// Throttling of real-time tasks, on kernels that do it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtThrottling {
    /// What they may have of a second.
    pub(crate) runtime: Option<DurationNs>,
    /// The timer of the seconds goes.
    pub(crate) ticks: bool,
}

impl RtThrottling {
    /// As a version of the kernel has it.
    pub(crate) fn new(version: KernelVersion) -> RtThrottling {
        RtThrottling { runtime: version.rt_runtime(), ticks: false }
    }
}

impl Kernel {
    /// `resched_curr()`: the CPU schedules at its next chance; another CPU gets an
    /// interrupt.
    #[inline(never)]
    pub(crate) fn resched_curr(&mut self, cpu: CpuId) {
        let here = self.ctx.cpu;
        let entry = &mut self.cpus[cpu.index()];
        if entry.need_resched || !entry.online && entry.curr.is_none() {
            return;
        }
        entry.need_resched = true;
        if cpu == here && !self.in_setup() {
            return;
        }
        self.send_ipi(cpu);
    }

    /// An interrupt for another CPU, unless one is on its way.
    pub(crate) fn send_ipi(&mut self, cpu: CpuId) {
        if std::mem::replace(&mut self.cpus[cpu.index()].ipi_pending, true) {
            return;
        }
        self.charge(self.machine.costs.ipi_send);
        debug_assert!(cpu.index() < self.cpus.len(), "{cpu} is a CPU of the machine");
        self.queue.expect(OfCpu::Ipi, cpu, self.ctx.now + self.machine.costs.ipi_latency);
    }

    /// `resched_curr_lazy()`: with PREEMPT_LAZY a busy CPU schedules at its next return to user mode, without an
    /// interrupt for it.
    pub(crate) fn resched_lazy(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].curr.is_none() || self.machine.kernel.preempt == Preemption::Full {
            self.resched_curr(cpu);
        } else {
            self.cpu_mut(cpu).lazy_resched = true;
        }
    }

    /// The CPU of the context is about to return to user mode from a system call: a lazy request to reschedule is due.
    #[inline]
    pub(crate) fn return_to_user(&mut self) {
        let entry = &mut self.cpus[self.ctx.cpu.index()];
        entry.need_resched |= entry.lazy_resched;
    }

    /// `update_curr_common()` of a running task; returns what was charged in ns.
    pub(crate) fn charge_runtime(&mut self, task: TaskId) -> u64 {
        let now = self.ctx.now;
        self.task_mut(task).charge_runtime(now)
    }

    /// `update_curr_scx()`: also consumes the slice.
    pub(crate) fn scx_update_curr(&mut self, task: TaskId) {
        let now = self.ctx.now;
        let entry = self.task_mut(task);
        debug_assert!(entry.class == SchedClass::Ext, "slices are of sched_ext");
        let delta = entry.charge_runtime(now);
        if entry.scx.slice != SCX_SLICE_INF {
            entry.set_slice(entry.scx.slice.saturating_sub(delta));
        }
        let cpu = entry.cpu;
        if self.is_rescued(task, cpu) {
            self.rescue_charge(cpu, task, delta);
        }
        self.server_update(cpu, Served::Ext, delta);
    }

    /// `set_task_cpu()`.
    pub(crate) fn set_task_cpu(&mut self, task: TaskId, to: CpuId) {
        let entry = self.task(task);
        let from = entry.cpu;
        if from == to {
            return;
        }
        debug_assert!(!entry.on_cpu, "a running task does not change its CPU");
        self.leave_pressure(task);
        let entry = self.task_mut(task);
        entry.set_cpu(to);
        entry.count_migration();
        self.note_pressure(task);
        self.emit(EventKind::SchedMigrate { task, from, to });
        self.fire(TracePointKind::SchedMigrateTask, || TracePoint::SchedMigrateTask { task, dest: to });
    }

    /// Counts a task on to or off the run queue of `cpu`.
    pub(crate) fn count_running(&mut self, cpu: CpuId, class: SchedClass, on: bool) {
        self.total_running = if on { self.total_running + 1 } else { self.total_running - 1 };
        let entry = &mut self.cpus[cpu.index()];
        let ext = u32::from(class == SchedClass::Ext);
        if on {
            entry.nr_running += 1;
            entry.scx_nr_running += ext;
        } else {
            assert!(entry.nr_running > 0, "a counted task leaves");
            entry.nr_running -= 1;
            entry.scx_nr_running -= ext;
            debug_assert!(
                entry.scx_nr_running <= entry.nr_running,
                "tasks of sched_ext are counted among all"
            );
        }
    }
}
