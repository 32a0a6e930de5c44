//! The observer: a BPF program that counts a workload's switches, migrations and waits in the
//! kernel, and what is read from it at the end.

use schedlab_base::{Better, DurationNs, Metric};
use schedlab_trace::{Distribution, Histogram, latencies, percentile_metrics};

use crate::exec::Window;
use crate::load::{LoadError, Watcher};

/// Its object file; empty where no compiler was at hand.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/observe.bpf.o"));

/// Size of `struct seen` in the observer's source.
const SEEN_SIZE: usize = 40;
/// Numbers of `struct cpu` there.
const CPU_NUMBERS: usize = 3;

/// The attached observer; it is gone when this is dropped.
pub(crate) struct Observer(Watcher);

/// What it saw of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenTask {
    pub(crate) thread_id: u32,
    pub(crate) switches: u64,
    pub(crate) migrations: u64,
}

/// What it saw.
pub(crate) struct Observation {
    pub(crate) tasks: Vec<SeenTask>,
    /// The metrics that every run has, as far as they can be observed.
    pub(crate) metrics: Vec<Metric>,
    /// The distributions of the run's latencies by name.
    pub(crate) histograms: Vec<(String, Distribution)>,
}

impl Observer {
    /// Attaches the observer; `None` where this build has none.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(crate) fn start() -> Result<Option<Observer>, LoadError> {
        if OBJECT.is_empty() {
            return Ok(None);
        }
        Watcher::start("observe", OBJECT).map(|watcher| Some(Observer(watcher)))
    }

    /// Descriptors that keep it attached.
    pub(crate) fn descriptors(&self) -> Vec<std::os::fd::RawFd> {
        self.0.descriptors()
    }

    /// What it saw of a run of this length that ended at `end_ns` of the monotonic clock.
    pub(crate) fn read(&self, begin_ns: u64, elapsed: DurationNs, cpus: usize) -> Observation {
        let one = |name: &str| self.0.read(name).first().copied().unwrap_or(0);
        let tasks = self.tasks();
        let migrations: u64 = tasks.iter().map(|task| task.migrations).sum();
        let mut metrics = vec![
            Metric::new("context_switches", one("nr_switches") as f64, "1", Better::Neither),
            Metric::new("migrations", migrations as f64, "1", Better::Neither),
        ];
        let histogram =
            |counts: &str, max: &str| Histogram::from_counts(&self.0.read(counts), DurationNs(one(max)));
        let histograms =
            latencies(&histogram("wakeup_latency", "wakeup_max"), &histogram("run_delay", "run_delay_max"));
        metrics.extend(percentile_metrics(&histograms));
        let capacity = elapsed.0 as f64 * cpus as f64;
        if capacity > 0.0 {
            let busy = self.busy_ns(begin_ns, begin_ns + elapsed.0) as f64;
            metrics.push(Metric::new("cpu_busy_fraction", (busy / capacity).min(1.0), "1", Better::Neither));
        }
        Observation { tasks, metrics, histograms }
    }

    fn tasks(&self) -> Vec<SeenTask> {
        let number = |bytes: &[u8], at: usize| {
            bytes[at..at + 8].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        self.0
            .entries::<4, SEEN_SIZE>("tasks")
            .iter()
            .map(|(key, value)| SeenTask {
                thread_id: u32::from_le_bytes(*key),
                switches: number(value, 8),
                migrations: number(value, 16),
            })
            .collect()
    }

    /// Time that CPUs had a task, whoever's; one that has it still is charged up to the end.
    fn busy_ns(&self, begin_ns: u64, end_ns: u64) -> u64 {
        let numbers = self.0.read("cpus");
        numbers
            .chunks_exact(CPU_NUMBERS)
            .map(|cpu| {
                let (since, busy, running) = (cpu[0], cpu[1], cpu[2]);
                busy + if running == 1 { end_ns.saturating_sub(since.max(begin_ns)) } else { 0 }
            })
            .sum()
    }
}

impl Window for Observer {
    fn follow(&self, leader: u32) {
        self.0.write("leader", u64::from(leader));
    }

    fn open(&self, begin_ns: u64) {
        self.0.write("begin", begin_ns);
        self.0.write("active", 1);
    }

    fn close(&self) {
        self.0.write("active", 0);
    }
}
