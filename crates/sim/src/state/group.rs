//! Groups of tasks: the tree of cgroup v2 as the CPU controller sees it.

use crate::Kernel;
use crate::state::subs::SchedIx;
use schedlab_base::{CpuMask, DurationNs, TaskId, TimeNs};
use schedlab_workload::{DEFAULT_WEIGHT, GroupId, GroupSettings, GroupSpec, Quota};
use std::sync::Arc;

/// A group in the kernel's table: 0 is the root, [`GroupId`] `n` has `n + 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupIx(pub u32);

impl GroupIx {
    /// The root of the tree.
    pub const ROOT: GroupIx = GroupIx(0);

    /// The place in the table.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// True of the root.
    #[inline(always)]
    pub fn is_root(self) -> bool {
        self == GroupIx::ROOT
    }
}

impl From<Option<GroupId>> for GroupIx {
    /// The group of a scenario, whose root has no id.
    fn from(id: Option<GroupId>) -> GroupIx {
        id.map_or(GroupIx::ROOT, |id| GroupIx(id.0 + 1))
    }
}

/// Where a group is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupLife {
    /// Not made yet.
    Absent,
    /// Tasks can come into it.
    Online,
    /// No task can come into it any more; it is removed when the last one has ended or left.
    Emptying,
    /// Removed.
    Gone,
}

impl GroupLife {
    /// Its directory exists.
    pub fn exists(self) -> bool {
        matches!(self, GroupLife::Online | GroupLife::Emptying)
    }
}

/// What sched_ext knows of a group (`struct scx_task_group`): what its files said last, whether the fair class took it or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupKnobs {
    /// `cpu.weight`. A group that becomes idle keeps it here.
    pub weight: u32,
    /// The period of `cpu.max`.
    pub period_us: u64,
    /// Its quota; `u64::MAX` (`RUNTIME_INF`) without.
    pub quota_us: u64,
    /// `cpu.max.burst`.
    pub burst_us: u64,
    /// `cpu.idle`.
    pub idle: bool,
}

impl Default for GroupKnobs {
    /// Those of a new group (`scx_tg_init()`).
    fn default() -> GroupKnobs {
        GroupKnobs {
            weight: DEFAULT_WEIGHT,
            period_us: 100_000,
            quota_us: u64::MAX,
            burst_us: 0,
            idle: false,
        }
    }
}

impl GroupKnobs {
    /// Those of a group whose files say this.
    pub(crate) fn of(settings: &GroupSettings) -> GroupKnobs {
        let mut knobs = GroupKnobs { weight: settings.weight, idle: settings.idle, ..GroupKnobs::default() };
        knobs.set_bandwidth(settings.quota, settings.burst);
        knobs
    }

    /// `cpu.max` and `cpu.max.burst` say this. Without a quota the period stays.
    pub(crate) fn set_bandwidth(&mut self, quota: Option<Quota>, burst: DurationNs) {
        let us = |span: DurationNs| span.0 / 1_000;
        self.quota_us = quota.map_or(u64::MAX, |quota| us(quota.runtime));
        self.period_us = quota.map_or(self.period_us, |quota| us(quota.period));
        self.burst_us = us(burst);
    }
}

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The group that it is in; the root has none.
    pub parent: Option<GroupIx>,
    /// Groups above it: 0 for the root.
    pub level: u32,
    /// Names from the root down; the root's is empty.
    pub path: String,
    /// What its files say.
    pub settings: GroupSettings,
    /// `cpuset.cpus`; those of its parent without.
    pub cpus: Option<CpuMask>,
    /// Where it is in its life.
    pub life: GroupLife,
    /// Living tasks that are in it itself.
    pub tasks: u32,
    /// Its number while it exists, as of its directory's inode: the root has 1, and each group that is made the next one. 0 before.
    pub id: u64,
    /// What sched_ext knows of it.
    pub knobs: GroupKnobs,
    /// `ops.cgroup_init()` has succeeded, or would have (`SCX_TG_INITED`).
    pub inited: bool,
    /// Groups below it that exist (`cgroup.nr_descendants`).
    pub nr_descendants: u32,
    /// The scheduler of its tasks.
    pub sched: SchedIx,
    /// Its place among the groups of its parent.
    place: u32,
    /// CPU time that tasks have used in it itself, ns, without what those that are in it have used in all.
    pub(crate) left: i64,
    /// The groups in it.
    children: Vec<GroupIx>,
}

