//! The files that results go to: the one place that makes, replaces and removes them.
//!
//! A result is written to a file of an unpredictable name beside its place, brought to the disk, and renamed when it is
//! complete. An error, a signal or a full disk on the way leaves the older result as it was.

use crate::failure::Failure;
use schedlab_live::signals::RemovedAtEnd;
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, IsTerminal, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempPath;

/// What names of unfinished files begin and end with.
const UNFINISHED: (&str, &str) = (".schedlab-", ".part");

/// Random letters and digits between them: 71 bits.
const RANDOM_CHARS: usize = 12;

/// Symbolic links that are followed one after another; the kernel's own limit.
const MOST_LINKS: usize = 40;

/// Bytes kept before they are written.
const BUFFER: usize = 1 << 18;

/// The failure to write the file or folder of an option: a path that cannot be written is an input error, a full disk one
/// of the environment.
pub fn unwritten(option: &str, what: &str, error: &io::Error) -> Failure {
    let wrong_path = [
        io::ErrorKind::AlreadyExists,
        io::ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::ReadOnlyFilesystem,
        io::ErrorKind::IsADirectory,
        io::ErrorKind::NotADirectory,
        io::ErrorKind::InvalidFilename,
    ];
    if wrong_path.contains(&error.kind()) {
        Failure::usage(format!("{option}: {error}; name a {what} that you may write"))
    } else {
        Failure::environment(format!("{option}: {error}; free some room or name another {what}"))
    }
}

/// Refuses two results in one place, of which the later would overwrite the earlier or be mixed with it.
/// A device such as /dev/null takes any number.
///
/// # Errors
/// The options and the path that they share.
pub fn distinct<'a>(targets: impl IntoIterator<Item = &'a Target>) -> Result<(), Failure> {
    let mut seen: Vec<&Target> = Vec::new();
    for target in targets {
        if let Some(first) = seen.iter().find(|first| first.place() == target.place()) {
            let options = format!("{} and {}", first.option, target.option);
            if target.is_stdout() {
                return Err(Failure::usage(format!("only one of {options} can be - (standard output)")));
            }
            if target.path.is_file() || !target.path.exists() {
                let path = target.path.display();
                return Err(Failure::usage(format!("{options} both name {path}; name a file for each")));
            }
        }
        seen.push(target);
    }
    Ok(())
}

/// A file that results are written to; `-` is standard output.
#[derive(Clone, Debug)]
pub struct Target {
    /// The option that names it, for messages.
    option: &'static str,
    /// As it was given.
    path: PathBuf,
    way: Way,
}

/// How a result comes to its place.
#[derive(Clone, Debug)]
enum Way {
    /// To standard output.
    Stdout,
    /// Into what is there: a device, a pipe, an open file of a process.
    Direct,
    /// Into the file that is there, whose folder takes no new ones.
    InPlace,
    /// By a new file that takes the place's name.
    Replace(Place),
}

impl Target {
    /// Checks early, before any work is done, that the path can be a file.
    pub fn new(option: &'static str, path: &Path) -> Result<Target, Failure> {
        let target = |way| Target { option, path: path.to_path_buf(), way };
        if path.as_os_str() == "-" {
            return Ok(target(Way::Stdout));
        }
        if path.is_dir() {
            return Err(Failure::usage(format!("{option} {}: it is a folder; name a file", path.display())));
        }
        if !folder_of(path).is_dir() {
            let text = format!("{option} {}: its folder does not exist; make it first", path.display());
            return Err(Failure::usage(text));
        }
        way(path).map(target).map_err(|error| target(Way::Direct).failure(&error))
    }

    /// Checks the path of a result that is no text, which no terminal is to get.
    pub fn binary(option: &'static str, path: &Path) -> Result<Target, Failure> {
        let target = Target::new(option, path)?;
        if target.is_stdout() && io::stdout().is_terminal() {
            let text = format!("{option} -: standard output is a terminal; send it to a file or a program");
            return Err(Failure::usage(text));
        }
        Ok(target)
    }

    /// Where it lies, however it is spelled.
    fn place(&self) -> PathBuf {
        match &self.way {
            Way::Replace(place) => place.file.clone(),
            _ => self.path.canonicalize().unwrap_or_else(|_| self.path.clone()),
        }
    }

