//! Tasks, and groups, as they come to a scheduler and leave it.

use crate::flags::*;
use crate::state::group::GroupIx;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::task::SchedClass;
use schedlab_base::TaskId;
use schedlab_trace::ExitKind;

impl<S: SchedExt> Sim<S> {
    pub(super) fn set_state(&mut self, task: TaskId, state: u32) {
        let entry = self.k.task_mut(task);
        entry.set_scx_flags(entry.scx.flags & !SCX_TASK_STATE_MASK | state);
    }

    /// `scx_fork()` and `scx_post_fork()`. A failing `ops.init_task()` would fail the
    /// fork; here it ejects the scheduler, as it does while enabling.
    pub(crate) fn init_forked(&mut self, task: TaskId) {
        if !self.k.scx.loaded || self.k.scx.disabling {
            return;
        }
        let sched = self.k.sched_of_group(self.k.task(task).group);
        self.k.task_mut(task).sched = sched;
        self.with_sched(sched, |sim| {
            if !sim.init_task(task, true) {
                sim.k.task_mut(task).class = SchedClass::Fair;
            } else if sim.k.task(task).class == SchedClass::Ext {
                sim.ext_enable(task);
            }
        });
    }

    /// `__scx_init_task()`: false after a failure, whose exit is claimed.
    pub(super) fn init_task(&mut self, task: TaskId, fork: bool) -> bool {
        if self.has(OpKind::InitTask) {
            self.set_state(task, SCX_TASK_INIT_BEGIN);
            if let Err(errno) = self.call_init_task(task, fork) {
                let message = self.init_failure(task, errno);
                self.k.error(ExitKind::Error, message);
                self.set_state(task, SCX_TASK_NONE);
                return false;
            }
        }
        self.set_state(task, SCX_TASK_READY);
        self.k.task_mut(task).add_scx_flags(SCX_TASK_RESET_RUNNABLE_AT);
        true
    }

    /// `ops.init_task()` of the scheduler at hand, if it has that.
    pub(crate) fn call_init_task(&mut self, task: TaskId, fork: bool) -> Result<(), i32> {
        if !self.has(OpKind::InitTask) {
            return Ok(());
        }
        self.call(OpKind::InitTask, Some(task), None, |ops, k| ops.init_task(k, task, fork))
    }

    /// The words for a task that was not accepted.
    pub(super) fn init_failure(&self, task: TaskId, errno: i32) -> String {
        let entry = self.k.task(task);
        format!("ops.init_task() failed (-{errno}) for {}[{}]", entry.name(), entry.pid)
    }

    /// `ops.exit_task()` of the scheduler at hand. Its object forgets the task, whether it has that or not.
    pub(super) fn call_exit_task(&mut self, task: TaskId, cancelled: bool) {
        let cpu = self.k.task(task).cpu;
        self.call(OpKind::ExitTask, Some(task), Some(cpu), |ops, k| ops.exit_task(k, task, cancelled));
    }

    /// `scx_enable_task()`.
    pub(super) fn ext_enable(&mut self, task: TaskId) {
        let weight = self.k.task(task).scx_weight();
        let cpu = self.k.task(task).cpu;
        self.k.scx.had_tasks = true;
        self.k.task_mut(task).set_scx_weight(weight);
        if self.has(OpKind::Enable) {
            self.call(OpKind::Enable, Some(task), Some(cpu), |ops, k| ops.enable(k, task));
        }
        if self.has(OpKind::SetWeight) {
            let weight = schedlab_base::Weight(weight);
            self.call(OpKind::SetWeight, Some(task), Some(cpu), |ops, k| ops.set_weight(k, task, weight));
        }
        self.set_state(task, SCX_TASK_ENABLED);
    }

