//! The checker of the event stream.

use schedlab_base::{CpuId, TaskId, TimeNs};
use schedlab_trace::{Event, EventKind, Sink, TaskState};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unborn,
    Waiting,
    Running(CpuId),
    Blocked,
}

#[derive(Clone, Copy, Debug)]
struct TaskTimes {
    state: State,
    born: TimeNs,
    since: TimeNs,
    /// ns spent waiting, running, blocked.
    spent: [u64; 3],
}

/// Follows every task through the events of a run.
#[derive(Clone, Debug)]
pub(crate) struct StreamChecker {
    cpu_time: Vec<TimeNs>,
    running: Vec<Option<TaskId>>,
    /// Tasks that have not ended.
    tasks: BTreeMap<TaskId, TaskTimes>,
    /// Tasks forked so far.
    forked: u32,
}

impl StreamChecker {
    pub(crate) fn new(cpus: usize) -> StreamChecker {
        StreamChecker {
            cpu_time: vec![TimeNs::ZERO; cpus],
            running: vec![None; cpus],
            tasks: BTreeMap::new(),
            forked: 0,
        }
    }

    fn task(&mut self, id: TaskId) -> &mut TaskTimes {
        assert!(id.0 < self.forked, "{id} was forked before it does anything");
        self.tasks.get_mut(&id).unwrap_or_else(|| panic!("{id} does nothing after its end"))
    }

    fn go(&mut self, id: TaskId, time: TimeNs, to: State) {
        let task = self.task(id);
        // CPUs may be ahead of each other by a path: a task's own time stands still then.
        let time = time.max(task.since);
        let spent = time.since(task.since).0;
        match task.state {
            State::Waiting => task.spent[0] += spent,
            State::Running(_) => task.spent[1] += spent,
            State::Blocked | State::Unborn => task.spent[2] += spent,
        }
        task.since = time;
        task.state = to;
        let life = time.since(task.born).0;
        assert_eq!(task.spent.iter().sum::<u64>(), life, "the state times of {id} sum up to its life");
    }

    fn switch(&mut self, event: &Event, prev: Option<TaskId>, state: TaskState, next: Option<TaskId>) {
        let (cpu, time) = (event.cpu, event.time);
        assert_eq!(self.running[cpu.index()], prev, "who stops on {cpu} was running there at {time}");
        if let Some(prev) = prev {
            assert_eq!(self.task(prev).state, State::Running(cpu), "{prev} was running on {cpu}");
            let to = if state == TaskState::Runnable { State::Waiting } else { State::Blocked };
            self.go(prev, time, to);
            if state == TaskState::Exited {
                self.tasks.remove(&prev);
            }
        }
        if let Some(next) = next {
            assert_eq!(self.task(next).state, State::Waiting, "{next} is runnable when it starts at {time}");
            self.go(next, time, State::Running(cpu));
        }
        self.running[cpu.index()] = next;
    }
}

impl Sink for StreamChecker {
    fn event(&mut self, event: &Event) {
        let last = &mut self.cpu_time[event.cpu.index()];
        assert!(event.time >= *last, "time goes back on {}: {} after {last}", event.cpu, event.time);
        *last = event.time;
        match event.kind {
            EventKind::Fork { child, .. } => {
                assert_eq!(child.0, self.forked, "task ids are dense");
                self.forked += 1;
                let (born, since) = (event.time, event.time);
                self.tasks.insert(child, TaskTimes { state: State::Unborn, born, since, spent: [0; 3] });
            }
            EventKind::SchedWakeup { task, .. } => {
                let state = self.task(task).state;
                assert!(matches!(state, State::Unborn | State::Blocked), "{task} is woken from {state:?}");
                self.go(task, event.time, State::Waiting);
            }
            EventKind::SchedSwitch { prev, prev_state, next } => self.switch(event, prev, prev_state, next),
            EventKind::SchedMigrate { task, from, to } => {
                assert!(from != to, "a migration of {task} changes the CPU");
                let state = self.task(task).state;
                assert!(!matches!(state, State::Running(_)), "{task} does not migrate while it runs");
            }
            EventKind::Exit { task } => {
                let state = self.task(task).state;
                assert!(matches!(state, State::Running(_)), "{task} exits while running, not {state:?}");
            }
            EventKind::DsqInsert { task, .. } => {
                // A task that is gone is in no queue.
                self.task(task);
            }
            EventKind::Schedule { .. } | EventKind::Call { .. } | EventKind::Priority { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(events: &[(u64, u32, EventKind)]) {
        let mut checker = StreamChecker::new(2);
        for &(time, cpu, kind) in events {
            checker.event(&Event { time: TimeNs(time), cpu: CpuId(cpu), kind });
        }
    }

    const A: TaskId = TaskId(0);
    const BORN: EventKind = EventKind::Fork { parent: None, child: A };
    const WOKEN: EventKind = EventKind::SchedWakeup { task: A, cpu: CpuId(0), waker: None };

    fn switch(prev: Option<TaskId>, next: Option<TaskId>) -> EventKind {
        EventKind::SchedSwitch { prev, prev_state: TaskState::Blocked, next }
    }

    #[test]
    fn a_plain_life_passes() {
        let on = switch(None, Some(A));
        let off = switch(Some(A), None);
        follow(&[(0, 0, BORN), (1, 0, WOKEN), (2, 1, on), (9, 1, off), (12, 0, WOKEN), (15, 0, on)]);
    }

    #[test]
    #[should_panic(expected = "runnable when it starts")]
    fn two_cpus_are_one_too_many() {
        let on = switch(None, Some(A));
        follow(&[(0, 0, BORN), (1, 0, WOKEN), (2, 0, on), (3, 1, on)]);
    }

    #[test]
    #[should_panic(expected = "task0 does nothing after its end")]
    fn the_dead_are_not_woken() {
        let end = EventKind::SchedSwitch { prev: Some(A), prev_state: TaskState::Exited, next: None };
        follow(&[(0, 0, BORN), (1, 0, WOKEN), (2, 0, switch(None, Some(A))), (3, 0, end), (4, 0, WOKEN)]);
    }

    #[test]
    #[should_panic(expected = "time goes back")]
    fn time_does_not_go_back() {
        follow(&[(5, 0, BORN), (4, 0, WOKEN)]);
    }

    #[test]
    #[should_panic(expected = "is woken from Running")]
    fn the_running_are_not_woken() {
        follow(&[(0, 0, BORN), (1, 0, WOKEN), (2, 0, switch(None, Some(A))), (3, 0, WOKEN)]);
    }
}
