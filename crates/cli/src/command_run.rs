//! A command under a scheduler on a real kernel: this machine's, or that of a VM, into which the command goes with what it
//! needs.

use crate::failure::{Code, Failure};
use crate::output;
use crate::real::{
    VmOptions, boot, guest_failure, guest_runs, guest_scheduler, guest_settings, named_after, record,
    run_here,
};
use crate::scheduler::Scheduler;
use crate::trust::provenance;
use schedlab_live::command::{Invocation, Streams};
use schedlab_live::session::Work;
use schedlab_live::vm::{TakeError, Taken, VmJob, VmOutput};
use schedlab_trace::{Backend, RunRecord, WorkloadRecord};
use std::path::Path;

/// Where the guest keeps the command's output.
const GUEST_OUTPUT: &str = "/tmp/output";
/// Where the guest writes its results.
const GUEST_RESULT: &str = "/tmp/result.json";
/// Exit code of a shell that does not find a program.
const NOT_FOUND: &str = "ended with code 127";

/// A command to run.
#[derive(Clone, Debug)]
pub(crate) struct CommandRun {
    /// Who schedules.
    pub(crate) scheduler: Scheduler,
    /// The program and its arguments; not empty.
    pub(crate) command: Vec<String>,
    /// `--explain-waits`.
    pub(crate) explain_waits: bool,
    /// The number of the run among those that are compared; nothing else depends on it.
    pub(crate) seed: u64,
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
    pub(crate) fn here(
        &self,
        streams: Streams<'_>,
        backend: Backend,
        quiet: bool,
    ) -> Result<CommandEnd, Failure> {
        let invocation = Invocation { args: &self.command, streams };
        let result = run_here(&self.scheduler, Work::Command(invocation), self.explain_waits, quiet)?;
        let ejected = result.scheduler.exit.kind.is_ejection();
        // An ejection ends the command too; it is told where the record is looked at.
        let code = result.exit_code.filter(|code| *code != 0 && !ejected);
        let failed = code.map(|code| self.failure(code, &result.said));
        let made_of = provenance(&self.scheduler, None, None);
        Ok((record(&self.scheduler, (self.workload(), self.seed), backend, made_of, result), failed))
    }

    /// Runs in a VM: this command, as the guest's first program, does [`CommandRun::here`]. What the command writes to its
    /// standard output is written to ours when it has ended. `with` goes into the VM besides.
    ///
    /// # Errors
    /// As there, and everything that can keep a VM from working.
    pub(crate) fn in_vm(
        &self,
        with: &[String],
        vm: &VmOptions,
        progress: &mut dyn FnMut(&str),
    ) -> Result<CommandEnd, Failure> {
        let mut job = job(&self.command, with, vm, progress)?;
        let scheduler = guest_scheduler(&mut job, &self.scheduler);
        let mut args =
            words(&["run", "--as-guest", "--json", GUEST_RESULT, "--command-output", GUEST_OUTPUT]);
        args.extend(["-s".to_string(), scheduler, "--seed".to_string(), self.seed.to_string()]);
        args.extend(guest_settings(&self.scheduler));
        args.extend(self.explain_waits.then(|| "--explain-waits".to_string()));
        args.push("--".to_string());
        args.extend(self.command.iter().cloned());
        job.args = args;
        job.collect = words(&[GUEST_RESULT, GUEST_OUTPUT]);
        let output = boot(&job, progress)?;
        let told = output.file(GUEST_OUTPUT).unwrap_or_default();
        output::write_text_result(&String::from_utf8_lossy(told))?;
        let mut run =
            guest_runs(&output, GUEST_RESULT)?.into_iter().next().ok_or_else(|| guest_failure(&output))?;
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
pub(crate) struct GuestBench<'a> {
    /// They take turns.
    pub(crate) schedulers: &'a [Scheduler],
    /// The program and its arguments; not empty.
    pub(crate) command: &'a [String],
    /// `--with`.
    pub(crate) with: &'a [String],
    /// Runs of each that count.
    pub(crate) runs: usize,
    /// Runs of each before them.
    pub(crate) warmup: usize,
}

impl GuestBench<'_> {
    /// Boots the VM, in which this command does the same on the guest's kernel. The records of the runs that were made, and
    /// what the command failed of, if it did.
    ///
    /// # Errors
    /// Everything that can keep a VM from working, or its kernel from taking an object.
    pub(crate) fn boot(
        &self,
        vm: &VmOptions,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(Vec<RunRecord>, Option<Failure>), Failure> {
        let mut job = job(self.command, self.with, vm, progress)?;
        let mut args = words(&["bench", "--as-guest", "--json", GUEST_RESULT]);
        for (number, scheduler) in self.schedulers.iter().enumerate() {
            let label = format!("s{number}");
            // Two of them may be files of one name.
            let mut own = scheduler.clone();
            if own.object.is_some() {
                own.given = format!("{label}.bpf.o");
            }
            let inside = guest_scheduler(&mut job, &own);
            args.extend(["-s".to_string(), format!("{label}={inside}")]);
            for (name, value) in &scheduler.values {
                args.extend(["--set".to_string(), format!("{label}:{name}={value}")]);
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
        let mut runs = guest_runs(&output, GUEST_RESULT)?;
        for (run, scheduler) in runs.iter_mut().zip(self.schedulers.iter().cycle()) {
            named_after(run, scheduler);
        }
        Ok((runs, command_failure(&output)))
    }
}

/// A VM's job that has the command and what it needs.
fn job(
    command: &[String],
    with: &[String],
    vm: &VmOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<VmJob, Failure> {
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

/// What the command in the guest failed of.
fn command_failure(output: &VmOutput) -> Option<Failure> {
    if Code::from_number(output.exit_code) != Some(Code::Failed) {
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

/// Streams of a command of `run`.
pub(crate) fn streams(output: Option<&Path>) -> Streams<'_> {
    output.map_or(Streams::Inherited, Streams::Into)
}
