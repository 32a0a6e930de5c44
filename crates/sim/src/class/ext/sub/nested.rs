//! Dispatching through the tree: nested passes, and tasks whose own scheduler bypasses.

use crate::class::ext::pick::Verdict;
use crate::flags::*;
use crate::state::kernel::{Deferred, Kernel};
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::subs::{CAP_ENQ_IMMED, SchedIx};
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, TaskId};

/// A host looks after tasks of bypassed sub-schedulers in each so many passes (`SCX_BYPASS_HOST_NTH`).
const HOST_NTH: u32 = 2;

/// Nested passes, and the tasks of schedulers that bypass.
impl Kernel {
    /// `enable_bypass_dsp()`.
    pub(super) fn begin_bypass_dispatch(&mut self, ix: SchedIx) {
        let parent = self.sched_parent(ix);
        self.subs.node_mut(ix).bypass_dispatch += 1;
        self.subs.node_mut(parent).bypass_dispatch += 1;
    }

    /// `scx_disable_bypass_dsp()`.
    pub(super) fn end_bypass_dispatch(&mut self, ix: SchedIx) {
        let parent = self.sched_parent(ix);
        for sched in [ix, parent] {
            let node = self.subs.node_mut(sched);
            node.bypass_dispatch = node.bypass_dispatch.saturating_sub(1);
        }
    }

    pub(super) fn end_bypass_dispatch_of_gone(&mut self, ix: SchedIx) {
        self.subs.node_mut(ix).bypasses = 0;
        self.end_bypass_dispatch(ix);
    }

    /// A scheduler that has left its bypass is owed what was not told meanwhile (`unbypass_renotify_idle()`,
    /// `scx_unbypass_replay_ecaps()`).
    pub(super) fn after_bypass(&mut self, ix: SchedIx, cpu: CpuId) {
        let entry = &mut self.subs.node_mut(ix).cpus[cpu.index()];
        entry.renotify = true;
        if entry.effective != entry.reported {
            self.queue_sync(ix, cpu);
        }
    }

    /// `scx_bpf_sub_dispatch()` for a child of the scheduler at hand, whose object is `ops`: true if it has found something to
    /// run.
    pub fn sub_dispatch<S: SchedExt>(&mut self, child: SchedIx, ops: &mut S) -> bool {
        let cpu = self.ctx.rq.unwrap_or(self.ctx.cpu);
        if self.missing_caps_of(child, cpu, CAP_ENQ_IMMED) != 0 {
            return false;
        }
        let deferred = std::mem::take(&mut self.deferred);
        let found = self.inside(child, |k| k.dispatch_nested(cpu, ops));
        let later = std::mem::replace(&mut self.deferred, deferred);
        self.deferred.extend(later);
        found
    }

    /// Runs with a scheduler below at hand from inside of a callback, which continues afterwards.
    fn inside<R>(&mut self, ix: SchedIx, body: impl FnOnce(&mut Kernel) -> R) -> R {
        let (op, about, rq, site) = (self.ctx.op, self.ctx.op_task, self.ctx.rq, self.ctx.site);
        let result = self.as_sched(ix, body);
        (self.ctx.op, self.ctx.op_task, self.ctx.rq, self.ctx.site) = (op, about, rq, site);
        result
    }

