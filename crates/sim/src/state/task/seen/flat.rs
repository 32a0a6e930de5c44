//! A task as the lane has it: what wakeups and switches change, in a few cache lines. Its setters show programs each change at once, as those of
//! [`Task`] do.

use super::{
    CPU, DDSP_DSQ_ID, DDSP_ENQ_FLAGS, DSQ_VTIME, EXEC_START, IS_BLOCKED, NIVCSW, NR_MIGRATIONS, NVCSW,
    ON_CPU, ON_RQ, OPS_STATE, QSEQ_SHIFT, RECENT_USED_CPU, RUNNABLE_AT, RUNNABLE_CPU, SCX_FLAGS, SE_ON_RQ,
    SELECTED_CPU, SLICE, STATE, SUM_EXEC_RUNTIME, ScxSeen, Seen, TASK_BYTES, TASK_WAKING, UTIME, WAKE_CPU,
};
use crate::flags::{PF_EXITING, PF_KTHREAD, SCX_DSQ_INVALID, SCX_TASK_QUEUED};
use crate::state::carry::carry;
use crate::state::dsq::DsqIx;
use crate::state::programs::{FlatExec, FlatPrograms};
use crate::state::task::{Burst, OpsState, RunState, SchedClass, ScxEntity, Task};
use schedlab_base::{CpuId, DsqId, DurationNs, Shared, TaskId, TimeNs};

/// A task of sched_ext that may use every CPU and has no working set.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct FlatTask {
    record: Shared<TASK_BYTES>,
    /// Where programs see it; 0 if none does yet.
    pub(crate) pointer: u64,
    pub(crate) exec_start: TimeNs,
    pub(crate) sum_exec_runtime: DurationNs,
    pub(crate) slice: u64,
    pub(crate) dsq_vtime: u64,
    // The next line.
    pub(crate) ready_at: TimeNs,
    pub(crate) burst: Burst,
    pub(crate) cpu: CpuId,
    pub(crate) ran_on: Option<CpuId>,
    pub(crate) dsq: Option<DsqIx>,
    pub(crate) dsq_prev: Option<TaskId>,
    pub(crate) dsq_next: Option<TaskId>,
    pub(crate) scx_flags: u32,
    // The next line.
    pub(crate) dsq_seq: u32,
    pub(crate) ops_qseq: u32,
    pub(crate) ops_state: OpsState,
    pub(crate) state: RunState,
    pub(crate) on_rq: bool,
    pub(crate) on_cpu: bool,
    pub(crate) on_priq: bool,
    pub(crate) process: u32,
    pub(crate) selected_cpu: i32,
    pub(crate) reenq_cnt: u32,
    pub(crate) ddsp_dsq_id: DsqId,
    pub(crate) ddsp_enq_flags: u64,
    pub(crate) ddsp_slice: u64,
    pub(crate) ddsp_vtime: u64,
    // The next line.
    pub(crate) runnable_seq: u64,
    pub(crate) runnable_at: TimeNs,
    pub(crate) exec: FlatExec,
    pub(crate) nr_migrations: u64,
    pub(crate) nvcsw: u64,
    pub(crate) nivcsw: u64,
    pub(crate) last_waker: Option<TaskId>,
    /// How long the kernel had been up when the run began, and the length of a jiffy.
    uptime: DurationNs,
    jiffy: u64,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($field:ident: $ty:ty) { $($member:ident = $number:expr;)+ })*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(&mut self, value: $ty) {
            self.$field = value;
            $(self.record.set($member, ($number)(value));)+
        }
    )* };
}

impl FlatTask {
    setters! {
        /// Whether it runs.
        set_on_cpu(on_cpu: bool) { ON_CPU = u8::from; }
        /// `SCX_TASK_*`.
        set_scx_flags(scx_flags: u32) { SCX_FLAGS = |number| number; }
        /// The remaining slice.
        set_slice(slice: u64) { SLICE = |number| number; }
        /// The key of priority queues.
        set_dsq_vtime(dsq_vtime: u64) { DSQ_VTIME = |number| number; }
        /// The answer of `ops.select_cpu()`.
        set_selected_cpu(selected_cpu: i32) { SELECTED_CPU = i32::cast_unsigned; }
        /// The target of a direct dispatch.
        set_ddsp_dsq_id(ddsp_dsq_id: DsqId) { DDSP_DSQ_ID = |id: DsqId| id.0; }
        /// The flags of a direct dispatch.
        set_ddsp_enq_flags(ddsp_enq_flags: u64) { DDSP_ENQ_FLAGS = |number| number; }
        /// Where it is in its life.
        set_state(state: RunState) { STATE = RunState::bits; }
    }

