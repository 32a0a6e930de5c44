//! Changes of a task's attributes: nice value, policy, lent priority, CPUs.

use crate::flags::{DEQUEUE_CLASS, DEQUEUE_MOVE, DEQUEUE_NOCLOCK, DEQUEUE_SAVE, SCX_ENQ_HEAD};
use crate::state::group::GroupIx;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::task::{RunState, SchedClass};
use schedlab_base::{CpuMask, Nice, Policy, TaskId};
use schedlab_workload::Attribute;
use std::sync::Arc;

impl<S: SchedExt> Sim<S> {
    /// `set_user_nice()`.
    pub(crate) fn set_nice(&mut self, task: TaskId, nice: Nice) {
        if self.k.task(task).nice == nice {
            return;
        }
        self.change(task, DEQUEUE_SAVE | DEQUEUE_NOCLOCK, |sim| {
            sim.k.task_mut(task).begin_nice(nice);
            sim.reweight(task);
            sim.k.task_mut(task).show_priority();
        });
        self.k.tell_priority(task);
    }

    /// `sched_setscheduler()`.
    pub(crate) fn set_policy(&mut self, task: TaskId, policy: Policy) {
        if self.k.task(task).policy == policy {
            return;
        }
        if !self.k.dl_admit(task, policy) {
            return;
        }
        let class = self.k.class_with(policy, self.k.task(task).boost);
        let old = self.k.task(task).class;
        let entry = self.k.task(task);
        let deadline = old == SchedClass::Dl || class == SchedClass::Dl;
        let moves = if deadline || entry.prio() != entry.prio_with(policy) { DEQUEUE_MOVE } else { 0 };
        let switches = if class == old { 0 } else { DEQUEUE_CLASS };
        // One that loses priority stays before others of its new one.
        let head = if entry.prio() < entry.prio_with(policy) { SCX_ENQ_HEAD } else { 0 };
        self.change_to(task, DEQUEUE_SAVE | DEQUEUE_NOCLOCK | moves | switches, head, |sim| {
            sim.switched_from(task, old, class);
            sim.k.task_mut(task).set_policy(policy);
            sim.switch_class_of(task, old, class);
            if class == old {
                sim.reweight(task);
            }
        });
        self.k.tell_priority(task);
        let cpu = self.k.task(task).cpu;
        if self.k.task(task).on_rq {
            self.k.resched_curr(cpu);
        }
    }

    /// `rt_mutex_setprio()`: the task runs with this real-time priority while it is above its own; 0 ends it.
    pub(crate) fn boost(&mut self, task: TaskId, priority: u8) {
        if self.k.task(task).boost == priority {
            return;
        }
        let class = self.k.class_with(self.k.task(task).policy, priority);
        let old = self.k.task(task).class;
        self.change(task, DEQUEUE_SAVE | DEQUEUE_NOCLOCK, |sim| {
            sim.switched_from(task, old, class);
            sim.k.task_mut(task).set_boost(priority);
            sim.switch_class_of(task, old, class);
        });
        self.k.tell_priority(task);
        let cpu = self.k.task(task).cpu;
        if self.k.task(task).on_rq {
            self.k.resched_curr(cpu);
        }
    }

    /// `ops.set_cpumask()` of the task's scheduler.
    pub(super) fn tell_cpumask(&mut self, task: TaskId, mask: &CpuMask) {
        if self.k.is_elsewhere(task) {
            return self.with_sched_of(task, |sim| sim.tell_cpumask(task, mask));
        }
        if self.has(OpKind::SetCpumask) && self.k.task(task).class == SchedClass::Ext {
            let rq = Some(self.k.task(task).cpu);
            self.call(OpKind::SetCpumask, Some(task), rq, |ops, k| ops.set_cpumask(k, task, mask));
        }
    }

    /// `set_cpus_allowed_ptr()`: a queued or running task leaves a CPU that is no
    /// longer allowed. `mask` has at least one CPU of the machine.
    pub(crate) fn set_affinity(&mut self, task: TaskId, mask: &CpuMask) {
        let mask = mask.and(&self.k.machine.all_cpus());
        assert!(!mask.is_empty(), "an affinity mask has a CPU of the machine");
        if !self.k.dl_allows_affinity(task, &mask) {
            return;
        }
        self.change(task, DEQUEUE_SAVE | DEQUEUE_NOCLOCK, |sim| {
            let entry = sim.k.task_mut(task);
            entry.set_cpus_allowed(Arc::new(mask));
            sim.tell_cpumask(task, &mask);
        });
        let entry = self.k.task(task);
        let (cpu, on_rq, on_cpu) = (entry.cpu, entry.on_rq, entry.on_cpu);
        if !on_rq || mask.contains(cpu) {
            return;
        }
        if on_cpu {
            self.k.cpu_mut(cpu).push_off = true;
            self.k.resched_curr(cpu);
        } else {
            self.move_queued(task);
        }
    }

    /// `sched_setaffinity()`: nothing changes where the task's group has none of these CPUs.
    fn ask_for_cpus(&mut self, task: TaskId, mask: CpuMask) {
        let allowed = self.k.group_cpus(self.k.task_group(task));
        if !mask.and(&allowed).is_empty() {
            self.k.task_mut(task).user_cpus = Some(Arc::new(mask));
            self.set_affinity(task, &mask.and(&allowed));
        }
    }

    /// A task may use the CPUs that its group has by now (`cpuset_attach_task()`, `cpuset_update_tasks_cpumask()`).
    pub(crate) fn follow_cpuset(&mut self, task: TaskId) {
        let entry = self.k.task(task);
        let cpus = self.k.cpus_for(entry.group, entry.user_cpus.as_deref());
        if *cpus != *entry.cpus_allowed {
            self.set_affinity(task, &cpus);
        }
    }

    /// Gives a task that lives another nice value, policy, affinity or group.
    pub(crate) fn set_attribute(&mut self, task: TaskId, attribute: Attribute) {
        if self.k.get_task(task).is_none_or(|task| task.state == RunState::Dead) {
            return;
        }
        match attribute {
            Attribute::Nice(nice) => self.set_nice(task, nice),
            Attribute::Policy(policy) => self.set_policy(task, policy),
            Attribute::Affinity(mask) => self.ask_for_cpus(task, mask),
            Attribute::Group(group) => self.move_to_group(task, GroupIx::from(group)),
        }
    }
}
