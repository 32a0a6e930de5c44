//! Tests of the rt-app reader.

use super::*;
use crate::cursor::Cursor;

const EXAMPLE: &str = r#"
{ "global": { "duration": 10, "calibration": "CPU0", "default_policy": "SCHED_OTHER" },
  "tasks": {
    "periodic": { "loop": 500, "run": 5000, "timer": { "ref": "tick", "period": 20000 } },
    "hog":      { "instance": 2, "run": 100000, "priority": 5, "cpus": [0, 2] } } }
"#;

pub(super) fn error(text: &str) -> String {
    parse(text, "f.json", None).unwrap_err().to_string()
}

pub(super) fn tasks(body: &str) -> String {
    format!("{{ \"tasks\": {{ {body} }} }}")
}

#[test]
fn the_manuals_shape_is_read() {
    let scenario = parse(EXAMPLE, "f.json", None).unwrap();
    let names: Vec<&str> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["periodic", "hog/0", "hog/1"]);
    assert_eq!(scenario.end, End::After(DurationNs::from_secs(10)));
    assert_eq!(scenario.tasks[1].nice.get(), 5);
    assert_eq!(scenario.tasks[1].affinity.as_ref().unwrap().count(), 2);
    let period = DurationNs::from_ms(20);
    let wait = Op::TimerWait { timer: TimerSlot(0), period, absolute: false };
    assert_eq!(scenario.programs[0].ops()[2..4], [Op::Run(DurationNs::from_ms(5)), wait]);
}

#[test]
fn phases_duplicates_and_suffixes_keep_their_order() {
    let text = tasks(
        r#""t": { "loop": 1, "phases": {
            "a": { "loop": 2, "run0": 1, "sleep": 2, "run1": 3, "run1": 4 }, // twice
            "b": { "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m", "yield": "" } } }"#,
    );
    let scenario = parse(&text, "f.json", None).unwrap();
    assert_eq!(scenario.end, End::AllExit);
    let us = DurationNs::from_us;
    let mut cursor = Cursor::start();
    let walked: Vec<Op> = std::iter::from_fn(|| match cursor.next(&scenario.programs[0]) {
        Op::Exit => None,
        op => Some(op),
    })
    .filter(|op| !matches!(op, Op::SpanBegin(_) | Op::SpanEnd(_) | Op::Count { .. }))
    .collect();
    let round = [Op::Run(us(1)), Op::Sleep(us(2)), Op::Run(us(3)), Op::Run(us(4))];
    assert_eq!((walked[..4].to_vec(), walked[4..8].to_vec()), (round.to_vec(), round.to_vec()));
    let (cond, lock) = (CondId(0), LockId(0));
    assert_eq!(walked[8..], [Op::Lock(lock), Op::CondWait { cond, lock }, Op::Unlock(lock), Op::Yield]);
}

