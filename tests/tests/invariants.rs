//! States that cannot be end a scheduler with their name: a policy on the shipped layers that breaks one.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::time::Duration;

use schedlab_tests::{Schedlab, clang, compile};

#[test]
fn an_impossible_state_is_reported_once() {
    if clang().is_none() {
        return println!("skipped: no clang 19 or newer (Debian, Ubuntu: apt-get install clang-19)");
    }
    let lab = Schedlab::new("impossible");
    compile("impossible/impossible", "bpf", &lab.path("i.bpf.o")).unwrap();
    let arguments = ["sim", "-q", "-s", "./i.bpf.o", "-w", "periodic:tasks=3,ttime=1s", "-c", "1"];
    let ended = lab.run(&arguments, Duration::from_secs(60));
    assert_eq!(ended.code, 4, "{ended:?}");
    let told = "impossible: a task was picked that is not linked on the queue";
    assert_eq!(ended.err.matches(told).count(), 1, "{}", ended.err);
}
