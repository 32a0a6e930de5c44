"""Results as data frames. What ran has the same columns, and the same types, in all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedlab.fields import Waits
    from schedlab.results import Comparison, Result, Run

Row = dict[str, Any]


def frame(rows: list[Row]) -> Any:
    """A data frame of rows.

    Raises ImportError where pandas is not installed.
    """
    try:
        import pandas
    except ImportError as missing:
        raise ImportError("data frames need pandas: pip install pandas") from missing
    return pandas.DataFrame(rows)


def pairs(values: Mapping[str, Any]) -> str:
    """Parameters and settings as the command line takes them: `rooms=3,messages=5`."""
    return ",".join(f"{name}={value}" for name, value in values.items())


def _base(run: Run) -> Row:
    return {
        "scheduler": run.scheduler,
        "settings": pairs(run.settings),
        "workload": run.workload,
        "params": pairs(run.params),
        "machine": run.machine,
        "cpus": run.cpus,
        "seed": run.seed,
        "backend": run.backend,
    }


def runs(result: Result) -> Any:
    """See `Result.run_frame`."""
    rows = []
    for run in result.runs:
        row = {**_base(run), "exit": run.exit.kind, "duration_ns": run.duration_ns, "warnings": len(run.warnings)}
        row.update({"standing": run.standing, "standing_reasons": ",".join(run.standing_reasons)})
        row.update(dataclasses.asdict(run.provenance))
        row["mechanisms"] = ",".join(run.provenance.mechanisms or [])
        row.update({name: metric.value for name, metric in run.metrics.items()})
        rows.append(row)
    return frame(rows)


def tasks(result: Result) -> Any:
    """See `Result.task_frame`."""
    rows = []
    for run in result.runs:
        waited = {waits.name: waits for waits in run.task_waits if waits.scope == "task"}
        for task in run.tasks:
            row = {**_base(run), **dataclasses.asdict(task)}
            if task.name in waited:
                row.update(_figures("run_delay", waited[task.name].run_delay_ns))
                row.update(_figures("wakeup_latency", waited[task.name].wakeup_latency_ns))
            rows.append(row)
    return frame(rows)


def groups(result: Result) -> Any:
    """See `Result.group_frame`."""
    return frame([{**_base(run), **dataclasses.asdict(group)} for run in result.runs for group in run.groups])


def _figures(latency: str, waits: Waits | None) -> Row:
    """Count and percentiles of a task's waits, named as a run's metrics are."""
    if waits is None:
        return {f"{latency}_count": 0}
    percentiles = {f"{latency}_ns_{name}": getattr(waits, name) for name in ("p50", "p95", "p99", "max")}
    return {f"{latency}_count": waits.count, **percentiles}


def waits(result: Result) -> Any:
    """See `Result.wait_frame`."""
    return frame(
        [
            {**_base(run), "scope": one.scope, "name": one.name, "latency": latency, **dataclasses.asdict(waits)}
            for run in result.runs
            for one in run.task_waits
            for latency, waits in (("wakeup_latency_ns", one.wakeup_latency_ns), ("run_delay_ns", one.run_delay_ns))
            if waits
        ]
    )


def counters(result: Result) -> Any:
    """See `Result.counter_frame`."""
    return frame(
        [
            {**_base(run), "counter": name, "value": value, "meaning": run.counter_meanings.get(name, "")}
            for run in result.runs
            for name, value in run.counters.items()
        ]
    )


def warnings(result: Result) -> Any:
    """See `Result.warning_frame`."""
    rows = [{**_base(run), **dataclasses.asdict(warning)} for run in result.runs for warning in run.warnings]
    return frame(rows + [dataclasses.asdict(warning) for warning in result.warnings])


def series(result: Result) -> Any:
    """See `Result.series_frame`."""
    return frame(
        [
            {**_base(run), "series": name, "index": index, "value": value, "unit": series.unit}
            for run in result.runs
            for name, series in run.series.items()
            for index, value in enumerate(series.values)
        ]
    )


def histograms(result: Result) -> Any:
    """See `Result.histogram_frame`."""
    return frame(
        [
            {**_base(run), "histogram": name, "le_ns": le, "waits": waits}
            for run in result.runs
            for name, histogram in run.histograms.items()
            for le, waits in zip(histogram.le, histogram.counts)
        ]
    )


def comparisons(result: Result) -> Any:
    """See `Result.comparison_frame`."""
    return frame([_comparison(comparison) for comparison in result.comparisons])


def _comparison(comparison: Comparison) -> Row:
    row = {item.name: getattr(comparison, item.name) for item in dataclasses.fields(comparison)}
    row["params"] = pairs(comparison.params)
    for side in ("baseline", "candidate"):
        sample = dataclasses.asdict(row.pop(side))
        row[side] = sample.pop("scheduler")
        row.update({f"{side}_{name}": value for name, value in sample.items()})
    row["standing_reasons"] = ",".join(comparison.standing_reasons)
    return row


def ranking(result: Result) -> Any:
    """See `Result.ranking_frame`."""
    return frame([dataclasses.asdict(one) for one in result.ranking])


def goals(result: Result) -> Any:
    """See `Result.goal_frame`."""
    rows = [{**dataclasses.asdict(goal), "params": pairs(goal.params)} for goal in result.goals]
    return frame(rows)


def reproduction(result: Result) -> Any:
    """See `Result.reproduction_frame`."""
    return frame(
        [
            {"document": document.name, "table": table.id, **dataclasses.asdict(row)}
            for document in result.reproduction
            for table in document.tables
            for row in table.rows
        ]
    )
