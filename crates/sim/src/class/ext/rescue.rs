//! Rescue: tasks that a sub-scheduler inserts with `SCX_ENQ_RESCUE` on a CPU that it does not have run there all the same, with a
//! small part of the CPU (`kernel/sched/ext/sub.c`). Times are in ns, jiffies are ticks.

use crate::class::ext::queue::Insert;
use crate::event::Event;
use crate::flags::*;
use crate::state::kernel::Kernel;
use crate::state::ops::SchedExt;
use crate::state::rescue::WHOLE;
use crate::state::sim::Sim;
use crate::state::subs::SchedIx;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, TaskId, TimeNs};
use schedlab_trace::ExitKind;

/// `SCX_RESCUE_MIN_SLICE_US`, in ns.
const LEAST_SLICE: i64 = 1_000_000;

impl Kernel {
    /// `scx_rescue_accrue()`.
    fn rescue_accrue(&mut self, cpu: CpuId) {
        let (now, knobs) = (self.ctx.now, self.subs.rescue_knobs);
        let waiting = self.dsq(self.dsq_rescue(cpu)).nr > 0;
        let rescue = &mut self.subs.rescue[cpu.index()];
        let quanta = if rescue.curr.is_some() || waiting { 3 } else { 1 };
        let elapsed = now.since(rescue.clock).0;
        rescue.budget = knobs.accrued(elapsed, rescue.budget, quanta * knobs.quantum);
        rescue.clock = now;
    }

    /// `scx_rescue_timer_arm()`.
    fn rescue_arm(&mut self, cpu: CpuId) {
        let (knobs, tick) = (self.subs.rescue_knobs, self.machine.tick_period().0);
        let rescue = &mut self.subs.rescue[cpu.index()];
        if rescue.timer {
            return;
        }
        rescue.timer = true;
        let mut delay = knobs.quantum / 4;
        if rescue.curr.is_none() && rescue.budget < knobs.quantum {
            delay = delay.max((knobs.quantum - rescue.budget) * WHOLE / knobs.bandwidth.max(1));
        }
        let at = (self.ctx.now.0 / tick + delay as u64 / tick + 1) * tick;
        self.queue.push(TimeNs(at), Event::Rescue { cpu });
    }

    /// `scx_rescue_admit()`.
    fn rescue_admit(&mut self, cpu: CpuId, task: TaskId, slice: i64) {
        let snapshot = self.task(task).sum_exec_runtime.0;
        let rescue = &mut self.subs.rescue[cpu.index()];
        debug_assert!(rescue.curr.is_none(), "one task is rescued at a time");
        (rescue.curr, rescue.slice, rescue.snapshot, rescue.protected) = (Some(task), slice, snapshot, false);
        self.task_mut(task).set_slice(slice as u64);
        self.rescue_arm(cpu);
    }

    /// Where a stranded task goes (`scx_resolve_local_dsq()` with `SCX_ENQ_RESCUE`): true if it may be on the local queue after
    /// all, false if it waits. Nothing without rescue.
    pub(crate) fn rescue(&mut self, cpu: CpuId, task: TaskId, insert: Insert) -> Option<bool> {
        let knobs = self.subs.rescue_knobs;
        if knobs.bandwidth == 0 {
            return None;
        }
        self.sched.events.sub_rescue += 1;
        self.rescue_accrue(cpu);
        let waiting = self.dsq(self.dsq_rescue(cpu)).nr > 0;
        let rescue = &self.subs.rescue[cpu.index()];
        if rescue.curr.is_none() && !waiting && rescue.budget >= knobs.quantum {
            self.rescue_admit(cpu, task, knobs.quantum);
            return Some(true);
        }
        self.rescue_arm(cpu);
        self.task_mut(task).scx.rescue_at = self.ctx.now;
        let ix = self.dsq_rescue(cpu);
        self.insert_stranded(ix, SCX_DSQ_RESCUE, task, insert);
        Some(false)
    }

    /// `scx_rescue_keep()`: the rescue continues although the slice is over, for its task was preempted.
    pub(crate) fn rescue_keep(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let left = self.rescue_left(cpu);
        let queued = self.task(task).scx.flags & SCX_TASK_QUEUED != 0;
        if left == 0 || !queued || self.sched_of(self.task(task).sched).bypassing {
            return false;
        }
        self.task_mut(task).set_slice(left as u64);
        true
    }

