//! Paths: what the loader finds at them, and the answers in the kernel's formats.

use crate::command::Command;
use crate::refusals::Refusals;
use crate::world::{Node, World};
use std::path::{Component, Path, PathBuf};

/// Folders of the host that programs need for their libraries, time zone and messages; nothing in them is private.
const SYSTEM: &[&str] = &[
    "/usr/lib",
    "/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/share/zoneinfo",
    "/usr/share/locale",
    "/usr/lib/locale",
];
/// Files of the host, alike.
const SYSTEM_FILES: &[&str] = &["/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/zero"];

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// To the host's own file, for reading.
    Host,
    /// To the simulated machine.
    World(Node),
    /// Bytes of the run's own chance.
    Random,
    /// Nowhere: the error.
    Nothing(i32),
}

/// Which files the loader may see.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) world: World,
    folder: String,
    own: Vec<PathBuf>,
    /// Paths that exist on the host and were refused.
    pub(crate) refused: Refusals,
}

impl Files {
    pub(crate) fn new(world: World, command: &Command) -> Files {
        let folder = std::env::current_dir().ok().and_then(|folder| folder.to_str().map(String::from));
        let mut own = command.named_files();
        own.push(command.program.clone());
        // Libraries may lie beside the program.
        own.extend(command.program.parent().map(Path::to_path_buf));
        Files { world, folder: folder.unwrap_or_else(|| "/".into()), own, refused: Refusals::default() }
    }

    /// A path without `.` and `..`, from the root; relative ones begin in `folder`, or in the working directory.
    pub(crate) fn normal(&self, path: &str, folder: Option<&str>) -> String {
        normal(path, folder.unwrap_or(&self.folder))
    }

    /// True if the host takes a path with `..` for another one than its normal form: links decide what that is above.
    pub(crate) fn leads_elsewhere(&self, text: &str, normal: &str) -> bool {
        let given = Path::new(&self.folder).join(text);
        let up = given.components().any(|part| part == Component::ParentDir);
        up && !World::owns(normal) && given.canonicalize().ok() != Path::new(normal).canonicalize().ok()
    }

    /// What is at a normal path.
    pub(crate) fn find(&mut self, path: &str, now: u64) -> Found {
        if matches!(path, "/dev/urandom" | "/dev/random") {
            return Found::Random;
        }
        if matches!(path, "/proc/self/exe" | "/proc/self/maps") {
            return Found::Host;
        }
        if World::owns(path) {
            return self.world.find(path, now).map_or(Found::Nothing(libc::ENOENT), Found::World);
        }
        if self.may_see(path) {
            return Found::Host;
        }
        if path == "/" || path == "/etc" || path == "/usr" || path == "/dev" {
            return Found::World(Node::Folder(Vec::new()));
        }
        if std::fs::symlink_metadata(path).is_ok() {
            self.refused.note(&format!("file {path}"));
            return Found::Nothing(libc::EACCES);
        }
        Found::Nothing(libc::ENOENT)
    }

    /// The number of what is at a normal path: of a group's directory the group's.
    pub(crate) fn number(&self, path: &str) -> u64 {
        self.world.groups.id(path).unwrap_or_else(|| inode(path))
    }

    /// True for a file of the host that programs need or that the command names. What a link leads to decides.
    fn may_see(&self, path: &str) -> bool {
        let allowed = |path: &Path| {
            SYSTEM.iter().any(|folder| path.starts_with(folder))
                || SYSTEM_FILES.iter().any(|file| path == Path::new(file))
                || self.own.iter().any(|own| path == own || own.is_dir() && path.parent() == Some(own))
        };
        let given = Path::new(path);
        let Ok(place) = given.canonicalize() else { return allowed(given) };
        allowed(given) && (allowed(&place) || place.starts_with("/usr"))
    }
}

