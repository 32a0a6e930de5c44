//! What callbacks leave behind: inserts that wait for their end, moves by iterators, and kicks.

use crate::Kernel;
use crate::class::ext::queue::Insert;
use crate::flags::*;
use crate::state::dsq::{Cursor, DsqIx};
use crate::state::sched::DispatchEntry;
use crate::state::task::OpsState;
use schedlab_base::{CpuId, TaskId};

impl Kernel {
    /// [`Kernel::flush_dispatch_buffer`].
    #[inline(always)]
    pub(super) fn lane_flush(&mut self, cpu: CpuId) {
        if !self.sched.buffer.is_empty() {
            self.lane_finish_dispatches(cpu);
        }
    }

    #[inline(never)]
    fn lane_finish_dispatches(&mut self, cpu: CpuId) {
        let (mut at, site) = (0, self.ctx.site);
        while let Some(&entry) = self.sched.buffer.get(at) {
            self.lane_finish_dispatch(cpu, entry);
            at += 1;
        }
        self.ctx.site = site;
        self.sched.nr_dispatched += at as u32;
        self.sched.buffer.clear();
    }

    /// [`Kernel::finish_dispatch`].
    #[inline(always)]
    fn lane_finish_dispatch(&mut self, cpu: CpuId, entry: DispatchEntry) {
        let task = self.flat(entry.task);
        if task.ops_state != OpsState::Queued || task.ops_qseq != entry.qseq {
            return;
        }
        if entry.enq_flags & SCX_ENQ_IMMED != 0 {
            return self.in_general(move |k| k.finish_dispatch(cpu, entry));
        }
        let home = task.cpu;
        task.set_ops_state(OpsState::Dispatching);
        self.ctx.site = entry.site;
        let ix = self.dsq_for_dispatch(cpu, entry.dsq, home);
        let flags = entry.enq_flags | SCX_ENQ_APPLY_SLICE | SCX_ENQ_CLEAR_OPSS;
        let insert = Insert { slice: entry.slice, vtime: entry.vtime, flags };
        match self.dsq(ix).local {
            Some(target) => self.lane_dispatch_to_local((cpu, target), (home, entry.task), insert),
            None => self.lane_dispatch_enqueue(ix, entry.task, insert),
        }
    }

    /// [`Kernel::dispatch_to_local`], of a task that may run on every CPU.
    #[inline(always)]
    fn lane_dispatch_to_local(
        &mut self,
        (cpu, target): (CpuId, CpuId),
        (home, task): (CpuId, TaskId),
        insert: Insert,
    ) {
        self.lock_if_remote(cpu, target);
        if home != target {
            self.lane_move_to_rq(task, target);
        }
        self.lane_dispatch_enqueue(self.dsq_local(target), task, insert);
        self.unlock_if_remote(cpu, target);
        if self.cpus[target.index()].curr.is_none() {
            self.resched_curr(target);
        }
    }

    /// What is left of [`Kernel::cursor_move`] when the task is on the queue `src`, and is to go to `ix`.
    #[inline(never)]
    pub(crate) fn lane_cursor_move(
        &mut self,
        (cursor, src, ix): (Cursor, DsqIx, DsqIx),
        (home, task): (CpuId, TaskId),
        flags: u64,
    ) {
        let entry = self.flat(task);
        if let Some(vtime) = cursor.vtime {
            entry.set_dsq_vtime(vtime);
        }
        if let Some(slice) = cursor.slice {
            entry.set_slice(slice);
        }
        let vtime = entry.dsq_vtime;
        self.lane_acquire(move |k| &mut k.dsqs[src.0 as usize].lock);
        self.lane_unlink(src, task);
        let now = self.ctx.now;
        self.dsqs[src.0 as usize].lock.release(now);
        let (insert, cpu) = (Insert { slice: 0, vtime, flags }, self.ctx.cpu);
        match self.dsq(ix).local {
            Some(target) => self.lane_dispatch_to_local((cpu, target), (home, task), insert),
            None => self.lane_dispatch_enqueue(ix, task, insert),
        }
    }

    /// [`Sim::move_deferred_locals`](crate::state::sim::Sim::move_deferred_locals).
    #[inline(always)]
    pub(super) fn lane_deferred(&mut self) {
        if !self.scx.deferred_locals.is_empty() {
            self.lane_all_deferred();
        }
    }

    #[inline(never)]
    fn lane_all_deferred(&mut self) {
        while let Some((task, site)) = self.scx.deferred_locals.pop() {
            let entry = self.flat(task);
            let (id, home) = (entry.ddsp_dsq_id, entry.cpu);
            if id == SCX_DSQ_INVALID || entry.scx_flags & SCX_TASK_QUEUED == 0 || entry.dsq.is_some() {
                continue;
            }
            let flags = entry.ddsp_enq_flags | SCX_ENQ_APPLY_SLICE;
            let insert = Insert { slice: entry.ddsp_slice, vtime: entry.ddsp_vtime, flags };
            entry.clear_direct();
            self.ctx.site = site;
            let ix = self.dsq_for_dispatch(home, id, home);
            let here = self.ctx.cpu;
            match self.dsq(ix).local {
                Some(target) if flags & SCX_ENQ_IMMED != 0 => {
                    self.in_general(|k| k.dispatch_to_local(here, target, task, insert));
                }
                Some(target) => self.lane_dispatch_to_local((here, target), (home, task), insert),
                None => self.lane_dispatch_enqueue(ix, task, insert),
            }
            self.ctx.site = None;
        }
    }

    /// [`Kernel::run_kicks`], where all tasks are of sched_ext.
    #[inline(always)]
    pub(super) fn lane_kicks(&mut self) {
        if self.kicks_pending {
            self.lane_pending_kicks();
        }
    }

    #[inline(never)]
    fn lane_pending_kicks(&mut self) {
        self.kicks_pending = false;
        self.lane_charge(self.machine.costs.irq_work);
        let here = self.ctx.cpu;
        let kicks = self.cpu_mut(here).kicks.take();
        for kick in &kicks {
            let (target, curr) = (kick.cpu, self.curr(kick.cpu));
            if kick.flags & SCX_KICK_IDLE != 0 {
                if curr.is_none() {
                    self.resched_curr(target);
                }
                continue;
            }
            if let Some(curr) = curr.filter(|_| kick.flags & SCX_KICK_PREEMPT != 0) {
                self.flat(curr).set_slice(0);
            }
            self.resched_curr(target);
            if curr.is_some() && kick.flags & SCX_KICK_WAIT != 0 && target != here {
                self.lane_charge(self.machine.costs.ipi_latency + self.machine.costs.schedule);
            }
        }
        self.cpu_mut(here).kicks.reuse(kicks);
    }

    /// An insert from `ops.dispatch()`, which is carried out when that returns; false where there is no room for it.
    #[inline(always)]
    pub(super) fn lane_buffer(&mut self, entry: DispatchEntry) -> bool {
        let room = self.sched.buffer.len() < self.sched.max_batch as usize;
        if room {
            let task = &self.flat.tasks[entry.task.index()];
            let queued = matches!(task.ops_state, OpsState::Queueing | OpsState::Queued);
            let qseq = if queued { task.ops_qseq } else { 0 };
            self.sched.buffer.push(DispatchEntry { qseq, site: self.ctx.site, ..entry });
        }
        room
    }
}
