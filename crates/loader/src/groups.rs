//! Groups of tasks below `/sys/fs/cgroup`, as cgroup v2 shows them: their directories, and what is in their files.
//!
//! Nothing of them can be written: a loader that tries is refused, by the path's name. As in a real run, groups appear after the
//! scheduler is attached. All are domains, whose threads are listed as well.

use crate::watches::Changed;
use crate::world::{Node, list};
use schedlab_base::{CpuMask, Nice};
use schedlab_scx::UserGroup;
use std::collections::BTreeMap;

/// Where they are.
pub(crate) const ROOT: &str = "/sys/fs/cgroup";

/// Files of every group, and those that the root does not have.
const COMMON: [&str; 7] = [
    "cgroup.controllers",
    "cgroup.procs",
    "cgroup.subtree_control",
    "cgroup.threads",
    "cgroup.stat",
    "cpu.stat",
    "cpuset.cpus.effective",
];
const BELOW: [&str; 8] = [
    "cgroup.type",
    "cgroup.events",
    "cpu.weight",
    "cpu.weight.nice",
    "cpu.max",
    "cpu.max.burst",
    "cpu.idle",
    "cpuset.cpus",
];

/// The groups of a run by path, as they are at an instant.
#[derive(Clone, Debug)]
pub(crate) struct GroupFiles {
    groups: BTreeMap<String, UserGroup>,
}

impl GroupFiles {
    /// The root alone.
    pub(crate) fn new(cpus: CpuMask) -> GroupFiles {
        GroupFiles { groups: BTreeMap::from([(String::new(), UserGroup::root(cpus))]) }
    }

    /// These are all: which folders of groups have appeared or gone since the last time. One that was made again has done both.
    pub(crate) fn set(&mut self, groups: Vec<UserGroup>) -> Vec<Changed> {
        if groups.is_empty() {
            return Vec::new();
        }
        let new = groups.into_iter().map(|group| (group.path.clone(), group)).collect();
        let old = std::mem::replace(&mut self.groups, new);
        let lacks = |others: &BTreeMap<String, UserGroup>, group: &UserGroup| {
            others.get(&group.path).is_none_or(|other| other.id != group.id)
        };
        let change =
            |group: &UserGroup, appeared| Changed { path: format!("{ROOT}/{}", group.path), appeared };
        // Children are removed before their parent.
        let gone = old.values().rev().filter(|group| lacks(&self.groups, group));
        let appeared = self.groups.values().filter(|group| lacks(&old, group));
        gone.map(|group| change(group, false)).chain(appeared.map(|group| change(group, true))).collect()
    }

    /// What is at a path below the root of the groups; nothing if none of them has it.
    pub(crate) fn find(&self, path: &str) -> Option<Node> {
        let rest = below_root(path)?;
        if let Some(group) = self.groups.get(rest) {
            return Some(Node::Folder(self.names(group)));
        }
        let (folder, file) = rest.rsplit_once('/').unwrap_or(("", rest));
        let group = self.groups.get(folder)?;
        let known = COMMON.contains(&file) || !group.path.is_empty() && BELOW.contains(&file);
        known.then(|| Node::File(self.content(group, file).into_bytes()))
    }

    /// The number of a group's directory, which programs know as the group's.
    pub(crate) fn id(&self, path: &str) -> Option<u64> {
        self.groups.get(below_root(path)?).map(|group| group.id)
    }

    fn names(&self, group: &UserGroup) -> Vec<(String, bool)> {
        let own = if group.path.is_empty() { &[][..] } else { &BELOW[..] };
        let files = COMMON.iter().chain(own).map(|name| (name.to_string(), false));
        let mut names: Vec<(String, bool)> =
            files.chain(self.children(group).map(|name| (name.to_string(), true))).collect();
        names.sort();
        names
    }

