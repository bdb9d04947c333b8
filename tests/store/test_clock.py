"""Where the time went: phases that add up, over several commands."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest

from leakbound.store.clock import Clock
from leakbound.types import Headway, during, silent


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    return at


def test_a_phase_within_another_is_taken_off_it_and_all_add_up(
    now: list[float], tmp_path: Path
) -> None:
    clock = Clock(tmp_path / "times.json")
    heard = clock.hearing(silent)
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


def test_it_goes_on_where_another_command_stopped(now: list[float], tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    for _ in range(2):
        clock = Clock(file)
        with suppress(KeyboardInterrupt), clock.phase("draw"):
            now[0] += 2.0
            raise KeyboardInterrupt
        clock.write()
    assert Clock(file).seconds == {"draw": 4.0}
    for text in ("{", "[1]", '{"draw": "x"}'):
        file.write_text(text)
        assert Clock(file).seconds == {}


def test_a_model_that_does_not_load_is_told_nothing_more_of(
    now: list[float], tmp_path: Path
) -> None:
    clock = Clock(tmp_path / "times.json")
    heard = clock.hearing(silent)
    with suppress(ValueError), clock.phase("draw"):
        heard(Headway("loading m", 0, 1))
        now[0] = 2.0
        raise ValueError("no model")
    with clock.phase("bound"):
        now[0] = 3.0
    assert clock.seconds == {"load": 2.0, "bound": 1.0, "draw": 0.0}
