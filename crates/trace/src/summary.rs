//! The streaming summary of a run: what the common metrics are made of.

use crate::distribution::{Distribution, latencies, percentile_metrics};
use crate::event::{Event, EventKind, Sink, TaskState};
use crate::histogram::{Histogram, bucket};
use schedlab_base::{Better, CpuId, DurationNs, Metric, TaskId, TimeNs};
use std::collections::BTreeMap;

/// What is known of one task so far.
///
/// A cache line: with thousands of tasks the host waits for memory more than for anything else.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct TaskSummary {
    /// CPU time, context switches into the task and changes of CPU.
    pub cpu_time: DurationNs,
    /// Times it was switched to.
    pub switches: u64,
    /// Times it ran on another CPU than the time before.
    pub migrations: u64,
    /// Runnable but not running, in total.
    pub run_delay: DurationNs,
    /// The CPU that it ran on last, or [`NOWHERE`].
    last_cpu: CpuId,
    /// Whether it waits because of a wakeup (and not of a preemption).
    woken: bool,
    /// When it became runnable without running, or [`NEVER`].
    waiting_since: TimeNs,
    /// Since when it runs, or [`NEVER`].
    running_since: TimeNs,
}

/// No CPU, and no time.
const NOWHERE: CpuId = CpuId(u32::MAX);
const NEVER: TimeNs = TimeNs::MAX;

impl Default for TaskSummary {
    fn default() -> TaskSummary {
        TaskSummary {
            cpu_time: DurationNs::ZERO,
            switches: 0,
            migrations: 0,
            run_delay: DurationNs::ZERO,
            last_cpu: NOWHERE,
            woken: false,
            waiting_since: NEVER,
            running_since: NEVER,
        }
    }
}

impl TaskSummary {
    /// It stops running, if it does.
    fn stop(&mut self, time: TimeNs) {
        let since = std::mem::replace(&mut self.running_since, NEVER);
        if since != NEVER {
            self.cpu_time += time.since(since);
        }
    }
}

/// Consumes events, keeps a few words per CPU and per task of the start; tasks that others fork are added up when
/// they are gone, so that memory does not grow with time. Latencies are recorded when the task gets to run, or at the end.
#[derive(Clone, Debug)]
pub struct Summary {
    tasks: Vec<TaskSummary>,
    /// Living tasks that were forked by others.
    children: BTreeMap<TaskId, TaskSummary>,
    forked: Option<TaskSummary>,
    busy_since: Vec<Option<TimeNs>>,
    busy: DurationNs,
    /// The waits of all tasks together.
    waited: DurationNs,
    /// From wakeup to running.
    pub wakeup_latency: Histogram,
    /// Every wait of a runnable task for a CPU.
    pub run_delay: Histogram,
    /// Switches that changed the running task, idle included.
    pub context_switches: u64,
    /// Sum of the tasks' migrations.
    pub migrations: u64,
    /// Number of wakeups.
    pub wakeups: u64,
    end: TimeNs,
}

impl Summary {
    /// An empty summary of a machine with `cpus` CPUs.
    pub fn new(cpus: usize) -> Summary {
        Summary {
            tasks: Vec::new(),
            children: BTreeMap::new(),
            forked: None,
            busy_since: vec![None; cpus],
            busy: DurationNs::ZERO,
            waited: DurationNs::ZERO,
            wakeup_latency: Histogram::default(),
            run_delay: Histogram::default(),
            context_switches: 0,
            migrations: 0,
            wakeups: 0,
            end: TimeNs::ZERO,
        }
    }

    /// The tasks that were there at the start, by [`TaskId`].
    pub fn tasks(&self) -> &[TaskSummary] {
        &self.tasks
    }

    /// All others together, if there were any. Complete after [`Summary::finish`].
    pub fn forked(&self) -> Option<&TaskSummary> {
        self.forked.as_ref()
    }

    /// Closes the run at `end`: tasks that still run are charged up to it, and waits that it cuts short count with
    /// their length so far, or who starves to the end would be in no histogram.
    pub fn finish(&mut self, end: TimeNs) {
        self.end = end;
        for task in self.tasks.iter_mut().chain(self.children.values_mut()) {
            task.stop(end);
            let since = std::mem::replace(&mut task.waiting_since, NEVER);
            // A wait that begins with the end says nothing.
            if since < end {
                let waited = end.since(since);
                task.run_delay += waited;
                self.waited += waited;
                self.run_delay.record(waited);
                if task.woken {
                    self.wakeup_latency.record(waited);
                }
            }
        }
        for (_, child) in std::mem::take(&mut self.children) {
            self.add_forked(&child);
        }
        for since in &mut self.busy_since {
            if let Some(since) = since.take() {
                self.busy += end.since(since);
            }
        }
    }

