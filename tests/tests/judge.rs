//! `judge`: cheating schedulers are rejected with the reason, honest ones are accepted, and answers stay small.
//!
//! Says "skipped" with the reason where there is no compiler or no Python.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use schedlab_tests::{Ended, Schedlab, has_clang, root};
use serde_json::Value;

/// Far more than any of these takes on a busy host.
const LIMIT: Duration = Duration::from_secs(300);

/// What an answer may have, with its newline.
const MOST_BYTES: usize = 2048;

/// Schedulers that have a score by something else than scheduling well, and a part of the reasons that name it.
const CHEATS: [(&str, &str); 13] = [
    ("unmeasured", "never_ran"),
    ("names", "starved"),
    ("pids", "below_floor"),
    ("ends", "a task got next to nothing in a third of the run"),
    ("begins", "a load that is not shown: a task starved"),
    ("pattern", "the load decides"),
    ("overfit", "starved"),
    ("calm", "idle_beside_waiting"),
    ("first", "never_ran"),
    ("lowly", "a load that is not shown: a task never ran"),
    ("alone", "idle_beside_waiting"),
    ("endless", "never_ran"),
    ("drops", "starved"),
];

fn asked(lab: &Schedlab, candidate: &str, more: &[&str]) -> Ended {
    lab.run(&[&["judge", candidate, "-q"], more].concat(), LIMIT)
}

/// The answer under the key 1 as JSON, which is small, and says what the exit code says.
fn answer(lab: &Schedlab, candidate: &str, more: &[&str]) -> Value {
    let ended = asked(lab, candidate, &[&["--json", "-", "--seed-key", "1"], more].concat());
    assert!([0, 1].contains(&ended.code), "{candidate}: {ended:?}");
    assert!(ended.out.len() <= MOST_BYTES, "{candidate}: {} bytes", ended.out.len());
    let answer: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(answer["accepted"], ended.code == 0, "{answer}");
    answer
}

fn reasons(answer: &Value) -> String {
    let reasons = answer["reasons"].as_array().unwrap().iter();
    reasons.map(|reason| format!("{}\n", reason.as_str().unwrap())).collect()
}

/// Writes a template as a source of the lab's folder.
fn template(lab: &Schedlab, name: &str) -> String {
    let text = fs::read_to_string(root().join(format!("schedulers/templates/{name}.c"))).unwrap();
    let source = format!("{name}.bpf.c");
    fs::write(lab.path(&source), text.replace("NAME", name)).unwrap();
    source
}

#[test]
fn cheats_are_rejected_with_the_reason() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("judge-cheats");
    for (name, why) in CHEATS {
        let source = root().join(format!("tests/cheats/{name}.bpf.c"));
        let answer = answer(&lab, source.to_str().unwrap(), &[]);
        assert_eq!(
            (&answer["accepted"], &answer["score"]),
            (&Value::Bool(false), &Value::from(0.0)),
            "{name}"
        );
        assert!(reasons(&answer).contains(why), "{name}: no {why:?} in {}", reasons(&answer));
    }
}

/// Each source in the folder is in the list.
#[test]
fn every_cheat_is_judged() {
    let found = fs::read_dir(root().join("tests/cheats")).unwrap();
    let names = found.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".bpf.c")?.to_string())).collect();
    names.sort();
    let mut listed = CHEATS.map(|(name, _)| name);
    listed.sort_unstable();
    assert_eq!(names, listed);
}

#[test]
fn equal_schedulers_are_never_told_apart() {
    let lab = Schedlab::new("judge-equal");
    let mut names = vec!["eevdf".to_string(), "o1".to_string()];
    if has_clang() {
        names.extend(["vtime", "fifo"].map(|name| template(&lab, name)));
    }
    for name in &names {
        for suite in ["desktop", "server"] {
            let answer = answer(&lab, name, &["--against", name, "--suite", suite]);
            assert_eq!((&answer["accepted"], &answer["better"]), (&true.into(), &false.into()), "{answer}");
            assert_eq!((&answer["score"], &answer["interval"]), (&1.0.into(), &vec![1.0, 1.0].into()));
            assert_eq!(answer["loads"].as_array().unwrap().len(), 5);
            assert!(reasons(&answer).contains("no difference is shown"), "{answer}");
        }
    }
}

