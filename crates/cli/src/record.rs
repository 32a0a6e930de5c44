//! The file of a finished run: what it is the result of, which build made it, the result, and a checksum over all that.

use crate::failure::Failure;
use crate::input;
use crate::scheduler::Scheduler;
use crate::simulation::{Extras, Simulation};
use crate::workload::files;
use schedlab_base::Presence;
use schedlab_loader::Command;
use schedlab_report::{Document, from_json, to_json};
use schedlab_trace::RunRecord;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Number of this form; files of others are not read.
const FORMAT: u32 = 2;

/// Hash of the sources that this command is built from, see `build.rs`.
const BUILD: &str = env!("SCHEDLAB_BUILD");

/// Version of this command.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything that determines a run but the build: names and values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Key(BTreeMap<String, String>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    format: u32,
    version: String,
    build: String,
    run: Key,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record<'a> {
    #[serde(borrow)]
    record: &'a RawValue,
    #[serde(borrow)]
    result: &'a RawValue,
    sha256: String,
}

/// The sha256 of the program that loads the scheduler `name`, and of each file that its arguments name, by the name of its part.
fn loader_hashes(name: &str, loader: &Command) -> Result<Vec<(String, String)>, Failure> {
    let given = loader.named_files().into_iter().enumerate();
    let given = given.map(|(number, file)| (format!("loader's file {}'s sha256", number + 1), file));
    std::iter::once(("loader's sha256".to_string(), loader.program.clone()))
        .chain(given)
        .map(|(part, file)| match input::bytes(&file) {
            Ok(bytes) => Ok((part, sha256(&[&bytes]))),
            Err(error) => Err(Failure::usage(format!("scheduler {name}: {}: {error}", file.display()))),
        })
        .collect()
}

/// The sha256 of each file of a workload, by the name of its part.
fn workload_hashes(workload: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut hashes = Vec::new();
    for (number, file) in files(workload).into_iter().enumerate() {
        if Path::new(file).is_file() {
            let text = input::bytes(file)
                .map_err(|error| Failure::usage(format!("workload file {file}: {error}")))?;
            hashes.push((workload_part(number), sha256(&[&text])));
        }
    }
    Ok(hashes)
}

impl Key {
    /// Of a run.
    ///
    /// # Errors
    /// A workload file that cannot be read.
    pub(crate) fn of(simulation: &Simulation) -> Result<Key, Failure> {
        // Whatever is added to a run has to be thought about here.
        // Results do not depend on the engine.
        let Simulation {
            scheduler,
            workload,
            machine,
            seed,
            limit,
            checkers,
            engine: _,
            guest_memory,
            after_ejection,
            sampling,
            extras,
        } = simulation;
        // The other two stand in no record: a command that keeps runs takes neither option.
        let Extras { waits, timeline: _, perfetto: _ } = extras;
        // The object's bytes stand for its place; the settings say whatever the own ones say.
        let Scheduler {
            name,
            given: _,
            read: _,
            choice,
            object,
            loader,
            own: _,
            settings,
            values,
            changes,
            programs,
            timed_programs,
            presence,
        } = scheduler;
        let mut parts = BTreeMap::new();
        let mut part = |name: &str, value: String| parts.insert(name.to_string(), value);
        part("scheduler", name.clone());
        if let Some(object) = object {
            part("object's sha256", sha256(&[object]));
        }
        if let Some(loader) = loader {
            part("loader", format!("{:?}", loader.words));
            loader_hashes(name, loader)?.into_iter().for_each(|(name, hash)| drop(part(&name, hash)));
        }
        if let Some(choice) = choice {
            part("scheduler of the object", choice.clone());
        }
        part("settings", format!("{settings:?} {values:?} {changes:?}"));
        if !programs.is_empty() {
            part("programs", format!("{programs:?}"));
        }
        if !timed_programs.is_empty() || *presence != Presence::default() {
            part("meanwhile", format!("{timed_programs:?} {presence:?}"));
        }
        part("workload", workload.clone());
        for (name, hash) in workload_hashes(workload)? {
            part(&name, hash);
        }
        part("machine", machine.name.clone());
        part("machine's sha256", sha256(&[format!("{machine:?}").as_bytes()]));
        part("CPUs", machine.cpu_count().to_string());
        part("seed", seed.to_string());
        part("duration", limit.map_or("the workload's".to_string(), |limit| format!("{} ns", limit.0)));
        part("checkers", checkers.to_string());
        part("guest memory", guest_memory.to_string());
        part("after an ejection", format!("{after_ejection:?}"));
        part("sampling", format!("{sampling:?}"));
        part("waits explained", waits.to_string());
        Ok(Key(parts))
    }

    /// A name for the file. It only says where to look.
    pub(crate) fn file_name(&self) -> String {
        sha256(&[json(self).as_bytes()])[..32].to_string() + ".json"
    }