    /// The distributions of the run's latencies by name.
    pub fn latencies(&self) -> Vec<(String, Distribution)> {
        latencies(&self.wakeup_latency, &self.run_delay)
    }

    /// The metrics that every run has. Call after [`Summary::finish`].
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = vec![
            Metric::new("context_switches", self.context_switches as f64, "1", Better::Neither),
            Metric::new("migrations", self.migrations as f64, "1", Better::Neither),
        ];
        metrics.extend(percentile_metrics(&self.latencies()));
        let capacity = self.end.0 as f64 * self.busy_since.len() as f64;
        if capacity > 0.0 {
            let fraction = self.busy.0 as f64 / capacity;
            metrics.push(Metric::new("cpu_busy_fraction", fraction, "1", Better::Neither));
            // Tasks that wait, averaged over time and CPUs.
            let length = self.waited.0 as f64 / capacity;
            metrics.push(Metric::new("run_queue_length_mean", length, "1", Better::Neither));
        }
        metrics
    }

    #[inline]
    fn task(&mut self, task: TaskId) -> &mut TaskSummary {
        if task.index() < self.tasks.len() { &mut self.tasks[task.index()] } else { self.other_task(task) }
    }

    #[inline(never)]
    fn other_task(&mut self, task: TaskId) -> &mut TaskSummary {
        if self.children.contains_key(&task) {
            return self.children.get_mut(&task).expect("just found");
        }
        self.tasks.resize(task.index() + 1, TaskSummary::default());
        &mut self.tasks[task.index()]
    }

    /// A task is gone.
    #[inline(never)]
    fn forget(&mut self, task: TaskId) {
        if let Some(child) = self.children.remove(&task) {
            self.add_forked(&child);
        }
    }

    fn add_forked(&mut self, child: &TaskSummary) {
        let sum = self.forked.get_or_insert_default();
        sum.cpu_time += child.cpu_time;
        sum.switches += child.switches;
        sum.migrations += child.migrations;
        sum.run_delay += child.run_delay;
    }

    fn stop(&mut self, task: TaskId, time: TimeNs, state: TaskState) {
        let task = self.task(task);
        task.stop(time);
        if state == TaskState::Runnable {
            task.waiting_since = time;
            task.woken = false;
        }
    }

    fn start(&mut self, id: TaskId, cpu: CpuId, time: TimeNs) {
        let task = self.task(id);
        let since = std::mem::replace(&mut task.waiting_since, NEVER);
        let waited = (since != NEVER).then(|| time.since(since));
        let woken = std::mem::take(&mut task.woken);
        let migrated = task.last_cpu != NOWHERE && task.last_cpu != cpu;
        task.running_since = time;
        task.last_cpu = cpu;
        task.switches += 1;
        task.migrations += u64::from(migrated);
        if let Some(waited) = waited {
            task.run_delay += waited;
            self.waited += waited;
            let bucket = bucket(waited.0);
            self.run_delay.record_in(bucket, waited);
            if woken {
                self.wakeup_latency.record_in(bucket, waited);
            }
        }
        self.migrations += u64::from(migrated);
    }

    fn switch(&mut self, event: &Event, prev: Option<TaskId>, state: TaskState, next: Option<TaskId>) {
        let cpu = event.cpu.index();
        if let Some(prev) = prev {
            self.stop(prev, event.time, state);
        }
        if let (Some(prev), TaskState::Exited) = (prev, state) {
            self.forget(prev);
        }
        if let Some(next) = next {
            self.start(next, event.cpu, event.time);
        }
        match (self.busy_since[cpu], next) {
            (Some(since), None) => {
                self.busy += event.time.since(since);
                self.busy_since[cpu] = None;
            }
            (None, Some(_)) => self.busy_since[cpu] = Some(event.time),
            _ => {}
        }
        self.context_switches += u64::from(prev != next);
    }
}

