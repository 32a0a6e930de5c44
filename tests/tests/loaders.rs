//! Schedulers with their own loaders, `exec:COMMAND`: what the loader does reaches the simulated programs, a run is the same each
//! time, and a bad loader is reported and contained.
//!
//! Says "skipped" with the reason where there is no compiler.

#![cfg(target_arch = "x86_64")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use schedlab_live::kernel_image;
use schedlab_tests::{Ended, Schedlab, with_loaded_object};
use schedlab_trace::{ExitKind, Standing, WarningKind};
use std::time::Duration;

/// Far more than any of these takes on a busy host.
const LIMIT: Duration = Duration::from_secs(400);

/// The loader of these tests.
const LOADER: &str = env!("CARGO_BIN_EXE_own-loader");

/// The workload of all runs: long enough for several turns of the loader.
const HOGS: &str = "cpuhog:ntasks=4,ttime=1s";

fn scheduler(manner: &str) -> String {
    format!("mine=exec:{LOADER} loaded.bpf.o {manner}")
}

fn sim(lab: &Schedlab, manner: &str, more: &[&str]) -> Ended {
    lab.run(&[&["sim", "-q", "-c", "2", "-s", &scheduler(manner), "-w", HOGS], more].concat(), LIMIT)
}

/// A command that boots a VM; nothing where no kernel can be had.
fn in_vm(lab: &Schedlab, args: &[&str]) -> Option<Ended> {
    match kernel_image::find_or_fetch(&mut |_| {}) {
        Ok(_) => Some(lab.run(args, LIMIT)),
        Err(error) => {
            println!("skipped on a real kernel: {error}");
            None
        }
    }
}

#[test]
fn a_loader_takes_part() {
    let Some(lab) = with_loaded_object("loader-part") else { return };
    let ended = sim(&lab, "", &["--json", "r.json"]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let record = lab.record("r.json");
    let counter = |name: &str| record.counters.iter().find(|counter| counter.name == name).unwrap().value;
    // The constant, the program's context, and what it tells while it runs: 10 turns a second, but for what its task waits behind the
    // hogs for a CPU.
    assert_eq!((counter("nr_bonus"), counter("nr_setup")), (41, 7));
    // The program ran in the loader, and `ops.init()` in the kernel's own thread.
    assert_eq!((counter("nr_setup_process"), counter("nr_init_process")), (4_000_000, 999));
    let seconds = record.duration.0 / 1_000_000_000;
    assert!(seconds >= 1, "{seconds}");
    let turns = counter("nr_turns");
    assert!((seconds * 10 - 3..=seconds * 10 + 10).contains(&turns), "{turns} turns in {seconds} s");
    assert_eq!(counter("nr_weight"), 300 + turns, "the map and the variable are written in the same turn");
    assert!(counter("nr_sent") > 10);
    // It is a task of its scheduler: each of its turns begins with a wakeup.
    assert!(counter("nr_of_loader") >= turns, "{} wakeups of the loader", counter("nr_of_loader"));
    // A program that its section marks as optional, and that the loader asked for.
    assert!(counter("nr_switches") > 0);
    // What it wrote in its user ring buffer arrived once and in order, and what it took back did not.
    assert_eq!((counter("nr_requests"), counter("nr_requested")), (turns, turns));
    assert!(
        record.warnings.iter().all(|warning| !warning.text.contains("unconfigured")),
        "{:?}",
        record.warnings
    );
}

#[test]
fn the_same_command_gives_the_same_run() {
    let Some(lab) = with_loaded_object("loader-same") else { return };
    let run = |more: &[&str]| {
        let ended = sim(&lab, "", &[&["--json", "r.json"], more].concat());
        assert_eq!(ended.code, 0, "{}", ended.err);
        lab.record("r.json").trace_hash.unwrap()
    };
    let first = run(&[]);
    for _ in 0..4 {
        assert_eq!(run(&[]), first);
    }
    assert_eq!(run(&["--no-sandbox"]), first, "the sandbox changes nothing");
    assert_ne!(run(&["--seed", "2"]), first);
}

/// A loader's clock is the one that programs read, also if the loader has slept longer than a kernel is up when runs begin.
#[test]
fn a_loader_and_its_programs_read_one_clock() {
    let Some(lab) = with_loaded_object("loader-clock") else { return };
    for manner in ["", "late"] {
        let ended = sim(&lab, manner, &["--json", "r.json"]);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""));
        let output = lab.record("r.json").loader_output;
        let last = output.lines().last().unwrap();
        let ages = last.rsplit_once(" records of ").unwrap().1.strip_suffix(" ns").unwrap();
        let (youngest, oldest) = ages.split_once(" to ").unwrap();
        let [youngest, oldest]: [i64; 2] = [youngest, oldest].map(|age| age.parse().unwrap());
        // It reads every 100 ms, and waits behind the hogs for a CPU.
        assert!((0..=200_000_000).contains(&youngest), "{last}");
        assert!((youngest..=400_000_000).contains(&oldest), "{last}");
    }
}

