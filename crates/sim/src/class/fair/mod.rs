//! The fair class: EEVDF as in Linux 7.3 (`kernel/sched/fair.c`), without buddies. Groups are in [`group`]. Rules that older versions
//! have differently are those of [`KernelChange`].
//!
//! A queued entity has a virtual runtime `v` (ns scaled by 1024/weight) and a virtual deadline. With the load-weighted
//! average `V` of all `v` on the run queue, an entity is eligible when `v <= V`; the eligible one with the earliest
//! deadline runs. While it is eligible it keeps the CPU up to the end of its protection (run to parity), which is its
//! deadline until another entity wakes up beside it.
//!
//! An entity that goes to sleep before it is eligible stays on the queue, delayed, until it is picked (and then leaves)
//! or woken. So it burns off what it had too much of.

pub(crate) mod balance;
pub(crate) mod bandwidth;
mod division;
pub(crate) mod domains;
pub(crate) mod group;
pub(crate) mod hrtick;
pub(crate) mod imbalance;
pub(crate) mod pelt;
pub(crate) mod placement;
pub(crate) mod queue;
pub(crate) mod tracking;

use crate::Kernel;
use crate::class::fair::division::proportion;
use crate::class::fair::pelt::{Averages, Since};
use crate::class::fair::placement::Wakes;
use crate::class::fair::queue::FairRq;
use crate::state::rq::Served;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, DurationNs, KernelChange, Policy, TaskId};

/// By how many bits weights in a queue are finer than those of nice values (`SCHED_FIXEDPOINT_SHIFT`).
pub(crate) const WEIGHT_SHIFT: u32 = 10;

/// Weight of nice 0 in a queue.
pub(crate) const NICE_0_LOAD: u64 = 1024 << WEIGHT_SHIFT;

/// The fair part of a task. Written by the fair class under the rq lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FairEntity {
    /// Virtual runtime, ns.
    pub(crate) vruntime: i64,
    /// Virtual deadline, ns; while off the queue, and where so marked, relative to `vruntime`.
    pub(crate) deadline: i64,
    /// `V - v` when it left the queue.
    vlag: i64,
    /// Up to which `v` the running entity keeps the CPU while it is eligible (`vprot`).
    protected_until: i64,
    /// The weight it is or was queued with among all tasks of the CPU (`h_load`), scaled.
    pub(crate) weight: u64,
    /// The weight of its nice value, which it has in its group (`load`), as the averages have it.
    pub(crate) own: u64,
    queued: bool,
    /// The task sleeps, the entity is still queued (`sched_delayed`).
    pub(crate) delayed: bool,
    /// The deadline is relative: the entity continues elsewhere with what is left of its request (`rel_deadline`).
    relative: bool,
    /// How much it wants of a CPU.
    pub(crate) averages: Averages,
    /// The CPU whose averages it counts in.
    pub(crate) counts_on: Option<CpuId>,
    pub(crate) wakes: Wakes,
    /// It runs, and leaves the queue when it is in user mode: its group has used up its quota.
    pub(crate) leaves: bool,
    /// It is off the queue, and waits until its group may run again.
    pub(crate) throttled: bool,
    /// The slice that its task asked for.
    pub(crate) custom_slice: Option<DurationNs>,
}

impl FairEntity {
    /// Of a new task that asks for this slice.
    pub(crate) fn with_slice(custom_slice: Option<DurationNs>) -> FairEntity {
        FairEntity { custom_slice, ..FairEntity::default() }
    }

    /// Real time up to the deadline at the entity's own speed, ns; negative when it is past.
    pub(crate) fn until_deadline(&self) -> i64 {
        let left = self.deadline - self.vruntime;
        if left < 0 { left } else { (left as u64 * self.weight / NICE_0_LOAD) as i64 }
    }

    /// What it has been doing, as long as nothing has changed.
    pub(crate) fn since(&self, running: bool) -> Since {
        Since { load: u64::from(self.queued), runnable: u64::from(self.queued && !self.delayed), running }
    }

