//! Timers of a whole file, which rt-app knows before any task runs.
//!
//! A timer whose `ref` begins with `unique` belongs to a thread. Any other is one timer of all threads: each wait,
//! of any thread, moves its expiry on by a period. One `"mode": "absolute"` makes all waits for it absolute.

use super::{MAX_INSTANCES, Node, Outcome, TimerSlot, Value, fault};
use crate::program::MAX_SHARED_TIMERS;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the timers of a file.
#[derive(Default)]
pub(super) struct Timers {
    /// Absolute ones by task, empty for a timer of all threads, and name.
    absolute: BTreeSet<(String, String)>,
    /// Threads that wait for a timer that is not unique, by name.
    threads: BTreeMap<String, i64>,
    /// Numbers of those of several threads.
    shared: BTreeMap<String, u32>,
}

/// The task that a timer belongs to, empty if all threads have it.
fn owner<'a>(task: &'a str, name: &str) -> &'a str {
    if name.starts_with("unique") { task } else { "" }
}

fn entries(node: &Node) -> &[(String, Node)] {
    match &node.value {
        Value::Object(entries) => entries,
        _ => &[],
    }
}

fn member<'a>(node: &'a Node, key: &str) -> Option<&'a Value> {
    entries(node).iter().find(|(name, _)| name == key).map(|(_, node)| &node.value)
}

impl Timers {
    /// Looks through the tasks. What is no timer as rt-app wants it is left to the reader of events.
    pub(super) fn of(tasks: &Node) -> Timers {
        let mut timers = Timers::default();
        for (task, node) in entries(tasks) {
            let instances = match member(node, "instance") {
                Some(Value::Number(count)) => count.parse().unwrap_or(1),
                _ => 1,
            };
            let phases = entries(node).iter().filter(|(key, _)| key == "phases");
            let objects = phases.flat_map(|(_, phases)| entries(phases)).map(|(_, phase)| phase);
            let mut names = BTreeSet::new();
            for (_, event) in std::iter::once(node)
                .chain(objects)
                .flat_map(entries)
                .filter(|(key, _)| key.starts_with("timer"))
            {
                let Some(Value::Text(name)) = member(event, "ref") else { continue };
                names.insert(name.clone());
                if matches!(member(event, "mode"), Some(Value::Text(mode)) if mode == "absolute") {
                    timers.absolute.insert((owner(task, name).to_string(), name.clone()));
                }
            }
            for name in names.into_iter().filter(|name| owner(task, name).is_empty()) {
                *timers.threads.entry(name).or_default() += instances.clamp(0, MAX_INSTANCES);
            }
        }
        let several =
            timers.threads.iter().filter(|(_, threads)| **threads > 1).map(|(name, _)| name.clone());
        timers.shared = several.zip(0..).collect();
        timers
    }

    /// A timer of several threads.
    pub(super) fn shared(&self, node: &Node, path: &str, name: &str) -> Outcome<Option<TimerSlot>> {
        match self.shared.get(name) {
            Some(&number) if number as usize >= MAX_SHARED_TIMERS => {
                let problem = format!("at most {MAX_SHARED_TIMERS} timers may be of several threads");
                fault(node, &format!("{path}.ref"), problem)
            }
            number => Ok(number.copied().map(TimerSlot::of_all)),
        }
    }

    /// True if some event of the file makes this timer absolute.
    pub(super) fn is_absolute(&self, task: &str, name: &str) -> bool {
        self.absolute.contains(&(owner(task, name).to_string(), name.to_string()))
    }
}
