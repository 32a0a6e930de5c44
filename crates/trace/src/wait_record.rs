//! The figures of waits as a run's record keeps them, by task, process and group, and the warnings that follow from
//! them.

use crate::distribution::Distribution;
use crate::latency::{LongWait, TaskWaits, WaitKind};
use crate::record::TaskRecord;
use crate::waits::Party;
use schedlab_base::{DurationNs, TaskId, TimeNs};
use std::collections::BTreeMap;

/// The watchdog's time where a scheduler sets none, and the longest it may set: the kernel's
/// `SCX_WATCHDOG_MAX_TIMEOUT`.
pub const WATCHDOG: DurationNs = DurationNs::from_secs(30);

/// A task that never ran although it waited this long is warned about. Chosen: longer than the slices of all shipped
/// policies at a usual load.
const NEVER_RAN: DurationNs = DurationNs::from_ms(100);

/// Whose waits they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitScope {
    /// Those of all tasks.
    All,
    /// Those of the tasks whose names are equal before the `/`, and of what they fork.
    Group,
    /// Those of the threads of a process that has several.
    Process,
    /// Those of one task; `(forked)` is all forked ones.
    Task,
}

impl WaitScope {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            WaitScope::All => "all",
            WaitScope::Group => "group",
            WaitScope::Process => "process",
            WaitScope::Task => "task",
        }
    }

    /// The scope of a name.
    pub fn from_name(name: &str) -> Option<WaitScope> {
        use WaitScope::{All, Group, Process, Task};
        [All, Group, Process, Task].into_iter().find(|scope| scope.name() == name)
    }
}

/// The longest wait: which task, when, where, behind which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstWait {
    /// The task.
    pub task: String,
    /// When the wait began, since the run did.
    pub since: DurationNs,
    /// How long it lasted.
    pub length: DurationNs,
    /// Where the task ran then; where it was queued last if it never got to run.
    pub cpu: u32,
    /// The tasks that ran on that CPU meanwhile and for how long, the longest first: as far as the last 32
    /// stretches tell.
    pub behind: Vec<(String, DurationNs)>,
}

/// How long waits of one kind were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitFigures {
    /// How many there were.
    pub count: u64,
    /// The average, rounded down.
    pub mean: DurationNs,
    /// The median.
    pub p50: DurationNs,
    /// The 95th percentile.
    pub p95: DurationNs,
    /// The 99th percentile.
    pub p99: DurationNs,
    /// The longest one.
    pub worst: WorstWait,
}

/// The waits of a task, process, group, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRecord {
    /// Whose they are.
    pub scope: WaitScope,
    /// The name of the task, of the process's first thread, or of the group; empty for all.
    pub name: String,
    /// Every wait for a CPU; nothing without any.
    pub run_delay: Option<WaitFigures>,
    /// The waits from a wakeup to running.
    pub wakeup_latency: Option<WaitFigures>,
}

impl WaitRecord {
    /// The figures by the names that they have in results.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, &WaitFigures)> {
        let both = [("wakeup_latency_ns", &self.wakeup_latency), ("run_delay_ns", &self.run_delay)];
        both.into_iter().filter_map(|(name, figures)| figures.as_ref().map(|figures| (name, figures)))
    }
}

/// The names of the tasks of a run.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The tasks of the start.
    pub parties: &'a [Party],
    /// The thread id of task 0; a forked task's is as many more as its number says.
    pub first_pid: i32,
}