    /// `rescale_entity()`: the same lag, and what is left of the request, for another weight.
    fn rescale(&mut self, weight: u64) {
        debug_assert!(weight > 0, "an entity has a weight");
        if self.weight != 0 && self.weight != weight {
            let scale = |span: i64| proportion(span, self.weight, weight);
            (self.vlag, self.deadline) =
                (scale(self.vlag), if self.relative { scale(self.deadline) } else { self.deadline });
        }
        self.weight = weight;
    }
}

/// `calc_delta_fair()`: real to virtual time, rounding down.
fn scaled(ns: u64, weight: u64) -> i64 {
    debug_assert!(weight > 0, "an entity has a weight");
    if weight == NICE_0_LOAD { ns as i64 } else { (ns * NICE_0_LOAD / weight) as i64 }
}

/// On to the queue and off it.
impl Kernel {
    /// The slice on this machine, ns.
    pub(crate) fn base_slice(&self) -> u64 {
        self.topology.base_slice
    }

    /// The slice of a task, ns; older kernels do not ask it.
    pub fn fair_slice(&self, task: TaskId) -> u64 {
        self.slice_of(task)
    }

    fn slice_of(&self, task: TaskId) -> u64 {
        let custom = self.task(task).fair.custom_slice;
        match custom {
            Some(slice) if self.machine.kernel.version.has(KernelChange::CustomSlices) => slice.0,
            _ => self.base_slice(),
        }
    }

    /// The shortest and the longest slice of those queued (`cfs_rq_min_slice()`, `cfs_rq_max_slice()`); that of all where none has
    /// its own.
    #[inline(always)]
    fn slices(&self, cpu: CpuId) -> (u64, u64) {
        if self.cpus[cpu.index()].fair.custom > 0
            && self.machine.kernel.version.has(KernelChange::CustomSlices)
        {
            return self.custom_slices(cpu);
        }
        (self.base_slice(), self.base_slice())
    }

    #[inline(never)]
    fn custom_slices(&self, cpu: CpuId) -> (u64, u64) {
        let rq = &self.cpus[cpu.index()].fair;
        let base = self.base_slice();
        let all = || rq.waiting().chain(rq.curr).map(|task| self.slice_of(task));
        (all().min().unwrap_or(base), all().max().unwrap_or(base))
    }

    /// How much lag an entity takes along, ns of its own time (`entity_lag()`).
    fn lag_limit(&self, cpu: CpuId, task: TaskId) -> u64 {
        let tick = self.tick_period.0;
        if self.machine.kernel.version.has(KernelChange::LongLag) {
            self.slices(cpu).1 + tick
        } else {
            (2 * self.slice_of(task)).max(tick)
        }
    }

    fn fair_rq(&mut self, cpu: CpuId) -> &mut FairRq {
        &mut self.cpus[cpu.index()].fair
    }

    /// The queue of `cpu` and the entity of `task`.
    fn fair_parts(&mut self, cpu: CpuId, task: TaskId) -> (&mut FairRq, &mut FairEntity) {
        (&mut self.cpus[cpu.index()].fair, &mut self.tasks.living_mut(task).fair)
    }

    /// The task sleeps, its entity is still queued.
    pub(crate) fn is_delayed(&self, task: TaskId) -> bool {
        self.task(task).fair.delayed
    }

    /// `enqueue_task_fair()`: places the entity by its lag and queues it. `initial` for a task that is new.
    #[inline(never)]
    pub(crate) fn fair_enqueue(&mut self, cpu: CpuId, task: TaskId, initial: bool) {
        self.fair_update_curr(cpu);
        let running = self.cpus[cpu.index()].curr == Some(task);
        let own = u64::from(self.task(task).load_weight());
        assert!(!self.task(task).fair.queued, "{task} is queued once");
        self.track_arrival(cpu, task, own);
        let weight = self.fair_enter(cpu, task, own << WEIGHT_SHIFT);
        self.task_mut(task).fair.rescale(weight);
        self.fair_place(cpu, task, initial);
        let (rq, entity) = self.fair_parts(cpu, task);
        entity.queued = true;
        rq.custom += u32::from(entity.custom_slice.is_some());
        rq.add(entity.vruntime, weight);
        if running {
            rq.curr = Some(task);
            self.fair_mark_running(cpu, task, true);
        } else {
            rq.order_insert(entity.deadline, task);
        }
        self.task_mut(task).ready_at = self.ctx.now;
        self.hrtick_update(cpu);
    }

