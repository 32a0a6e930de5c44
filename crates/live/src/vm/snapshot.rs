//! Virtual machines as they are after their boot, kept in the cache so that the next job begins there.
//!
//! A machine is booted once without a job; its first process sets it up, waits until it is idle and stops it. What QEMU saves of
//! it then (its migration stream) is one file. A job's machine is made of that file, and reads the job from a device of QEMU's.
//! Every run begins at the saved state, the first one too, so that one does not differ from the other.
//!
//! The file's name is a hash of what its content depends on. A file is checked before it is used; a file that is damaged, or of
//! which QEMU makes no machine, is removed, and the machine boots.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use flate2::Crc;
use sha2::{Digest, Sha256};

use crate::kernel_image::cache_dir;
use crate::private::{own_file, own_folder, own_new_file, try_lock};

/// Snapshots that are kept; the one that was not used for the longest time goes first. Chosen: those of two programs on 1, 2, 4
/// and 8 CPUs, of about 200 MiB each.
const KEPT: usize = 8;
/// Age from which on a file that nobody has finished is removed.
const ABANDONED: Duration = Duration::from_secs(3600);
/// How often a command that waits for another one looks.
const LOOK: Duration = Duration::from_millis(50);
/// Folder of the cache.
const FOLDER: &str = "snapshots";
const STATE: &str = "state";
const SUM: &str = "crc32";
const PART: &str = "part";

/// A snapshot's place in the cache, whether it is there or not.
#[derive(Debug)]
pub(super) struct Snapshot {
    state: PathBuf,
    sum: PathBuf,
}

/// A snapshot that is being made, by one command at a time; its file goes unless it is kept.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    snapshot: &'a Snapshot,
    part: PathBuf,
    /// Locked.
    _file: File,
}

impl Snapshot {
    /// The snapshot of a machine: `command` starts it, `contents` are the files of which it is made. Nothing where there is
    /// no cache, or what is there belongs to somebody else.
    pub(super) fn of(command: &Command, contents: &[&[u8]]) -> Option<Snapshot> {
        let folder = cache_dir().ok()?.join(FOLDER);
        own_folder(&folder).ok()?;
        Some(Snapshot::in_folder(&folder, &name_of(&qemu_version(command)?, command, contents)))
    }

    fn in_folder(folder: &Path, name: &str) -> Snapshot {
        let file = |kind: &str| folder.join(format!("{name}.{kind}"));
        Snapshot { state: file(STATE), sum: file(SUM) }
    }

    /// The file of the saved state; nothing where there is none, or a damaged one.
    pub(super) fn checked(&self) -> Option<&Path> {
        fs::symlink_metadata(&self.state).ok()?;
        let holds = || -> io::Result<bool> {
            let mut noted = String::new();
            own_file(&self.sum)?.read_to_string(&mut noted)?;
            let file = own_file(&self.state)?;
            let holds = noted == sum_of(&file)?;
            // The time of its last use, by which the oldest is found.
            file.set_modified(SystemTime::now())?;
            Ok(holds)
        };
        if holds().unwrap_or(false) {
            return Some(&self.state);
        }
        self.discard();
        None
    }

    /// Removes it.
    pub(super) fn discard(&self) {
        // What cannot be removed is found damaged again.
        let _ = fs::remove_file(&self.state);
        let _ = fs::remove_file(&self.sum);
    }

    /// Begins to make it, as soon as no other command does; nothing where another one has made it meanwhile, or is still at it
    /// when `go_on` says no.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(super) fn begin(&self, go_on: &mut dyn FnMut() -> bool) -> io::Result<Option<Writing<'_>>> {
        tidy(self.state.parent().unwrap_or(Path::new(".")), KEPT - 1);
        let part = self.state.with_extension(PART);
        while go_on() {
            let file = match own_new_file(&part) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => own_file(&part),
                made => made,
            };
            let file = match file {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            if try_lock(&file).is_err() {
                std::thread::sleep(LOOK);
                continue;
            }
            if self.checked().is_some() {
                return Ok(None);
            }
            // Locked when the command that made it had just renamed or removed it: it is no longer the one of that name.
            let named = fs::symlink_metadata(&part).map(|meta| meta.ino());
            if named.is_ok_and(|inode| file.metadata().is_ok_and(|own| own.ino() == inode)) {
                return Ok(Some(Writing { snapshot: self, part, _file: file }));
            }
        }
        Ok(None)
    }
}

impl Writing<'_> {
    /// Where the state is to be written.
    pub(super) fn path(&self) -> &Path {
        &self.part
    }

    /// Keeps what has been written; its size in bytes.
    ///
    /// # Errors
    /// The files cannot be read or written.
    pub(super) fn keep(self) -> io::Result<u64> {
        let file = own_file(&self.part)?;
        let (sum, size) = (sum_of(&file)?, file.metadata()?.len());
        // A sum without its state is removed with the next snapshot of that name, a state without its sum is nothing.
        let _ = fs::remove_file(&self.snapshot.sum);
        own_new_file(&self.snapshot.sum)?.write_all(sum.as_bytes())?;
        fs::rename(&self.part, &self.snapshot.state)?;
        Ok(size)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.part);
    }
}