/// An honest scheduler that is better is accepted; one that is worse is rejected, and the answer says where.
#[test]
fn honest_schedulers_are_ranked() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("judge-honest");
    let (vtime, fifo) = (template(&lab, "vtime"), template(&lab, "fifo"));
    let better = answer(&lab, &vtime, &["--against", &fifo]);
    assert_eq!((&better["accepted"], &better["better"]), (&true.into(), &true.into()), "{better}");
    let quick = answer(&lab, &vtime, &["--set", "slice_ns=1000000"]);
    assert_eq!(quick["accepted"], true, "{quick}");
    let worse = answer(&lab, &fifo, &["--against", &vtime]);
    assert_eq!(worse["accepted"], false, "{worse}");
    assert!(reasons(&worse).contains("keys ("), "the load that decides is named: {worse}");
}

/// One load with a choice of CPUs; one at a time is enough to tell first come, first served from turns by need.
const ECHO: &str = r#"about = "keys beside hogs"
seeds = 3
[[load]]
name = "keys"
draw = { hogs = "4..5" }
cpus = "1..4"
duration = "300ms"
metrics = ["tail"]
notice = "1ms"
text = '''
name = "keys"
end = "60s"
[programs]
editor = ["repeat forever", "  timer 0 15ms", "  late 0 late", "  run 300us", "done"]
hog = ["repeat forever", "  run 1ms", "done"]
[[tasks]]
name = "editor"
program = "editor"
[[tasks]]
name = "hog"
program = "hog"
count = $hogs
[metrics]
tail = { kind = "p95", span = "late" }
'''
"#;

#[test]
fn a_real_kernel_is_asked() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("judge-verified");
    fs::write(lab.path("echo.toml"), ECHO).unwrap();
    let (vtime, fifo) = (template(&lab, "vtime"), template(&lab, "fifo"));
    let words = ["--against", &vtime, "--suite", "echo.toml", "--verify", "--json", "answer.json"];
    let ended = asked(&lab, &fifo, &[&words[..], &["--seed-key", "1"]].concat());
    if ended.code == 5 {
        return println!("skipped: {}", ended.err);
    }
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.out.is_empty() || ended.out.contains("Real kernel "), "{ended:?}");
    let text = fs::read_to_string(lab.path("answer.json")).unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    let verify = &answer["verify"];
    assert!(text.len() <= MOST_BYTES && verify["kernel"].as_str().unwrap().contains('.'), "{answer}");
    assert_eq!((&verify["of"], &verify["agreeing"]), (&1.into(), &1.into()), "{answer}");
    assert_eq!(
        (&verify["verdict"], &verify["reversed"]),
        (&"worse".into(), &Value::Array(vec![])),
        "{answer}"
    );
}

#[test]
fn a_kernel_that_is_missing_is_told_with_the_cure() {
    let lab = Schedlab::new("judge-no-kernel");
    let ended = asked(&lab, "o1", &["--verify", "--kernel", "./none"]);
    assert!(ended.code == 2 && ended.err.contains("none"), "{ended:?}");
    let ended = asked(&lab, "o1", &["--kernel", "7.3"]);
    assert!(ended.code == 2 && ended.err.contains("--verify"), "{ended:?}");
}

#[test]
fn an_answer_can_be_repeated_and_hides_what_it_should() {
    let lab = Schedlab::new("judge-repeated");
    let with = |more: &[&str]| asked(&lab, "o1", &[&["--json", "-"], more].concat()).out;
    let once = with(&[]);
    let drawn: Value = serde_json::from_str(&once).unwrap();
    let key = drawn["seed_key"].as_str().unwrap();
    assert_eq!(key.len(), 16, "drawn by the system");
    assert_eq!(with(&["--seed-key", key, "--jobs", "1"]), once);
    assert_ne!(with(&["--seed-key", "another"]), once);
    let hidden = ["long", "nice", "pinned", "locks", "threads"];
    let told = asked(&lab, "o1", &["--seed-key", key]).out;
    assert!(told.contains("a load that is not shown: ") && told.contains(key), "{told}");
    for name in hidden {
        assert!(
            !told.contains(&format!("\n{name} ")) && !told.contains(&format!("* {name} ")),
            "{name}: {told}"
        );
    }
    let shown = asked(&lab, "o1", &["--seed-key", key, "--show-hidden"]).out;
    assert!(hidden.iter().all(|name| shown.contains(&format!("\n{name} "))), "{shown}");
}

