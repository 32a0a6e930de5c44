//! A timing wheel with movable entries: numbered places of which each is due at one time or not at all, the earliest first.
//!
//! The near ring has slots of 128 ns, each a pairing heap, so that thousands of entries of one instant cost no more than
//! their logarithm. The far ring has slots of a whole near ring, whose entries are lists until their round comes. Beyond
//! it such lists are kept by their slot. Adding is O(1), taking and moving O(log n) of the entries of one slot.

use super::Event;
use schedlab_base::TimeNs;
use std::collections::BTreeMap;

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
    /// When it is due; [`TimeNs::MAX`] while it is not.
    time: TimeNs,
    event: Event,
    /// The next one of the same list, or the next child of the same entry of a heap.
    next: u32,
    /// The one before it there; of the first child, the entry whose child it is.
    prev: u32,
    /// The first of those below it in a heap.
    child: u32,
}

/// A ring of `SLOTS` slots (a power of two), each with a first entry, and a bitmap of the non-empty ones in `WORDS`.
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

    #[inline]
    fn head(&self, slot: u64) -> u32 {
        self.heads[slot as usize % SLOTS]
    }

    /// Makes `at` the first entry of a slot; [`NIL`] makes it empty.
    #[inline]
    fn put(&mut self, slot: u64, at: u32) {
        let slot = slot as usize % SLOTS;
        let (word, bit) = (&mut self.bits[slot / 64 % WORDS], 1 << (slot % 64));
        if at == NIL {
            *word &= !bit
        } else {
            *word |= bit
        }
        self.heads[slot] = at;
    }

    /// Makes `at` the only entry of an empty slot.
    #[inline(always)]
    fn fill(&mut self, slot: u64, at: u32) {
        let slot = slot as usize % SLOTS;
        self.bits[slot / 64 % WORDS] |= 1 << (slot % 64);
        self.heads[slot] = at;
    }

    /// Makes a slot empty.
    #[inline(always)]
    fn empty(&mut self, slot: u64) {
        let slot = slot as usize % SLOTS;
        self.bits[slot / 64 % WORDS] &= !(1 << (slot % 64));
        self.heads[slot] = NIL;
    }

    /// The first non-empty slot of `from..end`, at most one round.
    #[inline(always)]
    fn first(&self, from: u64, end: u64) -> Option<u64> {
        debug_assert!(from <= end, "the search goes forward");
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

/// The entries, and the heaps and lists that they form.
#[derive(Debug, Default)]
struct Entries(Vec<Entry>);

impl Entries {
    #[inline(always)]
    fn of(&mut self, at: u32) -> &mut Entry {
        &mut self.0[at as usize]
    }

    /// Is `a` due before `b`? Of one instant, by the sources of their events.
    #[inline]
    fn before(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.0[a as usize], &self.0[b as usize]);
        a.time < b.time || a.time == b.time && a.event.source() < b.event.source()
    }

    /// Puts one heap below the root of the other; returns that.
    #[inline]
    fn meld(&mut self, a: u32, b: u32) -> u32 {
        debug_assert_ne!(a, b, "two heaps become one");
        let (root, below) = if self.before(b, a) { (b, a) } else { (a, b) };
        let first = std::mem::replace(&mut self.of(root).child, below);
        let entry = self.of(below);
        (entry.prev, entry.next) = (root, first);
        if first != NIL {
            self.of(first).prev = below;
        }
        root
    }

    /// Makes one heap of an entry's children, in two passes; [`NIL`] without any.
    #[inline]
    fn meld_children(&mut self, at: u32) -> u32 {
        let first = std::mem::replace(&mut self.of(at).child, NIL);
        if first == NIL {
            return NIL;
        }
        let root = if self.of(first).next == NIL { first } else { self.meld_siblings(first) };
        let entry = self.of(root);
        (entry.prev, entry.next) = (NIL, NIL);
        root
    }

    #[inline(never)]
    fn meld_siblings(&mut self, first: u32) -> u32 {
        let (mut pairs, mut rest) = (NIL, first);
        while rest != NIL {
            let (one, other) = (rest, self.of(rest).next);
            let pair = if other == NIL {
                rest = NIL;
                one
            } else {
                rest = self.of(other).next;
                self.meld(one, other)
            };
            self.of(pair).next = std::mem::replace(&mut pairs, pair);
        }
        let mut root = pairs;
        let mut rest = self.of(pairs).next;
        while rest != NIL {
            let next = self.of(rest).next;
            root = self.meld(root, rest);
            rest = next;
        }
        root
    }

    /// Takes an entry that is not the first one out of its list, or of the children of another one.
    #[inline]
    fn unlink(&mut self, at: u32) {
        let Entry { prev, next, .. } = *self.of(at);
        let before = self.of(prev);
        if before.child == at {
            before.child = next
        } else {
            before.next = next
        }
        if next != NIL {
            self.of(next).prev = prev;
        }
    }

    /// Puts an entry before `first`, the head of a list.
    fn link_before(&mut self, at: u32, first: u32) {
        let entry = self.of(at);
        (entry.prev, entry.next, entry.child) = (NIL, first, NIL);
        if first != NIL {
            self.of(first).prev = at;
        }
    }

    /// The earliest time in a list.
    fn earliest(&self, mut list: u32) -> TimeNs {
        let mut earliest = TimeNs::MAX;
        while let Some(entry) = self.0.get(list as usize) {
            earliest = earliest.min(entry.time);
            list = entry.next;
        }
        earliest
    }
}

