//! The sched_ext kfuncs, named as the kernel's without `scx_bpf_`. Return values
//! and errors are the kernel's; numbers that come from a program are plain
//! integers, checked here.

use crate::Kernel;
use crate::flags::*;
use crate::state::cpu::Kick;
use crate::state::dsq::{Cursor, Dsq, DsqIter};
use crate::state::ops::{OpKind, OpsSet};
use crate::state::sched::{DispatchEntry, EventCounters, PendingExit};
use crate::state::subs::{CAP_ENQ_IMMED, CAP_PERF, SchedIx};
use crate::state::task::{OpsState, Task};
use schedlab_base::{CpuId, DsqId, TaskId, TimeNs};
use schedlab_trace::ExitKind;

/// User queues and their iterators.
impl Kernel {
    /// `scx_bpf_create_dsq()`: 0, or `-EINVAL` for a bad node or built-in id, or
    /// `-EEXIST`.
    pub fn create_dsq(&mut self, id: DsqId, node: i32) -> i32 {
        let bad_node = node >= self.nr_nodes as i32 || node < -1;
        if bad_node || id.0 & SCX_DSQ_FLAG_BUILTIN != 0 {
            return -errno::EINVAL;
        }
        if self.user_dsq(id).is_some() {
            return -errno::EEXIST;
        }
        let ix = match self.scx.dsq_free.pop() {
            Some(ix) => {
                self.dsqs[ix as usize] = Dsq::new(id, None);
                ix
            }
            None => {
                self.dsqs.push(Dsq::new(id, None));
                self.dsqs.len() as u32 - 1
            }
        };
        match self.sched.small(id) {
            Some(place) => *place = ix,
            None => _ = self.sched.dsq_index.insert(id.0, ix),
        }
        0
    }

    /// `scx_bpf_destroy_dsq()`: nothing for an unknown id, an error when in use. True if it is gone now.
    pub fn destroy_dsq(&mut self, id: DsqId) -> bool {
        let Some(ix) = self.user_dsq(id) else { return false };
        let nr = self.dsq(ix).nr;
        debug_assert!(self.dsqs[ix.0 as usize].local.is_none(), "programs destroy queues of their own only");
        if nr > 0 {
            let message = format!("attempting to destroy in-use dsq {:#018x} (nr={nr})", id.0);
            self.error(ExitKind::Error, message);
            return false;
        }
        for cursor in self.cursors.iter_mut().filter(|cursor| cursor.dsq == Some(ix)) {
            cursor.dsq = None;
        }
        self.dsq_mut(ix).id = SCX_DSQ_INVALID;
        self.scx.dsq_free.push(ix.0);
        match self.sched.small(id) {
            Some(place) => *place = 0,
            None => _ = self.sched.dsq_index.remove(&id.0),
        }
        true
    }

    /// `scx_bpf_dsq_nr_queued()`: the number or `-ENOENT`; a bad CPU is an error besides.
    pub fn dsq_nr_queued(&mut self, id: DsqId) -> i32 {
        if id == SCX_DSQ_LOCAL {
            let cpu = self.ctx.rq.unwrap_or(self.ctx.cpu);
            return self.dsq(self.dsq_local(cpu)).nr as i32;
        }
        if id.0 & SCX_DSQ_LOCAL_ON.0 == SCX_DSQ_LOCAL_ON.0 {
            let cpu = self.valid_cpu((id.0 & SCX_DSQ_LOCAL_CPU_MASK) as u32 as i32, None);
            return cpu.map_or(-errno::ENOENT, |cpu| self.local_dsq_len(cpu) as i32);
        }
        self.user_dsq(id).map_or(-errno::ENOENT, |ix| self.dsq(ix).nr as i32)
    }

    /// How many tasks are on the local queue of `cpu`.
    pub fn local_dsq_len(&self, cpu: CpuId) -> u32 {
        self.dsq(self.dsq_local(cpu)).nr
    }

    /// `scx_bpf_dsq_peek()`: the first task of a user queue.
    pub fn dsq_peek(&mut self, id: DsqId) -> Option<TaskId> {
        if id.0 & SCX_DSQ_FLAG_BUILTIN != 0 {
            self.error(ExitKind::Error, format!("peek disallowed on builtin DSQ {:#x}", id.0));
            return None;
        }
        let Some(ix) = self.user_dsq(id) else {
            self.error(ExitKind::Error, format!("peek on non-existent DSQ {:#x}", id.0));
            return None;
        };
        self.dsq(ix).head
    }

