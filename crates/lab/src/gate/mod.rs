//! A gate: which differences, doubts and costs fail a comparison (`--fail-on`, `--budget`), and a kept baseline.

pub mod baseline;
pub mod budget;
mod rule;

use crate::failure::Failure;
use crate::gate::budget::Budget;
pub use crate::gate::rule::FailOn;
use schedlab_base::{RUN_METRICS, counted, did_you_mean};
use schedlab_report::{
    Comparison, Document, Gate, GateCheck, Outcome, Verdict, WorkloadNames, cell_of, change, scheduler_label,
};
use schedlab_trace::{RunRecord, Standing};

/// What a comparison must keep to pass.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// `--fail-on`.
    pub fail_on: Vec<FailOn>,
    /// `--budget`.
    pub budgets: Vec<Budget>,
}

impl Conditions {
    /// Refuses what so few runs cannot answer.
    ///
    /// # Errors
    /// One run has no interval.
    pub fn check_runs(&self, runs: usize) -> Result<(), Failure> {
        match self.fail_on.iter().find(|rule| runs < 2 && **rule != FailOn::Suspect) {
            Some(rule) => Err(Failure::usage(format!(
                "--fail-on {rule}: an interval takes two runs; give --runs 2 or more"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses a metric that no run could have, before any is made. `own` are the metrics of the workloads themselves.
    ///
    /// # Errors
    /// The metric, and the nearest that there is.
    pub fn check_metrics(&self, own: &[&str]) -> Result<(), Failure> {
        for rule in &self.fail_on {
            let FailOn::Worse { metric, .. } = rule else { continue };
            let known = || own.iter().copied().chain(RUN_METRICS.iter().map(|(name, _)| *name));
            let Some(metric) = metric else { continue };
            if !known().any(|name| name == metric) {
                let near = did_you_mean(metric, known());
                let own = own.join(", ");
                let text = format!("--fail-on {rule}: no metric '{metric}'{near}; the workload's own: {own}");
                return Err(Failure::usage(text));
            }
        }
        Ok(())
    }

    /// Judges results. `own` says by workload and metric which metrics are the workload's own.
    ///
    /// # Errors
    /// A metric of `--fail-on` that no run has.
    pub fn judge(&self, document: &Document, own: impl Fn(&str, &str) -> bool) -> Result<Gate, Failure> {
        for metric in self.fail_on.iter().filter_map(FailOn::metric) {
            if !document.comparisons.is_empty() && document.comparisons.iter().all(|c| c.metric != metric) {
                let near = did_you_mean(metric, document.comparisons.iter().map(|c| &c.metric));
                return Err(Failure::usage(format!("--fail-on worse:{metric}: no run has it{near}")));
            }
        }
        let rules = self.fail_on.iter().map(|rule| format!("--fail-on {rule}"));
        let asked = rules.chain(self.budgets.iter().map(|budget| format!("--budget {budget}"))).collect();
        let names = WorkloadNames::of(document.runs.iter().map(|run| &run.workload));
        let is_own = |c: &&Comparison| {
            let named = self.fail_on.iter().any(|rule| rule.metric() == Some(&c.metric));
            named || own(&c.cell.workload.name, &c.metric)
        };
        let worse = document.comparisons.iter().filter(is_own).map(|comparison| {
            let own = own(&comparison.cell.workload.name, &comparison.metric);
            self.compared(comparison, names.get(&comparison.cell.workload), own)
        });
        let mut checks: Vec<GateCheck> = worse.collect();
        for (baseline, runs) in by_scheduler(&document.runs) {
            let place = format!("{} on {}", names.get(&runs[0].workload), counted(runs[0].cpus, "CPU"));
            if !baseline {
                checks.extend(self.budgets.iter().filter_map(|budget| budget.judge(&runs, &place)));
            }
            checks.push(self.standing(&runs, &place));
        }
        Ok(Gate { asked, checks })
    }

    /// The check of one metric of one scheduler.
    fn compared(&self, c: &Comparison, workload: &str, own: bool) -> GateCheck {
        let place = format!("{workload} on {}", counted(c.cell.cpus, "CPU"));
        let (candidate, baseline) = (&c.candidate.scheduler, &c.baseline.scheduler);
        let found = format!("{} against {baseline}: {}", change(c), c.verdict.name());
        let rule = self.fail_on.iter().find(|rule| rule.fails(c, own));
        let outcome = match (rule, c.verdict) {
            (Some(rule), _) => Outcome::Failed(format!(
                "{candidate} is worse than {baseline}: {place}, {} {} (--fail-on {rule})",
                c.metric,
                change(c)
            )),
            (None, Verdict::NotDecided | Verdict::TooFewRuns) => Outcome::Undecided(found.clone()),
            (None, _) => Outcome::Passed,
        };
        GateCheck {
            cell: c.cell.clone(),
            scheduler: candidate.clone(),
            what: c.metric.clone(),
            found,
            outcome,
        }
    }

    /// The check of how far a scheduler's runs count. Void ones fail the command in any case.
    fn standing(&self, runs: &[&RunRecord], place: &str) -> GateCheck {
        // The first of several.
        let worst = runs.iter().rev().max_by_key(|run| run.standing()).expect("a scheduler has a run");
        let scheduler = scheduler_label(worst);
        let reasons = worst.standing_reasons().join(", ");
        let found = match worst.standing() {
            Standing::Valid => "valid".to_string(),
            Standing::Suspect => format!("suspect: {reasons}{}", why(worst)),
            Standing::Void => format!("void: {reasons}{}", why(worst)),
        };
        let asked = self.fail_on.contains(&FailOn::Suspect);
        let outcome = match worst.standing() {
            Standing::Void => Outcome::Failed(format!("{scheduler}: {place}, seed {}: {found}", worst.seed)),
            Standing::Suspect if asked => Outcome::Failed(format!(
                "{scheduler}: {place}, seed {}: {found} (--fail-on suspect)",
                worst.seed
            )),
            _ => Outcome::Passed,
        };
        GateCheck { cell: cell_of(worst), scheduler, what: "standing".to_string(), found, outcome }
    }
}

/// Why a run does not count: what ejected its scheduler, or the first warning that makes it suspect.
fn why(run: &RunRecord) -> String {
    let exit = &run.exit;
    let warning = run.warnings.iter().find(|one| one.kind.standing() != Standing::Valid);
    match (exit.kind.is_ejection(), warning) {
        (true, _) => format!(" ({}: {})", exit.reason, exit.message),
        (false, Some(warning)) => format!(" ({})", warning.text),
        (false, None) => String::new(),
    }
}

/// The runs of each scheduler in each cell, in their order, and whether the scheduler is the baseline there.
fn by_scheduler(runs: &[RunRecord]) -> Vec<(bool, Vec<&RunRecord>)> {
    let mut groups: Vec<(bool, Vec<&RunRecord>)> = Vec::new();
    for run in runs {
        let same_cell = |group: &(bool, Vec<&RunRecord>)| cell_of(group.1[0]) == cell_of(run);
        let label = scheduler_label(run);
        let known = groups.iter().position(|group| same_cell(group) && scheduler_label(group.1[0]) == label);
        match known {
            Some(at) => groups[at].1.push(run),
            None => groups.push((!groups.iter().any(same_cell), vec![run])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_report::{compare, from_json};
    use schedlab_trace::{Warning, WarningKind};

    /// Runs of `old` and `new` with these figures, of which lower ones are better.
    fn document(old: [f64; 3], new: [f64; 3], warning: WarningKind) -> Document {
        let mut runs = Vec::new();
        for (name, values) in [("old", old), ("new", new)] {
            for (seed, value) in (1..).zip(values) {
                let text = format!(
                    r#"{{ "schedlab": {{ "version": "0", "schema": 1 }}, "comparisons": [], "runs": [ {{ "scheduler": "{name}",
                    "settings": {{}}, "workload": {{ "name": "w", "params": {{}} }}, "machine": "m", "cpus": 2, "seed": {seed},
                    "backend": "sim", "duration_ns": 5, "exit": {{ "kind": "none" }}, "tasks": [], "trace_hash": null,
                    "metrics": {{ "time": {{ "value": {value}, "unit": "s", "better": "lower" }} }} }} ] }}"#
                );
                let mut run = from_json(&text).unwrap().runs.remove(0);
                run.warnings.push(Warning {
                    kind: warning,
                    text: "probe".to_string(),
                    count: 1,
                    worst: None,
                });
                runs.push(run);
            }
        }
        let comparisons = compare(&runs, "95".parse().unwrap(), 1.0);
        Document { runs, comparisons, ..Document::default() }
    }

    fn judged(document: &Document, rules: &[&str]) -> Gate {
        let fail_on = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Conditions { fail_on, budgets: Vec::new() }.judge(document, |_, metric| metric == "time").unwrap()
    }

    #[test]
    fn a_probe_that_is_left_out_is_no_doubt_about_figures() {
        let fails = |warning: WarningKind| {
            let document = document([1.0, 1.1, 1.2], [1.0, 1.1, 1.2], warning);
            judged(&document, &["suspect"]).failure()
        };
        assert_eq!(fails(WarningKind::LeftOut), None);
        let suspect = fails(WarningKind::NeverRan).unwrap();
        assert!(
            suspect.starts_with("old: w on 2 CPUs, seed 1: suspect: never_ran (probe) (--fail-on suspect)"),
            "{suspect}"
        );
    }

    #[test]
    fn what_is_not_decided_fails_nothing_and_is_counted() {
        let mut document = document([1.0, 1.1, 1.2], [1.3, 1.4, 1.5], WarningKind::LeftOut);
        let reason = judged(&document, &["worse"]).failure().unwrap();
        assert!(reason.starts_with("new is worse than old: w on 2 CPUs, time +27.3% ("), "{reason}");
        assert_eq!(judged(&document, &["worse=27.2"]).reasons().count(), 1);
        assert_eq!(judged(&document, &["worse=27.3"]).reasons().count(), 0);
        document.comparisons[0].verdict = Verdict::NotDecided;
        let gate = judged(&document, &["worse"]);
        assert_eq!(
            (gate.failure(), gate.summary()),
            (None, "3 checks: 2 passed, 0 failed, 1 not decided".to_string())
        );
    }

    #[test]
    fn metrics_are_known_before_and_after_the_runs() {
        let rules = |rule: &str| Conditions { fail_on: vec![rule.parse().unwrap()], budgets: Vec::new() };
        let near = rules("worse:tine").check_metrics(&["time"]).unwrap_err().text;
        assert!(near.contains("did you mean 'time'?"), "{near}");
        assert!(rules("worse:migrations").check_metrics(&["time"]).is_ok());
        let document = document([1.0; 3], [1.0; 3], WarningKind::LeftOut);
        assert!(
            rules("worse:migrations")
                .judge(&document, |_, _| true)
                .unwrap_err()
                .text
                .contains("no run has it")
        );
    }
}
