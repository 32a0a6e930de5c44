//! Finished runs kept in folders: an interrupted sweep goes on where it stopped, and
//! shards of one can be made on several machines and put together.

use crate::failure::Failure;
use crate::input;
use crate::record::{Key, decode, encode};
use crate::simulation::Simulation;
use crate::target::{ready_folder, unwritten, write_whole};
use schedlab_trace::RunRecord;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The option that names the folders.
const OPTION: &str = "--resume";

/// Folders with finished runs, one file a run. New ones go to the first folder.
#[derive(Debug)]
pub(crate) struct Store {
    folders: Vec<PathBuf>,
}

impl Store {
    /// Opens the folders of `--resume`; the first one is made where it is missing.
    ///
    /// # Errors
    /// A folder that is none, or cannot be made or written.
    pub(crate) fn new(folders: &[PathBuf]) -> Result<Store, Failure> {
        if let Some(first) = folders.first() {
            ready_folder(OPTION, first)?;
        }
        if let Some(missing) = folders.iter().find(|folder| !folder.is_dir()) {
            return Err(Failure::usage(format!("{OPTION} {}: there is no such folder", missing.display())));
        }
        Ok(Store { folders: folders.to_vec() })
    }

    /// The record of a run that is there already. A file of its name that cannot be trusted is not used; `unused` gets the
    /// file and the reason.
    ///
    /// # Errors
    /// A workload file that cannot be read.
    pub(crate) fn load(
        &self,
        simulation: &Simulation,
        unused: &mut Vec<String>,
    ) -> Result<Option<RunRecord>, Failure> {
        if self.folders.is_empty() {
            return Ok(None);
        }
        let key = Key::of(simulation)?;
        for path in self.folders.iter().map(|folder| folder.join(key.file_name())) {
            let read = match open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file.and_then(input::text_of).map_err(|error| error.to_string()),
            };
            match read.and_then(|text| decode(&text, &key)) {
                Ok(record) => return Ok(Some(record)),
                Err(why) => unused.push(format!("{}: {why}", path.display())),
            }
        }
        Ok(None)
    }

    /// Keeps the record of a run. An interruption leaves the whole file or none.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub(crate) fn save(&self, simulation: &Simulation, record: &RunRecord) -> Result<(), Failure> {
        let Some(folder) = self.folders.first() else { return Ok(()) };
        let key = Key::of(simulation)?;
        let content = encode(record, &key);
        write_whole(&folder.join(key.file_name()), content.as_bytes())
            .map_err(|error| not_kept(folder, &error))
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

fn not_kept(folder: &Path, error: &io::Error) -> Failure {
    unwritten(&format!("{OPTION} {}", folder.display()), "folder", error)
}
