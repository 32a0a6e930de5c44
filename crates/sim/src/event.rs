//! The event queue: ordered by (time, sequence), a timing wheel with two rings.
//!
//! The near ring has slots of 256 ns, the far ring slots of a whole near
//! ring; a slot is sorted when its time comes. Events are never removed; a stale
//! one is recognised by its generation when it is popped. Pending events are
//! bounded by the tasks and CPUs, not by time.

use crate::exec;
use schedlab_base::{CpuId, TaskId, TimeNs};

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
    /// The event as one word: kind, a number below 2^24, and one of 32 bits. Pending events are many, and moved often.
    #[inline(always)]
    fn pack(self) -> u64 {
        let (kind, small, large) = match self {
            Event::Work { cpu, generation } => (0, cpu.0, generation),
            Event::Tick { cpu } => (1, cpu.0, 0),
            Event::Ipi { cpu } => (2, cpu.0, 0),
            Event::Timer { timer, generation } => (3, timer, generation),
            Event::Exec { cpu, event: exec::Event::Timeout(task) } => (4, cpu.0, task.0),
            Event::Watchdog => (5, 0, 0),
            Event::Change { index } => (6, 0, index),
            Event::Disable => (7, 0, 0),
            Event::User { turn } => (8, 0, turn),
        };
        assert!(small < 1 << 24, "CPUs and timers are numbered below 2^24");
        kind << 56 | u64::from(small) << 32 | u64::from(large)
    }

    /// The event of a word that `pack` gave.
    #[inline(always)]
    fn unpack(word: u64) -> Event {
        let (small, large) = ((word >> 32) as u32 & 0x00ff_ffff, word as u32);
        let cpu = CpuId(small);
        match word >> 56 {
            0 => Event::Work { cpu, generation: large },
            1 => Event::Tick { cpu },
            2 => Event::Ipi { cpu },
            3 => Event::Timer { timer: small, generation: large },
            4 => Event::Exec { cpu, event: exec::Event::Timeout(TaskId(large)) },
            5 => Event::Watchdog,
            6 => Event::Change { index: large },
            7 => Event::Disable,
            _ => Event::User { turn: large },
        }
    }
}

/// Width of a near slot as a power of two of ns: about a quarter of a microsecond.
const NEAR_SHIFT: u32 = 8;
/// Near slots: together 2.1 ms.
const NEAR_SLOTS: usize = 8192;
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
    /// A packed [`Event`].
    event: u64,
    /// The next entry of the same slot, or of the free list.
    next: u32,
}

/// A ring of `SLOTS` slots (a power of two), each a list of entries, with a bitmap of the non-empty ones.
#[derive(Debug)]
struct Ring<const SLOTS: usize> {
    heads: Vec<u32>,
    bits: Vec<u64>,
}

impl<const SLOTS: usize> Ring<SLOTS> {
    fn new() -> Ring<SLOTS> {
        Ring { heads: vec![NIL; SLOTS], bits: vec![0; SLOTS / 64] }
    }

    fn put(&mut self, slot: u64, at: u32) -> u32 {
        let slot = slot as usize % SLOTS;
        self.bits[slot / 64] |= 1 << (slot % 64);
        std::mem::replace(&mut self.heads[slot], at)
    }

    fn take(&mut self, slot: u64) -> u32 {
        let slot = slot as usize % SLOTS;
        self.bits[slot / 64] &= !(1 << (slot % 64));
        std::mem::replace(&mut self.heads[slot], NIL)
    }

