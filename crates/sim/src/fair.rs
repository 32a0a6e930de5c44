//! The fair class: EEVDF as in Linux 7 (`kernel/sched/fair.c`), flat, without
//! groups, delayed dequeue and utilisation tracking.
//!
//! A queued entity has a virtual runtime `v` (ns scaled by 1024/weight) and a
//! virtual deadline. With the load-weighted average `V` of all `v` on the run
//! queue, an entity is eligible when `v <= V`; the eligible one with the earliest
//! deadline runs, and keeps running for its slice (run to parity).

use crate::Kernel;
use schedlab_base::{CpuId, TaskId};

/// Base slice on one CPU, ns (`normalized_sysctl_sched_base_slice`).
const BASE_SLICE_NS: u64 = 700_000;

/// Weight of nice 0.
const NICE_0_LOAD: u64 = 1024;

/// The fair part of a task. Written by the fair class under the rq lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FairEntity {
    /// Virtual runtime, ns.
    pub(crate) vruntime: i64,
    /// Virtual deadline, ns.
    pub(crate) deadline: i64,
    /// `V - v` when it left the queue.
    pub(crate) vlag: i64,
    /// Until which `v` the running entity is not preempted by equals.
    pub(crate) protected_until: i64,
    /// The weight it is queued with.
    weight: u64,
    queued: bool,
}

/// A CPU's fair queue; sums include the running entity.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairRq {
    /// Entities that wait, by deadline.
    order: Vec<(i64, TaskId)>,
    /// The running entity.
    curr: Option<TaskId>,
    /// Sum of weight times vruntime.
    sum_weighted: i128,
    sum_weight: u64,
    /// Where `V` was when the queue was last empty.
    floor: i64,
    /// Entities, running included.
    pub(crate) nr: u32,
}

impl FairRq {
    /// The average `V`, rounded down.
    fn average(&self) -> i64 {
        if self.sum_weight == 0 {
            return self.floor;
        }
        self.sum_weighted.div_euclid(i128::from(self.sum_weight)) as i64
    }

    fn eligible(&self, vruntime: i64) -> bool {
        self.sum_weighted >= i128::from(vruntime) * i128::from(self.sum_weight)
    }

    fn add(&mut self, vruntime: i64, weight: u64) {
        self.sum_weighted += i128::from(vruntime) * i128::from(weight);
        self.sum_weight += weight;
        self.nr += 1;
    }

    fn sub(&mut self, vruntime: i64, weight: u64) {
        self.floor = self.average();
        self.sum_weighted -= i128::from(vruntime) * i128::from(weight);
        self.sum_weight -= weight;
        self.nr -= 1;
        debug_assert!(self.nr > 0 || (self.sum_weight == 0 && self.sum_weighted == 0), "sums match");
    }

    fn order_insert(&mut self, deadline: i64, task: TaskId) {
        let at = self.order.partition_point(|&entry| entry < (deadline, task));
        self.order.insert(at, (deadline, task));
    }

    fn order_remove(&mut self, deadline: i64, task: TaskId) {
        let at = self.order.binary_search(&(deadline, task)).expect("a waiting entity is in the order");
        self.order.remove(at);
    }

    /// Waiting entities, earliest deadline first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.order.iter().map(|&(_, task)| task)
    }
}

/// `calc_delta_fair()`: real to virtual time, rounding down.
fn scaled(ns: u64, weight: u64) -> i64 {
    if weight == NICE_0_LOAD { ns as i64 } else { (ns * NICE_0_LOAD / weight) as i64 }
}

impl Kernel {
    /// The slice on this machine: 0.7 ms times 1 + log2 of at most 8 CPUs
    /// (`get_update_sysctl_factor()`): 2.8 ms from 8 CPUs on.
    pub(crate) fn base_slice(&self) -> u64 {
        let cpus = self.cpus.len().min(8) as u64;
        BASE_SLICE_NS * (1 + u64::from(cpus.ilog2()))
    }

    fn fair_rq(&mut self, cpu: CpuId) -> &mut FairRq {
        &mut self.cpus[cpu.index()].fair
    }

    /// `enqueue_entity()`: places the entity by its lag and queues it.
    #[inline(never)]
    pub(crate) fn fair_enqueue(&mut self, cpu: CpuId, task: TaskId, initial: bool) {
        let slice = self.base_slice();
        let weight = u64::from(self.task(task).load_weight());
        let running = self.cpus[cpu.index()].curr == Some(task);
        let rq = &mut self.cpus[cpu.index()].fair;
        let entity = &mut self.tasks.living_mut(task).fair;
        assert!(!entity.queued, "{task} is queued once");
        let mut lag = 0;
        if rq.sum_weight > 0 {
            let load = i128::from(rq.sum_weight);
            lag = (i128::from(entity.vlag) * (load + i128::from(weight)) / load) as i64;
        }
        entity.weight = weight;
        entity.vruntime = rq.average() - lag;
        let vslice = scaled(slice, weight);
        entity.deadline = entity.vruntime + if initial { vslice / 2 } else { vslice };
        entity.queued = true;
        rq.add(entity.vruntime, weight);
        if running {
            entity.protected_until = entity.deadline;
            rq.curr = Some(task);
        } else {
            rq.order_insert(entity.deadline, task);
        }
        self.hidden(task).ready_at = self.ctx.now;
    }

