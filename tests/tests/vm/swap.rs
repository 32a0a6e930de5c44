//! SWAP on a real kernel: the task that the important task waits for runs, through each kind of thing that a task can
//! wait for.

use std::time::Duration;

use schedlab_live::vm::VmOutput;

use super::{Lab, check_end, number_of};

/// The workloads `swap-*`, one for each kind but `wait`.
const KINDS: [&str; 17] = [
    "pipe", "sock", "tcp", "udp", "msg", "mq", "sem", "sig", "flock", "fcntl", "futex", "condvar", "eventfd",
    "poll", "select", "epoll", "broker",
];
/// Those of them that real-time clients and clients on two CPUs wait through, unless `SCHEDLAB_VM_KINDS` is `all`. There is one for
/// each way that a wakeup takes: from the server itself, or from a softirq that delivers what the server has sent. Clients wait for
/// data, for a count, for a signal, or for a lock of the kernel or of their own. They wait for several things at once, or for a server
/// that waits itself. SWAP sees all of them at one trace point, and each kind crosses it on one CPU.
const WAYS: [&str; 8] = ["pipe", "tcp", "sem", "sig", "flock", "futex", "epoll", "broker"];
/// Hogs for each CPU.
const HOGS: u32 = 4;
/// CPU time of the server per iteration, ms. Less than 4BSD's quantum, which the paper's service of 100 ms is: SWAP gives a server up
/// for an iteration that has used a quantum. Microseconds would decide which one that is.
const SERVICE: u32 = 60;
/// How many times as long as alone an iteration may take among hogs: up to 1.17 are measured.
const WORST: f64 = 1.25;
/// How many times as long as alone an iteration of a child may take: up to 1.28 are measured, on two CPUs.
const WORST_OF_CHILD: f64 = 1.4;
/// The same of `inversion`, where one waits for seconds without SWAP.
const SERVICE_WITH_MUTEX: u32 = 20;
/// The same of `swap-wait`: a child has its first quanta before hogs.
const SERVICE_OF_CHILD: u32 = 800;

/// A workload: alone with SWAP, among hogs with it, and among hogs without it.
#[derive(Clone)]
struct Case {
    name: String,
    cpus: u32,
    /// Iterations alone and without SWAP.
    iterations: u32,
    /// Iterations among hogs with SWAP, the earlier half of which SWAP has for learning.
    iterations_with: u32,
    /// CPU time of the server per iteration, ms.
    service: u32,
    /// How many times as long as alone it may take with SWAP.
    worst: f64,
    /// How many times as long it has to take without SWAP.
    gain: f64,
    /// Parameters besides those that are the same for all.
    more: &'static str,
}

impl Case {
    fn workload(&self, hogs: u32, iterations: u32) -> String {
        let Case { name, cpus, service, more, .. } = self;
        format!("{name}:hogs={},iterations={iterations},service={service}ms{more}", hogs * cpus)
    }

    /// Prints the figures and returns them as text.
    #[allow(clippy::print_stdout, reason = "a test program reports")]
    fn tell(&self, Figures { alone, with, without }: &Figures) -> String {
        let Case { name, cpus, more, .. } = self;
        let text = format!(
            "{name}{more}, {cpus} CPUs: alone {alone:.1} ms, among hogs {with:.1}, without SWAP {without:.1}"
        );
        println!("{text}");
        text
    }
}

/// Mean times of an iteration, ms.
struct Figures {
    /// With SWAP, without hogs.
    alone: f64,
    /// With SWAP, among hogs.
    with: f64,
    /// Without SWAP, among hogs.
    without: f64,
}

/// A figure of the workload with this number, in ms.
fn figure(output: &VmOutput, job: usize, number: usize, name: &str) -> Result<f64, String> {
    number_of(output, job, &format!("{number}/{name}"))
}

/// Runs the cases, all for `cpus`, in one VM; the objects are loaded once each. Returns their figures.
fn run(lab: &Lab, policy: &str, cpus: u32, cases: &[Case]) -> Result<Vec<Figures>, String> {
    let named = |objects: Vec<(String, Vec<u8>)>, name: String| {
        objects.into_iter().find(|(known, _)| *known == name).ok_or(format!("no {name}"))
    };
    let objects = [
        named(schedlab_tests::shipped_with_swap(), format!("{policy}+swap"))?,
        named(schedlab_tests::shipped(), policy.to_string())?,
    ];
    let alone = cases.iter().map(|case| case.workload(0, case.iterations));
    let with = cases.iter().map(|case| case.workload(HOGS, case.iterations_with));
    let without = cases.iter().map(|case| case.workload(HOGS, case.iterations));
    let joined = |workloads: Vec<String>| format!("loaded;{}", workloads.join(";"));
    let jobs = [(joined(alone.chain(with).collect()), 0), (joined(without.collect()), 1)];
    let output = lab.run_all(cpus, &objects, &jobs, Duration::from_secs(600 + 30 * cases.len() as u64))?;
    for (job, (name, _)) in objects.iter().enumerate() {
        check_end(&output, job, name)?;
    }
    // `detect=waker` learns when a task first waits for a thing, in a chain link by link: the later half is past that.
    let figures = |number| -> Result<Figures, String> {
        Ok(Figures {
            alone: figure(&output, 0, number, "iteration_time_later")?,
            with: figure(&output, 0, cases.len() + number, "iteration_time_later")?,
            without: figure(&output, 1, number, "iteration_time")?,
        })
    };
    (0..cases.len()).map(figures).collect()
}

