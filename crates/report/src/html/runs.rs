//! Every run of a page, folded up: metrics, tasks, counters, how the scheduler left.

use super::{breakable, escape, groups, table};
use crate::bars::validation_text;
use crate::cells::scheduler_label;
use crate::format::number;
use crate::format::unit_text;
use crate::run_tables::{TASK_COLUMNS, TASK_NUMBERS, exit_text, task_rows};
use crate::wait_tables::{WAIT_COLUMNS, WAIT_NUMBERS, wait_rows};
use crate::workload_names::workload_text;
use schedlab_base::counted;
use schedlab_trace::{Provenance, RunRecord, Standing};

/// Tasks shown of a run, and lines of waits. Chosen; the result file has all.
const TASKS: usize = 100;
const WAITS: usize = 200;

/// All runs; a single one is open.
pub(super) fn section(runs: &[RunRecord]) -> String {
    let open = if runs.len() == 1 { " open" } else { "" };
    let runs: String = runs.iter().map(|run| html(run, open)).collect();
    format!("<section>\n<h2>Runs</h2>\n{runs}</section>\n")
}

fn html(run: &RunRecord, open: &str) -> String {
    let standing = match run.standing() {
        Standing::Valid => String::new(),
        standing => format!(", {}: {}", standing.name(), run.standing_reasons().join(", ")),
    };
    let mut text = format!(
        "<details{open}>\n<summary>{}: {} on {}, {}, seed {}, exit {}{}</summary>\n",
        breakable(&scheduler_label(run)),
        breakable(&workload_text(&run.workload)),
        breakable(&run.machine),
        counted(run.cpus, "CPU"),
        run.seed,
        breakable(&exit_text(&run.exit)),
        standing
    );
    for part in [&run.exit.reason, &run.exit.message, &run.exit.dump] {
        if !part.is_empty() {
            text.push_str(&format!("<pre>{}</pre>\n", escape(part)));
        }
    }
    let metrics = run
        .metrics
        .iter()
        .map(|metric| vec![metric.name.clone(), number(metric.value), unit_text(metric.unit).to_string()]);
    text.push_str("<div class=\"columns\">\n");
    text.push_str(&table(&["metric", "value", "unit"], &[1], &metrics.collect::<Vec<_>>()));
    if !run.tasks.is_empty() {
        text.push_str(&table(&TASK_COLUMNS, &TASK_NUMBERS, &task_rows(run, TASKS)));
    }
    if !run.counters.is_empty() {
        let counters = run.counters.iter();
        let rows = counters.map(|one| vec![one.name.clone(), one.value.to_string(), one.meaning.clone()]);
        text.push_str(&table(&["counter", "value", "meaning"], &[1], &rows.collect::<Vec<_>>()));
    }
    text.push_str("</div>\n");
    text.push_str(&validation(run));
    text.push_str(&groups::section(run));
    if !run.task_waits.is_empty() {
        text.push_str("<h3>Waits for a CPU</h3>\n");
        text.push_str(&table(&WAIT_COLUMNS, &WAIT_NUMBERS, &wait_rows(run, WAITS)));
    }
    text.push_str(&after_ejection(run));
    text.push_str(&provenance(run));
    text.push_str(&format!("<p>Ran for {} s.</p>\n", number(run.duration.as_secs_f64())));
    if let Some(hash) = &run.trace_hash {
        text.push_str(&format!("<p>Hash of the trace: <code>{}</code></p>\n", escape(hash)));
    }
    text + "</details>\n"
}

/// What followed an ejection.
fn after_ejection(run: &RunRecord) -> String {
    let Some(after) = &run.after_ejection else { return String::new() };
    let rows = after.metrics.iter();
    let rows = rows.map(|m| vec![m.name.clone(), number(m.value), unit_text(m.unit).to_string()]);
    format!(
        "<h3>After the scheduler had left</h3>\n<p>{} s under the kernel's own class; all other figures are from before.</p>\n{}",
        number(after.duration.as_secs_f64()),
        table(&["metric", "value", "unit"], &[1], &rows.collect::<Vec<_>>())
    )
}

/// Between which values the real kernel's figures lie, or why that is not known.
fn validation(run: &RunRecord) -> String {
    let text = validation_text(run);
    if text.is_empty() { text } else { format!("<p>{}</p>\n", escape(text.trim_end())) }
}

/// What the run was made of.
fn provenance(run: &RunRecord) -> String {
    let Provenance { object, workload, machine, build, .. } = &run.provenance;
    let named =
        [("object", object), ("workload", workload), ("machine", machine), ("schedlab", build)].into_iter();
    let facts: String = named
        .filter_map(|(name, hash)| Some((name, hash.as_ref()?)))
        .map(|(name, hash)| format!("<dt>{name}</dt><dd><code>{}</code></dd>\n", escape(hash)))
        .collect();
    if facts.is_empty() { facts } else { format!("<dl class=\"facts\">\n{facts}</dl>\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;
    use schedlab_base::DurationNs;
    use schedlab_trace::{ExitKind, Validation};

    #[test]
    fn waits_hashes_and_what_followed_are_shown() {
        let text = section(&[run("o1", 1, 1.0)]);
        for part in [
            "<h3>Waits for a CPU</h3>",
            "CPU 1, behind hog",
            "<dt>object</dt><dd><code>ab12</code></dd>",
            "<h3>After the scheduler had left</h3>",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_is_known_of_the_kernel_is_told() {
        let mut one = run("o1", 1, 1.0);
        one.validation = Some(Validation::None("tcp was <not> measured".into()));
        assert!(section(&[one]).contains("<p>real kernel: not validated: tcp was &lt;not&gt; measured</p>"));
    }

    #[test]
    fn a_scheduler_that_left_is_told_with_time_and_reason() {
        let mut one = run("o1", 1, 1.0);
        assert!(section(std::slice::from_ref(&one)).contains(", seed 1, exit none</summary>"));
        one.exit.kind = ExitKind::ErrorStall;
        one.exit.after = Some(DurationNs(2_004_000_000));
        one.exit.reason = "runnable task <stall>".into();
        let text = section(&[one]);
        let told = ", seed 1, exit error_<wbr>stall after 2.004 s, void: ejected</summary>\n<pre>runnable task &lt;stall&gt;</pre>\n";
        assert!(text.contains(told), "{text}");
    }
}