impl Group {
    fn root() -> Group {
        Group {
            parent: None,
            level: 0,
            path: String::new(),
            settings: GroupSettings::default(),
            cpus: None,
            life: GroupLife::Online,
            tasks: 0,
            id: 1,
            knobs: GroupKnobs::default(),
            inited: false,
            nr_descendants: 0,
            sched: SchedIx::ROOT,
            place: 0,
            left: 0,
            children: Vec::new(),
        }
    }

    fn new(spec: &GroupSpec, level: u32) -> Group {
        Group {
            parent: Some(GroupIx::from(spec.parent)),
            level,
            path: spec.path.clone(),
            settings: spec.settings,
            cpus: spec.cpus,
            life: if spec.later { GroupLife::Absent } else { GroupLife::Online },
            tasks: 0,
            id: 0,
            knobs: GroupKnobs::of(&spec.settings),
            inited: false,
            nr_descendants: 0,
            sched: SchedIx::ROOT,
            place: 0,
            left: 0,
            children: Vec::new(),
        }
    }
}

/// All groups of a run, parents before their children.
#[derive(Clone, Debug)]
pub struct Groups {
    all: Vec<Group>,
    /// The number of the group that was made last.
    last_id: u64,
}

impl Groups {
    /// The root, and the groups of a scenario.
    pub(crate) fn new(specs: &[GroupSpec]) -> Groups {
        let mut all = Vec::with_capacity(specs.len() + 1);
        all.push(Group::root());
        for spec in specs {
            let own = GroupIx(all.len() as u32);
            let parent = &mut all[GroupIx::from(spec.parent).index()];
            let (place, level) = (parent.children.len() as u32, parent.level + 1);
            parent.children.push(own);
            all.push(Group { place, ..Group::new(spec, level) });
        }
        let mut last_id = 1;
        for group in all.iter_mut().skip(1).filter(|group| group.life.exists()) {
            last_id += 1;
            group.id = last_id;
        }
        let mut groups = Groups { all, last_id };
        let there: Vec<GroupIx> =
            groups.iter().skip(1).filter(|(_, group)| group.life.exists()).map(|(ix, _)| ix).collect();
        there.into_iter().for_each(|group| groups.count_below(group, 1));
        groups
    }

    /// All groups above `group` have one more or less below them.
    fn count_below(&mut self, group: GroupIx, change: i32) {
        let mut above = self.get(group).parent;
        while let Some(group) = above {
            let entry = self.get_mut(group);
            entry.nr_descendants =
                entry.nr_descendants.checked_add_signed(change).expect("each group is counted once");
            above = entry.parent;
        }
    }

    /// A group is gone, or was refused while it was made.
    pub(crate) fn vanish(&mut self, group: GroupIx, life: GroupLife) {
        debug_assert!(!life.exists() && self.get(group).life.exists(), "a group goes once");
        self.get_mut(group).life = life;
        self.count_below(group, -1);
    }

    /// A group appears: it has a number of its own, and comes after all others of its parent.
    pub(crate) fn appear(&mut self, group: GroupIx) {
        self.last_id += 1;
        let entry = &mut self.all[group.index()];
        debug_assert!(!entry.life.exists(), "a group that exists is not made");
        (entry.life, entry.id, entry.knobs) = (GroupLife::Online, self.last_id, GroupKnobs::default());
        let place = entry.place as usize;
        self.count_below(group, 1);
        let Some(parent) = self.get(group).parent else { return };
        self.all[group.index()].sched = self.all[parent.index()].sched;
        let siblings = &mut self.all[parent.index()].children;
        siblings[place..].rotate_left(1);
        let moved = siblings[place..].to_vec();
        for (place, sibling) in (place as u32..).zip(moved) {
            self.all[sibling.index()].place = place;
        }
    }

