"""The lock on a run: one command at a time, refusals that name the holder, and its end."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from leakbound.errors import InputError, MixError
from leakbound.store import LOCK, SOFT_LOCK, holder_of, locked, write_text
from leakbound.store.files import write_whole

HOLDS = """
import sys
from pathlib import Path
from leakbound.store.lock import locked
with locked(Path(sys.argv[1]), "evaluate"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_is_refused_with_the_holder_until_it_ends(tmp_path: Path) -> None:
    """However that ends: here it is killed."""
    run = tmp_path / "run"
    command = [sys.executable, "-c", HOLDS, str(run)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        (told,) = refusals(run)
        named = rf"`{run}` is in use by `leakbound evaluate` \(pid {holder.pid} on .+, since 20.+"
        assert re.match(rf"{named}\+00:00", told)
        holder.kill()
        holder.wait()
    assert json.loads((run / LOCK).read_text())["pid"] == holder.pid
    with locked(run, "score"):
        assert json.loads((run / LOCK).read_text())["pid"] == os.getpid()
    assert not (run / LOCK).exists()


def test_a_forked_child_neither_holds_nor_ends_its_parents_lock(tmp_path: Path) -> None:
    with locked(tmp_path, "evaluate"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
            child = os.fork()
        if not child:  # the child leaves at once; its descriptors close
            os._exit(0)
        os.waitpid(child, 0)
        assert len(refusals(tmp_path, thread=True)) == 1  # another thread is another command
    assert refusals(tmp_path) == []


def refusals(folder: Path, *, thread: bool = False) -> list[str]:
    """Return the message to another command that takes the lock; none if it gets the lock."""
    told: list[str] = []

    def ask() -> None:
        try:
            with locked(folder, "score"):
                pass
        except MixError as error:
            told.append(str(error))

    if thread:
        other = threading.Thread(target=ask)
        other.start()
        other.join()
    else:
        ask()
    return told


def test_the_holder_may_take_it_again(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for run in (tmp_path / "run", kept):
        with locked(run, "evaluate"):
            with locked(run, "sample"):
                pass
            assert json.loads((run / LOCK).read_text())["command"] == "evaluate"
    assert list(tmp_path.rglob("*")) == [kept]  # it was there before


def test_temporary_files_of_killed_commands_are_removed(tmp_path: Path) -> None:
    (tmp_path / "arms").mkdir()
    kept = {".mine.partial", "arms/part-00000.parquet"}
    for name in {".run.json.17.partial", "arms/.part-00000.parquet.0a1b2c3d.partial"} | kept:
        (tmp_path / name).write_text("x")
    with locked(tmp_path, "evaluate"):
        left = {str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file()}
    assert left == {LOCK} | kept


def test_two_writers_of_one_file_have_files_of_their_own(tmp_path: Path) -> None:
    names = []

    def write(partial: Path) -> None:
        names.append(partial.name)
        if len(names) == 1:
            write_whole(tmp_path / "file", write)
        partial.write_text("whole")

    write_whole(tmp_path / "file", write)
    assert len(set(names)) == 2


def make_socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(place))


@pytest.mark.parametrize(
    "make", [os.mkfifo, Path.mkdir, make_socket], ids=["pipe", "folder", "socket"]
)
def test_a_lock_must_be_a_file(
    make: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket may not be long
    make(Path(LOCK))
    assert holder_of(tmp_path) is None
    with pytest.raises(InputError, match="is no file, and the lock"), locked(tmp_path, "evaluate"):
        raise AssertionError("locked")


@pytest.mark.parametrize("text", ["[" * 9_000, "{", "7", '{"pid": "x"}', '{"pid": 1'])
def test_an_unreadable_lock_has_no_holder(text: str, tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text(text)
    assert holder_of(tmp_path) is None
    assert refusals(tmp_path) == []


def without_locks(monkeypatch: pytest.MonkeyPatch, number: int = errno.ENOLCK) -> None:
    """As on a mount whose server keeps no locks."""

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refused)


WITHOUT = "has no locks.*remove that file"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_files_replace_locks(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(monkeypatch, number)
    run = tmp_path / "run"
    kept_out = locked(run, "evaluate")
    with pytest.warns(UserWarning, match=WITHOUT):
        kept_out.__enter__()
    (told,) = refusals(run, thread=True)
    assert f"`leakbound evaluate` (pid {os.getpid()} on " in told
    assert f"if it has ended already, remove `{run / SOFT_LOCK}`" in told
    write_text(run / "file", "kept")
    (run / "file").unlink()
    kept_out.__exit__(None, None, None)
    assert not run.exists()


def test_a_lock_file_breaks_on_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(monkeypatch)
    with subprocess.Popen([sys.executable, "-c", ""]) as killed:
        killed.wait()
    for host, refused in (("gpu-7.elsewhere", True), (socket.gethostname(), False)):
        (tmp_path / SOFT_LOCK).write_text(f"{killed.pid}\n{host}\n")
        if refused:
            assert len(refusals(tmp_path)) == len(refusals(tmp_path)) == 1
    with pytest.warns(UserWarning, match=WITHOUT):
        assert refusals(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_the_command_at_work_is_read_from_the_lock(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as killed:
        killed.wait()
    with locked(tmp_path, "evaluate"):
        found = holder_of(tmp_path)
        assert found is not None
        assert (found.pid, found.command) == (os.getpid(), "evaluate")
        before = (tmp_path / LOCK).read_text()
        for changed, shown in (
            ({"pid": killed.pid}, "None"),
            ({"pid": killed.pid, "host": "gpu-7"}, "on gpu-7, since"),  # it may have ended
        ):
            (tmp_path / LOCK).write_text(json.dumps(json.loads(before) | changed))
            assert shown in str(holder_of(tmp_path))
        with locked(tmp_path, "score"):
            pass
    assert (tmp_path / LOCK).exists()  # another command's by now
    (tmp_path / LOCK).unlink()
    assert holder_of(tmp_path) is None
