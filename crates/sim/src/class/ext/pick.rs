//! Choosing the next task of a CPU: what the scheduler dispatches, and what there is besides.

use crate::flags::*;
use crate::state::dsq::DsqIx;
use crate::state::kernel::Kernel;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::subs::SchedIx;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, TaskId};

/// What dispatching came to (`enum scx_dsp_verdict`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Nothing,
    Local,
    Prev,
}

impl Kernel {
    /// The task is queued and has time left: it may keep running.
    pub(super) fn has_slice(&self, task: Option<TaskId>) -> bool {
        task.is_some_and(|task| {
            let scx = &self.task(task).scx;
            scx.flags & SCX_TASK_QUEUED != 0 && scx.slice != 0
        })
    }

    /// The bypass queue of this CPU first, then the others (the kernel's balancer spreads them every half second; here the CPUs
    /// fetch).
    pub(super) fn consume_bypass(&mut self, cpu: CpuId) -> bool {
        let count = self.cpus.len() as u32;
        (0..count).any(|step| {
            let other = CpuId((cpu.0 + step) % count);
            let ix = match self.subs.at {
                SchedIx::ROOT => self.dsq_bypass(other),
                at => DsqIx(self.subs.node(at).first_bypass + other.0),
            };
            self.dsq(ix).nr > 0 && self.consume(cpu, ix, 0)
        })
    }
}

impl<S: SchedExt> Sim<S> {
    /// `do_pick_task_scx()`: nothing means idle.
    #[inline(never)]
    pub(crate) fn ext_pick(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        self.k.cpu_mut(cpu).in_dispatch = true;
        let verdict = self.ext_dispatch_one(cpu, prev);
        self.k.cpu_mut(cpu).in_dispatch = false;
        if verdict == Verdict::Prev {
            let prev = prev.expect("only a task is kept");
            if self.k.task(prev).scx.slice == 0 {
                self.k.slice_ended(prev);
                self.ext_refill(prev);
            }
            return Some(prev);
        }
        let local = self.k.dsq_local(cpu);
        let task = self.k.dsq(local).head?;
        if self.k.task(task).scx.slice == 0 {
            self.ext_refill(task);
        }
        Some(task)
    }

    pub(super) fn is_queued(&self, task: Option<TaskId>) -> bool {
        task.is_some_and(|task| self.k.task(task).scx.flags & SCX_TASK_QUEUED != 0)
    }

    /// `dispatch_one()`.
    #[inline(always)]
    fn ext_dispatch_one(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Verdict {
        if self.k.subs.many && !self.k.subs.to_sync[cpu.index()].is_empty() {
            self.sync_caps(cpu, prev);
        }
        if std::mem::take(&mut self.k.cpu_mut(cpu).cpu_released) {
            self.ext_tell_acquire(cpu);
        }
        let prev = prev.filter(|&task| self.k.task(task).class == SchedClass::Ext);
        if let Some(task) = prev {
            self.k.scx_update_curr(task);
        }
        let (bypassing, enq_last) = self.prev_stands(prev);
        let verdict = if self.k.has_slice(prev) && !bypassing {
            Verdict::Prev
        } else if self.k.dsq(self.k.dsq_local(cpu)).nr > 0 {
            Verdict::Local
        } else {
            self.ext_dispatch(cpu, prev)
        };
        let verdict = match verdict {
            Verdict::Nothing if self.is_queued(prev) => {
                let stays = prev.is_some_and(|prev| self.k.can_stay(prev, cpu));
                if (!enq_last || bypassing) && stays {
                    self.count_keep_last(prev);
                    Verdict::Prev
                } else {
                    Verdict::Nothing
                }
            }
            other => other,
        };
        let crowded = self.k.dsq(self.k.dsq_local(cpu)).nr > 1 && self.k.cpu(cpu).nr_immed > 0;
        if verdict != Verdict::Nothing && crowded {
            self.k.cpu_mut(cpu).reenq_local = true;
        }
        verdict
    }

    /// Whether the scheduler of the task that ran bypasses, and whether it wants its last task.
    #[inline(always)]
    fn prev_stands(&self, prev: Option<TaskId>) -> (bool, bool) {
        let sched = match prev {
            Some(prev) if self.k.subs.many => self.k.sched_of(self.k.task(prev).sched),
            _ => &self.k.sched,
        };
        (sched.bypassing, sched.flags & SCX_OPS_ENQ_LAST != 0)
    }

    fn count_keep_last(&mut self, prev: Option<TaskId>) {
        let sched = match prev {
            Some(prev) if self.k.subs.many => self.k.sched_of_mut(self.k.task(prev).sched),
            _ => &mut self.k.sched,
        };
        sched.events.dispatch_keep_last += 1;
    }

    #[inline(never)]
    fn ext_tell_acquire(&mut self, cpu: CpuId) {
        if self.has(OpKind::CpuAcquire) {
            self.call(OpKind::CpuAcquire, None, Some(cpu), |ops, k| ops.cpu_acquire(k, cpu));
        }
    }

    /// `scx_dispatch_sched()`: the global queue, then `ops.dispatch()` until it
    /// brings something or brings nothing.
    fn ext_dispatch(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Verdict {
        if !self.k.is_online(cpu) {
            return Verdict::Nothing;
        }
        if self.ext_consume(cpu, self.k.dsq_global(cpu)) {
            return Verdict::Local;
        }
        if self.k.sched.bypassing {
            let found = self.k.consume_bypass(cpu);
            return self.hosted_verdict(found);
        }
        if self.k.subs.many && self.k.bypass_share(cpu) == Some(true) {
            return self.hosted_verdict(true);
        }
        if !self.has(OpKind::Dispatch) {
            return Verdict::Nothing;
        }
        let own = prev.filter(|&task| !self.k.is_elsewhere(task));
        for _ in 0..SCX_DSP_MAX_LOOPS {
            self.k.sched.nr_dispatched = 0;
            self.k.subs.dispatch_prev = prev;
            self.call(OpKind::Dispatch, own, Some(cpu), |ops, k| ops.dispatch(k, cpu, own));
            self.k.subs.dispatch_prev = None;
            self.k.flush_dispatch_buffer(cpu);
            self.run_deferred();
            if self.k.has_slice(prev) {
                return Verdict::Prev;
            }
            if self.k.dsq(self.k.dsq_local(cpu)).nr > 0 || self.ext_consume(cpu, self.k.dsq_global(cpu)) {
                return Verdict::Local;
            }
            if self.k.sched.nr_dispatched == 0 {
                return self.ext_dispatch_rest(cpu);
            }
        }
        self.k.kick_cpu(cpu.0 as i32, 0);
        self.ext_dispatch_rest(cpu)
    }

    /// What there is besides, where the scheduler has found nothing: tasks of sub-schedulers that bypass.
    #[inline(always)]
    fn ext_dispatch_rest(&mut self, cpu: CpuId) -> Verdict {
        if !self.k.subs.many {
            return Verdict::Nothing;
        }
        let found = self.k.bypass_rest(cpu);
        self.hosted_verdict(found)
    }

    #[inline(always)]
    fn ext_consume(&mut self, cpu: CpuId, ix: DsqIx) -> bool {
        let found = self.k.dsq(ix).nr > 0 && self.k.consume(cpu, ix, 0);
        self.run_deferred();
        found
    }
}
