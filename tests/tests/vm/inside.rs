//! What this program does inside of the VM.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use schedlab_base::{DurationNs, Presence};
use schedlab_live::exec::SpinRate;
use schedlab_live::load::{LoadedScheduler, SchedulerObject, load, sched_ext};
use schedlab_live::session::{self, RunPlan, Work};
use schedlab_workload::catalog;

use super::groups;

/// Inside of the VM: `inside JOB...`, each `WORKLOAD@OBJECT`; without an object the kernel's own scheduler runs it.
/// `loaded;WORKLOAD;...@OBJECT` loads it once for all of them. `under-load;WORKLOAD;...@OBJECT` does, too, attaches it under load
/// before them, and takes it out under load after them. `reload=N@OBJECT` loads it N times and does both. `counted=WORKLOAD@OBJECT`
/// has the kernel count the calls of callbacks. Prints one figure a line, with the job's number in front.
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "the host reads it")]
pub(super) fn main(args: &[String]) -> ExitCode {
    for (number, job) in args.iter().enumerate() {
        match run(job) {
            Ok(figures) => figures.iter().for_each(|(name, value)| println!("{number}:{name} {value}")),
            Err(why) => {
                eprintln!("{job}: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn run(job: &str) -> Result<Figures, String> {
    let (workload, path) = job.split_once('@').ok_or("a job is WORKLOAD@OBJECT")?;
    if path.is_empty() {
        return run_workload(workload, None, None, false);
    }
    let scheduler = SchedulerObject {
        name: path.trim_start_matches('/').to_string(),
        bytes: std::fs::read(path).map_err(|error| format!("{path}: {error}"))?,
        ..SchedulerObject::default()
    };
    if let Some(rounds) = workload.strip_prefix("reload=") {
        return reload(&scheduler, rounds.parse().map_err(|_| "a number of rounds is wanted")?);
    }
    if let Some(workloads) = workload.strip_prefix("under-load;") {
        return run_between_loads(workloads, &scheduler);
    }
    if let Some(workloads) = workload.strip_prefix("loaded;") {
        return run_several(workloads, &scheduler);
    }
    let counted = workload.strip_prefix("counted=");
    run_workload(counted.unwrap_or(workload), Some(&scheduler), None, counted.is_some())
}

type Figures = Vec<(String, String)>;

fn run_workload(
    workload: &str,
    scheduler: Option<&SchedulerObject>,
    spin_rate: Option<SpinRate>,
    count_callbacks: bool,
) -> Result<Figures, String> {
    let scenario = match workload {
        groups::NAME => groups::scenario()?,
        _ => catalog::build(workload, 1).map_err(|error| error.to_string())?,
    };
    let plan = RunPlan {
        scheduler,
        subs: &[],
        work: Work::Scenario(&scenario),
        observe: true,
        explain_waits: false,
        record: false,
        count_callbacks,
        spin_rate,
    };
    let result = session::run(&plan).map_err(|error| error.to_string())?;
    let mut figures: Figures =
        result.metrics.iter().map(|metric| (metric.name.clone(), metric.value.to_string())).collect();
    figures.extend(result.tasks.iter().map(|task| (format!("share:{}", task.name), task.share.to_string())));
    for group in &result.groups {
        figures.push((format!("group:{}", group.name), group.share.to_string()));
        figures.push((format!("throttled:{}", group.name), group.throttled.to_string()));
    }
    figures.extend(result.callbacks.iter().map(|one| (format!("calls:{}", one.name), one.calls.to_string())));
    figures.push(("kind".to_string(), result.scheduler.exit.kind.name().to_string()));
    figures.push(("message".to_string(), result.scheduler.exit.message.clone()));
    figures.push(("not_observed".to_string(), result.not_observed.unwrap_or_default()));
    figures.push(("state".to_string(), sched_ext::state().unwrap_or_default()));
    Ok(figures)
}

/// Workloads one after the other under a scheduler that is loaded once: loading takes longer than many a workload.
fn run_several(workloads: &str, scheduler: &SchedulerObject) -> Result<Figures, String> {
    let loaded = load(scheduler).map_err(|error| error.to_string())?;
    let figures = one_after_the_other(workloads)?;
    Ok(with_end(figures, loaded))
}

/// The same under one that is attached while another process keeps the machine busy, and that is taken out so, too.
fn run_between_loads(workloads: &str, scheduler: &SchedulerObject) -> Result<Figures, String> {
    let mut loaded = loaded(scheduler)?;
    let busy = Busy::new()?;
    loaded.attach().map_err(|error| error.to_string())?;
    until_it_has_worked(scheduler, &loaded)?;
    drop(busy);
    let figures = one_after_the_other(workloads)?;
    let busy = Busy::new()?;
    until_it_has_worked(scheduler, &loaded)?;
    let figures = with_end(figures, loaded);
    drop(busy);
    Ok(figures)
}

/// The figures of the workload with number N have `N/` before their names.
///
/// Emulated CPUs share the emulator's speed, so that one among idle ones is faster. For a workload with hogs, CPU time is that
/// of a machine of which all CPUs compute. Else what emulation does to its times would look like what the scheduler does.
fn one_after_the_other(workloads: &str) -> Result<Figures, String> {
    let others = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    let among_others = SpinRate::measure_among(others);
    let mut all = Figures::new();
    for (number, workload) in workloads.split(';').enumerate() {
        let crowded = !workload.contains("hogs=0");
        let figures = run_workload(workload, None, crowded.then_some(among_others), false)?;
        all.extend(figures.into_iter().map(|(name, value)| (format!("{number}/{name}"), value)));
    }
    Ok(all)
}

/// Takes the scheduler out, and adds how it left.
fn with_end(mut figures: Figures, loaded: LoadedScheduler) -> Figures {
    let exit = loaded.unload().exit;
    figures.push(("kind".to_string(), exit.kind.name().to_string()));
    figures.push(("message".to_string(), exit.message));
    figures.push(("state".to_string(), sched_ext::state().unwrap_or_default()));
    figures
}

/// So many times in and out while another process keeps the machine busy; each time it has to do some work first.
fn reload(scheduler: &SchedulerObject, rounds: u32) -> Result<Figures, String> {
    let rounds: Result<Vec<String>, String> = (0..rounds).map(|_| one_round(scheduler)).collect();
    let state = sched_ext::state().unwrap_or_default();
    Ok(vec![("rounds".to_string(), rounds?.join(",")), ("state".to_string(), state)])
}

/// Loads it, attaches it under load, waits until it has worked, takes it out under load; how it left.
fn one_round(scheduler: &SchedulerObject) -> Result<String, String> {
    let mut loaded = loaded(scheduler)?;
    let busy = Busy::new()?;
    loaded.attach().map_err(|error| error.to_string())?;
    until_it_has_worked(scheduler, &loaded)?;
    let exit = loaded.unload().exit;
    drop(busy);
    Ok(format!("{}{}", exit.kind.name(), exit.message))
}

/// The scheduler loaded, and not attached yet. The verifier has the machine for itself: beside dozens of tasks it takes minutes on
/// an emulated CPU.
fn loaded(scheduler: &SchedulerObject) -> Result<LoadedScheduler, String> {
    let presence = Presence { attach: Some(DurationNs::ZERO), detach: None };
    load(&SchedulerObject { presence, ..scheduler.clone() }).map_err(|error| error.to_string())
}

/// Waits until it has counted a thousand things more.
fn until_it_has_worked(scheduler: &SchedulerObject, loaded: &LoadedScheduler) -> Result<(), String> {
    let counted = || loaded.counters().iter().map(|(_, value)| *value).sum::<u64>();
    let (begin, deadline) = (counted(), Instant::now() + Duration::from_secs(30));
    while counted() < begin + 1000 {
        if Instant::now() > deadline {
            return Err(format!("{}: {} counts in 30 s under load", scheduler.name, counted() - begin));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A process of its own under mixed load, with all its tasks, until it is dropped.
struct Busy(std::process::Child);

impl Busy {
    fn new() -> Result<Busy, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(own);
        command.args(["inside", "mixed:ttime=300s@"]).stdout(Stdio::null()).process_group(0);
        let busy = command.spawn().map(Busy).map_err(|error| error.to_string())?;
        // Long enough for all tasks of the load to be there.
        std::thread::sleep(Duration::from_secs(1));
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // SAFETY: plain system call on a process of ours; its leader ends with it, and the tasks with the leader.
        unsafe { libc::kill(self.0.id().cast_signed(), libc::SIGTERM) };
        let _ = self.0.wait();
    }
}
