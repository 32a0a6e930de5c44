//! Our program as the first process of a VM.
//!
//! Mounts what a job needs, runs the job as a child, sends what it left behind to the host, and
//! powers off. Every failure is sent too: the guest has no other way to speak.

mod ports;

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use schedlab_base::Tail;

use crate::kernel_log::KernelLog;
use crate::vm::{GUEST_FILE, GuestJob, JOB_FILE, JOB_ITEM, LOG_PORT, RESULT_PORT, decode_job};
use crate::wire::{read_records, write_record};

/// Most open files of the job: a chat of 30 rooms needs some thousands.
const OPEN_FILES: u64 = 1 << 20;

/// Most bytes of a job's standard output that are sent. Chosen: a small part of the guest's memory.
const OUTPUT: usize = 16 << 20;
/// Most bytes of what a command of a list says.
const SAID: usize = 1 << 20;

/// One look at whether the kernel still boots: 20 of its ticks of 10 ms.
const LOOK: Duration = Duration::from_millis(200);
/// Most looks: what is not done after 20 s of the guest's time does not end by itself.
const LOOKS: u32 = 100;

/// True in the first process of a VM that [`crate::vm::run`] started. The program's entry point
/// asks this before anything else and calls [`main`] if so.
pub fn is_init() -> bool {
    std::process::id() == 1 && Path::new(GUEST_FILE).is_file()
}

/// Runs the VM's job and powers off. Does not return.
pub fn main() -> ! {
    if let Err(error) = serve() {
        // Nobody but the console listens any more.
        let _ = fs::write("/dev/console", format!("schedlab guest: {error}\n"));
    }
    power_off()
}

fn serve() -> io::Result<()> {
    for (kind, place) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        mount(kind, place)?;
    }
    // Files of a command that lie there on the host came with the archive, and a mount would hide them.
    if fs::read_dir("/tmp").map_or(true, |mut files| files.next().is_none()) {
        mount("tmpfs", "/tmp")?;
    }
    // Not every kernel has these; the job says what it misses.
    let _ = mount("tracefs", "/sys/kernel/tracing");
    let _ = mount("bpf", "/sys/fs/bpf");
    let _ = mount("cgroup2", "/sys/fs/cgroup");
    let _ = loopback_up();
    raise_limits();
    let (job, mut results) = await_job()?;
    let log = KernelLog::from_now();
    let code = run_job(&job);
    let (code, stdout) = match code {
        Ok(done) => done,
        Err(error) => (127, format!("starting the job: {error}\n").into_bytes()),
    };
    write_record(&mut results, "exit", code.to_string().as_bytes())?;
    write_record(&mut results, "stdout", &stdout)?;
    for path in &job.collect {
        if let Ok(data) = fs::read(path) {
            write_record(&mut results, &format!("file:{path}"), &data)?;
        }
    }
    for message in log.as_ref().map(KernelLog::messages).unwrap_or_default() {
        write_record(&mut results, "kernel", message.text.as_bytes())?;
        if message.is_warning() {
            write_record(&mut results, "warning", message.text.as_bytes())?;
        }
    }
    write_record(&mut results, "done", b"")?;
    results.flush()
}

/// The job, as soon as the machine is idle, and the port that its results go to. A machine whose initramfs has no job is stopped
/// here, and continues as the machine of one.
fn await_job() -> io::Result<(GuestJob, File)> {
    let here = fs::read(JOB_FILE);
    if here.is_err() {
        wait_until_idle();
        ports::stop()?;
    }
    let mut results = open_port(RESULT_PORT)?;
    write_record(&mut results, "started", b"")?;
    if let Ok(job) = here {
        wait_until_idle();
        return Ok((decode_job(read_records(&job)), results));
    }
    let mut job = decode_job(read_records(&ports::item(JOB_ITEM)?));
    for (path, executable, content) in std::mem::take(&mut job.files) {
        put(Path::new(&path), executable, &content)?;
    }
    Ok((job, results))
}

/// Writes a file of the job.
fn put(path: &Path, executable: bool, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mode = if executable { 0o755 } else { 0o644 };
    File::options().write(true).create_new(true).mode(mode).open(path)?.write_all(content)
}

/// Waits until the CPUs are idle nine tenths of the time, or as long as [`LOOKS`] allows. A kernel continues its own start
/// behind the first process, for seconds on an emulated CPU, and each of its workers is one hog more for the scheduler.
fn wait_until_idle() {
    let ticks = |from: usize, to: usize| -> u64 {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = stat.lines().next().unwrap_or_default();
        let counts = first.split_whitespace().skip(1 + from).take(to - from);
        counts.filter_map(|count| count.parse::<u64>().ok()).sum()
    };
    // user nice system idle iowait irq softirq steal
    let look = || (ticks(3, 5), ticks(0, 8));
    let mut before = look();
    for _ in 0..LOOKS {
        std::thread::sleep(LOOK);
        let now = look();
        let (idle, all) = (now.0 - before.0, now.1 - before.1);
        if all > 0 && 10 * idle >= 9 * all {
            return;
        }
        before = now;
    }
}

/// Runs the job's program; its exit code and standard output. Its standard error goes to the
/// host as it is written.
fn run_job(job: &GuestJob) -> io::Result<(i32, Vec<u8>)> {
    let mut command = Command::new("/proc/self/exe");
    let directory = job.directory.as_deref().unwrap_or("/tmp");
    fs::create_dir_all(directory)?;
    command.arg0("schedlab").args(&job.args).current_dir(directory).stdin(Stdio::null());
    command.env("HOME", "/root").env("TMPDIR", "/tmp").stdout(Stdio::piped());
    command.stderr(open_port(LOG_PORT).map_or_else(|_| Stdio::null(), Stdio::from));
    if let Some(path) = &job.path {
        command.env("PATH", path);
    }
    if let Some(libraries) = &job.libraries {
        let own = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        command.env("LD_LIBRARY_PATH", format!("{own}:{libraries}"));
    }
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().map_or_else(|| Ok(Vec::new()), |stdout| end_of(stdout, OUTPUT))?;
    let status = child.wait()?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok((code, stdout))
}