    /// `place_entity()`, before the entity is counted: where it had been by its lag, with a whole request or what is
    /// left of the last one.
    fn fair_place(&mut self, cpu: CpuId, task: TaskId, initial: bool) {
        let slice = self.slice_of(task);
        let (rq, entity) = self.fair_parts(cpu, task);
        let mut lag = 0;
        if rq.sum_weight > 0 {
            lag = entity.vlag + proportion(entity.vlag, entity.weight, rq.sum_weight);
        }
        entity.vruntime = rq.average() - lag;
        if std::mem::take(&mut entity.relative) {
            entity.deadline += entity.vruntime;
        } else {
            let request = scaled(slice, entity.weight);
            entity.deadline = entity.vruntime + if initial { request / 2 } else { request };
        }
    }

    /// `dequeue_task_fair()`: remembers the lag. False when the task goes to sleep and its entity stays, delayed.
    #[inline(never)]
    pub(crate) fn fair_dequeue(&mut self, cpu: CpuId, task: TaskId, sleeps: bool) -> bool {
        self.fair_update_curr(cpu);
        self.track(cpu, task);
        self.fair_update_lag(cpu, task);
        let delays = self.machine.kernel.version.has(KernelChange::DelayedDequeue);
        let (rq, entity) = self.fair_parts(cpu, task);
        assert!(entity.queued && !entity.delayed, "{task} is queued and awake");
        if sleeps && delays && !rq.eligible(entity.vruntime) {
            entity.delayed = true;
            rq.delayed += 1;
            self.fair_count_awake(cpu, task, false);
            return false;
        }
        self.fair_remove(cpu, task, sleeps);
        true
    }

    /// The entity of the running task, which wants to run on, leaves the queue.
    fn fair_take_off(&mut self, cpu: CpuId, task: TaskId) {
        self.fair_update_curr(cpu);
        self.track(cpu, task);
        self.fair_update_lag(cpu, task);
        self.fair_remove(cpu, task, true);
    }

    /// A task of a CPU joins its queue, or comes back to it.
    pub(crate) fn fair_join(&mut self, cpu: CpuId, task: TaskId, initial: bool) {
        self.count_running(cpu, SchedClass::Fair, true);
        self.fair_enqueue(cpu, task, initial);
        if self.cpus[cpu.index()].fair.nr == 1 {
            self.server_start(cpu, Served::Fair);
        }
    }

    /// The delayed entity of a sleeping task leaves the queue, and the task with it (`DEQUEUE_DELAYED`).
    pub(crate) fn fair_leave(&mut self, task: TaskId) {
        let (cpu, class) = (self.task(task).cpu, self.task(task).class);
        self.fair_update_curr(cpu);
        self.track(cpu, task);
        self.fair_update_lag(cpu, task);
        // It was counted out of the runnable tasks when it fell asleep.
        self.fair_awaken(cpu, task);
        self.fair_remove(cpu, task, true);
        self.count_running(cpu, class, false);
        self.task_mut(task).set_on_rq(false);
    }

    fn fair_awaken(&mut self, cpu: CpuId, task: TaskId) {
        let (rq, entity) = self.fair_parts(cpu, task);
        assert!(std::mem::take(&mut entity.delayed), "{task} is delayed");
        rq.delayed -= 1;
        self.fair_count_awake(cpu, task, true);
    }

