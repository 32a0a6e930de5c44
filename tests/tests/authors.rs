//! Schedulers that users write: those that `schedlab new` makes, with the headers beside them, in both arms; objects that leave
//! something to a loader of their own.
//!
//! Says "skipped" with the reason where there is no compiler, QEMU or kernel.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use schedlab_base::TimeNs;
use schedlab_live::kernel_image;
use schedlab_tests::{Schedlab, clang, compile, files, has_clang};
use schedlab_trace::{Printed, RunRecord, WarningKind};

/// Far more than any of these takes on a busy host, boot under emulation included.
const LIMIT: Duration = Duration::from_secs(400);

/// Three hogs on one CPU; of nice 5 is the second.
const HOGS: &str = "cpuhog:ntasks=3,nice=0/5,ttime=4s";

/// A hog, and one that comes a second later.
const LATE: &str = "
name = 'late'
end = '10s'

[programs]
hog = ['repeat forever', 'run 1ms', 'done']
late = ['sleep 1s', 'repeat forever', 'run 1ms', 'done']

[[tasks]]
name = 'first'
program = 'hog'

[[tasks]]
name = 'late'
program = 'late'
";

/// Makes a scheduler and compiles it as its page advises; without a compiler it says so and gives nothing.
fn new_scheduler(lab: &Schedlab, name: &str, template: &str) -> Option<String> {
    let Some(clang) = clang() else {
        println!("skipped: no clang 19 or newer (Debian, Ubuntu: apt-get install clang-19)");
        return None;
    };
    let made = lab.run(&["new", name, "--from", template], LIMIT);
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{made:?}");
    let flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-I", "include", "-c"];
    let (source, object) = (format!("{name}.bpf.c"), format!("{name}.bpf.o"));
    let mut compiler = Command::new(clang);
    compiler.args(flags).args([&source, "-o", &object]).current_dir(lab.path(name));
    let done = compiler.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(format!("./{name}/{object}"))
}

fn run(lab: &Schedlab, arm: &[&str], object: &str, workload: &str) -> RunRecord {
    let fixed = ["-q", "-c", "1", "-s", object, "-w", workload, "--json", "r.json"];
    let ended = lab.run(&[arm, &fixed].concat(), LIMIT);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{arm:?}");
    let run = lab.record("r.json");
    assert_eq!(run.exit.kind.name(), "none", "{:?}", run.exit);
    run
}

fn shares(run: &RunRecord) -> Vec<f64> {
    run.tasks.iter().map(|task| task.share).collect()
}

#[test]
fn new_schedulers_share_as_they_say_in_both_arms() {
    let lab = Schedlab::new("authors");
    for (template, expected) in [("vtime", [0.43, 0.14, 0.43]), ("fifo", [1.0 / 3.0; 3])] {
        let Some(object) = new_scheduler(&lab, &format!("my_{template}"), template) else { return };
        let simulated = run(&lab, &["sim"], &object, HOGS);
        assert!(simulated.warnings.is_empty(), "{:?}", simulated.warnings);
        let mut runs = vec![simulated];
        match kernel_image::find_or_fetch(&mut |_| {}) {
            Err(error) => println!("skipped on a real kernel: {error}"),
            Ok(_) => runs.push(run(&lab, &["run", "--vm", "--icount=16"], &object, HOGS)),
        }
        for run in runs {
            for (share, expected) in shares(&run).into_iter().zip(expected) {
                assert!((share - expected).abs() < 0.03, "{template}, {:?}: {:?}", run.backend, run.tasks);
            }
        }
    }
}

/// Two groups with a sub-scheduler each beside tasks of the host, and one more level.
const HOSTED: &str = "name = 'hosted'
end = '2s'

[[groups]]
name = 'a'
cpu_weight = 300

[[groups]]
name = 'a/x'

[[groups]]
name = 'a/y'
cpu_weight = 200

[[groups]]
name = 'b'

[programs]
hog = ['run 20s']

[[tasks]]
name = 'x'
program = 'hog'
count = 4
group = 'a/x'

[[tasks]]
name = 'y'
program = 'hog'
count = 4
group = 'a/y'

[[tasks]]
name = 'b'
program = 'hog'
count = 4
group = 'b'

[[tasks]]
name = 'r'
program = 'hog'
count = 4
";

