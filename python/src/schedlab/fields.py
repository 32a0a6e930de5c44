"""The fields of results. Made of docs/schema/results.json by make_fields.py: change the structs that the schema is of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1
"""The number of the JSON schema that is read."""

SPREAD = {
    "workload": {"workload": "name", "params": "params"},
    "published": {"published": "value"},
    "verdict": {"verdict": "is", "why": "why"},
}
"""Objects in a file whose members stand in the class that has the object: by name of the object, the members' names."""


@dataclass(frozen=True)
class Metric:
    """A figure of a run."""

    value: float | None
    """In `unit`; null where a run was too short to have one."""
    unit: str
    """Its unit; empty for a number of things and for a fraction."""
    better: str
    """Its good direction: `higher`, `lower`, `neither`."""


@dataclass(frozen=True)
class Series:
    """What a workload reports sample by sample."""

    unit: str
    """Unit of the values."""
    values: list[float]
    """In the order in which they came."""


@dataclass(frozen=True)
class Histogram:
    """How a latency is distributed. Only buckets with waits are listed."""

    le: list[int]
    """The longest wait that a bucket holds, in ns."""
    counts: list[int]
    """How many waits took more than the bound before and at most `le`."""


@dataclass(frozen=True)
class Exit:
    """How a scheduler left."""

    kind: str
    """`none`, `done`, `unreg`, `unreg_bpf`, `unreg_kern`, `sysrq`; of sub-schedulers also `parent`, `parent_kill`; or
    an ejection: `error`, `error_bpf`, `error_stall`, `error_reenq`, `error_rescue`."""
    reason: str = ""
    """The kernel's words for the kind."""
    message: str = ""
    """What the kernel or the scheduler says of it."""
    dump: str = ""
    """The kernel's dump of its state."""
    after_ns: int | None = None
    """When it left, in ns since the run began, where it did not stay to the end. Real runs look ten times a second."""


@dataclass(frozen=True)
class Task:
    """What a task got."""

    name: str
    """Its name; `(forked)` for all forked ones."""
    nice: int
    """Its nice value."""
    cpu_time_ns: int
    """Its time on CPUs, in ns."""
    share: float
    """Its CPU time over the run's length; one CPU is 1."""
    switches: int
    """How often it got a CPU."""
    migrations: int
    """How often that was another CPU than the last time."""


@dataclass(frozen=True)
class Group:
    """What a group of tasks (cgroup v2) got."""

    name: str
    """Names from the root down, with slashes between them."""
    cpu_weight: int
    """`cpu.weight` at the end."""
    cpu_idle: bool
    """`cpu.idle` at the end."""
    quota_ns: int | None
    """CPU time in a period by `cpu.max`, in ns; null without a bound."""
    period_ns: int | None
    """The period of `cpu.max`, in ns; null without a bound."""
    burst_ns: int
    """`cpu.max.burst`, in ns."""
    cpu_time_ns: int
    """CPU time of its tasks and of all groups below it, in ns."""
    own_cpu_time_ns: int
    """CPU time of the tasks in the group itself, in ns."""
    share: float
    """Its part of the CPU time of the group that it is in; below the root, of that of all tasks."""
    entitled_share: float | None
    """Its part by the weights of the groups beside it, where all of them were busy throughout, none met its quota, and
    no program changes groups; else null."""
    nr_periods: int
    """Periods of the quota in which it was active."""
    nr_throttled: int
    """Of them, those at whose end a CPU was throttled."""
    throttled_ns: int
    """Sum over the CPUs of the time for which they were throttled, in ns."""
    nr_bursts: int
    """Periods that used what earlier ones had left."""
    burst_time_ns: int
    """How much of it, in ns."""
    run_delay_ns: int
    """How long the tasks that began in it or below it waited for a CPU, in ns and in sum."""
    cpu_some_ns: int | None = None
    """For how long a runnable task of it, or below it, waited for a CPU, in ns: the total of `some` in `cpu.pressure`.
    Absent where the kernel has no such figure."""
    cpu_full_ns: int | None = None
    """For how long one waited while none ran, likewise: the total of `full`."""


