//! `fidelity`: the same runs in the simulator and on a real kernel, and how far apart their figures are.

use super::compare::vm_cpus_or;
use super::run::tell;
use crate::args::{FidelityArgs, InstructionTime};
use crate::confine::Named;
use crate::output;
use crate::progress::Progress;
use crate::results::command_line;
use crate::typed::without_vm;
use schedlab_base::counted;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::input;
use schedlab_lab::files::target::{self, Target};
use schedlab_lab::machine::host as host_machine;
use schedlab_lab::machine::kernels;
use schedlab_lab::run::batch::in_one_vm;
use schedlab_lab::run::real::{Looks, RealRun, guest_settings, read_runs, told_failure};
use schedlab_lab::scheduler::Scheduler;
use schedlab_lab::scheduler::entry;
use schedlab_lab::scheduler::own_loader;
use schedlab_lab::shipped;
use schedlab_lab::workload::loads::loads;
use schedlab_lab::workload::scenario;
use schedlab_live::load::check_machine;
use schedlab_report::{
    COVERAGE, Document, Fidelity, HtmlPage, fidelity_cells, fidelity_html, from_json, to_json,
};
use schedlab_trace::{Backend, RunRecord};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// The schedulers of the book's table.
const SCHEDULERS: &str = "eevdf,vanilla,hamq,libenzi,o1,staircase,bsd4,ule,o1+swap";

/// Its workloads: eight with several figures of their own, and a probe of each mechanism of the kernel.
const WORKLOADS: [&str; 21] = [
    "cpuhog:ntasks=2,ttime=1600ms",
    "cpuhog:ntasks=3,ttime=1600ms",
    "cpuhog:ntasks=3,nice=0/5/10,ttime=1600ms",
    "periodic:tasks=3,run=3ms,sleep=5ms,ttime=1600ms",
    "pipe:loops=10000",
    "schbench:workers=3,ttime=1600ms,work=200us,footprint=1",
    "cyclictest:threads=2,hogs=1,ttime=1600ms",
    "swap-pipe:iterations=20,service=20ms,hogs=2",
    "probe:of=affinity",
    "probe:of=build",
    "probe:of=deadline",
    "probe:of=epoll",
    "probe:of=exec",
    "probe:of=fork",
    "probe:of=locks",
    "probe:of=pages",
    "probe:of=realtime",
    "probe:of=shell",
    "probe:of=tcp",
    "probe:of=unix",
    "probe:of=yield",
];

/// Runs and prints.
pub(crate) fn fidelity(args: &FidelityArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    let named = named(args)?;
    let measured = &args.measured;
    if measured.vm || measured.host {
        named.spare_inputs()?;
    } else {
        named.enter(&args.sandbox, quiet)?;
    }
    if let Some(path) = &args.show {
        let named = |error: String| Failure::usage(format!("--show {}: {error}", path.display()));
        let text = input::text(path).map_err(|error| named(error.to_string()))?;
        let read = Fidelity::from_json(&text)
            .map_err(|error| named(format!("it is no file of `schedlab fidelity -o` ({error})")))?;
        return Targets::new(args)?.write(&read, args, verbose);
    }
    without_vm(&args.vm_args, measured.vm)?;
    let targets = Targets::new(args)?;
    let plan = Plan::new(args, quiet)?;
    let (mut fidelity, runs) = plan.measure(args, quiet)?;
    fidelity.date = today();
    let told = targets.write(&fidelity, args, verbose);
    let document = || to_json(&Document { runs, ..Document::default() });
    let kept = targets.kept.as_ref().map_or(Ok(()), |target| target.write(&document()));
    told.and(kept)
}

/// The files asked for, checked before the work begins.
struct Targets {
    /// Of every cell.
    cells: Option<Target>,
    /// Of the real arm's runs.
    kept: Option<Target>,
    /// Of the verdicts.
    json: Option<Target>,
    html: Option<Target>,
}

impl Targets {
    fn new(args: &FidelityArgs) -> Result<Targets, Failure> {
        let to = |option, path: &Option<PathBuf>| {
            path.as_deref().map(|path| Target::new(option, path)).transpose()
        };
        let targets = Targets {
            cells: to("-o", &args.measured.output)?,
            kept: to("--keep", &args.measured.keep)?,
            json: to("--json", &args.json)?,
            html: to("--html", &args.html)?,
        };
        target::distinct(targets.all())?;
        Ok(targets)
    }

