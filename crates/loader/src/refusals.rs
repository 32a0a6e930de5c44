//! What the loader asked for and did not get, by name: a loader may ask for anything, any number of times.

use std::collections::BTreeSet;

/// Names that are kept, and characters of each. Chosen: far more than a person reads.
const MOST: usize = 64;
const LONGEST: usize = 200;

/// Names of what was refused, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals {
    names: BTreeSet<String>,
    /// There were more.
    more: bool,
}

impl Refusals {
    /// Notes one.
    pub(crate) fn note(&mut self, what: &str) {
        let name: String = what.chars().take(LONGEST).collect();
        if self.names.len() < MOST {
            self.names.insert(name);
        } else {
            self.more |= !self.names.contains(&name);
        }
    }

    /// All of them, in the order of the alphabet.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> + '_ {
        let more = self.more.then(|| "and more".to_string());
        self.names.iter().cloned().chain(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_much_is_refused_little_is_kept() {
        let mut refusals = Refusals::default();
        (0..10_000).for_each(|number| refusals.note(&format!("{number}{}", "x".repeat(5000))));
        let names: Vec<String> = refusals.names().collect();
        assert_eq!((names.len(), names.last().unwrap().as_str()), (MOST + 1, "and more"));
        assert!(names.iter().all(|name| name.len() <= LONGEST));
    }
}
