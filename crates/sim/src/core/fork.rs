//! New tasks (`kernel_clone()`).

use crate::state::ops::{SchedExt, TracePoint, TracePointKind};
use crate::state::sim::Sim;
use crate::state::task::{NewTask, SchedClass, Task, USER_SPACE_PID};
use schedlab_base::TaskId;
use schedlab_trace::EventKind;

impl<S: SchedExt> Sim<S> {
    /// Makes a task, a child of `parent` (the current task) or of the shell, and
    /// wakes it (`kernel_clone()`; the caller charges its cost).
    pub(crate) fn fork(&mut self, parent: Option<TaskId>, spec: NewTask) -> TaskId {
        let id = TaskId(self.k.tasks_made);
        self.k.tasks_made += 1;
        self.fork_as(id, parent, spec);
        id
    }

    /// [`Sim::fork`] with an id that no task has.
    pub(crate) fn fork_as(&mut self, id: TaskId, parent: Option<TaskId>, mut spec: NewTask) {
        let now = self.k.ctx.now;
        debug_assert!(self.k.get_task(id).is_none(), "a task is made once");
        // A task asks for its reservation when it is there.
        let asks = spec.policy.reservation().is_some().then(|| std::mem::take(&mut spec.policy));
        let mut task =
            Task::new(id, parent.map(|parent| self.k.task(parent)), spec, now, self.k.unseen.clone());
        if self.k.scx.user_space == Some(id) {
            (task.pid, task.tgid) = (USER_SPACE_PID, USER_SPACE_PID);
        }
        task.tgid = self.k.leader_pid(task.process, task.pid);
        if task.tgid != task.pid {
            // CLONE_THREAD: a thread is no child of the one that makes it, but its sibling. Its process made it, or the shell did.
            let process = parent.or_else(|| self.k.task_by_pid(task.tgid));
            task.parent = process.and_then(|process| self.k.task(process).parent);
        }
        task.class = self.k.class_of(task.policy);
        self.k.tasks.insert(task);
        if let Some(policy) = asks.filter(|policy| self.k.dl_admit(id, *policy)) {
            let entry = self.k.task_mut(id);
            entry.set_policy(policy);
            entry.class = SchedClass::Dl;
        }
        self.k.live_tasks += 1;
        self.enter_group(id);
        // A process that the run begins with counts as one of the start, not as a child that the workload forks.
        let forks = parent.filter(|_| !self.k.in_setup());
        self.k.emit(EventKind::Fork { parent: forks, child: id });
        self.k.tell_priority(id);
        self.init_forked(id);
        self.trace(TracePointKind::SchedProcessFork, || TracePoint::SchedProcessFork { parent, child: id });
        self.wake_new(id);
    }
}
