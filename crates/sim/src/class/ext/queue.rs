//! Operations on dispatch queues: insertion, removal, consumption and moves
//! between run queues. Kernel-side only; `ops.dequeue()` calls that they cause
//! are left in [`Kernel::deferred`] for the core to make.

use crate::Kernel;
use crate::flags::*;
use crate::state::dsq::{Dsq, DsqIx};
use crate::state::kernel::Deferred;
use crate::state::ops::OpKind;
use crate::state::order::Place;
use crate::state::rq::Served;
use crate::state::subs::SchedIx;
use crate::state::task::{OpsState, SchedClass, Task};
use schedlab_base::{CpuId, DsqId, TaskId, TaskTable};
use schedlab_trace::{EventKind, ExitKind};

impl Task {
    /// The fields that an insertion changes besides the links.
    #[inline]
    fn apply(&mut self, insert: Insert) {
        let Insert { slice, vtime, flags } = insert;
        let by_vtime = flags & SCX_ENQ_DSQ_PRIQ != 0;
        if flags & SCX_ENQ_APPLY_SLICE != 0 {
            self.set_slice(if slice != 0 { slice } else { self.scx.slice.max(1) });
            if by_vtime {
                self.set_dsq_vtime(vtime);
            }
        }
        if flags & SCX_ENQ_CLEAR_OPSS != 0 {
            self.set_ops_state(OpsState::None);
        }
        self.scx.on_priq = by_vtime;
    }

    /// Sets the task's flags on a queue; true if the scheduler's custody ends with that.
    #[inline(always)]
    fn flag_queued(&mut self, custody: Custody) -> bool {
        let was = self.scx.flags;
        let flags = if custody.keeps { was | SCX_TASK_IN_CUSTODY } else { was & !SCX_TASK_IN_CUSTODY };
        self.set_scx_flags(if custody.immed { flags | SCX_TASK_IMMED } else { flags });
        !custody.keeps && was & SCX_TASK_IN_CUSTODY != 0
    }
}

impl Dsq {
    /// Where a task of these flags goes: the task before it.
    #[inline]
    pub(crate) fn place_for(&mut self, task: TaskId, vtime: u64, flags: u64) -> Option<TaskId> {
        match flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT) {
            _ if flags & SCX_ENQ_DSQ_PRIQ != 0 => {
                let seq = self.seq.wrapping_add(1);
                self.order.insert(Place { vtime, seq, task })
            }
            0 => self.tail,
            _ => None,
        }
    }

    /// Links `task`, whose place in the order is behind `after`, or at the head without.
    #[inline(always)]
    fn link(&mut self, ix: DsqIx, tasks: &mut TaskTable<Task>, task: TaskId, after: Option<TaskId>) {
        debug_assert!(after != Some(task), "a task does not follow itself");
        let next = match after {
            Some(after) => tasks.living_mut(after).scx.dsq_next.replace(task),
            None => self.head.replace(task),
        };
        match next {
            Some(next) => tasks.living_mut(next).scx.dsq_prev = Some(task),
            None => self.tail = Some(task),
        }
        self.seq = self.seq.wrapping_add(1);
        self.nr += 1;
        let scx = &mut tasks.living_mut(task).scx;
        (scx.dsq_prev, scx.dsq_next) = (after, next);
        scx.dsq_seq = self.seq;
        scx.dsq = Some(ix);
    }

    /// Takes a task off the list.
    #[inline]
    fn unlink(&mut self, tasks: &mut TaskTable<Task>, links: Links) {
        match links.prev {
            Some(prev) => tasks.living_mut(prev).scx.dsq_next = links.next,
            None => self.head = links.next,
        }
        match links.next {
            Some(next) => tasks.living_mut(next).scx.dsq_prev = links.prev,
            None => self.tail = links.prev,
        }
        assert!(self.nr > 0, "a queue with a linked task is not empty");
        self.nr -= 1;
        debug_assert!(
            self.nr > 0 || self.head.is_none() && self.tail.is_none(),
            "an empty queue has no ends"
        );
    }
}

