//! Schedulers compared: per workload, machine, CPU count and metric, each against
//! the baseline.

use crate::format::number;
use crate::table::unit_text;
use crate::workload_names::WorkloadNames;
use schedlab_base::{Better, counted};
use schedlab_stats::{
    Change, Level, Moments, hedges_g, mean_interval, paired, permutation_test, relative_change, runs_for,
    welch,
};
use schedlab_trace::{Backend, RunRecord, Standing, Warning, WarningKind, WorkloadRecord, falls_behind};

/// The least difference that matters by default, in percent. Chosen: what no user feels.
pub const LEAST_EFFECT: f64 = 1.0;

/// What has to be equal for two runs to be comparable.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The workload with its parameters.
    pub workload: WorkloadRecord,
    /// Machine name.
    pub machine: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// Where the runs took place.
    pub backend: Backend,
}

/// One scheduler's values of one metric, one per run in the order of the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The scheduler with its settings.
    pub scheduler: String,
    /// The raw values.
    pub values: Vec<f64>,
    /// The seed of each value.
    pub seeds: Vec<u64>,
    /// Size, mean and standard deviation.
    pub moments: Moments,
    /// Half width of the mean's interval; nothing with fewer than two runs.
    pub half_width: Option<f64>,
    /// How far its runs count, void ones among them: the worst of them.
    pub trust: Trust,
}

/// How far the runs of a scheduler in a cell count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trust {
    /// The worst of the runs.
    pub standing: Standing,
    /// Why they are not all valid: `ejected`, `ended_early`, kinds of warnings.
    pub reasons: Vec<String>,
    /// The seeds of void runs, which are in no mean.
    pub void_seeds: Vec<u64>,
}

impl Trust {
    /// That of some runs.
    pub(crate) fn of<'a>(runs: impl Iterator<Item = &'a RunRecord> + Clone) -> Trust {
        let standing = runs.clone().map(RunRecord::standing).max().unwrap_or_default();
        let reasons = distinct(runs.clone().flat_map(RunRecord::standing_reasons).map(str::to_string));
        Trust {
            standing,
            reasons,
            void_seeds: runs.filter(|run| run.is_void()).map(|run| run.seed).collect(),
        }
    }

    /// The worse of two.
    fn with(&self, other: &Trust) -> Trust {
        let reasons = distinct(self.reasons.iter().chain(&other.reasons).cloned());
        let void_seeds = distinct(self.void_seeds.iter().chain(&other.void_seeds).copied());
        Trust { standing: self.standing.max(other.standing), reasons, void_seeds }
    }

    /// A verdict with what stands against it: `better (suspect)`.
    pub(crate) fn mark(&self, verdict: &str) -> String {
        match self.standing {
            Standing::Valid => verdict.to_string(),
            Standing::Suspect => format!("{verdict} (suspect)"),
            Standing::Void => format!("{verdict} (runs void)"),
        }
    }

    /// A verdict without the mark.
    pub(crate) fn unmark(marked: &str) -> &str {
        marked.strip_suffix(" (suspect)").or_else(|| marked.strip_suffix(" (runs void)")).unwrap_or(marked)
    }

    /// A verdict with the reasons: `better (suspect: never_ran)`.
    pub(crate) fn explain(&self, verdict: &str) -> String {
        match self.standing {
            Standing::Valid => verdict.to_string(),
            Standing::Suspect => format!("{verdict} (suspect: {})", self.reasons.join(", ")),
            Standing::Void => format!("{verdict} (runs void: {})", self.reasons.join(", ")),
        }
    }
}

impl Sample {
    /// True if two seeds or more give one value.
    fn is_the_same_with_each_seed(&self) -> bool {
        let seeds = self.seeds.iter().any(|seed| *seed != self.seeds[0]);
        seeds && self.values.iter().all(|value| value.to_bits() == self.values[0].to_bits())
    }
}

/// What a comparison says. Decided by the interval of the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The candidate is better, beyond doubt at the level.
    Better,
    /// The candidate is worse.
    Worse,
    /// It differs, and neither direction is the good one.
    Different,
    /// The interval of the difference contains 0.
    NoDifference,
    /// The difference is smaller than the least that matters, or its interval leaves no room for more.
    NoneThatMatters,
    /// One of the sides has fewer than two runs.
    TooFewRuns,
    /// The simulated difference is smaller than what the simulator errs by ([`crate::heed_bars`]).
    NotDecided,
}

