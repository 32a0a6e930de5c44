//! What happened in a case, for people: which task waited from when, what the CPUs did meanwhile, the last callbacks.

use super::case::Case;
use super::judge::judge_with;
use super::property::Property;
use super::search::Find;
use crate::scheduler::Scheduler;
use schedlab_base::{DurationNs, TaskId, TimeNs, counted};
use schedlab_sim::SharedSink;
use schedlab_trace::{Event, EventKind, RunRecord, Sink, WaitScope, WorstWait};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;

/// The text about a find.
pub fn story(find: &Find, new: &Scheduler, old: Option<&Scheduler>) -> String {
    let Find { case, trouble, runs, from, .. } = find;
    let mut text = String::new();
    let property = trouble.property.as_ref().map_or("defect of schedlab", Property::name);
    let _ = writeln!(text, "{property} under {}: {}\n", new.name, trouble.words);
    if let Some(old) = old {
        let _ = writeln!(text, "Under {} the same case does not show it.\n", old.name);
    }
    load(&mut text, case);
    let _ = writeln!(
        text,
        "Found in case {runs}, with {} on {}, and made smaller.\n",
        counted(from.0, "task"),
        counted(from.1, "CPU")
    );
    let Some(record) = &find.outcome.record else { return text };
    exit(&mut text, record);
    let window = worst(find, record);
    if let Some(wait) = &window {
        waited(&mut text, wait);
    }
    tasks(&mut text, record);
    let span = window.map_or((TimeNs::ZERO, TimeNs::ZERO + record.duration), |wait| {
        let since = TimeNs::ZERO + wait.since;
        (since, since + wait.length)
    });
    cpus(&mut text, new, case, span);
    calls(&mut text, find);
    text
}

/// What ran where.
fn load(text: &mut String, case: &Case) {
    let (tasks, cpus) = (case.scenario.tasks.len(), case.machine.cpu_count());
    let _ = write!(
        text,
        "The case: {} on {}, {} Hz, {:.3} s, seed {}",
        counted(tasks, "task"),
        counted(cpus, "CPU"),
        case.machine.hz,
        case.length().as_secs_f64(),
        case.seed
    );
    for (what, at) in [("attached", case.presence.attach), ("detached", case.presence.detach)] {
        if let Some(at) = at {
            let _ = write!(text, ", {what} at {:.6} s", at.as_secs_f64());
        }
    }
    if let Some(seed) = case.interleave {
        let _ = write!(text, ", callbacks paused in the middle by seed {seed}");
    }
    for (name, value) in &case.settings {
        let _ = write!(text, ", {name}={value}");
    }
    text.push_str(".\n");
}

fn exit(text: &mut String, record: &RunRecord) {
    let exit = &record.exit;
    if exit.kind.is_ejection() {
        let at = exit.after.map_or(0.0, DurationNs::as_secs_f64);
        let _ =
            writeln!(text, "Ejected at {at:.6} s: {}: {}: {}\n", exit.kind.name(), exit.reason, exit.message);
    }
}

/// The wait that the find is about: that of its warning, or the longest of the run.
fn worst(find: &Find, record: &RunRecord) -> Option<WorstWait> {
    let own = record.warnings.iter().find(|warning| warning.kind.name() == find.trouble.kind);
    let longest = || {
        let single = record.task_waits.iter().filter(|one| one.scope == WaitScope::Task);
        single
            .filter_map(|one| one.run_delay.as_ref())
            .map(|figures| &figures.worst)
            .max_by_key(|wait| wait.length)
    };
    if find.trouble.property == Some(Property::Starved) {
        return longest().cloned();
    }
    own.and_then(|warning| warning.worst.clone()).or_else(|| longest().cloned())
}

fn waited(text: &mut String, wait: &WorstWait) {
    let seconds = |time: DurationNs| format!("{:.6} s", time.as_secs_f64());
    let _ = writeln!(
        text,
        "Task {} waited from {} for {} at CPU {}{}.\n",
        wait.task,
        seconds(wait.since),
        seconds(wait.length),
        wait.cpu,
        wait.behind_text(seconds)
    );
}

