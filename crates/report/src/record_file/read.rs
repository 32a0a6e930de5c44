//! Reading a record: its results at once, its events as often as they are wanted.

use super::{About, BLOCK, CHUNK_MOST, MAGIC, NAMED, PRINTED, RunHead, Tag, course_in};
use crate::json::{Document, from_json};
use flate2::read::ZlibDecoder;
use prost::encoding::decode_varint;
use schedlab_base::{CpuId, TaskId, TimeNs};
use schedlab_trace::{Event, EventKind, Sink};
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It begins with something else.
    #[error("it is no record: it does not begin with 'schedlab record 1'{}", found.as_ref().map(|found| format!(" but with '{found}', which another version wrote")).unwrap_or_default())]
    NoRecord {
        /// The first line of a record of another version.
        found: Option<String>,
    },
    /// Something is missing at its end.
    #[error("the record is cut off at byte {0}: the command that wrote it did not end")]
    CutOff(u64),
    /// A chunk holds what no record has.
    #[error("the record is broken at byte {at}: {what}")]
    Broken {
        /// Where the chunk begins.
        at: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The system does not read it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A chunk in the file.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    at: u64,
    tag: Tag,
    length: u32,
}

/// A record that is open.
#[derive(Debug)]
pub struct Record<R: Read + Seek> {
    file: BufReader<R>,
    runs: Vec<(RunHead, Vec<Chunk>)>,
    /// The results of all runs, with everything that was recorded.
    pub document: Document,
    /// How views are made of them.
    pub about: About,
}

impl<R: Read + Seek> Record<R> {
    /// Reads everything but the events.
    ///
    /// # Errors
    /// A file that is no record of this version, or is not whole.
    pub fn open(file: R) -> Result<Record<R>, RecordError> {
        let mut file = BufReader::new(file);
        begins(&mut file)?;
        let mut runs: Vec<(RunHead, Vec<Chunk>)> = Vec::new();
        let (mut document, mut about) = (None, None);
        while about.is_none() {
            let chunk = next(&mut file)?;
            match chunk.tag {
                Tag::Run => {
                    let head: RunHead = json(chunk, &content(&mut file, chunk)?)?;
                    if head.cpus > MOST_CPUS as usize {
                        return Err(broken(chunk, format!("{} CPUs, at most {MOST_CPUS}", head.cpus)));
                    }
                    runs.push((head, Vec::new()));
                }
                Tag::Events => {
                    let (_, chunks) = runs.last_mut().ok_or_else(|| broken(chunk, "events before a run"))?;
                    chunks.push(chunk);
                    let length = i64::from(chunk.length);
                    file.seek_relative(length)?;
                }
                Tag::Results => {
                    let text = content(&mut file, chunk)?;
                    let text = String::from_utf8(text).map_err(|error| broken(chunk, error))?;
                    document = Some(from_json(&text).map_err(|error| broken(chunk, error))?);
                }
                Tag::About => about = Some((chunk, content(&mut file, chunk)?)),
            }
        }
        let (chunk, about) = about.expect("the loop ends with it");
        let about: About = json(chunk, &about)?;
        let mut document = document.ok_or_else(|| broken(chunk, "there are no results before it"))?;
        for (run, courses) in document.runs.iter_mut().zip(&about.priorities) {
            run.priorities = courses.iter().map(|points| course_in(points)).collect();
        }
        Ok(Record { file, runs, document, about })
    }

    /// The runs whose events are kept.
    pub fn runs(&self) -> Vec<RunHead> {
        self.runs.iter().map(|(head, _)| head.clone()).collect()
    }

    /// Gives the events of one of [`Record::runs`] to a sink, in order.
    ///
    /// # Errors
    /// A chunk that is broken.
    pub fn replay(&mut self, index: usize, sink: &mut dyn Sink) -> Result<(), RecordError> {
        let (_, chunks) = &self.runs[index];
        let mut last = TimeNs::ZERO;
        for chunk in chunks {
            self.file.seek(SeekFrom::Start(chunk.at + HEADER))?;
            let block = content(&mut self.file, *chunk)?;
            let mut rest = block.as_slice();
            while !rest.is_empty() {
                row(&mut rest, &mut last, sink).ok_or_else(|| broken(*chunk, "it holds no events"))?;
            }
        }
        Ok(())
    }
}

/// Bytes in front of a chunk's content.
const HEADER: u64 = 5;

fn broken(chunk: Chunk, what: impl ToString) -> RecordError {
    RecordError::Broken { at: chunk.at, what: what.to_string() }
}

