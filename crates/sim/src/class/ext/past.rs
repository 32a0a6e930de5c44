//! Tasks that go past the scheduler: into a built-in queue, with a slice of the kernel's.

use crate::class::ext::queue::Insert;
use crate::flags::*;
use crate::state::dsq::DsqIx;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use schedlab_base::{CpuId, TaskId};
use schedlab_trace::ExitKind;

impl<S: SchedExt> Sim<S> {
    /// The built-in queue of a task that the scheduler is not asked about.
    #[inline(always)]
    pub(super) fn queue_past(&mut self, cpu: CpuId, task: TaskId) -> Option<DsqIx> {
        let entry = self.k.task(task);
        let ordinary = self.has(OpKind::Enqueue) && !entry.is_exiting() && entry.migration_disabled == 0;
        if ordinary && !self.k.sched.bypassing && self.k.is_online(cpu) {
            return None;
        }
        self.rare_queue_past(cpu, task)
    }

    #[inline(never)]
    fn rare_queue_past(&mut self, cpu: CpuId, task: TaskId) -> Option<DsqIx> {
        let entry = self.k.task(task);
        let direct = entry.scx.ddsp_dsq_id != SCX_DSQ_INVALID;
        let (exiting, pinned) = (entry.is_exiting(), entry.migration_disabled > 0);
        let (ops_flags, online) = (self.k.sched.flags, self.k.is_online(cpu));
        let (local, events) = (self.k.dsq_local(cpu), &mut self.k.sched.events);
        if !online {
            Some(local)
        } else if self.k.sched.bypassing {
            events.bypass_dispatch += 1;
            Some(self.k.dsq_bypass(cpu))
        } else if direct {
            None
        } else if exiting && ops_flags & SCX_OPS_ENQ_EXITING == 0 {
            events.enq_skip_exiting += 1;
            Some(local)
        } else if pinned && ops_flags & SCX_OPS_ENQ_MIGRATION_DISABLED == 0 {
            events.enq_skip_migration_disabled += 1;
            Some(local)
        } else if !self.has(OpKind::Enqueue) {
            Some(self.k.dsq_global(cpu))
        } else {
            None
        }
    }

    /// Counts a re-enqueue; false (and an exit) after too many without running.
    #[inline(never)]
    pub(super) fn count_reenqueue(&mut self, task: TaskId, count: u32) -> bool {
        if count > 1 {
            self.k.sched.events.reenq_repeat += 1;
        }
        if count <= SCX_REENQ_MAX_REPEAT {
            return true;
        }
        let entry = self.k.task(task);
        let message = format!("{}[{}] reenqueued {count} times without running", entry.name(), entry.pid);
        self.k.error(ExitKind::ErrorReenq, message);
        false
    }

    /// Into a built-in queue with a fresh default slice, without asking.
    #[inline(never)]
    pub(super) fn ext_enqueue_past(&mut self, ix: DsqIx, task: TaskId, flags: u64) {
        self.ext_refill(task);
        self.clear_direct(task);
        self.k.dispatch_enqueue(ix, task, Insert { flags, ..Insert::default() });
    }

    #[inline(never)]
    pub(super) fn ext_refill(&mut self, task: TaskId) {
        let slice = if self.k.sched.bypassing { SCX_SLICE_BYPASS } else { SCX_SLICE_DFL };
        self.k.task_mut(task).set_slice(slice);
        self.k.sched.events.refill_slice_dfl += 1;
    }
}
