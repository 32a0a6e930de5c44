//! The observer: a BPF program that counts a workload's switches, migrations and waits in the
//! kernel, and what is read from it at the end.

use schedlab_base::{Better, CpuId, DurationNs, Metric, TaskId, TimeNs};
use schedlab_trace::waits::Party;
use schedlab_trace::{
    Distribution, Histogram, Homes, LongWait, Names, TaskWaits, WaitKind, WaitRecord, latencies,
    percentile_metrics,
};
use std::collections::BTreeMap;

use crate::exec::{Window, now_ns};
use crate::load::{LoadError, Watcher};

/// The object file; empty where no compiler was at hand.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/observe.bpf.o"));

/// Size of `struct seen` in the observer's source.
const SEEN_SIZE: usize = 48 + 2 * LONGEST_SIZE;
/// Size of `struct longest` there.
const LONGEST_SIZE: usize = 32;
/// Size of `struct waits` there.
const WAITS_SIZE: usize = 16;
/// Numbers of `struct cpu` there.
const CPU_NUMBERS: usize = 4;

/// The attached observer; it is gone when this is dropped.
pub(crate) struct Observer(Watcher);

/// What it saw of one task.
#[derive(Clone, Debug)]
pub(crate) struct SeenTask {
    pub(crate) thread_id: u32,
    pub(crate) switches: u64,
    pub(crate) migrations: u64,
    /// The task's waits by bucket, all and those after a wakeup.
    waits: Vec<(usize, [u64; 2])>,
    /// The lengths of both together.
    sums: [DurationNs; 2],
    /// The longest of them, and of those after a wakeup.
    longest: [Option<SeenWait>; 2],
    /// The wait that the end cut short, and whether it began with a wakeup.
    open: Option<(SeenWait, bool)>,
}

/// A wait, on the clock of the kernel's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeenWait {
    since: u64,
    length: u64,
    cpu: u32,
    /// The thread that ran there before, 0 for none, and for how long meanwhile.
    behind: u32,
    behind_ns: u64,
}

/// What it saw.
pub(crate) struct Observation {
    pub(crate) tasks: Vec<SeenTask>,
    /// The metrics that every run has, as far as they can be observed.
    pub(crate) metrics: Vec<Metric>,
    /// The distributions of the run's latencies by name.
    pub(crate) histograms: Vec<(String, Distribution)>,
    /// When the run began, on the monotonic clock.
    begin_ns: u64,
}

impl Observation {
    /// The waits of a workload's tasks, given by name, thread id and process id; those of all other threads are reported as
    /// forked.
    pub(crate) fn wait_records(&self, parties: &[Party], homes: &Homes<'_>) -> Vec<WaitRecord> {
        let count = i32::try_from(parties.len()).unwrap_or(i32::MAX);
        let index: BTreeMap<i32, u32> =
            parties.iter().enumerate().map(|(at, party)| (party.thread, at as u32)).collect();
        // Threads that are no party have numbers behind them.
        let names = Names { parties, first_pid: -count };
        let id = |thread: u32| {
            TaskId(index.get(&thread.cast_signed()).copied().unwrap_or(count.cast_unsigned() + thread))
        };
        let mut own = vec![TaskWaits::default(); parties.len()];
        let mut forked = TaskWaits::default();
        for seen in &self.tasks {
            let task = id(seen.thread_id);
            let waits = seen.task_waits(task, self.begin_ns, &id);
            match own.get_mut(task.index()) {
                Some(place) => *place = waits,
                None => forked.merge(&waits),
            }
        }
        let forked = forked.longest(WaitKind::RunDelay).map(|longest| (longest.task, &forked));
        let mut records = names.records(&own, forked.into_iter());
        // Which group a forked thread began in is not known.
        names.add_cgroups(&mut records, homes, &own, std::iter::empty());
        records
    }
}

