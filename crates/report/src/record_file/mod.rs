//! A record: the events and the results of runs in one file, of which every view can be made later.
//!
//! A record begins with the line [`MAGIC`]. Chunks follow it: a tag (one byte), the length of the content (four bytes, little
//! endian), and the content, compressed as zlib does. Each run whose events are kept has one [`Tag::Run`] chunk (JSON, a
//! [`RunHead`]) with the [`Tag::Events`] chunks behind it. One [`Tag::Results`] chunk follows (what `--json` writes), and one
//! [`Tag::About`] chunk (JSON, [`About`]) ends the record. A record without it was cut off.
//!
//! An events chunk is a sequence of varints, five for each event. They are the event's tag and its CPU, the time since the
//! event before it (ns, zigzag), and the two words of [`schedlab_trace::EventKind::words`]. Two tags are none of an event:
//! [`NAMED`] gives a task its name, [`PRINTED`] is a line that the scheduler printed. Text is a length and its bytes.

mod read;
mod write;

pub use read::{Record, RecordError};
pub use write::{RecordSink, RecordWriter};

use schedlab_trace::waits::Party;
use schedlab_trace::{PriorityCourse, PriorityPoint};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The first line, with the version of the form.
pub(crate) const MAGIC: &[u8] = b"schedlab record 1\n";

/// Bytes of events in one chunk, before they are compressed. Chosen: what a reader keeps in memory at a time.
pub(crate) const BLOCK: usize = 256 << 10;

/// Most bytes that a chunk holds when it is not compressed. Chosen: as the longest input of any kind.
pub(crate) const CHUNK_MOST: u64 = 256 << 20;

/// A task has a name from now on.
pub(crate) const NAMED: u64 = 64;

/// A line that the scheduler printed.
pub(crate) const PRINTED: u64 = 65;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// The beginning of a run whose events follow.
    Run = 1,
    /// Events.
    Events = 2,
    /// The results of all runs.
    Results = 3,
    /// How the views are made of them.
    About = 4,
}

impl Tag {
    pub(crate) const ALL: [Tag; 4] = [Tag::Run, Tag::Events, Tag::Results, Tag::About];
}

/// The command that made a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordOf {
    /// One run: `sim` or `run`.
    #[default]
    Run,
    /// Schedulers compared: `compare`.
    Comparison,
}

/// What a reader of a run's events has to know beforehand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHead {
    /// Number of the run in the results, from 0.
    pub run: usize,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Clock of the machine's CPUs in MHz, 0 where it is not known.
    pub clock_mhz: u32,
    /// The thread id of task 0.
    pub first_pid: i32,
    /// The tasks of the start; none where the events name them.
    #[serde(default, with = "parties")]
    pub parties: Vec<Party>,
}

/// Which of a run's tables a view shows only where it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraTables {
    /// The scheduler's maps and changed integers: `-v`.
    pub contents: Range<usize>,
    /// Moved cache lines one by one: `--profile-lines`.
    pub lines: Range<usize>,
}

/// What the views need besides the results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// What was recorded.
    pub of: RecordOf,
    /// The version of the command.
    pub version: String,
    /// The command, as for a shell.
    pub command: String,
    /// Events of a real kernel that were lost.
    pub lost: u64,
    /// What stands behind the tables of a comparison: runs that are lost.
    #[serde(default)]
    pub notes: String,
    /// The metrics of each workload's own, in the order of the comparison's workloads.
    pub own: Vec<(String, Vec<String>)>,
    /// By run; empty where no table is an extra.
    pub extra_tables: Vec<ExtraTables>,
    /// The course of the tasks' priorities by run: time (ns), priority, and 1 for a task that runs.
    pub priorities: Vec<Vec<Vec<(u64, i64, u8)>>>,
}

/// A course as a record has it.
pub fn course_out(course: &PriorityCourse) -> Vec<(u64, i64, u8)> {
    course.points.iter().map(|point| (point.at.0, point.priority, u8::from(point.running))).collect()
}

fn course_in(points: &[(u64, i64, u8)]) -> PriorityCourse {
    let point = |&(at, priority, running): &(u64, i64, u8)| PriorityPoint {
        at: schedlab_base::TimeNs(at),
        priority,
        running: running != 0,
    };
    PriorityCourse::of(points.iter().map(point).collect())
}

