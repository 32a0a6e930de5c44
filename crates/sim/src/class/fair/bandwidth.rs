//! `cpu.max` of groups (`CONFIG_CFS_BANDWIDTH`, Linux 7.3). A group has a pool, which each period fills, and its queues take slices from it.
//!
//! A queue that gets nothing is throttled, and what is below it too. Its tasks leave the queue one by one, each as it is about to run in
//! user mode, and wait in limbo. The pool has something again at the next period, or when another queue gives back what it does not
//! need.

use crate::Kernel;
use crate::event::Event;
use crate::state::group::{GroupIx, GroupLife};
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_workload::GroupSettings;

/// What a queue takes from the pool at once (`sysctl_sched_cfs_bandwidth_slice`).
const SLICE: i64 = 5_000_000;

/// What a queue keeps when its last task leaves (`min_cfs_rq_runtime`).
const KEPT: i64 = 1_000_000;

/// How long what is given back is gathered before it is handed out (`cfs_bandwidth_slack_period`).
const GATHERED: DurationNs = DurationNs::from_ms(5);

/// So short before the next period nothing is handed out any more (`min_bandwidth_expiration`).
const TOO_LATE: DurationNs = DurationNs::from_ms(2);

/// A group's pool of CPU time (`struct cfs_bandwidth`), times in ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bandwidth {
    quota: Option<i64>,
    period: DurationNs,
    burst: i64,
    runtime: i64,
    /// The pool as the last period left it.
    filled: i64,
    /// Nothing was taken in this period.
    idle: bool,
    /// The timer is armed, or would be at this time.
    active: bool,
    expires: TimeNs,
    cpu: CpuId,
    gathers: bool,
    /// Queues that wait for something, in the order in which they came.
    throttled: Vec<CpuId>,
    pub(crate) figures: BandwidthFigures,
}

/// What `cpu.stat` says of a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandwidthFigures {
    /// Periods in which the group was active.
    pub periods: u64,
    /// Of them, those at whose end a queue was throttled.
    pub throttled: u64,
    /// Sum over the CPUs of the time for which a queue was throttled and a task of it waited.
    pub throttled_time: DurationNs,
    /// Periods that used what earlier ones had left.
    pub bursts: u64,
    /// How much of it.
    pub burst_time: DurationNs,
}

/// A queue's part of it.
#[derive(Clone, Debug)]
pub(crate) struct RqBandwidth {
    remaining: i64,
    throttled: bool,
    /// Since when it has been throttled and a task of it waits.
    since: Option<TimeNs>,
    /// Tasks that wait for it, the last one first in turn.
    limbo: Vec<TaskId>,
    /// How many tasks wait in the queue and in those below.
    waiting: u32,
}

impl Default for RqBandwidth {
    /// That of a new queue, which may run for a moment (`init_cfs_rq_runtime()`).
    fn default() -> RqBandwidth {
        RqBandwidth { remaining: 1, throttled: false, since: None, limbo: Vec::new(), waiting: 0 }
    }
}

impl Bandwidth {
    pub(crate) fn new(settings: &GroupSettings, offset: impl FnOnce(u64) -> u64) -> Bandwidth {
        let mut bandwidth = Bandwidth { period: DurationNs::from_ms(100), ..Bandwidth::default() };
        bandwidth.set(&GroupSettings { burst: DurationNs::ZERO, ..*settings });
        if settings.burst > DurationNs::ZERO {
            // The second file is written after the first, and each write fills the pool.
            bandwidth.set(settings);
        }
        // Timers of groups made together are not to meet.
        bandwidth.expires = TimeNs(offset(bandwidth.period.0));
        bandwidth
    }

    fn set(&mut self, settings: &GroupSettings) {
        self.quota = settings.quota.map(|quota| quota.runtime.0 as i64);
        self.period = settings.quota.map_or(self.period, |quota| quota.period);
        self.burst = settings.burst.0 as i64;
        self.fill();
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.quota.is_some()
    }

    /// `__refill_cfs_bandwidth_runtime()`.
    fn fill(&mut self) {
        let Some(quota) = self.quota else { return };
        self.runtime += quota;
        let over = self.filled - self.runtime;
        if over > 0 {
            self.figures.bursts += 1;
            self.figures.burst_time += DurationNs(over as u64);
        }
        self.runtime = self.runtime.min(quota + self.burst);
        self.filled = self.runtime;
    }

