//! Waits from a run's events. The rule of priority inversion is the one of the observer in
//! `schedulers/tools/waits`, which sees the same on a real kernel.

use super::{ConfidenceFrom, Mechanism, Party, WaitEntry, WaitPair, Waits, pairs};
use crate::event::{Event, EventKind, Sink, TaskState};
use crate::record::Counter;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use std::collections::{BTreeMap, VecDeque};

/// Delays kept of a task and changes of priority kept of a CPU, as in the observer.
const DELAYS: usize = 32;
const RUNS: usize = 256;

/// Entries of the table, as in the observer; further ones are counted only.
const ENTRIES: usize = 16_384;

/// The priority of an idle CPU: no task's is better.
const IDLE: i32 = i32::MIN;

/// A span in which a task was runnable without running, and where it ran then.
#[derive(Clone, Copy, Debug)]
struct Delay {
    begin: TimeNs,
    end: TimeNs,
    cpu: CpuId,
}

/// The recent past from which inversions are computed: when tasks were runnable without running,
/// and tasks of which priority each CPU ran. Memory does not grow with time.
#[derive(Clone, Debug, Default)]
pub struct Inversion {
    delays: Vec<VecDeque<Delay>>,
    runs: Vec<VecDeque<(TimeNs, i32)>>,
}

impl Inversion {
    /// From `now` on a CPU runs tasks of this priority; none: it is idle.
    pub fn runs(&mut self, cpu: CpuId, prio: Option<i32>, now: TimeNs) {
        if self.runs.len() <= cpu.index() {
            self.runs.resize_with(cpu.index() + 1, VecDeque::new);
        }
        let (runs, prio) = (&mut self.runs[cpu.index()], prio.unwrap_or(IDLE));
        if runs.back().is_some_and(|last| last.1 == prio) {
            return;
        }
        if runs.len() == RUNS {
            runs.pop_front();
        }
        runs.push_back((now, prio));
    }

    /// A task that was runnable since `begin` gets to run on a CPU.
    pub fn delayed(&mut self, task: TaskId, begin: TimeNs, end: TimeNs, cpu: CpuId) {
        if self.delays.len() <= task.index() {
            self.delays.resize_with(task.index() + 1, VecDeque::new);
        }
        let delays = &mut self.delays[task.index()];
        if delays.len() == DELAYS {
            delays.pop_front();
        }
        delays.push_back(Delay { begin, end, cpu });
    }

    /// The part of a wait since `begin` in which its provider was runnable without running.
    /// Meanwhile the CPU that it waited for ran a task with a lower priority than the requester's.
    pub fn of_wait(&self, provider: TaskId, requester_prio: i32, begin: TimeNs) -> DurationNs {
        let mut sum = DurationNs::ZERO;
        let delays = self.delays.get(provider.index());
        for delay in delays.into_iter().flatten().rev().take_while(|delay| delay.end > begin) {
            let (from, mut until) = (delay.begin.max(begin), delay.end);
            let runs = self.runs.get(delay.cpu.index());
            for &(since, prio) in runs.into_iter().flatten().rev() {
                if since >= until {
                    continue;
                }
                let start = since.max(from);
                if prio > requester_prio {
                    sum += until.since(start);
                }
                until = start;
                if start == from {
                    break;
                }
            }
        }
        sum
    }
}

/// What is kept of a task.
#[derive(Clone, Debug, Default)]
struct Seen {
    party: Party,
    /// The call that it is in, if tasks wait in such calls, and on what.
    call: Option<(Mechanism, u64)>,
    blocked_since: Option<TimeNs>,
    ready_since: Option<TimeNs>,
}

/// Requester, provider, mechanism, object and resource.
type Key = (u32, u32, Mechanism, Option<Mechanism>, u64);

/// Explains the waits of a run from its events; for runs that emit those for sinks that asked.
#[derive(Clone, Debug, Default)]
pub struct Explainer {
    tasks: Vec<Seen>,
    past: Inversion,
    table: BTreeMap<Key, WaitPair>,
    first_thread: i32,
    waits: u64,
    interrupts: u64,
    refused: u64,
}

impl Explainer {
    /// For a run that starts with these tasks. Those that are forked take the name of their
    /// parents, and task `n` has the thread id `first_thread + n`.
    pub fn new(parties: Vec<Party>, first_thread: i32) -> Explainer {
        let tasks = parties.into_iter().map(|party| Seen { party, ..Seen::default() }).collect();
        Explainer { tasks, first_thread, ..Explainer::default() }
    }

