//! One run on a real kernel: this machine's, or that of a VM in which this same
//! command does the run and writes its results as JSON.

use crate::failure::{Code, Failure};
use crate::files::input;
use crate::files::target::Target;
use crate::machine::vm_kernel::VmKernel;
use crate::run::recorded::RealRecord;
use crate::run::timehist;
use crate::run::trust::{program_returned, provenance, unconfigured};
use crate::scheduler::Scheduler;
use crate::scheduler::entry::with_choice;
use crate::scheduler::own_loader;
use crate::scheduler::run_prog;
use crate::scheduler::subs;
use crate::scheduler::swap_table::{self, SwapTable};
use crate::workload;
use schedlab_base::DurationNs;
use schedlab_live::kernel_image::{KernelError, KernelImage};
use schedlab_live::load::LoadError;
use schedlab_live::session::{self, RunError, RunPlan, RunResult, Work};
use schedlab_live::signals;
use schedlab_live::vm::{self, Accelerator, VmError, VmJob, VmOutput};
use schedlab_report::from_json;
use schedlab_trace::{Backend, Bounds, Provenance, RunRecord, WATCHDOG, WarningKind, WorkloadRecord};
use schedlab_workload::End;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a real run is looked at for besides its figures.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// `--explain-waits`.
    pub explain_waits: bool,
    /// `--callbacks`.
    pub callbacks: bool,
    /// Where `--timehist` goes.
    pub timehist: Option<Target>,
    /// Where the record of `-o` goes.
    pub record: Option<RealRecord>,
}

/// A run on a real kernel.
#[derive(Clone, Debug)]
pub struct RealRun {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The workload as the user named it.
    pub workload: String,
    /// The seed of the workload.
    pub seed: u64,
    /// `--duration`.
    pub limit: Option<DurationNs>,
    /// What else is wanted of it.
    pub looks: Looks,
}

/// Where a job in the VM writes its results.
pub(crate) const GUEST_RESULT: &str = "/tmp/result.json";

/// Where it writes the history of its switches.
const GUEST_TIMEHIST: &str = "/tmp/timehist";

/// Where it writes its record.
const GUEST_RECORD: &str = "/tmp/record";

impl Looks {
    /// The flags that want the same of the guest's command.
    pub(crate) fn guest_flags(&self) -> Vec<String> {
        let explain = self.explain_waits.then_some("--explain-waits");
        let history = self.timehist.iter().flat_map(|_| ["--timehist", GUEST_TIMEHIST]);
        let callbacks = self.callbacks.then_some("--callbacks");
        let record = self.record.iter().flat_map(|_| ["-o", GUEST_RECORD]);
        explain.into_iter().chain(callbacks).chain(history).chain(record).map(String::from).collect()
    }

    /// The files that the guest's command makes for them.
    pub(crate) fn guest_files(&self) -> impl Iterator<Item = String> {
        let timehist = self.timehist.as_ref().map(|_| GUEST_TIMEHIST.to_string());
        timehist.into_iter().chain(self.record.as_ref().map(|_| GUEST_RECORD.to_string()))
    }

    /// Takes what the guest has left for them.
    ///
    /// # Errors
    /// A file that cannot be written, or a guest that has left none.
    pub(crate) fn fetch(&self, output: &VmOutput) -> Result<(), Failure> {
        let file = |path| output.file(path).ok_or_else(|| guest_failure(output));
        if let Some(record) = &self.record {
            record.keep_guests(file(GUEST_RECORD)?);
        }
        match &self.timehist {
            Some(target) => timehist::write_guests(target, file(GUEST_TIMEHIST)?),
            None => Ok(()),
        }
    }
}

