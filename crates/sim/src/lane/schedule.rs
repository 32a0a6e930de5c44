//! `schedule()`: the pick and the switch between tasks of sched_ext, or with the idle task.

use crate::flags::*;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::task::{OpsState, RunState, SchedClass};
use schedlab_base::{CpuId, DurationNs, TaskId};
use schedlab_trace::{EventKind, TaskState};

use crate::class::ext::queue::Insert;

/// What a pass through `schedule()` came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// The CPU continues.
    On,
    /// There is nothing left to do: the pass was laid down, or the general core has done it and what followed.
    Over,
}

impl<S: SchedExt> Sim<S> {
    /// [`Sim::schedule`].
    #[inline(never)]
    pub(super) fn lane_schedule(&mut self, cpu: CpuId) -> Passed {
        let entry = self.k.cpu_mut(cpu);
        if entry.servers.running().is_some() {
            return self.finish_in_general(move |sim| {
                if sim.schedule(cpu) {
                    sim.k.run_kicks();
                    sim.run_current(cpu);
                }
            });
        }
        let prev = entry.curr;
        entry.kick_sync += 1;
        self.k.lane_charge(self.k.machine.costs.schedule);
        self.k.lane_acquire(move |k| &mut k.cpus[cpu.index()].lock);
        let voluntary = prev.is_some_and(|task| self.k.flat(task).state != RunState::Runnable);
        if let Some(task) = prev.filter(|_| voluntary) {
            self.k.lane_charge(self.k.machine.costs.block);
            self.lane_dequeue(cpu, task);
        }
        let next = self.lane_pick(cpu, prev);
        if self.lays_down(prev, next) {
            self.lay_down(cpu);
            return Passed::Over;
        }
        if next == prev {
            if prev.is_none() {
                self.idle_again(cpu);
            }
            self.clear_resched(cpu);
            self.k.lane_rq_unlock(cpu);
        } else {
            self.lane_switch(cpu, (prev, next), voluntary);
        }
        self.lane_end_pass(cpu);
        Passed::On
    }

    /// [`Sim::is_to_lay_down`].
    #[inline(always)]
    fn lays_down(&mut self, prev: Option<TaskId>, next: Option<TaskId>) -> bool {
        let (Some(leaves), true) = (prev, next.is_some() && next != prev) else { return false };
        self.k.flat(leaves).on_rq
            && self.k.queue.next_time() < self.k.ctx.now
            && self.k.scx.deferred_locals.is_empty()
    }

    /// [`Sim::take_up`].
    pub(super) fn lane_take_up(&mut self, cpu: CpuId) {
        let entry = self.k.cpu_mut(cpu);
        entry.pass.take().expect("a pass was laid down");
        let (asked, kicks) = (entry.need_resched, !entry.kicks.is_empty());
        self.k.kicks_pending = kicks;
        self.k.rq_relock(cpu);
        let prev = self.k.curr(cpu);
        let next = self.lane_pick(cpu, prev);
        if next == prev {
            self.clear_resched(cpu);
            self.k.lane_rq_unlock(cpu);
        } else {
            self.lane_switch(cpu, (prev, next), false);
        }
        self.k.cpu_mut(cpu).need_resched |= asked;
        self.lane_end_pass(cpu);
    }

    /// [`Sim::end_pass`].
    #[inline(always)]
    fn lane_end_pass(&mut self, cpu: CpuId) {
        self.k.lane_deferred();
        if self.k.cpu(cpu).reenq_local {
            self.in_general(move |sim| sim.reenqueue_locals(cpu));
        }
    }

    /// [`Sim::ext_dequeue`] of the running task, which goes to sleep and is on no run queue then.
    #[inline(always)]
    fn lane_dequeue(&mut self, cpu: CpuId, task: TaskId) {
        let entry = self.k.flat(task);
        entry.show_blocked();
        assert!(entry.scx_flags & SCX_TASK_QUEUED != 0, "{task} is queued");
        entry.set_runnable_seq(0);
        entry.set_ops_state(OpsState::None);
        entry.change_scx_flags(0, SCX_TASK_IN_CUSTODY);
        self.k.lane_update_curr(task);
        self.lane_stopping(cpu, task, false);
        if self.has(OpKind::Quiescent) {
            let args = [self.lane_pointer(task), SCX_DEQ_SLEEP | DEQUEUE_NOCLOCK, 0];
            self.lane_call(OpKind::Quiescent, Some(task), Some(cpu), args);
        }
        let entry = self.k.flat(task);
        entry.change_scx_flags(SCX_TASK_DEQD_FOR_SLEEP, SCX_TASK_QUEUED);
        if entry.dsq.is_some() {
            self.k.lane_dispatch_dequeue(task);
        }
        let entry = self.k.flat(task);
        entry.clear_direct();
        entry.on_rq = false;
        entry.show_on_rq();
        self.k.count_running(cpu, SchedClass::Ext, false);
    }

