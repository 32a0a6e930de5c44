//! The switches and wakeups of a run, one by one: a BPF program hands them over in a ring buffer, which is emptied into a
//! file without a name during the run, so that memory does not grow.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::os::fd::RawFd;

use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_trace::{Event, EventKind, Sink, TaskState};

use crate::exec::Window;
use crate::load::{LoadError, Ring, Watcher};

/// The object file; empty where no compiler was at hand.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/events.bpf.o"));

/// `struct event` of the program's source.
const EVENT_SIZE: usize = 64;
/// The kinds of events.
const SWITCH: u32 = 1;
const WAKEUP: u32 = 2;
/// Bits of a task's state in the kernel: `TASK_UNINTERRUPTIBLE`, and those of tasks that are gone (`EXIT_DEAD`,
/// `EXIT_ZOMBIE`, `TASK_DEAD`).
const UNINTERRUPTIBLE: u32 = 2;
const GONE: u32 = 0x10 | 0x20 | 0x80;

/// The attached program; it is gone when this is dropped.
pub(crate) struct EventWatcher {
    watcher: Watcher,
    spool: RefCell<Spool>,
}

/// Where events lie until the run is over.
struct Spool {
    ring: Ring,
    out: BufWriter<File>,
    failed: Option<io::Error>,
}

impl EventWatcher {
    /// Attaches the program; it tells nothing yet.
    ///
    /// # Errors
    /// No privilege, a build without the program, a kernel that refuses it.
    pub(crate) fn start() -> Result<EventWatcher, LoadError> {
        let watcher = Watcher::start_wanted("events", OBJECT)?;
        let spool = tempfile::tempfile().map_err(LoadError::NoSpool)?;
        let ring = watcher.ring().map_err(LoadError::NoSpool)?;
        let spool = Spool { ring, out: BufWriter::new(spool), failed: None };
        Ok(EventWatcher { watcher, spool: RefCell::new(spool) })
    }

    /// Descriptors that keep it attached.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.watcher.descriptors()
    }

    /// Empties the ring buffer into the file. To be called often, or events find no room.
    pub(crate) fn drain(&self) {
        let mut spool = self.spool.borrow_mut();
        let Spool { ring, out, .. } = &mut *spool;
        if let Err(error) = ring.drain().and_then(|events| out.write_all(&events)) {
            spool.failed.get_or_insert(error);
        }
    }

    /// The events of a run of this length that began at `begin_ns` of the monotonic clock; `names` are those of its
    /// threads.
    ///
    /// # Errors
    /// The file could not be written.
    pub(crate) fn finish(
        self,
        begin_ns: u64,
        elapsed: DurationNs,
        names: BTreeMap<u32, String>,
    ) -> io::Result<Recording> {
        self.drain();
        let lost = self.watcher.read("nr_lost").first().copied().unwrap_or(0);
        let Spool { out, failed, .. } = self.spool.into_inner();
        let file = failed.map_or_else(|| out.into_inner().map_err(|error| error.into_error()), Err)?;
        Ok(Recording { file, begin_ns, end: TimeNs::ZERO + elapsed, lost, names })
    }
}

impl Window for EventWatcher {
    fn follow(&self, _leader: u32) {}

    fn open(&self, _begin_ns: u64) {
        self.watcher.write("active", 1);
    }

    fn close(&self) {
        self.watcher.write("active", 0);
    }
}

/// The switches and wakeups of a run on a real kernel, those of all tasks of the machine.
#[derive(Debug)]
pub struct Recording {
    file: File,
    begin_ns: u64,
    /// When the run ended, since it began.
    pub end: TimeNs,
    /// Events that found no room in the ring buffer, and are missing.
    pub lost: u64,
    /// What tasks are called, by thread id; others have the names that the kernel knows.
    names: BTreeMap<u32, String>,
}

