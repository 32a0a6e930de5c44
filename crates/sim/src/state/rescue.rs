//! What is known of rescue: tasks that a sub-scheduler strands on a CPU that it does not have. Times are in ns, jiffies are ticks.

use crate::state::kernel::Kernel;
use crate::state::ops::OpsInfo;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};

/// `SCX_RESCUE_DISABLE`.
const DISABLED: u32 = u32::MAX;
/// `SCX_RESCUE_DFL_BW_PPT`, in parts per thousand.
const DEFAULT_BANDWIDTH: u32 = 20;
/// `SCX_RESCUE_DFL_QUANTUM_US`.
const DEFAULT_QUANTUM_US: u32 = 5000;
/// `SCX_RESCUE_OVERLOAD_MULT`.
const OVERLOAD_PERIODS: i64 = 16;
/// `SCX_RESCUE_MIN_OVERLOAD_MS` and `SCX_RESCUE_MAX_OVERLOAD_MS`, in ns.
const OVERLOAD: [i64; 2] = [1_000_000_000, 15_000_000_000];
/// `SCHED_CAPACITY_SCALE`.
pub(crate) const WHOLE: i64 = 1024;

/// What the root scheduler says of rescue (`scx_rescue_set_knobs()`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RescueKnobs {
    /// The part of a CPU that is for rescue, of [`WHOLE`]; 0 disables it.
    pub(crate) bandwidth: i64,
    /// What a rescue may run at most.
    pub(crate) quantum: i64,
    /// In jiffies: after how long a wait is too much, and in which time usage counts half.
    pub(crate) overload_after: u64,
    pub(crate) halflife: u64,
}

impl RescueKnobs {
    /// Those of a root scheduler, on a kernel with this tick.
    pub(crate) fn new(info: &OpsInfo, tick: DurationNs) -> RescueKnobs {
        if info.rescue_bandwidth_ppt == DISABLED {
            return RescueKnobs::default();
        }
        let or = |value: u32, default: u32| i64::from(if value == 0 { default } else { value });
        let bandwidth = or(info.rescue_bandwidth_ppt, DEFAULT_BANDWIDTH) * WHOLE / 1000;
        let quantum = (or(info.rescue_quantum_us, DEFAULT_QUANTUM_US) * 1000).max(tick.0 as i64);
        let period = quantum * WHOLE / bandwidth.max(1);
        let overload = (OVERLOAD_PERIODS * period).clamp(OVERLOAD[0], OVERLOAD[1]) as u64 / tick.0;
        RescueKnobs { bandwidth, quantum, overload_after: overload, halflife: (overload / 4).max(1) }
    }

    /// What a budget gains in this time, at most `most`.
    pub(crate) fn accrued(self, elapsed: u64, budget: i64, most: i64) -> i64 {
        let gain = i128::from(elapsed) * i128::from(self.bandwidth) / i128::from(WHOLE);
        (i128::from(budget) + gain).min(i128::from(most)) as i64
    }
}

/// The rescue on one CPU (`rq->scx.rescue`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Rescue {
    /// The task that is being rescued.
    pub(crate) curr: Option<TaskId>,
    /// The schedulers may neither preempt it nor change its slice (`SCX_TASK_PROTECTED`).
    pub(crate) protected: bool,
    pub(crate) slice: i64,
    /// Its CPU time when the rescue began.
    pub(crate) snapshot: u64,
    pub(crate) budget: i64,
    pub(crate) clock: TimeNs,
    pub(crate) timer: bool,
    /// The jiffy of the last ejection by it.
    pub(crate) killed_at: u64,
}

impl Kernel {
    pub(crate) fn jiffy(&self) -> u64 {
        (self.ctx.now + self.uptime).0 / self.tick_period.0
    }

    /// The task is being rescued on this CPU (`scx_rescuee()`).
    pub(crate) fn is_rescued(&self, task: TaskId, cpu: CpuId) -> bool {
        self.subs.many && self.subs.rescue[cpu.index()].curr == Some(task)
    }

    /// No scheduler may preempt the task or change its slice.
    pub(crate) fn is_protected(&self, task: TaskId) -> bool {
        self.subs.many && {
            let rescue = &self.subs.rescue[self.task(task).cpu.index()];
            rescue.protected && rescue.curr == Some(task)
        }
    }

    /// `scx_rescue_slice_remaining()`.
    pub(crate) fn rescue_left(&self, cpu: CpuId) -> i64 {
        let rescue = &self.subs.rescue[cpu.index()];
        let Some(task) = rescue.curr else { return 0 };
        let served = self.task(task).sum_exec_runtime.0.saturating_sub(rescue.snapshot);
        (rescue.slice - served as i64).max(0)
    }

    /// `scx_rescue_charge()`.
    #[cold]
    pub(crate) fn rescue_charge(&mut self, cpu: CpuId, task: TaskId, delta: u64) {
        let most = self.subs.rescue_knobs.quantum + self.machine.tick_period().0 as i64;
        let (delta, jiffy, halflife) =
            ((delta as i64).min(most), self.jiffy(), self.subs.rescue_knobs.halflife);
        self.subs.rescue[cpu.index()].budget -= delta;
        let sched = self.task(task).sched;
        let entry = &mut self.subs.node_mut(sched).cpus[cpu.index()];
        entry.decay_rescued(jiffy, halflife);
        entry.rescued += delta as u64;
        if self.rescue_left(cpu) == 0 {
            self.slice_ended(task);
        }
    }

    /// `scx_task_slice_ended()`: with the slice ends what rides on it.
    pub(crate) fn slice_ended(&mut self, task: TaskId) {
        if !self.subs.many {
            return;
        }
        let cpu = self.task(task).cpu;
        let quantum = self.subs.rescue_knobs.quantum;
        let idle = self.dsqs[self.dsq_rescue(cpu).0 as usize].nr == 0;
        let rescue = &mut self.subs.rescue[cpu.index()];
        if rescue.curr == Some(task) {
            (rescue.curr, rescue.protected) = (None, false);
            if idle {
                rescue.budget = rescue.budget.min(quantum);
            }
        }
    }

    /// The slice of a task may be changed by schedulers; counted if not.
    #[inline(always)]
    pub(crate) fn may_cut(&mut self, task: TaskId) -> bool {
        let protected = self.is_protected(task);
        self.sched.events.slice_denied += u64::from(protected);
        !protected
    }
}