/// A path without `.` and `..`, from the root; relative ones begin in `base`.
pub(crate) fn normal(path: &str, base: &str) -> String {
    let whole = if path.starts_with('/') { path.to_string() } else { format!("{base}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// `struct stat` of x86-64 for a file of this size, or a folder.
pub(crate) fn stat(node: &Node, number: u64) -> [u8; 144] {
    let (mode, size) = mode(node);
    let mut out = [0; 144];
    let mut put = |at: usize, value: u64| out[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(0, 1);
    put(8, number);
    put(16, 1);
    put(24, u64::from(mode));
    put(48, size);
    put(56, 4096);
    put(64, size.div_ceil(512));
    out
}

/// `struct statx` of the same.
pub(crate) fn statx(node: &Node, number: u64) -> [u8; 256] {
    /// `STATX_BASIC_STATS`.
    const BASIC: u32 = 0x7ff;
    let (mode, size) = mode(node);
    let mut out = [0; 256];
    out[0..4].copy_from_slice(&BASIC.to_le_bytes());
    out[4..8].copy_from_slice(&4096u32.to_le_bytes());
    out[16..20].copy_from_slice(&1u32.to_le_bytes());
    out[28..30].copy_from_slice(&(mode as u16).to_le_bytes());
    out[32..40].copy_from_slice(&number.to_le_bytes());
    out[40..48].copy_from_slice(&size.to_le_bytes());
    out[48..56].copy_from_slice(&size.div_ceil(512).to_le_bytes());
    out
}

fn mode(node: &Node) -> (u32, u64) {
    match node {
        Node::File(content) => (libc::S_IFREG | 0o444, content.len() as u64),
        Node::Folder(_) => (libc::S_IFDIR | 0o755, 0),
    }
}

/// A number for a path, as inodes have: the same for the same path.
pub(crate) fn inode(path: &str) -> u64 {
    path.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
        >> 8
        | 1
}

/// Entries of a folder as `getdents64` gives them, as many as fit into `room`, and how many those are. `number` is that of an entry.
pub(crate) fn entries(
    names: &[(String, bool)],
    number: impl Fn(&str) -> u64,
    read: usize,
    room: usize,
) -> (Vec<u8>, usize) {
    let dots = [(".".to_string(), true), ("..".to_string(), true)];
    let mut out = Vec::new();
    let mut count = read;
    for (name, folder) in dots.iter().chain(names).skip(read) {
        let length = (19 + name.len() + 1).next_multiple_of(8);
        if out.len() + length > room {
            break;
        }
        count += 1;
        let begin = out.len();
        out.extend_from_slice(&number(name).to_le_bytes());
        out.extend_from_slice(&(count as u64).to_le_bytes());
        out.extend_from_slice(&(length as u16).to_le_bytes());
        out.push(if *folder { libc::DT_DIR } else { libc::DT_REG });
        out.extend_from_slice(name.as_bytes());
        out.resize(begin + length, 0);
    }
    (out, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Machine;

    fn files() -> Files {
        let command = Command { program: "/bin/true".into(), words: vec!["true".into()] };
        Files::new(World::new(&Machine::uniform("m", 2), &[]), &command)
    }

    #[test]
    fn only_what_programs_need_is_the_hosts() {
        let mut files = files();
        assert_eq!(files.find("/etc/ld.so.cache", 0), Found::Host);
        assert_eq!(files.find("/etc/shadow", 0), Found::Nothing(libc::EACCES));
        assert_eq!(files.find("/proc/1/environ", 0), Found::Nothing(libc::ENOENT));
        assert_eq!(files.find("/no/such", 0), Found::Nothing(libc::ENOENT));
        assert_eq!(files.refused.names().next().as_deref(), Some("file /etc/shadow"));
        let sneaky = files.normal("/usr/lib/../../etc/shadow", None);
        assert_eq!(files.find(&sneaky, 0), Found::Nothing(libc::EACCES));
        assert_eq!(files.normal("cpu0//./x", Some("/sys/a/..")), "/sys/cpu0/x");
    }

    #[test]
    fn entries_come_in_pieces() {
        let names: Vec<(String, bool)> = (0..3).map(|number| (format!("cpu{number}"), true)).collect();
        let (first, read) = entries(&names, inode, 0, 80);
        assert_eq!((first.len(), read), (72, 3));
        let (rest, read) = entries(&names, inode, read, 80);
        assert_eq!((rest.len(), read), (48, 5));
        assert_eq!(entries(&names, inode, read, 80).0.len(), 0);
    }
}
