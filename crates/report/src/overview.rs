//! Several workloads side by side: a row for each workload, number of CPUs and metric, a column for each scheduler.

use crate::comparison::{Comparison, Sample, Verdict};
use crate::format::{number, signed};
use crate::ranking::is_main;
use crate::table::table;
use crate::workload_names::WorkloadNames;
use schedlab_base::Better;
use schedlab_trace::RunRecord;

/// What the signs and words of the rows mean.
pub(crate) const OVERVIEW_MEANS: &str =
    "*: main figure of its workload; same: no difference that matters; unclear: no difference shown";

/// The header and the rows; metrics whose figures are all the same share a row. The columns up to the metric's direction are
/// followed by the schedulers, the baseline first.
pub(crate) fn overview(comparisons: &[Comparison], runs: &[RunRecord]) -> (Vec<String>, Vec<Vec<String>>) {
    let names = WorkloadNames::of(comparisons.iter().map(|c| &c.cell.workload));
    let mut schedulers: Vec<&str> = Vec::new();
    for sample in comparisons.iter().flat_map(|c| [&c.baseline, &c.candidate]) {
        if !schedulers.contains(&sample.scheduler.as_str()) {
            schedulers.push(&sample.scheduler);
        }
    }
    let header = ["workload", "CPUs", "metric", "better"].into_iter().chain(schedulers.iter().copied());
    let same_metric = |a: &Comparison, b: &Comparison| a.cell == b.cell && a.metric == b.metric;
    let mut groups: Vec<(&[Comparison], usize)> = Vec::new();
    for group in comparisons.chunk_by(same_metric) {
        match groups.iter_mut().find(|(known, _)| are_alike(known, group)) {
            Some((_, alike)) => *alike += 1,
            None => groups.push((group, 0)),
        }
    }
    let row = |(group, alike): &(&[Comparison], usize)| {
        let first = &group[0];
        let head = [
            names.get(&first.cell.workload).to_string(),
            first.cell.cpus.to_string(),
            metric_text(first, is_main(first, runs), *alike),
            direction(first.better).to_string(),
        ];
        head.into_iter().chain(schedulers.iter().map(|scheduler| figure(group, scheduler))).collect()
    };
    (header.map(str::to_string).collect(), groups.iter().map(row).collect())
}

/// Whether two metrics of the same runs have the same figures.
fn are_alike(a: &[Comparison], b: &[Comparison]) -> bool {
    let same = |a: &Sample, b: &Sample| a.scheduler == b.scheduler && a.values == b.values;
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            (&a.cell, a.unit, a.better) == (&b.cell, b.unit, b.better)
                && same(&a.baseline, &b.baseline)
                && same(&a.candidate, &b.candidate)
        })
}

/// `throughput*, messages/s`, or `build_time*, s (3 more alike)`.
fn metric_text(first: &Comparison, main: bool, alike: usize) -> String {
    let mark = if main { "*" } else { "" };
    let unit = if first.unit == "1" { String::new() } else { format!(", {}", first.unit) };
    let more = if alike == 0 { String::new() } else { format!(" ({alike} more alike)") };
    format!("{}{mark}{unit}{more}", first.metric)
}

fn direction(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
        Better::Neither => "",
    }
}

/// The baseline's mean, or how a scheduler differs from it.
fn figure(group: &[Comparison], scheduler: &str) -> String {
    if let Some(own) = group.iter().find(|c| c.candidate.scheduler == scheduler) {
        let change = own.percent.map_or_else(|| signed(own.difference), |percent| format!("{percent:+.1}%"));
        return format!("{change} {}", own.trust().mark(word(own.verdict)));
    }
    let baseline = group.iter().map(|c| &c.baseline).find(|sample| sample.scheduler == scheduler);
    baseline.map_or_else(|| "-".to_string(), |sample| number(sample.moments.mean))
}

/// A verdict where there is little room.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Different => "different",
        Verdict::NoDifference => "unclear",
        Verdict::NoneThatMatters => "same",
        Verdict::TooFewRuns => "(too few runs)",
        Verdict::NotDecided => "not decided",
    }
}

/// All of it as text.
pub fn overview_table(comparisons: &[Comparison], runs: &[RunRecord]) -> String {
    let Some(first) = comparisons.first() else { return String::new() };
    let (header, rows) = overview(comparisons, runs);
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    format!(
        "Means of {} and how the others differ, on {} ({})\n{OVERVIEW_MEANS}\n\n{}",
        first.baseline.scheduler,
        first.cell.machine,
        first.cell.backend.name(),
        table(&header, &[1, 4], &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::compare;
    use crate::ranking::tests::two_workloads;
    use schedlab_base::Metric;
    use schedlab_stats::Level;

    #[test]
    fn a_row_has_the_baselines_mean_and_how_the_others_differ() {
        let mut runs = two_workloads(&[
            ("vanilla", [10.0, 10.0], [8.0, 8.0]),
            ("o1", [20.0, 20.0], [8.0, 8.0]),
            ("ule", [9.0, 9.0], [8.0, 9.5]),
        ]);
        for run in &mut runs {
            run.metrics.truncate(1);
            let Metric { value, unit, better, .. } = run.metrics[0].clone();
            run.metrics.push(Metric::new("again", value, unit, better));
        }
        runs.retain(|run| run.scheduler != "ule" || run.workload.name == "chat");
        let comparisons = compare(&runs, Level::P95, 1.0);
        let (header, rows) = overview(&comparisons, &runs);
        assert_eq!(header, ["workload", "CPUs", "metric", "better", "vanilla", "o1", "ule"]);
        let chat = [
            "chat",
            "2",
            "throughput*, messages/s (1 more alike)",
            "higher",
            "10",
            "+100.0% better",
            "-10.0% worse",
        ];
        let build = ["build", "2", "time*, messages/s (1 more alike)", "lower", "8", "+0.0% same", "-"];
        assert_eq!(rows, [chat, build]);
        let text = overview_table(&comparisons, &runs);
        assert!(
            text.starts_with("Means of vanilla and how the others differ, on modern (sim)\n*: main"),
            "{text}"
        );
        assert_eq!(overview_table(&[], &runs), "");
    }
}
