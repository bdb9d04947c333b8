"""How much more a question leaks in other words than in its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from leakbound import stats
from leakbound.evaluation.statements.beyond import OPPOSITE
from leakbound.evaluation.statements.drawn import Drawn
from leakbound.evaluation.statements.pooled import Pooled
from leakbound.stats import questions

GAP = "gap in"  # how the estimand of what rewritings add begins


def gap(
    full: questions.Bound, output: questions.Bound, *, confidence: float, side: stats.Side
) -> stats.Estimate:
    """Bound the leakage of `full` minus that of `output`, alpha shared between the two."""
    half = (1 + confidence) / 2
    more, base = full(confidence=half, side=side), output(confidence=half, side=OPPOSITE[side])
    found = stats.excess(replace(more, estimand=base.estimand), base)
    target = found.target.replace("beyond the control", "beyond the question's own words")
    return replace(found, estimand=f"{GAP} {more.estimand}", target=target)


def gaps(full: Pooled, output: Drawn, confidence: float) -> Iterator[stats.Estimate]:
    """How much more each question leaks in all its queries, and in its worst query."""
    yield gap(full.leakage, output.leakage, confidence=confidence, side="both")
    if full.has_queries:
        yield gap(full.worst_queries, output.leakage, confidence=confidence, side="lower")


def gaps_over_questions(full: Pooled, output: Drawn, confidence: float) -> Iterator[stats.Estimate]:
    """The gap of the means; the largest gap, and at how many questions there is one, of each kind.

    Draws of different questions share no randomness, nor do the allocations, as both are keyed by
    question.
    """
    yield gap(full.mean, output.mean, confidence=confidence, side="both")
    number = len(full.scores.query_ids)
    for bound in (full.leakage, full.worst_queries)[: 1 + full.has_queries]:
        yield from gaps_jointly(bound, output.leakage, number, confidence)


def gaps_jointly(
    more: questions.Bound, base: questions.Bound, number: int, confidence: float
) -> Iterator[stats.Estimate]:
    """The largest gap of `number` questions, and at how many there is one; lower ends, jointly."""
    each = stats.every_question(
        partial(gap, more, base), number, confidence=confidence, side="lower"
    )
    lower, value = np.asarray(each.lower), np.asarray(each.value)
    of_all = replace(each, n=int(np.sum(each.n)), missing=int(np.sum(each.missing)))
    of_all = replace(of_all, seed=stats.one_seed(each.seed))
    yield replace(
        of_all,
        estimand=f"{each.estimand}, largest of {number}",
        target="the question of these with the largest gap, under this decoding",
        value=float(np.fmax.reduce(value)),
        lower=float(lower.max()),
        upper=1.0,
    )
    yield replace(
        of_all,
        estimand=f"questions with {each.estimand} above 0",
        target=f"the number among these {number} questions, under this decoding",
        value=float((value > 0).sum()),
        lower=float((lower > 0).sum()),
        upper=float(number),
    )
