//! The sched_ext class: `kernel/sched/ext/ext.c` for one root scheduler.
//!
//! The order of callbacks is the kernel's. What other CPUs could do in between (the races that
//! `ops_state` guards in the kernel) cannot happen here, since a kernel path runs at once. The
//! states are kept because schedulers can tell.

mod cursor;
pub(crate) mod dump;
pub(crate) mod idle;
pub(crate) mod kfunc;
pub(crate) mod life;
mod past;
mod pick;
pub(crate) mod queue;
pub(crate) mod rescue;
pub(crate) mod sub;
mod tasks;

use crate::class::ext::queue::Insert;
use crate::flags::*;
use crate::state::ops::{OpKind, PreemptReason, SchedExt};
use crate::state::rq::Served;
use crate::state::sim::Sim;
use crate::state::task::{OpsState, SchedClass, Task};
use schedlab_base::{CpuId, KernelChange, TaskId};

/// Getting on and off the run queue.
impl<S: SchedExt> Sim<S> {
    /// `enqueue_task_scx()`. Holds the rq lock of `cpu`.
    #[inline(always)]
    pub(crate) fn ext_enqueue(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        if self.k.is_elsewhere(task) {
            return self.with_sched_of(task, |sim| sim.ext_enqueue_here(cpu, task, flags));
        }
        self.ext_enqueue_here(cpu, task, flags);
    }

    #[inline(always)]
    fn ext_enqueue_here(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        let restored = flags & ENQUEUE_RESTORE != 0 && self.k.curr(cpu) == Some(task);
        let flags = if restored && self.k.machine.kernel.version.has(KernelChange::SubSchedulers) {
            flags | SCX_ENQ_IGNORE_CAPS
        } else {
            flags
        };
        let entry = self.ext_set_runnable(task);
        assert!(entry.scx.flags & SCX_TASK_QUEUED == 0, "{task} is queued once");
        entry.add_scx_flags(SCX_TASK_QUEUED);
        self.k.count_running(cpu, SchedClass::Ext, true);
        if self.has(OpKind::Runnable) && !self.k.task(task).migrating {
            self.call(OpKind::Runnable, Some(task), Some(cpu), |ops, k| ops.runnable(k, task, flags));
        }
        if self.k.cpu(cpu).scx_nr_running == 1 {
            self.k.server_start(cpu, Served::Ext);
        }
        if restored {
            let local = self.k.dsq_local(cpu);
            self.k.dispatch_enqueue(local, task, Insert { flags, ..Insert::default() });
        } else {
            self.ext_do_enqueue(cpu, task, flags);
        }
        let selected = self.k.task(task).scx.selected_cpu;
        if flags & SCX_ENQ_CPU_SELECTED != 0 && selected != cpu.0 as i32 {
            self.k.sched.events.select_cpu_fallback += 1;
        }
        self.run_deferred();
    }

    /// `set_task_runnable()`: the wait for a CPU begins.
    #[inline(always)]
    fn ext_set_runnable(&mut self, task: TaskId) -> &mut Task {
        debug_assert!(self.k.task(task).class == SchedClass::Ext, "the task is one of sched_ext");
        let now = self.k.ctx.now;
        self.k.scx.runnable_seq += 1;
        let seq = self.k.scx.runnable_seq;
        let entry = self.k.task_mut(task);
        if entry.scx.flags & SCX_TASK_RESET_RUNNABLE_AT != 0 {
            entry.set_runnable_at(now);
            entry.drop_scx_flags(SCX_TASK_RESET_RUNNABLE_AT);
        }
        entry.set_runnable_seq(seq);
        entry
    }

