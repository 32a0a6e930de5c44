//! The figures that a file asks for.

use schedlab_base::{Better, DurationNs, RUN_METRICS};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

use super::{Names, Outcome, fault, listed};
use crate::measure::{CounterId, Formula, MetricSpec, SpanFigure, SpanId, TimeUnit};

/// One figure.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    kind: Kind,
    counter: Option<String>,
    span: Option<String>,
    late_if_longer_than: Option<Spanned<String>>,
    better: Option<Direction>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Rate,
    TimePerUnit,
    Count,
    Mean,
    P50,
    P95,
    P99,
    Max,
    Fastest,
    Slowest,
    Makespan,
    Misses,
    MissPercent,
}

/// The unit of all times of a file.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Unit {
    Ns,
    Us,
    #[default]
    Ms,
    S,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Direction {
    Higher,
    Lower,
    Neither,
}

/// The figures in the order of the file.
pub(super) fn read(
    entries: &BTreeMap<String, Spanned<Entry>>,
    unit: Unit,
    names: &Names,
) -> Outcome<Vec<MetricSpec>> {
    let unit = match unit {
        Unit::Ns => TimeUnit::Ns,
        Unit::Us => TimeUnit::Us,
        Unit::Ms => TimeUnit::Ms,
        Unit::S => TimeUnit::S,
    };
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|(_, entry)| entry.span().start);
    for (name, entry) in &entries {
        if RUN_METRICS.iter().any(|(known, _)| known == name) {
            return fault(entry.span().start, format!("every run has a metric '{name}'; take another name"));
        }
        if name.is_empty() || name.contains(char::is_control) {
            return fault(entry.span().start, "a metric needs a name on one line");
        }
    }
    entries
        .into_iter()
        .map(|(name, entry)| Ok(metric(name, entry.get_ref(), unit, formula(entry, unit, names)?)))
        .collect()
}

fn formula(entry: &Spanned<Entry>, unit: TimeUnit, names: &Names) -> Outcome<Formula> {
    let (metric, at) = (entry.get_ref(), entry.span().start);
    let counter = counter(metric, at, names)?;
    let span = span(metric, at, names)?;
    if let Some(limit) = &metric.late_if_longer_than
        && !matches!(metric.kind, Kind::Misses | Kind::MissPercent)
    {
        let text = "late_if_longer_than is of the kinds misses and miss-percent";
        return fault(limit.span().start, text);
    }
    let figure = |figure| match span {
        Some(span) => Ok(Formula::Span { span, figure, unit }),
        None => fault(at, "this kind of metric needs a span"),
    };
    let Some(counter) = counter else {
        return match metric.kind {
            Kind::Rate | Kind::TimePerUnit | Kind::Count => fault(at, "this kind of metric needs a counter"),
            kind => span_formula(kind, metric, (at, span), figure),
        };
    };
    match metric.kind {
        Kind::Rate => Ok(Formula::Rate { counter, over: span }),
        Kind::TimePerUnit => Ok(Formula::TimePerUnit { counter, over: span, unit }),
        Kind::Count => Ok(Formula::Count(counter)),
        kind => span_formula(kind, metric, (at, span), figure),
    }
}

/// A formula of a span alone.
fn span_formula(
    kind: Kind,
    metric: &Entry,
    (at, span): (usize, Option<SpanId>),
    figure: impl Fn(SpanFigure) -> Outcome<Formula>,
) -> Outcome<Formula> {
    match kind {
        Kind::Mean => figure(SpanFigure::Mean),
        Kind::P50 => figure(SpanFigure::Permille(500)),
        Kind::P95 => figure(SpanFigure::Permille(950)),
        Kind::P99 => figure(SpanFigure::Permille(990)),
        Kind::Max | Kind::Slowest => figure(SpanFigure::Longest),
        Kind::Fastest => figure(SpanFigure::Shortest),
        Kind::Makespan => figure(SpanFigure::Makespan),
        Kind::Misses | Kind::MissPercent => {
            let Some(span) = span else { return fault(at, "this kind of metric needs a span") };
            let limit = limit(metric, at)?;
            match kind {
                Kind::Misses => Ok(Formula::Longer { span, limit }),
                _ => Ok(Formula::LongerPercent { span, limit }),
            }
        }
        Kind::Rate | Kind::TimePerUnit | Kind::Count => fault(at, "this kind of metric needs a counter"),
    }
}

fn counter(metric: &Entry, at: usize, names: &Names) -> Outcome<Option<CounterId>> {
    let Some(name) = &metric.counter else { return Ok(None) };
    match names.counters.get(name) {
        None => {
            fault(at, format!("no program counts '{name}'; there are: {}", listed(name, &names.counters)))
        }
        counter => Ok(counter.copied()),
    }
}

fn span(metric: &Entry, at: usize, names: &Names) -> Outcome<Option<SpanId>> {
    let Some(name) = &metric.span else { return Ok(None) };
    match names.spans.get(name) {
        None => {
            fault(at, format!("no program has a span '{name}'; there are: {}", listed(name, &names.spans)))
        }
        span => Ok(span.copied()),
    }
}

/// How long a sample may be that is in time.
fn limit(metric: &Entry, at: usize) -> Outcome<DurationNs> {
    let Some(limit) = &metric.late_if_longer_than else {
        return fault(at, "this kind of metric needs late_if_longer_than, as in \"16.6ms\"");
    };
    limit
        .get_ref()
        .parse()
        .or_else(|error| fault(limit.span().start, format!("late_if_longer_than: {error}")))
}

fn metric(name: &str, entry: &Entry, unit: TimeUnit, formula: Formula) -> MetricSpec {
    let (unit, usual) = match entry.kind {
        Kind::Rate => ("1/s", Better::Higher),
        Kind::Count => ("1", Better::Higher),
        Kind::Misses => ("1", Better::Lower),
        Kind::MissPercent => ("%", Better::Lower),
        _ => (unit.name(), Better::Lower),
    };
    let better = match entry.better {
        None => usual,
        Some(Direction::Higher) => Better::Higher,
        Some(Direction::Lower) => Better::Lower,
        Some(Direction::Neither) => Better::Neither,
    };
    MetricSpec { name: name.to_string(), unit, better, formula }
}
