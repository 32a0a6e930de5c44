//! What determines a run, by name and value.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Hex digits of a key's hash in the name of a file: 128 bits, no two of a sweep's.
const NAME_DIGITS: usize = 32;

/// Everything that determines a run but the build: names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(BTreeMap<String, String>);

impl Key {
    /// Adds what the part `name` of the run is.
    pub fn part(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Adds the content of the part `name`, as its SHA-256.
    pub fn content(&mut self, name: &str, bytes: &[u8]) {
        self.part(format!("{name}'s sha256"), sha256(&[bytes]));
    }

    /// The name of the record's file. It only says where to look: the file has the whole key.
    #[must_use]
    pub fn file_name(&self) -> String {
        let json = serde_json::to_string(self).expect("names and values have a JSON form");
        sha256(&[json.as_bytes()])[..NAME_DIGITS].to_string() + ".json"
    }

    /// The first part in which another key differs: its name, what it is here, and what it is there.
    pub(crate) fn difference(&self, other: &Key) -> Option<(String, String, String)> {
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let text = |key: &Key, name| key.0.get(name).map_or("none", String::as_str).to_string();
        let differs = |name: &&String| self.0.get(*name) != other.0.get(*name);
        names.into_iter().find(differs).map(|name| (name.clone(), text(self, name), text(other, name)))
    }
}

/// In hex. Each part's length goes in too, so that no two lists have one sum.
pub(crate) fn sha256(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parts: &[(&str, &str)]) -> Key {
        let mut key = Key::default();
        parts.iter().for_each(|(name, value)| key.part(*name, *value));
        key
    }

    #[test]
    fn the_name_of_a_file_depends_on_all_parts_and_not_on_their_order() {
        let (one, other) = (key(&[("seed", "1"), ("CPUs", "2")]), key(&[("CPUs", "2"), ("seed", "1")]));
        assert_eq!(one.file_name(), other.file_name());
        for different in [key(&[("seed", "1")]), key(&[("seed", "12"), ("CPUs", "")])] {
            assert_ne!(one.file_name(), different.file_name());
        }
        let mut content = one.clone();
        content.content("object", b"bytes");
        assert_ne!(content.file_name(), one.file_name());
    }

    #[test]
    fn a_part_that_one_key_lacks_is_a_difference() {
        let (one, more) = (key(&[("seed", "1")]), key(&[("loader", "a"), ("seed", "1")]));
        let words = |name: &str, here: &str, there: &str| Some((name.into(), here.into(), there.into()));
        assert_eq!(one.difference(&more), words("loader", "none", "a"));
        assert_eq!(more.difference(&one), words("loader", "a", "none"));
        assert_eq!(one.difference(&one), None);
    }
}
