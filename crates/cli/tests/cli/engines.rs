//! `--engine`: all give the same bytes, and a host that forbids compiled code is reported once.

use crate::{Done, Folder};
#[cfg(target_arch = "x86_64")]
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};
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

/// A filter that takes the right to make memory executable: `mprotect` with `PROT_EXEC` is not permitted. Programs are loaded with
/// `mmap`, which still is.
#[cfg(target_arch = "x86_64")]
fn without_executable_memory() -> BpfProgram {
    let wanted = libc::PROT_EXEC as u64;
    let executable =
        SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(wanted), wanted);
    let rule = SeccompRule::new(vec![executable.expect("the third argument")]).expect("one condition");
    let (refused, rules) =
        (SeccompAction::Errno(libc::EACCES as u32), [(libc::SYS_mprotect, vec![rule])].into());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, TargetArch::x86_64);
    filter.expect("one rule").try_into().expect("it compiles")
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_host_without_executable_memory_interprets_and_says_so_once() {
    let folder = Folder::new();
    let forbidden = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = folder.command(&words);
        let filter = without_executable_memory();
        // SAFETY: the filter makes two system calls and touches nothing of the parent's.
        unsafe { command.pre_exec(move || apply_filter(&filter).map_err(std::io::Error::other)) };
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