    /// It is dispatched directly no more.
    #[inline(always)]
    pub(crate) fn clear_direct(&mut self) {
        self.set_ddsp_dsq_id(SCX_DSQ_INVALID);
        self.set_ddsp_enq_flags(0);
    }

    /// Whether it is on a run queue; that of the fair class has no such task.
    #[inline(always)]
    pub(crate) fn show_on_rq(&mut self) {
        self.record.set(ON_RQ, u8::from(self.on_rq));
        self.record.set(SE_ON_RQ, 0);
    }

    /// As [`Task::show_blocked`].
    #[inline(always)]
    pub(crate) fn show_blocked(&mut self) {
        self.record.set(IS_BLOCKED, 1);
    }

    /// As [`Task::show_waking`].
    #[inline(always)]
    pub(crate) fn show_waking(&mut self) {
        self.record.set(STATE, TASK_WAKING);
    }

    /// As [`Task::set_woken`].
    #[inline(always)]
    pub(crate) fn set_woken(&mut self) {
        self.set_state(RunState::Runnable);
        self.record.set(IS_BLOCKED, 0);
    }

    /// Sets and clears some of `SCX_TASK_*`.
    #[inline(always)]
    pub(crate) fn change_scx_flags(&mut self, set: u32, clear: u32) {
        self.set_scx_flags(self.scx_flags & !clear | set);
    }

    /// The CPU that it belongs to.
    #[inline(always)]
    pub(crate) fn set_cpu(&mut self, cpu: CpuId) {
        self.cpu = cpu;
        self.record.set(CPU, cpu.0);
        self.record.set(RECENT_USED_CPU, cpu.0);
        self.record.set(WAKE_CPU, cpu.0);
        self.show_waiting();
    }

    /// As [`Task::count_migration`].
    #[inline(always)]
    pub(crate) fn count_migration(&mut self) {
        self.nr_migrations += 1;
        self.record.set(NR_MIGRATIONS, self.nr_migrations);
    }

    /// As [`Task::count_switch`].
    #[inline(always)]
    pub(crate) fn count_switch(&mut self, voluntary: bool) {
        if voluntary {
            self.nvcsw += 1;
            self.record.set(NVCSW, self.nvcsw);
        } else {
            self.nivcsw += 1;
            self.record.set(NIVCSW, self.nivcsw);
        }
    }

    /// As [`Task::charge_runtime`].
    #[inline(always)]
    pub(crate) fn charge_runtime(&mut self, now: TimeNs) -> u64 {
        let delta = now.since(self.exec_start);
        self.set_exec_start(self.exec_start.max(now));
        self.sum_exec_runtime += delta;
        self.record.set(SUM_EXEC_RUNTIME, self.sum_exec_runtime.0);
        self.record.set(UTIME, self.sum_exec_runtime.0);
        delta.0
    }

    /// It is queued and has time left.
    #[inline(always)]
    pub(crate) fn has_time(&self) -> bool {
        self.scx_flags & SCX_TASK_QUEUED != 0 && self.slice != 0
    }

    /// CPU time that the running task has used by `now`.
    #[inline(always)]
    pub(crate) fn cpu_time(&self, now: TimeNs) -> DurationNs {
        self.sum_exec_runtime + now.since(self.exec_start)
    }

    /// As [`Task::set_ops_state`].
    #[inline(always)]
    pub(crate) fn set_ops_state(&mut self, state: OpsState) {
        self.ops_state = state;
        let number = match state {
            OpsState::Queueing | OpsState::Queued => u64::from(self.ops_qseq) << QSEQ_SHIFT,
            OpsState::None | OpsState::Dispatching => 0,
        };
        self.record.set(OPS_STATE, state as u64 | number);
    }

    /// As [`Task::begin_hand_over`].
    #[inline(always)]
    pub(crate) fn begin_hand_over(&mut self) {
        self.ops_qseq = self.ops_qseq.wrapping_add(1).max(1);
        self.set_ops_state(OpsState::Queueing);
    }

