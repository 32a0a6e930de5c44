//! Timers of a whole file, which rt-app knows before any task runs.
//!
//! A timer whose `ref` begins with `unique` belongs to a thread. Any other is one timer of all threads: each wait,
//! of any thread, moves its expiry on by a period. One `"mode": "absolute"` makes all waits for it absolute.

use super::{MAX_INSTANCES, Node, Outcome, Value, fault};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the timers of a file.
#[derive(Default)]
pub(super) struct Timers {
    /// Absolute ones by task, empty for a timer of all threads, and name.
    absolute: BTreeSet<(String, String)>,
    /// Threads that wait for a timer that is not unique, by name.
    threads: BTreeMap<String, i64>,
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
        timers
    }

    /// True if some event of the file makes this timer absolute. Refuses a timer of several threads.
    pub(super) fn absolute(&self, node: &Node, path: &str, task: &str, name: &str) -> Outcome<bool> {
        let threads = self.threads.get(name).copied().unwrap_or(0);
        if threads > 1 && owner(task, name).is_empty() {
            return fault(
                node,
                &format!("{path}.ref"),
                format!(
                    "rt-app has one timer '{name}' for the {threads} threads that name it: each wait moves it on by a \
                     period, so that they take turns; this is not modelled; name it 'unique' (one timer for \
                     each thread) or give each task a name of its own"
                ),
            );
        }
        Ok(self.absolute.contains(&(owner(task, name).to_string(), name.to_string())))
    }
}