    /// `bpf_iter_scx_dsq_new()`.
    ///
    /// # Errors
    /// `-EINVAL` for unknown flags, `-ENOENT` for an unknown queue. The iterator
    /// needs no destroying then.
    pub fn dsq_iter_new(&mut self, id: DsqId, flags: u64) -> Result<DsqIter, i32> {
        if flags & !SCX_DSQ_ITER_REV != 0 {
            return Err(-errno::EINVAL);
        }
        let ix = self.user_dsq(id).ok_or(-errno::ENOENT)?;
        let cursor = Cursor {
            dsq: Some(ix),
            at: None,
            finished: false,
            reverse: flags & SCX_DSQ_ITER_REV != 0,
            seq: self.dsq(ix).seq,
            slice: None,
            vtime: None,
        };
        self.dsq_mut(ix).cursors += 1;
        debug_assert!((ix.0 as usize) < self.dsqs.len(), "the queue was made");
        let free = self.cursors.iter().position(|cursor| cursor.dsq.is_none());
        let index = free.unwrap_or_else(|| {
            self.cursors.push(cursor);
            self.cursors.len() - 1
        });
        self.cursors[index] = cursor;
        Ok(DsqIter(index as u32))
    }

    /// `bpf_iter_scx_dsq_next()`.
    pub fn dsq_iter_next(&mut self, iter: DsqIter) -> Option<TaskId> {
        self.cursor_next(iter.0 as usize)
    }

    /// `bpf_iter_scx_dsq_destroy()`.
    pub fn dsq_iter_destroy(&mut self, iter: DsqIter) {
        if let Some(ix) = self.cursors[iter.0 as usize].dsq.take() {
            debug_assert!(self.dsq(ix).cursors > 0, "a queue counts its cursors");
            self.dsq_mut(ix).cursors -= 1;
        }
    }

    /// `scx_bpf_dsq_move_set_slice()`: for the next move of this iterator.
    pub fn dsq_move_set_slice(&mut self, iter: DsqIter, slice: u64) {
        self.cursors[iter.0 as usize].slice = Some(slice);
    }

    /// `scx_bpf_dsq_move_set_vtime()`: for the next move of this iterator.
    pub fn dsq_move_set_vtime(&mut self, iter: DsqIter, vtime: u64) {
        self.cursors[iter.0 as usize].vtime = Some(vtime);
    }

    /// `scx_bpf_dsq_move()`: false when the task is not on the queue any more.
    pub fn dsq_move(&mut self, iter: DsqIter, task: TaskId, dst: DsqId, enq_flags: u64) -> bool {
        self.iter_move(iter, task, dst, enq_flags, 0)
    }

    /// `scx_bpf_dsq_move_vtime()`.
    pub fn dsq_move_vtime(&mut self, iter: DsqIter, task: TaskId, dst: DsqId, enq_flags: u64) -> bool {
        self.iter_move(iter, task, dst, enq_flags, SCX_ENQ_DSQ_PRIQ)
    }

    fn iter_move(&mut self, iter: DsqIter, task: TaskId, dst: DsqId, enq_flags: u64, internal: u64) -> bool {
        let index = iter.0 as usize;
        let Some(flags) = self.vet_enq_flags(dst, enq_flags) else { return false };
        if self.sched.exit.is_some() {
            return false;
        }
        if self.is_flat() && flags & SCX_ENQ_IMMED != 0 {
            return self.in_general(|k| k.iter_move(iter, task, dst, enq_flags, internal));
        }
        let moved = self.cursor_move(index, task, dst, flags | internal);
        self.cursors[index].slice = None;
        self.cursors[index].vtime = None;
        moved
    }
}

/// Inserting and dispatching.
impl Kernel {
    /// `scx_vet_enq_flags()`: the effective flags, or an error.
    #[inline]
    fn vet_enq_flags(&mut self, dsq: DsqId, flags: u64) -> Option<u64> {
        let checked = SCX_ENQ_INTERNAL_MASK | SCX_ENQ_IMMED | SCX_ENQ_RESCUE;
        if flags & checked == 0 && self.sched.flags & SCX_OPS_ALWAYS_ENQ_IMMED == 0 {
            return Some(flags);
        }
        self.vet_rare_flags(dsq, flags)
    }

