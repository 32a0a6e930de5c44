//! Callbacks that are paused between two instructions, so that other CPUs continue in the middle of them.

use super::BpfScheduler;
use crate::join::Join;
use schedlab_base::{DurationNs, TimeNs};
use schedlab_bpf::{Fault, FuncId, Paused, Progress};
use schedlab_sim::{Kernel, OpKind};

/// Where one callback is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pause {
    /// The number of the call among those that can be paused, from 0.
    pub call: u64,
    /// Instructions that it executes before.
    pub insns: u64,
    /// How long other CPUs have.
    pub delay: DurationNs,
}

/// Calls whose lengths are kept. Chosen: 4 MiB of them.
pub const CALLS_KEPT: usize = 1 << 20;

/// The pauses of a run, and the callback that is paused now.
#[derive(Debug, Default)]
pub(crate) struct Interleaving {
    /// In order of the calls.
    pauses: Vec<Pause>,
    /// How many of them are behind us.
    taken: usize,
    /// Calls so far that could have been paused.
    calls: u64,
    /// Instructions of each of them, in a run without pauses.
    lengths: Vec<u32>,
    suspended: Option<Suspended>,
}

/// A callback in the middle.
#[derive(Debug)]
struct Suspended {
    paused: Paused,
    func: FuncId,
    op: OpKind,
    begin: TimeNs,
    delay: DurationNs,
    /// The words of its context, which other callbacks overwrite.
    context: Vec<u64>,
}

impl Interleaving {
    /// With these pauses.
    pub(crate) fn new(mut pauses: Vec<Pause>) -> Interleaving {
        pauses.sort_unstable();
        Interleaving { pauses, ..Interleaving::default() }
    }

    /// The pause of the call that begins now, if it has one.
    fn begins(&mut self) -> Option<Pause> {
        let call = self.calls;
        self.calls += 1;
        while self.pauses.get(self.taken).is_some_and(|pause| pause.call < call) {
            self.taken += 1;
        }
        let pause = *self.pauses.get(self.taken)?;
        (pause.call == call && pause.insns > 0).then_some(pause)
    }

    /// A callback has ended after so many instructions.
    fn measure(&mut self, op: OpKind, insns: u64) {
        if self.pauses.is_empty() && can_pause(op) && self.lengths.len() < CALLS_KEPT {
            self.lengths.push(u32::try_from(insns).unwrap_or(u32::MAX));
        }
    }
}

/// Callbacks without a result, which the core makes with a run queue's lock and nothing else.
fn can_pause(op: OpKind) -> bool {
    matches!(
        op,
        OpKind::Enqueue
            | OpKind::Dispatch
            | OpKind::Tick
            | OpKind::Runnable
            | OpKind::Running
            | OpKind::Stopping
            | OpKind::Quiescent
            | OpKind::UpdateIdle
    )
}

impl BpfScheduler {
    /// The pause of the callback that ran last, by its place in the list, and for how long others may continue.
    pub(super) fn pause_now(&self) -> Option<(usize, DurationNs)> {
        let all = self.interleaving.as_ref()?;
        all.suspended.as_ref().map(|suspended| (all.taken, suspended.delay))
    }

    /// The instructions of each call that could be paused, the first [`CALLS_KEPT`] of them, in a run without pauses.
    pub fn calls_to_pause(&self) -> &[u32] {
        self.interleaving.as_ref().map_or(&[], |all| &all.lengths)
    }

    /// Runs a callback of a scheduler that has pauses; 0 after a fault, and where it is paused.
    pub(super) fn enter_interleaved(
        &mut self,
        k: &mut Kernel,
        func: FuncId,
        op: OpKind,
        args: &[u64],
    ) -> u64 {
        let all = self.interleaving.as_mut().expect("the scheduler has pauses");
        // A callback is paused inside of no other.
        let pause = if can_pause(op) && all.suspended.is_none() { all.begins() } else { None };
        let begin = k.ctx().now;
        let until = pause.map_or(u64::MAX, |pause| pause.insns);
        let mut join = Join { k, state: &mut self.state, charged: 0, owed: DurationNs::ZERO, op };
        let (code, mem) = (&self.image.code, &mut self.mem);
        let outcome = self.reference.begin(code, (func, args), mem, &mut join, (self.budget, until));
        let (charged, owed) = (join.charged, join.owed);
        let delay = pause.map_or(DurationNs::ZERO, |pause| pause.delay);
        self.progressed(k, (func, op, begin, delay), outcome, (charged, owed))
    }

    /// What follows when a callback has ended, or is paused.
    fn progressed(
        &mut self,
        k: &mut Kernel,
        (func, op, begin, delay): (FuncId, OpKind, TimeNs, DurationNs),
        mut outcome: Result<Progress, Fault>,
        (mut charged, mut owed): (u64, DurationNs),
    ) -> u64 {
        let done = loop {
            let paused = match outcome {
                Ok(Progress::Paused(paused)) => *paused,
                Ok(Progress::Done(done)) => break Ok(done),
                Err(fault) => break Err(fault),
            };
            k.charge_call(paused.insns() - charged, owed);
            if !self.state.left_open() {
                let context = self.guest.context_words(&mut self.mem);
                let suspended = Suspended { paused, func, op, begin, delay, context };
                self.interleaving.as_mut().expect("the scheduler has pauses").suspended = Some(suspended);
                k.callback_paused();
                return 0;
            }
            // An iterator or a lock is no place to pause at: on to where it is closed.
            let next = paused.insns() + 1;
            (outcome, (charged, owed)) = self.advance(k, paused, op, next);
        };
        if let (Ok(done), Some(all)) = (&done, &mut self.interleaving) {
            all.measure(op, done.insns);
        }
        self.ended(k, (func, op, begin), done, (charged, owed))
    }

    /// Continues the paused callback.
    pub(super) fn resume_paused(&mut self, k: &mut Kernel) {
        let suspended = self.interleaving.as_mut().and_then(|all| all.suspended.take());
        let Suspended { paused, func, op, begin, delay, context } = suspended.expect("a callback is paused");
        self.guest.set_context_words(&context);
        let (outcome, due) = self.advance(k, paused, op, u64::MAX);
        self.progressed(k, (func, op, begin, delay), outcome, due);
    }

    /// Executes to the exit, or until `pause` instructions of the run are executed; what is charged and owed by then.
    fn advance(
        &mut self,
        k: &mut Kernel,
        paused: Paused,
        op: OpKind,
        pause: u64,
    ) -> (Result<Progress, Fault>, (u64, DurationNs)) {
        let (charged, owed) = (paused.insns(), DurationNs::ZERO);
        let mut join = Join { k, state: &mut self.state, charged, owed, op };
        let (code, mem) = (&self.image.code, &mut self.mem);
        let outcome = self.reference.resume(code, paused, mem, &mut join, (self.budget, pause));
        (outcome, (join.charged, join.owed))
    }
}
