//! Runs a workload of the catalogue for real, on this machine or in a VM:
//! `cargo run -p schedlab-live --example try_workload -- [--vm CPUS] WORKLOAD [FILE.bpf.o [VAR=VALUE ...]]`.
//! Without an object the kernel's own scheduler is in charge.

use std::error::Error;
use std::time::Duration;

use schedlab_live::load::SchedulerObject;
use schedlab_live::session::{self, RunPlan, Work};
use schedlab_live::vm::{self, VmJob};
use schedlab_live::{kernel_image, signals};
use schedlab_workload::catalog;

#[allow(clippy::print_stdout, reason = "an example talks to its user")]
fn here(args: &[String]) -> Result<(), Box<dyn Error>> {
    signals::catch();
    let scenario = catalog::build(&args[0], 1)?;
    let scheduler = match args.get(1) {
        None => None,
        Some(file) => Some(SchedulerObject {
            name: file.clone(),
            bytes: std::fs::read(file)?,
            settings: args[2..]
                .iter()
                .filter_map(|a| a.split_once('='))
                .map(|(n, v)| (n.to_string(), v.to_string()))
                .collect(),
            ..SchedulerObject::default()
        }),
    };
    let work = Work::Scenario(&scenario);
    let result = session::run(&RunPlan {
        scheduler: scheduler.as_ref(),
        subs: &[],
        work,
        observe: true,
        explain_waits: false,
        record: false,
        count_callbacks: false,
        spin_rate: None,
    })?;
    for metric in &result.metrics {
        println!("{:28} {:16.3} {}", metric.name, metric.value, metric.unit);
    }
    for task in result.tasks.iter().take(6).chain(result.tasks.last()) {
        println!("{task:?}");
    }
    println!("exit {:?}", result.scheduler.exit);
    println!("counters {:?}", result.scheduler.counters);
    println!("events {:?}", result.scheduler.events.iter().filter(|e| e.1 > 0).collect::<Vec<_>>());
    println!("warnings {:?}, not observed: {:?}", result.kernel_warnings, result.not_observed);
    Ok(())
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its user")]
fn main() -> Result<(), Box<dyn Error>> {
    schedlab_live::enter();
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_none_or(|first| first != "--vm") {
        if args.is_empty() {
            return Err("usage: try_workload [--vm CPUS] WORKLOAD [FILE.bpf.o [VAR=VALUE ...]]".into());
        }
        return here(&args);
    }
    let mut progress = |line: &str| eprintln!("{line}");
    let cpus = args.get(1).ok_or("how many CPUs?")?.parse()?;
    args.drain(..2);
    let mut files = Vec::new();
    if let Some(object) = args.get_mut(1) {
        files.push(("/scheduler.bpf.o".to_string(), std::fs::read(&*object)?));
        *object = "/scheduler.bpf.o".to_string();
    }
    let mut job = VmJob::new(kernel_image::find_or_fetch(&mut progress)?, args);
    (job.cpus, job.files, job.timeout) = (cpus, files, Duration::from_secs(600));
    let output = vm::run(&job, &mut progress)?;
    println!("{}", String::from_utf8_lossy(&output.stdout));
    println!("code {}, kernel log: {:#?}", output.exit_code, output.kernel_log);
    Ok(())
}