    #[inline(never)]
    fn vet_rare_flags(&mut self, dsq: DsqId, mut flags: u64) -> Option<u64> {
        let local = dsq == SCX_DSQ_LOCAL || dsq.0 & SCX_DSQ_LOCAL_ON.0 == SCX_DSQ_LOCAL_ON.0;
        if flags & SCX_ENQ_INTERNAL_MASK != 0 {
            self.error(ExitKind::Error, format!("invalid enq_flags {flags:#x}"));
            return None;
        }
        for (flag, name) in [(SCX_ENQ_IMMED, "IMMED"), (SCX_ENQ_RESCUE, "RESCUE")] {
            if flags & flag != 0 && !local {
                self.error(ExitKind::Error, format!("SCX_ENQ_{name} on a non-local DSQ {:#x}", dsq.0));
                return None;
            }
        }
        if local && self.sched.flags & SCX_OPS_ALWAYS_ENQ_IMMED != 0 {
            flags |= SCX_ENQ_IMMED;
        }
        Some(flags)
    }

    /// `scx_bpf_dsq_insert()`: a direct dispatch from select_cpu and enqueue,
    /// otherwise buffered until `ops.dispatch()` returns. False if the task is not the scheduler's or the flags are
    /// wrong.
    pub fn dsq_insert(&mut self, task: TaskId, dsq: DsqId, slice: u64, enq_flags: u64) -> bool {
        let Some(flags) = self.insert_preamble(task, dsq, enq_flags) else { return false };
        self.insert_commit(task, dsq, slice, 0, flags);
        true
    }

    /// `scx_bpf_dsq_insert_vtime()`.
    pub fn dsq_insert_vtime(
        &mut self,
        task: TaskId,
        dsq: DsqId,
        slice: u64,
        vtime: u64,
        enq_flags: u64,
    ) -> bool {
        let Some(flags) = self.insert_preamble(task, dsq, enq_flags) else { return false };
        self.insert_commit(task, dsq, slice, vtime, flags | SCX_ENQ_DSQ_PRIQ);
        true
    }

    /// `scx_dsq_insert_preamble()`: the effective flags; nothing for a task that the scheduler does not have, or
    /// after an error.
    #[inline(always)]
    fn insert_preamble(&mut self, task: TaskId, dsq: DsqId, enq_flags: u64) -> Option<u64> {
        if !self.has_task(task) {
            self.sched.events.insert_not_owned += 1;
            return None;
        }
        self.vet_enq_flags(dsq, enq_flags)
    }

    #[inline(always)]
    fn insert_commit(&mut self, task: TaskId, dsq: DsqId, slice: u64, vtime: u64, enq_flags: u64) {
        let scx = &self.task(task).scx;
        let queued = matches!(scx.ops_state, OpsState::Queueing | OpsState::Queued);
        let qseq = if queued { scx.ops_qseq } else { 0 };
        let site = self.ctx.site;
        if let Some(direct) = self.sched.direct {
            self.mark_direct_dispatch(
                direct,
                task,
                DispatchEntry { task, qseq, dsq, slice, vtime, enq_flags, site },
            );
            return;
        }
        if self.sched.buffer.len() >= self.sched.max_batch as usize {
            self.error(ExitKind::Error, "dispatch buffer overflow".into());
            return;
        }
        self.sched.buffer.push(DispatchEntry { task, qseq, dsq, slice, vtime, enq_flags, site });
    }

    fn mark_direct_dispatch(&mut self, direct: Option<TaskId>, task: TaskId, entry: DispatchEntry) {
        self.sched.direct = Some(None);
        let name = |k: &Kernel, task: TaskId| format!("{}[{}]", k.task(task).name(), k.task(task).pid);
        let Some(expected) = direct else {
            let message = format!("{} already direct-dispatched", name(self, task));
            self.error(ExitKind::Error, message);
            return;
        };
        if expected != task {
            let message = format!(
                "scheduling for {} but trying to direct-dispatch {}",
                name(self, expected),
                name(self, task)
            );
            self.error(ExitKind::Error, message);
            return;
        }
        self.sched.direct_site = entry.site;
        let direct = self.task_mut(task);
        direct.scx.ddsp_slice = entry.slice;
        direct.scx.ddsp_vtime = entry.vtime;
        direct.set_ddsp_dsq_id(entry.dsq);
        direct.set_ddsp_enq_flags(entry.enq_flags);
    }

