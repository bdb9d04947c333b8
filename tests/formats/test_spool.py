"""Draws that lie on disk by question are those that came, in their order."""

from __future__ import annotations

import errno
import io
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from leakbound.errors import IncompleteError
from leakbound.formats import spool as module
from leakbound.formats.imported import Draw
from leakbound.formats.spool import Chained, DrawsByQuestion, Mapped, Spool

DRAWS = (
    Draw("a"), Draw("ß\n\u2028\x00", "length"), Draw("a", scores=(("s", 0.1), ("t", None))), None,
)  # fmt: skip


@pytest.mark.parametrize(("rows", "waiting"), [(1024, 1 << 28), (3, 1 << 28), (1024, 2000), (1, 1)])
def test_draws_are_read_as_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, waiting: int
) -> None:
    monkeypatch.setattr(module, "_ROWS", rows)
    monkeypatch.setattr(module, "_WAITING", waiting)
    chance = random.Random(0)
    held: dict[str, list[Draw | None]] = {}
    with Spool(tmp_path) as spool:
        found = DrawsByQuestion(spool)
        for _ in range(200):
            question, draw, count = chance.choice("pqr"), chance.choice(DRAWS), chance.randint(1, 9)
            found.add(question, draw, count)
            held.setdefault(question, []).extend([draw] * count)
        draws = found.draws()
        assert {question: list(each) for question, each in draws.items()} == held
        for question, each in draws.items():
            plain = held[question]
            assert len(each) == len(plain)
            cuts = sorted(chance.choices(range(len(plain) + 1), k=20))
            for first, last in pairwise([0, *cuts, len(plain) + 5]):
                assert each[first:last] == plain[first:last]


def test_pieces_are_one_after_the_other_and_changed_when_they_are_asked_for() -> None:
    pieces = Chained([DRAWS[:2], (), Chained([DRAWS[2:]]), DRAWS])
    both = [*DRAWS, *DRAWS]
    assert (list(pieces), len(pieces), pieces[1:7]) == (both, 8, both[1:7])
    assert (len(Chained([])), list(Chained([])), Chained([])[0:3]) == (0, [], [])
    plain = Mapped(pieces, lambda draw: draw.output)
    assert list(plain) == [None if draw is None else draw.output for draw in both]
    assert plain[2:4] == [Draw("a"), None]


def test_no_more_waits_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAITING", 10_000)
    with Spool(tmp_path) as spool:
        found = DrawsByQuestion(spool)
        for i in range(1000):
            found.add(f"q{i % 100}", Draw("x" * (i % 50)), 1)
            waiting = [draw for rows in found._waiting.values() for draw, _ in rows if draw]
            assert sum(len(draw.text) for draw in waiting) <= 10_000
            assert len(waiting) <= 40


def test_a_spool_has_no_name_and_tells_of_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Spool(tmp_path) as spool:
        DrawsByQuestion(spool).add("q", Draw("a"), 1)
        assert not list(tmp_path.iterdir())

    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "TemporaryFile", lambda **_: Full())
    with Spool(tmp_path) as spool:
        found = DrawsByQuestion(spool)
        found.add("q", Draw("a"), 1)
        with pytest.raises(IncompleteError, match=r"No space left .* same command again"):
            found.draws()
