//! Groups in the fair class (`CONFIG_FAIR_GROUP_SCHED` of Linux 7.3). All tasks of a CPU lie in one queue, whatever their group.
//! A task's weight there is its own times the share of its group, and of each group above that, among those beside it.
//!
//! A group has a queue on each CPU, which counts weights and averages of load, and an entity that stands for it in the group above.
//! The entity's weight is the part of the group's weight that falls to that CPU, by the load there and elsewhere.

use crate::Kernel;
use crate::class::fair::bandwidth::{Bandwidth, RqBandwidth};
use crate::class::fair::division::portion;
use crate::class::fair::pelt::{Averages, SCALE, Since};
use crate::class::fair::{NICE_0_LOAD, WEIGHT_SHIFT};
use crate::state::group::{GroupIx, Groups};
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_workload::GroupSettings;

/// Least weight of an entity in its queue (`MIN_SHARES`).
const LEAST_WEIGHT: u64 = 2;

/// A group's queue on a CPU, and the entity that stands for it in the group above.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupRq {
    /// Weights of the entities queued here, scaled (`cfs_rq->load`).
    load: u64,
    /// Tasks below it that are queued and do not sleep (`h_nr_runnable`).
    runnable: u32,
    /// Tasks below it that are queued (`h_nr_queued`).
    pub(crate) queued: u32,
    /// The running task is below it (`h_curr`).
    pub(crate) running: bool,
    averages: Averages,
    /// What of the averages is in the sums of the group.
    told: Told,
    /// Averages of entities came or went: what is above has to follow (`propagate`, `prop_runnable_sum`).
    moved: Option<i64>,
    entity: GroupEntity,
    pub(super) bandwidth: RqBandwidth,
}

/// A queue's part of the sums over all CPUs, and when it was brought up to date.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    load: u64,
    runnable: u64,
    at: TimeNs,
}

/// Stands for a group's queue in the group above (`tg->se[cpu]`).
#[derive(Clone, Copy, Debug, Default)]
struct GroupEntity {
    /// Scaled (`se->load.weight`).
    weight: u64,
    queued: bool,
    /// `runnable` of its queue, as the averages know it (`runnable_weight`).
    runnable: u32,
    averages: Averages,
    /// It counts in the averages above.
    attached: bool,
    /// It is one of those that [`Kernel::track_groups`] looks at.
    listed: bool,
}

/// The fair part of a group.
#[derive(Clone, Debug)]
pub(crate) struct FairGroup {
    /// Scaled (`tg->shares`).
    shares: u64,
    /// Sums over the CPUs, as far as told.
    load: u64,
    runnable: u64,
    /// How many CPUs its tasks may use.
    cpus: u64,
    /// By CPU; made when the first task comes.
    pub(crate) rqs: Vec<GroupRq>,
    pub(super) bandwidth: Bandwidth,
}

/// The fair parts of all groups, by [`GroupIx`]; that of the root says nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairGroups {
    all: Vec<FairGroup>,
    /// A group has, or had, a quota (`cfs_bandwidth_used()`).
    pub(super) bandwidth_used: bool,
}

impl FairGroups {
    /// `draw` gives a number below another, by chance.
    pub(crate) fn new(groups: &Groups, mut draw: impl FnMut(u64) -> u64) -> FairGroups {
        let part = |(group, entry): (GroupIx, &crate::Group)| {
            let settings = &entry.settings;
            let offset = |period: u64| if group.is_root() { 0 } else { draw(period) };
            let bandwidth = Bandwidth::new(settings, offset);
            let mut part = FairGroup { shares: 0, load: 0, runnable: 0, cpus: 1, rqs: Vec::new(), bandwidth };
            part.set_shares(settings);
            part
        };
        let all: Vec<FairGroup> = groups.iter().map(part).collect();
        FairGroups { bandwidth_used: all.iter().any(|part| part.bandwidth.is_limited()), all }
    }

    pub(crate) fn get(&self, group: GroupIx) -> &FairGroup {
        &self.all[group.index()]
    }

    pub(crate) fn get_mut(&mut self, group: GroupIx) -> &mut FairGroup {
        &mut self.all[group.index()]
    }

    /// Tasks have been in the group.
    pub(super) fn has_rqs(&self, group: GroupIx) -> bool {
        !self.get(group).rqs.is_empty()
    }

    pub(super) fn rq(&mut self, group: GroupIx, cpu: CpuId) -> &mut GroupRq {
        &mut self.all[group.index()].rqs[cpu.index()]
    }
}