    /// `scx_kf_arg_task_ok()`: true for the task that the running callback is about; else false, with an error. Callbacks that
    /// only have a task among their arguments, as `ops.dispatch()` and `ops.init_task()`, are about none.
    pub fn operates_on(&mut self, task: Option<TaskId>) -> bool {
        let operated_on = OpsSet::ABOUT_TASKS.has(self.ctx.op) && task.is_some() && self.ctx.op_task == task;
        if !operated_on {
            self.error(ExitKind::Error, "called on a task not being operated on".into());
        }
        operated_on
    }

    /// `scx_bpf_dispatch_nr_slots()`.
    pub fn dispatch_nr_slots(&self) -> u32 {
        debug_assert!(self.sched.buffer.len() <= self.sched.max_batch as usize, "the buffer has its slots");
        self.sched.max_batch - self.sched.buffer.len() as u32
    }

    /// `scx_bpf_dispatch_cancel()`: drops the last buffered insert.
    pub fn dispatch_cancel(&mut self) {
        if self.sched.buffer.pop().is_none() {
            self.error(ExitKind::Error, "dispatch buffer underflow".into());
        }
    }

    /// `scx_bpf_dsq_move_to_local()`: from `ops.dispatch()`; flushes the buffer,
    /// then moves the first task that may run here to the local queue.
    pub fn dsq_move_to_local(&mut self, id: DsqId, enq_flags: u64) -> bool {
        let Some(flags) = self.vet_enq_flags(SCX_DSQ_LOCAL, enq_flags) else { return false };
        let cpu = self.ctx.cpu;
        self.flush_dispatch_buffer(cpu);
        let Some(ix) = self.user_dsq(id) else {
            self.error(ExitKind::Error, format!("invalid DSQ ID {:#018x}", id.0));
            return false;
        };
        let moved = self.consume(cpu, ix, flags);
        debug_assert!(self.sched.buffer.is_empty(), "the buffer was flushed");
        self.sched.nr_dispatched += u32::from(moved);
        moved
    }

    /// `scx_bpf_reenqueue_local()`: the tasks on this CPU's local queue go back to
    /// `ops.enqueue()` when the callback has returned; how many.
    pub fn reenqueue_local(&mut self) -> u32 {
        let cpu = self.ctx.cpu;
        let nr = self.dsq(self.dsq_local(cpu)).nr;
        if self.subs.at != SchedIx::ROOT {
            return self.reenqueue_own(cpu, nr);
        }
        let entry = self.cpu_mut(cpu);
        entry.reenq_local |= nr > 0;
        entry.reenq_any |= nr > 0;
        nr
    }

    /// The same for a sub-scheduler, which gets no task of others.
    #[cold]
    fn reenqueue_own(&mut self, cpu: CpuId, nr: u32) -> u32 {
        if self.missing_caps(cpu, CAP_ENQ_IMMED) != 0 {
            self.sched.events.sub_reenq_denied += 1;
            return 0;
        }
        let here = self.subs.at;
        self.subs.reenqueue[cpu.index()].push((here, false));
        self.cpu_mut(cpu).reenq_local |= nr > 0;
        nr
    }
}

/// CPUs, tasks and everything else.
impl Kernel {
    /// A CPU number of a program; an error when it is none.
    #[inline]
    pub(crate) fn valid_cpu(&mut self, cpu: i32, place: Option<&str>) -> Option<CpuId> {
        if (0..self.cpus.len() as i32).contains(&cpu) {
            return Some(CpuId(cpu as u32));
        }
        self.invalid_cpu(cpu, place);
        None
    }

    #[cold]
    fn invalid_cpu(&mut self, cpu: i32, place: Option<&str>) {
        let place = place.map(|place| format!(" {place}")).unwrap_or_default();
        self.error(ExitKind::Error, format!("invalid CPU {cpu}{place}"));
    }