    /// `dequeue_entity()`: remembers the lag, at most two slices of it.
    #[inline(never)]
    pub(crate) fn fair_dequeue(&mut self, cpu: CpuId, task: TaskId) {
        self.fair_update_curr(cpu);
        let slice = self.base_slice();
        let rq = &mut self.cpus[cpu.index()].fair;
        let entity = &mut self.tasks.living_mut(task).fair;
        assert!(entity.queued, "{task} is queued");
        let limit = scaled(2 * slice, entity.weight);
        entity.vlag = (rq.average() - entity.vruntime).clamp(-limit, limit);
        entity.queued = false;
        if rq.curr == Some(task) {
            rq.curr = None;
        } else {
            rq.order_remove(entity.deadline, task);
        }
        rq.sub(entity.vruntime, entity.weight);
    }

    /// Charges the running entity up to now; true when its slice is used up and
    /// somebody else waits.
    pub(crate) fn fair_update_curr(&mut self, cpu: CpuId) -> bool {
        let Some(task) = self.cpus[cpu.index()].fair.curr else { return false };
        let delta = self.charge_runtime(task);
        self.server_update(cpu, delta);
        let slice = self.base_slice();
        let rq = &mut self.cpus[cpu.index()].fair;
        let entity = &mut self.tasks.living_mut(task).fair;
        let vdelta = scaled(delta, entity.weight);
        entity.vruntime += vdelta;
        rq.sum_weighted += i128::from(vdelta) * i128::from(entity.weight);
        if entity.vruntime < entity.deadline {
            return false;
        }
        entity.deadline = entity.vruntime + scaled(slice, entity.weight);
        rq.nr > 1
    }

    /// `pick_eevdf()`: the eligible entity with the earliest deadline.
    #[inline(never)]
    pub(crate) fn fair_pick(&self, cpu: CpuId) -> Option<TaskId> {
        let rq = &self.cpus[cpu.index()].fair;
        let curr = rq.curr.map(|task| (task, self.task(task).fair));
        if let Some((task, entity)) = curr
            && (rq.nr == 1 || entity.vruntime < entity.protected_until)
        {
            return Some(task);
        }
        let fits = |&&(_, task): &&(i64, TaskId)| rq.eligible(self.task(task).fair.vruntime);
        let best = rq.order.iter().find(fits).or_else(|| rq.order.first());
        let curr = curr.filter(|(_, entity)| rq.eligible(entity.vruntime));
        match (best, curr) {
            (Some(&(deadline, _)), Some((task, entity))) if entity.deadline <= deadline => Some(task),
            (Some(&(_, task)), _) => Some(task),
            (None, Some((task, _))) => Some(task),
            (None, None) => rq.curr,
        }
    }

    /// The entity starts to run.
    #[inline(never)]
    pub(crate) fn fair_set_next(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.ctx.now;
        let entry = self.task_mut(task);
        entry.exec_start = now;
        entry.fair.protected_until = entry.fair.deadline;
        let deadline = entry.fair.deadline;
        let rq = self.fair_rq(cpu);
        assert!(rq.curr.is_none(), "one entity runs at a time");
        rq.order_remove(deadline, task);
        rq.curr = Some(task);
    }

    /// The entity stops running; it goes on waiting when it is still queued.
    #[inline(never)]
    pub(crate) fn fair_put_prev(&mut self, cpu: CpuId, task: TaskId) {
        if !self.task(task).fair.queued {
            return;
        }
        self.fair_update_curr(cpu);
        let deadline = self.task(task).fair.deadline;
        let rq = self.fair_rq(cpu);
        assert_eq!(rq.curr.take(), Some(task), "who stops was running");
        rq.order_insert(deadline, task);
        self.hidden(task).ready_at = self.ctx.now;
    }

    /// `check_preempt_wakeup_fair()`: reschedules when the woken task would be
    /// picked now. Batch and idle tasks do not preempt; idle ones are preempted.
    #[inline(never)]
    pub(crate) fn fair_wakeup_preempt(&mut self, cpu: CpuId, task: TaskId) {
        use schedlab_base::Policy;
        let Some(curr) = self.cpus[cpu.index()].fair.curr else { return };
        self.fair_update_curr(cpu);
        let (new, old) = (self.task(task).policy, self.task(curr).policy);
        if old == Policy::Idle && new != Policy::Idle {
            self.hidden(curr).fair.protected_until = i64::MIN;
            self.resched_lazy(cpu);
        } else if new != Policy::Batch && new != Policy::Idle && self.fair_pick(cpu) == Some(task) {
            self.resched_lazy(cpu);
        }
    }

    /// `yield_task_fair()`: forfeits the rest of the slice.
    pub(crate) fn fair_yield(&mut self, cpu: CpuId, task: TaskId) {
        self.fair_update_curr(cpu);
        if self.cpus[cpu.index()].fair.nr == 1 {
            return;
        }
        let slice = self.base_slice();
        let average = self.cpus[cpu.index()].fair.average();
        let entity = &mut self.hidden(task).fair;
        entity.protected_until = i64::MIN;
        if entity.vruntime <= average {
            let skipped = entity.deadline - entity.vruntime;
            let weight = entity.weight;
            entity.vruntime = entity.deadline;
            entity.deadline += scaled(slice, weight);
            self.fair_rq(cpu).sum_weighted += i128::from(skipped) * i128::from(weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_and_eligibility() {
        let mut rq = FairRq::default();
        rq.add(100, 1024);
        rq.add(400, 2048);
        assert_eq!(rq.average(), 300);
        assert!(rq.eligible(300) && !rq.eligible(301));
        rq.sub(400, 2048);
        assert_eq!(rq.average(), 100);
        rq.sub(100, 1024);
        assert_eq!((rq.average(), rq.nr), (100, 0));
    }

    #[test]
    fn virtual_time_by_weight() {
        assert_eq!(scaled(1_000, 1024), 1_000);
        assert_eq!(scaled(1_000, 2048), 500);
        assert_eq!(scaled(15, 15), 1024);
    }
}
