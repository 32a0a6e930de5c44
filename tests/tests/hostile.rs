//! Objects that want the host's time, memory or control. Each ends by itself, within 20 s of the processor and 1 GiB,
//! without a panic or a signal, and with the reason in its message.
//!
//! The objects are those of `tests/objects/hostile`. Time is counted as the processor's, so that a busy host changes no
//! verdict; a child that hangs or eats the host's memory is killed.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use schedlab_tests::{Schedlab, compile, has_clang, root};

/// Seconds of processor time after which the host ends the child with a signal.
const MOST_CPU_SECONDS: u32 = 20;
/// Bytes of the host's memory that a child may ever have had.
const MOST_BYTES: u64 = 1 << 30;
/// A child that has more is killed, for the sake of the host.
const KILL_BYTES: u64 = 2 << 30;
/// A child that has not ended by then is killed; far more than 20 s of the processor take on a busy host.
const KILL_AFTER: Duration = Duration::from_secs(300);

/// Tasks that are enqueued often, on two CPUs.
const WORKLOAD: &str = "periodic:tasks=6,run=1ms,sleep=1ms,ttime=1s";

/// The program's work was counted, and was too much.
const TOO_LONG: &str = "too long";

/// How a child ended, and what it took.
struct Outcome {
    /// Nothing: a signal ended it.
    code: Option<i32>,
    peak_bytes: u64,
    seconds: Duration,
    err: String,
}

/// The number of kB in a line of `/proc/PID/status`, in bytes.
fn status_bytes(pid: u32, line: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kilobytes = text.lines().find_map(|found| found.strip_prefix(line))?;
    kilobytes.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|number| number << 10)
}

/// Simulates the object in a child with limits, which is waited for.
#[allow(clippy::zombie_processes, reason = "wait4 waits for it, which also tells what it took")]
fn simulate(lab: &Schedlab, object: &Path, messages: &Path) -> Outcome {
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -t "$0" && ulimit -c 0 && exec "$@""#]).arg(MOST_CPU_SECONDS.to_string());
    command.arg(lab.binary()).args(["sim", "-q", "-c", "2", "-w", WORKLOAD, "-s"]).arg(object);
    command.current_dir(&lab.folder).env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(messages).unwrap());
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut killed = "";
    let (code, usage) = loop {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        let mut status = 0;
        // SAFETY: both places are ours, and the child is waited for nowhere else.
        let ended =
            unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, libc::WNOHANG, usage.as_mut_ptr()) };
        if ended != 0 {
            let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            // SAFETY: all of it was zero before the call, which is a value of this type.
            break (code, unsafe { usage.assume_init() });
        }
        if started.elapsed() > KILL_AFTER {
            killed = "killed: it did not end";
        } else if status_bytes(child.id(), "VmRSS:").is_some_and(|bytes| bytes > KILL_BYTES) {
            killed = "killed: it took the host's memory";
        }
        if !killed.is_empty() {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let spent = [usage.ru_utime, usage.ru_stime]
        .map(|time| Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64));
    let told = std::fs::read(messages).unwrap();
    let err = String::from_utf8_lossy(&told).into_owned() + killed;
    Outcome { code, peak_bytes: (usage.ru_maxrss as u64) << 10, seconds: spent.into_iter().sum(), err }
}

/// The object ends as it has to; if it is refused or ejected, its message has one of `reasons`.
fn is_harmless(name: &str, reasons: &[&str]) {
    if !has_clang() {
        return;
    }
    let lab = &Schedlab::new(&format!("hostile-{name}"));
    let object = lab.path(&format!("{name}.bpf.o"));
    compile(&format!("hostile/{name}"), "bpf", &object).unwrap();
    let ended = simulate(lab, &object, &lab.path(&format!("{name}.err")));
    let Outcome { code, peak_bytes, seconds, err } = &ended;
    let told: String = err.chars().take(2000).collect();
    let place = format!("{name}: {code:?} after {seconds:.1?} with {} MiB: {told}", peak_bytes >> 20);
    assert!(code.is_some(), "a signal (at {MOST_CPU_SECONDS} s of processor time there is one): {place}");
    assert!(matches!(code, Some(0 | 2 | 4)), "exit code: {place}");
    assert!(*peak_bytes < MOST_BYTES, "memory: {place}");
    assert!(!err.contains("panicked") && !err.contains("defect"), "a panic: {place}");
    if *code != Some(0) {
        assert!(err.starts_with("schedlab: error: "), "{place}");
        assert!(reasons.iter().any(|reason| err.contains(reason)), "none of {reasons:?}: {place}");
    }
}

/// A test for each object, with the reasons of which one must be in its message.
macro_rules! objects {
    ($($name:ident: [$($reason:expr),*],)*) => {
        const OBJECTS: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            is_harmless(stringify!($name), &[$($reason),*]);
        })*
    };
}

objects! {
    arena_storm: [TOO_LONG, "guest memory"],
    callbacks_nested: ["calls nest deeper than", TOO_LONG],
    compare_gib: [TOO_LONG, "bpf_strncmp", "guest memory"],
    constants_destroyed: ["bpf_iter_num_destroy"],
    cpumasks_kept: [TOO_LONG, "cpumask", "guest memory"],
    dump_endless: ["to see the dump"],
    each_nested: [TOO_LONG, "calls nest deeper than"],
    each_of_2_gib: [TOO_LONG, "guest memory"],
    // Twelve long texts do not fit the kernel's buffer of packed arguments: -ENOSPC.
    error_flood: ["formatting failed (-28)", TOO_LONG],
    format_gib: [TOO_LONG, "bpf_trace_printk", "guest memory"],
    hash_full: [TOO_LONG, "guest memory"],
    hash_keys: [TOO_LONG, "guest memory"],
    iterator_forged: ["iterator", "bpf_iter_scx_dsq", "scx_bpf_dsq_move"],
    iterators_kept: [TOO_LONG, "iterator"],
    kick_endless: [TOO_LONG],
    kick_flood: [TOO_LONG],
    locks_kept: [TOO_LONG, "lock"],
    locks_new: [TOO_LONG, "lock", "guest memory"],
    mask_onto_task: ["bpf_cpumask_setall"],
    order_searched: [TOO_LONG, "guest memory"],
    outputs_wild: ["scx_bpf_events"],
    pointers_stale: ["direct-dispatched", "task"],
    print_flood: [TOO_LONG],
    probe_gib: [TOO_LONG, "bpf_probe_read", "guest memory"],
    queue_flood: [TOO_LONG, "guest memory"],
    queues_million: [TOO_LONG, "dispatch queues", "DSQ"],
    reenqueue_storm: [TOO_LONG],
    release_anything: ["bpf_cpumask_release"],
    ring_flood: [TOO_LONG, "guest memory"],
    slices_tiny: [TOO_LONG],
    storage_huge: ["the limit of a map of type TASK_STORAGE is 65535"],
    task_cpu_swapped: ["bpf_kptr_xchg"],
    timer_now: [TOO_LONG, "timer"],
    timers_million: [TOO_LONG, "timer"],
}

#[test]
fn every_object_is_run() {
    let folder = root().join("tests/objects/hostile");
    let names =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> =
        names.filter_map(|name| name.strip_suffix(".bpf.c").map(str::to_string)).collect();
    assert_eq!(there, OBJECTS.iter().map(|name| name.to_string()).collect());
}