    /// The first non-empty slot of `from..end`, at most one round.
    fn first(&self, from: u64, end: u64) -> Option<u64> {
        let mut slot = from;
        while slot < end {
            let index = slot as usize % SLOTS;
            let bits = self.bits[index / 64] >> (index % 64);
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
    near: Ring<NEAR_SLOTS>,
    far: Ring<FAR_SLOTS>,
    /// Beyond the far ring, unordered.
    beyond: Vec<Entry>,
    /// Everything before the near slot `slot`, latest first.
    present: Vec<Entry>,
    /// The first near slot that is still in a ring.
    slot: u64,
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
            present: Vec::new(),
            slot: 0,
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
    /// Adds an event.
    #[inline(always)]
    pub(crate) fn push(&mut self, time: TimeNs, event: Event) {
        self.push_word(time, event.pack());
    }

    fn push_word(&mut self, time: TimeNs, event: u64) {
        let entry = Entry { time, sequence: self.sequence, event, next: NIL };
        self.sequence += 1;
        self.place(entry);
    }

    fn place(&mut self, entry: Entry) {
        let near = near_slot(entry.time);
        if near < self.slot {
            let key = (entry.time, entry.sequence);
            let at = self.present.partition_point(|other| (other.time, other.sequence) > key);
            self.present.insert(at, entry);
            return;
        }
        let round = self.slot / NEAR_SLOTS as u64;
        let far = far_slot(entry.time);
        if far == round {
            let at = self.keep(entry);
            self.slab[at as usize].next = self.near.put(near, at);
        } else if far < round + FAR_SLOTS as u64 {
            let at = self.keep(entry);
            self.slab[at as usize].next = self.far.put(far, at);
        } else {
            self.beyond.push(entry);
        }
    }

    fn keep(&mut self, entry: Entry) -> u32 {
        if self.free == NIL {
            self.slab.push(entry);
            return self.slab.len() as u32 - 1;
        }
        let at = self.free;
        self.free = self.slab[at as usize].next;
        self.slab[at as usize] = entry;
        at
    }

    /// Takes the entry out of the slab; also says what follows it in its slot.
    fn give(&mut self, at: u32) -> (Entry, u32) {
        let entry = self.slab[at as usize];
        self.slab[at as usize].next = self.free;
        self.free = at;
        (entry, entry.next)
    }

    /// Fills `present` with the earliest non-empty slot; false when there is none.
    fn advance(&mut self) -> bool {
        while self.present.is_empty() {
            let round = self.slot / NEAR_SLOTS as u64;
            let end = (round + 1) * NEAR_SLOTS as u64;
            if let Some(slot) = self.near.first(self.slot, end) {
                self.slot = slot + 1;
                self.open(slot);
                // The last slot of a round begins the next one.
                if self.slot == end {
                    self.unroll(round + 1);
                }
            } else if let Some(far) = self.far.first(round + 1, round + FAR_SLOTS as u64) {
                self.slot = far * NEAR_SLOTS as u64;
                self.unroll(far);
            } else if let Some(first) = self.beyond.iter().map(|entry| far_slot(entry.time)).min() {
                self.slot = first * NEAR_SLOTS as u64;
                self.unroll(first);
            } else {
                return false;
            }
        }
        true
    }

    /// Moves a near slot into `present`, latest first.
    fn open(&mut self, slot: u64) {
        let mut at = self.near.take(slot);
        while at != NIL {
            let (entry, next) = self.give(at);
            self.present.push(entry);
            at = next;
        }
        if self.present.len() > 1 {
            self.present.sort_unstable_by_key(|entry| std::cmp::Reverse((entry.time, entry.sequence)));
        }
    }

    /// Begins a round: its far slot goes to the near ring, and what has come
    /// within reach of the far ring goes there.
    fn unroll(&mut self, round: u64) {
        let mut at = self.far.take(round);
        while at != NIL {
            let (entry, next) = self.give(at);
            self.place(entry);
            at = next;
        }
        if self.beyond.is_empty() {
            return;
        }
        let reach = round + FAR_SLOTS as u64;
        let mut index = 0;
        while index < self.beyond.len() {
            if far_slot(self.beyond[index].time) < reach {
                let entry = self.beyond.swap_remove(index);
                self.place(entry);
            } else {
                index += 1;
            }
        }
    }

    /// Takes the earliest event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(TimeNs, Event)> {
        if self.present.is_empty() && !self.advance() {
            return None;
        }
        self.present.pop().map(|entry| (entry.time, Event::unpack(entry.event)))
    }

    /// When the earliest event happens.
    #[inline]
    pub(crate) fn next_time(&mut self) -> Option<TimeNs> {
        if self.present.is_empty() && !self.advance() {
            return None;
        }
        self.present.last().map(|entry| entry.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Prng;

    #[test]
    fn a_word_holds_any_event() {
        let (cpu, generation) = (CpuId(1023), u32::MAX - 1);
        let task = TaskId(u32::MAX - 2);
        for event in [
            Event::Work { cpu, generation },
            Event::Tick { cpu },
            Event::Ipi { cpu },
            Event::Timer { timer: 77_777, generation },
            Event::Exec { cpu, event: exec::Event::Timeout(task) },
            Event::Watchdog,
            Event::Change { index: 5 },
            Event::Disable,
            Event::User { turn: 7 },
        ] {
            assert_eq!(Event::unpack(event.pack()), event);
        }
    }

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
                    assert_eq!(queue.next_time(), Some(expected.0));
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