impl Sink for Summary {
    #[inline(always)]
    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::SchedSwitch { prev, prev_state, next } => self.switch(event, prev, prev_state, next),
            EventKind::SchedWakeup { task, .. } => {
                self.wakeups += 1;
                let task = self.task(task);
                task.waiting_since = event.time;
                task.woken = true;
            }
            EventKind::Fork { parent: None, child } => {
                self.task(child);
            }
            EventKind::Fork { parent: Some(_), child } => {
                self.children.insert(child, TaskSummary::default());
            }
            EventKind::SchedMigrate { .. }
            | EventKind::Exit { .. }
            | EventKind::Schedule { .. }
            | EventKind::Call { .. }
            | EventKind::Priority { .. }
            | EventKind::DsqInsert { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wakeup_and_one_preemption() {
        let mut summary = Summary::new(1);
        let mut at = |time, kind| summary.event(&Event { time: TimeNs(time), cpu: CpuId(0), kind });
        let (a, b) = (Some(TaskId(0)), Some(TaskId(1)));
        at(0, EventKind::SchedWakeup { task: TaskId(0), cpu: CpuId(0), waker: None });
        at(5, EventKind::SchedSwitch { prev: None, prev_state: TaskState::Runnable, next: a });
        at(10, EventKind::SchedWakeup { task: TaskId(1), cpu: CpuId(0), waker: a });
        at(25, EventKind::SchedSwitch { prev: a, prev_state: TaskState::Runnable, next: b });
        at(30, EventKind::SchedSwitch { prev: b, prev_state: TaskState::Exited, next: a });
        summary.finish(TimeNs(40));
        assert_eq!(summary.tasks()[0].cpu_time, DurationNs(30));
        assert_eq!(summary.tasks()[1].cpu_time, DurationNs(5));
        assert_eq!(summary.tasks()[0].run_delay, DurationNs(10));
        assert_eq!(summary.wakeup_latency.max(), DurationNs(15));
        assert_eq!(summary.context_switches, 3);
        let busy = summary.metrics().iter().find(|m| m.name == "cpu_busy_fraction").unwrap().value;
        assert!((busy - 35.0 / 40.0).abs() < 1e-9);
        // Task 0 waited 5 ns, then 5 ns; task 1 15 ns.
        let length = summary.metrics().iter().find(|m| m.name == "run_queue_length_mean").unwrap().value;
        assert!((length - 25.0 / 40.0).abs() < 1e-9);
    }

    #[test]
    fn waits_that_the_end_cuts_short_count_so_far() {
        let mut summary = Summary::new(1);
        let mut at = |time, kind| summary.event(&Event { time: TimeNs(time), cpu: CpuId(0), kind });
        let (hog, late) = (Some(TaskId(0)), Some(TaskId(2)));
        for task in 0..3 {
            at(0, EventKind::SchedWakeup { task: TaskId(task), cpu: CpuId(0), waker: None });
        }
        at(0, EventKind::SchedSwitch { prev: None, prev_state: TaskState::Runnable, next: hog });
        at(90, EventKind::SchedSwitch { prev: hog, prev_state: TaskState::Runnable, next: late });
        at(100, EventKind::SchedSwitch { prev: late, prev_state: TaskState::Runnable, next: None });
        summary.finish(TimeNs(100));
        // Task 1 never ran; task 0 waits since it was preempted, task 2 since the end.
        assert_eq!(summary.tasks()[1].run_delay, DurationNs(100));
        assert_eq!((summary.run_delay.max(), summary.run_delay.distribution().count()), (DurationNs(100), 4));
        assert_eq!(
            (summary.wakeup_latency.max(), summary.wakeup_latency.distribution().count()),
            (DurationNs(100), 3)
        );
    }

    #[test]
    fn children_are_added_up_and_forgotten() {
        let mut summary = Summary::new(1);
        let parent = Some(TaskId(0));
        let mut at = |time, kind| summary.event(&Event { time: TimeNs(time), cpu: CpuId(0), kind });
        at(0, EventKind::Fork { parent: None, child: TaskId(0) });
        at(0, EventKind::SchedSwitch { prev: None, prev_state: TaskState::Runnable, next: parent });
        for number in 1..=3 {
            let (begin, child) = (u64::from(number) * 100, TaskId(number));
            at(begin, EventKind::Fork { parent, child });
            at(
                begin,
                EventKind::SchedSwitch { prev: parent, prev_state: TaskState::Runnable, next: Some(child) },
            );
            // The last one is still running at the end.
            if number < 3 {
                let prev_state = TaskState::Exited;
                at(begin + 30, EventKind::SchedSwitch { prev: Some(child), prev_state, next: parent });
            }
        }
        assert_eq!((summary.tasks().len(), summary.children.len()), (1, 1));
        summary.finish(TimeNs(310));
        assert_eq!(summary.tasks()[0].cpu_time, DurationNs(100 + 70 + 70));
        let forked = summary.forked().expect("there were some");
        assert_eq!((forked.cpu_time, forked.switches), (DurationNs(30 + 30 + 10), 3));
    }
}
