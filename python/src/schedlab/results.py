"""Results as objects. The JSON behind them is described in docs/results.md; `frames` makes data frames of them.

Fields that this package does not know are passed over here and kept in `Result.raw`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from schedlab import frames, show
from schedlab.trace import Trace

if TYPE_CHECKING:
    import pandas

SCHEMA = 1
"""The number of the JSON schema that is read."""

T = TypeVar("T")


def _read(kind: type[T], data: Mapping[str, Any], **given: Any) -> T:
    """A data class from the fields of the same name; `given` ones are taken as they are.

    Raises KeyError for a field that is missing.
    """
    values = dict(given)
    for item in dataclasses.fields(kind):  # type: ignore[arg-type]
        needed = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if item.name not in values and (needed or item.name in data):
            values[item.name] = data[item.name]
    return kind(**values)


@dataclass(frozen=True)
class Metric:
    """A figure of a run. `value` is None where the run was too short to have one."""

    value: float | None
    unit: str
    better: str


@dataclass(frozen=True)
class Series:
    """What a workload reports sample by sample."""

    unit: str
    values: list[float]


@dataclass(frozen=True)
class Histogram:
    """How a latency is distributed: `counts` waits took more than the bound before and at most `le`, in ns."""

    le: list[int]
    counts: list[int]


@dataclass(frozen=True)
class Exit:
    """How the scheduler left: `kind` is `none` or `done` when all went well."""

    kind: str
    reason: str = ""
    message: str = ""
    dump: str = ""
    after_ns: int | None = None
    """When it left, since the run began; None when it stayed to the end."""


@dataclass(frozen=True)
class Task:
    """What one task got. `share` is its CPU time over the run's length, one CPU is 1."""

    name: str
    nice: int
    cpu_time_ns: int
    share: float
    switches: int
    migrations: int


@dataclass(frozen=True)
class Waits:
    """How long waits for a CPU were, in ns, and the longest one: `task` waited from `since_ns` on and ran on `cpu` then;
    `behind` are the tasks that ran there meanwhile (`task`, `time_ns`), the longest first."""

    count: int
    p50: int
    p95: int
    p99: int
    max: int
    task: str
    since_ns: int
    cpu: int
    behind: list[dict[str, Any]] = field(default_factory=list)
    mean: int = 0


@dataclass(frozen=True)
class TaskWaits:
    """The waits of a task, of a process with several threads, of a group of tasks (the name before the `/`), or of all:
    `scope`. A latency without waits is None."""

    scope: str
    name: str
    run_delay_ns: Waits | None = None
    wakeup_latency_ns: Waits | None = None


@dataclass(frozen=True)
class RunWarning:
    """Something that the figures alone do not tell: `kind` is `starved`, `never_ran`, `idle_beside_waiting`,
    `seeds_change_nothing`, `unconfigured` or `left_out`; `worst` is the worst of `count` cases."""

    kind: str
    text: str
    count: int
    worst: dict[str, Any] | None = None


@dataclass(frozen=True)
class Provenance:
    """What a run was made of: hashes of contents, and the build of the command."""

    object_sha256: str | None = None
    workload_sha256: str | None = None
    machine_sha256: str | None = None
    build: str | None = None
    mechanisms: list[str] | None = None
    """What the workload uses of the kernel; None where that is not known."""


@dataclass(frozen=True)
class PrintedLine:
    """A line of `bpf_printk()`: `task` was the current one on the CPU, empty for the idle task."""

    time_ns: int
    cpu: int
    task: str
    text: str


@dataclass(frozen=True)
class CallbackCost:
    """What the calls of a callback cost: BPF instructions, and simulated time."""

    calls: int
    insns: int
    time_ns: int


@dataclass(frozen=True)
class AfterEjection:
    """The rest of a run after its scheduler had left, under the kernel's own class."""

    duration_ns: int
    metrics: dict[str, Metric]
    tasks: list[Task]


