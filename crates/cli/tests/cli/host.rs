//! What a simulating command takes of the host: time, files, system calls, stack.

use crate::Folder;
use std::process::Command;

/// A run of more simulated time than any host makes in a second.
const ENDLESS: &str = "-w cpuhog:ntasks=64,ttime=1000000s";

#[test]
fn a_run_ends_with_its_time_limit() {
    let folder = Folder::new();
    let done = folder.run(&format!("sim -s o1 {ENDLESS} -c 8 --seed 5 --time-limit 200ms --json r.json -q"));
    assert_eq!(done.code, 3, "{done:?}");
    for part in
        ["run of o1 under cpuhog", "with 8 CPUs, seed 5", "--time-limit", "s of simulated time", "--duration"]
    {
        assert!(done.err.contains(part), "{part}: {done:?}");
    }
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
    let short = folder.run("sim -s o1 -w chat:rooms=1,messages=1 -c 2 --time-limit 10m -q");
    assert_eq!((short.code, short.err.as_str()), (0, ""));
}

#[test]
fn a_sweep_tells_which_runs_are_not_finished() {
    let folder = Folder::new();
    let done =
        folder.run(&format!("compare -s eevdf,o1 {ENDLESS} -c 2 --runs 2 --time-limit 100ms --resume r"));
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.err.contains("(4 runs are not finished in all)"), "{done:?}");
    let told = done.out.split("Not finished:").nth(1).unwrap();
    assert_eq!(told.lines().filter(|line| line.starts_with("* run of ")).count(), 4, "{done:?}");
    let refused = folder.run("compare -s eevdf,o1 -w chat --vm --time-limit 1s");
    assert!(refused.code == 2 && refused.err.contains("--time-limit"), "{refused:?}");
}

#[test]
fn results_do_not_depend_on_the_sandbox() {
    let folder = Folder::new();
    for (name, flags) in [("with", ""), ("without", " --no-sandbox")] {
        let line =
            format!("compare -s eevdf,o1 -w chat:rooms=1,messages=2 -c 2 -j 2 -q --json {name}.json{flags}");
        assert_eq!(folder.run(&line).code, 0);
    }
    assert_eq!(folder.read("with.json"), folder.read("without.json"));
}

