"""Files written whole, on disks that are full or read-only and on systems unlike this one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from residua.errors import IncompleteError, InputError
from residua.store.files import make_private, write_json, write_text, write_whole


@pytest.fixture(autouse=True)
def _names_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("residua.store.files.token_hex", lambda _: "0")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.skipif(os.name != "posix", reason="rights are others there")
def test_what_is_written_is_its_owners_alone_even_where_the_folder_was_there(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    modes = []

    def look(partial: Path) -> None:
        modes.append(mode(partial))
        partial.write_text("secret")

    write_whole(folder / "file", look)
    (folder / "file").chmod(0o644)
    write_text(folder / "file", "again")
    assert (modes, mode(folder / "file")) == ([0o600], 0o600)
    assert mode(folder) == 0o755  # somebody's own folder, into which one file is written
    make_private(folder)
    assert mode(folder) == 0o700


@pytest.fixture(autouse=True)
def _names_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("residua.store.files.token_hex", lambda _: "0")


def full(file: Path) -> Path:
    """Let what is written for `file` go to a device that is full."""
    partial = file.with_name(f".{file.name}.{os.getpid()}-0.partial")
    file.parent.mkdir(parents=True, exist_ok=True)
    partial.symlink_to("/dev/full")
    return file


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")


@needs_full
def test_a_full_disk_is_told_with_the_file_and_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    write_json(file, {"a": 1})
    full(file)
    with pytest.raises(IncompleteError, match=rf"cannot write `{file}`: no space.+same command"):
        write_json(file, {"a": 2})
    assert file.read_text() == '{\n "a": 1\n}\n'
    assert os.listdir(tmp_path) == ["run.json"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES])
def test_a_place_that_cannot_be_written_is_bad_input(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "replace", refuses)
    with pytest.raises(InputError, match=rf"cannot write `{tmp_path / 'a'}`: "):
        write_text(tmp_path / "a", "x")
    monkeypatch.setattr(Path, "mkdir", refuses)
    with pytest.raises(InputError, match="cannot make the folder"):
        write_text(tmp_path / "b" / "a", "x")


def test_windows_which_opens_no_folder_writes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_file_system_that_cannot_flush_names_does_not_stop_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = os.fsync

    def of_files_alone(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(number, os.strerror(number))
        flush(descriptor)

    monkeypatch.setattr("os.fsync", of_files_alone)
    number = errno.EINVAL
    write_text(tmp_path / "a", "one")
    if Path("/proc/self/fd").is_dir():
        number = errno.EIO  # a broken disk is another matter
        with pytest.raises(IncompleteError, match=os.strerror(errno.EIO)):
            write_text(tmp_path / "a", "two")