    /// `hrtimer_forward_now()`: how many periods are over.
    fn forward(&mut self, now: TimeNs) -> u64 {
        if now < self.expires {
            return 0;
        }
        let over = now.since(self.expires).0 / self.period.0 + 1;
        self.expires += DurationNs(self.period.0 * over);
        over
    }

    /// `runtime_refresh_within()`.
    fn ends_within(&self, now: TimeNs, span: DurationNs) -> bool {
        self.expires < now + span
    }
}

impl Kernel {
    /// A group of the run has, or had, a quota.
    #[inline(always)]
    pub(crate) fn bandwidth_used(&self) -> bool {
        self.fair_groups.bandwidth_used
    }

    fn bandwidth(&mut self, group: GroupIx) -> &mut Bandwidth {
        &mut self.fair_groups.get_mut(group).bandwidth
    }

    fn rq_bandwidth(&mut self, group: GroupIx, cpu: CpuId) -> &mut RqBandwidth {
        &mut self.fair_groups.rq(group, cpu).bandwidth
    }

    /// The queue or one above it is throttled (`throttled_hierarchy()`). The kernel keeps a count in every queue, and walks over
    /// all that are below at each throttling.
    fn is_throttled(&self, cpu: CpuId, group: GroupIx) -> bool {
        let mut levels = self.fair_levels(Some(group));
        std::iter::from_fn(|| levels.up(self))
            .any(|group| self.fair_groups.get(group).rqs[cpu.index()].bandwidth.throttled)
    }

    /// So many tasks more, or less, wait in a queue, and for those above it.
    fn count_waiting(&mut self, cpu: CpuId, group: GroupIx, change: i32) {
        let mut levels = self.fair_levels(Some(group));
        while let Some(group) = levels.up(self) {
            let rq = self.rq_bandwidth(group, cpu);
            rq.waiting = rq.waiting.checked_add_signed(change).expect("no more go than have come");
        }
    }

    /// The running task has used `delta` ns: its groups have (`account_cfs_rq_runtime()` at each level).
    pub(super) fn bandwidth_account(&mut self, cpu: CpuId, task: TaskId, delta: i64) -> bool {
        let mut throttled = false;
        let mut levels = self.fair_levels(self.fair_group(task));
        while let Some(group) = levels.up(self) {
            throttled |= self.bandwidth_account_group(cpu, group, delta);
        }
        throttled
    }

    /// True if the queue is throttled.
    fn bandwidth_account_group(&mut self, cpu: CpuId, group: GroupIx, delta: i64) -> bool {
        if !self.bandwidth(group).is_limited() {
            return false;
        }
        let rq = self.rq_bandwidth(group, cpu);
        rq.remaining -= delta;
        rq.remaining <= 0 && (rq.throttled || self.throttle(cpu, group))
    }

    /// `__assign_cfs_rq_runtime()`: takes from the pool up to `target`; true if the queue has something then.
    fn take_runtime(&mut self, cpu: CpuId, group: GroupIx, target: i64) -> bool {
        self.start_period(group);
        let wanted = target - self.rq_bandwidth(group, cpu).remaining;
        let bandwidth = self.bandwidth(group);
        let mut amount = 0;
        if bandwidth.runtime > 0 {
            amount = bandwidth.runtime.min(wanted);
            bandwidth.runtime -= amount;
            bandwidth.idle = false;
        }
        let rq = self.rq_bandwidth(group, cpu);
        rq.remaining += amount;
        rq.remaining > 0
    }

    /// `start_cfs_bandwidth()`.
    fn start_period(&mut self, group: GroupIx) {
        let (now, cpu) = (self.ctx.now, self.ctx.cpu);
        let bandwidth = self.bandwidth(group);
        if std::mem::replace(&mut bandwidth.active, true) {
            return;
        }
        bandwidth.forward(now);
        bandwidth.cpu = cpu;
        let at = bandwidth.expires;
        self.queue.push(at, Event::Bandwidth { group: group.0 });
    }

    /// `throttle_cfs_rq()`; false if the pool still has something.
    fn throttle(&mut self, cpu: CpuId, group: GroupIx) -> bool {
        let running = self.fair_groups.rq(group, cpu).running;
        if self.take_runtime(cpu, group, if running { SLICE } else { 1 }) {
            return false;
        }
        self.bandwidth(group).throttled.push(cpu);
        self.rq_bandwidth(group, cpu).throttled = true;
        if running && let Some(task) = self.cpus[cpu.index()].fair.curr {
            self.ask_to_leave(cpu, task);
        }
        true
    }

