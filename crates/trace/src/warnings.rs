//! Warnings about a run: what its figures alone do not tell.

use crate::record::{RunRecord, TaskRecord};
use crate::wait_record::{WaitFigures, WaitRecord, WaitScope, WorstWait};
use schedlab_base::{DurationNs, Nice};
use std::collections::BTreeMap;

/// The watchdog's time where a scheduler sets none, and the longest it may set: the kernel's
/// `SCX_WATCHDOG_MAX_TIMEOUT`.
pub const WATCHDOG: DurationNs = DurationNs::from_secs(30);

/// Idle spans and waits of this length are looked at, and added up. Chosen: the tick of a kernel of 1000 Hz; no scheduler
/// notices an idle CPU much sooner where nothing wakes it.
pub const IDLE_LOOK: DurationNs = DurationNs::from_ms(1);

/// A task that never ran although it waited this long is warned about. Chosen: longer than the slices of all shipped
/// policies at a usual load.
const NEVER_RAN: DurationNs = DurationNs::from_ms(100);

/// A wait of more than half of a run has starved the task, from this length on. Chosen: a round of five slices of 100 ms.
const HALF_A_RUN: DurationNs = DurationNs::from_ms(500);

/// So much of the machine's time idle beside waiting tasks, in percent, is worth a warning. Chosen: what a comparison shows, and
/// above what the fair class leaves idle while it balances.
const IDLE_PERCENT: u64 = 5;

/// A task falls behind that gets so many times less, or waits so many times longer, than it should. Chosen: what no noise does.
const FAR: u64 = 10;

/// A wait that is far longer than under the baseline matters from a tenth of the run on, or from this length on. Chosen: what
/// a person notices. Waits below [`HALF_A_RUN`] never do, since slices of 100 ms are no fault in a short run.
const LONG: DurationNs = DurationNs::from_secs(1);

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// A task waited longer than the bound.
    Starved,
    /// A task was runnable and never ran.
    NeverRan,
    /// A CPU idled while a task waited that it could have run.
    IdleBesideWaiting,
    /// A task got far less, or waited far longer, than under the baseline.
    FallsBehind,
    /// All seeds give the same figures.
    SeedsChangeNothing,
    /// The scheduler ran without what its own loader would have set.
    Unconfigured,
    /// Programs of the object that only report were left out.
    LeftOut,
    /// Programs that may decide something were left out.
    NotModelled,
    /// A program that was run while the scheduler was attached has not returned 0.
    ProgramReturned,
    /// The scheduler's own program computed without end.
    LoaderComputes,
    /// The scheduler's own program was refused something that it asked for.
    LoaderRefused,
    /// The scheduler takes tasks of the policy `SCHED_EXT` alone, and there was none.
    NothingToSchedule,
    /// A sub-scheduler was not attached, or did not stay.
    SubScheduler,
    /// Something was to be done at a time at which the run was over.
    NotReached,
    /// No task could run any more: each waited for another one.
    Stuck,
    /// The command did not find a program, or a file, that it wanted.
    CommandFailed,
    /// The command wrote to its standard error.
    CommandWrote,
    /// Groups have settings of which the scheduler does not learn.
    GroupsUnheard,
}

impl WarningKind {
    /// All kinds.
    pub const ALL: [WarningKind; 18] = {
        use WarningKind::*;
        [
            Starved,
            NeverRan,
            IdleBesideWaiting,
            FallsBehind,
            SeedsChangeNothing,
            Unconfigured,
            LeftOut,
            NotModelled,
            LoaderComputes,
            LoaderRefused,
            NothingToSchedule,
            ProgramReturned,
            SubScheduler,
            NotReached,
            Stuck,
            CommandFailed,
            CommandWrote,
            GroupsUnheard,
        ]
    };

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            WarningKind::Starved => "starved",
            WarningKind::NeverRan => "never_ran",
            WarningKind::IdleBesideWaiting => "idle_beside_waiting",
            WarningKind::SeedsChangeNothing => "seeds_change_nothing",
            WarningKind::Unconfigured => "unconfigured",
            WarningKind::LeftOut => "left_out",
            WarningKind::NotModelled => "not_modelled",
            WarningKind::ProgramReturned => "program_returned",
            WarningKind::LoaderComputes => "loader_computes",
            WarningKind::LoaderRefused => "loader_refused",
            WarningKind::NothingToSchedule => "nothing_to_schedule",
            WarningKind::SubScheduler => "sub_scheduler",
            WarningKind::NotReached => "not_reached",
            WarningKind::Stuck => "stuck",
            WarningKind::FallsBehind => "falls_behind",
            WarningKind::CommandFailed => "command_failed",
            WarningKind::CommandWrote => "command_wrote",
            WarningKind::GroupsUnheard => "groups_unheard",
        }
    }

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<WarningKind> {
        WarningKind::ALL.into_iter().find(|kind| kind.name() == name)
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

/// How long CPUs idled while tasks waited that they may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleBeside {
    /// Single spans that are long.
    pub count: u64,
    /// The longest span.
    pub worst: WorstWait,
    /// All spans from [`IDLE_LOOK`] on together.
    pub sum: DurationNs,
    /// The time of all CPUs together.
    pub machine: DurationNs,
}

