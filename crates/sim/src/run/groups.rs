//! The groups that a run begins with, and what they got.

use crate::Kernel;
use crate::class::fair::group::{FairGroups, GroupRq};
use crate::run::{Config, SimError};
use crate::state::group::{GroupIx, Groups};
use crate::state::ops::{OpKind, SchedExt};
use crate::state::pressure::Pressure;
use crate::state::sim::Sim;
use schedlab_base::DurationNs;
use schedlab_trace::{
    GroupRecord, GroupsOfRun, Homes, Summary, TaskOfGroup, Warning, complete_groups, unheard_groups,
};
use schedlab_workload::Scenario;

/// Most queues of groups, one for each group and CPU. Chosen: with all of them in use they take 2 GiB of the host's memory.
const MOST_GROUP_QUEUES: usize = 1 << 22;
const _: () = assert!(size_of::<GroupRq>() * MOST_GROUP_QUEUES <= 2 << 30, "what they take");

/// Every group has a queue on every CPU once a task has been in it.
pub(super) fn check_queues(config: &Config, scenario: &Scenario) -> Result<(), SimError> {
    let (groups, cpus) = (scenario.groups.len(), config.machine.cpu_count());
    if groups * cpus <= MOST_GROUP_QUEUES {
        return Ok(());
    }
    Err(SimError::Refused(format!(
        "{}: {groups} groups on {cpus} CPUs: at most {MOST_GROUP_QUEUES} in all, one for each group and CPU; take fewer groups, or at most {} CPUs",
        scenario.name,
        MOST_GROUP_QUEUES / groups
    )))
}

/// The groups that a scenario begins with.
pub(super) fn make(k: &mut Kernel, scenario: &Scenario) {
    k.groups = Groups::new(&scenario.groups, k.topology.machine.clone());
    k.fair_groups = FairGroups::new(&k.groups, |below| k.prng.below(below));
    k.pressure = Pressure::new(k.groups.iter().len(), k.machine.tick_period());
    let all: Vec<GroupIx> = k.groups.iter().map(|(group, _)| group).collect();
    k.fair_cpus_changed(&all);
}

impl<S: SchedExt> Sim<S> {
    /// The groups of the scenario, in its order.
    #[inline(never)]
    pub(super) fn group_records(&self, summary: &Summary, elapsed: DurationNs) -> Vec<GroupRecord> {
        let groups = self.k.groups();
        if groups.is_flat() {
            return Vec::new();
        }
        let scenario = &self.exec.scenario;
        let mut times = self.k.group_cpu_times(self.k.ctx.now);
        // Parents come before their children.
        for number in (1..times.len()).rev() {
            let own = times[number];
            if let Some(parent) = groups.get(GroupIx(number as u32)).parent {
                times[parent.index()] += own;
            }
        }
        let below = groups.iter().zip(&times).skip(1);
        let mut records: Vec<GroupRecord> =
            below.map(|((group, _), cpu_time)| self.group_record(group, *cpu_time)).collect();
        let number = |group: GroupIx| group.index().checked_sub(1);
        let parents: Vec<Option<usize>> =
            groups.iter().skip(1).map(|(_, group)| group.parent.and_then(number)).collect();
        let tasks = scenario.tasks.iter().zip(summary.tasks()).map(|(spec, task)| TaskOfGroup {
            group: spec.group.map(|group| group.index()),
            run_delay: task.run_delay,
        });
        let tasks: Vec<TaskOfGroup> = tasks.collect();
        let loads: Vec<u32> = groups.iter().skip(1).map(|(_, group)| group.settings.load_weight()).collect();
        let (parents, loads, tasks) = (&parents[..], &loads[..], &tasks[..]);
        let (total, changes) = (times[0], scenario.changes_groups());
        complete_groups(&mut records, &GroupsOfRun { elapsed, parents, loads, tasks, total, changes });
        records
    }

    /// The groups that the tasks of the start begin in.
    pub(super) fn homes(&self) -> Homes<'_> {
        let scenario = &self.exec.scenario;
        if scenario.groups.is_empty() {
            return Homes::default();
        }
        let index = |group: Option<schedlab_workload::GroupId>| group.map(|group| group.index());
        Homes {
            tasks: scenario.tasks.iter().map(|task| index(task.group)).collect(),
            groups: scenario.groups.iter().map(|group| (group.path.as_str(), index(group.parent))).collect(),
        }
    }

    /// The warning that groups say what the scheduler does not learn.
    #[inline(never)]
    pub(super) fn unheard_groups(&self) -> Option<Warning> {
        if self.k.groups().is_flat() {
            return None;
        }
        let present = self.ops.as_ref()?.info().present;
        unheard_groups(&self.exec.scenario.group_files(), |known| match known.file {
            "cpu.weight" => present.has(OpKind::CgroupSetWeight),
            "cpu.max" => present.has(OpKind::CgroupSetBandwidth),
            "cpu.idle" => present.has(OpKind::CgroupSetIdle),
            other => unreachable!("schedulers learn nothing of {other}"),
        })
    }

    fn group_record(&self, group: GroupIx, cpu_time: DurationNs) -> GroupRecord {
        let entry = self.k.groups().get(group);
        let bandwidth = self.k.group_bandwidth(group).unwrap_or_default();
        GroupRecord {
            name: entry.path.clone(),
            weight: entry.settings.weight,
            idle: entry.settings.idle,
            quota: entry.settings.quota.map(|quota| (quota.runtime, quota.period)),
            burst: entry.settings.burst,
            cpu_time,
            periods: bandwidth.periods,
            throttled: bandwidth.throttled,
            throttled_time: bandwidth.throttled_time,
            bursts: bandwidth.bursts,
            burst_time: bandwidth.burst_time,
            pressure: self.k.group_pressure(group, self.k.ctx.now),
            ..GroupRecord::default()
        }
    }
}
