//! Which tasks are a scheduler's, and what it sees of those that were there before it and outlive it: the same in both arms.
//!
//! Says "skipped" with the reason where there is no compiler, QEMU or kernel.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::time::Duration;

use schedlab_live::kernel_image;
use schedlab_tests::{Schedlab, clang, compile};
use schedlab_trace::RunRecord;

/// Far more than any of these takes on a busy host, boot under emulation included.
const LIMIT: Duration = Duration::from_secs(400);

/// One task of each policy, all on one CPU, and one that changes its own.
const POLICIES: &str = "
name = 'policies'
end = '3s'

[programs]
hog = ['repeat forever', 'run 1ms', 'done']
fickle = ['policy self other', 'sleep 100ms', 'policy self ext', 'sleep 100ms', 'policy self batch']

[[tasks]]
name = 'own'
program = 'hog'
policy = 'ext'

[[tasks]]
name = 'foreign'
program = 'hog'

[[tasks]]
name = 'fickle'
program = 'fickle'
policy = 'ext'
background = true
";

/// A lab with the object; nothing without a compiler.
fn lab(test: &str) -> Option<Schedlab> {
    if clang().is_none() {
        println!("skipped: no clang 19 or newer (Debian, Ubuntu: apt-get install clang-19)");
        return None;
    }
    let lab = Schedlab::new(test);
    compile("life", "bpf", &lab.path("life.bpf.o")).unwrap();
    std::fs::write(lab.path("policies.toml"), POLICIES).unwrap();
    std::fs::write(lab.path("hotplug.toml"), HOTPLUG).unwrap();
    Some(lab)
}

/// The runs of both arms, or of the simulated one where no kernel can be booted.
fn runs(lab: &Schedlab, object: &str, cpus: &str, workload: &str, flags: &[&str]) -> Vec<RunRecord> {
    runs_ending_with(0, lab, object, cpus, workload, flags)
}

/// The runs of a command that ends with this exit code; with words where that is not 0.
fn runs_ending_with(
    code: i32,
    lab: &Schedlab,
    object: &str,
    cpus: &str,
    workload: &str,
    flags: &[&str],
) -> Vec<RunRecord> {
    let mut arms = vec![&["sim"][..]];
    match kernel_image::find_or_fetch(&mut |_| {}) {
        Ok(_) => arms.push(&["run", "--vm", "--icount=16"]),
        Err(error) => println!("skipped on a real kernel: {error}"),
    }
    let run = |arm: &[&str]| {
        let fixed = ["-q", "-c", cpus, "-s", object, "-w", workload, "--json", "r.json"];
        let ended = lab.run(&[arm, &fixed, flags].concat(), LIMIT);
        assert_eq!((ended.code, ended.err.is_empty()), (code, code == 0), "{arm:?} {flags:?} {}", ended.err);
        lab.record("r.json")
    };
    arms.into_iter().map(run).collect()
}

/// Hogs on two CPUs, of which the second one is offline from 1 to 2 s.
const HOTPLUG: &str = "
name = 'hotplug'
end = '3s'
changes = ['1s cpu 1 offline', '2s cpu 1 online']

[programs]
hog = ['repeat forever', 'run 1ms', 'done']

[[tasks]]
name = 'hog'
program = 'hog'
count = 2

[[tasks]]
name = 'pinned'
program = 'hog'
cpus = [1]
";

/// A scheduler with callbacks for CPUs that come and go stays; another one leaves, to be restarted.
#[test]
fn cpus_come_and_go() {
    let Some(lab) = lab("hotplug") else { return };
    compile("counts", "bpf", &lab.path("counts.bpf.o")).unwrap();
    for run in runs(&lab, "./life.bpf.o", "2", "hotplug.toml", &[]) {
        let told = format!("{:?}: {:?} {:?} {:?}", run.backend, run.exit, run.tasks, run.counters);
        println!("{told}");
        assert_eq!(run.exit.kind.name(), "none", "{told}");
        assert_eq!((counter(&run, "nr_offline"), counter(&run, "nr_online")), (1, 1), "{told}");
        // Two CPUs for two thirds of the run.
        let total: f64 = run.tasks.iter().map(|task| task.share).sum();
        assert!((total - 5.0 / 3.0).abs() < 0.06, "{total} {told}");
        assert!(share(&run, "pinned") > 0.3, "{told}");
    }
    // A run that its scheduler left is void.
    for run in runs_ending_with(4, &lab, "./counts.bpf.o", "2", "hotplug.toml", &[]) {
        let told = format!("{:?}: {:?}", run.backend, run.exit);
        println!("{told}");
        assert_eq!(run.exit.kind.name(), "unreg_kern", "{told}");
        // While the CPU is away: how soon the real arm notices depends on when the guest goes through with it.
        let after = run.exit.after.unwrap().0;
        assert!((1_000_000_000..2_000_000_000).contains(&after), "{told}");
    }
}