@dataclass(frozen=True)
class Waits:
    """How long waits for a CPU were, and the longest one."""

    count: int
    """Number of waits."""
    p50: int
    """Median, in ns, in the buckets of the histogram."""
    p95: int
    """95th percentile, in ns."""
    p99: int
    """99th percentile, in ns."""
    max: int
    """The longest wait, in ns."""
    task: str
    """The task that waited."""
    since_ns: int
    """From when on, in ns since the run began."""
    cpu: int
    """The CPU that the task ran on then, or was queued on last if it never got to run."""
    mean: int = 0
    """Their average, in ns."""
    behind: list[dict[str, Any]] = field(default_factory=list)
    """What ran on that CPU meanwhile, as far as its last 32 stretches tell; at most three, the longest first. In real
    runs the task that ran there last."""


@dataclass(frozen=True)
class RunWarning:
    """Something that the figures alone do not tell."""

    kind: str
    """Which."""
    text: str
    """One sentence for people."""
    count: int
    """How many tasks or spans it is true of."""
    worst: dict[str, Any] | None = None
    """The longest case, of warnings about waits."""


@dataclass(frozen=True)
class Provenance:
    """What a run was made of."""

    object_sha256: str | None = None
    """Of the scheduler's object; none for `eevdf`."""
    workload_sha256: str | None = None
    """Of tasks and programs, with parameters and seed applied."""
    machine_sha256: str | None = None
    """Of the machine description, in simulated runs."""
    build: str | None = None
    """Version of the command and hash of its sources."""
    mechanisms: list[str] | None = None
    """What the workload uses of the kernel."""
    pauses: int | None = None
    """Callbacks that paused in the middle, in an interleaved run (`--interleave`)."""


@dataclass(frozen=True)
class PrintedLine:
    """A line of `bpf_printk()`."""

    time_ns: int
    """In ns since the run began; 0 for what was printed before."""
    cpu: int
    """The CPU."""
    task: str
    """The current task; empty for the idle task."""
    text: str
    """The line."""


@dataclass(frozen=True)
class CallbackCost:
    """What the calls of a callback cost."""

    calls: int
    """Number of calls."""
    time_ns: int
    """Time in it, in ns: instructions, the kernel functions that it calls, locks that it waits for."""
    insns: int | None = None
    """BPF instructions, in simulated runs."""


@dataclass(frozen=True)
class Validation:
    """Between which values a real kernel's figures lie; or why that is not known."""

    validated: bool
    """Whether intervals are known."""
    reason: str = ""
    """Why not."""
    kernel: str = ""
    """The real kernel."""
    coverage_percent: float | None = None
    """How often a real figure lies in its interval, in percent."""
    measured: int | None = None
    """How many real figures of each kind the intervals are made of."""
    workloads: int | None = None
    """Under how many workloads those were measured."""
    intervals: dict[str, list[float]] = field(default_factory=dict)
    """Metric to the ends between which a real kernel's figure lies, in the metric's unit."""


@dataclass(frozen=True)
class Sample:
    """One side of a comparison."""

    scheduler: str
    """The scheduler with its settings."""
    runs: int
    """Number of runs behind the mean."""
    mean: float
    """Mean of the values."""
    sd: float
    """Standard deviation, with divisor n - 1; NaN for null."""
    half_width: float | None
    """Half width of the mean's interval (Student's t); null for a single run."""
    values: list[float]
    """The values, in the order of the seeds."""
    seeds: list[int] = field(default_factory=list)
    """The seeds of the values."""
    standing: str = "valid"
    """The worst of the runs."""
    standing_reasons: list[str] = field(default_factory=list)
    """Why it is not valid."""
    void_seeds: list[int] = field(default_factory=list)
    """Seeds of void runs, which are in no mean."""


