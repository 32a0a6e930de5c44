//! The executor's part of a task, as the lane has it.

use super::{Phase, TaskExec};
use crate::state::carry::carry;
use crate::state::programs::{FlatExec, FlatOp, FlatPhase, FlatPrograms};
use schedlab_workload::{CURSOR_WORDS, Cursor, Op};

carry! {
    TaskExec as exec => FlatExec, fits();
    given { at: u32, phase: FlatPhase }
    derived {}
    TaskExec at exec {
        carried { system, entered, open, taken_timers }
        renamed {}
        fixed { rare if rare.is_none(), moved if *moved == 0 }
        apart { phase, cursor }
        untouched {
            program, children, zombies, waits_for_child, waits_for_signal, signal_pending, background,
        }
    }
}

impl TaskExec {
    /// The task's part in the lane; nothing if it is in an operation that the lane does not know.
    pub(crate) fn flatten(&self, programs: &FlatPrograms) -> Option<FlatExec> {
        let words = self.cursor.to_words();
        let (within, depth) = (words[0] as u32, (words[0] >> 32) as usize);
        let at = programs.starts[self.program.index()] + within;
        let phase = match self.phase {
            Phase::Fetch => FlatPhase::Fetch,
            Phase::Enter(Op::Sleep(_)) => FlatPhase::Enter,
            Phase::Resume(Op::Sleep(_)) => FlatPhase::Resume,
            _ => return None,
        };
        let endless = words[1..].iter().take(depth).all(|left| *left == u64::MAX);
        let whole = endless && usize::from(programs.depths[at as usize]) == depth;
        (whole && fits(self)).then(|| row_of(self, at, phase))
    }

    /// Gives back what the lane has made of it.
    pub(crate) fn restore(&mut self, flat: &FlatExec, programs: &FlatPrograms) {
        give_back(self, flat);
        let FlatExec { at, phase, .. } = *flat;
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
    }
}

impl FlatExec {
    /// The same place in the program, and what the general core has made of the rest.
    pub(crate) fn refreshed(&self, exec: &TaskExec) -> FlatExec {
        row_of(exec, self.at, self.phase)
    }
}