    /// What was seen in a run of this length.
    pub fn finish(self, span: DurationNs) -> Waits {
        let counter = |name: &str, value, meaning: &str| Counter {
            name: name.to_string(),
            value,
            meaning: meaning.to_string(),
        };
        let counters = vec![
            counter("nr_waits", self.waits, "waits that a task ended"),
            counter("nr_interrupts", self.interrupts, "waits that an interrupt ended"),
            counter("nr_refused", self.refused, "waits not in the table, which is full"),
        ];
        let entry = |(key, pair): (Key, WaitPair)| WaitEntry { pair, resource: key.4 };
        Waits { span, pairs: pairs(self.table.into_iter().map(entry).collect()), counters }
    }

    fn task(&mut self, task: TaskId) -> &mut Seen {
        if self.tasks.len() <= task.index() {
            self.tasks.resize_with(task.index() + 1, Seen::default);
        }
        &mut self.tasks[task.index()]
    }

    fn forked(&mut self, parent: Option<TaskId>, child: TaskId) {
        let name = parent.map(|parent| self.task(parent).party.name.clone());
        let thread = self.first_thread + child.0.cast_signed();
        let party = &mut self.task(child).party;
        if let (true, Some(name)) = (party.thread == 0, name) {
            *party = Party { name, thread, process: thread, prio: party.prio };
        }
    }

    fn switched(&mut self, event: &Event, prev: Option<TaskId>, state: TaskState, next: Option<TaskId>) {
        let (now, cpu) = (event.time, event.cpu);
        let prio = next.map(|next| self.task(next).party.prio);
        self.past.runs(cpu, prio, now);
        if let Some(prev) = prev {
            let seen = self.task(prev);
            match state {
                TaskState::Runnable => seen.ready_since = Some(now),
                TaskState::Blocked => seen.blocked_since = Some(now),
                TaskState::BlockedIo | TaskState::Exited => {}
            }
        }
        if let Some(next) = next {
            let seen = self.task(next);
            seen.blocked_since = None;
            if let Some(since) = seen.ready_since.take() {
                self.past.delayed(next, since, now, cpu);
            }
        }
    }

    fn woken(&mut self, task: TaskId, waker: Option<TaskId>, now: TimeNs) {
        let seen = self.task(task);
        seen.ready_since = Some(now);
        let Some(since) = seen.blocked_since.take() else { return };
        let Some((mechanism, resource)) = seen.call else { return };
        let requester = seen.party.clone();
        let Some(waker) = waker else {
            self.interrupts += 1;
            return;
        };
        let provider = self.task(waker);
        let call = provider.call.map(|call| call.0);
        let party = provider.party.clone();
        let object = call.filter(|_| mechanism.is_poll());
        let (time, inversion) = (now.since(since), self.past.of_wait(waker, requester.prio, since));
        // The end of a child is a resource of its own.
        let resource = if mechanism == Mechanism::Child { u64::from(waker.0) } else { resource };
        let key = (task.0, waker.0, mechanism, object, resource);
        self.waits += 1;
        if self.table.len() == ENTRIES && !self.table.contains_key(&key) {
            self.refused += 1;
            return;
        }
        let pair = self.table.entry(key).or_insert_with(|| WaitPair {
            requester: Party::default(),
            provider: Party::default(),
            mechanism,
            object,
            waits: 0,
            time: DurationNs::ZERO,
            longest: DurationNs::ZERO,
            inversion: DurationNs::ZERO,
            confidence: 0,
            confidence_from: ConfidenceFrom::Counts,
        });
        (pair.requester, pair.provider) = (requester, party);
        pair.waits += 1;
        pair.time += time;
        pair.longest = pair.longest.max(time);
        pair.inversion += inversion;
    }
}

