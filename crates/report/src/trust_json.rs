//! What a run's record says about how far it can be trusted, as JSON: waits of tasks, warnings, provenance, and what
//! followed an ejection.

use crate::comparison::Trust;
use crate::json::{Figure, JsonError, JsonTask, Pairs};
use schedlab_base::DurationNs;
use schedlab_trace::{
    AfterEjection, Provenance, Standing, Validation, WaitFigures, WaitRecord, WaitScope, Warning,
    WarningKind, WorstWait,
};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// The waits of a task, process or group, or of all.
#[derive(Serialize, Deserialize)]
pub(crate) struct TaskWaits {
    scope: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "on_one_line")]
    wakeup_latency_ns: Option<Waits>,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "on_one_line")]
    run_delay_ns: Option<Waits>,
}

#[derive(Serialize, Deserialize)]
struct Waits {
    count: u64,
    #[serde(default)]
    mean: u64,
    p50: u64,
    p95: u64,
    p99: u64,
    max: u64,
    #[serde(flatten)]
    worst: Place,
}

/// The task that waited, when and behind which; the length stands beside.
#[derive(Serialize, Deserialize)]
struct Place {
    task: String,
    since_ns: u64,
    cpu: u32,
    #[serde(default)]
    behind: Vec<Behind>,
}

#[derive(Serialize, Deserialize)]
struct Behind {
    task: String,
    time_ns: u64,
}

/// A warning.
#[derive(Serialize, Deserialize)]
pub(crate) struct WarningFile {
    kind: String,
    text: String,
    count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worst: Option<Span>,
}

#[derive(Serialize, Deserialize)]
struct Span {
    length_ns: u64,
    #[serde(flatten)]
    place: Place,
}

/// What a run was made of.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct ProvenanceFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    build: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mechanisms: Option<Vec<String>>,
}

/// What is known of the real kernel's figures.
#[derive(Serialize, Deserialize)]
pub(crate) struct ValidationFile {
    validated: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kernel: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    coverage_percent: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workloads: Option<usize>,
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    intervals: Pairs<[f64; 2]>,
}

impl ValidationFile {
    pub(crate) fn new(validation: &Validation) -> ValidationFile {
        let none = ValidationFile {
            validated: false,
            reason: String::new(),
            kernel: String::new(),
            coverage_percent: None,
            measured: None,
            workloads: None,
            intervals: Pairs::default(),
        };
        match validation {
            Validation::None(reason) => ValidationFile { reason: reason.clone(), ..none },
            Validation::Intervals { kernel, coverage_percent, measured, workloads, intervals } => {
                ValidationFile {
                    validated: true,
                    kernel: kernel.clone(),
                    coverage_percent: Some(*coverage_percent),
                    measured: Some(*measured),
                    workloads: Some(*workloads),
                    intervals: Pairs(intervals.clone()),
                    ..none
                }
            }
        }
    }

    pub(crate) fn read(self) -> Validation {
        if !self.validated {
            return Validation::None(self.reason);
        }
        Validation::Intervals {
            kernel: self.kernel,
            coverage_percent: self.coverage_percent.unwrap_or_default(),
            measured: self.measured.unwrap_or_default(),
            workloads: self.workloads.unwrap_or_default(),
            intervals: self.intervals.0,
        }
    }
}

/// How far runs count.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct TrustFile {
    #[serde(default)]
    standing: String,
    #[serde(default)]
    standing_reasons: Vec<String>,
    #[serde(default)]
    void_seeds: Vec<u64>,
}

impl TrustFile {
    pub(crate) fn new(trust: &Trust) -> TrustFile {
        TrustFile {
            standing: trust.standing.name().to_string(),
            standing_reasons: trust.reasons.clone(),
            void_seeds: trust.void_seeds.clone(),
        }
    }

    /// # Errors
    /// An unknown standing. A file of an older version has none.
    pub(crate) fn read(self) -> Result<Trust, JsonError> {
        let standing = match self.standing.as_str() {
            "" => Standing::Valid,
            name => {
                Standing::from_name(name).ok_or_else(|| JsonError(format!("unknown standing '{name}'")))?
            }
        };
        Ok(Trust { standing, reasons: self.standing_reasons, void_seeds: self.void_seeds })
    }
}

/// The rest of a run after an ejection.
#[derive(Serialize, Deserialize)]
pub(crate) struct AfterFile {
    duration_ns: u64,
    metrics: Pairs<Figure>,
    tasks: Vec<JsonTask>,
}

fn on_one_line<S: Serializer>(waits: &Option<Waits>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = serde_json::to_string(waits).and_then(RawValue::from_string);
    text.map_err(serde::ser::Error::custom)?.serialize(serializer)
}

