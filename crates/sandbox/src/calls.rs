//! System calls, by a seccomp filter.

use crate::passed::{Allowed, PASSED};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;

/// Computing: memory, threads of this process, time, random numbers (for the hash maps of libraries), its end.
#[rustfmt::skip]
const COMPUTE: &[libc::c_long] = &[
    libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_madvise,
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_rseq, libc::SYS_sched_yield, libc::SYS_sched_getaffinity,
    libc::SYS_membarrier, libc::SYS_gettid, libc::SYS_getpid, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid,
    libc::SYS_getegid, libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack,
    libc::SYS_restart_syscall, libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep, libc::SYS_gettimeofday, libc::SYS_getrandom, libc::SYS_uname, libc::SYS_sysinfo,
    libc::SYS_getrusage, libc::SYS_exit, libc::SYS_exit_group,
];

/// Results and inputs: Landlock decides about paths, the owner of a descriptor has decided already.
#[rustfmt::skip]
const FILES: &[libc::c_long] = &[
    libc::SYS_read, libc::SYS_readv, libc::SYS_pread64, libc::SYS_write, libc::SYS_writev, libc::SYS_pwrite64,
    libc::SYS_close, libc::SYS_lseek, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs,
    libc::SYS_fstatfs, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_readlinkat, libc::SYS_getcwd,
    libc::SYS_getdents64, libc::SYS_ppoll,
];

/// Calls of files by their older names.
#[cfg(target_arch = "x86_64")]
const FILES_OLD: &[libc::c_long] =
    &[libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const FILES_OLD: &[libc::c_long] = &[];

/// Making, completing and replacing a result. Folders are made before; asking again has to say that they are there.
#[rustfmt::skip]
const REPLACE: &[libc::c_long] = &[
    libc::SYS_ftruncate, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_fallocate, libc::SYS_fchmod, libc::SYS_fchown,
    libc::SYS_renameat2, libc::SYS_unlinkat, libc::SYS_mkdirat, libc::SYS_copy_file_range, libc::SYS_sendfile, libc::SYS_flock,
];

/// Calls that replace a result by their older names.
#[cfg(target_arch = "x86_64")]
const REPLACE_OLD: &[libc::c_long] =
    &[libc::SYS_rename, libc::SYS_renameat, libc::SYS_unlink, libc::SYS_mkdir];
#[cfg(target_arch = "aarch64")]
const REPLACE_OLD: &[libc::c_long] = &[libc::SYS_renameat];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const REPLACE_OLD: &[libc::c_long] = &[];

/// Questions to a terminal: is it one, how wide is it. Putting characters into its input (`TIOCSTI`) is not among them.
#[allow(clippy::unnecessary_cast, reason = "the type differs between C libraries")]
const TERMINAL: [u64; 3] = [libc::TCGETS as u64, libc::TCGETS2 as u64, libc::TIOCGWINSZ as u64];

/// Reading from a pipe without waiting for it.
#[allow(clippy::unnecessary_cast, reason = "the type differs between C libraries")]
const NO_WAIT: u64 = libc::FIONBIO as u64;

/// Questions about descriptors, and a second one for the same file. Setting the receiver of signals (`F_SETOWN`) is not among them.
const DESCRIPTORS: [libc::c_int; 5] =
    [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD_CLOEXEC];

/// Opening for more than reading.
const WRITES: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;

/// New namespaces for what is cloned.
const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Starting processes of this very program, which read their output through pipes and enter a sandbox of their own.
#[rustfmt::skip]
const STARTS: &[libc::c_long] = &[
    libc::SYS_execve, libc::SYS_wait4, libc::SYS_pipe2, libc::SYS_dup3, libc::SYS_fcntl,
    libc::SYS_set_tid_address, libc::SYS_prlimit64, libc::SYS_prctl, libc::SYS_seccomp, libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self,
];

/// Calls that start processes by their older names.
#[cfg(target_arch = "x86_64")]
const STARTS_OLD: &[libc::c_long] = &[libc::SYS_arch_prctl, libc::SYS_dup2];
#[cfg(not(target_arch = "x86_64"))]
const STARTS_OLD: &[libc::c_long] = &[];

/// Starting and tracing a scheduler's own loader, and what that needs for itself: the tracer decides about each of its calls.
#[rustfmt::skip]
const LOADERS: &[libc::c_long] = &[
    libc::SYS_execve, libc::SYS_wait4, libc::SYS_getppid, libc::SYS_ptrace, libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev, libc::SYS_pidfd_open, libc::SYS_pidfd_getfd, libc::SYS_pidfd_send_signal, libc::SYS_memfd_create, libc::SYS_ftruncate,
    libc::SYS_prlimit64, libc::SYS_setsid, libc::SYS_personality, libc::SYS_prctl, libc::SYS_kill, libc::SYS_tgkill,
    libc::SYS_dup, libc::SYS_dup3, libc::SYS_pipe2, libc::SYS_set_tid_address, libc::SYS_mincore, libc::SYS_msync,
    libc::SYS_eventfd2, libc::SYS_signalfd4, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_socketpair,
    libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_close_range, libc::SYS_fcntl,
    libc::SYS_preadv, libc::SYS_pwritev,
];

/// Calls of loaders by their older names.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const LOADERS_OLD: &[libc::c_long] = &[
    libc::SYS_arch_prctl, libc::SYS_setrlimit, libc::SYS_getrlimit, libc::SYS_dup2, libc::SYS_pipe, libc::SYS_eventfd,
    libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_select,
];
#[cfg(not(target_arch = "x86_64"))]
const LOADERS_OLD: &[libc::c_long] = &[];

