//! The state after each event, for tests that compare cores event by event.

use crate::event::Event;
use crate::state::sim::Sim;
use schedlab_base::TimeNs;
use std::cell::RefCell;
use std::fmt::{self, Write};
use std::rc::Rc;

/// What is kept of the state after each event of a run.
#[derive(Debug, Default)]
pub struct States {
    /// A number for the state after each event, in order.
    pub digests: Vec<u64>,
    /// The event, counted from 0, after which [`States::text`] is written.
    pub wanted: Option<usize>,
    /// The event of that number and the state after it, a record a line.
    pub text: String,
}

/// Such states, of which the caller keeps a handle.
pub type SharedStates = Rc<RefCell<States>>;

/// A number for text, by FNV-1a.
struct Digest(u64);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

impl<S> Sim<S> {
    /// Keeps the state after an event, if a test wants it. Builds without assertions have no such tests.
    #[inline(always)]
    pub(crate) fn note_state(&mut self, time: TimeNs, event: Event) {
        if cfg!(debug_assertions) && self.states.is_some() {
            self.keep_state(time, event);
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_state(&mut self, time: TimeNs, event: Event) {
        let Some(states) = self.states.clone() else { return };
        // The lane keeps its rows; the tasks have what they would get from it.
        let rows = self.k.lend();
        let states = &mut *states.borrow_mut();
        let mut digest = Digest(0xcbf2_9ce4_8422_2325);
        self.write_state(&mut digest, time, event).expect("a number takes all text");
        if states.wanted == Some(states.digests.len()) {
            self.write_state(&mut states.text, time, event).expect("a string takes all text");
        }
        states.digests.push(digest.0);
        self.k.flat.tasks = rows;
    }

    /// The state that both cores have after an event. Prices, the topology and what is pending beyond the next event are left out.
    fn write_state(&self, to: &mut impl Write, time: TimeNs, event: Event) -> fmt::Result {
        let k = &self.k;
        writeln!(to, "{event:?} at {time:?}, next {:?}, {:?}", k.queue.next_time(), k.ctx)?;
        writeln!(to, "{:?}, {:?}, kicks {}", k.trace.hash, k.totals, k.kicks_pending)?;
        writeln!(to, "{} running, {} busy, {:?}", k.total_running, k.busy_cpus, k.prng)?;
        writeln!(to, "{:?}\n{:?}\n{:?}", k.locks, k.deferred, self.exec.counters)?;
        writeln!(to, "{:?}", k.scx)?;
        k.live_tasks().try_for_each(|task| writeln!(to, "{task:?}"))?;
        k.cpus.iter().try_for_each(|cpu| writeln!(to, "{cpu:?}"))?;
        k.dsqs.iter().try_for_each(|dsq| writeln!(to, "{dsq:?}"))
    }
}