@dataclass(frozen=True)
class Ranked:
    """A scheduler's place over the main figures of a comparison: one of each workload and number of CPUs, where it has
    a good direction."""

    scheduler: str
    """The scheduler with its settings."""
    factor: float | None
    """Geometric mean over the main figures of how many times as good as the baseline's the scheduler's mean is: 2 for
    half of the time, or for twice the throughput. 1 for the baseline; null where a figure is missing, and where none
    has a ratio."""
    better: int
    """Main figures that are better than the baseline's, by their verdicts."""
    worse: int
    """Main figures that are worse."""
    same: int
    """Main figures without a difference that matters."""
    undecided: int
    """Main figures of which valid runs show no difference."""
    missing: int
    """Main figures that the scheduler lacks, as where its runs are void; it stands last."""
    no_ratio: list[str] = field(default_factory=list)
    """Main figures that no scheduler's factor counts, since a mean of 0 or below has no ratio, and whose mean that
    is."""


@dataclass(frozen=True)
class Goal:
    """A bound that a workload sets, beside what a scheduler reached."""

    workload: str
    """Its name as `-w` takes it, or the file."""
    machine: str
    """The machine description."""
    cpus: int
    """Number of CPUs."""
    backend: str
    """`sim`, `host` or `vm`."""
    scheduler: str
    """The scheduler with its settings."""
    metric: str
    """Name of the metric."""
    relation: str
    """`<`, `<=`, `>` or `>=`."""
    bound: float
    """In `unit`."""
    unit: str
    """The metric's unit."""
    runs: int
    """Number of runs."""
    mean: float | None
    """Mean of the values, which is judged, in `unit`; null without any."""
    margin: float | None
    """How far the mean is on the good side of the bound, in `unit`; negative on the bad side."""
    margin_percent: float | None
    """The same in percent of the bound."""
    values: list[float]
    """The figures of the runs that have one, in `unit`."""
    missed_seeds: list[int]
    """Seeds whose own figure is beyond the bound."""
    seeds_without_figure: list[int]
    """Seeds whose run has none, as where it is void."""
    verdict: str
    """`met`, `missed`, or `no figure` where a run lacks it. ` (suspect)` or ` (runs void)` is added where not all runs
    are valid."""
    params: dict[str, Any] = field(default_factory=dict)
    """Its parameters, with the defaults filled in."""
    standing: str = "valid"
    """The worst of the runs."""
    standing_reasons: list[str] = field(default_factory=list)
    """Why it is not valid."""
    void_seeds: list[int] = field(default_factory=list)
    """Seeds of void runs, which are in no mean."""


@dataclass(frozen=True)
class Row:
    """A row with its measured figure."""

    place: str
    """What tells it from the others of the table."""
    figure: str
    """How the figure is made of the cells."""
    published: float | None
    """Its value in the unit of the row."""
    measured: float | None
    """The measured figure, in `unit`: the mean over the seeds."""
    half_width: float | None
    """Half width of its 95 % interval over the seeds, in `unit`."""
    rule: str
    """The rule in words."""
    verdict: str
    """What it says."""
    counts: bool
    """Whether the row counts for the document."""
    unit: str = ""
    """Unit of the figure."""
    says: str = ""
    """What was published in words."""
    values: list[float] = field(default_factory=list)
    """The figure of each seed."""
    why: str = ""
    """What it says."""
    explanation: str = ""
    """What is known if it does not agree."""
    unanswerable: str = ""
    """Why no scheduler can answer it; only in rows that are marked so."""


@dataclass(frozen=True)
class TaskWaits:
    """The waits of a task, process, group or cgroup, or of all."""

    scope: str
    """`all`; `group`: tasks whose names are equal before the `/`, with what they fork; `process` with several threads;
    `task`."""
    name: str
    """Of the group, process, cgroup or task; `(forked)` is all forked tasks."""
    wakeup_latency_ns: Waits | None = None
    """From wakeup to running."""
    run_delay_ns: Waits | None = None
    """Every wait of a runnable task for a CPU."""


