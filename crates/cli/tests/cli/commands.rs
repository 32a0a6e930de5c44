//! Commands of the user's under the kernel's own scheduler, on this machine.

use crate::Folder;
use schedlab_report::from_json;

/// Computes for some milliseconds in a child of its own.
const WORK: &str = "sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'";

/// `schedlab WORDS -- sh -c SCRIPT`.
fn with_script<'a>(words: &'a str, script: &'a str) -> Vec<&'a str> {
    words.split_whitespace().chain(["--", "sh", "-c", script]).collect()
}

#[test]
fn a_command_has_its_times_and_its_output() {
    let folder = Folder::new();
    let script = format!("echo told; {WORK}; sleep 0.1");
    let done = folder.run_words(&with_script("run -q -s eevdf --json r.json", &script));
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert!(done.out.starts_with("told\neevdf on linux-"), "{done:?}");
    let run = from_json(&folder.read("r.json")).unwrap().runs.remove(0);
    let value = |name: &str| run.metrics.iter().find(|metric| metric.name == name).unwrap().value;
    assert!(value("elapsed") >= 0.1, "{run:?}");
    assert!(value("user") > 0.0 && value("system") >= 0.0);
    // Without the right to observe, nothing counts switches, and none are printed.
    let is_observed = run.metrics.iter().any(|metric| metric.name == "context_switches");
    assert_eq!(run.tasks.len(), usize::from(is_observed));
    let failing = folder.run_words(&with_script("run -q -s eevdf", "exit 7"));
    assert!(failing.code == 1 && failing.err.contains("command sh ended with code 7"), "{failing:?}");
}

#[test]
fn a_command_is_compared_in_turns_and_warm_ups_do_not_count() {
    let folder = Folder::new();
    let script = format!("echo x >> {}; {WORK}", folder.path().join("turns").display());
    let words = "bench -q -s a=eevdf,b=eevdf --runs 2 --warmup 3 --json r.json";
    let done = folder.run_words(&with_script(words, &script));
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert_eq!(folder.read("turns").lines().count(), 2 * (2 + 3));
    let document = from_json(&folder.read("r.json")).unwrap();
    let turns: Vec<(&str, u64)> =
        document.runs.iter().map(|run| (run.scheduler.as_str(), run.seed)).collect();
    assert_eq!(turns, [("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
    for metric in ["elapsed in s", "user in s", "system in s"] {
        assert!(done.out.contains(metric), "{metric}: {done:?}");
    }
}

#[test]
fn a_command_that_fails_ends_a_comparison_with_its_last_words() {
    let folder = Folder::new();
    let done =
        folder.run_words(&with_script("bench -q -s eevdf,eevdf --warmup 0", "echo no disk >&2; exit 4"));
    assert_eq!(done.code, 1, "{done:?}");
    for part in ["run 1 of 10", "run 1)", "command sh ended with code 4", "no disk"] {
        assert!(done.err.contains(part), "{part}: {done:?}");
    }
}

#[test]
fn a_command_warms_up_under_its_scheduler() {
    let folder = Folder::new();
    let script = format!("echo told; echo x >> {}", folder.path().join("turns").display());
    let done = folder.run_words(&with_script("run -q -s eevdf --warmup 2", &script));
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert_eq!(
        (folder.read("turns").lines().count(), done.out.matches("told\n").count()),
        (3, 1),
        "{done:?}"
    );
    let failing = folder.run_words(&with_script("run -q -s eevdf --warmup 1", "exit 7"));
    assert!(failing.code == 1 && failing.err.contains("command sh ended with code 7"), "{failing:?}");
    folder.run("run -s eevdf -w chat --warmup 1").refused(2, &["--warmup"]);
}
