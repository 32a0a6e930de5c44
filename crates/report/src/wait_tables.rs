//! How long tasks waited for a CPU, as tables: by task, process and group, and the longest wait with its place.

use crate::format::number;
use crate::table::table;
use schedlab_base::DurationNs;
use schedlab_trace::{RunRecord, WaitFigures, WaitRecord, WaitScope, WorstWait};

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
    let mut text = table(&header, &[1, 2, 3, 4, 5, 6, 7, 8], &rows);
    if run.task_waits.iter().any(|waits| waits.scope == WaitScope::Cgroup) {
        text.push_str(&format!("\n{}", cgroup_table(run)));
    }
    text
}

/// Wakeup latency and run delay of the tasks of each group, with those of the groups below it.
fn cgroup_table(run: &RunRecord) -> String {
    let header = [
        "group",
        "wakeup p50 ms",
        "wakeup p95 ms",
        "wakeup p99 ms",
        "wakeup max ms",
        "delay p50 ms",
        "delay p95 ms",
        "delay p99 ms",
        "delay max ms",
        "longest",
    ];
    let ms = |time: DurationNs| format!("{:.3}", time.as_secs_f64() * 1e3);
    let figures = |figures: &Option<WaitFigures>| match figures {
        Some(figures) => [figures.p50, figures.p95, figures.p99, figures.worst.length].map(ms),
        None => ["-"; 4].map(String::from),
    };
    let row = |waits: &WaitRecord| {
        let longest = waits.run_delay.as_ref().map_or_else(String::new, |all| all.worst.task.clone());
        let both = [figures(&waits.wakeup_latency), figures(&waits.run_delay)];
        std::iter::once(waits.name.clone()).chain(both.into_iter().flatten()).chain([longest]).collect()
    };
    let mut groups: Vec<&WaitRecord> =
        run.task_waits.iter().filter(|waits| waits.scope == WaitScope::Cgroup).collect();
    groups.sort_by(|one, other| one.name.split('/').cmp(other.name.split('/')));
    let rows: Vec<Vec<String>> = groups.into_iter().map(row).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;

    #[test]
    fn the_longest_wait_names_task_time_cpu_and_who_ran() {
        let mut one = run("o1", 1, 1.0);
        let told = "client/0 waited 9.000e-4 ms from 0.000000 s on, CPU 1, behind hog 8.000e-4 ms, others or unknown 1.000e-4 ms";
        assert_eq!(longest_waits(&one), "");
        assert!(!waits_by_group_table(&one).contains(told), "tasks are in the table of --latency");
        one.task_waits[0].scope = WaitScope::All;
        assert!(waits_by_group_table(&one).contains(told), "{}", waits_by_group_table(&one));
        assert_eq!(longest_waits(&one), format!("longest run delay: {told}\n"));
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
        assert_eq!(rows.len(), 3);
        for group in ["a-1", "a"] {
            one.task_waits.push(WaitRecord { scope: WaitScope::Cgroup, ..waited(group, 3_000_000) });
        }
        let text = latency_table(&one);
        let of_groups: Vec<&str> =
            text.lines().skip_while(|line| !line.starts_with("group")).skip(2).collect();
        assert!(of_groups[0].starts_with("a  ") && of_groups[1].starts_with("a-1"), "{text}");
        assert!(of_groups[0].contains(" 3.000") && of_groups.len() == 2, "{text}");
    }
}
