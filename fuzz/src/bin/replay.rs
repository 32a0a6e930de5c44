//! Runs inputs of a fuzz target without libFuzzer: those of files, or a row of random ones.

#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a command for developers")]

use schedlab_fuzz::{TARGETS, Target, noise, target};
use std::error::Error;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match (args.first().and_then(|name| target(name)), args.get(1..).unwrap_or(&[])) {
        (Some(target), ["--for", seconds, rest @ ..]) => random(target, seconds, rest),
        (Some(target), files @ [_, ..]) => replay(target, files),
        _ => {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            Err(format!(
                "usage: replay TARGET FILE... | replay TARGET --for SECONDS [SEED]; targets: {}",
                names.join(", ")
            )
            .into())
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn replay(target: &Target, files: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    for file in files {
        (target.run)(&std::fs::read(file).map_err(|error| format!("{file}: {error}"))?);
        eprintln!("{file}: ends as it should");
    }
    Ok(ExitCode::SUCCESS)
}

/// Random inputs for a time; the first that fails is kept.
fn random(target: &Target, seconds: &str, rest: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    let time = Duration::from_secs(seconds.parse()?);
    let seed = rest.first().map_or(Ok(1), |seed| seed.parse())?;
    let corpus = noise::corpus(target)?.into_iter().map(|(_, input)| input).collect();
    let mut row = noise::Noise::new(seed, corpus);
    let (started, mut executions) = (Instant::now(), 0u64);
    while started.elapsed() < time {
        let input = row.next_input();
        if catch_unwind(|| (target.run)(&input)).is_err() {
            let folder = format!("fuzz/found/{}", target.name);
            let file = format!("{folder}/seed-{seed}-{executions}");
            std::fs::create_dir_all(&folder)?;
            std::fs::write(&file, &input)?;
            eprintln!("input {executions} of seed {seed} fails: {file}");
            return Ok(ExitCode::FAILURE);
        }
        executions += 1;
    }
    let rate = executions as f64 / started.elapsed().as_secs_f64();
    println!("{}: {executions} executions from seed {seed}, {rate:.0} a second", target.name);
    Ok(ExitCode::SUCCESS)
}
