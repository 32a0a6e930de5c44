//! Dispatch queues in the lane, and the kernel functions that the lane has a way of its own for. The queues are the general core's;
//! their tasks are the lane's.

use crate::Kernel;
use crate::class::ext::queue::Insert;
use crate::flags::*;
use crate::state::dsq::DsqIx;
use crate::state::ops::OpKind;
use crate::state::order::Place;
use crate::state::rq::Served;
use crate::state::sched::DispatchEntry;
use crate::state::task::{FIRST_PID, OpsState};
use schedlab_base::{CpuId, DsqId, TaskId};
use schedlab_trace::EventKind;

/// What programs call: the same as in [`Kernel`] without `lane_`.
impl Kernel {
    /// `scx_bpf_select_cpu_dfl()`.
    #[inline(always)]
    pub fn lane_select_cpu_dfl(&mut self, task: TaskId, prev_cpu: i32, wake_flags: u64) -> (i32, bool) {
        // An idle CPU is looked for by what no task changes in the lane, but where a waker is about to sleep.
        let selects = self.ctx.op == OpKind::SelectCpu && self.ctx.op_task == Some(task);
        if selects && wake_flags & SCX_WAKE_SYNC == 0 {
            return self.select_cpu_dfl(task, prev_cpu, wake_flags);
        }
        self.in_general(move |k| k.select_cpu_dfl(task, prev_cpu, wake_flags))
    }

    /// `scx_bpf_dsq_insert()`.
    #[inline(always)]
    pub fn lane_insert(&mut self, task: TaskId, dsq: DsqId, slice: u64, flags: u64) -> bool {
        self.lane_insert_plain(task, dsq, slice, flags)
            || self.in_general(|k| k.dsq_insert(task, dsq, slice, flags))
    }

    /// The same where it needs no look; else false, and nothing is changed.
    #[inline(always)]
    pub fn lane_insert_plain(&mut self, task: TaskId, dsq: DsqId, slice: u64, flags: u64) -> bool {
        if self.takes_direct(task, flags) {
            self.insert_direct(task, dsq, (slice, 0), flags);
            return true;
        }
        if !self.takes_buffered(task, flags) {
            return false;
        }
        self.lane_buffer(DispatchEntry { task, qseq: 0, dsq, slice, vtime: 0, enq_flags: flags, site: None })
    }

    /// `scx_bpf_dsq_insert_vtime()`.
    #[inline(always)]
    pub fn lane_insert_vtime(
        &mut self,
        task: TaskId,
        dsq: DsqId,
        slice: u64,
        vtime: u64,
        flags: u64,
    ) -> bool {
        if self.takes_direct(task, flags) {
            self.insert_direct(task, dsq, (slice, vtime), flags | SCX_ENQ_DSQ_PRIQ);
            return true;
        }
        if self.takes_buffered(task, flags) {
            let enq_flags = flags | SCX_ENQ_DSQ_PRIQ;
            let entry = DispatchEntry { task, qseq: 0, dsq, slice, vtime, enq_flags, site: None };
            if self.lane_buffer(entry) {
                return true;
            }
        }
        self.in_general(move |k| k.dsq_insert_vtime(task, dsq, slice, vtime, flags))
    }

    /// It is the one direct dispatch of the task that is being queued, with flags that need no look.
    #[inline(always)]
    fn takes_direct(&self, task: TaskId, flags: u64) -> bool {
        self.sched.direct == Some(Some(task)) && self.takes_insert(task, flags)
    }

    /// It is an insert of `ops.dispatch()`, with flags that need no look.
    #[inline(always)]
    fn takes_buffered(&self, task: TaskId, flags: u64) -> bool {
        self.sched.direct.is_none() && self.takes_insert(task, flags)
    }

    /// The task is the scheduler's, and the flags need no look.
    #[inline(always)]
    fn takes_insert(&self, task: TaskId, flags: u64) -> bool {
        let rare = SCX_ENQ_INTERNAL_MASK | SCX_ENQ_IMMED | SCX_ENQ_RESCUE;
        let known = self.flat.tasks[task.index()].scx_flags & SCX_TASK_STATE_MASK >= SCX_TASK_INIT;
        flags & rare == 0 && self.sched.flags & SCX_OPS_ALWAYS_ENQ_IMMED == 0 && known
    }

    #[inline(always)]
    fn insert_direct(&mut self, task: TaskId, dsq: DsqId, (slice, vtime): (u64, u64), flags: u64) {
        self.sched.direct = Some(None);
        self.sched.direct_site = self.ctx.site;
        let entry = self.flat(task);
        (entry.ddsp_slice, entry.ddsp_vtime) = (slice, vtime);
        entry.set_ddsp_dsq_id(dsq);
        entry.set_ddsp_enq_flags(flags);
    }

    /// `scx_bpf_dsq_move_to_local()`.
    #[inline(always)]
    pub fn lane_move_to_local(&mut self, id: DsqId, flags: u64) -> bool {
        let plain = flags == 0 && self.sched.flags & SCX_OPS_ALWAYS_ENQ_IMMED == 0;
        match self.user_dsq(id) {
            Some(ix) if plain => {
                self.lane_flush(self.ctx.cpu);
                let moved = self.lane_consume(self.ctx.cpu, ix);
                self.sched.nr_dispatched += u32::from(moved);
                moved
            }
            _ => self.in_general(move |k| k.dsq_move_to_local(id, flags)),
        }
    }

