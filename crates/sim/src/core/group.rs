//! Changes of groups, and of the group that a task is in.

use crate::flags::*;
use crate::state::group::{GroupIx, GroupKnobs, GroupLife};
use crate::state::ops::{GroupMove, OpKind, SchedExt, TracePoint, TracePointKind};
use crate::state::sim::Sim;
use crate::state::task::{RunState, Task};
use schedlab_base::TaskId;
use schedlab_trace::ExitKind;
use schedlab_workload::{DEFAULT_WEIGHT, GroupChange, GroupSettings};
use std::collections::BTreeSet;

impl<S: SchedExt> Sim<S> {
    /// Does to a group what a program asks for; nothing if the group is not there.
    #[inline(never)]
    pub(crate) fn change_group(&mut self, group: GroupIx, change: GroupChange) {
        let entry = self.k.groups.get(group);
        let parent_life = entry.parent.map_or(GroupLife::Online, |parent| self.k.groups.get(parent).life);
        match (change, entry.life) {
            (GroupChange::Make, GroupLife::Absent | GroupLife::Gone) if parent_life == GroupLife::Online => {
                self.make_group(group);
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

    /// `cgroup_mkdir()`, and what its files are to say. The directory does not appear if the scheduler refuses it.
    fn make_group(&mut self, group: GroupIx) {
        let before = self.k.groups.get(group).life;
        self.k.groups.appear(group);
        self.show_group(group);
        self.show_above(group);
        if self.k.scx.groups && self.init_group(group).is_err() {
            self.k.groups.vanish(group, before);
            self.k.groups.unlink(group);
            self.show_above(group);
            self.hide_group(group);
            return;
        }
        self.show_group(group);
        self.k.fair_cpus_changed(&[group]);
        self.trace(TracePointKind::CgroupMkdir, || TracePoint::CgroupMkdir { group });
        let GroupSettings { weight, quota, burst, idle, .. } = self.k.groups.get(group).settings;
        self.tell_weight(group, weight);
        self.tell_bandwidth(group, |knobs| knobs.set_bandwidth(quota, schedlab_base::DurationNs::ZERO));
        self.tell_bandwidth(group, |knobs| knobs.set_bandwidth(quota, burst));
        self.tell_idle(group, idle);
        if self.k.groups.get(group).cpus.is_some() {
            self.trace(TracePointKind::CpusetWrite, || TracePoint::CpusetWrite { group });
        }
    }

    /// Writes one of the files of a group.
    fn set_group(&mut self, group: GroupIx, change: GroupChange) {
        let entry = self.k.groups.get_mut(group);
        match change {
            // EINVAL.
            GroupChange::Weight(_) | GroupChange::Nice(_) if entry.settings.idle => return,
            GroupChange::Weight(weight) => (entry.settings.weight, entry.settings.nice) = (weight, None),
            GroupChange::Nice(nice) => entry.settings.set_nice(nice),
            // EINVAL: the burst is at most the quota.
            GroupChange::Quota(Some(quota)) if entry.settings.burst > quota.runtime => return,
            GroupChange::Quota(quota) => entry.settings.quota = quota,
            GroupChange::Burst(burst) if entry.settings.quota.is_some_and(|quota| burst > quota.runtime) => {
                return;
            }
            GroupChange::Burst(burst) => entry.settings.burst = burst,
            GroupChange::Idle(idle) if idle == entry.settings.idle => {}
            GroupChange::Idle(idle) => {
                // A group that becomes idle, or stops being idle, has the weight of a new one.
                entry.settings = GroupSettings { idle, weight: DEFAULT_WEIGHT, nice: None, ..entry.settings };
            }
            GroupChange::Cpus(cpus) => entry.cpus = Some(cpus),
            GroupChange::Make | GroupChange::Remove => unreachable!("these change no file"),
        }
        let GroupSettings { weight, quota, burst, .. } = entry.settings;
        match change {
            GroupChange::Weight(_) | GroupChange::Nice(_) => {
                self.k.fair_group_changed(group);
                self.tell_weight(group, weight);
            }
            GroupChange::Idle(idle) => {
                self.k.fair_group_changed(group);
                self.tell_idle(group, idle);
            }
            GroupChange::Quota(_) | GroupChange::Burst(_) => {
                self.k.bandwidth_changed(group);
                self.tell_bandwidth(group, |knobs| knobs.set_bandwidth(quota, burst));
            }
            GroupChange::Cpus(_) => {
                self.trace(TracePointKind::CpusetWrite, || TracePoint::CpusetWrite { group });
                self.cpuset_changed(group);
            }
            GroupChange::Make | GroupChange::Remove => {}
        }
    }

    /// The tasks of a group and of those below it may use other CPUs.
    fn cpuset_changed(&mut self, group: GroupIx) {
        let changed = self.k.groups.settle_cpus_below(group);
        self.k.fair_cpus_changed(&changed);
        let changed: BTreeSet<GroupIx> =
            changed.into_iter().filter(|&group| self.k.groups.get(group).tasks > 0).collect();
        if changed.is_empty() {
            return;
        }
        let in_them = |task: &&Task| task.state != RunState::Dead && changed.contains(&task.group);
        let tasks: Vec<TaskId> = self.k.live_tasks().filter(in_them).map(|task| task.id).collect();
        tasks.into_iter().for_each(|task| self.follow_cpuset(task));
    }

    /// Removes a group that is to go, if no task is left in it.
    fn remove_if_empty(&mut self, group: GroupIx) {
        let entry = self.k.groups.get(group);
        if entry.life != GroupLife::Emptying || entry.tasks > 0 {
            return;
        }
        self.k.groups.vanish(group, GroupLife::Gone);
        self.k.end_pressure(group);
        self.show_above(group);
        self.shoot_down_sub(group);
        self.trace(TracePointKind::CgroupRmdir, || TracePoint::CgroupRmdir { group });
        if self.k.scx.groups {
            self.exit_group(group);
        }
        self.k.groups.unlink(group);
        self.hide_group(group);
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

    /// A task is written into `cgroup.threads` of a group: `cgroup_attach_task()`. It stays where it is if the scheduler refuses it.
    pub(crate) fn move_to_group(&mut self, task: TaskId, to: GroupIx) {
        let from = self.k.task_group(task);
        if from == to || self.k.groups.get(to).life != GroupLife::Online {
            return;
        }
        let (old, new) = (self.k.task(task).sched, self.k.sched_of_group(to));
        let crosses = old != new && self.k.scx.groups;
        if crosses && self.with_sched(new, |sim| sim.call_init_task(task, false)).is_err() {
            return;
        }
        let (way, told) = (GroupMove { from, to }, self.k.scx.groups && !crosses);
        if told && self.k.sched_of(old).present.has(OpKind::CgroupPrepMove) {
            let call = |ops: &mut S, k: &mut crate::Kernel| ops.cgroup_prep_move(k, task, way);
            let answer = self.with_sched(old, |sim| sim.call(OpKind::CgroupPrepMove, Some(task), None, call));
            if answer.is_err() {
                return;
            }
        }
        self.move_task(task, way, told);
        if crosses {
            self.rehome(task, old, new);
        }
        self.follow_cpuset(task);
        self.trace(TracePointKind::CgroupAttachTask, || TracePoint::CgroupAttachTask { group: to, task });
        self.remove_if_empty(from);
    }

    /// `css_set_move_task()` and `sched_move_task()`: while the task is taken off its run queue it already belongs to the new group.
    fn move_task(&mut self, task: TaskId, way: GroupMove, told: bool) {
        if let Some(ops) = self.ops.as_mut().filter(|_| self.k.scx.loaded) {
            ops.task_enters(task, way.to);
        }
        self.change(task, DEQUEUE_SAVE | DEQUEUE_MOVE, |sim| {
            sim.k.leave_pressure(task);
            sim.k.fair_change_group(task, way.to);
            sim.k.note_pressure(task);
            let used = sim.k.task(task).sum_exec_runtime.0 as i64;
            for (group, tasks, used) in [(way.from, -1, used), (way.to, 1, -used)] {
                let entry = sim.k.groups.get_mut(group);
                entry.tasks = entry.tasks.saturating_add_signed(tasks);
                entry.left += used;
            }
            if let Some(ops) = sim.ops.as_mut().filter(|_| sim.k.scx.loaded) {
                ops.task_moved(&sim.k, task);
            }
            let sched = sim.k.task(task).sched;
            if told && sim.k.sched_of(sched).present.has(OpKind::CgroupMove) {
                let rq = Some(sim.k.task(task).cpu);
                let call = |ops: &mut S, k: &mut crate::Kernel| ops.cgroup_move(k, task, way);
                sim.with_sched(sched, |sim| sim.call(OpKind::CgroupMove, Some(task), rq, call));
            }
        });
        let entry = self.k.task(task);
        let (cpu, runs, queued) = (entry.cpu, entry.on_cpu, entry.on_rq);
        self.k.rq_lock(cpu);
        if runs {
            self.k.resched_curr(cpu);
        } else if queued {
            self.wakeup_preempt(cpu, task, false);
        }
        self.k.rq_unlock(cpu);
    }
}

/// What sched_ext learns.
impl<S: SchedExt> Sim<S> {
    /// `scx_cgroup_init()`: false after a failure, whose exit is claimed.
    pub(crate) fn init_groups(&mut self) -> bool {
        for group in self.k.groups.existing_before() {
            if let Err(errno) = self.init_group(group) {
                self.k.error(ExitKind::Error, Self::group_failure(errno));
                return false;
            }
        }
        self.k.scx.groups = true;
        true
    }

    /// `scx_cgroup_exit()`.
    pub(crate) fn exit_groups(&mut self) {
        self.k.scx.groups = false;
        for group in self.k.groups.existing_after() {
            // A run that was stopped ends with this event.
            if self.k.stop.is_raised() {
                break;
            }
            self.exit_group(group);
        }
    }

    /// `ops.cgroup_init()`, as far as `scx_tg_online()` has it.
    fn init_group(&mut self, group: GroupIx) -> Result<(), i32> {
        let sched = self.k.sched_of_group(group);
        self.with_sched(sched, |sim| sim.tell_group_init(group))?;
        self.k.groups.get_mut(group).inited = true;
        Ok(())
    }

    fn exit_group(&mut self, group: GroupIx) {
        let was = std::mem::take(&mut self.k.groups.get_mut(group).inited);
        if was {
            let sched = self.k.sched_of_group(group);
            self.with_sched(sched, |sim| sim.tell_group_exit(group));
        }
    }

    /// The programs of the scheduler see the group as it is now.
    fn show_group(&mut self, group: GroupIx) {
        if let Some(ops) = self.ops.as_mut().filter(|_| self.k.scx.loaded) {
            ops.show_group(&self.k, group);
        }
    }

    /// The groups above this one have one more or less below them.
    fn show_above(&mut self, group: GroupIx) {
        let mut above = self.k.groups.get(group).parent;
        while let Some(group) = above {
            self.show_group(group);
            above = self.k.groups.get(group).parent;
        }
    }

    fn hide_group(&mut self, group: GroupIx) {
        if let Some(ops) = self.ops.as_mut().filter(|_| self.k.scx.loaded) {
            ops.group_gone(group);
        }
    }

    /// `scx_group_set_weight()`.
    fn tell_weight(&mut self, group: GroupIx, weight: u32) {
        let knobs = self.k.groups.get(group).knobs;
        let sched = self.k.sched_told_of(group);
        if self.k.scx.groups
            && self.k.sched_of(sched).present.has(OpKind::CgroupSetWeight)
            && knobs.weight != weight
        {
            let call = |ops: &mut S, k: &mut crate::Kernel| ops.cgroup_set_weight(k, group, weight);
            self.with_sched(sched, |sim| sim.call(OpKind::CgroupSetWeight, None, None, call));
        }
        self.keep_knobs(group, GroupKnobs { weight, ..knobs });
    }

    /// `scx_group_set_idle()`.
    fn tell_idle(&mut self, group: GroupIx, idle: bool) {
        let knobs = self.k.groups.get(group).knobs;
        let sched = self.k.sched_told_of(group);
        if self.k.scx.groups
            && self.k.sched_of(sched).present.has(OpKind::CgroupSetIdle)
            && knobs.idle != idle
        {
            let call = |ops: &mut S, k: &mut crate::Kernel| ops.cgroup_set_idle(k, group, idle);
            self.with_sched(sched, |sim| sim.call(OpKind::CgroupSetIdle, None, None, call));
        }
        self.keep_knobs(group, GroupKnobs { idle, ..knobs });
    }

    /// `scx_group_set_bandwidth()`.
    fn tell_bandwidth(&mut self, group: GroupIx, set: impl FnOnce(&mut GroupKnobs)) {
        let knobs = self.k.groups.get(group).knobs;
        let mut new = knobs;
        set(&mut new);
        let sched = self.k.sched_told_of(group);
        if self.k.scx.groups && self.k.sched_of(sched).present.has(OpKind::CgroupSetBandwidth) && new != knobs
        {
            let call = |ops: &mut S, k: &mut crate::Kernel| ops.cgroup_set_bandwidth(k, group, new);
            self.with_sched(sched, |sim| sim.call(OpKind::CgroupSetBandwidth, None, None, call));
        }
        self.keep_knobs(group, new);
    }

    /// The group's files say this from now on. A callback about it has had it as an argument before it can be read.
    fn keep_knobs(&mut self, group: GroupIx, knobs: GroupKnobs) {
        self.k.groups.get_mut(group).knobs = knobs;
        self.show_group(group);
    }
}
