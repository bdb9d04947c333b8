"""How much more a question leaks in other words than in its own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from leakbound import stats
from leakbound.evaluation.statements.evidence import ArmEvidence
from leakbound.evaluation.statements.pooled import Pooled

gap = partial(stats.excess_of, beyond="own words")
"""The leakage in all words minus that in a question's own, alpha shared between the two."""


def gaps(full: Pooled, output: ArmEvidence, confidence: float) -> Iterator[stats.Estimate]:
    """How much more each question leaks in all its queries, and in its worst query."""
    yield gap(full.leakage, output.leakage, confidence=confidence, side="both")
    if full.has_queries:
        yield gap(full.worst_queries, output.leakage, confidence=confidence, side="lower")


def gaps_over_questions(
    full: Pooled, output: ArmEvidence, confidence: float
) -> Iterator[stats.Estimate]:
    """The gap of the means; the largest gap, and at how many questions there is one, of each kind.

    Draws of different questions share no randomness, nor do the allocations, as both are keyed by
    question.
    """
    yield gap(full.mean, output.mean, confidence=confidence, side="both")
    number = len(full.scores.query_ids)
    for bound in (full.leakage, full.worst_queries)[: 1 + full.has_queries]:
        found = stats.gaps_over_questions(bound, output.leakage, number, confidence=confidence)
        yield from (found.largest, found.count)
