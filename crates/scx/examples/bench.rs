//! How fast schedulers run in the simulator: context switches per second of this host's CPU time.
//!
//! `cargo run --release -p schedlab-scx --example bench -- FILE.bpf.o ...` prints a row for each object and machine:
//! tasks that run for 100 us and sleep for 300 us, one simulated second. Each cell is measured in a process of its own,
//! so that its peak memory is its own, and ends after a limit of CPU time. It is then shown as not finished.
//!
//! `--seconds N` simulates N seconds (0.1 is a number too), and `--limit N` allows a cell N seconds of CPU time (60). `--size N` takes the N-th
//! machine only (0 is the smallest); `--cpus N`, `--tasks N` and `--sleep MICROSECONDS` with `--cell 1` take other sizes in its place. `--set
//! NAME=VALUE` sets a tunable, `--interpret 1` runs on the interpreter, `--general 1` in the general core alone, `--hashes 1` shows the hash of each trace. `eevdf` in the place of a file is
//! the kernel's fair class.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its results")]

use schedlab_base::Machine;
use schedlab_scx::{BpfScheduler, EngineChoice, LoadOptions, run};
use schedlab_sim::{Class, Config, Core};
use schedlab_workload::catalog;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// CPUs and tasks.
const SIZES: [(usize, usize); 4] = [(2, 8), (8, 64), (64, 512), (256, 2000)];
/// How often the limit is looked at.
const POLL: Duration = Duration::from_millis(20);
/// The argument with which the program measures one cell itself.
const CELL: &str = "--cell";

/// CPU time of a process in seconds (user and system), from `/proc/PID/stat`: fields 14 and 15 in ticks of 10 ms.
fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
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
    seconds: f64,
    limit: f64,
    size: Option<usize>,
    cell: bool,
    hashes: bool,
    core: Core,
    cpus: Option<usize>,
    tasks: Option<usize>,
    /// In microseconds.
    sleep: usize,
    load: LoadOptions,
}

/// Reads the command line.
fn options(args: &[String]) -> Result<Options, String> {
    let load = LoadOptions::default();
    let mut options = Options {
        paths: Vec::new(),
        seconds: 1.0,
        limit: 60.0,
        size: None,
        cell: false,
        hashes: false,
        core: Core::Fast,
        cpus: None,
        tasks: None,
        sleep: 300,
        load,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if !arg.starts_with("--") {
            options.paths.push(arg.clone());
            continue;
        }
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("{arg}: `{value}` is no number"));
        let seconds = || value.parse::<f64>().map_err(|_| format!("{arg}: `{value}` is no number"));
        match arg.as_str() {
            "--seconds" => options.seconds = seconds()?,
            "--limit" => options.limit = seconds()?,
            "--size" => options.size = Some(number()?).filter(|size| *size < SIZES.len()),
            "--interpret" if number()? != 0 => options.load.engine = EngineChoice::Interpreted,
            "--interpret" => options.load.engine = EngineChoice::Compiled,
            "--cpus" => options.cpus = Some(number()?),
            "--tasks" => options.tasks = Some(number()?),
            "--sleep" => options.sleep = number()?,
            "--general" => options.core = if number()? != 0 { Core::General } else { Core::Fast },
            "--hashes" => options.hashes = number()? != 0,
            CELL => options.cell = number()? != 0,
            "--set" => {
                let (name, to) =
                    value.split_once('=').ok_or_else(|| format!("--set {value}: write NAME=VALUE"))?;
                options.load.settings.push((name.to_string(), to.to_string()));
            }
            _ => {
                return Err(format!(
                    "{arg}: there are --seconds, --limit, --size, --cpus, --tasks, --sleep, --set, --interpret, --general, --hashes"
                ));
            }
        }
    }
    Ok(options)
}

/// The table's head.
fn head() {
    println!(
        "{:20} {:>5} {:>6} {:>10} {:>11} {:>14} {:>12} {:>9}  exit",
        "object", "CPUs", "tasks", "switches", "M switches/s", "CPU s/sim. s", "insns/switch", "peak MiB"
    );
}