/// What is kept besides computing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// Results go to files.
    pub(crate) writes: bool,
    /// Processes of this very program are started.
    pub(crate) starts: bool,
    /// Schedulers' own programs are started and traced.
    pub(crate) loaders: bool,
}

/// Limits all threads to what computing and `what` need.
///
/// # Errors
/// Why the kernel does not.
pub(crate) fn restrict(what: Kept) -> Result<(), String> {
    let sentence = |error: &dyn std::error::Error| format!("seccomp: {error}");
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("there is no filter for {} hosts", std::env::consts::ARCH))?;
    let refused = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
    let compiled = |rules, otherwise, then| -> Result<BpfProgram, seccompiler::BackendError> {
        SeccompFilter::new(rules, otherwise, then, arch)?.try_into()
    };
    let kept = kept(what).map_err(|error| sentence(&error))?;
    let main =
        compiled(kept, refused(libc::EPERM), SeccompAction::Allow).map_err(|error| sentence(&error))?;
    // The flags of clone3 lie in memory, where no filter sees them. Without it the C library uses clone, whose flags it
    // sees.
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let clone3 = compiled(clone3, SeccompAction::Allow, refused(libc::ENOSYS));
    let clone3 = clone3.map_err(|error| sentence(&error))?;
    // The strictest filter decides. The one with all rules comes last, since it lets no other be added.
    apply_filter_all_threads(&clone3).map_err(|error| sentence(&error))?;
    apply_filter_all_threads(&main).map_err(|error| sentence(&error))
}

/// The calls that stay.
fn kept(Kept { writes, starts, loaders }: Kept) -> Result<Rules, seccompiler::BackendError> {
    let always = |calls: &'static [libc::c_long]| calls.iter().map(|&call| (call, Vec::new()));
    let mut rules: Rules = always(COMPUTE).chain(always(FILES)).chain(always(FILES_OLD)).collect();
    let rule = |arg: u8, op: Op, value: u64| -> Result<SeccompRule, seccompiler::BackendError> {
        SeccompRule::new(vec![Condition::new(arg, Len::Qword, op, value)?])
    };
    let own = u64::from(std::process::id());
    // A thread may get namespaces of its own, where the process may make such.
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, vec![rule(0, Op::MaskedEq(thread | NAMESPACES), thread)?]);
    // Left to the filter that refuses it with another error.
    rules.insert(libc::SYS_clone3, Vec::new());
    // A process may end itself by a signal.
    rules.insert(libc::SYS_kill, vec![rule(0, Op::Eq, own)?]);
    rules.insert(libc::SYS_tgkill, vec![rule(0, Op::Eq, own)?]);
    rules.insert(libc::SYS_prctl, vec![rule(0, Op::Eq, libc::PR_SET_NAME as u64)?]);
    // Requests are 32 bits wide; the kernel does not look at the rest.
    let request = |value: u64| SeccompRule::new(vec![Condition::new(1, Len::Dword, Op::Eq, value)?]);
    // Output of what is started is read from two pipes, without waiting for either.
    let pipes = starts.then_some(NO_WAIT);
    let requests = TERMINAL.into_iter().chain(pipes).map(request);
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    let commands = DESCRIPTORS.into_iter().map(|command| request(u64::from(command.unsigned_abs())));
    rules.insert(libc::SYS_fcntl, commands.collect::<Result<_, _>>()?);
    if writes {
        rules.extend(always(REPLACE).chain(always(REPLACE_OLD)));
        rules.insert(libc::SYS_openat, Vec::new());
    } else {
        rules.insert(libc::SYS_openat, vec![rule(2, Op::MaskedEq(WRITES), 0)?]);
    }
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, if writes { Vec::new() } else { vec![rule(1, Op::MaskedEq(WRITES), 0)?] });
    if starts {
        rules.extend(always(STARTS).chain(always(STARTS_OLD)));
    }
    if loaders {
        rules.extend(always(LOADERS).chain(always(LOADERS_OLD)));
    }
    if starts || loaders {
        rules.insert(libc::SYS_clone, vec![rule(0, Op::MaskedEq(NAMESPACES), 0)?]);
    }
    for (call, place, allowed) in PASSED {
        let Some(kept) = rules.get_mut(call) else { continue };
        assert!(kept.is_empty(), "the arguments of call {call} are stated once");
        *kept = match allowed {
            Allowed::OneOf(values) => {
                let one =
                    |value: &u64| SeccompRule::new(vec![Condition::new(*place, Len::Dword, Op::Eq, *value)?]);
                values.iter().map(one).collect::<Result<_, _>>()?
            }
            Allowed::Within(mask) => vec![rule(*place, Op::MaskedEq(!mask), 0)?],
        };
    }
    Ok(rules)
}
