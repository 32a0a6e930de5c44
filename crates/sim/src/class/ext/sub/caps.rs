//! Capabilities where they come into effect and where they are asked for.

use crate::class::ext::queue::Insert;
use crate::flags::*;
use crate::state::kernel::Kernel;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::subs::{CAP_ENQ, CAP_ENQ_IMMED, CAP_PREEMPT, SchedIx};
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, TaskId};

/// Capabilities where they come into effect.
impl<S: SchedExt> Sim<S> {
    /// `scx_process_sync_ecaps()`. Holds the rq lock of `cpu`.
    #[cold]
    pub(crate) fn sync_caps(&mut self, cpu: CpuId, prev: Option<TaskId>) {
        let batch = std::mem::take(&mut self.k.subs.to_sync[cpu.index()]);
        if !self.k.is_online(cpu) {
            return;
        }
        let mut lost_any = 0;
        for ix in batch {
            let now = self.k.granted(ix, cpu);
            let entry = &mut self.k.subs.node_mut(ix).cpus[cpu.index()];
            let (was, before) = (std::mem::replace(&mut entry.effective, now), entry.reported);
            lost_any |= was & !now;
            let told = self.k.sched_of(ix).present.has(OpKind::SubEcapsUpdated);
            if now != before && told && !self.k.sched_of(ix).bypassing {
                self.with_sched(ix, |sim| {
                    sim.k.subs.dispatch_prev = prev;
                    let call = |ops: &mut S, k: &mut Kernel| ops.sub_ecaps_updated(k, cpu, before, now);
                    sim.call(OpKind::SubEcapsUpdated, None, Some(cpu), call);
                    sim.k.subs.dispatch_prev = None;
                    sim.k.flush_dispatch_buffer(cpu);
                    sim.run_deferred();
                });
                self.k.subs.node_mut(ix).cpus[cpu.index()].reported = now;
            }
            let gained = now & !was & CAP_ENQ_IMMED != 0;
            let lost = was & !now & CAP_ENQ_IMMED != 0;
            let entry = &mut self.k.subs.node_mut(ix).cpus[cpu.index()];
            entry.renotify = gained || entry.renotify && !lost;
        }
        if lost_any & (CAP_ENQ_IMMED | CAP_ENQ) != 0 {
            self.k.subs.reenqueue[cpu.index()].push((SchedIx::ROOT, true));
            self.k.cpu_mut(cpu).reenq_local = true;
        }
    }

    /// Tells schedulers what has been granted to them and taken from them, where that was not told yet.
    pub(super) fn tell_caps(&mut self) {
        self.with_sched(SchedIx::ROOT, |sim| {
            while let Some((ix, cpus, caps)) = sim.k.next_caps_change() {
                let call = |ops: &mut S, k: &mut Kernel| ops.sub_caps_updated(k, &cpus, caps);
                sim.with_sched(ix, |sim| sim.call(OpKind::SubCapsUpdated, None, None, call));
            }
        });
    }

    /// The idle state of a CPU for those that may use it (`scx_idle_notify()`); all of them learn of a transition.
    #[cold]
    pub(crate) fn tell_subs_idle(&mut self, cpu: CpuId, idle: bool, transition: bool) {
        for ix in self.live_subs() {
            if self.k.missing_caps_of(ix, cpu, CAP_ENQ_IMMED) != 0 {
                continue;
            }
            let owed = std::mem::take(&mut self.k.subs.node_mut(ix).cpus[cpu.index()].renotify);
            let sched = self.k.sched_of(ix);
            if (transition || owed) && sched.present.has(OpKind::UpdateIdle) && !sched.bypassing {
                self.with_sched(ix, |sim| {
                    sim.call(OpKind::UpdateIdle, None, Some(cpu), |ops, k| ops.update_idle(k, cpu, idle));
                });
            }
        }
    }

    /// Tasks of a CPU that go back to their schedulers: rejected ones (`scx_reenq_reject()`), and those of the local queue that
    /// may not stay or that their scheduler wants back.
    #[cold]
    pub(crate) fn reenqueue_for_subs(&mut self, cpu: CpuId) {
        let mut tasks = self.k.queued_on(self.k.dsq_reject(cpu));
        tasks.iter().for_each(|&task| {
            self.k.dispatch_dequeue(task);
            self.k.task_mut(task).add_scx_flags(SCX_TASK_REENQ_CAP);
        });
        let wanted = std::mem::take(&mut self.k.subs.reenqueue[cpu.index()]);
        let revoked = wanted.iter().any(|&(_, revoked)| revoked);
        for task in self.k.queued_on(self.k.dsq_local(cpu)) {
            let sched = self.k.task(task).sched;
            let asked = !self.k.is_rescued(task, cpu)
                && wanted.iter().any(|&(by, revoked)| !revoked && self.k.subs.is_below(sched, by));
            let lost = revoked && self.k.lost_its_place(task, cpu);
            if lost || asked {
                self.k.dispatch_dequeue(task);
                let reason = if lost { SCX_TASK_REENQ_CAP } else { SCX_TASK_REENQ_KFUNC };
                self.k.task_mut(task).add_scx_flags(reason);
                tasks.push(task);
            }
        }
        for task in tasks {
            self.with_sched_of(task, |sim| sim.ext_do_enqueue(cpu, task, SCX_ENQ_REENQ));
            self.k.task_mut(task).drop_scx_flags(SCX_TASK_REENQ_REASON_MASK);
        }
        let curr = self.k.curr(cpu).filter(|&task| self.k.task(task).class == SchedClass::Ext);
        if let Some(curr) = curr.filter(|&task| revoked && self.k.lost_its_place(task, cpu)) {
            self.k.task_mut(curr).set_slice(0);
            self.k.resched_curr(cpu);
        }
    }

