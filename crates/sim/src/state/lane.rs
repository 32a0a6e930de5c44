//! Which core a run uses, and what the run knows of the fast one.

/// Which core a run uses. The results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Core {
    /// The general core alone.
    General,
    /// The lane, wherever the run fits it.
    #[default]
    Fast,
    /// The same, but each event of this number among those that fit is left to the general core: for tests.
    Alternating(u32),
}

/// What a run knows of its lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lane {
    /// The core that was asked for.
    pub(crate) core: Core,
    /// Events taken in the lane.
    pub(crate) events: u64,
    /// Events that the general core keeps before the lane is tried again ([`ALL`] of them perhaps), and how many it kept last.
    left: u64,
    last: u64,
    /// Events since one was left to the general core for a test.
    since: u32,
}

/// The longest wait, in events. Chosen: taking ten thousand tasks over for nothing takes as long as a thousand events.
const LONGEST: u64 = 1 << 16;

/// The general core keeps all events: no run has so many.
const ALL: u64 = u64::MAX;

impl Lane {
    /// That of a run.
    pub(crate) fn new(core: Core) -> Lane {
        Lane { core, left: if core == Core::General { ALL } else { 0 }, ..Lane::default() }
    }

    /// A program of the run does not fit the lane, and never will.
    pub(crate) fn give_up(&mut self) {
        self.last = ALL;
    }

    /// True while the general core keeps the events, of which this is one.
    #[inline(always)]
    pub(crate) fn waits(&mut self) -> bool {
        let waits = self.left > 0;
        self.left -= u64::from(waits);
        waits
    }

    /// True if the next event is one of those that a test leaves to the general core.
    #[inline(always)]
    pub(crate) fn leaves_one(&mut self) -> bool {
        let Core::Alternating(every) = self.core else { return false };
        self.since += 1;
        let leaves = self.since >= every;
        if leaves {
            (self.left, self.since) = (1, 0);
        }
        leaves
    }

    /// The run did not fit, or too few events did for its tasks to be worth taking over: the next time it is tried later than the last.
    pub(crate) fn refused(&mut self, tasks: u32) {
        self.last = match self.core {
            _ if self.last == ALL => ALL,
            Core::Alternating(_) => 1,
            _ => (2 * self.last).clamp(4 + u64::from(tasks / 16), LONGEST),
        };
        self.left = self.last;
    }

    /// The lane ended after so many events. A task is taken over and given back in half the time that an event of the lane saves.
    pub(crate) fn ended(&mut self, events: u64, tasks: u32) {
        if self.left > 0 {
            return;
        }
        match events > 16 + u64::from(tasks) {
            true => self.last = 0,
            false => self.refused(tasks),
        }
    }
}
