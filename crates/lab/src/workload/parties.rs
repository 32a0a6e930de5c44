//! The tasks of a run, as traces and records name them.

use schedlab_base::{Machine, Policy};
use schedlab_sim::FIRST_PID;
use schedlab_trace::waits::Party;
use schedlab_workload::{Scenario, TaskSpec};
use std::collections::BTreeMap;

/// The tasks of a scenario's start and what runs beside them on a machine: names, thread and process ids, and the priorities
/// that they start with.
pub fn parties(scenario: &Scenario, machine: &Machine) -> Vec<Party> {
    let thread = |at: usize| FIRST_PID + i32::try_from(at).unwrap_or(i32::MAX - FIRST_PID);
    let prio = |task: &TaskSpec| match task.policy {
        Policy::Fifo(prio) | Policy::Rr(prio) => 99 - i32::from(prio),
        Policy::Deadline(_) => -1,
        _ => task.nice.static_prio(),
    };
    let mut leaders = BTreeMap::new();
    let party = |(at, task): (usize, &TaskSpec)| {
        let process = *leaders.entry(task.process).or_insert(thread(at));
        Party { name: task.name.clone(), thread: thread(at), process, prio: prio(task) }
    };
    // Names are of any seed.
    scenario.surrounded(machine, 0).tasks.iter().enumerate().map(party).collect()
}
