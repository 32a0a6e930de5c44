//! Groups of tasks: the tree of cgroup v2 as the CPU controller sees it.

use crate::Kernel;
use crate::state::subs::SchedIx;
use schedlab_base::{CpuMask, DurationNs, TaskId, TimeNs};
use schedlab_workload::{DEFAULT_WEIGHT, GroupId, GroupSettings, GroupSpec, Quota};
use std::collections::BTreeMap;
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
    /// The CPUs that its tasks may use (`cpuset.cpus.effective`); those of the machine at the root.
    pub(crate) effective: Arc<CpuMask>,
    /// Groups below it that exist (`cgroup.nr_descendants`).
    pub nr_descendants: u32,
    /// The scheduler of its tasks.
    pub sched: SchedIx,
    /// CPU time that tasks have used in it itself, ns, without what those that are in it have used in all.
    pub(crate) left: i64,
    /// The groups in it that exist, by number: in the order in which they were made.
    children: BTreeMap<u64, GroupIx>,
}

impl Group {
    fn root(cpus: Arc<CpuMask>) -> Group {
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
            effective: cpus,
            nr_descendants: 0,
            sched: SchedIx::ROOT,
            left: 0,
            children: BTreeMap::new(),
        }
    }

    /// A group in `above`. Its number is still to come.
    fn new(spec: &GroupSpec, above: &Group) -> Group {
        Group {
            parent: Some(GroupIx::from(spec.parent)),
            level: above.level + 1,
            path: spec.path.clone(),
            settings: spec.settings,
            cpus: spec.cpus,
            life: if spec.later { GroupLife::Absent } else { GroupLife::Online },
            tasks: 0,
            id: 0,
            knobs: GroupKnobs::of(&spec.settings),
            inited: false,
            effective: within(spec.cpus.as_ref(), &above.effective),
            nr_descendants: 0,
            sched: SchedIx::ROOT,
            left: 0,
            children: BTreeMap::new(),
        }
    }
}

/// The CPUs of a group whose set is `own`, below one that has `above`: those of the group above where none are left.
fn within(own: Option<&CpuMask>, above: &Arc<CpuMask>) -> Arc<CpuMask> {
    let both = own.map(|own| own.and(above)).filter(|both| !both.is_empty() && *both != **above);
    both.map_or_else(|| above.clone(), Arc::new)
}

/// All groups of a run, parents before their children.
#[derive(Clone, Debug)]
pub struct Groups {
    all: Vec<Group>,
    /// The number of the group that was made last.
    last_id: u64,
}

impl Groups {
    /// The root, which has all `cpus`, and the groups of a scenario.
    pub(crate) fn new(specs: &[GroupSpec], cpus: Arc<CpuMask>) -> Groups {
        let mut all = Vec::with_capacity(specs.len() + 1);
        all.push(Group::root(cpus));
        let mut groups = Groups { all, last_id: 1 };
        for spec in specs {
            let own = GroupIx(groups.all.len() as u32);
            let group = Group::new(spec, groups.get(GroupIx::from(spec.parent)));
            let exists = group.life.exists();
            groups.all.push(group);
            if exists {
                groups.number(own);
            }
        }
        groups
    }

    /// Gives a group its number, with which it comes after all others of its parent.
    fn number(&mut self, group: GroupIx) {
        self.last_id += 1;
        let entry = &mut self.all[group.index()];
        entry.id = self.last_id;
        if let Some(parent) = entry.parent {
            self.all[parent.index()].children.insert(self.last_id, group);
        }
        self.count_below(group, 1);
    }

    /// A group appears: it has a number of its own, and comes after all others of its parent.
    pub(crate) fn appear(&mut self, group: GroupIx) {
        let entry = &mut self.all[group.index()];
        debug_assert!(!entry.life.exists(), "a group that exists is not made");
        (entry.life, entry.knobs) = (GroupLife::Online, GroupKnobs::default());
        let parent = entry.parent.unwrap_or(GroupIx::ROOT);
        self.all[group.index()].sched = self.get(parent).sched;
        self.number(group);
        self.settle_cpus(group);
    }

    /// A group is no longer there; `life` says whether it will ever have been. Walks come to it until [`Groups::unlink`].
    pub(crate) fn vanish(&mut self, group: GroupIx, life: GroupLife) {
        let entry = &mut self.all[group.index()];
        debug_assert!(entry.life.exists() && !life.exists(), "a group that exists goes");
        entry.life = life;
        self.count_below(group, -1);
    }