    fn fair_remove(&mut self, cpu: CpuId, task: TaskId, sleeps: bool) {
        let (rq, entity) = self.fair_parts(cpu, task);
        debug_assert!(entity.queued, "an entity that leaves is queued");
        entity.queued = false;
        rq.custom -= u32::from(entity.custom_slice.is_some());
        let running = rq.curr == Some(task);
        if running {
            rq.curr = None;
        } else {
            rq.order_remove(entity.deadline, task);
        }
        rq.sub(entity.vruntime, entity.weight);
        if !sleeps {
            entity.deadline -= entity.vruntime;
            entity.relative = true;
        }
        let own = entity.own << WEIGHT_SHIFT;
        self.fair_exit(cpu, task, own);
        if running {
            self.fair_mark_running(cpu, task, false);
        }
    }

    /// `update_entity_lag()`. A delayed entity does not become worse off, and gains nothing beyond nothing. True when
    /// the lag is another one than that of where the entity stands.
    fn fair_update_lag(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let limit = self.lag_limit(cpu, task);
        let (rq, entity) = self.fair_parts(cpu, task);
        let (average, limit) = (rq.average(), scaled(limit, entity.weight));
        debug_assert!(limit >= 0, "a limit of lag is not negative");
        let mut lag = (average - entity.vruntime).clamp(-limit, limit);
        if entity.delayed {
            lag = lag.max(entity.vlag).min(0);
        }
        entity.vlag = lag;
        average - lag != entity.vruntime
    }

    /// `requeue_delayed_entity()`: the task of a delayed entity is woken where it is.
    pub(crate) fn fair_requeue(&mut self, cpu: CpuId, task: TaskId) {
        self.fair_update_curr(cpu);
        self.track(cpu, task);
        if self.fair_update_lag(cpu, task) {
            let (rq, entity) = self.fair_parts(cpu, task);
            let running = rq.curr == Some(task);
            if !running {
                rq.order_remove(entity.deadline, task);
            }
            rq.sub(entity.vruntime, entity.weight);
            self.fair_place(cpu, task, false);
            let (rq, entity) = self.fair_parts(cpu, task);
            rq.add(entity.vruntime, entity.weight);
            if !running {
                rq.order_insert(entity.deadline, task);
            }
        }
        self.fair_awaken(cpu, task);
        self.task_mut(task).ready_at = self.ctx.now;
    }
}

/// Running and picking.
impl Kernel {
    /// `update_curr()`: charges the running entity up to now. Where others are queued, it asks for a reschedule when the
    /// request or the protection is used up.
    #[inline(always)]
    pub(crate) fn fair_update_curr(&mut self, cpu: CpuId) {
        if let Some(task) = self.cpus[cpu.index()].fair.curr
            && self.task(task).exec_start < self.ctx.now
        {
            self.fair_charge(cpu, task);
        }
    }

    /// The running entity has run since it was last charged. In most calls of [`Kernel::fair_update_curr`] it has not, or there is none.
    #[inline(never)]
    fn fair_charge(&mut self, cpu: CpuId, task: TaskId) {
        let delta = self.charge_runtime(task);
        debug_assert!(delta > 0, "there is something to charge");
        self.server_update(cpu, Served::Fair, delta);
        if self.bandwidth_used() {
            self.bandwidth_account(cpu, task, delta as i64);
        }
        let slice = self.slice_of(task);
        let (rq, entity) = self.fair_parts(cpu, task);
        let vdelta = scaled(delta, entity.weight);
        entity.vruntime += vdelta;
        debug_assert!(vdelta >= 0, "virtual time does not go back");
        rq.sum_weighted += i128::from(vdelta) * i128::from(entity.weight);
        let unprotected = entity.vruntime >= entity.protected_until;
        let used_up = entity.vruntime >= entity.deadline;
        if used_up {
            entity.deadline = entity.vruntime + scaled(slice, entity.weight);
        }
        if rq.nr > 1 && (used_up || unprotected) {
            self.resched_lazy(cpu);
        }
    }

