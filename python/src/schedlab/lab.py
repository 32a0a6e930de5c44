"""The commands of `schedlab` as methods."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeGuard

from schedlab import command, given
from schedlab.results import Result, Stat
from schedlab.sweep import Cell, Workers
from schedlab.trace import Trace

Names = str | Sequence[str]
Numbers = int | Sequence[int]
Settings = Mapping[str, object]
PathLike = str | os.PathLike[str]
Value = float | int


class Lab:
    """The laboratory: finds the binary once, then runs its commands.

    All methods raise the exceptions of `SchedlabError`, and TypeError or ValueError, which name the argument, for one that no
    command line can hold. Schedulers, workloads, machines and durations are written as
    on the command line (`schedlab list` shows the names); `settings` are tunables, `{"profile": "tsss"}` or
    `{"vanilla:profile": "tsss"}` for one of several schedulers.
    """

    def __init__(self, binary: PathLike | None = None) -> None:
        """Finds the binary: `binary`, the variable SCHEDLAB, or the one that is installed; see `command.find`."""
        self.binary = command.find(None if binary is None else given.path("binary", binary))

    def sim(
        self,
        scheduler: str,
        workload: str,
        *,
        machine: str | None = None,
        cpus: int | None = None,
        seed: int = 1,
        duration: str | None = None,
        settings: Settings | None = None,
        set_at: Sequence[str] = (),
        checkers: bool = False,
        trace: bool = False,
        options: Sequence[str] = (),
    ) -> Result:
        """One simulated run. With `trace` the result has who ran where and when (`Result.trace_frame`). `options` are
        further words of the command line, as `["--timeline", "10ms..20ms"]`."""
        arguments = ["sim", "-s", given.text("scheduler", scheduler), "-w", given.text("workload", workload)]
        arguments += given.options(machine=machine, cpus=cpus, seed=seed, duration=duration)
        arguments += given.settings(settings)
        arguments += [word for change in given.texts("set_at", set_at) for word in ("--set-at", change)]
        arguments += ["--checkers"] if checkers else []
        return self._result([*arguments, *given.texts("options", options)], trace=trace)

    def compare(
        self,
        schedulers: Names,
        workload: Names,
        *,
        machine: str | None = None,
        cpus: Numbers = (),
        runs: int = 3,
        seed: int = 1,
        duration: str | None = None,
        settings: Settings | None = None,
        confidence: Value = 95,
        workers: int | Workers | None = None,
        resume: PathLike | None = None,
        options: Sequence[str] = (),
    ) -> Result:
        """Schedulers over numbers of CPUs and seeds, each against the first one; a text is split at its commas, as on the command
        line. Several workloads, given as a list, are run
        one by one, and the schedulers ranked over them (`Result.ranking`).

        `workers` are a number of threads of the command (None: all CPUs), a `Pool`, or a `schedlab.ray.Cluster`; the
        result is the same. Finished runs are kept in the folder `resume` and not repeated.
        """
        counts = [given.whole("cpus", one) for one in (cpus if _is_list(cpus) else [cpus])]
        named, workloads = given.texts("schedulers", schedulers), given.texts("workload", workload)
        arguments = ["compare", "-s", ",".join(named), *(word for one in workloads for word in ("-w", one))]
        arguments += given.options(machine=machine, seed=seed, duration=duration, runs=runs, confidence=confidence)
        arguments += ["-c", ",".join(counts)] if counts else []
        arguments += [*given.settings(settings), *given.texts("options", options)]
        parts = max(1, len(workloads) * len(named) * max(1, len(counts)) * runs)
        paths = [*named, *workloads, *([machine] if machine else [])]
        return self._sweep(arguments, workers, resume, parts, paths)

    def reproduce(
        self,
        document: str,
        *,
        quick: bool = False,
        tables: Names = (),
        runs: int = 1,
        seed: int = 1,
        workers: int | Workers | None = None,
        resume: PathLike | None = None,
        parts: int = 32,
        options: Sequence[str] = (),
    ) -> Result:
        """A document's tables, published beside measured. `workers` and `resume` as in `compare`; a pool or a
        cluster gets the work in `parts` cells.

        When fewer rows agree than are wanted, the result's `code` is 1; that is no exception.
        """
        named = given.texts("tables", tables)
        arguments = ["reproduce", given.text("document", document), *given.options(runs=runs, seed=seed)]
        arguments += [*(["--quick"] if quick else []), *(["--document-table", ",".join(named)] if named else [])]
        arguments += given.texts("options", options)
        return self._sweep(arguments, workers, resume, int(given.whole("parts", parts)), (), may_fail=True)

    def run(
        self,
        scheduler: str,
        workload: str | None = None,
        *,
        job: Sequence[str] = (),
        vm: bool = False,
        cpus: int | None = None,
        seed: int = 1,
        duration: str | None = None,
        settings: Settings | None = None,
        options: Sequence[str] = (),
    ) -> Result:
        """A workload, or the command `job`, on a real kernel: this machine's (as root), or one in a VM."""
        words = given.texts("job", job)
        arguments = ["run", "-s", given.text("scheduler", scheduler), *(["--vm"] if vm else [])]
        arguments += [] if workload is None else ["-w", given.text("workload", workload)]
        arguments += given.options(cpus=cpus, seed=seed, duration=duration)
        arguments += [*given.settings(settings), *given.texts("options", options)]
        return self._result(arguments, after=["--", *words] if words else [])

    def stat(self, *samples: Sequence[Value] | PathLike, confidence: Value = 95) -> Stat:
        """Two or more samples compared, ministat style. A sample is a list of numbers, or what the command line
        takes: `"runs.csv:before"`, `"result.json:throughput"`.
        """
        with _temporary() as folder:
            names = []
            for number, sample in enumerate(samples):
                name = f"sample{number + 1}"
                if not _is_list(sample):
                    names.append(given.path(name, sample))
                    continue
                values = [given.number(f"{name}[{at}]", value) for at, value in enumerate(sample)]
                (folder / name).write_text("".join(f"{value!r}\n" for value in values))
                names.append(str(folder / name))
            done = command.start(self.binary, ["stat", *given.options(confidence=confidence), *names])
            if done.returncode:
                raise command.error(done.returncode, done.stderr.replace(f"{folder}/", ""))
            return Stat.read(done.stdout.replace(f"{folder}/", ""))

    def cells(self, arguments: Sequence[str], parts: int, paths: Sequence[str] = ()) -> list[Cell]:
        """A command that takes `--shard`, cut in parts; `paths` are the files among its arguments."""
        files = tuple(path for path in paths if os.path.isfile(path))
        return [Cell(tuple(arguments), number, parts, files) for number in range(1, parts + 1)]

    def _sweep(
        self,
        arguments: Sequence[str],
        workers: int | Workers | None,
        resume: PathLike | None,
        parts: int,
        paths: Sequence[str],
        may_fail: bool = False,
    ) -> Result:
        place = None if resume is None else given.path("resume", resume)
        if not isinstance(workers, Workers):
            kept = [] if place is None else ["--resume", place]
            return self._result([*arguments, *given.options(jobs=workers), *kept], may_fail=may_fail)
        with _temporary() as scratch:
            folder = scratch if place is None else Path(place).resolve()
            if folder.exists() and not folder.is_dir():
                raise ValueError(f"resume: {place} is no folder")
            folder.mkdir(parents=True, exist_ok=True)
            workers.run(self.cells(arguments, parts, paths), self.binary, folder)
            return self._result([*arguments, "--resume", str(folder)], may_fail=may_fail)

    def _result(
        self, arguments: Sequence[str], *, after: Sequence[str] = (), may_fail: bool = False, trace: bool = False
    ) -> Result:
        """Runs a command that writes a result file, and a trace if it is to."""
        with _temporary() as folder:
            file, events = folder / "result.json", folder / "trace.pftrace"
            kept = ["--perfetto", str(events)] if trace else []
            done = command.start(self.binary, [*arguments, *kept, "--json", str(file), *after])
            result = None
            if file.exists():
                mark = "schedlab: "
                notes = [line.removeprefix(mark) for line in done.stderr.splitlines() if line.startswith(mark)]
                json = file.read_text(encoding="utf-8")
                read = Trace.read(events) if events.exists() else None
                result = Result.read(json, shown=done.stdout, code=done.returncode, notes=notes, trace=read)
        disagrees = may_fail and done.returncode == 1 and not command.has_defect(done.stderr)
        if result is not None and (done.returncode == 0 or disagrees):
            return result
        raise command.error(done.returncode, done.stderr, result)


def _is_list(value: object) -> TypeGuard[Iterable[Any]]:
    """True for what holds several values; a text is one."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, os.PathLike, Mapping))


@contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="schedlab-") as folder:
        yield Path(folder)
