//! QEMU: its command line, its life, and what its end means.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::monitor::{Monitor, MonitorError};
use super::scratch::Scratch;
use super::snapshot::{Snapshot, Writing};
use super::written::{MOST_RESULTS, Written, results, shown};
use super::{
    Accelerator, Image, JOB_ITEM, LOG_PORT, RESULT_PORT, VmError, VmJob, VmOutput, encode_whole_job,
    job_archive, prepare, turns,
};
use crate::kernel_image::cache_dir;
use crate::signals;
use crate::wire::{Record, read_records};

/// Time for a boot under emulation. Chosen: 4 s are usual, more than a minute was seen on a machine with 14 busy processes
/// on two CPUs.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
/// Time for a boot with KVM, which takes about a second where it works.
const KVM_BOOT_LIMIT: Duration = Duration::from_secs(20);
/// Longest silence of a booting kernel's console; the usual boot says something every second, but 40 s were seen on that
/// machine.
const SILENCE_LIMIT: Duration = Duration::from_secs(120);
/// Time to write or read the state of a machine, of some hundred MiB.
const STATE_LIMIT: Duration = Duration::from_secs(120);
/// Time for any other answer of QEMU's monitor.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Most bytes of a job for a machine that is restored. Chosen: the guest reads them one by one, 20 MB in 3.6 s on one emulated CPU
/// (2026-11-28), where a boot took 9 s.
const MOST_SENT: usize = 32 << 20;
/// How often QEMU's files are looked at.
const POLL: Duration = Duration::from_millis(20);
/// Lines of the console that an error shows.
const TAIL: usize = 25;

/// Runs the packed job with the accelerator asked for.
pub(super) fn run(job: &VmJob, image: &Image, progress: &mut dyn FnMut(&str)) -> Result<VmOutput, VmError> {
    let emulation = match job.accelerator {
        Accelerator::Auto => Accelerator::Emulation,
        Accelerator::AutoSingleThread => Accelerator::EmulationSingleThread,
        chosen => return run_with(job, image, chosen, progress),
    };
    let remembered = Verdict::recall();
    if remembered != Some(false) && usable_kvm() {
        progress("booting the VM with KVM");
        match run_with(job, image, Accelerator::Kvm, progress) {
            Err(VmError::Boot { .. }) => {
                Verdict::remember(false);
                progress("KVM is here but does not boot; using emulation");
            }
            other => {
                Verdict::remember(true);
                return other;
            }
        }
    }
    let ended = run_with(job, image, emulation, progress);
    let why = match &ended {
        // Multi-threaded emulation now and then hangs while the guest starts its CPUs.
        Err(VmError::Boot { why, .. }) => format!("the VM did not boot ({why})"),
        Err(VmError::KernelCrash { lines }) if emulation == Accelerator::Emulation && met_patch(lines) => {
            "the emulator ran code while the guest's kernel patched it (int3)".to_string()
        }
        _ => return ended,
    };
    progress(&format!("{why}; once more, on one host thread"));
    run_with(job, image, Accelerator::EmulationSingleThread, progress)
}

/// Runs the job with this accelerator, of a snapshot where that is possible.
fn run_with(
    job: &VmJob,
    image: &Image,
    accelerator: Accelerator,
    progress: &mut dyn FnMut(&str),
) -> Result<VmOutput, VmError> {
    if let Some(sent) = sent_job(job, image, accelerator)? {
        match Machine::of_snapshot(job, image, accelerator, &sent, progress)? {
            Ok(machine) => return machine.run_to_end(job, progress),
            Err(why) => progress(&format!("no snapshot of the VM ({why})")),
        }
    }
    if accelerator != Accelerator::Kvm {
        progress("booting the VM under emulation");
    }
    Machine::start(job, image, accelerator, Begin::Boot(&job_archive(job)?))?.run_to_end(job, progress)
}

/// The job as a machine that is made of a snapshot reads it; nothing where it boots.
fn sent_job(job: &VmJob, image: &Image, accelerator: Accelerator) -> Result<Option<Vec<u8>>, VmError> {
    let size = job.files.iter().map(|(_, content)| content.len()).sum::<usize>() + job.taken.size();
    if !job.snapshot || accelerator == Accelerator::Kvm || size > MOST_SENT {
        return Ok(None);
    }
    encode_whole_job(job, image).map(Some).map_err(prepare("writing the job"))
}