impl IdleBeside {
    /// True where the spans together are a large part of the machine's time.
    fn is_much(&self) -> bool {
        u128::from(self.sum.0) * 100 >= u128::from(self.machine.0) * u128::from(IDLE_PERCENT)
            && self.sum.0 > 0
    }
}

impl Bounds {
    /// A task that waits longer has starved, however long the run is: a tenth of the watchdog's time.
    pub fn starved(self) -> DurationNs {
        DurationNs(self.watchdog.0 / 10)
    }

    /// A CPU that idles longer beside a waiting task has left it alone: a thousandth of the watchdog's time.
    pub fn idle(self) -> DurationNs {
        DurationNs(self.watchdog.0 / 1000)
    }

    /// Warnings about the waits of the tasks of a run that was so `long`.
    pub fn starvation(self, tasks: &[TaskRecord], waits: &[WaitRecord], long: DurationNs) -> Vec<Warning> {
        // By name; of several tasks with one name the first one counts.
        let mut by_name = BTreeMap::new();
        for task in tasks {
            by_name.entry(task.name.as_str()).or_insert(task);
        }
        let never =
            |record: &WaitRecord| by_name.get(record.name.as_str()).is_some_and(|task| task.switches == 0);
        let worst = |record: &&WaitRecord| record.run_delay.as_ref().map(|figures| figures.worst.clone());
        let single = || waits.iter().filter(|record| record.scope == WaitScope::Task);
        let idle = single().filter(|record| never(record)).filter_map(|record| worst(&record));
        let idle: Vec<WorstWait> = idle.filter(|wait| wait.length >= NEVER_RAN).collect();
        let half = DurationNs(long.0 / 2).max(HALF_A_RUN);
        let (limit, bound) = if half < self.starved() {
            (half, format!("longer than {}, half of the run", seconds(half)))
        } else {
            let (bound, all) = (seconds(self.starved()), seconds(self.watchdog));
            (self.starved(), format!("longer than {bound}, a tenth of the watchdog's {all}"))
        };
        let late = single().filter(|record| !never(record)).filter_map(|record| worst(&record));
        let late: Vec<WorstWait> = late.filter(|wait| wait.length > limit).collect();
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
        let starved = starved.or_else(|| hungry(&by_name, single(), long));
        unlucky.into_iter().chain(starved).collect()
    }

    /// The warning about CPUs that idled beside waiting tasks: in one long span, or in many that are much of the machine's time
    /// together.
    pub fn idle_beside(self, idle: IdleBeside) -> Option<Warning> {
        let much = idle.is_much();
        if idle.count == 0 && !much {
            return None;
        }
        let IdleBeside { count, worst, sum, machine } = idle;
        let mut text = String::new();
        if much {
            text = format!(
                "CPUs idled {:.1} % of the machine's time ({} of {}) while tasks waited that they may run; ",
                100.0 * sum.0 as f64 / machine.0 as f64,
                seconds(sum),
                seconds(machine)
            );
        }
        text.push_str(&format!(
            "CPU {} idled {} while task {}, which it may run, waited, from {} on",
            worst.cpu,
            seconds(worst.length),
            worst.task,
            seconds(worst.since)
        ));
        if count > 0 {
            let (bound, all) = (seconds(self.idle()), seconds(self.watchdog));
            text.push_str(&format!(": longer than {bound}, a thousandth of the watchdog's {all}"));
        }
        if count > 1 {
            text.push_str(&format!("; {count} such spans in all"));
        }
        Some(Warning { kind: WarningKind::IdleBesideWaiting, text, count: count.max(1), worst: Some(worst) })
    }
}

/// The time that a task waited in all.
fn waited(figures: &WaitFigures) -> u64 {
    figures.count.saturating_mul(figures.mean.0)
}

/// The part of the CPU time it wanted that a task, or all together, got.
fn part(got: f64, waited: f64) -> f64 {
    if got + waited > 0.0 { got / (got + waited) } else { 1.0 }
}

