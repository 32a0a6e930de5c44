//! Goals judged: which schedulers keep the bounds that a workload sets, and by how much.

use crate::cells::{Cell, cell_of, distinct, scheduler_label};
use crate::format::unit_text;
use crate::format::{number, signed};
use crate::table::table;
use crate::trust::Trust;
use crate::workload_names::WorkloadNames;
use schedlab_base::{Goal, counted};
use schedlab_trace::{RunRecord, Standing, WorkloadRecord};

/// What the runs of one scheduler say about a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoalVerdict {
    /// The mean of all runs keeps the bound.
    Met,
    /// The mean does not.
    Missed,
    /// A run has no such figure, as where it is void: nothing shows that the goal is met.
    NoFigure,
}

impl GoalVerdict {
    /// All of them.
    pub(crate) const ALL: [GoalVerdict; 3] = [GoalVerdict::Met, GoalVerdict::Missed, GoalVerdict::NoFigure];

    /// The words in tables and results.
    pub fn name(self) -> &'static str {
        match self {
            GoalVerdict::Met => "met",
            GoalVerdict::Missed => "missed",
            GoalVerdict::NoFigure => "no figure",
        }
    }

    /// The verdict of a name.
    pub(crate) fn from_name(name: &str) -> Option<GoalVerdict> {
        GoalVerdict::ALL.into_iter().find(|v| v.name() == name)
    }
}

/// A goal beside what one scheduler has reached in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedGoal {
    /// Where.
    pub cell: Cell,
    /// The scheduler with its settings.
    pub scheduler: String,
    /// The goal.
    pub goal: Goal,
    /// The figure of each run that has one, in the metric's unit.
    pub values: Vec<f64>,
    /// The mean of the values, which is judged.
    pub mean: Option<f64>,
    /// How far the mean is on the good side of the bound, in the metric's unit; negative on the bad side.
    pub margin: Option<f64>,
    /// Number of runs.
    pub runs: usize,
    /// The seeds whose own figure is beyond the bound.
    pub missed_seeds: Vec<u64>,
    /// The seeds whose run has no figure.
    pub seeds_without_figure: Vec<u64>,
    /// What that means.
    pub verdict: GoalVerdict,
    /// How far the runs count.
    pub trust: Trust,
}

impl JudgedGoal {
    /// The margin in percent of the bound; nothing for a bound of 0.
    pub fn margin_percent(&self) -> Option<f64> {
        let bound = self.goal.bound.abs();
        self.margin.filter(|_| bound > 0.0).map(|margin| 100.0 * margin / bound)
    }

    /// True where valid runs keep the bound.
    pub fn is_met(&self) -> bool {
        self.verdict == GoalVerdict::Met && self.trust.standing == Standing::Valid
    }

    /// `2 of 3`: how many runs do not meet the goal, those without a figure among them.
    fn missed_by(&self) -> String {
        format!("{} of {}", self.missed_seeds.len() + self.seeds_without_figure.len(), self.runs)
    }

    /// One sentence that says what was missed, for a message.
    pub fn sentence(&self) -> String {
        let measured = match self.mean {
            Some(mean) => format!("measured {}", amount(&self.goal, mean)),
            None => "no run has that figure".to_string(),
        };
        let (workload, cpus) = (&self.cell.workload.name, &self.cell.cpus);
        let (scheduler, goal, verdict, missed) =
            (&self.scheduler, &self.goal, self.trust.explain(self.verdict.name()), self.missed_by());
        let cpus = counted(*cpus, "CPU");
        let seeds = if self.runs == 1 { "seed" } else { "seeds" };
        format!(
            "goal {goal} of {workload} under {scheduler} on {cpus}: {verdict} by {missed} {seeds}, {measured}"
        )
    }
}

