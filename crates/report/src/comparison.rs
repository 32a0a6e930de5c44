//! Schedulers compared: per workload, machine, CPU count and metric, each against
//! the baseline.

use crate::cells::{Cell, cell_of, distinct, scheduler_label};
use crate::trust::Trust;
use schedlab_base::Better;
use schedlab_stats::{
    Change, Level, Moments, hedges_g, mean_interval, paired, permutation_test, relative_change, runs_for,
    welch,
};
use schedlab_trace::{Backend, RunRecord};

/// The least difference that matters by default, in percent. Chosen: what no user feels.
pub const LEAST_EFFECT: f64 = 1.0;

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

    /// Takes back a verdict on a ratio that is not larger than the `factor` by which the simulator may err.
    pub(crate) fn heed_factor(&mut self, factor: f64) {
        self.kernel_factor = Some(factor);
        let (base, own) = (self.baseline.moments.mean, self.candidate.moments.mean);
        let decided = matches!(self.verdict, Verdict::Better | Verdict::Worse | Verdict::Different);
        if decided && base > 0.0 && own > 0.0 && (own / base).ln().abs() <= factor.ln() {
            self.verdict = Verdict::NotDecided;
        }
    }
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

/// Compares two samples of a metric, the baseline first.
pub(crate) fn judge(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::runs;
    use schedlab_trace::{ExitKind, Standing, Warning, WarningKind};

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
    fn ejected_runs_do_not_count() {
        let mut all = runs(&[10.0, 11.0], &[20.0, 21.0]);
        all[3].exit.kind = ExitKind::ErrorStall;
        assert_eq!(compare(&all, Level::P95, 1.0)[0].candidate.values, [20.0]);
    }
}
