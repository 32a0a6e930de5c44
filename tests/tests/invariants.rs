//! States that cannot be end a scheduler with their name: a policy on the shipped layers that breaks one, and the shipped
//! schedulers with all their assertions.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::process::Command;
use std::time::Duration;

use schedlab_tests::{Schedlab, compile, has_clang, root, shipped, shipped_with_swap};

#[test]
fn an_impossible_state_is_reported_once() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("impossible");
    compile("impossible/impossible", "bpf", &lab.path("i.bpf.o")).unwrap();
    let arguments = ["sim", "-q", "-s", "./i.bpf.o", "-w", "periodic:tasks=3,ttime=1s", "-c", "1"];
    let ended = lab.run(&arguments, Duration::from_secs(60));
    assert_eq!(ended.code, 4, "{ended:?}");
    let told = "impossible: a task was picked that is not linked on the queue";
    assert_eq!(ended.err.matches(told).count(), 1, "{}", ended.err);
}

/// What the shipped objects leave out for speed: every assertion of their layers and policies, compiled in.
#[test]
fn the_debug_objects_meet_no_impossible_state() {
    if !has_clang() {
        return;
    }
    let made =
        Command::new("make").args(["-s", "DEBUG_EXPECT=1", "-C"]).arg(root().join("schedulers")).output();
    let made = made.expect("make is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let lab = Schedlab::new("debug-objects");
    let workloads = ["mixed:ttime=1s", "chat:rooms=1,messages=10", "swap-futex:hogs=1,iterations=5"];
    for (name, _) in shipped().into_iter().chain(shipped_with_swap()) {
        let object = root().join(format!("schedulers/build/debug/{name}.bpf.o"));
        let object = object.to_str().expect("a path of the tree");
        for (workload, cpus) in workloads.iter().flat_map(|workload| [(workload, "1"), (workload, "4")]) {
            let arguments = ["sim", "-q", "-s", object, "-w", workload, "-c", cpus];
            let ended = lab.run(&arguments, Duration::from_secs(120));
            assert_eq!(ended.code, 0, "{name}, {workload}, {cpus} CPUs: {}", ended.err);
        }
    }
}