    /// The option that names it.
    pub fn option(&self) -> &'static str {
        self.option
    }

    /// True for `-`.
    pub fn is_stdout(&self) -> bool {
        matches!(self.way, Way::Stdout)
    }

    /// Writes everything, or says why not: a path that cannot be written is an input
    /// error, a full disk one of the environment.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        if self.is_stdout() {
            return crate::files::stdout::write_text_result(text);
        }
        let mut draft = self.create()?;
        draft.write_all(text.as_bytes()).map_err(|error| self.failure(&error))?;
        self.finish(draft)
    }

    /// Begins a result that is written while it is made. It takes its place in [`Target::finish`]; dropped before,
    /// it never does.
    pub fn create(&self) -> Result<Draft, Failure> {
        let draft = match &self.way {
            Way::Stdout => Ok(Draft::Stdout(BufWriter::with_capacity(BUFFER, io::stdout()))),
            Way::Direct => File::create(&self.path).map(|file| Draft::direct(file, false)),
            Way::InPlace => {
                let path = self.path.display();
                log::info!(
                    "{} {path}: its folder takes no new file, so it is overwritten; an interruption spoils it",
                    self.option
                );
                File::create(&self.path).map(|file| Draft::direct(file, true))
            }
            Way::Replace(place) => Draft::beside(place),
        };
        draft.map_err(|error| self.failure(&error))
    }

    /// Completes a result that [`Target::create`] began.
    pub fn finish(&self, draft: Draft) -> Result<(), Failure> {
        draft.finish().map_err(|error| self.failure(&error))
    }

    /// The error of writing it.
    pub fn failure(&self, error: &io::Error) -> Failure {
        if self.is_stdout() {
            return crate::files::stdout::stdout_failure(error);
        }
        unwritten(&format!("{} {}", self.option, self.path.display()), "file", error)
    }
}

/// Finds out how a result gets to `path`, and leaves everything as it was.
fn way(path: &Path) -> io::Result<Way> {
    let Some(file) = followed(path)? else { return Ok(Way::Direct) };
    let there = match std::fs::symlink_metadata(&file) {
        Ok(found) if !found.is_file() => return Ok(Way::Direct),
        Ok(_) => {
            // A file that may not be written is not replaced either.
            File::options().append(true).open(&file)?;
            true
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    match Place::new(&file).and_then(|place| unfinished(&place.parent, true).map(|_| place)) {
        Ok(place) => Ok(Way::Replace(place)),
        Err(error) if there && takes_no_new(&error) => Ok(Way::InPlace),
        Err(error) => Err(error),
    }
}

/// The error of a folder that takes no new file, not that of a full disk.
fn takes_no_new(error: &io::Error) -> bool {
    [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::NotFound]
        .contains(&error.kind())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path at the end of symbolic links, which need not exist, in a folder without links. None behind
/// a link of /proc (as of /dev/stdout): it leads to an open file, whose name may be another's by now.
pub fn followed(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let folder = folder_of(&path).canonicalize()?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let place = folder.join(name);
        match std::fs::symlink_metadata(&place) {
            Ok(found) if found.is_symlink() && folder.starts_with("/proc") => return Ok(None),
            Ok(found) if found.is_symlink() => path = folder.join(std::fs::read_link(&place)?),
            Ok(_) => return Ok(Some(place)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(place)),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidFilename, "too many symbolic links"))
}

/// Where a file is to be: a path without links, and its folder.
#[derive(Clone, Debug)]
struct Place {
    file: PathBuf,
    parent: PathBuf,
    /// Opened beforehand, to bring the new name to the disk; none where the folder cannot be read.
    folder: Option<Arc<File>>,
}

impl Place {
    fn new(file: &Path) -> io::Result<Place> {
        let parent = folder_of(file).canonicalize()?;
        let folder = File::open(&parent).ok().map(Arc::new);
        let name = file.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        Ok(Place { file: parent.join(name), parent, folder })
    }

    /// What is there now, if it is a file.
    fn older(&self) -> Option<Metadata> {
        std::fs::symlink_metadata(&self.file).ok().filter(Metadata::is_file)
    }
}

/// An empty file that goes away unless it is kept, in a folder given without links. Only its owner may open it where `secret`;
/// the umask decides otherwise.
fn unfinished(folder: &Path, secret: bool) -> io::Result<(File, TempPath, RemovedAtEnd)> {
    let mode = if secret { 0o600 } else { 0o666 };
    let mut why = None;
    let made = tempfile::Builder::new()
        .prefix(UNFINISHED.0)
        .suffix(UNFINISHED.1)
        .rand_bytes(RANDOM_CHARS)
        .make_in(folder, |path| {
            let removed = RemovedAtEnd::new(path);
            let file = File::options().read(true).write(true).create_new(true).mode(mode).open(path);
            file.map(|file| (file, removed)).inspect_err(|error| why = error.raw_os_error())
        });
    // The crate's own error has the file's name in it, which the user does not know.
    let made = made.map_err(|error| why.map_or(error, io::Error::from_raw_os_error))?;
    let ((file, removed), path) = made.into_parts();
    Ok((file, path, removed))
}

/// A result on its way. What is dropped before [`Target::finish`] leaves nothing behind.
#[derive(Debug)]
pub enum Draft {
    /// Standard output.
    Stdout(BufWriter<io::Stdout>),
    /// What is written into directly; `true` for a file, which is brought to the disk.
    Direct(BufWriter<File>, bool),
    /// A new file.
    New(NewFile),
}

/// An unfinished file beside its place.
#[derive(Debug)]
pub struct NewFile {
    out: BufWriter<File>,
    path: TempPath,
    _removed: RemovedAtEnd,
    place: Place,
}

impl Draft {
    fn direct(file: File, synced: bool) -> Draft {
        Draft::Direct(BufWriter::with_capacity(BUFFER, file), synced)
    }

    fn beside(place: &Place) -> io::Result<Draft> {
        let (file, path, removed) = unfinished(&place.parent, place.older().is_some())?;
        let out = BufWriter::with_capacity(BUFFER, file);
        Ok(Draft::New(NewFile { out, path, _removed: removed, place: place.clone() }))
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Draft::Stdout(mut out) => out.flush(),
            Draft::Direct(mut out, synced) => {
                out.flush()?;
                if synced { out.get_ref().sync_all() } else { Ok(()) }
            }
            Draft::New(new) => new.finish(),
        }
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Draft::Stdout(out) => out.write(bytes),
            Draft::Direct(out, _) => out.write(bytes),
            Draft::New(new) => new.out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Draft::Stdout(out) => out.flush(),
            Draft::Direct(out, _) => out.flush(),
            Draft::New(new) => new.out.flush(),
        }
    }
}

