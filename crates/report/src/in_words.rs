//! The result of a comparison in sentences: what the schedulers reach on the largest number of CPUs, and which of them gain or lose
//! on the way there. The verdicts are those of the table, with the same words.

use crate::cells::{Cell, cell_of, distinct, scheduler_label};
use crate::comparison::{Comparison, Verdict};
use crate::comparison_table::verdict_text;
use crate::extent::{extent, range};
use crate::ranking::is_main;
use crate::scaling::scaling;
use crate::trust::Trust;
use crate::workload_names::WorkloadNames;
use schedlab_base::{Better, counted};
use schedlab_trace::RunRecord;

/// Workloads with sentences of their own. Chosen: the table follows, and has all.
const WORKLOADS: usize = 4;

/// Schedulers that are each named. Chosen: of more, the best and the worst are.
const SCHEDULERS: usize = 3;

/// The sentences, one a line; nothing without comparisons. They are about the main metric of each workload, or the first one
/// that is shown.
pub(crate) fn in_words(comparisons: &[Comparison], runs: &[RunRecord]) -> String {
    let names = WorkloadNames::of(comparisons.iter().map(|c| &c.cell.workload));
    let short = ShortNames::of(comparisons);
    let places = distinct(comparisons.iter().map(|c| without_cpus(&c.cell)));
    let mut text = String::new();
    for place in places.iter().take(WORKLOADS) {
        let inside: Vec<&Comparison> =
            comparisons.iter().filter(|c| without_cpus(&c.cell) == *place).collect();
        let main = inside.iter().find(|c| is_main(c, runs)).unwrap_or(&inside[0]);
        let under = match names.are_several() {
            true => format!("Under {} on", names.get(&place.workload)),
            false => "On".to_string(),
        };
        let of_metric = inside.iter().copied().filter(|c| c.metric == main.metric).collect();
        let runs = runs.iter().filter(|run| without_cpus(&cell_of(run)) == *place).collect();
        let words = Words { comparisons: of_metric, runs, short: &short, under };
        let scaling = if names.are_several() { None } else { words.scaling() };
        let lines = words.largest().into_iter().chain(words.missing()).chain(scaling);
        text.extend(lines.map(|line| line + ".\n"));
    }
    if let Some(more) = places.len().checked_sub(WORKLOADS).filter(|more| *more > 0) {
        text.push_str(&format!("The table has {} more.\n", counted(more, "workload")));
    }
    text
}

/// What the cells of one workload have in common.
fn without_cpus(cell: &Cell) -> Cell {
    Cell { cpus: 0, ..cell.clone() }
}

/// The schedulers' names without their settings, where the names alone differ.
struct ShortNames(bool);

impl ShortNames {
    fn of(comparisons: &[Comparison]) -> ShortNames {
        let sides = comparisons.iter().flat_map(|c| [&c.baseline.scheduler, &c.candidate.scheduler]);
        let names = distinct(sides.map(String::as_str));
        ShortNames(distinct(names.iter().map(|name| bare(name))).len() == names.len())
    }

    fn get<'a>(&self, name: &'a str) -> &'a str {
        if self.0 { bare(name) } else { name }
    }
}

/// `o1` of `o1[profile=d1]`.
fn bare(name: &str) -> &str {
    name.split_once('[').map_or(name, |(name, _)| name)
}

/// One metric under one workload.
struct Words<'a> {
    comparisons: Vec<&'a Comparison>,
    runs: Vec<&'a RunRecord>,
    short: &'a ShortNames,
    /// `On`, or `Under chat on`.
    under: String,
}

