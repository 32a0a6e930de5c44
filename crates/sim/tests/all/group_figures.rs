//! Groups of tasks: what they are given, and what is counted of them.

use crate::common::*;
use schedlab_base::DurationNs;
use schedlab_trace::GroupRecord;
use schedlab_workload::{Scenario, file};

/// Hogs and tasks that sleep, of which some move, end and fork.
const MOVES: &str = r#"name = "moves"
end = "500ms"
changes = [ "50ms cgroup late make", "60ms group hog/0 late", "200ms cgroup late remove", "300ms group hog/0 /" ]
[[groups]]
name = "a/b"
[[groups]]
name = "c"
cpu_max = "20ms/100ms"
[[groups]]
name = "late"
later = true
[programs]
hog = [ "repeat forever", "run 1ms", "done" ]
sleeper = [ "repeat forever", "run 300us", "sleep 1ms", "done" ]
child = [ "run 5ms" ]
parent = [ "repeat 10", "fork child", "wait-child", "sleep 5ms", "done" ]
[[tasks]]
name = "hog"
program = "hog"
count = 2
group = "a/b"
[[tasks]]
name = "sleeper"
program = "sleeper"
count = 3
group = "a/b"
[[tasks]]
name = "parent"
program = "parent"
group = "c"
[[tasks]]
name = "outside"
program = "sleeper"
"#;

fn read(text: &str) -> Scenario {
    file::parse(text, "groups.toml").unwrap()
}

fn group<'a>(groups: &'a [GroupRecord], name: &str) -> &'a GroupRecord {
    groups.iter().find(|group| group.name == name).unwrap()
}

#[test]
fn the_time_of_groups_and_of_tasks_outside_is_that_of_all_tasks() {
    for cpus in [1, 2] {
        let result = fair(cpus, &read(MOVES));
        let of = |name: &str| group(&result.groups, name).cpu_time;
        assert_eq!(of("a"), of("a/b"));
        assert!(of("late") > ms(50), "{}", of("late"));
        assert!(of("c") > ms(40) && of("c") < ms(110), "{}", of("c"));
        let all: u64 = result.tasks.iter().map(|task| task.cpu_time.0).sum();
        let outside = result.tasks.iter().filter(|task| task.name == "outside" || task.name == "changes");
        let outside: u64 = outside.map(|task| task.cpu_time.0).sum();
        let groups = (of("a") + of("c") + of("late")).0 + outside;
        // From 300 ms on hog/0 is in the root.
        assert!(groups < all && all - groups < ms(200).0, "{groups} of {all} on {cpus}");
        assert!(result.groups.iter().all(|group| group.entitled.is_none()));
    }
}

#[test]
fn busy_groups_get_their_part_by_weight_on_one_cpu() {
    let text = r#"name = "weights"
end = "3s"
[[groups]]
name = "a/x"
[[groups]]
name = "a/y"
cpu_weight = 400
[[groups]]
name = "b"
cpu_weight = 300
[programs]
hog = [ "repeat forever", "run 1ms", "done" ]
[[tasks]]
name = "x"
program = "hog"
count = 2
group = "a/x"
[[tasks]]
name = "y"
program = "hog"
group = "a/y"
[[tasks]]
name = "b"
program = "hog"
group = "b"
"#;
    let groups = fair(1, &read(text)).groups;
    for (name, part) in [("a", 0.25), ("a/x", 0.2), ("a/y", 0.8), ("b", 0.75)] {
        let group = group(&groups, name);
        assert_eq!(group.entitled, Some(part), "{name}");
        assert!((group.share - part).abs() < 0.01, "{name}: {}", group.share);
        assert!(group.run_delay > DurationNs::from_ms(500), "{name}: {}", group.run_delay);
    }
}

#[test]
fn a_burst_above_the_quota_is_refused_whichever_is_written() {
    let text = r#"name = "burst"
end = "100ms"
changes = [ "10ms cgroup a max 5ms/100ms", "20ms cgroup b burst 30ms" ]
[[groups]]
name = "a"
cpu_max = "20ms/100ms"
cpu_max_burst = "10ms"
[[groups]]
name = "b"
cpu_max = "20ms/100ms"
[programs]
hog = [ "repeat forever", "run 1ms", "done" ]
[[tasks]]
name = "hog"
program = "hog"
group = "a"
"#;
    let groups = fair(1, &read(text)).groups;
    assert_eq!((group(&groups, "a").quota, group(&groups, "b").burst), (Some((ms(20), ms(100))), ms(0)));
}
