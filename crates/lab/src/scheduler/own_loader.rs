//! Schedulers as they are shipped, `exec:COMMAND`: their own programs load them and take part.

use crate::failure::Failure;
use crate::files::input;
use crate::scheduler::Scheduler;
use schedlab_base::{Machine, TimeNs, counted};
use schedlab_bpf::object::{Object, enumerator_of, scheduler_within};
use schedlab_live::load::LoaderCommand;
use schedlab_live::vm::VmJob;
use schedlab_loader::{CPU_TIME, Config, Loader, Missing, Report, missing_call};
use schedlab_scx::{BpfScheduler, LoadOptions, kernel_types};
use schedlab_trace::{Warning, WarningKind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use schedlab_loader::{Command, PREFIX};

/// Folders and files of the system that programs need to start.
const SYSTEM: &[&str] = &[
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/null",
    "/usr/share/zoneinfo",
];

fn parse(command: &str) -> Result<Command, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let search: Vec<PathBuf> = std::env::split_paths(&path).collect();
    Command::parse(command, &search).map_err(|error| Failure::usage(format!("-s exec:{command}: {error}")))
}

/// Finds the program of a command, and the object that it carries.
///
/// # Errors
/// No such program, or none that carries a scheduler.
pub fn find(command: &str) -> Result<(Command, Vec<u8>), Failure> {
    let parsed = parse(command)?;
    let program = parsed.program.display().to_string();
    let refused = |error: String| Failure::usage(format!("-s exec:{command}: {program}: {error}"));
    let bytes = input::object_or_program(&program).map_err(|error| refused(error.to_string()))?;
    if bytes.starts_with(b"#!") {
        let line =
            String::from_utf8_lossy(bytes[2..].split(|byte| *byte == b'\n').next().unwrap_or_default());
        return Err(refused(format!(
            "it is a script for {}, and a loader is a program; name the program that the script runs, with its arguments",
            line.trim()
        )));
    }
    match scheduler_within(&bytes, None) {
        Ok(object) => Ok((parsed, object.to_vec())),
        Err(error) => match named_object(&parsed) {
            Some(object) => Ok((parsed, object)),
            None => Err(refused(error.to_string())),
        },
    }
}

/// The object that a command's arguments name.
fn named_object(command: &Command) -> Option<Vec<u8>> {
    let files =
        command.named_files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "o"));
    let mut read = files.filter_map(|path| input::object_or_program(path.to_str()?).ok());
    read.find(|bytes| Object::parse("", bytes).is_ok_and(|object| !object.struct_ops().is_empty()))
}

/// What of the system must be readable for a program to start.
pub fn system_files() -> impl Iterator<Item = PathBuf> {
    SYSTEM.iter().map(PathBuf::from).filter(|path| path.exists())
}

/// What must be readable for a command to run; nothing for one that is refused later.
pub fn files(command: &str) -> Vec<PathBuf> {
    let Ok(command) = parse(command) else { return Vec::new() };
    let beside = command.program.parent().map(Path::to_path_buf);
    system_files().chain(command.named_files()).chain(beside).chain([command.program.clone()]).collect()
}

/// Refuses to run loaders where the host does not let them be traced; it is tried once.
fn check_host() -> Result<(), Failure> {
    static LACKING: OnceLock<Option<String>> = OnceLock::new();
    let words = |Missing { call, error }: Missing| {
        format!(
            "a scheduler's own program cannot be run here: this host refuses the system call {call} ({error}); in a container \
             allow it (--cap-add SYS_PTRACE --security-opt seccomp=unconfined), on a host with Yama set \
             kernel.yama.ptrace_scope below 3"
        )
    };
    match LACKING.get_or_init(|| missing_call().map(words)) {
        None => Ok(()),
        Some(lacking) => Err(Failure::environment(lacking.clone())),
    }
}

/// Has a scheduler's own program load it on a machine.
///
/// # Errors
/// It does not attach a scheduler, or one that is refused.
pub fn load(
    command: &Command,
    object: &[u8],
    options: &LoadOptions,
    machine: &Machine,
    seed: u64,
    stays: bool,
) -> Result<(BpfScheduler, Report), Failure> {
    check_host()?;
    let name = command.words.join(" ");
    let parsed = Object::parse(&name, object)?;
    let types = kernel_types();
    let config = Config { command, object: parsed, machine, seed, types: &types, stays };
    Loader::load(config, options, object).map_err(|error| Failure::usage(format!("scheduler exec:{error}")))
}

/// Refuses what a real kernel's schedulers with loaders of their own cannot be given: the loader alone writes into the object
/// there.
///
/// # Errors
/// One of the schedulers is a command with settings or programs to run.
pub fn check_real(schedulers: &[Scheduler]) -> Result<(), Failure> {
    let given = |scheduler: &&Scheduler| !scheduler.values.is_empty() || !scheduler.programs.is_empty();
    match schedulers.iter().filter(|scheduler| scheduler.loader.is_some()).find(given) {
        None => Ok(()),
        Some(scheduler) => Err(Failure::usage(format!(
            "-s {}: on a real kernel its own loader alone sets variables and runs programs; give it the options that it has \
             in place of --set, --state and --run-prog",
            scheduler.given
        ))),
    }
}

/// Puts a scheduler's own program, its libraries and the files that its arguments name into a guest; the entry of `-s` there.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn into_guest(command: &Command, job: &mut VmJob) -> Result<String, Failure> {
    job.taken.take(&command.program.display().to_string())?;
    command.named().try_for_each(|name| job.taken.take_if_there(name))?;
    job.directory = job.directory.take().or_else(|| std::env::current_dir().ok());
    Ok(format!("{PREFIX}{}", command.text()))
}

/// A warning that the scheduler's own program has computed without end since this time.
pub(crate) fn computes(scheduler: &Scheduler, since: Option<TimeNs>) -> Option<Warning> {
    let text = format!(
        "{}: its program computes for ever from {:.3} s on: a turn took {} s of CPU time. Its task keeps a CPU from then on \
         (docs/loaders.md)",
        scheduler.given,
        since?.0 as f64 / 1e9,
        CPU_TIME.as_secs()
    );
    Some(Warning { kind: WarningKind::LoaderComputes, text, count: 1, worst: None })
}

/// The loader's command for a kernel of this machine.
pub fn for_kernel(command: &Command) -> LoaderCommand {
    LoaderCommand { program: command.program.clone(), words: command.words.clone() }
}

/// What a loader did, for a person.
pub fn words(report: &Report) -> String {
    let mut text = String::from("its loader attached it");
    let mut part = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            text.push_str(&format!("\n\n{title}\n  {}", lines.join("\n  ")));
        }
    };
    let pairs =
        |pairs: &[(String, String)]| pairs.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let (kernels, own): (Vec<_>, Vec<_>) =
        report.variables.iter().cloned().partition(|(name, _)| enumerator_of(name).is_some());
    part("its loader wrote", pairs(&own));
    let count = format!("{} for enumerators of the kernel", counted(kernels.len(), "variable"));
    part("and", if kernels.is_empty() { Vec::new() } else { vec![count] });
    part("operations", pairs(&report.operations));
    part(
        "sizes of maps",
        report.sizes.iter().map(|(name, size)| format!("{name}: {size} entries")).collect(),
    );
    part(
        "programs run",
        report.runs.iter().map(|(name, returned)| format!("{name} returned {returned}")).collect(),
    );
    part("not there", report.refused.clone());
    part("its output", report.output.lines().map(String::from).collect());
    text
}
