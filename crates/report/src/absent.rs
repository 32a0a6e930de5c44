//! Schedulers that have no figure of a metric where others may have one, and why: void runs, runs without the metric, too few runs
//! or none.

use crate::cells::{cpus_text, distinct, listed, scheduler_label};
use crate::comparison::Comparison;
use crate::scheduler_names::SchedulerNames;
use crate::trust::Trust;
use schedlab_trace::RunRecord;
use std::collections::BTreeMap;

/// What a scheduler has on some number of CPUs.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Figures,
    /// Some of the runs, which are in no comparison.
    Incomplete,
    NoFigure,
    Void,
    NoRuns,
}

/// Schedulers that lack figures for one reason, and on which numbers of CPUs.
pub(crate) struct Absent {
    schedulers: Vec<String>,
    cpus: Vec<usize>,
    /// `are void (ejected)`.
    lack: String,
    is_baseline: bool,
}

/// Those of the runs under one workload, which has these comparisons. Without a `metric` no run counts.
pub(crate) fn absent(runs: &[&RunRecord], comparisons: &[&Comparison], metric: Option<&str>) -> Vec<Absent> {
    let schedulers = distinct(runs.iter().map(|run| scheduler_label(run)));
    let mut counts = distinct(runs.iter().map(|run| run.cpus));
    counts.sort_unstable();
    let mut places: BTreeMap<(String, usize), Vec<&RunRecord>> = BTreeMap::new();
    for run in runs {
        places.entry((scheduler_label(run), run.cpus)).or_default().push(run);
    }
    let most = places.values().map(Vec::len).max().unwrap_or(0);
    let mut found: Vec<Absent> = Vec::new();
    for (at, name) in schedulers.iter().enumerate() {
        let own = |cpus: usize| places.get(&(name.clone(), cpus)).map_or(&[][..], Vec::as_slice);
        let is_compared = |cpus: usize| {
            let here = comparisons.iter().filter(|c| c.cell.cpus == cpus);
            here.flat_map(|c| [&c.baseline, &c.candidate]).any(|side| side.scheduler == *name)
        };
        let state = |cpus: usize| match state(own(cpus), metric) {
            State::Figures if !is_compared(cpus) && own(cpus).len() < most => State::Incomplete,
            state => state,
        };
        let states: Vec<(usize, State)> = counts.iter().map(|cpus| (*cpus, state(*cpus))).collect();
        for wanted in [State::Void, State::NoFigure, State::Incomplete, State::NoRuns] {
            let cpus: Vec<usize> =
                states.iter().filter(|(_, state)| *state == wanted).map(|(cpus, _)| *cpus).collect();
            if cpus.is_empty() {
                continue;
            }
            let runs: Vec<&RunRecord> = cpus.iter().flat_map(|cpus| own(*cpus)).copied().collect();
            let lack = lack(wanted, &runs, metric);
            // Where the first scheduler has no run, the next one is the baseline.
            let is_baseline = at == 0 && wanted != State::NoRuns;
            let is_alike =
                |known: &&mut Absent| !known.is_baseline && known.cpus == cpus && known.lack == lack;
            match found.iter_mut().find(is_alike) {
                Some(known) => known.schedulers.push(name.clone()),
                None => {
                    found.push(Absent { schedulers: vec![name.clone()], cpus, lack, is_baseline });
                }
            }
        }
    }
    found
}

fn state(runs: &[&RunRecord], metric: Option<&str>) -> State {
    let has_figure = |run: &&RunRecord| {
        !run.is_void() && metric.and_then(|name| run.metric(name)).is_some_and(f64::is_finite)
    };
    match runs {
        [] => State::NoRuns,
        runs if runs.iter().any(has_figure) => State::Figures,
        runs if runs.iter().all(|run| run.is_void()) => State::Void,
        _ => State::NoFigure,
    }
}

/// What is said of the runs.
fn lack(state: State, runs: &[&RunRecord], metric: Option<&str>) -> String {
    let reasons = Trust::of(runs.iter().copied()).reasons;
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    match state {
        State::Void => format!("are void{reasons}"),
        State::NoRuns => "are missing".to_string(),
        State::Incomplete => "are incomplete".to_string(),
        State::NoFigure | State::Figures => format!("have no {}{reasons}", metric.unwrap_or("figure")),
    }
}

impl Absent {
    /// `1 and 2 CPUs there is no verdict on bad: its runs are void (ejected)`, behind `On `.
    pub(crate) fn sentence(&self, names: &SchedulerNames) -> String {
        let cpus = cpus_text(self.cpus.iter().copied());
        if self.is_baseline {
            return format!("{cpus} nothing is compared: {}", self.runs(names));
        }
        let whose = if self.schedulers.len() == 1 { "its" } else { "their" };
        format!("{cpus} there is no verdict on {}: {whose} runs {}", self.named(names), self.lack)
    }

    /// `1 and 2 CPUs the runs of bad are void (ejected)`, behind `on `.
    pub(crate) fn clause(&self, names: &SchedulerNames) -> String {
        format!("{} {}", cpus_text(self.cpus.iter().copied()), self.runs(names))
    }

    fn runs(&self, names: &SchedulerNames) -> String {
        let baseline = if self.is_baseline { ", the baseline," } else { "" };
        format!("the runs of {}{baseline} {}", self.named(names), self.lack)
    }

    fn named(&self, names: &SchedulerNames) -> String {
        listed(self.schedulers.iter().map(|name| names.get(name).to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;
    use schedlab_trace::ExitKind;

    #[test]
    fn each_scheduler_has_its_own_reason() {
        let on = |name: &str, cpus: usize| RunRecord { cpus, ..run(name, 1, 1.0) };
        let mut runs: Vec<RunRecord> =
            ["base", "void", "too", "none"].iter().flat_map(|name| [on(name, 2), on(name, 1)]).collect();
        runs[2..6].iter_mut().for_each(|run| run.exit.kind = ExitKind::Error);
        runs[6].metrics.clear();
        runs.pop();
        let names = SchedulerNames::of(&runs);
        let all = |metric| absent(&runs.iter().collect::<Vec<_>>(), &[], metric);
        let told: Vec<String> = all(Some("throughput")).iter().map(|one| one.sentence(&names)).collect();
        assert_eq!(
            told,
            [
                "1 and 2 CPUs there is no verdict on void and too: their runs are void (ejected)",
                "2 CPUs there is no verdict on none: its runs have no throughput",
                "1 CPU there is no verdict on none: its runs are missing",
            ]
        );
        let other = all(Some("other"));
        assert_eq!(
            other[0].sentence(&names),
            "1 and 2 CPUs nothing is compared: the runs of base, the baseline, have no other"
        );
        // One of two runs alone has an end.
        let some = [run("base", 1, 1.0), run("base", 2, 1.0), run("slow", 1, 1.0)];
        let found = absent(&some.iter().collect::<Vec<_>>(), &[], Some("throughput"));
        assert_eq!(found[0].sentence(&names), "2 CPUs there is no verdict on slow: its runs are incomplete");
        assert_eq!(found.len(), 1);
        assert_eq!(other[1].clause(&names), "1 and 2 CPUs the runs of void and too are void (ejected)");
    }
}
