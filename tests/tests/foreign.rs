//! Other people's schedulers: the kernel's own examples, compiled from the distribution's kernel sources and run unmodified
//! in the simulator and on a stock kernel in a VM. Compared is how much each task ran.
//!
//! Says "skipped" with the reason where there is no compiler, QEMU, kernel or network.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::process::Command;
use std::time::Duration;

use schedlab_live::kernel_image::{self, ExampleSources};
use schedlab_tests::{Ended, Schedlab, clang};
use schedlab_trace::RunRecord;

/// Far more than any of these takes on a busy host, boot under emulation included.
const LIMIT: Duration = Duration::from_secs(400);

/// A real kernel whose time is instructions, so that other work of the host does not show.
const REAL: [&str; 3] = ["run", "--vm", "--icount=16"];

/// Largest difference between the arms in the share that a task has of what all of its kind got.
const TOLERANCE: f64 = 0.03;

/// Hogs of three nice values, and tasks that wake all the time. Without these, a quiet simulated machine and a real one,
/// whose kernel threads come and go, differ. Under scx_simple a hog that stops only comes back at once if another task
/// stood in the queue.
const HOGS: &str = "
name = 'hogs'
end = '8s'

[programs]
hog = ['repeat forever', 'run 1ms', 'done']
tick = ['repeat forever', 'run 20us', 'sleep 3ms', 'done']

[[tasks]]
name = 'hog'
program = 'hog'
count = 4
nice = [0, 0, 5, 10]

[[tasks]]
name = 'tick'
program = 'tick'
count = 4
background = true
";

/// Tasks that ask for less than the machine has.
const PERIODIC: &str = "periodic:tasks=4,run=2ms,sleep=10ms,ttime=4s";

/// What the tests need, or why they cannot run.
fn sources() -> Result<(ExampleSources, String), String> {
    let clang = clang().ok_or("no clang 19 or newer (package clang-19)")?;
    let found = kernel_image::fetch_example_sources(&mut |_| {}).map_err(|error| error.to_string())?;
    Ok((found, clang))
}

fn qemu() -> Result<(), String> {
    let found = Command::new("qemu-system-x86_64").arg("--version").output();
    found.map(|_| ()).map_err(|error| format!("qemu-system-x86_64: {error} (package qemu-system-x86)"))
}

/// The lab with these examples compiled in its folder; says so and gives nothing where that cannot be.
fn lab(test: &str, names: &[&str], with_vm: bool) -> Option<Schedlab> {
    let ready = sources().and_then(|found| if with_vm { qemu().map(|()| found) } else { Ok(found) });
    let (sources, clang) = match ready {
        Ok(found) => found,
        Err(reason) => {
            println!("skipped: {reason}");
            return None;
        }
    };
    let lab = Schedlab::new(test);
    for name in names {
        sources.compile(name, &clang, &lab.path(&format!("{name}.bpf.o"))).unwrap();
    }
    std::fs::write(lab.path("hogs.toml"), HOGS).unwrap();
    Some(lab)
}

fn object(name: &str) -> String {
    format!("./{name}.bpf.o")
}

fn run(lab: &Schedlab, arm: &[&str], name: &str, workload: &str, cpus: &str, more: &[&str]) -> Ended {
    let _ = std::fs::remove_file(lab.path("result.json"));
    let object = object(name);
    let fixed = ["-q", "-c", cpus, "-s", &object, "-w", workload, "--json", "result.json"];
    lab.run(&[arm, &fixed, more].concat(), LIMIT)
}

/// Both arms, which both have to end well.
fn both(lab: &Schedlab, name: &str, workload: &str, cpus: &str, more: &[&str]) -> [RunRecord; 2] {
    [&["sim"][..], &REAL].map(|arm| {
        let ended = run(lab, arm, name, workload, cpus, more);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{name} {workload} {arm:?}");
        let record = lab.record("result.json");
        assert_eq!(record.exit.kind.name(), "none", "{name} {workload} {arm:?}: {:?}", record.exit);
        record
    })
}

