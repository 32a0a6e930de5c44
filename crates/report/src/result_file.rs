//! The form of a result file. The published schema (`docs/schema/results.json`), the tables of `docs/results.md` and the types
//! of the Python package are made of these structs: a field's comment is its description there, in Markdown.

use crate::goals_json::GoalFile;
use crate::groups_json::GroupFile;
use crate::json_words::SCHEMA;
use crate::pairs::{Pairs, Value};
use crate::parts_json::{Figure, JsonTask, Workload};
use crate::printed_json::{CallbackFile, PrintedFile, is_zero};
use crate::ranking::Ranked;
use crate::schema::names::{backends, betters, comparison_verdicts, exit_kinds, standings};
use crate::trust_json::{AfterFile, ProvenanceFile, TaskWaits, TrustFile, ValidationFile, WarningFile};
use crate::waits_json::WaitsFile;
use schedlab_reproduction::{DocumentOutcome, Sensitivity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// What `--json` writes, of simulated and real runs alike. Equal runs give equal bytes. Readers pass over fields that they do
/// not know.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Results")]
pub(crate) struct File {
    /// What wrote the file, and in which form.
    pub(crate) schedlab: Header,
    /// The runs, in the order in which they were asked for.
    #[serde(default)]
    pub(crate) runs: Vec<Run>,
    /// One entry per workload, machine, number of CPUs, backend, metric and scheduler, each against the first scheduler.
    #[serde(default)]
    pub(crate) comparisons: Vec<Compared>,
    /// The schedulers over several workloads, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ranking: Vec<Ranked>,
    /// One entry per workload, machine, number of CPUs, goal and scheduler, where a workload file has goals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) goals: Vec<GoalFile>,
    /// Documents measured again: of `schedlab reproduce`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) reproduction: Vec<DocumentOutcome>,
    /// What changing the machine does to them: of `reproduce --sensitivity`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sensitivity: Vec<Sensitivity>,
    /// Waits of tasks for each other on a machine: of `schedlab deps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waits: Option<WaitsFile>,
    /// What the runs together show; each run has its own as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<WarningFile>,
}

/// The program that wrote a file, and in which form.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Header {
    /// Version of schedlab.
    pub(crate) version: String,
    /// Number of the form. It changes when a field changes its meaning or goes away; new fields may come at any time.
    #[schemars(extend("const" = SCHEMA))]
    pub(crate) schema: u32,
}

impl Header {
    /// That of this version.
    pub(crate) fn new() -> Header {
        Header { version: env!("CARGO_PKG_VERSION").to_string(), schema: SCHEMA }
    }
}

