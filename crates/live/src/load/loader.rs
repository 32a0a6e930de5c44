//! A scheduler that its own program loads: the program is started, its scheduler waited for, and both are taken out at the end.
//!
//! The kernel takes the scheduler out when the program's last descriptor of it is closed. The program is asked to end first
//! (SIGINT, SIGTERM), then ended, with all that it started; it is also ended when this process is, however that comes.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use schedlab_base::DurationNs;
use schedlab_trace::{ExitKind, ExitRecord};

use super::by_id;
use super::charge::Charge;
use super::output::Output;
use super::raw::ProgramCounts;
use super::{LoadError, SchedulerEnd, SchedulerObject, check_machine, exit, sched_ext};
use crate::kernel_log::KernelLog;
use crate::signals;

/// Time for a program to attach its scheduler. Chosen: those that are built without optimisation take some ten seconds on an emulated CPU.
const ATTACH_LIMIT: Duration = Duration::from_secs(120);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);
/// What it is asked to end by, and how long it may take. Chosen: loops of loaders look every second.
const ENDS: [(libc::c_int, Duration); 3] = [
    (libc::SIGINT, Duration::from_secs(10)),
    (libc::SIGTERM, Duration::from_secs(5)),
    (libc::SIGKILL, Duration::from_secs(5)),
];
/// Characters of its output that an error tells. Chosen: what fits on a screen.
const TOLD: usize = 2000;

/// A scheduler's own program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderCommand {
    /// The program's file.
    pub program: PathBuf,
    /// The command's name and arguments.
    pub words: Vec<String>,
}

/// A loader's program with its scheduler in charge.
pub(crate) struct RunningLoader {
    process: Process,
    name: String,
    charge: Charge,
    log: Option<KernelLog>,
    /// Programs of the kernel that came with it: up to 15 bytes of the name each has in its object.
    programs: Vec<(String, OwnedFd)>,
    left: Option<DurationNs>,
}

/// The process; it is ended with its group when this is dropped.
struct Process {
    child: Child,
    output: Output,
    ended: Option<ExitStatus>,
}

impl Process {
    fn start(command: &LoaderCommand) -> io::Result<Process> {
        let (output, writer) = Output::new()?;
        let mut process = Command::new(&command.program);
        process.args(command.words.iter().skip(1)).stdin(Stdio::null());
        process.stdout(writer.try_clone()?).stderr(writer).process_group(0);
        if let Some(name) = command.words.first() {
            process.arg0(name);
        }
        // SAFETY: a system call on numbers, which is allowed between fork and exec.
        unsafe {
            process.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        Ok(Process { child: process.spawn()?, output, ended: None })
    }

    /// How it has ended, if it has.
    fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    fn signal(&self, target: i32, signal: libc::c_int) {
        // SAFETY: a system call on numbers; the process is our child, or its group.
        unsafe { libc::kill(target, signal) };
    }

    /// Asks it to end, and ends it; what it has started goes with it.
    fn end(&mut self) {
        let process = self.child.id().cast_signed();
        for (signal, limit) in ENDS {
            if self.ended().is_some() {
                break;
            }
            self.signal(process, signal);
            let begin = Instant::now();
            while self.ended().is_none() && begin.elapsed() < limit {
                std::thread::sleep(LOOK);
            }
        }
        self.signal(-process, libc::SIGKILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// How a process has ended, in words.
fn words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => format!("was ended by signal {}", status.signal().unwrap_or(0)),
    }
}

impl RunningLoader {
    /// Starts the program and waits until its scheduler is in charge.
    ///
    /// # Errors
    /// A machine that has no room for one, a program that does not start, ends, or attaches nothing.
    pub(super) fn start(
        scheduler: &SchedulerObject,
        command: &LoaderCommand,
    ) -> Result<RunningLoader, LoadError> {
        check_machine()?;
        let name = scheduler.name.clone();
        let failed =
            |problem: String, output: String| LoadError::Loader { name: name.clone(), problem, output };
        let log = KernelLog::from_now().ok();
        let known = by_id::programs();
        let before = Charge::now();
        let mut process = Process::start(command)
            .map_err(|error| failed(format!("{}: {error}", command.program.display()), String::new()))?;
        let begin = Instant::now();
        let problem = loop {
            let now = Charge::now();
            if now.has_come_since(&before) {
                let programs = by_id::new_callbacks(&known);
                return Ok(RunningLoader { process, name, charge: now, log, programs, left: None });
            }
            if let Some(status) = process.ended() {
                break format!("its loader {} before it attached a scheduler", words(status));
            }
            if begin.elapsed() > ATTACH_LIMIT {
                break format!("its loader attached no scheduler within {} s", ATTACH_LIMIT.as_secs());
            }
            if signals::stop_wanted() {
                break "interrupted before its loader attached a scheduler".to_string();
            }
            std::thread::sleep(LOOK);
        };
        process.end();
        let output = process.output.text();
        let from = output.char_indices().rev().nth(TOLD).map_or(0, |(at, _)| at);
        Err(failed(problem, output[from..].trim().to_string()))
    }

    /// True unless the kernel has thrown its scheduler out, or it has taken it out itself, as of `elapsed` since the run began.
    pub(super) fn stays(&mut self, elapsed: DurationNs) -> bool {
        let stays = self.charge.is_held();
        if !stays {
            self.left.get_or_insert(elapsed);
        }
        stays
    }

    /// The kernel's programs of its object, with what the kernel counts of them: those of the callbacks by the names in `object`.
    pub(super) fn program_counts(
        &self,
        object: &schedlab_bpf::object::Object,
    ) -> Vec<(String, ProgramCounts)> {
        let full = |kept: &str| {
            let named = object.programs().iter().find(|program| by_id::kept(&program.name) == kept);
            named.map(|program| program.name.clone())
        };
        let counted = self.programs.iter();
        counted.filter_map(|(kept, fd)| Some((full(kept)?, ProgramCounts::of(fd.as_raw_fd())))).collect()
    }

    /// Ends the program, which takes its scheduler out, and tells how that left.
    pub(super) fn unload(mut self) -> SchedulerEnd {
        let stayed = self.charge.is_held();
        let events = sched_ext::events();
        let ended = self.process.ended();
        self.process.end();
        self.programs.clear();
        let waited = sched_ext::wait_until_disabled();
        if waited.is_err() {
            sched_ext::reset();
        }
        let messages = self.log.as_ref().map(KernelLog::messages).unwrap_or_default();
        let log: Vec<String> = messages.into_iter().map(|message| message.text).collect();
        let mut exit = if stayed { ExitRecord::default() } else { exit::from_log(&log, exit::ROOT) };
        if !stayed && exit.kind == ExitKind::None {
            exit.kind = ExitKind::Unreg;
        }
        exit.after = self.left.filter(|_| exit.kind != ExitKind::None);
        let output = self.process.output.text();
        if let (Some(status), ExitKind::Unreg) = (ended, exit.kind) {
            exit.message = format!("its loader {}", words(status));
        } else if exit.kind == ExitKind::Unreg && exit.message.is_empty() {
            exit.message = "its loader took it out, or attached another one".to_string();
        }
        if waited.is_err() && exit.message.is_empty() {
            exit.message =
                format!("{}: its scheduler stayed when its loader had ended, and was taken out", self.name);
        }
        SchedulerEnd { exit, events, output, ..SchedulerEnd::default() }
    }
}
