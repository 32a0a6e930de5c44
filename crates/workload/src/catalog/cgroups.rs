//! `cgroups=`, a parameter of every workload: its processes spread over groups.

use super::params::CatalogError;
use crate::group::{GroupSettings, GroupSpec, check_weight};
use crate::program::GroupId;
use crate::scenario::Scenario;
use std::collections::BTreeMap;

/// The parameter's name.
const NAME: &str = "cgroups";

/// Most groups that the parameter makes. Chosen: more weights than a person writes.
const MOST: usize = 1_000;

/// What the parameter is, for lists of parameters.
pub(super) const ABOUT: &str =
    "cgroups=WEIGHT/WEIGHT/... (any workload: its processes in turn in groups g0, g1, ...)";

/// The parameters of a workload without this one, and its value.
pub(super) fn take(workload: &str, params: &str) -> Result<(String, Option<String>), CatalogError> {
    let is_own = |pair: &&str| pair.split_once('=').is_some_and(|(key, _)| key.trim() == NAME);
    let (own, others): (Vec<&str>, Vec<&str>) = params.split(',').partition(is_own);
    match own[..] {
        [] => Ok((params.to_string(), None)),
        [pair] => Ok((others.join(","), pair.split_once('=').map(|(_, value)| value.trim().to_string()))),
        _ => Err(CatalogError(format!("workload {workload}: parameter {NAME} is given twice"))),
    }
}

/// Puts the processes of a scenario in turn into groups of these weights.
pub(super) fn spread(scenario: &mut Scenario, text: &str) -> Result<(), CatalogError> {
    let refused = |why: String| CatalogError(format!("workload {}: parameter {NAME}: {why}", scenario.name));
    let read = |part: &str| part.trim().parse::<u32>().map_err(|_| format!("'{part}' is no whole number"));
    let weights =
        text.split('/').map(|part| read(part).and_then(check_weight)).collect::<Result<Vec<u32>, _>>();
    let weights = weights.map_err(refused)?;
    if weights.len() > MOST {
        return Err(refused(format!("{} groups, at most {MOST}", weights.len())));
    }
    let group = |(number, &weight): (usize, &u32)| GroupSpec {
        path: format!("g{number}"),
        parent: None,
        settings: GroupSettings { weight, ..GroupSettings::default() },
        cpus: None,
        later: false,
    };
    scenario.groups = weights.iter().enumerate().map(group).collect();
    let mut homes = BTreeMap::new();
    for task in &mut scenario.tasks {
        let next = (homes.len() % weights.len()) as u32;
        task.group = Some(GroupId(*homes.entry(task.process).or_insert(next)));
    }
    scenario.params.push((NAME.to_string(), text.to_string()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::catalog::build;

    #[test]
    fn processes_go_to_groups_in_turn() {
        let scenario = build("cpuhog:ntasks=4,cgroups=100/300", 1).unwrap();
        let homes: Vec<u32> = scenario.tasks.iter().map(|task| task.group.unwrap().0).collect();
        assert_eq!(homes, [0, 1, 0, 1]);
        let weights: Vec<u32> = scenario.groups.iter().map(|group| group.settings.weight).collect();
        assert_eq!(weights, [100, 300]);
        assert_eq!(scenario.params.last().unwrap(), &("cgroups".to_string(), "100/300".to_string()));
        assert!(scenario.validate().is_ok());
        // Threads of one process stay together.
        let chat = build("chat:cgroups=1/2/3", 1).unwrap();
        for task in &chat.tasks {
            let other = chat.tasks.iter().find(|other| other.process == task.process).unwrap();
            assert_eq!(other.group, task.group);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("cpuhog:cgroups=0", "cgroups: cpu_weight 0: the kernel takes 1 to 10000"),
            ("cpuhog:cgroups=1/x", "cgroups: 'x' is no whole number"),
            ("cpuhog:cgroups=1,cgroups=2", "cgroups is given twice"),
            ("cpuhog:cgroup=1", "no parameter named 'cgroup'"),
        ] {
            let error = build(text, 1).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
