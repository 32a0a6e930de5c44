//! Short names of schedulers that stand side by side: without the settings, where the names alone differ.

use crate::cells::{distinct, scheduler_label};
use schedlab_trace::RunRecord;

/// The schedulers of some runs: the name with its settings, and the short one.
pub(crate) struct SchedulerNames(Vec<(String, String)>);

impl SchedulerNames {
    /// Those of the runs.
    pub(crate) fn of(runs: &[RunRecord]) -> SchedulerNames {
        let names = distinct(runs.iter().map(|run| (scheduler_label(run), run.scheduler.clone())));
        let differ = distinct(names.iter().map(|(_, short)| short)).len() == names.len();
        SchedulerNames(if differ { names } else { Vec::new() })
    }

    /// The short name.
    pub(crate) fn get<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.iter().find(|(long, _)| long == name).map_or(name, |(_, short)| short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;

    #[test]
    fn settings_alone_are_left_out() {
        let mut runs = [run("my[1]", 1, 1.0), run("my[2]", 1, 1.0)];
        runs[1].settings.push(("slice".into(), "5[ms]".into()));
        let names = SchedulerNames::of(&runs);
        assert_eq!((names.get("my[1]"), names.get("my[2][slice=5[ms]]")), ("my[1]", "my[2]"));
        runs[0].scheduler = "my[2]".into();
        assert_eq!(SchedulerNames::of(&runs).get("my[2][slice=5[ms]]"), "my[2][slice=5[ms]]");
    }
}