impl Words<'_> {
    fn metric(&self) -> &str {
        &self.comparisons[0].metric
    }

    fn baseline(&self) -> &str {
        self.short.get(&self.comparisons[0].baseline.scheduler)
    }

    fn on(&self, cpus: usize) -> String {
        format!("{} {}", self.under, counted(cpus, "CPU"))
    }

    /// Each scheduler against the baseline on the largest number of CPUs; of many, the best and the worst.
    fn largest(&self) -> Vec<String> {
        let Some(cpus) = self.comparisons.iter().map(|c| c.cell.cpus).max() else { return Vec::new() };
        let mut here: Vec<&Comparison> =
            self.comparisons.iter().copied().filter(|c| c.cell.cpus == cpus).collect();
        let mut lines = Vec::new();
        if here.len() >= SCHEDULERS {
            lines.push(format!(
                "{}, the verdicts on {} of {} against {} are {}",
                self.on(cpus),
                self.metric(),
                counted(here.len(), "scheduler"),
                self.baseline(),
                verdicts(&here)
            ));
            here = extremes(here);
        }
        lines.extend(here.iter().map(|c| self.against(c)));
        lines
    }

    /// `On 8 CPUs, throughput of o1 is 5.2 times (4.9 to 5.6, 95 % interval) that of vanilla: better`.
    fn against(&self, c: &Comparison) -> String {
        let (on, metric) = (self.on(c.cell.cpus), self.metric());
        let (own, base) = (self.short.get(&c.candidate.scheduler), self.baseline());
        if is_open(c.verdict) {
            let (name, remarks) = (c.verdict.name(), remarks(c));
            return format!(
                "{on}, there is {name} in {metric} between {own} and {base}{}{remarks}",
                range(c, true)
            );
        }
        let extent = extent(c);
        let size = extent.with_interval(c, true);
        let relation = match extent.times() {
            _ if c.difference.abs() <= 0.0 => "the same as that of".to_string(),
            true => format!("{size} that of"),
            false if c.difference > 0.0 => format!("{size} higher than that of"),
            false => format!("{size} lower than that of"),
        };
        format!("{on}, {metric} of {own} is {relation} {base}: {}", verdict_text(c))
    }

    /// Schedulers that ran on the largest number of CPUs and have no verdict there.
    fn missing(&self) -> Option<String> {
        let cpus = self.runs.iter().map(|run| run.cpus).max()?;
        let here = || self.runs.iter().copied().filter(|run| run.cpus == cpus);
        let baseline = &self.comparisons[0].baseline.scheduler;
        let has_verdict = |name: &String| {
            self.comparisons.iter().any(|c| c.cell.cpus == cpus && c.candidate.scheduler == *name)
        };
        let absent = distinct(here().map(scheduler_label).filter(|name| name != baseline));
        let absent: Vec<String> = absent.into_iter().filter(|name| !has_verdict(name)).collect();
        let of = |names: &[String]| -> Vec<&RunRecord> {
            here().filter(|run| names.contains(&scheduler_label(run))).collect()
        };
        let on = self.on(cpus);
        let of_baseline = of(std::slice::from_ref(baseline));
        if absent.is_empty() {
            return None;
        }
        if of_baseline.iter().all(|run| run.is_void()) {
            let why = why(&of_baseline);
            let name = self.baseline();
            return Some(format!("{on}, nothing is compared: the runs of {name}, the baseline, are {why}"));
        }
        let names: Vec<&str> = absent.iter().map(|name| self.short.get(name)).collect();
        let why = why(&of(&absent));
        Some(format!("{on}, there is no verdict on {}: the runs are {why}", names.join(", ")))
    }

    /// `In throughput, from 4 to 8 CPUs vanilla loses 38 % (35 to 41, 95 % interval); o1 gains 20 % (15 to 25)`.
    fn scaling(&self) -> Option<String> {
        let steps = scaling(&self.comparisons);
        let steps: Vec<&Comparison> = steps.iter().collect();
        let mut counts: Vec<usize> = distinct(self.comparisons.iter().map(|c| c.cell.cpus));
        counts.sort_unstable();
        let (Some(_), [.., fewer, more]) = (steps.first(), &counts[..]) else { return None };
        let head = format!("In {}, from {fewer} to {more} CPUs", self.metric());
        let (all, shown) = if steps.len() > SCHEDULERS {
            (format!(" the verdicts on {} are {}:", counted(steps.len(), "scheduler"), verdicts(&steps)), {
                extremes(steps)
            })
        } else {
            (String::new(), steps)
        };
        let told = shown.iter().enumerate().map(|(at, step)| self.step(step, at == 0));
        Some(format!("{head}{all} {}", told.collect::<Vec<_>>().join("; ")))
    }

    /// `vanilla loses 38 % (35 to 41)`; the first one names the level of the intervals.
    fn step(&self, step: &Comparison, first: bool) -> String {
        let (name, notes) = (self.short.get(&step.candidate.scheduler), remarks(step));
        let few = step.verdict == Verdict::TooFewRuns;
        if is_open(step.verdict) || few && step.difference.abs() <= 0.0 {
            let word = if step.verdict == Verdict::NoneThatMatters { "that matters" } else { "shown" };
            return format!("{name} has no change {word}{}{notes}", range(step, first));
        }
        let extent = extent(step);
        let size = extent.with_interval(step, first);
        let verdict = if few || step.better == Better::Neither {
            notes.clone()
        } else {
            format!(": {}", verdict_text(step))
        };
        match (extent.times(), step.better, step.difference > 0.0) {
            (true, ..) => format!("{name} reaches {size} as much{verdict}"),
            (_, Better::Higher, true) => format!("{name} gains {size}{notes}"),
            (_, Better::Higher, false) => format!("{name} loses {size}{notes}"),
            (.., true) => format!("{name} has {size} more{verdict}"),
            (.., false) => format!("{name} has {size} less{verdict}"),
        }
    }
}

/// Why runs are in no comparison.
fn why(runs: &[&RunRecord]) -> String {
    if runs.is_empty() || !runs.iter().all(|run| run.is_void()) {
        return "incomplete".to_string();
    }
    format!("void ({})", Trust::of(runs.iter().copied()).reasons.join(", "))
}

/// Whether a verdict says that there is nothing to be seen.
fn is_open(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::NoDifference | Verdict::NoneThatMatters)
}

/// What the table says behind the verdict: ` (suspect: starved)`.
fn remarks(c: &Comparison) -> String {
    let text = verdict_text(c);
    text.strip_prefix(c.verdict.name()).unwrap_or_default().to_string()
}

/// `3 better, 1 worse (suspect)`, in the order in which they are met.
fn verdicts(comparisons: &[&Comparison]) -> String {
    let marked = || comparisons.iter().map(|c| c.trust().mark(c.verdict.name()));
    let count = |verdict: &String| marked().filter(|other| other == verdict).count();
    let texts = distinct(marked()).into_iter().map(|verdict| format!("{} {verdict}", count(&verdict)));
    texts.collect::<Vec<_>>().join(", ")
}

/// The best and the worst, by the ratio of the means, or by their difference where there is none.
fn extremes(mut comparisons: Vec<&Comparison>) -> Vec<&Comparison> {
    let order = |a: &Comparison, b: &Comparison| match (a.percent, b.percent) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        _ => b.difference.total_cmp(&a.difference),
    };
    comparisons.sort_by(|a, b| if a.better == Better::Lower { order(b, a) } else { order(a, b) });
    match comparisons[..] {
        [best, .., worst] => vec![best, worst],
        _ => comparisons,
    }
}

#[cfg(test)]
mod tests;
