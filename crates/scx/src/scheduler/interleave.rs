//! Callbacks that are paused between two instructions, so that other CPUs continue in the middle of them.

use super::BpfScheduler;
use crate::join::Join;
use schedlab_base::{CpuId, DurationNs, TimeNs};
use schedlab_bpf::{Fault, FuncId, Paused, Progress, SharedAccess};
use schedlab_sim::{Kernel, OpKind};
use std::ops::Range;

/// Where one callback is paused: the first time, from a call on, that an instruction is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pause {
    /// The number of the call among those that can be paused, from 0. It may be one of the next [`PATIENCE`] as well.
    pub call: u64,
    /// The instruction, an index into the program's code.
    pub insn: u32,
    /// How long other CPUs have.
    pub delay: DurationNs,
}

/// Calls after which a pause is given up whose instruction is not reached. Chosen: earlier pauses move what comes later by a few calls.
pub const PATIENCE: u64 = 64;

/// An access to what CPUs share, in a run that is watched.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The number of the call among those that can be paused; nothing in others.
    pub call: Option<u64>,
    /// The instruction, an index into the program's code.
    pub insn: u32,
    /// What is accessed, and how.
    pub shared: SharedAccess,
    /// The CPU.
    pub cpu: CpuId,
    /// When the call began.
    pub time: TimeNs,
}

/// What is done with the callbacks of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Interleave {
    /// The calls that can be paused are counted. Of those of a range the accesses to what CPUs share are written down.
    Watch(Range<u64>),
    /// Callbacks are paused.
    Pause(Vec<Pause>),
}

/// Accesses that are written down at most. Chosen: 64 MiB of them.
const ACCESSES_KEPT: usize = 1 << 20;

/// The pauses of a run, and the callback that is paused now.
#[derive(Debug, Default)]
pub(crate) struct Interleaving {
    /// In order of the calls.
    pauses: Vec<Pause>,
    /// How many of them are behind us.
    taken: usize,
    /// Calls so far that could have been paused.
    calls: u64,
    /// Calls whose accesses are written down.
    watched: Range<u64>,
    accesses: Vec<Access>,
    suspended: Option<Suspended>,
}

/// A callback in the middle.
#[derive(Debug)]
struct Suspended {
    /// The number of the pause.
    number: usize,
    paused: Paused,
    func: FuncId,
    op: OpKind,
    begin: TimeNs,
    delay: DurationNs,
    /// The words of its context, which other callbacks overwrite.
    context: Vec<u64>,
}

impl Interleaving {
    /// What is wanted of a run.
    pub(crate) fn new(wanted: Interleave) -> Interleaving {
        match wanted {
            Interleave::Watch(watched) => Interleaving { watched, ..Interleaving::default() },
            Interleave::Pause(mut pauses) => {
                pauses.sort_unstable();
                Interleaving { pauses, ..Interleaving::default() }
            }
        }
    }

    /// A callback begins: why it is stopped before each of its instructions, if it is.
    fn begins(&mut self, op: OpKind) -> Option<Step> {
        let number = can_pause(op).then_some(self.calls);
        self.calls += u64::from(number.is_some());
        // Accesses of others count, too, as what an access meets.
        if self.watched.contains(&number.unwrap_or(self.calls)) {
            return Some(Step::Watch(number));
        }
        // A callback is paused inside of no other.
        let call = number.filter(|_| self.suspended.is_none())?;
        while self.pauses.get(self.taken).is_some_and(|pause| pause.call + PATIENCE < call) {
            self.taken += 1;
        }
        let pause = self.pauses.get(self.taken).filter(|pause| pause.call <= call)?;
        Some(Step::Until(*pause))
    }
}

