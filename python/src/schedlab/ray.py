"""Sweeps on a Ray cluster.

The nodes need Ray and nothing else: the binary, one file with all schedulers in it, goes to them with the cells.
Objects, workload and machine files go with them too when they are named by a path below the current folder.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab import command
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
        # Nodes without this package get the function below by its code.
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        task = ray.remote(**self.options)(_work)
        program = ray.put(binary.read_bytes())
        inputs = ray.put(_inputs({path for cell in cells for path in cell.paths}))
        known = ray.put({path.name: path.read_bytes() for path in sorted(folder.glob("*.json"))})
        waiting = [task.remote(cell.arguments, cell.number, cell.of, program, inputs, known) for cell in cells]
        try:
            while waiting:
                [done], waiting = ray.wait(waiting)
                code, stderr, files = ray.get(done)
                _keep(folder, files)
                if code:
                    raise command.error(code, stderr)
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
    """The files below the current folder; others have to be on every node at the same place."""
    below = {path for path in paths if not os.path.isabs(path)}
    for path in sorted(below):
        if os.path.normpath(path).startswith(".."):
            raise command.UsageError(
                f"{path} lies outside the current folder and cannot be sent to other nodes: "
                "start from a folder above it, or give an absolute path that every node has",
                2,
            )
    return {path: Path(path).read_bytes() for path in sorted(below)}


def _keep(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes each file whole or not at all."""
    for name, content in files.items():
        unfinished = folder / f"{name}.{os.getpid()}.part"
        unfinished.write_bytes(content)
        unfinished.replace(folder / name)


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

    digest = hashlib.sha256(program).hexdigest()[:16]
    home = Path(tempfile.gettempdir()) / f"schedlab-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != os.getuid():
        return 5, f"schedlab: error: {home} belongs to somebody else; set TMPDIR on the node\n", {}
    binary = home / digest
    with tempfile.TemporaryDirectory(dir=home) as scratch:
        base = Path(scratch)
        if not binary.exists():
            unpacked = base / "binary"
            unpacked.write_bytes(program)
            unpacked.chmod(0o700)
            unpacked.replace(binary)
        for path, content in inputs.items():
            place = base / "inputs" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        for folder in ("inputs", "new", "known"):
            (base / folder).mkdir(exist_ok=True)
        for name, content in known.items():
            (base / "known" / name).write_bytes(content)
        words = [str(binary), *arguments, "-q", "--jobs", "1", "--shard", f"{number}/{of}"]
        words += ["--resume", f"{base / 'new'},{base / 'known'}"]
        done = subprocess.run(
            words, cwd=base / "inputs", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        files = {path.name: path.read_bytes() for path in sorted((base / "new").glob("*.json"))}
        return done.returncode, done.stderr, files