    /// `scx_disable_task()`.
    fn ext_disable(&mut self, task: TaskId) {
        let cpu = self.k.task(task).cpu;
        if self.has(OpKind::Disable) {
            self.call(OpKind::Disable, Some(task), Some(cpu), |ops, k| ops.disable(k, task));
        }
        self.set_state(task, SCX_TASK_READY);
        let entry = self.k.task_mut(task);
        assert!(entry.scx.flags & SCX_TASK_IN_CUSTODY == 0, "{task} was given back");
        entry.set_ddsp_dsq_id(SCX_DSQ_INVALID);
        entry.set_ddsp_enq_flags(0);
        entry.scx.reenq_cnt = 0;
        entry.set_dsq_vtime(0);
        entry.set_slice(0);
        entry.add_scx_flags(SCX_TASK_RESET_RUNNABLE_AT);
    }

    /// `scx_disable_and_exit_task()`.
    pub(super) fn ext_exit_task(&mut self, task: TaskId) {
        if self.k.is_elsewhere(task) {
            return self.with_sched_of(task, |sim| sim.ext_exit_task(task));
        }
        let state = self.k.task(task).scx.flags & SCX_TASK_STATE_MASK;
        if state == SCX_TASK_NONE {
            return;
        }
        if state == SCX_TASK_ENABLED {
            self.ext_disable(task);
        }
        if self.ops.is_some() {
            self.call_exit_task(task, false);
        }
        self.set_state(task, SCX_TASK_NONE);
    }

    /// `sched_ext_dead()`.
    pub(crate) fn ext_dead(&mut self, task: TaskId) {
        if self.k.scx.loaded {
            self.ext_exit_task(task);
        }
    }

    /// `switched_from_scx()`, before the task's attributes change.
    pub(crate) fn switched_from(&mut self, task: TaskId, old: SchedClass, new: SchedClass) {
        if old == SchedClass::Ext && new != SchedClass::Ext {
            if self.k.is_elsewhere(task) {
                self.with_sched_of(task, |sim| sim.ext_disable(task));
            } else {
                self.ext_disable(task);
            }
        }
    }

    /// The part of a class change between the task's attributes and its enqueue.
    pub(crate) fn switch_class_of(&mut self, task: TaskId, old: SchedClass, new: SchedClass) {
        let entry = self.k.task_mut(task);
        entry.class = new;
        entry.show_on_rq();
        let known = self.k.task(task).scx.flags & SCX_TASK_STATE_MASK != SCX_TASK_NONE;
        if new == SchedClass::Ext && old != SchedClass::Ext && known {
            self.switching_to_ext(task);
        }
    }

    /// `switching_to_scx()`: changes of affinity were not told while another class had the task.
    fn switching_to_ext(&mut self, task: TaskId) {
        if self.k.is_elsewhere(task) {
            return self.with_sched_of(task, |sim| sim.switching_to_ext(task));
        }
        self.ext_enable(task);
        let cid_form = self.k.sched.info.as_ref().is_some_and(|info| info.cid_form);
        if self.has(OpKind::SetCpumask) && !cid_form {
            let (cpu, mask) = (self.k.task(task).cpu, self.k.task(task).cpus_allowed.clone());
            self.call(OpKind::SetCpumask, Some(task), Some(cpu), |ops, k| ops.set_cpumask(k, task, &mask));
        }
    }
}

/// Groups.
impl<S: SchedExt> Sim<S> {
    /// `ops.cgroup_init()` of the scheduler at hand, if it has that.
    pub(crate) fn tell_group_init(&mut self, group: GroupIx) -> Result<(), i32> {
        if !self.has(OpKind::CgroupInit) {
            return Ok(());
        }
        self.call(OpKind::CgroupInit, None, None, |ops, k| ops.cgroup_init(k, group))
    }

    /// `ops.cgroup_exit()` of the scheduler at hand, if it has that.
    pub(crate) fn tell_group_exit(&mut self, group: GroupIx) {
        if self.has(OpKind::CgroupExit) {
            self.call(OpKind::CgroupExit, None, None, |ops, k| ops.cgroup_exit(k, group));
        }
    }

    /// The words for a group that was not accepted.
    pub(crate) fn group_failure(errno: i32) -> String {
        format!("ops.cgroup_init() failed (-{errno})")
    }
}