/// One run of one scheduler.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Run {
    /// As named on the command line: `o1`, a path, or `eevdf` for the kernel's own fair class.
    pub(crate) scheduler: String,
    /// Tunables that were set with `--set`.
    #[serde(default)]
    pub(crate) settings: Pairs<Value>,
    /// What ran.
    pub(crate) workload: Workload,
    /// The machine description.
    pub(crate) machine: String,
    /// Number of CPUs.
    pub(crate) cpus: usize,
    /// The seed of the workload and of the simulated kernel.
    pub(crate) seed: u64,
    /// `sim`, `host` (this machine's kernel) or `vm`.
    #[schemars(extend("enum" = backends()))]
    pub(crate) backend: String,
    /// How long the run took, in ns on its own clock. A run ends when its scheduler leaves (with `--after-ejection continue`:
    /// the part before).
    pub(crate) duration_ns: u64,
    /// How the scheduler left.
    pub(crate) exit: Exit,
    /// [How far to trust](fidelity.md) the figures of a simulated run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) validation: Option<ValidationFile>,
    /// Figures by name; the workload's own come first.
    pub(crate) metrics: Pairs<Figure>,
    /// How a latency is distributed, by its name: `wakeup_latency_ns`, `run_delay_ns`.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub(crate) histograms: Pairs<Buckets>,
    /// What the workload reports sample by sample, by name (`swap-multi`: its iterations).
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub(crate) series: Pairs<Samples>,
    /// The scheduler's own counters, [other integers that the run has changed](foreign-objects.md#counters), then the
    /// kernel's (`SCX_EV_*`).
    #[serde(default)]
    pub(crate) counters: Pairs<u64>,
    /// What is counted, for the counters whose object says so (a `btf_decl_tag` on the variable).
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub(crate) counter_meanings: Pairs<String>,
    /// Tagged arrays of structures as they stood at the end, such as SWAP's `swap_trusted`; with `-v` the changed integers
    /// (`globals`) and the maps as well.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub(crate) scheduler_tables: Pairs<Table>,
    /// What each callback that was called cost; in real runs with `run --callbacks`. `timer` and `tracing` are the object's
    /// timers and its programs at trace points.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub(crate) callbacks: Pairs<CallbackFile>,
    /// The first 1000 lines that the scheduler printed with `bpf_printk()`. In real runs other BPF programs' lines of that
    /// time are among them, since the kernel does not tell them apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) printed: Vec<PrintedFile>,
    /// How many more lines there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) printed_left_out: u64,
    /// What the scheduler's own program wrote, where it has one (`exec:`): the last MiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) loader_output: String,
    /// What each task got; forked tasks are summed up in `(forked)`.
    #[serde(default)]
    pub(crate) tasks: Vec<JsonTask>,
    /// What groups of tasks (cgroup v2) got, for workloads that have them: parents first, with all below them. Of the whole run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<GroupFile>,
    /// Sub-schedulers that were to be attached to groups (`--sub`), in the order in which they were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sub_schedulers: Vec<SubFile>,
    /// How long tasks waited for a CPU: one entry for all tasks, then for each group, process with several threads, and task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) task_waits: Vec<TaskWaits>,
    /// [How far the figures count](#standing).
    #[serde(default)]
    #[schemars(extend("enum" = standings(), "default" = "valid"))]
    pub(crate) standing: String,
    /// Why the run is not valid: `ejected`, `ended_early`, kinds of warnings.
    #[serde(default)]
    pub(crate) standing_reasons: Vec<String>,
    /// What the figures alone do not tell.
    #[serde(default)]
    pub(crate) warnings: Vec<WarningFile>,
    /// The rest of the run, under the kernel's own class; with `--after-ejection continue` after an ejection. All other
    /// fields are of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after_ejection: Option<AfterFile>,
    /// What the run was made of.
    #[serde(default)]
    pub(crate) provenance: ProvenanceFile,
    /// Hash of every scheduling event in order; null in real runs.
    #[serde(default)]
    pub(crate) trace_hash: Option<String>,
    /// Waits of tasks for each other, with `--explain-waits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waits: Option<WaitsFile>,
}

/// A sub-scheduler.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SubScheduler")]
pub(crate) struct SubFile {
    /// Its group, names from the root down with slashes between them.
    pub(crate) group: String,
    /// The scheduler.
    pub(crate) scheduler: String,
    /// The kernel's errno, where it could not be attached at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<i32>,
    /// How it left.
    pub(crate) exit: Exit,
}

/// How a scheduler left.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Exit {
    /// `none`, `done`, `unreg`, `unreg_bpf`, `unreg_kern`, `sysrq`; of sub-schedulers also `parent`, `parent_kill`; or an ejection:
    /// `error`, `error_bpf`, `error_stall`, `error_reenq`, `error_rescue`.
    #[schemars(extend("enum" = exit_kinds()))]
    pub(crate) kind: String,
    /// The kernel's words for the kind.
    #[serde(default)]
    pub(crate) reason: String,
    /// What the kernel or the scheduler says of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// The kernel's dump of its state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) dump: String,
    /// When it left, in ns since the run began, where it did not stay to the end. Real runs look ten times a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after_ns: Option<u64>,
}

/// A table that a scheduler has left to read.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SchedulerTable")]
pub(crate) struct Table {
    /// What it shows.
    pub(crate) meaning: String,
    /// Names of its columns.
    pub(crate) columns: Vec<String>,
    /// Its rows, with one value a column.
    pub(crate) rows: Vec<Vec<Value>>,
}

/// How a latency is distributed. Only buckets with waits are listed.
// Each list stands on its line: there are hundreds of buckets.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Histogram")]
pub(crate) struct Buckets {
    /// The longest wait that a bucket holds, in ns.
    #[serde(serialize_with = "on_one_line")]
    #[schemars(with = "Vec<u64>")]
    pub(crate) le: Vec<u64>,
    /// How many waits took more than the bound before and at most `le`.
    #[serde(serialize_with = "on_one_line")]
    #[schemars(with = "Vec<u64>")]
    pub(crate) counts: Vec<u64>,
}

fn on_one_line<S: Serializer>(numbers: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    let text = serde_json::to_string(numbers).and_then(RawValue::from_string);
    text.map_err(serde::ser::Error::custom)?.serialize(serializer)
}

/// What a workload reports sample by sample.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Series")]
pub(crate) struct Samples {
    /// Unit of the values.
    pub(crate) unit: String,
    /// In the order in which they came.
    pub(crate) values: Vec<f64>,
}