impl Verdict {
    /// All of them.
    pub(crate) const ALL: [Verdict; 7] = {
        use Verdict::*;
        [Better, Worse, Different, NoDifference, NoneThatMatters, TooFewRuns, NotDecided]
    };

    /// The words in tables and results.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Different => "different",
            Verdict::NoDifference => "no difference shown",
            Verdict::NoneThatMatters => "no difference that matters",
            Verdict::TooFewRuns => "too few runs",
            Verdict::NotDecided => "not decided by this simulator",
        }
    }

    /// The verdict of a name.
    pub(crate) fn from_name(name: &str) -> Option<Verdict> {
        Verdict::ALL.into_iter().find(|v| v.name() == name)
    }
}

/// One metric of one candidate against the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Where.
    pub cell: Cell,
    /// Name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: &'static str,
    /// Its good direction.
    pub better: Better,
    /// Confidence level in percent.
    pub level_percent: f64,
    /// The reference.
    pub baseline: Sample,
    /// The scheduler that is judged.
    pub candidate: Sample,
    /// Mean of the candidate minus mean of the baseline.
    pub difference: f64,
    /// Half width of the difference's interval: of the differences seed by seed where the runs
    /// are pairs, else Welch's.
    pub half_width: Option<f64>,
    /// Differences of less than so many percent of the baseline's mean do not matter.
    pub at_least_percent: f64,
    /// Every seed gave each side the same figure: the runs are worth one.
    pub seeds_change_nothing: bool,
    /// True where both sides had the same work with each seed, and were compared seed by seed.
    pub paired: bool,
    /// About how many runs would show a difference as large as the measured one, where none is
    /// shown and that is feasible.
    pub runs_needed: Option<usize>,
    /// The difference in percent of the baseline's mean.
    pub percent: Option<f64>,
    /// Between which percentages it lies, with the error of both means.
    pub percent_interval: Option<[f64; 2]>,
    /// Two-sided p value of Student's test of pairs.
    pub p_paired: Option<f64>,
    /// Two-sided p value of Welch's test.
    pub p_welch: Option<f64>,
    /// Two-sided p value of the permutation test, which assumes less.
    pub p_permutation: Option<f64>,
    /// Hedges' g.
    pub effect: Option<f64>,
    /// By what factor the ratio of the two means may differ from the real kernel's, where that was measured.
    pub kernel_factor: Option<f64>,
    /// Half of the range of a real kernel's runs in percent, where that was measured: of the middle one of such runs.
    pub kernel_spread_percent: Option<f64>,
    /// What it means.
    pub verdict: Verdict,
}

impl Comparison {
    /// How far the runs of both sides count.
    pub fn trust(&self) -> Trust {
        self.baseline.trust.with(&self.candidate.trust)
    }
}

/// Adds to each run of a cell but the baseline's a warning about tasks that fall behind the baseline's run of its seed, or its first
/// one. Void runs are passed over.
pub fn add_falls_behind(runs: &mut [RunRecord]) {
    let mut found = Vec::new();
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| !run.is_void()) {
        let cell = cell_of(run);
        let inside = || runs.iter().filter(|other| cell_of(other) == cell);
        let Some(label) = inside().next().map(scheduler_label) else { continue };
        let baseline = || inside().filter(|other| scheduler_label(other) == label && !other.is_void());
        let same = baseline().find(|other| other.seed == run.seed).or_else(|| baseline().next());
        if let Some(baseline) = same.filter(|_| scheduler_label(run) != label) {
            found.extend(falls_behind(run, baseline).map(|warning| (at, warning)));
        }
    }
    for (at, warning) in found {
        runs[at].warnings.push(warning);
    }
}

/// The scheduler's name with its settings: `o1` or `o1[profile=d1]`.
pub fn scheduler_label(run: &RunRecord) -> String {
    if run.settings.is_empty() {
        return run.scheduler.clone();
    }
    let settings: Vec<String> = run.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{}[{}]", run.scheduler, settings.join(","))
}