/// A warning about a task that got far less of the CPU time that it wanted than all tasks together. Many waits that are each
/// short may starve a task as well as one. What a high nice value costs in the fair class is no starvation.
fn hungry<'a>(
    tasks: &BTreeMap<&str, &TaskRecord>,
    waits: impl Iterator<Item = &'a WaitRecord>,
    long: DurationNs,
) -> Option<Warning> {
    let known: Vec<(&TaskRecord, &WaitFigures)> = waits
        .filter_map(|record| Some((*tasks.get(record.name.as_str())?, record.run_delay.as_ref()?)))
        .collect();
    let got: f64 = known.iter().map(|(task, _)| task.cpu_time.0 as f64).sum();
    let all = part(got, known.iter().map(|(_, figures)| waited(figures) as f64).sum());
    let own = |(task, figures): &(&TaskRecord, &WaitFigures)| {
        let weight =
            Nice::new(i64::from(task.nice)).map_or(1.0, |nice| f64::from(nice.load_weight()) / 1024.0);
        let share = part(task.cpu_time.0 as f64, waited(figures) as f64);
        let enough = all * weight.min(1.0) / FAR as f64;
        let least = DurationNs(long.0 / 2).max(HALF_A_RUN);
        // One that never ran has a warning of its own.
        (task.switches > 0 && waited(figures) >= least.0 && share < enough)
            .then_some((share, figures.worst.clone()))
    };
    let mut poor: Vec<(f64, WorstWait)> = known.iter().filter_map(own).collect();
    poor.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (share, worst) = poor.first()?.clone();
    let text = format!(
        "task {} got {:.2} % of the CPU time that it wanted, all tasks together {:.1} %{}",
        worst.task,
        100.0 * share,
        100.0 * all,
        more(poor.len() as u64)
    );
    Some(Warning { kind: WarningKind::Starved, text, count: poor.len() as u64, worst: Some(worst) })
}

/// The warning about tasks of `run` that got far less, or waited far longer at once, than the same task under the baseline.
pub fn falls_behind(run: &RunRecord, baseline: &RunRecord) -> Option<Warning> {
    let single = |run: &RunRecord, name: &str| {
        let found = run.task_waits.iter().find(|one| one.scope == WaitScope::Task && one.name == name);
        found.and_then(|one| one.run_delay.clone())
    };
    let long = DurationNs(run.duration.0 / FAR).min(LONG).max(HALF_A_RUN);
    let mut found: Vec<(WorstWait, String)> = Vec::new();
    for task in &run.tasks {
        let Some(then) = baseline.tasks.iter().find(|one| one.name == task.name) else { continue };
        let Some(now) = single(run, &task.name) else { continue };
        let before = single(baseline, &task.name);
        let longest = before.as_ref().map_or(0, |figures| figures.worst.length.0);
        let name = &task.name;
        if now.worst.length >= long && now.worst.length.0 / FAR >= longest {
            let (wait, then) = (seconds(now.worst.length), seconds(DurationNs(longest)));
            let text = format!(
                "task {name} waited {wait} for a CPU, and {then} at most under {}",
                baseline.scheduler
            );
            found.push((now.worst, text));
        } else if then.share >= 0.01 && task.share * (FAR as f64) < then.share && waited(&now) >= long.0 {
            let (got, then) = (100.0 * task.share, 100.0 * then.share);
            let under = &baseline.scheduler;
            let text = format!("task {name} got {got:.2} % of a CPU, and {then:.1} % under {under}");
            found.push((now.worst, text));
        }
    }
    let count = found.len() as u64;
    let (worst, text) = found.into_iter().reduce(|a, b| if b.0.length > a.0.length { b } else { a })?;
    Some(Warning { kind: WarningKind::FallsBehind, text: text + &more(count), count, worst: Some(worst) })
}

/// The warning about the longest of some waits, if there are any.
fn warning(kind: WarningKind, waits: Vec<WorstWait>, text: impl Fn(&WorstWait) -> String) -> Option<Warning> {
    let count = waits.len() as u64;
    let worst = waits.into_iter().reduce(|a, b| if b.length > a.length { b } else { a })?;
    Some(Warning { kind, text: text(&worst) + &more(count), count, worst: Some(worst) })
}

/// `; 2 more tasks likewise`, of `count` in all.
fn more(count: u64) -> String {
    match count {
        0 | 1 => String::new(),
        2 => "; 1 more task likewise".to_string(),
        count => format!("; {} more tasks likewise", count - 1),
    }
}

/// ` (from 0.100 s on, CPU 1, behind hog/0 1.200 s)`.
fn place(wait: &WorstWait) -> String {
    format!(" (from {} on, CPU {}{})", seconds(wait.since), wait.cpu, wait.behind_text(seconds))
}

