//! The event queue: ordered by (time, sequence), a timing wheel with two rings.
//!
//! The near ring has slots of 128 ns, each a short list in order; the far ring has
//! slots of a whole near ring, unordered until their round comes. Events are never
//! removed; a stale one is recognised by its generation when it is popped. Pending
//! events are bounded by the tasks and CPUs, not by time.

use crate::exec;
use schedlab_base::{CpuId, TimeNs};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The burst of the running task may be over; stale unless the CPU's burst
    /// has this generation.
    Work { cpu: CpuId, generation: u32 },
    /// The timer tick of a CPU.
    Tick { cpu: CpuId },
    /// A reschedule interrupt arrives.
    Ipi { cpu: CpuId },
    /// A BPF timer expires; stale unless its generation is this.
    Timer { timer: u32, generation: u32 },
    /// A device or timer interrupt of the executor.
    Exec { cpu: CpuId, event: exec::Event },
    /// The sched_ext watchdog looks for starved tasks.
    Watchdog,
    /// A change of the configuration's list, from outside.
    Change { index: u32 },
    /// A turn of the scheduler's user space.
    User { turn: u32 },
    /// The helper thread that removes a scheduler runs.
    Disable,
}

impl Event {
    /// It comes by itself, however long all tasks wait.
    pub(crate) fn is_idle_source(self) -> bool {
        matches!(self, Event::Watchdog | Event::Timer { .. } | Event::Change { .. } | Event::User { .. })
    }
}

/// Width of a near slot as a power of two of ns: where hundreds of CPUs are busy, an event or two.
const NEAR_SHIFT: u32 = 7;
/// Near slots: together 2.1 ms.
const NEAR_SLOTS: usize = 16384;
/// Width of a far slot: all near slots together.
const FAR_SHIFT: u32 = NEAR_SHIFT + NEAR_SLOTS.ilog2();
/// Far slots: together 4.3 s.
const FAR_SLOTS: usize = 2048;
/// No entry.
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: TimeNs,
    sequence: u64,
    event: Event,
    /// The next entry of the same slot, or of the free list.
    next: u32,
}

impl Entry {
    fn is_before(&self, other: &Entry) -> bool {
        self.time < other.time || self.time == other.time && self.sequence < other.sequence
    }
}

/// A ring of `SLOTS` slots (a power of two), each a list of entries, with a bitmap of the non-empty ones in `WORDS`.
#[derive(Debug)]
struct Ring<const SLOTS: usize, const WORDS: usize> {
    heads: Box<[u32; SLOTS]>,
    bits: Box<[u64; WORDS]>,
}

impl<const SLOTS: usize, const WORDS: usize> Ring<SLOTS, WORDS> {
    fn new() -> Ring<SLOTS, WORDS> {
        assert!(WORDS * 64 == SLOTS, "a bit for each slot");
        Ring { heads: Box::new([NIL; SLOTS]), bits: Box::new([0; WORDS]) }
    }

    fn head(&self, slot: u64) -> u32 {
        self.heads[slot as usize % SLOTS]
    }

    /// Makes `at` the first entry of a slot.
    fn put(&mut self, slot: u64, at: u32) {
        let slot = slot as usize % SLOTS;
        self.bits[slot / 64 % WORDS] |= 1 << (slot % 64);
        self.heads[slot] = at;
    }

    /// Makes `at` the first entry of a slot that is not empty.
    fn lead(&mut self, slot: u64, at: u32) {
        self.heads[slot as usize % SLOTS] = at;
    }

    /// Makes a slot empty; returns what was its first entry.
    fn take(&mut self, slot: u64) -> u32 {
        let slot = slot as usize % SLOTS;
        self.bits[slot / 64 % WORDS] &= !(1 << (slot % 64));
        std::mem::replace(&mut self.heads[slot], NIL)
    }

    /// The first non-empty slot of `from..end`, at most one round.
    fn first(&self, from: u64, end: u64) -> Option<u64> {
        let mut slot = from;
        while slot < end {
            let index = slot as usize % SLOTS;
            let bits = self.bits[index / 64 % WORDS] >> (index % 64);
            if bits != 0 {
                let found = slot + u64::from(bits.trailing_zeros());
                return (found < end).then_some(found);
            }
            slot += 64 - index as u64 % 64;
        }
        None
    }
}

/// Pending events, earliest first; equal times in the order of pushing.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Entries of both rings.
    slab: Vec<Entry>,
    free: u32,
    /// The slots of the present round, their lists in order.
    near: Ring<NEAR_SLOTS, { NEAR_SLOTS / 64 }>,
    /// The rounds after it, their lists unordered.
    far: Ring<FAR_SLOTS, { FAR_SLOTS / 64 }>,
    /// Beyond the far ring, unordered.
    beyond: Vec<Entry>,
    /// The far slot that the near ring stands for.
    round: u64,
    /// No near slot before this one has entries.
    slot: u64,
    /// The earliest entry, the head of `slot`; none when the near ring is empty.
    first: u32,
    /// When the earliest entry of all is; [`TimeNs::MAX`] without any.
    first_time: TimeNs,
    /// The same among those that are not in the near ring.
    far_time: TimeNs,
    sequence: u64,
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        EventQueue {
            slab: Vec::new(),
            free: NIL,
            near: Ring::new(),
            far: Ring::new(),
            beyond: Vec::new(),
            round: 0,
            slot: 0,
            first: NIL,
            first_time: TimeNs::MAX,
            far_time: TimeNs::MAX,
            sequence: 0,
        }
    }
}

fn near_slot(time: TimeNs) -> u64 {
    time.0 >> NEAR_SHIFT
}

