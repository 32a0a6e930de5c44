//! `--engine`: all give the same bytes, and a host that forbids compiled code is told of once.

use crate::{Done, Folder};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

const SIM: &str = "sim -s o1 -w chat:rooms=1,messages=5 -c 2 --json -";
const COMPARE: &str = "compare -s vanilla,o1+swap -w swap-pipe:hogs=1,iterations=2 -c 2 --runs 2 --json -";
const REPRODUCE: &str = "reproduce libenzi --quick --document-table keyboard --json -";

#[test]
fn all_engines_give_the_same_bytes() {
    let folder = Folder::new();
    let default = folder.run(SIM).ok();
    for line in [SIM, COMPARE, REPRODUCE] {
        let [auto, compiled, interpreted] = ["auto", "compiled", "interpreted"]
            .map(|engine| folder.run(&format!("{line} --engine {engine}")).ok());
        assert!(auto.contains("bpf_insns_per_switch"), "{auto}");
        assert!(auto == compiled && auto == interpreted, "{line}");
        assert_eq!(line == SIM, auto == default, "auto is the default of {line}");
    }
}

#[test]
fn other_engines_are_refused() {
    let folder = Folder::new();
    for line in [SIM, COMPARE, REPRODUCE] {
        let done = folder.run(&format!("{line} --engine jit"));
        done.refused(2, &["'jit'", "auto, compiled, interpreted"]);
    }
}

#[test]
fn guest_memory_is_a_size() {
    let folder = Folder::new();
    let sim = "sim -s o1 -w cpuhog:ntasks=2,ttime=10ms -c 2 --guest-memory";
    for size in ["0", "9G", "x", "512", "18446744073709551615G"] {
        folder.run(&format!("{sim} {size}")).refused(2, &["from 1M to 8G"]);
    }
    folder.run(&format!("{sim} 64M")).ok();
    folder.run("check o1 --guest-memory 64M").ok();
}

/// Takes the right to make memory executable from this process and those that it becomes: `mprotect` with `PROT_EXEC` is
/// not permitted. Programs are loaded with `mmap`, which still is.
#[cfg(target_arch = "x86_64")]
fn forbid_executable_memory() -> std::io::Result<()> {
    let code = |instruction: u32| u16::try_from(instruction).unwrap_or(0);
    let (load, equal, any, end) = (
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS),
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K),
        code(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K),
        code(libc::BPF_RET | libc::BPF_K),
    );
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // struct seccomp_data: the system call's number at 0, the third argument's low half at 32.
    let mut filter = [
        step(load, 0, 0, 0),
        step(equal, 0, 3, libc::SYS_mprotect as u32),
        step(load, 0, 0, 32),
        step(any, 0, 1, libc::PROT_EXEC as u32),
        step(end, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EACCES as u32),
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

#[test]
#[cfg(target_arch = "x86_64")]
fn a_host_without_executable_memory_interprets_and_says_so_once() {
    let folder = Folder::new();
    let forbidden = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = folder.command(&words);
        // SAFETY: the function makes two system calls and touches nothing of the parent's.
        unsafe { command.pre_exec(forbid_executable_memory) };
        Done::of(command.stdin(Stdio::null()).output().unwrap())
    };
    let told = "schedlab: this host gives no executable memory: Permission denied (os error 13); \
                programs are interpreted: results are the same, runs take longer\n";
    for line in [SIM, COMPARE, REPRODUCE] {
        let done = forbidden(line);
        assert_eq!((done.code, done.err.as_str()), (0, told), "{line}");
        assert_eq!(done.out, folder.run(line).ok(), "{line}");
    }
    // No word comes where the user does not want it, or where the runs have nothing to compile.
    forbidden(&format!("{SIM} -q")).ok();
    forbidden(&format!("{SIM} --engine interpreted")).ok();
    forbidden("sim -s eevdf -w cpuhog:ttime=1ms").ok();
}
