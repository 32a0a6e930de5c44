//! A task as the lane has it: what wakeups and switches change, in a few cache lines. Its setters show programs each change at once, as those of
//! [`Task`] do.

use super::{
    CPU, DDSP_DSQ_ID, DDSP_ENQ_FLAGS, DSQ_VTIME, EXEC_START, IS_BLOCKED, NIVCSW, NR_MIGRATIONS, NVCSW,
    ON_CPU, ON_RQ, OPS_STATE, QSEQ_SHIFT, RECENT_USED_CPU, RUNNABLE_AT, RUNNABLE_CPU, SCX_FLAGS, SE_ON_RQ,
    SELECTED_CPU, SLICE, STATE, SUM_EXEC_RUNTIME, ScxSeen, Seen, TASK_BYTES, TASK_WAKING, UTIME, WAKE_CPU,
};
use crate::flags::{SCX_DSQ_INVALID, SCX_TASK_QUEUED};
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

impl Task {
    /// The task has nothing that the lane does not know. All members are named here: what has no name with a value stays as it is while the
    /// lane runs, or is taken over by [`Task::flatten`].
    fn fits_lane(&self, cpus: usize) -> bool {
        let Task {
            seen,
            view: _,
            class,
            id: _,
            last_waker: _,
            waking,
            migrating,
            ready_at: _,
            scx: _,
            burst: _,
            working_set_kib,
            process: _,
            ran_on: _,
            exec: _,
            warmth: _,
            syscall,
            fair: _,
            rt_slice: _,
            dl,
            pid: _,
            tgid: _,
            comm: _,
            parent: _,
            start_time: _,
        } = self;
        let Seen {
            state,
            on_rq: _,
            on_cpu: _,
            boost: _,
            cpu: _,
            nr_cpus_allowed,
            migration_disabled,
            flags: _,
            exec_start: _,
            sum_exec_runtime: _,
            nr_migrations: _,
            nvcsw: _,
            nivcsw: _,
            nice: _,
            se_weight: _,
            policy,
            cpus_allowed: _,
        } = seen;
        let everywhere = *nr_cpus_allowed as usize == cpus && *migration_disabled == 0;
        let plain = *class == SchedClass::Ext && dl.is_none() && syscall.is_none() && *working_set_kib == 0;
        let still = !waking && !migrating && matches!(state, RunState::Runnable | RunState::Interruptible);
        let ordinary = !self.is_kthread() && !self.is_exiting() && !policy.is_realtime();
        everywhere && plain && still && ordinary
    }

    /// The task as the lane has it; nothing if it has more than that knows.
    pub(crate) fn flatten(&self, cpus: usize, pointer: u64, programs: &FlatPrograms) -> Option<FlatTask> {
        let (scx, exec) = (&self.scx, self.exec.flatten(programs)?);
        self.fits_lane(cpus).then(|| FlatTask {
            record: self.view.record.clone(),
            pointer,
            exec_start: self.exec_start,
            sum_exec_runtime: self.sum_exec_runtime,
            slice: scx.slice,
            dsq_vtime: scx.dsq_vtime,
            ready_at: self.ready_at,
            burst: self.burst,
            cpu: self.cpu,
            ran_on: self.ran_on,
            dsq: scx.dsq,
            dsq_prev: scx.dsq_prev,
            dsq_next: scx.dsq_next,
            scx_flags: scx.flags,
            dsq_seq: scx.dsq_seq,
            ops_qseq: scx.ops_qseq,
            ops_state: scx.ops_state,
            state: self.state,
            on_rq: self.on_rq,
            on_cpu: self.on_cpu,
            on_priq: scx.on_priq,
            process: self.process.0,
            selected_cpu: scx.selected_cpu,
            reenq_cnt: scx.reenq_cnt,
            ddsp_dsq_id: scx.ddsp_dsq_id,
            ddsp_enq_flags: scx.ddsp_enq_flags,
            ddsp_slice: scx.ddsp_slice,
            ddsp_vtime: scx.ddsp_vtime,
            runnable_seq: scx.runnable_seq,
            runnable_at: scx.runnable_at,
            exec,
            nr_migrations: self.nr_migrations,
            nvcsw: self.nvcsw,
            nivcsw: self.nivcsw,
            last_waker: self.last_waker,
            uptime: self.view.uptime,
            jiffy: self.view.jiffy,
        })
    }

    /// Gives back what the lane has made of it. Programs see it already.
    pub(crate) fn restore(&mut self, flat: &FlatTask, programs: &FlatPrograms) {
        self.scx.restore(flat);
        let seen = &mut self.seen;
        (seen.exec_start, seen.sum_exec_runtime) = (flat.exec_start, flat.sum_exec_runtime);
        (seen.cpu, seen.state, seen.on_rq, seen.on_cpu) = (flat.cpu, flat.state, flat.on_rq, flat.on_cpu);
        (seen.nr_migrations, seen.nvcsw, seen.nivcsw) = (flat.nr_migrations, flat.nvcsw, flat.nivcsw);
        (self.ready_at, self.burst, self.ran_on) = (flat.ready_at, flat.burst, flat.ran_on);
        self.last_waker = flat.last_waker;
        self.exec.restore(&flat.exec, programs);
    }
}

impl ScxEntity {
    /// The sched_ext part of that. All members are named here, of which the first and the task's weight never change in the lane.
    fn restore(&mut self, flat: &FlatTask) {
        *self = ScxEntity {
            tid: self.tid,
            seen: ScxSeen {
                weight: self.seen.weight,
                flags: flat.scx_flags,
                slice: flat.slice,
                dsq_vtime: flat.dsq_vtime,
                ops_state: flat.ops_state,
                ops_qseq: flat.ops_qseq,
                runnable_at: flat.runnable_at,
                runnable_seq: flat.runnable_seq,
                selected_cpu: flat.selected_cpu,
                ddsp_dsq_id: flat.ddsp_dsq_id,
                ddsp_enq_flags: flat.ddsp_enq_flags,
            },
            ddsp_slice: flat.ddsp_slice,
            ddsp_vtime: flat.ddsp_vtime,
            dsq: flat.dsq,
            dsq_prev: flat.dsq_prev,
            dsq_next: flat.dsq_next,
            dsq_seq: flat.dsq_seq,
            on_priq: flat.on_priq,
            reenq_cnt: flat.reenq_cnt,
        };
    }
}