    /// `task_throttle_setup_work()`: the running task leaves the queue when it is in user mode.
    pub(super) fn ask_to_leave(&mut self, cpu: CpuId, task: TaskId) {
        let entry = self.task_mut(task);
        if !entry.is_kthread() && !entry.is_exiting() {
            entry.fair.leaves = true;
            self.cpus[cpu.index()].lazy_resched = true;
        }
    }

    /// `throttle_cfs_rq_work()`: the running task, which was asked to, leaves the queue for limbo. It still wants the CPU.
    #[inline(never)]
    pub(crate) fn fair_throttle_task(&mut self, cpu: CpuId, task: TaskId) {
        self.task_mut(task).fair.leaves = false;
        let Some(group) = self.fair_group(task) else { return };
        if self.task(task).class != SchedClass::Fair || !self.is_throttled(cpu, group) {
            return;
        }
        self.fair_take_off(cpu, task);
        self.count_running(cpu, SchedClass::Fair, false);
        let now = self.ctx.now;
        let mut levels = self.fair_levels(Some(group));
        while let Some(group) = levels.up(self) {
            let rq = self.rq_bandwidth(group, cpu);
            if rq.throttled {
                rq.since.get_or_insert(now);
            }
        }
        self.rq_bandwidth(group, cpu).limbo.push(task);
        self.count_waiting(cpu, group, 1);
        self.task_mut(task).fair.throttled = true;
        self.count_timeout(task, true);
    }

    /// `dequeue_throttled_task()`: the task leaves limbo, for another CPU, group or class; false if it is not in it.
    pub(crate) fn fair_leave_limbo(&mut self, cpu: CpuId, task: TaskId) -> bool {
        if !self.task(task).fair.throttled {
            return false;
        }
        if let Some(group) = self.fair_group(task) {
            let limbo = &mut self.rq_bandwidth(group, cpu).limbo;
            let place = limbo.iter().position(|&other| other == task).expect("it waits in its queue");
            limbo.remove(place);
            self.count_waiting(cpu, group, -1);
        }
        self.count_timeout(task, false);
        true
    }

    /// `enqueue_throttled_task()`: a task that was in limbo comes into that of its queue if that is throttled; false if it is to be queued.
    pub(crate) fn fair_enter_limbo(&mut self, cpu: CpuId, task: TaskId) -> bool {
        if !self.task(task).fair.throttled {
            return false;
        }
        let runs = self.cpus[cpu.index()].curr == Some(task);
        if !runs && self.fair_is_throttled(cpu, task) {
            let group = self.fair_group(task).expect("a queue of a group is throttled");
            self.rq_bandwidth(group, cpu).limbo.push(task);
            self.count_waiting(cpu, group, 1);
            self.count_timeout(task, true);
            return true;
        }
        self.task_mut(task).fair.throttled = false;
        false
    }

    /// `throttled_hierarchy()` of the queue that the task has, or would have, on a CPU.
    pub(crate) fn fair_is_throttled(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let group = self.fair_group(task).filter(|&group| self.fair_groups.has_rqs(group));
        group.is_some_and(|group| self.is_throttled(cpu, group))
    }

    /// `check_enqueue_throttle()`: the first entity has come into a queue that does not run.
    pub(super) fn bandwidth_first(&mut self, cpu: CpuId, group: GroupIx) {
        if !self.fair_groups.rq(group, cpu).running && !self.rq_bandwidth(group, cpu).throttled {
            self.bandwidth_account_group(cpu, group, 0);
        }
    }

    /// `return_cfs_rq_runtime()`: the last entity has left a queue, which gives back what it has.
    pub(super) fn bandwidth_last(&mut self, cpu: CpuId, group: GroupIx) {
        let slack = self.rq_bandwidth(group, cpu).remaining - KEPT;
        if slack <= 0 || !self.bandwidth(group).is_limited() {
            return;
        }
        let now = self.ctx.now;
        let bandwidth = self.bandwidth(group);
        bandwidth.runtime += slack;
        let wanted = bandwidth.runtime > SLICE && !bandwidth.throttled.is_empty();
        if wanted
            && !bandwidth.ends_within(now, GATHERED + TOO_LATE)
            && !std::mem::replace(&mut bandwidth.gathers, true)
        {
            self.queue.push(now + GATHERED, Event::Slack { group: group.0 });
        }
        self.rq_bandwidth(group, cpu).remaining -= slack;
    }