/// How a machine begins.
#[derive(Clone, Copy)]
enum Begin<'a> {
    /// With a boot; the initramfs with the job.
    Boot(&'a [u8]),
    /// With a boot that ends when its state is to be saved.
    Save,
    /// At a saved state; its file, and the job.
    Saved(&'a Path, &'a [u8]),
}

/// Did the kernel crash on a breakpoint that it had set itself, in code that it was patching? Its handler passes those by unless
/// the patch is done, which a CPU on another host thread need not have seen.
fn met_patch(console: &[String]) -> bool {
    console.iter().any(|line| line.contains("Oops: int3"))
}

/// Whether the device may be opened; only a boot shows whether it works.
fn usable_kvm() -> bool {
    File::options().read(true).write(true).open("/dev/kvm").is_ok()
}

/// What the last attempt with KVM showed, kept until this machine reboots.
struct Verdict;

impl Verdict {
    fn file() -> Option<(PathBuf, String)> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some((cache_dir().ok()?.join("kvm"), boot.trim().to_string()))
    }

    fn recall() -> Option<bool> {
        let (path, boot) = Verdict::file()?;
        let text = fs::read_to_string(path).ok()?;
        let (noted, verdict) = text.trim().split_once(' ')?;
        (noted == boot).then(|| verdict == "works")
    }

    fn remember(works: bool) {
        // Only a shortcut for the next run: failing to write it costs that run a probe.
        if let Some((path, boot)) = Verdict::file() {
            let _ = fs::write(path, format!("{boot} {}\n", if works { "works" } else { "fails" }));
        }
    }
}

