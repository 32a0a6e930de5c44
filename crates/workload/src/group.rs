//! Groups of tasks: the directories of cgroup v2, and what their files say to the CPU controller.

use crate::program::GroupId;
use crate::scenario::Scenario;
use schedlab_base::{CpuMask, DurationNs, Nice};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Most groups that a workload can have. Chosen: ten times what a large machine's service manager makes.
pub const MOST_GROUPS: usize = 100_000;

/// Deepest group, the root's children being at 1: the default of `cgroup.max.depth` has no bound, and a path name in the kernel ends at
/// 4,096 bytes. Chosen.
pub const DEEPEST_GROUP: usize = 256;

/// `cpu.weight` of a new group, `CGROUP_WEIGHT_DFL`.
pub const DEFAULT_WEIGHT: u32 = 100;

/// Largest `cpu.weight`, `CGROUP_WEIGHT_MAX`; the smallest is 1.
pub const LARGEST_WEIGHT: u32 = 10_000;

/// Load weight of a group with `cpu.idle`, `WEIGHT_IDLEPRIO`.
const IDLE_LOAD_WEIGHT: u32 = 3;

/// Shortest period and quota of `cpu.max` (`min_bw_quota_period_us` of the kernel's `core.c`).
pub const SHORTEST_PERIOD: DurationNs = DurationNs::from_ms(1);

/// Longest period of `cpu.max` (`max_bw_quota_period_us`).
pub const LONGEST_PERIOD: DurationNs = DurationNs::from_ms(1_000);

/// `cpu.max`: CPU time that a group may use in each period, of all CPUs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quota {
    /// CPU time in a period.
    pub runtime: DurationNs,
    /// Length of a period.
    pub period: DurationNs,
}

impl FromStr for Quota {
    type Err = String;

    /// Reads `50ms/100ms`; the period is 100 ms without.
    fn from_str(text: &str) -> Result<Quota, String> {
        let (runtime, period) = text.split_once('/').unwrap_or((text, "100ms"));
        let read = |part: &str| part.trim().parse::<DurationNs>().ok();
        let (Some(runtime), Some(period)) = (read(runtime), read(period)) else {
            return Err(format!("'{text}' is neither max nor QUOTA/PERIOD, as in 50ms/100ms"));
        };
        if runtime < SHORTEST_PERIOD || !(SHORTEST_PERIOD..=LONGEST_PERIOD).contains(&period) {
            return Err(format!("'{text}': the kernel takes periods of 1ms to 1s, and quotas from 1ms"));
        }
        Ok(Quota { runtime, period })
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.runtime, self.period)
    }
}

/// What the files of a group say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// `cpu.weight`, 1 to [`LARGEST_WEIGHT`].
    pub weight: u32,
    /// `cpu.weight.nice`, where the weight was written so; `cpu.weight` reads what is closest to it then.
    pub nice: Option<Nice>,
    /// `cpu.max`; no bound without.
    pub quota: Option<Quota>,
    /// `cpu.max.burst`: unused quota that later periods may have, at most the quota.
    pub burst: DurationNs,
    /// `cpu.idle`.
    pub idle: bool,
}

impl Default for GroupSettings {
    fn default() -> GroupSettings {
        GroupSettings {
            weight: DEFAULT_WEIGHT,
            nice: None,
            quota: None,
            burst: DurationNs::ZERO,
            idle: false,
        }
    }
}

impl GroupSettings {
    /// What the group weighs on the scale of nice values, where nice 0 and `cpu.weight` 100 are 1024 (`sched_weight_from_cgroup()`,
    /// `sched_prio_to_weight`; `WEIGHT_IDLEPRIO` with `cpu.idle`). Rounded to the closest number: `cpu.weight` 1 is 10.
    pub fn load_weight(&self) -> u32 {
        match self.nice {
            _ if self.idle => IDLE_LOAD_WEIGHT,
            Some(nice) => nice.load_weight(),
            None => (self.weight * 1024 + 50) / 100,
        }
    }

    /// Writes `cpu.weight.nice`.
    pub fn set_nice(&mut self, nice: Nice) {
        (self.weight, self.nice) = (nice.weight().0, Some(nice));
    }
}

