"""Statements about a data set that are made of a bound of each question.

Nothing here looks at scores: every statement takes a `BoundFunction`, whatever that bounds.
Where failures are counted, or multiplied, the bounds of different questions must fail
independently: their draws must share no randomness.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc, betaincinv

from leakbound.errors import InputError
from leakbound.stats.about import parameter_of
from leakbound.stats.estimate import Array, Estimate, Side, error_rate, percent, plain, share_of
from leakbound.stats.order import one_seed
from leakbound.stats.whole import numbers

CLEAN_DRAWS = 300  # after how many a clean question stops, roughly; moves widths, not validity
MOST_FAILURES = 64
LEAST, MOST = 0.001, 0.01  # what each question's bound may fail with, unless the caller says


class BoundFunction(Protocol):
    """A bound with its scores filled in: `partial(mean_bound, scores, counts)`."""

    def __call__(self, *, confidence: float, side: Side) -> Estimate:
        """The estimate with one entry a question."""
        ...


def worst_question(
    bound: BoundFunction, questions: int, *, confidence: float = 0.99, side: Side = "upper"
) -> Estimate:
    """Bound the largest of `questions` quantities, each of which `bound` bounds.

    Upper: the largest bound, without correction, since it must fail at the one worst question
    to fail. Lower: the largest bound at alpha/N, since it was picked after looking.
    """
    alpha = _share(confidence, side, questions)
    parts = _one_sided(bound, questions, side, upper=alpha, lower=alpha / questions)
    first = next(iter(parts.values()))
    return replace(
        summed(first, confidence, side),
        about=replace(first.about, scope="worst question", over=questions),
        value=_largest(first.value),
        lower=_largest(parts.get("lower", first).lower),
        upper=_largest(parts.get("upper", first).upper),
    )


def every_question(
    bound: BoundFunction,
    questions: int,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    independent: bool = True,
) -> Estimate:
    """Bound every one of `questions` quantities, all of them jointly: one entry a question.

    With probability `confidence` no entry fails. Each is given 1 - (1 - alpha)^(1/N) (Sidak)
    where the draws of different questions are `independent`, else alpha/N (Bonferroni): so for
    decodings or scorers that share randomness. With both sides an entry fails if either end
    does, and its share is halved between them.
    """
    alpha = error_rate(confidence)
    _check_questions(questions)
    share = float(-np.expm1(np.log1p(-alpha) / questions)) if independent else alpha / questions
    each = bound(confidence=1 - share, side=side)
    _check_rows(each, questions)
    correction = "Sidak" if independent else "Bonferroni"
    return replace(
        each,
        about=replace(each.about, jointly=True),
        confidence=confidence,
        method=f"{each.method}, {correction} over {questions}",
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
    share = _share(confidence, side, questions)
    parts, each = _at_each(bound, questions, side, each_confidence)
    first, fails = next(iter(parts.values())), _failures(questions, each, share)

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


def mean_over_stopped_questions(
    bound: BoundFunction,
    questions: int,
    *,
    confidence: float = 0.99,
    each_confidence: float | None = None,
    side: Side = "upper",
) -> Estimate:
    """Bound the mean over the questions of a quantity in [0, 1], however long each was sampled.

    For numbers of draws that depend on the scores, as after early stopping: `bound` must hold
    for such (any-time). At most b = BinInv(1 - alpha; N, alpha') of the bounds at
    `each_confidence` = 1 - alpha' fail, and one that fails is wrong by at most 1: the mean lies
    at most b/N above the mean of the U_i, and below that of the L_i. The draws of different
    questions must be independent, and alpha' fixed beforehand: by default it follows from N and
    alpha alone, as the best for clean questions that stop after some `CLEAN_DRAWS` draws; for few
    questions none of the bounds may fail then.

    Nor does the mean lie above the worst question. Its bound, the largest U_i (see
    `worst_question`), has half of what the upper end may fail with, the mean of the U_i the other
    half, and the lesser is taken; of one question they are the same, and it has all.

    `value` is the mean of the point values; stopping biases it.
    """
    share = _share(confidence, side, questions)
    of = {"upper": share if questions == 1 else share / 2, "lower": share}
    each = {
        end: _spread(questions, part) if each_confidence is None else error_rate(each_confidence)
        for end, part in of.items()
    }
    parts = _one_sided(bound, questions, side, **each)
    fails = {end: _failures(questions, each[end], part) for end, part in of.items()}
    first, lower, upper = next(iter(parts.values())), 0.0, 1.0
    if "lower" in parts:
        lower = float(np.mean(parts["lower"].lower)) - fails["lower"] / questions
    if "upper" in parts:
        worst = bound(confidence=1 - of["upper"], side="upper")
        mean = float(np.mean(parts["upper"].upper)) + fails["upper"] / questions
        upper = min(mean, float(np.max(worst.upper)))
    end = "upper" if "upper" in parts else "lower"
    return replace(
        summed(first, confidence, side),
        about=replace(first.about, scope="mean", over=questions),
        value=float(np.mean(first.value)),
        lower=max(lower, 0.0),
        upper=min(upper, 1.0),
        method=f"{first.method} at {percent(1 - each[end])} each, at most {fails[end]} fail",
    )


def _share(confidence: float, side: Side, questions: int) -> float:
    """What one side may fail with."""
    _check_questions(questions)
    return share_of(confidence, side)


def _one_sided(
    bound: BoundFunction, questions: int, side: Side, *, upper: float, lower: float
) -> dict[Side, Estimate]:
    """The bounds that `side` asks for, each one-sided with an error rate of its own."""
    asked: tuple[tuple[Side, float], ...] = (("upper", upper), ("lower", lower))
    parts = {
        one: bound(confidence=1 - share, side=one) for one, share in asked if side in (one, "both")
    }
    for each in parts.values():
        _check_rows(each, questions)
    return parts


def _at_each(
    bound: BoundFunction, questions: int, side: Side, confidence: float | None
) -> tuple[dict[Side, Estimate], float]:
    """The one-sided bounds at each question's own error rate, and that rate."""
    each = LEAST if confidence is None else error_rate(confidence)
    parts = _one_sided(bound, questions, side, upper=each, lower=each)
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
    return _one_sided(bound, questions, side, upper=usual, lower=usual), usual


def _spread(questions: int, alpha: float) -> float:
    """alpha' so that b bounds of the questions may fail, b the best where all are clean.

    The largest alpha' with P(Bin(N, alpha') > b) <= alpha solves I_alpha'(b + 1, N - b) = alpha.
    A clean question's upper bound is about ln(1/alpha')/n, so b/N + ln(1/alpha')/n is least.
    """
    b = np.arange(min(questions, MOST_FAILURES))
    each = betaincinv(b + 1, questions - b, alpha) * (1 - 1e-9)
    return float(each[np.argmin(b / questions - np.log(each) / CLEAN_DRAWS)])


def _failures(questions: int, each: float, alpha: float) -> int:
    """BinInv(1 - alpha; questions, each): more bounds than that fail with chance at most alpha."""
    more = bdtrc(np.arange(questions + 1), questions, each)
    return int((more <= alpha).argmax())


def summed(first: Estimate, confidence: float, side: Side) -> Estimate:
    """An estimate of all questions together, but for its ends."""
    n, missing = int(np.sum(first.n)), int(np.sum(first.missing))
    seed = one_seed(first.seed)
    return replace(first, confidence=confidence, side=side, n=n, missing=missing, seed=seed)


def _largest(values: float | Array) -> float | Array:
    """Over the questions, those without a value left out."""
    return plain(np.fmax.reduce(np.atleast_1d(values), axis=0))


def _check_questions(questions: int) -> None:
    if questions < 1:
        raise InputError(f"`questions` must be at least 1, got {questions}.")


def _check_rows(each: Estimate, questions: int) -> None:
    rows = len(np.atleast_1d(each.n))
    if rows != questions:
        raise InputError(
            f"`questions` must be the number of rows the bound has, {rows}, got {questions}."
        )
