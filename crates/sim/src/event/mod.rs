//! The event queue: ordered by time and, among equal times, by the order of pushing; a timing wheel with two rings.
//!
//! The near ring has slots of 128 ns, each a list in order, in which those of one time are passed at a step; the far ring
//! has slots of a whole near ring, whose lists have what was pushed last first until their round comes, and beyond it
//! such lists are kept by their slot. Events are never removed; a stale one is recognised by its generation when it is
//! popped. Pending events are bounded by the tasks, CPUs and timers, not by time.

use crate::exec;
use schedlab_base::{CpuId, TimeNs};
use std::collections::BTreeMap;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The burst of the running task may be over; stale unless the CPU's burst
    /// has this generation.
    Work { cpu: CpuId, generation: u32 },
    /// The timer tick of a CPU.
    Tick { cpu: CpuId },
    /// HRTICK of a CPU; stale unless its generation is this.
    HrTick { cpu: CpuId, generation: u32 },
    /// A reschedule interrupt arrives.
    Ipi { cpu: CpuId },
    /// A BPF timer expires; stale unless its generation is this.
    Timer { timer: u32, generation: u32 },
    /// The timer of a CPU's deadline server.
    Server { cpu: CpuId },
    /// A CPU takes the first of the BPF timers that were due while it was busy.
    LateTimer { cpu: CpuId },
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
    /// It comes by itself, however long all tasks wait; so do timers of the kernel's own tasks.
    pub(crate) fn is_idle_source(self) -> bool {
        matches!(
            self,
            Event::Watchdog
                | Event::Timer { .. }
                | Event::LateTimer { .. }
                | Event::Server { .. }
                | Event::Change { .. }
                | Event::User { .. }
        )
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

/// Small: where hundreds of CPUs are busy, the host waits for entries.
#[derive(Clone, Copy, Debug)]
struct Entry {
    time: TimeNs,
    event: Event,
    /// The next entry of the same list.
    next: u32,
    /// In a near slot, for the first entry of its time: the last one of that time.
    last: u32,
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
    /// All entries.
    slab: Vec<Entry>,
    free: u32,
    /// The slots of the present round, their lists in order.
    near: Ring<NEAR_SLOTS, { NEAR_SLOTS / 64 }>,
    /// The rounds after it, what was pushed last first.
    far: Ring<FAR_SLOTS, { FAR_SLOTS / 64 }>,
    /// Beyond the far ring: lists by their far slot, what was pushed last first.
    beyond: BTreeMap<u64, u32>,
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
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        EventQueue {
            slab: Vec::new(),
            free: NIL,
            near: Ring::new(),
            far: Ring::new(),
            beyond: BTreeMap::new(),
            round: 0,
            slot: 0,
            first: NIL,
            first_time: TimeNs::MAX,
            far_time: TimeNs::MAX,
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
    #[inline(always)]
    pub(crate) fn push(&mut self, time: TimeNs, event: Event) {
        let at = self.reserve(time);
        // Written in place: the host would wait for parts of it that are stored and loaded as a whole.
        self.slab[at as usize].event = event;
    }

    /// The place of a new entry, whose event is still to be written.
    #[inline(never)]
    fn reserve(&mut self, time: TimeNs) -> u32 {
        let at = self.free;
        match self.slab.get_mut(at as usize) {
            Some(place) => {
                self.free = place.next;
                place.time = time;
                self.place(at, time);
                at
            }
            None => self.grow(time),
        }
    }

    #[cold]
    fn grow(&mut self, time: TimeNs) -> u32 {
        let at = self.slab.len() as u32;
        self.slab.push(Entry { time, event: Event::Watchdog, next: NIL, last: NIL });
        self.place(at, time);
        at
    }

    /// Puts an entry into the list that it belongs to.
    #[inline(always)]
    fn place(&mut self, at: u32, time: TimeNs) {
        let far = far_slot(time);
        if far == self.round {
            self.link(at, time);
            if time < self.first_time {
                (self.first, self.first_time, self.slot) = (at, time, near_slot(time));
            }
        } else {
            self.place_far(at, time, far);
        }
    }

    #[inline(never)]
    fn place_far(&mut self, at: u32, time: TimeNs, far: u64) {
        assert!(far > self.round, "events are pushed ahead");
        self.far_time = self.far_time.min(time);
        self.first_time = self.first_time.min(time);
        if far < self.round + FAR_SLOTS as u64 {
            self.slab[at as usize].next = self.far.head(far);
            self.far.put(far, at);
        } else {
            let before = self.beyond.insert(far, at);
            self.slab[at as usize].next = before.unwrap_or(NIL);
        }
    }

    /// Puts an entry into the list of its near slot, behind those of the same time. Steps are as many as the slot has
    /// times, which is its width at most.
    #[inline]
    fn link(&mut self, at: u32, time: TimeNs) {
        let slot = near_slot(time);
        let mut next = self.near.head(slot);
        let (mut run, mut before) = (at, NIL);
        while let Some(other) = self.slab.get(next as usize)
            && other.time <= time
        {
            (run, before) = (next, other.last);
            next = self.slab[before as usize].next;
        }
        let entry = &mut self.slab[at as usize];
        (entry.next, entry.last) = (next, at);
        match self.slab.get_mut(before as usize) {
            Some(before) => before.next = at,
            None => self.near.put(slot, at),
        }
        let first = &mut self.slab[run as usize];
        if first.time == time {
            first.last = at;
        }
    }

    /// Places a list's entries anew, those first that were pushed first: its last ones.
    fn place_all(&mut self, mut list: u32) {
        let mut reversed = NIL;
        while let Some(entry) = self.slab.get_mut(list as usize) {
            (reversed, list) = (list, std::mem::replace(&mut entry.next, reversed));
        }
        while let Some(&Entry { time, next, .. }) = self.slab.get(reversed as usize) {
            self.place(reversed, time);
            reversed = next;
        }
    }

    /// Begins the round of the earliest entry, the near ring being empty: its far slot goes to the near ring, and what
    /// has come within reach of the far ring goes there.
    #[cold]
    fn roll(&mut self) {
        self.round = far_slot(self.far_time);
        self.slot = self.round * NEAR_SLOTS as u64;
        (self.first_time, self.far_time) = (TimeNs::MAX, TimeNs::MAX);
        // Slots that come within reach are empty in the ring: what was pushed for them went beyond it.
        while let Some(list) =
            self.beyond.first_entry().filter(|list| *list.key() < self.round + FAR_SLOTS as u64)
        {
            let (slot, head) = list.remove_entry();
            self.far.put(slot, head);
        }
        let due = self.far.take(self.round);
        self.place_all(due);
        let next = self.far.first(self.round + 1, self.round + FAR_SLOTS as u64);
        let next = next.map(|slot| self.far.head(slot)).or(self.beyond.values().next().copied());
        let mut at = next.unwrap_or(NIL);
        while let Some(entry) = self.slab.get(at as usize) {
            self.far_time = self.far_time.min(entry.time);
            at = entry.next;
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
        let entry = &mut self.slab[self.first as usize];
        let (time, event) = (entry.time, entry.event);
        let last = entry.last;
        let next = std::mem::replace(&mut entry.next, self.free);
        self.free = self.first;
        match self.slab.get_mut(next as usize) {
            Some(entry) => {
                if entry.time == time {
                    entry.last = last;
                }
                (self.first, self.first_time) = (next, entry.time);
                self.near.lead(self.slot, next);
            }
            None => {
                self.near.take(self.slot);
                self.find();
            }
        }
        Some((time, event))
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
        // The last ones have many equal times, in far slots and beyond them.
        for (seed, range, unit) in [
            (1, 50, 1),
            (2, 5_000, 1),
            (3, 10_000_000, 1),
            (4, 20_000_000_000, 1),
            (5, u64::MAX >> 20, 1),
            (6, 1_000_000_000, 10_000_000),
            (7, 20_000_000_000, 1_000_000_000),
        ] {
            let mut queue = EventQueue::default();
            let mut model = std::collections::BTreeMap::new();
            let mut prng = Prng::new(seed);
            let mut now = 0;
            for number in 0..20_000u32 {
                let time = TimeNs((now + prng.below(range)).next_multiple_of(unit));
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
