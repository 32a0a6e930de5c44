//! One loaded object, run many times: loading takes milliseconds, going back to the start microseconds.

use crate::scheduler::BpfScheduler;
use crate::state::State;
use schedlab_bpf::memory::Snapshot;

/// A scheduler's memory and state as they were at one moment ([`BpfScheduler::keep`]).
pub struct Start {
    memory: Snapshot,
    state: State,
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start").finish_non_exhaustive()
    }
}

impl BpfScheduler {
    /// The scheduler as it is now, to go back to.
    #[must_use]
    pub fn keep(&self) -> Start {
        Start { memory: self.mem.snapshot(), state: self.state.clone() }
    }

    /// Goes back to where this scheduler was: its next run is what its first one would have been. Priorities that are
    /// watched and the counter that marks stay chosen.
    pub fn begin_again(&mut self, start: &Start) {
        self.mem.restore(&start.memory);
        self.state.clone_from(&start.state);
        self.costs = Default::default();
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