impl FairGroup {
    fn set_shares(&mut self, settings: &GroupSettings) {
        self.shares = u64::from(settings.load_weight()) << WEIGHT_SHIFT;
    }

    /// `calc_concur_shares()`: what of the group's weight falls to this CPU. The whole is the group's weight times its tasks or the CPUs, whichever are
    /// fewer; the part is that of the load here in all of it.
    fn shares_on(&self, cpu: CpuId) -> u64 {
        let rq = &self.rqs[cpu.index()];
        let tasks = (self.runnable / SCALE).max(1);
        let whole = tasks.min(self.cpus) * self.shares;
        let load = (rq.load >> WEIGHT_SHIFT).max(rq.averages.load);
        let all = (self.load + load).saturating_sub(rq.told.load);
        let part = if all == 0 { whole.saturating_mul(load) } else { portion(whole, load, all) };
        part.clamp(LEAST_WEIGHT, whole)
    }

    /// `update_tg_load_avg()`: at most once in 1 ms, and not for less than a 64th.
    fn tell(&mut self, cpu: CpuId, now: TimeNs) {
        let rq = &mut self.rqs[cpu.index()];
        if now.since(rq.told.at) < DurationNs::from_ms(1) {
            return;
        }
        let (load, runnable) = (rq.averages.load, rq.averages.runnable);
        if load.abs_diff(rq.told.load) > rq.told.load / 64
            || runnable.abs_diff(rq.told.runnable) > rq.told.runnable / 64
        {
            self.load = self.load + load - rq.told.load;
            self.runnable = self.runnable + runnable - rq.told.runnable;
            rq.told = Told { load, runnable, at: now };
        }
    }
}

/// The part of `weight` that an entity of weight `own` has in a queue of `all` (`__calc_prop_weight()`), all scaled.
fn share(weight: u64, own: u64, all: u64) -> u64 {
    portion(weight, own, all.max(1)).max(LEAST_WEIGHT)
}

/// Weights and counts, from a task up to the root.
impl Kernel {
    /// The group that a task's entity is queued in; none if that is the root.
    #[inline(always)]
    pub(crate) fn fair_group(&self, task: TaskId) -> Option<GroupIx> {
        if self.groups.is_flat() {
            return None;
        }
        let group = self.task(task).group;
        (!group.is_root()).then_some(group)
    }

    /// The group above; none if that is the root.
    pub(super) fn above(&self, group: GroupIx) -> Option<GroupIx> {
        self.groups.get(group).parent.filter(|parent| !parent.is_root())
    }

    /// The group and those above it, below the root.
    pub(crate) fn fair_levels(&self, group: Option<GroupIx>) -> Levels {
        Levels { next: group }
    }

    /// The queues of the group and of those above it are there.
    #[inline(always)]
    pub(crate) fn fair_groups_ready(&mut self, group: Option<GroupIx>) {
        if group.is_some() {
            self.make_queues(group);
        }
    }

    #[inline(never)]
    fn make_queues(&mut self, group: Option<GroupIx>) {
        let cpus = self.cpus.len();
        let mut levels = self.fair_levels(group);
        while let Some(group) = levels.up(self) {
            let part = self.fair_groups.get_mut(group);
            if !part.rqs.is_empty() {
                break;
            }
            part.rqs = vec![GroupRq::default(); cpus];
        }
    }

    /// The load (`cfs_rq->load`, scaled) of the queue of a group, or of the root.
    fn fair_load(&mut self, group: Option<GroupIx>, cpu: CpuId) -> &mut u64 {
        match group {
            Some(group) => &mut self.fair_groups.rq(group, cpu).load,
            None => &mut self.cpus[cpu.index()].fair.load,
        }
    }

    /// The averages of the queue of a group, or of the root.
    #[inline(always)]
    pub(crate) fn fair_averages(&mut self, group: Option<GroupIx>, cpu: CpuId) -> &mut Averages {
        match group {
            Some(group) => &mut self.fair_groups.rq(group, cpu).averages,
            None => &mut self.cpus[cpu.index()].fair.averages,
        }
    }

    /// `enqueue_hierarchy()`: a task of this weight (scaled) is queued in its group; its weight among all tasks of the CPU.
    #[inline(always)]
    pub(crate) fn fair_enter(&mut self, cpu: CpuId, task: TaskId, own: u64) -> u64 {
        match self.fair_group(task) {
            None => {
                self.cpus[cpu.index()].fair.load += own;
                own
            }
            group => self.enter_groups(cpu, (task, group), own),
        }
    }

