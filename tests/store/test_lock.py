"""The lock on a run: one command at a time, refusals that name the holder, and its release."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leakbound.errors import InputError, MixError
from leakbound.store import LOCK, SOFT_LOCK, holder_of, locked, write_text
from leakbound.store.files import write_whole


def forked(child: Callable[[], object]) -> int:
    """Run a function in a child process; return its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking with threads
        number = os.fork()
    if not number:
        child()
        os._exit(0)
    return number


def test_another_process_is_refused_with_the_holder_until_it_ends(tmp_path: Path) -> None:
    run, (kept, hold) = tmp_path / "run", os.pipe()

    def holds() -> None:
        with locked(run, "evaluate"):
            os.write(hold, b"held")
            signal.pause()

    holder = forked(holds)
    assert os.read(kept, 4) == b"held"
    (refusal,) = refusals(run)
    named = rf"`{run}` is in use by `leakbound evaluate` \(pid {holder} on .+, since 20.+"
    assert re.match(rf"{named}\+00:00", refusal)
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)
    assert json.loads((run / LOCK).read_text())["pid"] == holder
    with locked(run, "score"):
        assert json.loads((run / LOCK).read_text())["pid"] == os.getpid()
    assert not (run / LOCK).exists()


def test_a_forked_child_neither_owns_nor_releases_its_parents_lock(tmp_path: Path) -> None:
    with locked(tmp_path, "evaluate"):
        os.waitpid(forked(lambda: None), 0)  # the descriptors of the child close
        assert len(refusals_elsewhere(tmp_path)) == 1
    assert refusals(tmp_path) == []


def refusals(folder: Path) -> list[str]:
    """Return the message to a command that takes the lock; none if it gets the lock."""
    try:
        with locked(folder, "score"):
            return []
    except MixError as error:
        return [str(error)]


def refusals_elsewhere(folder: Path) -> list[str]:
    """Return the message in another thread, which counts as another command."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(refusals, folder).result()


def test_the_holder_may_take_it_again(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for run in (tmp_path / "run", kept):
        with locked(run, "evaluate"):
            with locked(run, "sample"):
                pass
            assert json.loads((run / LOCK).read_text())["command"] == "evaluate"
    assert list(tmp_path.rglob("*")) == [kept]  # the folder was there before


def test_two_writers_of_one_file_have_separate_files(tmp_path: Path) -> None:
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


Make = Callable[[Path], object]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, make_socket])
def test_the_lock_is_a_file(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    make(Path(LOCK))
    assert holder_of(tmp_path) is None
    with pytest.raises(InputError, match="must be a file, because"), locked(tmp_path, "evaluate"):
        raise AssertionError("locked")


@pytest.mark.parametrize("text", ["[" * 9_000, "{", "7", '{"pid": "x"}', '{"pid": 1'])
def test_an_unreadable_lock_has_no_holder(text: str, tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text(text)
    assert holder_of(tmp_path) is None
    assert refusals(tmp_path) == []


def without_locks(monkeypatch: pytest.MonkeyPatch, number: int = errno.ENOLCK) -> None:

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
    (refusal,) = refusals_elsewhere(run)
    assert f"`leakbound evaluate` (pid {os.getpid()} on " in refusal
    assert f"If that command has ended, remove `{run / SOFT_LOCK}`" in refusal
    write_text(run / "file", "kept")
    (run / "file").unlink()
    kept_out.__exit__(None, None, None)
    assert not run.exists()


def test_a_lock_file_breaks_on_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(monkeypatch)
    os.waitpid(ended := forked(lambda: None), 0)
    for host, refused in (("gpu-7.elsewhere", True), (socket.gethostname(), False)):
        (tmp_path / SOFT_LOCK).write_text(f"{ended}\n{host}\n")
        if refused:
            assert len(refusals(tmp_path)) == len(refusals(tmp_path)) == 1
    with pytest.warns(UserWarning, match=WITHOUT):
        assert refusals(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_the_command_at_work_is_read_from_the_lock(tmp_path: Path) -> None:
    os.waitpid(ended := forked(lambda: None), 0)
    with locked(tmp_path, "evaluate"):
        got = holder_of(tmp_path)
        assert got is not None
        assert (got.pid, got.command) == (os.getpid(), "evaluate")
        before = (tmp_path / LOCK).read_text()
        for changed, shown in (
            ({"pid": ended}, "None"),
            ({"pid": ended, "host": "gpu-7"}, "on gpu-7, since"),  # it may have ended
        ):
            (tmp_path / LOCK).write_text(json.dumps(json.loads(before) | changed))
            assert shown in str(holder_of(tmp_path))
        with locked(tmp_path, "score"):
            pass
    assert (tmp_path / LOCK).exists()  # it belongs to another command now
    (tmp_path / LOCK).unlink()
    assert holder_of(tmp_path) is None