    fn all(&self) -> impl Iterator<Item = &Target> {
        [&self.cells, &self.kept, &self.json, &self.html].into_iter().flatten()
    }

    /// Prints the tables, unless a file goes to standard output in their place, and writes what the cells are made into. A file
    /// that fails keeps nothing else from being written.
    fn write(&self, fidelity: &Fidelity, args: &FidelityArgs, verbose: bool) -> Result<(), Failure> {
        let write = |target: &Option<Target>, text: &dyn Fn() -> String| {
            target.as_ref().map_or(Ok(()), |target| target.write(&text()))
        };
        let printed = if self.all().any(Target::is_stdout) {
            Ok(())
        } else {
            output::print(&shown(fidelity, args, verbose))
        };
        let cells = write(&self.cells, &|| fidelity.to_json());
        let json = write(&self.json, &|| fidelity.verdicts_json());
        let html = write(&self.html, &|| fidelity_html(&head(fidelity), fidelity));
        printed.and(cells).and(json).and(html)
    }
}

/// What the page says besides the results.
fn head(fidelity: &Fidelity) -> HtmlPage {
    HtmlPage {
        title: format!("Simulated against real: {} and {}", fidelity.machine, fidelity.kernel_name()),
        command: command_line(),
        notes: vec![("Median and worst errors".to_string(), fidelity.overview())],
    }
}

/// The files that it reads and writes, and this program: simulated runs are processes of their own, which give up the rest.
fn named(args: &FidelityArgs) -> Result<Named, Failure> {
    if let Some(path) = &args.show {
        return Ok(Named::new().inputs([path]).outputs([&args.json, &args.html]));
    }
    let outputs = [&args.measured.output, &args.measured.keep, &args.json, &args.html];
    let files = Named::new().inputs(&args.measured.real).outputs(outputs);
    let schedulers = entry::names(&args.measured.schedulers)?;
    Ok(files.inputs(schedulers).inputs(&args.measured.workloads).inputs([args.simulated()]).itself())
}

/// Where the real arm's figures come from.
enum Real<'a> {
    /// Runs on a kernel.
    Kernel(&'a FidelityArgs),
    /// Runs that were kept.
    Kept(Vec<RunRecord>),
}

impl Real<'_> {
    fn of(args: &FidelityArgs) -> Result<Real<'_>, Failure> {
        if args.measured.real.is_empty() {
            return Ok(Real::Kernel(args));
        }
        let mut runs = Vec::new();
        for path in &args.measured.real {
            let named = |error: String| Failure::usage(format!("--real {}: {error}", path.display()));
            let text = input::text(path).map_err(|error| named(error.to_string()))?;
            let document = from_json(&text).map_err(|error| named(error.to_string()))?;
            if let Some(run) = document.runs.iter().find(|run| run.backend == Backend::Sim) {
                return Err(named(format!("the run of {} in it is simulated", run.scheduler)));
            }
            runs.extend(document.runs);
        }
        Ok(Real::Kept(runs))
    }

    /// The real runs of some cases, each with its simulated one.
    fn runs(&self, cases: &[(RealRun, &Outcome)], cpus: u32, quiet: bool) -> Vec<Outcome> {
        match self {
            Real::Kernel(args) => {
                let cases: Vec<RealRun> = cases.iter().map(|(case, _)| case.clone()).collect();
                real_runs(args, &cases, cpus, quiet)
            }
            Real::Kept(runs) => {
                cases.iter().map(|(case, simulated)| kept(runs, simulated, case.looks.callbacks)).collect()
            }
        }
    }
}

/// The kept run of the same scheduler, workload, number of CPUs and seed as a simulated one, with callbacks counted or not.
fn kept(runs: &[RunRecord], simulated: &Outcome, counted: bool) -> Outcome {
    let simulated = simulated.as_ref().map_err(Clone::clone)?;
    // JSON keeps no order of names.
    let sorted = |pairs: &[(String, String)]| pairs.iter().cloned().collect::<BTreeMap<_, _>>();
    let key = |run: &RunRecord| {
        let workload = (run.workload.name.clone(), sorted(&run.workload.params));
        (run.scheduler.clone(), sorted(&run.settings), workload, run.cpus, run.seed)
    };
    let same = |run: &&RunRecord| key(run) == key(simulated) && run.callbacks.is_empty() != counted;
    let found = runs.iter().find(same).cloned();
    found.ok_or_else(|| Failure::usage(format!("seed {} is not among the runs of --real", simulated.seed)))
}

