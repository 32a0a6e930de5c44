//! The shipped workload files.

use super::Folder;
use std::path::Path;

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name);
    path.canonicalize().unwrap().display().to_string()
}

/// CPU time of a task in milliseconds, out of the table of tasks.
fn cpu_ms(text: &str, task: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(&format!("{task} "))).unwrap();
    line.split_whitespace().nth(2).unwrap().parse().unwrap()
}

#[test]
fn a_hog_gets_less_while_it_is_nice() {
    let folder = Folder::new();
    let file = shipped("renice.toml");
    let text = folder.run_words(&["sim", "-q", "-s", "o1", "-w", &file, "-c", "2"]).ok();
    // Shares a CPU with hog/1: half of 2 s, slices of 5 against 100 ms for 2 s, half of 2 s. It begins the last two
    // seconds, as it is to preempt hog/1 there: otherwise it has 90 ms less.
    let first = cpu_ms(&text, "hog/0");
    assert!((2150.0..2200.0).contains(&first), "{first}: {text}");
    assert!((cpu_ms(&text, "hog/1") - (6000.0 - first)).abs() < 5.0, "{text}");
    assert!(cpu_ms(&text, "changes") < 1.0, "{text}");
}

/// The entries of `goals` in a result file.
fn goals(folder: &Folder) -> Vec<serde_json::Value> {
    let result: serde_json::Value = serde_json::from_str(&folder.read("r.json")).unwrap();
    result["goals"].as_array().cloned().unwrap_or_default()
}

#[test]
fn goals_are_judged_and_change_nothing_of_the_run() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(shipped("frames.toml")).unwrap();
    folder.write("with.toml", &text);
    let line = text.lines().find(|line| line.starts_with("goals = ")).unwrap();
    folder.write("without.toml", text.replace(line, ""));
    let run = |file: &str| {
        let told = folder.run(&format!("sim -s o1 -w {file} -c 2 --strict --json r.json")).ok();
        let result: serde_json::Value = serde_json::from_str(&folder.read("r.json")).unwrap();
        (told, result["runs"][0].clone())
    };
    let (told, with) = run("with.toml");
    assert!(told.contains("\nGoals\n") && told.contains("late_percent < 1 %"), "{told}");
    assert!(
        goals(&folder).iter().all(|goal| goal["verdict"] == "met" && goal["margin"].as_f64() > Some(0.0))
    );
    assert_eq!(goals(&folder).len(), 2);
    let (told, without) = run("without.toml");
    assert!(!told.contains("Goals") && goals(&folder).is_empty(), "{told}");
    assert_eq!(with, without, "hashes, trace and figures");
}

#[test]
fn a_missed_goal_fails_under_strict_alone() {
    let folder = Folder::new();
    let file = shipped("frames.toml");
    let compare =
        ["compare", "-s", "o1,eevdf", "-w", &file, "-c", "1", "--runs", "2", "-q", "--json", "r.json"];
    let words = [&compare[..], &["--html", "r.html", "--csv", "r.csv"]].concat();
    let told = folder.run_words(&words).ok();
    let row = told.lines().find(|row| row.starts_with("tail <= 16.6 ms") && row.contains("eevdf")).unwrap();
    assert!(row.ends_with(" missed   2 of 2"), "{told}");
    let judged: Vec<_> = goals(&folder).iter().map(|goal| goal["verdict"].to_string()).collect();
    assert_eq!(judged, ["\"met\"", "\"missed\"", "\"met\"", "\"missed\""], "o1, then eevdf, of each goal");
    assert!(folder.read("r.html").contains("<h2>Goals</h2>"));
    let csv = folder.read("r.csv");
    let met = |scheduler: &str| -> Vec<&str> {
        let lines =
            csv.lines().filter(|line| line.starts_with(scheduler) && line.contains(",tail <= 16.6 ms,"));
        lines.filter_map(|line| line.split(",goal_met,").nth(1)?.get(..1)).collect()
    };
    assert_eq!((met("o1,"), met("eevdf,")), (vec!["1", "1"], vec!["0", "0"]), "{csv}");
    let strict = folder.run_words(&[&compare[..], &["--strict"]].concat());
    strict.refused(
        1,
        &[
            "--strict: goal late_percent < 1 % of frames under eevdf on 1 CPU: missed by 2 of 2 seeds",
            "2 goals",
        ],
    );
}

