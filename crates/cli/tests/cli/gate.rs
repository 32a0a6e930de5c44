//! The gate of `compare`: what fails it, a kept baseline, budgets, and its reports.

use crate::{Done, Folder};
use serde_json::Value;

/// Two schedulers of which the second takes a fifth longer.
const SLOWER: &str = "compare -q -s o1,vanilla";

const LOAD: &str = "-w chat:rooms=1,messages=20 -c 2 --runs 3";

fn gate(folder: &Folder, line: &str, flags: &str) -> Done {
    folder.run(&format!("{line} {LOAD} {flags}"))
}

#[test]
fn a_scheduler_that_is_a_fifth_slower_fails() {
    let folder = Folder::new();
    let done = gate(&folder, SLOWER, "--fail-on worse");
    done.refused(1, &["vanilla is worse than o1: chat on 2 CPUs, throughput -1", " to ", "2 checks failed"]);
    assert!(
        done.out.contains("\ngate (--fail-on worse): 4 checks: 2 passed, 2 failed, 0 not decided\n"),
        "{done:?}"
    );
    for flags in
        ["--fail-on worse:run_time=15", "--fail-on worse=15", "--fail-on suspect --fail-on worse:run_time"]
    {
        gate(&folder, SLOWER, flags).refused(1, &["vanilla is worse than o1"]);
    }
    // The estimate decides between percentages, and no flag means no gate.
    for flags in ["--fail-on worse=30", "--fail-on worse:throughput=30", "--fail-on suspect", ""] {
        let done = gate(&folder, SLOWER, flags);
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{flags}: {done:?}");
        assert_eq!(done.out.contains("gate ("), !flags.is_empty());
    }
    let equal = gate(&folder, "compare -q -s o1,o1", "--fail-on worse --fail-on suspect").ok();
    assert!(equal.contains("0 failed"), "{equal}");
    gate(&folder, "compare -q -s vanilla,o1", "--fail-on worse").ok();
}

#[test]
fn runs_that_are_suspect_fail_where_that_is_asked_for() {
    let folder = Folder::new();
    let idle = "compare -q -s libenzi,libenzi[idle_balance=false]";
    let suspect = gate(&folder, idle, "--fail-on suspect");
    suspect.refused(1, &["libenzi: chat on 2 CPUs, seed 1: suspect: idle_beside_waiting", "2 checks failed"]);
    assert_eq!(gate(&folder, idle, "--fail-on worse=80").code, 0);
    gate(&folder, "compare -q -s o1,o1", "--fail-on suspect --strict").ok();
}

#[test]
fn conditions_that_nothing_can_answer_are_refused() {
    let folder = Folder::new();
    let refused = |flags: &str, words: &[&str]| gate(&folder, SLOWER, flags).refused(2, words);
    refused("--fail-on worse:troughput", &["no metric 'troughput' (did you mean 'throughput'?)", "run_time"]);
    refused("--fail-on worst", &["'worst'", "worse:METRIC=PERCENT"]);
    refused("--fail-on worse:throughput=x", &["'x' is no percentage"]);
    refused("--budget enqeue=4", &["did you mean 'enqueue'?"]);
    refused("--budget verifier=4", &["--budget verifier=4", "schedlab check OBJECT --vm"]);
    refused("--budget enqueue=4 --vm", &["leave out --vm"]);
    refused("--junit - --markdown -", &["only one of --junit and --markdown"]);
    folder.run("compare -s o1,vanilla -w chat --runs 1 --fail-on worse").refused(2, &["give --runs 2"]);
    folder.run("check o1 --budget verifier=4").refused(2, &["add --vm or --live"]);
    folder.run("check o1 --live --budget enqueue=4").refused(2, &["schedlab compare --budget"]);
}

