//! A command as the work of a run: started, watched and timed with all that it starts.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use schedlab_base::DurationNs;

use crate::ending::Ending;
use crate::exec::now_ns;

/// How often a running command is looked at; its end is seen at once.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// Most bytes of its messages that are printed. Chosen: what fits on a screen.
const SAID: u64 = 2000;

/// A command with arguments.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// The program, then its arguments.
    pub args: &'a [String],
    /// Where its input comes from, and its output and messages go.
    pub streams: Streams<'a>,
}

/// Input, output and messages of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams<'a> {
    /// Ours.
    Inherited,
    /// The command has no input. Its output is discarded, and the end of its messages is kept.
    Silent,
    /// No input; the output goes into this file, the messages where ours go.
    Into(&'a Path),
}

/// How it ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// The command's exit code; 128 plus the number of the signal that ended it.
    pub(crate) code: i32,
    /// The number of its first process.
    pub(crate) process: i32,
    /// When it was started, on the monotonic clock, ns.
    pub(crate) begin_ns: u64,
    /// From there to its end.
    pub(crate) elapsed: DurationNs,
    /// CPU time in user mode of it and of its descendants that were waited for.
    pub(crate) user: DurationNs,
    /// Such CPU time in the kernel.
    pub(crate) system: DurationNs,
    /// The end of its messages, where they were kept.
    pub(crate) said: String,
}

/// What is asked at every look, with the time since the start.
pub(crate) enum Verdict {
    /// The command continues.
    GoesOn,
    /// The command must end, and what it did until now counts.
    End,
    /// The command must end, and nothing counts.
    Forget,
}

/// A process of ours, killed when this is dropped before it has ended: with its whole process group, where it has one of
/// its own.
struct Running {
    process: i32,
    group: bool,
    has_ended: bool,
}

impl Running {
    fn kill(&self) {
        let target = if self.group { -self.process } else { self.process };
        // SAFETY: a plain system call; the number is our child's, which has not been waited for.
        unsafe { libc::kill(target, libc::SIGKILL) };
    }

    /// Waits for the end; the status as wait4(2) tells it, and the usage.
    fn wait(&mut self) -> io::Result<(i32, libc::rusage)> {
        let mut status = 0;
        // SAFETY: rusage is plain data for which all zeroes is a valid value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to values that live across the call.
        while unsafe { libc::wait4(self.process, &raw mut status, 0, &raw mut usage) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        self.has_ended = true;
        Ok((status, usage))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended {
            self.kill();
            let _ = self.wait();
        }
    }
}

/// Runs a command to its end, or to that which `look` wants; `None` if it is to be forgotten.
///
/// # Errors
/// It cannot be started or waited for.
pub(crate) fn run(
    invocation: Invocation<'_>,
    look: &mut dyn FnMut(DurationNs) -> Verdict,
) -> io::Result<Option<Ended>> {
    let (program, args) = invocation.args.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(args);
    // A terminal gives its signals to all of our group, and its input to no other.
    let group = invocation.streams != Streams::Inherited || !io::stdin().is_terminal();
    if group {
        command.process_group(0);
    }
    let mut messages = None;
    match invocation.streams {
        Streams::Inherited => {}
        Streams::Silent => {
            let kept = tempfile::tempfile()?;
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(kept.try_clone()?);
            messages = Some(kept);
        }
        Streams::Into(output) => {
            command.stdin(Stdio::null()).stdout(File::create(output)?);
        }
    }
    let begin_ns = now_ns();
    let elapsed = || DurationNs(now_ns() - begin_ns);
    let process = command.spawn()?.id().cast_signed();
    let mut running = Running { process, group, has_ended: false };
    let ending = Ending::of(process)?;
    while !ending.within(LOOK, None)? {
        match look(elapsed()) {
            Verdict::GoesOn => {}
            // Again at each look, until it is gone.
            Verdict::End => running.kill(),
            Verdict::Forget => return Ok(None),
        }
    }
    let elapsed = elapsed();
    let (status, usage) = running.wait()?;
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
    let (user, system) = (time(usage.ru_utime), time(usage.ru_stime));
    let said = messages.map(end_of_text).transpose()?.unwrap_or_default();
    Ok(Some(Ended { code, process, begin_ns, elapsed, user, system, said }))
}

fn time(time: libc::timeval) -> DurationNs {
    let (seconds, micros) = (time.tv_sec.cast_unsigned(), time.tv_usec.cast_unsigned());
    DurationNs(seconds * 1_000_000_000 + micros * 1_000)
}

/// The last [`SAID`] bytes.
fn end_of_text(mut file: File) -> io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(SAID)))?;
    let mut bytes = Vec::new();
    file.take(SAID).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn args(line: &str) -> Vec<String> {
        ["sh", "-c", line].map(str::to_string).to_vec()
    }

    fn ended(line: &str) -> Ended {
        let args = args(line);
        run(Invocation { args: &args, streams: Streams::Silent }, &mut |_| Verdict::GoesOn).unwrap().unwrap()
    }

    #[test]
    fn the_end_of_a_command_is_told() {
        let ended = ended("echo no >&2; sleep 0.1; exit 3");
        assert_eq!((ended.code, ended.said.as_str()), (3, "no"));
        assert!(ended.elapsed >= DurationNs::from_ms(100) && ended.process > 0);
        assert_eq!(self::ended("kill -TERM $$").code, 128 + libc::SIGTERM);
    }

    #[test]
    fn output_goes_into_a_file() {
        let output = tempfile::NamedTempFile::new().unwrap();
        let args = args("echo told; cat");
        let streams = Streams::Into(output.path());
        let ended = run(Invocation { args: &args, streams }, &mut |_| Verdict::GoesOn).unwrap().unwrap();
        assert_eq!((ended.code, ended.said.as_str()), (0, ""));
        assert_eq!(std::fs::read_to_string(output.path()).unwrap(), "told\n");
    }

    #[test]
    fn cpu_time_of_descendants_counts() {
        let loops = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let ended = ended(&format!("(sh -c '{loops}'); true"));
        assert!(ended.user >= DurationNs::from_ms(10), "{ended:?}");
    }

    #[test]
    fn only_the_end_of_long_messages_is_kept() {
        let ended = ended("for i in 1 2 3 4 5 6 7 8 9; do printf '%0500d' $i >&2; done");
        assert!(ended.said.len() as u64 == SAID && ended.said.ends_with('9'), "{ended:?}");
    }

    #[test]
    fn what_is_to_end_is_killed_with_all_that_it_started() {
        let begin = Instant::now();
        let args = args("sleep 1000 & echo $! >&2; wait");
        let ended = run(Invocation { args: &args, streams: Streams::Silent }, &mut |elapsed| {
            if elapsed < DurationNs::from_ms(200) { Verdict::GoesOn } else { Verdict::End }
        });
        let ended = ended.unwrap().unwrap();
        assert_eq!(ended.code, 128 + libc::SIGKILL);
        let child: i32 = ended.said.parse().unwrap();
        let is_gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        while !is_gone() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(LOOK);
        }
        assert!(is_gone());
        let forgotten =
            run(Invocation { args: &args, streams: Streams::Silent }, &mut |_| Verdict::Forget).unwrap();
        assert!(forgotten.is_none());
    }
}
