//! SWAP's detection from the arguments of system calls, and the rules of its paper.

use crate::lab::{Lab, Seen};

/// Everything that a client of the catalogue can wait for a server through.
const MECHANISMS: [&str; 17] = [
    "pipe", "sock", "tcp", "udp", "msg", "mq", "sem", "sig", "flock", "fcntl", "futex", "condvar", "eventfd",
    "select", "poll", "epoll", "wait",
];

/// Lengths in ms of the workload's iterations.
fn iterations(seen: &Seen) -> Vec<f64> {
    let spans = &seen.result.measurements.spans[0];
    spans.samples().iter().map(|sample| sample.length().0 as f64 / 1e6).collect()
}

/// Once it is known who serves, a client waits as long as without hogs, through whatever it waits; by both ways to know.
///
/// One exception is granted: a parent shares its slice with each child, so a client that forks its servers comes to the
/// end of its own slice at some time, and waits for its turn.
#[test]
fn both_detections_find_the_server_through_every_mechanism() {
    let mut findings = Vec::new();
    for detect in ["waker", "paper"] {
        for mechanism in MECHANISMS {
            let spec = format!("swap-{mechanism}:hogs=10,iterations=8,service=40ms");
            let seen = Lab::new("o1+swap").set("detect", detect).run_catalog(&spec);
            let times = iterations(&seen);
            assert_eq!(times.len(), 8, "{detect}, {mechanism}");
            if times[3..].iter().filter(|time| **time > 44.0).count() > usize::from(mechanism == "wait") {
                findings.push(format!("{detect}, {mechanism}: {times:?}"));
            }
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