@dataclass(frozen=True)
class Validation:
    """Between which values a real kernel's figures lie where a simulated run has its own; or why that is not known."""

    validated: bool
    reason: str = ""
    kernel: str = ""
    coverage_percent: float | None = None
    measured: int | None = None
    """How many real figures of each kind the intervals are made of."""
    workloads: int | None = None
    intervals: dict[str, list[float]] = field(default_factory=dict)
    """Lower and upper end by metric, in its unit."""


@dataclass(frozen=True, repr=False)
class Run:
    """One run of one scheduler. A notebook shows its metrics as a table."""

    scheduler: str
    settings: dict[str, Any]
    workload: str
    params: dict[str, Any]
    machine: str
    cpus: int
    seed: int
    backend: str
    duration_ns: int
    exit: Exit
    metrics: dict[str, Metric]
    tasks: list[Task]
    trace_hash: str | None = None
    histograms: dict[str, Histogram] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    counter_meanings: dict[str, str] = field(default_factory=dict)
    """What is counted, for the counters whose object says so."""
    callbacks: dict[str, CallbackCost] = field(default_factory=dict)
    """What the scheduler's callbacks cost, of simulated runs."""
    printed: list[PrintedLine] = field(default_factory=list)
    """The first lines that the scheduler printed with `bpf_printk()`."""
    printed_left_out: int = 0
    """How many more it printed."""
    loader_output: str = ""
    """What the scheduler's own program wrote, where it has one (`exec:`)."""
    task_waits: list[TaskWaits] = field(default_factory=list)
    warnings: list[RunWarning] = field(default_factory=list)
    provenance: Provenance = field(default_factory=Provenance)
    standing: str = "valid"
    """How far its figures count: `valid`, `suspect` (a warning touches them) or `void` (it ended before its end; in no mean)."""
    standing_reasons: list[str] = field(default_factory=list)
    """Why it is not valid: `ejected`, `ended_early`, kinds of warnings."""
    validation: Validation | None = None
    """None for a real run."""
    after_ejection: AfterEjection | None = None
    """None unless the run went on after an ejection; all else is from before."""

    def waits(self, name: str = "") -> TaskWaits:
        """The waits of a task, process or group by its name; of all tasks without. A task goes before a process of
        its name."""
        order = ["all"] if not name else ["task", "process", "group"]
        found = [waits for scope in order for waits in self.task_waits if (waits.scope, waits.name) == (scope, name)]
        if not found:
            raise KeyError(f"no waits of {name!r}; there are: {', '.join(waits.name for waits in self.task_waits)}")
        return found[0]

    def __getitem__(self, metric: str) -> float | None:
        """The value of a metric: `run["throughput"]`."""
        if metric not in self.metrics:
            raise KeyError(f"no metric {metric!r}; the run has: {', '.join(self.metrics)}")
        return self.metrics[metric].value

    def __repr__(self) -> str:
        return show.run(self)

    def _repr_html_(self) -> str:
        return show.run_html(self)


@dataclass(frozen=True)
class Sample:
    """One side of a comparison; `values` are in the order of the seeds."""

    scheduler: str
    runs: int
    mean: float
    sd: float
    """With divisor n - 1; NaN for a single run."""
    half_width: float | None
    """Of the mean's interval."""
    values: list[float]
    seeds: list[int] = field(default_factory=list)
    standing: str = "valid"
    """The worst of the side's runs."""
    standing_reasons: list[str] = field(default_factory=list)
    void_seeds: list[int] = field(default_factory=list)
    """The seeds of its void runs, which are in no mean."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """One metric of one scheduler against the first one, with the interval of the difference. A notebook shows it as a
    table."""

    workload: str
    params: dict[str, Any]
    machine: str
    cpus: int
    backend: str
    metric: str
    unit: str
    better: str
    confidence_percent: float
    baseline: Sample
    candidate: Sample
    difference: float
    difference_half_width: float | None
    difference_percent: float | None
    p_welch: float | None
    p_permutation: float | None
    hedges_g: float | None
    verdict: str
    at_least_percent: float = 0.0
    """Smaller differences do not matter."""
    seeds_change_nothing: bool = False
    """Every seed gave each side the same figure."""
    paired: bool = False
    """The runs were judged seed by seed."""
    p_paired: float | None = None
    """Of Student's test of the pairs."""
    runs_needed: int | None = None
    """About how many runs would show a difference as large as the measured one, where none is shown."""
    difference_percent_low: float | None = None
    """Between this and `difference_percent_high` the change lies, with the error of both means."""
    difference_percent_high: float | None = None
    kernel_factor: float | None = None
    """By what factor the ratio of the means may differ from a real kernel's; None where that was not measured."""
    kernel_spread_percent: float | None = None
    """Half of the range of a real kernel's runs, of the middle one that was measured."""
    standing: str = "valid"
    """The worst of the runs of both sides. Where it is not `valid`, the `verdict` says so: `better (suspect)`."""
    standing_reasons: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return show.comparison(self)

    def _repr_html_(self) -> str:
        return show.comparisons_html([self])


