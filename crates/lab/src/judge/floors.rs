//! What no task may suffer, measured or not: the floors.

use crate::judge::drawn::Drawn;
use schedlab_base::DurationNs;
use schedlab_trace::{RunRecord, Standing, Warning, WarningKind, falls_behind};

/// A task gets at least this part of the CPU time that the base gives it. Chosen: far below what honest policies differ by.
const FLOOR: f64 = 0.25;

/// CPU time under the base from which on the floor holds. Chosen: less is a few turns.
const LEAST: DurationNs = DurationNs::from_ms(5);

/// In each third of a run a task gets at least this part of what the base gives it then. Chosen.
const THIRD_FLOOR: f64 = 0.1;

/// CPU time in a third under the base from which on the two rules about thirds hold. Chosen: several turns.
const THIRD_LEAST: f64 = 20e6;

/// The last third may serve a task this many times better, beside the middle one, than under the base. Chosen.
const AT_THE_END: f64 = 3.0;

/// What a run of the candidate is guilty of, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FaultKind {
    /// The scheduler left before the end.
    Left,
    /// A task never ran.
    NeverRan,
    /// A task starved.
    Starved,
    /// A task got too little.
    BelowFloor,
    /// A task got nothing for a third of the run.
    Gap,
    /// The end is served better than the middle.
    AtTheEnd,
    /// A task waited far longer.
    FallsBehind,
    /// CPUs idled beside waiting tasks.
    Idle,
    /// Another warning makes the figures suspect.
    Suspect,
    /// A figure is missing.
    NoFigure,
    /// A load or metric is shown to be worse than its bound.
    Worse,
}

impl FaultKind {
    /// Its name in reasons.
    pub(super) fn name(self) -> &'static str {
        match self {
            FaultKind::Left => "left",
            FaultKind::NeverRan => "never_ran",
            FaultKind::Starved => "starved",
            FaultKind::BelowFloor => "below_floor",
            FaultKind::Gap => "gap",
            FaultKind::AtTheEnd => "at_the_end",
            FaultKind::FallsBehind => "falls_behind",
            FaultKind::Idle => "idle_beside_waiting",
            FaultKind::Suspect => "suspect",
            FaultKind::NoFigure => "no_figure",
            FaultKind::Worse => "worse",
        }
    }

    /// Without names and figures, for a load that is not shown.
    pub(super) fn words(self) -> &'static str {
        match self {
            FaultKind::Left => "the scheduler was ejected, or left before the end",
            FaultKind::NeverRan => "a task never ran",
            FaultKind::Starved => "a task starved",
            FaultKind::BelowFloor => "a task got less than a quarter of the CPU time that the base gives it",
            FaultKind::Gap => "a task got next to nothing in a third of the run",
            FaultKind::AtTheEnd => "the end of the run is served better than its middle",
            FaultKind::FallsBehind => "a task waited far longer than under the base",
            FaultKind::Idle => "CPUs idled beside waiting tasks",
            FaultKind::Suspect => "a warning makes its figures suspect",
            FaultKind::NoFigure => "a metric has no figure",
            FaultKind::Worse => "it is shown to be worse than its bound",
        }
    }

    /// True where the figures of the run do not count.
    pub(super) fn voids(self) -> bool {
        !matches!(self, FaultKind::Worse)
    }
}

/// A fault of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    /// What happened, with the workload's own names.
    pub(super) text: String,
    /// How many tasks it is true of.
    pub(super) tasks: u64,
}

/// A run with the CPU time of its tasks in thirds.
pub(super) struct Seen {
    pub(super) record: RunRecord,
    pub(super) thirds: Vec<[f64; 3]>,
}

