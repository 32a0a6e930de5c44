//! Watches of files (inotify): a loader that watches a folder of groups learns of groups that appear and go.
//!
//! Nothing else of the simulated machine's files changes by itself, so other watches report nothing. The loader reads from one
//! end of a pair of sockets, which keep the borders of what is written to the other end.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;

/// Bytes of `struct inotify_event` without the name, and what names are filled up to.
const HEAD: usize = 16;
/// Reports that wait for a loader; one more says that some are lost. The kernel's default (`max_queued_events`).
const MOST: usize = 16_384;
/// Bytes that the loader gets with one read at most: as many as a single report may take, which is the least that readers have
/// room for (`NAME_MAX` and the zero byte behind the head).
const PIECE: usize = HEAD + 256;

/// A folder of groups that has another content now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    /// The path of the group that has appeared or gone.
    pub(crate) path: String,
    /// The group has appeared.
    pub(crate) appeared: bool,
}

/// A watched path of an instance.
#[derive(Clone, Debug)]
struct Watched {
    number: i32,
    path: String,
    /// What it reports.
    mask: u32,
}

/// What a descriptor of inotify stands for.
#[derive(Debug)]
pub(crate) struct Watches {
    /// The end of the pair that reports are written to; nothing once the loader has closed its own.
    end: Option<File>,
    watched: Vec<Watched>,
    last: i32,
    /// Reports that have not been written.
    waiting: VecDeque<Vec<u8>>,
}

impl Watches {
    /// An instance whose reports are written to `end`.
    pub(crate) fn new(end: File) -> Watches {
        Watches { end: Some(end), watched: Vec::new(), last: 0, waiting: VecDeque::new() }
    }

    /// The loader has closed its end.
    pub(crate) fn stop(&mut self) {
        self.end = None;
        self.watched.clear();
        self.waiting.clear();
    }

    /// Watches a path, or has its watch report something else: the watch's number.
    pub(crate) fn add(&mut self, path: &str, mask: u32) -> i32 {
        if let Some(watched) = self.watched.iter_mut().find(|watched| watched.path == path) {
            let kept = if mask & libc::IN_MASK_ADD != 0 { watched.mask } else { 0 };
            watched.mask = kept | mask;
            return watched.number;
        }
        self.last += 1;
        self.watched.push(Watched { number: self.last, path: path.into(), mask });
        self.last
    }

    /// Ends the watch of this number; false if there is none.
    pub(crate) fn remove(&mut self, number: i32) -> bool {
        let Some(at) = self.watched.iter().position(|watched| watched.number == number) else { return false };
        self.watched.remove(at);
        self.report(number, libc::IN_IGNORED, "");
        true
    }

    /// Reports a change to the watches that it concerns.
    pub(crate) fn note(&mut self, change: &Changed) {
        let Some((folder, name)) = change.path.rsplit_once('/') else { return };
        let kind = if change.appeared { libc::IN_CREATE } else { libc::IN_DELETE };
        let concerned =
            |watched: &&Watched, path: &str, kind: u32| watched.path == path && watched.mask & kind != 0;
        let numbers: Vec<i32> = self
            .watched
            .iter()
            .filter(|watched| concerned(watched, folder, kind))
            .map(|watched| watched.number)
            .collect();
        for number in numbers {
            self.report(number, kind | libc::IN_ISDIR, name);
        }
        // The watch of a group that goes ends with the group.
        if !change.appeared
            && let Some(at) = self.watched.iter().position(|watched| watched.path == change.path)
        {
            let gone = self.watched.remove(at);
            if gone.mask & libc::IN_DELETE_SELF != 0 {
                self.report(gone.number, libc::IN_DELETE_SELF, "");
            }
            self.report(gone.number, libc::IN_IGNORED, "");
        }
    }

    fn report(&mut self, number: i32, mask: u32, name: &str) {
        match self.waiting.len() {
            MOST.. => {}
            len if len + 1 == MOST => self.waiting.push_back(event(-1, libc::IN_Q_OVERFLOW, "")),
            _ => self.waiting.push_back(event(number, mask, name)),
        }
    }

