//! Sub-schedulers: one object as parent and as child, over groups of a workload.

use crate::common;
use schedlab_base::{DurationNs, Machine};
use schedlab_scx::{BpfScheduler, EngineChoice, LoadOptions, run};
use schedlab_sim::{Class, Config, RunResult, SimError};
use schedlab_trace::ExitKind;
use schedlab_workload::file;

const LOAD: &str = r#"name = "subs"
end = "100ms"
changes = [ CHANGES ]

[[groups]]
name = "a"

[[groups]]
name = "a/b"
cpu_weight = 300

[[groups]]
name = "c"

[programs]
hog = [ "run 1s" ]

[[tasks]]
name = "x"
program = "hog"
count = 2
group = "a/b"

[[tasks]]
name = "y"
program = "hog"
count = 2
group = "c"
"#;

fn load(settings: &[(&str, &str)], machine: &Machine, engine: EngineChoice) -> Option<BpfScheduler> {
    let bytes = common::object("subs")?;
    let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let options = LoadOptions { settings, engine, ..LoadOptions::default() };
    Some(BpfScheduler::load("subs", &bytes, &options, machine).unwrap())
}

/// A run of the object with children by group, each with its settings.
fn attached(
    cpus: usize,
    changes: &str,
    parent: &[(&str, &str)],
    children: &[(&str, &[(&str, &str)])],
) -> Option<Result<RunResult<BpfScheduler>, SimError>> {
    let machine = Machine::uniform("test", cpus);
    let scenario = file::parse(&LOAD.replace("CHANGES", changes), "subs.toml").unwrap();
    let mut results = Vec::new();
    for engine in [EngineChoice::Compiled, EngineChoice::Interpreted] {
        let mut root = load(parent, &machine, engine)?;
        for (number, (group, settings)) in children.iter().enumerate() {
            let who = (number + 1).to_string();
            let mut settings = settings.to_vec();
            settings.push(("who", &who));
            root.add_sub(group, DurationNs::from_ms(10), load(&settings, &machine, engine)?).unwrap();
        }
        let config = Config { checkers: true, ..Config::new(machine.clone(), 1) };
        results.push(run(&config, &scenario, Class::Ext(root)));
    }
    let [compiled, interpreted] = <[_; 2]>::try_from(results).unwrap();
    if let (Ok(compiled), Ok(interpreted)) = (&compiled, &interpreted) {
        assert_eq!(compiled.trace_hash, interpreted.trace_hash, "the engines agree");
    }
    Some(compiled)
}

/// What all of them told, in order of time.
fn told(result: &RunResult<BpfScheduler>) -> Vec<String> {
    let (messages, _) = result.scheduler.as_ref().unwrap().messages();
    messages.into_iter().map(|message| message.text).collect()
}

fn of<'a>(lines: &'a [String], who: &str) -> Vec<&'a str> {
    lines.iter().filter_map(|line| line.strip_prefix(who)?.strip_prefix(' ')).collect()
}

fn number(result: &RunResult<BpfScheduler>, name: &str) -> u64 {
    result.scheduler.as_ref().unwrap().variable(name).unwrap()
}

/// CPU time of the tasks in order, in ms.
fn times(result: &RunResult<BpfScheduler>) -> Vec<u64> {
    result.tasks.iter().map(|task| task.cpu_time.0 / 1_000_000).collect()
}

#[test]
fn a_child_takes_over_its_groups_and_tasks() {
    let Some(result) = attached(2, "", &[], &[("a", &[])]) else { return };
    let result = result.unwrap();
    let lines = told(&result);
    let begin = lines.iter().position(|line| line == "1 init 2").unwrap();
    let expected = [
        "1 init 2",
        "0 attach 2 /a",
        "0 granted 0",
        "1 group 2",
        "1 group 4",
        "0 group_exit 4",
        "0 group_exit 2",
        "1 init_task 1001",
        "1 init_task 1002",
        "0 disable 1001",
        "0 exit_task 1001",
        "1 enable 1001",
        "0 disable 1002",
        "0 exit_task 1002",
        "1 enable 1002",
        "1 caps 3 now 3",
        "1 ecaps 0 3",
        "1 ecaps 1 3",
        "1 group_exit 4",
        "1 group_exit 2",
        "0 group 2",
        "0 group 4",
        "0 init_task 1001",
        "1 disable 1001",
        "1 exit_task 1001",
        "0 enable 1001",
        "0 init_task 1002",
        "1 disable 1002",
        "1 exit_task 1002",
        "0 enable 1002",
        "0 detach 2",
        "1 exit 64",
    ];
    assert_eq!(lines[begin..begin + expected.len()], expected);
    assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
    assert_eq!((result.subs[0].refused, result.subs[0].exit.kind), (None, ExitKind::Unreg));
    assert!(number(&result, "nr_found") > 20, "the parent has its child dispatch");
    assert!(times(&result).iter().all(|ms| (45..=55).contains(ms)), "{:?}", times(&result));
}

