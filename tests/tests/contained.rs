//! What loaders, `exec:COMMAND`, leave behind and reach: nothing, whenever the command dies and whatever they call.
//!
//! Says "skipped" with the reason where there is no compiler.

#![cfg(target_arch = "x86_64")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use schedlab_tests::{Schedlab, with_loaded_object};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The loader whose sweeps are killed.
const LOADER: &str = env!("CARGO_BIN_EXE_own-loader");

/// The workload of its runs: long enough for several turns of the loader.
const HOGS: &str = "cpuhog:ntasks=4,ttime=1s";

/// However a sweep dies, its loaders die with it, and nothing stays where temporary files go. `SCHEDLAB_KILLS` says how many sweeps
/// are killed by each signal (4).
#[test]
fn a_killed_sweep_leaves_nothing() {
    let Some(lab) = with_loaded_object("loader-killed") else { return };
    let (command, loader, files) =
        (lab.path("killed-schedlab"), lab.path("killed-loader"), lab.path("files"));
    std::fs::copy(lab.binary(), &command).unwrap();
    std::fs::copy(LOADER, &loader).unwrap();
    std::fs::create_dir(&files).unwrap();
    let schedulers = format!("eevdf,mine=exec:{} loaded.bpf.o", loader.display());
    let rounds = std::env::var("SCHEDLAB_KILLS").map_or(4, |text| text.parse::<u64>().expect("a number"));
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGKILL] {
        for round in 0..rounds {
            let mut sweep = Command::new(&command);
            // Many times as long as the longest delay.
            sweep.args(["compare", "-q", "-c", "2", "--runs", "1000", "-w", HOGS, "-s", &schedulers]);
            sweep.current_dir(&lab.folder).env("TMPDIR", &files).stdout(Stdio::null()).stderr(Stdio::null());
            // A thread beside this one that forks holds the file of the copy open until it executes something.
            let mut sweep = loop {
                match sweep.spawn() {
                    Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    started => break started.unwrap(),
                }
            };
            // All stages of a sweep are met: the first loader starts after some 10 ms.
            std::thread::sleep(Duration::from_millis(round * 37 % 251));
            assert!(
                sweep.try_wait().unwrap().is_none(),
                "signal {signal}, round {round}: it has ended before"
            );
            // SAFETY: a plain system call on a child that has not been waited for.
            unsafe { libc::kill(sweep.id().cast_signed(), signal) };
            sweep.wait().unwrap();
            // A child that has not become the loader yet has the command's own line.
            let left = || living(&[&command, &loader]);
            let soon = (0..500).any(|_| {
                left() == 0 || {
                    std::thread::sleep(Duration::from_millis(10));
                    false
                }
            });
            assert!(soon, "signal {signal}, round {round}: {} processes are left", left());
            assert_eq!(std::fs::read_dir(&files).unwrap().count(), 0, "signal {signal}, round {round}");
        }
    }
}

/// Processes of these programs, but for those that wait to be reaped.
fn living(programs: &[&Path]) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let of = |line: &Vec<u8>| {
        let mut parts = line.split(|byte| *byte == 0);
        parts.any(|part| programs.iter().any(|program| part == program.as_os_str().as_bytes()))
    };
    lines.filter(of).count()
}

/// Random calls of a loader reach nothing outside: neither files nor a socket nor a process. `SCHEDLAB_CALLS` says how many are made
/// (2,000) with the rights of the test itself. Where that is root, as many are made by another user.
#[test]
fn random_calls_reach_nothing() {
    let Some(lab) = with_loaded_object("loader-random") else { return };
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
        // Nothing of it changes once it has become the other program and sleeps.
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
        let kept = ["State", "TracerPid", "Uid", "ShdPnd", "Seccomp:", "Cpus_allowed:"];
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

/// A filter, as containers have it, under which a system call fails with `error`.
fn without_call(call: i64, error: i32) -> BpfProgram {
    let (refused, arch) = (SeccompAction::Errno(error.cast_unsigned()), TargetArch::x86_64);
    let rules = [(call, Vec::new())].into();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).expect("one rule");
    filter.try_into().expect("it compiles")
}

/// Puts the process that a command becomes under a filter.
fn confine(command: &mut Command, filter: BpfProgram) {
    let apply = move || apply_filter(&filter).map_err(std::io::Error::other);
    // SAFETY: the filter makes two system calls and touches nothing of the parent's.
    unsafe { command.pre_exec(apply) };
}

/// Runs a command on a host without a system call: exit code and standard error.
fn without(lab: &Schedlab, (call, error): (i64, i32), args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(lab.binary());
    command.args(args).current_dir(&lab.folder).stdin(Stdio::null());
    confine(&mut command, without_call(call, error));
    let done = command.output().unwrap();
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn a_call_that_the_host_refuses_is_named_with_its_cure() {
    let Some(lab) = with_loaded_object("loader-refused-calls") else { return };
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

/// Each run that is not quiet reports a host without Landlock, and what it would have refused is refused all the same.
#[test]
fn what_the_sandbox_lacks_is_told_and_the_tracer_holds() {
    let Some(lab) = with_loaded_object("loader-without-landlock") else { return };
    let landlock = (libc::SYS_landlock_create_ruleset, libc::ENOSYS);
    let sim = ["sim", "-s", "o1", "-w", "cpuhog:ttime=1ms"];
    let (code, told) = without(&lab, landlock, &sim);
    assert_eq!((code, told.lines().count()), (Some(0), 1), "{told}");
    assert!(told.contains("sandbox: files are not restricted"), "{told}");
    assert_eq!(without(&lab, landlock, &[&sim[..], &["-q"]].concat()), (Some(0), String::new()));
    let mut check = Command::new(lab.binary());
    check.args(["check", &format!("exec:{LOADER} loaded.bpf.o hostile")]).current_dir(&lab.folder);
    confine(&mut check, without_call(landlock.0, landlock.1));
    let out = String::from_utf8_lossy(&check.output().unwrap().stdout).into_owned();
    for what in ["read", "write", "home", "socket", "fork", "exec", "kill", "trace", "address", "message"] {
        assert!(out.contains(&format!("{what}: false")), "{what}: {out}");
    }
}

#[test]
fn a_script_is_no_loader() {
    let Some(lab) = with_loaded_object("loader-script") else { return };
    std::fs::write(lab.path("start.sh"), "#!/bin/sh -e\nexec true\n").unwrap();
    let ended = lab.run(&["sim", "-s", "exec:./start.sh", "-w", HOGS], Duration::from_secs(60));
    assert_eq!((ended.code, ended.err.lines().count()), (2, 1), "{}", ended.err);
    assert!(ended.err.contains("a script for /bin/sh -e, and a loader is a program"), "{}", ended.err);
}
