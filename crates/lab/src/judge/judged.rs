//! A load with all of its runs.

use crate::judge::drawn::NOT_SHOWN;
use crate::judge::floors::Fault;
use crate::judge::score::{Score, joined};
use crate::judge::suite::SuiteLoad;
use schedlab_report::{JudgedLoad, LoadVerdict};

/// All pairs of a load.
pub(super) struct Judged<'a> {
    pub(super) load: &'a SuiteLoad,
    /// By run.
    pub(super) logarithms: Vec<Vec<f64>>,
    /// With the run that each is of; nothing of what is true of all runs together.
    pub(super) faults: Vec<(Option<usize>, Fault)>,
}

impl Judged<'_> {
    /// As the answer shows it.
    pub(super) fn shown(&self) -> JudgedLoad {
        let is_void = self.faults.iter().any(|(_, fault)| fault.kind.voids());
        let score = if is_void { Score::NONE } else { Score::of(&joined(&self.logarithms)) };
        let [low, high] = score.interval;
        let verdict = match (is_void || self.load.metrics.is_empty(), low > 1.0, high < 1.0) {
            (true, ..) => LoadVerdict::NotMeasured,
            (_, true, _) => LoadVerdict::Better,
            (_, _, true) => LoadVerdict::Worse,
            _ => LoadVerdict::NoDifferenceShown,
        };
        JudgedLoad { name: self.load.name.clone(), score: score.value, interval: score.interval, verdict }
    }
}

/// What messages call a load.
pub(super) fn label(load: &SuiteLoad, show_hidden: bool) -> String {
    if load.hidden && !show_hidden { NOT_SHOWN.to_string() } else { format!("load {}", load.name) }
}