/// The tables.
fn shown(fidelity: &Fidelity, args: &FidelityArgs, verbose: bool) -> String {
    let Fidelity { kernel, real, date, machine, phases, .. } = fidelity;
    let mut text = format!(
        "Simulated ({machine}) against real ({kernel}, {real}), {date}, {} of each.\n\
         Median size of the errors over the workloads / the worst one, in % of the real figure; share in percentage points.\n\n",
        counted(*phases, "run")
    );
    text.push_str(&fidelity.overview());
    let (good, all) = fidelity.agreed();
    text.push_str(&format!(
        "\nThe arms agree in {good} of {all} cells (within the bound or the real spread).\n"
    ));
    for missing in &fidelity.missing {
        text.push_str(&format!("missing: {missing}\n"));
    }
    let [(inside, figures), (inside_changes, changes)] = fidelity.coverage();
    if figures > 0 {
        text.push_str(&format!(
            "Bars of {COVERAGE:.0} %, made of the other workloads, hold {inside} of {figures} figures and \
             {inside_changes} of {changes} changes.\n"
        ));
    }
    if args.verdicts {
        text.push_str(&format!(
            "\nVerdicts on every pair of schedulers, simulated against real:\n{}",
            fidelity.verdicts(verbose)
        ));
    }
    if verbose {
        text.push_str(&format!("\nWhere they do not:\n{}", fidelity.disagreements()));
    } else if good < all {
        text.push_str("(-v tells each cell in which they do not, -o FILE writes all)\n");
    }
    text
}

/// What is run in both arms.
struct Plan {
    schedulers: Vec<Scheduler>,
    workloads: Vec<String>,
    cpus: Vec<u32>,
    /// The simulated machine.
    machine: String,
    /// Its `--kernel`, where it has to follow the real arm's.
    kernel: Option<String>,
}

impl Plan {
    fn new(args: &FidelityArgs, quiet: bool) -> Result<Plan, Failure> {
        let standard = [SCHEDULERS.to_string()];
        let lists =
            if args.measured.schedulers.is_empty() { &standard } else { args.measured.schedulers.as_slice() };
        let mut schedulers = Scheduler::find_all(&entry::split(lists)?, &[])?;
        own_loader::check_real(&schedulers)?;
        if args.measured.host && args.measured.machine.is_none() && !host_machine::is_measured() {
            let cure = "`schedlab calibrate --host` measures it in seconds, or name a file with -m";
            return Err(Failure::usage(format!("--host: the prices of this machine are not known; {cure}")));
        }
        if args.measured.host && schedulers.iter().any(|scheduler| scheduler.object.is_some()) {
            check_machine()?;
        }
        Scheduler::distinct(&mut schedulers)?;
        let workloads = match args.measured.workloads.as_slice() {
            [] => WORKLOADS.map(String::from).to_vec(),
            given => given.to_vec(),
        };
        loads(&workloads, 1, args.measured.duration)?;
        let machine = shipped::machine(args.simulated())?.machine;
        let cpus = if args.measured.host { host_cpus() } else { vm_cpus_or(&args.measured.cpus, 1) };
        for &count in &cpus {
            machine
                .with_cpus(count as usize)
                .map_err(|error| Failure::usage(format!("-c {count}: {error}")))?;
        }
        let (machine, kernel) = simulated_machine(args, quiet)?;
        Ok(Plan { schedulers, workloads, cpus, machine, kernel })
    }

    /// The simulated machine, as results name it.
    fn machine_words(&self) -> String {
        self.kernel.iter().fold(self.machine.clone(), |machine, kernel| format!("{machine}@{kernel}"))
    }

