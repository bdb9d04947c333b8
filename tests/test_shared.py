"""What many tests read is as it was made: a test that writes into it is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shared import changed, forget, keep


def rewrite(folder: Path) -> None:
    (folder / "arms" / "part").write_text("2")


def touch(folder: Path) -> None:
    (folder / "arms" / "more").touch()


def remove(folder: Path) -> None:
    (folder / "arms" / "part").unlink()


@pytest.mark.parametrize("write", [rewrite, touch, remove])
def test_whoever_writes_is_found_once(write: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "arms").mkdir()
    (tmp_path / "arms" / "part").write_text("1")
    assert keep(tmp_path) == tmp_path
    (tmp_path / ".lock").touch()
    assert changed() == []
    write(tmp_path)
    assert changed() == [tmp_path]
    assert changed() == []


def test_folders_of_an_earlier_session_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutants run many sessions in forks of one process, and pytest keeps the folders of three."""
    monkeypatch.setattr("shared._kept", {})
    (tmp_path / "arms").mkdir()
    (tmp_path / "arms" / "part").write_text("1")
    keep(tmp_path)
    remove(tmp_path)
    forget()
    assert changed() == []
