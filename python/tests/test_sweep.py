"""The same sweep by threads of the command, a pool, shards, after an interruption, and on Ray."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import schedlab
from schedlab import Cell, Lab, Pool

SCHEDULERS = ["vanilla", "o1"]
WORKLOAD = "pingpong.toml"
FILE = """
name = "pingpong"
[objects]
there = { kind = "pipe" }
back = { kind = "pipe" }
[programs]
left = ["repeat 50", "send there 64", "recv back 64", "count rounds", "done"]
right = ["repeat 50", "recv there 64", "run 20us", "send back 64", "done"]
[[tasks]]
name = "left"
program = "left"
[[tasks]]
name = "right"
program = "right"
[metrics]
rounds_per_second = { kind = "rate", counter = "rounds" }
"""


@pytest.fixture(scope="module")
def plain(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> schedlab.Result:
    """What the command says, with a workload file in the current folder."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / WORKLOAD).write_text(FILE)
    before = os.getcwd()
    os.chdir(folder)
    yield compare(lab, workers=1)
    os.chdir(before)


def compare(lab: Lab, **how: object) -> schedlab.Result:
    return lab.compare(SCHEDULERS, WORKLOAD, cpus=[1, 2], runs=2, **how)  # type: ignore[arg-type]


class Backwards(Pool):
    """Runs only some of the cells, the last one first."""

    def __init__(self, count: int) -> None:
        super().__init__(1)
        self.count = count
        self.seen: list[Cell] = []

    def run(self, cells: Sequence[Cell], binary: Path, folder: Path) -> None:
        self.seen = list(cells)
        super().run(list(reversed(cells))[: self.count], binary, folder)
        if self.count < len(cells):
            raise KeyboardInterrupt


def test_workers_change_nothing(lab: Lab, plain: schedlab.Result) -> None:
    assert len(plain.runs) == 8 and all(run["rounds_per_second"] for run in plain.runs)
    assert compare(lab, workers=3).json == plain.json
    assert compare(lab, workers=Pool(1)).json == plain.json
    assert compare(lab, workers=Pool(3)).json == plain.json


def test_an_interrupted_sweep_goes_on(lab: Lab, plain: schedlab.Result, tmp_path: Path) -> None:
    first = Backwards(3)
    with pytest.raises(KeyboardInterrupt):
        compare(lab, workers=first, resume=tmp_path / "runs")
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    assert len(first.seen) == 8 and len(kept) == 3
    again = compare(lab, workers=Pool(2), resume=tmp_path / "runs")
    assert again.json == plain.json and str(again) == str(plain)
    now = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    assert len(now) == 8 and kept.items() <= now.items()
    assert compare(lab, resume=tmp_path / "runs").json == plain.json


def test_a_killed_worker_loses_its_cell_alone(lab: Lab, plain: schedlab.Result, tmp_path: Path) -> None:
    """The first process that starts is killed; the other cells are made, and the same call makes the one that is left."""
    started = tmp_path / "started"
    script = tmp_path / "once"
    script.write_text(f'#!/bin/sh\nmkdir "{started}" 2>/dev/null && kill -9 $$\nexec "{lab.binary}" "$@"\n')
    script.chmod(0o755)

    class Killed(Pool):
        def run(self, cells: Sequence[Cell], binary: Path, folder: Path) -> None:
            super().run(cells, script, folder)

    runs = tmp_path / "runs"
    with pytest.raises(schedlab.SchedlabError, match="ended by signal 9"):
        compare(lab, workers=Killed(2), resume=runs)
    assert len(list(runs.iterdir())) == 7
    assert compare(lab, workers=Pool(2), resume=runs).json == plain.json


def test_a_mistake_ends_the_sweep(lab: Lab) -> None:
    with pytest.raises(schedlab.UsageError, match="no workload"):
        lab.compare(SCHEDULERS, "nosuch", workers=Pool(2))


def test_a_reproduction_in_cells(lab: Lab) -> None:
    alone = lab.reproduce("swap", tables="fig3", quick=True)
    shared = lab.reproduce("swap", tables="fig3", quick=True, workers=Pool(2), parts=3)
    assert shared.json == alone.json and shared.code == alone.code


def test_ray_changes_nothing(lab: Lab, plain: schedlab.Result, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed (pip install ray)")
    from schedlab.ray import Cluster

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with pytest.raises(KeyboardInterrupt):
            compare(lab, workers=Backwards(3), resume=tmp_path)
        kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        assert compare(lab, workers=Cluster(), resume=tmp_path).json == plain.json
        now = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        assert len(now) == 8 and kept.items() <= now.items()
        assert compare(lab, workers=Cluster()).json == plain.json
        with pytest.raises(schedlab.UsageError, match="no workload"):
            lab.compare(SCHEDULERS, "nosuch", workers=Cluster())
        (tmp_path.parent / "outside.toml").write_text(FILE)
        with pytest.raises(schedlab.UsageError, match="outside the current folder"):
            name = os.path.relpath(tmp_path.parent / "outside.toml")
            lab.compare(SCHEDULERS, name, workers=Cluster())
    finally:
        ray.shutdown()


def test_a_time_limit_loses_its_runs_alone(lab: Lab, tmp_path: Path) -> None:
    def compare(workload: str, limit: str) -> schedlab.Result:
        options = ["--time-limit", limit]
        how = {"cpus": 1, "runs": 2, "workers": Pool(1), "resume": tmp_path, "options": options}
        return lab.compare(["eevdf", "o1"], workload, **how)  # type: ignore[arg-type]

    with pytest.raises(schedlab.Inconclusive, match="--time-limit"):
        compare("cpuhog:ntasks=64,ttime=1000000s", "50ms")
    assert not list(tmp_path.iterdir())
    assert len(compare("cpuhog:ntasks=1,ttime=10ms", "10m").runs) == 4
