//! Groups of tasks: the tree of cgroup v2 as the CPU controller sees it.

use crate::Kernel;
use schedlab_base::{CpuMask, DurationNs, TaskId, TimeNs};
use schedlab_workload::{GroupId, GroupSettings, GroupSpec};

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
            left: 0,
            children: Vec::new(),
        }
    }
}

/// All groups of a run, parents before their children.
#[derive(Clone, Debug)]
pub struct Groups {
    all: Vec<Group>,
}

impl Groups {
    /// The root, and the groups of a scenario.
    pub(crate) fn new(specs: &[GroupSpec]) -> Groups {
        let mut all = Vec::with_capacity(specs.len() + 1);
        all.push(Group::root());
        for spec in specs {
            let own = GroupIx(all.len() as u32);
            let parent = &mut all[GroupIx::from(spec.parent).index()];
            parent.children.push(own);
            let level = parent.level + 1;
            all.push(Group::new(spec, level));
        }
        Groups { all }
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
    pub fn iter(&self) -> impl Iterator<Item = (GroupIx, &Group)> {
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

    /// The group that a task is in.
    #[inline(always)]
    pub fn task_group(&self, task: TaskId) -> GroupIx {
        self.task(task).group
    }

    /// CPU time used by `now` in each group itself, by the tasks that were in it at the time.
    pub(crate) fn group_cpu_times(&self, now: TimeNs) -> Vec<DurationNs> {
        let mut sums: Vec<i64> = self.groups.iter().map(|(_, group)| group.left).collect();
        for task in self.live_tasks() {
            let used = if task.on_cpu { task.cpu_time(now) } else { task.sum_exec_runtime };
            sums[task.group.index()] += used.0 as i64;
        }
        sums.into_iter().map(|sum| DurationNs(sum.max(0) as u64)).collect()
    }

    /// The CPUs that a group's tasks may use: those of its own set and of all sets above it that are online; its parent's where
    /// none are left, as `cpuset.cpus.effective` has it.
    pub fn group_cpus(&self, group: GroupIx) -> CpuMask {
        let entry = self.groups.get(group);
        let Some(parent) = entry.parent else { return self.machine.all_cpus() };
        let above = self.group_cpus(parent);
        let own = entry.cpus.map_or(above, |cpus| cpus.and(&above));
        if own.is_empty() { above } else { own }
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
}
