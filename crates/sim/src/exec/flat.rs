//! The executor's part of a task, as the lane has it.

use super::{Phase, TaskExec};
use crate::state::programs::{FlatExec, FlatOp, FlatPhase, FlatPrograms};
use schedlab_workload::{CURSOR_WORDS, Cursor, Op};

impl TaskExec {
    /// The task's part in the lane; nothing if it is in an operation that the lane does not know.
    pub(crate) fn flatten(&self, programs: &FlatPrograms) -> Option<FlatExec> {
        // What is not named with a value here is not changed by the lane, but for `moved`, of which a sleep has nothing.
        let TaskExec {
            phase,
            system,
            entered,
            program,
            moved: _,
            rare,
            open,
            cursor,
            children: _,
            zombies: _,
            waits_for_child: _,
            waits_for_signal: _,
            signal_pending: _,
            background: _,
            taken_timers,
        } = self;
        let words = cursor.to_words();
        let (within, depth) = (words[0] as u32, (words[0] >> 32) as usize);
        let at = programs.starts[program.index()] + within;
        let phase = match phase {
            Phase::Fetch => FlatPhase::Fetch,
            Phase::Enter(Op::Sleep(_)) => FlatPhase::Enter,
            Phase::Resume(Op::Sleep(_)) => FlatPhase::Resume,
            _ => return None,
        };
        let endless = words[1..].iter().take(depth).all(|left| *left == u64::MAX);
        let fits = rare.is_none() && endless && usize::from(programs.depths[at as usize]) == depth;
        fits.then_some(FlatExec {
            at,
            phase,
            taken_timers: *taken_timers,
            entered: *entered,
            system: *system,
            open: *open,
        })
    }

    /// Gives back what the lane has made of it.
    pub(crate) fn restore(&mut self, flat: &FlatExec, programs: &FlatPrograms) {
        let FlatExec { at, phase, taken_timers, entered, system, open } = *flat;
        let within = at - programs.starts[self.program.index()];
        let depth = programs.depths[at as usize];
        let mut words: [u64; CURSOR_WORDS] = self.cursor.to_words();
        words[0] = u64::from(within) | u64::from(depth) << 32;
        words[1..=usize::from(depth)].fill(u64::MAX);
        self.cursor = Cursor::from_words(&words).expect("the place is one of the program");
        let call = || match programs.ops[at as usize - 1] {
            FlatOp::Sleep(span) => Op::Sleep(span),
            op => unreachable!("{op:?} is no call"),
        };
        self.phase = match phase {
            FlatPhase::Fetch => Phase::Fetch,
            FlatPhase::Enter => Phase::Enter(call()),
            FlatPhase::Resume => Phase::Resume(call()),
        };
        (self.taken_timers, self.entered, self.system, self.open) = (taken_timers, entered, system, open);
    }
}
