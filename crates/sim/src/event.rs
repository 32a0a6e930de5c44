//! The event queue: a 4-ary heap ordered by (time, sequence).
//!
//! Events are never removed; a stale one is recognised by its generation when
//! it is popped. Pending events are bounded by the tasks and CPUs, not by time.

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
    /// The helper thread that removes a scheduler runs.
    Disable,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: TimeNs,
    sequence: u64,
    event: Event,
}

impl Entry {
    fn before(&self, other: &Entry) -> bool {
        (self.time, self.sequence) < (other.time, other.sequence)
    }
}

/// Pending events, earliest first; equal times in the order of pushing.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: Vec<Entry>,
    sequence: u64,
}

impl EventQueue {
    /// Adds an event.
    pub(crate) fn push(&mut self, time: TimeNs, event: Event) {
        let entry = Entry { time, sequence: self.sequence, event };
        self.sequence += 1;
        let mut at = self.heap.len();
        self.heap.push(entry);
        while at > 0 {
            let parent = (at - 1) / 4;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = entry;
    }

    /// Takes the earliest event.
    pub(crate) fn pop(&mut self) -> Option<(TimeNs, Event)> {
        let first = *self.heap.first()?;
        let last = self.heap.pop().expect("the heap has a first entry");
        if !self.heap.is_empty() {
            self.sink(last);
        }
        Some((first.time, first.event))
    }

    /// Places `entry` from the root downwards.
    fn sink(&mut self, entry: Entry) {
        let len = self.heap.len();
        let mut at = 0;
        loop {
            let child = at * 4 + 1;
            if child >= len {
                break;
            }
            let mut least = child;
            for other in child + 1..(child + 4).min(len) {
                if self.heap[other].before(&self.heap[least]) {
                    least = other;
                }
            }
            if !self.heap[least].before(&entry) {
                break;
            }
            self.heap[at] = self.heap[least];
            at = least;
        }
        self.heap[at] = entry;
    }

    /// When the earliest event happens.
    pub(crate) fn next_time(&self) -> Option<TimeNs> {
        self.heap.first().map(|entry| entry.time)
    }

    /// The number of pending events, stale ones included.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Prng;

    #[test]
    fn pops_by_time_then_sequence() {
        let mut queue = EventQueue::default();
        let mut prng = Prng::new(3);
        for cpu in 0..2000 {
            queue.push(TimeNs(prng.below(50)), Event::Tick { cpu: CpuId(cpu) });
        }
        assert_eq!(queue.len(), 2000);
        let mut last = (TimeNs(0), 0);
        while let Some((time, Event::Tick { cpu })) = queue.pop() {
            assert!(time > last.0 || (time == last.0 && cpu.0 >= last.1));
            last = (time, cpu.0);
        }
        assert_eq!(queue.len(), 0);
    }
}
