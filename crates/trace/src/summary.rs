//! The streaming summary of a run: what the common metrics are made of.

use crate::distribution::{Distribution, latencies, percentile_metrics};
use crate::event::{Event, EventKind, Sink, TaskState};
use crate::histogram::{Histogram, bucket};
use crate::latency::{LongWait, Stretches, TaskWaits};
use crate::task_summary::{NEVER, NOWHERE, TaskSummary};
use schedlab_base::{Better, CpuId, DurationNs, Metric, TaskId, TimeNs};
use std::collections::BTreeMap;
use std::ops::Range;

/// A living task that another one has forked.
#[derive(Clone, Debug)]
struct Child {
    summary: TaskSummary,
    waits: TaskWaits,
    /// The task of the start that it descends from.
    origin: TaskId,
}

/// Waits and idle spans from these lengths on are shown to a caller that asks
/// ([`Summary::take_look`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The CPU that has switched.
    pub cpu: CpuId,
    /// The tasks that waited for long and run now, with the beginning of their wait.
    pub waited: Option<(TaskId, TimeNs)>,
    /// Since when the CPU had been idle, where that is long.
    pub idle_since: Option<TimeNs>,
}

/// Consumes events, keeps a few words per CPU and per task of the start. Tasks that others fork are added up when they are
/// gone, so that memory does not grow with time. Latencies are recorded when the task gets to run, or at the end.
#[derive(Clone, Debug)]
pub struct Summary {
    tasks: Vec<TaskSummary>,
    /// The waits of the tasks of the start.
    waits: Vec<TaskWaits>,
    /// Living tasks that were forked by others.
    children: BTreeMap<TaskId, Child>,
    forked: Option<TaskSummary>,
    /// The waits of forked tasks that are gone, by the task of the start that they descend from.
    forked_waits: BTreeMap<TaskId, TaskWaits>,
    /// The tasks that ran on each CPU of late.
    stretches: Vec<Stretches>,
    idle_since: Vec<TimeNs>,
    look: Option<Look>,
    /// The length from which a wait or an idle span is worth a look.
    long: DurationNs,
    begin: TimeNs,
    busy_since: Vec<Option<TimeNs>>,
    /// The kernel's own tasks, which do not count.
    foreign: Range<u32>,
    /// Where there are such: what each CPU runs or last ran of the workload; nothing when it was idle since.
    own: Vec<Option<TaskId>>,
    /// How long each CPU was busy, without the time since it is.
    busy: Vec<DurationNs>,
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
            waits: Vec::new(),
            children: BTreeMap::new(),
            forked: None,
            forked_waits: BTreeMap::new(),
            stretches: vec![Stretches::default(); cpus],
            idle_since: vec![TimeNs::ZERO; cpus],
            look: None,
            long: DurationNs(u64::MAX),
            begin: TimeNs::ZERO,
            busy_since: vec![None; cpus],
            foreign: 0..0,
            own: vec![None; cpus],
            busy: vec![DurationNs::ZERO; cpus],
            waited: DurationNs::ZERO,
            wakeup_latency: Histogram::default(),
            run_delay: Histogram::default(),
            context_switches: 0,
            migrations: 0,
            wakeups: 0,
            end: TimeNs::ZERO,
        }
    }

    /// The tasks with these ids are not of the workload: they are passed over, as a real kernel's own are.
    pub fn pass_over(&mut self, foreign: Range<u32>) {
        self.foreign = foreign;
    }

    /// The task, if it is of the workload.
    #[inline]
    fn own(&self, task: Option<TaskId>) -> Option<TaskId> {
        task.filter(|task| !self.foreign.contains(&task.0))
    }

    /// Counts a switch of a CPU by what it runs of the workload: a task that goes on after a foreign one was not switched.
    #[inline(never)]
    fn count_own(&mut self, cpu: usize, next: Option<TaskId>) {
        if next.is_none() || self.own(next).is_some() {
            self.context_switches += u64::from(self.own[cpu] != next);
            self.own[cpu] = next;
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

    /// The waits of the tasks that were there at the start, by [`TaskId`]. Complete after [`Summary::finish`].
    pub fn waits(&self) -> &[TaskWaits] {
        &self.waits
    }

    /// The waits of forked tasks by the task of the start that they descend from. Complete after [`Summary::finish`].
    pub fn forked_waits(&self) -> impl Iterator<Item = (TaskId, &TaskWaits)> {
        self.forked_waits.iter().map(|(origin, waits)| (*origin, waits))
    }

    /// Waits and idle spans of this length are worth a look from now on.
    pub fn look_from(&mut self, long: DurationNs) {
        self.long = long;
    }

    /// What the last switch has ended after a long time.
    #[inline]
    pub fn take_look(&mut self) -> Option<Look> {
        self.look.take()
    }

    /// How long each CPU has been busy by `now`.
    pub fn busy(&self, now: TimeNs) -> impl Iterator<Item = DurationNs> {
        let present = move |since: &Option<TimeNs>| since.map_or(DurationNs::ZERO, |since| now.since(since));
        self.busy.iter().zip(&self.busy_since).map(move |(busy, since)| *busy + present(since))
    }

    /// Since when each CPU is idle; busy ones are left out.
    pub fn idle_cpus(&self) -> impl Iterator<Item = (CpuId, TimeNs)> {
        let idle = self.busy_since.iter().zip(&self.idle_since).enumerate();
        idle.filter(|(_, (busy, _))| busy.is_none()).map(|(cpu, (_, since))| (CpuId(cpu as u32), *since))
    }

    /// The CPU, if it is idle, is that since `now` alone: it was offline before.
    pub fn idle_from(&mut self, cpu: CpuId, now: TimeNs) {
        self.idle_since[cpu.index()] = now;
    }

    /// The tasks that wait for a CPU, with the beginning of the wait.
    pub fn waiting(&self) -> impl Iterator<Item = (TaskId, TimeNs)> {
        let first = self.tasks.iter().enumerate().map(|(at, task)| (TaskId(at as u32), task.waiting_since));
        let children = self.children.iter().map(|(id, child)| (*id, child.summary.waiting_since));
        first.chain(children).filter(|(_, since)| *since != NEVER)
    }

    /// Closes the run at `end`. Tasks that still run are charged up to it. Waits that it cuts short count with
    /// their length so far, or a task that starves to the end would be in no histogram.
    pub fn finish(&mut self, end: TimeNs) {
        self.end = end;
        let ids: Vec<TaskId> =
            (0..self.tasks.len()).map(|at| TaskId(at as u32)).chain(self.children.keys().copied()).collect();
        for &id in &ids {
            let task = self.task(id);
            if let Some(since) = task.stop(end) {
                let cpu = task.last_cpu;
                self.stretches[cpu.index()].ran(id, since, end);
            }
        }
        for id in ids {
            let task = self.task(id);
            let since = std::mem::replace(&mut task.waiting_since, NEVER);
            let (woken, cpu) = (task.woken, task.queued_on);
            // A wait that begins with the end says nothing.
            if since < end {
                self.task(id).run_delay += end.since(since);
                self.waited_for(id, cpu, since, end, woken);
            }
        }
        for (id, child) in std::mem::take(&mut self.children) {
            self.add_forked(id, &child);
        }
        for (since, busy) in self.busy_since.iter_mut().zip(&mut self.busy) {
            if let Some(since) = since.take() {
                *busy += end.since(since);
            }
        }
    }

    /// The summary of the run from here on, which goes on as it is: waits and stretches begin now. Nothing of what it
    /// has counted stays.
    #[must_use]
    pub fn restart(&self, now: TimeNs) -> Summary {
        let mut next = Summary::new(self.busy_since.len());
        next.tasks = self.tasks.iter().map(|task| task.again(now)).collect();
        next.waits = vec![TaskWaits::default(); self.tasks.len()];
        next.children = self
            .children
            .iter()
            .map(|(id, child)| {
                let summary = child.summary.again(now);
                (*id, Child { summary, waits: TaskWaits::default(), origin: child.origin })
            })
            .collect();
        next.busy_since = self.busy_since.iter().map(|since| since.map(|since| since.max(now))).collect();
        next.idle_since = self.idle_since.iter().map(|since| (*since).max(now)).collect();
        (next.begin, next.end, next.long) = (now, now, self.long);
        (next.foreign, next.own) = (self.foreign.clone(), self.own.clone());
        next
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
        let capacity = self.end.since(self.begin).0 as f64 * self.busy_since.len() as f64;
        if capacity > 0.0 {
            let busy: u64 = self.busy.iter().map(|busy| busy.0).sum();
            let fraction = busy as f64 / capacity;
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
            return &mut self.children.get_mut(&task).expect("just found").summary;
        }
        self.tasks.resize(task.index() + 1, TaskSummary::default());
        self.waits.resize(task.index() + 1, TaskWaits::default());
        &mut self.tasks[task.index()]
    }

    /// The waits of a task that [`Summary::task`] knows.
    #[inline]
    fn waits_of(&mut self, task: TaskId) -> &mut TaskWaits {
        if task.index() < self.waits.len() {
            return &mut self.waits[task.index()];
        }
        &mut self.children.get_mut(&task).expect("a task that does something is known").waits
    }

    /// The task of the start that a task descends from; itself if it is one, or is not known any more.
    fn origin(&self, task: TaskId) -> TaskId {
        self.children.get(&task).map_or(task, |child| child.origin)
    }

    /// A task is gone.
    #[inline(never)]
    fn forget(&mut self, task: TaskId) {
        if let Some(child) = self.children.remove(&task) {
            self.add_forked(task, &child);
        }
    }

    fn add_forked(&mut self, task: TaskId, child: &Child) {
        debug_assert!(task.index() >= self.tasks.len(), "a child is not of the start");
        self.forked.get_or_insert_default().add(&child.summary);
        self.forked_waits.entry(child.origin).or_default().merge(&child.waits);
    }

    fn stop(&mut self, id: TaskId, cpu: CpuId, time: TimeNs, state: TaskState) {
        let task = self.task(id);
        let ran = task.stop(time);
        if state == TaskState::Runnable {
            task.waiting_since = time;
            task.woken = false;
            task.queued_on = cpu;
        }
        if let Some(since) = ran {
            self.stretches[cpu.index()].ran(id, since, time);
        }
    }

    fn start(&mut self, id: TaskId, cpu: CpuId, time: TimeNs) {
        let task = self.task(id);
        let since = std::mem::replace(&mut task.waiting_since, NEVER);
        let woken = std::mem::take(&mut task.woken);
        let migrated = task.last_cpu != NOWHERE && task.last_cpu != cpu;
        task.running_since = time;
        task.last_cpu = cpu;
        task.switches += 1;
        task.migrations += u64::from(migrated);
        if since != NEVER {
            let waited = time.since(since);
            task.run_delay += waited;
            self.waited_for(id, cpu, since, time, woken);
            if waited >= self.long {
                self.look = Some(Look { cpu, waited: Some((id, since)), idle_since: None });
            }
        }
        self.migrations += u64::from(migrated);
    }

    /// A wait is over, or cut short by the end.
    #[inline(always)]
    fn waited_for(&mut self, id: TaskId, cpu: CpuId, since: TimeNs, until: TimeNs, woken: bool) {
        let waited = until.since(since);
        self.waited += waited;
        let bucket = bucket(waited.0);
        self.run_delay.record_in(bucket, waited);
        if woken {
            self.wakeup_latency.record_in(bucket, waited);
        }
        let waits = self.waits_of(id);
        waits.count(bucket, waited, woken);
        if waits.is_longest(waited, woken) {
            self.keep_longest((id, cpu), since, until, woken);
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_longest(&mut self, (task, cpu): (TaskId, CpuId), since: TimeNs, until: TimeNs, woken: bool) {
        let ran = self.stretches.get(cpu.index()).map(|ran| ran.within(since, until)).unwrap_or_default();
        let behind = ran.map(|one| one.map(|(other, time)| (other, self.origin(other), time)));
        let (origin, length) = (self.origin(task), until.since(since));
        self.waits_of(task).keep(LongWait { task, origin, since, length, cpu, behind }, woken);
    }

    fn switch(&mut self, event: &Event, prev: Option<TaskId>, state: TaskState, next: Option<TaskId>) {
        let cpu = event.cpu.index();
        if let Some(prev) = self.own(prev) {
            self.stop(prev, event.cpu, event.time, state);
        }
        if let (Some(prev), TaskState::Exited) = (self.own(prev), state) {
            self.forget(prev);
        }
        if let Some(next) = self.own(next) {
            self.start(next, event.cpu, event.time);
        }
        match (self.busy_since[cpu], next) {
            (Some(since), None) => {
                self.busy[cpu] += event.time.since(since);
                self.busy_since[cpu] = None;
                self.idle_since[cpu] = event.time;
            }
            (None, Some(_)) => {
                self.busy_since[cpu] = Some(event.time);
                let since = self.idle_since[cpu];
                if event.time.since(since) >= self.long {
                    let waited = self.look.and_then(|look| look.waited);
                    self.look = Some(Look { cpu: event.cpu, waited, idle_since: Some(since) });
                }
            }
            _ => {}
        }
        if self.foreign.is_empty() {
            self.context_switches += u64::from(prev != next);
        } else {
            self.count_own(cpu, next);
        }
    }
}

impl Sink for Summary {
    #[inline(always)]
    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::SchedSwitch { prev, prev_state, next } => self.switch(event, prev, prev_state, next),
            EventKind::SchedWakeup { task, cpu, .. } if self.own(Some(task)).is_some() => {
                self.wakeups += 1;
                let task = self.task(task);
                task.waiting_since = event.time;
                task.queued_on = cpu;
                task.woken = true;
            }
            EventKind::Fork { parent: None, child } if self.own(Some(child)).is_some() => {
                self.task(child);
            }
            EventKind::Fork { parent: Some(parent), child } => {
                let (summary, waits) = Default::default();
                self.children.insert(child, Child { summary, waits, origin: self.origin(parent) });
            }
            EventKind::SchedMigrate { task, to, .. } if self.own(Some(task)).is_some() => {
                self.task(task).queued_on = to;
            }
            EventKind::SchedWakeup { .. }
            | EventKind::Fork { .. }
            | EventKind::SchedMigrate { .. }
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
    use crate::latency::WaitKind;

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
    fn the_kernels_own_tasks_are_passed_over() {
        let mut summary = Summary::new(1);
        summary.pass_over(1..2);
        let mut at = |time, kind| summary.event(&Event { time: TimeNs(time), cpu: CpuId(0), kind });
        let switch = |prev, next| EventKind::SchedSwitch { prev, prev_state: TaskState::Runnable, next };
        let [own, foreign, other] = [0, 1, 2].map(|id| Some(TaskId(id)));
        at(0, EventKind::SchedWakeup { task: TaskId(1), cpu: CpuId(0), waker: None });
        at(0, switch(None, own));
        at(10, switch(own, foreign));
        at(14, switch(foreign, own));
        at(20, switch(own, foreign));
        at(25, switch(foreign, other));
        at(30, switch(other, None));
        at(40, switch(None, foreign));
        at(50, switch(foreign, None));
        summary.finish(TimeNs(60));
        assert_eq!((summary.context_switches, summary.wakeups), (3, 0));
        assert_eq!(summary.tasks()[0].cpu_time, DurationNs(16));
        assert_eq!((summary.tasks()[0].switches, summary.tasks()[0].run_delay), (2, DurationNs(4 + 40)));
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

    #[test]
    fn a_maximum_names_task_time_cpu_and_who_ran() {
        let mut summary = Summary::new(2);
        let mut at = |time, cpu, kind| summary.event(&Event { time: TimeNs(time), cpu: CpuId(cpu), kind });
        let (hog, late) = (Some(TaskId(0)), Some(TaskId(1)));
        let runnable = TaskState::Runnable;
        for task in 0..3 {
            at(0, 0, EventKind::Fork { parent: None, child: TaskId(task) });
            at(5, 0, EventKind::SchedWakeup { task: TaskId(task), cpu: CpuId(1), waker: None });
        }
        at(10, 1, EventKind::SchedSwitch { prev: None, prev_state: runnable, next: hog });
        at(70, 1, EventKind::SchedSwitch { prev: hog, prev_state: runnable, next: late });
        summary.finish(TimeNs(100));
        let waited = summary.waits()[1].longest(WaitKind::WakeupLatency).unwrap();
        assert_eq!((waited.since, waited.length, waited.cpu), (TimeNs(5), DurationNs(65), CpuId(1)));
        assert_eq!(waited.behind[0], Some((TaskId(0), TaskId(0), DurationNs(60))));
        // A task that never ran waited where it was put, behind both.
        let starved = summary.waits()[2].longest(WaitKind::RunDelay).unwrap();
        assert_eq!((starved.since, starved.length, starved.cpu), (TimeNs(5), DurationNs(95), CpuId(1)));
        let behind = starved.behind.map(|one| one.map(|(task, _, time)| (task.0, time.0)));
        assert_eq!(behind, [Some((0, 60)), Some((1, 30)), None]);
    }

    #[test]
    fn a_split_run_counts_each_part_alone() {
        let mut summary = Summary::new(1);
        let event = |time, kind| Event { time: TimeNs(time), cpu: CpuId(0), kind };
        let (a, b) = (Some(TaskId(0)), Some(TaskId(1)));
        summary.event(&event(0, EventKind::SchedWakeup { task: TaskId(0), cpu: CpuId(0), waker: None }));
        summary.event(&event(0, EventKind::SchedWakeup { task: TaskId(1), cpu: CpuId(0), waker: None }));
        summary.event(&event(
            10,
            EventKind::SchedSwitch { prev: None, prev_state: TaskState::Runnable, next: a },
        ));
        let mut after = summary.restart(TimeNs(50));
        summary.finish(TimeNs(50));
        after.event(&event(80, EventKind::SchedSwitch { prev: a, prev_state: TaskState::Exited, next: b }));
        after.finish(TimeNs(90));
        assert_eq!(
            (summary.tasks()[0].cpu_time, summary.tasks()[1].run_delay),
            (DurationNs(40), DurationNs(50))
        );
        assert_eq!((after.tasks()[0].cpu_time, after.tasks()[1].run_delay), (DurationNs(30), DurationNs(30)));
        let busy = after.metrics().iter().find(|m| m.name == "cpu_busy_fraction").unwrap().value;
        assert!((busy - 1.0).abs() < 1e-9, "{busy}");
    }

    #[test]
    fn long_waits_and_idle_spans_are_shown() {
        let mut summary = Summary::new(2);
        summary.look_from(DurationNs(50));
        let event = |time, cpu, kind| Event { time: TimeNs(time), cpu: CpuId(cpu), kind };
        summary.event(&event(0, 0, EventKind::SchedWakeup { task: TaskId(0), cpu: CpuId(0), waker: None }));
        let next = Some(TaskId(0));
        summary.event(&event(
            60,
            1,
            EventKind::SchedSwitch { prev: None, prev_state: TaskState::Runnable, next },
        ));
        let look = summary.take_look().unwrap();
        assert_eq!(
            (look.cpu, look.waited, look.idle_since),
            (CpuId(1), Some((TaskId(0), TimeNs(0))), Some(TimeNs(0)))
        );
        assert_eq!(summary.idle_cpus().collect::<Vec<_>>(), [(CpuId(0), TimeNs(0))]);
        assert_eq!(summary.take_look(), None);
    }
}