/// Compares every scheduler with the first one, in each cell and for each metric
/// that both sides have. Differences below `at_least` percent of the baseline's mean do not matter. Void runs enter no mean; a
/// cell without another run of the baseline has no comparison. Cells, metrics and schedulers keep the order of the runs.
pub fn compare(runs: &[RunRecord], level: Level, at_least: f64) -> Vec<Comparison> {
    let cells = distinct(runs.iter().map(cell_of));
    let mut comparisons = Vec::new();
    for cell in cells {
        let inside: Vec<&RunRecord> = runs.iter().filter(|run| cell_of(run) == cell).collect();
        let schedulers = distinct(inside.iter().map(|run| scheduler_label(run)));
        let names = distinct(inside.iter().flat_map(|run| run.metrics.iter().map(|m| m.name.clone())));
        let Some((baseline, candidates)) = schedulers.split_first() else { continue };
        for name in &names {
            for candidate in candidates {
                let sides = (sample(&inside, baseline, name, level), sample(&inside, candidate, name, level));
                let (Some(baseline), Some(candidate)) = sides else { continue };
                let metric = inside.iter().flat_map(|run| &run.metrics).find(|m| m.name == *name);
                let Some(metric) = metric else { continue };
                let place = (cell.clone(), name.clone());
                comparisons.push(judge(
                    place,
                    metric.unit,
                    metric.better,
                    [baseline, candidate],
                    (level, at_least),
                ));
            }
        }
    }
    comparisons
}

/// The first run of each scheduler in each cell: one seed stands for the others.
pub fn first_runs(runs: &[RunRecord]) -> Vec<&RunRecord> {
    let mut seen = Vec::new();
    let mut is_new = |run: &&RunRecord| {
        let place = (cell_of(run), scheduler_label(run));
        let new = !seen.contains(&place);
        if new {
            seen.push(place);
        }
        new
    };
    runs.iter().filter(|run| is_new(run)).collect()
}

/// The name of a workload's main metric: the first one of its runs, those that end too early left out.
pub(crate) fn main_metric<'a>(runs: &'a [RunRecord], workload: &WorkloadRecord) -> Option<&'a str> {
    let run = runs.iter().find(|run| run.workload == *workload && !run.is_void());
    run.and_then(|run| run.metrics.first()).map(|metric| metric.name.as_str())
}

pub(crate) fn cell_of(run: &RunRecord) -> Cell {
    Cell {
        workload: run.workload.clone(),
        machine: run.machine.clone(),
        cpus: run.cpus,
        backend: run.backend,
    }
}

pub(crate) fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

fn sample(runs: &[&RunRecord], scheduler: &str, metric: &str, level: Level) -> Option<Sample> {
    let own = runs.iter().copied().filter(|run| scheduler_label(run) == scheduler);
    let (values, seeds): (Vec<f64>, Vec<u64>) = own
        .clone()
        .filter(|run| !run.is_void())
        .filter_map(|run| run.metric(metric).map(|value| (value, run.seed)))
        .filter(|(value, _)| value.is_finite())
        .unzip();
    let moments = Moments::of(&values).ok()?;
    let half_width = mean_interval(&moments, level).ok().map(|interval| interval.half_width);
    Some(Sample {
        scheduler: scheduler.to_string(),
        values,
        seeds,
        moments,
        half_width,
        trust: Trust::of(own),
    })
}

/// The seed of drawn permutations: fixed, so that equal runs give equal reports.
const PERMUTATION_SEED: u64 = 1;