@dataclass(frozen=True)
class Ranked:
    """A scheduler over the main figures of several workloads. `better`, `worse`, `same` (no difference that matters),
    `undecided` and `missing` count them by their verdicts."""

    scheduler: str
    factor: float | None
    """Geometric mean of how many times as good as the first scheduler; None where a figure is missing or has no ratio."""
    better: int
    worse: int
    same: int
    undecided: int
    missing: int
    no_ratio: list[str] = field(default_factory=list)
    """Main figures that no factor counts, since a mean that is 0 or negative has no ratio."""


@dataclass(frozen=True)
class Goal:
    """A bound that a workload sets, beside what a scheduler reached: `verdict` is `met`, `missed`, or `no figure` where a run
    lacks it. The `mean` of the `values` is judged."""

    workload: str
    params: dict[str, Any]
    machine: str
    cpus: int
    backend: str
    scheduler: str
    metric: str
    relation: str
    bound: float
    """In `unit`, the metric's."""
    unit: str
    runs: int
    mean: float | None
    margin: float | None
    """How far the mean is on the good side of the bound, in `unit`; negative on the bad side."""
    margin_percent: float | None
    values: list[float]
    missed_seeds: list[int]
    seeds_without_figure: list[int]
    verdict: str
    standing: str = "valid"
    """The worst of the runs. Where it is not `valid`, the `verdict` says so: `met (suspect)`."""
    standing_reasons: list[str] = field(default_factory=list)
    void_seeds: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """A published figure beside the measured one; `verdict` is `agrees`, `differs`, `no_figure` or `not_comparable`."""

    place: str
    figure: str
    unit: str
    published: float | None
    measured: float | None
    half_width: float | None
    values: list[float]
    rule: str
    verdict: str
    why: str
    counts: bool
    says: str = ""
    explanation: str = ""
    unanswerable: str = ""
    """Why no scheduler can answer the row; empty for all others."""


@dataclass(frozen=True)
class Table:
    """A table or figure of a document."""

    id: str
    title: str
    rows: list[Row]
    about: str = ""
    growth: list[Row] = field(default_factory=list)
    """Figures on more CPUs over those on fewer, counted apart from `rows`."""


@dataclass(frozen=True)
class Document:
    """A document measured again."""

    name: str
    title: str
    wanted_percent: float
    tables: list[Table]


def _run(data: Mapping[str, Any]) -> Run:
    return _read(
        Run,
        data,
        workload=data["workload"]["name"],
        params=data["workload"]["params"],
        exit=_read(Exit, data["exit"]),
        metrics={name: _read(Metric, metric) for name, metric in data["metrics"].items()},
        histograms={name: _read(Histogram, one) for name, one in data.get("histograms", {}).items()},
        series={name: _read(Series, series) for name, series in data.get("series", {}).items()},
        printed=[_read(PrintedLine, line) for line in data.get("printed", [])],
        callbacks={name: _read(CallbackCost, one) for name, one in data.get("callbacks", {}).items()},
        tasks=[_read(Task, task) for task in data["tasks"]],
        task_waits=[_task_waits(one) for one in data.get("task_waits", [])],
        warnings=[_read(RunWarning, one) for one in data.get("warnings", [])],
        provenance=_read(Provenance, data.get("provenance", {})),
        validation=_read(Validation, data["validation"]) if data.get("validation") else None,
        after_ejection=_after_ejection(data.get("after_ejection")),
    )


