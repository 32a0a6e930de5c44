//! The identity of tasks, as a scheduler reads it.

use crate::common;
use schedlab_base::{DurationNs, Machine, Presence, Start};
use schedlab_scx::{BpfScheduler, EngineChoice, LoadOptions, run};
use schedlab_sim::{Class, Config, RunResult};
use schedlab_trace::ExitKind;
use schedlab_workload::{Scenario, file, rtapp};

/// A process, its child of two threads, of which one forks, and a kernel thread beside them.
const WHO: &str = r#"name = "who"
end = "400ms"
[programs]
hog = [ "run 40ms" ]
forks = [ "run 40ms", "fork hog", "wait-child", "run 40ms" ]
[[tasks]]
name = "w_shell"
program = "hog"
uid = 1000
gid = 100
[[tasks]]
name = "w_web"
program = "hog"
process = "web"
parent = "w_shell"
[[tasks]]
name = "w_pool"
program = "forks"
process = "web"
[[tasks]]
name = "w_root"
program = "hog"
[[tasks]]
name = "w_kernel"
program = "hog"
kernel_thread = true
"#;

/// What the object says of a task: its comm, its leader's, its parent's, whether it leads, whether its parent is its leader's, ids, of the kernel.
const EXPECTED: [&str; 5] = [
    "w_web leader w_web parent w_shell leads 1 parent of its own 1 uid 1000 gid 100 kernel 0 wrong 0",
    "w_pool leader w_web parent w_shell leads 0 parent of its own 1 uid 1000 gid 100 kernel 0 wrong 0",
    "w_shell leader w_shell parent sh leads 1 parent of its own 1 uid 1000 gid 100 kernel 0 wrong 0",
    "w_root leader w_root parent sh leads 1 parent of its own 1 uid 0 gid 0 kernel 0 wrong 0",
    "w_kernel leader w_kernel parent sh leads 1 parent of its own 1 uid 0 gid 0 kernel 1 wrong 0",
];

/// The same of the child that w_pool forks.
const FORKED: &str =
    "w_pool leader w_pool parent w_pool leads 1 parent of its own 1 uid 1000 gid 100 kernel 0 wrong 0";

/// What the object says, a line a task, in order; the same in both engines.
fn said(scenario: &Scenario, start: Start, presence: Presence) -> Option<Vec<String>> {
    let bytes = common::object("who")?;
    let mut machine = Machine::uniform("test", 2);
    machine.kernel.start = start;
    let [compiled, interpreted] = [EngineChoice::Compiled, EngineChoice::Interpreted].map(|engine| {
        let options = LoadOptions { engine, ..LoadOptions::default() };
        let scheduler = BpfScheduler::load("who", &bytes, &options, &machine).unwrap();
        let config = Config { checkers: true, presence, ..Config::new(machine.clone(), 1) };
        run(&config, scenario, Class::Ext(scheduler)).unwrap()
    });
    assert_eq!(compiled.trace_hash, interpreted.trace_hash);
    assert_eq!(compiled.exit.kind, ExitKind::None, "{:?}", compiled.exit);
    assert_eq!(lines(&compiled), lines(&interpreted), "the engines agree");
    Some(lines(&compiled))
}

fn lines(result: &RunResult<BpfScheduler>) -> Vec<String> {
    let (messages, _) = result.scheduler.as_ref().unwrap().messages();
    let texts: Vec<&str> = messages.iter().map(|message| message.text.as_str()).collect();
    let after_name = |text: &&str| text.split_once(' ').map_or("", |(_, rest)| rest).to_string();
    let name = |text: &str| text.split(' ').next().unwrap_or_default().to_string();
    let of_task = |part: &[&str]| {
        let rest: Vec<String> = part.iter().map(after_name).collect();
        format!("{} {}", name(part[0]), rest.join(" "))
    };
    let mut lines: Vec<String> = texts.chunks(5).map(of_task).collect();
    lines.sort();
    lines
}

#[test]
fn a_scheduler_reads_who_tasks_are() {
    let scenario = file::parse(WHO, "who.toml").unwrap();
    let mut expected: Vec<String> = EXPECTED.iter().map(ToString::to_string).collect();
    expected.push(FORKED.to_string());
    expected.sort();
    let late = Presence { attach: Some(DurationNs::from_ms(5)), ..Presence::default() };
    for (start, presence) in [(Start::AtOnce, Presence::default()), (Start::AtOnce, late)] {
        let Some(lines) = said(&scenario, start, presence) else { return };
        assert_eq!(lines, expected);
    }
    // Behind a gate a process of the run forks those that no other one does.
    let Some(lines) = said(&scenario, Start::Gate, Presence::default()) else { return };
    let gated: Vec<String> =
        expected.iter().map(|line| line.replace("parent sh ", "parent leader ")).collect();
    assert_eq!(lines, gated);
}

#[test]
fn files_of_rt_app_say_who_tasks_are() {
    let text = r#"{ "global": { "duration": 1 }, "tasks": {
        "w_pool": { "run": 40000, "loop": 1, "thread_of": "w_web" },
        "w_web": { "run": 40000, "loop": 1, "parent": "w_shell" },
        "w_shell": { "run": 40000, "loop": 1, "uid": 1000, "gid": 100 },
        "w_root": { "run": 40000, "loop": 1 },
        "w_kernel": { "run": 40000, "loop": 1, "kthread": true } } }"#;
    let scenario = rtapp::parse(text, "who.json", None).unwrap();
    let Some(lines) = said(&scenario, Start::AtOnce, Presence::default()) else { return };
    let mut expected = EXPECTED.to_vec();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[test]
fn a_parent_waits_for_its_processes_alone() {
    let text = WHO.replace(
        "hog = [ \"run 40ms\" ]",
        "hog = [ \"run 40ms\" ]\nwaits = [ \"begin wait\", \"wait-child\", \"end wait\" ]",
    );
    let text =
        text.replace("name = \"w_shell\"\nprogram = \"hog\"", "name = \"w_shell\"\nprogram = \"waits\"");
    let scenario = file::parse(&text, "who.toml").unwrap();
    for start in [Start::AtOnce, Start::Gate] {
        let mut machine = Machine::uniform("test", 2);
        machine.kernel.start = start;
        let result = run(&Config::new(machine, 1), &scenario, Class::Fair).unwrap();
        // w_web is its child, and works for 40 ms; w_pool, a thread, is none.
        let waited: Vec<DurationNs> =
            result.measurements.spans[0].samples().iter().map(|s| s.length()).collect();
        assert!(waited.len() == 1 && waited[0] >= DurationNs::from_ms(39), "{waited:?}");
    }
}
