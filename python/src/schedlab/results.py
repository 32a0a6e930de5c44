"""Results as objects. Their fields are in `fields`, made of the schema of the JSON behind them; `frames` makes data frames.

Fields that this package does not know are passed over here and kept in `Result.raw`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from schedlab import frames, show
from schedlab.fields import (
    SCHEMA,
    SPREAD,
    ComparisonFields,
    Document,
    Goal,
    Ranked,
    RunFields,
    RunWarning,
    TaskWaits,
)
from schedlab.trace import Trace

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")

Reader = Callable[[Any], Any]


@functools.cache
def _fields(kind: Callable[..., Any]) -> list[tuple[str, bool, Reader | None]]:
    """The fields of a data class, whether each must be in a file, and how it is read."""
    hints = get_type_hints(kind)
    found = []
    for item in dataclasses.fields(kind):  # type: ignore[arg-type]
        needed = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        found.append((item.name, needed, _reader(hints[item.name])))
    return found


def _reader(hint: Any) -> Reader | None:
    """How a value of a type is read; None for one that is taken as it is."""
    parts = [part for part in get_args(hint) if part is not NoneType]
    inner = _reader(parts[-1]) if parts else None
    if hint is float:
        return lambda value: math.nan if value is None else value
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return functools.partial(_read, hint)
    if inner is None or parts[-1] is float:
        return None
    if get_origin(hint) is list:
        return lambda values: [inner(value) for value in values]
    if get_origin(hint) is dict:
        return lambda values: {name: inner(value) for name, value in values.items()}
    return lambda value: None if value is None else inner(value)


def _read(kind: type[T], data: Mapping[str, Any]) -> T:
    """A data class from the fields of the same name.

    Raises KeyError for a field that is missing.
    """
    flat = dict(data)
    for name, parts in SPREAD.items():
        if isinstance(data.get(name), Mapping):
            flat.update({field: data[name][part] for field, part in parts.items() if part in data[name]})
    values = {}
    for name, needed, reader in _fields(kind):  # type: ignore[arg-type]
        if needed or name in flat:
            values[name] = reader(flat[name]) if reader else flat[name]
    return kind(**values)


@dataclass(frozen=True, repr=False)
class Run(RunFields):
    """One run of one scheduler. A notebook shows its metrics as a table."""

    def waits(self, name: str = "") -> TaskWaits:
        """The waits of a task, process, group of names or cgroup by its name; of all tasks without. A task goes before a process of
        its name."""
        order = ["all"] if not name else ["task", "process", "group", "cgroup"]
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


@dataclass(frozen=True, repr=False)
class Comparison(ComparisonFields):
    """One metric of one scheduler against the first one, with the interval of the difference. A notebook shows it as a
    table."""

    def __repr__(self) -> str:
        return show.comparison(self)

    def _repr_html_(self) -> str:
        return show.comparisons_html([self])


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
            runs=[_read(Run, run) for run in raw.get("runs", [])],
            comparisons=[_read(Comparison, comparison) for comparison in raw.get("comparisons", [])],
            ranking=[_read(Ranked, one) for one in raw.get("ranking", [])],
            goals=[_read(Goal, one) for one in raw.get("goals", [])],
            reproduction=[_read(Document, document) for document in raw.get("reproduction", [])],
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

    def group_frame(self) -> pandas.DataFrame:
        """One row a group of tasks (cgroup v2) of a run: what it got, beside its weight and quota."""
        return frames.groups(self)

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