impl From<LoadError> for Failure {
    /// What the machine lacks is the environment's fault, the rest is the input's.
    fn from(error: LoadError) -> Failure {
        let text = error.to_string();
        match error {
            LoadError::NoSchedExt { .. }
            | LoadError::NotPrivileged
            | LoadError::WatchNotPrivileged
            | LoadError::NoWatcher
            | LoadError::NoSpool(_)
            | LoadError::Busy { .. } => Failure::environment(text),
            _ => Failure::usage(text),
        }
    }
}

impl From<KernelError> for Failure {
    fn from(error: KernelError) -> Failure {
        let text = error.to_string();
        match error {
            KernelError::Unreadable { .. } | KernelError::NotBootable { .. } => Failure::usage(text),
            _ => Failure::environment(text),
        }
    }
}

impl From<VmError> for Failure {
    fn from(error: VmError) -> Failure {
        let text = error.to_string();
        match error {
            VmError::Kernel(error) => error.into(),
            VmError::BadJob(_) => Failure::usage(text),
            // The end of the console, which the text has, says nothing about work that takes long.
            VmError::Timeout { after, .. } => {
                let text = format!(
                    "the work did not end within {after:?} and its VM was stopped; give it more time (--timeout), or less to do"
                );
                Failure { code: Code::Inconclusive, text }
            }
            VmError::Interrupted => Failure { code: Code::Inconclusive, text },
            _ => Failure::environment(text),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        let text = error.to_string();
        match error {
            RunError::Load(error) => error.into(),
            RunError::Exec(_) | RunError::NotKept(_) | RunError::NotCounted(_) => Failure::environment(text),
            RunError::Command { .. } => Failure::usage(format!("command {text}")),
            RunError::Interrupted => Failure { code: Code::Inconclusive, text },
        }
    }
}

/// Runs a workload or a command under a scheduler on this machine's kernel.
///
/// # Errors
/// An object or setting that is refused, a machine that cannot do it, work that
/// cannot be done. An ejected scheduler is no error here: the result says so.
pub fn run_here(
    scheduler: &Scheduler,
    work: Work<'_>,
    looks: &Looks,
    quiet: bool,
) -> Result<RunResult, Failure> {
    let (explain_waits, count_callbacks) = (looks.explain_waits, looks.callbacks);
    let object = scheduler.object.as_ref().map(|bytes| scheduler.for_kernel(bytes));
    let record = looks.timehist.is_some() || looks.record.is_some();
    let subs = scheduler.subs_for_kernel();
    let plan = RunPlan {
        scheduler: object.as_ref(),
        subs: &subs,
        work,
        observe: true,
        explain_waits,
        record,
        count_callbacks,
        spin_rate: None,
    };
    signals::catch();
    let mut confidences = None;
    let mut result = session::run_inspected(&plan, &mut |loaded| {
        let table =
            SwapTable::find(&scheduler.name, scheduler.object.as_deref(), |name| loaded.variable(name));
        let bytes = |pointer, len| loaded.arena_bytes(pointer, usize::try_from(len).ok()?);
        confidences = table.filter(|_| explain_waits).map(|table| table.confidences(&bytes));
    })
    .map_err(Failure::from)?;
    if let (Some(waits), Some(confidences)) = (&mut result.waits, &confidences) {
        swap_table::apply(waits, confidences);
    }
    if !quiet {
        if let Some(why) = &result.not_observed {
            log::info!("waits are not in the results: {why}");
        }
        if let Some(why) = &result.not_printed {
            log::info!("lines of bpf_printk() are not in the results: {why}");
        }
        for warning in &result.kernel_warnings {
            log::info!("kernel: {warning}");
        }
    }
    if let (Some(target), Some(recording)) = (&looks.timehist, &result.recording) {
        timehist::write(target, recording, result.cpus)?;
    }
    if let (Some(record), Some(recording)) = (&looks.record, result.recording.take()) {
        record.keep(recording);
    }
    Ok(result)
}

/// The record of a result.
pub fn record(
    scheduler: &Scheduler,
    (workload, seed): (WorkloadRecord, u64),
    backend: Backend,
    provenance: Provenance,
    result: RunResult,
) -> RunRecord {
    let (own, events) = (result.scheduler.counters, result.scheduler.events);
    let late = scheduler.not_reached(result.elapsed, None);
    let starvation =
        Bounds { watchdog: WATCHDOG }.starvation(&result.tasks, &result.task_waits, result.elapsed);
    let subs = result.subs.into_iter().zip(&scheduler.subs);
    let subs: Vec<_> = subs.map(|(end, sub)| sub.record(end.refused, end.exit)).collect();
    let of_subs = subs::warnings(&subs);
    let returned = result.scheduler.returned.into_iter();
    let returned = returned.filter_map(|(name, value)| program_returned(&name, value));
    RunRecord {
        scheduler: scheduler.name.clone(),
        settings: scheduler.settings.clone(),
        workload,
        machine: kernel_release(),
        cpus: result.cpus,
        seed,
        backend,
        duration: result.elapsed,
        validation: None,
        exit: result.scheduler.exit,
        metrics: result.metrics,
        histograms: result.histograms,
        series: result.series,
        counters: scheduler.counters(own.into_iter().chain(events)),
        tables: scheduler.tables(&result.scheduler.tables),
        warnings: (scheduler.with_subs().filter_map(unconfigured))
            .chain(late)
            .chain(starvation)
            .chain(returned)
            .chain(of_subs)
            .collect(),
        printed: result.printed,
        loader_output: result.scheduler.output,
        callbacks: result.callbacks,
        tasks: result.tasks,
        groups: result.groups,
        subs,
        task_waits: result.task_waits,
        after_ejection: None,
        provenance,
        trace_hash: None,
        priorities: Vec::new(),
        timeline: None,
        waits: result.waits,
    }
}

impl RealRun {
    /// The same run, with its callbacks counted.
    pub fn counted(mut self) -> RealRun {
        self.looks.callbacks = true;
        self
    }

