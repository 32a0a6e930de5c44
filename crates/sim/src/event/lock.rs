//! Locks as timelines, and the ids of locks and timers.
//!
//! Kernel paths run on the host one after the other, each at once, while its costs advance the
//! CPU's local clock. A path that begins a little later on another CPU overlaps with it in
//! simulated time. It may need a lock before, between or after the times at which the first path
//! held it. So a lock remembers the sections in which it is held, as intervals of simulated time. A
//! taker gets the first gap, from its own time on, that its section fits into. How long the section
//! will be is not known then, and the one before it is taken for the guess. A section that turns
//! out longer than its gap is let overlap. What ends before the present event can no longer matter
//! and is forgotten: memory is bounded by the paths that overlap.

use schedlab_base::{CpuId, DurationNs, TimeNs};

/// A lock with a timeline: a run queue's, a DSQ's or one of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimLockId(pub u32);

/// A BPF timer; numbered by the code that arms it, densely from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u32);

/// An interval in which a CPU holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    begin: TimeNs,
    end: TimeNs,
    holder: CpuId,
}

/// Holds a lock that was never taken.
const NOBODY: CpuId = CpuId(u32::MAX);

/// The place of the last section.
const LAST: u32 = u32::MAX;
/// No place: no section is open.
const CLOSED: u32 = u32::MAX - 1;

/// Past sections are looked for whenever this many have come. Chosen: looking for them costs as much as keeping
/// a few.
const LOT: usize = 8;

/// One lock's timeline.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// All sections but the last that end after the present event, behind a few that do not, in order of their begins.
    earlier: Vec<Section>,
    /// The last one; mostly the only one that matters.
    last: Section,
    /// While a section is being run through on the host: its place in `earlier`, or [`LAST`]; else [`CLOSED`].
    open: u32,
    /// The CPU that held it last before all of `earlier`.
    before: CpuId,
    /// The latest end of all sections.
    end: TimeNs,
    /// Length of the section that was closed last.
    length: DurationNs,
    /// From here to the latest end the lock is held without a gap, by one after the other. It is [`TimeNs::MAX`] when nothing like
    /// that is known, as a section was longer than the gap that it got.
    solid: TimeNs,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline {
            earlier: Vec::new(),
            last: Section { begin: TimeNs::ZERO, end: TimeNs::ZERO, holder: NOBODY },
            open: CLOSED,
            before: NOBODY,
            end: TimeNs::ZERO,
            length: DurationNs::ZERO,
            solid: TimeNs::ZERO,
        }
    }
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
        self.open != CLOSED
    }

    /// Takes the lock at `now`, in a path that belongs to the event at `event`, if all sections end by then. No other
    /// path is near, so the taker has it at once. Says whether its line comes from another CPU. No path is behind its
    /// event, and events come in order of time.
    #[inline(always)]
    pub(crate) fn acquire_free(&mut self, now: TimeNs, event: TimeNs, cpu: CpuId) -> Option<bool> {
        assert!(self.open == CLOSED, "a lock is not taken twice by one path");
        if self.end > event {
            return None;
        }
        self.before = self.last.holder;
        self.earlier.clear();
        self.solid = now;
        Some(self.acquire_last(now, cpu))
    }

    /// Takes the lock where sections of other paths may be near.
    pub(crate) fn acquire(&mut self, now: TimeNs, event: TimeNs, cpu: CpuId) -> Grant {
        match self.acquire_free(now, event, cpu) {
            Some(transfer) => Grant { at: now, transfer, spinners: 0 },
            None => self.acquire_among(now, event, cpu),
        }
    }

    /// The new section is behind all others.
    #[inline(always)]
    fn acquire_last(&mut self, now: TimeNs, cpu: CpuId) -> bool {
        debug_assert_eq!(self.open, CLOSED, "one section is open at a time");
        let previous =
            std::mem::replace(&mut self.last, Section { begin: now, end: now, holder: cpu }).holder;
        self.open = LAST;
        previous != cpu && previous != NOBODY
    }

    /// Takes the lock after [`Timeline::acquire_free`] did not.
    #[inline(never)]
    pub(crate) fn acquire_among(&mut self, now: TimeNs, event: TimeNs, cpu: CpuId) -> Grant {
        debug_assert!(event <= now, "no path is behind its event");
        // The last section becomes one of the earlier ones.
        self.earlier.push(self.last);
        if self.earlier.len().is_multiple_of(LOT) {
            self.forget(event);
        }
        if self.end <= now {
            self.solid = now;
            return Grant { at: now, transfer: self.acquire_last(now, cpu), spinners: 0 };
        }
        if now >= self.solid && self.length > DurationNs::ZERO {
            // No gap from now on: behind all others. Sections of the taker itself are past.
            let past = self.earlier.partition_point(|section| section.end <= now);
            let spinners = (self.earlier.len() - past) as u64;
            let at = self.end;
            return Grant { at, transfer: self.acquire_last(at, cpu), spinners };
        }
        let sections = &mut self.earlier;
        let count = sections.len();
        let mut place = sections.iter().rposition(|section| section.end <= now).map_or(0, |past| past + 1);
        let (mut at, mut spinners) = (now, 0);
        // The first gap that a section as long as the one before fits into.
        while let Some(next) = sections.get(place).filter(|next| at + self.length > next.begin) {
            at = at.max(next.end);
            spinners += u64::from(next.holder != cpu);
            place += 1;
        }
        let previous = if place > 0 { sections[place - 1].holder } else { self.before };
        let section = Section { begin: at, end: at, holder: cpu };
        if place == count {
            if at != self.end {
                // A section that was too long for its gap ends behind this one's begin.
                self.solid = TimeNs::MAX;
            }
            self.last = section;
            self.open = LAST;
        } else {
            sections.insert(place, section);
            self.last = sections.pop().expect("the last one was kept");
            self.open = place as u32;
        }
        Grant { at, transfer: previous != cpu && previous != NOBODY, spinners }
    }

    /// Forgets the first of the earlier sections, as far as they end by `event`.
    #[inline(never)]
    fn forget(&mut self, event: TimeNs) {
        let past = self.earlier.iter().take_while(|section| section.end <= event).count();
        if past > 0 {
            debug_assert!(
                self.earlier[..past].iter().all(|section| section.end <= event),
                "no path can still ask for what is forgotten"
            );
            self.before = self.earlier[past - 1].holder;
            self.earlier.drain(..past);
        }
    }

    /// Gives the lock back at `now`. Nothing happens when it was not taken (while a run is set up
    /// no lock is taken).
    #[inline(always)]
    pub(crate) fn release(&mut self, now: TimeNs) {
        let place = std::mem::replace(&mut self.open, CLOSED);
        if place != LAST {
            return self.release_among(place, now);
        }
        let begin = self.last.begin;
        let end = now.max(begin);
        self.last.end = end;
        self.length = end - begin;
        debug_assert!(end >= begin, "a section ends behind its beginning");
        self.end = self.end.max(end);
    }

    /// Releases a section before the last, or none.
    #[inline(never)]
    fn release_among(&mut self, place: u32, now: TimeNs) {
        if place == CLOSED {
            return;
        }
        debug_assert!((place as usize) < self.earlier.len(), "the open section is there");
        let section = &mut self.earlier[place as usize];
        section.end = now.max(section.begin);
        self.length = section.end - section.begin;
        self.end = self.end.max(section.end);
        self.check_overlap(place as usize);
    }
}

