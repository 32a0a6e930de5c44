"""The `schedlab` binary: where it is, how it is started, what its exit codes mean."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlab.results import Result

VARIABLE = "SCHEDLAB"
"""Environment variable that names the binary."""


class SchedlabError(Exception):
    """The command did not end with exit code 0.

    `text` is its message, `code` its exit code (negative: the number of the signal that ended it), and `result`
    what it had measured, where there is something.
    """

    def __init__(self, text: str, code: int, result: Result | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.result = result


class Failed(SchedlabError):
    """Exit code 1: a comparison or check does not hold, or the command under test failed."""


class UsageError(SchedlabError):
    """Exit code 2: wrong arguments or input; the text names place and cure."""


class Inconclusive(SchedlabError):
    """Exit code 3: the results do not allow an answer."""


class Ejected(SchedlabError):
    """Exit code 4: the kernel, simulated or real, threw the scheduler out; `result` has the runs."""


class EnvironmentLacks(SchedlabError):
    """Exit code 5: something is missing on this machine; the text names it and the cure."""


class CommandNotFound(EnvironmentLacks):
    """There is no `schedlab` binary."""


_KINDS: dict[int, type[SchedlabError]] = {
    1: Failed,
    2: UsageError,
    3: Inconclusive,
    4: Ejected,
    5: EnvironmentLacks,
}


def has_defect(stderr: str) -> bool:
    """Whether the command says that it has a defect itself, which has exit code 1 too."""
    return "schedlab: error: defect in schedlab: " in stderr


def error(code: int, stderr: str, result: Result | None = None) -> SchedlabError:
    """The exception for an exit code and what was written to standard error."""
    mark = "schedlab: error: "
    # What comes from another node may be anything; no user's terminal is to obey it.
    stderr = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in stderr)
    lines = [line.removeprefix(mark) for line in stderr.splitlines() if line.startswith(mark)]
    text = "\n".join(lines) or stderr.strip()
    if code < 0:
        text = f"schedlab was ended by signal {-code}. {text}".strip()
    return _KINDS.get(code, SchedlabError)(text or f"schedlab ended with code {code}", code, result)


def find(binary: str | os.PathLike[str] | None = None) -> Path:
    """The binary: the one that is named, else by the variable SCHEDLAB, else the one that is installed: beside this
    Python's programs, on the PATH, or in `target/release` or `target/quick` of the source tree that this package is part of.

    A name without a folder is looked up on the PATH. Its relative folders, such as `.`, are passed over, and nothing
    is looked for in the current folder: what lies there need not be ours.

    Raises CommandNotFound.
    """
    for name, said in ((binary, "the argument `binary`"), (os.environ.get(VARIABLE), f"the variable {VARIABLE}")):
        if name:
            found = _program(os.fspath(name))
            if found is None:
                raise CommandNotFound(f"{said} names {os.fspath(name)}, which is no program", 5)
            return found
    for place in _installed():
        if place.is_file() and os.access(place, os.X_OK):
            return place.resolve()
    raise CommandNotFound(
        f"no schedlab binary: build it (`make quick`), then put it on the PATH or name it by the variable {VARIABLE}", 5
    )


def _program(name: str) -> Path | None:
    """A program by its path, or by its name on the PATH."""
    if os.path.dirname(name):
        return Path(name).resolve() if os.path.isfile(name) and os.access(name, os.X_OK) else None
    found = shutil.which(name, path=os.pathsep.join(_path()))
    return None if found is None else Path(found).resolve()


def _path() -> list[str]:
    """The folders of the PATH that mean the same wherever we are."""
    return [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]


def _installed() -> Iterator[Path]:
    """Where an installed binary may be, in the order of preference."""
    yield Path(sysconfig.get_path("scripts")) / "schedlab"
    for folder in _path():
        yield Path(folder) / "schedlab"
    here = Path(__file__).resolve()
    # Installed in place: python/src/schedlab/command.py of the source tree.
    if len(here.parents) > 3:
        tree = here.parents[3]
        if (tree / "python" / "src" / "schedlab" / here.name) == here and (tree / "Cargo.toml").is_file():
            yield tree / "target" / "release" / "schedlab"
            yield tree / "target" / "quick" / "schedlab"


def start(
    binary: Path, arguments: Sequence[str], *, folder: Path | None = None, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end and keeps what it writes; an interruption ends it too."""
    environment = {**os.environ, "NO_COLOR": "1"}
    # The tables are to be the same whatever terminal this Python was started from.
    environment.pop("COLUMNS", None)
    try:
        return subprocess.run(
            [str(binary), *arguments],
            cwd=folder,
            env=environment,
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as failure:
        raise CommandNotFound(f"{binary} cannot be started: {failure.strerror}", 5) from failure
