"""The lock on a run: one command at a time, told who has it, and gone with its process."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leakbound.durable import place
from leakbound.errors import InputError, MixError
from leakbound.store import LOCK, locked, write_text
from leakbound.store.files import set_aside, write_whole
from leakbound.store.lock import holder_of

HOLDS = """
import sys
from pathlib import Path
from leakbound.store.lock import locked
with locked(Path(sys.argv[1]), "evaluate"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of `run`, until its standard input is closed."""
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "run")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_another_process_is_refused_and_told_who_has_it_until_it_ends(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    named = (
        rf"`{run}` is in use by `leakbound evaluate` \(pid {holder.pid} on .+, since 20.+\+00:00"
    )
    with pytest.raises(MixError, match=named), locked(run, "score"):
        raise AssertionError("two at once")
    assert holder.stdin is not None
    holder.stdin.close()
    holder.wait()
    assert not run.exists()  # nothing was written
    with locked(run, "score"):
        assert json.loads((run / LOCK).read_text())["pid"] == os.getpid()


def test_a_lock_ends_with_its_process_however_that_ends(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    holder.kill()
    holder.wait()
    assert json.loads((tmp_path / "run" / LOCK).read_text())["pid"] == holder.pid
    assert refusals(tmp_path / "run") == []
    assert not (tmp_path / "run" / LOCK).exists()


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


def test_a_lock_that_changes_hands_is_held_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening the file and locking it the last holder may have removed it."""
    flock, removed = fcntl.flock, []

    def removes_first(descriptor: int, how: int) -> None:
        if not removed:
            removed.append(os.unlink(tmp_path / LOCK))
        flock(descriptor, how)

    monkeypatch.setattr("fcntl.flock", removes_first)
    with locked(tmp_path, "evaluate"):
        assert len(refusals(tmp_path, thread=True)) == 1


def refusals(folder: Path, *, thread: bool = False) -> list[str]:
    """What another command is told, which asks for the lock: nothing where it gets it."""
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


def test_whoever_holds_it_may_take_it_again_and_gives_it_back_once(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for run in (tmp_path / "run", kept):
        with locked(run, "evaluate"):
            with locked(run, "sample"):
                pass
            assert json.loads((run / LOCK).read_text())["command"] == "evaluate"
    assert list(tmp_path.rglob("*")) == [kept]  # it was there before


def elsewhere(
    monkeypatch: pytest.MonkeyPatch,
    host: str = "elsewhere",
    kernel: str = "",
    machine: str = "",
    started: str = "",
) -> None:
    """This test's process moves to another place: a host of this name, kernel and machine."""
    told = {"boot_id": kernel, "machine-id": machine}
    monkeypatch.setattr("socket.gethostname", lambda: host)
    monkeypatch.setattr("leakbound.store.lock._line_of", lambda file: told[file.name])
    monkeypatch.setattr("leakbound.store.lock._started", lambda: started)


LATER = "9999-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("place", "taken"),
    [
        ({"host": "one", "kernel": "k1"}, True),  # the same
        ({"host": "two", "kernel": "k1"}, True),  # another container of that kernel
        ({"host": "one", "kernel": "k2"}, False),  # a container of that name, of another host
        ({"host": "one", "kernel": "k2", "machine": "m1"}, False),  # not started since
        ({"host": "one", "kernel": "k2", "machine": "m1", "started": LATER}, True),
        ({"host": "one", "kernel": "k2", "machine": "m2", "started": LATER}, False),
        ({"host": "two", "kernel": "k2", "machine": "m1", "started": LATER}, False),
        ({"host": "one"}, True),  # a system that tells no more than its name
        ({"host": "two"}, False),
    ],
)
def test_the_lock_of_a_process_that_was_killed_is_taken_where_its_kernel_knows(
    place: dict[str, str], taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another host's there may be a file, and no lock that this kernel knows of."""
    elsewhere(monkeypatch, "one", "k1", "m1")
    with locked(tmp_path, "evaluate"):
        left = (tmp_path / LOCK).read_bytes()
    (tmp_path / LOCK).write_bytes(left)
    elsewhere(monkeypatch, **place)
    named = rf"was in use by `leakbound evaluate` \(pid {os.getpid()} on .*remove `.*{LOCK}`"
    for told in (refusals(tmp_path), refusals(tmp_path)):
        assert [bool(re.search(named, each)) for each in told] == [True] * (not taken)


def test_a_lock_that_was_lost_stops_its_holder_before_the_next_rename(tmp_path: Path) -> None:
    run, model = tmp_path / "run", tmp_path / "model"
    for lost, says in (
        (lambda: (run / LOCK).unlink(), "was removed or replaced"),
        (lambda: (run / LOCK).write_text('{"pid": 1}'), "another command has taken it"),
        (lambda: other(run / LOCK), r"`leakbound score` \(pid 1 on twin"),
    ):
        with locked(run, "evaluate", makes=model):
            write_text(run / "deep" / "file", "kept")
            write_text(tmp_path / "file", "elsewhere")
            lost()
            with pytest.raises(MixError, match=f"no longer locked by this command.*{says}"):
                write_text(run / "deep" / "file", "mixed")
            with pytest.raises(MixError, match="no longer locked"):
                set_aside(run / "deep" / "file")
            (tmp_path / "partial").mkdir(exist_ok=True)
            with pytest.raises(MixError, match="no longer locked"):
                place(tmp_path / "partial", model)
            write_text(tmp_path / "file", "elsewhere")  # nobody locks that
        assert [file.name for file in (run / "deep").iterdir()] == ["file"]
        assert (run / "deep" / "file").read_text() == "kept"
        assert (run / LOCK).exists() == (says != "was removed or replaced")  # it is another's
        (run / LOCK).unlink(missing_ok=True)
    place(tmp_path / "partial", model)  # whoever holds nothing is asked nothing


def other(file: Path) -> None:
    """Another process writes its name, as where two hosts share a folder and no locks."""
    values = json.loads(file.read_text())
    file.write_text(json.dumps({**values, "pid": 1, "host": "twin", "command": "score"}))


def test_what_killed_commands_had_begun_to_write_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "arms").mkdir()
    kept = {".mine.partial", "arms/part-00000.parquet"}
    for name in {".run.json.17.partial", "arms/.part-00000.parquet.1-0a1b2c3d.partial"} | kept:
        (tmp_path / name).write_text("x")
    with locked(tmp_path, "evaluate"):
        left = {str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file()}
    assert left == {LOCK} | kept


def test_two_processes_of_one_number_write_into_files_of_their_own(tmp_path: Path) -> None:
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
def test_what_is_no_file_is_no_lock(
    make: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket may not be long
    make(Path(LOCK))
    assert holder_of(tmp_path) is None
    with pytest.raises(InputError, match="is no file, and the lock"), locked(tmp_path, "evaluate"):
        raise AssertionError("locked")


@pytest.mark.parametrize("text", ["[" * 9_000, "{", "7", '{"pid": "x"}', '{"pid": 1'])
def test_a_lock_that_says_nothing_is_nobodys(text: str, tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text(text)
    assert holder_of(tmp_path) is None
    assert refusals(tmp_path) == []


def test_a_file_system_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr("fcntl.flock", unsupported)
    says = pytest.raises(MixError, match=r"cannot be locked \(.+not supported.*has no locks")
    with says, locked(tmp_path / "run", "evaluate"):
        raise AssertionError("unlocked")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at what is open")
def test_windows_locks_a_byte_and_removes_the_file_once_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its `locking` stands in for a moment: it takes a byte from where the file stands."""
    asked: list[tuple[int, int]] = []

    def locking(descriptor: int, mode: int, size: int) -> None:
        asked.append((os.lseek(descriptor, 0, os.SEEK_CUR), size))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    unlink = Path.unlink

    def unlinks(path: Path, missing_ok: bool = False) -> None:
        for name in os.listdir("/proc/self/fd"):
            link = Path("/proc/self/fd") / name
            assert not (link.exists() and link.samefile(path)), "Windows removes no open file"
        unlink(path, missing_ok)

    fake: Any = SimpleNamespace(LK_NBLCK=2, locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", fake)
    monkeypatch.setattr("leakbound.store.lock.sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(Path, "unlink", unlinks)
    with locked(tmp_path, "evaluate"):
        (told,) = refusals(tmp_path, thread=True)
        assert "is in use by `leakbound evaluate`" in told
        assert json.loads((tmp_path / LOCK).read_text())["command"] == "evaluate"
    assert not (tmp_path / LOCK).exists()
    assert asked[0][0] > 10_000  # beyond the text, which others must read
    assert asked[0][1] == 1