impl Recording {
    /// Tells the events to `sink`, each task's name before its switches. A task's number is its thread id. Times count from
    /// the beginning of the run and end with it; they never go back on a CPU.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn replay(&self, sink: &mut dyn Sink) -> io::Result<()> {
        let mut file = &self.file;
        file.rewind()?;
        let mut file = BufReader::new(file);
        let mut bytes = [0; EVENT_SIZE];
        loop {
            match file.read_exact(&mut bytes) {
                Ok(()) => self.tell(&Told(&bytes), sink),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn tell(&self, told: &Told<'_>, sink: &mut dyn Sink) {
        let time = TimeNs(told.time().saturating_sub(self.begin_ns)).min(self.end);
        let mut task = |pid: u32, comm: &str| {
            let name = self.names.get(&pid).map_or(comm, String::as_str);
            (pid != 0).then(|| {
                sink.named(TaskId(pid), name);
                TaskId(pid)
            })
        };
        let cpu = CpuId(told.number(12));
        let kind = match told.number(8) {
            SWITCH => {
                let (prev, next) = (told.number(16), told.number(20));
                let (prev, next) = (task(prev, &told.comm(32)), task(next, &told.comm(48)));
                Some(EventKind::SchedSwitch { prev, prev_state: state(told.number(24)), next })
            }
            WAKEUP => {
                let waker = Some(told.number(20)).filter(|pid| *pid != 0).map(TaskId);
                let woken = task(told.number(16), &told.comm(32));
                woken.map(|task| EventKind::SchedWakeup { task, cpu, waker })
            }
            _ => None,
        };
        if let Some(kind) = kind {
            sink.event(&Event { time, cpu, kind });
        }
    }
}

/// The bytes of `struct event`.
struct Told<'a>(&'a [u8; EVENT_SIZE]);

impl Told<'_> {
    fn time(&self) -> u64 {
        u64::from(self.number(0)) | u64::from(self.number(4)) << 32
    }

    /// The number of four bytes at a place.
    fn number(&self, at: usize) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }

    /// The name of a task at a place.
    fn comm(&self, at: usize) -> String {
        let text = self.0[at..at + 16].split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// What the kernel's bits of a task's state mean.
fn state(bits: u32) -> TaskState {
    match bits {
        0 => TaskState::Runnable,
        gone if gone & GONE != 0 => TaskState::Exited,
        bits if bits & UNINTERRUPTIBLE != 0 => TaskState::BlockedIo,
        _ => TaskState::Blocked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: u64, numbers: [u32; 6], comms: [&str; 2]) -> Vec<u8> {
        let mut bytes = time.to_le_bytes().to_vec();
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        for comm in comms {
            let mut field = [0; 16];
            field[..comm.len()].copy_from_slice(comm.as_bytes());
            bytes.extend(field);
        }
        assert_eq!(bytes.len(), EVENT_SIZE);
        bytes
    }

    #[derive(Default)]
    struct Kept(Vec<Event>, Vec<(u32, String)>);

    impl Sink for Kept {
        fn event(&mut self, event: &Event) {
            self.0.push(*event);
        }

        fn named(&mut self, task: TaskId, name: &str) {
            self.1.push((task.0, name.to_string()));
        }
    }

    #[test]
    fn events_are_read_as_the_program_writes_them() {
        let mut file = tempfile::tempfile().unwrap();
        let all = [
            event(1_100, [WAKEUP, 0, 70, 0, 0, 0], ["o", ""]),
            event(1_200, [SWITCH, 1, 0, 70, 0, 0], ["swapper/1", "o"]),
            event(1_300, [SWITCH, 1, 70, 99, 0x80, 0], ["o", "exactly sixteen!"]),
            event(9_999, [SWITCH, 1, 99, 0, 2, 0], ["exactly sixteen!", "swapper/1"]),
        ];
        file.write_all(&all.concat()).unwrap();
        let names = BTreeMap::from([(70, "hog/0".to_string())]);
        let recording = Recording { file, begin_ns: 1_000, end: TimeNs(5_000), lost: 0, names };
        let mut kept = Kept::default();
        recording.replay(&mut kept).unwrap();
        let at = |time, cpu, kind| Event { time: TimeNs(time), cpu: CpuId(cpu), kind };
        let switch = |prev: Option<u32>, prev_state, next: Option<u32>| {
            let (prev, next) = (prev.map(TaskId), next.map(TaskId));
            EventKind::SchedSwitch { prev, prev_state, next }
        };
        assert_eq!(
            kept.0,
            [
                at(100, 0, EventKind::SchedWakeup { task: TaskId(70), cpu: CpuId(0), waker: None }),
                at(200, 1, switch(None, TaskState::Runnable, Some(70))),
                at(300, 1, switch(Some(70), TaskState::Exited, Some(99))),
                at(5_000, 1, switch(Some(99), TaskState::BlockedIo, None)),
            ]
        );
        assert!(kept.1.iter().filter(|(pid, _)| *pid == 70).all(|(_, name)| name == "hog/0"));
        assert!(kept.1.contains(&(99, "exactly sixteen!".to_string())));
        assert_eq!((state(1), state(0x81)), (TaskState::Blocked, TaskState::Exited));
    }
}