fn judge(
    (cell, metric): (Cell, String),
    unit: &'static str,
    better: Better,
    [baseline, candidate]: [Sample; 2],
    (level, at_least): (Level, f64),
) -> Comparison {
    let difference = candidate.moments.mean - baseline.moments.mean;
    let by_welch = welch(&candidate.moments, &baseline.moments, level).ok();
    // In the simulation a seed is the same work for every scheduler; on a real machine only the
    // same program.
    let pairs = cell.backend == Backend::Sim && candidate.seeds == baseline.seeds;
    let by_pairs = pairs.then(|| paired(&candidate.values, &baseline.values, level).ok()).flatten();
    let decided = match (&by_pairs, &by_welch) {
        (Some(test), _) => Some((test.half_width, test.proven)),
        (None, Some(test)) => Some((test.half_width, test.proven)),
        (None, None) => None,
    };
    let least = at_least / 100.0 * baseline.moments.mean.abs();
    let small = |half_width: f64, proven: bool| {
        let reach = difference.abs() + half_width;
        reach < least || proven && difference.abs() < least || reach <= 0.0
    };
    let verdict = match (decided, better) {
        (None, _) => Verdict::TooFewRuns,
        (Some((half_width, proven)), _) if small(half_width, proven) => Verdict::NoneThatMatters,
        (Some((_, false)), _) => Verdict::NoDifference,
        (Some(_), Better::Neither) => Verdict::Different,
        (Some(_), direction) if (direction == Better::Higher) == (difference > 0.0) => Verdict::Better,
        (Some(_), _) => Verdict::Worse,
    };
    let spread = by_pairs
        .map_or_else(|| (candidate.moments.variance() + baseline.moments.variance()).sqrt(), |test| test.sd);
    let wanted = || runs_for(spread, difference.abs(), level);
    let runs_needed = (verdict == Verdict::NoDifference).then(wanted).flatten();
    let change = relative_change(&candidate.values, &baseline.values, by_pairs.is_some(), level);
    let permutation = permutation_test(&candidate.values, &baseline.values, PERMUTATION_SEED).ok();
    Comparison {
        cell,
        metric,
        unit,
        better,
        level_percent: f64::from(level.permille()) / 10.0,
        difference,
        half_width: decided.map(|(half_width, _)| half_width),
        at_least_percent: at_least,
        seeds_change_nothing: baseline.is_the_same_with_each_seed() && candidate.is_the_same_with_each_seed(),
        paired: by_pairs.is_some(),
        runs_needed,
        percent: change.map(|change| change.percent),
        percent_interval: change.and_then(|Change { interval, .. }| interval),
        p_paired: by_pairs.map(|test| test.p_value),
        p_welch: by_welch.as_ref().map(|test| test.p_value),
        p_permutation: by_welch.and(permutation).map(|test| test.p_value),
        effect: hedges_g(&candidate.moments, &baseline.moments).ok().flatten(),
        kernel_factor: None,
        kernel_spread_percent: None,
        verdict,
        baseline,
        candidate,
    }
}

/// A warning for every scheduler of a cell whose runs all have the same figures, whatever their seed.
pub fn seed_warnings(runs: &[RunRecord]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for cell in distinct(runs.iter().map(cell_of)) {
        let inside: Vec<&RunRecord> = runs.iter().filter(|run| cell_of(run) == cell).collect();
        let same = |name: &String| {
            let own = inside.iter().copied().filter(|run| scheduler_label(run) == *name && !run.is_void());
            let runs: Vec<&RunRecord> = own.collect();
            let figures = |run: &RunRecord| {
                run.metrics.iter().map(|m| (m.name.clone(), m.value.to_bits())).collect::<Vec<_>>()
            };
            runs.iter().any(|run| run.seed != runs[0].seed)
                && runs.iter().all(|run| figures(run) == figures(runs[0]))
        };
        let names = distinct(inside.iter().map(|run| scheduler_label(run)));
        let names: Vec<String> = names.into_iter().filter(same).collect();
        if !names.is_empty() {
            let text = format!(
                "the seeds change nothing in {} on {} under {}: every run has the same figures, so that one says as \
                 much as all",
                cell.workload.name,
                counted(cell.cpus, "CPU"),
                names.join(", ")
            );
            let (kind, count) = (WarningKind::SeedsChangeNothing, names.len() as u64);
            warnings.push(Warning { kind, text, count, worst: None });
        }
    }
    warnings
}

/// An interval wider than this part of the baseline's mean says little. Chosen: what this
/// page's readers call a small difference.
const WIDE: f64 = 0.05;