    /// `scx_do_enqueue_task()`: to the scheduler, or past it.
    pub(super) fn ext_do_enqueue(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        let entry = self.k.task_mut(task);
        if entry.scx.flags & SCX_TASK_IMMED != 0 {
            entry.drop_scx_flags(SCX_TASK_IMMED);
        }
        if flags & SCX_ENQ_REENQ != 0 {
            let scx = &mut self.k.task_mut(task).scx;
            scx.reenq_cnt += 1;
            let count = scx.reenq_cnt;
            if !self.count_reenqueue(task, count) {
                let global = self.k.dsq_global(cpu);
                self.k.dispatch_enqueue(global, task, Insert { flags, ..Insert::default() });
                return;
            }
        }
        if let Some(ix) = self.queue_past(cpu, task) {
            self.ext_enqueue_past(ix, task, flags);
            return;
        }
        let direct = self.k.task(task).scx.ddsp_dsq_id != SCX_DSQ_INVALID;
        if direct || self.ext_hand_over(cpu, task, flags) {
            self.ext_direct_dispatch(cpu, task, flags);
        }
    }

    fn clear_direct(&mut self, task: TaskId) {
        let entry = self.k.task_mut(task);
        entry.set_ddsp_dsq_id(SCX_DSQ_INVALID);
        entry.set_ddsp_enq_flags(0);
    }

    /// `ops.enqueue()`: the scheduler gets custody unless it dispatches directly, which is still to be carried out: true
    /// then.
    #[inline(always)]
    fn ext_hand_over(&mut self, cpu: CpuId, task: TaskId, flags: u64) -> bool {
        let now = self.k.ctx.now;
        let entry = self.k.task_mut(task);
        entry.ready_at = now;
        assert_eq!(entry.scx.ops_state, OpsState::None, "{task} is handed over once");
        entry.begin_hand_over();
        self.k.sched.direct = Some(Some(task));
        self.call(OpKind::Enqueue, Some(task), Some(cpu), |ops, k| ops.enqueue(k, task, flags));
        self.k.sched.direct = None;
        let entry = self.k.task_mut(task);
        if entry.scx.ddsp_dsq_id != SCX_DSQ_INVALID {
            return true;
        }
        entry.add_scx_flags(SCX_TASK_IN_CUSTODY);
        entry.set_ops_state(OpsState::Queued);
        false
    }

    /// `direct_dispatch()`: another CPU's local queue has to wait for its lock.
    pub(crate) fn ext_direct_dispatch(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        let entry = self.k.task_mut(task);
        entry.set_ddsp_enq_flags(entry.scx.ddsp_enq_flags | flags);
        let scx = &entry.scx;
        let id = scx.ddsp_dsq_id;
        let flags = scx.ddsp_enq_flags | SCX_ENQ_APPLY_SLICE | SCX_ENQ_CLEAR_OPSS;
        let insert = Insert { slice: scx.ddsp_slice, vtime: scx.ddsp_vtime, flags };
        self.k.ctx.site = self.k.sched.direct_site;
        let ix = self.k.dsq_for_dispatch(cpu, id, cpu);
        if self.k.dsq(ix).local.is_some_and(|target| target != cpu) {
            self.k.task_mut(task).set_ops_state(OpsState::None);
            let site = self.k.ctx.site.take();
            self.k.scx.deferred_locals.push((task, site));
            return;
        }
        self.clear_direct(task);
        self.k.dispatch_enqueue(ix, task, insert);
        self.k.ctx.site = None;
    }

    /// `process_ddsp_deferred_locals()`: direct dispatches to other CPUs.
    #[inline]
    pub(crate) fn move_deferred_locals(&mut self) {
        if !self.k.scx.deferred_locals.is_empty() {
            self.move_all_deferred_locals();
        }
    }

