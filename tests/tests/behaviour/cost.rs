//! What a decision costs with few and with many runnable tasks: instructions per switch, exact counts. The figures for all
//! numbers of tasks are in `docs/decision-cost.md`.

use schedlab_tests::{insns_per_switch, shipped};

/// Schedulers that look at every task of a queue for a pick, as Linux 2.4 did. All others are O(1).
const SCANNING: [&str; 3] = ["hamq", "libenzi", "vanilla"];

#[test]
fn decisions_cost_the_same_with_many_tasks_where_they_should() {
    let mut findings = Vec::new();
    for (name, object) in shipped() {
        let (few, many) = (insns_per_switch(&name, &object, 10), insns_per_switch(&name, &object, 1000));
        let scans = SCANNING.contains(&name.as_str());
        if scans && many < 10.0 * few || !scans && many > 1.2 * few {
            findings.push(format!("{name}: {few:.0} instructions with 10 tasks, {many:.0} with 1000"));
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
