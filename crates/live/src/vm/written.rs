//! What a guest writes: files that QEMU appends to. They are cut while the guest runs, so that no guest fills the host's disk or our
//! memory; the end of each is kept.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use schedlab_base::Tail;

/// Bytes of the console and of the log that are kept each. Chosen: some ten thousand lines.
const KEPT: usize = 1 << 20;
/// Size from which on such a file is cut.
const ROOM: u64 = 4 << 20;
/// Most bytes of a line that are waited for.
const LINE: usize = 1 << 16;
/// Most bytes of results. Chosen: as much as of a file of results that is read again.
pub(super) const MOST_RESULTS: u64 = 256 << 20;

/// A file of text that grows.
pub(super) struct Written {
    path: PathBuf,
    /// How much of the present file has been read.
    at: u64,
    tail: Tail,
    /// A line that is not complete yet.
    line: Vec<u8>,
}

impl Written {
    pub(super) fn new(path: PathBuf) -> Written {
        Written { path, at: 0, tail: Tail::new(KEPT), line: Vec::new() }
    }

    /// Reads what has been added, and cuts the file if it has become long.
    pub(super) fn read(&mut self, see: &mut dyn FnMut(&str)) {
        // What is not there has nothing in it.
        let _ = self.read_new(see);
    }

    fn read_new(&mut self, see: &mut dyn FnMut(&str)) -> io::Result<()> {
        let file = File::options().read(true).write(true).open(&self.path)?;
        let length = file.metadata()?.len();
        let mut bytes = vec![0; LINE];
        while self.at < length {
            let part = &mut bytes[..(length - self.at).min(LINE as u64) as usize];
            file.read_exact_at(part, self.at)?;
            self.at += part.len() as u64;
            self.tail.push(part);
            for byte in part.iter() {
                self.line.push(*byte);
                if *byte == b'\n' || self.line.len() == LINE {
                    see(String::from_utf8_lossy(&self.line).trim_end());
                    self.line.clear();
                }
            }
        }
        if self.at >= ROOM && file.metadata()?.len() == self.at {
            file.set_len(0)?;
            self.at = 0;
        }
        Ok(())
    }

    /// What has been read: the last of it, behind a line that tells how much was left out.
    pub(super) fn text(&self) -> String {
        self.tail.text()
    }

    /// The lines written, without control characters and without empty ones.
    pub(super) fn lines(&self) -> Vec<String> {
        shown(&self.text())
    }
}

/// Lines for a message.
pub(super) fn shown(text: &str) -> Vec<String> {
    let visible = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
    text.lines().map(visible).filter(|line| !line.trim().is_empty()).collect()
}

/// The results so far; nothing if they are as long as at the last look.
///
/// # Errors
/// They are longer than [`MOST_RESULTS`].
pub(super) fn results(path: &Path, seen: &mut u64) -> Result<Option<Vec<u8>>, u64> {
    let length = fs::metadata(path).map_or(0, |about| about.len());
    if length == *seen {
        return Ok(None);
    }
    *seen = length;
    if length > MOST_RESULTS { Err(length) } else { Ok(Some(fs::read(path).unwrap_or_default())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_flood_is_cut_and_its_lines_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut guest = File::options().create(true).append(true).open(&path).unwrap();
        let (mut written, mut lines, mut longest) = (Written::new(path.clone()), 0u64, 0);
        for round in 0..100u64 {
            let text: String = (0..4000).map(|number| format!("{round} {number} of the guest\n")).collect();
            guest.write_all(text.as_bytes()).unwrap();
            written.read(&mut |line| {
                assert!(line.ends_with("of the guest"), "{line}");
                lines += 1;
            });
            longest = longest.max(fs::metadata(&path).unwrap().len());
        }
        assert_eq!(lines, 400_000);
        assert!(longest < ROOM + (1 << 17), "{longest}");
        let text = written.text();
        assert!(text.starts_with('[') && text.contains("bytes of output left out]\n"));
        assert!(text.len() < KEPT + 100 && text.ends_with("99 3999 of the guest\n"));
        // A line without an end is no memory without an end.
        guest.write_all(&[b'x'; 3 * LINE]).unwrap();
        let mut parts = 0;
        written.read(&mut |line| parts += line.len());
        assert!(parts >= 2 * LINE && written.line.len() <= LINE);
    }

    #[test]
    fn results_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        let (file, mut seen) = (File::create(&path).unwrap(), 0);
        assert_eq!(results(&path, &mut seen), Ok(None));
        file.set_len(3).unwrap();
        assert_eq!(results(&path, &mut seen), Ok(Some(vec![0; 3])));
        assert_eq!(results(&path, &mut seen), Ok(None));
        file.set_len(MOST_RESULTS + 1).unwrap();
        assert_eq!(results(&path, &mut seen), Err(MOST_RESULTS + 1));
    }
}
