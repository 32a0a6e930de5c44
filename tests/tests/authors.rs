//! Schedulers that users write: those that `schedlab new` makes, with the headers beside them, in both arms; objects that leave
//! something to a loader of their own.
//!
//! Says "skipped" with the reason where there is no compiler, QEMU or kernel.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::process::Command;
use std::time::Duration;

use schedlab_live::kernel_image;
use schedlab_tests::{Schedlab, clang, compile};
use schedlab_trace::{RunRecord, WarningKind};

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

/// Makes a scheduler and compiles it as its author is told to; says so and gives nothing without a compiler.
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

/// What the header has and the templates do not use: the simulator runs it, and a real kernel's verifier takes it.
#[test]
fn the_header_serves_in_both_arms() {
    if clang().is_none() {
        return println!("skipped: no clang 19 or newer (Debian, Ubuntu: apt-get install clang-19)");
    }
    let lab = Schedlab::new("dsq-header");
    compile("dsq_header", "bpf", &lab.path("h.bpf.o")).unwrap();
    let ended =
        lab.run(&["sim", "-v", "-s", "./h.bpf.o", "-w", "periodic:tasks=6,ttime=1s", "-c", "2"], LIMIT);
    assert_eq!(ended.code, 4, "{ended:?}");
    for words in ["scheduler: begins\n", " waiting\n", "enough after 20 tasks, 1 of them here"] {
        assert!(ended.err.contains(words), "no {words:?} in {}", ended.err);
    }
    match kernel_image::find_or_fetch(&mut |_| {}) {
        Err(error) => println!("skipped on a real kernel: {error}"),
        Ok(_) => {
            let ended = lab.run(&["check", "-q", "--vm", "h.bpf.o"], LIMIT);
            assert!(ended.out.contains("the VM kernel's verifier takes it: yes"), "{ended:?}");
        }
    }
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
    if clang().is_none() {
        return println!("skipped: no clang 19 or newer (Debian, Ubuntu: apt-get install clang-19)");
    }
    let lab = Schedlab::new("unconfigured");
    compile("unconfigured", "bpf", &lab.path("u.bpf.o")).unwrap();
    let left = "quantum_us, weights (--set NAME=VALUE; 0 says that it is meant); its own loader would have run programs: set_up";
    let told = lab.run(&["check", "u.bpf.o"], LIMIT);
    assert!(told.out.contains("left to its loader: its own loader may have set"), "{told:?}");
    assert!(told.out.contains(left), "{told:?}");

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
    assert!(!meant.out.contains("quantum_us, ") && meant.out.contains("set_up"), "{meant:?}");
    let with_flags = lab.run(&["check", "u.bpf.o", "--set", "unconfigured_ops.flags=4"], LIMIT);
    assert!(!with_flags.out.contains("may have set"), "{with_flags:?}");
}
