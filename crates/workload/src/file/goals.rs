//! The goals of a file.

use schedlab_base::{Goal, GoalError, RUN_METRICS, did_you_mean};
use toml::Spanned;

use super::{Outcome, fault};
use crate::measure::MetricSpec;

/// Reads the goals, each a bound on one of the file's metrics or of those that every run has.
pub(super) fn read(lines: &[Spanned<String>], own: &[MetricSpec]) -> Outcome<Vec<Goal>> {
    let mut goals: Vec<Goal> = Vec::new();
    for line in lines {
        let (at, text) = (line.span().start, line.get_ref().trim());
        let goal = Goal::parse(text, |name| unit(name, own))
            .or_else(|error| fault(at, format!("goal '{text}': {error}{}", cure(&error, own))))?;
        if goals.contains(&goal) {
            return fault(at, format!("goal '{text}' stands twice; once is enough"));
        }
        goals.push(goal);
    }
    Ok(goals)
}

/// The unit of a metric that exists.
fn unit(name: &str, own: &[MetricSpec]) -> Option<&'static str> {
    let own = own.iter().find(|metric| metric.name == name).map(|metric| metric.unit);
    own.or_else(|| RUN_METRICS.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit))
}

/// What there is in place of a name that does not exist.
fn cure(error: &GoalError, own: &[MetricSpec]) -> String {
    let GoalError::Metric(name) = error else { return String::new() };
    let own: Vec<&str> = own.iter().map(|metric| metric.name.as_str()).collect();
    let known = own.iter().copied().chain(RUN_METRICS.iter().map(|(known, _)| *known));
    let near = did_you_mean(name, known);
    if !near.is_empty() {
        return near;
    }
    let own = if own.is_empty() { String::new() } else { format!("{}, and ", own.join(", ")) };
    format!("; there are: {own}those of every run (docs/results.md)")
}
