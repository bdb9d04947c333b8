"""Statements on several questions, or on several queries of a question, from a bound for each.

No function here uses scores directly; each function accepts a `BoundFunction` of any quantity. The
proofs of some statements use the number of bounds that fail, or multiply error rates. Such
statements need bounds that fail independently, so the draws of different questions must share no
randomness.

*Watching a run while it draws.* If users look at every n, a bound for a single n fails more often
than its confidence states. So a question of a watched run is bounded as `Stopped` draws, in an
order that was fixed before the draws. The question that leaks most so far may change from look to
look. So each of the N questions, including questions without draws, has the error rate alpha/N
(`every_question` with `independent=False`). Then all intervals, and the interval of the worst of
the questions drawn so far, are valid at every look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from leakbound.errors import InputError
from leakbound.stats.about import parameter_of
from leakbound.stats.estimate import (
    Array,
    BoundFunction,
    Counts,
    Estimate,
    Side,
    error_rate,
    percent,
    plain,
    share_of,
)
from leakbound.stats.joint import check_questions, check_rows
from leakbound.stats.order import one_seed
from leakbound.stats.quantity import finite

LEAST, MOST = 0.001, 0.01  # smallest and largest default error rate of each question's bound


def worst_question(
    bound: BoundFunction, questions: int, *, confidence: float = 0.99, side: Side = "both"
) -> Estimate:
    """Bound the largest of the quantities that `bound` bounds, one per question.

    The upper bound is the largest of the questions' upper bounds. It needs no correction, because
    it fails only if the upper bound of the worst question fails. The lower bound is the largest of
    the questions' lower bounds. Each of these is at alpha/N, because the largest is selected after
    looking. A question without draws (or a query of a pool without outputs) makes the upper bound
    1.

    Args:
        bound: the function that bounds the quantity; its estimate has one entry per question.
        questions: the number of questions, N, which is the number of entries of `bound`.
        confidence: the probability that the bound is valid, in (0, 1).
        side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.

    Returns:
        The estimate of the largest quantity, one per x or k if `bound` has several.

    Raises:
        InputError: a number of questions below 1 or different from the entries of `bound`, or an
            invalid confidence or side.
    """
    alpha = share_of_side(confidence, side, questions)
    bounds = bounds_at(bound, questions, side, upper=alpha, lower=alpha / questions)
    return worst_watched(replace(bounds, confidence=confidence, side=side))


def leaking_questions(
    bound: BoundFunction,
    questions: int,
    x: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    each_confidence: float = 1 - LEAST,
    side: Side = "both",
) -> Estimate:
    """Bound the number of questions with a quantity above x, for every x simultaneously.

    Let U_i and L_i be the bounds of question i, each at `each_confidence` = 1 - alpha'. If the
    quantity of question i exceeds x, U_i exceeds x or fails. With probability at least 1 - alpha,
    at most b = BinInv(1 - alpha; N, alpha') of the N independent bounds fail, for all x
    simultaneously. Hence the number of questions above x is at most #{U_i > x} + b, and likewise at
    least #{L_i > x} - b. The draws of different questions must be independent, and alpha' fixed in
    advance.

    Args:
        bound: the function that bounds the quantity; its estimate has one entry per question.
        questions: the number of questions, N, which is the number of entries of `bound`.
        x: a finite number, or [K] numbers, which form the last axis of the result.
        confidence: the probability that the bound is valid, in (0, 1).
        each_confidence: the confidence of each question's own bound, in (0, 1), fixed in advance;
            `stats.bound` uses the result of `confidence_of_each`.
        side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.

    Returns:
        The estimate of the number, from 0 to N, of the shape of x; `value` counts the questions
            whose point estimate exceeds x.

    Raises:
        InputError: an invalid x, a number of questions below 1 or different from the entries of
            `bound`, a bound of several x or k, or an invalid confidence or side.
    """
    points, rate = finite("x", x), error_rate(each_confidence)
    share = share_of_side(confidence, side, questions)
    bounds = bounds_at(bound, questions, side, upper=rate, lower=rate)
    if np.ndim(bounds.upper) > 1:
        raise InputError(
            f"counting questions needs one bound for each question, got {bounds.estimand} of shape "
            f"{np.shape(bounds.upper)}. Bound this quantity at one x or one k."
        )
    fails = failures(questions, rate, share)

    def above(ends: float | Array) -> Array:
        rows = np.reshape(ends, (questions, *[1] * points.ndim))
        return np.asarray((rows > points).sum(axis=0), dtype=np.float64)

    none, every = np.zeros(points.shape), np.full(points.shape, float(questions))
    lower = none if side == "upper" else np.maximum(above(bounds.lower) - fails, none)
    upper = every if side == "lower" else np.minimum(above(bounds.upper) + fails, every)
    return replace(
        summed(bounds, confidence, side),
        about=bounds.about.counted(parameter_of(points), questions),
        value=plain(above(bounds.value)),
        lower=plain(lower),
        upper=plain(upper),
        method=f"{bounds.method} at {percent(1 - rate)} each, at most {fails} fail",
    )


def share_of_side(confidence: float, side: Side, questions: int) -> float:
    """Return the part of alpha that one side may spend."""
    check_questions(questions)
    return share_of(confidence, side)


def bounds_at(
    bound: BoundFunction, questions: int | None, side: Side, *, upper: float, lower: float
) -> Estimate:
    """Return the bounds of `side`, each at its error rate; `questions` None allows any number."""
    shares: tuple[tuple[Side, float], ...] = (("upper", upper), ("lower", lower))
    made = [bound(confidence=1 - share, side=end) for end, share in shares if side in (end, "both")]
    if questions is not None:
        check_rows(made[0], questions)
    return made[0] if side != "both" else replace(made[0], lower=made[1].lower)


def confidence_of_each(n: Counts | None) -> float:
    """Return the confidence of each bound in a count: 1 - 1/n, kept within [.99, .999].

    n is the smallest number of draws per question, fixed in advance. If n is None, the result is
    .999.
    """
    usual = LEAST if n is None else min(max(1 / max(int(n.min()), 1), LEAST), MOST)
    return 1 - usual


def failures(questions: int, rate: float, alpha: float) -> int:
    """Return b = BinInv(1 - alpha; questions, rate): Pr[more than b bounds fail] <= alpha."""
    return int((bdtrc(np.arange(questions + 1), questions, rate) <= alpha).argmax())


def summed(first: Estimate, confidence: float, side: Side) -> Estimate:
    """Return an estimate about all questions together; the caller sets its value and bounds."""
    n, missing = int(np.sum(first.n)), int(np.sum(first.missing))
    seed = one_seed(first.seed)
    return replace(first, confidence=confidence, side=side, n=n, missing=missing, seed=seed)


def stack(estimates: Sequence[Estimate]) -> Estimate:
    """Return one estimate with one entry per question, from an estimate of each question.

    Args:
        estimates: estimates of single numbers, or with one axis of x or k.

    Returns:
        The estimate with all entries; `method` lists all methods.
    """
    ends = ("value", "lower", "upper", "n", "missing")
    arrays: dict[str, Any] = {
        end: np.array([getattr(estimate, end) for estimate in estimates]) for end in ends
    }
    named = dict.fromkeys(estimate.method for estimate in estimates)
    # drop "exact mass" if another name is "exact mass + ...", which has draws as well
    methods = [name for name in named if not any(n.startswith(f"{name} + ") for n in named)]
    seeds = [one_seed(estimate.seed) for estimate in estimates]
    keys = np.array(seeds, dtype=np.int64) if all(seed is not None for seed in seeds) else None
    over = tuple(estimate.about.over for estimate in estimates)
    numbers = tuple(number for number in over if isinstance(number, int))
    about = estimates[0].about
    if len(numbers) == len(over):
        about = replace(about, over=numbers)
    return replace(
        estimates[0],
        **arrays,
        about=about,
        confidence=min(estimate.confidence for estimate in estimates),
        method=" or ".join(methods),
        seed=keys,
    )


def worst_watched(estimate: Estimate) -> Estimate:
    """Bound the worst of the questions drawn so far, from intervals that are valid simultaneously.

    If no entry fails, the largest quantity is between the largest lower and the largest upper
    bound. A question without a point estimate does not count in `value`.

    Args:
        estimate: one entry for each question drawn so far, made by `every_question` with
            `independent=False`.

    Returns:
        The estimate of the largest quantity, at the confidence and side of `estimate`.
    """
    over = len(np.atleast_1d(estimate.n))
    ends: dict[str, Any] = {
        end: plain(np.fmax.reduce(np.atleast_1d(getattr(estimate, end))))
        for end in ("value", "lower", "upper")
    }
    about = replace(estimate.about, scope="worst question", over=over, jointly=False)
    return replace(summed(estimate, estimate.confidence, estimate.side), about=about, **ends)
