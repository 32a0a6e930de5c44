//! The guest's only file system: a cpio archive ("newc") with our own program and what it needs.
//!
//! The archive is not compressed: copying a few MB into the guest costs less than unpacking them
//! under emulation.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

/// Builder of a cpio archive in the "newc" format of Linux's initramfs.
pub(crate) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
    dirs: BTreeSet<String>,
}

const DIRECTORY: u32 = 0o040_755;
const CHARACTER_DEVICE: u32 = 0o020_600;
const REGULAR: u32 = 0o100_000;

impl Archive {
    /// An archive with the mount points and the console that a kernel expects.
    pub(crate) fn new() -> Archive {
        let mut archive = Archive { bytes: Vec::new(), inode: 0, dirs: BTreeSet::new() };
        for dir in ["dev", "proc", "sys", "tmp", "run", "root"] {
            archive.directory(dir);
        }
        archive.entry("dev/console", CHARACTER_DEVICE, (5, 1), &[]);
        archive.entry("dev/null", CHARACTER_DEVICE | 0o066, (1, 3), &[]);
        archive
    }

    /// Adds a file at an absolute path, and the directories above it.
    pub(crate) fn file(&mut self, path: &str, executable: bool, data: &[u8]) {
        let name = path.trim_start_matches('/');
        let mut at = 0;
        while let Some(slash) = name[at..].find('/') {
            self.directory(&name[..at + slash]);
            at += slash + 1;
        }
        let mode = REGULAR | if executable { 0o755 } else { 0o644 };
        self.entry(name, mode, (0, 0), data);
    }

    /// The finished archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn directory(&mut self, name: &str) {
        if self.dirs.insert(name.to_string()) {
            self.entry(name, DIRECTORY, (0, 0), &[]);
        }
    }

    /// Header: magic, then thirteen numbers of eight hex digits (inode, mode, uid, gid, links,
    /// mtime, size, device, device of a node, length of the name with its NUL, check); name and
    /// data are padded to four bytes.
    fn entry(&mut self, name: &str, mode: u32, node: (u32, u32), data: &[u8]) {
        self.inode += 1;
        let size = data.len() as u32;
        let name_size = name.len() as u32 + 1;
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, node.0, node.1, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
    }
}

/// A program with the shared libraries that it is linked with.
pub(crate) struct Bundle {
    /// The program, without sections that are not loaded (symbols, debug information).
    pub(crate) program: Vec<u8>,
    /// Interpreter and libraries, with the paths where they are looked for.
    pub(crate) libraries: Vec<(String, Vec<u8>)>,
    /// Directories of the libraries.
    pub(crate) library_dirs: Vec<String>,
}

impl Bundle {
    /// Collects a program; a static one has no libraries.
    pub(crate) fn of(path: &Path) -> io::Result<Bundle> {
        let bytes = fs::read(path)?;
        let elf = Elf::parse(&bytes).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "not a 64-bit little-endian ELF program")
        })?;
        let program = elf.loaded_part(&bytes);
        let mut bundle = Bundle { program, libraries: Vec::new(), library_dirs: Vec::new() };
        let Some(interpreter) = elf.interpreter(&bytes) else { return Ok(bundle) };
        let mut paths = BTreeSet::from([interpreter.clone()]);
        paths.extend(libraries_of(&interpreter, path)?);
        let dirs: BTreeSet<String> =
            paths.iter().filter_map(|p| Some(Path::new(p).parent()?.to_str()?.to_string())).collect();
        bundle.library_dirs = dirs.into_iter().collect();
        for library in paths {
            let data = fs::read(&library)?;
            let data = Elf::parse(&data).map_or_else(|| data.clone(), |elf| elf.loaded_part(&data));
            bundle.libraries.push((library, data));
        }
        Ok(bundle)
    }
}

/// Asks the dynamic linker which libraries a program loads, as `ldd` does.
fn libraries_of(interpreter: &str, program: &Path) -> io::Result<Vec<String>> {
    let program: PathBuf = fs::canonicalize(program)?;
    let listing = Command::new(interpreter).arg("--list").arg(program).stdin(Stdio::null()).output()?;
    if !listing.status.success() {
        let words = String::from_utf8_lossy(&listing.stderr).trim().to_string();
        return Err(io::Error::other(format!("{interpreter} --list: {words}")));
    }
    Ok(library_paths(&String::from_utf8_lossy(&listing.stdout)))
}

