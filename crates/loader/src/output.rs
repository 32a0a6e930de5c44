//! What a loader writes to its output: a file in memory, of which the last part is kept.

use crate::start::memory_file;
use schedlab_base::Tail;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are kept. Chosen: some ten thousand lines.
const KEPT: u64 = 1 << 20;
/// Size from which on the file is cut. A single call writes up to the limit of the process's files behind that.
const ROOM: u64 = 4 * KEPT;

/// The output of a loader.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    /// What was cut off the file.
    before: Tail,
}

impl Output {
    pub(crate) fn new() -> io::Result<Output> {
        Ok(Output { file: memory_file(c"schedlab-output")?, before: Tail::new(KEPT as usize) })
    }

    /// Where the process writes.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Makes room for what is written next. The process appends, so it continues at the file's new end.
    pub(crate) fn make_room(&mut self) {
        if self.length() >= ROOM {
            self.before = self.tail();
            // A file that cannot be cut ends at the limit of the process's files.
            let _ = self.file.set_len(0);
        }
    }

    /// The last of what was written, behind a line that tells how much was left out.
    pub(crate) fn text(&self) -> String {
        self.tail().text()
    }

    fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |about| about.len())
    }

    fn tail(&self) -> Tail {
        let mut tail = self.before.clone();
        let length = self.length();
        let from = length.saturating_sub(KEPT);
        tail.skip(from);
        let mut bytes = vec![0; (length - from) as usize];
        let _ = self.file.read_exact_at(&mut bytes, from);
        tail.push(&bytes);
        tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// What was written comes back, the last of it where it is much, however it was cut meanwhile.
    #[test]
    fn the_end_is_kept_and_the_rest_counted() {
        let mut output = Output::new().unwrap();
        let mut writer = output.file().try_clone().unwrap();
        writer.write_all(b"begins\n").unwrap();
        output.make_room();
        assert_eq!(output.text(), "begins\n");
        let line = |number: u64| format!("line {number:>10}\n");
        let lines = 2_000_000;
        for first in (0..lines).step_by(1000) {
            output.make_room();
            writer.write_all((first..first + 1000).map(line).collect::<String>().as_bytes()).unwrap();
            assert!(output.length() < ROOM + 20_000, "the file stays small");
        }
        let text = output.text();
        let (first, kept) = text.split_once('\n').unwrap();
        let written = 7 + lines * line(0).len() as u64;
        assert_eq!(first, format!("[{} bytes of output left out]", written - KEPT));
        assert_eq!(kept.len() as u64, KEPT);
        let last: String = (lines - 60_000..lines).map(line).collect();
        assert!(kept.ends_with(&last), "nothing is missing between what was cut");
    }
}
