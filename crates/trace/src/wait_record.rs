//! The figures of waits as a run's record keeps them, by task, process and group, and the warnings that follow from
//! them.

use crate::distribution::Distribution;
use crate::latency::{LongWait, TaskWaits, WaitKind};
use crate::waits::Party;
use schedlab_base::{DurationNs, TaskId, TimeNs};
use std::collections::BTreeMap;

/// Whose waits they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitScope {
    /// Those of all tasks.
    All,
    /// Those of the tasks whose names are equal before the `/`, and of what they fork.
    Group,
    /// Those of the threads of a process that has several.
    Process,
    /// Those of the tasks that began in a group of cgroup v2 or below it, and of what they fork where that is known.
    Cgroup,
    /// Those of one task; `(forked)` is all forked ones.
    Task,
}

impl WaitScope {
    /// All of them.
    pub const ALL: [WaitScope; 5] =
        [WaitScope::All, WaitScope::Group, WaitScope::Process, WaitScope::Cgroup, WaitScope::Task];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            WaitScope::All => "all",
            WaitScope::Group => "group",
            WaitScope::Process => "process",
            WaitScope::Cgroup => "cgroup",
            WaitScope::Task => "task",
        }
    }

    /// The scope of a name.
    pub fn from_name(name: &str) -> Option<WaitScope> {
        WaitScope::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// A text leaves out what fills less than one part in so many of a wait. Chosen: below that a reader's sum agrees.
const PART_TOLD: u64 = 50;

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

impl WorstWait {
    /// `, behind hog/0 96 ms, hog/2 92 ms, others or unknown 7812 ms`: what filled the wait, so that the times add up. Nothing where
    /// no task is known to have run for a part of it that counts.
    pub fn behind_text(&self, time_text: impl Fn(DurationNs) -> String) -> String {
        let counts = |time: DurationNs| time.0 > self.length.0 / PART_TOLD;
        let part = |task: &str, time: DurationNs| format!("{task} {}", time_text(time));
        let mut rest = self.length;
        let mut parts = Vec::new();
        for (task, time) in self.behind.iter().filter(|(_, time)| counts(*time)) {
            rest = DurationNs(rest.0.saturating_sub(time.0));
            parts.push(part(task, *time));
        }
        if parts.is_empty() {
            return String::new();
        }
        parts.extend(counts(rest).then(|| part("others or unknown", rest)));
        format!(", behind {}", parts.join(", "))
    }
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

/// The groups of cgroup v2 that tasks began in.
#[derive(Clone, Debug, Default)]
pub struct Homes<'a> {
    /// By task: the number of its group; the root without.
    pub tasks: Vec<Option<usize>>,
    /// By group: its path, and the number of the one that it is in.
    pub groups: Vec<(&'a str, Option<usize>)>,
}

impl Names<'_> {
    /// Puts the waits of groups behind those of processes. `waits` and `forked` are those of [`Names::records`].
    pub fn add_cgroups<'a>(
        &self,
        records: &mut Vec<WaitRecord>,
        homes: &Homes<'_>,
        waits: &[TaskWaits],
        forked: impl Iterator<Item = (TaskId, &'a TaskWaits)>,
    ) {
        if homes.groups.is_empty() {
            return;
        }
        let mut sums = vec![TaskWaits::default(); homes.groups.len()];
        let own = waits.iter().enumerate();
        for (task, waits) in own.chain(forked.map(|(origin, waits)| (origin.index(), waits))) {
            let mut group = homes.tasks.get(task).copied().flatten();
            while let Some(number) = group {
                sums[number].merge(waits);
                group = homes.groups[number].1;
            }
        }
        let of_groups = homes.groups.iter().zip(&sums);
        let of_groups: Vec<WaitRecord> =
            of_groups.map(|((path, _), waits)| self.record(WaitScope::Cgroup, path, waits)).collect();
        let of_task = records.iter().position(|record| record.scope == WaitScope::Task);
        let at = of_task.unwrap_or(records.len());
        records.splice(at..at, of_groups);
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::histogram::bucket;
    use schedlab_base::CpuId;

    pub(crate) fn party(name: &str, thread: i32, process: i32) -> Party {
        Party { name: name.into(), thread, process, prio: 120 }
    }

    pub(crate) fn waits(task: u32, lengths: &[u64]) -> TaskWaits {
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

    #[test]
    fn what_filled_a_wait_adds_up() {
        let text = |length, behind: &[(&str, u64)]| {
            let behind = behind.iter().map(|(task, ms)| (task.to_string(), DurationNs(*ms))).collect();
            let (task, since, length, cpu) = (String::new(), DurationNs::ZERO, DurationNs(length), 0);
            WorstWait { task, since, length, cpu, behind }.behind_text(|time| format!("{} ms", time.0))
        };
        assert_eq!(text(8000, &[("a", 5000), ("b", 3000)]), ", behind a 5000 ms, b 3000 ms");
        assert_eq!(
            text(8000, &[("a", 960), ("b", 920), ("c", 2)]),
            ", behind a 960 ms, b 920 ms, others or unknown 6120 ms"
        );
        assert_eq!(text(8000, &[("a", 3)]), "");
        assert_eq!(text(8000, &[]), "");
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
        let mut records = records;
        let groups = vec![("a", None), ("a/b", Some(0)), ("c", None)];
        let homes = Homes { tasks: vec![Some(1), Some(0), None], groups };
        names.add_cgroups(&mut records, &homes, &own, [(TaskId(0), &child)].into_iter());
        let of_groups = records.iter().filter(|record| record.scope == WaitScope::Cgroup);
        let told: Vec<(&str, Option<u64>)> =
            of_groups.map(|r| (r.name.as_str(), r.run_delay.as_ref().map(|f| f.count))).collect();
        assert_eq!(told, [("a", Some(4)), ("a/b", Some(2)), ("c", None)]);
        assert_eq!((records[3].name.as_str(), records[6].scope), ("a", WaitScope::Task));
        assert!(
            WaitScope::from_name("process") == Some(WaitScope::Process)
                && WaitScope::from_name("x").is_none()
        );
    }
}
