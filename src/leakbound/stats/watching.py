"""Draws that are looked at while they grow: intervals that hold jointly, and at every look.

Whoever looks again and again, and reads a bound that was made for one n, is wrong more often than
its confidence says. So a question is bounded as one that may stop at any look (see `stopping`), by
bounds that hold after every number of its draws at once, and at the number planned by the better of
that and the bound for it, each at half of alpha.

*Which draws.* Of every question the first of an order that was fixed before them. What happens to
be there when somebody looks is no random sample (short outputs come sooner), the beginning of a
fixed order is; and then when somebody looks, and why, plays no part.

*All at once.* Which questions are drawn first is nobody's choice after looking, but which of them
leaks most so far changes: each question has alpha/N of all N that are asked, those not drawn yet
among them (Bonferroni). So every interval, and the worst of the questions drawn so far, hold
together at every look.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leakbound.errors import InputError
from leakbound.stats.estimate import BoundFunction, Estimate, Side, error_rate
from leakbound.stats.joint import check_questions
from leakbound.stats.questions import largest, summed


def watched_questions(
    bound: BoundFunction, questions: int, *, confidence: float = 0.99, side: Side = "both"
) -> Estimate:
    """Bound every question drawn so far, all of them jointly and at every look: one entry each.

    With probability `confidence` no entry ever fails, however often, and for whatever reason,
    somebody looks while the draws grow.

    Args:
        bound: has one entry for each question drawn so far, and holds at all numbers of its draws
            at once: `stopped_proportion_bound`, `stopped_mean_bound`.
        questions: how many are asked, those not drawn yet among them.
        confidence: with which probability no end of any interval fails at any look, in (0, 1).
        side: "upper", "lower", or "both", each of which then has half of a question's share.

    Returns:
        The estimate with one entry for each question drawn so far.

    Raises:
        InputError: no questions, fewer than are drawn, or a confidence or side that is none.
    """
    check_questions(questions)
    estimate = bound(confidence=1 - error_rate(confidence) / questions, side=side)
    drawn = len(np.atleast_1d(estimate.n))
    if drawn > questions:
        raise InputError(
            f"`questions` must be how many are asked, at least the {drawn} drawn, got {questions}."
        )
    return replace(
        estimate,
        about=replace(estimate.about, jointly=True),
        confidence=confidence,
        method=f"{estimate.method}, Bonferroni over {questions}",
    )


def worst_watched(estimate: Estimate) -> Estimate:
    """Bound the worst of the questions drawn so far, by intervals that hold jointly: both ends are.

    On the event that no entry fails the largest quantity lies between the largest lower and the
    largest upper end.

    Args:
        estimate: one entry for each question drawn so far, as `watched_questions` gives it.

    Returns:
        The estimate of the largest quantity, at the confidence and side of `estimate`.
    """
    drawn = len(np.atleast_1d(estimate.n))
    return replace(
        summed(estimate, estimate.confidence, estimate.side),
        about=replace(estimate.about, scope="worst question", over=drawn, jointly=False),
        value=largest(estimate.value),
        lower=largest(estimate.lower),
        upper=largest(estimate.upper),
    )
