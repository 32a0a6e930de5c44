//! What is looked for in runs: properties that a scheduler should have and one that is searched for does not.

use super::case::Case;
use super::condition::Condition;
use schedlab_base::{DurationNs, Nice, Policy, Presence};
use schedlab_trace::{ExitKind, RunRecord, TaskRecord, WaitScope, WarningKind, WorstWait};
use schedlab_workload::{Attribute, TaskSpec};
use std::fmt;
use std::str::FromStr;

/// What may be wrong with a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// A task was runnable and ran nothing, or far too little.
    Starved,
    /// CPUs idled while tasks waited that they may run.
    IdleBeside,
    /// A task ran, or was to run, on a CPU outside of its affinity.
    Affinity,
    /// A task waited although all CPUs that it may use idled: the scheduler has forgotten it.
    Lost,
    /// The scheduler was ejected: by the watchdog, for a fault, or by its own error.
    Stall,
    /// A task of low weight got far more of the CPU time that it wanted than one of high weight.
    Inversion,
    /// The tasks did less than under the older scheduler, whatever the seed.
    Worse,
    /// A condition on its figures holds.
    Condition(Condition),
}

impl Property {
    /// All that have names.
    pub const NAMED: [Property; 7] = [
        Property::Starved,
        Property::IdleBeside,
        Property::Affinity,
        Property::Lost,
        Property::Stall,
        Property::Inversion,
        Property::Worse,
    ];

    /// The gravest first: what others may follow from.
    pub(crate) fn rank(&self) -> usize {
        use Property::*;
        [Stall, Affinity, Lost, Starved, Inversion, IdleBeside, Worse]
            .iter()
            .position(|one| one == self)
            .unwrap_or(7)
    }

