"""A sweep as independent cells, and who runs them.

A cell is one shard of the command (`--shard I/N --resume DIR`): it leaves its finished runs as files, whose names
are made of all that the result depends on. When all are there, the command reads them and reports. So neither the
workers, nor their number, nor their order, nor an interruption change a byte of the result.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from schedlab import command, given


@dataclass(frozen=True)
class Cell:
    """A part of a sweep that can be run anywhere, at any time."""

    arguments: tuple[str, ...]
    """Of the command, without `--shard` and `--resume`."""
    number: int
    """Which part it is, from 1."""
    of: int
    """How many there are."""
    paths: tuple[str, ...] = ()
    """Files that it reads: objects, workloads, machines."""

    def command_line(self, folders: Sequence[Path]) -> list[str]:
        """The whole arguments; runs that are in `folders` are not repeated, new ones go to the first."""
        where = ",".join(str(folder) for folder in folders)
        return [*self.arguments, "-q", "--jobs", "1", "--shard", f"{self.number}/{self.of}", "--resume", where]


@runtime_checkable
class Workers(Protocol):
    """Whatever runs cells."""

    def run(self, cells: Sequence[Cell], binary: Path, folder: Path) -> None:
        """Leaves the finished runs of all cells in `folder`. Runs that are there are not repeated.

        Raises the error of a cell that fails; what was finished stays in the folder.
        """


class Pool:
    """Runs cells on this machine, several at a time."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = (os.cpu_count() or 1) if workers is None else int(given.whole("workers", workers))
        if self.workers < 1:
            raise ValueError(f"workers: one or more are needed, not {workers}")

    def run(self, cells: Sequence[Cell], binary: Path, folder: Path) -> None:
        """See `Workers.run`. Each cell is a process; the threads here only wait for them."""

        lost: list[command.SchedlabError] = []

        def work(cell: Cell) -> None:
            done = command.start(binary, cell.command_line([folder]))
            if done.returncode:
                error = command.error(done.returncode, done.stderr)
                alone = isinstance(error, command.Inconclusive) or command.has_defect(done.stderr)
                # So does a signal from outside: a worker that was killed says nothing of the other cells.
                if not (alone or done.returncode < 0):
                    raise error
                # A time limit or a defect loses this run alone.
                lost.append(error)

        with ThreadPoolExecutor(self.workers) as pool:
            waiting = [pool.submit(work, cell) for cell in cells]
            try:
                for future in waiting:
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        if lost:
            raise lost[0]
