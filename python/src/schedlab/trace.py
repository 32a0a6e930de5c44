"""The trace that `--perfetto` writes, as objects and data frames: who ran on which CPU and when, who woke whom.

Only the messages that schedlab writes are read; the numbers are those of Perfetto's protocol, as in
crates/report/src/perfetto.rs. A trace of another program is for Perfetto's own trace processor.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab import frames, given

if TYPE_CHECKING:
    import pandas

_PACKET, _PROCESS_TREE, _FTRACE = 1, 2, 1
_THREADS, _TID, _TGID = 2, 1, 3
_CPU, _EVENT, _TIME, _PID, _SWITCH, _WAKING = 1, 2, 1, 2, 4, 20
_PREV_PID, _PREV_STATE, _NEXT_NAME, _NEXT_PID, _NEXT_PRIO = 2, 4, 5, 6, 7
_WAKEE_NAME, _WAKEE_PID, _TARGET_CPU = 1, 2, 5

# A process that exits is a zombie, 32, a thread is dead, 16.
_ENDS = {0: "runnable", 1: "blocked", 2: "blocked_io", 16: "exited", 32: "exited"}


@dataclass(frozen=True)
class Stretch:
    """One task on one CPU, from a switch to the next one there; times in ns since the run began."""

    name: str
    tid: int
    pid: int
    """Of the task's process."""
    cpu: int
    start_ns: int
    end_ns: int | None
    """None where the trace ends first."""
    prio: int
    """In the kernel's scale: 120 is nice 0."""
    end: str | None
    """What the task is after it: `runnable`, `blocked`, `blocked_io` or `exited`."""


@dataclass(frozen=True)
class Wakeup:
    """A blocked task became runnable."""

    time_ns: int
    name: str
    tid: int
    cpu: int
    """Where the waker ran."""
    target_cpu: int
    waker_tid: int
    """0: no task, as a timer."""


Fields = dict[int, list[Any]]


@dataclass(frozen=True, repr=False)
class Trace:
    """What happened in a run, in the order of each CPU's time."""

    stretches: list[Stretch]
    wakeups: list[Wakeup]

    @staticmethod
    def read(file: str | os.PathLike[str]) -> Trace:
        """Reads a file that `sim --perfetto` has written.

        Raises ValueError for a file that is none, or that ends inside a packet.
        """
        path = Path(given.path("file", file))
        content = path.read_bytes()
        try:
            return _Reader().read(memoryview(content))
        except (IndexError, KeyError, TypeError, UnicodeDecodeError) as broken:
            raise ValueError(f"{path} is no trace of schedlab, or a part of one") from broken

    def __repr__(self) -> str:
        return f"<schedlab.Trace: {len(self.stretches)} stretches, {len(self.wakeups)} wakeups>"

    def frame(self) -> pandas.DataFrame:
        """One row a stretch of a task on a CPU."""
        return frames.frame([dataclasses.asdict(stretch) for stretch in self.stretches])

    def wakeup_frame(self) -> pandas.DataFrame:
        """One row a wakeup."""
        return frames.frame([dataclasses.asdict(wakeup) for wakeup in self.wakeups])


class _Reader:
    """Joins each switch to a task with the next switch on that CPU."""

    def __init__(self) -> None:
        self.processes: dict[int, int] = {}
        self.running: dict[int, Stretch] = {}
        self.stretches: list[Stretch] = []
        self.wakeups: list[Wakeup] = []

    def read(self, data: memoryview) -> Trace:
        for number, packet in _fields(data):
            if number != _PACKET:
                raise KeyError(number)
            fields = _message(packet)
            for tree in fields.get(_PROCESS_TREE, []):
                self.learn(_message(tree))
            for bundle in fields.get(_FTRACE, []):
                self.bundle(_message(bundle))
        cut = sorted(self.running.values(), key=lambda stretch: stretch.cpu)
        return Trace([*self.stretches, *cut], self.wakeups)

    def learn(self, tree: Fields) -> None:
        for thread in map(_message, tree.get(_THREADS, [])):
            self.processes[_one(thread, _TID)] = _one(thread, _TGID)

    def bundle(self, bundle: Fields) -> None:
        cpu = _one(bundle, _CPU)
        for event in map(_message, bundle.get(_EVENT, [])):
            at = _one(event, _TIME)
            for switch in event.get(_SWITCH, []):
                self.switch(cpu, at, _message(switch))
            for waking in map(_message, event.get(_WAKING, [])):
                name, tid, target = _text(waking, _WAKEE_NAME), _one(waking, _WAKEE_PID), _one(waking, _TARGET_CPU)
                self.wakeups.append(Wakeup(at, name, tid, cpu, target, _one(event, _PID)))

    def switch(self, cpu: int, at: int, switch: Fields) -> None:
        ended = self.running.pop(cpu, None)
        if ended is not None:
            if ended.tid != _one(switch, _PREV_PID):
                raise KeyError(ended.tid)
            end = _ENDS[_one(switch, _PREV_STATE)]
            self.stretches.append(dataclasses.replace(ended, end_ns=at, end=end))
        tid = _one(switch, _NEXT_PID)
        if tid:
            name, prio = _text(switch, _NEXT_NAME), _one(switch, _NEXT_PRIO)
            self.running[cpu] = Stretch(name, tid, self.processes[tid], cpu, at, None, prio, None)


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers, and the bytes of texts and messages.

    Raises IndexError where the data end early, KeyError at a form that schedlab does not write.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        value, at = _varint(data, at)
        if kind == 0:
            yield number, value
        elif kind == 2:
            if at + value > len(data):
                raise IndexError(at + value)
            yield number, data[at : at + value]
            at += value
        else:
            raise KeyError(kind)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number of at most 64 bits in groups of seven, the lowest first, and where it ends."""
    value = 0
    for shift in range(0, 64, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise KeyError(at)


def _message(data: Any) -> Fields:
    found: Fields = {}
    for number, value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def _one(fields: Fields, number: int) -> int:
    value = fields[number][-1]
    if not isinstance(value, int):
        raise TypeError(number)
    return value


def _text(fields: Fields, number: int) -> str:
    return bytes(fields[number][-1]).decode()
