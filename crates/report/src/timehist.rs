//! The history of switches as text, in the form of `perf sched timehist`. It has a line for each stretch of a
//! task, or of idleness, on a CPU, written when the stretch ends.
//!
//! The figures are those of perf 7.3.4 (`timehist_update_runtime_stats()`, tools/perf/builtin-sched.c). A task that is
//! switched away from while it can run is ready from then on, so that its delay is its wait. The idle task of a CPU counts as
//! such a task. Times are cut to microseconds, not rounded.

use crate::names::visible;
use schedlab_base::{DurationNs, TaskId, TimeNs};
use schedlab_trace::{Event, EventKind, Sink, TaskState};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The head of the text. `perf` has the same columns, with thread and process in the second line.
const HEAD: &str = concat!(
    "           time    cpu  task name                       wait time  sch delay   run time\n",
    "                        [tid]                              (msec)     (msec)     (msec)\n",
    "--------------- ------  ------------------------------  ---------  ---------  ---------\n",
);

/// The task that has a CPU, and since when.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    /// `None` is the idle task.
    task: Option<TaskId>,
    since: TimeNs,
    /// From the task's last switch to this one.
    wait: DurationNs,
    /// From when it was ready to run to this one.
    delay: DurationNs,
}

/// When a task, or a CPU's idle task, was switched away from last, and since when it is ready to run.
#[derive(Clone, Copy, Debug, Default)]
struct Away {
    /// Nothing while it runs, and before it ran.
    left: Option<TimeNs>,
    ready: Option<TimeNs>,
}

impl Away {
    /// The task is switched away from.
    fn leaves(&mut self, time: TimeNs, runnable: bool) {
        *self = Away { left: Some(time), ready: runnable.then_some(time) };
    }

    /// The task is switched to: how long it was away, and how long of that it was ready.
    fn returns(&mut self, time: TimeNs) -> (DurationNs, DurationNs) {
        let until = |from: Option<TimeNs>| from.map_or(DurationNs::ZERO, |from| time.since(from));
        let Away { left, ready } = std::mem::take(self);
        (until(left), until(ready))
    }
}

/// A task that lives.
#[derive(Clone, Debug, Default)]
struct Known {
    name: String,
    away: Away,
}

/// Takes a run's events and writes the history as they come. Memory grows with the numbers of CPUs and of living tasks
/// alone. A task without a name is called `task`. A write error stops the output, and [`TimehistSink::finish`] returns it.
#[derive(Debug)]
pub struct TimehistSink<W: Write> {
    out: W,
    cpus: Vec<Stretch>,
    /// The idle tasks by CPU.
    idle: Vec<Away>,
    tasks: BTreeMap<TaskId, Known>,
    /// The thread id of task 0; another one's is as many more as its number says.
    first_pid: i32,
    failed: Option<io::Error>,
}

impl<W: Write> TimehistSink<W> {
    /// Starts the history of a machine with `cpus` CPUs, which are idle at time 0. Task 0 has the thread id `first_pid`,
    /// the next one the next.
    pub fn new(out: W, cpus: usize, first_pid: i32) -> TimehistSink<W> {
        let (cpus, idle) = (vec![Stretch::default(); cpus], vec![Away::default(); cpus]);
        let mut sink = TimehistSink { out, cpus, idle, tasks: BTreeMap::new(), first_pid, failed: None };
        sink.write(HEAD);
        sink
    }

    /// Ends the stretches that are open at `end`, flushes, and gives the writer back.
    ///
    /// # Errors
    /// The first write error of the whole text.
    pub fn finish(mut self, end: TimeNs) -> io::Result<W> {
        for cpu in 0..self.cpus.len() {
            self.line(end, cpu);
        }
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn write(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(text.as_bytes()).err();
        }
    }

    /// The line of a stretch that ends; none where it took no time.
    fn line(&mut self, time: TimeNs, cpu: usize) {
        let Stretch { task, since, wait, delay } = self.cpus[cpu];
        let ran = time.since(since);
        if ran == DurationNs::ZERO {
            return;
        }
        let label = task.map_or_else(|| "<idle>".to_string(), |task| self.label(task));
        let (seconds, micros) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000 / 1_000);
        let [wait, delay, ran] = [wait, delay, ran].map(milliseconds);
        self.write(&format!(
            "{seconds:>8}.{micros:06} [{cpu:04}]  {label:<30}  {wait:>9}  {delay:>9}  {ran:>9}\n"
        ));
    }

    fn label(&self, task: TaskId) -> String {
        let name = self.tasks.get(&task).map_or("", |known| known.name.as_str());
        let pid = i64::from(self.first_pid) + i64::from(task.0);
        format!("{}[{pid}]", if name.is_empty() { "task" } else { name })
    }

    fn switch(&mut self, event: &Event, prev: Option<TaskId>, state: TaskState, next: Option<TaskId>) {
        let (time, cpu) = (event.time, event.cpu.index());
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, Stretch::default());
            self.idle.resize(cpu + 1, Away::default());
        }
        if prev == next {
            return;
        }
        // A real kernel's task may have the CPU already when the history begins.
        self.cpus[cpu].task = prev;
        self.line(time, cpu);
        match prev {
            Some(prev) if state == TaskState::Exited => {
                self.tasks.remove(&prev);
            }
            Some(prev) => {
                let away = &mut self.tasks.entry(prev).or_default().away;
                away.leaves(time, state == TaskState::Runnable);
            }
            None => self.idle[cpu].leaves(time, true),
        }
        let (wait, delay) = match next {
            Some(next) => self.tasks.entry(next).or_default().away.returns(time),
            None => self.idle[cpu].returns(time),
        };
        self.cpus[cpu] = Stretch { task: next, since: time, wait, delay };
    }
}

