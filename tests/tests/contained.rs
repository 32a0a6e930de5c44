//! What loaders, `exec:COMMAND`, leave behind and reach: nothing, whenever the command dies and whatever they call.
//!
//! Says "skipped" with the reason where there is no compiler.

#![cfg(target_arch = "x86_64")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use schedlab_tests::{Schedlab, clang, compile};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The loader whose sweeps are killed.
const LOADER: &str = env!("CARGO_BIN_EXE_own-loader");

/// The workload of its runs: long enough for several turns of the loader.
const HOGS: &str = "cpuhog:ntasks=4,ttime=1s";

fn lab(test: &str) -> Option<Schedlab> {
    if clang().is_none() {
        println!("skipped: no clang 19 or newer (Debian, Ubuntu: apt-get install clang-19)");
        return None;
    }
    let lab = Schedlab::new(test);
    compile("loaded", "bpf", &lab.path("loaded.bpf.o")).unwrap();
    Some(lab)
}

/// However a sweep dies, its loaders die with it, and nothing stays where temporary files go. `SCHEDLAB_KILLS` says how many sweeps
/// are killed by each signal (4).
#[test]
fn a_killed_sweep_leaves_nothing() {
    let Some(lab) = lab("loader-killed") else { return };
    let (own, files) = (lab.path("killed-loader"), lab.path("files"));
    std::fs::copy(LOADER, &own).unwrap();
    std::fs::create_dir(&files).unwrap();
    let schedulers = format!("eevdf,mine=exec:{} loaded.bpf.o", own.display());
    let rounds = std::env::var("SCHEDLAB_KILLS").map_or(4, |text| text.parse::<u64>().expect("a number"));
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGKILL] {
        for round in 0..rounds {
            let mut sweep = Command::new(lab.binary());
            sweep.args(["compare", "-q", "-c", "2", "--runs", "3", "-w", HOGS, "-s", &schedulers]);
            sweep.current_dir(&lab.folder).env("TMPDIR", &files).stdout(Stdio::null()).stderr(Stdio::null());
            let mut sweep = sweep.spawn().unwrap();
            // All stages of a sweep are met: the first loader starts after some 10 ms.
            std::thread::sleep(Duration::from_millis(round * 37 % 251));
            // SAFETY: a plain system call on a child that has not been waited for.
            unsafe { libc::kill(sweep.id().cast_signed(), signal) };
            sweep.wait().unwrap();
            let left = || living(&own.display().to_string());
            let soon = (0..500).any(|_| {
                left() == 0 || {
                    std::thread::sleep(Duration::from_millis(10));
                    false
                }
            });
            assert!(soon, "signal {signal}, round {round}: {} loaders are left", left());
            assert_eq!(std::fs::read_dir(&files).unwrap().count(), 0, "signal {signal}, round {round}");
        }
    }
}

/// Processes with this word in their command lines, but for those that wait to be reaped.
fn living(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|part| part == word.as_bytes())).count()
}

/// Random calls of a loader reach nothing outside: neither files nor a socket nor a process. `SCHEDLAB_CALLS` says how many are made
/// (2,000) by the user that runs the test, and as many by another one where that is root.
#[test]
fn random_calls_reach_nothing() {
    let Some(lab) = lab("loader-random") else { return };
    let wanted = std::env::var("SCHEDLAB_CALLS").map_or(2_000, |text| text.parse::<u64>().expect("a number"));
    // SAFETY: a plain system call.
    let root = unsafe { libc::geteuid() } == 0;
    for user in [None, Some(65_534)].into_iter().take(if root { 2 } else { 1 }) {
        let canary = Canary::new(user);
        let mut made = 0;
        for seed in 0.. {
            made += canary.calls(&lab, user, seed);
            canary.is_untouched(seed);
            if made >= wanted {
                break;
            }
            assert!(seed < wanted, "loaders end before they have made calls");
        }
        println!("user {}: {made} calls reached nothing", user.unwrap_or(0));
    }
}

/// What calls of a loader may not reach: a folder with a file, a socket that takes messages, and a process.
struct Canary {
    folder: tempfile::TempDir,
    socket: std::os::unix::net::UnixDatagram,
    process: std::process::Child,
    before: String,
}