    #[inline(always)]
    fn lane_stopping(&mut self, cpu: CpuId, task: TaskId, runnable: bool) {
        if self.has(OpKind::Stopping) {
            let pointer = self.lane_pointer(task);
            self.lane_call(OpKind::Stopping, Some(task), Some(cpu), [pointer, u64::from(runnable), 0]);
        }
    }

    /// [`Sim::ext_pick`].
    #[inline(always)]
    fn lane_pick(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        self.k.cpu_mut(cpu).in_dispatch = true;
        let mut keeps = match prev {
            Some(task) => self.k.lane_update_curr(task),
            None => false,
        };
        let local = cpu.index();
        if !keeps && self.k.dsqs[local].nr == 0 {
            keeps = self.lane_dispatch(cpu, prev);
            let queued = |task: TaskId| self.k.flat.tasks[task.index()].scx_flags & SCX_TASK_QUEUED != 0;
            let nothing = !keeps && self.k.dsqs[local].nr == 0;
            if nothing && self.k.sched.flags & SCX_OPS_ENQ_LAST == 0 && prev.is_some_and(queued) {
                self.k.sched.events.dispatch_keep_last += 1;
                keeps = true;
            }
        }
        let found = keeps || self.k.dsqs[local].nr > 0;
        let entry = &mut self.k.cpus[cpu.index()];
        if entry.nr_immed > 0 && found && self.k.dsqs[local].nr > 1 {
            entry.reenq_local = true;
        }
        entry.in_dispatch = false;
        let task = if keeps { prev } else { self.k.dsqs[local].head }?;
        let entry = self.k.flat(task);
        if entry.slice == 0 {
            entry.set_slice(SCX_SLICE_DFL);
            self.k.sched.events.refill_slice_dfl += 1;
        }
        Some(task)
    }

    /// [`Sim::ext_dispatch`]; true to keep `prev`.
    #[inline(always)]
    fn lane_dispatch(&mut self, cpu: CpuId, prev: Option<TaskId>) -> bool {
        let global = self.k.dsq_global(cpu);
        if self.k.dsq(global).nr > 0 && self.k.lane_consume(cpu, global) {
            return false;
        }
        for _ in 0..SCX_DSP_MAX_LOOPS {
            self.k.sched.nr_dispatched = 0;
            let pointer = prev.map_or(0, |prev| self.lane_pointer(prev));
            self.lane_call(OpKind::Dispatch, prev, Some(cpu), [u64::from(cpu.0), pointer, 0]);
            self.k.lane_flush(cpu);
            if prev.is_some_and(|prev| self.k.flat(prev).has_time()) {
                return true;
            }
            let filled = self.k.dsqs[cpu.index()].nr > 0;
            if filled || self.k.dsq(global).nr > 0 && self.k.lane_consume(cpu, global) {
                return false;
            }
            if self.k.sched.nr_dispatched == 0 {
                return false;
            }
        }
        self.k.kick_cpu(cpu.0 as i32, 0);
        false
    }

    /// [`Sim::switch`].
    #[inline(always)]
    fn lane_switch(&mut self, cpu: CpuId, (prev, next): (Option<TaskId>, Option<TaskId>), voluntary: bool) {
        if let Some(prev) = prev {
            self.lane_put_prev(cpu, prev, next);
        }
        if prev.is_some() != next.is_some() {
            self.lane_update_idle(cpu, next.is_none());
        }
        if let Some(next) = next {
            self.lane_set_next(cpu, next);
        }
        self.clear_resched(cpu);
        self.lane_context_switch(cpu, (prev, next), voluntary);
    }

    /// [`Sim::update_idle`].
    #[inline(always)]
    fn lane_update_idle(&mut self, cpu: CpuId, idle: bool) {
        if self.k.scx.builtin_idle {
            self.k.idle_update(cpu, idle);
        }
        if self.has(OpKind::UpdateIdle) {
            self.lane_call(OpKind::UpdateIdle, None, Some(cpu), [u64::from(cpu.0), u64::from(idle), 0]);
        }
    }