impl Place {
    fn new(worst: &WorstWait) -> Place {
        let behind = worst.behind.iter().map(|(task, time)| Behind { task: task.clone(), time_ns: time.0 });
        Place { task: worst.task.clone(), since_ns: worst.since.0, cpu: worst.cpu, behind: behind.collect() }
    }

    fn read(self, length: u64) -> WorstWait {
        let behind = self.behind.into_iter().map(|one| (one.task, DurationNs(one.time_ns)));
        WorstWait {
            task: self.task,
            since: DurationNs(self.since_ns),
            length: DurationNs(length),
            cpu: self.cpu,
            behind: behind.collect(),
        }
    }
}

impl Waits {
    fn new(figures: &WaitFigures) -> Waits {
        let (p50, p95, p99) = (figures.p50.0, figures.p95.0, figures.p99.0);
        let (max, worst) = (figures.worst.length.0, Place::new(&figures.worst));
        Waits { count: figures.count, mean: figures.mean.0, p50, p95, p99, max, worst }
    }

    fn read(self) -> WaitFigures {
        let (p50, p95, p99) = (DurationNs(self.p50), DurationNs(self.p95), DurationNs(self.p99));
        let (mean, worst) = (DurationNs(self.mean), self.worst.read(self.max));
        WaitFigures { count: self.count, mean, p50, p95, p99, worst }
    }
}

impl TaskWaits {
    pub(crate) fn new(record: &WaitRecord) -> TaskWaits {
        TaskWaits {
            scope: record.scope.name().to_string(),
            name: record.name.clone(),
            wakeup_latency_ns: record.wakeup_latency.as_ref().map(Waits::new),
            run_delay_ns: record.run_delay.as_ref().map(Waits::new),
        }
    }

    pub(crate) fn read(self) -> Result<WaitRecord, JsonError> {
        let unknown =
            || JsonError(format!("task_waits: scope '{}': all, group, process or task", self.scope));
        Ok(WaitRecord {
            scope: WaitScope::from_name(&self.scope).ok_or_else(unknown)?,
            name: self.name,
            run_delay: self.run_delay_ns.map(Waits::read),
            wakeup_latency: self.wakeup_latency_ns.map(Waits::read),
        })
    }
}

impl WarningFile {
    pub(crate) fn new(warning: &Warning) -> WarningFile {
        let span = |worst: &WorstWait| Span { length_ns: worst.length.0, place: Place::new(worst) };
        WarningFile {
            kind: warning.kind.name().to_string(),
            text: warning.text.clone(),
            count: warning.count,
            worst: warning.worst.as_ref().map(span),
        }
    }

    pub(crate) fn read(self) -> Result<Warning, JsonError> {
        let kind = WarningKind::from_name(&self.kind);
        let kind = kind.ok_or_else(|| JsonError(format!("unknown kind of warning '{}'", self.kind)))?;
        let worst = self.worst.map(|span| span.place.read(span.length_ns));
        Ok(Warning { kind, text: self.text, count: self.count, worst })
    }
}

impl ProvenanceFile {
    pub(crate) fn new(provenance: &Provenance) -> ProvenanceFile {
        let Provenance { object, workload, machine, build, mechanisms } = provenance.clone();
        ProvenanceFile {
            object_sha256: object,
            workload_sha256: workload,
            machine_sha256: machine,
            build,
            mechanisms,
        }
    }

    pub(crate) fn read(self) -> Provenance {
        let ProvenanceFile { object_sha256, workload_sha256, machine_sha256, build, mechanisms } = self;
        Provenance {
            object: object_sha256,
            workload: workload_sha256,
            machine: machine_sha256,
            build,
            mechanisms,
        }
    }
}

impl AfterFile {
    pub(crate) fn new(after: &AfterEjection) -> AfterFile {
        AfterFile {
            duration_ns: after.duration.0,
            metrics: Figure::all(&after.metrics),
            tasks: after.tasks.iter().map(JsonTask::new).collect(),
        }
    }

    pub(crate) fn read(self) -> Result<AfterEjection, JsonError> {
        Ok(AfterEjection {
            duration: DurationNs(self.duration_ns),
            metrics: Figure::read_all(self.metrics)?,
            tasks: self.tasks.into_iter().map(JsonTask::read).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_refused() {
        let scope = r#"{"scope": "moon", "name": "x"}"#;
        let error = serde_json::from_str::<TaskWaits>(scope).unwrap().read().unwrap_err();
        assert!(error.to_string().contains("scope 'moon'"), "{error}");
        let kind = r#"{"kind": "moon", "text": "x", "count": 1}"#;
        let error = serde_json::from_str::<WarningFile>(kind).unwrap().read().unwrap_err();
        assert!(error.to_string().contains("unknown kind of warning 'moon'"), "{error}");
    }
}
