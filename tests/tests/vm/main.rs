//! Real kernels: shipped and faulty schedulers in a VM with a stock kernel.
//!
//! Not under the usual harness: this program is also what runs inside of the VM. Its command line and what it prints are those of the
//! usual one (`harness.rs`), and several of its processes may run at a time. Every test needs QEMU and a kernel image (the package
//! archive, or a cached copy) and says "skipped" with the reason where it has none.
//!
//! Every shipped scheduler is tested, in one boot where it can be. What a test costs is instructions of the guest: a second in which
//! it is busy is one of 62 million, and verifying a scheduler takes some hundred million. A scheduler is therefore loaded once a test
//! where its state allows it.
//!
//! More of the same is to be had from the environment. `SCHEDLAB_SOAK_SECONDS` is the time that each scheduler has under mixed load
//! (5). `SCHEDLAB_SOAK_RELOADS` is how often it is loaded, attached under load and taken out (1, or 3 in soaks of a minute and more).
//! `SCHEDLAB_VM_SCHEDULERS` names some of them, or others with SWAP (`o1,o1+swap`). `SCHEDLAB_VM_KINDS=all` has SWAP serve each kind
//! of wait for real-time clients and on two CPUs, too.

mod groups;
mod harness;
mod inside;
mod swap;

use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use harness::Asked;
use schedlab_base::Machine;
use schedlab_live::kernel_image::{self, KernelImage};
use schedlab_live::vm::{self, Accelerator, VmError, VmJob, VmOutput};
use schedlab_scx::{BpfScheduler, LoadOptions};
use schedlab_sim::{Class, Config, RunResult};
use schedlab_tests::Schedlab;
use schedlab_workload::catalog;
use tempfile::TempDir;

/// Time that the host's load does not touch: 16 ns an instruction, so 62 million of them in a guest's second, which takes
/// emulation about half a second.
const HOST_INDEPENDENT: Accelerator = Accelerator::InstructionCount { shift: 4 };

/// Thousands of instructions that a CPU has before it is the other one's turn. With turns of the usual length, 2, four fifths of the
/// host's time are for turns. What is looked at here takes tens of milliseconds, a turn is one of 0.3, and a tick comes every 4.
const LONG_TURN: u32 = 20;

type Test = (&'static str, fn(&Lab) -> Result<(), String>);

/// The longest first, so that the last worker is done soon after the others.
const TESTS: &[Test] = &[
    ("mixed_load_and_reloads", mixed_load_and_reloads),
    ("nice_shares_of_hogs", nice_shares_of_hogs),
    ("swap_on_two_cpus", swap::brings_providers_forward_on_two_cpus),
    ("swap_brings_providers_forward", swap::brings_providers_forward),
    ("swap_brings_children_forward", swap::brings_children_forward),
    ("swap_bounds_priority_inversion", swap::bounds_priority_inversion),
    ("faulty_schedulers_are_reported", faulty_schedulers_are_reported),
    ("a_job_that_takes_too_long_is_stopped", a_job_that_takes_too_long_is_stopped),
    ("instruction_counts_repeat", instruction_counts_repeat),
    ("callbacks_are_counted", callbacks_are_counted),
    ("shares_of_groups", groups::shares_of_groups),
    ("only_the_workload_counts", only_the_workload_counts),
    ("nothing_is_left_of_a_command_that_is_stopped", nothing_is_left_of_a_command_that_is_stopped),
];

/// What the tests share.
struct Lab {
    kernel: KernelImage,
    schedulers: Vec<(String, Vec<u8>)>,
    /// A folder of this process alone.
    scratch: TempDir,
}

#[allow(clippy::print_stderr, reason = "a test program reports")]
fn main() -> ExitCode {
    schedlab_live::enter();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "inside") {
        return inside::main(&args[1..]);
    }
    let asked = match Asked::of(&args) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(harness::FAILED);
        }
    };
    let wanted = asked.of_all(TESTS);
    if asked.list {
        asked.print_list(&wanted);
        return ExitCode::SUCCESS;
    }
    let lab = if wanted.is_empty() { Err("there is nothing to run".to_string()) } else { Lab::new() };
    if asked.run(lab, &wanted, TESTS.len()) { ExitCode::SUCCESS } else { ExitCode::from(harness::FAILED) }
}

