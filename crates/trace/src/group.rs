//! What groups of tasks (cgroup v2) got in a run: CPU time and shares, what their quotas took, how long their tasks waited.

use crate::warnings::{Warning, WarningKind};
use schedlab_base::{DurationNs, GroupFile};

/// A group counts as busy from this part of the run on in which its tasks ran or waited for a CPU. Chosen: a hog of a
/// millisecond's work on a slow machine is above it, a task that sleeps a twentieth of the time below.
const BUSY: f64 = 0.98;

/// A task beside groups whose part of the CPU time is smaller does not disturb the arithmetic of weights. Chosen.
const NEGLIGIBLE: f64 = 0.01;

/// For how long tasks waited for a CPU, as `cpu.pressure` has it. Each is a mean over the CPUs that had something to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuPressure {
    /// At least one runnable task waited.
    pub some: DurationNs,
    /// Of that, no task of the group ran.
    pub full: DurationNs,
}

/// One group of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupRecord {
    /// Names from the root down: `a/b`.
    pub name: String,
    /// `cpu.weight` at the end.
    pub weight: u32,
    /// `cpu.idle` at the end.
    pub idle: bool,
    /// `cpu.max` at the end: CPU time in a period, and the period; nothing without a bound.
    pub quota: Option<(DurationNs, DurationNs)>,
    /// `cpu.max.burst` at the end.
    pub burst: DurationNs,
    /// CPU time of its tasks and of all groups below it.
    pub cpu_time: DurationNs,
    /// CPU time of the tasks in the group itself.
    pub own_cpu_time: DurationNs,
    /// Its part of the CPU time of the group that it is in; for one below the root, of that of all tasks.
    pub share: f64,
    /// Its part by the weights of the groups beside it; nothing where that does not follow, see [`complete`].
    pub entitled: Option<f64>,
    /// Periods of the quota in which it was active.
    pub periods: u64,
    /// Of them, those at whose end a CPU was throttled.
    pub throttled: u64,
    /// Sum over the CPUs of the time for which they were throttled.
    pub throttled_time: DurationNs,
    /// Periods that used what earlier ones had left.
    pub bursts: u64,
    /// How much of it.
    pub burst_time: DurationNs,
    /// How long the tasks that began in it, or below it, waited for a CPU, in sum.
    pub run_delay: DurationNs,
    /// Totals of `cpu.pressure`; nothing where the kernel has no such figures, or the group was never made.
    pub pressure: Option<CpuPressure>,
}

/// A task of the start: where it began, and its waits for a CPU.
#[derive(Clone, Copy, Debug)]
pub struct TaskOfGroup {
    /// Number of the group that it began in; the root without.
    pub group: Option<usize>,
    /// Time that it waited for a CPU.
    pub run_delay: DurationNs,
}

/// A run with groups, to be completed.
#[derive(Clone, Debug)]
pub struct GroupsOfRun<'a> {
    /// How long it took.
    pub elapsed: DurationNs,
    /// By group: the number of the one that it is in, which comes before it; the root without.
    pub parents: &'a [Option<usize>],
    /// By group: what it weighs beside others, on the scale of nice values (1024 for `cpu.weight` 100).
    pub loads: &'a [u32],
    /// Tasks of the start; what others used is in the groups' CPU time alone.
    pub tasks: &'a [TaskOfGroup],
    /// CPU time of all tasks, forked ones too.
    pub total: DurationNs,
    /// Programs move tasks or change groups.
    pub changes: bool,
}

/// Fills in what follows from the other figures: CPU time of a group's own tasks, shares, run delays, and parts by weight.
///
/// A part by weight stands where groups keep their tasks and settings, and all groups beside it were busy from begin to end. None of
/// them has met its quota, and no task is beside them.
pub fn complete(records: &mut [GroupRecord], run: &GroupsOfRun<'_>) {
    let mut below = vec![DurationNs::ZERO; records.len()];
    let mut beside = run.total;
    for (record, parent) in records.iter().zip(run.parents) {
        match parent {
            Some(parent) => below[*parent] += record.cpu_time,
            None => beside = DurationNs(beside.0.saturating_sub(record.cpu_time.0)),
        }
    }
    for (record, below) in records.iter_mut().zip(below) {
        record.own_cpu_time = DurationNs(record.cpu_time.0.saturating_sub(below.0));
    }
    for task in run.tasks {
        let mut group = task.group;
        while let Some(number) = group {
            records[number].run_delay += task.run_delay;
            group = run.parents[number];
        }
    }
    let of_parent = |records: &[GroupRecord], parent: Option<usize>| match parent {
        Some(parent) => (records[parent].cpu_time, records[parent].own_cpu_time),
        None => (run.total, beside),
    };
    for number in 0..records.len() {
        let (whole, own) = of_parent(records, run.parents[number]);
        records[number].share = ratio(records[number].cpu_time, whole);
        let arithmetic = !run.changes && ratio(own, whole) < NEGLIGIBLE;
        records[number].entitled = arithmetic.then(|| entitled(records, run, number)).flatten();
    }
}

fn ratio(part: DurationNs, whole: DurationNs) -> f64 {
    if whole.0 == 0 { 0.0 } else { part.0 as f64 / whole.0 as f64 }
}