/// The wheel.
#[derive(Debug)]
pub(super) struct Wheel {
    entries: Entries,
    /// The slots of the present round, heaps.
    near: Ring<NEAR_SLOTS, { NEAR_SLOTS / 64 }>,
    /// The rounds after it, lists.
    far: Ring<FAR_SLOTS, { FAR_SLOTS / 64 }>,
    /// Beyond the far ring: lists by their far slot.
    beyond: BTreeMap<u64, u32>,
    /// The far slot that the near ring stands for.
    round: u64,
    /// No near slot before this one has entries.
    slot: u64,
    /// The earliest entry, the first of `slot`; none when the near ring is empty.
    first: u32,
    /// When the earliest entry of all is due; [`TimeNs::MAX`] without any.
    first_time: TimeNs,
    /// When the earliest entry outside of the near ring is due; nothing where that must be looked for.
    far_time: Option<TimeNs>,
}

fn near_slot(time: TimeNs) -> u64 {
    time.0 >> NEAR_SHIFT
}

fn far_slot(time: TimeNs) -> u64 {
    time.0 >> FAR_SHIFT
}

impl Wheel {
    /// A wheel without entries, at time 0.
    pub(super) fn new() -> Wheel {
        Wheel {
            entries: Entries::default(),
            near: Ring::new(),
            far: Ring::new(),
            beyond: BTreeMap::new(),
            round: 0,
            slot: 0,
            first: NIL,
            first_time: TimeNs::MAX,
            far_time: Some(TimeNs::MAX),
        }
    }

    /// Makes an entry for `event`, which is not due; its number, counted from 0.
    pub(super) fn add(&mut self, event: Event) -> u32 {
        let entries = &mut self.entries.0;
        entries.push(Entry { time: TimeNs::MAX, event, next: NIL, prev: NIL, child: NIL });
        entries.len() as u32 - 1
    }

    /// Gives an entry that is not due another event.
    #[inline]
    pub(super) fn rename(&mut self, at: u32, event: Event) {
        self.entries.of(at).event = event;
    }

    /// When the entry is due; [`TimeNs::MAX`] when it is not.
    #[inline]
    pub(super) fn time(&self, at: u32) -> TimeNs {
        self.entries.0[at as usize].time
    }

    /// When the earliest entry is due; [`TimeNs::MAX`] without any.
    #[inline]
    pub(super) fn next_time(&self) -> TimeNs {
        self.first_time
    }

    /// Makes the entry due at `time`, which is not before that of the entry taken last; it may be due already.
    #[inline]
    pub(super) fn set(&mut self, at: u32, time: TimeNs) {
        let was = self.time(at);
        debug_assert!(time != TimeNs::MAX, "an event has a time");
        if was == time {
            return;
        }
        match was {
            TimeNs::MAX => self.place(at, time),
            was => self.replace(at, was, time),
        }
    }

    /// Moves an entry that is due at `was`.
    #[inline(never)]
    fn replace(&mut self, at: u32, was: TimeNs, time: TimeNs) {
        self.remove(at, was);
        self.place(at, time);
    }

    /// The entry is not due any more.
    pub(super) fn clear(&mut self, at: u32) {
        let was = self.time(at);
        if was != TimeNs::MAX {
            self.remove(at, was);
            self.entries.of(at).time = TimeNs::MAX;
        }
    }

