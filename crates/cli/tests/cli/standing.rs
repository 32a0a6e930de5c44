//! Runs that are valid, suspect or void: what a verdict, a goal and `--strict` say of each.

use crate::Folder;
use crate::faults::compile;
use schedlab_report::{Document, Verdict, from_json};
use schedlab_trace::{Standing, WarningKind};

/// Tasks that sleep most of the time beside hogs, and a goal that says nothing of the hogs.
pub(crate) const LOAD: &str = r#"
name = "beside"
end = "2s"
goals = ["run_delay_ns_p99 < 50 ms"]
[programs]
nap = ["repeat forever", "run 1ms", "sleep 9ms", "done"]
burn = ["repeat forever", "run 5ms", "done"]
[[tasks]]
name = "nap"
count = 2
program = "nap"
[[tasks]]
name = "hog"
count = 4
program = "burn"
"#;

fn document(folder: &Folder) -> Document {
    from_json(&folder.read("r.json")).unwrap()
}

/// Tasks that never run wait in no percentile, so that all figures of a scheduler that forgets them look better.
#[test]
fn a_scheduler_that_forgets_tasks_is_suspect_and_not_better() {
    let folder = Folder::new();
    compile(&folder, "no_hogs");
    folder.write("load.toml", LOAD);
    let line = "compare -s eevdf,no=./no_hogs.bpf.o -w load.toml -c 2 --runs 2 --json r.json --csv r.csv --html r.html -v";
    let done = folder.run(line);
    let (text, found) = (done.ok(), document(&folder));
    let forgetful = found.runs.iter().filter(|run| run.scheduler == "no");
    for run in forgetful {
        assert_eq!(run.standing(), Standing::Suspect);
        assert!(run.standing_reasons().contains(&"never_ran"), "{:?}", run.standing_reasons());
    }
    assert!(found.comparisons.iter().all(|one| one.trust().standing == Standing::Suspect));
    let json: serde_json::Value = serde_json::from_str(&folder.read("r.json")).unwrap();
    for one in json["comparisons"].as_array().unwrap() {
        assert!(one["verdict"].as_str().unwrap().ends_with(" (suspect)"), "{one}");
        assert_eq!(one["standing"], "suspect");
    }
    let goal = found.goals.iter().find(|goal| goal.scheduler == "no").unwrap();
    assert!(!goal.is_met());
    assert!(text.contains("(suspect: ") && text.contains("never_ran"), "{text}");
    assert!(folder.read("r.csv").lines().nth(1).unwrap().ends_with(",valid"));
    assert!(folder.read("r.csv").lines().last().unwrap().ends_with(",suspect"));
    assert!(folder.read("r.html").contains(", suspect: "));
    folder.run(&format!("{line} --strict")).refused(1, &["--strict: "]);
}

/// A CPU that is offline does not idle beside the task that waits on the other one.
#[test]
fn a_cpu_that_is_offline_does_not_idle() {
    let folder = Folder::new();
    let tasks = "[[tasks]]\nname = \"switch\"\nprogram = \"off\"\n[[tasks]]\nname = \"hog\"\ncount = 3\nprogram = \"burn\"\n";
    let programs = "off = [\"cpu 1 offline\", \"sleep 800ms\", \"cpu 1 online\", \"sleep 1s\"]\nburn = [\"repeat forever\", \"run 5ms\", \"done\"]\n";
    folder.write("off.toml", format!("name = \"off\"\nend = \"1s\"\n[programs]\n{programs}{tasks}"));
    folder.run("sim -q -s eevdf -w off.toml -c 2 --json r.json").ok();
    let run = document(&folder).runs.remove(0);
    let idle = run.warnings.iter().find(|warning| warning.kind == WarningKind::IdleBesideWaiting);
    assert_eq!(idle, None);
}

#[test]
fn one_run_a_side_decides_nothing() {
    let folder = Folder::new();
    folder.run("compare -q -s eevdf,o1 -w cpuhog:ntasks=3,ttime=50ms -c 1 --runs 1 --json r.json").ok();
    assert!(document(&folder).comparisons.iter().all(|one| one.verdict == Verdict::TooFewRuns));
}