#[test]
fn schedulers_nest_and_each_group_has_the_nearest() {
    let Some(result) = attached(2, "", &[], &[("a", &[]), ("a/b", &[]), ("c", &[])]) else { return };
    let result = result.unwrap();
    let lines = told(&result);
    assert!(
        of(&lines, "0").contains(&"attach 2 /a") && of(&lines, "0").contains(&"attach 3 /c"),
        "{lines:#?}"
    );
    assert!(of(&lines, "1").contains(&"attach 4 /a/b"), "{lines:#?}");
    assert!(
        of(&lines, "2").contains(&"enable 1001") && of(&lines, "3").contains(&"enable 1003"),
        "{lines:#?}"
    );
    // The child of a child goes before its parent does.
    let exits: Vec<&String> = lines.iter().filter(|line| line.contains(" exit ")).collect();
    assert_eq!(exits, ["3 exit 64", "2 exit 64", "1 exit 64", "0 exit 64"]);
    assert!(times(&result).iter().all(|ms| (40..=60).contains(ms)), "{:?}", times(&result));
}

#[test]
fn a_child_that_fails_goes_alone() {
    for (setting, kind, message) in
        [("fail_at", ExitKind::ErrorBpf, "it fails"), ("kill_at", ExitKind::ParentKill, "not wanted")]
    {
        let (parent, child): (&[_], &[_]) = match setting {
            "fail_at" => (&[], &[("fail_at", "5")]),
            _ => (&[("kill_at", "20")], &[]),
        };
        let Some(result) = attached(2, "", parent, &[("a", child), ("c", &[])]) else { return };
        let result = result.unwrap();
        assert_eq!(result.exit.kind, ExitKind::None, "{setting}: {:?}", result.exit);
        assert_eq!(result.subs[0].exit.kind, kind, "{setting}");
        assert!(result.subs[0].exit.message.starts_with(message), "{:?}", result.subs[0].exit);
        assert_eq!(result.subs[1].exit.kind, ExitKind::Unreg, "the other one stays");
        let lines = told(&result);
        let left = lines.iter().position(|line| line.starts_with("1 exit ")).unwrap();
        assert!(lines[..left].contains(&"0 detach 2".to_string()), "{lines:#?}");
        assert!(times(&result).iter().all(|ms| (35..=65).contains(ms)), "{setting}: {:?}", times(&result));
    }
}

#[test]
fn a_parent_that_leaves_takes_its_children_along() {
    let Some(result) = attached(2, "", &[("fail_at", "50")], &[("a", &[]), ("a/b", &[])]) else { return };
    let result = result.unwrap();
    assert_eq!(result.exit.kind, ExitKind::ErrorBpf, "{:?}", result.exit);
    assert!(result.subs.iter().all(|sub| sub.exit.kind == ExitKind::Parent), "{:?}", result.subs);
    assert_eq!(result.subs[0].exit.reason, "parent exiting");
}

#[test]
fn a_child_has_the_cpus_that_it_is_granted_and_no_others() {
    // On CPU 1 alone, and it puts its tasks on the queue of the CPU that they are on.
    for (direct, rejected) in [("0", false), ("1", true)] {
        let Some(result) = attached(2, "", &[("grant_cids", "2")], &[("a", &[("direct", direct)])]) else {
            return;
        };
        let result = result.unwrap();
        let lines = told(&result);
        let effective: Vec<&str> =
            of(&lines, "1").into_iter().filter(|line| line.starts_with("ecaps")).collect();
        assert_eq!(effective, ["ecaps 1 3"], "direct {direct}");
        assert_eq!(result.subs[0].exit.kind, ExitKind::Unreg, "direct {direct}: {:?}", result.subs[0].exit);
        let child = result.scheduler.as_ref().unwrap().sub_scheduler(0).unwrap();
        let again = child.variable("nr_reenqueued").unwrap();
        assert_eq!(again > 0, rejected, "direct {direct}: {again} tasks were rejected");
        let times = times(&result);
        // Its two tasks share one CPU, of which those of the parent may have a part.
        assert!(times[0] + times[1] <= 110 - 5 && times[0] + times[1] > 60, "{times:?}");
    }
}