    fn children<'a>(&'a self, group: &'a UserGroup) -> impl Iterator<Item = &'a str> {
        let of_group = |path: &'a str| {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            (folder == group.path && !name.is_empty()).then_some(name)
        };
        self.groups.keys().filter_map(move |path| of_group(path))
    }

    /// Living tasks are in the group or below it.
    fn is_populated(&self, group: &UserGroup) -> bool {
        let within = |path: &str| {
            path.strip_prefix(group.path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.groups.iter().any(|(path, other)| within(path) && !other.threads.is_empty())
    }

    fn content(&self, group: &UserGroup, file: &str) -> String {
        let has_children = self.children(group).next().is_some();
        match file {
            "cgroup.controllers" => "cpuset cpu\n".to_string(),
            "cgroup.subtree_control" if has_children => "cpuset cpu\n".to_string(),
            "cgroup.subtree_control" => "\n".to_string(),
            "cgroup.procs" => numbers(group.threads.iter().map(|(_, process)| *process)),
            "cgroup.threads" => numbers(group.threads.iter().map(|(thread, _)| *thread)),
            "cgroup.stat" => {
                let below = self.groups.keys().filter(|path| {
                    **path != group.path
                        && (group.path.is_empty() || path.starts_with(&format!("{}/", group.path)))
                });
                format!("nr_descendants {}\nnr_dying_descendants 0\n", below.count())
            }
            "cgroup.type" => "domain\n".to_string(),
            "cgroup.events" => format!("populated {}\nfrozen 0\n", u8::from(self.is_populated(group))),
            "cpu.weight" => format!("{}\n", weight(group.settings.load_weight())),
            "cpu.weight.nice" => format!("{}\n", nice(group.settings.load_weight())),
            "cpu.max" => match group.settings.quota {
                Some(quota) => format!("{} {}\n", quota.runtime.0 / 1_000, quota.period.0 / 1_000),
                None => format!("max {}\n", group.period_us),
            },
            "cpu.max.burst" => format!("{}\n", group.settings.burst.0 / 1_000),
            "cpu.idle" => format!("{}\n", u8::from(group.settings.idle)),
            "cpuset.cpus" => format!("{}\n", group.cpus.as_ref().map_or_else(String::new, |cpus| list(cpus))),
            "cpuset.cpus.effective" => format!("{}\n", list(&group.effective)),
            "cpu.stat" => stat(group),
            other => unreachable!("no file {other} is listed"),
        }
    }
}

/// True for a path at or below the root of the groups.
pub(crate) fn owns(path: &str) -> bool {
    below_root(path).is_some()
}

/// A path below the root of the groups, without a slash in front: empty for the root.
fn below_root(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(ROOT)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// Each number once, in order, a line each.
fn numbers(all: impl Iterator<Item = i32>) -> String {
    let sorted: std::collections::BTreeSet<i32> = all.collect();
    sorted.into_iter().map(|number| format!("{number}\n")).collect()
}

/// `cpu.stat`: all that tasks ran counts as user time.
fn stat(group: &UserGroup) -> String {
    let (used, figures) = (group.cpu_time.0 / 1_000, group.bandwidth);
    format!(
        "usage_usec {used}\nuser_usec {used}\nsystem_usec 0\nnice_usec 0\nnr_periods {}\nnr_throttled {}\nthrottled_usec {}\n\
         nr_bursts {}\nburst_usec {}\n",
        figures.periods,
        figures.throttled,
        figures.throttled_time.0 / 1_000,
        figures.bursts,
        figures.burst_time.0 / 1_000
    )
}

/// What `cpu.weight` reads (`sched_weight_to_cgroup()`).
fn weight(load: u32) -> u32 {
    ((load * 100 + 512) / 1024).clamp(1, 10_000)
}

/// What `cpu.weight.nice` reads: the nice value whose weight is closest, the higher weight of two that are as close.
fn nice(load: u32) -> i32 {
    let all = (-20..=19).filter_map(Nice::new);
    all.min_by_key(|nice| nice.load_weight().abs_diff(load)).map_or(0, Nice::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::DurationNs;
    use schedlab_scx::{BandwidthFigures, GroupSettings};

    fn files() -> GroupFiles {
        let mut files = GroupFiles::new(CpuMask::first(4));
        let of = |path: &str, id, threads: &[(i32, i32)]| UserGroup {
            path: path.into(),
            id,
            threads: threads.to_vec(),
            ..UserGroup::root(CpuMask::first(4))
        };
        let b = UserGroup {
            settings: GroupSettings {
                weight: 300,
                quota: "50ms/100ms".parse().ok(),
                burst: DurationNs::from_ms(10),
                ..GroupSettings::default()
            },
            cpus: Some(Box::new(CpuMask::first(2))),
            effective: Box::new(CpuMask::first(2)),
            cpu_time: DurationNs::from_ms(7),
            bandwidth: BandwidthFigures { periods: 30, throttled: 29, ..BandwidthFigures::default() },
            ..of("a/b", 3, &[(1002, 1001), (1001, 1001)])
        };
        files.set(vec![of("", 1, &[(1005, 1005)]), of("a", 2, &[]), b, of("ab", 4, &[])]);
        files
    }

    fn text(files: &GroupFiles, path: &str) -> String {
        match files.find(&format!("{ROOT}/{path}")) {
            Some(Node::File(content)) => String::from_utf8(content).unwrap(),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn files_say_what_the_kernels_do() {
        let files = files();
        for (path, wanted) in [
            ("a/b/cgroup.procs", "1001\n"),
            ("a/b/cgroup.threads", "1001\n1002\n"),
            ("cgroup.procs", "1005\n"),
            ("a/cgroup.events", "populated 1\nfrozen 0\n"),
            ("ab/cgroup.events", "populated 0\nfrozen 0\n"),
            ("a/cgroup.subtree_control", "cpuset cpu\n"),
            ("a/b/cgroup.subtree_control", "\n"),
            ("a/b/cgroup.type", "domain\n"),
            ("a/cgroup.stat", "nr_descendants 1\nnr_dying_descendants 0\n"),
            ("cgroup.stat", "nr_descendants 3\nnr_dying_descendants 0\n"),
            ("a/b/cpu.weight", "300\n"),
            ("a/b/cpu.weight.nice", "-5\n"),
            ("a/cpu.weight.nice", "0\n"),
            ("a/b/cpu.max", "50000 100000\n"),
            ("a/cpu.max", "max 100000\n"),
            ("a/b/cpu.max.burst", "10000\n"),
            ("a/b/cpu.idle", "0\n"),
            ("a/b/cpuset.cpus", "0-1\n"),
            ("a/cpuset.cpus", "\n"),
            ("a/cpuset.cpus.effective", "0-3\n"),
            ("a/b/cpuset.cpus.effective", "0-1\n"),
        ] {
            assert_eq!(text(&files, path), wanted, "{path}");
        }
        assert!(text(&files, "a/b/cpu.stat").starts_with("usage_usec 7000\nuser_usec 7000\n"));
        assert!(text(&files, "a/b/cpu.stat").contains("nr_periods 30\nnr_throttled 29\n"));
    }

    #[test]
    fn changes_are_told_by_path_and_number() {
        let mut files = files();
        let of = |path: &str, id| UserGroup { path: path.into(), id, ..UserGroup::root(CpuMask::first(4)) };
        let changed = |files: &mut GroupFiles, groups: &[(&str, u64)]| -> Vec<(String, bool)> {
            let groups = groups.iter().map(|(path, id)| of(path, *id)).collect();
            files.set(groups).into_iter().map(|change| (change.path, change.appeared)).collect()
        };
        assert_eq!(changed(&mut files, &[]), [], "a run without groups changes nothing");
        assert_eq!(
            changed(&mut files, &[("", 1), ("ab", 5), ("c", 6), ("c/d", 7)]),
            [("ab", false), ("a/b", false), ("a", false), ("ab", true), ("c", true), ("c/d", true)]
                .map(|(path, appeared)| (format!("{ROOT}/{path}"), appeared))
        );
    }

    #[test]
    fn folders_list_files_and_groups() {
        let files = files();
        let Some(Node::Folder(root)) = files.find(ROOT) else { panic!("a folder") };
        let folders: Vec<&str> =
            root.iter().filter(|(_, folder)| *folder).map(|(name, _)| name.as_str()).collect();
        assert_eq!((folders, root.len()), (vec!["a", "ab"], COMMON.len() + 2));
        assert_eq!(
            (files.id(ROOT), files.id("/sys/fs/cgroup/a/b"), files.id("/sys/fs")),
            (Some(1), Some(3), None)
        );
        for absent in ["cpu.weight", "a/cpu.pressure", "c", "a/b/c", "a/c/cpu.weight"] {
            assert_eq!(files.find(&format!("{ROOT}/{absent}")), None, "{absent}");
        }
        assert_eq!(files.find("/sys/fs/cgroups"), None);
    }

    #[test]
    fn an_idle_group_reads_the_least_weight() {
        assert_eq!((weight(3), weight(15), weight(10)), (1, 1, 1));
        assert_eq!((nice(15), nice(3121), nice(3)), (19, -5, 19));
    }
}