/// What each task called `kind/N` got of what they all got, and the CPUs' worth of that.
fn parts(run: &RunRecord, kind: &str) -> (Vec<f64>, f64) {
    let of_kind = |name: &str| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with('/'));
    let shares: Vec<f64> =
        run.tasks.iter().filter(|task| of_kind(&task.name)).map(|task| task.share).collect();
    let sum: f64 = shares.iter().sum();
    assert!(sum > 0.0, "{kind} in {:?}", run.tasks);
    (shares.iter().map(|share| share / sum).collect(), sum)
}

fn same_parts(runs: &[RunRecord; 2], kind: &str) {
    let [simulated, real] = runs.each_ref().map(|run| parts(run, kind).0);
    println!("{} {}: simulated {simulated:.3?}, real {real:.3?}", runs[0].scheduler, runs[0].workload.name);
    assert_eq!(simulated.len(), real.len());
    for (a, b) in simulated.iter().zip(&real) {
        assert!((a - b).abs() <= TOLERANCE, "simulated {simulated:.3?}, real {real:.3?}");
    }
}

#[test]
fn scx_simple_gives_the_same_shares() {
    let Some(lab) = lab("foreign-simple", &["scx_simple"], true) else { return };
    let runs = both(&lab, "scx_simple", "hogs.toml", "2", &[]);
    same_parts(&runs, "hog");
    // By weight: nice 0 weighs 100, nice 10 weighs 11.
    let (hogs, _) = parts(&runs[0], "hog");
    assert!(hogs[0] > 6.0 * hogs[3], "{hogs:?}");
    // On one CPU: what an emulated second one does less, short runs would be charged for.
    same_parts(&both(&lab, "scx_simple", PERIODIC, "1", &[]), "periodic");
    let fifo = both(&lab, "scx_simple", "hogs.toml", "2", &["--set", "fifo_sched=true"]);
    same_parts(&fifo, "hog");
}

#[test]
fn scx_cpu0_runs_everything_on_cpu_0() {
    let Some(lab) = lab("foreign-cpu0", &["scx_cpu0"], true) else { return };
    for workload in ["cpuhog:ntasks=3,nice=0/5/10,ttime=6s", PERIODIC] {
        let runs = both(&lab, "scx_cpu0", workload, "2", &[]);
        let kind = if workload == PERIODIC { "periodic" } else { "hog" };
        same_parts(&runs, kind);
        for run in &runs {
            let (_, sum) = parts(run, kind);
            assert!(sum <= 1.03, "one CPU's worth, of {}: {sum}", run.cpus);
            assert!(run.tasks.iter().all(|task| task.migrations == 0), "{:?}", run.tasks);
        }
    }
}

#[test]
fn scx_sdt_shares_alike() {
    let Some(lab) = lab("foreign-sdt", &["scx_sdt"], true) else { return };
    same_parts(&both(&lab, "scx_sdt", "cpuhog:ntasks=4,nice=0/0/5/10,ttime=6s", "2", &[]), "hog");
}

/// The arrays of `scx_central` and its number of CPUs are what its loader fills in; with both, every CPU gets work on both sides.
#[test]
fn scx_central_uses_all_cpus() {
    let Some(lab) = lab("foreign-central", &["scx_central"], true) else { return };
    for run in both(&lab, "scx_central", "cpuhog:ntasks=4,ttime=6s", "2", &[]) {
        let (parts, sum) = parts(&run, "hog");
        println!("scx_central: {parts:.3?} of {sum:.3} CPUs");
        assert!(sum > 1.7, "{sum}");
    }
}

/// The simulator runs it. Verifiers refuse what older compilers make of it: a register that holds a pointer into its arena is
/// taken for a number. Where that happens the refusal is clear; where it does not, shares agree.
/// Two groups of hogs for a parent and two children.
const GROUPS: &str = "\
name = 'groups'
end = '2s'
[[groups]]
name = 'a'
cpu_weight = 300
[[groups]]
name = 'b'
[programs]
hog = [ 'run 20s' ]
[[tasks]]
name = 'x'
program = 'hog'
count = 4
group = 'a'
[[tasks]]
name = 'y'
program = 'hog'
count = 4
group = 'b'
";

