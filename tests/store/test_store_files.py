"""Files written whole, on full or read-only disks and on other systems."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import make_dataclass
from pathlib import Path
from types import GenericAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from leakbound.certificate.certificate import read_values
from leakbound.errors import IncompleteError, InputError
from leakbound.store import tables
from leakbound.store.clock import Clock
from leakbound.store.files import make_private, read_json, write_json, write_text, write_whole
from leakbound.store.lock import locked
from leakbound.text.rows import read_rows
from leakbound.types import Headway, during, silent


def test_an_array_is_a_column() -> None:
    """`NDArray` is one from NumPy 2.5 on."""

    class Statement:
        __value__ = NDArray
        __class_getitem__ = classmethod(GenericAlias)

    for kind in (Statement[np.float64], NDArray[np.float64]):
        row = make_dataclass("Row", [("values", kind)])
        assert tables.schema_of(row).types == [pa.list_(pa.float64())]


@pytest.fixture(autouse=True)
def _names_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.store.files.token_hex", lambda _: "0")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.skipif(os.name != "posix", reason="rights and locks are others there")
def test_files_are_private_and_locked_in_an_existing_folder(tmp_path: Path) -> None:
    import fcntl

    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o755)

    def look(partial: Path) -> None:
        assert mode(partial) == 0o600
        partial.write_text("secret")
        with partial.open("a") as stream, pytest.raises(BlockingIOError):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)

    write_whole(folder / "file", look)
    (folder / "file").chmod(0o644)
    write_text(folder / "file", "again")
    assert mode(folder / "file") == 0o600
    assert mode(folder) == 0o755  # a user's folder, into which one file is written
    make_private(folder)
    assert mode(folder) == 0o700


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_a_full_disk_is_reported_and_keeps_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    write_json(file, {"a": 1})
    (tmp_path / f".{file.name}.0.partial").symlink_to("/dev/full")
    with pytest.raises(IncompleteError, match=rf"cannot write `{file}`: no space.+same command"):
        write_json(file, {"a": 2})
    assert file.read_text() == '{\n "a": 1\n}\n'
    assert os.listdir(tmp_path) == ["run.json"]


def failing(number: int) -> Callable[..., object]:
    """A call that a disk answers with this error."""

    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fails


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES])
def test_unwritable_places(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", failing(number))
    with pytest.raises(InputError, match=rf"cannot write `{tmp_path / 'a'}`: "):
        write_text(tmp_path / "a", "x")
    monkeypatch.setattr(Path, "mkdir", failing(number))
    with pytest.raises(InputError, match="cannot make the folder"):
        write_text(tmp_path / "b" / "a", "x")
    for fault in (errno.EIO, errno.EMFILE):  # a failing disk is not bad input
        monkeypatch.setattr(Path, "mkdir", failing(fault))
        with pytest.raises(IncompleteError, match=r"cannot make the folder .+ same command again"):
            make_private(tmp_path / "c")


def test_writing_works_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def as_windows(path: os.PathLike[str] | str, flags: int, *rest: int) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *rest)

    monkeypatch.setattr("os.open", as_windows)
    monkeypatch.delattr("os.O_DIRECTORY")
    write_text(tmp_path / "a", "one")
    write_text(tmp_path / "a", "two")
    assert (tmp_path / "a").read_text() == "two"


def test_names_that_cannot_be_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flush = os.fsync

    def of_files_alone(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(number, os.strerror(number))
        flush(descriptor)

    monkeypatch.setattr("os.fsync", of_files_alone)
    number = errno.EINVAL
    write_text(tmp_path / "a", "one")
    if Path("/proc/self/fd").is_dir():
        number = errno.EIO  # a broken disk differs
        with pytest.raises(IncompleteError, match=os.strerror(errno.EIO)):
            write_text(tmp_path / "a", "two")


@pytest.mark.skipif(os.name != "posix", reason="locks are others there")
def test_only_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    import fcntl

    file = tmp_path / "x[1].jsonl"
    (tmp_path / "arms").mkdir()
    names = (
        f".{file.name}.ab.partial",
        f".{file.name}.cd.partial",
        "arms/.y.ab.partial",
        ".mine.partial",
    )
    dead, live, *others = (tmp_path / name for name in names)
    for partial in (dead, live, *others):
        partial.write_text("half of the secret")
    with live.open("a") as stream:  # a process writes it, in this container or another
        fcntl.flock(stream, fcntl.LOCK_EX)
        write_text(file, "whole")
        assert [path.exists() for path in (dead, live, *others)] == [False, True, True, True]
        with locked(tmp_path, "evaluate"):
            assert [path.exists() for path in (live, *others)] == [True, False, True]
    write_text(file, "again")
    assert not live.exists()


def test_new_folders_outlive_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("leakbound.store.files.sync_names", synced.append)
    for _ in range(2):  # then they exist
        make_private(tmp_path / "a" / "b")
        assert synced == [tmp_path, tmp_path / "a"]


@pytest.mark.parametrize(
    "read",
    [tables.read_table, lambda path: read_json(path, "No."), read_rows, read_values],
    ids=["table", "record", "rows", "certificate"],
)
def test_a_failing_disk_is_no_damage(
    read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be whole: it is neither called damaged nor set aside."""
    (tmp_path / "f.parquet").touch()
    for module, name in (
        (pq, "ParquetFile"),
        (pq, "read_table"),
        (Path, "read_text"),
        (Path, "read_bytes"),
    ):
        monkeypatch.setattr(module, name, failing(errno.EIO))
    with pytest.raises(IncompleteError, match=r"`.+f.parquet` could not be read \(Input/output"):
        read(tmp_path / "f.parquet")


