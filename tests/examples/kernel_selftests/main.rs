//! The kernel's own tests of sched_ext (`tools/testing/selftests/sched_ext`) in the simulator: each object as it is, its
//! user-space part as a workload, flags and what it expects.
//!
//! `cargo run -p schedlab-tests --example kernel_selftests -- FOLDER` compiles the objects of FOLDER (from the distribution's kernel
//! source package, or a kernel tree), runs each and prints the page docs/kernel-selftests.md.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its results")]

mod cases;

use cases::{CASES, Case, Expected, UNEXPRESSED};
use schedlab_live::kernel_image;
use schedlab_report::from_json;
use schedlab_tests::{Schedlab, clang};
use schedlab_trace::RunRecord;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Far more than any takes.
const LIMIT: Duration = Duration::from_secs(300);

const HEAD: &str = "# The kernel's selftests of sched_ext

The kernel tests sched_ext with objects of its own and a user-space part for each (`tools/testing/selftests/sched_ext`). The objects run here
unchanged; what the user-space part does is written as a workload and flags, and what it expects is checked: exit kind and message, and the
object's own counters. `cargo run -p schedlab-tests --example kernel_selftests -- FOLDER` compiles them, runs them and prints this page.
";

/// Compiles the object of a test, once.
fn compile(tests: &Path, folder: &Path, name: &str) -> Result<(), String> {
    let object = folder.join(format!("{name}.bpf.o"));
    if object.is_file() {
        return Ok(());
    }
    let sources =
        kernel_image::fetch_example_sources(&mut |step| eprintln!("{step}")).map_err(|e| e.to_string())?;
    let clang =
        clang().ok_or("no clang 19 or newer: install one (Debian, Ubuntu: apt-get install clang-19)")?;
    let source = tests.join(format!("{name}.bpf.c"));
    sources.compile_file(&source, &clang, &object).map_err(|error| error.to_string())
}

/// Runs a test; what it came to, in words.
///
/// # Errors
/// What it expects and did not get.
fn run(lab: &Schedlab, case: &Case) -> Result<String, String> {
    std::fs::write(lab.path("w.toml"), case.workload).map_err(|error| error.to_string())?;
    let _ = std::fs::remove_file(lab.path("r.json"));
    let scheduler = match case.scheduler {
        "" => format!("./{}.bpf.o", case.object),
        scheduler => format!("./{}.bpf.o#{scheduler}", case.object),
    };
    let fixed = ["sim", "-q", "-s", &scheduler, "-w", "w.toml", "-c", "3", "--json", "r.json"];
    let ended = lab.run(&[&fixed, case.flags].concat(), LIMIT);
    if let Expected::Refused(words) = case.expected {
        let told = ended.err.lines().next().unwrap_or("").to_string();
        return if ended.code == 2 && told.contains(words) { Ok(told) } else { Err(told) };
    }
    let text = std::fs::read_to_string(lab.path("r.json")).map_err(|_| ended.err.clone())?;
    let document = from_json(&text).map_err(|error| error.to_string())?;
    judge(&document.runs[0], case)
}

fn judge(run: &RunRecord, case: &Case) -> Result<String, String> {
    let kind = run.exit.kind.name();
    let message = run.exit.message.split("; BPF program").next().unwrap_or("");
    let mut told = if message.is_empty() { kind.to_string() } else { format!("{kind}: {message}") };
    let exit = match case.expected {
        Expected::Exit(expected, words) => kind == expected && run.exit.message.contains(words),
        Expected::Stays | Expected::Refused(_) => kind == "none",
    };
    if !exit {
        return Err(told);
    }
    let value = |name: &str| {
        let found = run.counters.iter().find(|counter| counter.name == name);
        found.map_or(0, |counter| counter.value)
    };
    for (name, holds) in case.counters {
        let value = value(name);
        told += &format!(", {name} {value}");
        if !holds.holds(value, &|other| self::value(run, other)) {
            return Err(told);
        }
    }
    for (name, least) in case.shares {
        let share = run.tasks.iter().find(|task| task.name == *name).map_or(0.0, |task| task.share);
        told += &format!(", {name} has {:.1} %", share * 100.0);
        if share < *least {
            return Err(told);
        }
    }
    Ok(told)
}

fn value(run: &RunRecord, name: &str) -> u64 {
    run.counters.iter().find(|counter| counter.name == name).map_or(0, |counter| counter.value)
}

/// The page; false if a test did not come to what it expects.
fn page(tests: &Path) -> Result<(String, bool), String> {
    let lab = Schedlab::new("kernel-selftests");
    let mut page = format!("{HEAD}\n| test | what was done | result |\n|---|---|---|\n");
    let mut failed = 0;
    for case in CASES {
        let done = compile(tests, &lab.folder, case.object).and_then(|()| run(&lab, case));
        let (verdict, told) = match done {
            Ok(told) => ("as expected", told),
            Err(told) => {
                failed += 1;
                ("**not as expected**", told)
            }
        };
        eprintln!("{}: {verdict}: {told}", case.name);
        page +=
            &format!("| `{}` | {} | {verdict}: `{}` |\n", case.name, case.about, told.replace('|', "\\|"));
    }
    page += "\nNot expressed:\n\n| test | why |\n|---|---|\n";
    for (name, why) in UNEXPRESSED {
        page += &format!("| `{name}` | {why} |\n");
    }
    page += &format!("\n{} of {} runs ended as expected.\n", CASES.len() - failed, CASES.len());
    Ok((page, failed == 0))
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: kernel_selftests FOLDER (tools/testing/selftests/sched_ext of a kernel's sources)");
        return ExitCode::from(2);
    };
    match page(Path::new(&folder)) {
        Ok((page, passed)) => {
            print!("{page}");
            if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("kernel_selftests: {error}");
            ExitCode::from(5)
        }
    }
}
