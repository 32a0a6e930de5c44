//! Judged goals in result files.

use crate::cells::Cell;
use crate::goals::{GoalVerdict, JudgedGoal};
use crate::json_words::{JsonError, backend_in};
use crate::parts_json::Workload;
use crate::schema::names::{backends, goal_verdicts, relations};
use crate::trust::Trust;
use crate::trust_json::TrustFile;
use crate::units::unit;
use schedlab_base::{Goal, Relation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A bound that a workload sets, beside what a scheduler reached.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Goal")]
pub(crate) struct GoalFile {
    /// What ran.
    workload: Workload,
    /// The machine description.
    machine: String,
    /// Number of CPUs.
    cpus: usize,
    /// `sim`, `host` or `vm`.
    #[schemars(extend("enum" = backends()))]
    backend: String,
    /// The scheduler with its settings.
    scheduler: String,
    /// Name of the metric.
    metric: String,
    /// `<`, `<=`, `>` or `>=`.
    #[schemars(extend("enum" = relations()))]
    relation: String,
    /// In `unit`.
    bound: f64,
    /// The metric's unit.
    unit: String,
    /// Number of runs.
    runs: usize,
    /// Mean of the values, which is judged, in `unit`; null without any.
    mean: Option<f64>,
    /// How far the mean is on the good side of the bound, in `unit`; negative on the bad side.
    margin: Option<f64>,
    /// The same in percent of the bound.
    margin_percent: Option<f64>,
    /// The figures of the runs that have one, in `unit`.
    values: Vec<f64>,
    /// Seeds whose own figure is beyond the bound.
    missed_seeds: Vec<u64>,
    /// Seeds whose run has none, as where it is void.
    seeds_without_figure: Vec<u64>,
    /// `met`, `missed`, or `no figure` where a run lacks it. ` (suspect)` or ` (runs void)` is added where not all runs are
    /// valid.
    #[schemars(extend("pattern" = goal_verdicts()))]
    verdict: String,
    #[serde(default, flatten)]
    trust: TrustFile,
}

impl GoalFile {
    /// The entry of a judged goal.
    pub(crate) fn new(judged: &JudgedGoal) -> GoalFile {
        let JudgedGoal { cell, goal, .. } = judged;
        GoalFile {
            workload: Workload::new(&cell.workload),
            machine: cell.machine.clone(),
            cpus: cell.cpus,
            backend: cell.backend.name().to_string(),
            scheduler: judged.scheduler.clone(),
            metric: goal.metric.clone(),
            relation: goal.relation.sign().to_string(),
            bound: goal.bound,
            unit: goal.unit.to_string(),
            runs: judged.runs,
            mean: judged.mean,
            margin: judged.margin,
            margin_percent: judged.margin_percent(),
            values: judged.values.clone(),
            missed_seeds: judged.missed_seeds.clone(),
            seeds_without_figure: judged.seeds_without_figure.clone(),
            verdict: judged.trust.mark(judged.verdict.name()),
            trust: TrustFile::new(&judged.trust),
        }
    }

    /// The judged goal again.
    ///
    /// # Errors
    /// An unknown backend, relation or verdict.
    pub(crate) fn read(self) -> Result<JudgedGoal, JsonError> {
        let relation = Relation::from_sign(&self.relation)
            .ok_or_else(|| JsonError(format!("unknown relation '{}' of a goal", self.relation)))?;
        let verdict = GoalVerdict::from_name(Trust::unmark(&self.verdict))
            .ok_or_else(|| JsonError(format!("unknown verdict '{}' of a goal", self.verdict)))?;
        let cell = Cell {
            workload: self.workload.read(),
            machine: self.machine,
            cpus: self.cpus,
            backend: backend_in(&self.backend)?,
        };
        Ok(JudgedGoal {
            cell,
            scheduler: self.scheduler,
            goal: Goal { metric: self.metric, relation, bound: self.bound, unit: unit(&self.unit) },
            values: self.values,
            mean: self.mean,
            margin: self.margin,
            runs: self.runs,
            missed_seeds: self.missed_seeds,
            seeds_without_figure: self.seeds_without_figure,
            verdict,
            trust: self.trust.read()?,
        })
    }
}