impl NewFile {
    /// Brings it to the disk, gives it the older file's owner and mode, and then its name.
    fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        let file = self.out.get_mut();
        if let Some(older) = self.place.older() {
            let ours = file.metadata()?;
            if (ours.uid(), ours.gid()) != (older.uid(), older.gid()) {
                // Only root can, or a member of the group.
                let _ = fchown(&*file, Some(older.uid()), Some(older.gid()))
                    .or_else(|_| fchown(&*file, None, Some(older.gid())));
            }
            file.set_permissions(PermissionsExt::from_mode(older.mode() & 0o777))?;
        }
        file.sync_all()?;
        match std::fs::rename(&self.path, &self.place.file) {
            Ok(()) => {
                // The name is gone from where it would be removed.
                let _ = self.path.keep();
                self.place.folder.as_deref().map_or(Ok(()), synced_folder)
            }
            Err(error) if in_place_instead(&error) && self.place.older().is_some() => {
                file.rewind()?;
                let mut there = File::create(&self.place.file)?;
                io::copy(file, &mut there)?;
                there.sync_all()
            }
            Err(error) => Err(error),
        }
    }
}

/// A file that cannot be replaced but written: a mount point, as of a file given to a container, or another user's in a folder
/// such as /tmp.
fn in_place_instead(error: &io::Error) -> bool {
    [io::ErrorKind::ResourceBusy, io::ErrorKind::PermissionDenied, io::ErrorKind::CrossesDevices]
        .contains(&error.kind())
}

/// Some file systems cannot bring a folder to the disk, and say so.
fn synced_folder(folder: &File) -> io::Result<()> {
    match folder.sync_all() {
        Err(error) if [io::ErrorKind::InvalidInput, io::ErrorKind::Unsupported].contains(&error.kind()) => {
            Ok(())
        }
        other => other,
    }
}

/// Writes a file whole or not at all, replacing what is there.
///
/// # Errors
/// The system's; the older file is as it was.
pub(crate) fn write_whole(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut draft = Draft::beside(&Place::new(file)?)?;
    draft.write_all(content)?;
    draft.finish()
}

/// Makes the folder of an option where it is missing, before anything is run whose result it could not take.
///
/// # Errors
/// It cannot be made, or takes no new files.
pub fn ready_folder(option: &str, folder: &Path) -> Result<(), Failure> {
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::usage(format!("{option} {}: it is a file; name a folder", folder.display())));
    }
    std::fs::create_dir_all(folder)
        .and_then(|()| unfinished(&folder.canonicalize()?, true).map(drop))
        .map_err(|error| unwritten(&format!("{option} {}", folder.display()), "folder", &error))
}