    /// The name on the command line and in case files; of a condition its text.
    pub fn name(&self) -> &str {
        match self {
            Property::Starved => "starved",
            Property::IdleBeside => "idle-beside",
            Property::Affinity => "affinity",
            Property::Lost => "lost",
            Property::Stall => "stall",
            Property::Inversion => "inversion",
            Property::Worse => "worse",
            Property::Condition(condition) => condition.text(),
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Property {
    type Err = String;

    fn from_str(text: &str) -> Result<Property, String> {
        if let Some(named) = Property::NAMED.into_iter().find(|property| property.name() == text) {
            return Ok(named);
        }
        if text.contains(['<', '>', '=', '!', ' ']) {
            return Condition::parse(text).map(Property::Condition);
        }
        let names = Property::NAMED.each_ref().map(Property::name);
        let near = schedlab_base::did_you_mean(text, names);
        Err(format!(
            "no property '{text}'{near}; there are: {}, and conditions such as 'run_delay_ns_max > 200ms'",
            names.join(", ")
        ))
    }
}

/// Something that went wrong in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What it is a case of; nothing where schedlab itself, or the case, is at fault.
    pub property: Option<Property>,
    /// Kind, by which troubles count as the same: an exit kind, a warning's name, `checker`, `load`, `run`.
    pub kind: String,
    /// What was said about it.
    pub words: String,
}

impl Trouble {
    /// A trouble.
    pub fn new(property: Option<Property>, kind: &str, words: impl Into<String>) -> Trouble {
        Trouble { property, kind: kind.to_string(), words: words.into() }
    }

    /// A condition that holds, if it does for this run and one of the older scheduler.
    ///
    /// # Errors
    /// As of [`Condition::of_run`].
    pub(crate) fn of_condition(
        condition: &Condition,
        run: &RunRecord,
        older: Option<&RunRecord>,
    ) -> Result<Option<Trouble>, String> {
        let property = || Some(Property::Condition(condition.clone()));
        let found = condition.of_run(run, older)?;
        Ok(found.map(|words| Trouble::new(property(), "condition", words)))
    }

    /// Whether both are of the same kind.
    pub fn is_like(&self, other: &Trouble) -> bool {
        self.property == other.property && self.kind == other.kind
    }
}

/// Words in the message of an ejection for a CPU that a task may not use.
const OUTSIDE: [&str; 3] = ["cannot move", "not allowed", "cpus_allowed"];

/// What the record of a run shows.
pub(crate) fn of_record(case: &Case, record: &RunRecord) -> Vec<Trouble> {
    let mut found = Vec::new();
    let exit = &record.exit;
    if exit.kind.is_ejection() {
        let outside =
            exit.kind == ExitKind::Error && OUTSIDE.iter().any(|words| exit.message.contains(words));
        let property = if outside { Property::Affinity } else { Property::Stall };
        let words = format!("{}: {}", exit.reason, exit.message);
        found.push(Trouble::new(Some(property), exit.kind.name(), words));
    }
    // Real-time tasks before others are no choice of the scheduler.
    if !case.has_real_time() {
        found.extend(starved(case, record));
        // Figures of the whole run, of which the kernel's own class has had a part.
        if case.presence == Presence::default() {
            found.extend(inversion(case, record));
            found.extend(idle_beside(record));
        }
    }
    found
}

/// A task that waits longer at once has starved. Chosen: a person takes it for a hang.
const STARVED: DurationNs = DurationNs::from_secs(1);

/// The turn that each other task may have before. Chosen: longer than the slices of all shipped policies at a usual load.
const TURN: DurationNs = DurationNs::from_ms(150);

/// A task that waited longer at once than all other tasks may have run before it, as often as their weights allow.
fn starved(case: &Case, record: &RunRecord) -> Option<Trouble> {
    let changed = case.scenario.changes.iter().filter_map(|change| match change {
        Attribute::Nice(nice) => Some(f64::from(nice.load_weight())),
        _ => None,
    });
    let changed: Vec<f64> = changed.collect();
    let idle_policy = case.scenario.changes.contains(&Attribute::Policy(Policy::Idle));
    let weight = |task: &TaskSpec| match task.policy {
        Policy::Idle => IDLE_WEIGHT,
        _ => f64::from(task.nice.load_weight()),
    };
    let weights = case.scenario.tasks.iter().filter(|task| !task.background).map(weight);
    let highest = weights.chain(changed.iter().copied()).fold(1.0, f64::max);
    let lowest = if idle_policy { IDLE_WEIGHT } else { changed.iter().copied().fold(f64::MAX, f64::min) };
    // Forked tasks wait, too.
    let queued = record.metric("run_queue_length_mean").unwrap_or(0.0) * record.cpus as f64;
    let others = case.scenario.tasks.len() as f64 + 3.0 * queued;
    let bound = (STARVED.0 as f64).max(others * TURN.0 as f64);
    let mut worst: Option<(f64, &WorstWait)> = None;
    for task in case.scenario.tasks.iter().filter(|task| !task.background) {
        let Some(wait) = longest(record, &task.name).filter(|wait| is_its_own(case, wait)) else { continue };
        let times = (highest / weight(task).min(lowest)).max(1.0);
        let over = wait.length.0 as f64 / (bound * times);
        if over >= 1.0 && worst.is_none_or(|(most, _)| over > most) {
            worst = Some((over, wait));
        }
    }
    let (_, wait) = worst?;
    let seconds = |time: DurationNs| format!("{:.3} s", time.as_secs_f64());
    let words = format!(
        "task {} waited {} for a CPU, from {} on, CPU {}{}",
        wait.task,
        seconds(wait.length),
        seconds(wait.since),
        wait.cpu,
        wait.behind_text(seconds)
    );
    Some(Trouble::new(Some(Property::Starved), "starved", words))
}

/// Whether the scheduler was there for all of the wait.
fn is_its_own(case: &Case, wait: &WorstWait) -> bool {
    let Presence { attach, detach } = case.presence;
    attach.is_none_or(|at| at <= wait.since) && detach.is_none_or(|at| wait.since + wait.length <= at)
}

/// The kernel's weight of the policy IDLE (`WEIGHT_IDLEPRIO`).
const IDLE_WEIGHT: f64 = 3.0;

/// The longest wait of a task.
fn longest<'a>(record: &'a RunRecord, task: &str) -> Option<&'a WorstWait> {
    let own = record.task_waits.iter().find(|one| one.scope == WaitScope::Task && one.name == task);
    own?.run_delay.as_ref().map(|figures| &figures.worst)
}

