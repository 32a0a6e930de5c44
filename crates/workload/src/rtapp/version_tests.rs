//! Tests of what differs between versions of rt-app, checked against rt-app_parse_config.c and rt-app.c of each.

use super::tests::{error, steps, tasks};
use super::*;

fn read(text: &str, version: Version) -> Result<RtApp, RtAppError> {
    let limit = Some(DurationNs::from_secs(1));
    parse_merged(&[("f.json".to_string(), text.to_string())], limit, version)
}

fn both(text: &str) -> [RtApp; 2] {
    [Version::V1_0, Version::Head].map(|version| read(text, version).unwrap())
}

#[test]
fn a_flat_loop_repeats_for_ever_in_1_0_alone() {
    let [old, head] = both(&tasks(r#""t": { "loop": 2, "run": 1 }"#));
    assert!(old.scenario.programs[0].ops().contains(&Op::Loop(Amount::Forever)));
    assert!(head.scenario.programs[0].ops().contains(&Op::Loop(Amount::Times(2))));
    let [first, second] = [&old.notes[0], &head.notes[0]];
    assert!(first.contains("tasks.t.loop: rt-app 1.0 repeats") && first.contains("follows 1.0"), "{first}");
    assert!(second.contains("head ends the task after 2") && second.contains("follows head"), "{second}");
}

#[test]
fn a_loop_below_one_is_endless_and_runs_no_phases() {
    for times in ["0", "-1", "-7"] {
        let flat = tasks(&format!(r#""t": {{ "loop": {times}, "run": 1 }}"#));
        let phase =
            tasks(&format!(r#""t": {{ "loop": 1, "phases": {{ "p": {{ "loop": {times}, "run": 1 }} }} }}"#));
        for read in [both(&flat), both(&phase)].concat() {
            assert!(read.scenario.programs[0].ops().contains(&Op::Loop(Amount::Forever)), "{times}");
            assert_eq!(read.notes, [""; 0], "both versions mean the same");
        }
    }
    let none = tasks(r#""t": { "loop": 0, "phases": { "p": { "run": 1 } } }"#);
    for read in both(&none) {
        assert_eq!(steps(&read.scenario, 0), []);
    }
}

#[test]
fn suspend_waits_for_its_name_in_1_0_and_for_the_task_in_head() {
    let text = tasks(r#""t": { "suspend": "gate" }, "w": { "resume": "gate", "sleep": 1 }"#);
    let [old, head] = both(&text);
    assert_eq!((old.scenario.conds, head.scenario.conds), (1, 2));
    assert!(
        old.notes[0].contains("waits for a resume of 'gate', head waits for one of the task's own name, 't'")
    );
    assert_eq!(both(&tasks(r#""t": { "suspend": "t" }"#)).map(|read| read.notes.len()), [0, 0]);
    // `workgen` writes the task's name where the value is left out.
    let nameless = both(&tasks(r#""t": { "suspend" }, "w": { "resume": "t", "sleep": 1 }"#));
    assert_eq!(nameless.map(|read| (read.scenario.conds, read.notes.len())), [(1, 0), (1, 0)]);
    assert!(error(&tasks(r#""t": { "suspend": 5 }"#)).contains("tasks.t.suspend: a task's name is expected"));
}

#[test]
fn runtime_of_a_fair_task_is_its_slice_in_head() {
    for (keys, slice) in [
        (r#""runtime": 40000"#, Some(DurationNs::from_ms(40))),
        (r#""runtime": 40000, "dl-runtime": 5000"#, Some(DurationNs::from_ms(5))),
        (r#""runtime": 40000, "policy": "SCHED_FIFO""#, None),
        (r#""runtime1": 40000"#, None),
    ] {
        let [old, head] = both(&tasks(&format!(r#""t": {{ {keys} }}"#)));
        assert_eq!((old.scenario.tasks[0].slice, head.scenario.tasks[0].slice), (None, slice), "{keys}");
        assert_eq!(head.notes.len(), usize::from(slice.is_some()), "{keys}: {:?}", head.notes);
    }
    let beside = tasks(r#""t": { "runtime": 3000, "phases": { "p": { "run": 1 } } }"#);
    assert_eq!(read(&beside, Version::Head).unwrap().scenario.tasks[0].slice, Some(DurationNs::from_ms(3)));
}

#[test]
fn older_names_of_a_reservation_are_microseconds_in_head() {
    let text =
        tasks(r#""t": { "policy": "SCHED_DEADLINE", "runtime": 3000, "deadline": 10000, "period": 20000 }"#);
    let policy = |text: &str| read(text, Version::Head).unwrap().scenario.tasks[0].policy;
    assert_eq!(policy(&text), Policy::Deadline("3ms/10ms/20ms".parse().unwrap()));
    // `dl-runtime` sets the period too, so that the older name of it is not read.
    let mixed =
        tasks(r#""t": { "policy": "SCHED_DEADLINE", "dl-runtime": 3000, "period": 20000, "run": 1 }"#);
    assert_eq!(policy(&mixed), Policy::Deadline("3ms/3ms".parse().unwrap()));
    let refused = read(&text, Version::V1_0).unwrap_err().0;
    assert!(
        refused.contains("rt-app 1.0 takes a deadline of 0") && refused.contains("\"dl-deadline\""),
        "{refused}"
    );
    let old = tasks(
        r#""t": { "policy": "SCHED_DEADLINE", "runtime": 3000000, "dl-deadline": 10000, "dl-period": 20000 }"#,
    );
    let read = read(&old, Version::V1_0).unwrap();
    assert_eq!(read.scenario.tasks[0].policy, Policy::Deadline("3ms/10ms/20ms".parse().unwrap()));
}

#[test]
fn what_1_0_does_not_read_is_told() {
    let text = tasks(r#""t": { "loop": -1, "sem_post": "s", "run": 1, "phases": {} }"#);
    assert!(read(&text, Version::V1_0).unwrap_err().0.contains("either events or one object of phases"));
    let text = tasks(r#""t": { "phases": { "p": { "sem_post": "s", "priority": 5, "run": 1 } } }"#);
    let [old, head] = both(&text);
    assert_eq!(steps_of_one_pass(&old), [Op::Run(DurationNs::from_us(1))]);
    assert_eq!(steps_of_one_pass(&head).len(), 3);
    for place in
        ["tasks.t.phases.p.sem_post: rt-app 1.0 does not know", "tasks.t.phases.p.priority: rt-app 1.0 reads"]
    {
        for read in [&old, &head] {
            assert!(read.notes.iter().any(|note| note.starts_with(place)), "{place}: {:?}", read.notes);
        }
    }
    let clamped = tasks(r#""t": { "run": 1, "util_max": 5 }"#);
    assert!(read(&clamped, Version::V1_0).unwrap().notes[0].contains("1.0 does not read it"));
    assert!(read(&clamped, Version::Head).unwrap_err().0.contains("utilisation clamps"));
    let batch = tasks(r#""t": { "run": 1, "policy": "SCHED_BATCH" }"#);
    assert!(read(&batch, Version::V1_0).unwrap_err().0.contains("rt-app 1.0 does not know SCHED_BATCH"));
}

fn steps_of_one_pass(read: &RtApp) -> Vec<Op> {
    let ops = read.scenario.programs[0].ops().iter().copied();
    ops.filter(|op| matches!(op, Op::Run(_) | Op::Set { .. } | Op::SemPost { .. })).collect()
}

#[test]
fn one_absolute_wait_makes_a_timer_absolute() {
    let text = tasks(
        r#""t": { "phases": { "a": { "timer": { "ref": "x", "period": 5 } },
                              "b": { "timer": { "ref": "x", "period": 6, "mode": "absolute" } },
                              "c": { "timer": { "ref": "y", "period": 7 } } } }"#,
    );
    let waits = |read: &RtApp| -> Vec<bool> {
        let ops = read.scenario.programs[0].ops().iter();
        ops.filter_map(|op| if let Op::TimerWait { absolute, .. } = op { Some(*absolute) } else { None })
            .collect()
    };
    assert_eq!(both(&text).each_ref().map(waits), [[true, true, false], [true, true, false]]);
}

#[test]
fn a_timer_of_several_threads_is_one() {
    let timer = |name: &str| format!(r#""timer": {{ "ref": "{name}", "period": 5 }}"#);
    let slots = |text: &str| -> Vec<Vec<TimerSlot>> {
        let of = |op: &Op| if let Op::TimerWait { timer, .. } = op { Some(*timer) } else { None };
        let programs = read(text, Version::Head).unwrap().scenario.programs;
        programs.iter().map(|program| program.ops().iter().filter_map(of).collect()).collect()
    };
    let (x, own) = (TimerSlot::of_all(0), TimerSlot(0));
    let two = tasks(&format!(r#""a": {{ {} }}, "b": {{ {} }}"#, timer("x"), timer("x")));
    assert_eq!(slots(&two), [[x], [x]]);
    let instances = tasks(&format!(r#""a": {{ "instance": 2, {} }}"#, timer("x")));
    assert_eq!(slots(&instances)[0], [x]);
    // One thread's, whatever its name, and one of each thread.
    let alone = tasks(&format!(r#""a": {{ {} }}, "b": {{ {} }}"#, timer("x"), timer("y")));
    assert_eq!(slots(&alone), [[own], [own]]);
    let unique =
        tasks(&format!(r#""a": {{ "instance": 2, {} }}, "b": {{ {} }}"#, timer("unique"), timer("unique")));
    assert_eq!(slots(&unique), [[own], [own]]);
    let many: Vec<String> =
        (0..17).map(|at| format!(r#""timer{at}": {{ "ref": "x{at}", "period": 5 }}"#)).collect();
    let many = tasks(&format!(r#""a": {{ "instance": 2, {} }}"#, many.join(", ")));
    assert!(error(&many).contains("at most 16 timers may be of several threads"));
}

#[test]
fn mutexes_inherit_where_pi_is_enabled() {
    let text = |events: &str| {
        format!(r#"{{ "tasks": {{ "t": {{ {events} }} }}, "global": {{ "pi_enabled": true }} }}"#)
    };
    let locks = |events: &str| read(&text(events), Version::Head).map(|read| read.scenario.locks);
    assert_eq!(
        locks(r#""lock": "m", "unlock": "m", "suspend": "t""#).unwrap(),
        [LockKind::FutexPi, LockKind::Futex]
    );
    let waits = r#""lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m""#;
    assert!(locks(waits).unwrap_err().0.contains("global.pi_enabled: priority inheritance of the mutex 'm'"));
}

#[test]
fn writes_to_dev_null_do_not_wait_for_a_disk() {
    let disks = |global: &str| {
        let text = format!(r#"{{ "tasks": {{ "t": {{ "iorun": 9000000 }} }}, "global": {{ {global} }} }}"#);
        let read = read(&text, Version::Head).unwrap();
        (read.scenario.disks.len(), read.scenario.programs[0].ops().contains(&Op::Loop(Amount::Times(3))))
    };
    assert_eq!((disks(""), disks(r#""io_device": "/dev/null""#)), ((0, true), (0, true)));
    assert_eq!(disks(r#""io_device": "/dev/sda""#), (1, false));
}

/// The keys in the first column of the page's table.
fn keys_of_the_page() -> BTreeSet<String> {
    let page = include_str!("../../../../docs/workload-files.md");
    let section = page.split("## rt-app files").nth(1).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let words = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    words.map(str::to_string).collect()
}

#[test]
fn the_page_has_the_keys_that_are_read() {
    let page = keys_of_the_page();
    let lists =
        [TASK_KEYS, global::KEYS, global::IGNORED_GLOBAL, version::KEYS_OF_HEAD, identity::KEYS].concat();
    // Keys of our own: those of rt-app's first versions, which no version reads.
    let old = ["exec", "logsize", "frag"];
    let ours: BTreeSet<&str> =
        lists.into_iter().chain(events::EVENTS.split(", ")).filter(|key| !old.contains(key)).collect();
    for key in &ours {
        assert!(page.contains(*key), "the page lacks {key}");
    }
    let words = ["global", "mode", "unique", "", "/"];
    for key in page.iter().filter(|key| !words.contains(&key.as_str())) {
        assert!(ours.contains(key.as_str()), "the page has {key}, which is not read");
    }
}
