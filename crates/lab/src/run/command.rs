//! A command under a scheduler on a real kernel: this machine's, or that of a VM, into which the command goes with what it
//! needs.

use crate::failure::{Code, Failure};
use crate::run::real::{
    GUEST_RESULT, Looks, VmOptions, boot, guest_failure, guest_runs, guest_scheduler, guest_settings,
    named_after, record, run_here,
};
use crate::run::simulation::ejection;
use crate::run::trust::provenance;
use crate::scheduler::Scheduler;
use schedlab_live::command::{Invocation, Streams};
use schedlab_live::session::Work;
use schedlab_live::vm::{TakeError, Taken, VmJob, VmOutput};
use schedlab_loader::not_a_program;
use schedlab_report::Document;
use schedlab_trace::{Backend, RunRecord, Warning, WarningKind, WorkloadRecord};

/// Where the guest keeps the command's output.
const GUEST_OUTPUT: &str = "/tmp/output";
/// Exit code of a shell that does not find a program.
const NOT_FOUND: &str = "ended with code 127";

/// A command to run.
#[derive(Clone, Debug)]
pub struct CommandRun {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The program and its arguments; not empty.
    pub command: Vec<String>,
    /// What else is wanted of it.
    pub looks: Looks,
    /// The number of the run among those that are compared; nothing else depends on it.
    pub seed: u64,
}

/// A finished run, and what the command failed of, if it did.
pub(crate) type CommandEnd = (RunRecord, Option<Failure>);

impl From<TakeError> for Failure {
    fn from(error: TakeError) -> Failure {
        Failure::usage(error.to_string())
    }
}

impl CommandRun {
    /// Runs on this machine's kernel. `backend` is what the record says: this machine may be a VM's guest.
    ///
    /// # Errors
    /// See [`run_here`]. A command that fails is told beside the record.
    pub fn here(&self, streams: Streams<'_>, backend: Backend, quiet: bool) -> Result<CommandEnd, Failure> {
        no_folder(&self.command)?;
        let invocation = Invocation { args: &self.command, streams };
        let result = run_here(&self.scheduler, Work::Command(invocation), &self.looks, quiet)?;
        let early = result.scheduler.exit.is_early();
        // A scheduler that leaves ends the command too; it is told where the record is looked at.
        let code = result.exit_code.filter(|code| *code != 0 && !early);
        let failed = code.map(|code| self.failure(code, &result.said));
        let made_of = provenance(&self.scheduler, None, None);
        let warning = command_wrote(&self.command[0], &result.said);
        let mut run = record(&self.scheduler, (self.workload(), self.seed), backend, made_of, result);
        run.warnings.extend(warning);
        Ok((run, failed))
    }

    /// Runs that come before and do not count.
    ///
    /// # Errors
    /// See [`run_here`]; the command fails, or the scheduler is ejected.
    pub fn warm_up(&self, runs: usize, backend: Backend) -> Result<(), Failure> {
        for _ in 0..runs {
            let run = CommandRun { looks: Looks::default(), ..self.clone() };
            let (record, failed) = run.here(Streams::Silent, backend, true)?;
            failed.map_or(Ok(()), Err)?;
            ejection(&Document { runs: vec![record], ..Document::default() })?;
        }
        Ok(())
    }

    /// Runs in a VM: this command, as the guest's first program, does [`CommandRun::here`]. What the command writes to its
    /// standard output is written to ours when it has ended. `with` goes into the VM besides; `warmup` runs come before.
    ///
    /// # Errors
    /// As there, and everything that can keep a VM from working.
    pub fn in_vm(
        &self,
        (with, warmup): (&[String], usize),
        vm: &VmOptions,
        progress: &mut dyn FnMut(&str),
    ) -> Result<CommandEnd, Failure> {
        let mut job = job(&self.command, with, vm, progress)?;
        let scheduler = guest_scheduler(&mut job, "/job", &self.scheduler)?;
        let mut args =
            words(&["run", "--as-guest", "--json", GUEST_RESULT, "--command-output", GUEST_OUTPUT]);
        args.extend(["-s".to_string(), scheduler, "--seed".to_string(), self.seed.to_string()]);
        args.extend(guest_settings(&self.scheduler));
        args.extend(self.looks.guest_flags());
        args.extend(["--warmup".to_string(), warmup.to_string()]);
        args.push("--".to_string());
        args.extend(self.command.iter().cloned());
        job.args = args;
        job.collect = words(&[GUEST_RESULT, GUEST_OUTPUT]);
        job.collect.extend(self.looks.guest_files());
        let output = boot(&job, progress)?;
        let told = output.file(GUEST_OUTPUT).unwrap_or_default();
        crate::files::stdout::write_text_result(&String::from_utf8_lossy(told))?;
        let mut run =
            guest_runs(&output, GUEST_RESULT)?.into_iter().next().ok_or_else(|| guest_failure(&output))?;
        self.looks.fetch(&output)?;
        named_after(&mut run, &self.scheduler);
        Ok((run, command_failure(&output)))
    }