    /// `scx_bpf_task_cpu()`.
    #[inline(always)]
    pub fn lane_task_cpu(&self, task: TaskId) -> CpuId {
        self.flat.tasks[task.index()].cpu
    }

    /// `scx_bpf_task_running()`.
    #[inline(always)]
    pub fn lane_task_running(&self, task: TaskId) -> bool {
        self.flat.tasks[task.index()].on_cpu
    }

    /// `scx_bpf_task_set_slice()`.
    pub fn lane_set_slice(&mut self, task: TaskId, slice: u64) {
        self.flat(task).set_slice(slice);
    }

    /// `scx_bpf_task_set_dsq_vtime()`.
    pub fn lane_set_dsq_vtime(&mut self, task: TaskId, vtime: u64) {
        self.flat(task).set_dsq_vtime(vtime);
    }

    /// `bpf_task_from_pid()`, of a task with the pid that its number gives it.
    #[inline(always)]
    pub fn lane_task_by_pid(&self, pid: i32) -> Option<TaskId> {
        let number = pid.wrapping_sub(FIRST_PID) as u32;
        let own = (number as usize) < self.flat.tasks.len() && self.scx.user_space.is_none();
        own.then_some(TaskId(number))
    }

    /// The pointer to a task that programs have seen.
    #[inline(always)]
    pub fn lane_pointer(&self, task: TaskId) -> u64 {
        self.flat.tasks[task.index()].pointer
    }

    /// Programs see the task there from now on.
    pub fn set_lane_pointer(&mut self, task: TaskId, pointer: u64) {
        self.flat(task).pointer = pointer;
    }
}

impl Kernel {
    /// [`Kernel::dispatch_enqueue`].
    #[inline(never)]
    pub(super) fn lane_dispatch_enqueue(&mut self, ix: DsqIx, task: TaskId, insert: Insert) {
        let local = self.dsq(ix).local;
        if local.is_none() {
            self.lane_acquire(move |k| &mut k.dsqs[ix.0 as usize].lock);
        }
        let flags = self.vet_order(ix, insert.flags);
        let insert = Insert { flags, ..insert };
        self.lane_charge(self.machine.costs.dsq_enqueue);
        match local {
            Some(cpu) => self.lane_enqueue_local(cpu, task, insert),
            None => {
                let id = self.dsq(ix).id;
                self.lane_link(ix, id, task, insert, id != SCX_DSQ_GLOBAL && id != SCX_DSQ_BYPASS);
                let now = self.ctx.now;
                self.dsqs[ix.0 as usize].lock.release(now);
            }
        }
    }

    /// [`Kernel::enqueue_local`], of a task that need not run at once.
    #[inline(always)]
    fn lane_enqueue_local(&mut self, cpu: CpuId, task: TaskId, insert: Insert) {
        let ix = self.dsq_local(cpu);
        debug_assert!(self.flat(task).cpu == cpu, "a local queue holds its CPU's tasks");
        self.lane_link(ix, SCX_DSQ_LOCAL, task, insert, false);
        let entry = &self.cpus[cpu.index()];
        if entry.in_dispatch {
            return;
        }
        match entry.curr {
            None => self.resched_curr(cpu),
            Some(curr) if insert.flags & SCX_ENQ_PREEMPT != 0 && curr != task => {
                self.flat(curr).set_slice(0);
                self.resched_curr(cpu);
            }
            Some(_) => {}
        }
    }

    /// Links a task to a queue, which `keeps` it in the scheduler's custody.
    #[inline(always)]
    fn lane_link(&mut self, ix: DsqIx, id: DsqId, task: TaskId, insert: Insert, keeps: bool) {
        let Insert { slice, vtime, flags } = insert;
        let now = self.ctx.now;
        let (dsq, tasks) = (&mut self.dsqs[ix.0 as usize], &mut self.flat.tasks);
        let entry = &mut tasks[task.index()];
        assert!(entry.dsq.is_none(), "{task} is on one dispatch queue at a time");
        entry.ready_at = now;
        let by_vtime = flags & SCX_ENQ_DSQ_PRIQ != 0;
        if flags & SCX_ENQ_APPLY_SLICE != 0 {
            entry.set_slice(if slice != 0 { slice } else { entry.slice.max(1) });
            if by_vtime {
                entry.set_dsq_vtime(vtime);
            }
        }
        if flags & SCX_ENQ_CLEAR_OPSS != 0 {
            entry.set_ops_state(OpsState::None);
        }
        entry.on_priq = by_vtime;
        entry.change_scx_flags(if keeps { SCX_TASK_IN_CUSTODY } else { 0 }, SCX_TASK_IN_CUSTODY);
        let after = dsq.place_for(task, entry.dsq_vtime, flags);
        let next = match after {
            Some(after) => tasks[after.index()].dsq_next.replace(task),
            None => dsq.head.replace(task),
        };
        match next {
            Some(next) => tasks[next.index()].dsq_prev = Some(task),
            None => dsq.tail = Some(task),
        }
        dsq.seq = dsq.seq.wrapping_add(1);
        dsq.nr += 1;
        let entry = &mut tasks[task.index()];
        (entry.dsq_prev, entry.dsq_next, entry.dsq_seq, entry.dsq) = (after, next, dsq.seq, Some(ix));
        self.emit(EventKind::DsqInsert { task, dsq: id });
    }