#[test]
fn barriers_count_their_parties() {
    let text =
        tasks(r#""a": { "loop": 1, "instance": 3, "barrier": "b" }, "c": { "loop": 1, "barrier": "b" }"#);
    assert_eq!(parse(&text, "f.json", None).unwrap().barriers, [4]);
}

/// What a task does in one pass, without what measures it.
pub(super) fn steps(scenario: &Scenario, program: usize) -> Vec<Op> {
    let free = |op: &Op| matches!(op, Op::SpanBegin(_) | Op::SpanEnd(_) | Op::Count { .. });
    let mut cursor = Cursor::start();
    std::iter::from_fn(|| Some(cursor.next(&scenario.programs[program])).filter(|op| *op != Op::Exit))
        .filter(|op| !free(op))
        .collect()
}

/// The same, with what `Set` sets in its place.
fn settings_of(scenario: &Scenario, program: usize) -> Vec<String> {
    let told = |op: &Op| match op {
        Op::Set { task: None, change } => match scenario.changes[change.index()] {
            Attribute::Affinity(mask) if mask.count() == MAX_CPUS => "cpus all".to_string(),
            Attribute::Affinity(mask) => format!("cpu {}", mask.lowest().unwrap().0),
            Attribute::Nice(nice) => format!("nice {}", nice.get()),
            Attribute::Policy(policy) => format!("{policy:?}"),
            other => panic!("{other:?} is no attribute of a phase"),
        },
        Op::Run(span) => format!("run {}", span.0 / 1000),
        op => format!("{op:?}"),
    };
    steps(scenario, program).iter().map(told).collect()
}

#[test]
fn phases_have_their_own_cpus() {
    let phases = r#""phases": { "a": { "cpus": [0], "run": 1 }, "b": { "cpus": [1], "run": 2 }, "c": { "run": 3 },
                                "d": { "run": 4 } }"#;
    let text =
        tasks(&format!(r#""t": {{ "loop": 2, "cpus": [2], {phases} }}, "u": {{ "loop": 1, {phases} }}"#));
    let scenario = parse(&text, "f.json", None).unwrap();
    let once = ["cpu 0", "run 1", "cpu 1", "run 2", "cpu 2", "run 3", "run 4"];
    assert_eq!(settings_of(&scenario, 0), [once, once].concat());
    assert_eq!(settings_of(&scenario, 1)[4..6], ["cpus all", "run 3"]);
    // Nothing is set where no phase has CPUs of its own.
    let text =
        tasks(r#""t": { "loop": 1, "cpus": [2], "phases": { "a": { "run": 1 }, "b": { "run": 2 } } }"#);
    assert_eq!(settings_of(&parse(&text, "f.json", None).unwrap(), 0), ["run 1", "run 2"]);
}

#[test]
fn phases_set_policy_and_priority_for_all_that_follow() {
    let text = tasks(
        r#""t": { "loop": 1, "priority": 3, "phases": {
            "a": { "run": 1 }, "b": { "policy": "SCHED_FIFO", "run": 2 }, "c": { "priority": 20, "run": 3 },
            "d": { "policy": "SCHED_OTHER", "run": 4 }, "e": { "priority": 5, "run": 5 } } }"#,
    );
    let scenario = parse(&text, "f.json", None).unwrap();
    assert_eq!(scenario.tasks[0].nice.get(), 3);
    let expected = [
        "run 1", "Fifo(10)", "run 2", "Fifo(20)", "run 3", "Other", "nice 0", "run 4", "Other", "nice 5",
        "run 5",
    ];
    assert_eq!(settings_of(&scenario, 0), expected);
    let text =
        tasks(r#""t": { "loop": 1, "phases": { "a": { "run": 1 }, "b": { "priority": 5, "run": 2 } } }"#);
    assert_eq!(settings_of(&parse(&text, "f.json", None).unwrap(), 0), ["run 1", "nice 5", "run 2"]);
}

#[test]
fn semaphores_remember_and_names_are_shared() {
    let text = tasks(
        r#""a": { "loop": 1, "sem_post": "s", "sem_post": "s", "resume": "b", "resume": "nobody", "signal": "b" },
           "b": { "loop": 1, "sem_wait": "s", "suspend" }"#,
    );
    let scenario = parse(&text, "f.json", None).unwrap();
    assert_eq!(scenario.semaphores, [Semaphore { kind: SemKind::Sysv, initial: 0 }]);
    let (sem, own, other) = (SemId(0), (LockId(0), CondId(0)), (LockId(1), CondId(1)));
    let resume = |(lock, cond)| [Op::Lock(lock), Op::CondBroadcast(cond), Op::Unlock(lock)];
    let post = Op::SemPost { sem, units: 1 };
    let expected = [&[post, post][..], &resume(own), &resume(other), &[Op::CondSignal(own.1)]].concat();
    assert_eq!(steps(&scenario, 0), expected);
    let suspend = [Op::Lock(own.0), Op::CondWait { cond: own.1, lock: own.0 }, Op::Unlock(own.0)];
    assert_eq!(steps(&scenario, 1), [&[Op::SemWait(sem)][..], &suspend].concat());
}

#[test]
fn memrun_walks_whole_buffers_and_the_rest() {
    let ops = |event: &str| {
        let text = tasks(&format!(r#""t": {{ "loop": 1, "memrun_x": {{ {event} }} }}"#));
        let kib = |op| if let Op::Touch { kib } = op { kib } else { panic!("{op:?}") };
        steps(&parse(&text, "f.json", None).unwrap(), 0).into_iter().map(kib).collect::<Vec<_>>()
    };
    assert_eq!(ops(r#""type": "read", "size": 4096, "count": 10240"#), [4, 4, 2]);
    assert_eq!(ops(r#""type": "write", "size": 4096, "count": 100, "ref": "b""#), [1]);
    // 100,000 bytes hold 1,562 strides of 64, of which 1,024 are used: 64 KiB; 1,025 steps are 65 of them.
    assert_eq!(ops(r#""type": "chase", "size": 100000, "count": 1025"#), [64, 1]);
    // A stride of 4 KiB touches a line each: 8 places are half a KiB.
    let sparse = r#""type": "chase", "size": 32768, "stride": 4096, "count": 32, "pattern": "sequential""#;
    assert_eq!(ops(sparse), [1, 1]);
    assert_eq!(ops(r#""type": "read", "size": 4096, "count": 0"#), [0; 0]);
}

#[test]
fn what_changes_nothing_is_accepted() {
    let text = tasks(
        r#""t": { "loop": 1, "taskgroup": "", "exec": 500, "run": 1 },
           "t": { "loop": 1, "phases": { "p": { "taskgroup": "/", "exec": 500, "run": 1 }, "p": { "run": 2 } } }"#,
    );
    let scenario = parse(&text, "f.json", None).unwrap();
    let names: Vec<&str> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["t", "t1"]);
    assert_eq!(settings_of(&scenario, 0), ["run 1"]);
    assert_eq!(settings_of(&scenario, 1), ["run 1", "run 2"]);
}

#[test]
fn task_groups_are_groups() {
    let text = tasks(
        r#""t": { "loop": 1, "taskgroup": "/a/b", "run": 1 },
           "u": { "loop": 1, "phases": { "p": { "taskgroup": "/c", "run": 1 }, "q": { "taskgroup": "/", "run": 2 } } }"#,
    );
    let scenario = parse(&text, "f.json", None).unwrap();
    let paths: Vec<&str> = scenario.groups.iter().map(|group| group.path.as_str()).collect();
    assert_eq!(paths, ["a", "a/b", "c"]);
    assert_eq!((scenario.tasks[0].group, scenario.tasks[1].group), (Some(GroupId(1)), None));
    assert_eq!(scenario.changes, [Attribute::Group(Some(GroupId(2))), Attribute::Group(None)]);
    // Tasks are in groups without others in them, as in cgroup v2.
    let inner = tasks(r#""t": { "taskgroup": "/a/b", "run": 1 }, "u": { "taskgroup": "/a", "run": 1 }"#);
    let error = parse(&inner, "f.json", Some(DurationNs::from_secs(1))).unwrap_err().to_string();
    assert!(error.contains("a group with groups in it has no tasks"), "{error}");
}

#[test]
fn slices_are_those_of_the_fair_class() {
    let slices = |tail: &str| {
        let text = tasks(&format!(r#""t": {{ "loop": 1, "run": 1, {tail} }}"#));
        parse(&text, "f.json", None).unwrap().tasks[0].slice
    };
    assert_eq!(slices(r#""dl-runtime": 20000"#), Some(DurationNs::from_ms(20)));
    assert_eq!(slices(r#""policy": "SCHED_BATCH", "dl-runtime": 5"#), Some(DurationNs::from_us(100)));
    assert_eq!(slices(r#""dl-runtime": 5000000"#), Some(DurationNs::from_ms(100)));
    for none in [
        r#""dl-runtime": 0"#,
        r#""policy": "SCHED_FIFO", "dl-runtime": 500"#,
        r#""policy": "SCHED_IDLE", "dl-runtime": 500"#,
    ] {
        assert_eq!(slices(none), None, "{none}");
    }
}

#[test]
fn reservations_are_of_tasks_and_phases() {
    let text = tasks(
        r#""t": { "policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": 10000, "loop": 1, "phases": {
            "a": { "run": 1 },
            "b": { "run": 2, "policy": "SCHED_OTHER" },
            "c": { "run": 3, "policy": "SCHED_DEADLINE", "dl-runtime": 1000, "dl-period": 8000, "dl-deadline": 4000 },
            "d": { "run": 4, "dl-runtime": 500 } } }"#,
    );
    let scenario = parse(&text, "f.json", None).unwrap();
    let deadline = |text: &str| Policy::Deadline(text.parse().unwrap());
    assert_eq!(scenario.tasks[0].policy, deadline("2ms/10ms"));
    let policies: Vec<Policy> = scenario
        .changes
        .iter()
        .filter_map(|change| if let Attribute::Policy(policy) = change { Some(*policy) } else { None })
        .collect();
    assert_eq!(policies, [Policy::Other, deadline("1ms/4ms/8ms"), deadline("500us/500us")]);
}

#[test]
fn files_are_merged_section_by_section() {
    let file = |name: &str, text: &str| (name.to_string(), text.to_string());
    let global = file("g.json", "{ \"global\": {\n\"duration\": 5 } }\n");
    let one = file("1.json", "{\n\"tasks\": { \"a\": { \"run\": 1 },\n\"b\": { \"run\": 2 } } }\n");
    let two = file("2.json", "{ \"tasks\": {\n\"b\": { \"run\": 3 },\n\"c\": { \"run\": 4 } } }");
    let scenario =
        parse_merged(&[global.clone(), one.clone(), two.clone()], None, Version::Head).unwrap().scenario;
    let names: Vec<&str> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!((names, scenario.end), (vec!["a", "b", "c"], End::After(DurationNs::from_secs(5))));
    assert!(scenario.programs[1].ops().contains(&Op::Run(DurationNs::from_us(3))));
    assert_eq!(scenario.params, [("file".to_string(), "g.json+1.json+2.json".to_string())]);
    // Mistakes name the file, and the line in it.
    let refused =
        |files: &[(String, String)]| parse_merged(files, None, Version::Head).unwrap_err().to_string();
    let wrong = file("2.json", "{ \"tasks\": {\n\"b\": { \"run\": 3 },\n\"c\": { \"walk\": 4 } } }");
    let text = refused(&[global.clone(), one.clone(), wrong]);
    assert!(text.starts_with("2.json:3: tasks.c.walk: the event 'walk'"), "{text}");
    let text = refused(&[global.clone(), one.clone(), file("x.json", "{ \"tasks\": \n? }")]);
    assert!(text.starts_with("x.json:2: '?'"), "{text}");
    let text = refused(&[one, file("x.json", "{ \"tasks\": 4 }"), two]);
    assert_eq!(text, "x.json:1: \"tasks\" is an object in one file only");
    let text = refused(&[global, file("x.json", "[]")]);
    assert_eq!(text, "x.json:1: an object with sections is expected");
}

#[test]
fn endless_tasks_need_a_duration() {
    let text = tasks(r#""t": { "run": 1000 }"#);
    assert!(error(&text).contains("--duration"), "{}", error(&text));
    let limit = DurationNs::from_secs(3);
    assert_eq!(parse(&text, "f.json", Some(limit)).unwrap().end, End::After(limit));
}

#[test]
fn what_is_not_modelled_is_named_with_its_place() {
    let cases = [
        (r#""t": { "phases": { "p": { "hrtimer": 5 } } }"#, "tasks.t.phases.p.hrtimer: the event 'hrtimer'"),
        (
            r#""t": { "policy": "SCHED_DEADLINE", "run": 1 }"#,
            "tasks.t: SCHED_DEADLINE by dl-runtime, dl-deadline and dl-period (microseconds): a runtime of 0",
        ),
        (r#""t": { "phases": { "p": { "cpus": [], "run": 1 } } }"#, "tasks.t.phases.p.cpus: at least one"),
        (r#""t": { "taskgroup": "a", "run": 1 }"#, "tasks.t.taskgroup: 'a' is no path from the root"),
        (
            r#""t": { "phases": { "p": { "taskgroup": "/a//b", "run": 1 } } }"#,
            "tasks.t.phases.p.taskgroup: 'a//b' is no path of a group",
        ),
        (r#""t": { "exec": 5000, "period": 5000 }"#, "tasks.t.exec: rt-app does not read 'exec' any more"),
        (r#""t": { "phases": { "p": { "exec": 5000 } } }"#, "tasks.t.phases.p.exec: rt-app does not read"),
        (r#""t": { "run": 1, "util_max": 512 }"#, "tasks.t.util_max: utilisation clamps"),
        (
            r#""t": { "policy": "SCHED_DEADLINE", "dl-runtime": 500, "dl-period": 50, "run": 1 }"#,
            "tasks.t: SCHED_DEADLINE by dl-runtime, dl-deadline and dl-period (microseconds): the runtime",
        ),
        (
            r#""t": { "phases": { "p": { "run": 1, "dl-runtime": 512 } } }"#,
            "p.dl-runtime: slices of single phases",
        ),
        (
            r#""t": { "phases": { "p": { "run": 1, "nodes_membind": [0] } } }"#,
            "p.nodes_membind: memory that is bound",
        ),
        (r#""t": { "loop": 5, "run": 1, "loop": 6 }"#, "tasks.t.loop1: 'loop' stands twice; workgen renames"),
        (
            r#""t": { "phases": { "p": { "run": 1, "cpus": [0], "cpus": [1] } } }"#,
            "p.cpus1: 'cpus' stands twice",
        ),
        (
            r#""t": { "phases": { "p": { "run": 1, "policy": "SCHED_FIFO", "priority": 0 } } }"#,
            "priority is 1 to 99",
        ),
        (r#""t": { "sem_wait": 4 }"#, "tasks.t.sem_wait: a string is expected"),
        (r#""t": { "run": 1, "resume" }"#, "tasks.t.resume: a string is expected"),
        (r#""t": { "memrun": { "type": "chase", "size": 64, "count": 1 } }"#, "at least two strides"),
        (
            r#""t": { "memrun": { "type": "copy", "size": 64, "count": 1 } }"#,
            "memrun.type: 'copy' is none of",
        ),
        (
            r#""t": { "memrun": { "type": "read", "size": 64 } }"#,
            "tasks.t.memrun: \"type\", \"size\" and \"count\"",
        ),
        (
            r#""t": { "memrun": { "type": "read", "size": 0, "count": 1 } }"#,
            "memrun.size: 1 to 1073741824 is",
        ),
        (
            r#""t": { "memrun": { "type": "chase", "size": 640, "count": 1, "pattern": "x" } }"#,
            "random or sequential",
        ),
        (r#""t": { "memrun": { "typ": "chase" } }"#, "tasks.t.memrun.typ: unknown; there are: type"),
        (
            r#""t": { "memrun": { "type": "read", "size": 64, "count": 1, "ref": "b" } },
               "u": { "memrun": { "type": "read", "size": 65, "count": 1, "ref": "b" } }"#,
            "tasks.u.memrun: another memrun has the buffer 'b'",
        ),
        (r#""t": { "run": "x" }"#, "tasks.t.run: a whole number"),
        (r#""t": { "run": -4 }"#, "tasks.t.run: microseconds"),
        (r#""t": { "timer": { "ref": "x" } }"#, "tasks.t.timer: \"period\" is missing"),
        (r#""t": { "fork": "u" }"#, "tasks.t.fork: there is no task 'u'"),
        (r#""t": { "loop": 500, "signal": "c", "priority": 50 }"#, "-20 to 19"),
    ];
    for (body, words) in cases {
        let text = error(&tasks(body));
        assert!(text.contains(words), "{text}");
        assert!(text.starts_with("f.json:1: ") || text.starts_with("f.json:2: "), "{text}");
    }
    assert!(error("{}").contains("tasks: the section is missing"));
    assert!(error("{\n\"globl\": {}}").starts_with("f.json:2: globl: unknown section"));
}
