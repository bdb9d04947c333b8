"""How far a model leaks beyond its control: at each question, on average, and at the worst."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Protocol

from residua import stats
from residua.stats import about, questions

OPPOSITE: dict[stats.Side, stats.Side] = {"upper": "lower", "lower": "upper", "both": "both"}


class Known(Protocol):
    """The leakage of some questions: of each, and their mean."""

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate: ...

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate: ...


def beyond(
    more: questions.Bound, base: questions.Bound, *, confidence: float, side: stats.Side
) -> stats.Estimate:
    """Bound the quantity of `more` minus that of `base`, alpha shared equally between the two."""
    half = (1 + confidence) / 2
    other = base(confidence=half, side=OPPOSITE[side])
    return stats.excess(more(confidence=half, side=side), other)


def excess_over_questions(
    target: Known, control: Known, number: int, confidence: float
) -> Iterator[stats.Estimate]:
    """How far the target's mean exceeds its control's, and at the question where most."""
    mean = beyond(target.mean, control.mean, confidence=confidence, side="both")
    yield mean
    each = partial(beyond, target.leakage, control.leakage)
    worst = stats.worst_question(each, number, confidence=confidence, side="both")
    yield replace(worst, target=mean.target.replace(about.MEAN, about.WORST))
