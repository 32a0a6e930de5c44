//! Changes of groups, and of the group that a task is in.

use crate::flags::*;
use crate::state::group::{GroupIx, GroupLife};
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use schedlab_base::TaskId;
use schedlab_workload::{DEFAULT_WEIGHT, GroupChange};

impl<S: SchedExt> Sim<S> {
    /// Does to a group what a program asks for; nothing if the group is not there.
    #[inline(never)]
    pub(crate) fn change_group(&mut self, group: GroupIx, change: GroupChange) {
        let entry = self.k.groups.get(group);
        let parent_life = entry.parent.map_or(GroupLife::Online, |parent| self.k.groups.get(parent).life);
        match (change, entry.life) {
            (GroupChange::Make, GroupLife::Absent | GroupLife::Gone) if parent_life == GroupLife::Online => {
                self.k.groups.get_mut(group).life = GroupLife::Online;
            }
            (GroupChange::Make, _) => {}
            (GroupChange::Remove, GroupLife::Online) => {
                self.k.groups.get_mut(group).life = GroupLife::Emptying;
                self.remove_if_empty(group);
            }
            (change, GroupLife::Online) => self.set_group(group, change),
            _ => {}
        }
    }

    /// Writes one of the files of a group.
    fn set_group(&mut self, group: GroupIx, change: GroupChange) {
        let entry = self.k.groups.get_mut(group);
        match change {
            // EINVAL.
            GroupChange::Weight(_) if entry.settings.idle => {}
            GroupChange::Weight(weight) => entry.settings.weight = weight,
            GroupChange::Quota(quota) => entry.settings.quota = quota,
            GroupChange::Burst(burst) => entry.settings.burst = burst,
            GroupChange::Idle(idle) if idle == entry.settings.idle => {}
            GroupChange::Idle(idle) => {
                // A group that is idle no longer has the weight of a new one.
                (entry.settings.idle, entry.settings.weight) = (idle, DEFAULT_WEIGHT);
            }
            GroupChange::Cpus(cpus) => entry.cpus = Some(cpus),
            GroupChange::Make | GroupChange::Remove => unreachable!("these change no file"),
        }
        match change {
            GroupChange::Weight(_) | GroupChange::Idle(_) => self.k.fair_group_changed(group),
            GroupChange::Quota(_) | GroupChange::Burst(_) => self.k.bandwidth_changed(group),
            _ => {}
        }
    }

    /// Removes a group that is to go, if no task is left in it.
    fn remove_if_empty(&mut self, group: GroupIx) {
        let entry = self.k.groups.get_mut(group);
        if entry.life == GroupLife::Emptying && entry.tasks == 0 {
            entry.life = GroupLife::Gone;
        }
    }

    /// A new task is in its group.
    pub(crate) fn enter_group(&mut self, task: TaskId) {
        let group = self.k.task_group(task);
        self.k.groups.get_mut(group).tasks += 1;
    }

    /// A task has ended.
    pub(crate) fn leave_group(&mut self, task: TaskId) {
        let group = self.k.task_group(task);
        let used = self.k.task(task).sum_exec_runtime.0 as i64;
        let entry = self.k.groups.get_mut(group);
        entry.tasks -= 1;
        entry.left += used;
        self.remove_if_empty(group);
    }

    /// A task is written into `cgroup.threads` of a group: `sched_move_task()`.
    pub(crate) fn move_to_group(&mut self, task: TaskId, to: GroupIx) {
        let from = self.k.task_group(task);
        if from == to || self.k.groups.get(to).life != GroupLife::Online {
            return;
        }
        self.change(task, DEQUEUE_SAVE | DEQUEUE_MOVE, |sim| {
            sim.k.fair_change_group(task, to);
            let used = sim.k.task(task).sum_exec_runtime.0 as i64;
            for (group, tasks, used) in [(from, -1, used), (to, 1, -used)] {
                let entry = sim.k.groups.get_mut(group);
                entry.tasks = entry.tasks.saturating_add_signed(tasks);
                entry.left += used;
            }
        });
        self.remove_if_empty(from);
    }
}