    /// Walks do not come to a group that is gone any more (`css_release_work_fn()`).
    pub(crate) fn unlink(&mut self, group: GroupIx) {
        let entry = self.get(group);
        debug_assert!(!entry.life.exists(), "a group that exists is found");
        let id = entry.id;
        if let Some(parent) = entry.parent {
            self.all[parent.index()].children.remove(&id);
        }
    }

    /// All groups above `group` have one more or less below them.
    fn count_below(&mut self, group: GroupIx, change: i32) {
        let mut above = self.get(group).parent;
        while let Some(group) = above {
            let entry = self.get_mut(group);
            let count = entry.nr_descendants.checked_add_signed(change);
            entry.nr_descendants = count.expect("each group is counted once");
            above = entry.parent;
        }
    }

    /// The group's own set, or the CPUs of the group above, have become others; true if its tasks may use other CPUs by that.
    fn settle_cpus(&mut self, group: GroupIx) -> bool {
        let entry = self.get(group);
        let Some(parent) = entry.parent else { return false };
        let cpus = within(entry.cpus.as_ref(), &self.get(parent).effective);
        let changed = cpus != entry.effective;
        self.get_mut(group).effective = cpus;
        changed
    }

    /// The set of a group has become another one; the groups whose tasks may use other CPUs by that, parents first. Below a
    /// group that keeps its CPUs nothing changes.
    pub(crate) fn settle_cpus_below(&mut self, group: GroupIx) -> Vec<GroupIx> {
        let mut changed: Vec<GroupIx> = self.settle_cpus(group).then_some(group).into_iter().collect();
        let mut next = 0;
        while let Some(&above) = changed.get(next) {
            let children: Vec<GroupIx> = self.children(above).collect();
            changed.extend(children.into_iter().filter(|&child| self.settle_cpus(child)));
            next += 1;
        }
        changed
    }

    /// The groups of `parent` that exist, in the order in which they were made.
    pub(crate) fn children(&self, parent: GroupIx) -> impl Iterator<Item = GroupIx> {
        self.get(parent).children.values().copied()
    }