    /// The next group of `parent` that exists, after one of them or the first (`css_next_child()`).
    pub fn next_child(&self, after: Option<GroupIx>, parent: GroupIx) -> Option<GroupIx> {
        let from = after.map_or(0, |after| self.get(after).place as usize + 1);
        let children = self.get(parent).children.get(from..)?;
        children.iter().copied().find(|&child| self.get(child).life.exists())
    }

    /// The group after `at` in a walk over `start` and all below it, each before those in it (`css_next_descendant_pre()`).
    pub fn next_before(&self, at: Option<GroupIx>, start: GroupIx) -> Option<GroupIx> {
        let Some(mut at) = at else { return Some(start) };
        if let Some(child) = self.next_child(None, at) {
            return Some(child);
        }
        while at != start {
            let parent = self.get(at).parent?;
            if let Some(sibling) = self.next_child(Some(at), parent) {
                return Some(sibling);
            }
            at = parent;
        }
        None
    }

    /// The group after `at` in a walk over `start` and all below it, each after those in it (`css_next_descendant_post()`).
    pub fn next_after(&self, at: Option<GroupIx>, start: GroupIx) -> Option<GroupIx> {
        let leftmost =
            |from: GroupIx| std::iter::successors(Some(from), |&group| self.next_child(None, group)).last();
        match at {
            None => leftmost(start),
            Some(at) if at == start => None,
            Some(at) => {
                let parent = self.get(at).parent?;
                self.next_child(Some(at), parent).map_or(Some(parent), leftmost)
            }
        }
    }

    /// The groups that exist, each before those in it.
    pub(crate) fn existing_before(&self) -> Vec<GroupIx> {
        std::iter::successors(Some(GroupIx::ROOT), |&at| self.next_before(Some(at), GroupIx::ROOT)).collect()
    }

    /// The groups that exist, each after those in it.
    pub(crate) fn existing_after(&self) -> Vec<GroupIx> {
        let first = self.next_after(None, GroupIx::ROOT);
        std::iter::successors(first, |&at| self.next_after(Some(at), GroupIx::ROOT)).collect()
    }

    /// True where the root is the only one.
    #[inline(always)]
    pub fn is_flat(&self) -> bool {
        self.all.len() == 1
    }

    /// A group.
    #[inline(always)]
    pub fn get(&self, group: GroupIx) -> &Group {
        &self.all[group.index()]
    }

    pub(crate) fn get_mut(&mut self, group: GroupIx) -> &mut Group {
        &mut self.all[group.index()]
    }

    /// All of them, parents first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (GroupIx, &Group)> {
        self.all.iter().enumerate().map(|(number, group)| (GroupIx(number as u32), group))
    }

    /// The group and those above it, up to the root.
    pub fn upward(&self, group: GroupIx) -> impl Iterator<Item = GroupIx> {
        std::iter::successors(Some(group), |&group| self.get(group).parent)
    }

    /// The group and all below it, each before its children.
    pub fn with_all_below(&self, group: GroupIx) -> Vec<GroupIx> {
        let mut found = vec![group];
        let mut next = 0;
        while let Some(&group) = found.get(next) {
            found.extend(&self.get(group).children);
            next += 1;
        }
        found
    }

    /// The group, or one above it, has a quota.
    pub(crate) fn has_quota(&self, group: GroupIx) -> bool {
        self.upward(group).any(|group| self.get(group).settings.quota.is_some())
    }

    /// The group above `group` at this level, or the group itself; none below it.
    pub fn ancestor(&self, group: GroupIx, level: u32) -> Option<GroupIx> {
        self.upward(group).find(|&above| self.get(above).level == level)
    }

    /// True if `group` is `above` or below it.
    pub fn is_below(&self, group: GroupIx, above: GroupIx) -> bool {
        self.ancestor(group, self.get(above).level) == Some(above)
    }
}

impl Kernel {
    /// The groups of the run.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The scheduler learns of groups, and knows all that are there (`scx_cgroup_enabled`).
    pub fn tells_groups(&self) -> bool {
        self.scx.groups
    }

    /// The group that a task is in.
    #[inline(always)]
    pub fn task_group(&self, task: TaskId) -> GroupIx {
        self.task(task).group
    }