@dataclass(frozen=True)
class AfterEjection:
    """The rest of a run after its scheduler had left, under the kernel's own class."""

    duration_ns: int
    """How long it took, in ns."""
    metrics: dict[str, Metric]
    """Figures by name."""
    tasks: list[Task]
    """What each task got."""


@dataclass(frozen=True)
class ComparisonFields:
    """One metric of one scheduler against the first one."""

    workload: str
    """Its name as `-w` takes it, or the file."""
    machine: str
    """The machine description."""
    cpus: int
    """Number of CPUs."""
    backend: str
    """`sim`, `host` or `vm`."""
    metric: str
    """Name of the metric."""
    unit: str
    """Unit of the means, values and differences."""
    better: str
    """Its good direction: `higher`, `lower`, `neither`."""
    confidence_percent: float
    """Level of every interval in the entry, in percent."""
    baseline: Sample
    """The first scheduler."""
    candidate: Sample
    """The scheduler that is judged."""
    difference: float
    """Candidate minus baseline, in `unit`."""
    difference_half_width: float | None
    """Half width of its interval (Student's of the pairs, else Welch's), in `unit`; null for one run on a side."""
    difference_percent: float | None
    """The difference in percent of the baseline's mean; null where that is 0."""
    p_welch: float | None
    """Two-sided p value of Welch's test."""
    p_permutation: float | None
    """Two-sided p value of the permutation test: all relabellings up to 20,000 of them, else 10,000 drawn with a fixed
    seed."""
    hedges_g: float | None
    """Effect size; null without any spread."""
    verdict: str
    """`better`, `worse`, or `different` for a metric without a good direction. `no difference shown`, or `no
    difference that matters`. `too few runs`: fewer than two on a side. `not decided by this simulator`: the simulated
    change is inside `kernel_factor`. ` (suspect)` or ` (runs void)` is added where not all runs are valid. Decided by
    `difference_half_width` and `at_least_percent`."""
    params: dict[str, Any] = field(default_factory=dict)
    """Its parameters, with the defaults filled in."""
    at_least_percent: float = 0.0
    """The least difference that matters, in percent of the baseline's mean."""
    seeds_change_nothing: bool = False
    """Every seed gave each side the same figure: the interval is empty because the runs are one run."""
    paired: bool = False
    """Simulated runs with the same seeds on both sides are pairs: the same work. Their differences are judged, seed by
    seed."""
    runs_needed: int | None = None
    """About how many runs would show a difference as large as the measured one, where none is shown. Null where more
    than a thousand."""
    difference_percent_low: float | None = None
    """Lower end of where `difference_percent` lies, with the error of both means, after Fieller (1954). If the
    baseline's own interval contains 0, it comes from the error of the ratio's logarithm. Never below -100 % where no
    value is negative. Null for one run on a side."""
    difference_percent_high: float | None = None
    """Upper end of the same."""
    p_paired: float | None = None
    """Two-sided p value of Student's test of pairs; null without pairs."""
    kernel_factor: float | None = None
    """Of simulated runs: by what factor the ratio of the means may differ from a real kernel's. Null where that was
    not measured."""
    kernel_spread_percent: float | None = None
    """Half of the range of the real kernel's runs, in percent."""
    standing: str = "valid"
    """The worst of the runs on both sides."""
    standing_reasons: list[str] = field(default_factory=list)
    """Why it is not valid."""


@dataclass(frozen=True)
class Table:
    """A table, measured again."""

    id: str
    """Its short name."""
    title: str
    """What it shows."""
    rows: list[Row]
    """Its rows."""
    about: str = ""
    """What a reader must know for it."""
    growth: list[Row] = field(default_factory=list)
    """Rows about growth: each scheduler's figure on more CPUs over its own on fewer, counted apart. Their cells are
    named `fewer` and `more`."""