    #[inline(never)]
    fn enter_groups(&mut self, cpu: CpuId, (task, group): (TaskId, Option<GroupIx>), own: u64) -> u64 {
        *self.fair_load(group, cpu) += own;
        let mut levels = self.fair_levels(group);
        while let Some(group) = levels.up(self) {
            let rq = self.fair_groups.rq(group, cpu);
            rq.queued += 1;
            rq.runnable += 1;
            self.fair_follow(cpu, group);
            let rq = self.fair_groups.rq(group, cpu);
            if !std::mem::replace(&mut rq.entity.queued, true) {
                let weight = rq.entity.weight;
                if !std::mem::replace(&mut rq.entity.listed, true) {
                    self.cpus[cpu.index()].fair.leaves.push(group);
                }
                *self.fair_load(self.above(group), cpu) += weight;
                if self.bandwidth_used() {
                    self.bandwidth_first(cpu, group);
                }
            }
        }
        self.fair_weight(cpu, task, own)
    }

    /// `dequeue_hierarchy()`: the same backwards.
    #[inline(always)]
    pub(crate) fn fair_exit(&mut self, cpu: CpuId, task: TaskId, own: u64) {
        match self.fair_group(task) {
            None => self.cpus[cpu.index()].fair.load -= own,
            group => self.exit_groups(cpu, group, own),
        }
    }

    #[inline(never)]
    fn exit_groups(&mut self, cpu: CpuId, group: Option<GroupIx>, own: u64) {
        *self.fair_load(group, cpu) -= own;
        let mut levels = self.fair_levels(group);
        while let Some(group) = levels.up(self) {
            let rq = self.fair_groups.rq(group, cpu);
            rq.queued -= 1;
            rq.runnable -= 1;
            if rq.load == 0 && std::mem::replace(&mut rq.entity.queued, false) {
                let weight = rq.entity.weight;
                *self.fair_load(self.above(group), cpu) -= weight;
                if self.bandwidth_used() {
                    self.bandwidth_last(cpu, group);
                }
            }
            self.fair_follow(cpu, group);
        }
    }

    /// A task that stays queued falls asleep, or wakes up (`set_delayed()`, `clear_delayed()`).
    #[inline(always)]
    pub(crate) fn fair_count_awake(&mut self, cpu: CpuId, task: TaskId, awake: bool) {
        self.in_groups(cpu, task, |rq| if awake { rq.runnable += 1 } else { rq.runnable -= 1 });
    }

    /// The task begins or stops to run: its groups do.
    #[inline(always)]
    pub(crate) fn fair_mark_running(&mut self, cpu: CpuId, task: TaskId, running: bool) {
        self.in_groups(cpu, task, |rq| rq.running = running);
    }

    /// Does something to the queues of a task's groups on a CPU, from its own up.
    #[inline(always)]
    fn in_groups(&mut self, cpu: CpuId, task: TaskId, body: impl Fn(&mut GroupRq)) {
        let group = self.fair_group(task);
        if group.is_some() {
            self.in_levels(cpu, group, body);
        }
    }

    #[inline(never)]
    fn in_levels(&mut self, cpu: CpuId, group: Option<GroupIx>, body: impl Fn(&mut GroupRq)) {
        let mut levels = self.fair_levels(group);
        while let Some(group) = levels.up(self) {
            body(self.fair_groups.rq(group, cpu));
        }
    }

    /// The weight of a task of weight `own` (scaled) among all tasks of its CPU.
    pub(crate) fn fair_weight(&self, cpu: CpuId, task: TaskId, own: u64) -> u64 {
        let Some(group) = self.fair_group(task) else { return own };
        let mut weight = share(NICE_0_LOAD, own, self.fair_groups.get(group).rqs[cpu.index()].load);
        let mut levels = self.fair_levels(Some(group));
        while let Some(group) = levels.up(self) {
            let own = self.fair_groups.get(group).rqs[cpu.index()].entity.weight;
            let all = self
                .above(group)
                .map_or(NICE_0_LOAD, |above| self.fair_groups.get(above).rqs[cpu.index()].load);
            weight = share(weight, own, all);
        }
        weight
    }

    /// Brings the averages of a group's entity, and of the queue above, up to date, and then its weight (`update_load_avg()`,
    /// `update_cfs_group()`).
    pub(crate) fn fair_follow(&mut self, cpu: CpuId, group: GroupIx) {
        self.track_group(cpu, group);
        let part = self.fair_groups.get_mut(group);
        let rq = &mut part.rqs[cpu.index()];
        rq.entity.runnable = rq.runnable;
        // An empty group keeps its weight.
        if rq.load > 0 {
            let weight = part.shares_on(cpu);
            self.reweigh_group(cpu, group, weight);
        }
    }

