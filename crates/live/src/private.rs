//! Folders that nobody else can read or write, and what is safe to open in folders that others write too.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bits of a mode by which others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// Bits by which others read, write or enter.
const OTHERS: u32 = 0o077;

/// The bit by which only owners remove their files from a folder that all may write.
const STICKY: u32 = 0o1000;

/// The user that we act as.
fn user() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

/// Opens a folder, if it is one: no link is followed, and a pipe is not waited for.
fn open_folder(path: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    File::options().read(true).custom_flags(flags).open(path)
}

/// Checks that files in this folder stay what we make them: others cannot rename or remove what is ours there.
///
/// # Errors
/// Whose folder it is, or who may write it, and the cure.
pub(crate) fn trusted_parent(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?;
    if found.uid() != 0 && found.uid() != user() {
        return Err(refused(format!("{} belongs to user {}", path.display(), found.uid())));
    }
    if found.mode() & OTHERS_WRITE != 0 && found.mode() & STICKY == 0 {
        return Err(refused(format!(
            "others can remove files from {} (chmod +t keeps them)",
            path.display()
        )));
    }
    Ok(())
}

/// Makes a folder of our own where there is none, and checks that it is one.
///
/// # Errors
/// A folder of somebody else or one that others may write, with the cure.
pub(crate) fn own_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    still_own(path)
}

/// Checks that a folder that exists is one of our own.
///
/// # Errors
/// As of [`own_folder`].
pub(crate) fn still_own(path: &Path) -> io::Result<()> {
    ours(path, &fs::metadata(path)?)
}

/// Opens a file of our own for reading; no link is followed, and a pipe is not waited for.
///
/// # Errors
/// The file of somebody else, one that others may write, or something that is no file.
pub(crate) fn own_file(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    ours(path, &found)?;
    if found.is_file() { Ok(file) } else { Err(refused(format!("{} is no file", path.display()))) }
}

/// Makes a file of our own where there is none.
///
/// # Errors
/// Something has the name.
pub(crate) fn own_new_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

fn ours(path: &Path, found: &Metadata) -> io::Result<()> {
    let path = path.display();
    if found.uid() != user() {
        return Err(refused(format!("{path} belongs to user {}, not to user {}", found.uid(), user())));
    }
    if found.mode() & OTHERS_WRITE != 0 {
        return Err(refused(format!("others may write {path} (chmod go-w keeps them out)")));
    }
    Ok(())
}

/// Locks a folder of our own that is closed to others, until the file is closed, which the end of the process does as well.
///
/// # Errors
/// It is no such folder, or it is locked.
pub(crate) fn locked(path: &Path) -> io::Result<File> {
    let lock = open_folder(path)?;
    let found = lock.metadata()?;
    if found.uid() != user() || found.mode() & OTHERS != 0 {
        return Err(refused(format!("{} is open to others", path.display())));
    }
    try_lock(&lock).map(|()| lock)
}

/// Locks an open file, or folder, until it is closed.
///
/// # Errors
/// It is locked ([`io::ErrorKind::WouldBlock`]).
pub(crate) fn try_lock(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; flock() reads no memory of ours.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn folders_that_others_write_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        own_folder(&inner).unwrap();
        assert_eq!(fs::metadata(&inner).unwrap().mode() & 0o777, 0o700);
        trusted_parent(&inner).unwrap();
        set_mode(&inner, 0o770);
        let error = own_folder(&inner).unwrap_err().to_string();
        assert!(error.contains("others may write") && error.contains("chmod go-w"), "{error}");
        set_mode(&inner, 0o777);
        let error = trusted_parent(&inner).unwrap_err().to_string();
        assert!(error.contains("chmod +t"), "{error}");
        set_mode(&inner, 0o1777);
        trusted_parent(&inner).unwrap();
    }

    #[test]
    fn only_files_of_ours_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "x").unwrap();
        set_mode(&path("file"), 0o644);
        own_file(&path("file")).unwrap();
        symlink(path("file"), path("link")).unwrap();
        assert!(own_file(&path("link")).is_err());
        assert!(own_file(folder.path()).unwrap_err().to_string().contains("is no file"));
        set_mode(&path("file"), 0o664);
        assert!(own_file(&path("file")).unwrap_err().to_string().contains("others may write"));
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn what_belongs_to_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, file) = (folder.path().join("inner"), folder.path().join("file"));
        own_folder(&inner).unwrap();
        fs::write(&file, "x").unwrap();
        if chown(&inner, Some(65534), None).and_then(|()| chown(&file, Some(65534), None)).is_err() {
            eprintln!("skipped: only root gives files away");
            return;
        }
        for error in
            [own_folder(&inner), trusted_parent(&inner), own_file(&file).map(drop), locked(&inner).map(drop)]
        {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("belongs to user 65534") || error.contains("open to others"), "{error}");
        }
    }
}
