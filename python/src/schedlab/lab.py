"""The commands of `schedlab` as methods."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from schedlab import command
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

    All methods raise the exceptions of `SchedlabError`. Schedulers, workloads, machines and durations are written as
    on the command line (`schedlab list` shows the names); `settings` are tunables, `{"profile": "tsss"}` or
    `{"vanilla:profile": "tsss"}` for one of several schedulers.
    """

    def __init__(self, binary: PathLike | None = None) -> None:
        """Finds the binary: `binary`, the variable SCHEDLAB, or the one that is installed; see `command.find`."""
        self.binary = command.find(binary)

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
        arguments = ["sim", "-s", scheduler, "-w", workload]
        arguments += _options(machine=machine, cpus=cpus, seed=seed, duration=duration)
        arguments += _settings(settings)
        arguments += [word for change in set_at for word in ("--set-at", change)]
        return self._result([*arguments, *(["--checkers"] if checkers else []), *options], trace=trace)

    def compare(
        self,
        schedulers: Sequence[str],
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
        """Schedulers over numbers of CPUs and seeds, each against the first one. Several workloads, given as a list, are run
        one by one, and the schedulers ranked over them (`Result.ranking`).

        `workers` are a number of threads of the command (None: all CPUs), a `Pool`, or a `schedlab.ray.Cluster`; the
        result is the same. Finished runs are kept in the folder `resume` and not repeated.
        """
        counts = [cpus] if isinstance(cpus, int) else list(cpus)
        workloads = [workload] if isinstance(workload, str) else list(workload)
        arguments = ["compare", "-s", ",".join(schedulers), *(word for one in workloads for word in ("-w", one))]
        arguments += _options(machine=machine, seed=seed, duration=duration, runs=runs, confidence=confidence)
        arguments += ["-c", ",".join(map(str, counts))] if counts else []
        arguments += [*_settings(settings), *options]
        parts = max(1, len(workloads) * len(schedulers) * max(1, len(counts)) * runs)
        paths = [*schedulers, *workloads, *([machine] if machine else [])]
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
        named = [tables] if isinstance(tables, str) else list(tables)
        arguments = ["reproduce", document, *_options(runs=runs, seed=seed), *(["--quick"] if quick else [])]
        arguments += ["--document-table", ",".join(named)] if named else []
        return self._sweep([*arguments, *options], workers, resume, parts, (), may_fail=True)

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
        arguments = ["run", "-s", scheduler, *(["-w", workload] if workload else []), *(["--vm"] if vm else [])]
        arguments += _options(cpus=cpus, seed=seed, duration=duration)
        return self._result([*arguments, *_settings(settings), *options], after=["--", *job] if job else [])

    def stat(self, *samples: Sequence[Value] | PathLike, confidence: Value = 95) -> Stat:
        """Two or more samples compared, ministat style. A sample is a list of numbers, or what the command line
        takes: `"runs.csv:before"`, `"result.json:throughput"`.
        """
        with _temporary() as folder:
            names = []
            for number, sample in enumerate(samples):
                if isinstance(sample, (str, os.PathLike)):
                    names.append(os.fspath(sample))
                    continue
                path = folder / f"sample{number + 1}"
                path.write_text("".join(f"{value!r}\n" for value in map(float, sample)))
                names.append(str(path))
            done = command.start(self.binary, ["stat", *_options(confidence=confidence), *names])
            if done.returncode:
                raise command.error(done.returncode, done.stderr)
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
        if workers is None or isinstance(workers, int):
            kept = [] if resume is None else ["--resume", os.fspath(resume)]
            return self._result([*arguments, *_options(jobs=workers), *kept], may_fail=may_fail)
        with _temporary() as scratch:
            folder = scratch if resume is None else Path(resume).resolve()
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


def _options(**given: object) -> list[str]:
    """`--name value` for what is given."""
    return [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]


def _settings(settings: Settings | None) -> list[str]:
    def text(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return [word for name, value in (settings or {}).items() for word in ("--set", f"{name}={text(value)}")]


@contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="schedlab-") as folder:
        yield Path(folder)