    /// The cells, and the runs of the real arm.
    fn measure(&self, args: &FidelityArgs, quiet: bool) -> Result<(Fidelity, Vec<RunRecord>), Failure> {
        let arm = Real::of(args)?;
        if !quiet {
            let each = self.cases(args).len() * self.cpus.len();
            output::note(&format!("{} in each arm", counted(each, "run")));
        }
        let mut runs = Vec::new();
        let mut fidelity = Fidelity {
            machine: self.machine_words(),
            phases: args.measured.phases.get(),
            real: self.real_words(args),
            mechanisms: self.mechanisms(args)?,
            ..Fidelity::default()
        };
        for &cpus in &self.cpus {
            let cases = self.cases(args);
            let simulated = self.simulated(args, &cases, cpus, quiet);
            // Once for the figures, and once more for the counts of callbacks, where there are any: counting takes time.
            let all: Vec<(RealRun, &Outcome)> = cases.iter().cloned().zip(&simulated).collect();
            let again = all.iter().filter(|(case, _)| case.scheduler.object.is_some()).cloned();
            let again: Vec<_> = again.map(|(case, run)| (case.counted(), run)).collect();
            let real = arm.runs(&[all, again].concat(), cpus, quiet);
            runs.extend(real.iter().flatten().cloned());
            let phases = args.measured.phases.get();
            let (plain, counted) = real.split_at(cases.len());
            let mut counted = counted.chunks(phases);
            let pairs = simulated.chunks(phases).zip(plain.chunks(phases)).zip(cases.chunks(phases));
            for ((simulated, real), case) in pairs {
                let has_callbacks = case.first().is_some_and(|first| first.scheduler.object.is_some());
                let counted = if has_callbacks { counted.next() } else { None };
                fidelity.add(case, cpus, simulated, (real, counted.unwrap_or_default()));
            }
        }
        if fidelity.cells.is_empty() {
            let why = fidelity.missing.first().cloned().unwrap_or_default();
            return Err(Failure::environment(format!("no run was finished in both arms: {why}")));
        }
        Ok((fidelity, runs))
    }

    /// What each workload uses of the kernel.
    fn mechanisms(&self, args: &FidelityArgs) -> Result<BTreeMap<String, Vec<String>>, Failure> {
        let of = |spec: &String| {
            let scenario = scenario(spec, 1, args.measured.duration)?;
            Ok((spec.clone(), scenario.mechanisms().into_iter().map(str::to_string).collect()))
        };
        self.workloads.iter().map(of).collect()
    }

    fn real_words(&self, args: &FidelityArgs) -> String {
        if !args.measured.real.is_empty() {
            let names: Vec<String> =
                args.measured.real.iter().map(|path| path.display().to_string()).collect();
            return format!("runs kept in {}", names.join(" and "));
        }
        if args.measured.host {
            return "this machine".to_string();
        }
        format!("QEMU, {} ns an instruction", 1 << args.vm_args.icount.map_or(0, |time| time.0))
    }

    /// All runs on so many CPUs: the repetitions of one case stand together.
    fn cases(&self, args: &FidelityArgs) -> Vec<RealRun> {
        let mut cases = Vec::new();
        for scheduler in &self.schedulers {
            for workload in &self.workloads {
                for phase in 0..args.measured.phases.get() as u64 {
                    cases.push(RealRun {
                        scheduler: scheduler.clone(),
                        workload: workload.clone(),
                        seed: 1 + phase,
                        limit: args.measured.duration,
                        looks: Looks::default(),
                    });
                }
            }
        }
        cases
    }

    fn simulated(&self, args: &FidelityArgs, cases: &[RealRun], cpus: u32, quiet: bool) -> Vec<Outcome> {
        let progress = Progress::new("simulating", Some(cases.len() as u64), quiet);
        let made = cases.iter().enumerate().map(|(number, case)| {
            progress.set(number as u64, format!("{} under {}", case.scheduler.label(), case.workload));
            simulate(case, args, self, cpus)
        });
        let made = made.collect();
        progress.finish();
        made
    }
}

/// The simulated machine, and its `--kernel` where it has to follow the real arm's: that of the VM, or of runs that were kept.
/// Where no machine is named, a shipped one that was measured under that version goes before another one's prices.
fn simulated_machine(args: &FidelityArgs, quiet: bool) -> Result<(String, Option<String>), Failure> {
    let release = match Real::of(args)? {
        Real::Kernel(_) if args.measured.host => None,
        Real::Kernel(_) => Some(args.vm_args.options(1).kernel(&mut |line| tell(line, quiet))?.release),
        Real::Kept(runs) => {
            runs.first().and_then(|run| run.machine.strip_prefix("linux-").map(str::to_string))
        }
    };
    let name = args.simulated().to_string();
    let machine = shipped::machine(&name)?.machine;
    let Some(kernel) = release.and_then(|release| kernels::following(&machine, &release)) else {
        return Ok((name, None));
    };
    let measured = format!("{name}-{kernel}");
    if args.measured.machine.is_none() && shipped::machines()?.iter().any(|(other, _)| *other == measured) {
        return Ok((measured, None));
    }
    tell(&format!("the simulated machine {name} follows the real arm: --kernel {kernel}"), quiet);
    Ok((name, Some(kernel)))
}

