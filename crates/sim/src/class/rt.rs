//! The real-time class: FIFO and RR by priority, above everything but a deadline server that has to run ([`crate::class::server`]).
//! Throttling is off, as in Linux 7.3 (`sched_rt_runtime` is the whole period); push and pull are reduced to choosing a CPU at
//! wakeup and pulling when a CPU would otherwise leave real-time work.

use crate::Kernel;
use schedlab_base::{CpuId, DurationNs, Policy, TaskId};

/// `sched_rr_timeslice`: 100 ms.
const RR_SLICE: DurationNs = DurationNs::from_ms(100);

impl Kernel {
    /// Queues by priority, highest first; behind or before its equals.
    #[inline(never)]
    pub(crate) fn rt_enqueue(&mut self, cpu: CpuId, task: TaskId, head: bool) {
        let prio = self.task(task).rt_priority();
        let at = self.cpus[cpu.index()].rt.iter().position(|&other| {
            let other = self.task(other).rt_priority();
            if head { other <= prio } else { other < prio }
        });
        let queue = &mut self.cpus[cpu.index()].rt;
        let at = at.unwrap_or(queue.len());
        queue.insert(at, task);
        self.task_mut(task).ready_at = self.ctx.now;
    }

    #[inline(never)]
    pub(crate) fn rt_dequeue(&mut self, cpu: CpuId, task: TaskId) {
        let queue = &mut self.cpus[cpu.index()].rt;
        let at = queue.iter().position(|&other| other == task).expect("a queued task is on the queue");
        queue.remove(at);
    }

    /// The first task of the highest priority; the running one stays queued.
    pub(crate) fn rt_pick(&self, cpu: CpuId) -> Option<TaskId> {
        self.cpus[cpu.index()].rt.first().copied()
    }

    /// A tick: RR tasks go behind their equals when their 100 ms are used up.
    #[inline(never)]
    pub(crate) fn rt_tick(&mut self, cpu: CpuId, task: TaskId) {
        if !matches!(self.task(task).policy, Policy::Rr(_)) {
            return;
        }
        let tick = self.machine.tick_period();
        let left = self.task(task).rt_slice.saturating_sub(tick);
        self.task_mut(task).rt_slice = left;
        if left > DurationNs::ZERO {
            return;
        }
        self.task_mut(task).rt_slice = RR_SLICE;
        self.rt_yield(cpu, task);
        if self.rt_pick(cpu) != Some(task) {
            self.resched_curr(cpu);
        }
    }

    /// Behind its equals.
    pub(crate) fn rt_yield(&mut self, cpu: CpuId, task: TaskId) {
        self.rt_dequeue(cpu, task);
        self.rt_enqueue(cpu, task, false);
    }

    /// `select_task_rq_rt()`: the previous CPU, unless a real-time task of at least
    /// this priority runs there and another allowed CPU runs something lower.
    #[inline(never)]
    pub(crate) fn rt_select(&self, task: TaskId, prev: CpuId) -> CpuId {
        let prio = self.task(task).rt_priority();
        let rank = |cpu: CpuId| self.cpus[cpu.index()].rt.first().map_or(0, |&t| self.task(t).rt_priority());
        if self.task(task).allows(prev) && rank(prev) < prio {
            return prev;
        }
        let allowed = self.task(task).cpus_allowed;
        let online = allowed.and(&self.online);
        let lowest =
            online.iter().min_by_key(|&cpu| (rank(cpu), self.cpus[cpu.index()].curr.is_some(), cpu.0));
        lowest.filter(|&cpu| rank(cpu) < prio).unwrap_or(prev)
    }

    /// `pull_rt_task()`: a waiting real-time task of another CPU that may run here.
    #[inline(never)]
    pub(crate) fn rt_pullable(&self, cpu: CpuId) -> Option<TaskId> {
        let candidates = self.cpus.iter().filter(|other| other.id != cpu && other.rt.len() > 1);
        candidates
            .flat_map(|other| other.rt.iter().filter(|&&task| other.curr != Some(task)))
            .copied()
            .filter(|&task| !self.task(task).on_cpu && self.task(task).allows(cpu))
            .max_by_key(|&task| (self.task(task).rt_priority(), std::cmp::Reverse(task)))
    }
}