/// Absolute paths in a listing with lines like `libelf.so.1 => /lib/libelf.so.1 (0x7f...)`.
fn library_paths(listing: &str) -> Vec<String> {
    listing
        .lines()
        .filter_map(|line| {
            let line = line.trim().rsplit_once(" (0x").map_or(line.trim(), |(left, _)| left);
            let path = line.rsplit("=> ").next()?.trim();
            path.starts_with('/').then(|| path.to_string())
        })
        .collect()
}

/// The few fields of an ELF program that are of interest here.
struct Elf {
    /// Type, file offset, file size of each segment.
    segments: Vec<(u32, u64, u64)>,
}

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;

impl Elf {
    /// Program headers of a 64-bit little-endian file.
    fn parse(bytes: &[u8]) -> Option<Elf> {
        if bytes.get(..6)? != [0x7f, b'E', b'L', b'F', 2, 1] {
            return None;
        }
        let table = usize::try_from(u64_at(bytes, 32)?).ok()?;
        let entry = usize::from(u16_at(bytes, 54)?);
        let count = usize::from(u16_at(bytes, 56)?);
        let segments = (0..count)
            .map(|i| {
                let at = table.checked_add(i.checked_mul(entry)?)?;
                let kind = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
                Some((kind, u64_at(bytes, at.checked_add(8)?)?, u64_at(bytes, at.checked_add(32)?)?))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Elf { segments })
    }

    fn interpreter(&self, bytes: &[u8]) -> Option<String> {
        let &(_, offset, size) = self.segments.iter().find(|s| s.0 == PT_INTERP)?;
        let (offset, size) = (usize::try_from(offset).ok()?, usize::try_from(size).ok()?);
        let text = bytes.get(offset..offset.checked_add(size)?)?;
        Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_string())
    }

    /// The file up to the end of its last loaded segment, with no section table.
    fn loaded_part(&self, bytes: &[u8]) -> Vec<u8> {
        let end = self
            .segments
            .iter()
            .filter(|s| s.0 == PT_LOAD)
            .filter_map(|s| s.1.checked_add(s.2))
            .max()
            .and_then(|end| usize::try_from(end).ok())
            .map_or(bytes.len(), |end| end.min(bytes.len()));
        let mut kept = bytes[..end].to_vec();
        if let Some(offset) = kept.get_mut(40..48) {
            offset.fill(0);
        }
        if let Some(counts) = kept.get_mut(60..64) {
            counts.fill(0);
        }
        kept
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_before_files_and_only_once() {
        let mut archive = Archive::new();
        archive.file("/lib/x/a.so", false, b"aa");
        archive.file("/lib/x/b.so", true, b"");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let dir = text.find("lib/x\0").unwrap();
        let a = text.find("lib/x/a.so\0").unwrap();
        assert!(dir < a);
        assert_eq!(text.matches("lib/x\0").count(), 1);
        assert!(bytes.len().is_multiple_of(4));
        assert!(text.contains("TRAILER!!!"));
    }

    #[test]
    fn own_program_is_bundled_with_its_libraries() {
        let own = std::env::current_exe().unwrap();
        let bundle = Bundle::of(&own).unwrap();
        assert!(bundle.program.starts_with(b"\x7fELF"));
        assert!(bundle.program.len() as u64 <= fs::metadata(&own).unwrap().len());
        for (path, data) in &bundle.libraries {
            assert!(path.starts_with('/') && data.starts_with(b"\x7fELF"), "{path}");
        }
    }

    #[test]
    fn listings_are_read() {
        let listing = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibz.so.1 => /lib/libz.so.1 (0x7f)\n\
                       \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        assert_eq!(library_paths(listing), ["/lib/libz.so.1", "/lib64/ld-linux-x86-64.so.2"]);
    }

    #[test]
    fn broken_programs_are_errors() {
        for bytes in [&b""[..], b"\x7fELF", b"\x7fELF\x02\x01", &[0xff; 80]] {
            assert!(Elf::parse(bytes).is_none_or(|elf| elf.segments.is_empty()));
        }
        let mut wild = vec![0xff; 120];
        wild[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert!(Elf::parse(&wild).is_none());
    }
}
