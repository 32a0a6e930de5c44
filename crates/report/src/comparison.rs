//! Schedulers compared: per workload, machine, CPU count and metric, each against
//! the baseline.

use schedlab_base::Better;
use schedlab_stats::{Level, Moments, hedges_g, mean_interval, permutation_test, welch};
use schedlab_trace::{Backend, RunRecord, WorkloadRecord};

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
    /// Size, mean and standard deviation.
    pub moments: Moments,
    /// Half width of the mean's interval; nothing with fewer than two runs.
    pub half_width: Option<f64>,
}

/// What a comparison says. Decided by Welch's interval of the difference.
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
    /// One of the sides has fewer than two runs.
    TooFewRuns,
}

impl Verdict {
    /// The words in tables and results.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Different => "different",
            Verdict::NoDifference => "no difference shown",
            Verdict::TooFewRuns => "too few runs",
        }
    }

    /// The verdict of a name.
    pub(crate) fn from_name(name: &str) -> Option<Verdict> {
        use Verdict::*;
        [Better, Worse, Different, NoDifference, TooFewRuns].into_iter().find(|v| v.name() == name)
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
    /// Half width of the difference's interval.
    pub half_width: Option<f64>,
    /// The difference in percent of the baseline's mean.
    pub percent: Option<f64>,
    /// Two-sided p value of Welch's test.
    pub p_welch: Option<f64>,
    /// Two-sided p value of the permutation test, which assumes less.
    pub p_permutation: Option<f64>,
    /// Hedges' g.
    pub effect: Option<f64>,
    /// What it means.
    pub verdict: Verdict,
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
/// that both sides have. Runs whose scheduler was ejected are left out: their
/// figures are the fair class's. Cells, metrics and schedulers keep the order of the
/// runs.
pub fn compare(runs: &[RunRecord], level: Level) -> Vec<Comparison> {
    let runs: Vec<&RunRecord> = runs.iter().filter(|run| !run.exit.kind.is_ejection()).collect();
    let cells = distinct(runs.iter().map(|run| cell_of(run)));
    let mut comparisons = Vec::new();
    for cell in cells {
        let inside: Vec<&RunRecord> = runs.iter().copied().filter(|run| cell_of(run) == cell).collect();
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
                comparisons.push(judge(place, metric.unit, metric.better, baseline, candidate, level));
            }
        }
    }
    comparisons
}

fn cell_of(run: &RunRecord) -> Cell {
    Cell {
        workload: run.workload.clone(),
        machine: run.machine.clone(),
        cpus: run.cpus,
        backend: run.backend,
    }
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

fn sample(runs: &[&RunRecord], scheduler: &str, metric: &str, level: Level) -> Option<Sample> {
    let values: Vec<f64> = runs
        .iter()
        .filter(|run| scheduler_label(run) == scheduler)
        .filter_map(|run| run.metric(metric))
        .filter(|value| value.is_finite())
        .collect();
    let moments = Moments::of(&values).ok()?;
    let half_width = mean_interval(&moments, level).ok().map(|interval| interval.half_width);
    Some(Sample { scheduler: scheduler.to_string(), values, moments, half_width })
}

/// The seed of drawn permutations: fixed, so that equal runs give equal reports.
const PERMUTATION_SEED: u64 = 1;

fn judge(
    (cell, metric): (Cell, String),
    unit: &'static str,
    better: Better,
    baseline: Sample,
    candidate: Sample,
    level: Level,
) -> Comparison {
    let test = welch(&candidate.moments, &baseline.moments, level).ok();
    let difference = candidate.moments.mean - baseline.moments.mean;
    let verdict = match (&test, better) {
        (None, _) => Verdict::TooFewRuns,
        (Some(test), _) if !test.proven => Verdict::NoDifference,
        (Some(_), Better::Neither) => Verdict::Different,
        (Some(_), direction) if (direction == Better::Higher) == (difference > 0.0) => Verdict::Better,
        (Some(_), _) => Verdict::Worse,
    };
    let permutation = permutation_test(&candidate.values, &baseline.values, PERMUTATION_SEED).ok();
    Comparison {
        cell,
        metric,
        unit,
        better,
        level_percent: f64::from(level.permille()) / 10.0,
        difference,
        half_width: test.as_ref().map(|test| test.half_width),
        percent: (baseline.moments.mean.abs() > 0.0).then(|| 100.0 * difference / baseline.moments.mean),
        p_welch: test.as_ref().map(|test| test.p_value),
        p_permutation: test.and(permutation).map(|test| test.p_value),
        effect: hedges_g(&candidate.moments, &baseline.moments).ok().flatten(),
        verdict,
        baseline,
        candidate,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use schedlab_base::{DurationNs, Metric};
    use schedlab_trace::{Counter, ExitKind, ExitRecord, Series, TaskRecord};

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
            exit: ExitRecord::default(),
            metrics: vec![
                Metric::new("throughput", throughput, "messages/s", Better::Higher),
                Metric::new("context_switches", 7.0, "1", Better::Neither),
            ],
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
            trace_hash: Some("00ff".into()),
            priorities: Vec::new(),
            waits: None,
        }
    }

    fn runs(a: &[f64], b: &[f64]) -> Vec<RunRecord> {
        let side = |name: &str, values: &[f64]| -> Vec<RunRecord> {
            values.iter().enumerate().map(|(seed, &value)| run(name, seed as u64, value)).collect()
        };
        [side("vanilla", a), side("o1", b)].concat()
    }

    fn verdict(a: &[f64], b: &[f64]) -> Verdict {
        compare(&runs(a, b), Level::P95)[0].verdict
    }

    #[test]
    fn verdicts_follow_direction_and_spread() {
        assert_eq!(verdict(&[10.0, 11.0, 12.0], &[20.0, 21.0, 22.0]), Verdict::Better);
        assert_eq!(verdict(&[20.0, 21.0, 22.0], &[10.0, 11.0, 12.0]), Verdict::Worse);
        assert_eq!(verdict(&[10.0, 15.0, 20.0], &[11.0, 16.0, 21.0]), Verdict::NoDifference);
        assert_eq!(verdict(&[10.0], &[20.0]), Verdict::TooFewRuns);
        assert_eq!(verdict(&[5.0; 3], &[5.0; 3]), Verdict::NoDifference);
    }

    #[test]
    fn ejected_runs_do_not_count() {
        let mut all = runs(&[10.0, 11.0], &[20.0, 21.0]);
        all[3].exit.kind = ExitKind::ErrorStall;
        assert_eq!(compare(&all, Level::P95)[0].candidate.values, [20.0]);
    }

    #[test]
    fn settings_are_part_of_the_name() {
        let mut one = run("o1", 1, 1.0);
        one.settings.push(("profile".into(), "d1".into()));
        assert_eq!(scheduler_label(&one), "o1[profile=d1]");
    }
}