    /// `unthrottle_cfs_rq()`.
    fn unthrottle(&mut self, cpu: CpuId, group: GroupIx) {
        self.fair_update_curr(cpu);
        let limited = self.bandwidth(group).is_limited();
        let rq = self.rq_bandwidth(group, cpu);
        if limited && rq.remaining <= 0 {
            return;
        }
        rq.throttled = false;
        let waited = rq.since.take();
        let now = self.ctx.now;
        let bandwidth = self.bandwidth(group);
        bandwidth.throttled.retain(|&other| other != cpu);
        bandwidth.figures.throttled_time += waited.map_or(DurationNs::ZERO, |since| now.since(since));
        let waits = |group: GroupIx| {
            let rqs = &self.fair_groups.get(group).rqs;
            rqs.get(cpu.index()).is_some_and(|rq| rq.bandwidth.waiting > 0)
        };
        for below in self.groups.below_where(group, waits).into_iter().rev() {
            self.leave_throttling(cpu, below);
        }
        let entry = &self.cpus[cpu.index()];
        if entry.curr.is_none() && entry.fair.nr > 0 {
            self.resched_curr(cpu);
        }
    }

    /// `tg_unthrottle_up()`: the tasks that wait are queued again, as far as nothing from here up is throttled.
    fn leave_throttling(&mut self, cpu: CpuId, group: GroupIx) {
        // What comes on may throttle a queue above again.
        while !self.is_throttled(cpu, group)
            && let Some(task) = self.rq_bandwidth(group, cpu).limbo.pop()
        {
            self.count_waiting(cpu, group, -1);
            self.task_mut(task).fair.throttled = false;
            self.count_timeout(task, false);
            self.fair_join(cpu, task, false);
        }
    }

    /// `distribute_cfs_runtime()`: hands out the pool; true if a queue is left that has nothing.
    fn hand_out(&mut self, group: GroupIx) -> bool {
        let here = self.ctx.cpu;
        let (mut left, mut own) = (1, false);
        for cpu in self.bandwidth(group).throttled.clone() {
            if left == 0 {
                return true;
            }
            self.rq_lock(cpu);
            self.fair_update_curr(cpu);
            let need = 1 - self.rq_bandwidth(group, cpu).remaining;
            let bandwidth = self.bandwidth(group);
            let given = need.min(bandwidth.runtime);
            bandwidth.runtime -= given;
            left = bandwidth.runtime;
            let rq = self.rq_bandwidth(group, cpu);
            rq.remaining += given;
            let short = rq.remaining <= 0;
            if !short && cpu == here {
                own = true;
            } else if !short {
                self.unthrottle(cpu, group);
            }
            self.rq_unlock(cpu);
            if short {
                return true;
            }
        }
        if own {
            self.rq_lock(here);
            self.unthrottle(here, group);
            self.rq_unlock(here);
        }
        false
    }

    /// `do_sched_cfs_period_timer()`; true if the timer is to stop.
    fn next_period(&mut self, group: GroupIx, over: u64) -> bool {
        let bandwidth = self.bandwidth(group);
        if !bandwidth.is_limited() {
            return true;
        }
        let mut throttled = !bandwidth.throttled.is_empty();
        bandwidth.figures.periods += over;
        bandwidth.fill();
        if bandwidth.idle && !throttled {
            return true;
        }
        if !throttled {
            bandwidth.idle = true;
            return false;
        }
        bandwidth.figures.throttled += over;
        while throttled && self.bandwidth(group).runtime > 0 {
            throttled = self.hand_out(group);
        }
        self.bandwidth(group).idle = false;
        false
    }

    /// `sched_cfs_period_timer()`.
    fn end_period(&mut self, group: GroupIx) {
        let now = self.ctx.now;
        let mut stop = false;
        loop {
            let over = self.bandwidth(group).forward(now);
            if over == 0 {
                break;
            }
            stop = self.next_period(group, over);
        }
        let bandwidth = self.bandwidth(group);
        bandwidth.active = !stop;
        let at = bandwidth.expires;
        if !stop {
            self.queue.push(at, Event::Bandwidth { group: group.0 });
        }
    }

