//! Schedulers ranked over several workloads, by the main figure of each: how many times as good as the first scheduler.

use crate::cells::{Cell, cell_of, distinct, main_metric, scheduler_label};
use crate::comparison::{Comparison, Verdict};
use crate::format::number;
use crate::table::table;
use schedlab_base::{Better, Metric, counted};
use schedlab_trace::{RunRecord, Standing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A scheduler's place over the main figures of a comparison: one of each workload and number of CPUs, where it has a good
/// direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ranked {
    /// The scheduler with its settings.
    pub scheduler: String,
    /// Geometric mean over the main figures of how many times as good as the baseline's the scheduler's mean is: 2 for half
    /// of the time, or for twice the throughput. 1 for the baseline; null where a figure is missing, and where none has a
    /// ratio.
    pub factor: Option<f64>,
    /// Main figures that are better than the baseline's, by their verdicts.
    pub better: usize,
    /// Main figures that are worse.
    pub worse: usize,
    /// Main figures without a difference that matters.
    pub same: usize,
    /// Main figures of which valid runs show no difference.
    pub undecided: usize,
    /// Main figures that the scheduler lacks, as where its runs are void; it stands last.
    pub missing: usize,
    /// Main figures that no scheduler's factor counts, since a mean of 0 or below has no ratio, and whose mean that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_ratio: Vec<String>,
}

/// Ranks the schedulers of the `runs` over their workloads, the best first and those without a factor last; nothing for a
/// single workload. What stands in no comparison with the first scheduler counts for none.
pub fn ranking(comparisons: &[Comparison], runs: &[RunRecord]) -> Vec<Ranked> {
    let Some(first) = runs.first().filter(|first| runs.iter().any(|run| run.workload != first.workload))
    else {
        return Vec::new();
    };
    let baseline = scheduler_label(first);
    let counts =
        |c: &&Comparison| c.baseline.scheduler == baseline && c.better != Better::Neither && is_main(c, runs);
    let main: Vec<&Comparison> = comparisons.iter().filter(counts).collect();
    // From the runs: a scheduler whose runs are all void is in no comparison, and lacks the figure.
    let of_baseline =
        runs.iter().filter(|run| scheduler_label(run) == baseline && has_main_figure(run, runs));
    let cells = distinct(of_baseline.map(cell_of));
    let no_ratio = without_ratio(&main);
    let told: Vec<String> = no_ratio.iter().map(|(_, text)| text.clone()).collect();
    let mut ranked: Vec<Ranked> = Vec::new();
    for run in runs {
        let scheduler = scheduler_label(run);
        if ranked.iter().any(|known| known.scheduler == scheduler) {
            continue;
        }
        let own: Vec<&Comparison> =
            main.iter().copied().filter(|c| c.candidate.scheduler == scheduler).collect();
        let rank = if scheduler == baseline {
            Ranked { factor: (no_ratio.len() < cells.len()).then_some(1.0), ..Ranked::of(scheduler) }
        } else {
            place(scheduler, &own, cells.len(), &no_ratio)
        };
        ranked.push(Ranked { no_ratio: told.clone(), ..rank });
    }
    ranked.sort_by(|a, b| b.factor.unwrap_or(0.0).total_cmp(&a.factor.unwrap_or(0.0)));
    ranked
}

/// Whether a run has the main figure of its workload, with a good direction.
fn has_main_figure(run: &RunRecord, runs: &[RunRecord]) -> bool {
    let Some(main) = main_metric(runs, &run.workload) else { return false };
    let counts = |metric: &Metric| metric.better != Better::Neither && metric.value.is_finite();
    !run.is_void() && run.metrics.iter().find(|metric| metric.name == main).is_some_and(counts)
}

/// Whether the metric is the main one of its workload.
pub(crate) fn is_main(comparison: &Comparison, runs: &[RunRecord]) -> bool {
    main_metric(runs, &comparison.cell.workload).is_none_or(|main| main == comparison.metric)
}

impl Ranked {
    /// A scheduler of which nothing is known.
    fn of(scheduler: String) -> Ranked {
        let no_ratio = Vec::new();
        Ranked { scheduler, factor: None, better: 0, worse: 0, same: 0, undecided: 0, missing: 0, no_ratio }
    }
}

/// The main figures that have no ratio under a scheduler, each with what says so. They count for none, so that all factors are
/// made of the same figures.
fn without_ratio<'a>(main: &[&'a Comparison]) -> Vec<(&'a Cell, String)> {
    let mut found: Vec<(&Cell, String)> = Vec::new();
    for c in main.iter().filter(|c| times_as_good(c).is_none()) {
        if found.iter().any(|(cell, _)| **cell == c.cell) {
            continue;
        }
        let low = if c.baseline.moments.mean > 0.0 { &c.candidate } else { &c.baseline };
        let (mean, cpus) = (number(low.moments.mean), counted(c.cell.cpus, "CPU"));
        let workload = &c.cell.workload.name;
        found
            .push((&c.cell, format!("{} of {workload} on {cpus}: {mean} under {}", c.metric, low.scheduler)));
    }
    found
}