/// A task's neighbours on a queue.
#[derive(Clone, Copy, Debug)]
struct Links {
    prev: Option<TaskId>,
    next: Option<TaskId>,
}

/// What an insertion carries besides task and queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Insert {
    pub(crate) slice: u64,
    pub(crate) vtime: u64,
    pub(crate) flags: u64,
}

/// What a queue makes of the tasks on it.
#[derive(Clone, Copy, Debug)]
struct Custody {
    /// The task stays in the scheduler's custody.
    keeps: bool,
    /// The task must run at once.
    immed: bool,
}

impl Kernel {
    /// The local queue of `cpu`.
    pub(crate) fn dsq_local(&self, cpu: CpuId) -> DsqIx {
        DsqIx(cpu.0)
    }

    /// The global queue of the node of `cpu`.
    pub(crate) fn dsq_global(&self, cpu: CpuId) -> DsqIx {
        let node = self.cpus[cpu.index()].node;
        if self.subs.at != SchedIx::ROOT {
            return self.dsq_of_sub(Some(node), None);
        }
        DsqIx(self.cpus.len() as u32 + node)
    }

    /// The bypass queue of `cpu`.
    pub(crate) fn dsq_bypass(&self, cpu: CpuId) -> DsqIx {
        debug_assert!(cpu.index() < self.cpus.len(), "{cpu} is a CPU of the machine");
        if self.subs.at != SchedIx::ROOT {
            return self.dsq_of_sub(None, Some(cpu));
        }
        DsqIx(self.cpus.len() as u32 + self.nr_nodes + cpu.0)
    }

    #[inline]
    pub(crate) fn dsq(&self, ix: DsqIx) -> &crate::state::dsq::Dsq {
        &self.dsqs[ix.0 as usize]
    }

    #[inline]
    pub(crate) fn dsq_mut(&mut self, ix: DsqIx) -> &mut crate::state::dsq::Dsq {
        &mut self.dsqs[ix.0 as usize]
    }

    #[inline(always)]
    pub(crate) fn user_dsq(&self, id: DsqId) -> Option<DsqIx> {
        if let Some(&ix) = usize::try_from(id.0).ok().and_then(|id| self.sched.dsq_small.get(id)) {
            return (ix != 0).then_some(DsqIx(ix));
        }
        self.sched.dsq_index.get(&id.0).map(|&ix| DsqIx(ix))
    }

    /// Takes the lock of a queue; a local one is guarded by that of the run queue.
    #[inline(always)]
    pub(super) fn dsq_lock(&mut self, ix: DsqIx) {
        if self.dsq(ix).local.is_none() && !self.in_setup() {
            self.dsq_lock_shared(ix);
        }
    }

    #[inline(never)]
    fn dsq_lock_shared(&mut self, ix: DsqIx) {
        self.acquire(|k| &mut k.dsq_mut(ix).lock);
    }

    #[inline(always)]
    pub(super) fn dsq_unlock(&mut self, ix: DsqIx) {
        if self.dsq(ix).local.is_none() {
            self.dsq_unlock_shared(ix);
        }
    }

    #[inline(never)]
    fn dsq_unlock_shared(&mut self, ix: DsqIx) {
        let now = self.ctx.now;
        self.dsq_mut(ix).lock.release(now);
    }

    /// Ends the custody and leaves the `ops.dequeue()` call behind.
    #[inline]
    pub(crate) fn end_custody(&mut self, task: TaskId, deq_flags: u64) {
        let entry = self.task_mut(task);
        if entry.scx.flags & SCX_TASK_IN_CUSTODY == 0 {
            return;
        }
        entry.drop_scx_flags(SCX_TASK_IN_CUSTODY);
        self.tell_dequeue(task, deq_flags);
    }

    /// Leaves an `ops.dequeue()` call behind, if the scheduler has that.
    #[inline]
    fn tell_dequeue(&mut self, task: TaskId, deq_flags: u64) {
        if self.sched.present.has(OpKind::Dequeue) {
            self.defer(Deferred::Dequeue(task, deq_flags));
        }
    }

