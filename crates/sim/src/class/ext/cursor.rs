//! Iterators over dispatch queues: the next task, moving one, and stepping back from a task that leaves.

use crate::Kernel;
use crate::class::ext::queue::Insert;
use crate::state::dsq::DsqIx;
use crate::state::order::seq_before;
use schedlab_base::{CpuId, DsqId, TaskId};

/// How a task stands on its queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    dsq: Option<DsqIx>,
    prev: Option<TaskId>,
    next: Option<TaskId>,
    seq: u32,
    /// The task's CPU.
    home: CpuId,
}

impl Kernel {
    /// How a task stands on its queue, whichever core has it.
    fn standing(&self, task: TaskId) -> Standing {
        if let Some(flat) = self.flat.tasks.get(task.index()) {
            let (prev, next) = (flat.dsq_prev, flat.dsq_next);
            return Standing { dsq: flat.dsq, prev, next, seq: flat.dsq_seq, home: flat.cpu };
        }
        let entry = self.task(task);
        let scx = &entry.scx;
        let (prev, next) = (scx.dsq_prev, scx.dsq_next);
        Standing { dsq: scx.dsq, prev, next, seq: scx.dsq_seq, home: entry.cpu }
    }

    /// Iterators that stand on a task which leaves its queue step back; its neighbours were these.
    pub(crate) fn step_cursors_back(
        &mut self,
        ix: DsqIx,
        task: TaskId,
        (prev, next): (Option<TaskId>, Option<TaskId>),
    ) {
        for cursor in self.cursors.iter_mut().filter(|cursor| cursor.dsq == Some(ix)) {
            if cursor.at == Some(task) {
                cursor.at = if cursor.reverse { next } else { prev };
            }
        }
    }

    /// The next task of an iteration (`nldsq_cursor_next_task()`).
    pub(crate) fn cursor_next(&mut self, index: usize) -> Option<TaskId> {
        let cursor = self.cursors[index];
        let ix = cursor.dsq?;
        if cursor.finished {
            return None;
        }
        self.dsq_lock(ix);
        let (head, tail) = (self.dsq(ix).head, self.dsq(ix).tail);
        let mut at = match (cursor.at, cursor.reverse) {
            (Some(at), false) => self.standing(at).next,
            (Some(at), true) => self.standing(at).prev,
            (None, false) => head,
            (None, true) => tail,
        };
        while let Some(task) = at {
            let standing = self.standing(task);
            if !seq_before(cursor.seq, standing.seq) {
                break;
            }
            at = if cursor.reverse { standing.prev } else { standing.next };
        }
        self.cursors[index].at = at;
        self.cursors[index].finished = at.is_none();
        self.dsq_unlock(ix);
        at
    }

    /// `scx_dsq_move()`: moves a task that an iterator gave out to another queue.
    pub(crate) fn cursor_move(&mut self, index: usize, task: TaskId, dst: DsqId, flags: u64) -> bool {
        let cursor = self.cursors[index];
        let Some(src) = cursor.dsq else { return false };
        let cpu = self.ctx.cpu;
        if self.lasting(task).is_none() {
            return false;
        }
        let Standing { dsq, seq, home, .. } = self.standing(task);
        if dsq != Some(src) || seq_before(cursor.seq, seq) {
            return false;
        }
        let ix = self.dsq_for_dispatch(cpu, dst, home);
        if self.is_flat() {
            self.lane_cursor_move((cursor, src, ix), (home, task), flags);
            return true;
        }
        if let Some(vtime) = cursor.vtime {
            self.task_mut(task).set_dsq_vtime(vtime);
        }
        if let Some(slice) = cursor.slice {
            self.task_mut(task).set_slice(slice);
        }
        self.dsq_lock(src);
        self.unlink(task);
        self.dsq_unlock(src);
        let vtime = self.task(task).scx.dsq_vtime;
        let insert = Insert { slice: 0, vtime, flags };
        match self.dsq(ix).local {
            Some(target) => self.dispatch_to_local(cpu, target, task, insert),
            None => self.dispatch_enqueue(ix, task, insert),
        }
        true
    }
}