def _task_waits(data: Mapping[str, Any]) -> TaskWaits:
    names = [name for name in ("run_delay_ns", "wakeup_latency_ns") if data.get(name)]
    return _read(TaskWaits, data, **{name: _read(Waits, data[name]) for name in names})


def _after_ejection(data: Mapping[str, Any] | None) -> AfterEjection | None:
    if data is None:
        return None
    metrics = {name: _read(Metric, metric) for name, metric in data["metrics"].items()}
    return _read(AfterEjection, data, metrics=metrics, tasks=[_read(Task, task) for task in data["tasks"]])


def _sample(data: Mapping[str, Any]) -> Sample:
    sd = data["sd"]
    return _read(Sample, data, sd=math.nan if sd is None else sd)


def _comparison(data: Mapping[str, Any]) -> Comparison:
    return _read(
        Comparison,
        data,
        workload=data["workload"]["name"],
        params=data["workload"]["params"],
        baseline=_sample(data["baseline"]),
        candidate=_sample(data["candidate"]),
    )


def _goal(data: Mapping[str, Any]) -> Goal:
    return _read(Goal, data, workload=data["workload"]["name"], params=data["workload"]["params"])


def _row(data: Mapping[str, Any]) -> Row:
    published, verdict = data["published"], data["verdict"]
    return _read(
        Row,
        {"unit": "", "values": [], **data},
        published=published["value"] if published else None,
        verdict=verdict["is"],
        why=verdict.get("why", ""),
    )


def _document(data: Mapping[str, Any]) -> Document:
    def table(data: Mapping[str, Any]) -> Table:
        return _read(Table, data, **{name: [_row(row) for row in data.get(name, [])] for name in ("rows", "growth")})

    tables = [table(one) for one in data["tables"]]
    return _read(Document, data, tables=tables)