    #[inline(never)]
    fn move_all_deferred_locals(&mut self) {
        while let Some((task, site)) = self.k.scx.deferred_locals.pop() {
            let Some(entry) = self.k.get_task(task) else { continue };
            let (scx, cpu) = (entry.scx, entry.cpu);
            if self.k.is_elsewhere(task) {
                self.k.scx.deferred_locals.push((task, site));
                self.with_sched_of(task, |sim| sim.move_all_deferred_locals());
                continue;
            }
            if scx.ddsp_dsq_id == SCX_DSQ_INVALID || scx.flags & SCX_TASK_QUEUED == 0 || scx.dsq.is_some() {
                continue;
            }
            self.k.ctx.site = site;
            let ix = self.k.dsq_for_dispatch(cpu, scx.ddsp_dsq_id, cpu);
            self.clear_direct(task);
            let flags = scx.ddsp_enq_flags | SCX_ENQ_APPLY_SLICE;
            let insert = Insert { slice: scx.ddsp_slice, vtime: scx.ddsp_vtime, flags };
            match self.k.dsq(ix).local {
                Some(target) => {
                    let here = self.k.ctx.cpu;
                    self.k.dispatch_to_local(here, target, task, insert);
                }
                None => self.k.dispatch_enqueue(ix, task, insert),
            }
            self.k.ctx.site = None;
            self.run_deferred();
        }
    }

    /// `dequeue_task_scx()`. Holds the rq lock of `cpu`.
    #[inline(always)]
    pub(crate) fn ext_dequeue(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        if self.k.is_elsewhere(task) {
            return self.with_sched_of(task, |sim| sim.ext_dequeue_here(cpu, task, flags));
        }
        self.ext_dequeue_here(cpu, task, flags);
    }

    #[inline(always)]
    fn ext_dequeue_here(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        let flags = if flags & SCX_DEQ_SLEEP == 0 { flags | SCX_DEQ_SCHED_CHANGE } else { flags };
        let entry = self.k.task_mut(task);
        assert!(entry.scx.flags & SCX_TASK_QUEUED != 0, "{task} is queued");
        entry.set_runnable_seq(0);
        entry.set_ops_state(OpsState::None);
        if entry.scx.flags & SCX_TASK_IN_CUSTODY != 0 {
            self.k.end_custody(task, flags);
        }
        self.run_deferred();
        let running = self.k.curr(cpu) == Some(task);
        if running {
            self.k.scx_update_curr(task);
            if self.has(OpKind::Stopping) {
                self.call(OpKind::Stopping, Some(task), Some(cpu), |ops, k| ops.stopping(k, task, false));
            }
        }
        if self.has(OpKind::Quiescent) && !self.k.task(task).migrating {
            self.call(OpKind::Quiescent, Some(task), Some(cpu), |ops, k| ops.quiescent(k, task, flags));
        }
        let entry = self.k.task_mut(task);
        let sleeps = if flags & SCX_DEQ_SLEEP != 0 { SCX_TASK_DEQD_FOR_SLEEP } else { 0 };
        let others = entry.scx.flags & !(SCX_TASK_QUEUED | SCX_TASK_DEQD_FOR_SLEEP);
        entry.set_scx_flags(others | sleeps);
        self.k.count_running(cpu, SchedClass::Ext, false);
        self.k.dispatch_dequeue(task);
        if flags & DEQUEUE_SAVE == 0 || !running {
            self.k.slice_ended(task);
        }
        self.clear_direct(task);
    }

    /// `reenq_local()`: tasks that must run at once but cannot go back to the
    /// scheduler; with `reenq_any` all tasks of the local queue do.
    #[inline]
    pub(crate) fn reenqueue_locals(&mut self, cpu: CpuId) {
        if std::mem::take(&mut self.k.cpu_mut(cpu).reenq_local) {
            self.reenqueue_tasks(cpu);
        }
    }

