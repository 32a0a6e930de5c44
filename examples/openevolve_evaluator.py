"""An evaluator for OpenEvolve: the program that evolves is the source of a sched_ext scheduler.

    openevolve-run mine.bpf.c examples/openevolve_evaluator.py

SCHEDLAB_BASE and SCHEDLAB_SUITE choose what a candidate is compared with, and by which loads.
"""

import os
import pathlib
import shutil
import tempfile

import schedlab


def evaluate(program_path: str) -> dict[str, float | str]:
    """The score of a candidate, and the reasons as a text that the next one is written from."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "candidate.bpf.c"
        shutil.copy(program_path, source)
        base, suite = os.environ.get("SCHEDLAB_BASE", "eevdf"), os.environ.get("SCHEDLAB_SUITE", "desktop")
        answer = schedlab.judge(source, against=base, suite=suite)
    # A rejected candidate counts for nothing: its figures were had at the cost of something else.
    score = answer.score if answer.accepted else 0.0
    return {"combined_score": score, "accepted": float(answer.accepted), "reasons": "\n".join(answer.reasons)}
