//! Judged goals in result files.

use crate::comparison::{Cell, Trust};
use crate::goals::{GoalVerdict, JudgedGoal};
use crate::json::{JsonError, Workload, backend_in};
use crate::trust_json::TrustFile;
use crate::units::unit;
use schedlab_base::{Goal, Relation};
use serde::{Deserialize, Serialize};

/// One entry of `goals`.
#[derive(Serialize, Deserialize)]
pub(crate) struct GoalFile {
    workload: Workload,
    machine: String,
    cpus: usize,
    backend: String,
    scheduler: String,
    metric: String,
    relation: String,
    bound: f64,
    unit: String,
    runs: usize,
    mean: Option<f64>,
    margin: Option<f64>,
    margin_percent: Option<f64>,
    values: Vec<f64>,
    missed_seeds: Vec<u64>,
    seeds_without_figure: Vec<u64>,
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