    /// `scx_bpf_kick_cpu()`: carried out when the running kernel path ends.
    pub fn kick_cpu(&mut self, cpu: i32, flags: u64) {
        let Some(cpu) = self.valid_cpu(cpu, None) else { return };
        if self.sched.bypassing {
            return;
        }
        let flags = if self.subs.at == SchedIx::ROOT { Some(flags) } else { self.kick_flags(cpu, flags) };
        let Some(flags) = flags else { return };
        if flags & SCX_KICK_IDLE != 0 {
            if flags & (SCX_KICK_PREEMPT | SCX_KICK_WAIT) != 0 {
                self.error(ExitKind::Error, "PREEMPT/WAIT cannot be used with SCX_KICK_IDLE".into());
            }
            // A busy CPU needs no kick; but that is only looked at if its lock can be had.
            let target = &self.cpus[cpu.index()];
            if target.curr.is_some() && !target.in_dispatch && !target.lock.is_held() {
                return;
            }
        }
        let here = self.ctx.cpu;
        self.cpu_mut(here).kicks.add(Kick { cpu, flags });
        self.kicks_pending = true;
    }

    /// What a sub-scheduler's kick of a CPU may do there (`kick_one_cpu()`); nothing if it may not be kicked.
    #[cold]
    fn kick_flags(&mut self, cpu: CpuId, flags: u64) -> Option<u64> {
        if self.missing_caps(cpu, CAP_ENQ_IMMED) != 0 {
            self.sched.events.sub_kick_denied += 1;
            return None;
        }
        let needed = if flags & SCX_KICK_PREEMPT != 0 { self.caps_to_preempt(cpu) } else { 0 };
        if self.missing_caps(cpu, needed) == 0 {
            return Some(flags);
        }
        self.sched.events.sub_preempt_denied += 1;
        Some(flags & !SCX_KICK_PREEMPT)
    }

    /// `scx_bpf_task_running()`.
    pub fn task_running(&self, task: TaskId) -> bool {
        self.task(task).on_cpu
    }

    /// `scx_bpf_task_cpu()`.
    pub fn task_cpu(&self, task: TaskId) -> CpuId {
        self.task(task).cpu
    }

    /// `scx_task_on_sched()`: false for a task that `ops.init_task()` has not accepted, or that has left.
    pub fn has_task(&self, task: TaskId) -> bool {
        let here = self.subs.at;
        let own = |task: &Task| task.sched == here && task.scx.flags & SCX_TASK_STATE_MASK >= SCX_TASK_INIT;
        self.get_task(task).is_some_and(own)
    }

    /// `scx_bpf_task_set_slice()` for a task that the scheduler has.
    pub fn task_set_slice(&mut self, task: TaskId, slice: u64) -> bool {
        if self.subs.many && !self.may_set_slice(task, slice) {
            return true;
        }
        let Some(entry) = self.tasks.get_mut(task) else { return false };
        entry.set_slice(slice);
        true
    }

    /// A sub-scheduler makes no slice longer on a CPU that it does not have, and one that is protected stays as it is.
    #[cold]
    fn may_set_slice(&mut self, task: TaskId, slice: u64) -> bool {
        let Some(entry) = self.get_task(task) else { return true };
        let (longer, cpu) = (slice > entry.scx.slice, entry.cpu);
        if longer && self.missing_caps(cpu, CAP_ENQ_IMMED) != 0 {
            self.sched.events.slice_denied += 1;
            return false;
        }
        self.may_cut(task)
    }

    /// `scx_bpf_task_set_dsq_vtime()` for a task that the scheduler has.
    pub fn task_set_dsq_vtime(&mut self, task: TaskId, vtime: u64) -> bool {
        let Some(entry) = self.tasks.get_mut(task) else { return false };
        entry.set_dsq_vtime(vtime);
        true
    }

    /// `scx_bpf_cpu_curr()`: nothing is the idle task, or a bad CPU (an error).
    pub fn cpu_curr(&mut self, cpu: i32) -> Option<TaskId> {
        let cpu = self.valid_cpu(cpu, None)?;
        self.curr(cpu)
    }

