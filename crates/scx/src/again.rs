//! One loaded object, run many times: loading takes milliseconds, going back to the start microseconds.

use crate::contents::Global;
use crate::priority::PriorityWatch;
use crate::programs::Returned;
use crate::scheduler::{BpfScheduler, Costs};
use crate::state::State;
use schedlab_bpf::GuestAddr;
use schedlab_bpf::memory::Snapshot;

/// Most bytes of object and tasks that are worth keeping. Chosen: loading reads or writes a few MiB.
const MOST_KEPT: u64 = 16 << 20;

/// A scheduler as it was at one moment: its memory, its state, and what was asked of it ([`BpfScheduler::keep`]).
pub struct Start {
    memory: Snapshot,
    state: State,
    costs: Costs,
    attended: bool,
    mark: Option<GuestAddr>,
    priorities: Option<PriorityWatch>,
    globals: Vec<Global>,
    returned: Vec<Returned>,
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start").finish_non_exhaustive()
    }
}

impl BpfScheduler {
    /// Whether going back costs less than loading, and keeping it little: object and tasks have few bytes.
    #[must_use]
    pub fn is_worth_keeping(&self) -> bool {
        let tasks: u64 = self.state.tasks.filled().iter().map(|(_, bytes)| bytes).sum();
        self.mem.taken() + tasks <= MOST_KEPT && self.subs.wishes.is_empty()
    }

    /// The scheduler as it is now, to go back to.
    ///
    /// # Panics
    /// If it has a user space, or pauses in callbacks: those do not go back.
    #[must_use]
    pub fn keep(&self) -> Start {
        assert!(self.user.part.is_none() && self.interleaving.is_none(), "all of it can go back");
        Start {
            memory: self.mem.snapshot(&self.state.tasks.filled()),
            state: self.state.clone(),
            costs: self.costs,
            attended: self.attended,
            mark: self.mark,
            priorities: self.priorities.clone(),
            globals: self.globals.clone(),
            returned: self.returned.clone(),
        }
    }

    /// Goes back to where this scheduler was: its next run is what its first one would have been. Code that was compiled since
    /// stays compiled.
    pub fn begin_again(&mut self, start: &Start) {
        let BpfScheduler {
            mem,
            state,
            costs,
            attended,
            mark,
            priorities,
            globals,
            returned,
            // Without a user space nothing of this changes.
            user: _,
            table: _,
            info: _,
            ops: _,
            extra: _,
            // What loading has made.
            wants: _,
            verifier: _,
            image: _,
            guest: _,
            tracing: _,
            budget: _,
            cid_form: _,
            counters: _,
            integers: _,
            tables: _,
            turns: _,
            programs: _,
            priority_place: _,
            map_types: _,
            // Nothing of a run is left in them.
            engine: _,
            reference: _,
            interleaving: _,
            // Those that have sub-schedulers do not go back.
            subs: _,
        } = self;
        mem.restore(&start.memory);
        state.clone_from(&start.state);
        (*costs, *attended, *mark) = (start.costs, start.attended, start.mark);
        priorities.clone_from(&start.priorities);
        globals.clone_from(&start.globals);
        returned.clone_from(&start.returned);
    }

    /// Writes the first bytes of a global variable, as user space does through the map that holds it.
    ///
    /// # Errors
    /// A sentence: there is no such variable, or it is shorter.
    pub fn write_variable(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let place = self.image.variables.get(name).ok_or_else(|| format!("no variable `{name}`"))?;
        if place.size < bytes.len() as u64 {
            return Err(format!("`{name}` has {} bytes, not {}", place.size, bytes.len()));
        }
        self.mem.write(place.addr, bytes).map_err(|fault| fault.to_string())
    }
}
