//! Real kernels: shipped and faulty schedulers in a VM with a stock kernel.
//!
//! Not under the usual harness: this program is also what runs inside of the VM. Every test needs
//! QEMU and a kernel image (the package archive, or a cached copy) and says "skipped" with the
//! reason where it has none. `SCHEDLAB_SOAK_SECONDS` changes the length of the soak (60).

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use schedlab_base::{DurationNs, Machine, Nice, Policy};
use schedlab_live::kernel_image::{self, KernelImage};
use schedlab_live::load::SchedulerObject;
use schedlab_live::session::{self, RunPlan, Work};
use schedlab_live::vm::{self, Accelerator, VmError, VmJob, VmOutput};
use schedlab_scx::{BpfScheduler, LoadOptions};
use schedlab_sim::{Class, Config};
use schedlab_workload::{Amount, End, Op, ProcessId, ProgramBuilder, ProgramId, Scenario, TaskSpec, catalog};

type Test = (&'static str, fn(&Lab) -> Result<(), String>);

const TESTS: &[Test] = &[
    ("shipped_schedulers_run_chat", shipped_schedulers_run_chat),
    ("nice_shares_of_hogs", nice_shares_of_hogs),
    ("faulty_schedulers_are_reported", faulty_schedulers_are_reported),
    ("a_job_that_takes_too_long_is_stopped", a_job_that_takes_too_long_is_stopped),
    ("instruction_counts_repeat", instruction_counts_repeat),
    ("soak", soak),
];

/// What the tests share.
struct Lab {
    kernel: KernelImage,
    root: PathBuf,
    scratch: PathBuf,
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program reports")]
fn main() -> ExitCode {
    schedlab_live::enter();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "inside") {
        return inside(&args[1..]);
    }
    let filter = args.iter().find(|arg| !arg.starts_with('-')).cloned().unwrap_or_default();
    let lab = match Lab::new() {
        Ok(lab) => lab,
        Err(reason) => {
            println!("skipped: {reason}");
            return ExitCode::SUCCESS;
        }
    };
    let mut failed = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&filter)) {
        let begin = Instant::now();
        let verdict = test(&lab);
        let seconds = begin.elapsed().as_secs_f64();
        match verdict {
            Ok(()) => println!("test {name} ... ok ({seconds:.0} s)"),
            Err(why) => {
                println!("test {name} ... FAILED ({seconds:.0} s)\n{why}");
                failed += 1;
            }
        }
    }
    println!("test result: {}. {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Inside of the VM: `inside WORKLOAD OBJECT|- [SOAK_SECONDS]`. Prints one figure per line.
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "the host reads it")]
fn inside(args: &[String]) -> ExitCode {
    let scenario = match args[0].as_str() {
        "soak" => soak_scenario(args[2].parse().unwrap_or(60)),
        spec => catalog::build(spec, 1).expect("the host gives a known workload"),
    };
    let scheduler = (args[1] != "-").then(|| SchedulerObject {
        name: args[1].clone(),
        bytes: std::fs::read(&args[1]).expect("the host packs the object"),
        ..SchedulerObject::default()
    });
    let work = Work::Scenario(&scenario);
    let plan = RunPlan { scheduler: scheduler.as_ref(), work, observe: true, spin_rate: None };
    match session::run(&plan) {
        Ok(result) => {
            for metric in &result.metrics {
                println!("{} {}", metric.name, metric.value);
            }
            for task in &result.tasks {
                println!("share:{} {}", task.name, task.share);
            }
            println!("kind {}", result.scheduler.exit.kind.name());
            println!("message {}", result.scheduler.exit.message);
            println!("not_observed {}", result.not_observed.unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

impl Lab {
    fn new() -> Result<Lab, String> {
        let found = Command::new("qemu-system-x86_64").arg("--version").output();
        found.map_err(|_| "qemu-system-x86_64 is not installed (package qemu-system-x86)")?;
        let kernel = kernel_image::find_or_fetch(&mut |_| {}).map_err(|error| error.to_string())?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let made = Command::new("make").args(["-s", "-C"]).arg(root.join("schedulers")).output();
        made.map_err(|error| format!("make: {error}"))?;
        let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        Ok(Lab { kernel, root, scratch })
    }

    /// Object of a shipped scheduler.
    fn shipped(&self, name: &str) -> Result<Vec<u8>, String> {
        let path = self.root.join(format!("schedulers/build/{name}.bpf.o"));
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Compiles one of the objects of these tests.
    fn compiled(&self, name: &str) -> Result<Vec<u8>, String> {
        let object = self.scratch.join(format!("{name}.bpf.o"));
        schedlab_tests::compile(name, "bpf", &object)?;
        std::fs::read(&object).map_err(|error| error.to_string())
    }

    /// Runs this program in a VM.
    fn run(&self, cpus: u32, args: &[&str], object: Option<Vec<u8>>) -> Result<VmOutput, String> {
        let job = self.job(cpus, args, object);
        vm::run(&job, &mut |_| {}).map_err(|error| error.to_string())
    }

    fn job(&self, cpus: u32, args: &[&str], object: Option<Vec<u8>>) -> VmJob {
        let mut all = vec!["inside".to_string()];
        all.extend(args.iter().map(|arg| (*arg).to_string()));
        let mut job = VmJob::new(self.kernel.clone(), all);
        job.cpus = cpus;
        job.files = object.map(|bytes| ("/object.bpf.o".to_string(), bytes)).into_iter().collect();
        job.timeout = Duration::from_secs(600);
        job
    }
}

/// The figure `name` of an output.
fn figure(output: &VmOutput, name: &str) -> Result<String, String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found
        .map(str::to_string)
        .ok_or_else(|| format!("no {name} in:\n{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn number(output: &VmOutput, name: &str) -> Result<f64, String> {
    let text = figure(output, name)?;
    text.parse().map_err(|_| format!("{name} is {text}"))
}

fn check(holds: bool, what: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Nothing worse than information, apart from what emulated clocks cause on a busy host.
fn check_log(output: &VmOutput) -> Result<(), String> {
    let bad: Vec<&String> = output
        .kernel_warnings
        .iter()
        .filter(|line| !["clocksource", "hrtimer: interrupt took"].iter().any(|w| line.contains(w)))
        .collect();
    check(bad.is_empty(), format!("kernel log: {bad:#?}"))
}

fn shipped_schedulers_run_chat(lab: &Lab) -> Result<(), String> {
    for name in ["vanilla", "o1"] {
        let object = lab.shipped(name)?;
        let output = lab.run(2, &["chat:rooms=1,messages=10", "/object.bpf.o"], Some(object))?;
        check(figure(&output, "kind")? == "none", format!("{name}: {}", figure(&output, "message")?))?;
        check(number(&output, "throughput")? > 0.0, name)?;
        check(number(&output, "wakeup_latency_ns_p50")? > 0.0, name)?;
        check(figure(&output, "not_observed")?.is_empty(), figure(&output, "not_observed")?)?;
        check_log(&output).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

/// Two hogs on one CPU: the simulator and the kernel agree on how they share it, within 3 points, and all is used.
fn nice_shares_of_hogs(lab: &Lab) -> Result<(), String> {
    for name in ["vanilla", "o1"] {
        for nice in ["0/0", "0/5", "0/19"] {
            let workload = format!("cpuhog:ntasks=2,nice={nice},ttime=6s");
            let object = lab.shipped(name)?;
            let simulated = simulated_shares(name, &object, &workload)?;
            let output = lab.run(1, &[&workload, "/object.bpf.o"], Some(object))?;
            let (first, second) = (number(&output, "share:hog/0")?, number(&output, "share:hog/1")?);
            let words =
                format!("{name}, nice {nice}: shares {first:.3} and {second:.3}, simulated {simulated:.3?}");
            check(first + second > 0.85, words.clone())?;
            // What emulation takes away, it takes from both.
            let of_both = |shares: [f64; 2]| shares[0] / (shares[0] + shares[1]);
            check((of_both([first, second]) - of_both(simulated)).abs() < 0.03, words)?;
            check_log(&output).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    Ok(())
}

/// The shares of the first two tasks in the simulator, on a machine with the kernel's tick.
fn simulated_shares(name: &str, object: &[u8], workload: &str) -> Result<[f64; 2], String> {
    let mut machine = Machine::uniform("one", 1);
    machine.hz = 250;
    let scheduler = BpfScheduler::load(name, object, &LoadOptions::default(), &machine);
    let scheduler = scheduler.map_err(|error| error.to_string())?;
    let scenario = catalog::build(workload, 1).map_err(|error| error.to_string())?;
    let result = schedlab_sim::run(&Config::new(machine, 1), &scenario, Class::Ext(scheduler));
    let tasks = result.map_err(|error| error.to_string())?.tasks;
    Ok([tasks[0].share, tasks[1].share])
}

fn faulty_schedulers_are_reported(lab: &Lab) -> Result<(), String> {
    for (name, kind, message) in [
        ("stall", "error_stall", "failed to run for"),
        ("bad_dsq", "error", "non-existent DSQ 0xdead"),
        ("complains", "error_bpf", "this is enough"),
    ] {
        let output = lab.run(1, &["cpuhog:ntasks=2,ttime=8s", "/object.bpf.o"], Some(lab.compiled(name)?))?;
        let (found, text) = (figure(&output, "kind")?, figure(&output, "message")?);
        check(found == kind && text.contains(message), format!("{name}: {found}: {text}"))?;
    }
    let output = lab.run(1, &["cpuhog:ttime=1s", "/object.bpf.o"], Some(lab.compiled("refused")?))?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    check(output.exit_code == 1, format!("code {}", output.exit_code))?;
    let named = words.contains("refuses refused_enqueue") && words.contains("or_null");
    check(named, format!("refused: {words}"))?;
    let output = lab.run(1, &["cpuhog:ttime=1s", "/object.bpf.o"], Some(b"\x7fELF, or so".to_vec()))?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    check(words.contains("not a usable BPF object"), format!("garbage: {words}"))
}

fn a_job_that_takes_too_long_is_stopped(lab: &Lab) -> Result<(), String> {
    let mut job = lab.job(1, &["cpuhog:ttime=100s", "-"], None);
    job.timeout = Duration::from_secs(2);
    match vm::run(&job, &mut |_| {}) {
        Err(VmError::Timeout { .. }) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Under instruction counting, guest time is instructions: one more task, the same figure again.
fn instruction_counts_repeat(lab: &Lab) -> Result<(), String> {
    let mut figures = Vec::new();
    for _ in 0..2 {
        let mut job = lab.job(1, &["reflex:tasks=2,rounds=2000", "/object.bpf.o"], Some(lab.shipped("o1")?));
        job.accelerator = Accelerator::InstructionCount;
        let output = vm::run(&job, &mut |_| {}).map_err(|error| error.to_string())?;
        figures.push(number(&output, "time_per_round")?);
    }
    let difference = (figures[0] / figures[1] - 1.0).abs();
    check(difference < 0.02, format!("time_per_round {figures:?} us"))
}

fn soak(lab: &Lab) -> Result<(), String> {
    let seconds = std::env::var("SCHEDLAB_SOAK_SECONDS").unwrap_or_else(|_| "60".to_string());
    for name in ["vanilla", "o1"] {
        let object = lab.shipped(name)?;
        let output = lab.run(2, &["soak", "/object.bpf.o", &seconds], Some(object))?;
        check(figure(&output, "kind")? == "none", format!("{name}: {}", figure(&output, "message")?))?;
        check(number(&output, "context_switches")? > 100.0, name)?;
        check_log(&output).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

/// A chat that does not end, hogs of several nice values, and tasks that fork, execute and wait.
fn soak_scenario(seconds: u64) -> Scenario {
    // As many messages as a System V semaphore can count (32767), which is more than a minute's work.
    let mut scenario = catalog::build("chat:rooms=1,messages=30000", 1).expect("chat is in the catalogue");
    let mut program = |builder: ProgramBuilder| {
        scenario.programs.push(builder.build().expect("a correct program"));
        ProgramId(scenario.programs.len() as u32 - 1)
    };
    let run = Op::Run(DurationNs::from_ms(2));
    let hog = program(ProgramBuilder::new().repeat(Amount::Forever, |b| b.op(run)));
    let child = program(ProgramBuilder::new().op(Op::Exec).op(run));
    let forker = program(
        ProgramBuilder::new()
            .repeat(Amount::Forever, |b| b.op(Op::Fork { program: child }).op(Op::WaitChild).op(Op::Yield)),
    );
    let first = scenario.tasks.iter().map(|task| task.process.0).max().unwrap_or(0) + 1;
    let added = [
        ("hog/0", hog, 0),
        ("hog/1", hog, 5),
        ("hog/2", hog, 19),
        ("fork/0", forker, 0),
        ("fork/1", forker, 0),
    ];
    for (number, (name, program, nice)) in added.into_iter().enumerate() {
        scenario.tasks.push(TaskSpec {
            name: name.to_string(),
            program,
            process: ProcessId(first + number as u32),
            nice: Nice::new(nice).unwrap_or_default(),
            policy: Policy::Other,
            affinity: None,
            working_set_kib: 0,
            background: false,
        });
    }
    scenario.end = End::After(DurationNs::from_secs(seconds));
    scenario
}