    /// `scx_bpf_nr_cpu_ids()`.
    pub fn nr_cpu_ids(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// `scx_bpf_nr_node_ids()`.
    pub fn nr_node_ids(&self) -> u32 {
        self.nr_nodes
    }

    /// `scx_bpf_cpu_node()`: the node, or -1 after an error for a bad CPU.
    pub fn cpu_node(&mut self, cpu: i32) -> i32 {
        self.valid_cpu(cpu, None).map_or(-1, |cpu| self.cpus[cpu.index()].node as i32)
    }

    /// `scx_bpf_cpuperf_cap()`: 1024 for every CPU.
    pub fn cpuperf_cap(&mut self, cpu: i32) -> u32 {
        self.valid_cpu(cpu, None);
        SCX_CPUPERF_ONE
    }

    /// `scx_bpf_cpuperf_cur()`: 1024, frequencies are not modelled.
    pub fn cpuperf_cur(&mut self, cpu: i32) -> u32 {
        self.valid_cpu(cpu, None);
        SCX_CPUPERF_ONE
    }

    /// `scx_bpf_cpuperf_set()`: the target of a CPU, which has no effect on its speed; 0 or a negative error. While a
    /// run queue is locked, only its CPU can be set.
    pub fn cpuperf_set(&mut self, cpu: i32, perf: u32) -> i32 {
        if perf > SCX_CPUPERF_ONE {
            self.error(ExitKind::Error, format!("Invalid cpuperf target {perf} for CPU {cpu}"));
            return -errno::EINVAL;
        }
        let Some(target) = self.valid_cpu(cpu, None) else { return -errno::EINVAL };
        if self.ctx.rq.is_some_and(|locked| locked != target) {
            self.error(ExitKind::Error, format!("Invalid target CPU {cpu}"));
            return -errno::EINVAL;
        }
        if self.missing_caps(target, CAP_PERF) != 0 {
            self.sched.events.sub_cidperf_denied += 1;
            return -errno::EACCES;
        }
        self.cpu_mut(target).cpuperf_target = perf;
        0
    }

    /// `scx_bpf_events()`.
    pub fn events(&self) -> &EventCounters {
        &self.sched.events
    }

    /// `scx_bpf_now()` and `ktime_get_ns()`: what the kernel's clock shows.
    pub fn now(&self) -> TimeNs {
        self.ctx.now + self.uptime
    }

    /// The run's instant at which the kernel's clock shows `clock`; the beginning
    /// for earlier ones.
    pub fn since_start(&self, clock: TimeNs) -> TimeNs {
        TimeNs::ZERO + clock.since(TimeNs::ZERO + self.uptime)
    }

    /// `scx_error()` and `scx_bpf_error()`: the first claim counts; the core ejects
    /// the scheduler when the running kernel path ends.
    #[cold]
    pub fn error(&mut self, kind: ExitKind, message: String) {
        self.claim_exit(kind, message, Some(self.ctx.cpu));
    }

    /// `scx_bpf_exit()`: the code is kept by [`Kernel::exit_code`] alone.
    pub fn bpf_exit(&mut self, code: i64, message: String) {
        if self.sched.exit.is_none() {
            self.sched.exit_code = code;
        }
        self.claim_exit(ExitKind::UnregBpf, message, Some(self.ctx.cpu));
    }

    /// `exit_info->exit_code`: what `scx_bpf_exit()` was given, else 0.
    pub fn exit_code(&self) -> i64 {
        self.sched.exit_code
    }

    /// `exit_info->exit_cpu`: where the exit was claimed, -1 for one from outside.
    pub fn exit_cpu(&self) -> i32 {
        let cpu = self.sched.exit.as_ref().and_then(|exit| exit.cpu);
        cpu.map_or(-1, |cpu| cpu.0 as i32)
    }

    pub(crate) fn claim_exit(&mut self, kind: ExitKind, message: String, cpu: Option<CpuId>) {
        if self.sched.exit.is_some() || !self.scx.loaded {
            return;
        }
        let message = cut_message(message);
        let current = self.ctx.current;
        self.sched.exit =
            Some(PendingExit { kind, message, cpu, current, at: self.ctx.now, site: self.ctx.site });
        self.subs.exits |= self.subs.at != SchedIx::ROOT;
        self.scx.exit_claimed = true;
    }

    /// `scx_bpf_dump()`: text of the dump callbacks. Lines beyond the dump's
    /// length are cut off.
    pub fn dump_line(&mut self, text: &str) {
        if !matches!(self.ctx.op, OpKind::Dump | OpKind::DumpCpu | OpKind::DumpTask) {
            self.error(
                ExitKind::Error,
                "scx_bpf_dump() must only be called from ops.dump() and friends".into(),
            );
            return;
        }
        if self.sched.dump.ops_text.len() <= self.sched.dump.limit {
            self.sched.dump.ops_text.push_str(text);
        }
    }
}

/// The message of an exit as far as the kernel keeps it.
pub(crate) fn cut_message(mut message: String) -> String {
    let mut end = message.len().min(SCX_EXIT_MSG_LEN - 1);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.truncate(end);
    debug_assert!(message.len() < SCX_EXIT_MSG_LEN, "the text fits with its zero");
    message
}