fn counter(run: &RunRecord, name: &str) -> u64 {
    let found = run.counters.iter().find(|counter| counter.name == name);
    found.unwrap_or_else(|| panic!("{name} of {:?}", run.counters)).value
}

fn share(run: &RunRecord, name: &str) -> f64 {
    run.tasks.iter().find(|task| task.name == name).unwrap().share
}

/// SCX_OPS_SWITCH_PARTIAL is 8. The fair class goes before sched_ext, whose deadline server leaves it 50 ms of each second.
#[test]
fn a_partial_scheduler_has_the_tasks_of_its_policy() {
    let Some(lab) = lab("partial") else { return };
    for run in runs(&lab, "./life.bpf.o", "1", "policies.toml", &["--set", "ops.flags=8"]) {
        let told = format!("{:?}: {:?} {:?}", run.backend, run.tasks, run.counters);
        println!("{told}");
        assert!(
            (share(&run, "own") - 0.05).abs() < 0.02 && (share(&run, "foreign") - 0.95).abs() < 0.03,
            "{told}"
        );
        // Its own at the start, and one that comes back.
        assert_eq!(counter(&run, "nr_enabled"), 3, "{told}");
        // Real tasks begin under another policy.
        assert!([1, 3].contains(&counter(&run, "nr_masks")), "{told}");
    }
}

#[test]
fn tasks_are_there_before_a_scheduler_and_outlive_it() {
    let Some(lab) = lab("late") else { return };
    let flags = ["--attach-at", "500ms", "--run-prog-at", "1s:tell:07", "--detach-at", "2s"];
    for run in runs(&lab, "./life.bpf.o", "1", "cpuhog:ntasks=3,ttime=3s", &flags) {
        let told = format!("{:?}: {:?} {:?}", run.backend, run.exit, run.counters);
        println!("{told}");
        let count = |name: &str| counter(&run, name);
        // A real kernel has other tasks too.
        assert!(count("nr_there") >= 3 && count("nr_enabled") >= 3, "{told}");
        assert_eq!(count("nr_left"), count("nr_there") + count("nr_forked"), "{told}");
        assert_eq!(count("nr_disabled"), count("nr_enabled"), "{told}");
        assert_eq!((count("nr_told"), count("nr_told_context")), (1, 7), "{told}");
        assert_eq!((run.exit.kind.name(), run.warnings.len()), ("unreg", 1), "{told}");
        assert_eq!(run.warnings[0].text, "--run-prog-at: the program tell returned 7");
        // One run of 3 s, in which no task lost time.
        let total: f64 = run.tasks.iter().map(|task| task.share).sum();
        assert!((total - 1.0).abs() < 0.03, "{told}");
    }
}

#[test]
fn what_a_loader_cannot_do_is_refused_by_both_arms() {
    let Some(lab) = lab("meanwhile") else { return };
    let cases: [(&str, &[&str], &str); 5] = [
        ("eevdf", &["--attach-at", "1s"], "eevdf is the kernel's own class"),
        ("./life.bpf.o", &["--attach-at", "2s", "--detach-at", "1s"], "give a later time"),
        ("./life.bpf.o", &["--attach-at", "2s", "--run-prog-at", "1s:tell"], "is not attached at 1s"),
        ("./life.bpf.o", &["--run-prog-at", "1s:tel"], "did you mean 'tell'?"),
        ("./life.bpf.o", &["--run-prog-at", "tell"], "TIME:NAME"),
    ];
    for (scheduler, flags, words) in cases {
        for arm in [&["sim"][..], &["run", "--vm", "--kernel", "/none/bzImage"]] {
            let ended = lab.run(&[arm, &["-q", "-s", scheduler, "-w", "cpuhog"], flags].concat(), LIMIT);
            assert!(ended.code == 2 && ended.err.contains(words), "{arm:?} {flags:?} {ended:?}");
        }
    }
}

