//! How far runs count: what stands against a verdict.

use crate::cells::distinct;
use schedlab_trace::{RunRecord, Standing};

/// How far the runs of a scheduler in a cell count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trust {
    /// The worst of the runs.
    pub standing: Standing,
    /// Why they are not all valid: `ejected`, `ended_early`, kinds of warnings.
    pub reasons: Vec<String>,
    /// The seeds of void runs, which are in no mean.
    pub void_seeds: Vec<u64>,
}

impl Trust {
    /// That of some runs.
    pub(crate) fn of<'a>(runs: impl Iterator<Item = &'a RunRecord> + Clone) -> Trust {
        let standing = runs.clone().map(RunRecord::standing).max().unwrap_or_default();
        let reasons = distinct(runs.clone().flat_map(RunRecord::standing_reasons).map(str::to_string));
        Trust {
            standing,
            reasons,
            void_seeds: runs.filter(|run| run.is_void()).map(|run| run.seed).collect(),
        }
    }

    /// The worse of two.
    pub(crate) fn with(&self, other: &Trust) -> Trust {
        let reasons = distinct(self.reasons.iter().chain(&other.reasons).cloned());
        let void_seeds = distinct(self.void_seeds.iter().chain(&other.void_seeds).copied());
        Trust { standing: self.standing.max(other.standing), reasons, void_seeds }
    }

    /// A verdict with what stands against it: `better (suspect)`.
    pub(crate) fn mark(&self, verdict: &str) -> String {
        match self.standing {
            Standing::Valid => verdict.to_string(),
            Standing::Suspect => format!("{verdict} (suspect)"),
            Standing::Void => format!("{verdict} (runs void)"),
        }
    }

    /// A verdict without the mark.
    pub(crate) fn unmark(marked: &str) -> &str {
        marked.strip_suffix(" (suspect)").or_else(|| marked.strip_suffix(" (runs void)")).unwrap_or(marked)
    }

    /// A verdict with the reasons: `better (suspect: never_ran)`.
    pub(crate) fn explain(&self, verdict: &str) -> String {
        match self.standing {
            Standing::Valid => verdict.to_string(),
            Standing::Suspect => format!("{verdict} (suspect: {})", self.reasons.join(", ")),
            Standing::Void => format!("{verdict} (runs void: {})", self.reasons.join(", ")),
        }
    }
}