/// Why a callback is stopped before each instruction.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// To see what it accesses; with the number of the call.
    Watch(Option<u64>),
    /// To pause at an instruction.
    Until(Pause),
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
        let suspended = self.interleaving.as_ref()?.suspended.as_ref()?;
        Some((suspended.number, suspended.delay))
    }

    /// How many calls of the run could be paused, and what those that were watched accessed, in order.
    pub fn calls_to_pause(&self) -> (u64, &[Access]) {
        self.interleaving.as_ref().map_or((0, &[]), |all| (all.calls, &all.accesses))
    }

    /// Runs a callback of a scheduler that has pauses, or is watched for them; 0 after a fault, and where it is paused.
    pub(super) fn enter_interleaved(
        &mut self,
        k: &mut Kernel,
        func: FuncId,
        op: OpKind,
        args: &[u64],
    ) -> u64 {
        let step = self.interleaving.as_mut().expect("the scheduler has pauses").begins(op);
        let begin = k.ctx().now;
        let until = if step.is_some() { 1 } else { u64::MAX };
        let mut join = Join { k, state: &mut self.state, charged: 0, owed: DurationNs::ZERO, op };
        let (code, mem) = (&self.image.code, &mut self.mem);
        let outcome = self.reference.begin(code, (func, args), mem, &mut join, (self.budget, until));
        let due = (join.charged, join.owed);
        self.progressed(k, (func, op, begin), step, outcome, due)
    }

    /// What follows when a callback has ended, or stands before an instruction.
    fn progressed(
        &mut self,
        k: &mut Kernel,
        (func, op, begin): (FuncId, OpKind, TimeNs),
        step: Option<Step>,
        mut outcome: Result<Progress, Fault>,
        mut due: (u64, DurationNs),
    ) -> u64 {
        let done = loop {
            let paused = match outcome {
                Ok(Progress::Paused(paused)) => *paused,
                Ok(Progress::Done(done)) => break Ok(done),
                Err(fault) => break Err(fault),
            };
            match step {
                Some(Step::Watch(call)) => self.watch(&paused, call, k.ctx().cpu, begin),
                // An iterator or a lock is no place to pause at: on to where it is closed.
                Some(Step::Until(pause)) if paused.next() == pause.insn && !self.state.left_open() => {
                    k.charge_call(paused.insns() - due.0, due.1);
                    let context = self.guest.context_words(&mut self.mem);
                    let all = self.interleaving.as_mut().expect("the scheduler has pauses");
                    let (number, delay) = (all.taken, pause.delay);
                    all.suspended = Some(Suspended { number, paused, func, op, begin, delay, context });
                    all.taken += 1;
                    k.callback_paused();
                    return 0;
                }
                Some(Step::Until(_)) | None => {}
            }
            let next = paused.insns() + 1;
            (outcome, due) = self.advance(k, paused, op, due, next);
        };
        self.ended(k, (func, op, begin), done, due)
    }

    /// Writes down what the next instruction accesses.
    fn watch(&mut self, paused: &Paused, call: Option<u64>, cpu: CpuId, time: TimeNs) {
        let all = self.interleaving.as_mut().expect("the scheduler is watched");
        if all.accesses.len() == ACCESSES_KEPT {
            return;
        }
        if let Some(shared) = paused.next_access(&self.image.code, &self.mem) {
            // Where it cannot be paused it is only met.
            let call = call.filter(|_| !self.state.left_open());
            all.accesses.push(Access { call, insn: paused.next(), shared, cpu, time });
        }
    }

    /// Continues the paused callback.
    pub(super) fn resume_paused(&mut self, k: &mut Kernel) {
        let suspended = self.interleaving.as_mut().and_then(|all| all.suspended.take());
        let Suspended { paused, func, op, begin, context, .. } = suspended.expect("a callback is paused");
        self.guest.set_context_words(&context);
        let due = (paused.insns(), DurationNs::ZERO);
        let (outcome, due) = self.advance(k, paused, op, due, u64::MAX);
        self.progressed(k, (func, op, begin), None, outcome, due);
    }

    /// Executes to the exit, or until `pause` instructions of the run are executed; with what is charged and owed by then.
    fn advance(
        &mut self,
        k: &mut Kernel,
        paused: Paused,
        op: OpKind,
        (charged, owed): (u64, DurationNs),
        pause: u64,
    ) -> (Result<Progress, Fault>, (u64, DurationNs)) {
        let mut join = Join { k, state: &mut self.state, charged, owed, op };
        let (code, mem) = (&self.image.code, &mut self.mem);
        let outcome = self.reference.resume(code, paused, mem, &mut join, (self.budget, pause));
        (outcome, (join.charged, join.owed))
    }
}
