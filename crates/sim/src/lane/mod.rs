//! The lane: short paths for the events that most runs are made of, beside the general core.
//!
//! A context switch of a task of sched_ext passes many places of the general core that ask what a run may have. That is other
//! classes, trace points, pauses in callbacks, a run's setup or uneven speed. The lane is for runs that have nothing of it
//! ([`Sim::lane_fits`]), and its paths have no place for it.
//!
//! It works on the kernel's own records, so nothing is taken over and nothing is given back. The general core continues wherever
//! the lane stops, at an event or in the middle of one, and both write the same trace. A fault of a program needs no care of its own.
//! What may end the conditions is done by the general core, which looks at them again behind it: events of other kinds,
//! operations of programs, exits of the scheduler.
//!
//! The general core is the reference. A path here is a straight line through verbs that both cores have. What it does not know it leaves
//! to the general core before anything is changed.

mod paths;

use crate::event::Event;
use crate::state::lane::Core;
use crate::state::ops::{SchedExt, TracePoints};
use crate::state::sim::Sim;
use schedlab_base::TimeNs;

impl<S: SchedExt> Sim<S> {
    /// Takes an event in the lane. False if that is the general core's.
    #[inline(always)]
    pub(crate) fn take_in_lane(&mut self, time: TimeNs, event: Event) -> bool {
        if !self.lane.open {
            return false;
        }
        debug_assert!(self.lane_fits(), "what ends the conditions looks at them");
        self.lane.events += 1;
        if let Core::Alternating(every) = self.lane.core
            && self.lane.events.is_multiple_of(u64::from(every.max(1)))
        {
            return false;
        }
        let takes = self.take_straight(time, event);
        self.lane.events -= u64::from(!takes);
        takes
    }

    /// Takes an event in the general core, and looks whether the next one may be the lane's.
    #[inline]
    pub(crate) fn take_in_general(&mut self, time: TimeNs, event: Event) {
        match event {
            // Half of all events, and the shortest.
            Event::Work { cpu } => self.work(cpu, time),
            event => self.take(time, event),
        }
        if self.k.checker_on {
            self.check_state(time);
        }
        self.look_at_lane();
    }

    /// The general core has done something: looks whether the lane may continue behind it.
    #[inline]
    pub(crate) fn look_at_lane(&mut self) {
        self.lane.open = self.lane_fits();
    }

    /// True while the run has nothing that the lane does not know.
    fn lane_fits(&self) -> bool {
        let Some(ops) = self.ops.as_ref().filter(|_| self.lane.core != Core::General) else { return false };
        let (k, scx) = (&self.k, &self.k.scx);
        let loaded = scx.loaded && scx.enabled && scx.switch_all;
        let leaves = scx.bypassing || scx.disabling || scx.exit.is_some();
        let watched = scx.wants != TracePoints::NONE || scx.shows_calls || k.schedule_events || k.checker_on;
        let special = k.held.on || k.in_setup() || k.silent || k.hotplugs > 0;
        loaded && !leaves && !watched && !special && k.topology.even_speed && ops.is_straight()
    }
}