/// What to do about comparisons that say little: one sentence each, most runs first; nothing
/// where all is well.
pub fn advice(comparisons: &[Comparison]) -> Vec<String> {
    let mut advice = Vec::new();
    let few = comparisons.iter().map(|c| c.baseline.values.len().min(c.candidate.values.len())).min();
    if let Some(few) = few.filter(|few| *few < 3) {
        advice.push(format!(
            "{} on a side: too few; --runs 5 or more gives an interval to rely on",
            counted(few, "run")
        ));
    }
    let wide = |c: &&Comparison| {
        let mean = c.baseline.moments.mean.abs();
        c.verdict == Verdict::NoDifference && c.half_width.is_some_and(|half| half > WIDE * mean)
    };
    let names = WorkloadNames::of(comparisons.iter().map(|c| &c.cell.workload));
    for c in comparisons.iter().filter(wide) {
        let workload = names.get(&c.cell.workload);
        let under = if names.are_several() { format!(" under {workload}") } else { String::new() };
        let place =
            format!("{} of {}{under} on {}", c.metric, c.candidate.scheduler, counted(c.cell.cpus, "CPU"));
        let (half, mean) = (c.half_width.unwrap_or(0.0), c.baseline.moments.mean.abs());
        let spread = if mean > 0.0 {
            format!("{:.0} %", 100.0 * half / mean)
        } else {
            format!("{} {}", number(half), unit_text(c.unit)).trim_end().to_string()
        };
        let cure = c.runs_needed.map_or_else(
            || "more runs than are feasible would show a difference as small as the measured one".to_string(),
            |runs| {
                format!("about {} would show a difference as large as the measured one", counted(runs, "run"))
            },
        );
        advice.push(format!("{place}: the spread is large (+/- {spread}); {cure}"));
    }
    advice
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use schedlab_base::{CpuId, DurationNs, Metric, TimeNs};
    use schedlab_trace::{
        AfterEjection, Bucket, CallbackCost, Counter, Distribution, ExitKind, ExitRecord, Printed,
        PrintedLine, Provenance, SchedulerTable, Series, TaskRecord, WaitFigures, WaitRecord, WaitScope,
        WorstWait,
    };

    /// A made-up run for tests of this room.
    pub(crate) fn run(scheduler: &str, seed: u64, throughput: f64) -> RunRecord {
        RunRecord {
            scheduler: scheduler.to_string(),
            settings: Vec::new(),
            workload: WorkloadRecord {
                name: "chat".into(),
                params: vec![("rooms".into(), "3".into()), ("fanout".into(), "a<b".into())],
            },
            machine: "modern".into(),
            cpus: 2,
            seed,
            backend: Backend::Sim,
            duration: DurationNs::from_ms(5),
            validation: None,
            exit: ExitRecord::default(),
            metrics: vec![
                Metric::new("throughput", throughput, "messages/s", Better::Higher),
                Metric::new("context_switches", 7.0, "1", Better::Neither),
            ],
            histograms: vec![("run_delay_ns".into(), distribution(&[(0, 3), (992, 4), (1000, 1)]))],
            series: vec![Series { name: "iteration_time".into(), unit: "ms", values: vec![9.5, 2.0] }],
            counters: vec![Counter { name: "picks".into(), value: 12, meaning: "tasks picked".into() }],
            tasks: vec![TaskRecord {
                name: "client/0".into(),
                nice: 0,
                cpu_time: DurationNs::from_ms(2),
                share: 0.4,
                switches: 3,
                migrations: 1,
            }],
            task_waits: vec![waits("client/0")],
            warnings: vec![Warning {
                kind: WarningKind::SeedsChangeNothing,
                text: "task client/0 waited".into(),
                count: 2,
                worst: Some(waits("client/0").run_delay.unwrap().worst),
            }],
            after_ejection: Some(AfterEjection {
                duration: DurationNs(77),
                metrics: vec![Metric::new("context_switches", 9.0, "1", Better::Neither)],
                tasks: Vec::new(),
            }),
            provenance: Provenance {
                object: Some("ab12".into()),
                build: Some("0.1".into()),
                ..Provenance::default()
            },
            trace_hash: Some("00ff".into()),
            priorities: Vec::new(),
            timeline: None,
            waits: None,
            loader_output: "loaded\nattached\n".into(),
            printed: Printed {
                lines: vec![PrintedLine {
                    time: TimeNs(1_500),
                    cpu: CpuId(1),
                    task: "client/0".into(),
                    text: "enqueue 7".into(),
                }],
                left_out: 2,
            },
            callbacks: vec![CallbackCost {
                name: "enqueue".into(),
                calls: 4,
                insns: Some(100),
                time: DurationNs(2_000),
            }],
            tables: vec![SchedulerTable {
                name: "trusted".into(),
                meaning: "who is trusted".into(),
                columns: vec!["pid".into()],
                rows: vec![vec!["7".into()]],
            }],
        }
    }

    /// Made-up waits of a task.
    fn waits(name: &str) -> WaitRecord {
        let worst = WorstWait {
            task: name.into(),
            since: DurationNs(5),
            length: DurationNs(900),
            cpu: 1,
            behind: vec![("hog".into(), DurationNs(800))],
        };
        let (p50, p95, p99) = (DurationNs(10), DurationNs(20), DurationNs(30));
        let figures = WaitFigures { count: 3, mean: p50, p50, p95, p99, worst };
        let (scope, name) = (WaitScope::Task, name.to_string());
        WaitRecord { scope, name, run_delay: Some(figures), wakeup_latency: None }
    }

    /// A distribution from bounds and counts.
    pub(crate) fn distribution(buckets: &[(u64, u64)]) -> Distribution {
        let bucket = |&(le, count): &(u64, u64)| Bucket { le: DurationNs(le), count };
        Distribution::new(buckets.iter().map(bucket).collect()).unwrap()
    }

    fn runs(a: &[f64], b: &[f64]) -> Vec<RunRecord> {
        let side = |name: &str, values: &[f64]| -> Vec<RunRecord> {
            values.iter().enumerate().map(|(seed, &value)| run(name, seed as u64, value)).collect()
        };
        [side("vanilla", a), side("o1", b)].concat()
    }

    fn verdict(a: &[f64], b: &[f64]) -> Verdict {
        compare(&runs(a, b), Level::P95, 1.0)[0].verdict
    }

    #[test]
    fn verdicts_follow_direction_and_spread() {
        assert_eq!(verdict(&[10.0, 11.0, 12.0], &[20.0, 21.0, 22.0]), Verdict::Better);
        assert_eq!(verdict(&[20.0, 21.0, 22.0], &[10.0, 11.0, 12.0]), Verdict::Worse);
        assert_eq!(verdict(&[10.0, 15.0, 20.0], &[11.0, 16.0, 18.0]), Verdict::NoDifference);
        assert_eq!(verdict(&[10.0], &[20.0]), Verdict::TooFewRuns);
        assert_eq!(verdict(&[5.0; 3], &[5.0; 3]), Verdict::NoneThatMatters);
    }

    #[test]
    fn a_difference_that_does_not_matter_is_no_verdict() {
        // Proven, and far below one percent.
        let (a, b) = ([1000.0, 1010.0, 1020.0], [1001.0, 1011.0, 1021.1]);
        assert_eq!(verdict(&a, &b), Verdict::NoneThatMatters);
        assert_eq!(compare(&runs(&a, &b), Level::P95, 0.05)[0].verdict, Verdict::Better);
        // Not proven, and its interval leaves no room for one percent.
        assert_eq!(verdict(&a, &[1000.4, 1010.0, 1019.7]), Verdict::NoneThatMatters);
        assert_eq!(
            compare(&runs(&a, &[1000.4, 1010.0, 1019.7]), Level::P95, 0.0)[0].verdict,
            Verdict::NoDifference
        );
        // Large enough.
        assert_eq!(verdict(&a, &[1011.0, 1021.0, 1031.0]), Verdict::Better);
    }

    #[test]
    fn seeds_that_change_nothing_are_told() {
        let found = &compare(&runs(&[5.0; 3], &[9.0; 3]), Level::P95, 1.0)[0];
        assert_eq!((found.verdict, found.seeds_change_nothing), (Verdict::Better, true));
        assert!(!compare(&runs(&[5.0, 6.0, 5.0], &[9.0; 3]), Level::P95, 1.0)[0].seeds_change_nothing);
        assert!(!compare(&runs(&[5.0], &[9.0]), Level::P95, 1.0)[0].seeds_change_nothing);
        let warnings = seed_warnings(&runs(&[5.0; 3], &[9.0, 9.5, 9.0]));
        assert_eq!((warnings.len(), warnings[0].kind), (1, WarningKind::SeedsChangeNothing));
        assert!(
            warnings[0].text.contains("in chat on 2 CPUs under vanilla: every run"),
            "{}",
            warnings[0].text
        );
        assert!(seed_warnings(&runs(&[5.0], &[9.0])).is_empty());
    }

    #[test]
    fn the_same_seed_is_the_same_work() {
        // The seeds differ far more than the schedulers: pairs show what two samples do not.
        let (a, b) = ([10.0, 20.0, 30.0, 40.0], [10.5, 20.6, 30.4, 40.5]);
        let found = &compare(&runs(&a, &b), Level::P95, 1.0)[0];
        assert_eq!((found.verdict, found.paired, found.runs_needed), (Verdict::Better, true, None));
        assert!(found.p_paired.unwrap() < 0.01 && found.p_welch.unwrap() > 0.9);
        let mut real = runs(&a, &b);
        real.iter_mut().for_each(|run| run.backend = Backend::Host);
        let found = &compare(&real, Level::P95, 1.0)[0];
        assert_eq!((found.verdict, found.paired), (Verdict::NoDifference, false));
        let mut other = runs(&a, &b);
        other[7].seed = 99;
        assert!(!compare(&other, Level::P95, 1.0)[0].paired);
    }

    #[test]
    fn too_few_runs_and_wide_intervals_get_advice() {
        let of = |a: &[f64], b: &[f64]| advice(&compare(&runs(a, b), Level::P95, 1.0)[..1]);
        let none = of(&[0.0, 0.0, 0.0], &[1.0, 9.0, 2.0]);
        assert!(
            none[0].contains("the spread is large (+/- ") && none[0].contains(" messages/s)"),
            "{none:?}"
        );
        assert!(of(&[10.0], &[20.0])[0].contains("1 run on a side: too few"));
        let text = of(&[10.0, 20.0, 30.0], &[11.0, 15.0, 39.0]);
        assert!(
            text.len() == 1 && text[0].contains("throughput of o1 on 2 CPUs") && text[0].contains("about"),
            "{text:?}"
        );
        assert!(of(&[10.0, 11.0, 12.0], &[20.0, 21.5, 22.0]).is_empty());
    }

    #[test]
    fn void_and_suspect_runs_are_told_in_the_place_of_the_verdict() {
        let mut all = runs(&[10.0, 11.0, 10.5], &[20.0, 21.0, 20.5]);
        let suspect = Warning { kind: WarningKind::NeverRan, text: "hog".into(), count: 1, worst: None };
        all[4].warnings.push(suspect);
        let found = &compare(&all, Level::P95, 1.0)[0];
        let trust = found.trust();
        assert_eq!((found.verdict, trust.standing), (Verdict::Better, Standing::Suspect));
        assert_eq!(trust.explain(found.verdict.name()), "better (suspect: never_ran)");
        all[5].exit.kind = ExitKind::Unreg;
        all[5].exit.message = "its loader ended with exit code 1".into();
        let found = &compare(&all, Level::P95, 1.0)[0];
        assert_eq!((found.candidate.values.len(), found.trust().void_seeds.as_slice()), (2, &[2][..]));
        assert_eq!(found.trust().explain("better"), "better (runs void: never_ran, ended_early)");
        assert_eq!(Trust::unmark(&found.trust().mark("worse")), "worse");
        // Another scheduler does not become the baseline.
        all[..3].iter_mut().for_each(|run| run.exit.kind = ExitKind::ErrorStall);
        assert_eq!(compare(&all, Level::P95, 1.0), []);
    }

    #[test]
    fn a_task_is_held_against_the_same_task_under_the_baseline() {
        let mut all = runs(&[10.0, 11.0], &[20.0, 21.0]);
        for run in &mut all {
            run.duration = DurationNs::from_secs(5);
            let wait = if run.scheduler == "o1" { 2_500 } else { 20 };
            let figures = run.task_waits[0].run_delay.as_mut().unwrap();
            figures.worst.length = DurationNs::from_ms(wait);
        }
        let calm = all.clone();
        add_falls_behind(&mut all);
        let kinds = |run: &RunRecord| run.warnings.iter().map(|one| one.kind).collect::<Vec<_>>();
        assert!(all[..2].iter().all(|run| !kinds(run).contains(&WarningKind::FallsBehind)));
        let told = &all[2].warnings[1];
        assert!(
            told.kind == WarningKind::FallsBehind && told.text.starts_with("task client/0 waited 2.500 s"),
            "{told:?}"
        );
        let mut alike = [calm[2].clone(), calm[3].clone()];
        alike[1].scheduler = "ule".into();
        add_falls_behind(&mut alike);
        assert!(!kinds(&alike[1]).contains(&WarningKind::FallsBehind));
    }

    #[test]
    fn ejected_runs_do_not_count() {
        let mut all = runs(&[10.0, 11.0], &[20.0, 21.0]);
        all[3].exit.kind = ExitKind::ErrorStall;
        assert_eq!(compare(&all, Level::P95, 1.0)[0].candidate.values, [20.0]);
    }

    #[test]
    fn settings_are_part_of_the_name() {
        let mut one = run("o1", 1, 1.0);
        one.settings.push(("profile".into(), "d1".into()));
        assert_eq!(scheduler_label(&one), "o1[profile=d1]");
    }
}
