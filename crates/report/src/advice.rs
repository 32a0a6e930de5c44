//! What is said about runs beside each other: warnings that one run alone cannot give, and what to do where they say little.

use crate::cells::{cell_of, distinct, scheduler_label};
use crate::comparison::{Comparison, Verdict};
use crate::format::{number, unit_text};
use crate::workload_names::WorkloadNames;
use schedlab_base::counted;
use schedlab_trace::{RunRecord, Warning, WarningKind, falls_behind};

/// Adds to each run of a cell but the baseline's a warning about tasks that fall behind the baseline's run of its seed, or its first
/// one. Void runs are passed over.
pub fn add_falls_behind(runs: &mut [RunRecord]) {
    let mut found = Vec::new();
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| !run.is_void()) {
        let cell = cell_of(run);
        let inside = || runs.iter().filter(|other| cell_of(other) == cell);
        let Some(label) = inside().next().map(scheduler_label) else { continue };
        let baseline = || inside().filter(|other| scheduler_label(other) == label && !other.is_void());
        let same = baseline().find(|other| other.seed == run.seed).or_else(|| baseline().next());
        if let Some(baseline) = same.filter(|_| scheduler_label(run) != label) {
            found.extend(falls_behind(run, baseline).map(|warning| (at, warning)));
        }
    }
    for (at, warning) in found {
        runs[at].warnings.push(warning);
    }
}

/// A warning for every scheduler of a cell whose runs all have the same figures, whatever their seed.
pub fn seed_warnings(runs: &[RunRecord]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for cell in distinct(runs.iter().map(cell_of)) {
        let inside: Vec<&RunRecord> = runs.iter().filter(|run| cell_of(run) == cell).collect();
        let same = |name: &String| {
            let own = inside.iter().copied().filter(|run| scheduler_label(run) == *name && !run.is_void());
            let runs: Vec<&RunRecord> = own.collect();
            let figures = |run: &RunRecord| {
                run.metrics.iter().map(|m| (m.name.clone(), m.value.to_bits())).collect::<Vec<_>>()
            };
            runs.iter().any(|run| run.seed != runs[0].seed)
                && runs.iter().all(|run| figures(run) == figures(runs[0]))
        };
        let names = distinct(inside.iter().map(|run| scheduler_label(run)));
        let names: Vec<String> = names.into_iter().filter(same).collect();
        if !names.is_empty() {
            let text = format!(
                "the seeds change nothing in {} on {} under {}: every run has the same figures, so that one says as \
                 much as all",
                cell.workload.name,
                counted(cell.cpus, "CPU"),
                names.join(", ")
            );
            let (kind, count) = (WarningKind::SeedsChangeNothing, names.len() as u64);
            warnings.push(Warning { kind, text, count, worst: None });
        }
    }
    warnings
}

/// An interval wider than this part of the baseline's mean says little. Chosen: what this
/// page's readers call a small difference.
const WIDE: f64 = 0.05;

/// What to do about comparisons that say little: one sentence each, most runs first; nothing
/// where all is well.
pub fn advice(comparisons: &[Comparison]) -> Vec<String> {
    let mut advice = Vec::new();
    let few = comparisons.iter().map(|c| c.baseline.values.len().min(c.candidate.values.len())).min();
    if let Some(few) = few.filter(|few| *few < 3) {
        advice.push(format!(
            "{} on a side: too few; --runs 5 or more gives an interval to rely on",
            counted(few, "run")
        ));
    }
    let wide = |c: &&Comparison| {
        let mean = c.baseline.moments.mean.abs();
        c.verdict == Verdict::NoDifference && c.half_width.is_some_and(|half| half > WIDE * mean)
    };
    let names = WorkloadNames::of(comparisons.iter().map(|c| &c.cell.workload));
    for c in comparisons.iter().filter(wide) {
        let workload = names.get(&c.cell.workload);
        let under = if names.are_several() { format!(" under {workload}") } else { String::new() };
        let place =
            format!("{} of {}{under} on {}", c.metric, c.candidate.scheduler, counted(c.cell.cpus, "CPU"));
        let (half, mean) = (c.half_width.unwrap_or(0.0), c.baseline.moments.mean.abs());
        let spread = if mean > 0.0 {
            format!("{:.0} %", 100.0 * half / mean)
        } else {
            format!("{} {}", number(half), unit_text(c.unit)).trim_end().to_string()
        };
        let cure = c.runs_needed.map_or_else(
            || "more runs than are feasible would show a difference as small as the measured one".to_string(),
            |runs| {
                format!("about {} would show a difference as large as the measured one", counted(runs, "run"))
            },
        );
        advice.push(format!("{place}: the spread is large (+/- {spread}); {cure}"));
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::compare;
    use crate::made_up::runs;
    use schedlab_base::DurationNs;
    use schedlab_stats::Level;

    #[test]
    fn a_task_is_held_against_the_same_task_under_the_baseline() {
        let mut all = runs(&[10.0, 11.0], &[20.0, 21.0]);
        for run in &mut all {
            run.duration = DurationNs::from_secs(5);
            let wait = if run.scheduler == "o1" { 2_500 } else { 20 };
            let figures = run.task_waits[0].run_delay.as_mut().unwrap();
            figures.worst.length = DurationNs::from_ms(wait);
        }
        let calm = all.clone();
        add_falls_behind(&mut all);
        let kinds = |run: &RunRecord| run.warnings.iter().map(|one| one.kind).collect::<Vec<_>>();
        assert!(all[..2].iter().all(|run| !kinds(run).contains(&WarningKind::FallsBehind)));
        let told = &all[2].warnings[1];
        assert!(
            told.kind == WarningKind::FallsBehind && told.text.starts_with("task client/0 waited 2.500 s"),
            "{told:?}"
        );
        let mut alike = [calm[2].clone(), calm[3].clone()];
        alike[1].scheduler = "ule".into();
        add_falls_behind(&mut alike);
        assert!(!kinds(&alike[1]).contains(&WarningKind::FallsBehind));
    }

    #[test]
    fn seeds_that_change_nothing_are_warned_of() {
        let warnings = seed_warnings(&runs(&[5.0; 3], &[9.0, 9.5, 9.0]));
        assert_eq!((warnings.len(), warnings[0].kind), (1, WarningKind::SeedsChangeNothing));
        assert!(
            warnings[0].text.contains("in chat on 2 CPUs under vanilla: every run"),
            "{}",
            warnings[0].text
        );
        assert!(seed_warnings(&runs(&[5.0], &[9.0])).is_empty());
    }

    #[test]
    fn too_few_runs_and_wide_intervals_get_advice() {
        let of = |a: &[f64], b: &[f64]| advice(&compare(&runs(a, b), Level::P95, 1.0)[..1]);
        let none = of(&[0.0, 0.0, 0.0], &[1.0, 9.0, 2.0]);
        assert!(
            none[0].contains("the spread is large (+/- ") && none[0].contains(" messages/s)"),
            "{none:?}"
        );
        assert!(of(&[10.0], &[20.0])[0].contains("1 run on a side: too few"));
        let text = of(&[10.0, 20.0, 30.0], &[11.0, 15.0, 39.0]);
        assert!(
            text.len() == 1 && text[0].contains("throughput of o1 on 2 CPUs") && text[0].contains("about"),
            "{text:?}"
        );
        assert!(of(&[10.0, 11.0, 12.0], &[20.0, 21.5, 22.0]).is_empty());
    }
}