    /// `scx_dispatch_enqueue()`: puts `task` on a queue. For a local queue the
    /// task belongs to that CPU already.
    #[inline(never)]
    pub(crate) fn dispatch_enqueue(&mut self, ix: DsqIx, task: TaskId, insert: Insert) {
        let local = self.dsq(ix).local;
        self.dsq_lock(ix);
        let flags = self.vet_order(ix, insert.flags);
        let insert = Insert { flags, ..insert };
        self.charge(self.machine.costs.dsq_enqueue);
        match local {
            Some(cpu) => self.enqueue_local(cpu, task, insert),
            None => {
                let id = self.dsq(ix).id;
                let keeps = id != SCX_DSQ_GLOBAL && id != SCX_DSQ_BYPASS;
                self.insert(ix, id, task, insert, Custody { keeps, immed: false });
                self.dsq_unlock_shared(ix);
            }
        }
    }

    /// The same for the local queue of a CPU, with flags that suit it.
    #[inline(always)]
    fn enqueue_local(&mut self, cpu: CpuId, task: TaskId, mut insert: Insert) {
        if self.subs.at != SchedIx::ROOT && !self.resolve_local(cpu, task, &mut insert) {
            return;
        }
        let (ix, flags) = (self.dsq_local(cpu), insert.flags);
        assert!(self.task(task).cpu == cpu, "a local queue holds its CPU's tasks");
        let custody = Custody { keeps: false, immed: flags & SCX_ENQ_IMMED != 0 };
        if self.insert(ix, SCX_DSQ_LOCAL, task, insert, custody) {
            self.count_immediate(cpu, ix, flags);
        }
        self.local_post_enqueue(cpu, task, flags);
    }

    /// Links a task to a queue that is no local one and has no lock of its own, without custody.
    #[cold]
    pub(crate) fn insert_stranded(&mut self, ix: DsqIx, id: DsqId, task: TaskId, insert: Insert) {
        self.insert(ix, id, task, insert, Custody { keeps: false, immed: false });
    }

    /// Links a task to a queue; true if it must run at once.
    #[inline(always)]
    fn insert(&mut self, ix: DsqIx, id: DsqId, task: TaskId, insert: Insert, custody: Custody) -> bool {
        let now = self.ctx.now;
        let dsq = &mut self.dsqs[ix.0 as usize];
        let entry = self.tasks.living_mut(task);
        assert!(entry.scx.dsq.is_none(), "{task} is on one dispatch queue at a time");
        entry.ready_at = now;
        entry.apply(insert);
        let released = entry.flag_queued(custody);
        let immed = entry.scx.flags & SCX_TASK_IMMED != 0;
        let after = dsq.place_for(task, entry.scx.dsq_vtime, insert.flags);
        dsq.link(ix, &mut self.tasks, task, after);
        self.emit(EventKind::DsqInsert { task, dsq: id });
        if released {
            self.tell_dequeue(task, 0);
        }
        immed
    }

    /// The flags of an insertion into a queue that may not be ordered by vtime, or is ordered otherwise than its tasks
    /// so far: the two orders must not mix.
    #[inline]
    pub(crate) fn vet_order(&mut self, ix: DsqIx, flags: u64) -> u64 {
        let (dsq, by_vtime) = (self.dsq(ix), flags & SCX_ENQ_DSQ_PRIQ != 0);
        let mixed = dsq.head.is_some() && dsq.order.is_empty() == by_vtime;
        if mixed || by_vtime && dsq.id.0 & SCX_DSQ_FLAG_BUILTIN != 0 {
            return self.refuse_order(ix, flags);
        }
        flags
    }