/// One metric of one scheduler against the first one.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Comparison")]
pub(crate) struct Compared {
    /// What ran.
    pub(crate) workload: Workload,
    /// The machine description.
    pub(crate) machine: String,
    /// Number of CPUs.
    pub(crate) cpus: usize,
    /// `sim`, `host` or `vm`.
    #[schemars(extend("enum" = backends()))]
    pub(crate) backend: String,
    /// Name of the metric.
    pub(crate) metric: String,
    /// Unit of the means, values and differences.
    pub(crate) unit: String,
    /// Its good direction: `higher`, `lower`, `neither`.
    #[schemars(extend("enum" = betters()))]
    pub(crate) better: String,
    /// Level of every interval in the entry, in percent.
    pub(crate) confidence_percent: f64,
    /// The first scheduler.
    pub(crate) baseline: Side,
    /// The scheduler that is judged.
    pub(crate) candidate: Side,
    /// Candidate minus baseline, in `unit`.
    pub(crate) difference: f64,
    /// Half width of its interval (Student's of the pairs, else Welch's), in `unit`; null for one run on a side.
    pub(crate) difference_half_width: Option<f64>,
    /// The least difference that matters, in percent of the baseline's mean.
    #[serde(default)]
    pub(crate) at_least_percent: f64,
    /// Every seed gave each side the same figure: the interval is empty because the runs are one run.
    #[serde(default)]
    pub(crate) seeds_change_nothing: bool,
    /// Simulated runs with the same seeds on both sides are pairs: the same work. Their differences are judged, seed by seed.
    #[serde(default)]
    pub(crate) paired: bool,
    /// About how many runs would show a difference as large as the measured one, where none is shown. Null where more than a
    /// thousand.
    #[serde(default)]
    pub(crate) runs_needed: Option<usize>,
    /// The difference in percent of the baseline's mean; null where that is 0.
    pub(crate) difference_percent: Option<f64>,
    /// Lower end of where `difference_percent` lies, with the error of both means, after Fieller (1954). If the baseline's own
    /// interval contains 0, it comes from the error of the ratio's logarithm. Never below -100 % where no value is negative.
    /// Null for one run on a side.
    #[serde(default)]
    pub(crate) difference_percent_low: Option<f64>,
    /// Upper end of the same.
    #[serde(default)]
    pub(crate) difference_percent_high: Option<f64>,
    /// Two-sided p value of Student's test of pairs; null without pairs.
    #[serde(default)]
    pub(crate) p_paired: Option<f64>,
    /// Two-sided p value of Welch's test.
    pub(crate) p_welch: Option<f64>,
    /// Two-sided p value of the permutation test: all relabellings up to 20,000 of them, else 10,000 drawn with a fixed seed.
    pub(crate) p_permutation: Option<f64>,
    /// Effect size; null without any spread.
    pub(crate) hedges_g: Option<f64>,
    /// Of simulated runs: by what factor the ratio of the means may differ from a real kernel's. Null where that was
    /// [not measured](fidelity.md).
    #[serde(default)]
    pub(crate) kernel_factor: Option<f64>,
    /// Half of the range of the real kernel's runs, in percent.
    #[serde(default)]
    pub(crate) kernel_spread_percent: Option<f64>,
    /// `better`, `worse`, or `different` for a metric without a good direction. `no difference shown`, or `no difference that
    /// matters`. `too few runs`: fewer than two on a side. `not decided by this simulator`: the simulated change is inside
    /// `kernel_factor`. ` (suspect)` or ` (runs void)` is added where not all runs are valid. Decided by
    /// `difference_half_width` and `at_least_percent`.
    #[schemars(extend("pattern" = comparison_verdicts()))]
    pub(crate) verdict: String,
    /// The worst of the runs on both sides.
    #[serde(default)]
    #[schemars(extend("enum" = standings(), "default" = "valid"))]
    pub(crate) standing: String,
    /// Why it is not valid.
    #[serde(default)]
    pub(crate) standing_reasons: Vec<String>,
}

/// One side of a comparison.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Sample")]
pub(crate) struct Side {
    /// The scheduler with its settings.
    pub(crate) scheduler: String,
    /// Number of runs behind the mean.
    pub(crate) runs: usize,
    /// Mean of the values.
    pub(crate) mean: f64,
    /// Standard deviation, with divisor n - 1; null for a single run.
    pub(crate) sd: Option<f64>,
    /// Half width of the mean's interval (Student's t); null for a single run.
    pub(crate) half_width: Option<f64>,
    /// The values, in the order of the seeds.
    pub(crate) values: Vec<f64>,
    /// The seeds of the values.
    #[serde(default)]
    pub(crate) seeds: Vec<u64>,
    #[serde(default, flatten)]
    pub(crate) trust: TrustFile,
}
