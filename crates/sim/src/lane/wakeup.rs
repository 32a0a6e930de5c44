//! Wakeups by timers.

use crate::class::ext::queue::Insert;
use crate::flags::*;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::rq::Served;
use crate::state::sim::{Sim, WakeFlags};
use crate::state::task::{FlatTask, OpsState};
use schedlab_base::{CpuId, TaskId};
use schedlab_trace::EventKind;

impl<S: SchedExt> Sim<S> {
    /// [`Sim::wake`] by a timer.
    #[inline(never)]
    pub(super) fn lane_wake(&mut self, task: TaskId) {
        let entry = self.k.flat(task);
        if !entry.state.is_blocked() {
            return;
        }
        if entry.on_rq {
            let flags = WakeFlags { from_interrupt: true, ..WakeFlags::default() };
            return self.in_general(move |sim| _ = sim.wake(task, flags));
        }
        entry.last_waker = None;
        entry.show_waking();
        let prev = entry.cpu;
        self.k.lane_charge(self.k.machine.costs.wakeup);
        let mut flags = SCX_ENQ_WAKEUP | ENQUEUE_NOCLOCK;
        let mut cpu = prev;
        // A task that may run on one CPU needs no choice.
        if self.k.cpus.len() > 1 {
            cpu = self.lane_select(task, prev);
            flags |= SCX_ENQ_CPU_SELECTED;
        }
        if cpu != prev {
            flags |= ENQUEUE_MIGRATED;
            self.k.lane_set_task_cpu(task, cpu);
        }
        self.k.lane_acquire(move |k| &mut k.cpus[cpu.index()].lock);
        self.lane_enqueue(cpu, task, flags);
        let entry = self.k.flat(task);
        let fallback = flags & SCX_ENQ_CPU_SELECTED != 0 && entry.selected_cpu != cpu.0 as i32;
        entry.show_on_rq();
        entry.set_woken();
        self.k.sched.events.select_cpu_fallback += u64::from(fallback);
        if self.k.curr(cpu).is_none() {
            self.k.resched_curr(cpu);
        }
        self.k.emit(EventKind::SchedWakeup { task, cpu, waker: None });
        self.k.lane_rq_unlock(cpu);
        self.k.lane_deferred();
    }

    /// [`Sim::ext_select`].
    #[inline(always)]
    fn lane_select(&mut self, task: TaskId, prev: CpuId) -> CpuId {
        if !self.has(OpKind::SelectCpu) {
            return self.lane_select_default(task, prev);
        }
        let pointer = self.lane_pointer(task);
        self.k.sched.direct = Some(Some(task));
        let args = [pointer, u64::from(prev.0), SCX_WAKE_TTWU];
        let cpu = self.lane_call(OpKind::SelectCpu, Some(task), None, args) as u32 as i32;
        self.k.sched.direct = None;
        self.k.flat(task).set_selected_cpu(cpu);
        self.chosen_cpu(cpu, prev)
    }

    /// The same where the scheduler leaves it to the kernel.
    fn lane_select_default(&mut self, task: TaskId, prev: CpuId) -> CpuId {
        let on = self.k.scx.builtin_idle;
        let found = if on { self.k.select_idle(task, prev, SCX_WAKE_TTWU, None, 0) } else { None };
        let cpu = found.unwrap_or(prev);
        self.k.sched.events.refill_slice_dfl += u64::from(found.is_some());
        let entry = self.k.flat(task);
        if found.is_some() {
            entry.ddsp_slice = SCX_SLICE_DFL;
            entry.set_ddsp_enq_flags(0);
            entry.set_ddsp_dsq_id(SCX_DSQ_LOCAL);
        }
        entry.set_selected_cpu(cpu.0 as i32);
        cpu
    }