/// Runs the cases and prints their figures. Each case must be served about as well as alone, and much better than without SWAP.
///
/// Alone, the server of a lock begins before the client asks, hence less than its service. A case that is not served runs once more:
/// one late iteration shows in a mean of 8. Seen once in some hundred runs, 137 ms where 62 are usual; SWAP that does not serve is
/// late each time.
fn each_is_served(lab: &Lab, policy: &str, cpus: u32, cases: &[Case]) -> Result<(), String> {
    let mut left = cases.to_vec();
    let mut told = Vec::new();
    for _ in 0..2 {
        let figures = run(lab, policy, cpus, &left)?;
        let rows = left.into_iter().zip(figures).map(|(case, figures)| (case.tell(&figures), case, figures));
        let bad = rows.filter(|(_, case, figures)| !served(case, figures));
        (told, left) = bad.map(|(text, case, _)| (text, case)).unzip();
        if left.is_empty() {
            return Ok(());
        }
    }
    Err(told.join("\n"))
}

fn served(case: &Case, Figures { alone, with, without }: &Figures) -> bool {
    *with <= case.worst * alone.max(f64::from(case.service)) && *without >= case.gain * with
}

/// One case for each kind. Without SWAP a lock is now and then free, on two CPUs above all: a mean of 4 was not enough there. Among
/// hogs the 8 after the first 8 are judged: one wait for each link of a chain teaches which task serves.
fn each(kinds: &[&str], cpus: u32, more: &'static str) -> Vec<Case> {
    let case = |kind: &&str| Case {
        name: format!("swap-{kind}"),
        cpus,
        iterations: if cpus == 1 { 6 } else { 8 },
        iterations_with: 16,
        service: SERVICE,
        worst: WORST,
        gain: 2.5,
        more,
    };
    kinds.iter().map(case).collect()
}

/// The kinds of those tests that do not need each.
fn some_kinds() -> &'static [&'static str] {
    if std::env::var("SCHEDLAB_VM_KINDS").is_ok_and(|kinds| kinds == "all") { &KINDS } else { &WAYS }
}

/// Each kind on one CPU, for a client of nice -20 and for a real-time one, which sched_ext does not schedule. It is under 4BSD, which
/// gives a server that sleeps every now and then no more than hogs get; O(1) takes holders of locks and children for interactive.
pub(super) fn brings_providers_forward(lab: &Lab) -> Result<(), String> {
    let cases = [each(&KINDS, 1, ""), each(some_kinds(), 1, ",important=fifo")].concat();
    each_is_served(lab, "bsd4", 1, &cases)
}

/// Kinds on two CPUs, where the server may wait on the other one.
pub(super) fn brings_providers_forward_on_two_cpus(lab: &Lab) -> Result<(), String> {
    each_is_served(lab, "bsd4", 2, &each(some_kinds(), 2, ""))
}

/// The 18th kind, a child that its parent waits for; under 2.4's policy, which gives a child no more than hogs get. 4BSD
/// lets it begin with its parent's rank, which a child of a real-time task keeps for most of a second.
pub(super) fn brings_children_forward(lab: &Lab) -> Result<(), String> {
    for cpus in [1, 2] {
        let cases = ["", ",important=fifo"].map(|more| Case {
            name: "swap-wait".to_string(),
            cpus,
            iterations: 4,
            iterations_with: 6,
            service: SERVICE_OF_CHILD,
            worst: WORST_OF_CHILD,
            gain: 3.0,
            more,
        });
        each_is_served(lab, "vanilla", cpus, &cases)?;
    }
    Ok(())
}

/// A mutex that a task of nice 19 holds, wanted by one of nice -20, among hogs of nice 0.
pub(super) fn bounds_priority_inversion(lab: &Lab) -> Result<(), String> {
    let cases = ["", ",protocol=pi"].map(|more| Case {
        name: "inversion".to_string(),
        cpus: 1,
        iterations: 6,
        iterations_with: 6,
        service: SERVICE_WITH_MUTEX,
        worst: WORST,
        gain: 10.0,
        more,
    });
    each_is_served(lab, "o1", 1, &cases)
}