#[test]
fn a_result_to_an_open_pipe_does_not_loosen_the_sandbox() {
    let folder = Folder::new();
    let short = "sim -s eevdf -w cpuhog --duration 1ms -v";
    let lacking = |line: &str| {
        let done = folder.run(line);
        assert_eq!(done.code, 0, "{done:?}");
        done.err.lines().filter(|line| line.contains("sandbox: ")).map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(lacking(&format!("{short} --json /dev/stdout")), lacking(short));
}

/// The system calls of a command, from the one that begins the sandbox on; nothing where there is no strace, or it may
/// not trace here.
fn calls_after_start(folder: &Folder, line: &str) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_schedlab");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "calls", program]).args(line.split_whitespace()).current_dir(folder.path());
    let traced = strace.output().ok().filter(|output| output.status.success())?;
    assert!(traced.stderr.is_empty(), "{}", String::from_utf8_lossy(&traced.stderr));
    let calls = folder.read("calls");
    let start = calls.rfind("seccomp(SECCOMP_SET_MODE_FILTER")?;
    Some(calls[start..].to_string())
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn after_its_start_a_simulating_process_makes_its_results_alone() {
    let folder = Folder::new();
    for line in [
        "sim -s o1 -w chat:rooms=1,messages=2 -c 2 -q --json r.json --html r.html --perfetto r.trace",
        "compare -s eevdf,o1 -w chat:rooms=1,messages=2 -c 2 -j 2 -q --csv r.csv --resume kept",
        "check o1",
    ] {
        let Some(calls) = calls_after_start(&folder, line) else {
            eprintln!("skipped: no strace, or it may not trace here");
            return;
        };
        for call in calls.lines().skip(1) {
            for banned in ["execve", "fork(", "socket", "ptrace(", "bpf(", "mkdir(\"/", "kill("] {
                assert!(!call.contains(banned), "{line}: {call}");
            }
            let writes = call.contains("O_WRONLY") || call.contains("O_RDWR") || call.contains("O_CREAT");
            let result = call.contains("\"r.") || call.contains("\"kept/") || call.contains(".part\"");
            assert!(!writes || result, "{line}: {call}");
            assert!(!call.contains("CLONE_VM") || call.contains("CLONE_THREAD"), "{line}: {call}");
        }
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_end_of_the_stack() {
    let folder = Folder::new();
    let deep = 100_000;
    folder.write("list.toml", format!("name = {}{}\n", "[".repeat(deep), "]".repeat(deep)));
    folder.write("key.toml", format!("name{} = 1\n", ".a".repeat(deep)));
    folder.write("table.toml", format!("[{}a]\n", "a.".repeat(deep)));
    folder.write("deep.json", format!("{}1{}", "{\"tasks\":".repeat(deep), "}".repeat(deep)));
    folder.write("result.json", format!("{{\"runs\":{}{}}}", "[".repeat(deep), "]".repeat(deep)));
    for line in [
        "sim -s eevdf -w list.toml",
        "sim -s eevdf -w key.toml",
        "sim -s eevdf -w table.toml",
        "sim -s eevdf -w deep.json",
        "sim -s eevdf -w cpuhog -m list.toml",
        "sim -s eevdf -w cpuhog -m key.toml",
        "stat result.json:x result.json:y",
    ] {
        let done = folder.run(line);
        // What a result file has no place for is not looked into.
        let told = ["recurs", "nest", "invalid type"].iter().any(|word| done.err.contains(word));
        assert!(done.code == 2 && told && done.err.lines().count() == 1, "{line}: {done:?}");
    }
}

#[test]
fn a_real_run_says_beforehand_how_long_it_takes() {
    let folder = Folder::new();
    // No VM is booted: what is announced comes first.
    let run = |words: &str| folder.run(&format!("run --vm --kernel /nonexistent -s eevdf {words}"));
    let long = run("-w mixed");
    assert!(long.err.starts_with("schedlab: one run of 60 s; --duration makes it less\n"), "{long:?}");
    let limited = run("-w mixed --duration 12s");
    assert!(limited.err.starts_with("schedlab: one run of 12 s;"), "{limited:?}");
    // The work of a chat decides how long it takes; its limit says little.
    for words in ["-w mixed --duration 9s", "-w chat --duration 1h", "-q -w mixed", "-- true"] {
        let silent = run(words);
        assert!(!silent.err.contains("one run of"), "{words}: {silent:?}");
    }
}

/// What `-m host` says of a short run, with a cache of its own.
fn on_host(folder: &Folder, flags: &[&str]) -> crate::Done {
    let words = ["sim", "-m", "host", "-s", "eevdf", "-w", "pipe:loops=50", "-c", "1", "-q"];
    let mut command = folder.command(&[&words[..], flags].concat());
    crate::Done::of(command.env("SCHEDLAB_CACHE", folder.path().join("cache")).output().unwrap())
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn measured_prices_count_in_the_sandbox_too() {
    let folder = Folder::new();
    let assumed = on_host(&folder, &[]).ok();
    let cache = folder.path().join("cache");
    assert!(!cache.exists(), "reading makes nothing");
    std::fs::create_dir(&cache).unwrap();
    let cpus = std::thread::available_parallelism().unwrap();
    let text = include_str!("../../../../machines/modern.toml");
    let line = |line: &str| match line.split_once(" = ") {
        Some(("name", _)) => "name = \"host\"\n".to_string(),
        Some(("cpus", _)) => format!("cpus = {cpus}\n"),
        Some(("context_switch", _)) => "context_switch = \"500us\"\n".to_string(),
        _ => format!("{line}\n"),
    };
    folder.write("cache/host.toml", text.lines().map(line).collect::<String>());
    let measured = on_host(&folder, &[]);
    if measured.code == 2 && measured.err.contains("describes") {
        eprintln!("skipped: this machine's CPUs share more than a line of a machine file says");
        return;
    }
    let measured = measured.ok();
    assert_ne!(measured, assumed);
    assert_eq!(measured, on_host(&folder, &["--no-sandbox"]).ok());
}

#[test]
fn a_kept_machine_that_is_no_file_of_ours_is_refused() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("cache")).unwrap();
    let fifo = Command::new("mkfifo").arg(folder.path().join("cache/host.toml")).status().unwrap();
    assert!(fifo.success());
    on_host(&folder, &[]).refused(5, &["-m host", "host.toml is no file"]);
    std::fs::remove_file(folder.path().join("cache/host.toml")).unwrap();
    folder.write("there.toml", "");
    std::os::unix::fs::symlink("../there.toml", folder.path().join("cache/host.toml")).unwrap();
    on_host(&folder, &[]).refused(5, &["-m host", "cache"]);
}