    /// `reweight_entity()` of a group's entity.
    fn reweigh_group(&mut self, cpu: CpuId, group: GroupIx, weight: u64) {
        let above = self.above(group);
        let mut entity = self.fair_groups.rq(group, cpu).entity;
        let old = entity.weight;
        if old == weight {
            return;
        }
        if entity.queued {
            let load = self.fair_load(above, cpu);
            *load = *load + weight - old;
        }
        entity.weight = weight;
        entity
            .averages
            .reweigh_within(self.fair_averages(above, cpu), (old >> WEIGHT_SHIFT, weight >> WEIGHT_SHIFT));
        self.fair_groups.rq(group, cpu).entity = entity;
    }
}

/// A walk upward from a group to the root, which is not in it.
pub(crate) struct Levels {
    next: Option<GroupIx>,
}

impl Levels {
    #[inline(always)]
    pub(crate) fn up(&mut self, k: &Kernel) -> Option<GroupIx> {
        let group = self.next?;
        self.next = k.above(group);
        Some(group)
    }
}

/// Averages of load.
impl Kernel {
    /// The averages of the queue that the task's entity is in, and of all that is above it.
    #[inline(always)]
    pub(crate) fn track_queues(&mut self, cpu: CpuId, group: Option<GroupIx>) {
        if group.is_some() {
            self.track_levels(cpu, group);
        }
        self.track_queue(cpu);
    }

    #[inline(never)]
    fn track_levels(&mut self, cpu: CpuId, group: Option<GroupIx>) {
        let mut levels = self.fair_levels(group);
        while let Some(group) = levels.up(self) {
            self.track_group(cpu, group);
        }
    }

    /// The averages of a group's queue, of its entity, and what has to follow above.
    fn track_group(&mut self, cpu: CpuId, group: GroupIx) {
        let (now, above) = (self.ctx.now, self.above(group));
        self.track_rq(cpu, Some(group));
        let rq = self.fair_groups.rq(group, cpu);
        let entity = &mut rq.entity;
        let weight = entity.weight >> WEIGHT_SHIFT;
        let since = Since {
            load: u64::from(entity.queued),
            runnable: u64::from(entity.runnable),
            running: rq.running,
        };
        entity.averages.update(now.0, since, weight);
        let (mut entity, queue, load) = (rq.entity, rq.averages, rq.load >> WEIGHT_SHIFT);
        let moved = rq.moved.take();
        self.track_rq(cpu, above);
        let averages = self.fair_averages(above, cpu);
        if !std::mem::replace(&mut entity.attached, true) {
            entity.averages.align(averages);
        }
        if let Some(moved) = moved {
            entity.averages.follow(averages, &queue, (weight, load, moved));
            if let Some(above) = above {
                *self.fair_groups.rq(above, cpu).moved.get_or_insert(0) += moved;
            }
        }
        self.fair_groups.rq(group, cpu).entity = entity;
    }

    /// The averages of the queue of a group, or of the root, itself.
    fn track_rq(&mut self, cpu: CpuId, group: Option<GroupIx>) {
        let now = self.ctx.now;
        let Some(group) = group else { return self.track_queue(cpu) };
        let part = self.fair_groups.get_mut(group);
        let rq = &mut part.rqs[cpu.index()];
        let since =
            Since { load: rq.load >> WEIGHT_SHIFT, runnable: u64::from(rq.runnable), running: rq.running };
        rq.averages.update(now.0, since, 1);
        part.tell(cpu, now);
    }

    /// Averages of an entity with this sum of load came to the queue of a group, or left it (`add_tg_cfs_propagate()`).
    #[inline(always)]
    pub(crate) fn track_moved(&mut self, cpu: CpuId, group: Option<GroupIx>, load_sum: i64) {
        if let Some(group) = group {
            self.move_averages(cpu, group, load_sum);
        }
    }

    #[inline(never)]
    fn move_averages(&mut self, cpu: CpuId, group: GroupIx, load_sum: i64) {
        *self.fair_groups.rq(group, cpu).moved.get_or_insert(0) += load_sum;
        self.fair_groups.get_mut(group).tell(cpu, self.ctx.now);
        self.track_queues(cpu, Some(group));
    }