/// What a program writes until it closes its output: the last of it, behind a line that tells how much was left out.
fn end_of(mut output: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let (mut tail, mut bytes) = (Tail::new(most), vec![0; 1 << 16]);
    loop {
        match output.read(&mut bytes)? {
            0 => return Ok(tail.into_bytes()),
            count => tail.push(&bytes[..count]),
        }
    }
}

/// One of several commands of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Arguments of our program.
    pub args: Vec<String>,
    /// Where its exit code, on a line of its own, and its standard error go, should it fail.
    pub failure: String,
}

/// Writes a list of commands for [`run_list`].
///
/// # Errors
/// Never: it is written to memory.
pub fn encode_list(list: &[Listed]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for one in list {
        for arg in &one.args {
            write_record(&mut bytes, "arg", arg.as_bytes())?;
        }
        write_record(&mut bytes, "run", one.failure.as_bytes())?;
    }
    Ok(bytes)
}

fn decode_list(bytes: &[u8]) -> Vec<Listed> {
    let (mut list, mut args) = (Vec::new(), Vec::new());
    for record in read_records(bytes) {
        let text = String::from_utf8_lossy(&record.data).into_owned();
        match record.name.as_str() {
            "arg" => args.push(text),
            _ => list.push(Listed { args: std::mem::take(&mut args), failure: text }),
        }
    }
    list
}

/// Runs our program with the arguments of each command of the list at `path`, one after the other, each as soon as the
/// machine has become idle. What one of them says goes to our standard error; that of one that fails also to its file.
///
/// # Errors
/// A list that cannot be read. A command that fails is none.
pub fn run_list(path: &Path) -> io::Result<()> {
    let list = decode_list(&fs::read(path)?);
    for (number, one) in list.iter().enumerate() {
        writeln!(io::stderr(), "schedlab: run {} of {}", number + 1, list.len())?;
        if number > 0 {
            wait_until_idle();
        }
        let mut command = Command::new("/proc/self/exe");
        command.arg0("schedlab").args(&one.args).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let said = child.stderr.take().map_or_else(|| Ok(Vec::new()), |stderr| end_of(stderr, SAID))?;
        let status = child.wait()?;
        io::stderr().write_all(&said)?;
        if !status.success() {
            let code = status.code().unwrap_or(-1);
            fs::write(&one.failure, [format!("{code}\n").as_bytes(), &said].concat())?;
        }
    }
    Ok(())
}

fn mount(kind: &str, place: &str) -> io::Result<()> {
    let _ = fs::create_dir_all(place);
    let text = |s: &str| CString::new(s).map_err(io::Error::other);
    let (kind, place) = (text(kind)?, text(place)?);
    // SAFETY: all pointers are NUL-terminated strings that live across the call, or null.
    let done = unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Turns the loopback interface on, for TCP channels.
fn loopback_up() -> io::Result<()> {
    // SAFETY: ifreq is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = libc::c_char::from_ne_bytes([b'l']);
    request.ifr_name[1] = libc::c_char::from_ne_bytes([b'o']);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: plain system calls; the request outlives them and the descriptor is closed.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let done = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw mut request);
        let error = io::Error::last_os_error();
        libc::close(socket);
        if done == 0 { Ok(()) } else { Err(error) }
    }
}

fn raise_limits() {
    let _ = fs::write("/proc/sys/fs/nr_open", OPEN_FILES.to_string());
    let _ = fs::write("/proc/sys/kernel/pid_max", "4194304");
    let _ = fs::write("/proc/sys/kernel/sem", "32000 1024000000 500 32000");
    let no_limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let files = libc::rlimit { rlim_cur: OPEN_FILES, rlim_max: OPEN_FILES };
    for (which, limit) in [
        (libc::RLIMIT_NOFILE, files),
        (libc::RLIMIT_NPROC, no_limit),
        (libc::RLIMIT_MEMLOCK, no_limit),
        (libc::RLIMIT_MSGQUEUE, no_limit),
        (libc::RLIMIT_RTPRIO, no_limit),
    ] {
        // SAFETY: setrlimit reads one rlimit that lives across the call.
        unsafe { libc::setrlimit(which, &raw const limit) };
    }
}

/// The virtio-serial port with this name; there is no udev that would link it.
fn open_port(name: &str) -> io::Result<File> {
    for entry in fs::read_dir("/sys/class/virtio-ports")? {
        let entry = entry?;
        let noted = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if noted.trim() == name {
            let device: PathBuf = Path::new("/dev").join(entry.file_name());
            return File::options().write(true).open(device);
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no virtio port named {name}")))
}

fn power_off() -> ! {
    // SAFETY: plain system calls without pointers; reboot does not return when it succeeds.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    std::process::exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_were_written() {
        let one = |args: &[&str], failure: &str| Listed {
            args: args.iter().map(ToString::to_string).collect(),
            failure: failure.to_string(),
        };
        let list = [one(&["run", "-s", "o1"], "/tmp/0"), one(&[], "/tmp/1"), one(&["list"], "/tmp/2")];
        assert_eq!(decode_list(&encode_list(&list).unwrap()), list);
    }
}
