//! What schedulers learn of groups, in which order, and what they find when they ask.

use crate::common;
use schedlab_base::Machine;
use schedlab_scx::{BpfScheduler, EngineChoice, LoadOptions, run};
use schedlab_sim::{Class, Config, RunResult};
use schedlab_trace::ExitKind;
use schedlab_workload::file;

/// Three nested groups and one beside them, a task in two of them, and what changes while they run.
const TREE: &str = r#"name = "tree"
end = "40ms"
changes = [ CHANGES ]

[[groups]]
name = "a"
cpu_weight = 300

[[groups]]
name = "a/b"
cpu_max = "50ms/100ms"
cpu_max_burst = "10ms"

[[groups]]
name = "a/b/c"
cpu_idle = true

[[groups]]
name = "d"

[[groups]]
name = "late"
cpu_weight = 7
cpu_max = "2ms/10ms"
later = true

[programs]
hog = [ "run 100ms" ]

[[tasks]]
name = "x"
program = "hog"
group = "a/b/c"

[[tasks]]
name = "y"
program = "hog"
group = "d"
"#;

/// The run of an object on the tree, whose scheduler leaves at the end.
fn on_tree(
    name: &str,
    changes: &str,
    settings: &[(&str, &str)],
    machine: Machine,
) -> Option<RunResult<BpfScheduler>> {
    let bytes = common::object(name)?;
    let text = TREE.replace("CHANGES", changes);
    let scenario = file::parse(&text, "tree.toml").unwrap();
    let [compiled, interpreted] = [EngineChoice::Compiled, EngineChoice::Interpreted].map(|engine| {
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let options = LoadOptions { settings, engine, ..LoadOptions::default() };
        let scheduler = BpfScheduler::load(name, &bytes, &options, &machine).unwrap();
        let config = Config { checkers: true, ..Config::new(machine.clone(), 1) };
        run(&config, &scenario, Class::Ext(scheduler)).unwrap()
    });
    assert_eq!(lines(&compiled), lines(&interpreted), "the engines agree");
    assert_eq!(compiled.trace_hash, interpreted.trace_hash);
    let scheduler = compiled.scheduler.as_ref().unwrap();
    assert_eq!(scheduler.variable("nr_wrong").unwrap(), 0, "{:#?}", lines(&compiled));
    Some(compiled)
}

fn told(changes: &str, settings: &[(&str, &str)]) -> Option<Vec<String>> {
    let result = on_tree("groups", changes, settings, Machine::uniform("test", 2))?;
    assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
    Some(lines(&result))
}

fn lines(result: &RunResult<BpfScheduler>) -> Vec<String> {
    let (messages, _) = result.scheduler.as_ref().unwrap().messages();
    messages.iter().map(|message| message.text.clone()).collect()
}

/// The lines that begin with one of these words.
fn of<'a>(lines: &'a [String], words: &[&str]) -> Vec<&'a str> {
    let begins = |line: &&str| words.iter().any(|word| line.split(' ').next() == Some(*word));
    lines.iter().map(String::as_str).filter(begins).collect()
}