    #[inline(never)]
    fn reenqueue_tasks(&mut self, cpu: CpuId) {
        let any = std::mem::take(&mut self.k.cpu_mut(cpu).reenq_any);
        let open = self.k.rq_is_open(cpu, 0);
        let mut tasks = Vec::new();
        let mut at = self.k.dsq(self.k.dsq_local(cpu)).head;
        let mut first = true;
        while let Some(task) = at {
            let scx = &self.k.task(task).scx;
            at = scx.dsq_next;
            let rescued = self.k.is_rescued(task, cpu);
            let immed = scx.flags & SCX_TASK_IMMED != 0 && !(first && open) && !rescued;
            first = false;
            if immed || any && !rescued {
                tasks.push((task, immed));
            }
        }
        for &(task, immed) in &tasks {
            self.k.dispatch_dequeue(task);
            self.k.sched.events.reenq_immed += u64::from(immed);
            let reason = if immed { SCX_TASK_REENQ_IMMED } else { SCX_TASK_REENQ_KFUNC };
            self.k.task_mut(task).add_scx_flags(reason);
        }
        for (task, _) in tasks {
            if self.k.is_elsewhere(task) {
                self.with_sched_of(task, |sim| sim.ext_do_enqueue(cpu, task, SCX_ENQ_REENQ));
            } else {
                self.ext_do_enqueue(cpu, task, SCX_ENQ_REENQ);
            }
            self.k.task_mut(task).drop_scx_flags(SCX_TASK_REENQ_REASON_MASK);
        }
        if self.k.subs.many {
            self.reenqueue_for_subs(cpu);
        }
        self.run_deferred();
        self.move_deferred_locals();
    }
}

/// Choosing and running.
impl<S: SchedExt> Sim<S> {
    /// `select_task_rq_scx()`.
    #[inline(always)]
    pub(crate) fn ext_select(&mut self, task: TaskId, prev: CpuId, wake_flags: u64) -> CpuId {
        if self.k.is_elsewhere(task) {
            return self.with_sched_of(task, |sim| sim.ext_select_here(task, prev, wake_flags));
        }
        self.ext_select_here(task, prev, wake_flags)
    }

    #[inline(always)]
    fn ext_select_here(&mut self, task: TaskId, prev: CpuId, wake_flags: u64) -> CpuId {
        if self.k.sched.bypassing {
            self.k.sched.events.bypass_dispatch += 1;
            self.k.task_mut(task).set_selected_cpu(prev.0 as i32);
            return prev;
        }
        if self.has(OpKind::SelectCpu) {
            self.k.sched.direct = Some(Some(task));
            let cpu = self.call(OpKind::SelectCpu, Some(task), None, |ops, k| {
                ops.select_cpu(k, task, prev, wake_flags)
            });
            self.k.sched.direct = None;
            self.k.task_mut(task).set_selected_cpu(cpu);
            return self.chosen_cpu(cpu, prev);
        }
        let found =
            if self.k.scx.builtin_idle { self.k.select_idle(task, prev, wake_flags, None, 0) } else { None };
        if found.is_some() {
            self.k.sched.events.refill_slice_dfl += 1;
            let entry = self.k.task_mut(task);
            entry.scx.ddsp_slice = SCX_SLICE_DFL;
            entry.set_ddsp_enq_flags(0);
            entry.set_ddsp_dsq_id(SCX_DSQ_LOCAL);
        }
        let cpu = found.unwrap_or(prev);
        self.k.task_mut(task).set_selected_cpu(cpu.0 as i32);
        cpu
    }

    /// The CPU that `ops.select_cpu()` answered; an error, and `prev`, where there is none of that number.
    #[inline(always)]
    pub(crate) fn chosen_cpu(&mut self, cpu: i32, prev: CpuId) -> CpuId {
        self.k.valid_cpu(cpu, Some("from ops.select_cpu()")).unwrap_or(prev)
    }

    /// `set_next_task_scx()`.
    #[inline(always)]
    pub(crate) fn ext_set_next(&mut self, cpu: CpuId, task: TaskId) {
        if self.k.is_elsewhere(task) {
            return self.with_sched_of(task, |sim| sim.ext_set_next_here(cpu, task));
        }
        self.ext_set_next_here(cpu, task);
    }