/// A row's beginning.
fn name_of(path: &str) -> String {
    let name = Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy());
    name.trim_end_matches(".bpf.o").to_string()
}

/// Measures one cell in this process and prints its row.
fn measure(path: &str, (cpus, tasks): (usize, usize), options: &Options) -> Result<(), String> {
    let (cpus, tasks) = (options.cpus.unwrap_or(cpus), options.tasks.unwrap_or(tasks));
    let machine = Machine::uniform("bench", cpus);
    let class = if path == "eevdf" {
        Class::Fair
    } else {
        let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        let loaded = BpfScheduler::load(path, &bytes, &options.load, &machine);
        Class::Ext(loaded.map_err(|error| error.to_string())?)
    };
    let seconds = options.seconds;
    let (sleep, length) = (options.sleep, (seconds * 1e6) as u64);
    let spec = format!("periodic:tasks={tasks},run=100us,sleep={sleep}us,ttime={length}us");
    let scenario = catalog::build(&spec, 1).map_err(|error| error.to_string())?;
    let before = cpu_seconds("self");
    let config = Config { core: options.core, ..Config::new(machine, 1) };
    let result = run(&config, &scenario, class).map_err(|error| error.to_string())?;
    let cpu = (cpu_seconds("self") - before).max(0.01);
    let switches = result.costs.switches;
    println!(
        "{:20} {cpus:5} {tasks:6} {switches:10} {:12.3} {:14.3} {:12.0} {:9}  {}{}{}",
        name_of(path),
        switches as f64 / cpu / 1e6,
        cpu / seconds,
        result.costs.bpf_insns as f64 / switches.max(1) as f64,
        peak_mib(),
        result.exit.kind.name(),
        if result.exit.message.is_empty() { String::new() } else { format!(": {}", result.exit.message) },
        if options.hashes { format!("  {}", result.trace_hash) } else { String::new() },
    );
    Ok(())
}

/// Waits for a cell's end; false when its CPU time ran out and it was stopped.
fn finishes(child: &mut Child, limit: f64) -> std::io::Result<bool> {
    loop {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        if cpu_seconds(&child.id().to_string()) > limit {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
}

/// Has one cell measured by a process of its own.
fn cell(path: &str, size: usize, args: &[String], limit: f64) -> Result<(), String> {
    let (cpus, tasks) = SIZES[size];
    let failed = |error: std::io::Error| format!("cannot run a cell: {error}");
    // All options are passed on; the size given last counts.
    let mut options = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg.starts_with("--") {
            options.extend([Some(arg), rest.next()]);
        }
    }
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .arg(path)
        .args(options.into_iter().flatten())
        .args([CELL, "1", "--size", &size.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut text = String::new();
    if !finishes(&mut child, limit).map_err(failed)? {
        println!("{:20} {cpus:5} {tasks:6} not finished in {limit} s of CPU time", name_of(path));
        return Ok(());
    }
    child.stdout.take().map_or(Ok(0), |mut out| out.read_to_string(&mut text)).map_err(failed)?;
    if text.is_empty() {
        child.stderr.take().map_or(Ok(0), |mut out| out.read_to_string(&mut text)).map_err(failed)?;
        println!("{:20} {cpus:5} {tasks:6} {}", name_of(path), text.lines().next().unwrap_or("no result"));
    } else {
        print!("{text}");
    }
    Ok(())
}

fn run_all() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let options = options(&args)?;
    let sizes = (0..SIZES.len()).filter(|index| options.size.is_none_or(|size| size == *index));
    if options.cell {
        return match (&options.paths[..], options.size) {
            ([path], Some(size)) => measure(path, SIZES[size], &options),
            _ => Err("a cell is one object and one size".into()),
        };
    }
    head();
    for path in &options.paths {
        for size in sizes.clone() {
            cell(path, size, &args, options.limit)?;
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
