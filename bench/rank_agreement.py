"""Ranks schedulers in the simulator and on a real kernel, and says how far the two rankings agree.

    schedlab fidelity --vm -c 2 --phases 2 -o cells.json
    python bench/rank_agreement.py cells.json -c 2

    schedlab compare -s A,B,... -w chat -w schbench -m vm-icount -c 2 --json simulated.json
    schedlab compare -s A,B,... -w chat -w schbench --vm --icount=4 -c 2 --json real.json
    python bench/rank_agreement.py simulated.json --real real.json -c 2

Reads the cells that `schedlab fidelity -o` writes, the figures of both arms for each scheduler and workload; or results of both
arms, whose figures are means over the seeds. A scheduler's score is the geometric mean over the workloads of its figure relative
to the first scheduler's, above 1 where it is better. So a load that hardly tells schedulers apart hardly counts. The output has,
for each figure, Kendall's tau of both orders and where the best scheduler of each arm stands in the other arm.

A workload's throughput is its first metric of which more is better, or its first one; in cells it is the first one, whose
direction comes from one simulated run.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean

Cells = Mapping[str, Mapping[str, float]]
"""By workload: the figure of each scheduler."""

FIGURES = ("throughput", "wakeup_latency_ns_p95", "run_delay_ns_p95")
ARMS = ("simulated", "real")
COMMON = ("cpu_busy_fraction",)
"""Metrics that each workload has and of which more is no throughput."""


def higher_is_better(binary: str, workload: str) -> bool:
    """The direction of the figure that `fidelity` calls throughput: the workload's first one."""
    command = [binary, "-q", "sim", "-s", "eevdf", "-w", workload, "-c", "2", "--json", "-"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return next(iter(json.loads(done.stdout)["runs"][0]["metrics"].values()))["better"] == "higher"


def cells_of(results: Sequence[Path], arm: str) -> list[dict[str, object]]:
    """The cells of one arm: each figure of a workload and scheduler, the mean over its seeds; runs that were ejected left out."""
    samples: dict[tuple[str, str, int, str], list[float]] = {}
    for run in (run for path in results for run in json.loads(path.read_text())["runs"]):
        if run["exit"]["kind"] != "none":
            continue
        metrics = run["metrics"]
        values = {"throughput": metrics[rate_of(run)], **{name: metrics.get(name) for name in FIGURES[1:]}}
        for figure, metric in values.items():
            if metric is not None:
                key = (words(run["workload"]), run["scheduler"], run["cpus"], figure)
                samples.setdefault(key, []).append(metric["value"])
    return [
        {"workload": workload, "scheduler": scheduler, "cpus": cpus, "figure": figure, arm: fmean(values)}
        for (workload, scheduler, cpus, figure), values in samples.items()
    ]


def rate_of(run: Mapping[str, object]) -> str:
    """The metric that is a run's throughput: the first of which more is better, or the first one."""
    metrics = run["metrics"]
    own = [name for name in metrics if name not in COMMON]
    return next((name for name in own if metrics[name]["better"] == "higher"), own[0])


def words(workload: Mapping[str, object]) -> str:
    """The workload as `-w` takes it."""
    params = ",".join(f"{name}={value}" for name, value in dict(workload.get("params") or {}).items())
    return f"{workload['name']}:{params}" if params else str(workload["name"])


def joined(simulated: Sequence[dict[str, object]], real: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Cells with the figures of both arms."""
    own = ("workload", "scheduler", "cpus", "figure")
    known = {tuple(cell[name] for name in own): cell for cell in simulated}
    pairs = ((known.get(tuple(cell[name] for name in own)), cell) for cell in real)
    return [{**one, **other} for one, other in pairs if one is not None]


def scores(cells: Cells, higher: Mapping[str, bool]) -> dict[str, float]:
    """The geometric mean over the workloads of each scheduler's figure, relative to the first scheduler's; more is better."""
    logs: dict[str, list[float]] = {}
    for workload, figures in cells.items():
        first = next(iter(figures.values()))
        for name, value in figures.items():
            # No latency at all is as good as 1 ns.
            times = math.log((value or 1) / (first or 1))
            logs.setdefault(name, []).append(times if higher[workload] else -times)
    return {name: math.exp(fmean(values)) for name, values in logs.items()}


def tau(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Kendall's tau-b."""
    both = ones = others = 0
    for left, right in combinations(sorted(one), 2):
        first, second = one[left] - one[right], other[left] - other[right]
        both += (first * second > 0) - (first * second < 0)
        ones += first != 0
        others += second != 0
    return both / math.sqrt(ones * others) if ones and others else math.nan


def of_figure(cells: Sequence[Mapping[str, object]], figure: str, arm: str) -> dict[str, dict[str, float]]:
    """The figures of one arm, by workload and scheduler, of the workloads that all schedulers have."""
    found: dict[str, dict[str, float]] = {}
    for cell in cells:
        if cell["figure"] == figure:
            found.setdefault(str(cell["workload"]), {})[str(cell["scheduler"])] = float(str(cell[arm]))
    most = max((len(figures) for figures in found.values()), default=0)
    return {workload: figures for workload, figures in found.items() if len(figures) == most}


def same_direction(one: Cells, other: Cells, least: float = 1.05) -> tuple[int, int]:
    """Of the pairs within a workload that differ by 5 % or more in both arms: those in the same order, and all."""
    same = decided = 0
    for workload, figures in one.items():
        for left, right in combinations(figures, 2):
            ratios = [arm[workload][left] / (arm[workload][right] or math.nan) for arm in (one, other)]
            if all(ratio > least or 0 <= ratio < 1 / least for ratio in ratios):
                decided += 1
                same += (ratios[0] > 1) == (ratios[1] > 1)
    return same, decided


def position(order: Mapping[str, float], name: str) -> int:
    """How many schedulers are better, and one."""
    return 1 + sum(value > order[name] for value in order.values())


def tell(cells: Sequence[Mapping[str, object]], figure: str, directions: Mapping[str, bool]) -> None:
    """Prints one figure's rankings."""
    by_arm = {arm: of_figure(cells, figure, arm) for arm in ARMS}
    workloads = list(by_arm["real"])
    higher = {workload: figure == "throughput" and directions[workload] for workload in workloads}
    sim, real = (scores(by_arm[arm], higher) for arm in ARMS)
    print(f"\n{figure}: {len(real)} schedulers, {len(workloads)} workloads, tau {tau(sim, real):.2f}")
    for name in sorted(real, key=real.__getitem__, reverse=True):
        print(f"  {name:<24} real {real[name]:6.2f}  simulated {sim[name]:6.2f}")
    best_sim, best_real = (max(order, key=order.__getitem__) for order in (sim, real))
    print(f"  best in the simulator: {best_sim}, place {position(real, best_sim)} on the real kernel")
    print(f"  best on the real kernel: {best_real}, place {position(sim, best_real)} in the simulator")
    own = [tau(by_arm["simulated"][one], by_arm["real"][one]) for one in workloads]
    same, decided = same_direction(by_arm["simulated"], by_arm["real"])
    print(f"  pairs that differ by 5 % or more in both arms: {same} of {decided} in the same order")
    print(
        "  tau by workload:",
        ", ".join(f"{one.split(':')[0]} {value:.2f}" for one, value in zip(workloads, own, strict=True)),
    )


def main() -> None:
    """Reads the cells and prints the agreement of each figure."""
    parser = argparse.ArgumentParser(description="Agreement of two rankings of schedulers")
    parser.add_argument("cells", type=Path, help="what schedlab fidelity -o has written, or simulated results")
    parser.add_argument("--real", type=Path, nargs="+", help="results of the real kernel; CELLS has simulated ones then")
    parser.add_argument("-c", "--cpus", type=int, default=2)
    parser.add_argument("--binary", default="schedlab")
    args = parser.parse_args()
    if args.real:
        cells = joined(cells_of([args.cells], "simulated"), cells_of(args.real, "real"))
    else:
        cells = json.loads(args.cells.read_text())["cells"]
    cells = [cell for cell in cells if cell["cpus"] == args.cpus]
    if args.real:
        runs = json.loads(args.cells.read_text())["runs"]
        directions = {words(run["workload"]): run["metrics"][rate_of(run)]["better"] == "higher" for run in runs}
    else:
        workloads = of_figure(cells, "throughput", "real")
        directions = {workload: higher_is_better(args.binary, workload) for workload in workloads}
    for figure in FIGURES:
        tell(cells, figure, directions)


if __name__ == "__main__":
    main()
