//! One run as text: what ran where, its metrics, tasks, counters and callbacks, and what its scheduler printed.

use crate::cells::scheduler_label;
use crate::format::{number, unit_text};
use crate::names::{cell, visible_lines};
use crate::table::table;
use crate::workload_names::workload_text;
use schedlab_base::counted;
use schedlab_trace::{
    CallbackCost, Counter, ExitRecord, Printed, PrintedLine, RunRecord, Standing, TaskRecord,
};

/// `error_stall after 12.300 s`: how the scheduler left, and when, where it did not stay to the end.
pub(crate) fn exit_text(exit: &ExitRecord) -> String {
    match exit.after {
        Some(after) => format!("{} after {:.3} s", exit.kind.name(), after.as_secs_f64()),
        None => exit.kind.name().to_string(),
    }
}

/// Two lines that say what ran where, how long and how it ended.
pub fn run_summary(run: &RunRecord) -> String {
    let mut text = format!(
        "{} on {} ({}, {}): {}, seed {}\n",
        scheduler_label(run),
        run.machine,
        counted(run.cpus, "CPU"),
        run.backend.name(),
        workload_text(&run.workload),
        run.seed
    );
    text.push_str(&format!(
        "ran {:.6} s, scheduler exit: {}",
        run.duration.as_secs_f64(),
        exit_text(&run.exit)
    ));
    for part in [&run.exit.reason, &run.exit.message] {
        if !part.is_empty() {
            text.push_str(&format!(", {part}"));
        }
    }
    if let Some(hash) = &run.trace_hash {
        text.push_str(&format!(", trace {hash}"));
    }
    text.push('\n');
    if run.standing() != Standing::Valid {
        text.push_str(&format!(
            "this run is {}: {}\n",
            run.standing().name(),
            run.standing_reasons().join(", ")
        ));
    }
    text
}

/// The metrics of one run.
pub fn metrics_table(run: &RunRecord) -> String {
    let rows: Vec<Vec<String>> = run
        .metrics
        .iter()
        .map(|metric| vec![metric.name.clone(), number(metric.value), unit_text(metric.unit).to_string()])
        .collect();
    table(&["metric", "value", "unit"], &[1], &rows)
}

/// The tasks of one run, at most `limit` of them by CPU time; the rest is summed up in
/// a last line.
pub fn tasks_table(run: &RunRecord, limit: usize) -> String {
    table(&TASK_COLUMNS, &TASK_NUMBERS, &task_rows(run, limit))
}

/// Columns of the tasks, and those of numbers.
pub(crate) const TASK_COLUMNS: [&str; 6] = ["task", "nice", "CPU ms", "share", "switches", "migrations"];
pub(crate) const TASK_NUMBERS: [usize; 5] = [1, 2, 3, 4, 5];

/// The lines of [`tasks_table`].
pub(crate) fn task_rows(run: &RunRecord, limit: usize) -> Vec<Vec<String>> {
    let mut order: Vec<&TaskRecord> = run.tasks.iter().collect();
    if order.len() > limit {
        order.sort_by_key(|task| std::cmp::Reverse(task.cpu_time));
    }
    let mut rows: Vec<Vec<String>> = order.iter().take(limit).map(|task| task_row(task)).collect();
    if order.len() > limit {
        let rest = &order[limit..];
        rows.push(vec![
            format!("({} more)", rest.len()),
            String::new(),
            number(rest.iter().map(|task| task.cpu_time.as_secs_f64()).sum::<f64>() * 1e3),
            format!("{:.4}", rest.iter().map(|task| task.share).sum::<f64>()),
            rest.iter().map(|task| task.switches).sum::<u64>().to_string(),
            rest.iter().map(|task| task.migrations).sum::<u64>().to_string(),
        ]);
    }
    rows
}

fn task_row(task: &TaskRecord) -> Vec<String> {
    vec![
        task.name.clone(),
        task.nice.to_string(),
        number(task.cpu_time.as_secs_f64() * 1e3),
        format!("{:.4}", task.share),
        task.switches.to_string(),
        task.migrations.to_string(),
    ]
}