    /// A CPU comes or goes: what sub-schedulers may do there comes or goes with it (`scx_online_ecaps()`,
    /// `scx_offline_ecaps()`).
    pub(crate) fn subs_hotplug(&mut self, cpu: CpuId, online: bool) {
        for ix in self.live_subs() {
            if online {
                self.k.queue_sync(ix, cpu);
            } else {
                self.k.subs.node_mut(ix).cpus[cpu.index()].effective = 0;
            }
        }
    }
}

impl Kernel {
    /// Whether the scheduler at hand may have a task on the local queue of a CPU (`scx_resolve_local_dsq()`), with flags that suit
    /// that. If not, the task waits for a rescue, or for its way back to the scheduler.
    pub(crate) fn resolve_local(&mut self, cpu: CpuId, task: TaskId, insert: &mut Insert) -> bool {
        if insert.flags & SCX_ENQ_IGNORE_CAPS != 0 {
            return true;
        }
        let mut needed = if insert.flags & SCX_ENQ_IMMED != 0 { CAP_ENQ_IMMED } else { CAP_ENQ };
        if insert.flags & SCX_ENQ_PREEMPT != 0 {
            needed |= self.caps_to_preempt(cpu);
        }
        let missing = self.missing_caps(cpu, needed);
        if missing == 0 {
            return true;
        }
        let entry = self.task(task);
        if !self.is_online(cpu) || entry.migration_disabled > 0 {
            self.sched.events.sub_forced_admit += 1;
            insert.flags &= !SCX_ENQ_PREEMPT;
            return true;
        }
        insert.flags &= !(SCX_ENQ_IMMED | SCX_ENQ_PREEMPT | SCX_ENQ_HEAD | SCX_ENQ_APPLY_SLICE);
        self.task_mut(task).drop_scx_flags(SCX_TASK_IMMED);
        if insert.flags & SCX_ENQ_RESCUE != 0
            && let Some(admitted) = self.rescue(cpu, task, *insert)
        {
            return admitted;
        }
        self.task_mut(task).scx.reenq_reason = (missing, cpu);
        self.reject(cpu, task, *insert);
        false
    }

    /// The capability that the scheduler at hand needs to preempt what runs on a CPU (`scx_caps_for_preempt()`).
    pub(crate) fn caps_to_preempt(&self, cpu: CpuId) -> u8 {
        let Some(curr) = self.curr(cpu) else { return 0 };
        let entry = self.task(curr);
        let own = entry.class != SchedClass::Ext || self.subs.is_below(entry.sched, self.subs.at);
        if own { 0 } else { CAP_PREEMPT }
    }

    /// A task that was on its local queue may not stay there (`scx_task_reenq_on_cap_revoke()`).
    fn lost_its_place(&self, task: TaskId, cpu: CpuId) -> bool {
        let entry = self.task(task);
        let needed = if entry.scx.flags & SCX_TASK_IMMED != 0 { CAP_ENQ_IMMED } else { CAP_ENQ };
        entry.migration_disabled == 0
            && !self.is_rescued(task, cpu)
            && self.missing_caps_of(entry.sched, cpu, needed) != 0
    }

    /// A task may stay on its CPU (`scx_task_can_stay_on_cpu()`).
    pub(crate) fn can_stay(&self, task: TaskId, cpu: CpuId) -> bool {
        let entry = self.task(task);
        !self.subs.many
            || entry.migration_disabled > 0
            || self.missing_caps_of(entry.sched, cpu, CAP_ENQ_IMMED) == 0
    }

    /// The tasks of a queue in order.
    fn queued_on(&self, ix: crate::state::dsq::DsqIx) -> Vec<TaskId> {
        let first = self.dsq(ix).head;
        std::iter::successors(first, |&task| self.task(task).scx.dsq_next).collect()
    }

    /// A task that may not be on a local queue waits for its way back to the scheduler.
    pub(crate) fn reject(&mut self, cpu: CpuId, task: TaskId, insert: Insert) {
        let ix = self.dsq_reject(cpu);
        self.insert_stranded(ix, SCX_DSQ_REJECT, task, insert);
        self.cpu_mut(cpu).reenq_local = true;
        if !self.cpus[cpu.index()].in_dispatch {
            self.resched_curr(cpu);
        }
    }
}