    /// `scx_rescue_check_overload()`: the scheduler that uses rescue most goes when a task waits too long for it.
    fn rescue_check(&mut self, cpu: CpuId) {
        let Some(task) = self.dsq(self.dsq_rescue(cpu)).head else { return };
        let (knobs, jiffy, tick) = (self.subs.rescue_knobs, self.jiffy(), self.machine.tick_period().0);
        let waited = self.ctx.now.since(self.task(task).scx.rescue_at);
        if waited.0 / tick < knobs.overload_after
            || jiffy < self.subs.rescue[cpu.index()].killed_at + knobs.overload_after
        {
            return;
        }
        let mut victim = None;
        for number in 1..self.subs.nodes.len() {
            let ix = SchedIx(number as u16);
            let entry = &mut self.subs.node_mut(ix).cpus[cpu.index()];
            entry.decay_rescued(jiffy, knobs.halflife);
            let used = entry.rescued;
            let leaves = self.is_gone(ix) || self.sched_of(ix).exit.is_some();
            if !leaves && used > victim.map_or(0, |(_, most)| most) {
                victim = Some((ix, used));
            }
        }
        let Some((ix, used)) = victim else { return };
        self.subs.rescue[cpu.index()].killed_at = jiffy;
        let (entry, ms) = (self.task(task), waited.0 / 1_000_000);
        let message = format!(
            "used too much rescue CPU time ({}ms) while {}[{}] waited {}.{:03}s to be rescued",
            used / 1_000_000,
            entry.name(),
            entry.pid,
            ms / 1000,
            ms % 1000
        );
        self.as_sched(ix, |k| k.claim_exit(ExitKind::ErrorRescue, message, Some(cpu)));
    }

    /// `scx_rescue_next_slice()`.
    fn rescue_next_slice(&self, cpu: CpuId) -> i64 {
        let (quantum, tick) = (self.subs.rescue_knobs.quantum, self.machine.tick_period().0 as i64);
        let depth = i64::from(self.dsq(self.dsq_rescue(cpu)).nr.max(1));
        (quantum / depth).clamp(LEAST_SLICE.max(tick).min(quantum), quantum)
    }

    /// A stranded task gets on the local queue of its CPU.
    fn rescue_to_local(&mut self, cpu: CpuId, task: TaskId, flags: u64) {
        self.dispatch_dequeue(task);
        let local = self.dsq_local(cpu);
        self.dispatch_enqueue(
            local,
            task,
            Insert { flags: flags | SCX_ENQ_IGNORE_CAPS, ..Insert::default() },
        );
    }
}

impl<S: SchedExt> Sim<S> {
    /// `scx_rescue_timerfn()`.
    #[inline(never)]
    pub(crate) fn rescue_timer(&mut self, cpu: CpuId) {
        self.k.subs.rescue[cpu.index()].timer = false;
        let waiting = self.k.dsq(self.k.dsq_rescue(cpu)).head;
        let rescued = self.k.subs.rescue[cpu.index()].curr;
        if rescued.is_none() && waiting.is_none() {
            return;
        }
        self.k.rq_lock(cpu);
        self.k.rescue_accrue(cpu);
        self.k.rescue_check(cpu);
        let (knobs, budget) = (self.k.subs.rescue_knobs, self.k.subs.rescue[cpu.index()].budget);
        match (rescued, waiting) {
            (None, Some(task)) if budget >= knobs.quantum => {
                let slice = self.k.rescue_next_slice(cpu);
                self.k.rescue_admit(cpu, task, slice);
                self.k.rescue_to_local(cpu, task, 0);
                let lower = self.k.curr(cpu).is_none_or(|curr| self.k.task(curr).class > SchedClass::Ext);
                if lower {
                    self.k.resched_curr(cpu);
                }
            }
            (Some(task), _) if self.k.task(task).scx.dsq.is_some() && budget > 2 * knobs.quantum => {
                let left = self.k.rescue_left(cpu) as u64;
                self.k.task_mut(task).set_slice(left);
                self.k.subs.rescue[cpu.index()].protected = true;
                self.k.rescue_to_local(cpu, task, SCX_ENQ_HEAD | SCX_ENQ_PREEMPT);
            }
            _ => {}
        }
        self.k.rescue_arm(cpu);
        self.k.rq_unlock(cpu);
    }

    /// `scx_rescue_flush()`: a CPU goes, and no task waits for a rescue there any more.
    pub(crate) fn rescue_flush(&mut self, cpu: CpuId) {
        if !self.k.subs.many {
            return;
        }
        if let Some(task) = self.k.subs.rescue[cpu.index()].curr {
            self.k.slice_ended(task);
        }
        while let Some(task) = self.k.dsq(self.k.dsq_rescue(cpu)).head {
            self.k.rescue_to_local(cpu, task, 0);
        }
    }
}