    /// `do_sched_cfs_slack_timer()`.
    fn end_gathering(&mut self, group: GroupIx) {
        let now = self.ctx.now;
        let bandwidth = self.bandwidth(group);
        bandwidth.gathers = false;
        if bandwidth.is_limited() && !bandwidth.ends_within(now, TOO_LATE) && bandwidth.runtime > SLICE {
            self.hand_out(group);
        }
    }

    /// `tg_set_cfs_bandwidth()`, after the settings have changed.
    pub(crate) fn bandwidth_changed(&mut self, group: GroupIx) {
        let settings = self.groups.get(group).settings;
        self.bandwidth(group).set(&settings);
        let limited = settings.quota.is_some();
        self.fair_groups.bandwidth_used |= limited;
        if limited {
            self.start_period(group);
        }
        if self.fair_groups.has_rqs(group) {
            (0..self.cpus.len() as u32).for_each(|cpu| self.set_free(CpuId(cpu), group));
        }
    }

    /// The queue may run for a moment, and is no longer throttled.
    fn set_free(&mut self, cpu: CpuId, group: GroupIx) {
        self.rq_lock(cpu);
        let rq = self.rq_bandwidth(group, cpu);
        rq.remaining = 1;
        if rq.throttled {
            self.unthrottle(cpu, group);
        }
        self.rq_unlock(cpu);
    }

    /// `unthrottle_offline_cfs_rqs()`: the tasks of a CPU that goes offline are to leave it.
    pub(crate) fn bandwidth_offline(&mut self, cpu: CpuId) {
        let groups = self.groups.iter().map(|(group, _)| group).skip(1);
        let throttled = |group: &GroupIx| self.fair_groups.has_rqs(*group);
        for group in groups.filter(throttled).collect::<Vec<_>>() {
            self.set_free(cpu, group);
        }
    }

    /// What `cpu.stat` says of the quota of a group.
    pub fn group_bandwidth(&self, group: GroupIx) -> Option<BandwidthFigures> {
        let bandwidth = &self.fair_groups.get(group).bandwidth;
        let used = bandwidth.is_limited() || bandwidth.figures != BandwidthFigures::default();
        (used && self.groups.get(group).life != GroupLife::Absent).then_some(bandwidth.figures)
    }
}

impl<S: SchedExt> Sim<S> {
    /// A timer of a group's bandwidth.
    #[inline(never)]
    pub(crate) fn bandwidth_timer(&mut self, time: TimeNs, group: u32, slack: bool) {
        let group_ix = GroupIx(group);
        let armed_on = self.k.bandwidth(group_ix).cpu;
        let cpu = self.k.or_online(armed_on);
        let event = if slack { Event::Slack { group } } else { Event::Bandwidth { group } };
        if self.postponed(cpu, time, event) {
            return;
        }
        self.interrupt(cpu, time, |sim| {
            sim.k.charge(sim.k.machine.costs.interrupt);
            sim.run_sleepers(cpu, None);
            if slack { sim.k.end_gathering(group_ix) } else { sim.k.end_period(group_ix) }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::Quota;

    fn pool(burst: u64) -> Bandwidth {
        let quota = Some(Quota { runtime: DurationNs::from_ms(20), period: DurationNs::from_ms(100) });
        Bandwidth::new(
            &GroupSettings { quota, burst: DurationNs::from_ms(burst), ..GroupSettings::default() },
            |_| 7,
        )
    }

    #[test]
    fn a_pool_holds_its_quota_and_what_may_be_saved() {
        let mut none = pool(0);
        none.fill();
        assert_eq!(none.runtime, 20_000_000);
        let mut some = pool(15);
        some.fill();
        assert_eq!(some.runtime, 35_000_000);
        some.runtime -= 30_000_000;
        some.fill();
        assert_eq!(
            (some.runtime, some.figures.bursts, some.figures.burst_time.0),
            (25_000_000, 1, 10_000_000)
        );
    }

    #[test]
    fn periods_keep_their_grid() {
        let mut pool = pool(0);
        assert_eq!(pool.forward(TimeNs(6)), 0);
        assert_eq!((pool.forward(TimeNs(350_000_000)), pool.expires.0), (4, 400_000_007));
        assert!(
            pool.ends_within(TimeNs(399_000_000), TOO_LATE)
                && !pool.ends_within(TimeNs(390_000_000), TOO_LATE)
        );
    }
}
