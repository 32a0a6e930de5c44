"""Files that come from elsewhere: whole, under names that stay in their folder. Imports nothing of this package, so that
nodes without it can have it by its code.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from pathlib import Path

_RECORD = re.compile(r"[0-9a-f]{32}\.json")

LARGEST = 256 << 20
"""Bytes of the largest record, as the command reads it."""


class WrongName(ValueError):
    """A file name that no honest node sends."""


def is_record(name: object) -> bool:
    """Whether a finished run of the command has such a name."""
    return isinstance(name, str) and _RECORD.fullmatch(name) is not None


def records(folder: Path) -> dict[str, bytes]:
    """The finished runs in a folder. Links, pipes and files with other names are none."""
    found = {}
    for path in sorted(folder.iterdir()):
        if is_record(path.name) and stat.S_ISREG(path.lstat().st_mode):
            found[path.name] = path.read_bytes()
    return found


def keep(folder: Path, name: object, content: object) -> None:
    """Writes a finished run whole or not at all. Raises WrongName for what is none."""
    if not is_record(name) or not isinstance(name, str):
        raise WrongName(f"a node sent a file with the name {name!r:.100}, which no finished run has")
    if not isinstance(content, bytes) or len(content) > LARGEST:
        raise WrongName(f"a node sent {name}, which is no file of at most {LARGEST >> 20} MiB")
    # A name that cannot be foreseen, opened with O_EXCL.
    handle, unfinished = tempfile.mkstemp(prefix=".schedlab-", suffix=".part", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        os.chmod(unfinished, 0o666 & ~_umask())
        os.replace(unfinished, folder / name)
    except BaseException:
        os.unlink(unfinished)
        raise


def inside(folder: Path, name: str) -> Path:
    """The path of `name` below `folder`. Raises WrongName for one that leads out of it."""
    parts = Path(name).parts
    if not parts or os.path.isabs(name) or ".." in parts or "\0" in name:
        raise WrongName(f"{name!r:.100} leads out of its folder")
    return folder.joinpath(*parts)


def _umask() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        masks = [int(line.split()[1], 8) for line in status if line.startswith("Umask:")]
    return masks[0] if masks else 0o077