/// The counters of the scheduler and of the kernel, with what they mean where the scheduler says so. Those that are 0 share a line.
pub fn counters_table(run: &RunRecord) -> String {
    let columns = if run.counters.iter().any(|counter| !counter.meaning.is_empty()) { 3 } else { 2 };
    let row = |c: &Counter| [c.name.clone(), c.value.to_string(), c.meaning.clone()][..columns].to_vec();
    let (zero, counted): (Vec<&Counter>, Vec<&Counter>) = run.counters.iter().partition(|c| c.value == 0);
    let rows: Vec<Vec<String>> = counted.into_iter().map(row).collect();
    let mut text = String::new();
    if !rows.is_empty() {
        text = table(&["counter", "value", "meaning"][..columns], &[1], &rows);
    }
    if !zero.is_empty() {
        let names: Vec<_> = zero.iter().map(|counter| cell(&counter.name)).collect();
        text.push_str(&format!(
            "{}: {}\n",
            if rows.is_empty() { "counters, all 0" } else { "stayed 0" },
            names.join(", ")
        ));
    }
    text
}

/// What the scheduler's callbacks cost: how often they were called, and instructions and time, in all and per call.
pub fn callbacks_table(run: &RunRecord) -> String {
    let dash = || "-".to_string();
    let row = |cost: &CallbackCost| {
        let per_call = |value: u64| number(value as f64 / cost.calls.max(1) as f64);
        vec![
            cost.name.clone(),
            cost.calls.to_string(),
            cost.insns.map_or_else(dash, |insns| insns.to_string()),
            cost.insns.map_or_else(dash, per_call),
            number(cost.time.0 as f64 / 1e3),
            per_call(cost.time.0),
        ]
    };
    let rows: Vec<Vec<String>> = run.callbacks.iter().map(row).collect();
    table(&["callback", "calls", "insns", "insns/call", "us", "ns/call"], &[1, 2, 3, 4, 5], &rows)
}

/// What the scheduler printed, at most `limit` lines, as the kernel's trace has them: time since the run began, CPU and current
/// task. Says how many are left out; nothing for a scheduler that printed nothing.
pub fn printed_text(run: &RunRecord, limit: usize) -> String {
    let Printed { lines, left_out } = &run.printed;
    let all = lines.len() as u64 + left_out;
    if all == 0 {
        return String::new();
    }
    let row = |line: &PrintedLine| {
        let task = if line.task.is_empty() { "<idle>" } else { &line.task };
        let time = format!("{:.6}", line.time.0 as f64 / 1e9);
        vec![time, line.cpu.0.to_string(), task.to_string(), line.text.clone()]
    };
    let rows: Vec<Vec<String>> = lines.iter().take(limit).map(row).collect();
    let mut text = format!("The scheduler printed {} (bpf_printk)", counted(all, "line"));
    let more = all - rows.len() as u64;
    text.push_str(&match (more, rows.is_empty()) {
        (0, _) => "\n".to_string(),
        (_, true) => "; -v shows them\n".to_string(),
        (_, false) => format!("; the first {}, {more} more are left out\n", rows.len()),
    });
    if !rows.is_empty() {
        text.push_str(&table(&["time s", "CPU", "task", "line"], &[0, 1], &rows));
    }
    text
}

/// What the scheduler's own program wrote, or how many lines it is; nothing where there is none.
pub fn loader_text(run: &RunRecord, whole: bool) -> String {
    let count = run.loader_output.lines().count();
    let lines = counted(count, "line");
    match (count, whole) {
        (0, _) => String::new(),
        (_, false) => format!("The scheduler's own program wrote {lines}; -v shows them\n"),
        (_, true) => format!(
            "The scheduler's own program wrote {lines}\n{}\n",
            visible_lines(run.loader_output.trim_end())
        ),
    }
}

