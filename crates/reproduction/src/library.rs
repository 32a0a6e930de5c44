//! The files that definitions refer to: tables of published figures as CSV.

use crate::rule::Qualifier;
use std::collections::BTreeMap;

/// Files by name, as built into the command.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    files: &'static [(&'static str, &'static str)],
}

/// One record of a CSV file, by column.
pub(crate) type Record = BTreeMap<String, String>;

impl Library {
    /// A library of files: name and text.
    pub const fn new(files: &'static [(&'static str, &'static str)]) -> Library {
        Library { files }
    }

    /// The text of a file.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn text(&self, name: &str) -> Result<&'static str, String> {
        let found = self.files.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| *text).ok_or_else(|| format!("no published file {name}"))
    }

    /// The names that end with `ending`, without it, in order.
    pub fn names(&self, ending: &str) -> Vec<&'static str> {
        self.files.iter().filter_map(|(name, _)| name.strip_suffix(ending)).collect()
    }

    /// All records of a CSV file.
    pub(crate) fn records(&self, name: &str) -> Result<Vec<Record>, String> {
        let mut reader = csv::Reader::from_reader(self.text(name)?.as_bytes());
        let broken = |error: csv::Error| format!("{name}: {error}");
        let header = reader.headers().map_err(broken)?.clone();
        let record = |record: Result<csv::StringRecord, csv::Error>| {
            let record = record.map_err(broken)?;
            Ok(header.iter().zip(record.iter()).map(|(k, v)| (k.to_string(), v.to_string())).collect())
        };
        reader.records().map(record).collect()
    }

    /// The number in `column` of the only record whose columns have the values of `place`,
    /// and how it is meant.
    ///
    /// # Errors
    /// No such record, several, or no number.
    pub(crate) fn figure(
        &self,
        file: &str,
        column: &str,
        place: &[(String, String)],
    ) -> Result<(f64, Qualifier), String> {
        let same = |record: &Record| {
            let equal = |(key, value): &(String, String)| {
                record.get(key).is_some_and(|have| have.eq_ignore_ascii_case(value))
            };
            place.iter().all(equal)
        };
        let records: Vec<Record> = self.records(file)?.into_iter().filter(same).collect();
        let shown = || place.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(", ");
        let [record] = records.as_slice() else {
            return Err(format!("{file}: {} records with {}, one is needed", records.len(), shown()));
        };
        number(record, column).map(|value| (value, qualifier(record))).map_err(|what| {
            let place = shown();
            format!("{file}: {what} in the record with {place}")
        })
    }
}

/// The number in a column of a record.
pub(crate) fn number(record: &Record, column: &str) -> Result<f64, String> {
    let text = record.get(column).ok_or_else(|| format!("no column {column}"))?;
    text.parse().map_err(|_| format!("{column} '{text}' is not a number"))
}

fn qualifier(record: &Record) -> Qualifier {
    match record.get("qualifier").map(String::as_str) {
        Some("~") => Qualifier::About,
        Some("<") => Qualifier::Below,
        Some(">") => Qualifier::Above,
        _ => Qualifier::Is,
    }
}