impl SeenTask {
    /// The task's waits; `id` numbers threads.
    fn task_waits(&self, task: TaskId, begin_ns: u64, id: &dyn Fn(u32) -> TaskId) -> TaskWaits {
        let long = |wait: SeenWait| {
            let behind = (wait.behind != 0).then(|| {
                let other = id(wait.behind);
                (other, other, DurationNs(wait.behind_ns))
            });
            LongWait {
                task,
                origin: task,
                since: TimeNs(wait.since.saturating_sub(begin_ns)),
                length: DurationNs(wait.length),
                cpu: CpuId(wait.cpu),
                behind: [behind, None, None],
            }
        };
        let longest = self.longest.map(|wait| wait.map(long));
        let mut waits = TaskWaits::from_counts(self.waits.iter().copied(), self.sums, longest);
        if let Some((open, woken)) = self.open {
            waits.add(long(open), woken);
        }
        waits
    }
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
        let tasks = self.tasks(begin_ns, begin_ns + elapsed.0);
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
        Observation { tasks, metrics, histograms, begin_ns }
    }

    /// Follows the calling task, and what it makes from now on; false if that is not possible.
    pub(crate) fn follow_this(&self) -> bool {
        let process = std::process::id();
        self.follow(process);
        self.open(now_ns());
        self.0.insert("tasks", &process.to_le_bytes(), &[0; SEEN_SIZE])
    }

    /// How long a task has waited for CPUs in all, ns, and how often it got one.
    pub(crate) fn totals(&self, thread: u32) -> Option<(u64, u64)> {
        let seen = self.0.entries::<4, SEEN_SIZE>("tasks");
        let (_, own) = seen.iter().find(|(key, _)| u32::from_le_bytes(*key) == thread)?;
        Some((number(own, 24), number(own, 8)))
    }

    /// When `cpu` last switched, ns on the kernel's clock.
    pub(crate) fn switched(&self, cpu: usize) -> Option<u64> {
        self.0.read("cpus").get(cpu * CPU_NUMBERS).copied()
    }

    fn tasks(&self, begin_ns: u64, end_ns: u64) -> Vec<SeenTask> {
        let mut waits: BTreeMap<u32, Vec<(usize, [u64; 2])>> = BTreeMap::new();
        for (key, value) in self.0.entries::<8, WAITS_SIZE>("task_waits") {
            let key = u64::from_le_bytes(key);
            let counts = [number(&value, 0), number(&value, 8)];
            waits.entry((key >> 32) as u32).or_default().push((key as u32 as usize, counts));
        }
        let seen = self.0.entries::<4, SEEN_SIZE>("tasks");
        seen.iter()
            .map(|(key, value)| {
                let thread_id = u32::from_le_bytes(*key);
                let waits = waits.remove(&thread_id).unwrap_or_default();
                seen_task(thread_id, value, waits, (begin_ns, end_ns))
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

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
}

/// The low or high half of a number.
fn half(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0u32, |value, byte| value << 8 | u32::from(*byte))
}

/// `struct longest` of the observer's source.
fn longest(bytes: &[u8], at: usize) -> SeenWait {
    SeenWait {
        length: number(bytes, at),
        since: number(bytes, at + 8),
        behind_ns: number(bytes, at + 16),
        behind: half(bytes, at + 24),
        cpu: half(bytes, at + 28),
    }
}

/// `struct seen` of the observer's source, of a run between two times.
fn seen_task(
    thread_id: u32,
    seen: &[u8; SEEN_SIZE],
    waits: Vec<(usize, [u64; 2])>,
    (begin_ns, end_ns): (u64, u64),
) -> SeenTask {
    let counted = |kind: usize| waits.iter().any(|(_, counts)| counts[kind] > 0);
    let sums = [DurationNs(number(seen, 24)), DurationNs(number(seen, 32))];
    let found = [longest(seen, 48), longest(seen, 48 + LONGEST_SIZE)];
    let longest = [counted(0).then_some(found[0]), counted(1).then_some(found[1])];
    let since = number(seen, 0).max(begin_ns);
    // The CPU is the one that it ran on last; there is none before the first time.
    let cpu = half(seen, 40).saturating_sub(1);
    let open = (number(seen, 0) != 0 && since < end_ns).then(|| {
        (SeenWait { since, length: end_ns - since, cpu, behind: 0, behind_ns: 0 }, half(seen, 44) != 0)
    });
    SeenTask {
        thread_id,
        switches: number(seen, 8),
        migrations: number(seen, 16),
        waits,
        sums,
        longest,
        open,
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
        self.0.write("end", now_ns());
        self.0.write("closed", 1);
        self.0.write("active", 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct seen` as the observer leaves it.
    fn seen(
        words: [u64; 5],
        halves: [u32; 2],
        longest: [[u64; 3]; 2],
        places: [[u32; 2]; 2],
    ) -> [u8; SEEN_SIZE] {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
        for (words, halves) in longest.iter().zip(&places) {
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
        }
        bytes.try_into().expect("it has the size of the structure")
    }

    fn party(name: &str, thread: i32) -> Party {
        Party { name: name.into(), thread, process: thread, prio: 120 }
    }

    #[test]
    fn what_the_program_keeps_becomes_records() {
        let (begin_ns, end) = (1_000, 9_000);
        // Ran on CPU 1 last; longest wait 50 ns behind thread 71, none after a wakeup.
        let one = seen([0, 3, 1, 60, 0], [2, 0], [[50, 1_100, 40], [0; 3]], [[71, 1], [0; 2]]);
        // Never ran: it waits since before the beginning, because of a wakeup.
        let two = seen([500, 0, 0, 0, 0], [0, 1], [[0; 3]; 2], [[0; 2]; 2]);
        let three = seen([0, 1, 0, 7, 7], [1, 0], [[7, 2_000, 7], [7, 2_000, 7]], [[70, 0]; 2]);
        let tasks = vec![
            seen_task(70, &one, vec![(10, [1, 0]), (50, [1, 0])], (begin_ns, end)),
            seen_task(71, &two, Vec::new(), (begin_ns, end)),
            seen_task(99, &three, vec![(7, [1, 1])], (begin_ns, end)),
        ];
        let observation = Observation { tasks, metrics: Vec::new(), histograms: Vec::new(), begin_ns };
        let records = observation.wait_records(&[party("a", 70), party("b", 71)], &Homes::default());
        let delay = |name: &str| {
            let found = records.iter().find(|record| record.name == name).unwrap();
            found.run_delay.clone().unwrap()
        };
        let a = delay("a");
        assert_eq!(a.mean, DurationNs(30));
        assert_eq!((a.count, a.worst.since.0, a.worst.length.0, a.worst.cpu), (2, 100, 50, 1));
        assert_eq!(a.worst.behind, [("b".to_string(), DurationNs(40))]);
        let b = delay("b");
        assert_eq!((b.count, b.worst.since.0, b.worst.length.0), (1, 0, 8_000), "the end cut it short");
        let forked = delay("(forked)");
        assert_eq!((forked.worst.task.as_str(), forked.worst.behind[0].0.as_str()), ("pid 99", "a"));
        assert_eq!(records[0].run_delay.as_ref().unwrap().count, 4);
        assert_eq!(records[0].wakeup_latency.as_ref().unwrap().count, 2);
    }
}
