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
    bound: BoundFunction, questions: int, *, confidence: float = 0.99, side: Side = "upper"
) -> Estimate:
    """Bound the largest of `questions` quantities, each of which `bound` bounds.

    Upper: the largest bound, without correction, since it must fail at the one worst question
    to fail. Lower: the largest bound at alpha/N, since it was picked after looking.
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
    side: Side = "upper",
    seen: int = 0,
) -> Estimate:
    """Bound how many of the questions have a quantity above x, for every x at once.

    A question counts among those whose own bound at `each_confidence` = 1 - alpha' exceeds x,
    or its bound fails; and of N independent failures there are at most
    b = BinInv(1 - alpha; N, alpha'), whatever x is. Hence at most #{U_i > x} + b and at least
    #{L_i > x} - b. The draws of different questions must be independent, and alpha' fixed
    beforehand: by default 1/n of the smallest n, kept within [.001, .01], which needs n fixed.

    `seen`: of how many questions a score above 0 was drawn, where the quantity is a mean or a
    probability of scores >= 0. Were it 0, every score would be; so these count at x = 0 with no
    chance of error.

    `x` is a number, or 1-D and then the axis of the result. `value` counts point values.
    """
    points = numbers("x", x)
    if points.ndim > 1 or not points.size or not np.isfinite(points).all():
        raise InputError(f"`x` must be a finite number or a row of such, got {x!r}.")
    share = share_of_side(confidence, side, questions)
    parts, each = _at_each(bound, questions, side, each_confidence)
    first, fails = next(iter(parts.values())), failures(questions, each, share)

    def above(ends: float | Array) -> Array:
        rows = np.reshape(ends, (questions, *[1] * points.ndim))
        return np.asarray((rows > points).sum(axis=0), dtype=np.float64)

    none, every = np.zeros(points.shape), np.full(points.shape, float(questions))
    certain = np.where(points == 0, float(seen), none)
    lower = np.maximum(above(parts["lower"].lower) - fails, certain) if "lower" in parts else none
    upper = above(parts["upper"].upper) + fails if "upper" in parts else every
    return replace(
        summed(first, confidence, side),
        about=first.about.counted(parameter_of(points), questions),
        value=plain(above(first.value)),
        lower=plain(lower),
        upper=plain(np.minimum(upper, every)),
        method=f"{first.method} at {percent(1 - each)} each, at most {fails} fail",
    )


def each_query(
    bound: BoundFunction, outputs: npt.ArrayLike, *, confidence: float = 0.99, side: Side = "upper"
) -> Estimate:
    """Every query's own bound of a quantity in [0, 1]: one entry a query, each holds by itself.

    `outputs` (C,): how many each query got. `bound` is about those that got any, in their order;
    it holds given the numbers, which owe nothing to the scores. The others have [0, 1] and no
    value.
    """
    got = whole("outputs", outputs)
    drawn = got > 0
    if got.ndim != 1 or not drawn.any():
        raise InputError(f"`outputs` must be 1-D, one number a query, not all 0, got {outputs!r}.")
    made = bound(confidence=confidence, side=side)
    rows = np.atleast_1d(made.n)
    if not np.array_equal(rows, got[drawn]):
        raise InputError(
            f"`bound` must be about the {drawn.sum()} queries with outputs, and as many of them, "
            f"got one about {rows}. Leave out the rows of the others."
        )

    def spread(entries: npt.ArrayLike, nothing: float) -> Array:
        known = np.asarray(entries)
        result = np.full((len(got), *known.shape[1:]), nothing, dtype=known.dtype)
        result[drawn] = known
        return result

    keys = made.seed
    return replace(
        made,
        value=spread(made.value, np.nan),
        lower=spread(made.lower, 0.0),
        upper=spread(made.upper, 1.0),
        n=got,
        missing=spread(made.missing, 0).astype(np.int64),
        # a query without outputs has no order: its key is 0
        seed=spread(keys, 0).astype(np.int64) if isinstance(keys, np.ndarray) else keys,
    )


def worst_query(
    bound: BoundFunction, outputs: npt.ArrayLike, *, confidence: float = 0.99, side: Side = "upper"
) -> Estimate:
    """Bound the largest over all queries of a quantity in [0, 1], arguments as for `each_query`.

    As `worst_question`: the lower end pays for the choice among all C queries, those without
    outputs included; a single one of these makes the upper end 1.
    """

    def of_all(*, confidence: float, side: Side) -> Estimate:
        return each_query(bound, outputs, confidence=confidence, side=side)

    queries = np.size(outputs)
    made = worst_question(of_all, queries, confidence=confidence, side=side)
    about = replace(made.about, scope="question", inputs="worst query")
    return replace(made, about=about)


def share_of_side(confidence: float, side: Side, questions: int) -> float:
    """What one side may fail with."""
    check_questions(questions)
    return share_of(confidence, side)


def one_sided(
    bound: BoundFunction, questions: int, side: Side, *, upper: float, lower: float
) -> dict[Side, Estimate]:
    """The bounds that `side` asks for, each one-sided with an error rate of its own."""
    asked: tuple[tuple[Side, float], ...] = (("upper", upper), ("lower", lower))
    parts = {
        one: bound(confidence=1 - share, side=one) for one, share in asked if side in (one, "both")
    }
    for each in parts.values():
        check_rows(each, questions)
    return parts


def _at_each(
    bound: BoundFunction, questions: int, side: Side, confidence: float | None
) -> tuple[dict[Side, Estimate], float]:
    """The one-sided bounds at each question's own error rate, and that rate."""
    each = LEAST if confidence is None else error_rate(confidence)
    parts = one_sided(bound, questions, side, upper=each, lower=each)
    first = next(iter(parts.values()))
    if np.ndim(first.upper) > 1:
        raise InputError(
            f"a question is counted by one quantity, got {first.estimand} of shape "
            f"{np.shape(first.upper)}. Bound it at one x or one k."
        )
    if confidence is not None:
        return parts, each
    if first.stopping != "fixed n":
        raise InputError(
            "`each_confidence` must be fixed beforehand, and its default follows from n, got "
            f"draws with {first.stopping!r}. Give it: 0.999, say."
        )
    usual = min(max(1 / int(np.min(first.n)), LEAST), MOST)
    if usual == each:
        return parts, each
    return one_sided(bound, questions, side, upper=usual, lower=usual), usual


def failures(questions: int, each: float, alpha: float) -> int:
    """BinInv(1 - alpha; questions, each): more bounds than that fail with chance at most alpha."""
    more = bdtrc(np.arange(questions + 1), questions, each)
    return int((more <= alpha).argmax())


def summed(first: Estimate, confidence: float, side: Side) -> Estimate:
    """An estimate of all questions together, but for its ends."""
    n, missing = int(np.sum(first.n)), int(np.sum(first.missing))
    seed = one_seed(first.seed)
    return replace(first, confidence=confidence, side=side, n=n, missing=missing, seed=seed)


def largest(values: float | Array) -> float | Array:
    """Over the questions, those without a value left out."""
    return plain(np.fmax.reduce(np.atleast_1d(values), axis=0))
