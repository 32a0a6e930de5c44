//! The folder of a running VM's files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::private::{locked, trusted_parent};

/// What the names of scratch directories begin with; the process and random letters follow.
const SCRATCH: &str = "schedlab-vm-";

/// A directory of our own for the files of one VM: nobody else reads, writes or foresees it. It is gone when this is
/// dropped.
pub(super) struct Scratch {
    dir: TempDir,
    /// Held while the directory is in use.
    _lock: File,
}

impl Scratch {
    /// In the directory for temporary files, of which others must not be able to take it away.
    pub(super) fn new(temp: &Path) -> io::Result<Scratch> {
        trusted_parent(temp)?;
        remove_left_behind(temp);
        // Made by mkdir() with mode 0700, which fails where something has the name.
        let prefix = format!("{SCRATCH}{}-", std::process::id());
        let mut unique = tempfile::Builder::new();
        unique.prefix(&prefix).rand_bytes(12).permissions(fs::Permissions::from_mode(0o700));
        let dir = unique.tempdir_in(temp)?;
        let lock = locked(dir.path())?;
        Ok(Scratch { dir, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes our scratch directories of commands that were killed: their process is gone, and so is their lock (which tells
/// them from those of processes in another PID namespace). What else has such a name is not touched.
fn remove_left_behind(temp: &Path) {
    for entry in fs::read_dir(temp).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(SCRATCH)?.split_once('-'));
        let Some(Ok(process)) = process.map(|(process, _)| process.parse::<u32>()) else { continue };
        if !Path::new(&format!("/proc/{process}")).exists() && locked(&entry.path()).is_ok() {
            // Just gone: nothing that keeps this VM from starting.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{DirBuilderExt, chown, symlink};
    use std::sync::mpsc;
    use std::time::Duration;

    /// A directory as the system's for temporary files.
    fn temp() -> TempDir {
        let temp = tempfile::tempdir().unwrap();
        fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        temp
    }

    fn private(path: &Path) {
        fs::DirBuilder::new().mode(0o700).create(path).unwrap();
        fs::create_dir(path.join("d")).unwrap();
    }

    // Processes have numbers up to 2^22.
    const GONE: &str = "schedlab-vm-4194305-Ab1";

    #[test]
    fn directories_of_dead_processes_go() {
        let temp = temp();
        let (held, ours) = (format!("{SCRATCH}4194306-0"), format!("{SCRATCH}{}-7", std::process::id()));
        let others = ["schedlab-vm", "schedlab-vm-x-0", "schedlab-vm-4194305", "schedlab-4194305-0"];
        for name in [GONE, &held, &ours].into_iter().chain(others) {
            private(&temp.path().join(name));
        }
        let lock = locked(&temp.path().join(&held)).unwrap();
        remove_left_behind(temp.path());
        let left = |name: &str| temp.path().join(name).exists();
        assert!(!left(GONE), "its process is gone");
        assert!(left(&held) && left(&ours), "they are in use");
        assert!(others.into_iter().all(left), "they are none of ours");
        drop(lock);
        // A child that another test has just forked holds the lock as well, until it executes its program.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while left(&held) && std::time::Instant::now() < deadline {
            remove_left_behind(temp.path());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!left(&held) && left(&ours));
    }

    /// What another user may leave where we look: nothing of it is waited for, followed or removed.
    #[test]
    #[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn what_is_planted_is_passed_by() {
        let (temp, precious) = (temp(), temp());
        private(&precious.path().join("home"));
        let place = |number: u32| temp.path().join(format!("{SCRATCH}{number}-0"));
        let pipe = std::ffi::CString::new(place(4_194_305).to_str().unwrap()).unwrap();
        // SAFETY: the path is NUL-terminated.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o666) }, 0);
        symlink(precious.path().join("home"), place(4_194_306)).unwrap();
        fs::write(place(4_194_307), "file").unwrap();
        fs::create_dir(place(4_194_308)).unwrap();
        fs::set_permissions(place(4_194_308), fs::Permissions::from_mode(0o777)).unwrap();
        private(&place(4_194_309));
        let foreign = chown(place(4_194_309), Some(65534), None).is_ok();
        if !foreign {
            eprintln!("skipped in part: only root gives a directory away");
        }
        let (done, ended) = mpsc::channel();
        let root = temp.path().to_path_buf();
        std::thread::spawn(move || done.send(Scratch::new(&root)));
        let scratch = ended.recv_timeout(Duration::from_secs(20)).expect("a pipe is not waited for").unwrap();
        let made = fs::symlink_metadata(scratch.path()).unwrap();
        assert!(made.is_dir() && made.permissions().mode() & 0o777 == 0o700);
        for number in 4_194_305..=4_194_308 {
            assert!(fs::symlink_metadata(place(number)).is_ok(), "{number} is none of ours");
        }
        assert_eq!(place(4_194_309).exists(), foreign);
        assert!(precious.path().join("home/d").exists());
        let path = scratch.path().to_path_buf();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn directories_that_others_can_empty_are_refused() {
        let temp = temp();
        fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = Scratch::new(temp.path()).err().expect("it is refused").to_string();
        assert!(error.contains("others can remove files from"), "{error}");
    }
}
