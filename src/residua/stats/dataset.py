"""Statements about a data set of questions, and about a model beside its control."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from residua.errors import InputError
from residua.stats.estimand import ends
from residua.stats.estimate import Array, Counts, Estimate, Side, check_side, error_rate
from residua.stats.leakage import Leakage
from residua.stats.mean import MEAN
from residua.stats.proportion import clopper_pearson_lower, clopper_pearson_upper, proportion_bound


class Bound(Protocol):
    """A bound with its scores filled in: `partial(mean_bound, scores, counts)`."""

    def __call__(self, *, confidence: float, side: Side) -> Estimate:
        """The estimate with one entry a question."""
        ...


def worst_question(
    bound: Bound, questions: int, *, confidence: float = 0.99, side: Side = "upper"
) -> Estimate:
    """Bound the largest of `questions` quantities, each of which `bound` bounds.

    Upper: the largest bound, without correction, since it must fail at the one worst question
    to fail. Lower: the largest bound at alpha/N, since it was picked after looking.
    """
    check_side(side)
    alpha = error_rate(confidence) / (2 if side == "both" else 1)
    parts = {
        one: bound(confidence=1 - share, side=one)
        for one, share in _shares(side, alpha, alpha / questions)
    }
    first = next(iter(parts.values()))
    if len(np.atleast_1d(first.n)) != questions:
        raise InputError(
            f"`questions` must be the number of rows the bound has, {len(np.atleast_1d(first.n))}, "
            f"got {questions}."
        )
    return replace(
        first,
        estimand=f"{first.estimand}, largest of {questions}",
        target="the worst of these questions under this decoding",
        value=_largest(first.value),
        lower=_largest(parts.get("lower", first).lower),
        upper=_largest(parts.get("upper", first).upper),
        confidence=confidence,
        side=side,
        n=int(np.sum(first.n)),
        missing=int(np.sum(first.missing)),
    )


def mean_over_questions(
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound the mean over these questions of E[X_i], scores in [0, 1], one row a question.

    The draws of all rows are pooled: independent, not identical, hence the portfolio mixture.
    Every question must have the same n, fixed beforehand.
    """
    leakage = Leakage.read(scores, counts, missing)
    _refuse_unequal(leakage.n)
    pool = MEAN.estimate(
        leakage.pooled(), confidence=confidence, side=side, method="portfolio", seed=0
    )
    return replace(pool, target="the mean over these questions under this decoding")


def proportion_over_questions(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound the mean over these questions of the leak probability, one entry a question.

    As `proportion_bound`, with the same n for every question. Plain Clopper-Pearson on the pool
    is not valid for unequal probabilities; with (S +- 1)/M it is (Hoeffding 1956).
    """
    each = proportion_bound(hits, n, confidence=confidence, side=side, missing=missing)
    _refuse_unequal(np.atleast_1d(each.n))
    rows = np.broadcast_shapes(*(np.shape(given) for given in (hits, n, missing)))
    leaks, gone = (int(np.broadcast_to(np.asarray(x), rows).sum()) for x in (hits, missing))
    draws = int(np.sum(each.n))
    lower, upper = ends(
        confidence,
        side,
        lambda alpha: _hoeffding_lower(np.array(leaks), np.array(draws), alpha),
        lambda alpha: _hoeffding_upper(np.array(leaks + gone), np.array(draws), alpha),
        (0.0, 1.0),
    )
    return replace(
        each,
        target="the mean over these questions under this decoding",
        value=leaks / (draws - gone) if draws > gone else float("nan"),
        lower=float(lower),
        upper=float(upper),
        n=draws,
        missing=gone,
        method="Clopper-Pearson, Hoeffding's form",
    )


def excess(candidate: Estimate, control: Estimate) -> Estimate:
    """Bound the candidate's quantity minus the control's, from an estimate of each.

    The errors add up: two estimates at confidence 1 - alpha/2 give 1 - alpha. An upper bound
    takes the candidate's upper and the control's lower end, a lower bound the others. Missing
    draws count against the claim on both sides, because they do so in each estimate.
    """
    if candidate.estimand != control.estimand:
        raise InputError(
            "`candidate` and `control` must bound one quantity, got "
            f"{candidate.estimand!r} and {control.estimand!r}."
        )
    above = candidate.side != "lower" and control.side != "upper"
    below = candidate.side != "upper" and control.side != "lower"
    if not (above or below):
        raise InputError(
            "an excess needs opposite sides of `candidate` and `control`, got "
            f"{candidate.side!r} twice. Bound one of them from the other side, or both 'both'."
        )
    reach = np.subtract(candidate.upper, control.lower), np.subtract(candidate.lower, control.upper)
    return replace(
        candidate,
        estimand=f"excess {candidate.estimand}",
        target=f"{candidate.target}, beyond the control",
        value=candidate.value - control.value,
        lower=_plain(reach[1]),
        upper=_plain(reach[0]),
        confidence=candidate.confidence + control.confidence - 1,
        side="both" if above and below else "upper" if above else "lower",
        missing=candidate.missing + control.missing,
    )


def _plain(value: Array) -> float | Array:
    return float(value) if np.ndim(value) == 0 else value


def _shares(side: Side, upper: float, lower: float) -> list[tuple[Side, float]]:
    asked: list[tuple[Side, float]] = [("upper", upper), ("lower", lower)]
    return [(one, share) for one, share in asked if side in (one, "both")]


def _largest(values: float | Array) -> float | Array:
    """Over the questions, those without a value left out."""
    return _plain(np.fmax.reduce(np.atleast_1d(values), axis=0))


def _refuse_unequal(n: Counts) -> None:
    if (n != n[0]).any():
        raise InputError(
            f"every question must have the same number of draws, got {n.min()} to {n.max()}. "
            "Pooling unequal numbers bounds another mean."
        )


def _hoeffding_upper(hits: Counts, n: Counts, alpha: float) -> Array:
    return np.maximum(clopper_pearson_upper(hits, n, alpha), (hits + 1) / n)


def _hoeffding_lower(hits: Counts, n: Counts, alpha: float) -> Array:
    return np.minimum(clopper_pearson_lower(hits, n, alpha), (hits - 1) / n)
