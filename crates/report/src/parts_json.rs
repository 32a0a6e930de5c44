//! Parts of a result file that stand in several places of it: workloads, figures and tasks, as JSON and back.

use crate::json_words::{JsonError, better_in, better_name};
use crate::pairs::{Pairs, Value, texts, values};
use crate::schema::names::betters;
use crate::units::unit;
use schedlab_base::{DurationNs, Metric};
use schedlab_trace::{TaskRecord, WorkloadRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A workload.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Workload {
    /// Its name as `-w` takes it, or the file.
    pub(crate) name: String,
    /// Its parameters, with the defaults filled in.
    #[serde(default)]
    pub(crate) params: Pairs<Value>,
}

/// A figure of a run.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Metric")]
pub(crate) struct Figure {
    /// In `unit`; null where a run was too short to have one.
    pub(crate) value: Option<f64>,
    /// Its unit; empty for a number of things and for a fraction.
    pub(crate) unit: String,
    /// Its good direction: `higher`, `lower`, `neither`.
    #[schemars(extend("enum" = betters()))]
    pub(crate) better: String,
}

/// What a task got.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Task")]
pub(crate) struct JsonTask {
    /// Its name; `(forked)` for all forked ones.
    pub(crate) name: String,
    /// Its nice value.
    pub(crate) nice: i32,
    /// Its time on CPUs, in ns.
    pub(crate) cpu_time_ns: u64,
    /// Its CPU time over the run's length; one CPU is 1.
    pub(crate) share: f64,
    /// How often it got a CPU.
    pub(crate) switches: u64,
    /// How often that was another CPU than the last time.
    pub(crate) migrations: u64,
}

impl Workload {
    pub(crate) fn new(workload: &WorkloadRecord) -> Workload {
        Workload { name: workload.name.clone(), params: values(&workload.params) }
    }

    pub(crate) fn read(self) -> WorkloadRecord {
        WorkloadRecord { name: self.name, params: texts(self.params) }
    }
}

impl JsonTask {
    pub(crate) fn new(task: &TaskRecord) -> JsonTask {
        JsonTask {
            name: task.name.clone(),
            nice: task.nice,
            cpu_time_ns: task.cpu_time.0,
            share: task.share,
            switches: task.switches,
            migrations: task.migrations,
        }
    }

    pub(crate) fn read(self) -> TaskRecord {
        TaskRecord {
            name: self.name,
            nice: self.nice,
            cpu_time: DurationNs(self.cpu_time_ns),
            share: self.share,
            switches: self.switches,
            migrations: self.migrations,
        }
    }
}

impl Figure {
    fn new(metric: &Metric) -> Figure {
        Figure {
            value: metric.value.is_finite().then_some(metric.value),
            unit: metric.unit.to_string(),
            better: better_name(metric.better).to_string(),
        }
    }

    /// Metrics by name.
    pub(crate) fn all(metrics: &[Metric]) -> Pairs<Figure> {
        Pairs(metrics.iter().map(|metric| (metric.name.clone(), Figure::new(metric))).collect())
    }

    /// The metrics again.
    pub(crate) fn read_all(figures: Pairs<Figure>) -> Result<Vec<Metric>, JsonError> {
        let read = |(name, figure): (String, Figure)| {
            let value = figure.value.unwrap_or(f64::NAN);
            Ok(Metric::new(&name, value, unit(&figure.unit), better_in(&figure.better)?))
        };
        figures.0.into_iter().map(read).collect()
    }
}