impl Canary {
    /// One that belongs to a user.
    fn new(user: Option<u32>) -> Canary {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "untouched").unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        std::fs::write(path("folder/file"), "untouched").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        let socket = std::os::unix::net::UnixDatagram::bind(path("socket")).unwrap();
        socket.set_nonblocking(true).unwrap();
        for place in ["", "file", "folder", "folder/file", "socket"] {
            if let Some(user) = user {
                std::os::unix::fs::chown(path(place), Some(user), Some(user)).unwrap();
            }
        }
        let mut process = Command::new("sleep");
        process.arg("1000");
        if let Some(user) = user {
            process.uid(user).gid(user);
        }
        let process = process.spawn().unwrap();
        // From when on nothing of it changes: it is the other program, and sleeps.
        let settled =
            |status: &str| status.starts_with("Name:\tsleep\n") && status.contains("\tS (sleeping)");
        while !settled(&std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap()) {}
        let mut canary = Canary { folder, socket, process, before: String::new() };
        canary.before = canary.state();
        canary
    }

    /// Lets a loader make random calls, and says how many it has made.
    fn calls(&self, lab: &Schedlab, user: Option<u32>, seed: u64) -> u64 {
        let (folder, pid) = (self.folder.path().display(), self.process.id());
        let loader = env!("CARGO_BIN_EXE_random-calls");
        let scheduler = format!("exec:{loader} loaded.bpf.o {seed} 1000 {folder} {pid}");
        let mut check = Command::new(lab.binary());
        check.args(["check", &scheduler]).current_dir(&lab.folder).stdin(Stdio::null());
        if let Some(user) = user {
            check.uid(user).gid(user);
        }
        let done = check.output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code().is_some_and(|code| code < 5), "seed {seed}: {:?}: {text}", done.status);
        50 * text.matches("made 50").count() as u64
    }

    /// What can be seen of it.
    fn state(&self) -> String {
        let mut text = String::new();
        for place in ["", "file", "folder", "folder/file", "socket", "link"] {
            let meta = std::fs::symlink_metadata(self.folder.path().join(place)).unwrap();
            let times = (meta.mtime_nsec(), meta.ctime_nsec());
            text += &format!(
                "{place}: {} {} {} {} {times:?}\n",
                meta.mode(),
                meta.uid(),
                meta.len(),
                meta.nlink()
            );
        }
        let names = std::fs::read_dir(self.folder.path()).unwrap().count();
        let of_process = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", self.process.id()));
        let status = of_process("status").unwrap();
        let kept = ["State", "TracerPid", "Uid", "SigQ", "ShdPnd", "Seccomp:", "Cpus_allowed:"];
        let status: Vec<&str> =
            status.lines().filter(|line| kept.iter().any(|k| line.starts_with(k))).collect();
        let stat = of_process("stat").unwrap();
        let nice =
            stat.rsplit(") ").next().unwrap().split(' ').skip(15).take(2).collect::<Vec<_>>().join(" ");
        format!("{text}{names} {status:?} {nice} {}", of_process("limits").unwrap())
    }

    fn is_untouched(&self, seed: u64) {
        assert_eq!(self.state(), self.before, "seed {seed}");
        assert_eq!(std::fs::read_to_string(self.folder.path().join("file")).unwrap(), "untouched");
        let read = self.socket.recv(&mut [0; 16]);
        assert!(
            read.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock),
            "seed {seed}: a message came"
        );
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.process.kill().expect("it lives");
        self.process.wait().expect("it is a child");
    }
}

/// Takes a system call from this process and those that it becomes, as a container's filter does: it fails with `error`.
fn forbid(call: i64, error: i32) -> std::io::Result<()> {
    let code = |instruction: u32| u16::try_from(instruction).unwrap_or(0);
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let end = code(libc::BPF_RET | libc::BPF_K);
    let mut filter = [
        step(code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), 0, 0, 0),
        step(code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K), 0, 1, call as u32),
        step(end, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        step(end, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: both calls change only what this process may do; the program is alive during the second.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Runs a command on a host without a system call: exit code and standard error.
fn without(lab: &Schedlab, (call, error): (i64, i32), args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(lab.binary());
    command.args(args).current_dir(&lab.folder).stdin(Stdio::null());
    // SAFETY: the function makes two system calls and touches nothing of the parent's.
    unsafe { command.pre_exec(move || forbid(call, error)) };
    let done = command.output().unwrap();
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn a_call_that_the_host_refuses_is_named_with_its_cure() {
    let Some(lab) = lab("loader-refused-calls") else { return };
    let scheduler = format!("mine=exec:{LOADER} loaded.bpf.o");
    for (name, call) in [
        ("ptrace", libc::SYS_ptrace),
        ("memfd_create", libc::SYS_memfd_create),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ] {
        for error in [libc::EPERM, libc::ENOSYS] {
            let (code, told) = without(&lab, (call, error), &["sim", "-q", "-s", &scheduler, "-w", HOGS]);
            assert_eq!((code, told.lines().count()), (Some(5), 1), "{name}: {told}");
            assert!(told.contains(&format!("refuses the system call {name} (")), "{told}");
            assert!(told.contains("--cap-add SYS_PTRACE"), "{told}");
        }
    }
}

/// A host without Landlock is told of in each run that is not quiet, and what it would have refused is refused all the same.
#[test]
fn what_the_sandbox_lacks_is_told_and_the_tracer_holds() {
    let Some(lab) = lab("loader-without-landlock") else { return };
    let landlock = (libc::SYS_landlock_create_ruleset, libc::ENOSYS);
    let sim = ["sim", "-s", "o1", "-w", "cpuhog:ttime=1ms"];
    let (code, told) = without(&lab, landlock, &sim);
    assert_eq!((code, told.lines().count()), (Some(0), 1), "{told}");
    assert!(told.contains("sandbox: files are not restricted"), "{told}");
    assert_eq!(without(&lab, landlock, &[&sim[..], &["-q"]].concat()), (Some(0), String::new()));
    let mut check = Command::new(lab.binary());
    check.args(["check", &format!("exec:{LOADER} loaded.bpf.o hostile")]).current_dir(&lab.folder);
    // SAFETY: as in `without`.
    unsafe { check.pre_exec(move || forbid(landlock.0, landlock.1)) };
    let out = String::from_utf8_lossy(&check.output().unwrap().stdout).into_owned();
    for what in ["read", "write", "home", "socket", "fork", "exec", "kill", "trace", "address", "message"] {
        assert!(out.contains(&format!("{what}: false")), "{what}: {out}");
    }
}

#[test]
fn a_script_is_no_loader() {
    let Some(lab) = lab("loader-script") else { return };
    std::fs::write(lab.path("start.sh"), "#!/bin/sh -e\nexec true\n").unwrap();
    let ended = lab.run(&["sim", "-s", "exec:./start.sh", "-w", HOGS], Duration::from_secs(60));
    assert_eq!((ended.code, ended.err.lines().count()), (2, 1), "{}", ended.err);
    assert!(ended.err.contains("a script for /bin/sh -e, and a loader is a program"), "{}", ended.err);
}