/// Judges the `runs` by the goals of their workloads: one entry for each workload, machine, number of CPUs, goal and scheduler,
/// in the order of the runs. A void run has no figure.
pub fn judge_goals(runs: &[RunRecord], goals: &[(WorkloadRecord, Vec<Goal>)]) -> Vec<JudgedGoal> {
    let mut judged = Vec::new();
    for cell in distinct(runs.iter().map(cell_of)) {
        let Some((_, goals)) = goals.iter().find(|(workload, _)| *workload == cell.workload) else {
            continue;
        };
        let inside: Vec<&RunRecord> = runs.iter().filter(|run| cell_of(run) == cell).collect();
        let schedulers = distinct(inside.iter().map(|run| scheduler_label(run)));
        for goal in goals {
            for scheduler in &schedulers {
                let own: Vec<&RunRecord> =
                    inside.iter().copied().filter(|run| scheduler_label(run) == *scheduler).collect();
                judged.push(judge((cell.clone(), scheduler.clone()), goal, &own));
            }
        }
    }
    judged
}

fn judge((cell, scheduler): (Cell, String), goal: &Goal, runs: &[&RunRecord]) -> JudgedGoal {
    let (mut values, mut missed_seeds, mut seeds_without_figure) = (Vec::new(), Vec::new(), Vec::new());
    for run in runs {
        let figure = run.metric(&goal.metric).filter(|value| value.is_finite());
        match figure.filter(|_| !run.is_void()) {
            Some(value) => {
                values.push(value);
                if !goal.is_met_by(value) {
                    missed_seeds.push(run.seed);
                }
            }
            None => seeds_without_figure.push(run.seed),
        }
    }
    let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let verdict = match mean {
        Some(mean) if !goal.is_met_by(mean) => GoalVerdict::Missed,
        Some(_) if seeds_without_figure.is_empty() => GoalVerdict::Met,
        _ => GoalVerdict::NoFigure,
    };
    JudgedGoal {
        cell,
        scheduler,
        goal: goal.clone(),
        margin: mean.map(|mean| goal.margin(mean)),
        mean,
        values,
        runs: runs.len(),
        missed_seeds,
        seeds_without_figure,
        verdict,
        trust: Trust::of(runs.iter().copied()),
    }
}

/// Columns of judged goals, and those of numbers.
pub(crate) const GOAL_COLUMNS: [&str; 7] =
    ["goal", "CPUs", "scheduler", "measured", "margin", "verdict", "missed by"];
pub(crate) const GOAL_NUMBERS: [usize; 3] = [1, 3, 4];

/// The lines of judged goals. Where there are several workloads, each goal stands behind its workload's name.
pub(crate) fn goal_rows(goals: &[JudgedGoal]) -> Vec<Vec<String>> {
    let names = WorkloadNames::of(goals.iter().map(|judged| &judged.cell.workload));
    let row = |judged: &JudgedGoal| {
        let under = if names.are_several() {
            format!("{}: ", names.get(&judged.cell.workload))
        } else {
            String::new()
        };
        let measured = judged.mean.map_or_else(|| "-".to_string(), |mean| amount(&judged.goal, mean));
        vec![
            format!("{under}{}", judged.goal),
            judged.cell.cpus.to_string(),
            judged.scheduler.clone(),
            measured,
            margin_text(judged),
            judged.trust.explain(judged.verdict.name()),
            judged.missed_by(),
        ]
    };
    goals.iter().map(row).collect()
}

/// A figure in the unit in which the goal is shown.
fn amount(goal: &Goal, value: f64) -> String {
    let (unit, divisor) = goal.shown_in();
    format!("{} {}", number(value / divisor), unit_text(unit)).trim_end().to_string()
}

fn margin_text(judged: &JudgedGoal) -> String {
    match (judged.margin_percent(), judged.margin) {
        (Some(percent), _) if percent.abs() >= 1.0 => format!("{percent:+.1}%"),
        (Some(percent), _) => format!("{}%", signed(percent)),
        (None, Some(margin)) => {
            format!("{} {}", signed(margin), unit_text(judged.goal.unit)).trim_end().to_string()
        }
        (None, None) => "-".to_string(),
    }
}

