"""Bad input: each is one error that names the argument or the file, and none comes from the inside of something else."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import schedlab
from schedlab import Lab, Pool, Result, Trace, UsageError

HOG = "cpuhog:ttime=1ms"

Call = Callable[[Lab], object]

ARGUMENTS: list[tuple[Call, type[Exception] | None, str]] = [
    (lambda lab: Lab(5), TypeError, "binary: a path is expected, not 5"),
    (lambda lab: Lab("/none/schedlab"), schedlab.CommandNotFound, "/none/schedlab, which is no program"),
    (lambda lab: lab.sim(None, HOG), TypeError, "scheduler: a text is expected, not None"),
    (lambda lab: lab.sim(["o1"], HOG), TypeError, r"scheduler: a text is expected, not \['o1'\]"),
    (lambda lab: lab.sim("o1", 7), TypeError, "workload: a text is expected, not 7"),
    (lambda lab: lab.sim("o1", b"chat"), TypeError, "workload: a text"),
    (lambda lab: lab.sim("o1", "cha\0t"), ValueError, "workload: .* zero character"),
    (lambda lab: lab.sim("o1", HOG, machine=3), TypeError, "machine: a text"),
    (lambda lab: lab.sim("o1", HOG, cpus="two"), TypeError, "cpus: a whole number is expected, not 'two'"),
    (lambda lab: lab.sim("o1", HOG, cpus=1.5), TypeError, "cpus: a whole number"),
    (lambda lab: lab.sim("o1", HOG, cpus=True), TypeError, "cpus: a whole number"),
    (lambda lab: lab.sim("o1", HOG, cpus=0), UsageError, "-c"),
    (lambda lab: lab.sim("o1", HOG, seed=None), None, ""),
    (lambda lab: lab.sim("o1", HOG, seed="x"), TypeError, "seed: a whole number"),
    (lambda lab: lab.sim("o1", HOG, seed=-1), UsageError, "'-1' is negative"),
    (lambda lab: lab.sim("o1", HOG, seed=2**64), UsageError, "--seed"),
    (lambda lab: lab.sim("o1", HOG, duration=5), TypeError, "duration: a text"),
    (lambda lab: lab.sim("o1", HOG, duration="1000000h"), UsageError, r"--duration.*720h \(30 days\)"),
    (lambda lab: lab.sim("o1", HOG, settings=["profile"]), TypeError, "settings: a dict"),
    (lambda lab: lab.sim("o1", HOG, settings={"profile": None}), TypeError, r"settings\['profile'\]: a number"),
    (lambda lab: lab.sim("o1", HOG, settings={3: 4}), TypeError, "settings: a text is expected, not 3"),
    (lambda lab: lab.sim("o1", HOG, settings={"profil": "d1"}), UsageError, "did you mean 'profile'?"),
    (lambda lab: lab.sim("o1", HOG, set_at=5), TypeError, "set_at: a list of texts"),
    (lambda lab: lab.sim("o1", HOG, options=[1]), TypeError, r"options\[0\]: a text"),
    (lambda lab: lab.sim("o1", HOG, options=["--nothing"]), UsageError, "--nothing"),
    (lambda lab: lab.compare(None, HOG), TypeError, "schedulers: a list of texts"),
    (lambda lab: lab.compare(["o1", 2], HOG), TypeError, r"schedulers\[1\]: a text"),
    (lambda lab: lab.compare("eevdf,o1", HOG, cpus=1, runs=1), None, ""),
    (lambda lab: lab.compare([], HOG), UsageError, "scheduler"),
    (lambda lab: lab.compare(["eevdf", "o1"], []), UsageError, "--workload"),
    (lambda lab: lab.compare(["eevdf", "o1"], HOG, cpus="1,2"), TypeError, "cpus: a whole number"),
    (lambda lab: lab.compare(["eevdf", "o1"], HOG, cpus=[1, None]), TypeError, "cpus: a whole number"),
    (lambda lab: lab.compare(["eevdf", "o1"], HOG, runs="3"), TypeError, "runs: a whole number"),
    (lambda lab: lab.compare(["eevdf", "o1"], HOG, runs=0), UsageError, "--runs"),
    (lambda lab: lab.compare(["eevdf", "o1"], HOG, confidence="95"), TypeError, "confidence: a number"),
    (lambda lab: lab.compare(["eevdf", "o1"], HOG, confidence=math.nan), UsageError, "--confidence"),
    (lambda lab: lab.compare(["eevdf", "o1"], HOG, workers="many"), TypeError, "jobs: a whole number"),
    (lambda lab: lab.compare(["eevdf", "o1"], HOG, resume=3), TypeError, "resume: a path"),
    (lambda lab: lab.compare(["eevdf", "o1"], HOG, resume=__file__, workers=Pool(1)), ValueError, "is no folder"),
    (lambda lab: lab.compare(["eevdf", "o1"], HOG, resume=__file__), UsageError, "--resume"),
    (lambda lab: lab.reproduce(None), TypeError, "document: a text"),
    (lambda lab: lab.reproduce("kravets"), UsageError, "did you mean 'kravetz'?"),
    (lambda lab: lab.reproduce("kravetz", tables=[3]), TypeError, r"tables\[0\]: a text"),
    (lambda lab: lab.reproduce("kravetz", parts="all"), TypeError, "parts: a whole number"),
    (lambda lab: lab.run("eevdf", 3), TypeError, "workload: a text"),
    (lambda lab: lab.run("eevdf", job=[None]), TypeError, r"job\[0\]: a text"),
    (lambda lab: lab.run("eevdf"), UsageError, "--workload"),
    (lambda lab: lab.stat(), UsageError, "<SAMPLE>|sample"),
    (lambda lab: lab.stat(None, [1.0]), TypeError, "sample1: a path"),
    (lambda lab: lab.stat([1.0, 2.0], 5), TypeError, "sample2: a path"),
    (lambda lab: lab.stat([1.0, "2"]), TypeError, r"sample1\[1\]: a number"),
    (lambda lab: lab.stat([], [1.0]), UsageError, "sample1"),
    (lambda lab: lab.stat([math.nan, 1.0], [1.0]), UsageError, "sample1.*nan"),
    (lambda lab: lab.stat("/none/runs.csv:x"), UsageError, "/none/runs.csv"),
    (lambda lab: Pool("all"), TypeError, "workers: a whole number"),
    (lambda lab: Pool(0), ValueError, "workers: one or more"),
    (lambda lab: Trace.read(None), TypeError, "file: a path"),
    (lambda lab: Trace.read("/none/t"), FileNotFoundError, "/none/t"),
    (lambda lab: Trace.read(__file__), ValueError, "test_given.py is no trace"),
    (lambda lab: Result.read(None), ValueError, "no result file"),
    (lambda lab: Result.read(""), ValueError, "no result file"),
    (lambda lab: Result.read("[" * 100_000), ValueError, "no result file"),
    (lambda lab: Result.read("[]"), ValueError, "no result file"),
    (lambda lab: Result.read('{"schedlab": {"schema": 99}}'), ValueError, "has schema 99, this package reads 1"),
]


@pytest.mark.parametrize("number", range(len(ARGUMENTS)))
def test_arguments(lab: Lab, number: int) -> None:
    call, kind, words = ARGUMENTS[number]
    if kind is None:
        call(lab)
        return
    with pytest.raises(kind, match=words) as raised:
        call(lab)
    assert type(raised.value) is kind and "\n" not in str(raised.value)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a document has something: of a list its first element, for the others are alike."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else []
    return [path, *(place for key, one in inside for place in places(one, (*path, key)))]


def test_damaged_results(lab: Lab) -> None:
    """Whatever is missing or of another type, reading gives a result or says that the file is damaged."""
    text = lab.compare(["eevdf", "o1"], [HOG, "chat:rooms=1,messages=2"], cpus=1, runs=1).json
    document = json.loads(text)
    for end in range(0, len(text) - 1, len(text) // 50):
        with pytest.raises(ValueError, match="no result file"):
            Result.read(text[:end])
    for place in places(document)[1:]:
        for change in ("missing", None, "text", -1, [], {}):
            damaged = json.loads(text)
            holder = damaged
            for key in place[:-1]:
                holder = holder[key]
            if change == "missing":
                del holder[place[-1]]
            else:
                holder[place[-1]] = change
            try:
                Result.read(json.dumps(damaged))
            except ValueError as error:
                assert str(error).startswith(("the result file", "this is no result file")), place
                assert "__init__" not in str(error), (place, change, error)


def test_a_single_run_has_no_spread(lab: Lab) -> None:
    result = lab.compare(["eevdf", "o1"], HOG, cpus=1, runs=1)
    assert all(math.isnan(one.candidate.sd) and math.isnan(one.baseline.sd) for one in result.comparisons)
    assert result.comparison_frame()["candidate_sd"].isna().all()


def test_damaged_traces(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "t.pftrace"
    lab.sim("o1", HOG, cpus=1, options=["--perfetto", str(file)])
    whole = file.read_bytes()
    for end in range(1, len(whole), max(1, len(whole) // 200)):
        (tmp_path / "cut").write_bytes(whole[:end])
        try:
            Trace.read(tmp_path / "cut")
        except ValueError as error:
            assert "cut is no trace of schedlab, or a part of one" in str(error)