    #[inline(always)]
    fn place(&mut self, at: u32, time: TimeNs) {
        let entry = self.entries.of(at);
        entry.time = time;
        let far = far_slot(time);
        if far != self.round {
            return self.place_far(at, time, far);
        }
        (entry.prev, entry.next, entry.child) = (NIL, NIL, NIL);
        let slot = near_slot(time);
        let root = self.near.head(slot);
        if root != NIL {
            return self.place_among(at, time, root);
        }
        self.near.fill(slot, at);
        if time < self.first_time {
            (self.first, self.first_time, self.slot) = (at, time, slot);
        }
    }

    /// Puts an entry into a near slot that has some.
    #[inline(never)]
    fn place_among(&mut self, at: u32, time: TimeNs, root: u32) {
        let (slot, root) = (near_slot(time), self.entries.meld(root, at));
        self.near.put(slot, root);
        if time <= self.first_time {
            (self.first, self.first_time, self.slot) = (root, time, slot);
        }
    }

    #[inline(never)]
    fn place_far(&mut self, at: u32, time: TimeNs, far: u64) {
        assert!(far > self.round, "events are set ahead");
        self.far_time = self.far_time.map(|earliest| earliest.min(time));
        self.first_time = self.first_time.min(time);
        let head = if far < self.round + FAR_SLOTS as u64 {
            let head = self.far.head(far);
            self.far.put(far, at);
            head
        } else {
            self.beyond.insert(far, at).unwrap_or(NIL)
        };
        self.entries.link_before(at, head);
    }

    /// Takes an entry that is due at `time` out of its heap or list.
    #[inline]
    fn remove(&mut self, at: u32, time: TimeNs) {
        if at == self.first {
            self.take_first();
        } else if far_slot(time) == self.round {
            let slot = near_slot(time);
            if self.near.head(slot) == at && self.entries.of(at).child == NIL {
                self.near.empty(slot);
            } else {
                self.remove_near(at, slot);
            }
        } else {
            self.remove_far(at, time);
        }
    }

    /// Takes an entry out of a near slot that has others.
    #[inline(never)]
    fn remove_near(&mut self, at: u32, slot: u64) {
        let root = self.near.head(slot);
        if root != at {
            self.entries.unlink(at);
        }
        let mut left = self.entries.meld_children(at);
        if root != at {
            left = if left == NIL { root } else { self.entries.meld(root, left) };
        }
        self.near.put(slot, left);
    }

    #[inline(never)]
    fn remove_far(&mut self, at: u32, time: TimeNs) {
        let far = far_slot(time);
        let Entry { prev, next, .. } = *self.entries.of(at);
        if prev != NIL {
            self.entries.unlink(at);
        } else {
            if next != NIL {
                self.entries.of(next).prev = NIL;
            }
            if far < self.round + FAR_SLOTS as u64 {
                self.far.put(far, next);
            } else if next == NIL {
                self.beyond.remove(&far);
            } else {
                self.beyond.insert(far, next);
            }
        }
        self.far_time = self.far_time.filter(|&earliest| earliest != time);
        if self.first == NIL {
            self.first_time = self.earliest_far();
        }
    }

    /// When the earliest entry outside of the near ring is due.
    #[inline(never)]
    fn earliest_far(&mut self) -> TimeNs {
        *self.far_time.get_or_insert_with(|| {
            let slot = self.far.first(self.round + 1, self.round + FAR_SLOTS as u64);
            let list = slot.map(|slot| self.far.head(slot)).or(self.beyond.values().next().copied());
            self.entries.earliest(list.unwrap_or(NIL))
        })
    }

    /// Begins the round of the earliest entry, the near ring being empty. Its far slot goes to the near ring, and what
    /// has come within reach of the far ring goes there.
    #[cold]
    fn roll(&mut self) {
        self.round = far_slot(self.first_time);
        self.slot = self.round * NEAR_SLOTS as u64;
        (self.first_time, self.far_time) = (TimeNs::MAX, None);
        // Slots that come within reach are empty in the ring: what was set for them went beyond it.
        while let Some(list) =
            self.beyond.first_entry().filter(|list| *list.key() < self.round + FAR_SLOTS as u64)
        {
            let (slot, head) = list.remove_entry();
            self.far.put(slot, head);
        }
        let mut due = self.far.head(self.round);
        self.far.put(self.round, NIL);
        while let Some(&Entry { time, next, .. }) = self.entries.0.get(due as usize) {
            self.place(due, time);
            due = next;
        }
    }

