//! Locks as timelines, and the ids of locks and timers.
//!
//! Kernel paths run on the host one after the other, each at once, while its
//! costs advance the CPU's local clock. A path that begins a little later on
//! another CPU overlaps with it in simulated time, and may need a lock before,
//! between or after the times at which the first path held it. So a lock
//! remembers the sections in which it is held, as intervals of simulated time,
//! and a taker gets the first gap, from its own time on, that its section fits
//! into. How long the section will be is not known then; the one before it is
//! taken for the guess, and a section that turns out longer than its gap is let
//! overlap. What ends before the present event can no longer matter to anybody
//! and is forgotten: memory is bounded by the paths that overlap.

use schedlab_base::{CpuId, DurationNs, TimeNs};

/// A lock with a timeline: a run queue's, a DSQ's or one of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimLockId(pub u32);

/// A BPF timer; numbered by whoever arms it, densely from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u32);

/// An interval in which a CPU holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    begin: TimeNs,
    end: TimeNs,
    holder: CpuId,
}

impl Section {
    const NONE: Section = Section { begin: TimeNs::ZERO, end: TimeNs::ZERO, holder: CpuId(0) };
}

/// Sections that lie in the timeline itself. Chosen: locks that nobody fights for have no more. At least two.
const INLINE: usize = 2;

/// Sections in order of their begins: the first few inline, where there are more of them all in a list.
#[derive(Clone, Debug)]
struct Sections {
    inline: [Section; INLINE],
    count: usize,
    /// Empty while `inline` holds all.
    list: Vec<Section>,
}

impl Default for Sections {
    fn default() -> Sections {
        Sections { inline: [Section::NONE; INLINE], count: 0, list: Vec::new() }
    }
}

impl Sections {
    #[inline]
    fn as_slice(&self) -> &[Section] {
        if self.list.is_empty() { &self.inline[..self.count] } else { &self.list }
    }

    /// Forgets the first `number` sections.
    fn forget(&mut self, number: usize) {
        if self.list.is_empty() {
            if number < self.count {
                self.inline.copy_within(number..self.count, 0);
            }
            self.count -= number;
            return;
        }
        self.list.drain(..number);
        if self.list.len() <= INLINE {
            self.count = self.list.len();
            self.inline[..self.count].copy_from_slice(&self.list);
            self.list.clear();
        }
    }

    #[inline(never)]
    fn insert(&mut self, place: usize, section: Section) {
        if self.list.is_empty() && self.count < INLINE {
            if place < self.count {
                self.inline.copy_within(place..self.count, place + 1);
            }
            self.inline[place] = section;
            self.count += 1;
            return;
        }
        if self.list.is_empty() {
            self.list.extend_from_slice(&self.inline);
        }
        self.list.insert(place, section);
    }
}

/// A section whose end is not known yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    begin: TimeNs,
    /// Its place in the order.
    place: u32,
    holder: CpuId,
}

/// One lock's timeline.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// Sections that end after the present event.
    sections: Sections,
    /// The section that is being run through on the host.
    open: Option<Open>,
    /// Who held it last before all of `sections`.
    before: Option<CpuId>,
    /// Length of the section that was closed last.
    length: DurationNs,
}

/// What taking a lock means for the taker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// When the taker has it (before the costs of taking it).
    pub(crate) at: TimeNs,
    /// The lock's line comes from another CPU.
    pub(crate) transfer: bool,
    /// Sections of other CPUs that the taker waits for; they stand for the CPUs
    /// that spin on the lock while it is handed over.
    pub(crate) spinners: u64,
}

impl Timeline {
    /// The kernel path that runs on the host holds it.
    pub(crate) fn is_held(&self) -> bool {
        self.open.is_some()
    }

    /// Takes the lock at `now`, in a path that belongs to the event at `event`;
    /// events come in order of time.
    #[inline]
    pub(crate) fn acquire(&mut self, now: TimeNs, event: TimeNs, cpu: CpuId) -> Grant {
        assert!(self.open.is_none(), "a lock is not taken twice by one path");
        // Mostly nobody else is near: what few sections there are end before.
        let sections = &mut self.sections;
        if sections.list.is_empty() {
            let known = match sections.count {
                0 => self.before,
                count => Some(sections.inline[count - 1].holder),
            };
            if sections.count == 0 || sections.inline[sections.count - 1].end <= now {
                while sections.count > 0 && sections.inline[0].end <= event {
                    self.before = Some(sections.inline[0].holder);
                    sections.inline[0] = sections.inline[1];
                    sections.count -= 1;
                }
                self.open = Some(Open { place: sections.count as u32, begin: now, holder: cpu });
                return Grant { at: now, transfer: known.is_some_and(|known| known != cpu), spinners: 0 };
            }
        }
        self.acquire_among(now, event, cpu)
    }

