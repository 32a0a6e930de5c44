"""What is run, and which files are read and written: only what was named or is installed, only in their folder."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import schedlab
from schedlab import Lab, command, files
from schedlab import ray as cluster

NAME = "0123456789abcdef" * 2 + ".json"
WRONG = [
    "../" + NAME,
    "/tmp/" + NAME,
    "sub/" + NAME,
    "..",
    ".",
    "",
    NAME + "/",
    NAME + "\n",
    "\0" + NAME,
    NAME.upper(),
    ".bashrc",
    "x.json",
    7,
    None,
    b"x.json",
]


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_nothing_of_the_current_folder_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "schedlab")
    program(tmp_path / "target/release/schedlab")
    program(tmp_path / "bin/schedlab")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCHEDLAB", raising=False)
    monkeypatch.setattr("schedlab.command.__file__", str(tmp_path / "site-packages/schedlab/command.py"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: "/nowhere")
    for path in ("", ".", ":", "bin", "./bin:.", "::/nowhere"):
        monkeypatch.setenv("PATH", path)
        for binary in (None, "schedlab"):
            with pytest.raises(schedlab.CommandNotFound):
                Lab(binary)
        monkeypatch.setenv("SCHEDLAB", "schedlab")
        with pytest.raises(schedlab.CommandNotFound, match="variable SCHEDLAB"):
            Lab()
        monkeypatch.delenv("SCHEDLAB")
    assert Lab("./schedlab").binary == tmp_path / "schedlab", "it was told"
    monkeypatch.setenv("PATH", f".:{tmp_path}/bin")
    assert Lab().binary == Lab("schedlab").binary == tmp_path / "bin/schedlab"


@pytest.mark.parametrize("name", WRONG)
def test_names_from_other_nodes_stay_in_their_folder(tmp_path: Path, name: object) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    with pytest.raises(schedlab.Failed, match="a node sent a file with the name"):
        cluster._take(folder, (0, "", {NAME: b"good", name: b"bad"}))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [NAME]


def test_answers_that_are_none(tmp_path: Path) -> None:
    for answer in (None, (0, ""), (0, "", []), ("0", "", {}), (0, b"", {})):
        with pytest.raises(schedlab.Failed, match="no answer to a cell"):
            cluster._take(tmp_path, answer)
    with pytest.raises(schedlab.Failed, match="no file of at most"):
        cluster._take(tmp_path, (0, "", {NAME: "text"}))
    with pytest.raises(schedlab.UsageError) as wrong:
        cluster._take(tmp_path, (2, "schedlab: error: no \x1b[2Jworkload\u202e\n", {}))
    assert wrong.value.text == "no \ufffd[2Jworkload\ufffd"
    assert list(tmp_path.iterdir()) == []


def test_links_are_replaced_and_not_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "runs"
    outside.write_bytes(b"precious")
    folder.mkdir()
    (folder / NAME).symlink_to(outside)
    os.mkfifo(folder / ("f" * 32 + ".json"))
    (folder / "other.json").write_bytes(b"{}")
    assert files.records(folder) == {}, "a link, a pipe and another name are no records"
    mask = os.umask(0o027)
    try:
        files.keep(folder, NAME, b"run")
    finally:
        os.umask(mask)
    kept = (folder / NAME).lstat()
    assert stat.S_ISREG(kept.st_mode) and stat.S_IMODE(kept.st_mode) == 0o640
    assert outside.read_bytes() == b"precious" and files.records(folder) == {NAME: b"run"}
    assert sorted(path.name for path in folder.iterdir()) == sorted([NAME, "f" * 32 + ".json", "other.json"])


def test_a_record_that_does_not_fit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.keep(tmp_path, NAME, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.keep(tmp_path, NAME, b"new")
    assert files.records(tmp_path) == {NAME: b"old"} and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "a/..", "", "a\0b"])
def test_inputs_of_a_cell_stay_in_their_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(files.WrongName, match="leads out of its folder"):
        files.inside(tmp_path, name)
    assert files.inside(tmp_path, "a/b.toml") == tmp_path / "a/b.toml"


def test_the_binary_of_a_node_is_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place = tmp_path / f"schedlab-{os.getuid()}"
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    place.symlink_to(mine)
    assert cluster._home() is None, "somebody's link to a folder of ours"
    code, stderr, finished = cluster._work([], 1, 1, b"#!/bin/sh\nexit 9\n", {}, {})
    assert code == 5 and "not a folder of our own" in stderr and not finished and not list(mine.iterdir())
    place.unlink()
    place.mkdir()
    place.chmod(0o777)
    assert cluster._home() is None, "others may write it"
    place.rmdir()
    place.write_text("")
    assert cluster._home() is None
    place.unlink()
    home = cluster._home()
    assert home == place and stat.S_IMODE(place.stat().st_mode) == 0o700
    # A binary that is not what it is called is not run.
    binary = cluster._unpacked(place, b"#!/bin/sh\nexit 3\n")
    binary.write_bytes(b"#!/bin/sh\nexit 4\n")
    code, _, _ = cluster._work([], 1, 1, b"#!/bin/sh\nexit 3\n", {}, {})
    assert code == 3 and [path.name for path in place.iterdir()] == [binary.name]


def test_nodes_need_nothing_of_this_package(tmp_path: Path) -> None:
    pickle = pytest.importorskip("ray", reason="Ray is not installed (pip install ray)").cloudpickle
    for module in (cluster.__name__, files.__name__):
        pickle.register_pickle_by_value(sys.modules[module])
    (tmp_path / "work").write_bytes(pickle.dumps(cluster._work))
    node = f"""
import pickle, sys, tempfile
sys.modules["schedlab"] = None
import ray.cloudpickle
tempfile.tempdir = {str(tmp_path)!r}
work = pickle.load(open({str(tmp_path / "work")!r}, "rb"))
run = b"#!/bin/sh\\ncat inputs.toml > ../new/{NAME}; exit 7\\n"
print(work([], 1, 1, run, {{"inputs.toml": b"text"}}, {{{NAME!r}: b"known"}}))
"""
    done = subprocess.run([sys.executable, "-c", node], capture_output=True, text=True, check=False)
    assert done.stdout == f"(7, '', {{{NAME!r}: b'text'}})\n", done.stderr


def test_errors_of_the_command_do_not_steer_a_terminal() -> None:
    error = command.error(2, "schedlab: error: \x1b]0;x\x07 \x9b1m\n")
    assert error.text.isprintable()
