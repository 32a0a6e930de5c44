//! Writing a record while runs take place.

use super::{About, BLOCK, MAGIC, NAMED, PRINTED, RunHead, Tag};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use prost::encoding::encode_varint;
use schedlab_base::{CpuId, TaskId, TimeNs};
use schedlab_trace::{Event, Sink};
use std::io::{self, Write};

/// Writes the chunks of a record. The first error stops the output; [`RecordWriter::finish`] returns it.
#[derive(Debug)]
pub struct RecordWriter<W: Write> {
    out: W,
    failed: Option<io::Error>,
}

impl<W: Write> RecordWriter<W> {
    /// Begins a record.
    pub fn new(out: W) -> RecordWriter<W> {
        let mut writer = RecordWriter { out, failed: None };
        writer.bytes(MAGIC);
        writer
    }

    /// Writes the results (what `--json` writes), and how views are made of them.
    pub fn results(&mut self, json: &str, about: &About) {
        self.chunk(Tag::Results, json.as_bytes());
        self.json(Tag::About, about);
    }

    /// Flushes, and gives the output back.
    ///
    /// # Errors
    /// The first write error of the whole record.
    pub fn finish(mut self) -> io::Result<W> {
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn json(&mut self, tag: Tag, content: &impl serde::Serialize) {
        let json = serde_json::to_string(content).expect("plain data has a JSON form");
        self.chunk(tag, json.as_bytes());
    }

    fn chunk(&mut self, tag: Tag, content: &[u8]) {
        let packed = {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(content).and_then(|()| encoder.finish())
        };
        match packed.and_then(|packed| Ok((u32::try_from(packed.len()).map_err(io::Error::other)?, packed))) {
            Ok((length, packed)) => {
                self.bytes(&[tag as u8]);
                self.bytes(&length.to_le_bytes());
                self.bytes(&packed);
            }
            Err(error) => self.failed = self.failed.take().or(Some(error)),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(bytes).err();
        }
    }
}

/// Takes the events of one run into a record. Memory does not grow with the run.
#[derive(Debug)]
pub struct RecordSink<W: Write> {
    writer: RecordWriter<W>,
    block: Vec<u8>,
    /// The time of the event before.
    last: TimeNs,
}

impl<W: Write> RecordSink<W> {
    /// Begins a run.
    pub fn new(mut writer: RecordWriter<W>, head: &RunHead) -> RecordSink<W> {
        writer.json(Tag::Run, head);
        RecordSink { writer, block: Vec::with_capacity(BLOCK + 1024), last: TimeNs::ZERO }
    }

    /// Ends the run.
    pub fn finish(mut self) -> RecordWriter<W> {
        self.flush();
        self.writer
    }

    fn flush(&mut self) {
        if !self.block.is_empty() {
            self.writer.chunk(Tag::Events, &self.block);
            self.block.clear();
        }
    }

    fn row(&mut self, tag: u64, cpu: CpuId, time: TimeNs, words: [u64; 2]) {
        let since = time.0.wrapping_sub(self.last.0).cast_signed();
        // Zigzag: small numbers of either sign take few bytes.
        let since = ((since << 1) ^ (since >> 63)).cast_unsigned();
        self.last = time;
        for word in [tag, u64::from(cpu.0), since, words[0], words[1]] {
            encode_varint(word, &mut self.block);
        }
    }

    fn text(&mut self, text: &str) {
        encode_varint(text.len() as u64, &mut self.block);
        self.block.extend_from_slice(text.as_bytes());
        self.end_row();
    }

    fn end_row(&mut self) {
        if self.block.len() >= BLOCK {
            self.flush();
        }
    }
}

impl<W: Write> Sink for RecordSink<W> {
    fn event(&mut self, event: &Event) {
        let (tag, a, b) = event.kind.words();
        self.row(tag, event.cpu, event.time, [a, b]);
        self.end_row();
    }

    fn named(&mut self, task: TaskId, name: &str) {
        self.row(NAMED, CpuId(0), self.last, [u64::from(task.0), 0]);
        self.text(name);
    }

    fn printed(&mut self, time: TimeNs, cpu: CpuId, task: Option<TaskId>, text: &str) {
        let task = task.map_or(0, |task| u64::from(task.0) + 1);
        self.row(PRINTED, cpu, time, [task, 0]);
        self.text(text);
    }
}
