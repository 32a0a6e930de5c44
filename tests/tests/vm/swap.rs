//! SWAP on a real kernel: whoever the important task waits for, runs, through each kind of thing that one can wait for.

use std::time::Duration;

use schedlab_live::vm::VmOutput;

use super::{Lab, check, check_end, number_of};

/// The workloads `swap-*`, one for each kind.
const KINDS: [&str; 18] = [
    "pipe", "sock", "tcp", "udp", "msg", "mq", "sem", "sig", "flock", "fcntl", "futex", "condvar", "eventfd",
    "poll", "select", "epoll", "broker", "wait",
];
/// Hogs for each CPU.
const HOGS: u32 = 4;
const ITERATIONS: u32 = 12;
/// CPU time of the server per iteration, ms.
const SERVICE: u32 = 20;

/// A workload: alone with SWAP, among hogs with it, and among hogs without it.
#[derive(Clone)]
struct Case {
    name: String,
    cpus: u32,
    /// Parameters besides those that are the same for all.
    more: &'static str,
}

impl Case {
    fn workload(&self, hogs: u32) -> String {
        let Case { name, cpus, more } = self;
        format!("{name}:hogs={},iterations={ITERATIONS},service={SERVICE}ms{more}", hogs * cpus)
    }

    /// Prints the figures and returns them as text.
    #[allow(clippy::print_stdout, reason = "a test program reports")]
    fn tell(&self, Figures { alone, with, without }: &Figures) -> String {
        let Case { name, cpus, more } = self;
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

/// Mean time of an iteration in ms but for the first one, in which `detect=waker` has nothing to go by yet.
fn iteration(output: &VmOutput, job: usize, number: usize) -> Result<f64, String> {
    let figure = |name: &str| number_of(output, job, &format!("{number}/{name}"));
    let count = f64::from(ITERATIONS);
    Ok((figure("iteration_time")? * count - figure("iteration_time_first")?) / (count - 1.0))
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
    let workloads = |hogs: &[u32]| -> Vec<String> {
        hogs.iter().flat_map(|hogs| cases.iter().map(|case| case.workload(*hogs))).collect()
    };
    let jobs = [(workloads(&[0, HOGS]).join(";"), 0), (workloads(&[HOGS]).join(";"), 1)];
    let output = lab.run_all(cpus, &objects, &jobs, Duration::from_secs(600 + 30 * cases.len() as u64))?;
    for (job, (name, _)) in objects.iter().enumerate() {
        check_end(&output, job, name)?;
    }
    let figures = |number| -> Result<Figures, String> {
        Ok(Figures {
            alone: iteration(&output, 0, number)?,
            with: iteration(&output, 0, cases.len() + number)?,
            without: iteration(&output, 1, number)?,
        })
    };
    (0..cases.len()).map(figures).collect()
}

/// Prints the figures. Each case has to be served about as well as alone, and all of them together `factor` times better than
/// without SWAP: how long one has to wait then depends on where the hogs' slices happen to end (2.9 to 8 times as long was seen
/// on one CPU).
///
/// Alone, the server of a lock begins before the client asks, hence less than its service.
fn each_is_served(cases: &[Case], figures: &[Figures], factor: f64) -> Result<(), String> {
    let told: Vec<String> = cases.iter().zip(figures).map(|(case, figures)| case.tell(figures)).collect();
    let slow = |Figures { alone, with, .. }: &Figures| *with > 1.15 * alone.max(f64::from(SERVICE));
    let bad: Vec<&str> = told
        .iter()
        .zip(figures)
        .filter(|(_, figures)| slow(figures))
        .map(|(text, _)| text.as_str())
        .collect();
    check(bad.is_empty(), bad.join("\n"))?;
    together_better(figures, factor)
}

/// All cases together take `factor` times as long without SWAP.
fn together_better(figures: &[Figures], factor: f64) -> Result<(), String> {
    let sum = |part: fn(&Figures) -> f64| figures.iter().map(part).sum::<f64>();
    let (with, without) = (sum(|f| f.with), sum(|f| f.without));
    check(
        without >= factor * with,
        format!("all kinds together: {with:.0} ms with SWAP, {without:.0} without"),
    )
}

/// One case for each kind.
fn each_kind(cpus: u32, more: &'static str) -> [Case; KINDS.len()] {
    KINDS.map(|kind| Case { name: format!("swap-{kind}"), cpus, more })
}

/// Each kind on one CPU, for a client of nice -20 and for a real-time one, which sched_ext does not schedule.
pub(super) fn brings_providers_forward(lab: &Lab) -> Result<(), String> {
    let cases = [each_kind(1, ""), each_kind(1, ",important=fifo")].concat();
    each_is_served(&cases, &run(lab, "o1", 1, &cases)?, 3.0)
}

/// Each kind on two CPUs, where the server may wait on the other one. With two to balance, o1 itself leaves a server that
/// sleeps every now and then hardly behind, so that there is little to gain (1.2 to 1.6 times was seen; with vanilla 3.7 to 4.9).
pub(super) fn brings_providers_forward_on_two_cpus(lab: &Lab) -> Result<(), String> {
    let cases = each_kind(2, "");
    each_is_served(&cases, &run(lab, "o1", 2, &cases)?, 1.0)?;
    each_is_served(&cases, &run(lab, "vanilla", 2, &cases)?, 2.0)
}

/// A mutex that a task of nice 19 holds, wanted by one of nice -20, among hogs of nice 0.
pub(super) fn bounds_priority_inversion(lab: &Lab) -> Result<(), String> {
    let cases = ["", ",protocol=pi"].map(|more| Case { name: "inversion".to_string(), cpus: 1, more });
    each_is_served(&cases, &run(lab, "o1", 1, &cases)?, 3.0)
}
