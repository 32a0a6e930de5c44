//! What a scenario's groups ask of a scheduler and of a machine.

use crate::group::{GroupChange, GroupSettings, GroupSpec};
use crate::program::{GroupId, Op, Program};
use crate::scenario::Scenario;
use schedlab_base::{CpuMask, DurationNs, GroupFile};
use std::collections::BTreeSet;

/// The files of a group that schedulers learn of, each with its callback.
const FILES: [(&str, &str); 3] = [
    ("cpu.weight", "cgroup_set_weight"),
    ("cpu.max", "cgroup_set_bandwidth"),
    ("cpu.idle", "cgroup_set_idle"),
];

impl Scenario {
    /// The files of groups that say something else than those of new groups, at first or after a change.
    pub fn group_files(&self) -> Vec<GroupFile> {
        let mut groups: [BTreeSet<GroupId>; FILES.len()] = Default::default();
        for (group, spec) in (0..).map(GroupId).zip(&self.groups) {
            let (own, new) = (&spec.settings, GroupSettings::default());
            let unlike =
                [own.weight != new.weight, own.quota.is_some() || own.burst > DurationNs::ZERO, own.idle];
            for (groups, _) in groups.iter_mut().zip(unlike).filter(|(_, unlike)| *unlike) {
                groups.insert(group);
            }
        }
        for (group, change) in self.changes_of_groups() {
            match change {
                GroupChange::Weight(_) | GroupChange::Nice(_) => drop(groups[0].insert(group)),
                GroupChange::Quota(_) | GroupChange::Burst(_) => drop(groups[1].insert(group)),
                GroupChange::Idle(_) => drop(groups[2].insert(group)),
                GroupChange::Make | GroupChange::Remove | GroupChange::Cpus(_) => {}
            }
        }
        let used = FILES.iter().zip(&groups).filter_map(|(&(file, callback), groups)| {
            let example = self.groups[groups.first()?.index()].path.clone();
            Some(GroupFile { file, callback, example, count: groups.len() as u64 })
        });
        used.collect()
    }

    fn changes_of_groups(&self) -> impl Iterator<Item = (GroupId, GroupChange)> {
        self.programs.iter().flat_map(Program::ops).filter_map(|op| match *op {
            Op::SetGroup { group, change } => Some((group, self.group_changes[change.index()])),
            _ => None,
        })
    }

    /// Why a machine with these CPUs cannot have the groups: a `cpuset.cpus`, at first or after a change, names none of them.
    ///
    /// # Errors
    /// A sentence that names the group.
    pub fn check_group_cpus(&self, machine: &CpuMask) -> Result<(), String> {
        let at_first = self.groups.iter().filter_map(|spec| Some((spec, spec.cpus?)));
        let later = self.changes_of_groups().filter_map(|(group, change)| match change {
            GroupChange::Cpus(cpus) => Some((&self.groups[group.index()], cpus)),
            _ => None,
        });
        let without = |(_, cpus): &(&GroupSpec, CpuMask)| cpus.and(machine).is_empty();
        at_first.chain(later).find(without).map_or(Ok(()), |(spec, _)| {
            Err(format!(
                "group {}: none of its CPUs exists on a machine with {} CPUs; widen the set or add CPUs",
                spec.path,
                machine.count()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(changes: &str) -> Scenario {
        let text = format!(
            r#"name = "tree"
end = "1s"
changes = [{changes}]
[[groups]]
name = "a"
cpu_weight = 300
[[groups]]
name = "b"
cpus = [1, 2]
[programs]
hog = [ "run 1ms" ]
[[tasks]]
name = "hog"
program = "hog"
"#
        );
        crate::file::parse(&text, "t.toml").unwrap()
    }

    #[test]
    fn files_count_where_they_are_unlike_those_of_a_new_group() {
        let of = |changes: &str| -> Vec<(&str, String, u64)> {
            let files = scenario(changes).group_files();
            files.into_iter().map(|one| (one.callback, one.example, one.count)).collect()
        };
        assert_eq!(of(""), [("cgroup_set_weight", "a".to_string(), 1)]);
        let changed = of(r#""1ms cgroup b weight 100", "2ms cgroup b idle 1", "3ms cgroup b max 5ms""#);
        assert_eq!(changed[0], ("cgroup_set_weight", "a".to_string(), 2));
        assert_eq!(changed[1], ("cgroup_set_bandwidth", "b".to_string(), 1));
        assert_eq!(changed[2], ("cgroup_set_idle", "b".to_string(), 1));
        assert_eq!(Scenario::empty("x", crate::End::AllExit).group_files(), []);
    }

    #[test]
    fn a_set_without_cpus_of_the_machine_is_refused() {
        let of = |changes: &str, count| scenario(changes).check_group_cpus(&CpuMask::first(count));
        assert_eq!(of("", 2), Ok(()));
        assert!(
            of("", 1).unwrap_err().starts_with("group b: none of its CPUs exists on a machine with 1 CPU")
        );
        assert!(of(r#""1ms cgroup a cpus 4-5""#, 3).unwrap_err().starts_with("group a: "));
    }
}