    /// The first part in which another key differs, in words.
    fn difference(&self, other: &Key) -> Option<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let text = |key: &Key, name| key.0.get(name).map_or("none", String::as_str).to_string();
        let differs = |name: &&String| self.0.get(*name) != other.0.get(*name);
        names
            .into_iter()
            .find(differs)
            .map(|name| format!("{name} is {}, not {}", text(other, name), text(self, name)))
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data has a JSON form")
}

/// What the hash of a workload's file is called.
fn workload_part(number: usize) -> String {
    match number {
        0 => "workload file's sha256".to_string(),
        _ => format!("workload file {}'s sha256", number + 1),
    }
}

/// In hex. Each part's length goes in too, so that no two lists have one sum.
fn sha256(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The content of the file of a run.
pub(crate) fn encode(record: &RunRecord, key: &Key) -> String {
    let about = About { format: FORMAT, version: VERSION.into(), build: BUILD.into(), run: key.clone() };
    let document = Document { runs: vec![record.clone()], ..Document::default() };
    let raw = |json: String| RawValue::from_string(json).expect("it is JSON");
    let (about, result) = (raw(json(&about)), raw(to_json(&document)));
    let sha256 = sha256(&[about.get().as_bytes(), result.get().as_bytes()]);
    json(&Record { record: &about, result: &result, sha256 }) + "\n"
}

/// The run in a file's content, if that is whole, of this run and of this build.
///
/// # Errors
/// Why it is not, in words.
pub(crate) fn decode(text: &str, key: &Key) -> Result<RunRecord, String> {
    let none = |error: serde_json::Error| format!("it is no record of a run, or of an older form ({error})");
    let file: Record = serde_json::from_str(text).map_err(none)?;
    let sum = sha256(&[file.record.get().as_bytes(), file.result.get().as_bytes()]);
    if sum != file.sha256 {
        return Err("its content has changed since it was written (the checksum differs)".to_string());
    }
    let about: About = serde_json::from_str(file.record.get()).map_err(none)?;
    if about.format != FORMAT {
        return Err(format!("it has form {}, this schedlab reads form {FORMAT}", about.format));
    }
    if let Some(difference) = key.difference(&about.run) {
        return Err(format!("it is of another run: {difference}"));
    }
    if (about.version.as_str(), about.build.as_str()) != (VERSION, BUILD) {
        let About { version, build, .. } = about;
        return Err(format!(
            "another build made it (schedlab {version}, {build}; this is {VERSION}, {BUILD}), whose results may differ"
        ));
    }
    let document = from_json(file.result.get()).map_err(|error| error.to_string())?;
    match <[RunRecord; 1]>::try_from(document.runs) {
        Ok([run]) => Ok(run),
        Err(_) => Err("it is not the result of one run".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::EngineKind;
    use crate::deadline::TimeLimit;
    use crate::shipped;

    fn simulation(seed: u64) -> Simulation {
        Simulation {
            scheduler: Scheduler::find("eevdf").unwrap(),
            workload: "cpuhog:ttime=1ms".to_string(),
            machine: shipped::machine(shipped::DEFAULT_MACHINE).unwrap().machine,
            seed,
            limit: None,
            checkers: false,
            engine: EngineKind::Compiled,
            guest_memory: crate::args::GuestMemory::default(),
            after_ejection: crate::args::AfterEjection::Stop,
            sampling: None,
            extras: Extras::default(),
        }
    }

    /// A record with other words about it and a checksum that fits them.
    fn with(text: &str, from: &str, to: &str) -> String {
        let file: Record = serde_json::from_str(text).unwrap();
        let about = file.record.get().replace(from, to);
        assert_ne!(about, file.record.get(), "{from} is there");
        let about = RawValue::from_string(about).unwrap();
        let sum = sha256(&[about.get().as_bytes(), file.result.get().as_bytes()]);
        json(&Record { record: &about, result: file.result, sha256: sum })
    }

    #[test]
    fn records_of_other_builds_and_runs_are_refused_with_the_reason() {
        let run = simulation(1);
        let deadline = TimeLimit(None).begin("a run").unwrap();
        let (key, record) = (Key::of(&run).unwrap(), run.run_alone(&deadline).unwrap());
        let text = encode(&record, &key);
        assert_eq!(decode(&text, &key).unwrap(), record);
        let why = |text: &str| decode(text, &key).unwrap_err();
        assert!(
            BUILD.len() == 16
                && why(&with(&text, BUILD, "0123456789abcdef")).contains("schedlab 0.1.0, 0123")
        );
        assert!(why(&with(&text, "\"version\":\"", "\"version\":\"9")).contains("schedlab 90.1.0"));
        assert!(why(&with(&text, "\"format\":2", "\"format\":3")).contains("it has form 3"));
        let of_other = encode(&record, &Key::of(&simulation(2)).unwrap());
        assert_eq!(why(&of_other), "it is of another run: seed is 2, not 1");
        assert_ne!(key.file_name(), Key::of(&simulation(2)).unwrap().file_name());
        let two = text.replace("\"sha256\":\"", "\"sha256\":\"0");
        assert!(why(&two).contains("checksum"));
    }
}
