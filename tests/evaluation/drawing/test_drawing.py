"""Which of three ways of drawing a study means, and what it may not mean."""

from __future__ import annotations

from typing import Any

import pytest

from leakbound.errors import InputError
from leakbound.evaluation.planning.plan import SteeredPlan
from leakbound.scorers import make_scorer
from leakbound.store import ExploredDraws, StoppedDraws
from leakbound.study import FORWARDS, Explore, FixedN, SamplingPlan, Study, Until

SCORERS = [make_scorer("contains"), make_scorer("rouge-l-recall")]


def drawn(plan: SamplingPlan, **how: Any) -> SteeredPlan:
    return SteeredPlan.of(Study(sampling=plan, **how), SCORERS)


@pytest.mark.parametrize("mode", ["exact", "hybrid", "auto"])
def test_exploring_is_steered_by_the_first_scorer(mode: Any) -> None:
    drawing = drawn(Explore(mode, 7))
    assert drawing.explores
    assert drawing.steering is SCORERS[0]
    spec = drawing.draws
    assert isinstance(spec, ExploredDraws)
    assert (spec.mode, spec.forwards, spec.scorer.name) == (mode, 7, "contains")
    assert Explore(mode).forwards == FORWARDS


def test_draws_are_counted_unless_a_claim_stops_them() -> None:
    assert drawn(FixedN(64)) == SteeredPlan(64)
    stops = drawn(Until("p<=0.02", 64), confidence=0.9)
    assert (stops.n, stops.explores) == (64, False)
    assert isinstance(stops.draws, StoppedDraws)
    assert stops.draws.confidence == 0.9


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        (Explore, ("Exact",), "one of exact, hybrid, auto, got 'Exact'"),
        (Explore, ("",), "got ''"),
        (Explore, ("auto", 0), "`budget` must be at least 1 forward per question"),
        (Explore, ("exact", -3), "got -3"),
        (FixedN, (0,), "`n` must be at least 1 draw per question, got 0"),
        (Until, ("p=0.02",), "'p=0.02'"),
        (Until, ("p<=1",), "1.0"),
        (Until, ("p<=0.1", 1), "got 1, and one draw leaves nothing to stop"),
    ],
)
def test_what_makes_no_sense_is_refused(kind: Any, fields: tuple[Any, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        kind(*fields)