    #[inline(always)]
    fn ext_set_next_here(&mut self, cpu: CpuId, task: TaskId) {
        if self.k.task(task).scx.flags & SCX_TASK_QUEUED != 0 {
            self.k.end_custody(task, SCX_DEQ_CORE_SCHED_EXEC);
            self.k.dispatch_dequeue(task);
        }
        let now = self.k.ctx.now;
        let entry = self.k.task_mut(task);
        let (now, queued) = (now.max(entry.ready_at), entry.scx.flags & SCX_TASK_QUEUED != 0);
        entry.set_exec_start(now);
        self.k.ctx.now = now;
        // Linux 7.3.4 shows programs no CPU on which the task waits any more.
        self.k.task_mut(task).set_runnable_seq(0);
        if self.has(OpKind::Running) && queued {
            self.call(OpKind::Running, Some(task), Some(cpu), |ops, k| ops.running(k, task));
        }
        // clr_task_runnable(): the wait is over.
        let entry = self.k.task_mut(task);
        entry.add_scx_flags(SCX_TASK_RESET_RUNNABLE_AT);
        entry.scx.reenq_cnt = 0;
    }

    /// `put_prev_task_scx()`.
    #[inline(always)]
    pub(crate) fn ext_put_prev(&mut self, cpu: CpuId, task: TaskId, next: Option<TaskId>) {
        if self.k.is_elsewhere(task) {
            return self.with_sched_of(task, |sim| sim.ext_put_prev_here(cpu, task, next));
        }
        self.ext_put_prev_here(cpu, task, next);
    }

    #[inline(always)]
    fn ext_put_prev_here(&mut self, cpu: CpuId, task: TaskId, next: Option<TaskId>) {
        self.k.cpu_mut(cpu).kick_sync += 1;
        self.k.scx_update_curr(task);
        let kept = self.k.subs.many && self.ext_slice_over(cpu, task);
        if self.is_queued(Some(task)) {
            if self.has(OpKind::Stopping) {
                self.call(OpKind::Stopping, Some(task), Some(cpu), |ops, k| ops.stopping(k, task, true));
            }
            self.ext_set_runnable(task);
            if self.k.is_rescued(task, cpu) {
                self.ext_put_rescued(cpu, task, kept);
            } else {
                self.ext_put_queued(cpu, task, next);
            }
        }
        self.ext_release_cpu(cpu, next);
    }

    /// The slice of a task that is put may be over, and with it its rescue; true if that continues.
    #[cold]
    fn ext_slice_over(&mut self, cpu: CpuId, task: TaskId) -> bool {
        if self.k.task(task).scx.slice != 0 {
            return false;
        }
        let kept = self.k.is_rescued(task, cpu) && self.k.rescue_keep(cpu, task);
        if !kept {
            self.k.slice_ended(task);
        }
        kept
    }

    /// A task that is being rescued stays on the local queue: behind what has preempted it, or in front.
    #[cold]
    fn ext_put_rescued(&mut self, cpu: CpuId, task: TaskId, kept: bool) {
        let flags = SCX_ENQ_IGNORE_CAPS | if kept { 0 } else { SCX_ENQ_HEAD };
        let local = self.k.dsq_local(cpu);
        self.k.dispatch_enqueue(local, task, Insert { flags, ..Insert::default() });
        self.run_deferred();
    }

    /// Where a preempted task goes: with slice left to the head of the local queue,
    /// otherwise back to the scheduler.
    #[inline(never)]
    pub(crate) fn ext_put_queued(&mut self, cpu: CpuId, task: TaskId, next: Option<TaskId>) {
        let scx = self.k.task(task).scx;
        if scx.slice != 0 && !self.k.sched.bypassing {
            if scx.flags & SCX_TASK_IMMED != 0 {
                self.k.task_mut(task).add_scx_flags(SCX_TASK_REENQ_PREEMPTED);
                self.ext_do_enqueue(cpu, task, SCX_ENQ_REENQ);
                self.k.task_mut(task).drop_scx_flags(SCX_TASK_REENQ_REASON_MASK);
            } else {
                let local = self.k.dsq_local(cpu);
                let flags = SCX_ENQ_HEAD;
                self.k.dispatch_enqueue(local, task, Insert { flags, ..Insert::default() });
            }
        } else if next.is_none() && self.k.can_stay(task, cpu) {
            self.ext_do_enqueue(cpu, task, SCX_ENQ_LAST);
            if self.k.dsq(self.k.dsq_local(cpu)).nr > 0 {
                self.k.resched_after_pick = true;
            }
        } else {
            self.ext_do_enqueue(cpu, task, 0);
        }
        self.run_deferred();
    }