/// A group below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Names from the root down, separated by slashes, without one at the ends: `a/b`.
    pub path: String,
    /// The group that it is in; the root without. Groups come after their parents.
    pub parent: Option<GroupId>,
    /// What its files say at first.
    pub settings: GroupSettings,
    /// `cpuset.cpus`; all of its parent's without.
    pub cpus: Option<CpuMask>,
    /// A program makes it during the run ([`GroupChange::Make`]).
    pub later: bool,
}

/// What [`crate::Op::SetGroup`] does to a group. Nothing happens to a group that is not there, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(clippy::large_enum_variant, reason = "a scenario has few of them, in a list of their own")]
pub enum GroupChange {
    /// `mkdir`.
    Make,
    /// `rmdir`, as soon as the last of its tasks has ended or left; no other comes into it until then.
    Remove,
    /// Writes `cpu.weight`.
    Weight(u32),
    /// Writes `cpu.weight.nice`.
    Nice(Nice),
    /// Writes `cpu.max`.
    Quota(Option<Quota>),
    /// Writes `cpu.max.burst`.
    Burst(DurationNs),
    /// Writes `cpu.idle`.
    Idle(bool),
    /// Writes `cpuset.cpus`.
    Cpus(CpuMask),
}

impl Scenario {
    /// The group of a path, which is made with those above it where they are missing, each as a new one is. `known` has all groups by
    /// path.
    pub(crate) fn group_at(&mut self, path: &str, known: &mut BTreeMap<String, GroupId>) -> GroupId {
        if let Some(&group) = known.get(path) {
            return group;
        }
        let parent = path.rsplit_once('/').map(|(above, _)| self.group_at(above, known));
        let settings = GroupSettings::default();
        self.add_group(
            GroupSpec { path: path.to_string(), parent, settings, cpus: None, later: false },
            known,
        )
    }

    pub(crate) fn add_group(&mut self, group: GroupSpec, known: &mut BTreeMap<String, GroupId>) -> GroupId {
        let id = GroupId(self.groups.len() as u32);
        known.insert(group.path.clone(), id);
        self.groups.push(group);
        id
    }
}

/// Why a weight is refused.
///
/// # Errors
/// Outside 1 to [`LARGEST_WEIGHT`].
pub(crate) fn check_weight(weight: u32) -> Result<u32, String> {
    let known = (1..=LARGEST_WEIGHT).contains(&weight);
    known
        .then_some(weight)
        .ok_or_else(|| format!("cpu_weight {weight}: the kernel takes 1 to {LARGEST_WEIGHT}"))
}

/// Why a group's settings are refused, as the kernel would refuse to write them.
pub(crate) fn check_settings(settings: &GroupSettings) -> Result<(), String> {
    check_weight(settings.weight)?;
    match settings.quota {
        None if settings.burst > DurationNs::ZERO => Err("cpu_max_burst needs a quota (cpu_max)".to_string()),
        Some(quota) if settings.burst > quota.runtime => {
            Err(format!("cpu_max_burst {}: at most the quota of {}", settings.burst, quota.runtime))
        }
        _ => Ok(()),
    }
}

/// The names of a path, checked as those of directories.
///
/// # Errors
/// An empty name, `.` and `..`, a name with a control character or longer than a file name can be, a path that is too deep.
pub(crate) fn check_path(path: &str) -> Result<(), String> {
    let good = |name: &str| {
        !name.is_empty()
            && name.len() <= 255
            && name != "."
            && name != ".."
            && !name.contains(char::is_control)
    };
    if !path.split('/').all(good) {
        return Err(format!("'{path}' is no path of a group, such as a or a/b"));
    }
    if let Some(file) = path.split('/').find(|name| is_taken(name)) {
        return Err(format!("'{file}': files of the kernel begin so"));
    }
    if path.split('/').count() > DEEPEST_GROUP {
        return Err(format!("a path of more than {DEEPEST_GROUP} groups"));
    }
    Ok(())
}

/// A directory cannot have the name of a file of the kernel's in the same directory.
fn is_taken(name: &str) -> bool {
    const CONTROLLERS: [&str; 10] =
        ["cgroup", "cpu", "cpuset", "io", "memory", "hugetlb", "pids", "rdma", "misc", "irq"];
    name.split_once('.').is_some_and(|(controller, _)| CONTROLLERS.contains(&controller))
}