/// Parties as JSON: rows of name, thread, process and priority.
mod parties {
    use schedlab_trace::waits::Party;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(parties: &[Party], to: S) -> Result<S::Ok, S::Error> {
        let row = |party: &Party| (party.name.clone(), party.thread, party.process, party.prio);
        parties.iter().map(row).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Party>, D::Error> {
        let rows: Vec<(String, i32, i32, i32)> = Vec::deserialize(from)?;
        let party = |(name, thread, process, prio)| Party { name, thread, process, prio };
        Ok(rows.into_iter().map(party).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Document, to_json};
    use schedlab_base::{CpuId, TaskId, TimeNs};
    use schedlab_trace::{Event, EventKind, Sink};
    use std::io::Cursor;

    fn events(count: u64) -> Vec<Event> {
        let event = |at: u64| Event {
            // The clocks of CPUs may be apart.
            time: TimeNs(1_000_000 + 500 * at - if at.is_multiple_of(3) { 900 } else { 0 }),
            cpu: CpuId((at % 3) as u32),
            kind: EventKind::Exit { task: TaskId(at as u32) },
        };
        (0..count).map(event).collect()
    }

    fn head(run: usize) -> RunHead {
        let party = Party { name: "hog/0".into(), thread: 1001, process: 1001, prio: 120 };
        RunHead { run, cpus: 3, clock_mhz: 700, first_pid: 1001, parties: vec![party] }
    }

    fn written(events: &[Event]) -> Vec<u8> {
        let mut sink = RecordSink::new(RecordWriter::new(Vec::new()), &head(0));
        sink.named(TaskId(5), "five");
        events.iter().for_each(|event| sink.event(event));
        sink.printed(TimeNs(3), CpuId(1), None, "hello");
        let mut writer = sink.finish();
        writer.results(
            &to_json(&Document::default()),
            &About { command: "schedlab sim".into(), ..About::default() },
        );
        writer.finish().unwrap()
    }

    #[derive(Default)]
    struct Seen(Vec<Event>, Vec<String>);

    impl Sink for Seen {
        fn event(&mut self, event: &Event) {
            self.0.push(*event);
        }
        fn named(&mut self, task: TaskId, name: &str) {
            self.1.push(format!("{} {name}", task.0));
        }
        fn printed(&mut self, time: TimeNs, cpu: CpuId, task: Option<TaskId>, text: &str) {
            self.1.push(format!("{} {} {task:?} {text}", time.0, cpu.0));
        }
    }

    #[test]
    fn events_of_many_blocks_come_back() {
        let all = events(100_000);
        let bytes = written(&all);
        let mut record = Record::open(Cursor::new(bytes)).unwrap();
        assert_eq!(record.about.command, "schedlab sim");
        assert_eq!(record.runs(), [head(0)]);
        let mut seen = Seen::default();
        record.replay(0, &mut seen).unwrap();
        assert!(seen.0 == all);
        assert_eq!(seen.1, ["5 five", "3 1 None hello"]);
    }

    #[test]
    fn a_record_that_is_cut_off_or_broken_is_refused_by_its_place() {
        let bytes = written(&events(10));
        for length in 0..bytes.len() {
            let error = Record::open(Cursor::new(&bytes[..length])).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("cut off") || error.contains("no record"), "{error}");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x55;
            // Whatever is broken, nothing panics.
            if let Ok(mut record) = Record::open(Cursor::new(bytes)) {
                let _ = record.replay(0, &mut Seen::default());
            }
        }
    }

    #[test]
    fn more_cpus_than_there_can_be_are_refused() {
        let sink = RecordSink::new(RecordWriter::new(Vec::new()), &RunHead { cpus: 1 << 40, ..head(0) });
        let mut writer = sink.finish();
        writer.results(&to_json(&Document::default()), &About::default());
        let bytes = writer.finish().unwrap();
        let error = Record::open(Cursor::new(bytes)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("CPUs, at most 65536"), "{error}");
    }

    #[test]
    fn another_version_is_named() {
        let error = Record::open(Cursor::new(b"schedlab record 7\n")).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("schedlab record 7") && error.contains('1'), "{error}");
    }
}