@dataclass(frozen=True)
class Result:
    """What a command measured. `print(result)` shows its tables."""

    json: str
    """The result file, byte for byte."""
    text: str
    """What the command prints for people."""
    code: int
    """Its exit code: 1 for a reproduction with fewer agreeing rows than wanted."""
    notes: list[str]
    """What it said besides, as that more runs are needed."""
    runs: list[Run]
    comparisons: list[Comparison]
    ranking: list[Ranked]
    """The schedulers over several workloads, the best first; empty for one workload."""
    goals: list[Goal]
    """What the runs say about the goals of their workloads; empty where a workload has none."""
    reproduction: list[Document]
    warnings: list[RunWarning]
    """What the runs together show, as that the seeds change nothing; each run has its own besides."""
    raw: dict[str, Any]
    """The whole result file, parsed."""
    trace: Trace | None = None
    """Who ran where and when, of `Lab.sim(trace=True)`."""

    @staticmethod
    def read(
        text: str, *, shown: str = "", code: int = 0, notes: Sequence[str] = (), trace: Trace | None = None
    ) -> Result:
        """Reads a result file, as `--json` writes it.

        Raises ValueError when it is none, or one of another schema.
        """
        try:
            raw = json.loads(text)
            schema = raw["schedlab"]["schema"]
        except (ValueError, KeyError, TypeError, RecursionError) as broken:
            raise ValueError(f"this is no result file of schedlab: {broken}") from broken
        if schema != SCHEMA:
            raise ValueError(f"the result file has schema {schema}, this package reads {SCHEMA}: install its like")
        try:
            return Result._of(raw, text, shown, code, notes, trace)
        except KeyError as missing:
            raise ValueError(f"the result file is damaged: {missing} is missing") from missing
        except (AttributeError, TypeError, ValueError) as broken:
            raise ValueError(f"the result file is damaged: {broken}") from broken

    @staticmethod
    def _of(raw: dict[str, Any], text: str, shown: str, code: int, notes: Sequence[str], trace: Trace | None) -> Result:
        return Result(
            json=text,
            text=shown,
            code=code,
            notes=list(notes),
            runs=[_run(run) for run in raw.get("runs", [])],
            comparisons=[_comparison(comparison) for comparison in raw.get("comparisons", [])],
            ranking=[_read(Ranked, one) for one in raw.get("ranking", [])],
            goals=[_goal(one) for one in raw.get("goals", [])],
            reproduction=[_document(document) for document in raw.get("reproduction", [])],
            warnings=[_read(RunWarning, one) for one in raw.get("warnings", [])],
            raw=raw,
            trace=trace,
        )

    @property
    def run(self) -> Run:
        """The run of a result that has one."""
        if len(self.runs) != 1:
            raise ValueError(f"the result has {len(self.runs)} runs: use .runs")
        return self.runs[0]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return (
            f"<schedlab.Result: {len(self.runs)} runs, {len(self.comparisons)} comparisons, "
            f"{len(self.reproduction)} documents>"
        )

    def _repr_html_(self) -> str:
        return show.result_html(self)

    def run_frame(self) -> pandas.DataFrame:
        """One row a run: what was run, then its metrics."""
        return frames.runs(self)

    def task_frame(self) -> pandas.DataFrame:
        """One row a task of a run: what it got, then how long it waited for a CPU."""
        return frames.tasks(self)

    def wait_frame(self) -> pandas.DataFrame:
        """One row a latency of a task, process or group of a run, or of all its tasks."""
        return frames.waits(self)

    def counter_frame(self) -> pandas.DataFrame:
        """One row a counter of a run: the scheduler's own, then the kernel's."""
        return frames.counters(self)

    def warning_frame(self) -> pandas.DataFrame:
        """One row a warning of a run, then those of all runs together, which have no scheduler."""
        return frames.warnings(self)

    def series_frame(self) -> pandas.DataFrame:
        """One row a value that a workload reports sample by sample."""
        return frames.series(self)

    def histogram_frame(self) -> pandas.DataFrame:
        """One row a bucket of a run's latency that holds waits: above the bound before and at most `le_ns`."""
        return frames.histograms(self)

    def trace_frame(self) -> pandas.DataFrame:
        """One row a stretch of a task on a CPU, of `Lab.sim(trace=True)`.

        Raises ValueError for a result without a trace.
        """
        if self.trace is None:
            raise ValueError("the result has no trace: lab.sim(..., trace=True)")
        return self.trace.frame()

    def comparison_frame(self) -> pandas.DataFrame:
        """One row a metric and scheduler, each against the first scheduler, with all that the result file has."""
        return frames.comparisons(self)

    def ranking_frame(self) -> pandas.DataFrame:
        """One row a scheduler, the best first, of a comparison under several workloads."""
        return frames.ranking(self)

    def goal_frame(self) -> pandas.DataFrame:
        """One row a goal and scheduler: what was reached, and by what margin."""
        return frames.goals(self)

    def reproduction_frame(self) -> pandas.DataFrame:
        """One row a published figure."""
        return frames.reproduction(self)


@dataclass(frozen=True)
class Difference:
    """A difference that is proven at a level: of a sample's mean from that of the first one."""

    confidence_percent: float
    difference: float
    half_width: float
    percent: float | None
    """Of the first sample's mean, which may be 0."""


@dataclass(frozen=True)
class Stat:
    """What `schedlab stat` says of samples. `print(stat)` shows the plot and the tables."""

    text: str
    differences: list[Difference | None]
    """For each sample after the first: the difference from it, or None where none is proven."""

    @staticmethod
    def read(text: str) -> Stat:
        """Reads the command's text, which has ministat's form."""
        number = r"(-?[\d.]+(?:e[-+]?\d+)?)"
        proven = re.compile(
            rf"^Difference at {number}% confidence\n\s+{number} \+/- {number}\n(?:\s+{number}%)?"
            r"|^No (?:difference|test)",
            re.MULTILINE,
        )
        differences: list[Difference | None] = []
        for found in proven.finditer(text):
            level, difference, half_width, percent = (float(group) if group else None for group in found.groups())
            if level is None or difference is None or half_width is None:
                differences.append(None)
            else:
                differences.append(Difference(level, difference, half_width, percent))
        return Stat(text, differences)

    def __str__(self) -> str:
        return self.text
