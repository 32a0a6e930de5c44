//! How fast schedulers run in the simulator: context switches per second of this host's CPU time.
//!
//! `cargo run --release -p schedlab-scx --example bench -- FILE.bpf.o ...` prints a line for each object and machine:
//! tasks that run for 100 us and sleep for 300 us, one simulated second (`--seconds N` for another length). `--set
//! NAME=VALUE` sets a tunable, `--size N` takes the N-th machine only (0 is the smallest).
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

/// What to measure.
struct Options {
    paths: Vec<String>,
    seconds: u64,
    size: Option<usize>,
    load: LoadOptions,
}

/// Reads the command line.
fn options() -> Result<Options, String> {
    let mut options = Options { paths: Vec::new(), seconds: 1, size: None, load: LoadOptions::default() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if !arg.starts_with("--") {
            options.paths.push(arg);
            continue;
        }
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("{arg}: `{value}` is no number"));
        match arg.as_str() {
            "--seconds" => options.seconds = number()? as u64,
            "--size" => options.size = Some(number()?),
            "--set" => {
                let (name, to) =
                    value.split_once('=').ok_or_else(|| format!("--set {value}: write NAME=VALUE"))?;
                options.load.settings.push((name.to_string(), to.to_string()));
            }
            _ => return Err(format!("{arg}: there are --seconds, --size, --set")),
        }
    }
    Ok(options)
}

fn measure(path: &str, cpus: usize, tasks: usize, options: &Options) -> Result<(), String> {
    let machine = Machine::uniform("bench", cpus);
    let class = if path == "eevdf" {
        Class::Fair
    } else {
        let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        let loaded = BpfScheduler::load(path, &bytes, &options.load, &machine);
        Class::Ext(loaded.map_err(|error| error.to_string())?)
    };
    let seconds = options.seconds;
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
         {insns:5.0} insns/switch, {:4} MiB, exit {}, \
         trace {}",
        switches as f64 / cpu / 1e6,
        peak_mib(),
        result.exit.kind.name(),
        result.trace_hash,
    );
    if !result.exit.message.is_empty() {
        println!("    {}", result.exit.message);
    }
    Ok(())
}

fn run_all() -> Result<(), String> {
    let options = options()?;
    for path in &options.paths {
        for (index, (cpus, tasks)) in SIZES.into_iter().enumerate() {
            if options.size.is_none_or(|size| size == index) {
                measure(path, cpus, tasks, &options)?;
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
