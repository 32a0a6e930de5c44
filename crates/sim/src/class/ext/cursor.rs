//! Iterators over dispatch queues: the next task, moving one, and stepping back from a task that leaves.

use crate::Kernel;
use crate::class::ext::queue::Insert;
use crate::state::dsq::DsqIx;
use crate::state::order::seq_before;
use schedlab_base::{DsqId, TaskId};

impl Kernel {
    /// Iterators that stand on a task which leaves its queue step back; its neighbours were these.
    pub(super) fn step_cursors_back(
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
            (Some(at), false) => self.task(at).scx.dsq_next,
            (Some(at), true) => self.task(at).scx.dsq_prev,
            (None, false) => head,
            (None, true) => tail,
        };
        while let Some(task) = at {
            let scx = &self.task(task).scx;
            if !seq_before(cursor.seq, scx.dsq_seq) {
                break;
            }
            at = if cursor.reverse { scx.dsq_prev } else { scx.dsq_next };
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
        let found = self.get_task(task).map(|task| (task.scx.dsq, task.scx.dsq_seq, task.cpu));
        let Some((Some(at), seq, home)) = found else { return false };
        if at != src || seq_before(cursor.seq, seq) {
            return false;
        }
        let ix = self.dsq_for_dispatch(cpu, dst, home);
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