/// A running QEMU with its scratch directory; both are gone when it is dropped.
struct Machine {
    child: Child,
    scratch: Scratch,
    started: Instant,
    accelerator: Accelerator,
    /// What the guest's kernel and the job write while they run.
    console: Written,
    log: Written,
    /// Of a restored machine; held open while it runs.
    monitor: Option<Monitor>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// QEMU with the machine of a job; its files are those of the folder that it is started in. One that is saved, or was, can be
/// stopped by its first process.
fn qemu_command(job: &VmJob, image: &Image, accelerator: Accelerator, saved: bool) -> Command {
    let mut command = Command::new("qemu-system-x86_64");
    command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
    command.args(["-nic", "none"]);
    let mut cpus = String::new();
    command.args(["-m", &format!("{}M", job.memory_mib)]);
    match accelerator {
        Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        Accelerator::EmulationSingleThread => command.args(["-accel", "tcg,thread=single", "-cpu", "max"]),
        Accelerator::InstructionCount { shift } => {
            let icount = format!("shift={shift},sleep=off");
            command.args(["-accel", "tcg,thread=single", "-cpu", "max", "-icount", &icount]);
            // Neither the host's chance nor its clock is to tell.
            command.args(["-seed", "1", "-rtc", "base=2026-01-01,clock=vm"]);
            cpus = turns::add_cpus(&mut command, job.cpus, shift, job.turn);
            &mut command
        }
        _ => command.args(["-accel", "tcg,thread=multi", "-cpu", "max"]),
    };
    if !matches!(accelerator, Accelerator::InstructionCount { .. }) {
        command.args(["-smp", &job.cpus.to_string()]);
    }
    command.args(["-chardev", "file,id=console,path=console,append=on"]);
    // Without ioeventfd the guest's notifications are handled where they are made, not by another thread when it has the time.
    command.args(["-serial", "chardev:console", "-device", "virtio-serial-pci,ioeventfd=off"]);
    for (id, port) in [("result", RESULT_PORT), ("log", LOG_PORT)] {
        command.args(["-chardev", &format!("file,id={id},path={id},append=on")]);
        command.args(["-device", &format!("virtserialport,chardev={id},name={port}")]);
    }
    // An oops ends the run with its text on the console instead of leaving a wounded guest. Tests of the kernel's ciphers keep an
    // emulated CPU busy for a minute after the boot, and the monitor of memory accesses (kdamond) takes it from the tasks 50 times
    // a second.
    let line = format!(
        "console=ttyS0 panic=-1 oops=panic earlyprintk=serial,ttyS0 loglevel=7 rdinit=/init no_timer_check \
         cryptomgr.notests damon_stat.enabled=0{cpus} LD_LIBRARY_PATH={}",
        image.library_dirs.join(":")
    );
    if saved {
        command.args(["-device", "pvpanic", "-action", "panic=pause", "-qmp", "stdio"]);
        command.args(["-fw_cfg", &format!("name={JOB_ITEM},file=job")]);
    }
    command.arg("-kernel").arg(&job.kernel.vmlinuz);
    command.args(["-initrd", "initrd", "-append", &line]);
    command
}

/// Makes QEMU end when we do, however that comes. A Ctrl-C on the terminal is for us alone: we end QEMU then.
fn end_with_us(command: &mut Command) {
    command.process_group(0);
    // SAFETY: prctl() is async-signal-safe and this call reads no memory.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

impl Machine {
    fn start(
        job: &VmJob,
        image: &Image,
        accelerator: Accelerator,
        begin: Begin<'_>,
    ) -> Result<Machine, VmError> {
        let place = format!("in {}; TMPDIR names another place", std::env::temp_dir().display());
        let scratch = Scratch::new(&std::env::temp_dir())
            .map_err(prepare(&format!("making a scratch directory ({place})")))?;
        let dir = scratch.path();
        let put = |name: &str, parts: &[&[u8]]| -> Result<(), VmError> {
            let write = || {
                parts.iter().try_fold(File::create(dir.join(name))?, |mut file, part| {
                    file.write_all(part).map(|()| file)
                })
            };
            write().map(drop).map_err(prepare(&format!("writing the VM's {name} ({place})")))
        };
        let mut command = qemu_command(job, image, accelerator, !matches!(begin, Begin::Boot(_)));
        match begin {
            Begin::Boot(own) => put("initrd", &[&image.base, own])?,
            Begin::Save => put("initrd", &[&image.base]).and_then(|()| put("job", &[b"none"]))?,
            Begin::Saved(state, sent) => {
                // What was read at the boot is in the saved memory.
                put("initrd", &[b"none"]).and_then(|()| put("job", &[sent]))?;
                command.arg("-incoming").arg(format!("exec:cat {}", quoted(state)));
            }
        }
        let messages = File::create(dir.join("qemu")).map_err(prepare("making a file"))?;
        command.current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(messages);
        end_with_us(&mut command);
        let started = Instant::now();
        let child = command.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                VmError::QemuMissing { program: "qemu-system-x86_64", package: "qemu-system-x86" }
            }
            _ => VmError::Prepare { what: "starting qemu-system-x86_64".to_string(), source },
        })?;
        let written = |name: &str| Written::new(dir.join(name));
        let (console, log) = (written("console"), written("log"));
        Ok(Machine { child, scratch, started, accelerator, console, log, monitor: None })
    }

    /// A machine restored from a snapshot, which is made first if there is none; or why that does not work.
    ///
    /// # Errors
    /// What would keep a machine that boots from working, too.
    fn of_snapshot(
        job: &VmJob,
        image: &Image,
        accelerator: Accelerator,
        sent: &[u8],
        progress: &mut dyn FnMut(&str),
    ) -> Result<Result<Machine, String>, VmError> {
        let kernel = fs::read(&job.kernel.vmlinuz).map_err(prepare("reading the kernel"))?;
        let command = qemu_command(job, image, accelerator, true);
        let Some(snapshot) = Snapshot::of(&command, &[&kernel, &image.base]) else {
            return Ok(Err("the cache cannot be used".to_string()));
        };
        let mut state = snapshot.checked();
        if state.is_none() {
            if let Err(why) = Machine::made(job, image, accelerator, &snapshot, progress)? {
                return Ok(Err(why));
            }
            state = snapshot.checked();
        }
        let Some(state) = state else { return Ok(Err("it cannot be read".to_string())) };
        let mut machine = Machine::start(job, image, accelerator, Begin::Saved(state, sent))?;
        let why = match machine.go_on() {
            Err(MonitorError::Interrupted) => return Err(VmError::Interrupted),
            Err(error) => {
                let said = fs::read_to_string(machine.scratch.path().join("qemu")).unwrap_or_default();
                [vec![error.to_string()], last(shown(&said))].concat().join("; ")
            }
            // The saved kernel may have crashed: it does not continue.
            Ok(()) => match machine.wait_for_boot(job) {
                Err(VmError::Boot { why, .. }) => why,
                booted => return booted.map(|_| Ok(machine)),
            },
        };
        // One that does not work is no use to the next run either.
        snapshot.discard();
        Ok(Err(why))
    }

    /// Boots a machine and makes a snapshot of it, unless another command does that at the same time; or why there is none.
    ///
    /// # Errors
    /// The machine does not boot.
    fn made(
        job: &VmJob,
        image: &Image,
        accelerator: Accelerator,
        snapshot: &Snapshot,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Result<(), String>, VmError> {
        let deadline = Instant::now() + BOOT_LIMIT;
        let writing = snapshot.begin(&mut || !signals::stop_wanted() && Instant::now() < deadline);
        let writing = match writing {
            Ok(Some(writing)) => writing,
            Ok(None) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error.to_string())),
        };
        progress("booting the VM under emulation");
        let mut machine = Machine::start(job, image, accelerator, Begin::Save)?;
        let mut monitor = match Monitor::of(&mut machine.child) {
            Ok(monitor) => monitor,
            Err(error) => return Ok(Err(error.to_string())),
        };
        machine.follow_boot(job, &mut || monitor.has_come("GUEST_PANICKED"))?;
        let saved = saved(&mut monitor, writing);
        if let Ok(size) = saved {
            let (after, size) = (machine.started.elapsed().as_secs_f64(), size >> 20);
            progress(&format!("kept the booted VM for the next runs (after {after:.1} s, {size} MiB)"));
        }
        Ok(saved.map(drop))
    }

    /// Resumes a machine whose state has been read.
    fn go_on(&mut self) -> Result<(), MonitorError> {
        let mut monitor = Monitor::of(&mut self.child)?;
        wait_until(&mut monitor, "query-status", |status| status == "guest-panicked")?;
        // From now on a panic is one, and ends the machine.
        monitor.execute("set-action", json!({ "panic": "none" }), ANSWER_LIMIT)?;
        monitor.execute("cont", json!({}), ANSWER_LIMIT)?;
        self.monitor = Some(monitor);
        Ok(())
    }

    /// Follows the VM until its results are complete or it is clear that they will not come.
    fn run_to_end(mut self, job: &VmJob, progress: &mut dyn FnMut(&str)) -> Result<VmOutput, VmError> {
        let boot_time = self.wait_for_boot(job)?;
        let how = if self.monitor.is_some() { "restored" } else { "booted" };
        progress(&format!("the guest runs ({how} in {:.1} s)", boot_time.as_secs_f64()));
        let deadline = Instant::now() + job.timeout;
        let mut seen = 0;
        loop {
            self.log.read(progress);
            self.console.read(&mut |_| {});
            let records = results(&self.scratch.path().join("result"), &mut seen);
            let records = records.map_err(|_| VmError::TooMuch { most: MOST_RESULTS })?;
            let records = records.map_or_else(Vec::new, |bytes| read_records(&bytes));
            if records.last().is_some_and(|r| r.name == "done") {
                // All is said: what is left is to power off.
                self.log.read(progress);
                self.console.read(&mut |_| {});
                return Ok(self.output(job, records, boot_time));
            }
            if signals::stop_wanted() {
                return Err(VmError::Interrupted);
            }
            if self.exited().is_some() {
                return Err(self.early_end());
            }
            if Instant::now() > deadline {
                return Err(VmError::Timeout { after: job.timeout, console: self.end_of_console() });
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits for the record that our program writes first.
    fn wait_for_boot(&mut self, job: &VmJob) -> Result<Duration, VmError> {
        let result = self.scratch.path().join("result");
        self.follow_boot(job, &mut || fs::metadata(&result).is_ok_and(|m| m.len() > 0))?;
        Ok(self.started.elapsed())
    }

    /// Waits until `booted` is true, or it is clear that it will not be.
    fn follow_boot(&mut self, job: &VmJob, booted: &mut dyn FnMut() -> bool) -> Result<(), VmError> {
        let limit = match self.accelerator {
            Accelerator::Kvm => KVM_BOOT_LIMIT,
            _ => BOOT_LIMIT,
        };
        let (mut heard, mut spoken) = (Instant::now(), false);
        loop {
            if booted() {
                return Ok(());
            }
            if signals::stop_wanted() {
                return Err(VmError::Interrupted);
            }
            let messages = fs::read_to_string(self.scratch.path().join("qemu")).unwrap_or_default();
            self.console.read(&mut |_| spoken = true);
            if std::mem::take(&mut spoken) {
                heard = Instant::now();
            }
            let why = if let Some(status) = self.exited() {
                format!("QEMU ended: {status}")
            } else if messages.contains("KVM internal error") {
                "KVM internal error".to_string()
            } else if self.started.elapsed() > limit {
                format!("not done after {} s", limit.as_secs())
            } else if heard.elapsed() > SILENCE_LIMIT {
                format!("its console was silent for {} s", SILENCE_LIMIT.as_secs())
            } else {
                std::thread::sleep(POLL);
                continue;
            };
            let mut console = last(shown(&messages));
            console.extend(self.end_of_console());
            return Err(VmError::Boot { release: job.kernel.release.clone(), why, console });
        }
    }

    fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The last lines of the console.
    fn end_of_console(&mut self) -> Vec<String> {
        self.console.read(&mut |_| {});
        last(self.console.lines())
    }

    /// QEMU ended without a complete result: a crash if the console says so.
    fn early_end(&mut self) -> VmError {
        self.console.read(&mut |_| {});
        let lines = self.console.lines();
        let crash = lines.iter().position(|line| {
            ["Oops", "BUG:", "Kernel panic", "general protection", "kernel BUG"]
                .iter()
                .any(|word| line.contains(word))
        });
        match crash {
            Some(at) => KernelCrashLines(&lines[at..]).into_error(),
            None => VmError::Vanished { console: last(lines) },
        }
    }

    fn output(&self, job: &VmJob, records: Vec<Record>, boot_time: Duration) -> VmOutput {
        let mut output = VmOutput {
            boot_time,
            kvm: self.accelerator == Accelerator::Kvm,
            console_tail: last(self.console.lines()),
            stderr: self.log.text().into_bytes(),
            ..VmOutput::default()
        };
        let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
        let mut files = Vec::new();
        for Record { name, data } in records {
            match name.as_str() {
                "exit" => output.exit_code = text(&data).parse().unwrap_or(-1),
                "stdout" => output.stdout = data,
                "warning" => output.kernel_warnings.push(text(&data)),
                "kernel" => output.kernel_log.push(text(&data)),
                _ => {
                    if let Some(path) = name.strip_prefix("file:") {
                        files.push((path.to_string(), data));
                    }
                }
            }
        }
        for path in &job.collect {
            if let Some(at) = files.iter().position(|(name, _)| name == path) {
                output.files.push(files.swap_remove(at));
            }
        }
        output
    }
}

/// Has a stopped machine's state written and kept; its size in bytes, or why not.
fn saved(monitor: &mut Monitor, writing: Writing<'_>) -> Result<u64, String> {
    let to = format!("exec:cat > {}", quoted(writing.path()));
    let saved = monitor
        .execute("migrate", json!({ "uri": to }), ANSWER_LIMIT)
        .and_then(|_| wait_until(monitor, "query-migrate", |status| status == "completed"));
    saved.map_err(|error| error.to_string())?;
    writing.keep().map_err(|error| error.to_string())
}

/// Waits until QEMU answers `command` with a status that is the one wanted.
fn wait_until(
    monitor: &mut Monitor,
    command: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), MonitorError> {
    let end = Instant::now() + STATE_LIMIT;
    while Instant::now() < end {
        let answer = monitor.execute(command, json!({}), ANSWER_LIMIT)?;
        match answer.get("status").and_then(Value::as_str) {
            Some(status) if wanted(status) => return Ok(()),
            Some("failed") => return Err(MonitorError::Refused(format!("{command}: failed"))),
            _ => std::thread::sleep(POLL),
        }
    }
    Err(MonitorError::Silent(STATE_LIMIT))
}

/// A path as a word of a shell's command.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// The last lines, as many as an error shows.
fn last(mut lines: Vec<String>) -> Vec<String> {
    lines.split_off(lines.len().saturating_sub(TAIL))
}

/// The console from the first line of a crash on.
struct KernelCrashLines<'a>(&'a [String]);

impl KernelCrashLines<'_> {
    fn into_error(self) -> VmError {
        VmError::KernelCrash { lines: self.0.iter().take(2 * TAIL).cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_quoted_path_as_one_word() {
        let path = Path::new("/tmp/it's a $(place); here");
        let echoed =
            Command::new("sh").args(["-c", &format!("printf %s {}", quoted(path))]).output().unwrap();
        assert_eq!(echoed.stdout, path.to_str().unwrap().as_bytes());
    }

    #[test]
    fn crashes_of_the_emulator_are_told_from_the_kernels() {
        let console = |line: &str| vec!["[    7.8] sched_ext: enabled".to_string(), line.to_string()];
        assert!(met_patch(&console("[    7.897260] Oops: int3: 0000 [#1] SMP NOPTI")));
        assert!(!met_patch(&console("[    7.897260] Oops: general protection fault: 0000 [#1] SMP")));
    }
}
