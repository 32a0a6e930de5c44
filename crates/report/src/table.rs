//! Text tables for the terminal.

use crate::comparison::{Comparison, Sample, Verdict, scheduler_label};
use crate::format::{number, signed};
use crate::names::{cell, visible_lines};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use schedlab_base::{Better, DurationNs, counted};
use schedlab_trace::{
    CallbackCost, Counter, ExitRecord, Printed, PrintedLine, RunRecord, Standing, TaskRecord, WaitFigures,
    WaitRecord, WaitScope, WorkloadRecord, WorstWait,
};
use unicode_width::UnicodeWidthStr;

/// A table with a header line; `right` names the columns that hold numbers.
pub fn table(header: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|text| cell(text).into_owned()).collect()).collect();
    let widths = widths(header, &rows);
    table.add_row(widths.iter().map(|&width| "-".repeat(width)).collect::<Vec<_>>());
    for row in rows {
        table.add_row(row);
    }
    for &column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text: String = table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect();
    text.shrink_to_fit();
    text
}

fn widths(header: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    (0..header.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
            cells.chain([header[column].width()]).max().unwrap_or(0)
        })
        .collect()
}

/// `chat:rooms=10,messages=50`.
pub(crate) fn workload_text(workload: &WorkloadRecord) -> String {
    let params: Vec<String> = workload.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if params.is_empty() { workload.name.clone() } else { format!("{}:{}", workload.name, params.join(",")) }
}

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

