"""The gate's turns: nothing runs in two that follow one another, and none is left out of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from rotation import FILES as TURNS
from rotation import turn_of

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("test_*.py"))


def share(turn: int | None, config: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """The files that `pytest --turn` collects."""
    monkeypatch.setattr(config.option, "turn", turn)
    ignored = config.hook.pytest_ignore_collect
    return {file for file in FILES if not ignored(collection_path=file, config=config)}


def test_turns_that_follow_one_another_are_disjoint_and_twenty_run_all(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = [share(turn, pytestconfig, monkeypatch) for turn in range(1_700, 1_720)]
    for i, first in enumerate(shares):
        assert first
        for other in shares[i + 1 : i + TURNS]:
            assert not first & other
    assert set().union(*shares[:TURNS]) == set(FILES)
    assert len(shares) >= TURNS


def test_without_a_turn_nothing_is_left_out(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert share(None, pytestconfig, monkeypatch) == set(FILES)


def test_a_files_turn_is_its_own() -> None:
    """By a digest: as it was when the test was written, in whatever process."""
    assert [turn_of(name, TURNS) for name in ("stats/test_bands.py", "cli/test_help.py")] == [4, 1]
