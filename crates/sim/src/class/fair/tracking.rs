//! Which averages of load are brought up to date when. Those of an entity and of its queue are at each change of
//! either (`update_load_avg()`), those of a CPU before its load is looked at.

use crate::Kernel;
use crate::class::fair::pelt::Averages;
use schedlab_base::{CpuId, TaskId};

impl Kernel {
    /// The averages of the queue of `cpu`, up to now.
    #[inline]
    pub(crate) fn track_queue(&mut self, cpu: CpuId) {
        let now = self.ctx.now.0;
        let queue = &mut self.cpus[cpu.index()].fair;
        if queue.averages.is_due(now) {
            let since = queue.since();
            queue.averages.update(now, since, 1);
        }
    }

    /// The averages of an entity that counts there, and of the queues that it is in.
    #[inline(always)]
    pub(crate) fn track(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.ctx.now.0;
        // Several calls fall into the same microsecond.
        if self.task(task).fair.averages.is_due(now)
            || self.cpus[cpu.index()].fair.averages.is_due(now)
            || !self.groups.is_flat()
        {
            self.track_due(cpu, task);
        }
    }

    #[inline(never)]
    fn track_due(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.ctx.now.0;
        let running = self.cpus[cpu.index()].fair.curr == Some(task);
        let entity = &mut self.task_mut(task).fair;
        if entity.averages.is_due(now) {
            let (since, weight) = (entity.since(running), entity.own);
            entity.averages.update(now, since, weight);
        }
        self.track_queues(cpu, self.fair_group(task));
    }

    /// An entity is about to be queued on `cpu` with this weight: it counts there from now on, if it did not before.
    pub(crate) fn track_arrival(&mut self, cpu: CpuId, task: TaskId, weight: u64) {
        let group = self.fair_group(task);
        self.fair_groups_ready(group);
        let entity = &self.task(task).fair;
        let before = entity.counts_on;
        if before == Some(cpu) && entity.own == weight {
            return self.track(cpu, task);
        }
        self.track_queues(cpu, group);
        self.track_departure(task);
        let queue = *self.fair_averages(group, cpu);
        let entity = &mut self.tasks.living_mut(task).fair;
        entity.own = weight;
        if before.is_none() {
            entity.averages = Averages::of_new(weight, &queue);
        } else {
            entity.averages.reweigh(weight);
        }
        self.track_attach(cpu, task);
    }

    /// The entity counts in the averages of its group, or of the root, from now on.
    pub(crate) fn track_attach(&mut self, cpu: CpuId, task: TaskId) {
        let Some(group) = self.fair_group(task) else {
            let entity = &mut self.tasks.living_mut(task).fair;
            entity.averages.attach(&mut self.cpus[cpu.index()].fair.averages, entity.own);
            entity.counts_on = Some(cpu);
            return;
        };
        let (mut averages, own) = (self.task(task).fair.averages, self.task(task).fair.own);
        averages.attach(self.fair_averages(Some(group), cpu), own);
        let entity = &mut self.task_mut(task).fair;
        (entity.averages, entity.counts_on) = (averages, Some(cpu));
        self.track_moved(cpu, Some(group), averages.load_sum() as i64);
    }

    /// The entity counts nowhere any more: it moves, or is gone.
    pub(crate) fn track_departure(&mut self, task: TaskId) {
        let Some(cpu) = self.task_mut(task).fair.counts_on.take() else { return };
        self.track(cpu, task);
        let (group, entity) = (self.fair_group(task), self.task(task).fair);
        entity.averages.detach(self.fair_averages(group, cpu), entity.own);
        self.track_moved(cpu, group, -(entity.averages.load_sum() as i64));
    }
}
