//! Reasons of an answer: the worst fault of each load in words.

use crate::judge::drawn::NOT_SHOWN;
use crate::judge::floors::{Fault, FaultKind};
use crate::judge::judged::Judged;
use schedlab_report::{JudgedLoad, LoadVerdict};
use std::collections::{BTreeMap, BTreeSet};

/// What orders reasons: the kind of the fault, whether its load is hidden, and how many runs lack it.
type Weight = (FaultKind, bool, usize);

/// The faults of all loads in words, the weightiest first. Loads that are not shown are counted together.
pub(super) fn of_faults(judged: &[Judged<'_>], seeds: usize, show_hidden: bool) -> Vec<String> {
    let (shown, hidden): (Vec<&Judged<'_>>, Vec<&Judged<'_>>) =
        judged.iter().partition(|one| show_hidden || !one.load.hidden);
    let mut reasons: Vec<(Weight, String)> = shown.iter().filter_map(|one| of_load(one, seeds)).collect();
    let mut counts: BTreeMap<FaultKind, BTreeSet<(usize, usize)>> = BTreeMap::new();
    for (number, one) in hidden.iter().enumerate() {
        for (run, fault) in &one.faults {
            let runs = run.map_or(0..seeds, |run| run..run + 1);
            counts.entry(fault.kind).or_default().extend(runs.map(|run| (number, run)));
        }
    }
    let all = hidden.len() * seeds;
    for (kind, runs) in counts {
        let text = format!("{NOT_SHOWN}: {} ({} of {all} such runs)", kind.words(), runs.len());
        reasons.push(((kind, true, all - runs.len()), text));
    }
    reasons.sort();
    reasons.into_iter().map(|(_, text)| text).collect()
}

/// The worst fault of a load, and the names of its others.
fn of_load(one: &Judged<'_>, seeds: usize) -> Option<(Weight, String)> {
    let kinds: BTreeSet<FaultKind> = one.faults.iter().map(|(_, fault)| fault.kind).collect();
    let kind = *kinds.first()?;
    let faults: Vec<&(Option<usize>, Fault)> =
        one.faults.iter().filter(|(_, fault)| fault.kind == kind).collect();
    let runs: BTreeSet<usize> = faults.iter().filter_map(|(run, _)| *run).collect();
    let worst = faults.iter().map(|(_, fault)| fault).max_by_key(|fault| fault.tasks)?;
    let more = match worst.tasks {
        0 | 1 => String::new(),
        2 => "; 1 more task likewise".to_string(),
        tasks => format!("; {} more tasks likewise", tasks - 1),
    };
    let count = if runs.is_empty() { String::new() } else { format!("{} of {seeds} runs, ", runs.len()) };
    let others: Vec<&str> = kinds.iter().skip(1).map(|kind| kind.name()).collect();
    let others = if others.is_empty() { String::new() } else { format!("; also {}", others.join(", ")) };
    let text = format!("{} ({count}{}{others}): {}{more}", one.load.name, kind.name(), worst.text);
    Some(((kind, false, seeds - runs.len()), text))
}

/// The load to look at: the weakest one of those that count.
pub(super) fn weakest(loads: &[JudgedLoad]) -> Option<String> {
    let counted = loads.iter().filter(|load| load.verdict != LoadVerdict::NotMeasured);
    let weakest = counted.min_by(|a, b| a.score.total_cmp(&b.score))?;
    let JudgedLoad { name, score, interval: [low, high], verdict } = weakest;
    if loads.iter().all(|load| load.verdict == LoadVerdict::NoDifferenceShown) {
        return Some("no difference is shown under any measured load".to_string());
    }
    Some(format!("look at {name}, the weakest load: {score:.3} [{low:.3}, {high:.3}], {}", verdict.words()))
}