/// A host with sub-schedulers, one of which is a host too: shares follow the weights of groups, and a sub-scheduler that fails leaves alone.
#[test]
fn hosts_and_guests_share_by_groups_in_both_arms() {
    let lab = Schedlab::new("authors-hosts");
    let Some(host) = new_scheduler(&lab, "my_host", "host") else { return };
    let Some(guest) = new_scheduler(&lab, "my_guest", "guest") else { return };
    std::fs::write(lab.path("hosted.toml"), HOSTED).unwrap();
    // From the start: to attach one later, a real kernel's loader and workers wait behind the own tasks of the host.
    let [a, y, b] = [format!("a={host}"), format!("a/y={guest}"), format!("b={guest}")];
    for cpus in ["1", "2"] {
        let wanted = |arm: &[&str]| {
            let subs = ["--sub", &a, "--sub", &y, "--sub", &b];
            let fixed = ["-q", "-c", cpus, "-s", &host, "-w", "hosted.toml", "--json", "r.json"];
            let ended = lab.run(&[arm, &fixed, &subs].concat(), LIMIT);
            assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{arm:?}");
            lab.record("r.json")
        };
        let mut runs = vec![wanted(&["sim", "-m", "vm-icount", "--checkers"])];
        if kernel_image::find_or_fetch(&mut |_| {}).is_ok() {
            runs.push(wanted(&["run", "--vm", "--icount=4"]));
        }
        for run in runs {
            assert!(run.warnings.is_empty(), "{:?}", run.warnings);
            let ends =
                run.subs.iter().map(|sub| (sub.refused, sub.exit.kind.name(), sub.exit.message.as_str()));
            assert!(ends.clone().all(|end| end == (None, "unreg", "")), "{:?}", run.subs);
            let shares = shares(&run);
            let total: f64 = shares.iter().sum();
            let parts = shares.chunks(4).map(|tasks| tasks.iter().sum::<f64>() / total);
            for (part, expected) in parts.zip([0.2, 0.4, 0.2, 0.2]) {
                assert!((part - expected).abs() < 0.02, "{cpus} CPUs, {:?}: {shares:?}", run.backend);
            }
        }
    }
}

/// The default template gives tasks what `eevdf` gives them, on one, two and four CPUs, also where tasks do not divide evenly.
#[test]
fn the_default_template_shares_by_weight_on_several_cpus() {
    let lab = Schedlab::new("template-shares");
    let Some(object) = new_scheduler(&lab, "my_vtime", "vtime") else { return };
    for (cpus, load) in
        [("1", "3,nice=0/5"), ("2", "3,nice=0/5"), ("2", "4,nice=0/5"), ("4", "8,nice=0/5/19")]
    {
        let load = format!("cpuhog:ntasks={load},ttime=4s");
        let of = |scheduler: &str| {
            let fixed =
                ["sim", "-q", "--strict", "-c", cpus, "-s", scheduler, "-w", &load, "--json", "r.json"];
            let ended = lab.run(&fixed, LIMIT);
            assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{scheduler}, {load}");
            shares(&lab.record("r.json"))
        };
        for (mine, fair) in of(&object).into_iter().zip(of("eevdf")) {
            assert!((mine - fair).abs() < 0.05, "{load} on {cpus}: {mine}, eevdf {fair}");
        }
    }
}

/// The files of a new scheduler's folder but those that it was made with and into.
fn files_of(folder: &Path) -> BTreeSet<PathBuf> {
    files(folder, &["c", "h"])
        .into_iter()
        .map(|path| path.strip_prefix(folder).unwrap().to_path_buf())
        .collect()
}

/// The source and the headers that the compiler reads for it.
fn needed(clang: &str, folder: &Path) -> BTreeSet<PathBuf> {
    let mut compiler = Command::new(clang);
    compiler.args(["-target", "bpf", "-mcpu=v3", "-MM", "-I", ".", "-I", "include", "mine.bpf.c"]);
    let done = compiler.current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let rule = String::from_utf8_lossy(&done.stdout).replace("\\\n", " ");
    let folder = folder.canonicalize().unwrap();
    let real =
        |word: &str| folder.join(word).canonicalize().unwrap().strip_prefix(&folder).unwrap().to_path_buf();
    rule.split_once(':').unwrap().1.split_whitespace().map(real).collect()
}

/// A copy of o1 with its layers compiles where it is, and schedules as the shipped one.
#[test]
fn a_copy_of_o1_is_o1() {
    let Some(clang) = clang() else {
        return println!("skipped: no clang 19 or newer (Debian, Ubuntu: apt-get install clang-19)");
    };
    let lab = Schedlab::new("copies");
    let made = lab.run(&["new", "mine", "--from", "o1"], LIMIT);
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{made:?}");
    for words in [" -I . -I include -c mine.bpf.c", "schedlab check mine.bpf.o"] {
        assert!(made.out.contains(words), "no {words:?} in {}", made.out);
    }
    let mut make = Command::new("make");
    make.arg(format!("CLANG={clang}")).current_dir(lab.path("mine"));
    let done = make.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(
        files_of(&lab.path("mine")),
        needed(&clang, &lab.path("mine")),
        "what o1 includes, and no more"
    );
    let hash = |scheduler: &str| {
        let fixed = ["sim", "-q", "-c", "2", "-s", scheduler, "-w", "mixed:ttime=1s", "--json", "r.json"];
        let ended = lab.run(&fixed, LIMIT);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{scheduler}");
        lab.record("r.json").trace_hash
    };
    assert_eq!(hash("./mine/mine.bpf.o"), hash("o1"));
    let told = lab.run(&["sim", "-s", "mine/mine.bpf.c", "-w", "chat"], LIMIT);
    assert!(told.err.contains(" -I mine -I mine/include -c mine/mine.bpf.c"), "{told:?}");
}

