//! QEMU: its command line, its life, and what its end means.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::written::{MOST_RESULTS, Written, results, shown};
use super::{Accelerator, Image, LOG_PORT, RESULT_PORT, VmError, VmJob, VmOutput, turns};
use crate::kernel_image::cache_dir;
use crate::private::{locked, trusted_parent};
use crate::signals;
use crate::wire::{Record, read_records};
use tempfile::TempDir;

/// Time for a boot under emulation. Chosen: 4 s are usual, more than a minute was seen on a machine with 14 busy processes
/// on two CPUs.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
/// Time for a boot with KVM, which takes about a second where it works.
const KVM_BOOT_LIMIT: Duration = Duration::from_secs(20);
/// Longest silence of a booting kernel's console; the usual boot says something every second, but 40 s were seen on that
/// machine.
const SILENCE_LIMIT: Duration = Duration::from_secs(120);
/// Time to power off after the last result.
const OFF_LIMIT: Duration = Duration::from_secs(10);
/// How often QEMU's files are looked at.
const POLL: Duration = Duration::from_millis(20);
/// Lines of the console that an error shows.
const TAIL: usize = 25;

/// Runs the packed job with the accelerator asked for.
pub(super) fn run(job: &VmJob, image: &Image, progress: &mut dyn FnMut(&str)) -> Result<VmOutput, VmError> {
    let emulation = match job.accelerator {
        Accelerator::Auto => Accelerator::Emulation,
        Accelerator::AutoSingleThread => Accelerator::EmulationSingleThread,
        chosen => return Machine::start(job, image, chosen)?.run_to_end(job, progress),
    };
    let remembered = Verdict::recall();
    if remembered != Some(false) && usable_kvm() {
        progress("booting the VM with KVM");
        match Machine::start(job, image, Accelerator::Kvm)?.run_to_end(job, progress) {
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
    progress("booting the VM under emulation");
    let ended = Machine::start(job, image, emulation)?.run_to_end(job, progress);
    let why = match &ended {
        // Multi-threaded emulation now and then hangs while the guest starts its CPUs.
        Err(VmError::Boot { why, .. }) => format!("the VM did not boot ({why})"),
        Err(VmError::KernelCrash { lines }) if emulation == Accelerator::Emulation && met_patch(lines) => {
            "the emulator ran code while the guest's kernel patched it (int3)".to_string()
        }
        _ => return ended,
    };
    progress(&format!("{why}; once more, on one host thread"));
    Machine::start(job, image, Accelerator::EmulationSingleThread)?.run_to_end(job, progress)
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
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the names of scratch directories begin with; the process and random letters follow.
const SCRATCH: &str = "schedlab-vm-";

/// A directory of our own for the files of one VM: nobody else reads, writes or foresees it. It is gone when this is
/// dropped.
struct Scratch {
    dir: TempDir,
    /// Held while the directory is in use.
    _lock: File,
}

impl Scratch {
    /// In the directory for temporary files, of which others must not be able to take it away.
    fn new(temp: &Path) -> io::Result<Scratch> {
        trusted_parent(temp)?;
        remove_left_behind(temp);
        // Made by mkdir() with mode 0700, which fails where something has the name.
        let prefix = format!("{SCRATCH}{}-", std::process::id());
        let mut unique = tempfile::Builder::new();
        unique.prefix(&prefix).rand_bytes(12).permissions(fs::Permissions::from_mode(0o700));
        let dir = unique.tempdir_in(temp)?;
        let lock = locked(dir.path())?;
        Ok(Scratch { dir, _lock: lock })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes our scratch directories of commands that were killed: their process is gone, and so is their lock (which tells
/// them from those of processes in another PID namespace). What else has such a name is not touched.
fn remove_left_behind(temp: &Path) {
    for entry in fs::read_dir(temp).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(SCRATCH)?.split_once('-'));
        let Some(Ok(process)) = process.map(|(process, _)| process.parse::<u32>()) else { continue };
        if !Path::new(&format!("/proc/{process}")).exists() && locked(&entry.path()).is_ok() {
            // Just gone: nothing that keeps this VM from starting.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn qemu_command(job: &VmJob, dir: &Path, image: &Image, accelerator: Accelerator) -> Command {
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
            cpus = turns::add_cpus(&mut command, job.cpus, shift);
            &mut command
        }
        _ => command.args(["-accel", "tcg,thread=multi", "-cpu", "max"]),
    };
    if !matches!(accelerator, Accelerator::InstructionCount { .. }) {
        command.args(["-smp", &job.cpus.to_string()]);
    }
    let file = |name: &str| dir.join(name).display().to_string();
    command.args(["-chardev", &format!("file,id=console,path={},append=on", file("console"))]);
    // Without ioeventfd the guest's notifications are handled where they are made, not by another thread when it has the time.
    command.args(["-serial", "chardev:console", "-device", "virtio-serial-pci,ioeventfd=off"]);
    for (id, port) in [("result", RESULT_PORT), ("log", LOG_PORT)] {
        command.args(["-chardev", &format!("file,id={id},path={},append=on", file(id))]);
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
    command.arg("-kernel").arg(&job.kernel.vmlinuz);
    command.arg("-initrd").arg(file("initrd")).args(["-append", &line]);
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
    fn start(job: &VmJob, image: &Image, accelerator: Accelerator) -> Result<Machine, VmError> {
        let prepare = |what: &str| {
            let what = what.to_string();
            move |source| VmError::Prepare { what, source }
        };
        let place = format!("in {}; TMPDIR names another place", std::env::temp_dir().display());
        let scratch = Scratch::new(&std::env::temp_dir())
            .map_err(prepare(&format!("making a scratch directory ({place})")))?;
        let dir = scratch.path();
        let start = || -> Result<Child, VmError> {
            fs::write(dir.join("initrd"), &image.archive)
                .map_err(prepare(&format!("writing the initramfs ({place})")))?;
            let messages = File::create(dir.join("qemu")).map_err(prepare("making a file"))?;
            let mut command = qemu_command(job, dir, image, accelerator);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
            end_with_us(&mut command);
            command.spawn().map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => {
                    VmError::QemuMissing { program: "qemu-system-x86_64", package: "qemu-system-x86" }
                }
                _ => VmError::Prepare { what: "starting qemu-system-x86_64".to_string(), source },
            })
        };
        let child = start()?;
        let written = |name: &str| Written::new(dir.join(name));
        let (console, log) = (written("console"), written("log"));
        Ok(Machine { child, scratch, started: Instant::now(), accelerator, console, log })
    }

    /// Follows the VM until its results are complete or it is clear that they will not come.
    fn run_to_end(mut self, job: &VmJob, progress: &mut dyn FnMut(&str)) -> Result<VmOutput, VmError> {
        let boot_time = self.wait_for_boot(job)?;
        progress(&format!("the guest runs (booted in {:.1} s)", boot_time.as_secs_f64()));
        let deadline = Instant::now() + job.timeout;
        let mut seen = 0;
        loop {
            self.log.read(progress);
            self.console.read(&mut |_| {});
            let records = results(&self.scratch.path().join("result"), &mut seen);
            let records = records.map_err(|_| VmError::TooMuch { most: MOST_RESULTS })?;
            let records = records.map_or_else(Vec::new, |bytes| read_records(&bytes));
            if records.last().is_some_and(|r| r.name == "done") {
                self.wait_for_off();
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
        let limit = match self.accelerator {
            Accelerator::Kvm => KVM_BOOT_LIMIT,
            _ => BOOT_LIMIT,
        };
        let (mut heard, mut spoken) = (Instant::now(), false);
        loop {
            let booted = fs::metadata(self.scratch.path().join("result")).is_ok_and(|m| m.len() > 0);
            if booted {
                return Ok(self.started.elapsed());
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

    fn wait_for_off(&mut self) {
        let deadline = Instant::now() + OFF_LIMIT;
        while self.exited().is_none() && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
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
    use std::os::unix::fs::{DirBuilderExt, chown, symlink};
    use std::sync::mpsc;

    #[test]
    fn crashes_of_the_emulator_are_told_from_the_kernels() {
        let console = |line: &str| vec!["[    7.8] sched_ext: enabled".to_string(), line.to_string()];
        assert!(met_patch(&console("[    7.897260] Oops: int3: 0000 [#1] SMP NOPTI")));
        assert!(!met_patch(&console("[    7.897260] Oops: general protection fault: 0000 [#1] SMP")));
    }

    /// A directory as the system's for temporary files.
    fn temp() -> TempDir {
        let temp = tempfile::tempdir().unwrap();
        fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        temp
    }

    fn private(path: &Path) {
        fs::DirBuilder::new().mode(0o700).create(path).unwrap();
        fs::create_dir(path.join("d")).unwrap();
    }

    // Processes have numbers up to 2^22.
    const GONE: &str = "schedlab-vm-4194305-Ab1";

    #[test]
    fn directories_of_dead_processes_go() {
        let temp = temp();
        let (held, ours) = (format!("{SCRATCH}4194306-0"), format!("{SCRATCH}{}-7", std::process::id()));
        let others = ["schedlab-vm", "schedlab-vm-x-0", "schedlab-vm-4194305", "schedlab-4194305-0"];
        for name in [GONE, &held, &ours].into_iter().chain(others) {
            private(&temp.path().join(name));
        }
        let lock = locked(&temp.path().join(&held)).unwrap();
        remove_left_behind(temp.path());
        let left = |name: &str| temp.path().join(name).exists();
        assert!(!left(GONE), "its process is gone");
        assert!(left(&held) && left(&ours), "they are in use");
        assert!(others.into_iter().all(left), "they are none of ours");
        drop(lock);
        // A child that another test has just forked holds the lock as well, until it executes its program.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while left(&held) && std::time::Instant::now() < deadline {
            remove_left_behind(temp.path());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!left(&held) && left(&ours));
    }

    /// What another user may leave where we look: nothing of it is waited for, followed or removed.
    #[test]
    #[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn what_is_planted_is_passed_by() {
        let (temp, precious) = (temp(), temp());
        private(&precious.path().join("home"));
        let place = |number: u32| temp.path().join(format!("{SCRATCH}{number}-0"));
        let pipe = std::ffi::CString::new(place(4_194_305).to_str().unwrap()).unwrap();
        // SAFETY: the path is NUL-terminated.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o666) }, 0);
        symlink(precious.path().join("home"), place(4_194_306)).unwrap();
        fs::write(place(4_194_307), "file").unwrap();
        fs::create_dir(place(4_194_308)).unwrap();
        fs::set_permissions(place(4_194_308), fs::Permissions::from_mode(0o777)).unwrap();
        private(&place(4_194_309));
        let foreign = chown(place(4_194_309), Some(65534), None).is_ok();
        if !foreign {
            eprintln!("skipped in part: only root gives a directory away");
        }
        let (done, ended) = mpsc::channel();
        let root = temp.path().to_path_buf();
        std::thread::spawn(move || done.send(Scratch::new(&root)));
        let scratch = ended.recv_timeout(Duration::from_secs(20)).expect("a pipe is not waited for").unwrap();
        let made = fs::symlink_metadata(scratch.path()).unwrap();
        assert!(made.is_dir() && made.permissions().mode() & 0o777 == 0o700);
        for number in 4_194_305..=4_194_308 {
            assert!(fs::symlink_metadata(place(number)).is_ok(), "{number} is none of ours");
        }
        assert_eq!(place(4_194_309).exists(), foreign);
        assert!(precious.path().join("home/d").exists());
        let path = scratch.path().to_path_buf();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn directories_that_others_can_empty_are_refused() {
        let temp = temp();
        fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = Scratch::new(temp.path()).err().expect("it is refused").to_string();
        assert!(error.contains("others can remove files from"), "{error}");
    }
}
