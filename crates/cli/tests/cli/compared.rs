//! `compare` over several workloads, with traces, time lines and waits of each run, and at any width.

use crate::Folder;
use serde_json::Value;

const TWO: &str =
    "compare -q -s vanilla,o1 -w chat:rooms=1,messages=5 -w reflex:tasks=8,rounds=50 -c 2 --runs 2";

fn names(folder: &Folder, name: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path().join(name)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn several_workloads_make_one_table_and_a_ranking() {
    let folder = Folder::new();
    let text = folder.run(&format!("{TWO} --json r.json --csv r.csv --html r.html")).ok();
    assert!(text.contains("\n\nMeans of vanilla and how the others differ, on modern (sim)"), "{text}");
    let words: Vec<&str> = text.lines().take(3).collect();
    assert!(
        words[0].starts_with("Under chat on 2 CPUs, ") && words[1].starts_with("Under reflex on 2 "),
        "{text}"
    );
    assert_eq!(words[2], "", "{text}");
    let row = |name: &str| text.lines().find(|row| row.starts_with(name)).unwrap_or_default().to_string();
    assert!(row("chat ").contains(" throughput*, messages/s ") && row("reflex ").contains('%'), "{text}");
    assert!(text.contains("\nRanking\nfactor: geometric mean") && !text.contains("baseline\n"), "{text}");
    let result: Value = serde_json::from_str(&folder.read("r.json")).unwrap();
    let ranking = result["ranking"].as_array().unwrap();
    let place = |name: &str| ranking.iter().find(|one| one["scheduler"] == name).unwrap();
    assert_eq!((&place("vanilla")["factor"], ranking.len()), (&1.0.into(), 2));
    // The factor from the means: more messages are better, less time is.
    let compared = result["comparisons"].as_array().unwrap();
    let ratio = |workload: &str, metric: &str| {
        let is_main = |c: &&Value| c["workload"]["name"] == workload && c["metric"] == metric;
        let found = compared.iter().find(is_main).unwrap();
        found["candidate"]["mean"].as_f64().unwrap() / found["baseline"]["mean"].as_f64().unwrap()
    };
    let expected = (ratio("chat", "throughput") / ratio("reflex", "time_per_round")).sqrt();
    let found = place("o1")["factor"].as_f64().unwrap();
    assert!((found - expected).abs() < 1e-9 * expected, "{found} {expected}");
    let csv = folder.read("r.csv");
    assert!(csv.contains("\nvanilla,chat,") && csv.contains("\no1,reflex,"), "{csv}");
    let page = folder.read("r.html");
    for part in [
        "<h1>vanilla,<wbr> o1 under chat,<wbr> reflex</h1>",
        "<h2>Ranking</h2>",
        "<h3>chat:<wbr> throughput (",
        "<h3>reflex:<wbr> time_<wbr>per_<wbr>round (",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let all = folder.run(&TWO.replace("-q", "-v")).out;
    assert!(all.contains("Ranking") && all.contains("baseline\n"), "{all}");
}

#[test]
fn the_result_in_words_comes_before_the_table() {
    let folder = Folder::new();
    let line = "compare -q -s vanilla,o1 -w chat:rooms=1,messages=5 -c 1,2 --runs 3";
    let text = folder.run(line).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("On 2 CPUs, ") && lines[0].contains(", 95 % interval)"), "{text}");
    assert!(
        lines[1].starts_with("In throughput, from 1 to 2 CPUs vanilla ") && lines[1].contains("; o1 "),
        "{text}"
    );
    assert!(lines[2].is_empty() && lines[3].starts_with("throughput in messages/s of chat:"), "{text}");
    // The verdict is the table's.
    let verdict =
        lines.iter().rfind(|line| line.starts_with("   2  o1 ")).unwrap().rsplit("  ").next().unwrap();
    assert!(lines[0].contains(verdict), "{verdict}: {text}");
    // Without a second run there is no interval, and without a second number of CPUs no step.
    let one = folder.run("compare -q -s vanilla,o1 -w chat:rooms=1,messages=5 -c 2 --runs 1").ok();
    assert!(one.contains("(no interval: 1 run)") && !one.starts_with("In "), "{one}");
    assert!(one.contains(": too few runs.\n\nthroughput"), "{one}");
    assert!(folder.run(&format!("{line} --json -")).ok().starts_with('{'));
}

#[test]
fn warnings_that_are_alike_are_one_line_with_a_count() {
    let folder = Folder::new();
    let line =
        "compare -q -s libenzi,libenzi[idle_balance=false] -w chat:rooms=1,messages=20 -c 2,4 --runs 3";
    let text = folder.run(&format!("{line} --json r.json")).ok();
    let result: Value = serde_json::from_str(&folder.read("r.json")).unwrap();
    let runs = result["runs"].as_array().unwrap();
    let warned = |run: &&Value| {
        let own = run["warnings"].as_array().unwrap();
        run["settings"]["idle_balance"] == "false"
            && own.iter().any(|one| one["kind"] == "idle_beside_waiting")
    };
    let count = runs.iter().filter(warned).count();
    assert_eq!(count, 6, "the results keep each: {text}");
    let told: Vec<&str> =
        text.lines().filter(|line| line.starts_with("* libenzi[idle_balance=false], ")).collect();
    assert!(told.len() == 1 && told[0].contains("], 2 and 4 CPUs, 6 runs; the worst on "), "{text}");
}

#[test]
fn workloads_do_not_change_each_other() {
    let folder = Folder::new();
    let hashes = |line: &str| {
        let result: Value = serde_json::from_str(&folder.run(line).ok()).unwrap();
        let runs = result["runs"].as_array().unwrap().clone();
        runs.iter().map(|run| run["trace_hash"].to_string()).collect::<Vec<_>>()
    };
    let alone =
        |workload: &str| hashes(&format!("compare -q -s vanilla,o1 -w {workload} -c 2 --runs 2 --json -"));
    let both = [alone("chat:rooms=1,messages=5"), alone("reflex:tasks=8,rounds=50")].concat();
    assert_eq!(hashes(&format!("{TWO} --json - -j 2")), both);
    let kept = hashes(&format!("{TWO} --json - --resume runs"));
    assert_eq!((kept, names(&folder, "runs").len()), (both, 8));
}

#[test]
fn workloads_that_results_could_not_tell_apart() {
    let folder = Folder::new();
    let task =
        r#"{ "global": { "duration": 1 }, "tasks": { "t": { "run": 1000, "sleep": 1000, "loop": 5 } } }"#;
    folder.write("a.json", task);
    folder.write("b.json", task.replace("1000, \"loop\"", "3000, \"loop\""));
    let text = folder.run("compare -q -s eevdf,o1 -w a.json -w b.json -c 1 --runs 1 --csv r.csv").ok();
    let csv = folder.read("r.csv");
    assert!(csv.contains("\neevdf,rt-app,file=a.json,") && csv.contains("\no1,rt-app,file=b.json,"), "{csv}");
    assert!(text.contains("\nrt-app:file=a.json  ") && text.contains("\nrt-app:file=b.json  "), "{text}");
    let own = |run: &str| {
        format!(
            "name = \"own\"\nend = \"foreground-exit\"\n[programs]\np = [\"run {run}\"]\n[[tasks]]\nname = \"t\"\nprogram = \"p\"\n"
        )
    };
    folder.write("a.toml", own("1ms"));
    folder.write("b.toml", own("2ms"));
    folder.run("compare -q -s eevdf,o1 -w a.toml -w b.toml -c 1 --runs 1 --csv own.csv").ok();
    let csv = folder.read("own.csv");
    assert!(csv.contains("\neevdf,a.toml,") && csv.contains("\no1,b.toml,"), "{csv}");
    let refused = |workloads: &str, words: &[&str]| {
        folder.run(&format!("compare -s eevdf,o1 {workloads} -c 1")).refused(2, words);
    };
    refused("-w reflex -w reflex", &["-w reflex names reflex twice"]);
    refused("-w chat -w chat:rooms=10", &["-w chat:rooms=10", "same parameters"]);
    refused("-w a.json -w a.json", &["-w a.json", "twice"]);
    refused("-w chat -w nosuch", &["nosuch"]);
    folder.run("sim -s o1 -w chat -w reflex").refused(2, &["schedlab compare", "several workloads"]);
}

#[test]
fn each_run_has_a_trace_of_its_own() {
    let folder = Folder::new();
    folder.run(&format!("{TWO} --perfetto traces/all")).ok();
    let mut expected: Vec<String> = Vec::new();
    for scheduler in ["o1", "vanilla"] {
        for workload in ["chat", "reflex"] {
            expected.extend([1, 2].map(|seed| format!("{scheduler}-{workload}-2cpus-seed{seed}.pftrace")));
        }
    }
    assert_eq!(names(&folder, "traces/all"), expected);
    // The trace is that of `sim`.
    folder.run("sim -q -s o1 -w chat:rooms=1,messages=5 -c 2 --seed 2 --perfetto one.pftrace").ok();
    let bytes = |path: &str| std::fs::read(folder.path().join(path)).unwrap();
    assert!(bytes("one.pftrace") == bytes("traces/all/o1-chat-2cpus-seed2.pftrace"));
    folder.write("file", "");
    folder
        .run(&format!("{TWO} --perfetto file"))
        .refused(2, &["--perfetto file", "it is a file; name a folder"]);
    folder.run(&format!("{TWO} --perfetto t --resume r")).refused(2, &["--perfetto", "--resume"]);
    folder.run(&format!("{TWO} --perfetto t --vm")).refused(2, &["--perfetto", "--vm"]);
}

#[test]
fn waits_and_time_lines_of_compared_runs() {
    let folder = Folder::new();
    let text =
        folder.run(&format!("{TWO} --explain-waits --timeline 0..2ms --json r.json --html r.html")).ok();
    assert_eq!(text.matches("\nWho waited for whom: ").count(), 4, "{text}");
    assert!(text.contains("\nWho waited for whom: o1 on modern (2 CPUs, sim): chat:"), "{text}");
    let result: Value = serde_json::from_str(&folder.read("r.json")).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert!(runs.iter().all(|run| run["waits"]["pairs"].is_array()));
    assert!(runs.iter().any(|run| !run["waits"]["pairs"].as_array().unwrap().is_empty()));
    let page = folder.read("r.html");
    assert_eq!(page.matches("<div class=\"timeline\"").count(), 4);
    assert!(
        page.contains("Who waits for whom under o1,<wbr> reflex:") && page.contains("on 2 CPUs, seed 1"),
        "no heading"
    );
    assert!(!folder.run(TWO).ok().contains("Who waited"));
    folder.run(&format!("{TWO} --timeline 0..2ms")).refused(2, &["--html"]);
    folder.run(&format!("{TWO} --timeline 5..2ms --html r.html")).refused(2, &["5..2ms"]);
    // What was kept without its waits is made again with them.
    let waits =
        |flag: &str| folder.run(&format!("{TWO} --resume kept --json - {flag}")).ok().contains("\"waits\"");
    assert_eq!(["", "--explain-waits", ""].map(waits), [false, true, false]);
}

/// Runs a command with a width and gives the lines of its output.
fn lines(columns: &str, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Folder::new().command(&words).env("COLUMNS", columns).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

#[test]
fn tables_fit_a_narrow_terminal() {
    let label = "a-scheduler-with-a-very-long-name-that-no-terminal-has-room-for";
    for line in [
        "compare -q -s vanilla,o1,eevdf -w chat:rooms=1,messages=5 -c 1,2 --runs 2",
        &format!("{TWO} -s {label}=o1 --explain-waits"),
        &TWO.replace("-q", "-v"),
        "sim -v -s o1 -w chat:rooms=1,messages=5 -c 2 --explain-waits",
        "list -v",
    ] {
        let narrow = lines("60", line);
        let long: Vec<&String> = narrow.iter().filter(|line| line.chars().count() > 60).collect();
        assert!(long.is_empty(), "{line}: {long:#?}");
        // Nothing but the layout changes: every figure of the wide form is there.
        let wide = lines("1000", line);
        assert!(wide.iter().any(|line| line.chars().count() > 60) && narrow.len() > wide.len(), "{line}");
        let told = narrow.join("\n");
        for word in wide.iter().flat_map(|line| line.split_whitespace()).filter(|word| word.ends_with('%')) {
            assert!(told.contains(word), "{line}: {word}");
        }
    }
    // Without a terminal and without the variable, everything stands on its line.
    let line = "compare -q -s vanilla,o1 -w chat:rooms=1,messages=5 -c 2 --runs 2";
    assert_eq!(lines("", line), lines("1000", line));
    // Files and scripts are no tables.
    assert_eq!(lines("60", "completions bash"), lines("1000", "completions bash"));
    assert_eq!(lines("40", &format!("{line} --json -")), lines("1000", &format!("{line} --json -")));
}

#[test]
fn a_command_is_for_bench() {
    let refused = |line: &str, words: &[&str]| Folder::new().run(line).refused(2, words);
    refused("compare -s eevdf,o1 --live -w chat -- true", &["schedlab bench -s A,B -- COMMAND", "-w"]);
    refused("compare -s eevdf,o1", &["--workload"]);
    // The fair class needs neither privilege nor sched_ext.
    let folder = Folder::new();
    folder.run("bench -s eevdf,again=eevdf --runs 1 --json b.json -- true").ok();
    let results: Value = serde_json::from_str(&folder.read("b.json")).unwrap();
    assert_eq!(results["runs"].as_array().unwrap().len(), 2);
}