/// Objects that use each macro of the headers named scx/: a real kernel's verifier takes them.
#[test]
fn a_real_verifier_takes_the_headers() {
    if !has_clang() {
        return;
    }
    if let Err(error) = kernel_image::find_or_fetch(&mut |_| {}) {
        return println!("skipped on a real kernel: {error}");
    }
    let lab = Schedlab::new("dialect-verified");
    for name in ["queues", "data", "cids", "ends"] {
        compile(&format!("dialect/{name}"), "bpf", &lab.path("o.bpf.o")).unwrap();
        let ended = lab.run(&["check", "-q", "--vm", "o.bpf.o"], LIMIT);
        assert!(ended.out.contains("the VM kernel's verifier takes it: yes"), "{name}: {ended:?}");
    }
}

/// The lines of a scheduler that prints one as it begins and one for each task that it queues, in the arm of `arm`.
fn printed(lab: &Schedlab, arm: &[&str]) -> Printed {
    let fixed = [
        "-q",
        "-c",
        "2",
        "-s",
        "./p.bpf.o",
        "-w",
        "lat-sched:ntasks=4",
        "--duration",
        "2s",
        "--json",
        "r.json",
    ];
    let ended = lab.run(&[arm, &fixed].concat(), LIMIT);
    assert_eq!(ended.code, 0, "{ended:?}");
    let told = format!("The scheduler printed {} lines (bpf_printk); -v shows them\n", {
        let printed = &lab.record("r.json").printed;
        printed.lines.len() as u64 + printed.left_out
    });
    assert!(ended.out.contains(&told), "no {told:?} in {}", ended.out);
    lab.record("r.json").printed
}

#[test]
fn printed_lines_are_told_in_both_arms_and_a_flood_is_counted() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("prints");
    compile("prints", "bpf", &lab.path("p.bpf.o")).unwrap();
    let mut arms = vec![printed(&lab, &["sim"])];
    match kernel_image::find_or_fetch(&mut |_| {}) {
        Err(error) => println!("skipped on a real kernel: {error}"),
        Ok(_) => arms.push(printed(&lab, &["run", "--vm", "--icount=16"])),
    }
    for Printed { lines, left_out } in arms {
        // The callback that begins takes some instructions.
        assert!(lines[0].text == "begins" && lines[0].time < TimeNs(1_000), "before the run: {:?}", lines[0]);
        assert!(lines.len() == 1000 && left_out > 0, "{} kept, {left_out} left out", lines.len());
        assert!(lines[1..].iter().all(|line| line.text.starts_with("queues ")), "of this run alone");
        let of_tasks = lines.iter().filter(|line| line.task.starts_with("yield/")).count();
        assert!(of_tasks > 100, "{of_tasks} lines beside tasks of the workload: {:?}", &lines[900..910]);
        assert!(lines.iter().all(|line| line.cpu.0 < 2) && lines.iter().any(|line| line.time > TimeNs::ZERO));
    }
}