/// `1.234`: milliseconds with three decimals, cut off behind them.
fn milliseconds(time: DurationNs) -> String {
    let micros = time.0 / 1_000;
    format!("{}.{:03}", micros / 1_000, micros % 1_000)
}

impl<W: Write> Sink for TimehistSink<W> {
    /// What cannot be seen in a name is replaced.
    fn named(&mut self, task: TaskId, name: &str) {
        let known = self.tasks.entry(task).or_default();
        if known.name != name {
            known.name = visible(name).into_owned();
        }
    }

    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::SchedSwitch { prev, prev_state, next } => self.switch(event, prev, prev_state, next),
            EventKind::SchedWakeup { task, .. } => {
                // One that was preempted is ready since then.
                self.tasks.entry(task).or_default().away.ready.get_or_insert(event.time);
            }
            // A child has its parent's name, as in the kernel.
            EventKind::Fork { parent: Some(parent), child } => {
                let name = self.tasks.get(&parent).map(|known| known.name.clone()).unwrap_or_default();
                self.tasks.entry(child).or_default().name = name;
            }
            EventKind::Fork { parent: None, .. }
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
    use schedlab_base::CpuId;

    fn lines(events: &[(u64, u32, EventKind)], end: u64) -> Vec<String> {
        let mut sink = TimehistSink::new(Vec::new(), 1, 1001);
        sink.named(TaskId(0), "hog/0");
        for &(time, cpu, kind) in events {
            sink.event(&Event { time: TimeNs(time), cpu: CpuId(cpu), kind });
        }
        let text = String::from_utf8(sink.finish(TimeNs(end)).unwrap()).unwrap();
        let told = text.strip_prefix(HEAD).expect("the head comes first");
        assert!(text.lines().all(|line| line.len() == HEAD.lines().last().unwrap().len()), "{text}");
        told.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    fn switch(prev: Option<u32>, prev_state: TaskState, next: Option<u32>) -> EventKind {
        EventKind::SchedSwitch { prev: prev.map(TaskId), prev_state, next: next.map(TaskId) }
    }

    #[test]
    fn waits_delays_and_stretches_are_those_of_perf() {
        use TaskState::{Blocked, Runnable};
        let wake = |task| EventKind::SchedWakeup { task: TaskId(task), cpu: CpuId(0), waker: None };
        let told = lines(
            &[
                (1_000_000, 0, switch(None, Runnable, Some(0))),
                (2_000_000, 0, EventKind::Fork { parent: Some(TaskId(0)), child: TaskId(1) }),
                (2_000_000, 0, wake(1)),
                (3_500_400, 0, switch(Some(0), Blocked, Some(1))),
                (4_000_000, 0, wake(0)),
                (4_000_600, 0, switch(Some(1), Runnable, Some(0))),
                (4_000_700, 0, switch(Some(0), Runnable, Some(0))),
                (9_000_000, 2, switch(Some(7), Runnable, None)),
            ],
            10_000_000,
        );
        assert_eq!(
            told,
            [
                "0.001000 [0000] <idle> 0.000 0.000 1.000",
                "0.003500 [0000] hog/0[1001] 0.000 0.000 2.500",
                // The child waited from its wakeup on.
                "0.004000 [0000] hog/0[1002] 0.000 1.500 0.500",
                // That CPU was not among those of the start, nor the task.
                "0.009000 [0002] task[1008] 0.000 0.000 9.000",
                // A stretch that is still open is written at the end.
                // Preempted and picked again at once.
                "0.010000 [0000] hog/0[1001] 0.500 0.000 5.999",
                "0.010000 [0001] <idle> 0.000 0.000 10.000",
                "0.010000 [0002] <idle> 0.000 0.000 1.000",
            ]
        );
    }

    #[test]
    fn tasks_that_are_gone_are_forgotten() {
        let mut sink = TimehistSink::new(Vec::new(), 1, 1);
        for number in 1..1000 {
            let (child, time) = (TaskId(number), u64::from(number));
            let mut at = |kind| sink.event(&Event { time: TimeNs(time), cpu: CpuId(0), kind });
            at(EventKind::Fork { parent: Some(TaskId(0)), child });
            at(switch(None, TaskState::Runnable, Some(number)));
            at(switch(Some(number), TaskState::Exited, None));
        }
        assert!(sink.tasks.is_empty(), "{:?}", sink.tasks);
    }

    #[test]
    fn a_full_disk_is_told_at_the_end() {
        let mut room = [0u8; 300];
        let mut sink = TimehistSink::new(&mut room[..], 1, 1);
        sink.event(&Event {
            time: TimeNs(5),
            cpu: CpuId(0),
            kind: switch(None, TaskState::Runnable, Some(0)),
        });
        assert_eq!(sink.finish(TimeNs(9)).unwrap_err().kind(), io::ErrorKind::WriteZero);
    }
}
