//! Callbacks that are paused in the middle: a race that no order of whole callbacks shows, and runs that stay whole.

use schedlab_tests::{Ended, Schedlab, compile, has_clang, root};
use std::time::Duration;

/// Far more than any of these takes on a busy host.
const LIMIT: Duration = Duration::from_secs(120);

/// A task whose affinity a real-time one changes all the time.
const MASK: &str = "
name = 'mask'
end = '1s'

[programs]
sleeper = ['repeat forever', 'run 300us', 'sleep 200us', 'done']
hand = ['repeat forever', 'sleep 400us', 'cpus sleeper/0 0', 'sleep 300us', 'cpus sleeper/0 0,1', 'done']

[[tasks]]
name = 'sleeper'
program = 'sleeper'
count = 5

[[tasks]]
name = 'hand'
program = 'hand'
policy = 'fifo:99'
";

/// Four tasks that sleep and wake, on two CPUs.
const LOAD: &str = "periodic:tasks=4,run=1ms,sleep=1ms,ttime=1s";

/// Seeds of which some show a race: 27 of the first 200 lost a step of the count, and 9 of 150 an affinity.
const SEEDS: std::ops::RangeInclusive<u32> = 1..=60;

/// The runs of a scheduler without pauses, and the first one of the seeds that fails.
fn whole_and_failing(lab: &Schedlab, object: &str, load: &str) -> (Ended, Ended) {
    compile(&format!("planted/{object}"), "bpf", &lab.path("faulty.bpf.o")).unwrap();
    let run = |more: &[&str]| {
        let fixed = ["sim", "-q", "--strict", "-s", "faulty.bpf.o", "-w", load, "-c", "2"];
        lab.run(&[&fixed[..], more].concat(), LIMIT)
    };
    let failing = SEEDS.map(|seed| run(&["--interleave", &seed.to_string()])).find(|run| run.code != 0);
    (run(&[]), failing.expect("a seed shows the race"))
}

#[test]
fn a_count_that_two_cpus_change_loses_a_step() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("interleave-count");
    let (whole, lost) = whole_and_failing(&lab, "lost_count", LOAD);
    assert_eq!(whole.code, 0, "one callback at a time never loses a step: {whole:?}");
    assert!(lost.code == 1 && lost.err.contains("wait"), "{lost:?}");
}

#[test]
fn an_affinity_changes_between_the_look_and_the_dispatch() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("interleave-mask");
    std::fs::write(lab.path("mask.toml"), MASK).unwrap();
    let (whole, outside) = whole_and_failing(&lab, "stale_mask", "mask.toml");
    assert!(!whole.err.contains("not allowed"), "{whole:?}");
    assert!(outside.err.contains("target CPU 1 not allowed for sleeper/0"), "{outside:?}");
}

/// The task leaves with the pass, where it once stayed against its affinity.
#[test]
fn a_task_loses_its_cpu_while_its_pass_is_laid_down() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("laid-down");
    compile("planted/lost_count", "bpf", &lab.path("lost_count.bpf.o")).unwrap();
    let case = root().join("tests/cases/laid_down.toml");
    let run = lab.run(&["sim", "-q", "--case", case.to_str().unwrap(), "-s", "./lost_count.bpf.o"], LIMIT);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn interleaved_runs_are_whole_and_repeat() {
    let lab = Schedlab::new("interleave-whole");
    for scheduler in ["o1", "vanilla", "ule", "o1+swap"] {
        for seed in ["1", "2", "3"] {
            let load = "chat:rooms=1,messages=3";
            let run =
                ["sim", "-q", "--checkers", "-s", scheduler, "-w", load, "-c", "3", "--interleave", seed];
            let [one, two] = [(), ()].map(|()| lab.run(&[&run[..], &["--json", "-"]].concat(), LIMIT));
            assert_eq!(one.code, 0, "{one:?}");
            assert!(one.out == two.out, "{scheduler}, seed {seed}");
            assert!(one.out.contains("\"pauses\":"), "the results say that the run was interleaved");
        }
    }
    let fair = lab.run(&["sim", "-q", "-s", "eevdf", "-w", "cpuhog", "--interleave", "1"], LIMIT);
    assert!(fair.code == 2 && fair.err.contains("--interleave: the kernel's own class"), "{fair:?}");
}