    /// `pick_eevdf()`: the eligible entity with the earliest deadline, be it delayed.
    fn fair_pick(&self, cpu: CpuId, protect: bool) -> Option<TaskId> {
        let rq = &self.cpus[cpu.index()].fair;
        if rq.nr == 1 {
            return rq.curr.or_else(|| rq.waiting().next());
        }
        let eligible = |task: TaskId| rq.eligible(self.task(task).fair.vruntime);
        let curr = rq.curr.filter(|&task| eligible(task)).map(|task| (task, &self.task(task).fair));
        if let Some((task, entity)) = curr
            && protect
            && entity.vruntime < entity.protected_until
        {
            return Some(task);
        }
        let best = rq.order.iter().find(|&&(_, task)| eligible(task));
        match (best, curr) {
            (Some(&(deadline, _)), Some((task, entity))) if entity.deadline < deadline => Some(task),
            (Some(&(_, task)), _) => Some(task),
            (None, curr) => curr.map(|(task, _)| task),
        }
    }

    /// `pick_next_entity()`: the entity that runs next. Delayed entities that are picked leave
    /// instead.
    #[inline(never)]
    pub(crate) fn fair_pick_next(&mut self, cpu: CpuId, protect: bool) -> Option<TaskId> {
        while let Some(task) = self.fair_pick(cpu, protect) {
            if !self.is_delayed(task) {
                return Some(task);
            }
            self.fair_leave(task);
        }
        assert_eq!(self.cpus[cpu.index()].fair.nr, 0, "of those queued one is eligible");
        None
    }

    /// `set_next_task_fair()`: the entity starts to run.
    #[inline(never)]
    pub(crate) fn fair_set_next(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.ctx.now;
        self.track(cpu, task);
        let entry = self.task_mut(task);
        entry.set_exec_start(now);
        let deadline = entry.fair.deadline;
        let rq = self.fair_rq(cpu);
        assert!(rq.curr.is_none(), "one entity runs at a time");
        rq.order_remove(deadline, task);
        rq.curr = Some(task);
        self.fair_mark_running(cpu, task, true);
        if self.bandwidth_used() && self.bandwidth_account(cpu, task, 0) {
            self.ask_to_leave(cpu, task);
            self.resched_after_pick = true;
        }
        self.fair_reweigh(cpu, task);
        self.task_mut(task).fair.protected_until = self.protection(cpu, task);
        self.hrtick_note(cpu, task);
    }

    /// `set_protect_slice()`: up to the deadline; beside one with a shorter slice up to where the entity stops being eligible, before that
    /// was known for the shorter slice.
    fn protection(&self, cpu: CpuId, task: TaskId) -> i64 {
        let entity = &self.task(task).fair;
        let shortest = self.slices(cpu).0;
        let version = self.machine.kernel.version;
        if shortest >= self.slice_of(task) || !version.has(KernelChange::ShortProtection) {
            return entity.deadline;
        }
        let end = if version.has(KernelChange::LongLag) {
            self.cpus[cpu.index()].fair.average_without(entity) + 1
        } else {
            entity.vruntime + scaled(shortest, entity.weight)
        };
        entity.deadline.min(end)
    }

    /// The entity stops running; it waits further if it is still queued.
    #[inline(never)]
    pub(crate) fn fair_put_prev(&mut self, cpu: CpuId, task: TaskId) {
        if !self.task(task).fair.queued {
            return;
        }
        self.fair_update_curr(cpu);
        self.track(cpu, task);
        let deadline = self.task(task).fair.deadline;
        let rq = self.fair_rq(cpu);
        assert_eq!(rq.curr.take(), Some(task), "the one that stops was running");
        rq.order_insert(deadline, task);
        self.fair_mark_running(cpu, task, false);
        self.task_mut(task).ready_at = self.ctx.now;
    }

