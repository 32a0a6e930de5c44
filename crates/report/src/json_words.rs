//! What all parts of a result file have in common: the number of the form, words of fields, and why a file cannot be read.

use crate::pairs::Pairs;
use schedlab_base::Better;
use schedlab_trace::{Backend, Counter};
use std::collections::BTreeMap;
use std::fmt;

/// The number of the schema that is written, and the only one that is read.
pub const SCHEMA: u32 = 1;

/// Why a result file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError(pub String);

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JsonError {}

pub(crate) fn better_name(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
        Better::Neither => "neither",
    }
}

pub(crate) fn better_in(name: &str) -> Result<Better, JsonError> {
    [Better::Higher, Better::Lower, Better::Neither]
        .into_iter()
        .find(|better| better_name(*better) == name)
        .ok_or_else(|| JsonError(format!("better '{name}': higher, lower or neither")))
}

pub(crate) fn backend_in(name: &str) -> Result<Backend, JsonError> {
    Backend::ALL
        .into_iter()
        .find(|backend| backend.name() == name)
        .ok_or_else(|| JsonError(format!("backend '{name}': sim, host or vm")))
}

pub(crate) fn counters_in(values: Pairs<u64>, meanings: Pairs<String>) -> Vec<Counter> {
    let mut meanings: BTreeMap<String, String> = meanings.0.into_iter().collect();
    let counter = |(name, value): (String, u64)| {
        let meaning = meanings.remove(&name).unwrap_or_default();
        Counter { name, value, meaning }
    };
    values.0.into_iter().map(counter).collect()
}