/// The kernel's example of sub-schedulers, as parent and as child: it divides CPUs by weight and rotates the rest.
#[test]
fn scx_qmap_takes_itself_as_sub_scheduler() {
    let Some(lab) = lab("foreign-subs", &["scx_qmap"], false) else { return };
    std::fs::write(lab.path("groups.toml"), GROUPS).unwrap();
    let entry = "./scx_qmap.bpf.o[max_tasks=1024,slice_ns=5000000,round_robin_ns=100000000]";
    let [a, b] = ["a", "b"].map(|group| format!("{group}@100ms={entry}"));
    let args = [
        "sim",
        "-q",
        "-c",
        "4",
        "-s",
        entry,
        "--sub",
        &a,
        "--sub",
        &b,
        "-w",
        "groups.toml",
        "--json",
        "r.json",
    ];
    let ended = lab.run(&args, LIMIT);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    let run = lab.record("r.json");
    assert_eq!(run.exit.kind.name(), "none", "{:?}", run.exit);
    assert!(
        run.subs.iter().all(|sub| sub.refused.is_none() && sub.exit.kind.name() == "unreg"),
        "{:?}",
        run.subs
    );
    // Of four CPUs `a` has two for itself and its turns on the others.
    let [a, b] = [0, 1].map(|group: usize| run.groups[group].cpu_time.as_secs_f64());
    assert!(a > 3.0 && b > 0.05 && a > 3.0 * b, "a has {a} s, b {b} s");
}

#[test]
fn scx_qmap_runs_or_is_refused_with_the_place() {
    let Some(lab) = lab("foreign-qmap", &["scx_qmap"], true) else { return };
    let ended = run(&lab, &["sim"], "scx_qmap", "hogs.toml", "2", &[]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.err.contains("--set max_tasks=VALUE") && ended.err.lines().count() == 1, "{ended:?}");
    // What its own loader sets.
    let more = ["--set", "max_tasks=16384", "--set", "round_robin_ns=200000000"];
    let ended = run(&lab, &["sim"], "scx_qmap", "hogs.toml", "2", &more);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    let simulated = lab.record("result.json");
    assert!(parts(&simulated, "hog").1 > 1.4, "{:?}", simulated.tasks);
    let ended = run(&lab, &REAL, "scx_qmap", "hogs.toml", "2", &more);
    if ended.code == 0 {
        same_parts(&[simulated, lab.record("result.json")], "hog");
        return;
    }
    println!("scx_qmap: this compiler's object is refused by the verifier: {}", ended.err);
    assert_eq!((ended.code, ended.err.lines().count()), (2, 1), "{ended:?}");
    assert!(ended.err.contains("refuses qmap_") && ended.err.contains("invalid"), "{ended:?}");
}

/// An object with a tree runs; what the simulator does not run is refused by name, with the cure where there is one.
#[test]
fn the_other_examples_are_refused_by_name() {
    let names = ["scx_flatcg", "scx_pair", "scx_userland"];
    let Some(lab) = lab("foreign-refused", &names, false) else { return };
    let ended = run(&lab, &["sim"], "scx_flatcg", "hogs.toml", "2", &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let cases: [(&str, i32, &[&str]); 2] = [
        ("scx_pair", 2, &["pair_ctx", "--set map.pair_ctx.max_entries=N"]),
        ("scx_userland", 4, &["error_bpf", "User scheduler pid uninitialized"]),
    ];
    for (name, code, words) in cases {
        let ended = run(&lab, &["sim"], name, "hogs.toml", "2", &[]);
        assert_eq!((ended.code, ended.err.lines().count()), (code, 1), "{ended:?}");
        for word in words {
            assert!(ended.err.contains(word), "{name}: no {word:?} in {}", ended.err);
        }
    }
}