/// The goals under a heading; nothing without any.
pub fn goals_text(goals: &[JudgedGoal]) -> String {
    if goals.is_empty() {
        return String::new();
    }
    format!("\nGoals\n{}", table(&GOAL_COLUMNS, &GOAL_NUMBERS, &goal_rows(goals)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::made_up::run;
    use schedlab_base::Relation;
    use schedlab_trace::{ExitKind, Warning, WarningKind};

    pub(crate) fn at_least(bound: f64) -> Goal {
        Goal { metric: "throughput".into(), relation: Relation::AtLeast, bound, unit: "messages/s" }
    }

    pub(crate) fn judged(runs: &[RunRecord], bound: f64) -> Vec<JudgedGoal> {
        judge_goals(runs, &[(runs[0].workload.clone(), vec![at_least(bound)])])
    }

    #[test]
    fn the_mean_is_judged_and_seeds_beyond_the_bound_are_told() {
        let runs = [run("vanilla", 1, 9.0), run("vanilla", 2, 13.0), run("o1", 1, 9.0), run("o1", 2, 9.5)];
        let judged = judged(&runs, 10.0);
        let of: Vec<_> = judged.iter().map(|j| (j.verdict, j.margin, j.missed_seeds.clone())).collect();
        assert_eq!(
            of,
            [(GoalVerdict::Met, Some(1.0), vec![1]), (GoalVerdict::Missed, Some(-0.75), vec![1, 2])]
        );
        let text = goals_text(&judged);
        let row = |at: usize| {
            text.lines().nth(at).unwrap().split("  ").map(str::trim).filter(|cell| !cell.is_empty())
        };
        assert!(
            row(4).eq([
                "throughput >= 10 messages/s",
                "2",
                "vanilla",
                "11 messages/s",
                "+10.0%",
                "met",
                "1 of 2"
            ]),
            "{text}"
        );
        assert!(
            row(5).eq([
                "throughput >= 10 messages/s",
                "2",
                "o1",
                "9.250 messages/s",
                "-7.5%",
                "missed",
                "2 of 2"
            ]),
            "{text}"
        );
        let told = judged[1].sentence();
        assert!(
            told.starts_with("goal throughput >= 10 messages/s of chat under o1 on 2 CPUs: missed"),
            "{told}"
        );
    }

    #[test]
    fn a_goal_without_a_figure_is_not_met() {
        let mut ejected = run("o1", 2, 20.0);
        ejected.exit.kind = ExitKind::Error;
        let judged = judged(&[run("o1", 1, 20.0), ejected], 10.0);
        assert_eq!((judged[0].verdict, judged[0].values.len()), (GoalVerdict::NoFigure, 1));
        assert!(goals_text(&judged).ends_with("no figure (runs void: ejected)  1 of 2\n"));
        let mut suspect = run("o1", 1, 20.0);
        let kind = WarningKind::NeverRan;
        suspect.warnings.push(Warning { kind, text: "hog".into(), count: 1, worst: None });
        let judged = self::judged(&[suspect], 10.0);
        assert_eq!((judged[0].verdict, judged[0].is_met()), (GoalVerdict::Met, false));
        assert!(goals_text(&judged).ends_with("met (suspect: never_ran)  0 of 1\n"));
        let mut none = run("o1", 1, 20.0);
        none.metrics.clear();
        let judged = self::judged(&[none], 10.0);
        assert_eq!((judged[0].verdict, judged[0].mean), (GoalVerdict::NoFigure, None));
        assert!(judged[0].sentence().ends_with("no run has that figure"));
    }

    #[test]
    fn runs_of_other_workloads_are_not_judged() {
        let runs = [run("o1", 1, 20.0)];
        let other = WorkloadRecord { name: "reflex".into(), params: Vec::new() };
        assert_eq!(judge_goals(&runs, &[(other, vec![at_least(1.0)])]), []);
        assert_eq!(goals_text(&[]), "");
    }
}
