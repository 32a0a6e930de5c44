//! Finished runs kept in folders: an interrupted sweep continues where it stopped, and shards of one can be made on several
//! machines and put together.

use crate::key::Key;
use crate::record::{Build, Unusable, decode, encode};
use schedlab_trace::RunRecord;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a file whole or not at all, replacing what is there.
pub type WriteWhole = fn(&Path, &[u8]) -> io::Result<()>;

/// The text of a file that is open, of a length that the memory can hold.
pub type TextOf = fn(File) -> io::Result<String>;

/// Folders with finished runs, one file a run. New ones go to the first folder.
#[derive(Clone, Debug)]
pub struct Store {
    folders: Vec<PathBuf>,
    build: Build,
    write_whole: WriteWhole,
    text_of: TextOf,
}

/// A file of a run's name that does not stand for the run.
#[derive(Debug)]
pub struct Unused {
    /// The file.
    pub path: PathBuf,
    /// Why it is not used.
    pub why: Unusable,
}

/// What there is of a run.
#[derive(Debug, Default)]
pub struct Found {
    /// The record of the run.
    pub record: Option<RunRecord>,
    /// Files that were looked at and are not used.
    pub unused: Vec<Unused>,
}

/// A folder takes no record.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", folder.display())]
pub struct NotKept {
    /// The folder.
    pub folder: PathBuf,
    /// What the system says.
    pub error: io::Error,
}

impl Store {
    /// The store in `folders`, each of which exists; none keeps nothing. Records are of `build`; `write_whole` writes them
    /// and `text_of` reads them.
    #[must_use]
    pub fn new(folders: Vec<PathBuf>, build: Build, write_whole: WriteWhole, text_of: TextOf) -> Store {
        Store { folders, build, write_whole, text_of }
    }

    /// Whether runs are kept at all: where they are not, no key is needed.
    #[must_use]
    pub fn keeps(&self) -> bool {
        !self.folders.is_empty()
    }

    /// The folder that has the name of the run's record where it would be kept: the record could not be written.
    #[must_use]
    pub fn blocked(&self, key: &Key) -> Option<PathBuf> {
        let path = self.folders.first()?.join(key.file_name());
        path.is_dir().then_some(path)
    }

    /// What there is of a run. A file of its name that cannot be trusted is not used.
    #[must_use]
    pub fn load(&self, key: &Key) -> Found {
        let name = key.file_name();
        let mut found = Found::default();
        for path in self.folders.iter().map(|folder| folder.join(&name)) {
            let text = match open(&path).and_then(self.text_of) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text.map_err(Unusable::from),
            };
            match text.and_then(|text| decode(&text, key, self.build)) {
                Ok(record) => {
                    found.record = Some(record);
                    break;
                }
                Err(why) => found.unused.push(Unused { path, why }),
            }
        }
        found
    }

    /// Keeps the record of a run. An interruption leaves the whole file or none.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn save(&self, key: &Key, record: &RunRecord) -> Result<(), NotKept> {
        let Some(folder) = self.folders.first() else { return Ok(()) };
        let content = encode(record, key, self.build);
        (self.write_whole)(&folder.join(key.file_name()), content.as_bytes())
            .map_err(|error| NotKept { folder: folder.clone(), error })
    }
}

/// Opens a file and nothing else: a pipe would never end, and a device might not.
fn open(path: &Path) -> io::Result<File> {
    // A sandbox lets the path be asked about, but not a device behind a link be opened.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    // O_NONBLOCK: opening a pipe waits for its other end otherwise.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{BUILD, run};
    use tempfile::TempDir;

    fn text_of(file: File) -> io::Result<String> {
        io::read_to_string(file).map_err(|_| io::Error::other("byte 0 is not UTF-8"))
    }

    fn store(folders: &[&TempDir]) -> Store {
        let folders = folders.iter().map(|folder| folder.path().to_path_buf()).collect();
        Store::new(folders, BUILD, |path, bytes| std::fs::write(path, bytes), text_of)
    }

    #[test]
    fn a_run_is_kept_in_the_first_folder_and_found_in_each() {
        let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let (key, record) = run(1);
        store(&[&second]).save(&key, &record).unwrap();
        let both = store(&[&first, &second]);
        assert_eq!(both.load(&key).record, Some(record));
        let (key, record) = run(2);
        both.save(&key, &record).unwrap();
        assert!(first.path().join(key.file_name()).is_file());
        assert_eq!(both.load(&run(3).0).record, None);
    }

    #[test]
    fn a_file_that_is_not_used_is_told_and_the_next_folder_has_its_turn() {
        let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let (key, record) = run(1);
        store(&[&second]).save(&key, &record).unwrap();
        for (content, why) in [(&b"{}"[..], "no record of a run"), (b"\xff", "byte 0 is not UTF-8")] {
            std::fs::write(first.path().join(key.file_name()), content).unwrap();
            let found = store(&[&first, &second]).load(&key);
            assert_eq!(found.record.as_ref(), Some(&record));
            assert!(found.unused[0].why.to_string().contains(why), "{:?}", found.unused);
        }
        let folder = first.path().join(key.file_name());
        std::fs::remove_file(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
        assert!(store(&[&first]).load(&key).unused[0].why.to_string().contains("it is no file"));
    }

    #[test]
    fn without_folders_nothing_is_kept() {
        let (key, record) = run(1);
        let none = store(&[]);
        none.save(&key, &record).unwrap();
        assert!(!none.keeps() && none.load(&key).record.is_none());
    }

    #[test]
    fn a_folder_that_takes_nothing_is_named() {
        let folder = TempDir::new().unwrap();
        let store = store(&[&folder]);
        let path = folder.path().to_path_buf();
        drop(folder);
        let (key, record) = run(1);
        assert_eq!(store.save(&key, &record).unwrap_err().folder, path);
    }
}
