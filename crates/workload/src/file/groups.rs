//! `[[groups]]`: the groups of a file, and the lines that change them.

use super::program::{Line, cpu_list};
use super::{Fault, Names, Outcome, Spanned, cpu_mask, listed};
use crate::group::{GroupChange, GroupSettings, GroupSpec, Quota, check_path, check_settings, check_weight};
use crate::program::{GroupChangeId, GroupId, Op};
use crate::scenario::{Attribute, Scenario};
use schedlab_base::{DurationNs, Nice};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupSection {
    name: String,
    cpu_weight: Option<u32>,
    cpu_weight_nice: Option<i64>,
    cpu_uclamp_min: Option<toml::Value>,
    cpu_uclamp_max: Option<toml::Value>,
    cpus_partition: Option<String>,
    cpu_max: Option<String>,
    cpu_max_burst: Option<String>,
    #[serde(default)]
    cpu_idle: bool,
    cpus: Option<Vec<u32>>,
    #[serde(default)]
    later: bool,
}

/// Adds the groups of a file, each after its parent. A parent that the file does not have gets the settings of a new group.
pub(super) fn add(
    sections: &[Spanned<GroupSection>],
    scenario: &mut Scenario,
    names: &mut Names,
) -> Outcome<()> {
    let mut sorted: Vec<&Spanned<GroupSection>> = sections.iter().collect();
    sorted.sort_by_key(|section| section.get_ref().name.split('/').count());
    for section in sorted {
        let (group, at) = (section.get_ref(), section.span().start);
        let refused = |text: String| Fault { at, text: format!("group {}: {text}", group.name) };
        check_path(&group.name).map_err(refused)?;
        if names.groups.contains_key(&group.name) {
            return Err(refused("there is another of this name".to_string()));
        }
        let settings = settings(group).map_err(refused)?;
        let cpus = group.cpus.as_deref().map(cpu_mask).transpose().map_err(refused)?;
        let above = group.name.rsplit_once('/').map(|(above, _)| above);
        let parent = above.map(|above| scenario.group_at(above, &mut names.groups));
        let spec = GroupSpec { path: group.name.clone(), parent, settings, cpus, later: group.later };
        scenario.add_group(spec, &mut names.groups);
    }
    Ok(())
}

/// Files of cgroup v2 that are refused, with what they would do.
const UCLAMP: &str = "is not modelled. It bounds the utilisation by which a kernel chooses frequencies and CPUs of unequal capacity; \
                      leave it out where all CPUs are alike";
const PARTITION: &str = "is not modelled. A partition takes its CPUs away from the groups beside it, and an isolated one takes them \
                         out of load balancing; give the groups beside it cpus without them";

fn settings(group: &GroupSection) -> Result<GroupSettings, String> {
    if group.cpu_uclamp_min.is_some() || group.cpu_uclamp_max.is_some() {
        return Err(format!("cpu_uclamp_min, cpu_uclamp_max: cpu.uclamp {UCLAMP}"));
    }
    if group.cpus_partition.as_deref().is_some_and(|kind| kind != "member") {
        return Err(format!("cpus_partition: cpuset.cpus.partition {PARTITION}"));
    }
    let mut default = GroupSettings::default();
    if let Some(number) = group.cpu_weight_nice {
        if group.cpu_weight.is_some() {
            return Err("cpu_weight and cpu_weight_nice are one setting; give one of them".to_string());
        }
        default.set_nice(nice(number)?);
    }
    let settings = GroupSettings {
        weight: group.cpu_weight.unwrap_or(default.weight),
        nice: default.nice,
        quota: group.cpu_max.as_deref().map_or(Ok(None), quota)?,
        burst: group.cpu_max_burst.as_deref().map_or(Ok(DurationNs::ZERO), burst)?,
        idle: group.cpu_idle,
    };
    check_settings(&settings).map(|()| settings)
}

/// `max`, or a quota.
fn quota(text: &str) -> Result<Option<Quota>, String> {
    if text == "max" { Ok(None) } else { text.parse().map(Some).map_err(|why| format!("cpu_max: {why}")) }
}

