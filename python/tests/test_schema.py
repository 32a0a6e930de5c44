"""The classes of results are those of the published schema, and what the command writes has its form."""

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType

import pytest

import schedlab

TREE = Path(__file__).parents[2]


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_fields", TREE / "python/make_fields.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_fields_are_made_of_the_schema() -> None:
    make = maker()
    wanted = make.made(json.loads(make.SCHEMA.read_text()))
    if "SCHEDLAB_BLESS" in os.environ:
        make.FIELDS.write_text(wanted)
    assert make.FIELDS.read_text() == wanted, "python python/make_fields.py writes it anew"


@pytest.mark.parametrize(
    "run",
    [
        lambda lab: lab.sim("o1", "chat:rooms=1,messages=5", cpus=2),
        lambda lab: lab.sim("o1+swap", "swap-pipe:iterations=2,hogs=1", cpus=1, options=["--explain-waits"]),
        lambda lab: lab.compare(["vanilla", "o1"], "cpuhog:ntasks=2,ttime=10ms", cpus=[1, 2], runs=2),
    ],
)
def test_results_have_the_form_of_the_schema(lab: schedlab.Lab, run) -> None:  # type: ignore[no-untyped-def]
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((TREE / "docs/schema/results.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(run(lab).raw)


def test_older_files_lack_what_has_a_default() -> None:
    exit = {"kind": "none", "reason": ""}
    workload = {"name": "chat", "params": {"rooms": 3}}
    run = {"scheduler": "o1", "workload": workload, "machine": "modern", "cpus": 2, "seed": 1, "backend": "sim"}
    run |= {"duration_ns": 5, "exit": exit, "metrics": {"throughput": {"value": None, "unit": "", "better": "higher"}}}
    result = schedlab.Result.read(json.dumps({"schedlab": {"schema": 1}, "runs": [run]}))
    assert (result.run.workload, result.run.params, result.run["throughput"]) == ("chat", {"rooms": 3}, None)
    assert (result.run.standing, result.run.tasks, result.run.provenance.build) == ("valid", [], None)
    assert (result.run.validation, result.run.printed_left_out, result.run.exit.message) == (None, 0, "")
    del run["cpus"]
    with pytest.raises(ValueError, match="'cpus' is missing"):
        schedlab.Result.read(json.dumps({"schedlab": {"schema": 1}, "runs": [run]}))