    /// Runs on this machine's kernel. `backend` is what the record says: this machine
    /// may be a VM's guest.
    ///
    /// # Errors
    /// See [`run_here`], and a workload that is refused.
    pub fn here(&self, backend: Backend, quiet: bool) -> Result<RunRecord, Failure> {
        let cpus = workload::cpus_here();
        let mut scenario = workload::scenario_on(&self.workload, self.seed, self.limit, cpus)?;
        if let Some(limit) = self.limit {
            scenario.end = match scenario.end {
                End::After(end) => End::After(end.min(limit)),
                End::AllExit | End::ForegroundExit => End::After(limit),
            };
        }
        let result = run_here(&self.scheduler, Work::Scenario(&scenario), &self.looks, quiet)?;
        let made_of = provenance(&self.scheduler, Some(&scenario), None);
        let files = scenario.group_files();
        let workload = WorkloadRecord { name: scenario.name, params: scenario.params };
        let unheard = self.scheduler.unheard_groups(&files);
        let mut record = record(&self.scheduler, (workload, self.seed), backend, made_of, result);
        record.warnings.extend(unheard);
        Ok(record)
    }

    /// Runs in a VM: this command, as the guest's only program, does [`RealRun::here`].
    ///
    /// # Errors
    /// As there, and everything that can keep a VM from working.
    pub fn in_vm(&self, vm: &VmOptions, progress: &mut dyn FnMut(&str)) -> Result<RunRecord, Failure> {
        let mut job = VmJob::new(vm.kernel(progress)?, Vec::new());
        job.args = self.guest_args(&mut job, "/job", GUEST_RESULT)?;
        job.collect = std::iter::once(GUEST_RESULT.to_string()).chain(self.looks.guest_files()).collect();
        vm.apply(&mut job);
        let output = boot(&job, progress)?;
        let runs = guest_runs(&output, GUEST_RESULT)?;
        let mut run = runs.into_iter().next().ok_or_else(|| guest_failure(&output))?;
        self.looks.fetch(&output)?;
        named_after(&mut run, &self.scheduler);
        Ok(run)
    }
}

impl RealRun {
    /// The arguments with which this command, in a guest, does the run and leaves its results in a file; what it needs
    /// there goes into a folder of the guest.
    ///
    /// # Errors
    /// A workload that is refused.
    pub(crate) fn guest_args(
        &self,
        job: &mut VmJob,
        folder: &str,
        result: &str,
    ) -> Result<Vec<String>, Failure> {
        workload::scenario(&self.workload, self.seed, self.limit)?;
        let version = workload::followed().to_string();
        let mut args: Vec<String> =
            ["run", "--as-guest", "--rt-app", &version, "-w"].map(String::from).to_vec();
        args.push(guest_file(job, folder, &self.workload)?.unwrap_or_else(|| self.workload.clone()));
        args.extend(["-s".to_string(), guest_scheduler(job, folder, &self.scheduler)?]);
        args.extend(["--seed".to_string(), self.seed.to_string()]);
        args.extend(["--json".to_string(), result.to_string()]);
        args.extend(guest_settings(&self.scheduler));
        for (number, sub) in self.scheduler.subs.iter().enumerate() {
            let entry = guest_scheduler(job, &format!("{folder}/sub-{number}"), &sub.scheduler)?;
            args.extend(["--sub".to_string(), sub.text(&entry)]);
        }
        args.extend(self.looks.guest_flags());
        if let Some(limit) = self.limit {
            args.extend(["--duration".to_string(), limit.to_string()]);
        }
        Ok(args)
    }
}

/// How the VM is made.
#[derive(Clone, Debug)]
pub struct VmOptions {
    /// Number of CPUs.
    pub cpus: u32,
    /// Longest time for the job, boot not included.
    pub timeout: Duration,
    /// `--kernel`; the newest one where it is not given.
    pub kernel: Option<PathBuf>,
    /// `--icount`: what executes it.
    pub accelerator: Accelerator,
    /// Unless `--no-snapshot`: whether it may begin at the kept state of a booted one.
    pub snapshot: bool,
}

impl VmOptions {
    /// The kernel to boot.
    pub fn kernel(&self, progress: &mut dyn FnMut(&str)) -> Result<KernelImage, Failure> {
        VmKernel::new(self.kernel.as_deref())?.image(progress)
    }