    /// The same where sections of other paths may be near.
    #[inline(never)]
    fn acquire_among(&mut self, now: TimeNs, event: TimeNs, cpu: CpuId) -> Grant {
        let sections = self.sections.as_slice();
        let past = sections.iter().take_while(|section| section.end <= event).count();
        if past > 0 {
            self.before = Some(sections[past - 1].holder);
            self.sections.forget(past);
        }
        let (place, at, spinners) = self.first_gap(now, cpu);
        let previous = match place.checked_sub(1) {
            Some(previous) => Some(self.sections.as_slice()[previous].holder),
            None => self.before,
        };
        self.open = Some(Open { place: place as u32, begin: at, holder: cpu });
        Grant { at, transfer: previous.is_some_and(|previous| previous != cpu), spinners }
    }

    /// The place in the order, the begin and the waits of a section from `now` on.
    fn first_gap(&self, now: TimeNs, cpu: CpuId) -> (usize, TimeNs, u64) {
        let sections = self.sections.as_slice();
        let mut place = sections.len();
        while place > 0 && sections[place - 1].end > now {
            place -= 1;
        }
        let (mut at, mut spinners) = (now, 0);
        while let Some(next) = sections.get(place) {
            if at + self.length <= next.begin {
                break;
            }
            at = at.max(next.end);
            spinners += u64::from(next.holder != cpu);
            place += 1;
        }
        (place, at, spinners)
    }

    /// Gives the lock back at `now`. Nothing happens when it was not taken (while a
    /// run is set up nobody takes locks).
    #[inline]
    pub(crate) fn release(&mut self, now: TimeNs) {
        let Some(Open { place, begin, holder }) = self.open.take() else { return };
        self.length = now.since(begin);
        let section = Section { begin, end: now.max(begin), holder };
        let sections = &mut self.sections;
        if place as usize == sections.count && sections.count < INLINE && sections.list.is_empty() {
            sections.inline[sections.count] = section;
            sections.count += 1;
        } else {
            sections.insert(place as usize, section);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: CpuId = CpuId(0);
    const B: CpuId = CpuId(1);

    fn take(lock: &mut Timeline, now: u64, until: u64, cpu: CpuId) -> (u64, bool, u64) {
        let grant = lock.acquire(TimeNs(now), TimeNs(0), cpu);
        lock.release(TimeNs(until));
        (grant.at.0, grant.transfer, grant.spinners)
    }

    #[test]
    fn overlapping_holders_queue_up() {
        let mut lock = Timeline::default();
        assert_eq!(take(&mut lock, 10, 30, A), (10, false, 0));
        assert_eq!(take(&mut lock, 15, 50, B), (30, true, 1));
        assert_eq!(take(&mut lock, 20, 70, CpuId(2)), (50, true, 2));
        assert_eq!(take(&mut lock, 100, 110, CpuId(2)), (100, false, 0));
    }

    #[test]
    fn a_path_gets_the_gap_between_the_sections_of_another() {
        let mut lock = Timeline::default();
        take(&mut lock, 100, 120, A);
        take(&mut lock, 200, 220, A);
        assert_eq!(take(&mut lock, 90, 140, B), (120, true, 1), "no gap of 20 before 100");
        assert_eq!(
            take(&mut lock, 110, 160, B),
            (140, false, 1),
            "the gap fits a section as long as the last"
        );
        assert_eq!(take(&mut lock, 10, 20, B), (10, false, 0), "long before");
    }

    #[test]
    fn what_is_past_is_forgotten() {
        let mut lock = Timeline::default();
        for n in 0..1000 {
            take(&mut lock, n * 10, n * 10 + 5, A);
        }
        assert_eq!(lock.sections.as_slice().len(), 1000);
        let grant = lock.acquire(TimeNs(10_000), TimeNs(9_999), B);
        assert!(grant.transfer);
        lock.release(TimeNs(10_001));
        assert_eq!(lock.sections.as_slice().len(), 1);
    }
}
