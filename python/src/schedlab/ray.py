"""Sweeps on a Ray cluster.

The nodes need Ray and nothing else: the binary, one file with all schedulers in it, goes to them with the cells.
Objects, workload and machine files go with them too when they are named by a path below the current folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab import command, files
from schedlab.sweep import Cell


class Cluster:
    """Runs cells as tasks of Ray, for `workers=` of `Lab.compare` and `Lab.reproduce`.

    Without `ray.init` before, one is made with `address` (none: a cluster on this machine). `options` are those of
    Ray's tasks, as `resources={"simulator": 1}`.
    """

    def __init__(self, address: str | None = None, **options: Any) -> None:
        self.address = address
        self.options = {"num_cpus": 1, **options}

    def run(self, cells: Sequence[Cell], binary: Path, folder: Path) -> None:
        """See `schedlab.Workers.run`. Files are kept as they arrive, so an interrupted sweep can be resumed."""
        ray = _ray()
        if not ray.is_initialized():
            ray.init(address=self.address)
        # Nodes without this package get the functions that they need by their code.
        for module in (__name__, files.__name__):
            ray.cloudpickle.register_pickle_by_value(sys.modules[module])
        task = ray.remote(**self.options)(_work)
        program = ray.put(binary.read_bytes())
        inputs = ray.put(_inputs({path for cell in cells for path in cell.paths}))
        known = ray.put(files.records(folder))
        waiting = [task.remote(cell.arguments, cell.number, cell.of, program, inputs, known) for cell in cells]
        try:
            while waiting:
                [done], waiting = ray.wait(waiting)
                _take(folder, ray.get(done))
        finally:
            for left in waiting:
                ray.cancel(left)


def _ray() -> Any:
    try:
        import ray
    except ImportError as missing:
        raise ImportError("sweeps on a cluster need Ray: pip install ray") from missing
    return ray


def _inputs(paths: set[str]) -> dict[str, bytes]:
    """The files below the current folder; others must be on every node at the same place."""
    below = {path for path in paths if not os.path.isabs(path)}
    for path in sorted(below):
        if ".." in Path(os.path.normpath(path)).parts:
            raise command.UsageError(
                f"{path} lies outside the current folder and cannot be sent to other nodes: "
                "start from a folder above it, or give an absolute path that every node has",
                2,
            )
    return {path: Path(path).read_bytes() for path in sorted(below)}


def _take(folder: Path, answer: object) -> None:
    """Keeps the runs that a node has finished, and raises its error. Nothing that a node sends is trusted: its files have
    the names of finished runs and stay in the folder; the command checks what they hold.
    """
    match answer:
        case (int() as code, str() as stderr, dict() as finished):
            for name, content in finished.items():
                try:
                    files.keep(folder, name, content)
                except files.WrongName as wrong:
                    raise command.Failed(str(wrong), 1) from wrong
            if code:
                raise command.error(code, stderr)
        case _:
            raise command.Failed("a node sent something that is no answer to a cell", 1)


def _home() -> Path | None:
    """A folder of our own on this node, for binaries; none where somebody else has its name."""
    import stat
    import tempfile

    home = Path(tempfile.gettempdir()) / f"schedlab-{os.getuid()}"
    try:
        home.mkdir(mode=0o700)
    except FileExistsError:
        pass
    # Not of what a link leads to: that could be ours.
    found = home.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return home if ours else None


def _unpacked(home: Path, program: bytes) -> Path:
    """The binary as a file, whose content is checked each time."""
    import hashlib
    import tempfile

    binary = home / hashlib.sha256(program).hexdigest()
    if binary.is_symlink() or not binary.is_file() or binary.read_bytes() != program:
        handle, unfinished = tempfile.mkstemp(dir=home)
        with os.fdopen(handle, "wb") as file:
            file.write(program)
        os.chmod(unfinished, 0o700)
        os.replace(unfinished, binary)
    return binary


def _work(
    arguments: Sequence[str],
    number: int,
    of: int,
    program: bytes,
    inputs: Mapping[str, bytes],
    known: Mapping[str, bytes],
) -> tuple[int, str, dict[str, bytes]]:
    """On a node: exit code, standard error and new files of a cell. Runs where this package may not be."""
    import subprocess
    import tempfile

    home = _home()
    if home is None:
        taken = f"{tempfile.gettempdir()}/schedlab-{os.getuid()}"
        return 5, f"schedlab: error: {taken} is not a folder of our own; remove it or set TMPDIR on the node\n", {}
    binary = _unpacked(home, program)
    with tempfile.TemporaryDirectory(dir=home) as scratch:
        base = Path(scratch)
        for path, content in inputs.items():
            place = files.inside(base / "inputs", path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        for folder in ("inputs", "new", "known"):
            (base / folder).mkdir(exist_ok=True)
        for name, content in known.items():
            files.keep(base / "known", name, content)
        words = [str(binary), *arguments, "-q", "--jobs", "1", "--shard", f"{number}/{of}"]
        words += ["--resume", f"{base / 'new'},{base / 'known'}"]
        done = subprocess.run(
            words, cwd=base / "inputs", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr, files.records(base / "new")