/// What each task got, and how long it waited.
fn tasks(text: &mut String, record: &RunRecord) {
    let _ = writeln!(text, "task                  nice    CPU time   switches   longest wait");
    for task in &record.tasks {
        let own = record.task_waits.iter().find(|one| one.scope == WaitScope::Task && one.name == task.name);
        let wait = own.and_then(|one| one.run_delay.as_ref()).map(|figures| figures.worst.length);
        let _ = writeln!(
            text,
            "{:<20} {:>5} {:>9.6} s {:>10} {:>12.6} s",
            task.name,
            task.nice,
            task.cpu_time.as_secs_f64(),
            task.switches,
            wait.unwrap_or(DurationNs::ZERO).as_secs_f64()
        );
    }
}

/// What the CPUs did from one time to another.
#[derive(Debug)]
struct Occupied {
    span: (TimeNs, TimeNs),
    now: Vec<(Option<TaskId>, TimeNs)>,
    had: Vec<BTreeMap<Option<TaskId>, u64>>,
}

impl Occupied {
    fn switch(&mut self, cpu: usize, next: Option<TaskId>, time: TimeNs) {
        let (task, since) = std::mem::replace(&mut self.now[cpu], (next, time));
        let (from, to) = (since.max(self.span.0), time.min(self.span.1));
        if to > from {
            *self.had[cpu].entry(task).or_default() += to.since(from).0;
        }
    }
}

impl Sink for Occupied {
    fn event(&mut self, event: &Event) {
        if let EventKind::SchedSwitch { next, .. } = event.kind {
            self.switch(event.cpu.index(), next, event.time);
        }
    }
}

/// Runs the case once more, and writes down what the CPUs did in a span.
fn cpus(text: &mut String, new: &Scheduler, case: &Case, span: (TimeNs, TimeNs)) {
    let count = case.machine.cpu_count();
    let had = vec![BTreeMap::new(); count];
    let occupied = Rc::new(RefCell::new(Occupied { span, now: vec![(None, TimeNs::ZERO); count], had }));
    let sink: SharedSink = occupied.clone();
    let outcome = judge_with(new, case, vec![sink]);
    let end = outcome.record.map_or(span.1, |record| TimeNs::ZERO + record.duration);
    let mut occupied = occupied.borrow_mut();
    let seconds = |time: u64| time as f64 / 1e9;
    let _ = writeln!(text, "\nFrom {:.6} s to {:.6} s:", seconds(span.0.0), seconds(span.1.0));
    for cpu in 0..count {
        occupied.switch(cpu, None, end);
        let mut parts: Vec<(Option<TaskId>, u64)> =
            occupied.had[cpu].iter().map(|(task, ns)| (*task, *ns)).collect();
        parts.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let name = |task: Option<TaskId>| match task {
            None => "idle".to_string(),
            Some(task) => {
                let spec = case.scenario.tasks.get(task.index());
                spec.map_or_else(|| task.to_string(), |spec| spec.name.clone())
            }
        };
        let parts: Vec<String> = parts
            .into_iter()
            .take(8)
            .map(|(task, time)| format!("{} {:.6} s", name(task), seconds(time)))
            .collect();
        let _ = writeln!(
            text,
            "CPU {cpu}: {}",
            if parts.is_empty() { "nothing".into() } else { parts.join(", ") }
        );
    }
}

/// The last callbacks of the run.
fn calls(text: &mut String, find: &Find) {
    if find.outcome.last_calls.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nThe last callbacks:");
    for call in &find.outcome.last_calls {
        let tasks = &find.case.scenario.tasks;
        let current = call.current.map_or_else(
            || "idle".to_string(),
            |task| tasks.get(task.index()).map_or_else(|| task.to_string(), |spec| spec.name.clone()),
        );
        let _ = writeln!(
            text,
            "{:>12.6} s  CPU {}  {:<14} {:>6} instructions, while {current} had the CPU",
            call.time.0 as f64 / 1e9,
            call.cpu.0,
            call.name,
            call.insns
        );
    }
}