fn place(scheduler: String, own: &[&Comparison], figures: usize, no_ratio: &[(&Cell, String)]) -> Ranked {
    // What suspect runs show is shown of none.
    let is_sure = |c: &Comparison| c.trust().standing == Standing::Valid;
    let count =
        |verdicts: &[Verdict]| own.iter().filter(|c| is_sure(c) && verdicts.contains(&c.verdict)).count();
    let missing = figures - own.len();
    let has_ratio = |c: &&&Comparison| no_ratio.iter().all(|(cell, _)| **cell != c.cell);
    let logs: Option<Vec<f64>> =
        own.iter().filter(has_ratio).map(|c| times_as_good(c).map(f64::ln)).collect();
    let logs = logs.filter(|logs| missing == 0 && !logs.is_empty());
    let unsure = own.iter().filter(|c| !is_sure(c)).count();
    Ranked {
        no_ratio: Vec::new(),
        scheduler,
        factor: logs.map(|logs| (logs.iter().sum::<f64>() / logs.len() as f64).exp()),
        better: count(&[Verdict::Better]),
        worse: count(&[Verdict::Worse]),
        same: count(&[Verdict::NoneThatMatters]),
        undecided: count(&[Verdict::NoDifference, Verdict::TooFewRuns, Verdict::NotDecided]) + unsure,
        missing,
    }
}

/// How many times as good as the baseline's the candidate's mean is: 2 for half of a time, or for twice a throughput.
fn times_as_good(comparison: &Comparison) -> Option<f64> {
    let ratio = comparison.candidate.moments.mean / comparison.baseline.moments.mean;
    let factor = if comparison.better == Better::Lower { ratio.recip() } else { ratio };
    let positive = comparison.baseline.moments.mean > 0.0 && comparison.candidate.moments.mean > 0.0;
    (positive && factor.is_finite()).then_some(factor)
}

/// Columns of a ranking, and those of numbers.
pub(crate) const RANKING_COLUMNS: [&str; 8] =
    ["place", "scheduler", "factor", "better", "worse", "same", "undecided", "missing"];
pub(crate) const RANKING_NUMBERS: [usize; 7] = [0, 2, 3, 4, 5, 6, 7];

/// How a ranking is computed, in a sentence.
pub(crate) const RANKING_MEANS: &str = "factor: geometric mean over the main figures of how many times as good as the baseline; better to missing: how many of them";

/// The lines of a ranking.
pub(crate) fn ranking_rows(ranking: &[Ranked]) -> Vec<Vec<String>> {
    let row = |(at, one): (usize, &Ranked)| {
        let (place, factor) = match one.factor {
            Some(factor) => ((at + 1).to_string(), number(factor)),
            None => ("-".to_string(), "-".to_string()),
        };
        let counts =
            [one.better, one.worse, one.same, one.undecided, one.missing].map(|count| count.to_string());
        [place, one.scheduler.clone(), factor].into_iter().chain(counts).collect()
    };
    ranking.iter().enumerate().map(row).collect()
}

/// Which figures the factors do not count, and why; nothing where they count all.
pub(crate) fn no_ratio_text(ranking: &[Ranked]) -> Option<String> {
    let left = &ranking.first().filter(|one| !one.no_ratio.is_empty())?.no_ratio;
    let what =
        if ranking.iter().all(|one| one.factor.is_none()) { "no factor" } else { "not in the factors" };
    Some(format!("{what}: {} (no ratio of a mean that is 0 or negative)", left.join("; ")))
}

