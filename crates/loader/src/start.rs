//! The beginning of the traced process, and what of the host it never sees.

use crate::command::Command;
use crate::tracee::{Stop, Tracee};
use schedlab_base::Prng;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// Address space and private memory of a loader, in bytes. Chosen: an arena may take 4 GiB of the first, a loader of a few hundred
/// MiB is a large one.
const ADDRESS_SPACE: u64 = 24 << 30;
const PRIVATE: u64 = 2 << 30;
/// What it may write to a file of its own (its output).
const FILE: u64 = 64 << 20;
/// Open descriptors.
const DESCRIPTORS: u64 = 4096;

/// Entries of the auxiliary vector (`elf/auxvec.h`): its end, random bytes, the vDSO.
const AT_NULL: u64 = 0;
const AT_IGNORE: u64 = 1;
const AT_RANDOM: u64 = 25;
const AT_SYSINFO_EHDR: u64 = 33;

/// Starts the program, stopped before its first instruction. Its output goes to `output`.
///
/// # Errors
/// The host's: no such file, no permission.
pub(crate) fn start(command: &Command, output: &File, prng: &mut Prng) -> io::Result<Tracee> {
    let mut process = std::process::Command::new(&command.program);
    process.arg0(&command.words[0]).args(&command.words[1..]);
    process
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/")
        .env("LANG", "C.UTF-8")
        .env("NO_COLOR", "1")
        .env("TERM", "dumb");
    process.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    let parent = std::process::id();
    // SAFETY: system calls on numbers and on what lies on this stack, as is allowed between fork and exec.
    unsafe { process.pre_exec(move || before_exec(parent)) };
    let child = process.spawn()?;
    let tracee = Tracee(child.id() as libc::pid_t);
    // It stops when the new program is there.
    match tracee.wait()? {
        Stop::Signal(libc::SIGTRAP) => {}
        other => return Err(io::Error::other(format!("it did not stop at its start: {other:?}"))),
    }
    tracee.set_options()?;
    hide_host(tracee, prng).ok_or_else(|| io::Error::other("its stack cannot be read"))?;
    Ok(tracee)
}

/// Between fork and exec: what the program gives up, and how it ends with the command, whose process is `parent`.
fn before_exec(parent: u32) -> io::Result<()> {
    let done = |result: libc::c_int| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    let limits = [
        (libc::RLIMIT_AS, ADDRESS_SPACE),
        (libc::RLIMIT_DATA, PRIVATE),
        (libc::RLIMIT_FSIZE, FILE),
        (libc::RLIMIT_NOFILE, DESCRIPTORS),
        (libc::RLIMIT_CORE, 0),
    ];
    for (which, most) in limits {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limit is written only.
        done(unsafe { libc::getrlimit(which, &raw mut limit) })?;
        // A lower one of the host's holds.
        let most = most.min(limit.rlim_max);
        limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the limit is read only.
        done(unsafe { libc::setrlimit(which, &raw const limit) })?;
    }
    // SAFETY: calls on numbers.
    unsafe {
        // What the command has inherited from whoever started it is not the loader's.
        let close = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
        done(libc::close_range(3, libc::c_uint::MAX, close))?;
        // Signals of the terminal are not for it.
        libc::setsid();
        libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // A command that was killed before that sends no signal any more, and would leave a program stopped indefinitely.
        if libc::getppid().cast_unsigned() != parent {
            libc::_exit(1);
        }
        done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        done(libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV))?;
        done(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) as libc::c_int)
    }
}

/// Takes the vDSO, whose clock is the host's, from the auxiliary vector, and gives it other random bytes.
fn hide_host(tracee: Tracee, prng: &mut Prng) -> Option<()> {
    let mut at = tracee.registers().ok()?.rsp;
    let mut next = |tracee: Tracee| {
        let word = tracee.number::<8>(at);
        at += 8;
        word.map(|word| (word, at - 8))
    };
    // The number of arguments, they, a zero, the environment, a zero.
    next(tracee)?;
    for _ in 0..2 {
        while next(tracee)?.0 != 0 {}
    }
    loop {
        let (key, place) = next(tracee)?;
        let (value, _) = next(tracee)?;
        match key {
            AT_NULL => return Some(()),
            AT_SYSINFO_EHDR => tracee.write(place, &AT_IGNORE.to_le_bytes())?,
            AT_RANDOM => {
                let bytes = [prng.next_u64().to_le_bytes(), prng.next_u64().to_le_bytes()].concat();
                tracee.write(value, &bytes)?;
            }
            _ => {}
        }
    }
}

/// The instruction that has raised this signal, if it is one that reads the time stamp counter: its length.
pub(crate) fn reads_counter(tracee: Tracee, rip: u64) -> Option<u64> {
    match tracee.read_some(rip, 3).as_slice() {
        [0x0f, 0x31, ..] => Some(2),
        [0x0f, 0x01, 0xf9] => Some(3),
        _ => None,
    }
}

/// A file in memory that nobody else has.
pub(crate) fn memory_file(name: &std::ffi::CStr) -> io::Result<File> {
    use std::os::fd::FromRawFd;
    // SAFETY: the name ends with a zero byte.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours alone.
    let file = unsafe { File::from_raw_fd(fd) };
    // What is written to it goes to its end, whoever writes.
    // SAFETY: numbers only.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) };
    Ok(file)
}