/// The faults of a candidate's run beside the base's own.
pub(super) fn faults(drawn: &Drawn, candidate: &Seen, base: &Seen) -> Vec<Fault> {
    let run = &candidate.record;
    if run.is_void() {
        return vec![left(run)];
    }
    let mut found: Vec<Fault> = Vec::new();
    let known = |kind: WarningKind| base.record.warnings.iter().any(|warning| warning.kind == kind);
    let touching = |warning: &&Warning| warning.kind.standing() != Standing::Valid && !known(warning.kind);
    let behind = falls_behind(run, &base.record);
    for warning in run.warnings.iter().filter(touching).chain(&behind) {
        let text = drawn.what.in_own_names(&warning.text);
        found.push(Fault { kind: kind_of(warning.kind), text, tasks: 1 });
    }
    let tasks = (0..drawn.what.names.len()).filter_map(|at| Some((at, drawn.what.names[at].as_deref()?)));
    let each: Vec<Fault> = tasks.filter_map(|(at, name)| of_task(at, name, candidate, base)).collect();
    for fault in each {
        match found.iter_mut().find(|other| other.kind == fault.kind) {
            Some(other) => other.tasks += 1,
            None => found.push(fault),
        }
    }
    found.sort_by_key(|fault| fault.kind);
    found
}

fn left(run: &RunRecord) -> Fault {
    let exit = &run.exit;
    let when = exit.after.map(|after| format!(" after {:.3} s", after.as_secs_f64())).unwrap_or_default();
    let words = [exit.reason.as_str(), exit.message.as_str()];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let text = format!("the scheduler left{when}: {}: {}", exit.kind.name(), words.join(": "));
    Fault { kind: FaultKind::Left, text, tasks: 1 }
}

fn kind_of(kind: WarningKind) -> FaultKind {
    match kind {
        WarningKind::NeverRan => FaultKind::NeverRan,
        WarningKind::Starved => FaultKind::Starved,
        WarningKind::FallsBehind => FaultKind::FallsBehind,
        WarningKind::IdleBesideWaiting => FaultKind::Idle,
        _ => FaultKind::Suspect,
    }
}

/// The fault that a task suffers, the worst one.
fn of_task(at: usize, name: &str, candidate: &Seen, base: &Seen) -> Option<Fault> {
    let (mine, then) = (candidate.record.tasks.get(at)?, base.record.tasks.get(at)?);
    let fault = |kind, text| Some(Fault { kind, text, tasks: 1 });
    let under = &base.record.scheduler;
    if then.cpu_time >= LEAST && mine.share < FLOOR * then.share {
        let [got, then] = [mine.share, then.share].map(|share| 100.0 * share);
        let text =
            format!("task {name} got {got:.2} % of a CPU, {then:.1} % under {under}; the floor is a quarter");
        return fault(FaultKind::BelowFloor, text);
    }
    let (mine, then) = (candidate.thirds.get(at)?, base.thirds.get(at)?);
    if then.iter().any(|time| *time < THIRD_LEAST) {
        return None;
    }
    let rate =
        |thirds: &[f64; 3], run: &RunRecord| thirds.map(|time| time / (run.duration.0 as f64 / 3.0).max(1.0));
    let (mine, then) = (rate(mine, &candidate.record), rate(then, &base.record));
    let third = ["first", "second", "last"];
    if let Some(which) = (0..3).find(|which| mine[*which] < THIRD_FLOOR * then[*which]) {
        let [got, then] = [mine[which], then[which]].map(|rate| 100.0 * rate);
        let third = third[which];
        let text = format!(
            "task {name} got {got:.2} % of a CPU in the {third} third of the run, {then:.1} % under {under}"
        );
        return fault(FaultKind::Gap, text);
    }
    if mine[1] < 0.5 * then[1] && mine[2] * then[1] > AT_THE_END * then[2] * mine[1] {
        let [middle, end] = [mine[1], mine[2]].map(|rate| 100.0 * rate);
        let text = format!(
            "task {name} got {middle:.2} % of a CPU in the middle third, and {end:.1} % in the last one"
        );
        return fault(FaultKind::AtTheEnd, text);
    }
    None
}
