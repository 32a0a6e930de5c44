//! The time line of a run: the data that the page's script draws CPU by CPU, and what it says
//! as a table, which needs no script.

use super::{breakable, escape, table};
use crate::format::number;
use crate::names::visible_json;
use schedlab_base::{DurationNs, TaskId};
use schedlab_trace::{RunRecord, TaskState, Timeline};
use serde::Serialize;
use std::collections::BTreeMap;

/// Tasks in the table. Chosen; the picture has all.
const TASKS: usize = 20;

/// What the script reads: numbers in ns; rows are arrays, to keep the page small.
#[derive(Serialize)]
struct Data {
    from: u64,
    to: u64,
    cpus: usize,
    names: BTreeMap<u32, String>,
    /// CPU, task, from, to, how it ended.
    stretches: Vec<(u32, u32, u64, u64, &'static str)>,
    /// At, CPU, waker or -1, wakee, CPU and time of its running or -1.
    wakeups: Vec<(u64, u32, i64, u32, i64, i64)>,
}

fn ending(end: Option<TaskState>) -> &'static str {
    match end {
        Some(TaskState::Runnable) => "stays runnable",
        Some(TaskState::Blocked) => "blocks",
        Some(TaskState::BlockedIo) => "blocks for the disk",
        Some(TaskState::Exited) => "exits",
        None => "goes on",
    }
}

/// The name of a task; forked ones have a number alone.
fn name(run: &RunRecord, task: TaskId) -> String {
    let forked = run.tasks.last().is_some_and(|task| task.name == "(forked)");
    let known = run.tasks.len() - usize::from(forked);
    let named = run.tasks[..known].get(task.index());
    named.map_or_else(|| format!("forked/{}", task.0), |task| task.name.clone())
}

fn data(run: &RunRecord, timeline: &Timeline) -> Data {
    let mut names = BTreeMap::new();
    let wakers = timeline.wakeups.iter().flat_map(|wakeup| wakeup.waker.into_iter().chain([wakeup.wakee]));
    for task in timeline.stretches.iter().map(|stretch| stretch.task).chain(wakers) {
        names.entry(task.0).or_insert_with(|| name(run, task));
    }
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let stretches = timeline.stretches.iter();
    let wakeups = timeline.wakeups.iter();
    Data {
        from: timeline.window.from.0,
        to: timeline.window.to.0,
        cpus: run.cpus,
        names,
        stretches: stretches.map(|s| (s.cpu.0, s.task.0, s.from.0, s.to.0, ending(s.end))).collect(),
        wakeups: wakeups
            .map(|w| {
                let (cpu, ran) = w.ran.map_or((-1, -1), |(cpu, at)| (i64::from(cpu.0), signed(at.0)));
                (w.at.0, w.cpu.0, w.waker.map_or(-1, |waker| i64::from(waker.0)), w.wakee.0, cpu, ran)
            })
            .collect(),
    }
}

/// JSON that no text in it can end early: `<` is written as an escape.
fn script_json(data: &Data) -> String {
    visible_json(serde_json::to_string(data).expect("plain data has a JSON form")).replace('<', "\\u003c")
}

/// The part of a page about the time line of a run; nothing without one.
pub(super) fn section(run: &RunRecord, label: &str) -> Option<String> {
    let timeline = run.timeline.as_ref()?;
    let window = timeline.window;
    let ms = |ns: u64| number(ns as f64 / 1e6);
    let mut text = format!(
        "<section>\n<h2>CPUs over time under {}</h2>\n<p>From {} ms to {} ms of the run{}. A bar is a task that \
         runs, named where there is room, or grey where several share a pixel; an arrow goes from a wakeup to the \
         start of who was woken.</p>\n",
        breakable(label),
        ms(window.from.0),
        ms(window.to.0),
        if timeline.cut { "; more happened later: --timeline FROM..TO chooses another part" } else { "" }
    );
    if timeline.stretches.is_empty() {
        return Some(text + "<p>No task ran in it.</p>\n</section>\n");
    }
    text.push_str(&format!(
        "<div class=\"timeline\" data-label=\"{}\">\n<noscript><p>The picture needs the script in this \
         page.</p></noscript>\n<script type=\"application/json\">{}</script>\n</div>\n",
        escape(&format!("CPUs over time under {label}")),
        script_json(&data(run, timeline))
    ));
    text.push_str(&tasks(run, timeline));
    Some(text + "</section>\n")
}

/// How long each task ran in the window, the longest first.
fn tasks(run: &RunRecord, timeline: &Timeline) -> String {
    let mut sums: BTreeMap<TaskId, (DurationNs, u64, u64)> = BTreeMap::new();
    for stretch in &timeline.stretches {
        let sum = sums.entry(stretch.task).or_default();
        sum.0 += stretch.to.since(stretch.from);
        sum.1 += 1;
    }
    for wakeup in &timeline.wakeups {
        sums.entry(wakeup.wakee).or_default().2 += 1;
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(task, (time, ..))| (std::cmp::Reverse(*time), *task));
    let more = rows.len().saturating_sub(TASKS);
    let cells = rows.iter().take(TASKS).map(|(task, (time, stretches, wakeups))| {
        let ms = number(time.as_secs_f64() * 1e3);
        vec![name(run, *task), ms, stretches.to_string(), wakeups.to_string()]
    });
    let rows: Vec<Vec<String>> = cells.collect();
    let more = if more > 0 { format!("<p>{more} more tasks.</p>\n") } else { String::new() };
    format!(
        "<details>\n<summary>Tasks in this part</summary>\n{}{more}</details>\n",
        table(&["task", "CPU ms", "times on a CPU", "wakeups"], &[1, 2, 3], &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;
    use schedlab_base::{CpuId, TimeNs};
    use schedlab_trace::{Event, EventKind, Sink, TimelineSink, Window};

    fn hostile() -> RunRecord {
        let mut run = run("o1", 1, 1.0);
        run.tasks[0].name = "</script><!--<b>\"&".into();
        let mut sink = TimelineSink::new(Window::ALL);
        let at = |time, kind| Event { time: TimeNs(time), cpu: CpuId(0), kind };
        let (first, forked) = (TaskId(0), TaskId(7));
        let switch = |next| EventKind::SchedSwitch { prev: None, prev_state: TaskState::Blocked, next };
        sink.event(&at(1000, switch(Some(first))));
        sink.event(&at(2000, EventKind::SchedWakeup { task: forked, cpu: CpuId(1), waker: Some(first) }));
        sink.event(&at(3000, switch(Some(forked))));
        run.timeline = Some(sink.finish(TimeNs(5000)));
        run
    }

    #[test]
    fn the_script_gets_what_happened() {
        let run = hostile();
        let data = data(&run, run.timeline.as_ref().unwrap());
        assert_eq!(data.stretches, [(0, 0, 1000, 3000, "blocks"), (0, 7, 3000, 5000, "goes on")]);
        assert_eq!(data.wakeups, [(2000, 0, 0, 7, 0, 3000)]);
        assert_eq!(data.names[&7], "forked/7");
    }

    #[test]
    fn no_name_ends_the_script() {
        let text = section(&hostile(), "<o1>").unwrap();
        assert_eq!(text.matches("</script>").count(), 1);
        assert!(!text.contains("<!--") && !text.contains("<b>") && !text.contains("<o1>"), "{text}");
        let json = text.split("application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
        let read: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(read["names"]["0"], "</script><!--<b>\"&");
        assert!(section(&run("o1", 1, 1.0), "o1").is_none());
    }
}
