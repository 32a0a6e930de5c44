//! The lines that a scheduler prints with `bpf_printk()` during a run: a BPF program at the kernel's trace point hands
//! them over in a ring buffer. The first ones are kept, the others counted, so that a flood takes no memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::RawFd;

use schedlab_base::{CpuId, TimeNs};
use schedlab_trace::{Printed, PrintedLine};

use crate::load::{LoadError, Ring, Watcher};

/// The object file; empty where no compiler was at hand.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/printed.bpf.o"));

/// `struct line` of the program's source: its size, and where name and text begin.
const LINE_SIZE: usize = TEXT + 1024;
const COMM: usize = 16;
const TEXT: usize = 32;

/// Lines that are kept. Chosen: as many as of a simulated run.
const MAX_LINES: usize = 1000;

/// The attached program; it is gone when this is dropped.
pub(crate) struct PrintWatcher {
    watcher: Watcher,
    taken: RefCell<Taken>,
}

/// What has come out of the ring buffer.
struct Taken {
    ring: Ring,
    lines: Vec<Line>,
    count: u64,
}

/// A line as the kernel's program tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    /// On the monotonic clock.
    time_ns: u64,
    cpu: u32,
    thread: u32,
    comm: String,
    text: String,
}

impl PrintWatcher {
    /// Attaches the program, which hands lines over from now on.
    ///
    /// # Errors
    /// No privilege, a build without the program, a kernel that refuses it.
    pub(crate) fn start() -> Result<PrintWatcher, LoadError> {
        let watcher = Watcher::start_wanted("printed", OBJECT)?;
        let ring = watcher.ring().map_err(LoadError::NoSpool)?;
        watcher.write("active", 1);
        let taken = RefCell::new(Taken { ring, lines: Vec::new(), count: 0 });
        Ok(PrintWatcher { watcher, taken })
    }

    /// Descriptors that keep it attached.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.watcher.descriptors()
    }

    /// Empties the ring buffer. To be called often, or lines find no room.
    pub(crate) fn drain(&self) {
        let mut taken = self.taken.borrow_mut();
        // What cannot be read stays in the ring, or is counted there as lost.
        let bytes = taken.ring.drain().unwrap_or_default();
        for line in bytes.chunks_exact(LINE_SIZE) {
            taken.count += 1;
            if taken.lines.len() < MAX_LINES {
                taken.lines.push(read(line));
            }
        }
    }

    /// What was printed in a run that began at `begin_ns` of the monotonic clock; `names` are those of its threads.
    pub(crate) fn finish(self, begin_ns: u64, names: &[(i32, String)]) -> Printed {
        self.drain();
        let lost = self.watcher.read("nr_lost").first().copied().unwrap_or(0);
        let Taken { lines, count, .. } = self.taken.into_inner();
        let left_out = count - lines.len() as u64 + lost;
        Printed { lines: named(lines, begin_ns, names), left_out }
    }
}

/// The lines on the run's clock, with the workload's names of tasks; the others have those that the kernel knows.
fn named(lines: Vec<Line>, begin_ns: u64, names: &[(i32, String)]) -> Vec<PrintedLine> {
    let names: BTreeMap<u32, &String> =
        names.iter().map(|(thread, name)| (thread.cast_unsigned(), name)).collect();
    let line = |line: Line| PrintedLine {
        time: TimeNs(line.time_ns.saturating_sub(begin_ns)),
        cpu: CpuId(line.cpu),
        task: match (line.thread, names.get(&line.thread)) {
            (0, _) => String::new(),
            (_, Some(name)) => (*name).clone(),
            (_, None) => line.comm,
        },
        text: line.text,
    };
    lines.into_iter().map(line).collect()
}

/// A record of the ring buffer.
fn read(bytes: &[u8]) -> Line {
    let number = |at: usize, size: usize| {
        bytes[at..at + size].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let text = |part: &[u8]| {
        let text = part.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).trim_end_matches('\n').to_string()
    };
    Line {
        time_ns: number(0, 8),
        cpu: number(8, 4) as u32,
        thread: number(12, 4) as u32,
        comm: text(&bytes[COMM..TEXT]),
        text: text(&bytes[TEXT..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u64, cpu: u32, thread: u32, comm: &str, text: &str) -> Vec<u8> {
        let mut bytes = vec![0; LINE_SIZE];
        bytes[..8].copy_from_slice(&time.to_le_bytes());
        bytes[8..12].copy_from_slice(&cpu.to_le_bytes());
        bytes[12..16].copy_from_slice(&thread.to_le_bytes());
        bytes[COMM..COMM + comm.len()].copy_from_slice(comm.as_bytes());
        bytes[TEXT..TEXT + text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    #[test]
    fn lines_are_read_as_the_program_writes_them() {
        let lines = [
            record(900, 1, 0, "swapper/1", "begins"),
            record(1_700, 0, 70, "o", &"x".repeat(1023)),
            record(2_000, 0, 99, "kworker/0:1", "waits\n"),
        ];
        let lines = lines.iter().map(|bytes| read(bytes)).collect();
        let lines = named(lines, 1_000, &[(70, "hog/0".to_string())]);
        let of = |time, cpu, task: &str, text: &str| PrintedLine {
            time: TimeNs(time),
            cpu: CpuId(cpu),
            task: task.to_string(),
            text: text.to_string(),
        };
        assert_eq!(
            lines,
            [
                of(0, 1, "", "begins"),
                of(700, 0, "hog/0", &"x".repeat(1023)),
                of(1_000, 0, "kworker/0:1", "waits"),
            ]
        );
    }
}