/// The tables that the scheduler has left.
pub fn scheduler_tables(run: &RunRecord, wanted: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    for left in run.tables.iter().filter(|left| wanted(&left.name)) {
        let columns: Vec<&str> = left.columns.iter().map(String::as_str).collect();
        let is_number = |column: usize| left.rows.iter().all(|row| row[column].parse::<f64>().is_ok());
        let right: Vec<usize> = (0..columns.len()).filter(|&column| is_number(column)).collect();
        let rows = if left.rows.is_empty() { String::new() } else { table(&columns, &right, &left.rows) };
        text.push_str(&format!("\n{}: {}\n{rows}", left.name, left.meaning));
    }
    text
}

/// Warnings as a list; nothing without any.
pub fn warnings_text(warnings: &[String]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let lines: String = warnings.iter().map(|line| format!("* {line}\n")).collect();
    format!("\nWarnings:\n{lines}")
}

/// What followed an ejection, where the run continued.
pub fn after_ejection_text(run: &RunRecord) -> String {
    let Some(after) = &run.after_ejection else { return String::new() };
    let rows = after.metrics.iter();
    let rows = rows.map(|m| vec![m.name.clone(), number(m.value), unit_text(m.unit).to_string()]);
    format!(
        "\nAfter the scheduler had left, {:.6} s under the kernel's own class (the figures above are from before):\n{}",
        after.duration.as_secs_f64(),
        table(&["metric", "value", "unit"], &[1], &rows.collect::<Vec<_>>())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;
    use schedlab_base::DurationNs;

    #[test]
    fn output_of_loaders_is_counted_or_shown() {
        let mut one = run("a", 1, 1.0);
        let short = loader_text(&one, false);
        assert_eq!(short, "The scheduler's own program wrote 2 lines; -v shows them\n");
        one.loader_output = "a\u{1b}[2J\n".into();
        let long = loader_text(&one, true);
        assert_eq!(long, "The scheduler's own program wrote 1 line\na\u{fffd}[2J\n");
        one.loader_output.clear();
        assert_eq!(loader_text(&one, true), "");
    }

    #[test]
    fn printed_lines_are_told_with_what_is_left_out() {
        let mut one = run("o1", 1, 2.0);
        let short = printed_text(&one, 0);
        assert_eq!(short, "The scheduler printed 3 lines (bpf_printk); -v shows them\n");
        let long = printed_text(&one, usize::MAX);
        assert!(
            long.starts_with(
                "The scheduler printed 3 lines (bpf_printk); the first 1, 2 more are left out\n"
            )
        );
        assert!(long.ends_with("0.000002    1  client/0  enqueue 7\n"), "{long}");
        one.printed.left_out = 0;
        one.printed.lines[0].task.clear();
        let idle = printed_text(&one, usize::MAX);
        assert!(
            idle.starts_with("The scheduler printed 1 line (bpf_printk)\n") && idle.contains("<idle>"),
            "{idle}"
        );
        one.printed.lines.clear();
        assert_eq!(printed_text(&one, usize::MAX), "");
        let costs = callbacks_table(&one);
        assert!(
            costs.lines().last().unwrap().split_whitespace().eq(["enqueue", "4", "100", "25", "2", "500"]),
            "{costs}"
        );
    }

    #[test]
    fn an_exit_tells_when() {
        let mut one = run("o1", 1, 1.0);
        assert!(run_summary(&one).contains("scheduler exit: none"));
        one.exit.kind = schedlab_trace::ExitKind::ErrorStall;
        one.exit.after = Some(DurationNs(12_345_678_901));
        assert!(run_summary(&one).contains("scheduler exit: error_stall after 12.346 s"));
    }

    #[test]
    fn long_task_lists_are_summed_up() {
        let mut one = run("o1", 1, 1.0);
        one.tasks = vec![one.tasks[0].clone(); 5];
        assert!(tasks_table(&one, 2).contains("(3 more)"));
        assert!(run_summary(&one).contains("seed 1"));
    }

    #[test]
    fn warnings_are_a_list_and_what_followed_an_ejection_a_table() {
        let one = run("o1", 1, 1.0);
        assert_eq!(warnings_text(&["a".into()]), "\nWarnings:\n* a\n");
        assert!(warnings_text(&[]).is_empty() && after_ejection_text(&one).contains("context_switches"));
    }
}