    /// The CPUs that a group's tasks may use: those of its own set and of all sets above it. Where none are left they are those
    /// of the group above, as `cpuset.cpus.effective` has it.
    /// CPU time used by `now` in each group itself, by the tasks that were in it at the time; the kernel's own apart.
    pub(crate) fn group_cpu_times(&self, now: TimeNs) -> Vec<DurationNs> {
        let mut sums: Vec<i64> = self.groups.iter().map(|(_, group)| group.left).collect();
        for task in self.own_tasks() {
            let used = if task.on_cpu { task.cpu_time(now) } else { task.sum_exec_runtime };
            sums[task.group.index()] += used.0 as i64;
        }
        sums.into_iter().map(|sum| DurationNs(sum.max(0) as u64)).collect()
    }

    /// The CPUs that a group's tasks may use: those of its own set and of all sets above it. Where none are left they are those
    /// of the group above, as `cpuset.cpus.effective` has it.
    pub fn group_cpus(&self, group: GroupIx) -> CpuMask {
        let entry = self.groups.get(group);
        let Some(parent) = entry.parent else { return self.machine.all_cpus() };
        let above = self.group_cpus(parent);
        let own = entry.cpus.map_or(above, |cpus| cpus.and(&above));
        if own.is_empty() { above } else { own }
    }

    /// The CPUs of a task of this group that has asked for `asked`: of its group's, those, or all where they are none of them. The
    /// root's are those of the machine.
    pub(crate) fn cpus_for(&self, group: GroupIx, asked: Option<&CpuMask>) -> Arc<CpuMask> {
        let all = &self.topology.machine;
        if self.groups.is_flat() {
            return asked.map_or_else(|| all.clone(), |asked| Arc::new(asked.and(all)));
        }
        let allowed = self.group_cpus(group);
        let both = asked.map(|asked| asked.and(&allowed)).filter(|both| !both.is_empty()).unwrap_or(allowed);
        if both == **all { all.clone() } else { Arc::new(both) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(path: &str, parent: Option<u32>) -> GroupSpec {
        GroupSpec {
            path: path.into(),
            parent: parent.map(GroupId),
            settings: GroupSettings::default(),
            cpus: None,
            later: false,
        }
    }

    #[test]
    fn ancestors_are_found_by_level() {
        let groups = Groups::new(&[spec("a", None), spec("a/b", Some(0)), spec("c", None)]);
        let (a, b, c) = (GroupIx(1), GroupIx(2), GroupIx(3));
        assert_eq!(groups.upward(b).collect::<Vec<_>>(), [b, a, GroupIx::ROOT]);
        assert_eq!(groups.with_all_below(GroupIx::ROOT), [GroupIx::ROOT, a, c, b]);
        let levels = [0, 1, 2, 3].map(|level| groups.ancestor(b, level));
        assert_eq!(levels, [Some(GroupIx::ROOT), Some(a), Some(b), None]);
        assert!(
            groups.is_below(b, a)
                && groups.is_below(b, b)
                && !groups.is_below(b, c)
                && !groups.is_below(a, b)
        );
        assert!(!groups.is_flat() && Groups::new(&[]).is_flat());
    }

    #[test]
    fn walks_follow_the_order_in_which_groups_were_made() {
        let mut groups =
            Groups::new(&[spec("a", None), spec("a/b", Some(0)), spec("a/b/c", Some(1)), spec("d", None)]);
        let [root, a, b, c, d] = [0, 1, 2, 3, 4].map(GroupIx);
        assert_eq!(groups.existing_before(), [root, a, b, c, d]);
        assert_eq!(groups.existing_after(), [c, b, a, d, root]);
        assert_eq!([a, b, c, d].map(|group| groups.get(group).id), [2, 3, 4, 5]);
        groups.get_mut(c).life = GroupLife::Gone;
        assert_eq!(groups.existing_after(), [b, a, d, root]);
        groups.get_mut(b).life = GroupLife::Gone;
        groups.get_mut(a).life = GroupLife::Gone;
        assert_eq!(groups.existing_before(), [root, d]);
        groups.appear(a);
        assert_eq!((groups.existing_before(), groups.get(a).id), (vec![root, d, a], 6));
        assert_eq!(groups.next_child(Some(d), root), Some(a));
        assert_eq!((groups.next_child(Some(a), root), groups.next_child(None, c)), (None, None));
    }
}