/// SCX_ENQ_RESCUE: a task on a CPU that the child lacks has a fiftieth of it, and does not go back.
#[test]
fn a_stranded_task_is_rescued() {
    let rescue = (1u64 << 34).to_string();
    let child = [("direct", "1"), ("insert_flags", rescue.as_str())];
    let Some(result) = attached(2, "", &[("grant_cids", "2")], &[("a", &child)]) else { return };
    let result = result.unwrap();
    assert_eq!(result.subs[0].exit.kind, ExitKind::Unreg, "{:?}", result.subs[0].exit);
    assert!(result.subs[0].events.sub_rescue > 0, "{:?}", result.subs[0].events);
    let child = result.scheduler.as_ref().unwrap().sub_scheduler(0).unwrap();
    assert_eq!(child.variable("nr_reenqueued").unwrap(), 0);
}

#[test]
fn without_rights_a_child_runs_nothing_until_it_is_thrown_out() {
    let Some(result) = attached(2, "", &[("revoke_at", "60")], &[("a", &[])]) else { return };
    let result = result.unwrap();
    let lines = told(&result);
    let own = of(&lines, "1");
    assert!(own.contains(&"caps 3 now 0") && own.contains(&"ecaps 0 48"), "{own:#?}");
    let times = times(&result);
    assert!(times[0] < 45 && times[2] > 55, "{times:?}");
}

#[test]
fn attempts_that_the_kernel_refuses_are_refused_with_its_numbers() {
    let (busy, missing) = (Some(16), Some(2));
    let Some(result) = attached(2, "", &[], &[("a", &[]), ("a", &[]), ("nowhere", &[])]) else { return };
    let refused: Vec<Option<i32>> = result.unwrap().subs.iter().map(|sub| sub.refused).collect();
    assert_eq!(refused, [None, busy, missing]);
    for (parent, child, words) in [
        (&[("attach_error", "-11")][..], &[][..], "parent rejected (-11)"),
        (&[], &[("init_error", "-12")], "ops.init() failed (-12)"),
        (&[], &[("task_error", "-13")], "ops.init_task() failed (-13) for x/0[1001]"),
        (&[], &[("ops.flags", "256")], "SCX_OPS_TID_TO_TASK requires root scheduler to enable it"),
    ] {
        let Some(result) = attached(2, "", parent, &[("a", child)]) else { return };
        let result = result.unwrap();
        assert_eq!(result.subs[0].exit.kind, ExitKind::Error, "{words}");
        assert_eq!(result.subs[0].exit.message, words);
        assert_eq!(result.exit.kind, ExitKind::None, "{words}: the parent stays");
        assert!(times(&result).iter().all(|ms| (45..=55).contains(ms)), "{words}: {:?}", times(&result));
    }
}

#[test]
fn tasks_that_change_groups_change_schedulers() {
    let moves = r#""40ms group x/0 c", "50ms group y/0 a/b""#;
    let Some(result) = attached(2, moves, &[], &[("a", &[]), ("c", &[])]) else { return };
    let result = result.unwrap();
    let lines = told(&result);
    let at = lines.iter().position(|line| line == "2 init_task 1001").unwrap();
    let expected = ["2 init_task 1001", "1 disable 1001", "1 exit_task 1001", "2 enable 1001"];
    assert_eq!(lines[at..at + 4], expected);
    assert!(lines.contains(&"1 enable 1003".into()), "{lines:#?}");
    let hogs = &times(&result)[..4];
    assert!(hogs.iter().all(|ms| (35..=65).contains(ms)), "{hogs:?}");
}

#[test]
fn the_parent_is_told_of_the_files_at_the_point_of_attachment() {
    let changes = r#""40ms cgroup a weight 200", "50ms cgroup a/b weight 50""#;
    let Some(result) = attached(2, changes, &[], &[("a", &[])]) else { return };
    let lines = told(&result.unwrap());
    assert!(of(&lines, "0").contains(&"weight 2 200"), "{lines:#?}");
    assert!(of(&lines, "1").contains(&"weight 4 50"), "{lines:#?}");
}

#[test]
fn what_is_no_cid_form_is_refused_by_name() {
    let machine = Machine::uniform("test", 2);
    let Some(bytes) = common::object("groups") else { return };
    let other = BpfScheduler::load("groups", &bytes, &LoadOptions::default(), &machine).unwrap();
    let Some(mut root) = load(&[], &machine, EngineChoice::Compiled) else { return };
    let error = root.add_sub("a", DurationNs::ZERO, other).unwrap_err().to_string();
    assert!(error.contains("group `a`") && error.contains("cid form"), "{error}");
}