#[test]
fn what_is_no_scheduler_is_told() {
    let lab = Schedlab::new("judge-refused");
    for (candidate, more, part) in [
        ("none.bpf.c", &[][..], "none.bpf.c: there is no such file"),
        ("none.bpf.o", &[], "none.bpf.o"),
        ("o9", &[], "no scheduler named 'o9'"),
        ("o1", &["--suite", "desktp"], "desktop"),
        ("o1", &["--against", "o9"], "no scheduler named 'o9'"),
        ("o1", &["--set", "nothing=1"], "nothing"),
        ("o1", &["--over", "profile"], "VARIABLE=LOW..HIGH"),
        ("o1", &["--over", "nothing=1..2"], "nothing"),
        ("eevdf", &["--over", "slice=1..2"], "no tunables"),
    ] {
        let ended = asked(&lab, candidate, more);
        assert!(ended.code == 2 && ended.err.contains(part), "{candidate} {more:?}: {ended:?}");
    }
    if !has_clang() {
        return;
    }
    fs::write(lab.path("bad.bpf.c"), "int x = y;\n").unwrap();
    let bad = answer(&lab, "bad.bpf.c", &[]);
    assert!(
        reasons(&bad).contains("it does not compile") && reasons(&bad).contains("bad.bpf.c:1:9"),
        "{bad}"
    );
}

#[test]
fn a_space_says_how_a_point_is_judged() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("judge-space");
    let source = template(&lab, "vtime");
    let ended = asked(&lab, &source, &["--over", "slice_ns=1ms..20ms"]);
    let space: Value = serde_json::from_str(&ended.out).unwrap();
    let wanted = serde_json::json!(
        {"name": "slice_ns", "low": 1_000_000, "high": 20_000_000, "default": "5000000", "log": true}
    );
    assert_eq!((ended.code, &space["parameters"][0]), (0, &wanted));
    let words = space["judge"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let words: Vec<String> = words.map(|word| word.replace("VALUE", "1000000")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Of the loads of this key, `pinned` had CPUs that idled beside tasks whose turn was over, until the template woke them.
    let words = [&words[..], &["--seed-key", "2"]].concat();
    assert_eq!((words[0], lab.run(&words[1..], LIMIT).code), ("schedlab", 0), "{words:?}");
    let outside = asked(&lab, &source, &["--over", "slice_ns=1..20ms"]);
    assert!(outside.code == 2 && outside.err.contains("slice_ns"), "{outside:?}");
}

/// Runs a program of `examples/` with our Python package and the binary on its path.
fn example(lab: &Schedlab, program: &str, words: &[&str]) -> Option<(i32, String, String)> {
    let binary = lab.binary().parent().unwrap_or(Path::new("/"));
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command.args(words).current_dir(&lab.folder).env("PATH", path).env("SCHEDLAB", lab.binary());
    command.env(
        "PYTHONPATH",
        format!("{}:{}", root().join("python/src").display(), root().join("examples").display()),
    );
    let done = command.output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((done.status.code()?, text(&done.stdout), text(&done.stderr)))
}

#[test]
fn the_evaluator_and_the_loop_run() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("judge-examples");
    template(&lab, "vtime");
    fs::create_dir(lab.path("candidates")).unwrap();
    fs::copy(lab.path("vtime.bpf.c"), lab.path("candidates/vtime.bpf.c")).unwrap();
    template(&lab, "fifo");
    fs::copy(lab.path("fifo.bpf.c"), lab.path("candidates/fifo.bpf.c")).unwrap();
    let script = root().join("examples/judge_loop.sh");
    let words = [script.to_str().unwrap(), "candidates", "fifo.bpf.c"];
    let (code, out, err) = example(&lab, "sh", &words).unwrap();
    assert_eq!(code, 0, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].ends_with("candidates/vtime.bpf.c") && lines[1] == "1.0 candidates/fifo.bpf.c", "{out}");
    let code = "import openevolve_evaluator as e; print(e.evaluate('candidates/fifo.bpf.c'))";
    let Some((code, out, err)) = example(&lab, "python3", &["-c", code]) else {
        return println!("skipped: no python3");
    };
    assert_eq!(code, 0, "{err}");
    // The key is another one each time, and with it the order of the reasons.
    assert!(out.contains("'combined_score': 0.0") && out.contains("keys ("), "{out}");
}

#[test]
fn the_optimiser_tunes_or_says_what_it_lacks() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("judge-optuna");
    let source = template(&lab, "vtime");
    let script = root().join("examples/optuna_tune.py");
    let words = [script.to_str().unwrap(), &source, "slice_ns=1ms..20ms", "--trials", "2"];
    match example(&lab, "python3", &words) {
        None => println!("skipped: no python3"),
        Some((0, out, _)) => assert!(out.contains("slice_ns") && out.contains("under another key"), "{out}"),
        Some((_, _, err)) => {
            assert!(err.contains("optuna is missing"), "{err}");
            println!("skipped: no optuna");
        }
    }
}