    /// Since when it has not been charged.
    #[inline(always)]
    pub(crate) fn set_exec_start(&mut self, time: TimeNs) {
        self.exec_start = time;
        self.record.set(EXEC_START, (time + self.uptime).0);
    }

    /// Since when it waits.
    #[inline(always)]
    pub(crate) fn set_runnable_at(&mut self, time: TimeNs) {
        self.runnable_at = time;
        self.record.set(RUNNABLE_AT, (time + self.uptime).0 / self.jiffy);
    }

    /// As [`Task::set_runnable_seq`].
    #[inline(always)]
    pub(crate) fn set_runnable_seq(&mut self, seq: u64) {
        self.runnable_seq = seq;
        self.show_waiting();
    }

    #[inline(always)]
    fn show_waiting(&mut self) {
        let cpu = if self.runnable_seq != 0 { self.cpu.0 } else { u32::MAX };
        self.record.set(RUNNABLE_CPU, cpu);
    }
}

carry! {
    Task as task => FlatTask, fits(cpus: usize);
    given { pointer: u64, exec: FlatExec }
    derived {
        record: task.view.record.clone(),
        process: task.process.0,
        uptime: task.view.uptime,
        jiffy: task.view.jiffy,
    }
    Task at task {
        carried { ready_at, burst, ran_on, last_waker }
        renamed {}
        fixed {
            class if *class == SchedClass::Ext,
            waking if !*waking,
            migrating if !*migrating,
            working_set_kib if *working_set_kib == 0,
            syscall if syscall.is_none(),
            dl if dl.is_none(),
        }
        apart { seen, view, scx, exec, process }
        untouched { id, group, stall, sched, user_cpus, warmth, fair, rt_slice, pid, tgid, uid, gid, comm, parent, start_time }
    }
    Seen at task.seen {
        carried { state, on_rq, on_cpu, cpu, exec_start, sum_exec_runtime, nr_migrations, nvcsw, nivcsw }
        renamed {}
        fixed {
            nr_cpus_allowed if *nr_cpus_allowed as usize == cpus,
            migration_disabled if *migration_disabled == 0,
            flags if *flags & (PF_KTHREAD | PF_EXITING) == 0,
            policy if !policy.is_realtime(),
        }
        apart {}
        untouched { boost, nice, se_weight, cpus_allowed }
    }
    ScxEntity at task.scx {
        carried { ddsp_slice, ddsp_vtime, dsq, dsq_prev, dsq_next, dsq_seq, on_priq, reenq_cnt }
        renamed {}
        fixed {}
        apart { seen }
        untouched { tid, reenq_reason, rescue_at }
    }
    ScxSeen at task.scx.seen {
        carried {
            slice, dsq_vtime, ops_state, ops_qseq, runnable_at, runnable_seq, selected_cpu, ddsp_dsq_id,
            ddsp_enq_flags,
        }
        renamed { flags: scx_flags }
        fixed {}
        apart {}
        untouched { weight }
    }
}

impl Task {
    /// The task has nothing that the lane does not know.
    fn fits_lane(&self, cpus: usize) -> bool {
        fits(self, cpus) && matches!(self.state, RunState::Runnable | RunState::Interruptible)
    }

    /// The task as the lane has it; nothing if it has more than that knows.
    pub(crate) fn flatten(&self, cpus: usize, pointer: u64, programs: &FlatPrograms) -> Option<FlatTask> {
        let exec = self.exec.flatten(programs)?;
        self.fits_lane(cpus).then(|| row_of(self, pointer, exec))
    }

    /// Gives back what the lane has made of it. Programs see it already.
    pub(crate) fn restore(&mut self, flat: &FlatTask, programs: &FlatPrograms) {
        give_back(self, flat);
        self.exec.restore(&flat.exec, programs);
    }
}

impl FlatTask {
    /// Has what the general core has made of the task since it was given back in the middle of an event. A task cannot come to have more
    /// than the lane knows there: nothing is executed of its program, and what programs of the scheduler call changes no `fixed` member.
    pub(crate) fn refresh(&mut self, task: &Task, cpus: usize) {
        debug_assert!(task.fits_lane(cpus), "in the middle of an event {} stays what it is", task.id);
        *self = row_of(task, self.pointer, self.exec.refreshed(&task.exec));
    }
}
