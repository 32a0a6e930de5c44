//! Finished runs kept in folders: an interrupted sweep goes on where it stopped, and
//! shards of one can be made on several machines and put together.

use crate::failure::Failure;
use crate::input;
use crate::output;
use crate::simulation::Simulation;
use schedlab_report::{Document, from_json, to_json};
use schedlab_trace::RunRecord;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// Folders with finished runs, one result file a run. New ones go to the first folder.
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
            // Before a run is made that could not be kept.
            let part = first.join(format!("{}.part", std::process::id()));
            std::fs::create_dir_all(first)
                .and_then(|()| std::fs::write(&part, ""))
                .and_then(|()| std::fs::remove_file(&part))
                .map_err(|error| unwritten(first, &error))?;
        }
        if let Some(missing) = folders.iter().find(|folder| !folder.is_dir()) {
            return Err(Failure::usage(format!("--resume {}: there is no such folder", missing.display())));
        }
        Ok(Store { folders: folders.to_vec() })
    }

    /// The record of a run that is there already.
    ///
    /// # Errors
    /// A file that cannot be read or is broken.
    pub(crate) fn load(&self, simulation: &Simulation) -> Result<Option<RunRecord>, Failure> {
        if self.folders.is_empty() {
            return Ok(None);
        }
        let name = file_name(simulation)?;
        let Some(path) = self.folders.iter().map(|folder| folder.join(&name)).find(|path| path.exists())
        else {
            return Ok(None);
        };
        let broken = |what: String| {
            Failure::usage(format!(
                "--resume: {}: {what}; remove the file to make the run again",
                path.display()
            ))
        };
        let text = input::text(&path).map_err(|error| broken(error.to_string()))?;
        let document = from_json(&text).map_err(|error| broken(error.to_string()))?;
        let mut runs = document.runs.into_iter();
        match (runs.next(), runs.next()) {
            (Some(run), None) => Ok(Some(run)),
            _ => Err(broken("it is not the result of one run".to_string())),
        }
    }

    /// Keeps the record of a run. An interruption leaves the whole file or none.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub(crate) fn save(&self, simulation: &Simulation, record: &RunRecord) -> Result<(), Failure> {
        let Some(folder) = self.folders.first() else { return Ok(()) };
        let path = folder.join(file_name(simulation)?);
        let unfinished = path.with_extension(format!("{}.part", std::process::id()));
        let document = Document { runs: vec![record.clone()], ..Document::default() };
        let written = std::fs::write(&unfinished, to_json(&document));
        written.and_then(|()| std::fs::rename(&unfinished, &path)).map_err(|error| unwritten(folder, &error))
    }
}

fn unwritten(folder: &Path, error: &io::Error) -> Failure {
    output::unwritten(&format!("--resume {}", folder.display()), "folder", error)
}

/// A name made of everything that the result of a run depends on.
fn file_name(simulation: &Simulation) -> Result<String, Failure> {
    let scheduler = &simulation.scheduler;
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(env!("CARGO_PKG_VERSION").as_bytes());
    part(scheduler.name.as_bytes());
    part(scheduler.object.as_deref().unwrap_or_default());
    part(format!("{:?} {:?}", scheduler.settings, scheduler.changes).as_bytes());
    part(simulation.workload.as_bytes());
    if Path::new(&simulation.workload).is_file() {
        let text = input::bytes(&simulation.workload)
            .map_err(|error| Failure::usage(format!("workload file {}: {error}", simulation.workload)))?;
        part(&text);
    }
    let Simulation { machine, seed, limit, checkers, sampling, .. } = simulation;
    part(format!("{machine:?} {seed} {limit:?} {checkers} {sampling:?}").as_bytes());
    let mut name = String::new();
    for byte in &hash.finalize()[..16] {
        write!(name, "{byte:02x}").expect("a string takes all");
    }
    Ok(name + ".json")
}
