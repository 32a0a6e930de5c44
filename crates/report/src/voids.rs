//! The void runs of a comparison, which are in no mean: a row for each scheduler and cell, and why its first one ended.

use crate::cells::{cell_of, distinct, scheduler_label};
use crate::run_tables::exit_text;
use crate::table::table;
use crate::workload_names::workload_text;
use schedlab_trace::RunRecord;

/// The void runs; nothing where all runs came to their end. A scheduler without another run has no verdict.
pub fn void_text(runs: &[RunRecord]) -> String {
    let place = |run: &RunRecord| (cell_of(run), scheduler_label(run));
    let places = distinct(runs.iter().filter(|run| run.is_void()).map(place));
    if places.is_empty() {
        return String::new();
    }
    let rows = places.iter().map(|at| {
        let inside: Vec<&RunRecord> = runs.iter().filter(|run| place(run) == *at).collect();
        let void: Vec<&RunRecord> = inside.iter().copied().filter(|run| run.is_void()).collect();
        let first = void[0];
        let verdict = match inside.len() - void.len() {
            0 => "no verdict".to_string(),
            left => format!("from the other {left}"),
        };
        let count = format!("{} of {}", void.len(), inside.len());
        let reasons = distinct(void.iter().flat_map(|run| run.standing_reasons())).join(", ");
        let workload = workload_text(&first.workload);
        [first.cpus.to_string(), at.1.clone(), workload, count, verdict, reasons, exit_words(first)].to_vec()
    });
    let header = ["CPUs", "scheduler", "workload", "void runs", "verdict", "void for", "the first one"];
    format!("\nVoid runs, which are in no mean:\n{}", table(&header, &[0, 3], &rows.collect::<Vec<_>>()))
}

/// When, as what and with which words a scheduler left.
fn exit_words(run: &RunRecord) -> String {
    let words = [run.exit.reason.as_str(), &run.exit.message].into_iter().filter(|word| !word.is_empty());
    std::iter::once(exit_text(&run.exit)).chain(words.map(str::to_string)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;
    use schedlab_trace::ExitKind;

    #[test]
    fn a_scheduler_with_void_runs_alone_has_a_row_and_no_verdict() {
        let mut runs = [run("a", 1, 1.0), run("a", 2, 1.0), run("b", 1, 2.0), run("b", 2, 2.0)];
        assert_eq!(void_text(&runs), "");
        for at in [1, 2, 3] {
            runs[at].exit.kind = ExitKind::Error;
            runs[at].exit.message = "non-existent DSQ".into();
        }
        let text = void_text(&runs);
        let rows: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(rows[0].contains("1 of 2") && rows[0].contains("from the other 1"), "{text}");
        assert!(rows[1].contains("2 of 2") && rows[1].contains("no verdict"), "{text}");
        assert!(
            rows.iter().all(|row| row.contains("ejected") && row.ends_with("non-existent DSQ")),
            "{text}"
        );
    }
}