    /// Writes what the pair takes of what waits; true if it took anything.
    pub(crate) fn deliver(&mut self) -> bool {
        let Some(end) = &self.end else { return false };
        let mut any = false;
        while let Some(first) = self.waiting.front() {
            let mut piece = first.clone();
            let more = self.waiting.iter().skip(1).take_while(|next| {
                let fits = piece.len() + next.len() <= PIECE;
                if fits {
                    piece.extend_from_slice(next);
                }
                fits
            });
            let count = 1 + more.count();
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: the buffer lives across the call.
            let sent = unsafe { libc::send(end.as_raw_fd(), piece.as_ptr().cast(), piece.len(), flags) };
            if sent < 0 {
                break;
            }
            self.waiting.drain(..count);
            any = true;
        }
        any
    }
}

/// A report in the kernel's format: the name is filled up with zero bytes, of which there is at least one.
fn event(number: i32, mask: u32, name: &str) -> Vec<u8> {
    let length = if name.is_empty() { 0 } else { (name.len() + 1).next_multiple_of(HEAD) };
    let mut bytes = number.to_le_bytes().to_vec();
    for word in [mask, 0, length as u32] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(name.as_bytes());
    bytes.resize(HEAD + length, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::FromRawFd;

    fn pair() -> (Watches, File) {
        let mut ends = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK;
        // SAFETY: two numbers, which are descriptors of ours alone afterwards.
        let [own, other] = unsafe {
            assert_eq!(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()), 0);
            ends.map(|fd| File::from_raw_fd(fd))
        };
        (Watches::new(own), other)
    }

    fn change(path: &str, appeared: bool) -> Changed {
        Changed { path: path.into(), appeared }
    }

    /// The reports that can be read: number, mask, name.
    fn read(from: &mut File) -> Vec<(i32, u32, String)> {
        let (mut found, mut buffer) = (Vec::new(), [0; PIECE]);
        while let Ok(count) = from.read(&mut buffer) {
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
                let (number, mask, length) = (word(0) as i32, word(4), word(12) as usize);
                assert_eq!((word(8), length % HEAD), (0, 0));
                let name = String::from_utf8(rest[HEAD..HEAD + length].to_vec()).unwrap();
                found.push((number, mask, name.trim_end_matches('\0').to_string()));
                rest = &rest[HEAD + length..];
            }
        }
        found
    }

    #[test]
    fn a_folder_reports_what_appears_and_goes_in_it() {
        let (mut watches, mut end) = pair();
        let root = watches.add("/g", libc::IN_CREATE | libc::IN_DELETE);
        let a = watches.add("/g/a", libc::IN_CREATE | libc::IN_DELETE_SELF);
        assert_eq!((root, a, watches.add("/g/a", libc::IN_CREATE | libc::IN_MASK_ADD)), (1, 2, 2));
        for (path, appeared) in
            [("/g/b", true), ("/g/a/c", true), ("/g/a/c", false), ("/g/a", false), ("/g/a", true)]
        {
            watches.note(&change(path, appeared));
        }
        assert!(watches.deliver() && !watches.deliver());
        let folder = libc::IN_ISDIR;
        let wanted = [
            (root, libc::IN_CREATE | folder, "b"),
            (a, libc::IN_CREATE | folder, "c"),
            (root, libc::IN_DELETE | folder, "a"),
            (a, libc::IN_DELETE_SELF, ""),
            (a, libc::IN_IGNORED, ""),
            (root, libc::IN_CREATE | folder, "a"),
        ];
        assert_eq!(read(&mut end), wanted.map(|(number, mask, name)| (number, mask, name.to_string())));
        assert!(watches.remove(root) && !watches.remove(root) && watches.deliver());
        assert_eq!(read(&mut end), [(root, libc::IN_IGNORED, String::new())]);
        watches.note(&change("/g/d", true));
        assert!(!watches.deliver(), "no watch is left");
    }

    #[test]
    fn a_storm_ends_with_a_report_that_some_are_lost() {
        let (mut watches, mut end) = pair();
        watches.add("/g", libc::IN_CREATE);
        for number in 0..2 * MOST {
            watches.note(&change(&format!("/g/{number}"), true));
        }
        let mut found = Vec::new();
        while watches.deliver() {
            found.extend(read(&mut end));
        }
        assert_eq!(found.len(), MOST);
        assert_eq!(found[MOST - 2].2, (MOST - 2).to_string());
        assert_eq!(found[MOST - 1], (-1, libc::IN_Q_OVERFLOW, String::new()));
    }
}
