//! Phases of a task: their loops, and what they set when they begin.

use super::events::{Reader, is_event};
use super::version::{KEYS_OF_HEAD, PHASE_KEYS_OF_HEAD};
use super::{
    Amount, Attribute, ChangeId, CpuMask, DlTimes, MAX_CPUS, Named, Nice, Node, Op, Outcome, Policy,
    Settings, Shared, Version, amount, cpus, fault, group, integer, named, object, ranked,
};
use crate::program::GroupId;

/// Settings that are refused, in tasks and in phases, and why.
const REFUSED: &[(&str, &str)] = &[
    ("util_min", "utilisation clamps are not modelled"),
    ("util_max", "utilisation clamps are not modelled"),
    ("nodes_membind", "memory that is bound to nodes is not modelled"),
];

/// One phase, read.
struct Phase<'a> {
    path: String,
    times: Amount,
    cpus: Option<CpuMask>,
    /// Policy and nice value from here on.
    rank: Option<(Policy, Nice)>,
    /// The group from here on.
    group: Option<Option<GroupId>>,
    events: Vec<&'a (String, Node)>,
}

/// Takes a setting of a task or phase that changes nothing here, refuses one that would; false of others.
/// `alone`: the object has no event.
pub(super) fn accepted(
    shared: &mut Shared,
    key: &str,
    node: &Node,
    path: &str,
    alone: bool,
) -> Outcome<bool> {
    if shared.version == Version::V1_0 && KEYS_OF_HEAD.contains(&key) {
        shared.differs(path, "does not read it", "does");
        return Ok(true);
    }
    match key {
        // Read with the other settings.
        "taskgroup" => Ok(true),
        // A key of rt-app's first versions; today's do not read it.
        "exec" if alone => fault(
            node,
            path,
            "rt-app does not read 'exec' any more and refuses a task without events; write \"run\" (microseconds)",
        ),
        "exec" => Ok(true),
        _ => match REFUSED.iter().find(|(name, _)| *name == key) {
            Some((_, why)) => fault(node, path, *why),
            None => Ok(false),
        },
    }
}

/// Phases in order. As in rt-app a phase's CPUs hold for the phase, its policy and priority until the next that sets them.
pub(super) fn phases(reader: &mut Reader<'_>, node: &Node, path: &str, task: &Settings) -> Outcome<()> {
    let mut policy = task.policy;
    let mut phases = Vec::new();
    for (name, node) in object(node, path)? {
        let phase = phase(reader.shared, node, format!("{path}.{name}"), policy)?;
        policy = phase.rank.map_or(policy, |(policy, _)| policy);
        phases.push(phase);
    }
    let everywhere = CpuMask::first(MAX_CPUS);
    let own = task.affinity.unwrap_or(everywhere);
    let masks: Vec<CpuMask> = phases.iter().map(|phase| phase.cpus.unwrap_or(own)).collect();
    let changes_policy =
        phases.iter().any(|phase| phase.rank.is_some_and(|(policy, _)| policy != task.policy));
    let changes_group = phases.iter().any(|phase| phase.group.is_some_and(|group| group != task.group));
    for (number, phase) in phases.iter().enumerate() {
        let before = match number {
            0 => [own, masks[masks.len() - 1]],
            _ => [masks[number - 1]; 2],
        };
        if before.iter().any(|mask| *mask != masks[number]) {
            set(reader, Attribute::Affinity(masks[number]));
        }
        if let Some(group) = phase.group.filter(|_| changes_group) {
            set(reader, Attribute::Group(group));
        }
        if let Some((policy, nice)) = phase.rank {
            if changes_policy {
                set(reader, Attribute::Policy(policy));
            }
            if !policy.is_realtime() {
                set(reader, Attribute::Nice(nice));
            }
        }
        repeat(reader, phase)?;
    }
    Ok(())
}

fn set(reader: &mut Reader<'_>, attribute: Attribute) {
    let changes = &mut reader.shared.scenario.changes;
    changes.push(attribute);
    let change = ChangeId(changes.len() as u32 - 1);
    reader.ops.push(Op::Set { task: None, change });
}

fn repeat(reader: &mut Reader<'_>, phase: &Phase<'_>) -> Outcome<()> {
    if phase.times == Amount::Times(1) {
        return reader.events(&phase.events, &phase.path);
    }
    reader.ops.push(Op::Loop(phase.times));
    reader.events(&phase.events, &phase.path)?;
    reader.ops.push(Op::EndLoop);
    Ok(())
}

/// Tells that 1.0 reads a key of tasks alone; true if it is followed.
fn ignores(shared: &mut Shared, path: &str) -> bool {
    shared.differs(path, "reads it of tasks alone, not of phases", "sets it when the phase begins");
    shared.version == Version::V1_0
}

fn phase<'a>(shared: &mut Shared, node: &'a Node, path: String, before: Policy) -> Outcome<Phase<'a>> {
    let entries = object(node, &path)?;
    let mut phase =
        Phase { path, times: Amount::Times(1), cpus: None, rank: None, group: None, events: Vec::new() };
    let (mut policy, mut priority, mut ignored) = (None, None, Vec::new());
    let mut times = DlTimes::default();
    for entry in entries {
        let (key, node) = (entry.0.as_str(), &entry.1);
        let path = format!("{}.{key}", phase.path);
        match key {
            "loop" => phase.times = amount(node, &path)?,
            "cpus" => {
                let mask = cpus(node, &path)?;
                shared.saw_cpus(&mask, &path);
                phase.cpus = Some(mask);
            }
            key if PHASE_KEYS_OF_HEAD.contains(&key) && ignores(shared, &path) => {}
            "policy" => policy = Some(named(node, &path)?),
            key if DlTimes::OF_PHASES.contains(&key) => times.take(key, node, &path)?,
            "priority" => priority = Some((node, integer(node, &path)?, path)),
            "taskgroup" if shared.version == Version::Head => phase.group = Some(group(shared, node, &path)?),
            "taskgroup" | "exec" => ignored.push((key, node, path)),
            _ if accepted(shared, key, node, &path, false)? => {}
            _ => phase.events.push(entry),
        }
    }
    for (key, node, path) in ignored {
        accepted(shared, key, node, &path, !entries.iter().any(|(key, _)| is_event(key)))?;
    }
    if policy.is_none() && matches!(before, Policy::Deadline(_)) && !times.is_empty() {
        policy = Some(Named::Deadline);
    }
    let policy = policy.map(|policy| times.policy(policy, node, &phase.path, shared.version)).transpose()?;
    let fair = matches!(policy.unwrap_or(before), Policy::Other | Policy::Batch);
    if fair && times.runtime.is_some() {
        return fault(
            node,
            &format!("{}.dl-runtime", phase.path),
            "slices of single phases are not modelled; a task of SCHED_OTHER or SCHED_BATCH has one",
        );
    }
    phase.rank = match (policy, priority) {
        (None, None) => None,
        (policy, None) => Some((policy.unwrap_or(before), Nice::ZERO)),
        (policy, Some((node, value, path))) => Some(ranked(policy.unwrap_or(before), node, &path, value)?),
    };
    Ok(phase)
}