    /// [`Sim::ext_enqueue`]. The task is on a run queue from now on, which programs do not see before its end.
    #[inline(always)]
    fn lane_enqueue(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        let entry = self.lane_set_runnable(task);
        assert!(entry.scx_flags & SCX_TASK_QUEUED == 0, "{task} is queued once");
        entry.on_rq = true;
        entry.change_scx_flags(SCX_TASK_QUEUED, 0);
        let is_first = self.k.lane_count_running(cpu) == 1;
        if self.has(OpKind::Runnable) {
            let args = [self.lane_pointer(task), flags, 0];
            self.lane_call(OpKind::Runnable, Some(task), Some(cpu), args);
        }
        if is_first {
            self.k.server_start(cpu, Served::Ext);
        }
        self.lane_do_enqueue(cpu, task, flags);
    }

    /// [`Sim::ext_set_runnable`].
    #[inline(always)]
    pub(super) fn lane_set_runnable(&mut self, task: TaskId) -> &mut FlatTask {
        let now = self.k.ctx.now;
        self.k.scx.runnable_seq += 1;
        let seq = self.k.scx.runnable_seq;
        let entry = self.k.flat(task);
        if entry.scx_flags & SCX_TASK_RESET_RUNNABLE_AT != 0 {
            entry.set_runnable_at(now);
            entry.change_scx_flags(0, SCX_TASK_RESET_RUNNABLE_AT);
        }
        entry.set_runnable_seq(seq);
        entry
    }

    /// [`Sim::ext_do_enqueue`], of a task that is not queued again and not past the scheduler.
    #[inline(always)]
    pub(super) fn lane_do_enqueue(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        let entry = self.k.flat(task);
        if entry.scx_flags & SCX_TASK_IMMED != 0 {
            entry.change_scx_flags(0, SCX_TASK_IMMED);
        }
        let direct = entry.ddsp_dsq_id != SCX_DSQ_INVALID;
        if direct || self.lane_hand_over(cpu, task, flags) {
            self.lane_direct_dispatch(cpu, task, flags);
        }
    }

    /// [`Sim::ext_hand_over`].
    #[inline(always)]
    fn lane_hand_over(&mut self, cpu: CpuId, task: TaskId, flags: u64) -> bool {
        let now = self.k.ctx.now;
        let mut entry = self.k.flat(task);
        if entry.pointer == 0 {
            self.show_lane_task(task);
            entry = self.k.flat(task);
        }
        let pointer = entry.pointer;
        entry.ready_at = now;
        assert_eq!(entry.ops_state, OpsState::None, "{task} is handed over once");
        entry.begin_hand_over();
        self.k.sched.direct = Some(Some(task));
        self.lane_call(OpKind::Enqueue, Some(task), Some(cpu), [pointer, flags, 0]);
        self.k.sched.direct = None;
        let entry = self.k.flat(task);
        if entry.ddsp_dsq_id != SCX_DSQ_INVALID {
            return true;
        }
        entry.change_scx_flags(SCX_TASK_IN_CUSTODY, 0);
        entry.set_ops_state(OpsState::Queued);
        false
    }

    /// [`Sim::ext_direct_dispatch`].
    #[inline(always)]
    fn lane_direct_dispatch(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        let entry = self.k.flat(task);
        let (id, all) = (entry.ddsp_dsq_id, entry.ddsp_enq_flags | flags);
        if all & SCX_ENQ_IMMED != 0 {
            return self.in_general(move |sim| sim.ext_direct_dispatch(cpu, task, flags));
        }
        self.k.ctx.site = self.k.sched.direct_site;
        let ix = self.k.dsq_for_dispatch(cpu, id, cpu);
        let elsewhere = self.k.dsq(ix).local.is_some_and(|target| target != cpu);
        let entry = self.k.flat(task);
        if elsewhere {
            entry.set_ddsp_enq_flags(all);
            entry.set_ops_state(OpsState::None);
            let site = self.k.ctx.site.take();
            self.k.scx.deferred_locals.push((task, site));
            return;
        }
        let flags = all | SCX_ENQ_APPLY_SLICE | SCX_ENQ_CLEAR_OPSS;
        let insert = Insert { slice: entry.ddsp_slice, vtime: entry.ddsp_vtime, flags };
        entry.clear_direct();
        self.k.lane_dispatch_enqueue(ix, task, insert);
        self.k.ctx.site = None;
    }
}