/// Removes the snapshots that were not used for the longest time but `most`, and files that were never finished.
fn tidy(folder: &Path, most: usize) {
    let (mut states, mut abandoned) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(used) = entry.metadata().and_then(|meta| meta.modified()) else { continue };
        match path.extension().and_then(|kind| kind.to_str()) {
            Some(STATE) => states.push((used, path)),
            Some(PART) if used.elapsed().is_ok_and(|age| age > ABANDONED) => abandoned.push(path),
            _ => {}
        }
    }
    abandoned.retain(|path| own_file(path).is_ok_and(|file| try_lock(&file).is_ok()));
    for path in &abandoned {
        let _ = fs::remove_file(path);
    }
    states.sort();
    for (_, path) in states.iter().take(states.len().saturating_sub(most)) {
        Snapshot { sum: path.with_extension(SUM), state: path.clone() }.discard();
    }
}

/// What QEMU says of its version; nothing where it is not installed.
fn qemu_version(command: &Command) -> Option<Vec<u8>> {
    let said = Command::new(command.get_program()).arg("--version").output().ok()?;
    Some(said.stdout)
}

/// Hash of everything that the state of a machine after its boot depends on.
fn name_of(version: &[u8], command: &Command, contents: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(version);
    command.get_args().for_each(|arg| part(arg.as_encoded_bytes()));
    contents.iter().for_each(|content| part(content));
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn sum_of(mut file: &File) -> io::Result<String> {
    let (mut crc, mut bytes) = (Crc::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(format!("{:08x} {}\n", crc.sum(), file.metadata()?.len())),
            count => crc.update(&bytes[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(snapshot: &Snapshot, content: &str) {
        snapshot.discard();
        let writing = snapshot.begin(&mut || true).unwrap().unwrap();
        fs::write(writing.path(), content).unwrap();
        assert_eq!(writing.keep().unwrap(), content.len() as u64);
    }

    #[test]
    fn a_snapshot_is_used_if_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let snapshot = Snapshot::in_folder(folder.path(), "a");
        assert_eq!(snapshot.checked(), None);
        written(&snapshot, "state of a machine");
        assert_eq!(snapshot.checked(), Some(folder.path().join("a.state").as_path()));
        for damage in ["state of a machinE", "state of a", ""] {
            written(&snapshot, "state of a machine");
            fs::write(folder.path().join("a.state"), damage).unwrap();
            assert_eq!(snapshot.checked(), None, "{damage}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "it is removed");
        }
        written(&snapshot, "state");
        fs::remove_file(folder.path().join("a.crc32")).unwrap();
        assert_eq!(snapshot.checked(), None);
    }

    #[test]
    fn one_command_makes_it_and_others_wait() {
        let folder = tempfile::tempdir().unwrap();
        let snapshot = Snapshot::in_folder(folder.path(), "a");
        let writing = snapshot.begin(&mut || true).unwrap().unwrap();
        fs::write(writing.path(), "half").unwrap();
        let mut looks = 0;
        let mut twice = || {
            looks += 1;
            looks <= 2
        };
        assert!(snapshot.begin(&mut twice).unwrap().is_none(), "another one is at it");
        drop(writing);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "what is not finished goes");
        std::thread::scope(|scope| {
            let writing = snapshot.begin(&mut || true).unwrap().unwrap();
            let waits = scope.spawn(|| snapshot.begin(&mut || true).unwrap().is_none());
            std::thread::sleep(2 * LOOK);
            fs::write(writing.path(), "state").unwrap();
            writing.keep().unwrap();
            assert!(waits.join().unwrap(), "what another one has made is used");
        });
        // The rest of a command that was killed is nobody's.
        snapshot.discard();
        fs::write(snapshot.state.with_extension(PART), "killed").unwrap();
        assert!(snapshot.begin(&mut || true).unwrap().is_some());
    }

    #[test]
    fn the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..KEPT + 2 {
            let snapshot = Snapshot::in_folder(folder.path(), &format!("{number}"));
            written(&snapshot, "state");
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(number as u64);
            File::options().write(true).open(&snapshot.state).unwrap().set_modified(used).unwrap();
            if number == 5 {
                assert!(Snapshot::in_folder(folder.path(), "0").checked().is_some(), "now it is the newest");
            }
        }
        let is_there = |number: usize| folder.path().join(format!("{number}.state")).exists();
        assert!(is_there(0) && !is_there(1) && !is_there(2) && is_there(3) && is_there(KEPT + 1));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2 * KEPT);
    }

    #[test]
    fn names_depend_on_everything() {
        let command = |arg: &str| {
            let mut command = Command::new("qemu");
            command.args(["-m", arg]);
            command
        };
        let name = |version: &str, arg: &str, contents: &[&[u8]]| {
            name_of(version.as_bytes(), &command(arg), contents)
        };
        let base = name("7.2", "1G", &[b"kernel", b"files"]);
        assert_eq!(base, name("7.2", "1G", &[b"kernel", b"files"]));
        for other in [
            name("8.0", "1G", &[b"kernel", b"files"]),
            name("7.2", "2G", &[b"kernel", b"files"]),
            name("7.2", "1G", &[b"kerne", b"lfiles"]),
        ] {
            assert_ne!(base, other);
        }
    }
}