fn seconds(time: DurationNs) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_record::Names;
    use crate::wait_record::tests::{party, waits};

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
    fn starvation_is_told_with_its_bound_and_evidence() {
        let parties = [party("hog", 1001, 1001), party("poor/0", 1002, 1002), party("poor/1", 1003, 1003)];
        let names = Names { parties: &parties, first_pid: 1001 };
        let bounds = Bounds { watchdog: WATCHDOG };
        let second = 1_000_000_000;
        let of = |lengths: [u64; 3], switches: [u64; 3]| {
            let own = [0, 1, 2].map(|at| waits(at as u32, &lengths[at..=at]));
            let records = names.records(&own, std::iter::empty());
            let tasks = [0, 1, 2].map(|at| task(&parties[at].name, switches[at]));
            bounds.starvation(&tasks, &records, DurationNs::from_secs(10))
        };
        assert_eq!(of([5, 3 * second, 99_000_000], [1, 1, 0]), []);
        let found = of([5, 3 * second + 1, 4 * second], [1, 1, 1]);
        assert_eq!((found.len(), found[0].kind, found[0].count), (1, WarningKind::Starved, 2));
        assert_eq!(
            found[0].text,
            "task poor/1 waited 4.000 s for a CPU, longer than 3.000 s, a tenth of the watchdog's 30.000 s \
             (from 0.000 s on, CPU 1); 1 more task likewise"
        );
        let found = of([5, 100_000_000, 4 * second], [1, 0, 1]);
        assert_eq!(
            found.iter().map(|w| w.kind).collect::<Vec<_>>(),
            [WarningKind::NeverRan, WarningKind::Starved]
        );
        assert!(found[0].text.starts_with("task poor/0 never ran: it waited 0.100 s"), "{}", found[0].text);
    }
    fn figures(name: &str, count: u64, mean: u64, longest: u64) -> WaitRecord {
        let worst = WorstWait {
            task: name.into(),
            since: DurationNs(0),
            length: DurationNs::from_ms(longest),
            cpu: 0,
            behind: Vec::new(),
        };
        let time = DurationNs::from_ms(mean);
        let run_delay = WaitFigures { count, mean: time, p50: time, p95: time, p99: time, worst };
        WaitRecord {
            scope: WaitScope::Task,
            name: name.into(),
            run_delay: Some(run_delay),
            wakeup_latency: None,
        }
    }

    #[test]
    fn a_wait_counts_against_the_length_of_the_run() {
        let bounds = Bounds { watchdog: WATCHDOG };
        let of = |longest: u64, run: u64| {
            let found = bounds.starvation(
                &[task("a", 1)],
                &[figures("a", 1, longest, longest)],
                DurationNs::from_ms(run),
            );
            found.first().map(|warning| warning.text.clone()).unwrap_or_default()
        };
        assert!(
            of(1900, 2000).contains("task a waited 1.900 s for a CPU, longer than 1.000 s, half of the run")
        );
        assert_eq!((of(900, 2000), of(490, 600)), (String::new(), String::new()));
    }

    #[test]
    fn many_short_waits_starve_as_well_as_a_long_one() {
        let bounds = Bounds { watchdog: WATCHDOG };
        let of = |nice: i32, got: u64| {
            let poor = TaskRecord { nice, cpu_time: DurationNs::from_ms(got), ..task("poor", 200) };
            let rich = TaskRecord { cpu_time: DurationNs::from_ms(1900), ..task("rich", 200) };
            let waits = [figures("poor", 200, 9, 20), figures("rich", 20, 5, 20)];
            bounds.starvation(&[poor, rich], &waits, DurationNs::from_secs(2))
        };
        let found = of(0, 10);
        assert_eq!((found.len(), found[0].kind), (1, WarningKind::Starved));
        assert!(
            found[0].text.starts_with("task poor got 0.55 % of the CPU time that it wanted"),
            "{}",
            found[0].text
        );
        assert_eq!((of(0, 300), of(19, 10)), (Vec::new(), Vec::new()));
    }

    #[test]
    fn idle_spans_are_added_up() {
        let bounds = Bounds { watchdog: WATCHDOG };
        let of = |count: u64, sum: u64| {
            let worst = figures("a", 1, 5, 5).run_delay.unwrap().worst;
            let (sum, machine) = (DurationNs::from_ms(sum), DurationNs::from_ms(4000));
            bounds.idle_beside(IdleBeside { count, worst, sum, machine }).map(|warning| warning.text)
        };
        assert_eq!((of(0, 0), of(0, 199)), (None, None));
        assert!(
            of(0, 2000).unwrap().starts_with("CPUs idled 50.0 % of the machine's time (2.000 s of 4.000 s)")
        );
        assert!(of(2, 70).unwrap().ends_with("30.000 s; 2 such spans in all"));
    }
}