impl Lab {
    fn new() -> Result<Lab, String> {
        let found = Command::new("qemu-system-x86_64").arg("--version").output();
        found.map_err(|_| "qemu-system-x86_64 is not installed (package qemu-system-x86)")?;
        let kernel = kernel_image::find_or_fetch(&mut |_| {}).map_err(|error| error.to_string())?;
        let mut schedulers = schedlab_tests::shipped();
        if let Ok(wanted) = std::env::var("SCHEDLAB_VM_SCHEDULERS") {
            schedulers.extend(schedlab_tests::shipped_with_swap());
            schedulers.retain(|(name, _)| wanted.split(',').any(|one| one == name));
        }
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|error| error.to_string())?;
        Ok(Lab { kernel, schedulers, scratch })
    }

    /// Object of a shipped scheduler.
    fn shipped(&self, name: &str) -> Result<Vec<u8>, String> {
        let found = self.schedulers.iter().find(|(known, _)| known == name);
        found.map(|(_, object)| object.clone()).ok_or_else(|| format!("there is no {name}"))
    }

    /// Runs jobs in one VM; each is a workload and the number of the scheduler among `objects`.
    fn run_all(
        &self,
        cpus: u32,
        objects: &[(String, Vec<u8>)],
        jobs: &[(String, usize)],
        limit: Duration,
    ) -> Result<VmOutput, String> {
        let path = |name: &str| format!("/{name}.bpf.o");
        let words: Vec<String> = jobs
            .iter()
            .map(|(workload, number)| format!("{workload}@{}", path(&objects[*number].0)))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut job = self.job(cpus, &words, None);
        job.files = objects.iter().map(|(name, object)| (path(name), object.clone())).collect();
        job.timeout = limit;
        job.turn = LONG_TURN;
        let output = vm::run(&job, &mut |_| {}).map_err(|error| error.to_string())?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        check(output.exit_code == 0, format!("code {}: {words}", output.exit_code))?;
        check_log(&output)?;
        Ok(output)
    }

    /// Compiles one of the objects of these tests.
    fn compiled(&self, name: &str) -> Result<Vec<u8>, String> {
        let object = self.scratch.path().join(format!("{name}.bpf.o"));
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
        job.accelerator = HOST_INDEPENDENT;
        job
    }
}

