//! The text of a comparison: which tables it has, and in which order.

use crate::advice::advice;
use crate::bars::validations_text;
use crate::cells::first_runs;
use crate::comparison::Comparison;
use crate::comparison_table::comparison_table;
use crate::goals::goals_text;
use crate::in_words::in_words;
use crate::json::Document;
use crate::overview::overview_table;
use crate::ranking::ranking_table;
use crate::run_tables::{metrics_table, run_summary, warnings_text};
use crate::voids::void_text;
use crate::waits::waits_table;
use schedlab_trace::RunRecord;
use schedlab_trace::waits::Waits;

/// Pairs that wait shown without `-v`.
const PAIRS_SHOWN: usize = 20;

/// The result in words, or why nothing is compared. Then the workloads' `own` metrics, or all with `-v`, with advice where they show
/// little. Several workloads make one table with a ranking; `-v` has their own tables too.
pub fn comparison_text(document: &Document, own: impl Fn(&str, &str) -> bool, verbose: bool) -> String {
    let is_own = |c: &&Comparison| own(&c.cell.workload.name, &c.metric);
    let owned: Vec<Comparison> = document.comparisons.iter().filter(is_own).cloned().collect();
    let shown = if verbose { &document.comparisons } else { &owned };
    let words = in_words(&owned, &document.runs);
    let mut text = String::new();
    if !document.ranking.is_empty() {
        text.push_str(&overview_table(&owned, &document.runs));
        text.push_str(&format!("\n{}", ranking_table(&document.ranking)));
    }
    if verbose && !text.is_empty() {
        text.push('\n');
    }
    if verbose || text.is_empty() {
        text.push_str(&comparison_table(shown));
    }
    text.push_str(&validations_text(&document.runs, shown));
    text.push_str(&goals_text(&document.goals));
    text.push_str(&void_text(&document.runs));
    text.push_str(&warnings_text(&document.warnings()));
    let advice = advice(shown);
    if !advice.is_empty() {
        text.push_str("\nWhat these runs do not show:\n");
        text.extend(advice.iter().map(|line| format!("* {line}\n")));
    }
    let text = text.trim_start_matches('\n');
    let between = if words.is_empty() || text.is_empty() { "" } else { "\n" };
    format!("{words}{between}{text}")
}

/// The runs that a failed comparison has made, with the metrics that are to be shown.
pub fn finished_runs(runs: &[RunRecord], shown: impl Fn(&RunRecord, &str) -> bool) -> String {
    let mut text = String::from("\nFinished:\n");
    for run in runs {
        let metrics = run.metrics.iter().filter(|metric| shown(run, &metric.name)).cloned().collect();
        let run = RunRecord { metrics, ..run.clone() };
        text.push_str(&run_summary(&run));
        text.push_str(&metrics_table(&run));
    }
    text
}

/// Waits of tasks for each other in the first run of each scheduler, where that was watched.
pub fn explained_waits(runs: &[RunRecord], verbose: bool) -> String {
    let limit = if verbose { usize::MAX } else { PAIRS_SHOWN };
    let watched = first_runs(runs).into_iter().filter_map(|run| run.waits.as_ref().map(|waits| (run, waits)));
    let table = |(run, waits): (&RunRecord, &Waits)| {
        format!("\nWho waited for whom: {}{}", run_summary(run), waits_table(waits, 0, limit))
    };
    watched.map(table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::compare;
    use crate::made_up::runs;
    use schedlab_stats::Level;
    use schedlab_trace::ExitKind;

    #[test]
    fn what_is_not_compared_is_the_first_line() {
        let mut runs = runs(&[10.0, 11.0], &[20.0, 21.0]);
        runs[2..].iter_mut().for_each(|run| run.exit.kind = ExitKind::Error);
        let comparisons = compare(&runs, Level::P95, 1.0);
        let document = Document { runs, comparisons, ..Document::default() };
        let text = comparison_text(&document, |_, _| true, false);
        let start = "Nothing is compared: on 2 CPUs the runs of o1 are void (ejected).\n\nVoid runs";
        assert!(text.starts_with(start), "{text}");
    }
}