impl Timeline {
    /// A section got a gap: if it is longer, those behind it are not one after the other any more.
    #[inline(never)]
    fn check_overlap(&mut self, place: usize) {
        let next = self.earlier.get(place + 1).unwrap_or(&self.last);
        debug_assert!(self.earlier[place].begin <= next.begin, "sections are in order");
        if self.earlier[place].end > next.begin {
            self.solid = TimeNs::MAX;
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

    /// What taking a lock means, found by walking all sections (begin, end and holder of each, in order), and its place among
    /// them.
    fn walked(
        sections: &[(u64, u64, CpuId)],
        now: u64,
        length: u64,
        cpu: CpuId,
    ) -> ((u64, bool, u64), usize) {
        let past = sections.iter().rposition(|section| section.1 <= now);
        let (mut at, mut spinners, mut place) = (now, 0, past.map_or(0, |past| past + 1));
        while let Some(next) = sections.get(place).filter(|next| at + length > next.0) {
            at = at.max(next.1);
            spinners += u64::from(next.2 != cpu);
            place += 1;
        }
        ((at, place > 0 && sections[place - 1].2 != cpu, spinners), place)
    }

    #[test]
    fn a_run_of_sections_without_a_gap_is_passed_at_once_with_the_same_result() {
        let (mut lock, mut sections, mut length) = (Timeline::default(), Vec::new(), 0);
        // Each CPU's own time, which never goes back; mostly the lock is busy, and now and then a CPU is far ahead.
        let mut clocks = [0; 6];
        let mut random = schedlab_base::Prng::stream(1, 2);
        let (mut busy, mut at_once) = (0, 0);
        for _ in 0..20_000 {
            let cpu = random.below(6) as usize;
            let most = if random.below(300) == 0 { 3_000 } else { 40 };
            clocks[cpu] += random.below(most);
            let id = CpuId(cpu as u32);
            let (expected, place) = walked(&sections, clocks[cpu], length, id);
            busy += u64::from(expected.0 > clocks[cpu]);
            at_once += u64::from(expected.2 > 1 && clocks[cpu] >= lock.solid.0);
            length = random.below(40);
            let until = expected.0 + length;
            assert_eq!(take(&mut lock, clocks[cpu], until, id), expected);
            sections.insert(place, (expected.0, until, id));
            clocks[cpu] = until;
        }
        assert!(busy < 19_900 && at_once > 500, "{busy} had to wait, {at_once} for a run");
    }

    #[test]
    fn what_is_past_is_forgotten() {
        let mut lock = Timeline::default();
        for n in 0..1000 {
            take(&mut lock, n * 10, n * 10 + 5, A);
        }
        assert_eq!(lock.earlier.len(), 999);
        for n in 1000..1100 {
            let grant = lock.acquire(TimeNs(n * 10), TimeNs(n * 10 - 1), B);
            assert_eq!(grant.transfer, n == 1000);
            lock.release(TimeNs(n * 10 + 5));
        }
        assert!(lock.earlier.is_empty());
    }
}