#[test]
fn a_wrong_goal_is_refused_with_its_line() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(shipped("frames.toml")).unwrap();
    for (to, words) in [
        ("tial <= 16.6ms", "f.toml:6: goal 'tial <= 16.6ms': no metric 'tial' (did you mean 'tail'?)"),
        ("tail <= 16.6", "f.toml:6: goal 'tail <= 16.6': tail is a time"),
        ("tail == 16.6ms", "the sign is none of <, <=, > and >="),
    ] {
        folder.write("f.toml", text.replace("tail <= 16.6ms", to));
        folder.run("sim -s o1 -w f.toml").refused(2, &[words]);
    }
}

/// Every metric of a run is one that a goal can name, with its unit.
#[test]
fn goals_know_all_metrics_of_a_run() {
    let folder = Folder::new();
    // A machine that prices cache lines has all of them.
    let frames = shipped("frames.toml");
    folder.run_words(&["sim", "-s", "o1", "-m", "p3-700", "-w", &frames, "--json", "r.json"]).ok();
    let result: serde_json::Value = serde_json::from_str(&folder.read("r.json")).unwrap();
    let own = ["late_percent", "tail"];
    let metrics = result["runs"][0]["metrics"].as_object().unwrap();
    let mut found: Vec<(String, String)> = metrics
        .iter()
        .filter(|(name, _)| !own.contains(&name.as_str()))
        .map(|(name, metric)| (name.clone(), metric["unit"].as_str().unwrap().to_string()))
        .collect();
    let mut known: Vec<_> =
        schedlab_base::RUN_METRICS.iter().map(|(name, unit)| (name.to_string(), unit.to_string())).collect();
    known.sort();
    found.sort();
    assert_eq!(found, known);
}

/// A file of rt-app with this body of `tasks`, which runs for a second.
fn rt_app(folder: &Folder, name: &str, tasks: &str) {
    let text = format!("{{ \"tasks\": {{ {tasks} }}, \"global\": {{ \"duration\": 1 }} }}");
    std::fs::write(folder.0.join(name), text).unwrap();
}

#[test]
fn phases_of_rt_app_run_on_their_cpus() {
    let folder = Folder::new();
    let phase = |cpu: u32| format!("\"p{cpu}\": {{ \"cpus\": [{cpu}], \"run\": 20000 }}");
    rt_app(
        &folder,
        "f.json",
        &format!("\"walker\": {{ \"loop\": 3, \"phases\": {{ {}, {}, {} }} }}", phase(0), phase(1), phase(0)),
    );
    let text = folder.run("sim -q -s o1 -w f.json -c 4").ok();
    let line = text.lines().find(|line| line.starts_with("walker ")).unwrap();
    // Two migrations a pass: to CPU 1 and back. It starts on a CPU of its own choice.
    let migrations: u32 = line.split_whitespace().last().unwrap().parse().unwrap();
    assert!((6..=7).contains(&migrations), "{text}");
    assert!((179.9..181.0).contains(&cpu_ms(&text, "walker")), "{text}");
}

#[test]
fn semaphores_of_rt_app_remember() {
    let folder = Folder::new();
    let posts = "\"sem_post\": \"s\", ".repeat(3);
    rt_app(
        &folder,
        "f.json",
        &format!(
            "\"early\": {{ \"loop\": 1, {posts} \"run\": 1000 }},
             \"late\": {{ \"loop\": 5, \"delay\": 50000, \"sem_wait\": \"s\", \"run\": 2000 }},
             \"quiet\": {{ \"loop\": 1, \"suspend\", \"run\": 900000 }},
             \"caller\": {{ \"loop\": 1, \"resume\": \"nobody\", \"memrun\": {{ \"type\": \"chase\", \"size\": 65536, \"count\": 99999 }} }}"
        ),
    );
    let text = folder.run("sim -q -s o1 -w f.json -c 2").ok();
    // Three of five passes find a unit; a task that is not resumed never computes.
    assert!((5.9..6.5).contains(&cpu_ms(&text, "late")), "{text}");
    assert!(cpu_ms(&text, "quiet") < 1.0, "{text}");
    assert!(cpu_ms(&text, "caller") > 0.1, "{text}");
}

