"""How far runs count: what a result file says of it reaches objects and their texts."""

import json

import schedlab
from schedlab import show

RUN = {
    "scheduler": "no",
    "settings": {},
    "workload": {"name": "beside", "params": {}},
    "machine": "modern",
    "cpus": 2,
    "seed": 1,
    "backend": "sim",
    "duration_ns": 5,
    "exit": {"kind": "none", "reason": ""},
    "metrics": {},
    "tasks": [],
}


def read(**more: object) -> schedlab.Run:
    file = {"schedlab": {"version": "0", "schema": 1}, "runs": [{**RUN, **more}], "comparisons": []}
    return schedlab.Result.read(json.dumps(file)).run


def test_a_run_tells_its_standing() -> None:
    suspect = read(standing="suspect", standing_reasons=["never_ran"])
    assert (suspect.standing, suspect.standing_reasons) == ("suspect", ["never_ran"])
    assert "suspect: never_ran" in repr(suspect) and "suspect: never_ran" in show.run_html(suspect)
    valid = read(standing="valid", standing_reasons=[])
    assert valid.standing == "valid" and "valid" not in repr(valid)
    assert read().standing == "valid", "a file of an older version has none"
