//! Results: the same bytes for the same seed, every format, nothing lost when one
//! file fails.

use crate::faults::compile;
use crate::{Done, Folder};
use schedlab_report::from_json;
use schedlab_trace::percentile_metrics;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

const HOGS: &str = "-w cpuhog:ntasks=3,ttime=200ms -c 2";

/// The value of a string field of the JSON text, first place.
fn field<'a>(json: &'a str, name: &str) -> &'a str {
    let start = json.find(&format!("\"{name}\": \"")).unwrap() + name.len() + 5;
    &json[start..start + json[start..].find('"').unwrap()]
}

#[test]
fn equal_seeds_give_equal_bytes_and_others_another_hash() {
    let folder = Folder::new();
    for scheduler in ["eevdf", "o1", "vanilla"] {
        let run = |seed: u32| {
            folder
                .run(&format!("sim -s {scheduler} -w chat:rooms=1,messages=5 -c 4 --seed {seed} --json -"))
                .ok()
        };
        let first = run(7);
        assert_eq!(first, run(7), "{scheduler}");
        assert_ne!(field(&first, "trace_hash"), field(&run(8), "trace_hash"), "{scheduler}");
        assert!(first.contains("\"seed\": 7") && first.contains("\"backend\": \"sim\""));
    }
}

#[test]
fn percentiles_are_those_of_the_histograms() {
    let folder = Folder::new();
    let line = "compare -q -s eevdf,o1 -w chat:rooms=1,messages=5 -c 2 --runs 2 --json r.json --html r.html";
    folder.run(line).ok();
    let runs = from_json(&folder.read("r.json")).unwrap().runs;
    for run in &runs {
        let names: Vec<&str> = run.histograms.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["wakeup_latency_ns", "run_delay_ns"]);
        let percentiles = percentile_metrics(&run.histograms);
        assert!(percentiles.len() == 8 && percentiles.iter().all(|metric| run.metrics.contains(metric)));
    }
    let (page, name) = (folder.read("r.html"), "run_delay_ns");
    let waits = |run: usize| runs[run].histogram(name).unwrap().count();
    assert!(page.contains(&format!("o1: {} waits in 2 runs", waits(2) + waits(3))), "{page}");
}

/// Paths are bytes on this system.
#[test]
fn names_of_files_that_are_no_text() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let name = std::ffi::OsStr::from_bytes(b"\xff.html");
    let mut command = folder.command(&["sim", "-s", "eevdf", "-w", "cpuhog:ttime=1ms", "--html"]);
    Done::of(command.arg(name).output().unwrap()).ok();
    let page = std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(page.contains("--html '\u{fffd}.html'"), "{page}");
}

#[test]
fn a_trace_to_standard_output_replaces_the_tables() {
    let folder = Folder::new();
    let words = format!("sim -s eevdf {HOGS} --perfetto");
    let words: Vec<&str> = words.split_whitespace().collect();
    folder.run_words(&[&words[..], &["t"]].concat()).ok();
    let out = folder.command(&[&words[..], &["-"]].concat()).output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty());
    assert_eq!(out.stdout, std::fs::read(folder.path().join("t")).unwrap());
}

#[test]
fn json_to_standard_output_replaces_the_tables() {
    let folder = Folder::new();
    let text = folder.run(&format!("sim -s eevdf {HOGS} --json -")).ok();
    assert!(text.starts_with("{\n") && text.ends_with("}\n"));
    let table = folder.run(&format!("sim -s eevdf {HOGS} --json r.json")).ok();
    assert!(table.contains("hog/0") && table.contains("seed 1"), "{table}");
    assert_eq!(folder.read("r.json"), text);
}

#[test]
fn all_files_are_written() {
    let folder = Folder::new();
    let files = "--json r.json --csv r.csv --html r.html --perfetto r.pftrace";
    folder.run(&format!("sim -s o1 {HOGS} {files}")).ok();
    assert!(folder.read("r.csv").starts_with("scheduler,workload,"));
    let page = folder.read("r.html");
    assert!(page.contains("schedlab sim -s o1") && page.contains("CPUs over time under o1"));
    assert!(
        !page.contains(" src=") && !page.contains(" href=") && !page.contains("@import"),
        "it stands alone"
    );
    let trace = std::fs::read(folder.path().join("r.pftrace")).unwrap();
    let name = b"hog/0";
    assert!(trace.windows(name.len()).any(|window| window == name), "tasks are named");
}

#[test]
fn counters_come_with_their_meanings() {
    let folder = Folder::new();
    let text = folder.run(&format!("sim -s o1 {HOGS} -v --json r.json")).ok();
    let line = text.lines().find(|line| line.starts_with("nr_picks ")).unwrap();
    assert!(line.ends_with("picks that chose another task than the running one"), "{line}");
    let json = folder.read("r.json");
    let (values, meanings) = json.split_once("\"counter_meanings\"").unwrap();
    assert!(values.contains("\"nr_picks\": ") && field(meanings, "nr_picks").starts_with("picks that chose"));
    let text = folder.run(&format!("sim -s eevdf {HOGS} -v")).ok();
    assert!(text.contains("SCX_EV_") && !text.contains("meaning"), "nobody says what those mean");
}

#[test]
fn a_full_disk_loses_nothing_else() {
    let folder = Folder::new();
    let done = folder.run(&format!("sim -s eevdf {HOGS} --json /dev/full --csv r.csv"));
    done.refused(5, &["--json /dev/full", "No space left"]);
    assert!(done.out.contains("hog/0"), "the table is printed");
    assert!(folder.read("r.csv").contains("cpuhog"), "the other file is written");
    folder.run(&format!("sim -s eevdf {HOGS} --perfetto /dev/full")).refused(5, &["--perfetto /dev/full"]);
}

