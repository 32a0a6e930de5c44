//! Comparisons as tables: a line a scheduler, the baseline first.

use crate::comparison::{Comparison, Sample, Verdict};
use crate::format::{number, signed};
use crate::table::table;
use crate::workload_names::workload_text;
use schedlab_base::Better;

/// One table a workload and metric, the baseline first in every group of lines. Metrics with the same figures share one.
pub fn comparison_table(comparisons: &[Comparison]) -> String {
    let mut tables: Vec<ComparedTable> = Vec::new();
    let mut left: Vec<&Comparison> = comparisons.iter().collect();
    while let Some(&first) = left.first() {
        let same = |other: &&Comparison| other.metric == first.metric && same_runs(other, first);
        let (group, rest): (Vec<&Comparison>, Vec<&Comparison>) = left.iter().partition(|c| same(c));
        let rows = compared_rows(&group);
        let alike = |table: &&mut ComparedTable| {
            let of = table.first;
            same_runs(of, first) && of.unit == first.unit && of.better == first.better && table.rows == rows
        };
        match tables.iter_mut().find(alike) {
            Some(table) => table.metrics.push(&first.metric),
            None => tables.push(ComparedTable { first, metrics: vec![&first.metric], rows }),
        }
        left = rest;
    }
    tables.iter().map(ComparedTable::text).collect::<Vec<_>>().join("\n")
}

/// A table of one metric, or of several whose figures are all the same.
struct ComparedTable<'a> {
    first: &'a Comparison,
    metrics: Vec<&'a str>,
    rows: Vec<Vec<String>>,
}

impl ComparedTable<'_> {
    fn text(&self) -> String {
        let first = self.first;
        let direction = match first.better {
            Better::Higher => ", higher is better",
            Better::Lower => ", lower is better",
            Better::Neither => "",
        };
        let unit = if first.unit == "1" { String::new() } else { format!(" in {}", first.unit) };
        let header = ["CPUs", "scheduler", "runs", "mean", "+/-", "sd", "change", "verdict"];
        format!(
            "{}{unit} of {} on {} ({}){direction}; intervals at {} %\n\n{}",
            self.metrics.join(", "),
            workload_text(&first.cell.workload),
            first.cell.machine,
            first.cell.backend.name(),
            first.level_percent,
            table(&header, &[0, 2, 3, 4, 5, 6], &self.rows)
        )
    }
}

/// Whether two comparisons are about the same runs, but for their number of CPUs.
fn same_runs(a: &Comparison, b: &Comparison) -> bool {
    a.cell.workload == b.cell.workload && a.cell.machine == b.cell.machine && a.cell.backend == b.cell.backend
}

/// The rows of one metric: the baseline of each number of CPUs, and the schedulers that are
/// compared with it.
fn compared_rows(group: &[&Comparison]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut last = None;
    for comparison in group {
        let cpus = comparison.cell.cpus;
        if last != Some(cpus) {
            let tail = [String::new(), "baseline".to_string()];
            rows.push(sample_row(cpus, &comparison.baseline, tail));
            last = Some(cpus);
        }
        let tail = [change(comparison), verdict_text(comparison)];
        rows.push(sample_row(cpus, &comparison.candidate, tail));
    }
    rows
}

fn sample_row(cpus: usize, sample: &Sample, tail: [String; 2]) -> Vec<String> {
    let [change, verdict] = tail;
    vec![
        cpus.to_string(),
        sample.scheduler.clone(),
        sample.moments.count.to_string(),
        number(sample.moments.mean),
        sample.half_width.map_or_else(|| "-".to_string(), number),
        sample.moments.known_sd().map_or_else(|| "-".to_string(), number),
        change,
        verdict,
    ]
}

/// The change with its interval: `+5.0% +/- 0.2`, or with both bounds where they are not equally far away.
pub fn change(comparison: &Comparison) -> String {
    let Some(percent) = comparison.percent else { return signed(comparison.difference) };
    let Some([low, high]) = comparison.percent_interval else {
        let digits = if percent.abs() < 1.0 { 2 } else { 1 };
        return format!("{percent:+.digits$}%");
    };
    let (below, above) = (percent - low, high - percent);
    let digits = if percent.abs().max(below).max(above) < 1.0 { 2 } else { 1 };
    let text = |value: f64| format!("{value:.digits$}");
    if text(below) == text(above) {
        format!("{percent:+.digits$}% +/- {above:.digits$}")
    } else {
        format!("{percent:+.digits$}% ({low:+.digits$} to {high:+.digits$})")
    }
}

/// The verdict, whether it rests on one run in truth, and what stands against the runs.
pub(crate) fn verdict_text(comparison: &Comparison) -> String {
    let name = comparison.verdict.name();
    let mut told = name.to_string();
    if let (Verdict::NotDecided, Some(factor)) = (comparison.verdict, comparison.kernel_factor) {
        told.push_str(&format!(" (it errs by up to {} %)", number(100.0 * (factor - 1.0))));
    }
    if comparison.seeds_change_nothing {
        told.push_str(&match comparison.kernel_spread_percent {
            Some(spread) => {
                format!(" (the seeds change nothing; the kernel's own spread is {} %)", number(spread))
            }
            None => " (the seeds change nothing)".to_string(),
        });
    }
    comparison.trust().explain(&told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::compare;
    use crate::made_up::run;
    use schedlab_stats::Level;

    #[test]
    fn a_comparison_names_runs_spread_and_verdict() {
        let runs = [run("vanilla", 1, 10.0), run("vanilla", 2, 11.0), run("o1", 1, 30.0), run("o1", 2, 31.0)];
        let text = comparison_table(&compare(&runs, Level::P95, 1.0));
        // The differences are exact, and the baseline's mean lies between 4.147 and 16.853: 20 of that.
        assert!(
            text.starts_with("throughput in messages/s of chat:rooms=3,fanout=a<b on modern (sim), higher")
        );
        assert!(
            text.contains("baseline")
                && text.contains("+190.5% (+118.7 to +482.3)")
                && text.contains("better"),
            "{text}"
        );
    }
}
