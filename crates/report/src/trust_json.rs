//! What a run's record says about how far it can be trusted, as JSON: waits of tasks, warnings, provenance, and what
//! followed an ejection.

use crate::json_words::JsonError;
use crate::pairs::Pairs;
use crate::parts_json::{Figure, JsonTask};
use crate::schema::names::{scopes, standings, warning_kinds};
use crate::trust::Trust;
use schedlab_base::DurationNs;
use schedlab_trace::{
    AfterEjection, Provenance, Standing, Validation, WaitFigures, WaitRecord, WaitScope, Warning,
    WarningKind, WorstWait,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// The waits of a task, process, group or cgroup, or of all.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct TaskWaits {
    /// `all`; `group`: tasks whose names are equal before the `/`, with what they fork; `process` with several threads;
    /// `task`.
    #[schemars(extend("enum" = scopes()))]
    scope: String,
    /// Of the group, process, cgroup or task; `(forked)` is all forked tasks.
    name: String,
    /// From wakeup to running.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "on_one_line")]
    #[schemars(with = "Option<Waits>")]
    wakeup_latency_ns: Option<Waits>,
    /// Every wait of a runnable task for a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "on_one_line")]
    #[schemars(with = "Option<Waits>")]
    run_delay_ns: Option<Waits>,
}

/// How long waits for a CPU were, and the longest one.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Waits {
    /// Number of waits.
    count: u64,
    /// Their average, in ns.
    #[serde(default)]
    mean: u64,
    /// Median, in ns, in the buckets of the histogram.
    p50: u64,
    /// 95th percentile, in ns.
    p95: u64,
    /// 99th percentile, in ns.
    p99: u64,
    /// The longest wait, in ns.
    max: u64,
    #[serde(flatten)]
    worst: Place,
}

/// The task that waited, when and behind which; the length stands beside.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Place {
    /// The task that waited.
    task: String,
    /// From when on, in ns since the run began.
    since_ns: u64,
    /// The CPU that the task ran on then, or was queued on last if it never got to run.
    cpu: u32,
    /// What ran on that CPU meanwhile, as far as its last 32 stretches tell; at most three, the longest first. In real runs
    /// the task that ran there last.
    #[serde(default)]
    behind: Vec<Behind>,
}

/// A task that ran while another one waited.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Behind {
    /// Its name.
    task: String,
    /// How long, in ns.
    time_ns: u64,
}

/// Something that the figures alone do not tell.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Warning")]
pub(crate) struct WarningFile {
    /// [Which](#standing).
    #[schemars(extend("enum" = warning_kinds()))]
    kind: String,
    /// One sentence for people.
    text: String,
    /// How many tasks or spans it is true of.
    count: u64,
    /// The longest case, of warnings about waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worst: Option<Span>,
}

/// The longest wait of a warning.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorstCase")]
struct Span {
    /// How long it was, in ns.
    length_ns: u64,
    #[serde(flatten)]
    place: Place,
}

/// What a run was made of.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Provenance")]
pub(crate) struct ProvenanceFile {
    /// Of the scheduler's object; none for `eevdf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object_sha256: Option<String>,
    /// Of tasks and programs, with parameters and seed applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload_sha256: Option<String>,
    /// Of the machine description, in simulated runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine_sha256: Option<String>,
    /// Version of the command and hash of its sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    build: Option<String>,
    /// What the workload uses of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mechanisms: Option<Vec<String>>,
    /// Callbacks that paused in the middle, in an interleaved run (`--interleave`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pauses: Option<u64>,
}

/// Between which values a real kernel's figures lie; or why that is not known.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Validation")]
pub(crate) struct ValidationFile {
    /// Whether intervals are known.
    validated: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    /// The real kernel.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kernel: String,
    /// How often a real figure lies in its interval, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    coverage_percent: Option<f64>,
    /// How many real figures of each kind the intervals are made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<usize>,
    /// Under how many workloads those were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workloads: Option<usize>,
    /// Metric to the ends between which a real kernel's figure lies, in the metric's unit.
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
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Trust")]
pub(crate) struct TrustFile {
    /// The worst of the runs.
    #[serde(default)]
    #[schemars(extend("enum" = standings(), "default" = "valid"))]
    standing: String,
    /// Why it is not valid.
    #[serde(default)]
    standing_reasons: Vec<String>,
    /// Seeds of void runs, which are in no mean.
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

/// The rest of a run after its scheduler had left, under the kernel's own class.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AfterEjection")]
pub(crate) struct AfterFile {
    /// How long it took, in ns.
    duration_ns: u64,
    /// Figures by name.
    metrics: Pairs<Figure>,
    /// What each task got.
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
        let Provenance { object, workload, machine, build, mechanisms, pauses } = provenance.clone();
        ProvenanceFile {
            object_sha256: object,
            workload_sha256: workload,
            machine_sha256: machine,
            build,
            mechanisms,
            pauses,
        }
    }

    pub(crate) fn read(self) -> Provenance {
        let ProvenanceFile { object_sha256, workload_sha256, machine_sha256, build, mechanisms, pauses } =
            self;
        Provenance {
            object: object_sha256,
            workload: workload_sha256,
            machine: machine_sha256,
            build,
            mechanisms,
            pauses,
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
