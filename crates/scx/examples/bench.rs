//! How fast schedulers run in the simulator: context switches per second of this host's CPU time.
//!
//! `cargo run --release -p schedlab-scx --example bench -- FILE.bpf.o ...` prints a line for each object and machine:
//! tasks that run for 100 us and sleep for 300 us, one simulated second (`--seconds N` for another length).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its results")]

use schedlab_base::Machine;
use schedlab_scx::{BpfScheduler, LoadOptions};
use schedlab_sim::{Class, Config, run};
use schedlab_workload::catalog;
use std::path::Path;
use std::process::ExitCode;

/// CPUs and tasks.
const SIZES: [(usize, usize); 4] = [(2, 8), (8, 64), (64, 512), (256, 2000)];

/// CPU time of this process in seconds (user and system), from `/proc/self/stat`: fields 14 and 15 in ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// The largest resident set so far, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn measure(path: &str, cpus: usize, tasks: usize, seconds: u64) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let machine = Machine::uniform("bench", cpus);
    let class = match path {
        "eevdf" => Class::Fair,
        _ => Class::Ext(
            BpfScheduler::load(path, &bytes, &LoadOptions::default(), &machine)
                .map_err(|error| error.to_string())?,
        ),
    };
    let spec = format!("periodic:tasks={tasks},run=100us,sleep=300us,ttime={seconds}s");
    let scenario = catalog::build(&spec, 1).map_err(|error| error.to_string())?;
    let (before, wall) = (cpu_seconds(), std::time::Instant::now());
    let result = run(&Config::new(machine, 1), &scenario, class).map_err(|error| error.to_string())?;
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), (cpu_seconds() - before).max(0.01));
    let switches = result.costs.switches;
    let insns = result.costs.bpf_insns as f64 / switches.max(1) as f64;
    let name = Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy());
    println!(
        "{name:24} {cpus:4} CPUs {tasks:5} tasks: {switches:9} switches, {:6.3} M/s of CPU, {cpu:6.2} s CPU, {wall:6.2} s, \
         {insns:5.0} insns/switch, {:4} MiB, exit {}",
        switches as f64 / cpu / 1e6,
        peak_mib(),
        result.exit.kind.name(),
    );
    if !result.exit.message.is_empty() {
        println!("    {}", result.exit.message);
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut paths: Vec<String> = std::env::args().skip(1).collect();
    let mut seconds = 1;
    if let Some(at) = paths.iter().position(|arg| arg == "--seconds") {
        seconds = paths.get(at + 1).and_then(|text| text.parse().ok()).unwrap_or(1);
        paths.drain(at..(at + 2).min(paths.len()));
    }
    for path in &paths {
        for (cpus, tasks) in SIZES {
            if let Err(error) = measure(path, cpus, tasks, seconds) {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