/// A loader that waits by looking at a clock sees time pass: while it runs because its task is charged, before that by itself.
#[test]
fn a_loader_that_polls_clocks_goes_on() {
    let Some(lab) = with_loaded_object("loader-polls") else { return };
    let run = |options: &[&str]| {
        let ended = sim(&lab, "polls", &[&["--json", "r.json"], options].concat());
        assert_eq!((ended.code, ended.err.as_str()), (0, ""));
        lab.record("r.json")
    };
    let record = run(&[]);
    for turn in 0..4 {
        let polled = format!("own-loader: polled in turn {turn}\n");
        assert!(record.loader_output.contains(&polled), "no {polled:?} in {}", record.loader_output);
    }
    assert_eq!(run(&[]).trace_hash, record.trace_hash);
}

/// A loader's task may use the CPUs that it asks for, before the scheduler is attached and while it runs.
#[test]
fn a_loader_runs_where_it_wants() {
    let Some(lab) = with_loaded_object("loader-moves") else { return };
    let ended = sim(&lab, "moves", &["--json", "r.json"]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let record = lab.record("r.json");
    let setup = record.counters.iter().find(|counter| counter.name == "nr_setup_cpu").unwrap();
    assert_eq!(setup.value, 1, "programs that it runs are on its CPU");
    for turn in 0..4 {
        let line = format!("own-loader: turn {turn} on CPU {}, true\n", 1 - turn % 2);
        assert!(record.loader_output.contains(&line), "no {line:?} in {}", record.loader_output);
    }
}

/// A loader finds the groups of the workload as they are, by the numbers that programs know; the run reports what it was refused.
#[test]
fn a_loader_finds_the_groups() {
    let Some(lab) = with_loaded_object("loader-groups") else { return };
    let hogs = format!("{HOGS},cgroups=100/300");
    let scheduler = scheduler("groups");
    let args = ["sim", "-q", "-c", "2", "-s", &scheduler, "-w", &hogs, "--json", "r.json"];
    assert_eq!(lab.run(&args, LIMIT).code, 0);
    let record = lab.record("r.json");
    for line in [
        "own-loader: 300 and max 100000, 2 tasks\n",
        "own-loader: it has run: true\n",
        "own-loader: group 3, by its handle 0 254 3\n",
        "own-loader: Err(PermissionDenied) Err(PermissionDenied)\n",
    ] {
        assert!(record.loader_output.contains(line), "no {line:?} in {}", record.loader_output);
    }
    let refused = record.warnings.iter().find(|one| one.kind == WarningKind::LoaderRefused).unwrap();
    for path in ["writing to /sys/fs/cgroup/g1/cpu.weight", "changing the groups at /sys/fs/cgroup/g1/mine"] {
        assert!(refused.text.contains(path), "{}", refused.text);
    }
}

/// A loader that watches the root of the groups learns of those of the start in its first turn, and later of others.
#[test]
fn a_loader_learns_of_groups_that_appear_and_go() {
    let Some(lab) = with_loaded_object("loader-watches") else { return };
    let workload = r#"
name = "changes"
end = "1s"
[[groups]]
name = "a"
[[groups]]
name = "b"
later = true
[[groups]]
name = "d"
[[groups]]
name = "d/c"
later = true
[programs]
hog = ["repeat forever", "run 1ms", "done"]
changes = ["sleep 250ms", "cgroup b make", "cgroup d/c make", "sleep 300ms", "cgroup d/c remove", "cgroup b remove"]
[[tasks]]
name = "hog"
program = "hog"
group = "a"
[[tasks]]
name = "changes"
program = "changes"
"#;
    std::fs::write(lab.path("changes.toml"), workload).unwrap();
    let scheduler = scheduler("watches");
    let args = ["sim", "-q", "-c", "2", "-s", &scheduler, "-w", "changes.toml", "--json", "r.json"];
    let ended = lab.run(&args, LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let output = lab.record("r.json").loader_output;
    let said: Vec<&str> = output.lines().filter(|line| line.contains("own-loader: ")).collect();
    let reports: Vec<&str> =
        said.iter().filter_map(|line| line.split_once(": 0x").map(|(_, rest)| rest)).collect();
    assert!(said.contains(&"own-loader: watch 1"), "{output}");
    // IN_CREATE and IN_DELETE of folders; `d/c` is in no watched folder.
    assert_eq!(reports, ["40000100 a", "40000100 d", "40000100 b", "40000200 b"], "{output}");
}

/// A loader that computes without end keeps its CPU, as on a real kernel: the run continues, says so, and is the same each time.
#[test]
fn a_loader_that_computes_for_ever_keeps_a_cpu() {
    let Some(lab) = with_loaded_object("loader-stuck") else { return };
    let run = || {
        let ended = sim(&lab, "stuck", &["--json", "r.json"]);
        assert_eq!(ended.code, 0, "{}", ended.err);
        lab.record("r.json")
    };
    let record = run();
    let counter = |name: &str| record.counters.iter().find(|counter| counter.name == name).unwrap().value;
    assert_eq!(record.exit.kind, ExitKind::None, "{:?}", record.exit);
    // What it did by system calls in its last turn has arrived, what it wrote in mapped memory has not.
    assert_eq!((counter("nr_turns"), counter("nr_weight")), (2, 303));
    assert!(record.warnings.iter().any(|warning| warning.kind == WarningKind::LoaderComputes));
    // The hogs share two CPUs with the loader from 0.3 s on, which has a CPU to a third.
    let used: u64 = record.tasks.iter().map(|task| task.cpu_time.0).sum();
    assert!((1_600_000_000..1_900_000_000).contains(&used), "{used} ns of CPU time of {:?}", record.duration);
    assert_eq!(run().trace_hash, record.trace_hash);
}

#[test]
fn check_prints_what_the_loader_did() {
    let Some(lab) = with_loaded_object("loader-check") else { return };
    let ended = lab.run(&["check", &format!("exec:{LOADER} loaded.bpf.o")], LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.err);
    for words in [
        "the simulator runs it: yes",
        "bonus = 41",
        "weights: 8 entries",
        "setup returned 0",
        "enqueue = loaded_enqueue",
        "name = loaded",
    ] {
        assert!(ended.out.contains(words), "no {words:?} in {}", ended.out);
    }
}

#[test]
fn a_loader_that_attaches_nothing_is_told() {
    let Some(lab) = with_loaded_object("loader-bad") else { return };
    for (manner, words) in [
        ("exits", &["ended with exit code 3 before it attached a scheduler", "own-loader: not today"][..]),
        ("sleeps", &["waited 60 s of its own time and attached no scheduler"]),
        ("waits", &["attached no scheduler"]),
        ("spins", &["used up 10 s of CPU time and attached no scheduler"]),
        ("bombs", &["used up 10 s of CPU time and attached no scheduler", "another process"]),
        ("deaf", &["used up 10 s of CPU time and attached no scheduler"]),
        ("crowd", &["used up 10 s of CPU time and attached no scheduler"]),
        ("joins", &["used up 10 s of CPU time and attached no scheduler"]),
        ("aborts", &["was ended by signal 6 before it attached a scheduler"]),
        ("wild", &["waited 60 s of its own time", "no pages: true"]),
    ] {
        let ended = sim(&lab, manner, &[]);
        assert_eq!(ended.code, 2, "{manner}: {ended:?}");
        for word in words {
            assert!(ended.err.contains(word), "{manner}: no {word:?} in {}", ended.err);
        }
    }
    for (entry, words) in [
        ("exec:", "there is no command"),
        ("exec:no-such-loader", "no program 'no-such-loader' in PATH"),
        ("exec:/bin/true", "carries no BPF object"),
        ("exec:/bin/true 'x", "open quote"),
    ] {
        let ended = lab.run(&["sim", "-s", entry, "-w", HOGS], LIMIT);
        assert_eq!((ended.code, ended.err.lines().count()), (2, 1), "{entry}: {ended:?}");
        assert!(ended.err.contains(words), "{entry}: {}", ended.err);
    }
}

#[test]
fn other_kinds_of_use_are_answered() {
    let Some(lab) = with_loaded_object("loader-kinds") else { return };
    let ended = lab.run(&["check", &format!("exec:{LOADER} loaded.bpf.o kinds")], LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.err);
    for words in [
        "batch in: 0 10",
        "batch out: 135 in 3 calls, errno 2",
        "pinned: 0 0 27 true",
        "number: 0 true",
        "timer: 1 after 100 ms",
        "timer: 2 after 225 ms",
        "watch: true -1",
        // As Linux 7.3.4 answers, but for the number of CPUs: 8 here, whose slice is 0.7 ms times 4, at 1000 ticks a second.
        "attributes: 0 56 0 2800000 1024",
        "longer: 0 56 0",
        "short: -1",
        "priorities: [99, 0, -1] 1",
        "interval: 0 2000000",
        "files: ff 7",
        "written to a timer: -1 22",
    ] {
        assert!(ended.out.contains(words), "no {words:?} in {}", ended.out);
    }
    assert!(!ended.out.contains("not there"), "{}", ended.out);
}

/// One boot: the program loads its scheduler between runs of others, is stopped though it does not want to be, and a bad one is reported.
#[test]
fn loaders_run_on_a_real_kernel() {
    let Some(lab) = with_loaded_object("loader-real") else { return };
    let hogs = "cpuhog:ntasks=2,ttime=300ms";
    let list = format!("eevdf,{},stubborn=exec:{LOADER} loaded.bpf.o stubborn,o1", scheduler(""));
    let compare = ["compare", "--vm", "-q", "-c", "1", "--runs", "2", "-w", hogs, "--json", "r.json", "-s"];
    let Some(ended) = in_vm(&lab, &[&compare[..], &[&list]].concat()) else { return };
    assert_eq!(ended.code, 0, "{ended:?}");
    let runs = lab.records("r.json");
    let names: Vec<&str> = runs.iter().map(|run| run.scheduler.as_str()).collect();
    assert_eq!(names, ["eevdf", "mine", "stubborn", "o1"].repeat(2));
    for run in &runs {
        assert_eq!(run.exit.kind, ExitKind::None, "{}", run.scheduler);
        let attached = run.loader_output.contains("own-loader: attached");
        assert_eq!(attached, ["mine", "stubborn"].contains(&run.scheduler.as_str()), "{}", run.loader_output);
    }
    let Some(ended) = in_vm(&lab, &["run", "--vm", "-q", "-s", &scheduler("exits"), "-w", hogs]) else {
        return;
    };
    assert_eq!(ended.code, 2, "{ended:?}");
    for words in ["its loader ended with exit code 3 before it attached a scheduler", "not today"] {
        assert!(ended.err.contains(words), "no {words:?} in {}", ended.err);
    }
}

#[test]
fn settings_of_a_loader_are_refused_on_a_real_kernel() {
    let Some(lab) = with_loaded_object("loader-set") else { return };
    let ended = lab.run(&["run", "--vm", "-s", &scheduler(""), "-w", HOGS, "--set", "bonus=3"], LIMIT);
    assert_eq!((ended.code, ended.err.lines().count()), (2, 1), "{ended:?}");
    assert!(ended.err.contains("its own loader alone sets variables"), "{}", ended.err);
}

/// With the sandbox and without: the tracer decides about each call, and Landlock and seccomp hold besides.
#[test]
fn a_hostile_loader_is_contained() {
    let Some(lab) = with_loaded_object("loader-hostile") else { return };
    for sandbox in [&[][..], &["--no-sandbox"]] {
        let command = format!("exec:{LOADER} loaded.bpf.o hostile");
        let ended = lab.run(&[&["check", &command], sandbox].concat(), LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.err);
        let all = [
            "read", "write", "home", "socket", "fork", "exec", "memory", "kill", "trace", "reboot", "advice",
            "address", "message",
        ];
        assert!(ended.out.contains("own advice is taken: true"), "{sandbox:?}: {}", ended.out);
        for what in all {
            assert!(ended.out.contains(&format!("{what}: false")), "{what}, {sandbox:?}: {}", ended.out);
        }
        for told in [
            "file /etc/shadow",
            "a socket of family 2",
            "another process",
            "writing to /tmp/own-loader-was-here",
            "messages with an address",
        ] {
            assert!(ended.out.contains(told), "{told}, {sandbox:?}: {}", ended.out);
        }
        assert!(!std::path::Path::new("/tmp/own-loader-was-here").exists());
    }
}

/// A loader that ends during the run makes it void, whatever its exit code: in one run and in a comparison.
#[test]
fn a_run_whose_loader_leaves_is_void() {
    let Some(lab) = with_loaded_object("loader-leaves") else { return };
    let ended = sim(&lab, "leaves", &["--json", "r.json"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.out.contains("this run is void: ended_early"), "{}", ended.out);
    assert!(ended.err.contains("mine left before the end of cpuhog on 2 CPUs, unreg"), "{}", ended.err);
    let record = lab.record("r.json");
    assert_eq!((record.standing(), record.standing_reasons()), (Standing::Void, vec!["ended_early"]));
    let list = format!("vanilla,{}", scheduler("leaves"));
    let args = ["compare", "-q", "-c", "2", "--runs", "2", "-w", HOGS, "-s", &list];
    let ended = lab.run(&args, LIMIT);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(
        ended.out.contains("Void runs, which are in no mean:") && !ended.out.contains("worse"),
        "{}",
        ended.out
    );
}

/// A run warns of what its loader asked for in vain; one that got all is not warned about.
#[test]
fn a_run_tells_what_its_loader_was_refused() {
    let Some(lab) = with_loaded_object("loader-refused") else { return };
    let refused = |manner: &str| {
        let ended = sim(&lab, manner, &["--json", "r.json"]);
        assert_eq!(ended.code, 0, "{manner}: {ended:?}");
        let warnings = lab.record("r.json").warnings;
        let found = warnings.into_iter().find(|warning| warning.kind == WarningKind::LoaderRefused);
        assert_eq!(found.is_some(), ended.out.contains("was refused what a real kernel may give it"));
        found
    };
    assert_eq!(refused(""), None);
    let warning = refused("hostile").expect("it asks for much that it does not get");
    for told in ["a socket of family 2", "another process", "check lists them"] {
        assert!(warning.text.contains(told) && warning.count > 3, "{told}: {warning:?}");
    }
    let strict = sim(&lab, "hostile", &["--strict"]);
    assert_eq!(strict.code, 1, "{strict:?}");
}

/// The files that a loader's arguments name determine the run like the program itself.
#[test]
fn records_are_of_the_files_that_a_loader_is_given() {
    let Some(lab) = with_loaded_object("loader-record") else { return };
    let list = format!("vanilla,{} layers.json", scheduler("stubborn"));
    let args = ["compare", "-q", "-c", "1", "--runs", "1", "--resume", "kept", "-w", HOGS, "-s", &list];
    for (content, records) in [("one", 2), ("one", 2), ("two", 3)] {
        std::fs::write(lab.folder.join("layers.json"), content).unwrap();
        let ended = lab.run(&args, LIMIT);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(std::fs::read_dir(lab.folder.join("kept")).unwrap().count(), records, "{content}");
    }
}

/// The sandbox kills a loader that makes such a call; without the sandbox, the tracer has none made in its place.
#[test]
fn calls_of_another_instruction_set_are_not_made() {
    let Some(lab) = with_loaded_object("loader-narrow") else { return };
    for (sandbox, told) in [(&[][..], "was ended by signal 31"), (&["--no-sandbox"], "exit code 3")] {
        let command = format!("exec:{LOADER} loaded.bpf.o narrow");
        let ended = lab.run(&[&["check", &command], sandbox].concat(), LIMIT);
        // A kernel without calls of 32 bits ends it by SIGSEGV.
        assert!(ended.out.contains(told) || ended.out.contains("was ended by signal 11"), "{}", ended.out);
        assert!(!ended.out.contains("32 bits: true"), "{sandbox:?}: {}", ended.out);
        assert!(!std::path::Path::new("/tmp/own-loader-was-here").exists());
    }
}

/// A loader's output is gone, and nothing else: descriptors of the command are not among its own.
#[test]
fn a_loader_that_closes_everything_runs() {
    let Some(lab) = with_loaded_object("loader-closes") else { return };
    let ended = sim(&lab, "closes", &["--json", "r.json"]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let record = lab.record("r.json");
    assert!(record.counters.iter().any(|counter| counter.name == "nr_turns" && counter.value >= 5));
    assert!(!record.loader_output.contains("own-loader"), "{}", record.loader_output);
}

/// A loader keeps running, however much it writes; the end of its output is kept.
#[test]
fn a_flood_of_output_is_cut() {
    let Some(lab) = with_loaded_object("loader-floods") else { return };
    let ended = sim(&lab, "floods", &["--json", "r.json"]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let record = lab.record("r.json");
    let turns = record.counters.iter().find(|counter| counter.name == "nr_turns").unwrap().value;
    let (first, kept) = record.loader_output.split_once('\n').unwrap();
    let left_out: u64 = first.strip_prefix('[').unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(turns >= 5 && kept.len() == 1 << 20, "{turns} turns, {} bytes", kept.len());
    assert!(left_out > (turns - 1) << 24 && left_out < (turns + 1) << 24, "{first}");
    assert!(first.ends_with(" bytes of output left out]") && kept.lines().all(|line| line.contains("turn ")));
}

/// What the host keeps for a loader is limited, and what the command has inherited is not the loader's.
#[test]
fn a_greedy_loader_gets_little() {
    let Some(lab) = with_loaded_object("loader-greedy") else { return };
    let command = format!("exec 9>inherited; exec \"$0\" check \"exec:{LOADER} loaded.bpf.o greedy\"");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &command]).arg(lab.binary()).current_dir(&lab.folder);
    let ended = shell.output().unwrap();
    let out = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{out}");
    for told in [
        "inherited: false",
        "above a link: false",
        "memory file: false",
        "shared memory: false",
        "stack memory: false",
        "memory file after dup2: false",
        "memory file after dup3: false",
        "memory file after a dup2 that fails: false",
        "memory file after close_range: false",
        "large keys: false",
        "large values: 3",
        "maps: true",
        "folders: true",
        "writing to /file-",
        "and more",
    ] {
        assert!(out.contains(told), "no {told:?} in {out}");
    }
}