    #[cold]
    #[inline(never)]
    fn refuse_order(&mut self, ix: DsqIx, mut flags: u64) -> u64 {
        let (id, by_vtime) = (self.dsq(ix).id.0, flags & SCX_ENQ_DSQ_PRIQ != 0);
        if id & SCX_DSQ_FLAG_BUILTIN != 0 && by_vtime {
            self.error(ExitKind::Error, "cannot use vtime ordering for built-in DSQs".into());
            flags &= !SCX_ENQ_DSQ_PRIQ;
        }
        let (dsq, by_vtime) = (self.dsq(ix), flags & SCX_ENQ_DSQ_PRIQ != 0);
        if dsq.head.is_some() && dsq.order.is_empty() == by_vtime {
            let kind = if by_vtime { "FIFO" } else { "PRIQ" };
            self.error(ExitKind::Error, format!("DSQ ID {id:#018x} already had {kind}-enqueued tasks"));
        }
        flags
    }

    /// A task that must run at once is on a local queue: where it cannot, it goes back to the scheduler.
    #[inline(never)]
    fn count_immediate(&mut self, cpu: CpuId, ix: DsqIx, flags: u64) {
        debug_assert!(self.dsq(ix).local == Some(cpu), "the queue is the local one of {cpu}");
        self.cpu_mut(cpu).nr_immed += 1;
        if self.dsq(ix).nr > 1 || !self.rq_is_open(cpu, flags) {
            self.cpu_mut(cpu).reenq_local = true;
        }
    }

    /// What follows an insertion into a local queue: idle wakeup and preemption.
    #[inline]
    fn local_post_enqueue(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        debug_assert!(self.task(task).scx.dsq == Some(self.dsq_local(cpu)), "{task} is on that queue");
        let entry = &self.cpus[cpu.index()];
        if entry.in_dispatch {
            return;
        }
        match entry.curr {
            None => self.resched_curr(cpu),
            Some(curr) => {
                let preempt = flags & SCX_ENQ_PREEMPT != 0 && curr != task;
                if preempt && self.task(curr).class == SchedClass::Ext && self.may_cut(curr) {
                    self.task_mut(curr).set_slice(0);
                    self.resched_curr(cpu);
                }
            }
        }
    }

    /// `rq_is_open()`: can a sched_ext task start on `cpu` at once?
    pub(crate) fn rq_is_open(&self, cpu: CpuId, flags: u64) -> bool {
        let entry = &self.cpus[cpu.index()];
        let Some(curr) = entry.curr else { return true };
        if self.task(curr).class != SchedClass::Ext {
            return false;
        }
        entry.in_dispatch || flags & SCX_ENQ_PREEMPT != 0
    }

    /// Takes `task` off its queue's list; iterators that stand on it step back.
    #[inline(always)]
    pub(crate) fn unlink(&mut self, task: TaskId) {
        let scx = &mut self.tasks.living_mut(task).scx;
        let ix = scx.dsq.take().expect("the task is on a queue");
        let links = Links { prev: scx.dsq_prev.take(), next: scx.dsq_next.take() };
        let (on_priq, immed) = (std::mem::take(&mut scx.on_priq), scx.flags & SCX_TASK_IMMED != 0);
        let place = Place { vtime: scx.dsq_vtime, seq: scx.dsq_seq, task };
        let dsq = &mut self.dsqs[ix.0 as usize];
        if on_priq {
            dsq.order.remove(place);
        }
        let (local, cursors) = (dsq.local, dsq.cursors);
        dsq.unlink(&mut self.tasks, links);
        if cursors > 0 {
            self.step_cursors_back(ix, task, (links.prev, links.next));
        }
        if let Some(cpu) = local
            && immed
        {
            self.cpu_mut(cpu).nr_immed -= 1;
        }
    }

    /// `scx_dispatch_dequeue()`: off whatever queue the task is on.
    #[inline(always)]
    pub(crate) fn dispatch_dequeue(&mut self, task: TaskId) {
        if let Some(ix) = self.task(task).scx.dsq {
            self.dequeue_from(ix, task);
        }
    }

    #[inline(never)]
    fn dequeue_from(&mut self, ix: DsqIx, task: TaskId) {
        self.dsq_lock(ix);
        debug_assert!(self.task(task).scx.dsq == Some(ix), "the task is on that queue");
        self.unlink(task);
        self.dsq_unlock(ix);
    }

