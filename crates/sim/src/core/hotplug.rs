//! CPUs that go offline and come back (`sched_cpu_deactivate()` and `sched_cpu_activate()`, `kernel/sched/core.c`).
//!
//! The kernel takes milliseconds for it, in threads of its own; here it happens at once, while the task runs that asks for it.

use crate::Kernel;
use crate::flags::*;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::task::SchedClass;
use crate::state::topology::Topology;
use schedlab_base::{CpuId, TaskId};

impl Kernel {
    /// The CPU is no part of caches, nodes and domains any more, or is again.
    fn set_online(&mut self, cpu: CpuId, online: bool) {
        self.hotplugs += 1;
        self.cpus[cpu.index()].online = online;
        if online {
            self.online.set(cpu);
            // It did not idle while it was offline.
            self.trace.summary.idle_from(cpu, self.ctx.now);
        } else {
            self.online.clear(cpu);
        }
        self.topology = Topology::new(&self.machine, &self.online);
        self.balancing.rebuild(&self.machine, &self.online);
        for index in 0..self.cpus.len() {
            let core = self.cpus[index].core;
            let sibling = |other: &CpuId| other.index() != index && self.cpus[other.index()].core == core;
            self.cpus[index].siblings = self.online.iter().filter(sibling).collect();
        }
        debug_assert!(self.online.count() > 0, "one CPU stays online");
    }
}

impl<S: SchedExt> Sim<S> {
    /// `/sys/devices/system/cpu/cpuN/online` is written. The last CPU stays.
    #[inline(never)]
    pub(crate) fn hotplug(&mut self, cpu: CpuId, online: bool) {
        let last = self.k.online_cpus().count() == 1;
        if self.k.is_online(cpu) == online || !online && last {
            return;
        }
        if !online && !self.k.dl_allows_offline() {
            return;
        }
        self.k.set_online(cpu, online);
        if !online {
            self.k.bandwidth_offline(cpu);
            self.offline_ext(cpu);
        }
        self.tell_hotplug(cpu, online);
        if online {
            self.k.resched_curr(cpu);
        } else {
            self.push_all(cpu);
        }
    }

    /// `rq_offline_scx()`: the CPU calls no `ops.dispatch()` any more, so its tasks come back from the scheduler.
    fn offline_ext(&mut self, cpu: CpuId) {
        if !self.k.scx.loaded {
            return;
        }
        if self.k.scx.builtin_idle {
            self.k.idle_update(cpu, false);
        }
        let local = self.k.dsq_local(cpu);
        let elsewhere = |task: &&crate::Task| {
            task.cpu == cpu
                && task.class == SchedClass::Ext
                && task.scx.is_waiting()
                && task.scx.dsq != Some(local)
        };
        let mut tasks: Vec<(u64, TaskId)> =
            self.k.live_tasks().filter(elsewhere).map(|task| (task.scx.runnable_seq, task.id)).collect();
        tasks.sort_unstable_by(|a, b| b.cmp(a));
        for (_, task) in tasks {
            self.change(task, DEQUEUE_SAVE | DEQUEUE_MOVE | DEQUEUE_NOCLOCK, |_| {});
        }
    }

    /// `handle_hotplug()`: a scheduler that is not told leaves.
    fn tell_hotplug(&mut self, cpu: CpuId, online: bool) {
        if !self.k.scx.loaded {
            return;
        }
        self.subs_hotplug(cpu, online);
        let op = if online { OpKind::CpuOnline } else { OpKind::CpuOffline };
        if !self.has(op) {
            let going = if online { "online" } else { "offline" };
            self.k.exit_for_hotplug(format!("cpu {} going {going}, exiting scheduler", cpu.0));
        } else if online {
            self.call(op, None, None, |ops, k| ops.cpu_online(k, cpu));
        } else {
            self.call(op, None, None, |ops, k| ops.cpu_offline(k, cpu));
        }
    }

    /// `balance_push()`: no task stays on a CPU that is offline.
    fn push_all(&mut self, cpu: CpuId) {
        let there = |task: &&crate::Task| task.cpu == cpu && task.on_rq && !task.on_cpu;
        let tasks: Vec<TaskId> = self.k.live_tasks().filter(there).map(|task| task.id).collect();
        for task in tasks {
            if self.k.is_delayed(task) {
                self.k.rq_lock(cpu);
                self.k.fair_leave(task);
                self.k.rq_unlock(cpu);
            } else {
                self.move_queued(task);
            }
        }
        if self.k.curr(cpu).is_some() {
            self.k.cpu_mut(cpu).push_off = true;
            self.k.resched_curr(cpu);
        }
    }

    /// `select_fallback_rq()`: a CPU for a task whose present one is not allowed or offline, of the same node first, the
    /// lowest number. A task that may use none of those that are online may use all from now on.
    pub(crate) fn fallback_cpu(&mut self, task: TaskId, near: CpuId) -> CpuId {
        let mut allowed = self.k.task(task).cpus_allowed.and(self.k.online_cpus());
        if allowed.is_empty() {
            self.allow_all(task);
            allowed = *self.k.online_cpus();
        }
        debug_assert!(!allowed.is_empty(), "one CPU stays online");
        let node = self.k.cpu(near).node;
        let found = allowed.iter().find(|&cpu| self.k.cpu(cpu).node == node).or_else(|| allowed.lowest());
        found.expect("one CPU stays online")
    }

    /// `set_cpus_allowed_force()` with all CPUs.
    fn allow_all(&mut self, task: TaskId) {
        let mask = self.k.topology.machine.clone();
        self.k.task_mut(task).set_cpus_allowed(mask.clone());
        self.tell_cpumask(task, &mask);
    }
}