LISTS = pa.list_(pa.list_(pa.string()))


def test_a_digest_knows_neither_chunks_nor_row_groups(tmp_path: Path) -> None:
    many = 2**15  # rows fill two batches
    columns = {
        "text": pa.array(["ä", None, "", "bc"] * many),
        "number": pa.array([1, None, 2, 3] * many),
        "flag": pa.array([True, None, False, True] * many),
        "lists": pa.array([[["a"], None, []], None, [], [["b", None]]] * many, LISTS),
    }
    table = pa.table(columns)
    twice = pa.concat_tables([table.slice(0, 7), table]).combine_chunks().slice(7)
    pq.write_table(table, tmp_path / "groups", row_group_size=40_000)
    for same in (pa.concat_tables([table.slice(0, 9), table.slice(9)]), twice):
        assert tables.digest(same) == tables.digest(table)
    assert tables.digest(pq.read_table(tmp_path / "groups")) == tables.digest(table)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array(["ab", "c"]), pa.array(["a", "bc"])),
        (pa.array(["", None]), pa.array([None, ""])),
        (pa.array([0.0]), pa.array([-0.0])),
        (pa.array([1]), pa.array([1.0])),
        (pa.array([0, None]), pa.array([None, 0])),
        (pa.array([[["a"], []]], LISTS), pa.array([[["a"]]], LISTS)),
        (pa.array([[["a"]], []], LISTS), pa.array([[], [["a"]]], LISTS)),
        (pa.array([[["a"], None]], LISTS), pa.array([[None, ["a"]]], LISTS)),
        (pa.array([[["a", "b"]]], LISTS), pa.array([[["a"], ["b"]]], LISTS)),
        (pa.array([[]], LISTS), pa.array([None], LISTS)),
    ],
)
def test_a_digest_distinguishes_these(one: pa.Array, other: pa.Array) -> None:
    assert tables.digest(pa.table({"x": one})) != tables.digest(pa.table({"x": other}))
    assert tables.digest(pa.table({"x": one})) != tables.digest(pa.table({"y": one}))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    return at


def test_phases_add_up_without_nested_time(now: list[float], tmp_path: Path) -> None:
    clock = Clock(tmp_path / "times.json")
    heard = clock.timed(silent)
    now[0] = 5.0  # before any phase
    with clock.phase("draw"):
        now[0] = 7.0
        with during(heard, "loading m"):
            now[0] = 10.0
        heard(Headway("sampling", 0, 10, "draws"))
        now[0] = 11.0
    now[0] = 20.0
    with clock.phase("bound"):
        now[0] = 20.5
    assert clock.seconds == {"draw": 3.0, "load": 3.0, "bound": 0.5}
    assert clock.line == "time: draw 3.0 s, load 3.0 s, bound 0.5 s; 6.5 s in all"


def test_times_add_up_over_commands_that_were_stopped(now: list[float], tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    for _ in range(2):
        clock = Clock(file)
        heard = clock.timed(silent)
        with suppress(KeyboardInterrupt), clock.phase("draw"):
            now[0] += 1.0
            heard(Headway("loading m", 0, 1))
            now[0] += 2.0
            raise KeyboardInterrupt
        with clock.phase("bound"):
            now[0] += 0.5
        clock.write()
    assert Clock(file).seconds == {"draw": 2.0, "load": 4.0, "bound": 1.0}
    for text in ("{", "[1]", '{"draw": "x"}'):
        file.write_text(text)
        assert Clock(file).seconds == {}