    /// The next group of `parent` that exists, after one of them or the first (`css_next_child()`).
    pub fn next_child(&self, after: Option<GroupIx>, parent: GroupIx) -> Option<GroupIx> {
        let from = after.map_or(0, |after| self.get(after).id + 1);
        self.get(parent).children.range(from..).next().map(|(_, &child)| child)
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
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (GroupIx, &Group)> + DoubleEndedIterator {
        self.all.iter().enumerate().map(|(number, group)| (GroupIx(number as u32), group))
    }

    /// The group and those above it, up to the root.
    pub fn upward(&self, group: GroupIx) -> impl Iterator<Item = GroupIx> {
        std::iter::successors(Some(group), |&group| self.get(group).parent)
    }

    /// The group and those below it for which this holds, each before its children. Nothing is looked for below one for which
    /// it does not hold.
    pub(crate) fn below_where(&self, group: GroupIx, holds: impl Fn(GroupIx) -> bool) -> Vec<GroupIx> {
        let mut found: Vec<GroupIx> = holds(group).then_some(group).into_iter().collect();
        let mut next = 0;
        while let Some(&group) = found.get(next) {
            found.extend(self.children(group).filter(|&child| holds(child)));
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

    /// CPU time used by `now` in each group itself, by the tasks that were in it at the time; the kernel's own apart.
    pub fn group_cpu_times(&self, now: TimeNs) -> Vec<DurationNs> {
        let mut sums: Vec<i64> = self.groups.iter().map(|(_, group)| group.left).collect();
        for task in self.own_tasks() {
            let used = if task.on_cpu { task.cpu_time(now) } else { task.sum_exec_runtime };
            sums[task.group.index()] += used.0 as i64;
        }
        sums.into_iter().map(|sum| DurationNs(sum.max(0) as u64)).collect()
    }

    /// The CPUs that a group's tasks may use: those of its own set and of all sets above it. Where none are left they are those
    /// of the group above, as `cpuset.cpus.effective` has it.
    pub fn group_cpus(&self, group: GroupIx) -> &Arc<CpuMask> {
        &self.groups.get(group).effective
    }

    /// The CPUs of a task of this group that has asked for `asked`: of its group's, those, or all where they are none of them. The
    /// root's are those of the machine.
    pub(crate) fn cpus_for(&self, group: GroupIx, asked: Option<&CpuMask>) -> Arc<CpuMask> {
        let all = &self.topology.machine;
        if self.groups.is_flat() {
            return asked.map_or_else(|| all.clone(), |asked| Arc::new(asked.and(all)));
        }
        within(asked, self.group_cpus(group))
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

    fn cpus(count: usize) -> Arc<CpuMask> {
        Arc::new(CpuMask::first(count))
    }

    #[test]
    fn ancestors_are_found_by_level() {
        let groups = Groups::new(&[spec("a", None), spec("a/b", Some(0)), spec("c", None)], cpus(4));
        let (a, b, c) = (GroupIx(1), GroupIx(2), GroupIx(3));
        assert_eq!(groups.upward(b).collect::<Vec<_>>(), [b, a, GroupIx::ROOT]);
        assert_eq!(groups.below_where(GroupIx::ROOT, |_| true), [GroupIx::ROOT, a, c, b]);
        assert_eq!(groups.below_where(GroupIx::ROOT, |group| group != a), [GroupIx::ROOT, c]);
        let levels = [0, 1, 2, 3].map(|level| groups.ancestor(b, level));
        assert_eq!(levels, [Some(GroupIx::ROOT), Some(a), Some(b), None]);
        assert!(
            groups.is_below(b, a)
                && groups.is_below(b, b)
                && !groups.is_below(b, c)
                && !groups.is_below(a, b)
        );
        assert!(!groups.is_flat() && Groups::new(&[], cpus(4)).is_flat());
    }

    #[test]
    fn walks_follow_the_order_in_which_groups_were_made() {
        let mut groups = Groups::new(
            &[spec("a", None), spec("a/b", Some(0)), spec("a/b/c", Some(1)), spec("d", None)],
            cpus(4),
        );
        let [root, a, b, c, d] = [0, 1, 2, 3, 4].map(GroupIx);
        assert_eq!(groups.existing_before(), [root, a, b, c, d]);
        assert_eq!(groups.existing_after(), [c, b, a, d, root]);
        assert_eq!([a, b, c, d].map(|group| groups.get(group).id), [2, 3, 4, 5]);
        groups.vanish(c, GroupLife::Gone);
        assert_eq!(groups.existing_after(), [c, b, a, d, root]);
        groups.unlink(c);
        assert_eq!(groups.existing_after(), [b, a, d, root]);
        for group in [b, a] {
            groups.vanish(group, GroupLife::Gone);
            groups.unlink(group);
        }
        assert_eq!(groups.existing_before(), [root, d]);
        groups.appear(a);
        assert_eq!((groups.existing_before(), groups.get(a).id), (vec![root, d, a], 6));
        assert_eq!(groups.next_child(Some(d), root), Some(a));
        assert_eq!((groups.next_child(Some(a), root), groups.next_child(None, c)), (None, None));
    }

    #[test]
    fn a_set_holds_for_those_below_that_it_changes() {
        let mut groups = Groups::new(
            &[spec("a", None), spec("a/b", Some(0)), spec("a/b/c", Some(1)), spec("a/d", Some(0))],
            cpus(4),
        );
        let [root, a, b, c, d] = [0, 1, 2, 3, 4].map(GroupIx);
        let set = |groups: &mut Groups, group: GroupIx, list: &[u32]| {
            let mut cpus = CpuMask::EMPTY;
            list.iter().for_each(|&cpu| cpus.set(schedlab_base::CpuId(cpu)));
            groups.get_mut(group).cpus = Some(cpus);
            groups.settle_cpus_below(group)
        };
        assert_eq!(set(&mut groups, b, &[1]), [b, c]);
        assert_eq!(set(&mut groups, a, &[0, 1]), [a, d]);
        // None of its CPUs is left: it has those of the group above.
        assert_eq!(set(&mut groups, a, &[2, 3]), [a, b, d, c]);
        let counts = [root, a, b, c, d].map(|group| groups.get(group).effective.count());
        assert_eq!(counts, [4, 2, 2, 2, 2]);
    }
}
