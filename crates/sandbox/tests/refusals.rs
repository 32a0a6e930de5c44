//! A process in the sandbox tries what it gave up, and what it kept. Each attempt is a process of its own: this very
//! program, since no process gets out of a sandbox.

#![allow(clippy::print_stdout, reason = "a test without the harness tells what it did itself")]

use schedlab_sandbox::Sandbox;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The file that may be read, and one beside it.
const INPUT: &str = "input";
const SECRET: &str = "secret";
/// The folder of results, and the older result in it.
const RESULTS: &str = "results";
const OLDER: &str = "results/older";

type Attempt = fn(&Path) -> io::Result<()>;

/// What a sandboxed process is refused.
const REFUSED: &[(&str, Attempt)] = &[
    ("running a program", |_| Command::new("/bin/true").spawn().map(drop)),
    ("replacing itself", |_| {
        use std::os::unix::process::CommandExt;
        Err(Command::new("/bin/true").exec())
    }),
    ("an internet socket", |_| UdpSocket::bind("127.0.0.1:0").map(drop)),
    ("a Unix socket", |_| UnixDatagram::unbound().map(drop)),
    ("a pair of sockets", |_| UnixStream::pair().map(drop)),
    // SAFETY: the call takes numbers only.
    ("watching its parent", |_| result(unsafe { libc::ptrace(libc::PTRACE_ATTACH, libc::getppid(), 0, 0) })),
    // SAFETY: the call takes numbers only, and 0 sends nothing.
    ("a signal to its parent", |_| result(i64::from(unsafe { libc::kill(libc::getppid(), 0) }))),
    // SAFETY: the child, if there is one, ends at once.
    ("a child process", |_| match unsafe { libc::fork() } {
        // SAFETY: ends the child.
        0 => unsafe { libc::_exit(0) },
        pid => result(i64::from(pid)),
    }),
    // SAFETY: a null attribute is refused by every kernel, with another error.
    ("loading BPF", |_| result(unsafe { libc::syscall(libc::SYS_bpf, 0, 0, 0) })),
    // SAFETY: as above.
    ("an io_uring", |_| result(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, 0) })),
    // SAFETY: the call takes a number only.
    ("a namespace", |_| result(i64::from(unsafe { libc::unshare(libc::CLONE_NEWUSER) }))),
    ("a thread in a namespace of its own", |_| {
        let stack = vec![0u64; 8192].leak().as_mut_ptr_range().end;
        let flags = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_NEWUTS;
        // SAFETY: the thread, if there is one, ends at once, on a stack that stays.
        result(i64::from(unsafe { libc::clone(end_thread, stack.cast(), flags, std::ptr::null_mut()) }))
    }),
    ("characters for the terminal's input", |_| {
        let letter = b'x';
        // SAFETY: the argument points to a byte.
        result(i64::from(unsafe { libc::ioctl(0, libc::TIOCSTI, &raw const letter) }))
    }),
    ("signals of a descriptor to others", |_| {
        // SAFETY: the call takes numbers only.
        result(i64::from(unsafe { libc::fcntl(0, libc::F_SETOWN, 1) }))
    }),
    ("a file beside its input", |dir| File::open(dir.join(SECRET)).map(drop)),
    ("a file of the system", |_| File::open("/etc/passwd").map(drop)),
    ("changing its input", |dir| File::options().append(true).open(dir.join(INPUT)).map(drop)),
    ("a new file elsewhere", |dir| File::create(dir.join("new")).map(drop)),
    ("a folder among the results", |dir| fs::create_dir(dir.join("results/new"))),
    ("a link among the results", |dir| std::os::unix::fs::symlink("/etc/passwd", dir.join("results/new"))),
    ("a result moved elsewhere", |dir| fs::rename(dir.join(OLDER), dir.join("older"))),
    ("removing its input", |dir| fs::remove_file(dir.join(INPUT))),
];

