//! Events as numbers: what a run's hash and a record file are made of.

use crate::event::{EventKind, TaskState};
use crate::waits::Mechanism;
use schedlab_base::{CpuId, DsqId, TaskId, TimeNs};

/// The number that stands for the idle task.
const IDLE: u32 = u32::MAX;

fn task_word(task: Option<TaskId>) -> u64 {
    task.map_or(u64::from(IDLE), |task| u64::from(task.0))
}

/// The lower half of a word.
fn low(word: u64) -> u32 {
    (word & u64::from(u32::MAX)) as u32
}

/// The upper half of a word.
fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

fn task(number: u32) -> Option<TaskId> {
    (number != IDLE).then_some(TaskId(number))
}

impl TaskState {
    const ALL: [TaskState; 4] =
        [TaskState::Runnable, TaskState::Blocked, TaskState::BlockedIo, TaskState::Exited];
}

impl EventKind {
    /// A tag below 256 and two words, which tell any two different events apart.
    #[inline]
    pub fn words(&self) -> (u64, u64, u64) {
        match *self {
            EventKind::Fork { parent, child } => (1, task_word(parent), u64::from(child.0)),
            EventKind::SchedWakeup { task, cpu, waker } => {
                (2, u64::from(task.0) << 32 | u64::from(cpu.0), task_word(waker))
            }
            EventKind::SchedSwitch { prev, prev_state, next } => {
                (3, task_word(prev) << 32 | task_word(next), prev_state as u64)
            }
            EventKind::SchedMigrate { task, from, to } => {
                (4, u64::from(task.0), u64::from(from.0) << 32 | u64::from(to.0))
            }
            EventKind::Exit { task } => (5, u64::from(task.0), 0),
            EventKind::Schedule { begin, next, mark } => (6, begin.0, task_word(next) << 1 | u64::from(mark)),
            EventKind::DsqInsert { task, dsq } => (7, u64::from(task.0), dsq.0),
            EventKind::Call { task, call } => {
                let (kind, resource) =
                    call.map_or((0, 0), |(mechanism, resource)| (mechanism as u64 + 1, resource));
                (8, u64::from(task.0) << 32 | kind, resource)
            }
            EventKind::Priority { task, prio } => (9, u64::from(task.0), u64::from(prio.cast_unsigned())),
        }
    }

    /// The event that has these words; none has others.
    pub fn from_words(tag: u64, a: u64, b: u64) -> Option<EventKind> {
        let kind = match tag {
            1 => EventKind::Fork { parent: task(low(a)), child: TaskId(low(b)) },
            2 => EventKind::SchedWakeup { task: TaskId(high(a)), cpu: CpuId(low(a)), waker: task(low(b)) },
            3 => {
                let prev_state = *TaskState::ALL.get(usize::try_from(b).ok()?)?;
                EventKind::SchedSwitch { prev: task(high(a)), prev_state, next: task(low(a)) }
            }
            4 => EventKind::SchedMigrate { task: TaskId(low(a)), from: CpuId(high(b)), to: CpuId(low(b)) },
            5 => EventKind::Exit { task: TaskId(low(a)) },
            6 => EventKind::Schedule { begin: TimeNs(a), next: task(low(b >> 1)), mark: b & 1 == 1 },
            7 => EventKind::DsqInsert { task: TaskId(low(a)), dsq: DsqId(b) },
            8 => {
                let kind = low(a).checked_sub(1).map(|kind| Mechanism::all().nth(kind as usize));
                let call = kind.map(|kind| kind.map(|kind| (kind, b)));
                EventKind::Call {
                    task: TaskId(high(a)),
                    call: call.map_or(Some(None), |call| call.map(Some))?,
                }
            }
            9 => EventKind::Priority { task: TaskId(low(a)), prio: low(b).cast_signed() },
            _ => return None,
        };
        (kind.words() == (tag, a, b)).then_some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_read_from_its_words() {
        let (one, two) = (TaskId(1), TaskId(2));
        let mut kinds = vec![
            EventKind::Fork { parent: None, child: one },
            EventKind::Fork { parent: Some(two), child: one },
            EventKind::SchedWakeup { task: one, cpu: CpuId(7), waker: Some(two) },
            EventKind::SchedMigrate { task: one, from: CpuId(3), to: CpuId(4) },
            EventKind::Exit { task: two },
            EventKind::Schedule { begin: TimeNs(1 << 40), next: None, mark: true },
            EventKind::Schedule { begin: TimeNs(9), next: Some(two), mark: false },
            EventKind::DsqInsert { task: one, dsq: DsqId(1 << 63 | 1) },
            EventKind::Call { task: one, call: None },
            EventKind::Priority { task: one, prio: -1 },
        ];
        kinds.extend(Mechanism::all().map(|kind| EventKind::Call { task: one, call: Some((kind, 5)) }));
        kinds.extend(TaskState::ALL.map(|prev_state| EventKind::SchedSwitch {
            prev: Some(one),
            prev_state,
            next: None,
        }));
        for kind in kinds {
            let (tag, a, b) = kind.words();
            assert_eq!(EventKind::from_words(tag, a, b), Some(kind));
        }
    }

    #[test]
    fn other_words_are_no_event() {
        let wrong =
            [(0, 0, 0), (10, 0, 0), (3, 0, 4), (5, 1, 1), (5, 1 << 32, 0), (8, 18, 0), (9, 0, 1 << 40)];
        for (tag, a, b) in wrong {
            assert_eq!(EventKind::from_words(tag, a, b), None, "{tag} {a} {b}");
        }
    }
}
