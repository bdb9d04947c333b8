"""The expectation deviation score: mean + rho * standard deviation."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.deviation import STD, sample_std
from leakbound.stats.estimand import Estimand, Method
from leakbound.stats.estimate import Array, Estimate, Side
from leakbound.stats.leakage import Leakage
from leakbound.stats.mean import MEAN, sample_mean
from leakbound.stats.order import Seed


def expectation_deviation(
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    rho: float = 2.0,
    missing: npt.ArrayLike = 0,
) -> float | Array | tuple[float | Array, float | Array]:
    """mean + rho * sd with divisor n, descriptive; with missing draws, its extremes over them.

    One value a question for 2-D scores.
    """
    if not math.isfinite(rho):
        raise InputError(f"`rho` must be a finite number, got {rho!r}.")
    leakage = Leakage.read(scores, counts, missing)
    if not leakage.missing.any():
        return leakage.single_or_all(leakage.each(partial(_score, rho=rho)))
    low, high = _extremes(leakage, rho)
    return leakage.single_or_all(low), leakage.single_or_all(high)


def expectation_deviation_bound(
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    rho: float = 2.0,
    confidence: float = 0.99,
    side: Side = "upper",
    method: str | None = None,
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound E[X] + rho * sd(X): the mean and the deviation each at half of alpha.

    For i.i.d. scores in [0, 1], n fixed beforehand. Methods: "betting" (default), "paper".
    """
    rows, score = Leakage.read(scores, counts, missing), score_of(rho)
    return score.estimate(rows, confidence=confidence, side=side, method=method, seed=seed)


def score_of(rho: float) -> Estimand:
    """E[X] + rho * sd(X); InputError unless rho >= 0."""
    require_rho(rho)
    return Estimand(
        about=About(quantity="expectation deviation", constant=rho),
        value=partial(_score, rho=rho),
        methods={key: _sum(key, rho) for key in ("betting", "paper")},
        span=(0.0, (1 + math.hypot(1, rho)) / 2),  # reached by a coin
    )


def require_rho(rho: float) -> None:
    """Refuse a rho for which mean + rho * sd is not bounded here."""
    if not (math.isfinite(rho) and rho >= 0):
        raise InputError(f"`rho` must be a number >= 0, got {rho!r}.")


def _sum(key: str, rho: float) -> Method:
    mean, std = MEAN.methods[key], STD.methods[key]

    def upper(rows: Leakage, alpha: float) -> Array:
        return mean.upper(rows, alpha / 2) + rho * std.upper(rows, alpha / 2)

    def lower(rows: Leakage, alpha: float) -> Array:
        return mean.below(rows, alpha / 2) + rho * std.below(rows, alpha / 2)

    return Method(f"{mean.name} and {std.name}", upper, lower, mean.shuffles)


def _score(rows: Leakage, rho: float) -> Array:
    return sample_mean(rows) + rho * sample_std(rows)


def _extremes(leakage: Leakage, rho: float) -> tuple[Array, Array]:
    """The least and the greatest score over all values of the missing draws: (Q,) each.

    For rho >= 0 the score is convex in them. So the greatest has each at 0 or 1; and the least,
    by symmetry, has all at one t, the root of d/dt [b t + rho sqrt(a v + a b (t - m)^2)] or an
    end of [0, 1], with a, b the shares of scored and missing draws, m, v the scored mean and
    variance.
    """
    if rho < 0:  # mean - |rho| sd of X is 1 - (mean + |rho| sd) of 1 - X
        low, high = _extremes(leakage.mirrored(), -rho)
        return 1 - high, 1 - low
    scored = leakage.scored()
    mean, deviation = (np.nan_to_num(scored.each(rule)) for rule in (sample_mean, sample_std))
    b = leakage.missing / leakage.n
    a = 1 - b

    def score(centre: Array, spread: Array) -> Array:
        """The score with the missing draws at a mean and a variance of their own."""
        between = a * b * (centre - mean) ** 2
        return a * mean + b * centre + rho * np.sqrt(a * deviation**2 + b * spread + between)

    room = rho**2 * a - b
    drop = np.divide(deviation, np.sqrt(np.maximum(room, 0)), where=room > 0, out=mean + 0)
    least = score(np.clip(mean - drop, 0, 1), np.zeros_like(mean))
    ones = np.arange(leakage.missing.max() + 1)[:, None] / np.maximum(leakage.missing, 1)
    ones = np.minimum(ones, 1)
    return least, score(ones, ones * (1 - ones)).max(axis=0)