/// A value of `cpu.weight.nice`.
fn nice(number: i64) -> Result<Nice, String> {
    Nice::new(number).ok_or_else(|| format!("nice {number}: the kernel takes -20 to 19"))
}

fn burst(text: &str) -> Result<DurationNs, String> {
    text.parse().map_err(|why| format!("cpu_max_burst: {why}"))
}

/// The group of a task's or a line's; the root is `/`.
pub(super) fn named(name: &str, names: &Names) -> Result<Option<GroupId>, String> {
    if name == "/" {
        return Ok(None);
    }
    let known = names.groups.get(name).copied();
    known.map(Some).ok_or_else(|| format!("no group '{name}'; there are: /, {}", listed(name, &names.groups)))
}

/// Where a task goes, as an attribute.
pub(super) fn home(name: &str, names: &Names) -> Result<Attribute, String> {
    named(name, names).map(Attribute::Group)
}

/// An operation on a group: `cgroup PATH weight 300`.
pub(super) fn change(line: &Line<'_>, names: &mut Names) -> Outcome<Op> {
    let group = match named(line.word(1)?, names) {
        Ok(Some(group)) => group,
        Ok(None) => return line.fail("the root stays as it is"),
        Err(text) => return line.fail(&text),
    };
    let read = match (line.word(2)?, line.value(3)) {
        ("make", None) => Ok(GroupChange::Make),
        ("remove", None) => Ok(GroupChange::Remove),
        ("make" | "remove", Some(_)) => Err("it takes no value".to_string()),
        ("weight", Some(value)) => {
            let weight = value.parse().map_err(|_| format!("'{value}' is no whole number"));
            weight.and_then(check_weight).map(GroupChange::Weight)
        }
        ("nice", Some(value)) => {
            let number = value.parse().map_err(|_| format!("'{value}' is no whole number"));
            number.and_then(nice).map(GroupChange::Nice)
        }
        ("uclamp.min" | "uclamp.max", _) => Err(format!("cpu.uclamp {UCLAMP}")),
        ("partition", Some("member")) => Err("all groups are members".to_string()),
        ("partition", _) => Err(format!("cpuset.cpus.partition {PARTITION}")),
        ("max", Some(value)) => quota(value).map(GroupChange::Quota),
        ("burst", Some(value)) => burst(value).map(GroupChange::Burst),
        ("idle", Some("0")) => Ok(GroupChange::Idle(false)),
        ("idle", Some("1")) => Ok(GroupChange::Idle(true)),
        ("idle", Some(other)) => Err(format!("'{other}' is neither 0 nor 1")),
        ("cpus", Some(value)) => cpu_list(value).map(GroupChange::Cpus),
        ("weight" | "nice" | "max" | "burst" | "idle" | "cpus", None) => {
            Err("the value is missing".to_string())
        }
        (other, _) => {
            Err(format!("'{other}' is none of make, remove, weight, nice, max, burst, idle and cpus"))
        }
    };
    let change = read.or_else(|text| line.fail(&text))?;
    let change = *names.group_changes_known.entry(change).or_insert_with(|| {
        names.group_changes.push(change);
        GroupChangeId(names.group_changes.len() as u32 - 1)
    });
    Ok(Op::SetGroup { group, change })
}

/// A change as [`change`] reads it, after the group's name.
pub(super) fn change_text(change: &GroupChange, cpus: impl Fn(&schedlab_base::CpuMask) -> String) -> String {
    match change {
        GroupChange::Make => "make".to_string(),
        GroupChange::Remove => "remove".to_string(),
        GroupChange::Weight(weight) => format!("weight {weight}"),
        GroupChange::Nice(nice) => format!("nice {}", nice.get()),
        GroupChange::Quota(None) => "max max".to_string(),
        GroupChange::Quota(Some(quota)) => format!("max {quota}"),
        GroupChange::Burst(burst) => format!("burst {burst}"),
        GroupChange::Idle(idle) => format!("idle {}", u8::from(*idle)),
        GroupChange::Cpus(mask) => format!("cpus {}", cpus(mask)),
    }
}