    /// [`Kernel::unlink`].
    #[inline(always)]
    pub(super) fn lane_unlink(&mut self, ix: DsqIx, task: TaskId) {
        let (dsq, tasks) = (&mut self.dsqs[ix.0 as usize], &mut self.flat.tasks);
        let entry = &mut tasks[task.index()];
        entry.dsq = None;
        let (prev, next) = (entry.dsq_prev.take(), entry.dsq_next.take());
        if std::mem::take(&mut entry.on_priq) {
            dsq.order.remove(Place { vtime: entry.dsq_vtime, seq: entry.dsq_seq, task });
        }
        match prev {
            Some(prev) => tasks[prev.index()].dsq_next = next,
            None => dsq.head = next,
        }
        match next {
            Some(next) => tasks[next.index()].dsq_prev = prev,
            None => dsq.tail = prev,
        }
        dsq.nr -= 1;
        if dsq.cursors > 0 {
            self.step_cursors_back(ix, task, (prev, next));
        }
    }

    /// [`Kernel::dispatch_dequeue`].
    #[inline(always)]
    pub(super) fn lane_dispatch_dequeue(&mut self, task: TaskId) {
        let entry = self.flat(task);
        let Some(ix) = entry.dsq else { return };
        let plain = entry.scx_flags & SCX_TASK_IMMED == 0;
        if plain && self.dsq(ix).local.is_some() {
            self.lane_unlink(ix, task);
        } else {
            self.in_general(move |k| k.dispatch_dequeue(task));
        }
    }

    /// [`Kernel::consume`], of tasks that may all run on `cpu`.
    #[inline(always)]
    pub(super) fn lane_consume(&mut self, cpu: CpuId, ix: DsqIx) -> bool {
        if self.dsq(ix).nr == 0 {
            return false;
        }
        self.lane_acquire(move |k| &mut k.dsqs[ix.0 as usize].lock);
        let found = self.dsq(ix).head.filter(|_| self.sched.exit.is_none());
        if let Some(task) = found {
            self.lane_unlink(ix, task);
        }
        let now = self.ctx.now;
        self.dsqs[ix.0 as usize].lock.release(now);
        let Some(task) = found else { return false };
        if self.flat(task).cpu != cpu {
            self.lane_move_to_rq(task, cpu);
        }
        self.lane_enqueue_local(cpu, task, Insert::default());
        true
    }

    /// [`Kernel::move_to_rq`].
    #[inline(always)]
    pub(super) fn lane_move_to_rq(&mut self, task: TaskId, cpu: CpuId) {
        let entry = self.flat(task);
        assert!(!entry.on_cpu, "a running task does not migrate");
        let from = entry.cpu;
        if from != self.ctx.cpu {
            self.rq_lock(from);
            self.rq_unlock(from);
        }
        let source = &mut self.cpus[from.index()];
        source.nr_running -= 1;
        source.scx_nr_running -= 1;
        let target = &mut self.cpus[cpu.index()];
        target.nr_running += 1;
        target.scx_nr_running += 1;
        let is_first = target.scx_nr_running == 1;
        self.lane_set_task_cpu(task, cpu);
        if is_first {
            self.server_start(cpu, Served::Ext);
        }
    }

    /// [`Kernel::set_task_cpu`], to another one.
    #[inline(always)]
    pub(super) fn lane_set_task_cpu(&mut self, task: TaskId, to: CpuId) {
        let entry = self.flat(task);
        let from = entry.cpu;
        entry.set_cpu(to);
        entry.count_migration();
        self.emit(EventKind::SchedMigrate { task, from, to });
    }

    /// [`Kernel::count_running`] of a task of sched_ext that is queued; how many there are.
    #[inline(always)]
    pub(super) fn lane_count_running(&mut self, cpu: CpuId) -> u32 {
        self.total_running += 1;
        let entry = &mut self.cpus[cpu.index()];
        entry.nr_running += 1;
        entry.scx_nr_running += 1;
        entry.scx_nr_running
    }

    /// [`Kernel::scx_update_curr`]; true if the task is queued and has time left.
    #[inline(always)]
    pub(super) fn lane_update_curr(&mut self, task: TaskId) -> bool {
        let now = self.ctx.now;
        let entry = self.flat(task);
        let delta = entry.charge_runtime(now);
        if entry.slice != SCX_SLICE_INF {
            entry.set_slice(entry.slice.saturating_sub(delta));
        }
        let (cpu, has_time) = (entry.cpu, entry.has_time());
        self.server_update(cpu, Served::Ext, delta);
        has_time
    }
}