/// The figure `name` of a job.
fn figure_of(output: &VmOutput, job: usize, name: &str) -> Result<String, String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let name = format!("{job}:{name}");
    let found = text.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '));
    found
        .map(str::to_string)
        .ok_or_else(|| format!("no {name} in:\n{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn number(output: &VmOutput, name: &str) -> Result<f64, String> {
    number_of(output, 0, name)
}

fn number_of(output: &VmOutput, job: usize, name: &str) -> Result<f64, String> {
    let text = figure_of(output, job, name)?;
    text.parse().map_err(|_| format!("{name} is {text}"))
}

fn check(holds: bool, what: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Nothing worse than information, apart from what emulated clocks cause on a busy host, and from complaints of RCU. Under a
/// sched_ext scheduler these eject it, which is looked for by itself; else the kernel's own scheduler is meant.
fn check_log(output: &VmOutput) -> Result<(), String> {
    let bad: Vec<&String> = output
        .kernel_warnings
        .iter()
        .filter(|line| !["clocksource", "hrtimer: interrupt took", "rcu: "].iter().any(|w| line.contains(w)))
        .collect();
    check(bad.is_empty(), format!("kernel log: {bad:#?}"))
}

/// A job of a scheduler went to its end with the scheduler in charge, its waits were seen, and the machine is its own again.
/// `workload` is what the figures of one of several workloads begin with.
fn check_job(output: &VmOutput, job: usize, workload: &str, name: &str) -> Result<(), String> {
    check_end(output, job, name)?;
    let unseen = figure_of(output, job, &format!("{workload}not_observed"))?;
    check(unseen.is_empty(), format!("{name}: {unseen}"))
}

/// A job of a scheduler went to its end with the scheduler in charge, and the machine is its own again.
fn check_end(output: &VmOutput, job: usize, name: &str) -> Result<(), String> {
    let kind = figure_of(output, job, "kind")?;
    check(kind == "none", format!("{name}: {kind}: {}", figure_of(output, job, "message")?))?;
    check_state(output, job, name)
}

/// The kernel's own scheduler is in charge.
fn check_state(output: &VmOutput, job: usize, name: &str) -> Result<(), String> {
    let state = figure_of(output, job, "state")?;
    check(state == "disabled", format!("{name}: sched_ext is {state} afterwards"))
}

/// Two hogs on one CPU: the simulator and the kernel agree on how they share it, within 3 points, and all is used. Within 5 for
/// bsd4, whose share depends on when its load average rises (3.8 was seen at nice 0 and 19).
#[allow(clippy::print_stdout, reason = "a test program reports")]
fn nice_shares_of_hogs(lab: &Lab) -> Result<(), String> {
    // Long against the 100 ms slices of some, of which one is 0.8 points, and twice as long against bsd4's decay.
    let pairs = |seconds: u32| {
        ["0/0", "0/5", "0/19"].map(|nice| format!("cpuhog:ntasks=2,nice={nice},ttime={seconds}s"))
    };
    let mut jobs: Vec<(String, usize)> = Vec::new();
    // Where a pair's figures are: the job, and what they begin with.
    let mut places = Vec::new();
    for (number, (name, _)) in lab.schedulers.iter().enumerate() {
        // Each pair starts bsd4 again, which remembers the load average of the pair before. Others remember nothing of earlier tasks.
        if name.starts_with("bsd4") {
            for pair in pairs(24) {
                places.push((jobs.len(), String::new(), number, pair.clone()));
                jobs.push((pair, number));
            }
        } else {
            let all = pairs(12);
            let numbered = (0..).zip(&all);
            places.extend(numbered.map(|(at, pair)| (jobs.len(), format!("{at}/"), number, pair.clone())));
            jobs.push((format!("loaded;{}", all.join(";")), number));
        }
    }
    let output =
        lab.run_all(1, &lab.schedulers, &jobs, Duration::from_secs(600 + 60 * places.len() as u64))?;
    let mut findings = Vec::new();
    for (job, begin, number, workload) in places {
        let (name, object) = &lab.schedulers[number];
        check_job(&output, job, &begin, name)?;
        let simulated = simulated_shares(name, object, &workload)?;
        let share = |hog: u32| number_of(&output, job, &format!("{begin}share:hog/{hog}"));
        let seen = [share(0)?, share(1)?];
        // What emulation takes away, it takes from both.
        let of_both = |shares: [f64; 2]| shares[0] / (shares[0] + shares[1]);
        let told = format!("{name}, {workload}: shares {seen:.3?}, simulated {simulated:.3?}");
        println!("{told}");
        let leeway = if name == "bsd4" { 0.05 } else { 0.03 };
        if seen[0] + seen[1] < 0.95 || (of_both(seen) - of_both(simulated)).abs() > leeway {
            findings.push(told);
        }
    }
    check(findings.is_empty(), findings.join("\n"))
}

/// The shares of the first two tasks in the simulator.
fn simulated_shares(name: &str, object: &[u8], workload: &str) -> Result<[f64; 2], String> {
    let tasks = simulated(name, object, workload)?.tasks;
    Ok([tasks[0].share, tasks[1].share])
}

/// A run in the simulator, on a machine with the kernel's tick.
fn simulated(name: &str, object: &[u8], workload: &str) -> Result<RunResult<BpfScheduler>, String> {
    let mut machine = Machine::uniform("one", 1);
    machine.hz = 250;
    let scheduler = BpfScheduler::load(name, object, &LoadOptions::default(), &machine);
    let scheduler = scheduler.map_err(|error| error.to_string())?;
    let scenario = catalog::build(workload, 1).map_err(|error| error.to_string())?;
    schedlab_scx::run(&Config::new(machine, 1), &scenario, Class::Ext(scheduler))
        .map_err(|error| error.to_string())
}

/// The kernel calls the callbacks of wakeups and switches as often as the simulator does; a run of which nothing is counted
/// tells nothing.
fn callbacks_are_counted(lab: &Lab) -> Result<(), String> {
    const WORKLOAD: &str = "pipe:loops=2000";
    // Where the files of a command may lie, too.
    const PLACE: &str = "/tmp/o1.bpf.o";
    let object = lab.shipped("o1")?;
    let jobs = [format!("counted={WORKLOAD}@{PLACE}"), format!("{WORKLOAD}@{PLACE}")];
    let words: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let mut job = lab.job(1, &words, None);
    job.files = vec![(PLACE.to_string(), object.clone())];
    let output = vm::run(&job, &mut |_| {}).map_err(|error| error.to_string())?;
    let costs = simulated("o1", &object, WORKLOAD)?.scheduler.map(|loaded| loaded.callback_costs());
    for callback in ["enqueue", "dispatch", "running", "stopping"] {
        let real = number_of(&output, 0, &format!("calls:{callback}"))?;
        let ours = costs.iter().flatten().find(|one| one.name == callback).map_or(0, |one| one.calls);
        check(ours > 1000 && (real / ours as f64 - 1.0).abs() < 0.05, format!("{callback}: {real}, {ours}"))?;
    }
    check(figure_of(&output, 1, "calls:enqueue").is_err(), "counted unasked")?;
    check_end(&output, 1, "o1")
}

/// Each is ejected, or refused, and the machine takes the next one.
fn faulty_schedulers_are_reported(lab: &Lab) -> Result<(), String> {
    const EJECTED: [(&str, &str, &str); 3] = [
        ("stall", "error_stall", "failed to run for"),
        ("bad_dsq", "error", "non-existent DSQ 0xdead"),
        ("complains", "error_bpf", "this is enough"),
    ];
    let names = EJECTED.map(|(name, ..)| name).into_iter().chain(["refused"]);
    let place = |name: &str| format!("/{name}.bpf.o");
    let jobs: Vec<String> =
        names.clone().map(|name| format!("cpuhog:ntasks=2,ttime=8s@{}", place(name))).collect();
    let words: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let mut job = lab.job(1, &words, None);
    for name in names {
        job.files.push((place(name), lab.compiled(name)?));
    }
    let output = vm::run(&job, &mut |_| {}).map_err(|error| error.to_string())?;
    for (number, (name, kind, message)) in EJECTED.into_iter().enumerate() {
        let (found, text) = (figure_of(&output, number, "kind")?, figure_of(&output, number, "message")?);
        check(found == kind && text.contains(message), format!("{name}: {found}: {text}"))?;
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    check(output.exit_code == 1, format!("code {}", output.exit_code))?;
    let named = words.contains("refuses refused_enqueue") && words.contains("or_null");
    check(named, format!("refused: {words}"))?;
    let output = lab.run(1, &["cpuhog:ttime=1s@/object.bpf.o"], Some(b"\x7fELF, or so".to_vec()))?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    check(words.contains("not a usable BPF object"), format!("garbage: {words}"))
}

fn a_job_that_takes_too_long_is_stopped(lab: &Lab) -> Result<(), String> {
    let mut job = lab.job(1, &["cpuhog:ttime=100s@"], None);
    job.timeout = Duration::from_secs(2);
    match vm::run(&job, &mut |_| {}) {
        Err(VmError::Timeout { .. }) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// QEMU and its files go with the command, whether it is asked to end or killed.
fn nothing_is_left_of_a_command_that_is_stopped(_: &Lab) -> Result<(), String> {
    let lab = Schedlab::new("vm-stopped");
    let stopped = |signal: &str| -> Result<(Option<i32>, String, String), String> {
        let mut command = Command::new(lab.binary());
        command.args(["run", "--vm", "-s", "eevdf", "-w", "cpuhog:ttime=100s"]).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut told = child.stderr.take().ok_or("no standard error")?;
        let scratch = format!("schedlab-vm-{}-", child.id());
        let mut text = String::new();
        while !has_process(&scratch) {
            if child.try_wait().map_err(|error| error.to_string())?.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let killed = Command::new("kill").args([signal, &child.id().to_string()]).status();
        check(killed.is_ok_and(|status| status.success()), "it runs until it is stopped")?;
        let ended = child.wait().map_err(|error| error.to_string())?;
        told.read_to_string(&mut text).map_err(|error| error.to_string())?;
        Ok((ended.code(), text, scratch))
    };
    let (code, told, scratch) = stopped("-TERM")?;
    check(code == Some(3) && told.contains("error: interrupted"), format!("{code:?} {told}"))?;
    check(!has_process(&scratch) && !has_scratch(&scratch), "nothing is left")?;
    let (code, _, scratch) = stopped("-KILL")?;
    check(code.is_none(), format!("{code:?}"))?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while has_process(&scratch) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    check(!has_process(&scratch), "QEMU ends with the command")?;
    stopped("-TERM")?;
    check(!has_scratch(&scratch), "the next VM removes the directory")
}

/// Does a process run in a folder whose path has this in it?
fn has_process(text: &str) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut folders = processes.filter_map(|process| std::fs::read_link(process.path().join("cwd")).ok());
    folders.any(|folder| folder.to_string_lossy().contains(text))
}

/// Is there a scratch directory whose name begins so?
fn has_scratch(begin: &str) -> bool {
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with(begin))
}

/// Interruptions by the kernel's own tasks are no switches of the workload, as in the simulator, and a CPU's last stretch counts up
/// to the end of the run.
fn only_the_workload_counts(lab: &Lab) -> Result<(), String> {
    let jobs = [1, 2].map(|cpus| (format!("cpuhog:ntasks={cpus},ttime=2s"), cpus));
    for (workload, cpus) in jobs {
        let mut job = lab.job(cpus, &[&format!("{workload}@")], None);
        job.turn = LONG_TURN;
        let output = vm::run(&job, &mut |_| {}).map_err(|error| error.to_string())?;
        let busy = number(&output, "cpu_busy_fraction")?;
        check(busy > 0.99, format!("{workload}: busy {busy}"))?;
        let switches = number(&output, "context_switches")?;
        // Each of them once, and where it starts beside another until it has found its CPU.
        let most = if cpus == 1 { 1.0 } else { 20.0 };
        check(switches >= 1.0 && switches <= most, format!("{workload}: {switches} switches"))?;
    }
    Ok(())
}

/// Under instruction counting, guest time is instructions: the same figures again, to the last digit, on one CPU and on two. A
/// machine that boots begins at another time than one of a snapshot, and measures nearly the same.
///
/// On two CPUs it is a scheduler of a few lines, because turns have the usual length here. Verifying a shipped one takes most of the
/// time, and repeats on one CPU as well.
fn instruction_counts_repeat(lab: &Lab) -> Result<(), String> {
    let objects = [lab.shipped("o1")?, lab.compiled("counts")?];
    let run = |cpus: u32, snapshot| -> Result<(VmOutput, f64), String> {
        let object = objects[cpus as usize - 1].clone();
        let mut job = lab.job(cpus, &["reflex:tasks=2,rounds=2000@/object.bpf.o"], Some(object));
        job.snapshot = snapshot;
        let output = vm::run(&job, &mut |_| {}).map_err(|error| error.to_string())?;
        let figure = number(&output, "time_per_round")?;
        Ok((output, figure))
    };
    let twice = |cpus| -> Result<f64, String> {
        let (first, figure) = run(cpus, true)?;
        let (second, again) = run(cpus, true)?;
        check(
            figure.to_bits() == again.to_bits(),
            format!("{cpus} CPUs: time_per_round {figure} and {again} us"),
        )?;
        check(first.stdout == second.stdout, "all figures are the same, too")?;
        check(first.stderr == second.stderr, "what is told is the same, too")?;
        Ok(figure)
    };
    twice(2)?;
    let (booted, restored) = (run(1, false)?.1, twice(1)?);
    let difference = (booted / restored - 1.0).abs();
    check(difference < 0.02, format!("time_per_round {booted} us booted, {restored} us restored"))
}

/// A number from the environment.
fn setting(name: &str, default: u64) -> Result<u64, String> {
    let text = std::env::var(name).ok();
    text.map_or(Ok(default), |text| text.parse()).map_err(|_| format!("{name}: no number"))
}

/// Every scheduler on 2 CPUs: attached under everything at once, then under a chat and under that load with its figures, and taken
/// out under it. In soaks of a minute and more it is loaded twice more for that.
///
/// In two seconds of the mixed load vanilla may leave the hogs without a turn, as the forking tasks come first. A task that a
/// scheduler loses is missed in the chat, whose end is waited for.
fn mixed_load_and_reloads(lab: &Lab) -> Result<(), String> {
    let seconds = setting("SCHEDLAB_SOAK_SECONDS", 5)?;
    let rounds = setting("SCHEDLAB_SOAK_RELOADS", if seconds < 60 { 1 } else { 3 })?;
    let count = lab.schedulers.len();
    // The verifier takes longer than all of them: the scheduler is loaded once for them.
    let loads = format!("under-load;chat:rooms=1,messages=10;mixed:ttime={seconds}s");
    let more = rounds.saturating_sub(1);
    let (reload, left) = (format!("reload={more}"), vec!["none"; more as usize].join(","));
    let jobs: Vec<(String, usize)> =
        (0..count).flat_map(|n| [(loads.clone(), n), (reload.clone(), n)]).collect();
    let limit = Duration::from_secs(600 + (4 * seconds + 60 + 300 * rounds) * count as u64);
    // On an emulated CPU o1's interactive tasks keep a forking one waiting for 10 s.
    let expected: &[&str] =
        if seconds < 60 { &["messages", "work"] } else { &["messages", "work", "forks", "changes"] };
    let output = lab.run_all(2, &lab.schedulers, &jobs, limit)?;
    for (number, (name, _)) in lab.schedulers.iter().enumerate() {
        let (job, reload) = (2 * number, 2 * number + 1);
        let above_0 = |figure: String| -> Result<(), String> {
            check(number_of(&output, job, &figure)? > 0.0, format!("{name}: no {figure}"))
        };
        for workload in ["0/", "1/"] {
            check_job(&output, job, workload, name)?;
        }
        ["throughput", "wakeup_latency_ns_p50"]
            .iter()
            .try_for_each(|figure| above_0(format!("0/{figure}")))?;
        expected.iter().try_for_each(|figure| above_0(format!("1/{figure}")))?;
        let rounds = figure_of(&output, reload, "rounds")?;
        check(rounds == left, format!("{name}: left with {rounds}"))?;
        check_state(&output, reload, name)?;
    }
    Ok(())
}