impl Names<'_> {
    /// What a task is called: a forked one by its ancestor's name.
    pub fn of(&self, task: TaskId, origin: TaskId) -> String {
        let known = |task: TaskId| self.parties.get(task.index()).map(|party| party.name.as_str());
        let pid = i64::from(self.first_pid) + i64::from(task.0);
        match (known(task), known(origin)) {
            (Some(name), _) => name.to_string(),
            (None, Some(ancestor)) => format!("{ancestor} (forked, pid {pid})"),
            (None, None) => format!("pid {pid}"),
        }
    }

    fn worst(&self, wait: &LongWait) -> WorstWait {
        let behind = wait.behind.iter().flatten();
        WorstWait {
            task: self.of(wait.task, wait.origin),
            since: wait.since.since(TimeNs::ZERO),
            length: wait.length,
            cpu: wait.cpu.0,
            behind: behind.map(|&(task, origin, time)| (self.of(task, origin), time)).collect(),
        }
    }

    fn figures(&self, waits: &TaskWaits, kind: WaitKind) -> Option<WaitFigures> {
        let worst = self.worst(&waits.longest(kind)?);
        let lengths: Distribution = waits.distribution(kind);
        let quantile = |part| lengths.quantile(part, 100).unwrap_or_default();
        let (p50, p95, p99) = (quantile(50), quantile(95), quantile(99));
        let count = lengths.count();
        let mean = DurationNs(waits.sum(kind).0 / count.max(1));
        Some(WaitFigures { count, mean, p50, p95, p99, worst })
    }

    fn record(&self, scope: WaitScope, name: &str, waits: &TaskWaits) -> WaitRecord {
        WaitRecord {
            scope,
            name: name.to_string(),
            run_delay: self.figures(waits, WaitKind::RunDelay),
            wakeup_latency: self.figures(waits, WaitKind::WakeupLatency),
        }
    }

    /// The records of all waits: of all tasks together, then by group, process and task. `waits` are those of the parties,
    /// `forked` those of forked tasks by the party that they descend from.
    pub fn records<'a>(
        &self,
        waits: &[TaskWaits],
        forked: impl Iterator<Item = (TaskId, &'a TaskWaits)>,
    ) -> Vec<WaitRecord> {
        let mut all = TaskWaits::default();
        let mut children: Option<TaskWaits> = None;
        let mut groups = Order::default();
        let mut processes = Order::default();
        for (party, waits) in self.parties.iter().zip(waits) {
            all.merge(waits);
            groups.add(group_of(&party.name), &party.name, waits);
            processes.add(party.process, &party.name, waits);
        }
        for (origin, waits) in forked {
            all.merge(waits);
            children.get_or_insert_default().merge(waits);
            if let Some(party) = self.parties.get(origin.index()) {
                groups.merge(group_of(&party.name), waits);
            }
        }
        let mut records = vec![self.record(WaitScope::All, "", &all)];
        let grouped = groups.0.iter().filter(|group| group.key != group.name);
        records.extend(grouped.map(|group| self.record(WaitScope::Group, group.key, group.waits())));
        let several = processes.0.iter().filter(|process| process.tasks > 1);
        records.extend(several.map(|some| self.record(WaitScope::Process, some.name, some.waits())));
        let tasks = self.parties.iter().zip(waits);
        records.extend(tasks.map(|(party, waits)| self.record(WaitScope::Task, &party.name, waits)));
        records.extend(children.map(|waits| self.record(WaitScope::Task, "(forked)", &waits)));
        records
    }
}

/// The part of a task's name before the `/`.
fn group_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(group, _)| group)
}

/// The waits of several tasks.
struct Sum<'a, K> {
    key: K,
    /// How many tasks, and the name and waits of the first one.
    tasks: usize,
    name: &'a str,
    first: &'a TaskWaits,
    /// All together, where there is more than the first one.
    all: Option<Box<TaskWaits>>,
}

impl<K> Sum<'_, K> {
    fn merge(&mut self, waits: &TaskWaits) {
        self.all.get_or_insert_with(|| Box::new(self.first.clone())).merge(waits);
    }

    fn waits(&self) -> &TaskWaits {
        self.all.as_deref().unwrap_or(self.first)
    }
}

/// Waits by key in the order of the first task.
struct Order<'a, K>(Vec<Sum<'a, K>>, BTreeMap<K, usize>);

impl<K> Default for Order<'_, K> {
    fn default() -> Self {
        Order(Vec::new(), BTreeMap::new())
    }
}

impl<'a, K: Copy + Ord> Order<'a, K> {
    fn add(&mut self, key: K, name: &'a str, waits: &'a TaskWaits) {
        let at = *self.1.entry(key).or_insert(self.0.len());
        if at == self.0.len() {
            return self.0.push(Sum { key, tasks: 1, name, first: waits, all: None });
        }
        self.0[at].tasks += 1;
        self.0[at].merge(waits);
    }

    fn merge(&mut self, key: K, waits: &TaskWaits) {
        if let Some(&at) = self.1.get(&key) {
            self.0[at].merge(waits);
        }
    }
}

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// A task waited longer than the bound.
    Starved,
    /// A task was runnable and never ran.
    NeverRan,
    /// A CPU idled while a task waited that it could have run.
    IdleBesideWaiting,
    /// All seeds give the same figures.
    SeedsChangeNothing,
    /// The scheduler ran without what its own loader would have set.
    Unconfigured,
    /// Programs of the object that only report were left out.
    LeftOut,
    /// A program that was run while the scheduler was attached has not returned 0.
    ProgramReturned,
    /// The scheduler's own program computed for ever.
    LoaderComputes,
    /// The scheduler's own program was refused something that it asked for.
    LoaderRefused,
    /// The scheduler takes tasks of the policy `SCHED_EXT` alone, and there was none.
    NothingToSchedule,
    /// Something was to be done at a time at which the run was over.
    NotReached,
    /// No task could run any more: each waited for another one.
    Stuck,
}