/// What it keeps.
const KEPT: &[(&str, Attempt)] = &[
    ("reading its input", |dir| {
        let mut text = String::new();
        File::open(dir.join(INPUT))?.read_to_string(&mut text).map(drop)
    }),
    ("replacing a result", |dir| {
        let (draft, place) = (dir.join("results/draft"), dir.join(OLDER));
        let mut file = File::create(&draft)?;
        file.write_all(b"new")?;
        file.sync_all()?;
        fs::rename(&draft, &place)?;
        if fs::read(&place)? == b"new" { Ok(()) } else { Err(io::Error::other("the result is not there")) }
    }),
    ("a named device", |_| File::create("/dev/null")?.write_all(b"x")),
    ("threads, under the same rules", |dir| {
        let secret = dir.join(SECRET);
        std::thread::Builder::new()
            .spawn(move || match File::open(secret) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                other => Err(io::Error::other(format!("a thread got {other:?}"))),
            })?
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    }),
    ("executable memory", |_| {
        // SAFETY: an anonymous mapping at a place of the kernel's choice touches nothing.
        let place = unsafe {
            let prot = libc::PROT_READ | libc::PROT_EXEC;
            libc::mmap(std::ptr::null_mut(), 4096, prot, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if place == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }),
    ("random hash maps", |_| {
        let map = std::collections::HashMap::from([(1, 2)]);
        if map.len() == 1 { Ok(()) } else { Err(io::Error::other("a map forgets")) }
    }),
];

/// All that a thread does which must not be there.
extern "C" fn end_thread(_: *mut libc::c_void) -> libc::c_int {
    // SAFETY: ends this thread alone.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    0
}

fn result(code: i64) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The sandboxed process: exit code 0 if the attempt succeeds, 1 if it is refused, 2 for another error, 3 where the
/// kernel lacks something of the sandbox.
fn attempt(name: &str, dir: &Path, writes: bool) -> ExitCode {
    let all = REFUSED.iter().chain(KEPT).find(|(known, _)| *known == name);
    let (_, body) = all.expect("the parent names a known attempt");
    let mut sandbox = Sandbox::new().may_read([dir.join(INPUT), dir.join("missing")]);
    if writes {
        sandbox = sandbox
            .may_replace_in([dir.join(RESULTS)])
            .may_write(["/dev/null", "/dev/stdout"].map(PathBuf::from));
    }
    let missing = sandbox.enter();
    if !missing.0.is_empty() {
        println!("{}", missing.0.join("; "));
        let lacking = missing.0.iter().all(|what| what.contains("no Landlock") || what.contains("seccomp"));
        return ExitCode::from(if lacking { 3 } else { 2 });
    }
    match body(dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            let refused = [libc::EPERM, libc::EACCES].map(Some).contains(&error.raw_os_error());
            ExitCode::from(if refused { 1 } else { 2 })
        }
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, marker, name, dir, writes] = args.as_slice()
        && marker == "--attempt"
    {
        return attempt(name, Path::new(dir), writes == "true");
    }
    let dir = std::env::temp_dir().join(format!("schedlab-refusals-{}", std::process::id()));
    fs::create_dir_all(dir.join(RESULTS)).expect("the test has a folder");
    for (file, text) in [(INPUT, "input"), (SECRET, "secret"), (OLDER, "old")] {
        fs::write(dir.join(file), text).expect("the test writes its files");
    }
    let mut failures = 0;
    let cases = REFUSED.iter().map(|(name, _)| (*name, 1, true));
    // Without results to write the filter refuses more by itself.
    let cases = cases.chain(REFUSED.iter().map(|(name, _)| (*name, 1, false)));
    let cases = cases.chain(KEPT.iter().map(|(name, _)| (*name, 0, true)));
    for (name, wanted, writes) in cases {
        let own = std::env::current_exe().expect("a program knows itself");
        let output = Command::new(own).args(["--attempt", name]).arg(&dir).arg(writes.to_string()).output();
        let output = output.expect("the program starts again");
        let said = String::from_utf8_lossy(&output.stdout);
        let verdict = match output.status.code() {
            Some(code) if code == wanted => "ok",
            Some(3) => "skipped",
            _ => {
                failures += 1;
                "FAILED"
            }
        };
        println!("{verdict}: {name} (results: {writes}): {} {}", output.status, said.trim());
    }
    fs::remove_dir_all(&dir).expect("the folder can be removed");
    ExitCode::from(u8::from(failures > 0))
}