    /// Gives a job its size and limit.
    pub fn apply(&self, job: &mut VmJob) {
        job.cpus = self.cpus;
        job.accelerator = self.accelerator;
        job.snapshot = self.snapshot;
        job.timeout = self.timeout;
        // Chosen: room for the thousands of threads of a large chat.
        job.memory_mib = 2048;
    }
}

/// Puts a file into the guest, unless it is there already.
fn put(job: &mut VmJob, path: &str, content: Vec<u8>) {
    if !job.files.iter().any(|(known, _)| known == path) {
        job.files.push((path.to_string(), content));
    }
}

/// Puts a file of the host into a folder of the guest; nothing when the name is no file.
fn guest_file(job: &mut VmJob, folder: &str, name: &str) -> Result<Option<String>, Failure> {
    let path = Path::new(name);
    if !path.is_file() {
        return Ok(None);
    }
    let content = input::bytes(path).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let inside = format!("{folder}/{}", path.file_name().unwrap_or_default().to_string_lossy());
    put(job, &inside, content);
    Ok(Some(inside))
}

/// The scheduler's name in the guest: the bytes, or its program, go along, so that both sides run
/// the same object.
///
/// # Errors
/// A program of its own that cannot go.
pub fn guest_scheduler(job: &mut VmJob, folder: &str, scheduler: &Scheduler) -> Result<String, Failure> {
    if let Some(command) = &scheduler.loader {
        return own_loader::into_guest(command, job);
    }
    let Some(bytes) = &scheduler.object else { return Ok(scheduler.given.clone()) };
    let (given, choice) = (with_choice(&scheduler.given).0, &scheduler.choice);
    let file = given.rsplit('/').next().unwrap_or("scheduler");
    let file = file.strip_suffix(".bpf.o").unwrap_or(file);
    let inside = format!("{folder}/{file}.bpf.o");
    put(job, &inside, bytes.to_vec());
    Ok(choice.as_ref().map_or_else(|| inside.clone(), |choice| format!("{inside}#{choice}")))
}

/// The flags that give a scheduler in the guest its settings and the programs that are run for it.
pub fn guest_settings(scheduler: &Scheduler) -> Vec<String> {
    let set = scheduler.values.iter().map(|(name, value)| ["--set".to_string(), format!("{name}={value}")]);
    let programs =
        scheduler.programs.iter().map(|program| ["--run-prog".to_string(), run_prog::text(program)]);
    set.chain(programs).flatten().chain(scheduler.meanwhile_flags()).collect()
}

/// The runs whose results the guest has left in a file.
///
/// # Errors
/// What the guest's command told, where there are none.
pub(crate) fn guest_runs(output: &VmOutput, file: &str) -> Result<Vec<RunRecord>, Failure> {
    let Some(result) = output.file(file) else { return Err(guest_failure(output)) };
    let runs = read_runs(result)?;
    if runs.is_empty() { Err(guest_failure(output)) } else { Ok(runs) }
}

/// The runs of a result of the guest.
///
/// # Errors
/// A text that is none.
pub fn read_runs(result: &[u8]) -> Result<Vec<RunRecord>, Failure> {
    let document = from_json(&String::from_utf8_lossy(result))
        .map_err(|error| Failure::environment(format!("the guest's results are broken: {error}")))?;
    Ok(document.runs)
}

/// Gives a run of the guest the names and the settings that its schedulers have here, in their warnings too.
pub(crate) fn named_after(run: &mut RunRecord, scheduler: &Scheduler) {
    run.scheduler.clone_from(&scheduler.name);
    run.settings.clone_from(&scheduler.settings);
    for (record, sub) in run.subs.iter_mut().zip(&scheduler.subs) {
        record.scheduler = sub.scheduler.label();
    }
    run.warnings
        .retain(|warning| !matches!(warning.kind, WarningKind::Unconfigured | WarningKind::SubScheduler));
    run.warnings.splice(0..0, scheduler.with_subs().filter_map(unconfigured));
    run.warnings.extend(subs::warnings(&run.subs));
}

/// Runs a job in a VM, which a wish to stop ends too.
pub fn boot(job: &VmJob, progress: &mut dyn FnMut(&str)) -> Result<VmOutput, VmError> {
    signals::catch();
    vm::run(job, &mut |line| match line.strip_prefix("schedlab: ") {
        // That is what the job failed of, which is told when it has ended.
        Some(own) if own.starts_with("error: ") => {}
        Some(own) => progress(&format!("in the VM: {own}")),
        None => progress(line),
    })
}

/// The failure that the guest's command told on its standard error.
pub fn guest_failure(output: &VmOutput) -> Failure {
    told_failure(&output.stderr, output.exit_code)
}

/// The failure that is told on a standard error of this command in the guest, which ended with an exit code.
pub fn told_failure(stderr: &[u8], exit_code: i32) -> Failure {
    let text = String::from_utf8_lossy(stderr);
    let told = text.lines().rev().find_map(|line| line.split_once("schedlab: error: ")).map(|(_, told)| told);
    let code = Code::from_number(exit_code).unwrap_or(Code::Environment);
    let text = match told {
        Some(told) => format!("in the VM: {told}"),
        None => {
            let last = text.lines().last().unwrap_or("no message");
            format!("in the VM: the command ended with code {exit_code} ({last})")
        }
    };
    Failure { code, text }
}

/// `linux-6.12.8`, the running kernel's release: what stands for the machine.
fn kernel_release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("linux-{}", release.trim())
}