impl WarningKind {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            WarningKind::Starved => "starved",
            WarningKind::NeverRan => "never_ran",
            WarningKind::IdleBesideWaiting => "idle_beside_waiting",
            WarningKind::SeedsChangeNothing => "seeds_change_nothing",
            WarningKind::Unconfigured => "unconfigured",
            WarningKind::LeftOut => "left_out",
            WarningKind::ProgramReturned => "program_returned",
            WarningKind::LoaderComputes => "loader_computes",
            WarningKind::LoaderRefused => "loader_refused",
            WarningKind::NothingToSchedule => "nothing_to_schedule",
            WarningKind::NotReached => "not_reached",
            WarningKind::Stuck => "stuck",
        }
    }

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<WarningKind> {
        use WarningKind::{
            IdleBesideWaiting, LeftOut, LoaderComputes, LoaderRefused, NeverRan, NotReached,
            NothingToSchedule, ProgramReturned, SeedsChangeNothing, Starved, Stuck, Unconfigured,
        };
        let all = [
            Starved,
            NeverRan,
            IdleBesideWaiting,
            SeedsChangeNothing,
            Unconfigured,
            LeftOut,
            LoaderComputes,
            LoaderRefused,
            NothingToSchedule,
            ProgramReturned,
            NotReached,
            Stuck,
        ];
        all.into_iter().find(|kind| kind.name() == name)
    }
}

/// Something about a run that its figures alone do not tell, with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// One sentence for people.
    pub text: String,
    /// How many tasks or spans it is true of.
    pub count: u64,
    /// The task, the CPU, and the span of the worst case: since the run began, and how long. Nothing where it is not about
    /// a wait.
    pub worst: Option<WorstWait>,
}

/// From when on waits are worth a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The watchdog's time.
    pub watchdog: DurationNs,
}

impl Bounds {
    /// A task that waits longer has starved: a tenth of the watchdog's time.
    pub fn starved(self) -> DurationNs {
        DurationNs(self.watchdog.0 / 10)
    }

    /// A CPU that idles longer beside a waiting task has left it alone: a thousandth of the watchdog's time.
    pub fn idle(self) -> DurationNs {
        DurationNs(self.watchdog.0 / 1000)
    }

    /// Warnings about the waits of a run's tasks.
    pub fn starvation(self, tasks: &[TaskRecord], waits: &[WaitRecord]) -> Vec<Warning> {
        // By name; of several tasks with one name the first one counts.
        let mut switches = BTreeMap::new();
        for task in tasks {
            switches.entry(task.name.as_str()).or_insert(task.switches);
        }
        let never = |record: &WaitRecord| switches.get(record.name.as_str()) == Some(&0);
        let worst = |record: &&WaitRecord| record.run_delay.as_ref().map(|figures| figures.worst.clone());
        let single = || waits.iter().filter(|record| record.scope == WaitScope::Task);
        let idle = single().filter(|record| never(record)).filter_map(|record| worst(&record));
        let idle: Vec<WorstWait> = idle.filter(|wait| wait.length >= NEVER_RAN).collect();
        let late = single().filter(|record| !never(record)).filter_map(|record| worst(&record));
        let late: Vec<WorstWait> = late.filter(|wait| wait.length > self.starved()).collect();
        let bound = format!(
            "longer than {}, a tenth of the watchdog's {}",
            seconds(self.starved()),
            seconds(self.watchdog)
        );
        let unlucky = warning(WarningKind::NeverRan, idle, |wait| {
            format!(
                "task {} never ran: it waited {} for a CPU{}",
                wait.task,
                seconds(wait.length),
                place(wait)
            )
        });
        let starved = warning(WarningKind::Starved, late, |wait| {
            format!("task {} waited {} for a CPU, {bound}{}", wait.task, seconds(wait.length), place(wait))
        });
        unlucky.into_iter().chain(starved).collect()
    }

    /// The warning about a CPU that idled beside a waiting task: the worst case of `count`.
    pub fn idle_beside(self, count: u64, worst: WorstWait) -> Warning {
        let text = format!(
            "CPU {} idled {} while task {}, which it may run, waited, from {} on: longer than {}, a thousandth of the \
             watchdog's {}{}",
            worst.cpu,
            seconds(worst.length),
            worst.task,
            seconds(worst.since),
            seconds(self.idle()),
            seconds(self.watchdog),
            if count > 1 { format!("; {count} such spans in all") } else { String::new() }
        );
        Warning { kind: WarningKind::IdleBesideWaiting, text, count, worst: Some(worst) }
    }
}

/// The warning about the longest of some waits, if there are any.
fn warning(kind: WarningKind, waits: Vec<WorstWait>, text: impl Fn(&WorstWait) -> String) -> Option<Warning> {
    let count = waits.len() as u64;
    let worst = waits.into_iter().reduce(|a, b| if b.length > a.length { b } else { a })?;
    let more = match count {
        1 => String::new(),
        2 => "; 1 more task likewise".to_string(),
        count => format!("; {} more tasks likewise", count - 1),
    };
    Some(Warning { kind, text: text(&worst) + &more, count, worst: Some(worst) })
}