#[test]
fn groups_come_before_tasks_and_go_before_them() {
    let Some(lines) = told("", &[]) else { return };
    let expected = [
        "init 1 weight 100 idle 0",
        "init 1 max -1 burst 0",
        "init 1 name ",
        "init 2 weight 300 idle 0",
        "init 2 max -1 burst 0",
        "init 2 name a",
        "init 4 weight 100 idle 0",
        "init 4 max 50000 burst 10000",
        "init 4 name b",
        "init 5 weight 100 idle 1",
        "init 5 max -1 burst 0",
        "init 5 name c",
        "init 3 weight 100 idle 0",
        "init 3 max -1 burst 0",
        "init 3 name d",
        "init task 1001 in 5",
        "init task 1002 in 3",
        "exit 5",
        "exit 4",
        "exit 2",
        "exit 3",
        "exit 1",
        "exit task 1001",
        "exit task 1002",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn writing_a_cpuset_and_the_number_of_groups_are_seen() {
    let changes = r#""10ms cgroup a cpus 0", "15ms cgroup late make", "20ms cgroup late cpus 0-1", "30ms cgroup late remove""#;
    let Some(lines) = told(changes, &[]) else { return };
    let expected = ["cpus 0", "below 5 of 2147483647", "cpus 0-1", "below 4"];
    assert_eq!(of(&lines, &["cpus", "below"]), expected);
}

#[test]
fn a_move_is_prepared_made_and_traced() {
    let changes = r#""10ms group x d", "20ms group x d", "30ms group x /""#;
    let Some(lines) = told(changes, &[]) else { return };
    let expected = [
        "prepare 1001 from 5 to 3",
        "move 1001 from 5 to 3",
        "attach 1001 to 3 at /d",
        "prepare 1001 from 3 to 1",
        "move 1001 from 3 to 1",
        "attach 1001 to 1 at /",
    ];
    assert_eq!(of(&lines, &["prepare", "move", "attach"]), expected);
    // A move that the scheduler refuses does not happen, and no other callback hears of it.
    let Some(lines) = told(changes, &[("bad_move", "3")]) else { return };
    let expected = [
        "prepare 1001 from 5 to 3",
        "prepare 1001 from 5 to 3",
        "prepare 1001 from 5 to 1",
        "move 1001 from 5 to 1",
        "attach 1001 to 1 at /",
    ];
    assert_eq!(of(&lines, &["prepare", "move", "attach"]), expected);
}

#[test]
fn writes_are_told_when_they_change_something() {
    let changes = r#""1ms cgroup d weight 100", "2ms cgroup d weight 400", "3ms cgroup d max 5ms/20ms", "4ms cgroup d burst 1ms",
        "5ms cgroup d idle 1", "6ms cgroup d weight 50", "7ms cgroup d idle 0", "8ms cgroup d max max", "9ms cgroup d weight 400""#;
    let Some(lines) = told(changes, &[]) else { return };
    let expected = [
        "weight 3 is 400",
        "max 3 is 5000 of 20000",
        "burst 3 is 0",
        "max 3 is 5000 of 20000",
        "burst 3 is 1000",
        "idle 3 is 1",
        "idle 3 is 0",
        "max 3 is -1 of 20000",
        "burst 3 is 1000",
    ];
    // While a group is idle, its weight cannot be written. sched_ext keeps the last weight, so 400 at the end is no change.
    assert_eq!(of(&lines, &["weight", "max", "burst", "idle"]), expected);
}

#[test]
fn groups_appear_and_go() {
    let changes = r#""10ms cgroup late make", "12ms group y late", "14ms cgroup late remove", "16ms group y /", "20ms cgroup late make""#;
    let Some(lines) = told(changes, &[]) else { return };
    let begin = lines.iter().position(|line| line == "init 6 weight 100 idle 0").unwrap();
    let end = lines.iter().position(|line| line == "exit 5").unwrap();
    let expected = [
        "init 6 weight 100 idle 0",
        "init 6 max -1 burst 0",
        "init 6 name late",
        "mkdir 6 /late by 1",
        "weight 6 is 7",
        "max 6 is 2000 of 10000",
        "burst 6 is 0",
        "prepare 1002 from 3 to 6",
        "move 1002 from 3 to 6",
        "attach 1002 to 6 at /late",
        "kept 1",
        "prepare 1002 from 6 to 1",
        "move 1002 from 6 to 1",
        "attach 1002 to 1 at /",
        "kept 1",
        "rmdir 6 /late below 1",
        "exit 6",
        "init 7 weight 100 idle 0",
        "init 7 max -1 burst 0",
        "init 7 name late",
        "mkdir 7 /late by 1",
        "weight 7 is 7",
        "max 7 is 2000 of 10000",
        "burst 7 is 0",
        // The task that made the changes.
        "exit task 1003",
    ];
    let found: Vec<&str> =
        lines[begin..end].iter().map(String::as_str).filter(|line| !line.starts_with("below")).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_group_that_is_gone_is_held_by_references_alone() {
    let changes = r#""10ms group x d", "12ms cgroup a/b/c remove", "14ms group y /""#;
    for (keeps, found) in [("1", "kept 1"), ("0", "kept 0")] {
        let Some(lines) = told(changes, &[("keeps", keeps)]) else { return };
        assert_eq!(of(&lines, &["rmdir"]), ["rmdir 5 /a/b/c below 1"]);
        assert_eq!(of(&lines, &["kept"]), ["kept 1", found], "with a reference: {keeps}");
    }
}

#[test]
fn walks_go_over_the_tree() {
    let changes = r#""10ms cgroup late make""#;
    for (order, expected) in [
        ("2", &["walk 1", "walk 2", "walk 4", "walk 5", "walk 3", "walk 6"][..]),
        ("3", &["walk 5", "walk 4", "walk 2", "walk 3", "walk 6", "walk 1"]),
        ("4", &["walk 1"]),
        ("5", &["walk 2", "walk 3", "walk 6"]),
    ] {
        for by_controller in ["0", "1"] {
            let settings = [("walk_at", "6"), ("order", order), ("by_controller", by_controller)];
            let Some(lines) = told(changes, &settings) else { return };
            assert_eq!(of(&lines, &["walk"]), expected, "order {order}");
        }
    }
}

#[test]
fn a_failure_at_the_start_ejects_and_one_of_a_new_group_does_not() {
    let machine = Machine::uniform("test", 2);
    let Some(result) = on_tree("groups", "", &[("bad_init", "4")], machine.clone()) else { return };
    assert_eq!(result.exit.kind, ExitKind::Error);
    assert!(result.exit.message.contains("ops.cgroup_init() failed (-12)"), "{:?}", result.exit);
    let lines = lines(&result);
    assert_eq!(of(&lines, &["exit"])[..2], ["exit 2", "exit 1"], "those that it was told of");
    // mkdir fails: the group is not there, and no task comes into it.
    let changes = r#""10ms cgroup late make", "12ms group y late", "14ms cgroup late make""#;
    let Some(lines) = told(changes, &[("bad_init", "6")]) else { return };
    let expected =
        ["mkdir 7 /late by 1", "exit task 1003", "exit 5", "exit 4", "exit 2", "exit 3", "exit 7", "exit 1"];
    assert_eq!(of(&lines, &["mkdir", "attach", "exit"])[..8], expected);
    // A number that is no errno.
    let settings = [("bad_init", "6"), ("bad_error", "7")];
    let Some(result) = on_tree("groups", changes, &settings, machine) else { return };
    assert!(
        result.exit.message.contains("ops.cgroup_init() returned an invalid errno 7"),
        "{:?}",
        result.exit
    );
}

#[test]
fn older_kernels_tell_less() {
    let changes = r#""1ms cgroup d weight 400", "2ms cgroup d max 5ms/20ms", "3ms cgroup d idle 1""#;
    for (version, expected) in [
        ("6.16", &["weight 3 is 400"][..]),
        ("6.17", &["weight 3 is 400", "max 3 is 5000 of 20000", "burst 3 is 0"]),
        ("6.19", &["weight 3 is 400", "max 3 is 5000 of 20000", "burst 3 is 0", "idle 3 is 1"]),
    ] {
        let mut machine = Machine::uniform("test", 2);
        machine.kernel.version = version.parse().unwrap();
        let Some(result) = on_tree("groups", changes, &[], machine) else { return };
        let lines = lines(&result);
        assert_eq!(of(&lines, &["weight", "max", "burst", "idle"]), expected, "{version}");
    }
}

#[test]
fn only_a_callback_about_a_task_may_ask_for_its_group() {
    for (asks, changes) in [("1", ""), ("2", r#""1ms group x d""#), ("4", "")] {
        let Some(result) = on_tree("groups", changes, &[("asks", asks)], Machine::uniform("test", 2)) else {
            return;
        };
        assert_eq!(result.exit.kind, ExitKind::Error, "{asks}");
        assert!(result.exit.message.contains("called on a task not being operated on"), "{:?}", result.exit);
    }
}

/// Groups of weight 100, 300 and 600 with three, one and two hogs.
const HOGS: &str = r#"name = "hogs"
end = "2s"
changes = [ CHANGES ]

[programs]
hog = [ "run 100s" ]
GROUPS"#;

/// What a group is and has, as lines of a file.
fn group_of_hogs(name: &str, weight: u32, count: u32) -> String {
    format!(
        "[[groups]]\nname = \"{name}\"\ncpu_weight = {weight}\n[[tasks]]\nname = \"{name}\"\nprogram = \"hog\"\ncount = {count}\ngroup = \"{name}\"\n"
    )
}

/// The shares of the three groups on this many CPUs.
fn shares(object: &[u8], cpus: usize, changes: &str) -> [f64; 3] {
    let groups: String =
        [("a", 100, 3), ("b", 300, 1), ("c", 600, 2)].map(|(name, w, n)| group_of_hogs(name, w, n)).concat();
    let text = HOGS.replace("CHANGES", changes).replace("GROUPS", &groups);
    let scenario = file::parse(&text, "hogs.toml").unwrap();
    let machine = Machine::uniform("test", cpus);
    let scheduler = BpfScheduler::load("by_group", object, &LoadOptions::default(), &machine).unwrap();
    let result = run(&Config::new(machine, 1), &scenario, Class::Ext(scheduler)).unwrap();
    assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
    ["a", "b", "c"].map(|name| {
        let own = result.tasks.iter().filter(|task| task.name.split('/').next() == Some(name));
        own.map(|task| task.share).sum::<f64>() / cpus as f64
    })
}

#[test]
fn a_scheduler_can_share_by_weight_of_groups() {
    let Some(object) = common::object("by_group") else { return };
    let close = |found: [f64; 3], wanted: [f64; 3], what: &str| {
        let off = found.iter().zip(&wanted).map(|(found, wanted)| (found - wanted).abs());
        assert!(off.fold(0.0, f64::max) < 0.02, "{what}: {found:.3?}, not {wanted:.3?}");
    };
    close(shares(&object, 1, ""), [0.1, 0.3, 0.6], "one CPU");
    // For half of the time a has 600 too: (0.1 + 0.4) / 2, and so on.
    let wanted = [0.25, 0.25, 0.5];
    close(shares(&object, 1, "\"1s cgroup a weight 600\""), wanted, "a weight that changes");
}

/// A wide tree of deep chains whose ends come and go, while tasks move between them and files are written.
fn storm() -> String {
    let path = |chain: usize| format!("c{chain}{}", "/n".repeat(30));
    let groups: String = (0..60)
        .map(|chain| format!("[[groups]]\nname = \"{}\"\nlater = {}\n", path(chain), chain % 3 == 2))
        .collect();
    let line = |step: usize| match step % 5 {
        0 | 1 => format!("\"group t/{} {}\"", step % 7, path(step * 7 % 60)),
        2 => format!("\"cgroup {} {}\"", path(step * 3 % 20 * 3 + 2), ["make", "remove"][step / 5 % 2]),
        3 => format!("\"cgroup c{}/n/n weight {}\"", step * 11 % 60, step + 1),
        _ => format!("\"cgroup {} max {}ms/10ms\"", path(step * 13 % 60 / 3 * 3), 1 + step % 9),
    };
    let lines: String = (0..1_000).map(|step| format!("{}, \"run 1us\", ", line(step))).collect();
    format!(
        "name = \"storm\"\nend = \"20ms\"\n{groups}[programs]\nhog = [\"run 100ms\"]\nstorm = [{lines}]\n\
         [[tasks]]\nname = \"storm\"\nprogram = \"storm\"\npolicy = \"fifo:1\"\n\
         [[tasks]]\nname = \"t\"\nprogram = \"hog\"\ncount = 7\ngroup = \"{}\"\n",
        path(0)
    )
}

#[test]
fn a_storm_of_changes_reaches_every_callback_and_walk() {
    let Some(object) = common::object("storm") else { return };
    let machine = Machine::uniform("test", 2);
    let scenario = file::parse(&storm(), "storm.toml").unwrap();
    let hashes = [EngineChoice::Compiled, EngineChoice::Interpreted].map(|engine| {
        let options = LoadOptions { engine, ..LoadOptions::default() };
        let scheduler = BpfScheduler::load("storm", &object, &options, &machine).unwrap();
        let config = Config { checkers: true, ..Config::new(machine.clone(), 1) };
        let result = run(&config, &scenario, Class::Ext(scheduler)).unwrap();
        assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
        let scheduler = result.scheduler.as_ref().unwrap();
        let value = |name: &str| scheduler.variable(name).unwrap();
        assert_eq!(value("nr_wrong"), 0);
        // 40 chains of 31 groups and 20 of 30 are there at the start, with the root, and some ends appear later.
        assert!(value("nr_init") > 40 * 31 + 20 * 30, "{}", value("nr_init"));
        assert!(value("nr_moves") > 100 && value("nr_changes") > 200 && value("nr_visited") > 50_000);
        result.trace_hash
    });
    assert_eq!(hashes[0], hashes[1], "the engines agree");
}