pub(crate) fn unit_text(unit: &str) -> &str {
    if unit == "1" { "" } else { unit }
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
pub(crate) fn change(comparison: &Comparison) -> String {
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

/// Warnings as a list; nothing without any.
pub fn warnings_text(warnings: &[String]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let lines: String = warnings.iter().map(|line| format!("* {line}\n")).collect();
    format!("\nWarnings:\n{lines}")
}

/// The longest waits of a run: which task, when, where, behind which.
pub fn longest_waits(run: &RunRecord) -> String {
    let Some(all) = run.task_waits.iter().find(|waits| waits.scope == WaitScope::All) else {
        return String::new();
    };
    let line = |(name, figures): (&str, &WaitFigures)| {
        let what = if name.starts_with("run_delay") { "run delay" } else { "wakeup latency" };
        format!("longest {what}: {}\n", worst_text(&figures.worst))
    };
    all.figures().map(line).collect()
}

/// `hog/1 waited 12.3 ms for CPU 1 from 0.100000 s on, behind hog/0 12.3 ms`.
pub(crate) fn worst_text(worst: &WorstWait) -> String {
    let ms = |time: DurationNs| format!("{} ms", number(time.as_secs_f64() * 1e3));
    let behind = worst.behind_text(ms);
    let (since, cpu) = (worst.since.as_secs_f64(), worst.cpu);
    format!("{} waited {} from {since:.6} s on, CPU {cpu}{behind}", worst.task, ms(worst.length))
}

/// Columns of the waits, and those of numbers.
pub(crate) const WAIT_COLUMNS: [&str; 9] =
    ["waits of", "name", "latency", "count", "p50 us", "p95 us", "p99 us", "max us", "longest"];
pub(crate) const WAIT_NUMBERS: [usize; 5] = [3, 4, 5, 6, 7];

/// The lines of the waits by group, process and task, at most `limit` of them.
pub(crate) fn wait_rows(run: &RunRecord, limit: usize) -> Vec<Vec<String>> {
    let us = |time: DurationNs| number(time.0 as f64 / 1e3);
    let row = |waits: &WaitRecord, name: &str, figures: &WaitFigures| {
        let what = if name.starts_with("run_delay") { "run delay" } else { "wakeup" };
        let times = [figures.p50, figures.p95, figures.p99, figures.worst.length].map(us);
        let head = [waits.scope.name(), &waits.name, what].map(String::from).into_iter();
        let count = std::iter::once(figures.count.to_string());
        head.chain(count).chain(times).chain([worst_text(&figures.worst)]).collect()
    };
    let rows =
        run.task_waits.iter().flat_map(|waits| waits.figures().map(move |(name, f)| row(waits, name, f)));
    rows.take(limit).collect()
}

/// The waits of all tasks, of groups and of processes.
pub fn waits_by_group_table(run: &RunRecord) -> String {
    let of_task = run.task_waits.iter().position(|waits| waits.scope == WaitScope::Task);
    let before = &run.task_waits[..of_task.unwrap_or(run.task_waits.len())];
    let rows = before.iter().map(|waits| waits.figures().count()).sum();
    table(&WAIT_COLUMNS, &WAIT_NUMBERS, &wait_rows(run, rows))
}

/// The tasks as `perf sched latency` shows them, the one with the longest wait first: how long each waited for a CPU after a
/// wakeup, and in all. Tasks that never waited stand last.
pub fn latency_table(run: &RunRecord) -> String {
    let header = [
        "task",
        "runtime ms",
        "switches",
        "wakeup avg ms",
        "wakeup max ms",
        "delay avg ms",
        "delay max ms",
        "max from s",
        "CPU",
    ];
    let tasks = run.task_waits.iter().filter(|waits| waits.scope == WaitScope::Task);
    let mut tasks: Vec<&WaitRecord> = tasks.collect();
    let longest = |waits: &WaitRecord| waits.run_delay.as_ref().map(|figures| figures.worst.length);
    tasks.sort_by_key(|waits| std::cmp::Reverse(longest(waits)));
    let rows: Vec<Vec<String>> = tasks.into_iter().map(|waits| latency_row(run, waits)).collect();
    table(&header, &[1, 2, 3, 4, 5, 6, 7, 8], &rows)
}

fn latency_row(run: &RunRecord, waits: &WaitRecord) -> Vec<String> {
    let ms = |time: DurationNs| format!("{:.3}", time.as_secs_f64() * 1e3);
    let both = |figures: &Option<WaitFigures>| match figures {
        Some(figures) => [figures.mean, figures.worst.length].map(ms),
        None => ["-", "-"].map(String::from),
    };
    let task = run.tasks.iter().find(|task| task.name == waits.name);
    let of_task = task.map(|task| [ms(task.cpu_time), task.switches.to_string()]);
    let worst = waits.run_delay.as_ref().map(|figures| &figures.worst);
    let place = worst.map(|worst| [format!("{:.6}", worst.since.as_secs_f64()), worst.cpu.to_string()]);
    let unknown = || ["-", "-"].map(String::from);
    let figures = [
        of_task.unwrap_or_else(unknown),
        both(&waits.wakeup_latency),
        both(&waits.run_delay),
        place.unwrap_or_else(unknown),
    ];
    std::iter::once(waits.name.clone()).chain(figures.into_iter().flatten()).collect()
}

/// What followed an ejection, where the run went on.
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
    use crate::comparison::{compare, tests::run};
    use schedlab_stats::Level;

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
    fn columns_line_up_without_trailing_blanks() {
        let text =
            table(&["name", "n"], &[1], &[vec!["a".into(), "10".into()], vec!["long".into(), "7".into()]]);
        assert_eq!(text, "name   n\n----  --\na     10\nlong   7\n");
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

    #[test]
    fn the_longest_wait_names_task_time_cpu_and_who_ran() {
        let mut one = run("o1", 1, 1.0);
        let told = "client/0 waited 9.000e-4 ms from 0.000000 s on, CPU 1, behind hog 8.000e-4 ms, others or unknown 1.000e-4 ms";
        assert_eq!(longest_waits(&one), "");
        assert!(!waits_by_group_table(&one).contains(told), "tasks are in the table of --latency");
        one.task_waits[0].scope = WaitScope::All;
        assert!(waits_by_group_table(&one).contains(told), "{}", waits_by_group_table(&one));
        assert_eq!(longest_waits(&one), format!("longest run delay: {told}\n"));
        assert_eq!(warnings_text(&["a".into()]), "\nWarnings:\n* a\n");
        assert!(warnings_text(&[]).is_empty() && after_ejection_text(&one).contains("context_switches"));
    }

    #[test]
    fn latencies_stand_by_the_longest_wait() {
        let mut one = run("o1", 1, 1.0);
        let waited = |name: &str, max: u64| {
            let mut waits = run("o1", 1, 1.0).task_waits.remove(0);
            (waits.scope, waits.name) = (WaitScope::Task, name.to_string());
            let figures = waits.run_delay.as_mut().unwrap();
            (figures.mean, figures.worst.length) = (DurationNs(max / 2), DurationNs(max));
            waits.wakeup_latency = None;
            waits
        };
        let never = WaitRecord { run_delay: None, ..waited("c", 1) };
        let task = one.tasks[0].name.clone();
        one.task_waits = vec![never, waited("b", 1_000_000), waited(&task, 40_000_000)];
        let text = latency_table(&one);
        let rows: Vec<Vec<&str>> = text.lines().skip(2).map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(
            (rows[0][0], &rows[0][3..]),
            (task.as_str(), &["-", "-", "20.000", "40.000", "0.000000", "1"][..])
        );
        assert_ne!((rows[0][1], rows[0][2]), ("-", "-"), "its figures stand in the same row");
        assert_eq!(rows[1][..3], ["b", "-", "-"]);
        assert_eq!(rows[2], ["c", "-", "-", "-", "-", "-", "-", "-", "-"]);
    }

    #[test]
    fn long_task_lists_are_summed_up() {
        let mut one = run("o1", 1, 1.0);
        one.tasks = vec![one.tasks[0].clone(); 5];
        assert!(tasks_table(&one, 2).contains("(3 more)"));
        assert!(run_summary(&one).contains("seed 1"));
    }
}
