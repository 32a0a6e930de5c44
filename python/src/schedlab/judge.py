"""A verdict on a scheduler: `schedlab judge` as a function."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab import command, given


@dataclass(frozen=True)
class JudgedLoad:
    """A measured load: above 1 the candidate is better than the base."""

    name: str
    score: float
    interval: tuple[float, float]
    verdict: str


@dataclass(frozen=True)
class Judgement:
    """What `schedlab judge` answers; `json` has all of its fields."""

    accepted: bool
    better: bool
    score: float
    interval: tuple[float, float]
    seed_key: str
    loads: tuple[JudgedLoad, ...]
    reasons: tuple[str, ...]
    more_reasons: int
    json: Mapping[str, Any]


def judge(
    candidate: str | os.PathLike[str],
    *,
    against: str | None = None,
    suite: str | os.PathLike[str] | None = None,
    seed_key: str | int | None = None,
    settings: Mapping[str, object] | None = None,
    options: Sequence[str] = (),
    binary: str | os.PathLike[str] | None = None,
) -> Judgement:
    """Judges a scheduler: a source, an object, a shipped name, or `exec:COMMAND`. A rejection is an answer and no exception.

    Raises the exceptions of `SchedlabError` for a wrong argument or a defect.
    """
    arguments = ["judge", given.path("candidate", candidate), "--json", "-", *given.settings(settings)]
    for flag, value in (("--against", against), ("--suite", suite), ("--seed-key", seed_key)):
        arguments += [] if value is None else [flag, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    done = command.start(command.find(binary), [*arguments, *given.texts("options", options)])
    if done.returncode not in (0, 1) or not done.stdout:
        raise command.error(done.returncode, done.stderr)
    return _read(json.loads(done.stdout))


def _read(answer: Mapping[str, Any]) -> Judgement:
    def load(one: Mapping[str, Any]) -> JudgedLoad:
        low, high = one["interval"]
        return JudgedLoad(one["name"], one["score"], (low, high), one["verdict"])

    low, high = answer["interval"]
    return Judgement(
        accepted=answer["accepted"],
        better=answer["better"],
        score=answer["score"],
        interval=(low, high),
        seed_key=answer["seed_key"],
        loads=tuple(load(one) for one in answer["loads"]),
        reasons=tuple(answer["reasons"]),
        more_reasons=answer["more_reasons"],
        json=answer,
    )
