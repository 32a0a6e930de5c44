//! The hash of a whole run.

use crate::event::{Event, Sink};
use std::fmt;

/// A 128-bit hash over every event of a run, in order. Two runs with equal
/// hashes had the same events at the same times. Not cryptographic: two
/// multiply-rotate lanes with different odd constants over a canonical encoding
/// of four words an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunHash {
    lanes: [u64; 2],
    events: u64,
}

const MULTIPLIERS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

impl Default for RunHash {
    fn default() -> RunHash {
        RunHash { lanes: [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344], events: 0 }
    }
}

impl RunHash {
    /// Adds one word.
    #[inline]
    pub fn word(&mut self, word: u64) {
        for (lane, multiplier) in self.lanes.iter_mut().zip(MULTIPLIERS) {
            *lane = (*lane ^ word).wrapping_mul(multiplier).rotate_left(29);
        }
    }

    /// Adds the words of an event. Events are made in many places, and the host waits for code: it is here once.
    #[inline(never)]
    fn add(&mut self, time: u64, place: u64, a: u64, b: u64) {
        self.events += 1;
        for word in [time, place, a, b] {
            self.word(word);
        }
    }

    /// The number of events hashed.
    pub fn events(&self) -> u64 {
        self.events
    }
}

impl Sink for RunHash {
    #[inline]
    fn event(&mut self, event: &Event) {
        let (tag, a, b) = event.kind.words();
        self.add(event.time.0, tag << 32 | u64::from(event.cpu.0), a, b);
    }
}

impl fmt::Display for RunHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = *self;
        last.word(self.events);
        write!(f, "{:016x}{:016x}", last.lanes[0], last.lanes[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use schedlab_base::{CpuId, TaskId, TimeNs};

    fn hash_of(events: &[Event]) -> String {
        let mut hash = RunHash::default();
        events.iter().for_each(|event| hash.event(event));
        hash.to_string()
    }

    #[test]
    fn order_time_and_place_matter() {
        let event = |time, cpu, task| Event {
            time: TimeNs(time),
            cpu: CpuId(cpu),
            kind: EventKind::Exit { task: TaskId(task) },
        };
        let (a, b) = (event(1, 0, 1), event(2, 0, 2));
        assert_eq!(hash_of(&[a, b]), hash_of(&[a, b]));
        assert_ne!(hash_of(&[a, b]), hash_of(&[b, a]));
        assert_ne!(hash_of(&[a]), hash_of(&[event(2, 0, 1)]));
        assert_ne!(hash_of(&[a]), hash_of(&[event(1, 1, 1)]));
        assert_ne!(hash_of(&[]), hash_of(&[a]));
    }
}
