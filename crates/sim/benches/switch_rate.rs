//! How fast the core simulates: tasks that run 100 us and sleep 300 us under one
//! shared FIFO, on machines of several sizes. `cargo bench -p schedlab-sim`;
//! arguments select sizes as CPUSxTASKS. Prints the best of three runs,
//! in CPU time.
#![allow(clippy::print_stdout, reason = "a benchmark reports to its user")]

#[path = "../tests/all/common/mod.rs"]
mod common;

use common::{Minimal, Simple, mixed};
use schedlab_base::{DurationNs, Machine};
use schedlab_sim::{Class, Config, run};

/// CPU time of this process so far, in seconds: other load on the machine does not
/// count. From the kernel's `schedstat`.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux has /proc/self/schedstat");
    let ns: f64 = text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("it begins with the CPU time");
    ns / 1e9
}

/// Simulated time of one run, by size: a few million switches.
fn span(cpus: u32) -> DurationNs {
    DurationNs::from_ms(if cpus < 64 { 10_000 } else { 1_000 })
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wanted: Vec<String> = args.iter().filter(|arg| arg.contains('x')).cloned().collect();
    for (cpus, tasks) in [(2, 8), (8, 64), (64, 512), (256, 2000)] {
        if !wanted.is_empty() && !wanted.contains(&format!("{cpus}x{tasks}")) {
            continue;
        }
        let one_class = |class: &&str| {
            wanted.is_empty()
                || args.iter().all(|arg| arg != "simple" && arg != "fair")
                || args.iter().any(|arg| arg == class)
        };
        for class in ["simple", "fair"].into_iter().filter(one_class) {
            measure(cpus, tasks, class);
        }
    }
}

fn measure(cpus: u32, tasks: u32, class: &str) {
    let scenario = mixed(0, tasks, span(cpus));
    let config = Config::new(Machine::uniform("bench", cpus as usize), 1);
    let mut best = f64::MAX;
    let mut switches = 0;
    for _ in 0..3 {
        let begin = cpu_seconds();
        switches = if class == "simple" {
            run(&config, &scenario, Class::Ext(Simple::new(false))).expect("the run ends").costs.switches
        } else {
            run::<Minimal>(&config, &scenario, Class::Fair).expect("the run ends").costs.switches
        };
        best = best.min(cpu_seconds() - begin);
    }
    let simulated = span(cpus).as_secs_f64();
    println!(
        "{cpus:>4} CPUs {tasks:>5} tasks {class:>7}: {:>8.0} k switches/s, {:.3} s for one simulated second",
        switches as f64 / best / 1e3,
        best / simulated
    );
}