    /// [`Sim::ext_put_prev`].
    #[inline(always)]
    fn lane_put_prev(&mut self, cpu: CpuId, task: TaskId, next: Option<TaskId>) {
        self.k.cpu_mut(cpu).kick_sync += 1;
        self.k.lane_update_curr(task);
        if self.k.flat(task).scx_flags & SCX_TASK_QUEUED != 0 {
            self.lane_stopping(cpu, task, true);
            self.lane_set_runnable(task);
            self.lane_put_queued(cpu, task, next);
        }
    }

    /// [`Sim::ext_put_queued`].
    #[inline(never)]
    fn lane_put_queued(&mut self, cpu: CpuId, task: TaskId, next: Option<TaskId>) {
        let entry = self.k.flat(task);
        if entry.slice != 0 {
            if entry.scx_flags & SCX_TASK_IMMED != 0 {
                return self.in_general(move |sim| sim.ext_put_queued(cpu, task, next));
            }
            let (local, flags) = (self.k.dsq_local(cpu), SCX_ENQ_HEAD);
            self.k.lane_dispatch_enqueue(local, task, Insert { flags, ..Insert::default() });
        } else if next.is_none() {
            self.lane_do_enqueue(cpu, task, SCX_ENQ_LAST);
            self.k.resched_after_pick |= self.k.dsqs[cpu.index()].nr > 0;
        } else {
            self.lane_do_enqueue(cpu, task, 0);
        }
    }

    /// [`Sim::ext_set_next`].
    #[inline(always)]
    fn lane_set_next(&mut self, cpu: CpuId, task: TaskId) {
        let entry = self.k.flat(task);
        if entry.scx_flags & SCX_TASK_QUEUED != 0 {
            if entry.scx_flags & SCX_TASK_IN_CUSTODY != 0 {
                entry.change_scx_flags(0, SCX_TASK_IN_CUSTODY);
            }
            self.k.lane_dispatch_dequeue(task);
        }
        let now = self.k.ctx.now;
        let entry = self.k.flat(task);
        let (now, queued) = (now.max(entry.ready_at), entry.scx_flags & SCX_TASK_QUEUED != 0);
        entry.set_exec_start(now);
        entry.set_runnable_seq(0);
        self.k.ctx.now = now;
        if queued && self.has(OpKind::Running) {
            let pointer = self.lane_pointer(task);
            self.lane_call(OpKind::Running, Some(task), Some(cpu), [pointer, 0, 0]);
        }
        let entry = self.k.flat(task);
        entry.change_scx_flags(SCX_TASK_RESET_RUNNABLE_AT, 0);
        entry.reenq_cnt = 0;
    }

    /// [`Sim::context_switch`].
    #[inline(always)]
    fn lane_context_switch(
        &mut self,
        cpu: CpuId,
        (prev, next): (Option<TaskId>, Option<TaskId>),
        voluntary: bool,
    ) {
        let k = &mut self.k;
        if let Some(next) = next {
            k.ctx.now = k.ctx.now.max(k.flat.tasks[next.index()].ready_at);
        }
        if prev.is_none() {
            k.server_update_idle(cpu);
        }
        k.lane_rq_unlock(cpu);
        let costs = &k.machine.costs;
        k.lane_charge(if prev.is_some() && next.is_some() {
            costs.context_switch
        } else {
            costs.idle_switch
        });
        let mut prev_state = TaskState::Runnable;
        if let Some(prev) = prev {
            let entry = k.flat(prev);
            if entry.state != RunState::Runnable {
                prev_state = TaskState::Blocked;
            }
            entry.set_on_cpu(false);
            entry.count_switch(voluntary);
        }
        k.totals.switches += 1;
        let mut moves = false;
        if let Some(next) = next {
            let migration = k.machine.costs.migration;
            let entry = k.flat(next);
            entry.set_on_cpu(true);
            if entry.ran_on.replace(cpu).is_some_and(|from| from != cpu) {
                entry.burst.refill = migration;
            }
            let mm = entry.process;
            moves = k.cpus[cpu.index()].last_mm.replace(mm) != Some(mm);
        }
        k.busy_cpus = k.busy_cpus + u32::from(next.is_some()) - u32::from(prev.is_some());
        k.idle_path &= next.is_none();
        let now = k.ctx.now;
        let entry = &mut k.cpus[cpu.index()];
        entry.set_curr(next);
        entry.count_switch(now);
        k.ctx.current = next;
        k.emit(EventKind::SchedSwitch { prev, prev_state, next });
        if next.is_some() {
            let costs = &k.machine.costs;
            let space = if moves { costs.address_space_switch } else { DurationNs::ZERO };
            k.lane_charge(space + costs.switch_end);
            k.arm_tick(cpu);
        } else {
            k.lane_charge(k.machine.costs.idle_enter);
        }
    }
}