/// A ranking with the words about how it is computed.
pub fn ranking_table(ranking: &[Ranked]) -> String {
    let rows = table(&RANKING_COLUMNS, &RANKING_NUMBERS, &ranking_rows(ranking));
    let mut text = format!("Ranking\n{RANKING_MEANS}\n\n{rows}");
    if let Some(line) = no_ratio_text(ranking) {
        text.push_str(&format!("{line}\n"));
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::comparison::compare;
    use crate::made_up::run;
    use schedlab_stats::Level;
    use schedlab_trace::ExitKind;

    /// Runs of schedulers under two workloads: `chat` counts messages, `build` takes time. Each has its figures of both.
    pub(crate) fn two_workloads(figures: &[(&str, [f64; 2], [f64; 2])]) -> Vec<RunRecord> {
        let mut runs = Vec::new();
        for name in ["chat", "build"] {
            for (scheduler, chat, build) in figures {
                let values = if name == "chat" { chat } else { build };
                for (seed, value) in (1..).zip(values) {
                    let mut one = run(scheduler, seed, *value);
                    one.workload.name = name.to_string();
                    if name == "build" {
                        one.metrics[0].name = "time".to_string();
                        one.metrics[0].better = Better::Lower;
                    }
                    runs.push(one);
                }
            }
        }
        runs
    }

    fn ranked(runs: &[RunRecord]) -> Vec<Ranked> {
        ranking(&compare(runs, Level::P95, 1.0), runs)
    }

    #[test]
    fn factors_are_geometric_means_in_the_good_direction() {
        let runs = two_workloads(&[
            ("vanilla", [10.0, 10.0], [8.0, 8.0]),
            // Twice as good twice: a factor of 2.
            ("o1", [20.0, 20.0], [4.0, 4.0]),
            // Twice as good once, half as good once: 1, as the baseline, which stands first.
            ("ule", [5.0, 5.0], [4.0, 4.0]),
        ]);
        let ranking = ranked(&runs);
        let shown: Vec<(&str, String, usize, usize)> = ranking
            .iter()
            .map(|one| (one.scheduler.as_str(), number(one.factor.unwrap()), one.better, one.worse))
            .collect();
        let [best, base, even] = [("o1", "2", 2, 0), ("vanilla", "1", 0, 0), ("ule", "1", 1, 1)]
            .map(|(name, factor, better, worse)| (name, factor.to_string(), better, worse));
        assert_eq!(shown, [best, base, even]);
        let text = ranking_table(&ranking);
        assert!(
            text.contains("    1  o1              2       2      0     0          0        0\n"),
            "{text}"
        );
    }

    #[test]
    fn who_lacks_a_figure_has_no_factor_and_stands_last() {
        let mut runs = two_workloads(&[
            ("vanilla", [10.0, 10.0], [8.0, 8.0]),
            ("o1", [90.0, 90.0], [4.0, 4.0]),
            ("ule", [9.0, 9.0], [8.0, 8.0]),
        ]);
        runs.iter_mut()
            .filter(|run| run.scheduler == "o1" && run.workload.name == "build")
            .for_each(|run| run.exit.kind = ExitKind::ErrorStall);
        let ranking = ranked(&runs);
        let last = ranking.last().unwrap();
        assert_eq!((last.scheduler.as_str(), last.factor, last.better, last.missing), ("o1", None, 1, 1));
        assert_eq!((ranking[1].scheduler.as_str(), ranking[1].worse, ranking[1].same), ("ule", 1, 1));
        runs.iter_mut().for_each(|run| run.metrics[0].value = -1.0);
        assert!(ranked(&runs)[1..].iter().all(|one| one.factor.is_none()), "no ratio of what is negative");
    }

    #[test]
    fn the_only_other_scheduler_is_ejected_in_a_workload_and_stands_last() {
        let mut runs =
            two_workloads(&[("vanilla", [10.0, 10.0], [8.0, 8.0]), ("o1", [90.0, 90.0], [4.0, 4.0])]);
        runs.iter_mut()
            .filter(|run| run.scheduler == "o1" && run.workload.name == "chat")
            .for_each(|run| run.exit.kind = ExitKind::Error);
        let ranking = ranked(&runs);
        let shown: Vec<_> =
            ranking.iter().map(|one| (one.scheduler.as_str(), one.factor, one.missing)).collect();
        assert_eq!(shown, [("vanilla", Some(1.0), 0), ("o1", None, 1)]);
    }

    #[test]
    fn a_figure_of_0_leaves_the_others_in_the_factors() {
        let figures = |chat: f64| {
            two_workloads(&[
                ("vanilla", [10.0, 10.0], [8.0, 8.0]),
                ("o1", [chat, chat], [4.0, 4.0]),
                ("ule", [30.0, 30.0], [16.0, 16.0]),
            ])
        };
        let ranking = ranked(&figures(0.0));
        let shown: Vec<(&str, Option<f64>)> =
            ranking.iter().map(|one| (one.scheduler.as_str(), one.factor)).collect();
        let factors = shown.iter().map(|(_, factor)| number(factor.unwrap())).collect::<Vec<_>>();
        assert_eq!((shown[0].0, factors.join(" ")), ("o1", "2 1 0.5000".to_string()));
        let text = ranking_table(&ranking);
        assert!(text.ends_with("not in the factors: throughput of chat on 2 CPUs: 0 under o1 (no ratio of a mean that is 0 or negative)\n"), "{text}");
        assert!(ranked(&figures(5.0)).iter().all(|one| one.no_ratio.is_empty()));
    }

    #[test]
    fn one_workload_has_no_ranking() {
        let runs = two_workloads(&[("a", [1.0, 1.0], [1.0, 1.0]), ("b", [2.0, 2.0], [2.0, 2.0])]);
        assert_eq!(ranked(&runs[..4]), []);
        assert_eq!(ranked(&runs).len(), 2);
        assert_eq!(ranking(&[], &[]), []);
    }
}