#[test]
fn what_comes_after_the_end_is_told_with_its_effect() {
    let Some(lab) = lab("late") else { return };
    let program = "[programs]\nwork = [\"run 100ms\"]\n";
    let task = "[[tasks]]\nname = \"hog\"\nprogram = \"work\"\n";
    let file = format!("name = \"late\"\nchanges = [\"1h nice hog 1\"]\n{program}{task}");
    std::fs::write(lab.path("late.toml"), file).unwrap();
    let cases: [(&str, &[&str], &str); 4] = [
        ("cpuhog:ttime=100ms", &["--attach-at", "5s"], "--attach-at 5s: the scheduler was never attached"),
        ("cpuhog:ttime=100ms", &["--detach-at", "5s"], "--detach-at 5s: the scheduler stayed to the end"),
        (
            "cpuhog:ttime=100ms",
            &["--run-prog-at", "5s:tell:07"],
            "--run-prog-at 5s:tell:07: the program was not run",
        ),
        ("late.toml", &[], "the workload's change at 3600s: it was not made"),
    ];
    for (workload, flags, words) in cases {
        let sim =
            ["sim", "-q", "-s", "./life.bpf.o", "-c", "1", "-w", workload, "--strict", "--json", "r.json"];
        let ended = lab.run(&[&sim, flags].concat(), LIMIT);
        assert_eq!(ended.code, 1, "{flags:?}: {ended:?}");
        let warnings = lab.record("r.json").warnings;
        assert!(
            warnings.iter().any(|one| one.kind.name() == "not_reached" && one.text.contains(words)),
            "{warnings:?}"
        );
    }
}

/// A deadline task that overruns, beside a real-time and a normal hog, or with a second one for which there is no room.
fn deadline(second: &str) -> String {
    format!(
        "
name = 'deadline'
end = '2s'

[programs]
hog = ['repeat forever', 'run 1ms', 'done']

[[tasks]]
name = 'reserved'
program = 'hog'
policy = 'deadline:3ms/10ms'

[[tasks]]
name = 'other'
program = 'hog'
policy = '{second}'
"
    )
}

/// An overrunning deadline task has its 30 % of the CPU, not more, whatever else there is; a sched_ext scheduler has the rest.
#[test]
fn deadline_tasks_have_their_bandwidth() {
    let Some(lab) = lab("deadline") else { return };
    for second in ["other", "fifo:5", "deadline:30ms/100ms"] {
        std::fs::write(lab.path("deadline.toml"), deadline(second)).unwrap();
        for run in runs(&lab, "./life.bpf.o", "1", "deadline.toml", &[]) {
            let told = format!("{:?} beside {second}: {:?}", run.backend, run.tasks);
            println!("{told}");
            // The real one begins with a period more: 205 of 200 were seen.
            assert!((share(&run, "reserved") - 0.3).abs() < 0.02, "{told}");
            let other = if second.starts_with("deadline") { 0.3 } else { 0.69 };
            assert!((share(&run, "other") - other).abs() < 0.04, "{told}");
        }
    }
}

/// More than a CPU has is refused in both arms with the kernel's error.
#[test]
fn deadline_tasks_beyond_the_bandwidth_are_refused() {
    let Some(lab) = lab("admission") else { return };
    std::fs::write(lab.path("deadline.toml"), deadline("deadline:7ms/10ms")).unwrap();
    let mut arms = vec![(&["sim"][..], 2, "task other: sched_setattr() of deadline:7ms/10ms: EBUSY")];
    match kernel_image::find_or_fetch(&mut |_| {}) {
        Ok(_) => arms.push((&["run", "--vm"], 5, "asking for SCHED_DEADLINE (EBUSY")),
        Err(error) => println!("skipped on a real kernel: {error}"),
    }
    for (arm, code, words) in arms {
        let fixed = ["-q", "-c", "1", "-s", "eevdf", "-w", "deadline.toml"];
        let ended = lab.run(&[arm, &fixed].concat(), LIMIT);
        assert!(ended.code == code && ended.err.contains(words), "{arm:?}: {} {}", ended.code, ended.err);
    }
}