/// A run, or why there is none.
type Outcome = Result<RunRecord, Failure>;

/// A simulated run, by this command in a process and a sandbox of its own.
fn simulate(case: &RealRun, args: &FidelityArgs, plan: &Plan, cpus: u32) -> Outcome {
    let program = std::env::current_exe()
        .map_err(|error| Failure::environment(format!("finding the own program: {error}")))?;
    let mut command = Command::new(program);
    command.args(["-q", "sim", "-s", &case.scheduler.given, "-w", &case.workload, "-m", &plan.machine]);
    command.args(plan.kernel.iter().flat_map(|kernel| ["--kernel", kernel]));
    command.args(["-c", &cpus.to_string(), "--seed", &case.seed.to_string(), "--json", "-"]);
    command.args(guest_settings(&case.scheduler));
    command.args(args.sandbox.no_sandbox.then_some("--no-sandbox"));
    if let Some(limit) = case.limit {
        command.args(["--duration", &limit.to_string()]);
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::environment(format!("starting a simulated run: {error}")))?;
    let run = if output.stdout.is_empty() { None } else { read_runs(&output.stdout)?.into_iter().next() };
    let mut run = run.ok_or_else(|| told_failure(&output.stderr, output.status.code().unwrap_or(1)))?;
    run.scheduler.clone_from(&case.scheduler.name);
    Ok(run)
}

fn real_runs(args: &FidelityArgs, cases: &[RealRun], cpus: u32, quiet: bool) -> Vec<Outcome> {
    if args.measured.host {
        return cases.iter().map(|case| case.here(Backend::Host, quiet)).collect();
    }
    let mut vm = args.vm_args.clone();
    vm.icount = vm.icount.or(Some(InstructionTime(0)));
    in_one_vm(cases, &vm.options(cpus), &mut |line| tell(line, quiet))
}

/// The number of this machine's CPUs, alone.
fn host_cpus() -> Vec<u32> {
    let count = std::thread::available_parallelism().map_or(1, |count| count.get());
    vec![u32::try_from(count).unwrap_or(1)]
}

/// Adds a case; what one of the arms did not finish is told.
trait Add {
    /// The repetitions of `case` in both arms; real ones without and with callbacks counted.
    fn add(&mut self, case: &[RealRun], cpus: u32, simulated: &[Outcome], real: (&[Outcome], &[Outcome]));
}

impl Add for Fidelity {
    fn add(
        &mut self,
        case: &[RealRun],
        cpus: u32,
        simulated: &[Outcome],
        (real, with_callbacks): (&[Outcome], &[Outcome]),
    ) {
        let Some(first) = case.first() else { return };
        let what =
            format!("{} under {} on {}", first.scheduler.label(), first.workload, counted(cpus, "CPU"));
        for (arm, outcomes) in [("simulated", simulated), ("real", real), ("real, callbacks", with_callbacks)]
        {
            if let Some(Err(failure)) = outcomes.iter().find(|outcome| outcome.is_err()) {
                self.missing.push(format!("{what}, {arm}: {failure}"));
            }
        }
        let done = |outcomes: &[Outcome]| -> Vec<RunRecord> { outcomes.iter().flatten().cloned().collect() };
        let (simulated, real, counted) = (done(simulated), done(real), done(with_callbacks));
        if let Some(run) = real.first() {
            self.kernel.clone_from(&run.machine);
        }
        let label = first.scheduler.label();
        let cells = fidelity_cells(&first.workload, &simulated, &real, &counted).into_iter();
        self.cells
            .extend(cells.map(|cell| schedlab_report::FidelityCell { scheduler: label.clone(), ..cell }));
    }
}

/// The present day in UTC, as 2026-11-23. Civil dates from days as in Hinnant's `chrono`-compatible algorithms.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + next)
}