    /// `find_dsq_for_dispatch()`: errors fall back to the global queue.
    pub(crate) fn dsq_for_dispatch(&mut self, cpu: CpuId, id: DsqId, task_cpu: CpuId) -> DsqIx {
        if id == SCX_DSQ_LOCAL {
            return self.dsq_local(cpu);
        }
        if id.0 & SCX_DSQ_LOCAL_ON.0 == SCX_DSQ_LOCAL_ON.0 {
            let target = (id.0 & SCX_DSQ_LOCAL_CPU_MASK) as u32 as i32;
            return match self.valid_cpu(target, Some("in SCX_DSQ_LOCAL_ON dispatch verdict")) {
                Some(target) => self.dsq_local(target),
                None => self.dsq_global(task_cpu),
            };
        }
        if id == SCX_DSQ_GLOBAL {
            return self.dsq_global(task_cpu);
        }
        self.user_dsq(id).unwrap_or_else(|| {
            self.error(ExitKind::Error, format!("non-existent DSQ {:#x}", id.0));
            self.dsq_global(task_cpu)
        })
    }

    /// `task_can_run_on_remote_rq()`.
    pub(crate) fn can_run_on(&mut self, task: TaskId, cpu: CpuId, enforce: bool) -> bool {
        let entry = self.task(task);
        let allowed = entry.allows_of(cpu, self.cpus.len());
        let pinned = entry.migration_disabled > 0;
        if !pinned && allowed {
            return self.can_run_where_online(cpu, enforce);
        }
        if enforce {
            let (name, pid, from) = (entry.name().to_string(), entry.pid, entry.cpu.0);
            let message = if pinned {
                format!(
                    "SCX_DSQ_LOCAL[_ON] cannot move migration disabled {name}[{pid}] from CPU {from} to {}",
                    cpu.0
                )
            } else {
                format!("SCX_DSQ_LOCAL[_ON] target CPU {} not allowed for {name}[{pid}]", cpu.0)
            };
            self.error(ExitKind::Error, message);
        }
        false
    }

    /// CPUs may go offline between a dispatch and here: no error.
    #[inline]
    fn can_run_where_online(&mut self, cpu: CpuId, enforce: bool) -> bool {
        let online = self.is_online(cpu);
        self.sched.events.dispatch_local_dsq_offline += u64::from(enforce && !online);
        online
    }

    /// `scx_consume_dispatch_q()`: moves the first task that `cpu` may run from a
    /// shared queue to its local one. Holds the rq lock of `cpu`.
    #[inline(always)]
    pub(crate) fn consume(&mut self, cpu: CpuId, ix: DsqIx, flags: u64) -> bool {
        if self.dsq(ix).nr == 0 {
            return false;
        }
        self.dsq_lock(ix);
        let mut at = self.dsq(ix).head;
        let aborting = self.sched.exit.is_some() && self.dsq(ix).id != SCX_DSQ_BYPASS;
        while let Some(task) = at.filter(|_| !aborting) {
            let entry = self.task(task);
            at = entry.scx.dsq_next;
            let home = entry.cpu == cpu;
            if home || self.can_run_on(task, cpu, false) {
                self.unlink(task);
                self.dsq_unlock(ix);
                if !home {
                    self.move_to_rq(task, cpu);
                }
                self.enqueue_consumed(cpu, task, flags);
                return true;
            }
            self.charge(self.machine.costs.kfunc);
        }
        self.dsq_unlock(ix);
        false
    }

    /// A task from a shared queue gets on the local one.
    #[inline(always)]
    fn enqueue_consumed(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        let insert = Insert { flags, ..Insert::default() };
        if flags == 0 {
            self.enqueue_local(cpu, task, Insert::default());
        } else {
            self.dispatch_enqueue(self.dsq_local(cpu), task, insert);
        }
    }