    /// `switch_class()`: a higher class takes the CPU.
    fn ext_release_cpu(&mut self, cpu: CpuId, next: Option<TaskId>) {
        if self.has(OpKind::CpuAcquire) || self.has(OpKind::CpuRelease) {
            self.ext_tell_release(cpu, next);
        }
    }

    #[inline(never)]
    fn ext_tell_release(&mut self, cpu: CpuId, next: Option<TaskId>) {
        let Some(next) = next.filter(|&next| self.k.task(next).class != SchedClass::Ext) else { return };
        if self.k.cpu(cpu).cpu_released {
            return;
        }
        self.k.cpu_mut(cpu).cpu_released = true;
        if self.has(OpKind::CpuRelease) {
            let reason = match self.k.task(next).class {
                SchedClass::Dl => PreemptReason::Dl,
                SchedClass::Rt => PreemptReason::Rt,
                SchedClass::Fair | SchedClass::Ext => PreemptReason::Unknown,
            };
            self.call(OpKind::CpuRelease, None, Some(cpu), |ops, k| {
                ops.cpu_release(k, cpu, reason, Some(next))
            });
        }
    }

    /// `task_tick_scx()`.
    pub(crate) fn ext_tick(&mut self, cpu: CpuId, task: TaskId) {
        if self.k.is_elsewhere(task) {
            return self.with_sched_of(task, |sim| sim.ext_tick(cpu, task));
        }
        self.k.scx_update_curr(task);
        if self.k.sched.bypassing {
            self.k.task_mut(task).set_slice(0);
        } else if self.has(OpKind::Tick) {
            self.call(OpKind::Tick, Some(task), Some(cpu), |ops, k| ops.tick(k, task));
        }
        if self.k.task(task).scx.slice == 0 {
            self.k.resched_curr(cpu);
        }
    }

    /// `yield_task_scx()`.
    pub(crate) fn ext_yield(&mut self, cpu: CpuId, task: TaskId) {
        if self.k.is_elsewhere(task) {
            return self.with_sched_of(task, |sim| sim.ext_yield(cpu, task));
        }
        self.k.slice_ended(task);
        if self.has(OpKind::Yield) {
            self.call(OpKind::Yield, Some(task), Some(cpu), |ops, k| ops.yield_task(k, task, None));
        } else {
            self.k.task_mut(task).set_slice(0);
        }
    }

    /// The idle task is switched to or from (`scx_update_idle()`).
    pub(crate) fn switch_idle(&mut self, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>) {
        if prev.is_some() != next.is_some() && self.k.scx.loaded {
            self.update_idle(cpu, next.is_none());
        }
    }

    #[inline(never)]
    fn update_idle(&mut self, cpu: CpuId, idle: bool) {
        if self.k.scx.builtin_idle {
            self.k.idle_update(cpu, idle);
        }
        if self.has(OpKind::UpdateIdle) && !self.k.sched.bypassing {
            self.call(OpKind::UpdateIdle, None, Some(cpu), |ops, k| ops.update_idle(k, cpu, idle));
        }
        if self.k.subs.many {
            self.tell_subs_idle(cpu, idle, true);
        }
    }

    /// An idle CPU found nothing and stays idle: its idle bit comes back.
    pub(crate) fn idle_again(&mut self, cpu: CpuId) {
        if self.k.scx.loaded && self.k.scx.builtin_idle {
            self.k.idle_update(cpu, true);
        }
        if self.k.subs.many {
            self.tell_subs_idle(cpu, true, false);
        }
    }
}