    fn workload(&self) -> WorkloadRecord {
        let params = vec![("command".to_string(), self.command.join(" "))];
        WorkloadRecord { name: "command".to_string(), params }
    }

    fn failure(&self, code: i32, said: &str) -> Failure {
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        Failure::failed(format!("command {} ended with code {code}{said}", self.command[0]))
    }
}

/// Runs of a command under several schedulers in one VM.
#[derive(Clone, Copy, Debug)]
pub struct GuestBench<'a> {
    /// They take turns.
    pub schedulers: &'a [Scheduler],
    /// The program and its arguments; not empty.
    pub command: &'a [String],
    /// `--with`.
    pub with: &'a [String],
    /// Runs of each that count.
    pub runs: usize,
    /// Runs of each before them.
    pub warmup: usize,
}

impl GuestBench<'_> {
    /// Boots the VM, in which this command does the same on the guest's kernel. The records of the runs that were made, and
    /// what the command failed of, if it did.
    ///
    /// # Errors
    /// Everything that can keep a VM from working, or its kernel from taking an object.
    pub fn boot(
        &self,
        mut vm: VmOptions,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(Vec<RunRecord>, Option<Failure>), Failure> {
        // `--timeout` is for one run.
        let runs = (self.runs + self.warmup) * self.schedulers.len();
        vm.timeout = vm.timeout.saturating_mul(u32::try_from(runs).unwrap_or(u32::MAX));
        let mut job = job(self.command, self.with, &vm, progress)?;
        let mut args = words(&["bench", "--as-guest", "--json", GUEST_RESULT]);
        for (number, scheduler) in self.schedulers.iter().enumerate() {
            // Two of them may be files of one name.
            let mut own = scheduler.clone();
            if own.object.is_some() && own.loader.is_none() {
                own.given = format!("{}.bpf.o", label(number));
            }
            let inside = guest_scheduler(&mut job, "/job", &own)?;
            args.extend(["-s".to_string(), guest_entry(number, &inside, scheduler)]);
            for (name, value) in &scheduler.values {
                args.extend(["--set".to_string(), format!("{}:{name}={value}", label(number))]);
            }
        }
        args.extend([
            "--runs".to_string(),
            self.runs.to_string(),
            "--warmup".to_string(),
            self.warmup.to_string(),
        ]);
        args.push("--".to_string());
        args.extend(self.command.iter().cloned());
        job.args = args;
        job.collect = words(&[GUEST_RESULT]);
        let output = boot(&job, progress)?;
        let mut runs = guest_runs(&output, GUEST_RESULT).map_err(|failure| self.as_named(failure))?;
        for (run, scheduler) in runs.iter_mut().zip(self.schedulers.iter().cycle()) {
            named_after(run, scheduler);
        }
        Ok((runs, command_failure(&output).map(|failure| self.as_named(failure))))
    }

    /// A failure of the guest's command with the names that the schedulers have here.
    fn as_named(&self, failure: Failure) -> Failure {
        let known = self.schedulers.iter().enumerate();
        let text = known.fold(failure.text, |text, (number, scheduler)| {
            let (inside, here) = (guest_label(number, scheduler), scheduler.label());
            text.replace(&format!("({inside}, "), &format!("({here}, "))
        });
        Failure { text, ..failure }
    }
}

/// What a scheduler is called in the guest, where its own name could not be read back.
fn label(number: usize) -> String {
    format!("s{number}")
}

/// The same with its settings, as the guest's command tells it.
fn guest_label(number: usize, scheduler: &Scheduler) -> String {
    let changes = scheduler.changes.iter();
    let changes = changes.map(|change| (format!("{}:{}", change.at, change.variable), change.value.clone()));
    let settings = changes.chain(scheduler.values.iter().cloned()).collect();
    Scheduler { name: label(number), settings, ..scheduler.clone() }.label()
}

/// A scheduler as an entry of `-s` in the guest, with what changes while it runs.
fn guest_entry(number: usize, inside: &str, scheduler: &Scheduler) -> String {
    let changes: Vec<String> = scheduler.changes.iter().map(ToString::to_string).collect();
    let changes = if changes.is_empty() { String::new() } else { format!("[{}]", changes.join(",")) };
    format!("{}={inside}{changes}", label(number))
}

/// What programs and the C library say of something that is not there, or cannot be started.
const LACKS: [&str; 6] = [
    "not found",
    "No such file or directory",
    "cannot execute",
    "cannot open",
    "Permission denied",
    "Exec format error",
];