fn entitled(records: &[GroupRecord], run: &GroupsOfRun<'_>, number: usize) -> Option<f64> {
    let mut sum = 0.0;
    for ((record, parent), load) in records.iter().zip(run.parents).zip(run.loads) {
        if *parent == run.parents[number] {
            let busy = ratio(record.cpu_time + record.run_delay, run.elapsed) >= BUSY;
            if !busy || record.throttled > 0 {
                return None;
            }
            sum += f64::from(*load);
        }
    }
    Some(f64::from(run.loads[number]) / sum)
}

/// The warning that groups say what the scheduler cannot learn, by the callbacks that it has.
pub fn unheard(files: &[GroupFile], has: impl Fn(&GroupFile) -> bool) -> Option<Warning> {
    let deaf: Vec<&GroupFile> = files.iter().filter(|file| !has(file)).collect();
    let told = deaf.iter().map(|file| {
        let more = if file.count > 1 { format!(" and {} more", file.count - 1) } else { String::new() };
        format!("{} of group {}{more} (no ops.{}())", file.file, file.example, file.callback)
    });
    let told: Vec<String> = told.collect();
    let text =
        format!("no effect on tasks of the scheduler, which does not learn of it: {}", told.join("; "));
    let count = deaf.iter().map(|file| file.count).sum();
    (count > 0).then_some(Warning { kind: WarningKind::GroupsUnheard, text, count, worst: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, weight: u32, ms: u64) -> GroupRecord {
        let cpu_time = DurationNs::from_ms(ms);
        GroupRecord { name: name.into(), weight, cpu_time, ..GroupRecord::default() }
    }

    fn task(group: usize, delay: u64) -> TaskOfGroup {
        TaskOfGroup { group: Some(group), run_delay: DurationNs::from_ms(delay) }
    }

    /// a (100) with a/x (100) and a/y (400), b (100), on one CPU for a second.
    fn tree() -> (Vec<GroupRecord>, [Option<usize>; 4], [TaskOfGroup; 3]) {
        let records =
            vec![group("a", 100, 500), group("a/x", 100, 100), group("a/y", 400, 400), group("b", 100, 500)];
        (records, [None, Some(0), Some(0), None], [task(1, 900), task(2, 600), task(3, 500)])
    }

    fn of_run<'a>(parents: &'a [Option<usize>], tasks: &'a [TaskOfGroup], changes: bool) -> GroupsOfRun<'a> {
        let elapsed = DurationNs::from_ms(1_000);
        GroupsOfRun { elapsed, parents, loads: &[1024, 1024, 4096, 1024], tasks, total: elapsed, changes }
    }

    #[test]
    fn shares_are_parts_of_the_group_above_and_weights_say_what_they_should_be() {
        let (mut records, parents, tasks) = tree();
        complete(&mut records, &of_run(&parents, &tasks, false));
        let shares: Vec<f64> = records.iter().map(|record| record.share).collect();
        assert_eq!(shares, [0.5, 0.2, 0.8, 0.5]);
        let entitled: Vec<Option<f64>> = records.iter().map(|record| record.entitled).collect();
        assert_eq!(entitled, [Some(0.5), Some(0.2), Some(0.8), Some(0.5)]);
        assert_eq!(
            (records[0].own_cpu_time, records[0].run_delay),
            (DurationNs::ZERO, DurationNs::from_ms(1_500))
        );
    }

    #[test]
    fn weights_say_nothing_of_groups_that_sleep_change_or_are_throttled() {
        let (records, parents, tasks) = tree();
        let entitled = |records: &[GroupRecord], tasks: &[TaskOfGroup], changes| {
            let mut records = records.to_vec();
            complete(&mut records, &of_run(&parents, tasks, changes));
            records.iter().map(|record| record.entitled.is_some()).collect::<Vec<_>>()
        };
        assert_eq!(entitled(&records, &tasks, true), [false; 4]);
        let sleeps = [task(1, 0), tasks[1], tasks[2]];
        assert_eq!(entitled(&records, &sleeps, false), [true, false, false, true]);
        let mut bound = records.clone();
        bound[3].throttled = 1;
        assert_eq!(entitled(&bound, &tasks, false), [false, true, true, false]);
    }

    #[test]
    fn what_a_scheduler_does_not_learn_is_named() {
        let file = |file, callback, count| GroupFile { file, callback, example: "a/b".into(), count };
        let files = [file("cpu.weight", "cgroup_set_weight", 3), file("cpu.max", "cgroup_set_bandwidth", 1)];
        let of = |has: &[&str]| {
            unheard(&files, |known| has.contains(&known.callback)).map(|one| (one.text, one.count))
        };
        let (text, count) = of(&[]).unwrap();
        assert!(text.ends_with("cpu.weight of group a/b and 2 more (no ops.cgroup_set_weight()); cpu.max of group a/b (no ops.cgroup_set_bandwidth())"), "{text}");
        assert_eq!((count, of(&["cgroup_set_weight"]).unwrap().1), (4, 1));
        assert_eq!(of(&["cgroup_set_weight", "cgroup_set_bandwidth"]), None);
        assert_eq!(unheard(&[], |_| false), None);
    }

    #[test]
    fn an_idle_group_has_the_load_of_an_idle_task() {
        let mut records = vec![group("a", 100, 997), GroupRecord { idle: true, ..group("b", 100, 3) }];
        let tasks = [task(0, 3), task(1, 997)];
        let run = GroupsOfRun { loads: &[1024, 3], ..of_run(&[None, None], &tasks, false) };
        complete(&mut records, &run);
        assert_eq!(records[1].entitled, Some(3.0 / 1027.0));
    }
}
