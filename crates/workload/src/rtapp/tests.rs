//! Tests of the rt-app reader.

use super::*;
use crate::cursor::Cursor;

const EXAMPLE: &str = r#"
{ "global": { "duration": 10, "calibration": "CPU0", "default_policy": "SCHED_OTHER" },
  "tasks": {
    "periodic": { "loop": 500, "run": 5000, "timer": { "ref": "tick", "period": 20000 } },
    "hog":      { "instance": 2, "run": 100000, "priority": 5, "cpus": [0, 2] } } }
"#;

fn error(text: &str) -> String {
    parse(text, "f.json", None).unwrap_err().to_string()
}

fn tasks(body: &str) -> String {
    format!("{{ \"tasks\": {{ {body} }} }}")
}

#[test]
fn the_manuals_shape_is_read() {
    let scenario = parse(EXAMPLE, "f.json", None).unwrap();
    let names: Vec<&str> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["periodic", "hog/0", "hog/1"]);
    assert_eq!(scenario.end, End::After(DurationNs::from_secs(10)));
    assert_eq!(scenario.tasks[1].nice.get(), 5);
    assert_eq!(scenario.tasks[1].affinity.unwrap().count(), 2);
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
            "tasks.t.policy: 'SCHED_DEADLINE' is not modelled",
        ),
        (r#""t": { "phases": { "p": { "cpus": [1], "run": 1 } } }"#, "tasks.t.phases.p.cpus"),
        (r#""t": { "run": "x" }"#, "tasks.t.run: a whole number"),
        (r#""t": { "run": -4 }"#, "tasks.t.run: microseconds"),
        (r#""t": { "timer": { "ref": "x" } }"#, "tasks.t.timer: \"period\" is missing"),
        (r#""t": { "resume": "u" }"#, "tasks.t.resume: there is no task 'u'"),
        (r#""t": { "loop": 5 }, "t": { "loop": 5 }"#, "exists already"),
        (r#""t": { "loop": 500, "signal": "c", "priority": 50 }"#, "-20 to 19"),
    ];
    for (body, words) in cases {
        let text = error(&tasks(body));
        assert!(text.contains(words), "{text}");
        assert!(text.starts_with("f.json:1: "), "{text}");
    }
    assert!(error("{}").contains("tasks: the section is missing"));
    assert!(error("{\n\"globl\": {}}").starts_with("f.json:2: globl: unknown section"));
}
