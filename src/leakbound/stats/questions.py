"""Statements about several questions, or several queries of one, made of a bound of each.

Nothing here looks at scores: every statement takes a `BoundFunction`, whatever that bounds.
Where failures are counted, or multiplied, the bounds of different questions must fail
independently: their draws must share no randomness.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from leakbound.errors import InputError
from leakbound.stats.about import parameter_of
from leakbound.stats.estimate import (
    Array,
    BoundFunction,
    Estimate,
    Side,
    error_rate,
    percent,
    plain,
    share_of,
)
from leakbound.stats.joint import check_questions, check_rows
from leakbound.stats.order import one_seed
from leakbound.stats.whole import numbers, whole

LEAST, MOST = 0.001, 0.01  # what each question's bound may fail with, unless the caller says


def worst_question(
    bound: BoundFunction, questions: int, *, confidence: float = 0.99, side: Side = "both"
) -> Estimate:
    """Bound the largest of `questions` quantities, each of which `bound` bounds.

    Upper: the largest bound, without correction, since it must fail at the one worst question
    to fail. Lower: the largest bound at alpha/N, since it was picked after looking.

    Args:
        bound: a bound of the quantity with its scores filled in, one entry a question.
        questions: how many there are, N: as many as `bound` has entries.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.

    Returns:
        The estimate of the largest quantity; of each x or k where `bound` has several.

    Raises:
        InputError: no questions, another number of them than `bound` has entries, or a confidence
            or side that is none.
    """
    alpha = share_of_side(confidence, side, questions)
    parts = one_sided(bound, questions, side, upper=alpha, lower=alpha / questions)
    first = next(iter(parts.values()))
    return replace(
        summed(first, confidence, side),
        about=replace(first.about, scope="worst question", over=questions),
        value=largest(first.value),
        lower=largest(parts.get("lower", first).lower),
        upper=largest(parts.get("upper", first).upper),
    )


def leaking_questions(
    bound: BoundFunction,
    questions: int,
    x: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    each_confidence: float | None = None,
    side: Side = "both",
) -> Estimate:
    """Bound how many of the questions have a quantity above x, for every x at once.

    A question counts among those whose own bound at `each_confidence` = 1 - alpha' exceeds x,
    or its bound fails; and of N independent failures there are at most
    b = BinInv(1 - alpha; N, alpha'), whatever x is. Hence at most #{U_i > x} + b and at least
    #{L_i > x} - b. The draws of different questions must be independent, and alpha' fixed
    beforehand.

    Args:
        bound: a bound of the quantity with its scores filled in, one entry a question.
        questions: how many there are, N: as many as `bound` has entries.
        x: a finite number, or [K] of them, the last axis of the result then.
        confidence: with which probability the bound holds, in (0, 1).
        each_confidence: that of each question's own bound, in (0, 1), fixed beforehand; None: by
            default alpha' is 1/n of the smallest n, kept within [.001, .01], which needs n fixed.
        side: "upper", "lower", or "both", each of which then spends half of alpha.

    Returns:
        The estimate of the number, from 0 to N and of the shape of x; `value` counts point values.

    Raises:
        InputError: an x that cannot be, no questions, another number of them than `bound` has
            entries, a bound of several x or k, a confidence or side that is none, or no
            `each_confidence` for draws whose number was not fixed.
    """
    points = numbers("x", x)
    if points.ndim > 1 or not points.size or not np.isfinite(points).all():
        raise InputError(f"`x` must be a finite number or a row of such, got {x!r}.")
    share = share_of_side(confidence, side, questions)
    parts, rate = _at_each(bound, questions, side, each_confidence)
    first, fails = next(iter(parts.values())), failures(questions, rate, share)

    def above(ends: float | Array) -> Array:
        rows = np.reshape(ends, (questions, *[1] * points.ndim))
        return np.asarray((rows > points).sum(axis=0), dtype=np.float64)

    none, every = np.zeros(points.shape), np.full(points.shape, float(questions))
    lower = np.maximum(above(parts["lower"].lower) - fails, none) if "lower" in parts else none
    upper = above(parts["upper"].upper) + fails if "upper" in parts else every
    return replace(
        summed(first, confidence, side),
        about=first.about.counted(parameter_of(points), questions),
        value=plain(above(first.value)),
        lower=plain(lower),
        upper=plain(np.minimum(upper, every)),
        method=f"{first.method} at {percent(1 - rate)} each, at most {fails} fail",
    )


def each_query(
    bound: BoundFunction, outputs: npt.ArrayLike, *, confidence: float = 0.99, side: Side = "both"
) -> Estimate:
    """Bound a quantity in [0, 1] of every query: one entry a query, each holds by itself.

    `bound` holds given the numbers of outputs, which owe nothing to the scores. Queries without
    any have [0, 1] and no value.

    Args:
        bound: a bound of the quantity with its scores filled in, one entry for each query with
            outputs, in their order.
        outputs: how many each query got, whole numbers, [C]; not all 0.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.

    Returns:
        The estimate with one entry for each of the C queries.

    Raises:
        InputError: outputs that cannot be, or a bound about other queries than those with outputs.
    """
    counts = whole("outputs", outputs)
    drawn = counts > 0
    if counts.ndim != 1 or not drawn.any():
        raise InputError(f"`outputs` must be 1-D, one number a query, not all 0, got {outputs!r}.")
    estimate = bound(confidence=confidence, side=side)
    rows = np.atleast_1d(estimate.n)
    if not np.array_equal(rows, counts[drawn]):
        raise InputError(
            f"`bound` must be about the {drawn.sum()} queries with outputs, and as many of them, "
            f"got one about {rows}. Leave out the rows of the others."
        )

    def spread(entries: npt.ArrayLike, nothing: float) -> Array:
        values = np.asarray(entries)
        result = np.full((len(counts), *values.shape[1:]), nothing, dtype=values.dtype)
        result[drawn] = values
        return result

    keys = estimate.seed
    return replace(
        estimate,
        value=spread(estimate.value, np.nan),
        lower=spread(estimate.lower, 0.0),
        upper=spread(estimate.upper, 1.0),
        n=counts,
        missing=spread(estimate.missing, 0).astype(np.int64),
        # a query without outputs has no order: its key is 0
        seed=spread(keys, 0).astype(np.int64) if isinstance(keys, np.ndarray) else keys,
    )


def worst_query(
    bound: BoundFunction, outputs: npt.ArrayLike, *, confidence: float = 0.99, side: Side = "both"
) -> Estimate:
    """Bound the largest over all queries of a quantity in [0, 1].

    As `worst_question`: the lower end pays for the choice among all C queries, those without
    outputs included; a single one of these makes the upper end 1.

    Args:
        bound: a bound of the quantity with its scores filled in, one entry for each query with
            outputs, in their order.
        outputs: how many each query got, whole numbers, [C]; not all 0.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.

    Returns:
        The estimate of the largest quantity.

    Raises:
        InputError: outputs that cannot be, a bound about other queries than those with outputs, or
            a confidence or side that is none.
    """

    def of_all(*, confidence: float, side: Side) -> Estimate:
        return each_query(bound, outputs, confidence=confidence, side=side)

    queries = np.size(outputs)
    worst = worst_question(of_all, queries, confidence=confidence, side=side)
    about = replace(worst.about, scope="question", inputs="worst query")
    return replace(worst, about=about)


def share_of_side(confidence: float, side: Side, questions: int) -> float:
    """The alpha that one side may fail with."""
    check_questions(questions)
    return share_of(confidence, side)


def one_sided(
    bound: BoundFunction, questions: int, side: Side, *, upper: float, lower: float
) -> dict[Side, Estimate]:
    """The bounds that `side` asks for, each one-sided with an error rate of its own."""
    shares: tuple[tuple[Side, float], ...] = (("upper", upper), ("lower", lower))
    parts = {
        end: bound(confidence=1 - share, side=end) for end, share in shares if side in (end, "both")
    }
    for estimate in parts.values():
        check_rows(estimate, questions)
    return parts


def _at_each(
    bound: BoundFunction, questions: int, side: Side, confidence: float | None
) -> tuple[dict[Side, Estimate], float]:
    """The one-sided bounds at each question's own error rate, and that rate."""
    rate = LEAST if confidence is None else error_rate(confidence)
    parts = one_sided(bound, questions, side, upper=rate, lower=rate)
    first = next(iter(parts.values()))
    if np.ndim(first.upper) > 1:
        raise InputError(
            f"a question is counted by one quantity, got {first.estimand} of shape "
            f"{np.shape(first.upper)}. Bound it at one x or one k."
        )
    if confidence is not None:
        return parts, rate
    if first.stopping != "fixed n":
        raise InputError(
            "`each_confidence` must be fixed beforehand, and its default follows from n, got "
            f"draws with {first.stopping!r}. Give it: 0.999, say."
        )
    usual = min(max(1 / int(np.min(first.n)), LEAST), MOST)
    if usual == rate:
        return parts, rate
    return one_sided(bound, questions, side, upper=usual, lower=usual), usual


def failures(questions: int, rate: float, alpha: float) -> int:
    """BinInv(1 - alpha; questions, each): more bounds than that fail with chance at most alpha."""
    more = bdtrc(np.arange(questions + 1), questions, rate)
    return int((more <= alpha).argmax())


def summed(first: Estimate, confidence: float, side: Side) -> Estimate:
    """An estimate of all questions together, but for its ends."""
    n, missing = int(np.sum(first.n)), int(np.sum(first.missing))
    seed = one_seed(first.seed)
    return replace(first, confidence=confidence, side=side, n=n, missing=missing, seed=seed)


def largest(values: float | Array) -> float | Array:
    """Over the questions, those without a value left out."""
    return plain(np.fmax.reduce(np.atleast_1d(values), axis=0))