    /// `scx_dispatch_sched()` inside of the parent's `ops.dispatch()`.
    fn dispatch_nested<S: SchedExt>(&mut self, cpu: CpuId, ops: &mut S) -> bool {
        if self.consume(cpu, self.dsq_global(cpu), 0) {
            self.dequeues_nested(ops);
            return true;
        }
        if let Some(found) = self.bypass_share(cpu) {
            return found;
        }
        if !self.sched.present.has(OpKind::Dispatch) || !self.is_online(cpu) {
            return false;
        }
        let prev = self.subs.dispatch_prev;
        let own = prev.filter(|&task| {
            self.task(task).class == SchedClass::Ext && self.task(task).sched == self.subs.at
        });
        for _ in 0..SCX_DSP_MAX_LOOPS {
            self.sched.nr_dispatched = 0;
            self.call_nested(OpKind::Dispatch, own, Some(cpu), |k| ops.dispatch(k, cpu, own));
            self.flush_dispatch_buffer(cpu);
            self.dequeues_nested(ops);
            if self.has_slice(prev)
                || self.dsq(self.dsq_local(cpu)).nr > 0
                || self.consume(cpu, self.dsq_global(cpu), 0)
            {
                self.dequeues_nested(ops);
                return true;
            }
            if self.sched.nr_dispatched == 0 {
                return self.bypass_rest(cpu);
            }
        }
        self.kick_cpu(cpu.0 as i32, 0);
        self.bypass_rest(cpu)
    }

    /// Runs a callback of a scheduler below the one at hand from inside of that one's.
    pub fn call_below<R>(&mut self, ix: SchedIx, op: OpKind, body: impl FnOnce(&mut Kernel) -> R) -> R {
        let rq = self.ctx.rq;
        self.inside(ix, |k| k.call_nested(op, None, rq, body))
    }

    /// Calls a child's callback from inside of its parent's.
    fn call_nested<R>(
        &mut self,
        op: OpKind,
        task: Option<TaskId>,
        rq: Option<CpuId>,
        body: impl FnOnce(&mut Kernel) -> R,
    ) -> R {
        self.charge(self.machine.costs.callback);
        (self.ctx.op, self.ctx.op_task, self.ctx.rq) = (op, task, rq);
        let result = body(self);
        (self.ctx.op, self.ctx.op_task, self.ctx.rq, self.ctx.site) = (OpKind::None, None, None, None);
        result
    }

    /// The `ops.dequeue()` calls that a nested pass has left behind; trace points wait for its end.
    fn dequeues_nested<S: SchedExt>(&mut self, ops: &mut S) {
        let mut later = std::collections::VecDeque::new();
        while let Some(call) = self.deferred.pop_front() {
            match call {
                Deferred::Dequeue(task, flags)
                    if self.get_task(task).is_some() && !self.is_elsewhere(task) =>
                {
                    let rq = Some(self.task(task).cpu);
                    self.call_nested(OpKind::Dequeue, Some(task), rq, |k| ops.dequeue(k, task, flags));
                }
                other => later.push_back(other),
            }
        }
        self.deferred = later;
    }

    /// What a bypassing scheduler, or the host of one, takes from its bypass queues first. Nothing: on to its own dispatch.
    pub(crate) fn bypass_share(&mut self, cpu: CpuId) -> Option<bool> {
        let here = self.subs.at;
        if self.subs.node(here).bypass_dispatch == 0 {
            return None;
        }
        if self.sched.bypassing {
            return Some(self.consume_bypass(cpu));
        }
        let entry = &mut self.subs.node_mut(here).cpus[cpu.index()];
        entry.hosted = entry.hosted.wrapping_add(1);
        let due = (entry.hosted - 1).is_multiple_of(HOST_NTH);
        (due && self.consume_bypass(cpu)).then(|| self.count_hosted())
    }

    /// What a host takes from its bypass queues when it has found nothing else.
    pub(crate) fn bypass_rest(&mut self, cpu: CpuId) -> bool {
        let hosts = self.subs.node(self.subs.at).bypass_dispatch > 0;
        hosts && self.consume_bypass(cpu) && self.count_hosted()
    }

    fn count_hosted(&mut self) -> bool {
        self.sched.events.sub_bypass_dispatch += 1;
        true
    }
}

impl<S: SchedExt> Sim<S> {
    /// The verdict on what bypass queues have given.
    pub(in crate::class::ext) fn hosted_verdict(&mut self, found: bool) -> Verdict {
        self.run_deferred();
        if found { Verdict::Local } else { Verdict::Nothing }
    }
}
