"""Runs and comparisons in one line, and as tables of a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from schedlab import frames

if TYPE_CHECKING:
    from schedlab.results import Comparison, Result, Run

ROWS = 20
"""Lines of a table in a notebook; further ones are counted. Chosen."""


def run(run: Run) -> str:
    """`<schedlab.Run: o1, chat on 2 CPUs, seed 1, sim: throughput 380,141 messages/s>`."""
    first = next(iter(run.metrics), None)
    figure = "" if first is None else f": {first} {_number(run.metrics[first].value)}{_unit(run.metrics[first].unit)}"
    left = "" if run.exit.kind in ("none", "done") else f", exit {run.exit.kind}"
    left += "" if run.standing == "valid" else f", {run.standing}: {', '.join(run.standing_reasons)}"
    return _seen(f"<schedlab.Run: {_label(run)}, {run.workload} on {_place(run)}, seed {run.seed}{left}{figure}>")


def run_html(run: Run) -> str:
    """The run's metrics."""
    rows = [(name, _number(metric.value), _unit(metric.unit).strip()) for name, metric in run.metrics.items()]
    params = frames.pairs(run.params)
    workload = f"{run.workload}:{params}" if params else run.workload
    about = f"{_label(run)}: {workload} on {_place(run)}, seed {run.seed}, exit {run.exit.kind}"
    about += "" if run.standing == "valid" else f", {run.standing}: {', '.join(run.standing_reasons)}"
    return _table(about, ("metric", "value", "unit"), rows)


def comparison(one: Comparison) -> str:
    """`<schedlab.Comparison: throughput of o1 against vanilla, chat on 2 CPUs, sim: +13.9 %, better>`."""
    sides = f"{one.metric} of {one.candidate.scheduler} against {one.baseline.scheduler}"
    return _seen(f"<schedlab.Comparison: {sides}, {one.workload} on {_place(one)}: {_change(one)}, {one.verdict}>")


def comparisons_html(comparisons: Sequence[Comparison]) -> str:
    """A line a comparison, with both sides."""
    header = ("metric", "unit", "CPUs", "baseline", "mean", "candidate", "mean", "change", "p", "verdict")
    rows = [
        (
            one.metric,
            _unit(one.unit).strip(),
            str(one.cpus),
            one.baseline.scheduler,
            _interval(one.baseline.mean, one.baseline.half_width),
            one.candidate.scheduler,
            _interval(one.candidate.mean, one.candidate.half_width),
            _change(one),
            _number(one.p_paired if one.paired else one.p_welch),
            one.verdict,
        )
        for one in comparisons
    ]
    return _table("", header, rows)


def result_html(result: Result) -> str:
    """The main figure of each workload compared; where nothing is compared, the runs."""
    main = {(run.workload, next(iter(run.metrics), None)) for run in result.runs}
    compared = [one for one in result.comparisons if (one.workload, one.metric) in main]
    if compared:
        more = len(result.comparisons) - len(compared)
        rest = f"<p>{more} comparisons of other metrics: <code>comparison_frame()</code></p>" if more else ""
        return comparisons_html(compared) + rest
    if len(result.runs) == 1:
        return run_html(result.runs[0])
    if not result.runs:
        return f"<pre>{html.escape(result.text or repr(result))}</pre>"
    rows = []
    for one in result.runs:
        name = next(iter(one.metrics), "")
        value = f"{_number(one.metrics[name].value)}{_unit(one.metrics[name].unit)}" if name else ""
        rows.append((_label(one), one.workload, _place(one), str(one.seed), one.exit.kind, name, value))
    return _table("", ("scheduler", "workload", "where", "seed", "exit", "metric", "value"), rows)


def _seen(text: str) -> str:
    """One line in which every character can be seen: names may come from others' files, and a terminal obeys some."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _label(run: Run) -> str:
    return f"{run.scheduler}[{frames.pairs(run.settings)}]" if run.settings else run.scheduler


def _place(ran: Run | Comparison) -> str:
    return f"{ran.cpus} CPUs, {ran.backend}"


def _number(value: float | None) -> str:
    """At least four digits, and no exponent up to a billion."""
    if value is None:
        return ""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def _unit(unit: str) -> str:
    return "" if unit == "1" else f" {unit}"


def _interval(mean: float, half_width: float | None) -> str:
    return _number(mean) if half_width is None else f"{_number(mean)} \u00b1 {_number(half_width)}"


def _change(one: Comparison) -> str:
    if one.difference_percent is None:
        return f"{one.difference:+.4g}{_unit(one.unit)}"
    return f"{one.difference_percent:+.1f} %"


def _table(about: str, header: Iterable[str], rows: Sequence[Iterable[str]]) -> str:
    """An HTML table of texts, whatever they hold."""

    def line(cell: str, texts: Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{cell}>{html.escape(_seen(text))}</{cell}>" for text in texts) + "</tr>"

    said = f"<caption>{html.escape(_seen(about))}</caption>" if about else ""
    body = "".join(line("td", row) for row in rows[:ROWS])
    more = f"<p>{len(rows) - ROWS} more</p>" if len(rows) > ROWS else ""
    return f"<table>{said}<thead>{line('th', header)}</thead><tbody>{body}</tbody></table>{more}"