    /// `wakeup_preempt_fair()`: reschedules when the woken task would be picked now, or is eligible and has a shorter slice. Else the protection of
    /// the running one ends a slice from here at the latest. Batch and idle tasks do not preempt, new ones neither; idle ones are preempted.
    #[inline(never)]
    pub(crate) fn fair_wakeup_preempt(&mut self, cpu: CpuId, task: TaskId, new: bool) {
        let Some(curr) = self.cpus[cpu.index()].fair.curr else { return };
        let (woken, running) = (self.task(task).policy, self.task(curr).policy);
        let idle = |policy: Policy| policy == Policy::Idle;
        if idle(running) && !idle(woken) {
            return self.fair_preempt(cpu, curr);
        }
        self.fair_update_curr(cpu);
        let asks = idle(running) == idle(woken) && woken.is_normal();
        let shorter = asks && self.slice_of(task) < self.slice_of(curr);
        if (shorter || (asks && !new)) && self.fair_pick_next(cpu, !shorter) == Some(task) {
            return self.fair_preempt(cpu, curr);
        }
        if shorter && self.cpus[cpu.index()].fair.eligible(self.task(task).fair.vruntime) {
            return self.fair_preempt(cpu, curr);
        }
        if !self.machine.kernel.version.has(KernelChange::ShortProtection) {
            return;
        }
        let slice = self.slices(cpu).0;
        let (rq, entity) = self.fair_parts(cpu, curr);
        let from = entity.vruntime.min(rq.average());
        entity.protected_until = entity.protected_until.min(from + scaled(slice, entity.weight));
    }

    /// The protection of the running entity ends (`cancel_protect_slice()`), and it gives way.
    fn fair_preempt(&mut self, cpu: CpuId, curr: TaskId) {
        let entity = &mut self.task_mut(curr).fair;
        entity.protected_until = entity.protected_until.min(entity.vruntime);
        self.resched_lazy(cpu);
    }

    /// `task_tick_fair()`.
    pub(crate) fn fair_tick(&mut self, cpu: CpuId, task: TaskId) {
        self.fair_update_curr(cpu);
        self.track(cpu, task);
        let mut levels = self.fair_levels(self.fair_group(task));
        while let Some(group) = levels.up(self) {
            self.fair_follow(cpu, group);
        }
        self.fair_reweigh(cpu, task);
    }

    /// `reweight_eevdf()` of the running entity: its groups' shares have become others. Its lag and what is left of its request stay.
    #[inline(always)]
    fn fair_reweigh(&mut self, cpu: CpuId, task: TaskId) {
        if self.fair_group(task).is_some() {
            self.reweigh_running(cpu, task);
        }
    }

    #[inline(never)]
    fn reweigh_running(&mut self, cpu: CpuId, task: TaskId) {
        let weight = self.fair_weight(cpu, task, self.task(task).fair.own << WEIGHT_SHIFT);
        if weight == self.task(task).fair.weight {
            return;
        }
        self.fair_update_lag(cpu, task);
        let (rq, entity) = self.fair_parts(cpu, task);
        let (average, old) = (rq.average(), entity.weight);
        let protects = entity.vruntime < entity.protected_until;
        rq.sum_weighted -= i128::from(entity.vruntime) * i128::from(old);
        (entity.deadline, entity.relative) = (entity.deadline - average, true);
        entity.rescale(weight);
        (entity.deadline, entity.relative) = (entity.deadline + average, false);
        if protects {
            entity.protected_until = average + proportion(entity.protected_until - average, old, weight);
        }
        entity.vruntime = average - entity.vlag;
        rq.sum_weighted += i128::from(entity.vruntime) * i128::from(weight);
        rq.sum_weight = rq.sum_weight + weight - old;
    }

    /// `yield_task_fair()`: forfeits the rest of the request; an entity that is not eligible is passed over as it is.
    pub(crate) fn fair_yield(&mut self, cpu: CpuId, task: TaskId) {
        if self.cpus[cpu.index()].nr_running == 1 {
            return;
        }
        self.fair_update_curr(cpu);
        let slice = self.slice_of(task);
        let (rq, entity) = self.fair_parts(cpu, task);
        if !rq.eligible(entity.vruntime) {
            return;
        }
        let skipped = entity.deadline - entity.vruntime;
        rq.sum_weighted += i128::from(skipped) * i128::from(entity.weight);
        entity.vruntime = entity.deadline;
        entity.deadline += scaled(slice, entity.weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_by_weight() {
        assert_eq!(scaled(1_000, NICE_0_LOAD), 1_000);
        assert_eq!(scaled(1_000, 2 * NICE_0_LOAD), 500);
        assert_eq!(scaled(15, 15 << WEIGHT_SHIFT), 1024);
    }
}
