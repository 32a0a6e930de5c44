//! The streaming summary of a run: what the common metrics are made of.

use crate::event::{Event, EventKind, Sink, TaskState};
use crate::histogram::Histogram;
use schedlab_base::{Better, CpuId, DurationNs, Metric, TaskId, TimeNs};

/// What is known of one task so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskSummary {
    /// CPU time, context switches into the task and changes of CPU.
    pub cpu_time: DurationNs,
    /// Times it was switched to.
    pub switches: u64,
    /// Times it ran on another CPU than the time before.
    pub migrations: u64,
    /// Runnable but not running, in total.
    pub run_delay: DurationNs,
    last_cpu: Option<CpuId>,
    /// When it became runnable without running.
    waiting_since: Option<TimeNs>,
    /// Whether it waits because of a wakeup (and not of a preemption).
    woken: bool,
    running_since: Option<TimeNs>,
}

/// Consumes events, keeps a few words per task and per CPU; memory does not grow
/// with time. Latencies are recorded when the task gets to run.
#[derive(Clone, Debug)]
pub struct Summary {
    tasks: Vec<TaskSummary>,
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

    /// The tasks by [`TaskId`].
    pub fn tasks(&self) -> &[TaskSummary] {
        &self.tasks
    }

    /// Closes the run at `end`: tasks that still run are charged up to it.
    pub fn finish(&mut self, end: TimeNs) {
        self.end = end;
        for task in &mut self.tasks {
            if let Some(since) = task.running_since.take() {
                task.cpu_time += end.since(since);
            }
            // A wait that has no end yet is in no histogram, but the task was in a run queue.
            if let Some(since) = task.waiting_since {
                self.waited += end.since(since);
            }
        }
        for since in &mut self.busy_since {
            if let Some(since) = since.take() {
                self.busy += end.since(since);
            }
        }
    }

    /// The metrics that every run has. Call after [`Summary::finish`].
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = vec![
            Metric::new("context_switches", self.context_switches as f64, "1", Better::Neither),
            Metric::new("migrations", self.migrations as f64, "1", Better::Neither),
        ];
        for (name, histogram) in
            [("wakeup_latency_ns", &self.wakeup_latency), ("run_delay_ns", &self.run_delay)]
        {
            for (suffix, permille) in [("p50", 500), ("p95", 950), ("p99", 990), ("max", 1000)] {
                let Some(value) = histogram.quantile(permille) else { continue };
                metrics.push(Metric::new(&format!("{name}_{suffix}"), value.0 as f64, "ns", Better::Lower));
            }
        }
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

    fn task(&mut self, task: TaskId) -> &mut TaskSummary {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, TaskSummary::default());
        }
        &mut self.tasks[task.index()]
    }

    fn stop(&mut self, task: TaskId, time: TimeNs, state: TaskState) {
        let task = self.task(task);
        if let Some(since) = task.running_since.take() {
            task.cpu_time += time.since(since);
        }
        if state == TaskState::Runnable {
            task.waiting_since = Some(time);
            task.woken = false;
        }
    }

    fn start(&mut self, id: TaskId, cpu: CpuId, time: TimeNs) {
        let task = self.task(id);
        let waited = task.waiting_since.take().map(|since| time.since(since));
        let woken = std::mem::take(&mut task.woken);
        let migrated = task.last_cpu.is_some_and(|last| last != cpu);
        task.running_since = Some(time);
        task.last_cpu = Some(cpu);
        task.switches += 1;
        task.migrations += u64::from(migrated);
        if let Some(waited) = waited {
            task.run_delay += waited;
            self.waited += waited;
            self.run_delay.record(waited);
            if woken {
                self.wakeup_latency.record(waited);
            }
        }
        self.migrations += u64::from(migrated);
    }

    fn switch(&mut self, event: &Event, prev: Option<TaskId>, state: TaskState, next: Option<TaskId>) {
        let cpu = event.cpu.index();
        if let Some(prev) = prev {
            self.stop(prev, event.time, state);
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
    #[inline]
    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::SchedSwitch { prev, prev_state, next } => self.switch(event, prev, prev_state, next),
            EventKind::SchedWakeup { task, .. } => {
                self.wakeups += 1;
                let task = self.task(task);
                task.waiting_since = Some(event.time);
                task.woken = true;
            }
            EventKind::Fork { child, .. } => {
                self.task(child);
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
}