/// ` (from 0.100 s on, CPU 1, behind hog/0 1.200 s)`.
fn place(wait: &WorstWait) -> String {
    let behind: Vec<String> =
        wait.behind.iter().map(|(task, time)| format!("{task} {}", seconds(*time))).collect();
    let behind = if behind.is_empty() { String::new() } else { format!(", behind {}", behind.join(", ")) };
    format!(" (from {} on, CPU {}{behind})", seconds(wait.since), wait.cpu)
}

fn seconds(time: DurationNs) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::bucket;
    use schedlab_base::CpuId;

    fn party(name: &str, thread: i32, process: i32) -> Party {
        Party { name: name.into(), thread, process, prio: 120 }
    }

    fn waits(task: u32, lengths: &[u64]) -> TaskWaits {
        let mut waits = TaskWaits::default();
        for &length in lengths {
            waits.count(bucket(length), DurationNs(length), true);
            let (task, length) = (TaskId(task), DurationNs(length));
            let (since, cpu) = (TimeNs(3), CpuId(1));
            let behind = [Some((TaskId(0), TaskId(0), DurationNs(2))), None, None];
            if waits.is_longest(length, true) {
                waits.keep(LongWait { task, origin: TaskId(0), since, length, cpu, behind }, true);
            }
        }
        waits
    }

    fn task(name: &str, switches: u64) -> TaskRecord {
        TaskRecord {
            name: name.into(),
            nice: 0,
            cpu_time: DurationNs(5),
            share: 0.1,
            switches,
            migrations: 0,
        }
    }

    #[test]
    fn groups_processes_and_children_are_summed_up() {
        let parties = [party("web/0", 1001, 1001), party("web/1", 1002, 1001), party("db", 1003, 1003)];
        let names = Names { parties: &parties, first_pid: 1001 };
        let own = [waits(0, &[10]), waits(1, &[20, 30]), waits(2, &[7])];
        let child = waits(24, &[50]);
        let records = names.records(&own, [(TaskId(0), &child)].into_iter());
        let told: Vec<(&str, &str, u64)> = records
            .iter()
            .map(|r| (r.scope.name(), r.name.as_str(), r.run_delay.as_ref().map_or(0, |f| f.count)))
            .collect();
        let expected = [
            ("all", "", 5),
            ("group", "web", 4),
            ("process", "web/0", 3),
            ("task", "web/0", 1),
            ("task", "web/1", 2),
            ("task", "db", 1),
            ("task", "(forked)", 1),
        ];
        assert_eq!(told, expected);
        let worst = &records[0].wakeup_latency.as_ref().unwrap().worst;
        assert_eq!((worst.task.as_str(), worst.length.0, worst.cpu), ("web/0 (forked, pid 1025)", 50, 1));
        assert_eq!(worst.behind, [("web/0".to_string(), DurationNs(2))]);
        assert!(
            WaitScope::from_name("process") == Some(WaitScope::Process)
                && WaitScope::from_name("x").is_none()
        );
    }

    #[test]
    fn starvation_is_told_with_its_bound_and_evidence() {
        let parties = [party("hog", 1001, 1001), party("poor/0", 1002, 1002), party("poor/1", 1003, 1003)];
        let names = Names { parties: &parties, first_pid: 1001 };
        let bounds = Bounds { watchdog: WATCHDOG };
        let second = 1_000_000_000;
        let of = |lengths: [u64; 3], switches: [u64; 3]| {
            let own = [0, 1, 2].map(|at| waits(at as u32, &lengths[at..=at]));
            let records = names.records(&own, std::iter::empty());
            let tasks = [0, 1, 2].map(|at| task(&parties[at].name, switches[at]));
            bounds.starvation(&tasks, &records)
        };
        assert_eq!(of([5, 3 * second, 99_000_000], [1, 1, 0]), []);
        let found = of([5, 3 * second + 1, 4 * second], [1, 1, 1]);
        assert_eq!((found.len(), found[0].kind, found[0].count), (1, WarningKind::Starved, 2));
        assert_eq!(
            found[0].text,
            "task poor/1 waited 4.000 s for a CPU, longer than 3.000 s, a tenth of the watchdog's 30.000 s \
             (from 0.000 s on, CPU 1, behind hog 0.000 s); 1 more task likewise"
        );
        let found = of([5, 100_000_000, 4 * second], [1, 0, 1]);
        assert_eq!(
            found.iter().map(|w| w.kind).collect::<Vec<_>>(),
            [WarningKind::NeverRan, WarningKind::Starved]
        );
        assert!(found[0].text.starts_with("task poor/0 never ran: it waited 0.100 s"), "{}", found[0].text);
    }
}