@dataclass(frozen=True)
class RunFields:
    """One run of one scheduler."""

    scheduler: str
    """As named on the command line: `o1`, a path, or `eevdf` for the kernel's own fair class."""
    workload: str
    """Its name as `-w` takes it, or the file."""
    machine: str
    """The machine description."""
    cpus: int
    """Number of CPUs."""
    seed: int
    """The seed of the workload and of the simulated kernel."""
    backend: str
    """`sim`, `host` (this machine's kernel) or `vm`."""
    duration_ns: int
    """How long the run took, in ns on its own clock. A run ends when its scheduler leaves (with `--after-ejection
    continue`: the part before)."""
    exit: Exit
    """How the scheduler left."""
    metrics: dict[str, Metric]
    """Figures by name; the workload's own come first."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Tunables that were set with `--set`."""
    params: dict[str, Any] = field(default_factory=dict)
    """Its parameters, with the defaults filled in."""
    validation: Validation | None = None
    """How far to trust the figures of a simulated run."""
    histograms: dict[str, Histogram] = field(default_factory=dict)
    """How a latency is distributed, by its name: `wakeup_latency_ns`, `run_delay_ns`."""
    series: dict[str, Series] = field(default_factory=dict)
    """What the workload reports sample by sample, by name (`swap-multi`: its iterations)."""
    counters: dict[str, int] = field(default_factory=dict)
    """The scheduler's own counters, other integers that the run has changed, then the kernel's (`SCX_EV_*`)."""
    counter_meanings: dict[str, str] = field(default_factory=dict)
    """What is counted, for the counters whose object says so (a `btf_decl_tag` on the variable)."""
    callbacks: dict[str, CallbackCost] = field(default_factory=dict)
    """What each callback that was called cost; in real runs with `run --callbacks`. `timer` and `tracing` are the
    object's timers and its programs at trace points."""
    printed: list[PrintedLine] = field(default_factory=list)
    """The first 1000 lines that the scheduler printed with `bpf_printk()`. In real runs other BPF programs' lines of
    that time are among them, since the kernel does not tell them apart."""
    printed_left_out: int = 0
    """How many more lines there were."""
    loader_output: str = ""
    """What the scheduler's own program wrote, where it has one (`exec:`): the last MiB."""
    tasks: list[Task] = field(default_factory=list)
    """What each task got; forked tasks are summed up in `(forked)`."""
    groups: list[Group] = field(default_factory=list)
    """What groups of tasks (cgroup v2) got, for workloads that have them: parents first, with all below them. Of the
    whole run."""
    sub_schedulers: list[dict[str, Any]] = field(default_factory=list)
    """Sub-schedulers that were to be attached to groups (`--sub`), in the order in which they were named."""
    task_waits: list[TaskWaits] = field(default_factory=list)
    """How long tasks waited for a CPU: one entry for all tasks, then for each group, process with several threads, and
    task."""
    standing: str = "valid"
    """How far the figures count."""
    standing_reasons: list[str] = field(default_factory=list)
    """Why the run is not valid: `ejected`, `ended_early`, kinds of warnings."""
    warnings: list[RunWarning] = field(default_factory=list)
    """What the figures alone do not tell."""
    after_ejection: AfterEjection | None = None
    """The rest of the run, under the kernel's own class; with `--after-ejection continue` after an ejection. All other
    fields are of the part before."""
    provenance: Provenance = field(default_factory=Provenance)
    """What the run was made of."""
    trace_hash: str | None = None
    """Hash of every scheduling event in order; null in real runs."""


@dataclass(frozen=True)
class Document:
    """A document, measured again."""

    name: str
    """Its short name."""
    title: str
    """Author, title, date."""
    wanted_percent: float
    """The part of the rows that has to agree, in percent."""
    tables: list[Table]
    """Its tables."""