/// Time that CPUs idle beside waiting tasks is much from here on. Chosen: no balancing at ticks loses as much in a short run.
const IDLE: DurationNs = DurationNs::from_ms(100);

/// The time must be this part of one CPU's. Chosen: a shared queue without faults loses less.
const IDLE_PART: u64 = 3;

/// CPUs idled for a large part of the run while tasks waited that they may run.
fn idle_beside(record: &RunRecord) -> Option<Trouble> {
    let idle = record.metric("idle_beside_waiting_ns").unwrap_or(0.0) as u64;
    (idle >= IDLE.0.max(record.duration.0 / IDLE_PART)).then(|| {
        let own = record.warnings.iter().find(|warning| warning.kind == WarningKind::IdleBesideWaiting);
        let words = own.map_or_else(
            || format!("CPUs idled {:.3} s while tasks waited that they may run", idle as f64 / 1e9),
            |warning| warning.text.clone(),
        );
        Trouble::new(Some(Property::IdleBeside), WarningKind::IdleBesideWaiting.name(), words)
    })
}

/// A task inverts another one that is worth so many times more, and of which it gets so many times the CPU time. Chosen: what no
/// rounding of slices does.
const TIMES: f64 = 4.0;

/// Of two tasks that both wanted a CPU for nearly all of the run, the one of far lower weight got far more.
fn inversion(case: &Case, record: &RunRecord) -> Option<Trouble> {
    if !case.scenario.changes.is_empty() || record.duration < STARVED {
        return None;
    }
    let plain = |name: &str| {
        let task = case.scenario.tasks.iter().find(|task| task.name == name);
        task.is_some_and(|task| !task.background && task.affinity.is_none() && task.policy == Policy::Other)
    };
    let row = |task: &TaskRecord| -> Option<(f64, f64)> {
        let own = record.task_waits.iter().find(|one| one.scope == WaitScope::Task && one.name == task.name);
        let waited = own?.run_delay.as_ref().map_or(0.0, |one| one.count as f64 * one.mean.0 as f64);
        let wanted = task.cpu_time.0 as f64 + waited;
        let weight = f64::from(Nice::new(i64::from(task.nice))?.load_weight());
        (wanted * 10.0 >= record.duration.0 as f64 * 9.0).then_some((weight, task.cpu_time.as_secs_f64()))
    };
    let rows: Vec<(&TaskRecord, f64, f64)> = record
        .tasks
        .iter()
        .filter(|task| plain(&task.name))
        .filter_map(|task| row(task).map(|(weight, got)| (task, weight, got)))
        .collect();
    let enough = record.duration.as_secs_f64() / 20.0;
    let pairs = rows.iter().flat_map(|high| rows.iter().map(move |low| (high, low)));
    let inverted = pairs.filter(|((_, high, less), (_, low, more))| {
        low * TIMES <= *high && less * TIMES <= *more && *more >= enough
    });
    // One that gives its CPU away after a moment gets little by its own will.
    let turn = |task: &TaskRecord, got: f64| got / task.switches.max(1) as f64;
    let mut inverted =
        inverted.filter(|((high, _, less), (low, _, more))| turn(high, *less) * TIMES >= turn(low, *more));
    inverted.next().map(|((high, _, less), (low, _, more))| {
        let words = format!(
            "task {} (nice {}) got {less:.3} s of CPU time, and task {} (nice {}) {more:.3} s; both wanted a CPU all the time",
            high.name, high.nice, low.name, low.nice
        );
        Trouble::new(Some(Property::Inversion), "inversion", words)
    })
}
