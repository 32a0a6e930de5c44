//! CPUs: run queue, local clock and what runs.

use crate::fair::FairRq;
use crate::lock::Timeline;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};

/// One logical CPU. The run queue's fields are guarded by its lock's timeline.
#[derive(Debug)]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// Physical core.
    pub core: u32,
    /// Last-level cache domain.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Who runs; nothing is the idle task.
    pub curr: Option<TaskId>,
    /// Reschedule at the next return to user mode.
    pub need_resched: bool,
    /// Tasks on the run queue, running included, of all classes.
    pub nr_running: u32,
    /// Tasks of sched_ext among them.
    pub scx_nr_running: u32,
    /// Switches so far.
    pub nr_switches: u64,
    /// `rq->scx.cpu_released`.
    pub cpu_released: bool,
    /// `rq->scx.kick_sync`.
    pub kick_sync: u64,
    /// Local time up to which the CPU's kernel paths have run.
    pub(crate) clock: TimeNs,
    /// Other CPUs of the same core.
    pub(crate) siblings: Vec<CpuId>,
    pub(crate) lock: Timeline,
    pub(crate) rt: Vec<TaskId>,
    pub(crate) fair: FairRq,
    pub(crate) lazy_resched: bool,
    /// A reschedule interrupt is on its way.
    pub(crate) ipi_pending: bool,
    pub(crate) tick_armed: bool,
    /// When the running task's burst ends if nothing disturbs it.
    pub(crate) burst_end: TimeNs,
    /// How long the running burst takes per work, in permille.
    pub(crate) burst_factor: u32,
    pub(crate) burst_active: bool,
    pub(crate) burst_generation: u32,
    /// When the pending work event fires, for the present generation.
    pub(crate) work_event_at: TimeNs,
    pub(crate) in_dispatch: bool,
    pub(crate) in_pick: bool,
    pub(crate) nr_immed: u32,
    pub(crate) reenq_local: bool,
    /// KiB that tasks have loaded into this CPU's cache.
    pub(crate) cache_filled: u64,
    /// Address space that ran last.
    pub(crate) last_mm: Option<u32>,
    pub(crate) last_switch: TimeNs,
    pub(crate) dirty: bool,
    pub(crate) idle_since: TimeNs,
    pub(crate) next_balance: TimeNs,
    pub(crate) avg_idle: DurationNs,
    pub(crate) kicks: Vec<Kick>,
    /// CPUs whose reschedule this CPU waits for, with their `kick_sync` then.
    pub(crate) sync_wait: Vec<(CpuId, u64)>,
}

/// A kick that waits for the end of the running kernel path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kick {
    pub(crate) cpu: CpuId,
    pub(crate) flags: u64,
}

impl Cpu {
    /// True when the idle task runs.
    pub fn is_idle(&self) -> bool {
        self.curr.is_none()
    }
}