fn far_slot(time: TimeNs) -> u64 {
    time.0 >> FAR_SHIFT
}

impl EventQueue {
    /// Adds an event, not before the one that was taken last.
    #[inline(never)]
    pub(crate) fn push(&mut self, time: TimeNs, event: Event) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.place(Entry { time, sequence, event, next: NIL });
    }

    #[inline(always)]
    fn place(&mut self, entry: Entry) {
        let far = far_slot(entry.time);
        if far == self.round {
            let at = self.link(entry);
            if entry.time < self.first_time {
                (self.first, self.first_time, self.slot) = (at, entry.time, near_slot(entry.time));
            }
        } else {
            self.place_far(far, entry);
        }
    }

    #[inline(never)]
    fn place_far(&mut self, far: u64, entry: Entry) {
        assert!(far > self.round, "events are pushed ahead");
        self.far_time = self.far_time.min(entry.time);
        self.first_time = self.first_time.min(entry.time);
        if far < self.round + FAR_SLOTS as u64 {
            let next = self.far.head(far);
            let at = self.keep(Entry { next, ..entry });
            self.far.put(far, at);
        } else {
            self.beyond.push(entry);
        }
    }

    /// Puts an entry into the list of its near slot.
    #[inline]
    fn link(&mut self, entry: Entry) -> u32 {
        let slot = near_slot(entry.time);
        let mut next = self.near.head(slot);
        let mut before = NIL;
        while let Some(other) = self.slab.get(next as usize)
            && other.is_before(&entry)
        {
            (before, next) = (next, other.next);
        }
        let at = self.keep(Entry { next, ..entry });
        match self.slab.get_mut(before as usize) {
            Some(before) => before.next = at,
            None => self.near.put(slot, at),
        }
        at
    }

    #[inline]
    fn keep(&mut self, entry: Entry) -> u32 {
        let at = self.free;
        match self.slab.get_mut(at as usize) {
            Some(place) => {
                self.free = place.next;
                *place = entry;
                at
            }
            None => {
                self.slab.push(entry);
                self.slab.len() as u32 - 1
            }
        }
    }

    /// Takes an entry out of the slab.
    #[inline]
    fn give(&mut self, at: u32) -> Entry {
        let place = &mut self.slab[at as usize];
        let entry = *place;
        place.next = std::mem::replace(&mut self.free, at);
        entry
    }

    /// Begins the round of the earliest entry, the near ring being empty: its far slot goes to the near ring, and what
    /// has come within reach of the far ring goes there.
    #[cold]
    fn roll(&mut self) {
        self.round = far_slot(self.far_time);
        self.slot = self.round * NEAR_SLOTS as u64;
        (self.first_time, self.far_time) = (TimeNs::MAX, TimeNs::MAX);
        let mut at = self.far.take(self.round);
        while at != NIL {
            let entry = self.give(at);
            at = entry.next;
            self.place(entry);
        }
        for entry in std::mem::take(&mut self.beyond) {
            self.place(entry);
        }
        if let Some(next) = self.far.first(self.round + 1, self.round + FAR_SLOTS as u64) {
            let mut at = self.far.head(next);
            while at != NIL {
                self.far_time = self.far_time.min(self.slab[at as usize].time);
                at = self.slab[at as usize].next;
            }
        }
        self.find();
    }

    /// Takes the earliest event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(TimeNs, Event)> {
        if self.first == NIL {
            if self.far_time == TimeNs::MAX {
                return None;
            }
            self.roll();
        }
        let entry = self.give(self.first);
        match self.slab.get(entry.next as usize) {
            Some(next) => {
                (self.first, self.first_time) = (entry.next, next.time);
                self.near.lead(self.slot, entry.next);
            }
            None => {
                self.near.take(self.slot);
                self.find();
            }
        }
        Some((entry.time, entry.event))
    }

    /// Finds the earliest entry, the slot of the last one being empty.
    fn find(&mut self) {
        let end = (self.round + 1) * NEAR_SLOTS as u64;
        match self.near.first(self.slot, end) {
            Some(slot) => {
                (self.slot, self.first) = (slot, self.near.head(slot));
                self.first_time = self.slab[self.first as usize].time;
            }
            None => (self.first, self.first_time) = (NIL, self.far_time),
        }
    }

    /// When the earliest event happens; [`TimeNs::MAX`] without any.
    #[inline]
    pub(crate) fn next_time(&self) -> TimeNs {
        self.first_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Prng;

    #[test]
    fn pops_by_time_then_sequence() {
        for (seed, range) in [(1, 50), (2, 5_000), (3, 10_000_000), (4, 20_000_000_000), (5, u64::MAX >> 20)]
        {
            let mut queue = EventQueue::default();
            let mut model = std::collections::BTreeMap::new();
            let mut prng = Prng::new(seed);
            let mut now = 0;
            for number in 0..20_000u32 {
                let time = TimeNs(now + prng.below(range));
                queue.push(time, Event::Tick { cpu: CpuId(number) });
                model.insert((time, number), ());
                if prng.chance(1, 3) {
                    let expected = *model.keys().next().unwrap();
                    assert_eq!(queue.next_time(), expected.0);
                }
                while prng.chance(1, 2) {
                    let Some(((time, number), ())) = model.pop_first() else { break };
                    assert_eq!(queue.pop(), Some((time, Event::Tick { cpu: CpuId(number) })));
                    now = time.0;
                }
            }
            while let Some(((time, number), ())) = model.pop_first() {
                assert_eq!(queue.pop(), Some((time, Event::Tick { cpu: CpuId(number) })));
            }
            assert_eq!(queue.pop(), None);
        }
    }
}
