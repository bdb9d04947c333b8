"""Which of three ways of drawing a command means, and what it may not mean."""

from __future__ import annotations

from typing import Any

import pytest

from leakbound.errors import InputError
from leakbound.evaluation.study.plan import BUDGET, MODES, Drawing
from leakbound.scorers import make_scorer

SCORERS = [make_scorer("contains"), make_scorer("rouge-l-recall")]


def read(**how: Any) -> Drawing:
    return Drawing.read(SCORERS, **{"n": 64, **how})


@pytest.mark.parametrize("mode", ["exact", "hybrid", "auto"])
def test_exploring_is_steered_by_the_first_scorer(mode: str) -> None:
    drawing = read(explore=mode, budget=7)
    assert drawing.until is None
    assert drawing.exploring is not None
    assert (drawing.exploring.mode, drawing.exploring.forwards) == (mode, 7)
    assert drawing.exploring.scorer is SCORERS[0]
    spec = drawing.exploring.to_dict()
    assert spec == {"mode": mode, "forwards": 7, "scorer": {"name": "contains", "binary": True}}
    default = read(explore=mode).exploring
    assert default is not None
    assert default.forwards == BUDGET


def test_draws_are_counted_unless_a_claim_stops_them() -> None:
    assert read() == Drawing(64)
    stops = read(until="p<=0.02", confidence=0.9)
    assert stops.exploring is None
    assert stops.until is not None
    assert stops.until.to_dict()["confidence"] == 0.9


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"explore": "Exact"}, "one of exact, hybrid, auto, got 'Exact'"),
        ({"explore": ""}, "got ''"),
        ({"explore": "auto", "budget": 0}, "`budget` must be at least 1 forward per question"),
        ({"explore": "exact", "budget": -3}, "got -3"),
        *(({"explore": m, "until": "p<=0.02"}, "two ways of drawing") for m in MODES),
    ],
)
def test_what_makes_no_sense_is_refused(how: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(**how)