#[test]
fn what_rt_app_has_and_we_have_not_is_refused_by_name() {
    let folder = Folder::new();
    for (tasks, words) in [
        (
            "\"t\": { \"run\": 1, \"taskgroup\": \"a\" }",
            "f.json:1: tasks.t.taskgroup: 'a' is no path from the root",
        ),
        ("\"t\": { \"exec\": 1 }", "tasks.t.exec: rt-app does not read 'exec' any more"),
        (
            "\"t\": { \"run\": 1, \"policy\": \"SCHED_DEADLINE\" }",
            "tasks.t: SCHED_DEADLINE by dl-runtime, dl-deadline and dl-period (microseconds): a runtime",
        ),
    ] {
        rt_app(&folder, "f.json", tasks);
        folder.run("sim -s o1 -w f.json -c 2").refused(2, &[words]);
    }
}

#[test]
fn files_of_rt_app_are_put_together() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("g.json"), "{ \"global\": { \"duration\": 1 } }").unwrap();
    for name in ["a", "b"] {
        let text = format!("{{ \"tasks\": {{ \"{name}\": {{ \"run\": 1000 }} }} }}");
        std::fs::write(folder.0.join(format!("{name}.json")), text).unwrap();
    }
    let text = folder.run("sim -q -s o1 -w g.json+a.json+b.json -c 1").ok();
    for task in ["a", "b"] {
        assert!((490.0..510.0).contains(&cpu_ms(&text, task)), "{text}");
    }
    folder.run("sim -s o1 -w g.json+c.json -c 1").refused(2, &["workload file c.json: No such file"]);
    folder.run("sim -s o1 -w g.json -c 1").refused(2, &["g.json:1: tasks: the section is missing"]);
    // A resumed sweep sees that one of the files has changed.
    let sweep = "compare -q -s o1,eevdf -w g.json+a.json+b.json -c 1 --runs 2 --resume done";
    let first = folder.run(sweep).ok();
    assert_eq!(folder.run(sweep).ok(), first);
    std::fs::write(folder.0.join("b.json"), "{ \"tasks\": { \"b\": { \"run\": 2000 } } }").unwrap();
    assert_ne!(folder.run(sweep).ok(), first);
}

/// A task that draws frames of 10 ms against one that computes.
const FRAMES: &str = r#"
name = "frames"
end = "2s"
[programs]
draw = ["repeat forever", "timer 0 20ms absolute", "begin frame", "run 10ms", "end frame", "count frames", "done"]
hog = ["repeat forever", "run 1ms", "done"]
[[tasks]]
name = "draw"
program = "draw"
[[tasks]]
name = "hog"
program = "hog"
[metrics]
worst = { kind = "max", span = "frame" }
fps = { kind = "rate", counter = "frames" }
best = { kind = "fastest", span = "frame" }
late = { kind = "misses", span = "frame", late_if_longer_than = "10.5ms" }
late_percent = { kind = "miss-percent", span = "frame", late_if_longer_than = "10.5ms" }
"#;

#[test]
fn figures_of_a_file_stand_in_its_order_and_count_misses() {
    let folder = Folder::new();
    folder.write("frames.toml", FRAMES);
    let figures = |cpus: u32| -> Vec<(String, f64, String)> {
        let text = folder.run(&format!("sim -q -s eevdf -w frames.toml -c {cpus}")).ok();
        let lines = text.lines().skip_while(|line| !line.starts_with("worst ")).take(5);
        let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
        words.map(|w| (w[0].into(), w[1].parse().unwrap(), w.get(2).unwrap_or(&"").to_string())).collect()
    };
    let alone = figures(2);
    let names: Vec<&str> = alone.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["worst", "fps", "best", "late", "late_percent"]);
    assert_eq!((alone[0].2.as_str(), alone[2].2.as_str(), alone[4].2.as_str()), ("ms", "ms", "%"));
    assert!((10.0..10.5).contains(&alone[0].1), "{alone:?}");
    assert_eq!((alone[3].1, alone[4].1), (0.0, 0.0), "{alone:?}");
    // With half a CPU's share it needs the whole period: frames are late.
    let shared = figures(1);
    assert!(shared[0].1 > 10.5 && shared[3].1 >= 1.0 && shared[4].1 > 1.0, "{shared:?}");
    // The first figure of the file is the page's main plot.
    folder.run("compare -q -s eevdf,o1 -w frames.toml -c 2 --runs 2 --html p.html").ok();
    let page = folder.read("p.html");
    let at = |name: &str| page.find(&format!("{name} (")).unwrap_or_else(|| panic!("no {name}"));
    assert!(at("worst") < at("fps") && at("fps") < at("best"), "the order of the file");
}