impl Sink for Explainer {
    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::SchedSwitch { prev, prev_state, next } => self.switched(event, prev, prev_state, next),
            EventKind::SchedWakeup { task, waker, .. } => self.woken(task, waker, event.time),
            EventKind::Fork { parent, child } => self.forked(parent, child),
            EventKind::Call { task, call } => self.task(task).call = call,
            EventKind::Priority { task, prio } => self.task(task).party.prio = prio,
            EventKind::SchedMigrate { .. }
            | EventKind::Exit { .. }
            | EventKind::Schedule { .. }
            | EventKind::DsqInsert { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client of priority 100, a server of 120, and a hog of 120, on one CPU.
    struct Played(Explainer);

    impl Played {
        fn new() -> Played {
            let party = |n: i32| Party { name: format!("t{n}"), thread: 10 + n, ..Party::default() };
            let mut played = Played(Explainer::new((0..3).map(party).collect(), 10));
            for (task, prio) in [(0, 100), (1, 120), (2, 120)] {
                played.at(0, EventKind::Priority { task: TaskId(task), prio });
            }
            played
        }

        fn at(&mut self, time: u64, kind: EventKind) {
            self.0.event(&Event { time: TimeNs(time), cpu: CpuId(0), kind });
        }

        fn switch(&mut self, time: u64, prev: u32, state: TaskState, next: Option<u32>) {
            let (prev, next) = (Some(TaskId(prev)), next.map(TaskId));
            self.at(time, EventKind::SchedSwitch { prev, prev_state: state, next });
        }

        fn wake(&mut self, time: u64, task: u32, waker: Option<u32>) {
            let kind = EventKind::SchedWakeup { task: TaskId(task), cpu: CpuId(0), waker: waker.map(TaskId) };
            self.at(time, kind);
        }

        fn call(&mut self, time: u64, task: u32, mechanism: Mechanism) {
            self.at(time, EventKind::Call { task: TaskId(task), call: Some((mechanism, 3)) });
        }
    }

    use TaskState::{Blocked, Runnable};

    #[test]
    fn a_wait_is_explained_with_its_inversion() {
        let mut played = Played::new();
        // The server is preempted by the client at 5, which waits from 10 on. The hog runs 10..40 and
        // 50..70 while the server could, and once more while the server sleeps.
        played.switch(5, 1, Runnable, Some(0));
        played.call(8, 0, Mechanism::Pipe);
        played.switch(10, 0, Blocked, Some(2));
        played.switch(40, 2, Runnable, Some(1));
        played.switch(50, 1, Runnable, Some(2));
        played.switch(70, 2, Runnable, Some(1));
        played.switch(80, 1, Blocked, Some(2));
        played.wake(90, 1, None);
        played.switch(90, 2, Runnable, Some(1));
        played.wake(95, 0, Some(1));
        let waits = played.0.finish(DurationNs(100));
        let [pair] = &waits.pairs[..] else { panic!("{waits:?}") };
        assert_eq!((pair.requester.thread, pair.provider.thread), (10, 11));
        assert_eq!((pair.mechanism, pair.object, pair.waits), (Mechanism::Pipe, None, 1));
        assert_eq!((pair.time, pair.inversion), (DurationNs(85), DurationNs(50)));
        assert_eq!(pair.confidence, super::super::CONFIDENCE_DEFAULT);
        assert_eq!(waits.counters[1].value, 0, "the server's own sleep was in no call that counts");
    }

    #[test]
    fn a_better_task_in_between_is_no_inversion() {
        let mut played = Played::new();
        played.at(0, EventKind::Priority { task: TaskId(2), prio: 98 });
        played.switch(5, 1, Runnable, Some(0));
        played.call(8, 0, Mechanism::Futex);
        played.switch(10, 0, Blocked, Some(2));
        played.switch(40, 2, Runnable, None);
        played.switch(45, 2, Runnable, Some(1));
        played.wake(50, 0, Some(1));
        let waits = played.0.finish(DurationNs(100));
        assert_eq!(
            waits.pairs[0].inversion,
            DurationNs::ZERO,
            "neither a better task nor an idle CPU is worse"
        );
    }

    #[test]
    fn interrupts_provide_nothing_and_polls_tell_the_object() {
        let mut played = Played::new();
        played.call(8, 0, Mechanism::Epoll);
        played.switch(10, 0, Blocked, Some(1));
        played.wake(20, 0, None);
        played.switch(20, 1, Runnable, Some(0));
        played.switch(30, 0, Blocked, Some(1));
        played.call(35, 1, Mechanism::Tcp);
        played.wake(40, 0, Some(1));
        let waits = played.0.finish(DurationNs(100));
        assert_eq!(waits.pairs.len(), 1);
        assert_eq!((waits.pairs[0].waits, waits.pairs[0].object), (1, Some(Mechanism::Tcp)));
        assert_eq!(waits.counters.iter().map(|c| c.value).collect::<Vec<_>>(), [1, 1, 0]);
    }
}
