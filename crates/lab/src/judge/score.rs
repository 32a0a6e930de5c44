//! The score: how much better than the base, with its interval.

use crate::judge::floors::{Fault, FaultKind};
use crate::judge::suite::SuiteLoad;
use schedlab_base::{Better, Metric};
use schedlab_stats::{Level, Moments, mean, mean_interval};
use schedlab_trace::RunRecord;

/// A load whose score is shown to lie below this rejects. Chosen: a fifth is what a user notices.
const WORST_LOAD: f64 = 0.8;

/// A metric whose score is shown to lie below this rejects, whatever the other metrics of its load gain. Chosen.
const WORST_METRIC: f64 = 0.5;

/// A score that is shown to lie below this rejects. Chosen: less than 5 % does not matter.
pub(super) const WORST_SCORE: f64 = 0.95;

/// No ratio counts for more. Chosen: beyond it one load would decide all.
const MOST: f64 = 1000.0;

/// A score with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Score {
    pub(super) value: f64,
    pub(super) interval: [f64; 2],
}

impl Score {
    /// Nothing counts.
    pub(super) const NONE: Score = Score { value: 0.0, interval: [0.0, 0.0] };

    /// Of the logarithms of ratios, one a seed.
    pub(super) fn of(logarithms: &[f64]) -> Score {
        let interval = Moments::of(logarithms).and_then(|moments| mean_interval(&moments, Level::P95));
        let Ok(interval) = interval else { return Score::NONE };
        let [low, high] =
            [-1.0, 1.0].map(|side| rounded((interval.center + side * interval.half_width).exp()));
        Score { value: rounded(interval.center.exp()), interval: [low, high] }
    }

    /// As it stands in texts.
    pub(super) fn text(self) -> String {
        let [low, high] = self.interval;
        format!("{:.3} [{low:.3}, {high:.3}]", self.value)
    }
}

/// Four digits behind the point.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// The logarithms of the ratios of a load's metrics in one run; above 0 the candidate is better.
///
/// # Errors
/// A metric without a direction, or which the base's own run lacks.
pub(super) fn logarithms(
    load: &SuiteLoad,
    candidate: &RunRecord,
    base: &RunRecord,
) -> Result<Vec<f64>, String> {
    load.metrics.iter().map(|name| logarithm(load, name, candidate, base)).collect()
}

fn logarithm(load: &SuiteLoad, name: &str, candidate: &RunRecord, base: &RunRecord) -> Result<f64, String> {
    let find = |run: &RunRecord| run.metrics.iter().find(|metric| metric.name == name).cloned();
    let under = &base.scheduler;
    let then = find(base).ok_or_else(|| format!("metric {name} has no figure under the base {under}"))?;
    let Some(mine) = find(candidate) else { return Ok(-MOST.ln()) };
    let notice = load.notice.0 as f64 / nanoseconds(&then).unwrap_or(f64::INFINITY);
    let ratio = match then.better {
        Better::Higher => (mine.value + notice) / (then.value + notice),
        Better::Lower => (then.value + notice) / (mine.value + notice),
        Better::Neither => {
            return Err(format!("metric {name} has no better direction; say better = in [metrics]"));
        }
    };
    // Both are 0.
    let ratio = if ratio.is_nan() { 1.0 } else { ratio };
    Ok(ratio.clamp(1.0 / MOST, MOST).ln())
}

/// The nanoseconds of a metric's unit, if it is a time.
fn nanoseconds(metric: &Metric) -> Option<f64> {
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)]
        .into_iter()
        .find(|(unit, _)| *unit == metric.unit)
        .map(|(_, factor)| factor)
}

/// What the metrics of a run count for that did not take place.
pub(super) fn nothing(load: &SuiteLoad) -> Vec<f64> {
    vec![-MOST.ln(); load.metrics.len()]
}

/// The fault of a candidate that lacks a figure which the base has.
pub(super) fn missing(load: &SuiteLoad, candidate: &RunRecord) -> Option<Fault> {
    let has = |name: &&String| candidate.metrics.iter().any(|metric| metric.name == **name);
    let name = load.metrics.iter().find(|name| !has(name))?;
    let text = format!("metric {name} has no figure: nothing that it measures has ended");
    Some(Fault { kind: FaultKind::NoFigure, text, tasks: 1 })
}

/// The mean of a run's metrics.
pub(super) fn joined(runs: &[Vec<f64>]) -> Vec<f64> {
    runs.iter().filter_map(|metrics| mean(metrics)).collect()
}

/// A load, or one metric of it, that is shown to be worse than its bound.
pub(super) fn too_slow(load: &SuiteLoad, runs: &[Vec<f64>]) -> Option<Fault> {
    let worse = |text: String| Some(Fault { kind: FaultKind::Worse, text, tasks: 1 });
    let score = Score::of(&joined(runs));
    if !load.metrics.is_empty() && score.interval[1] < WORST_LOAD {
        return worse(format!(
            "the load decides: its score {} is shown to be below {WORST_LOAD}",
            score.text()
        ));
    }
    for (at, name) in load.metrics.iter().enumerate() {
        let own: Vec<f64> = runs.iter().filter_map(|metrics| metrics.get(at).copied()).collect();
        let score = Score::of(&own);
        if score.interval[1] < WORST_METRIC {
            let text = format!(
                "metric {name} decides: its score {} is shown to be below {WORST_METRIC}",
                score.text()
            );
            return worse(text);
        }
    }
    None
}

/// True where the whole is shown to be worse than the base by more than what does not matter.
pub(super) fn is_worse(score: Score) -> bool {
    score.interval[1] < WORST_SCORE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_runs_have_the_score_one() {
        let score = Score::of(&[0.0; 5]);
        assert_eq!((score.value, score.interval), (1.0, [1.0, 1.0]));
        assert!(!is_worse(score));
    }

    #[test]
    fn the_interval_is_that_of_the_logarithms() {
        let score = Score::of(&[2.0_f64.ln(), 2.2_f64.ln(), 1.8_f64.ln()]);
        assert!((score.value - 1.993).abs() < 0.001, "{score:?}");
        assert!(score.interval[0] > 1.5 && score.interval[1] < 2.6, "{score:?}");
        assert_eq!(Score::of(&[]), Score::NONE);
    }
}
