//! The text of one run: which tables it has, and in which order.

use crate::bars::validation_text;
use crate::goals::goals_text;
use crate::group_tables::groups_table;
use crate::json::Document;
use crate::run_tables::{
    after_ejection_text, callbacks_table, counters_table, loader_text, metrics_table, printed_text,
    run_summary, scheduler_tables, tasks_table, warnings_text,
};
use crate::wait_tables::{latency_table, longest_waits, waits_by_group_table};
use crate::waits::waits_table;
use schedlab_trace::Backend;

/// Tasks shown without `-v`.
const TASKS_SHOWN: usize = 12;

/// The same with `-v`. Chosen: a screen of them; `--latency` and `--json` have all.
const TASKS_SHOWN_VERBOSE: usize = 40;

/// Groups shown without `-v`. Chosen: a screen of them.
const GROUPS_SHOWN: usize = 40;

/// Lines of an exit dump shown without `-v`. Chosen: what the first CPU has queued.
const DUMP_LINES_SHOWN: usize = 40;

/// Pairs that wait shown without `-v`.
const PAIRS_SHOWN: usize = 20;

/// Which tables are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTables {
    /// All metrics, counters, costs and messages.
    pub verbose: bool,
    /// A line for each task's waits for a CPU.
    pub latency: bool,
    /// Which cache lines moved.
    pub lines: bool,
}

/// What one run is shown as: its figures, tasks, waits, what the scheduler printed, goals and warnings.
///
/// # Panics
/// A document without a run.
pub fn run_text(document: &Document, RunTables { verbose, latency, lines }: RunTables) -> String {
    let (run, goals) = (&document.runs[0], &document.goals);
    let mut text = run_summary(run);
    text.push('\n');
    text.push_str(&metrics_table(run));
    let validation = validation_text(run);
    if !validation.is_empty() {
        text.push_str(&format!("\n{validation}"));
    }
    let longest = longest_waits(run);
    if !longest.is_empty() {
        text.push_str(&format!("\n{longest}"));
    }
    // What a scheduler's author looks for comes first, and long lists last. A real run has costs where they were asked for.
    if (verbose || run.backend != Backend::Sim) && !run.callbacks.is_empty() {
        text.push_str(&format!("\n{}", callbacks_table(run)));
    }
    if verbose && !run.counters.is_empty() {
        text.push_str(&format!("\n{}", counters_table(run)));
    }
    if !run.tasks.is_empty() {
        text.push('\n');
        text.push_str(&tasks_table(run, if verbose { TASKS_SHOWN_VERBOSE } else { TASKS_SHOWN }));
    }
    if !run.groups.is_empty() {
        text.push_str(&format!(
            "\n{}",
            groups_table(run, if verbose { usize::MAX } else { GROUPS_SHOWN }, verbose)
        ));
    }
    if latency {
        text.push_str(&format!("\n{}", latency_table(run)));
    }
    if let Some(waits) = &run.waits {
        let limit = if verbose { usize::MAX } else { PAIRS_SHOWN };
        text.push_str(&format!("\nWho waited for whom\n{}", waits_table(waits, 0, limit)));
    }
    if verbose {
        text.push_str(&format!("\n{}", waits_by_group_table(run)));
        if !latency {
            text.push_str("--latency has a line for each task\n");
        }
        text.push_str(&scheduler_tables(run, |_| true));
    } else if lines {
        text.push_str(&scheduler_tables(run, |name| name.starts_with("lines")));
    }
    let printed = printed_text(run, if verbose { usize::MAX } else { 0 });
    if !printed.is_empty() {
        text.push_str(&format!("\n{printed}"));
    }
    let loader = loader_text(run, verbose);
    if !loader.is_empty() {
        text.push_str(&format!("\n{loader}"));
    }
    text.push_str(&goals_text(goals));
    text.push_str(&after_ejection_text(run));
    let warnings: Vec<String> = run.warnings.iter().map(|warning| warning.text.clone()).collect();
    text.push_str(&warnings_text(&warnings));
    if !run.exit.dump.is_empty() && (verbose || run.exit.kind.is_ejection()) {
        let limit = if verbose { usize::MAX } else { DUMP_LINES_SHOWN };
        text.push_str(&format!("\nDump:\n{}", first_lines(run.exit.dump.trim_end(), limit)));
    }
    text
}

/// The first lines of a text, and how many more there are.
fn first_lines(text: &str, limit: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines.len().min(limit);
    let mut first: String = lines[..shown].iter().map(|line| format!("{line}\n")).collect();
    if shown < lines.len() {
        first.push_str(&format!("({} more lines; -v and --json have all)\n", lines.len() - shown));
    }
    first
}