/// What a command does whose standard output is a pipe without a reader, from its start on.
fn without_reader(mut command: Command) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer).output().unwrap()
}

#[test]
fn a_closed_pipe_is_silent() {
    let folder = Folder::new();
    let output =
        without_reader(folder.command(&["sim", "-s", "eevdf", "-w", "cpuhog:ttime=50ms", "--json", "-"]));
    assert_eq!((output.status.signal(), output.stderr.as_slice()), (Some(libc::SIGPIPE), &b""[..]));
}

#[test]
fn a_closed_pipe_keeps_no_result_from_its_file_and_no_failure_from_its_code() {
    let folder = Folder::new();
    compile(&folder, "stall");
    let closed = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        without_reader(folder.command(&words))
    };
    for command in ["sim -s eevdf", "compare -s eevdf,o1"] {
        let line = format!("{command} -w cpuhog:ttime=50ms -c 1 --json r.json --csv r.csv --html r.html");
        assert_eq!(closed(&line).status.signal(), Some(libc::SIGPIPE));
        for file in ["r.json", "r.csv", "r.html"] {
            assert!(!folder.read(file).is_empty(), "{command}: {file}");
            std::fs::remove_file(folder.path().join(file)).unwrap();
        }
    }
    let ejected = closed("sim -s ./stall.bpf.o -w cpuhog:ntasks=3,ttime=40s -c 1 -q");
    assert_eq!(ejected.status.code(), Some(4), "{ejected:?}");
    for command in ["list", "--help", "sim --help", "man", "completions bash", "check o1", "stat none"] {
        let ended = closed(command);
        let at_once = ended.status.signal() == Some(libc::SIGPIPE) && ended.stderr.is_empty();
        assert!(
            at_once || command.starts_with("stat") && ended.status.code() == Some(2),
            "{command}: {ended:?}"
        );
    }
}

#[test]
fn a_full_standard_output_is_an_error() {
    let folder = Folder::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = folder.command(&["list"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    Done::of(output).refused(5, &["standard output"]);
}

#[test]
fn comparisons_do_not_depend_on_the_number_of_workers() {
    let folder = Folder::new();
    let run = |jobs: u32| {
        let line =
            "compare -s eevdf,vanilla,o1 --set o1:profile=d1 -w chat:rooms=1,messages=4 -c 1,2 --runs 3";
        folder.run(&format!("{line} -q --json - --jobs {jobs}")).ok()
    };
    let one = run(1);
    assert_eq!(one, run(4));
    assert!(one.contains("\"comparisons\"") && one.contains("\"verdict\"") && one.contains("o1[profile=d1]"));
}

#[test]
fn the_comparison_table_names_runs_and_verdicts() {
    let text = Folder::new().run("compare -s eevdf,o1 -w chat:rooms=1,messages=4 -c 2 --runs 3").ok();
    assert!(text.contains("throughput in messages/s of chat:rooms=1") && text.contains("baseline"), "{text}");
    assert!(text.contains("higher is better; intervals at 95 %"), "{text}");
}

#[test]
fn settings_reach_the_scheduler() {
    let folder = Folder::new();
    let hash = |set: &str| {
        let text = folder
            .run(&format!("sim -s vanilla {set} -w cpuhog:ntasks=3,nice=0/5,ttime=1s -c 1 --json -"))
            .ok();
        field(&text, "trace_hash").to_string()
    };
    assert_eq!(hash("--set profile=tsss"), hash("--set profile=PROFILE_TSSS"));
    assert_ne!(hash("--set profile=tsss"), hash("--set profile=2.4"));
}

#[test]
fn a_part_of_a_run_is_drawn() {
    let folder = Folder::new();
    let run = |window: &str| format!("sim -q -s eevdf {HOGS} --html r.html --timeline {window}");
    folder.run(&run("10ms..12.5ms")).ok();
    let page = folder.read("r.html");
    assert!(
        page.contains("From 10 ms to 12.500 ms of the run.")
            && page.contains("\"from\":10000000,\"to\":12500000")
    );
    folder.run(&run("2ms..1ms")).refused(2, &["--timeline", "ends before it begins", "FROM..TO"]);
    folder.run(&format!("sim -s eevdf {HOGS} --timeline 1ms..2ms")).refused(2, &["--html"]);
}

#[test]
fn machines_can_be_described_in_a_file() {
    let folder = Folder::new();
    folder.write("two.toml", "[machine]\nname = 'two'\ncpus = { sockets = 2, cores = 1 }\n");
    let text = folder.run("sim -s eevdf -w cpuhog:ttime=50ms -m two.toml --json -").ok();
    assert!(text.contains("\"machine\": \"two\"") && text.contains("\"cpus\": 2"));
}

#[test]
fn priorities_over_time_are_a_picture() {
    let folder = Folder::new();
    let run = |scheduler: &str| {
        format!(
            "sim -q -s {scheduler} -w cpuhog:ntasks=2 -c 1 --duration 500ms --priorities x.svg --html x.html"
        )
    };
    folder.run(&run("staircase")).ok();
    let picture = folder.read("x.svg");
    assert!(picture.starts_with("<svg ") && picture.contains("hog/1, nice 0"), "{picture}");
    assert!(picture.contains(">120</text>") && picture.matches("class=\"runs\"").count() == 2);
    // 38 steps in turn, then whole flights of stairs: more than twenty pieces each.
    assert!(picture.matches('H').count() > 60, "{picture}");
    assert!(folder.read("x.html").contains(&picture));
    folder.run(&run("vanilla")).refused(2, &["--priorities", "vanilla shows no priorities", "prio"]);
    assert!(!folder.read("x.html").contains("class=\"priorities\""));
}