#[test]
fn a_record_stands_for_the_baseline() {
    let folder = Folder::new();
    gate(&folder, "compare -q -s vanilla,o1", "-o base.record --json base.json").ok();
    let now = |flags: &str| gate(&folder, "compare -q -s o1", &format!("--fail-on worse {flags}"));
    let better = now("--baseline base.record --json now.json").ok();
    assert!(
        better.contains("vanilla (kept)") && better.contains("\nbaseline: vanilla of base.record, object "),
        "{better}"
    );
    let result: Value = serde_json::from_str(&folder.read("now.json")).unwrap();
    let kept: Value = serde_json::from_str(&folder.read("base.json")).unwrap();
    assert_eq!(result["runs"][0]["provenance"], kept["runs"][0]["provenance"]);
    assert_eq!(result["runs"].as_array().unwrap().len(), 6);
    for named in ["base.record:o1", "base.json:o1"] {
        let same = now(&format!("--baseline {named}")).ok();
        assert!(same.contains("no difference that matters") && same.contains("4 passed"), "{same}");
    }
    let slower = "compare -q -s vanilla --fail-on worse --baseline base.json:o1";
    gate(&folder, slower, "").refused(1, &["vanilla is worse than o1 (kept)"]);
    now("--baseline base.record --seed 2").refused(2, &["no run of chat with seed 4; its seeds: 1, 2, 3"]);
    now("--baseline base.record -m p3-700").refused(2, &["the machine differs: modern (", "p3-700 ("]);
    now("--baseline base.record --duration 5ms").refused(2, &["--duration differs"]);
    now("--baseline base.record:o2").refused(2, &["no runs of 'o2' (did you mean 'o1'?)"]);
    now("--baseline none.record").refused(2, &["--baseline none.record"]);
    now("--baseline base.record --vm").refused(2, &["--baseline", "--vm"]);
    now("--baseline base.json --json base.json").refused(2, &["base.json is read by this command"]);
    let other = |flags: &str| folder.run(&format!("compare -q -s o1 --baseline base.record {flags}"));
    other("-w chat:rooms=2,messages=20 -c 2").refused(2, &["rooms=1 there, rooms=2 here"]);
    other("-w chat:rooms=1,messages=20 -c 4").refused(2, &["on 4 CPUs; its numbers of CPUs: 2"]);
    other("-w reflex -c 2").refused(2, &["no run of workload reflex; it has chat"]);
}

#[test]
fn budgets_count_instructions() {
    let folder = Folder::new();
    let over = gate(&folder, SLOWER, "--budget enqueue=100 --budget switch=100000 --budget cpu_online=0");
    over.refused(
        1,
        &[
            "vanilla is over budget: chat on 2 CPUs, enqueue takes ",
            "instructions a call (--budget enqueue=100)",
        ],
    );
    assert!(over.out.contains("6 checks") || over.out.contains("7 checks"), "{}", over.out);
    gate(&folder, SLOWER, "--budget enqueue=5000").ok();
    // The baseline has no budget.
    gate(&folder, "compare -q -s vanilla,eevdf", "--budget enqueue=0").ok();
}

#[test]
fn reports_say_what_the_gate_says() {
    let folder = Folder::new();
    let flags = "--fail-on worse --junit gate.xml --markdown gate.md --annotate github";
    let done = gate(&folder, SLOWER, flags);
    assert_eq!(done.code, 1);
    let errors: Vec<&str> = done.err.lines().filter(|line| line.starts_with("::error title=")).collect();
    assert_eq!((errors.len(), errors[0].contains("%25 (")), (2, true), "{}", done.err);
    assert!(!done.out.contains("::"), "{}", done.out);
    let xml = folder.read("gate.xml");
    assert!(xml.contains("<testsuites name=\"schedlab\" tests=\"4\" skipped=\"0\" failures=\"2\""), "{xml}");
    assert_eq!(xml.matches("<failure message=\"vanilla is worse than o1: ").count(), 2, "{xml}");
    let page = folder.read("gate.md");
    for part in [
        "### schedlab: failed\n",
        "| `throughput, messages/s` | `o1` |",
        "```sh\nschedlab compare -q -s o1,vanilla",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    // Standard output has one result, whatever is annotated.
    let json = gate(&folder, SLOWER, "--fail-on worse --annotate github --json -");
    assert!(serde_json::from_str::<Value>(&json.out).is_ok());
    assert!(gate(&folder, SLOWER, "--junit -").ok().starts_with("<?xml"));
    assert!(gate(&folder, SLOWER, "--markdown -").ok().starts_with("### schedlab: compared\n"));
    let words: Vec<&str> =
        SLOWER.split(' ').chain(LOAD.split(' ')).chain(["--fail-on", "worse=80"]).collect();
    let at_github = |words: &[&str]| {
        Done::of(folder.command(words).env("GITHUB_ACTIONS", "true").output().unwrap())
            .err
            .contains("::notice")
    };
    assert!(at_github(&words) && !at_github(&[words.as_slice(), &["--annotate", "none"]].concat()));
}

#[test]
fn a_bench_has_a_gate_too() {
    let folder = Folder::new();
    let line = "bench -q -s eevdf,again=eevdf --runs 2 --fail-on worse:elapsed=1000 --junit b.xml -- true";
    folder.run(line).ok();
    assert!(folder.read("b.xml").contains("name=\"again: elapsed\""));
    folder
        .run("bench -s eevdf,again=eevdf --fail-on worse:elapsd -- true")
        .refused(2, &["did you mean 'elapsed'"]);
}