    /// The averages of all groups on a CPU, also of those whose tasks are gone from it (`sched_balance_update_blocked_averages()`).
    #[inline(always)]
    pub(crate) fn track_groups(&mut self, cpu: CpuId) {
        if !self.cpus[cpu.index()].fair.leaves.is_empty() {
            self.track_leaves(cpu);
        }
    }

    #[inline(never)]
    fn track_leaves(&mut self, cpu: CpuId) {
        let mut leaves = std::mem::take(&mut self.cpus[cpu.index()].fair.leaves);
        // Groups come after those that they are in.
        leaves.sort_unstable_by(|one, other| other.cmp(one));
        leaves.retain(|&group| {
            self.track_group(cpu, group);
            let rq = self.fair_groups.rq(group, cpu);
            rq.entity.listed = !rq.is_decayed();
            rq.entity.listed
        });
        self.cpus[cpu.index()].fair.leaves.extend(leaves);
    }

    /// `task_h_load()`: the part of a CPU's load that a task is.
    #[inline(always)]
    pub(crate) fn fair_task_load(&self, task: TaskId) -> u64 {
        match self.fair_group(task) {
            None => self.task(task).fair.averages.load,
            Some(group) => self.load_in_group(task, group),
        }
    }

    #[inline(never)]
    fn load_in_group(&self, task: TaskId, group: GroupIx) -> u64 {
        let entry = self.task(task);
        let load = entry.fair.averages.load;
        let Some(cpu) = entry.fair.counts_on else { return load };
        let rq = &self.fair_groups.get(group).rqs[cpu.index()];
        load * self.fair_group_load(cpu, group) / (rq.averages.load + 1)
    }

    /// `cfs_rq->h_load`: the part of a CPU's load that a group is.
    fn fair_group_load(&self, cpu: CpuId, group: GroupIx) -> u64 {
        let entity = &self.fair_groups.get(group).rqs[cpu.index()].entity;
        let (whole, all) = match self.above(group) {
            None => {
                let load = self.cpus[cpu.index()].fair.averages.load;
                (load, load)
            }
            Some(above) => {
                let load = self.fair_groups.get(above).rqs[cpu.index()].averages.load;
                (self.fair_group_load(cpu, above), load)
            }
        };
        whole * entity.averages.load / (all + 1)
    }
}

impl GroupRq {
    fn is_decayed(&self) -> bool {
        self.load == 0 && self.averages.is_decayed() && self.told.load == 0 && self.told.runnable == 0
    }
}

/// Changes of groups.
impl Kernel {
    /// `sched_group_set_shares()`, `sched_group_set_idle()`: after the settings have changed.
    pub(crate) fn fair_group_changed(&mut self, group: GroupIx) {
        let settings = self.groups.get(group).settings;
        let part = self.fair_groups.get_mut(group);
        part.set_shares(&settings);
        for cpu in 0..part.rqs.len() as u32 {
            let mut levels = self.fair_levels(Some(group));
            while let Some(group) = levels.up(self) {
                self.fair_follow(CpuId(cpu), group);
            }
        }
    }

    /// The CPUs of these groups have become others.
    pub(crate) fn fair_cpus_changed(&mut self, groups: &[GroupIx]) {
        for &group in groups {
            self.fair_groups.get_mut(group).cpus = self.group_cpus(group).count() as u64;
        }
    }

    /// `task_change_group_fair()`: the task, which is off the queue, counts in the averages of another group.
    pub(crate) fn fair_change_group(&mut self, task: TaskId, to: GroupIx) {
        let Some(cpu) = self.task(task).fair.counts_on else {
            self.task_mut(task).group = to;
            return;
        };
        self.track_departure(task);
        self.task_mut(task).group = to;
        let group = self.fair_group(task);
        self.fair_groups_ready(group);
        self.track_rq(cpu, group);
        self.track_attach(cpu, task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_cgroups_are_weights_of_entities() {
        let shares_of = |weight| {
            let settings = GroupSettings { weight, ..GroupSettings::default() };
            u64::from(settings.load_weight()) << WEIGHT_SHIFT
        };
        assert_eq!(shares_of(100), NICE_0_LOAD);
        assert_eq!((shares_of(1) >> WEIGHT_SHIFT, shares_of(10_000) >> WEIGHT_SHIFT), (10, 102_400));
        assert_eq!(share(NICE_0_LOAD, NICE_0_LOAD, 4 * NICE_0_LOAD), NICE_0_LOAD / 4);
        assert_eq!(share(1, 1, NICE_0_LOAD), LEAST_WEIGHT);
    }
}