fn begins(file: &mut impl Read) -> Result<(), RecordError> {
    let mut begin = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut begin)?;
    if begin == MAGIC {
        return Ok(());
    }
    let line = String::from_utf8(begin).ok().filter(|line| line.starts_with("schedlab record "));
    Err(RecordError::NoRecord { found: line.map(|line| line.trim_end().to_string()) })
}

/// The next chunk, up to its content.
fn next(file: &mut (impl Read + Seek)) -> Result<Chunk, RecordError> {
    let at = file.stream_position()?;
    let mut header = [0; HEADER as usize];
    exact(file, &mut header)?;
    let [tag, length @ ..] = header;
    let chunk = |tag| Chunk { at, tag, length: u32::from_le_bytes(length) };
    let tag = Tag::ALL.into_iter().find(|known| *known as u8 == tag);
    tag.map(chunk).ok_or_else(|| RecordError::Broken { at, what: "no such chunk".to_string() })
}

fn exact(file: &mut (impl Read + Seek), bytes: &mut [u8]) -> Result<(), RecordError> {
    match file.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(RecordError::CutOff(file.stream_position()?))
        }
        result => Ok(result?),
    }
}

/// The content of a chunk that the file stands at.
fn content(file: &mut (impl Read + Seek), chunk: Chunk) -> Result<Vec<u8>, RecordError> {
    let most = if chunk.tag == Tag::Events { 8 * BLOCK as u64 } else { CHUNK_MOST };
    let mut packed = file.by_ref().take(u64::from(chunk.length));
    let mut bytes = Vec::new();
    let read = ZlibDecoder::new(&mut packed).take(most + 1).read_to_end(&mut bytes);
    // What the decoder has not read belongs to the chunk all the same.
    let short = packed.limit() > 0 && io::copy(&mut packed, &mut io::sink())? == 0 && packed.limit() > 0;
    if short {
        return Err(RecordError::CutOff(file.stream_position()?));
    }
    read.map_err(|error| broken(chunk, error))?;
    if bytes.len() as u64 > most {
        return Err(broken(chunk, format!("it holds more than {most} bytes")));
    }
    Ok(bytes)
}

fn json<T: serde::de::DeserializeOwned>(chunk: Chunk, bytes: &[u8]) -> Result<T, RecordError> {
    serde_json::from_slice(bytes).map_err(|error| broken(chunk, error))
}

/// Reads an event, a name or a line; nothing where there is none.
fn row(rest: &mut &[u8], last: &mut TimeNs, sink: &mut dyn Sink) -> Option<()> {
    let mut word = || decode_varint(rest).ok();
    let (tag, cpu, since, a, b) = (word()?, word()?, word()?, word()?, word()?);
    let since = (since >> 1) ^ (since & 1).wrapping_neg();
    let time = TimeNs(last.0.wrapping_add(since));
    let cpu = CpuId(u32::try_from(cpu).ok().filter(|cpu| *cpu < MOST_CPUS)?);
    *last = time;
    match tag {
        NAMED => sink.named(TaskId(u32::try_from(a).ok()?), text(rest)?),
        PRINTED => {
            let task = a.checked_sub(1).map(|task| u32::try_from(task).map(TaskId)).transpose().ok()?;
            sink.printed(time, cpu, task, text(rest)?);
        }
        _ => {
            let kind = EventKind::from_words(tag, a, b)?;
            let known = tasks(&kind).into_iter().flatten().all(|task| task.0 < MOST_TASKS);
            known.then(|| sink.event(&Event { time, cpu, kind }))?;
        }
    }
    Some(())
}

/// The tasks that an event names.
fn tasks(kind: &EventKind) -> [Option<TaskId>; 2] {
    match *kind {
        EventKind::Fork { parent, child } => [parent, Some(child)],
        EventKind::SchedWakeup { task, waker, .. } => [Some(task), waker],
        EventKind::SchedSwitch { prev, next, .. } => [prev, next],
        EventKind::Schedule { next, .. } => [next, None],
        EventKind::SchedMigrate { task, .. }
        | EventKind::Exit { task }
        | EventKind::Call { task, .. }
        | EventKind::Priority { task, .. }
        | EventKind::DsqInsert { task, .. } => [Some(task), None],
    }
}

/// Numbers of tasks that a record may have; sinks keep a place for each. Chosen: four times Linux's largest thread id.
const MOST_TASKS: u32 = 1 << 24;

/// CPUs that a record may name; sinks keep a place for each. Chosen: more than Linux has (8192).
const MOST_CPUS: u32 = 1 << 16;

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    std::str::from_utf8(text).ok()
}