/// A warning about what a command wrote to its standard error, where that was kept. A shell goes on when a program is missing,
/// and may end with exit code 0. The figures are then of less work than they seem to be.
fn command_wrote(program: &str, said: &str) -> Option<Warning> {
    let lacks = |line: &&str| LACKS.iter().any(|lacks| line.contains(lacks));
    let (missing, last) = (said.lines().find(lacks), said.lines().last().filter(|line| !line.is_empty())?);
    let (kind, text) = match missing {
        Some(line) => (
            WarningKind::CommandFailed,
            format!(
                "command {program} did not do all of its work: {line} (in a VM, --with NAME,.. takes programs and files along)"
            ),
        ),
        None => (WarningKind::CommandWrote, format!("command {program} wrote to its standard error: {last}")),
    };
    Some(Warning { kind, text, count: 1, worst: None })
}

/// Refuses a folder in the place of a program.
fn no_folder(command: &[String]) -> Result<(), Failure> {
    let program = &command[0];
    match not_a_program(program) {
        Some(wrong) => Err(Failure::usage(format!("command {program}: {wrong}"))),
        None => Ok(()),
    }
}

/// A VM's job that has the command and what it needs.
fn job(
    command: &[String],
    with: &[String],
    vm: &VmOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<VmJob, Failure> {
    no_folder(command)?;
    let mut taken = Taken::default();
    taken.take(&command[0])?;
    command[1..].iter().try_for_each(|arg| taken.take_if_there(arg))?;
    with.iter().try_for_each(|name| taken.take(name))?;
    let mut job = VmJob::new(vm.kernel(progress)?, Vec::new());
    job.taken = taken;
    job.directory = std::env::current_dir().ok();
    vm.apply(&mut job);
    Ok(job)
}

/// What the guest's command failed of. An ejection stands in the record.
fn command_failure(output: &VmOutput) -> Option<Failure> {
    if let Some(Code::Done | Code::Ejected) = Code::from_number(output.exit_code) {
        return None;
    }
    let failure = guest_failure(output);
    if !failure.text.contains(NOT_FOUND) {
        return Some(failure);
    }
    let cure = "a program that it starts is not in the VM; --with NAME,.. takes programs, files and directories along";
    Some(Failure { text: format!("{} ({cure})", failure.text), ..failure })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::Standing;

    #[test]
    fn schedulers_in_the_guest_keep_their_changes_and_their_names() {
        let entries = ["staircase[interactive=0,2s:compute=1,3s:compute=0]", "eevdf"].map(String::from);
        let schedulers = Scheduler::find_all(&entries, &[]).unwrap();
        let entry = guest_entry(0, "/job/s0.bpf.o", &schedulers[0]);
        assert_eq!(entry, "s0=/job/s0.bpf.o[2s:compute=1,3s:compute=0]");
        assert_eq!(guest_entry(1, "eevdf", &schedulers[1]), "s1=eevdf");
        let bench = GuestBench { schedulers: &schedulers, command: &[], with: &[], runs: 1, warmup: 0 };
        let told =
            |number: usize| format!("run 1 of 2 ({}, run 1)", guest_label(number, &schedulers[number]));
        let named = |number| bench.as_named(Failure::failed(told(number))).text;
        assert_eq!(named(0), "run 1 of 2 (staircase[interactive=0,2s:compute=1,3s:compute=0], run 1)");
        assert_eq!(named(1), "run 1 of 2 (eevdf, run 1)");
    }

    #[test]
    fn a_command_that_lacks_a_program_is_suspect_and_one_that_says_something_is_not() {
        let of = |said: &str| command_wrote("sh", said).map(|warning| (warning.kind, warning.text));
        let (kind, text) = of("sh: 1: head: not found\nsh: 1: head: not found").unwrap();
        assert_eq!((kind, kind.standing()), (WarningKind::CommandFailed, Standing::Suspect));
        assert!(
            text.contains("did not do all of its work: sh: 1: head: not found (in a VM, --with"),
            "{text}"
        );
        let (kind, text) = of("make: warning: clock skew").unwrap();
        assert_eq!((kind, kind.standing()), (WarningKind::CommandWrote, Standing::Valid));
        assert!(text.ends_with("wrote to its standard error: make: warning: clock skew"), "{text}");
        assert_eq!(of(""), None);
    }

    #[test]
    fn every_failure_of_the_guest_is_told_but_an_ejection() {
        let of = |exit_code| {
            let stderr = b"schedlab: error: run 2 of 2 (s1, run 1): not a usable BPF object".to_vec();
            command_failure(&VmOutput { exit_code, stderr, ..VmOutput::default() })
        };
        assert!(of(0).is_none() && of(4).is_none());
        for code in [1, 2, 3, 5] {
            assert_eq!(of(code).map(|failure| failure.code as i32), Some(code));
        }
    }
}