/// `-v` shows what the scheduler's callbacks cost, which of its integers have changed and what is in its maps.
#[test]
fn the_state_of_a_scheduler_is_shown() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("state");
    compile("prints", "bpf", &lab.path("p.bpf.o")).unwrap();
    let sim = ["sim", "-s", "./p.bpf.o", "-w", "cpuhog:ntasks=3,ttime=3s", "-c", "1", "--json", "r.json"];
    let ended = lab.run(&[&sim[..], &["-v", "--perfetto", "t.pftrace"]].concat(), LIMIT);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    let run = lab.record("r.json");
    let queued = run.printed.lines.len() as u64 - 1 + run.printed.left_out;
    let trace = String::from_utf8_lossy(&std::fs::read(lab.path("t.pftrace")).unwrap()).into_owned();
    assert_eq!(trace.matches("queues 10").count() as u64, queued, "the trace has every line");
    let cost = run.callbacks.iter().find(|cost| cost.name == "enqueue").unwrap();
    assert_eq!(cost.calls, queued);
    assert!(cost.insns > Some(20 * queued) && cost.time.0 > queued, "{cost:?}");
    let table = |name: &str| run.tables.iter().find(|table| table.name == name).unwrap();
    let globals = &table("globals").rows;
    assert!(run.counters.iter().all(|counter| counter.name != "balance"), "what is below 0 is no count");
    assert!(globals.contains(&vec!["balance".into(), "0".into(), format!("-{queued}")]), "{globals:?}");
    assert!(globals.contains(&vec!["queued_on[0]".into(), "0".into(), queued.to_string()]), "{globals:?}");
    assert!(!globals.iter().any(|row| row[0] == "never" || row[0] == "queued_on[1]"), "{globals:?}");
    let tasks = table("map tasks");
    assert!(tasks.meaning.starts_with("HASH, 3 entries of at most 100"), "{}", tasks.meaning);
    let times = |row: &Vec<String>| row[2].strip_prefix("{times=")?.split(',').next()?.parse::<u64>().ok();
    let mut pids: Vec<&str> = tasks.rows.iter().map(|row| row[0].as_str()).collect();
    pids.sort_unstable();
    assert_eq!(pids, ["1001", "1002", "1003"]);
    assert_eq!(tasks.rows.iter().filter_map(times).sum::<u64>(), queued, "{:?}", tasks.rows);
    let slots = table("map slots");
    assert_eq!(slots.rows.len(), 64, "the first ones");
    assert!(
        slots.meaning.contains("the first 64 values") && slots.meaning.contains("left out"),
        "{}",
        slots.meaning
    );
    for words in [
        "insns/call",
        "enqueue",
        "map slots: ARRAY, 200 entries",
        "integers of the object that the run has changed",
    ] {
        assert!(ended.out.contains(words), "no {words:?} in {}", ended.out);
    }
    let quiet = lab.run(&sim, LIMIT);
    assert!(!quiet.out.contains("insns/call") && !quiet.out.contains("map slots"), "{}", quiet.out);
    assert!(lab.record("r.json").tables.is_empty() && lab.record("r.json").trace_hash == run.trace_hash);
}

/// A task that has run alone is no further than one that comes later, which has no claim for the time before.
#[test]
fn a_late_task_gets_its_part_and_no_more() {
    let lab = Schedlab::new("late");
    let Some(object) = new_scheduler(&lab, "late", "vtime") else { return };
    std::fs::write(lab.path("late.toml"), LATE).unwrap();
    let run = run(&lab, &["sim"], &object, "late.toml");
    // Alone for 1 s of 10, then half.
    assert!(
        (shares(&run)[0] - 0.55).abs() < 0.005 && (shares(&run)[1] - 0.45).abs() < 0.005,
        "{:?}",
        run.tasks
    );
}

#[test]
fn what_is_left_to_a_loader_is_told() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("unconfigured");
    compile("unconfigured", "bpf", &lab.path("u.bpf.o")).unwrap();
    let left = "its own loader would have written 2 variables (quantum_us, weights: --set NAME=VALUE; 0 says that it is meant) and run 1 program (set_up: --run-prog NAME[:HEX])";
    let told = lab.run(&["check", "u.bpf.o"], LIMIT);
    assert!(told.out.contains(&format!("left to its loader: {left}")), "{told:?}");

    let run = run(&lab, &["sim"], "u.bpf.o", "cpuhog:ttime=100ms");
    let kinds: Vec<_> = run.warnings.iter().map(|warning| (warning.kind, warning.count)).collect();
    assert_eq!(kinds, [(WarningKind::Unconfigured, 3)]);

    let arguments = ["compare", "-q", "-s", "eevdf,u.bpf.o", "-w", "cpuhog:ttime=100ms", "-c", "1,2"];
    let compared = lab.run(&arguments, LIMIT);
    assert_eq!(compared.out.matches(left).count(), 1, "once, whatever it ran: {compared:?}");
    let strict = lab.run(&[&arguments[..], &["--strict"]].concat(), LIMIT);
    assert_eq!(strict.code, 1, "{strict:?}");

    let set = ["--set", "quantum_us=0", "--set", "weights[0]=1"];
    let meant = lab.run(&[&["check", "u.bpf.o"], &set[..]].concat(), LIMIT);
    assert!(!meant.out.contains("written") && meant.out.contains("set_up"), "{meant:?}");
    let with_flags = lab.run(&["check", "u.bpf.o", "--set", "unconfigured_ops.flags=4"], LIMIT);
    assert!(!with_flags.out.contains("would have written"), "{with_flags:?}");
    let run = ["check", "u.bpf.o", "--set", "ops.flags=4", "--run-prog", "set_up"];
    let configured = lab.run(&run, LIMIT);
    assert!(configured.code == 0 && !configured.out.contains("left to its loader"), "{configured:?}");
}
