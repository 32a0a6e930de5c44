//! Which ways through their programs a scheduler's callbacks took, for a search that wants runs unlike those it has seen.
//!
//! Two ways through a program that execute different numbers of instructions are different ways. The number is exact in every
//! engine and costs nothing to know, so that no engine needs a map of executed instructions.

use schedlab_base::{CpuId, TaskId, TimeNs};
use schedlab_sim::OpKind;
use std::collections::{BTreeSet, VecDeque};

/// Calls that are kept. Chosen: a screen.
const KEPT: usize = 24;

/// Numbers of instructions up to here count one by one, larger ones by a sixteenth of their power of two. Chosen: the
/// callbacks of shipped schedulers are shorter unless they loop.
const EXACT: u64 = 512;

/// One call of a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it returned.
    pub time: TimeNs,
    /// Where.
    pub cpu: CpuId,
    /// The task that had the CPU; nothing for the idle task.
    pub current: Option<TaskId>,
    /// The member of `struct sched_ext_ops`.
    pub name: &'static str,
    /// Instructions that it executed.
    pub insns: u64,
}

/// What was seen of the callbacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    seen: BTreeSet<(OpKind, u64)>,
    last: VecDeque<(OpKind, Call)>,
}

impl Paths {
    /// Takes a call that has returned.
    pub(crate) fn take(&mut self, op: OpKind, call: Call) {
        let insns = call.insns;
        let coarse = match insns.checked_ilog2() {
            Some(power) if insns >= EXACT => insns >> (power - 4) << (power - 4),
            _ => insns,
        };
        self.seen.insert((op, coarse));
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back((op, call));
    }

    /// The ways that were taken, a number each.
    pub(crate) fn seen(&self) -> Vec<u64> {
        self.seen.iter().map(|(op, insns)| (*op as u64) << 56 | insns).collect()
    }

    /// The last calls, the oldest first, with their names.
    pub(crate) fn last(&self, name: impl Fn(OpKind) -> &'static str) -> Vec<Call> {
        self.last.iter().map(|(op, call)| Call { name: name(*op), ..call.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ways_are_told_apart_roughly_and_the_last_calls_kept() {
        let mut paths = Paths::default();
        for insns in [5, 6, 5, 1000, 1001, 1100] {
            let call = Call { time: TimeNs(insns), cpu: CpuId(0), current: None, name: "", insns };
            paths.take(OpKind::Enqueue, call);
        }
        assert_eq!(paths.seen().len(), 4);
        for _ in 0..KEPT {
            let call = Call { time: TimeNs(9), cpu: CpuId(1), current: None, name: "", insns: 7 };
            paths.take(OpKind::Tick, call);
        }
        let last = paths.last(|_| "tick");
        assert_eq!((last.len(), last[0].name, last[0].insns), (KEPT, "tick", 7));
    }
}
