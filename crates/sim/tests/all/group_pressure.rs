//! Pressure of groups: for how long their tasks waited for a CPU.

use crate::common::*;
use schedlab_base::DurationNs;
use schedlab_trace::{CpuPressure, GroupRecord};
use schedlab_workload::{Scenario, file};

/// A run of 1 s with these groups, tasks and changes.
fn of(groups: &str, tasks: &[(&str, &str, u32, &str)], changes: &str) -> Scenario {
    let mut text = format!("name = \"pressure\"\nend = \"1s\"\nchanges = [ {changes} ]\n{groups}");
    text.push_str("[objects]\ndisk = { kind = \"disk\" }\n[programs]\nhog = [ \"repeat forever\", \"run 1ms\", \"done\" ]\n");
    text.push_str("sleeper = [ \"repeat forever\", \"run 100us\", \"sleep 10ms\", \"done\" ]\n");
    text.push_str("reader = [ \"repeat forever\", \"run 100us\", \"io disk 10ms\", \"done\" ]\n");
    for (program, group, count, more) in tasks {
        let name = format!("{program}-{}", group.replace('/', "-"));
        text.push_str(&format!("[[tasks]]\nname = \"{name}\"\nprogram = \"{program}\"\ncount = {count}\n"));
        text.push_str(&format!("group = \"{group}\"\n{more}\n"));
    }
    file::parse(&text, "pressure.toml").unwrap()
}

fn names(names: &[&str]) -> String {
    names.iter().map(|name| format!("[[groups]]\nname = \"{name}\"\n")).collect()
}

fn pressure(groups: &[GroupRecord], name: &str) -> Option<CpuPressure> {
    groups.iter().find(|group| group.name == name).unwrap().pressure
}

/// Some and full of a group, in ms.
fn both(groups: &[GroupRecord], name: &str) -> (u64, u64) {
    let pressure = pressure(groups, name).unwrap();
    (pressure.some.0 / 1_000_000, pressure.full.0 / 1_000_000)
}

fn near((some, full): (u64, u64), wanted: (u64, u64)) -> bool {
    some.abs_diff(wanted.0) <= 15 && full.abs_diff(wanted.1) <= 15
}

#[test]
fn one_of_two_tasks_always_waits_and_a_group_without_the_cpu_waits_in_full() {
    let scenario = of(&names(&["a", "b/c"]), &[("hog", "a", 2, ""), ("hog", "b/c", 1, "")], "");
    let groups = fair(1, &scenario).groups;
    assert!(near(both(&groups, "a"), (1_000, 500)), "{:?}", both(&groups, "a"));
    for name in ["b", "b/c"] {
        assert!(near(both(&groups, name), (500, 500)), "{name}: {:?}", both(&groups, name));
    }
    let groups = ext(1, &scenario, Minimal::new()).groups;
    let (some, full) = both(&groups, "a");
    assert!(some > 985 && full < 500, "{some} and {full}");
}

#[test]
fn a_group_that_has_what_it_wants_has_no_pressure() {
    let scenario = of(&names(&["a", "b"]), &[("hog", "a", 1, ""), ("sleeper", "b", 1, "")], "");
    let groups = fair(2, &scenario).groups;
    assert!(near(both(&groups, "a"), (0, 0)) && near(both(&groups, "b"), (0, 0)), "{groups:?}");
}

#[test]
fn a_throttled_task_wants_the_cpu() {
    let bound = "[[groups]]\nname = \"a/b\"\ncpu_max = \"20ms/100ms\"\n";
    let groups = fair(2, &of(bound, &[("hog", "a/b", 1, "")], "")).groups;
    let used = groups.iter().find(|group| group.name == "a/b").unwrap().cpu_time.0 / 1_000_000;
    assert!((180..=230).contains(&used), "{used}");
    // All the time that it did not run.
    let wanted = (1_000 - used, 1_000 - used);
    for name in ["a", "a/b"] {
        assert!(near(both(&groups, name), wanted), "{name}: {:?}", both(&groups, name));
    }
}

#[test]
fn cpus_count_by_how_long_they_had_something_to_do() {
    let pinned = |cpu: u32| format!("cpus = [{cpu}]");
    let (first, second) = (pinned(0), pinned(1));
    // One CPU has a hog, the other two of them or a task that sleeps.
    let tasks = [("hog", "a/x", 2, first.as_str()), ("hog", "a/y", 1, second.as_str())];
    let groups = fair(2, &of(&names(&["a/x", "a/y"]), &tasks, "")).groups;
    assert!(near(both(&groups, "a"), (500, 0)), "{:?}", both(&groups, "a"));
    for (program, some) in [("sleeper", 990), ("reader", 500)] {
        let tasks = [("hog", "a/x", 2, first.as_str()), (program, "a/y", 1, second.as_str())];
        let groups = fair(2, &of(&names(&["a/x", "a/y"]), &tasks, "")).groups;
        assert!(near(both(&groups, "a"), (some, 0)), "{program}: {:?}", both(&groups, "a"));
    }
}

#[test]
fn pressure_follows_tasks_that_move_and_groups_that_come_and_go() {
    let mut groups = names(&["a"]);
    for name in ["late", "never"] {
        groups.push_str(&format!("[[groups]]\nname = \"{name}\"\nlater = true\n"));
    }
    let changes = "\"200ms cgroup late make\", \"200ms group hog-a/0 late\", \"200ms group hog-a/1 late\", \
                   \"600ms group hog-a/0 a\", \"600ms group hog-a/1 a\", \"600ms cgroup late remove\"";
    let groups = fair(1, &of(&groups, &[("hog", "a", 2, "")], changes)).groups;
    assert!(near(both(&groups, "a"), (600, 0)), "{:?}", both(&groups, "a"));
    assert!(near(both(&groups, "late"), (400, 0)), "{:?}", both(&groups, "late"));
    assert_eq!(pressure(&groups, "never"), None);
    assert!(pressure(&groups, "a").unwrap().full < DurationNs::from_ms(15));
}
