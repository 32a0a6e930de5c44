//! The content of a finished run's file: what it is the result of, which build made it, the result, and a checksum over all that.

use crate::key::{Key, sha256};
use schedlab_report::{Document, JsonError, from_json, to_json};
use schedlab_trace::RunRecord;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Number of this form; files of others are not read.
const FORMAT: u32 = 2;

/// The build of the command that makes the runs: others may come to other results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// The version of the build.
    pub version: &'static str,
    /// Hash of the sources that results depend on.
    pub sources: &'static str,
}

/// Why a file does not stand for a run.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The file cannot be read.
    #[error("{0}")]
    Unread(#[from] std::io::Error),
    /// The file has not the form of a record.
    #[error("it is no record of a run, or of an older form ({0})")]
    NoRecord(#[from] serde_json::Error),
    /// The checksum is of another content.
    #[error("its content has changed since it was written (the checksum differs)")]
    Changed,
    /// The record has a form of another number.
    #[error("it has form {0}, this schedlab reads form {FORMAT}")]
    Form(u32),
    /// The record is of another run.
    #[error("it is of another run: {part} is {there}, not {wanted}")]
    OtherRun {
        /// Name of the first part that differs.
        part: String,
        /// What that is in the file.
        there: String,
        /// What it is in the run.
        wanted: String,
    },
    /// Another build made it.
    #[error(
        "another build made it (schedlab {version}, {sources}; this is {}, {}), whose results may differ",
        this.version,
        this.sources
    )]
    OtherBuild {
        /// That build's version.
        version: String,
        /// The hash of its sources.
        sources: String,
        /// The build that reads the file.
        this: Build,
    },
    /// The result in it cannot be read.
    #[error("{0}")]
    Result(#[from] JsonError),
    /// The record holds several runs or none.
    #[error("it is not the result of one run")]
    NotOneRun,
}

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
struct File<'a> {
    #[serde(borrow)]
    record: &'a RawValue,
    #[serde(borrow)]
    result: &'a RawValue,
    sha256: String,
}

impl File<'_> {
    fn sum(&self) -> String {
        sha256(&[self.record.get().as_bytes(), self.result.get().as_bytes()])
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data has a JSON form")
}

/// The content of the file of a run.
pub(crate) fn encode(record: &RunRecord, key: &Key, build: Build) -> String {
    let Build { version, sources } = build;
    let about = About { format: FORMAT, version: version.into(), build: sources.into(), run: key.clone() };
    let document = Document { runs: vec![record.clone()], ..Document::default() };
    let raw = |json: String| RawValue::from_string(json).expect("it is JSON");
    let (about, result) = (raw(json(&about)), raw(to_json(&document)));
    let mut file = File { record: &about, result: &result, sha256: String::new() };
    file.sha256 = file.sum();
    json(&file) + "\n"
}

/// The run in a file's content, if that is whole, of this run and of this build.
///
/// # Errors
/// Why it is not.
pub(crate) fn decode(text: &str, key: &Key, build: Build) -> Result<RunRecord, Unusable> {
    let file: File = serde_json::from_str(text)?;
    if file.sum() != file.sha256 {
        return Err(Unusable::Changed);
    }
    let about: About = serde_json::from_str(file.record.get())?;
    if about.format != FORMAT {
        return Err(Unusable::Form(about.format));
    }
    if let Some((part, wanted, there)) = key.difference(&about.run) {
        return Err(Unusable::OtherRun { part, there, wanted });
    }
    if (about.version.as_str(), about.build.as_str()) != (build.version, build.sources) {
        return Err(Unusable::OtherBuild { version: about.version, sources: about.build, this: build });
    }
    let runs = from_json(file.result.get())?.runs;
    <[RunRecord; 1]>::try_from(runs).map(|[run]| run).map_err(|_| Unusable::NotOneRun)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{BUILD, run};

    /// A file with other words about the run and a checksum that fits them.
    fn with(text: &str, from: &str, to: &str) -> String {
        let file: File = serde_json::from_str(text).unwrap();
        let about = file.record.get().replace(from, to);
        assert_ne!(about, file.record.get(), "{from} is there");
        let about = RawValue::from_string(about).unwrap();
        let mut file = File { record: &about, result: file.result, sha256: String::new() };
        file.sha256 = file.sum();
        json(&file)
    }

    #[test]
    fn files_of_other_builds_and_runs_are_refused_with_the_reason() {
        let (key, record) = run(1);
        let text = encode(&record, &key, BUILD);
        assert_eq!(decode(&text, &key, BUILD).unwrap(), record);
        let why = |text: &str| decode(text, &key, BUILD).unwrap_err().to_string();
        for (from, to, told) in [
            (BUILD.sources, "fedcba9876543210", "schedlab 1.2.3, fedcba9876543210; this is 1.2.3, 0123"),
            ("\"version\":\"", "\"version\":\"9", "schedlab 91.2.3"),
            ("\"format\":2", "\"format\":3", "it has form 3, this schedlab reads form 2"),
            ("\"seed\":\"1\"", "\"seed\":\"2\"", "it is of another run: seed is 2, not 1"),
            ("\"seed\":\"1\"", "", "it is of another run: seed is none, not 1"),
            ("\"run\":", "\"walk\":", "no record of a run"),
        ] {
            assert!(why(&with(&text, from, to)).contains(told), "{told}: {}", why(&with(&text, from, to)));
        }
    }

    #[test]
    fn a_content_that_was_changed_or_cut_is_refused() {
        let (key, record) = run(1);
        let text = encode(&record, &key, BUILD);
        let why = |text: &str| decode(text, &key, BUILD).unwrap_err();
        assert!(matches!(why(&text.replace("\"sha256\":\"", "\"sha256\":\"0")), Unusable::Changed));
        assert!(matches!(why(&text.replace("\"seed\": 1", "\"seed\": 2")), Unusable::Changed));
        for cut in [0, 1, text.len() / 2, text.len() - 2] {
            assert!(matches!(why(&text[..cut]), Unusable::NoRecord(_)), "{cut}");
        }
    }

    #[test]
    fn the_result_of_two_runs_is_none_of_one() {
        let (key, record) = run(1);
        let one = encode(&record, &key, BUILD);
        let file: File = serde_json::from_str(&one).unwrap();
        let document = Document { runs: vec![record, run(2).1], ..Document::default() };
        let result = RawValue::from_string(to_json(&document)).unwrap();
        let mut two = File { record: file.record, result: &result, sha256: String::new() };
        two.sha256 = two.sum();
        assert!(matches!(decode(&json(&two), &key, BUILD), Err(Unusable::NotOneRun)));
    }
}