    /// The earliest entry, which stays.
    pub(super) fn first(&mut self) -> Option<(TimeNs, Event)> {
        if self.first == NIL {
            if self.first_time == TimeNs::MAX {
                return None;
            }
            self.roll();
        }
        let entry = self.entries.of(self.first);
        Some((entry.time, entry.event))
    }

    /// Takes the earliest entry, which is not due any more: its number, time and event.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u32, TimeNs, Event)> {
        if self.first == NIL {
            if self.first_time == TimeNs::MAX {
                return None;
            }
            self.roll();
        }
        let at = self.first;
        let entry = self.entries.of(at);
        debug_assert!(entry.prev == NIL, "the first entry is a root");
        let (time, event) = (std::mem::replace(&mut entry.time, TimeNs::MAX), entry.event);
        self.take_first();
        Some((at, time, event))
    }

    /// Takes the earliest entry out of its heap and finds the next one.
    #[inline(always)]
    fn take_first(&mut self) {
        if self.entries.of(self.first).child != NIL {
            return self.take_root();
        }
        self.near.empty(self.slot);
        match self.near.first(self.slot, (self.round + 1) * NEAR_SLOTS as u64) {
            Some(slot) => {
                (self.slot, self.first) = (slot, self.near.head(slot));
                self.first_time = self.time(self.first);
            }
            None => (self.first, self.first_time) = (NIL, self.earliest_far()),
        }
    }

    /// Takes the earliest entry out of a slot that has others.
    #[inline(never)]
    fn take_root(&mut self) {
        let root = self.entries.meld_children(self.first);
        debug_assert!(root != NIL, "an entry with a child leaves a heap");
        self.near.put(self.slot, root);
        (self.first, self.first_time) = (root, self.time(root));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::{CpuId, Prng};
    use std::collections::BTreeSet;

    /// Against a sorted set of (time, source): adding, moving, clearing and taking.
    #[test]
    fn takes_by_time_then_source() {
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
            let (mut wheel, mut model, mut random) = (Wheel::new(), BTreeSet::new(), Prng::new(seed));
            let events: Vec<Event> = (0..300)
                .map(|number| match number % 3 {
                    0 => Event::Work { cpu: CpuId(number) },
                    1 => Event::Tick { cpu: CpuId(number) },
                    _ => Event::Change { index: number },
                })
                .collect();
            for (number, &event) in events.iter().enumerate() {
                assert_eq!(wheel.add(event), number as u32);
            }
            let key = |wheel: &Wheel, at: u32| (wheel.time(at), events[at as usize].source(), at);
            let mut now = 0;
            for _ in 0..30_000 {
                let at = random.below(300) as u32;
                match random.below(10) {
                    0 => {
                        model.remove(&key(&wheel, at));
                        wheel.clear(at);
                        assert_eq!(wheel.time(at), TimeNs::MAX);
                    }
                    1..=4 => {
                        model.remove(&key(&wheel, at));
                        wheel.set(at, TimeNs((now + random.below(range)).next_multiple_of(unit)));
                        model.insert(key(&wheel, at));
                    }
                    _ => {
                        let expected = model.pop_first();
                        assert_eq!(wheel.next_time(), expected.map_or(TimeNs::MAX, |key| key.0));
                        assert_eq!(
                            wheel.pop(),
                            expected.map(|(time, _, at)| (at, time, events[at as usize]))
                        );
                        now = expected.map_or(now, |key| key.0.0);
                    }
                }
                let first = model.first().map_or(TimeNs::MAX, |key| key.0);
                assert_eq!(wheel.next_time(), first);
            }
        }
    }

    /// Steps of comparing grow with the logarithm: half a million entries of one instant, taken in order.
    #[test]
    fn many_of_one_instant() {
        let (mut wheel, count) = (Wheel::new(), 500_000);
        for number in (0..count).rev() {
            let at = wheel.add(Event::Change { index: number ^ 0x155 });
            wheel.set(at, TimeNs(1_000));
        }
        let taken: Vec<u32> = std::iter::from_fn(|| wheel.pop())
            .map(|(_, _, event)| match event {
                Event::Change { index } => index,
                other => unreachable!("{other:?}"),
            })
            .collect();
        assert!(taken.is_sorted() && taken.len() == count as usize);
    }
}