    /// Moves a queued task that is on no DSQ to the run queue of `cpu`
    /// (`deactivate_task()`, `set_task_cpu()`, `activate_task()` without the
    /// insertion).
    pub(crate) fn move_to_rq(&mut self, task: TaskId, cpu: CpuId) {
        let from = self.task(task).cpu;
        assert!(from != cpu, "a move changes the CPU");
        assert!(!self.task(task).on_cpu, "a running task does not migrate");
        if from != self.ctx.cpu {
            self.rq_lock(from);
            self.rq_unlock(from);
        }
        let source = self.cpu_mut(from);
        source.nr_running -= 1;
        source.scx_nr_running -= 1;
        let target = self.cpu_mut(cpu);
        target.nr_running += 1;
        target.scx_nr_running += 1;
        let is_first = target.scx_nr_running == 1;
        self.set_task_cpu(task, cpu);
        debug_assert!(self.task(task).cpu == cpu, "the task belongs to its new CPU");
        if is_first {
            self.server_start(cpu, Served::Ext);
        }
    }

    /// `finish_dispatch()`: carries an insert of `ops.dispatch()` out if the task
    /// is still the one that was meant.
    pub(crate) fn finish_dispatch(&mut self, cpu: CpuId, entry: crate::state::sched::DispatchEntry) {
        let Some(task) = self.get_task(entry.task) else { return };
        if task.scx.ops_state != OpsState::Queued || task.scx.ops_qseq != entry.qseq {
            return;
        }
        if self.is_elsewhere(entry.task) {
            self.sched.events.insert_not_owned += 1;
            return;
        }
        let home = task.cpu;
        self.ctx.site = entry.site;
        self.task_mut(entry.task).set_ops_state(OpsState::Dispatching);
        let ix = self.dsq_for_dispatch(cpu, entry.dsq, home);
        let insert = Insert {
            slice: entry.slice,
            vtime: entry.vtime,
            flags: entry.enq_flags | SCX_ENQ_APPLY_SLICE | SCX_ENQ_CLEAR_OPSS,
        };
        match self.dsq(ix).local {
            Some(target) => self.dispatch_to_local(cpu, target, entry.task, insert),
            None => self.dispatch_enqueue(ix, entry.task, insert),
        }
    }

    /// `dispatch_to_local_dsq()`: to the local queue of `target`, migrating the
    /// task when needed.
    pub(crate) fn dispatch_to_local(&mut self, cpu: CpuId, target: CpuId, task: TaskId, insert: Insert) {
        let home = self.task(task).cpu;
        let local = self.dsq_local(target);
        if home == target {
            self.lock_if_remote(cpu, target);
            self.dispatch_enqueue(local, task, insert);
            self.unlock_if_remote(cpu, target);
        } else if !self.can_run_on(task, target, true) {
            let global = self.dsq_global(home);
            let flags = insert.flags | SCX_ENQ_GDSQ_FALLBACK;
            self.dispatch_enqueue(global, task, Insert { flags, ..insert });
            return;
        } else {
            self.lock_if_remote(cpu, target);
            self.move_to_rq(task, target);
            self.dispatch_enqueue(local, task, insert);
            self.unlock_if_remote(cpu, target);
        }
        if self.cpus[target.index()].curr.is_none() {
            self.resched_curr(target);
        }
    }

    pub(crate) fn lock_if_remote(&mut self, cpu: CpuId, other: CpuId) {
        if cpu != other {
            self.rq_lock(other);
        }
    }

    pub(crate) fn unlock_if_remote(&mut self, cpu: CpuId, other: CpuId) {
        if cpu != other {
            self.rq_unlock(other);
        }
    }

    /// `scx_flush_dispatch_buf()`: finishes the inserts of `ops.dispatch()` on `cpu`.
    #[inline]
    pub(crate) fn flush_dispatch_buffer(&mut self, cpu: CpuId) {
        if !self.sched.buffer.is_empty() {
            self.finish_dispatches(cpu);
        }
    }

    #[inline(never)]
    fn finish_dispatches(&mut self, cpu: CpuId) {
        let (mut at, site) = (0, self.ctx.site);
        while let Some(&entry) = self.sched.buffer.get(at) {
            self.finish_dispatch(cpu, entry);
            at += 1;
        }
        self.ctx.site = site;
        self.sched.nr_dispatched += at as u32;
        self.sched.buffer.clear();
    }
}
