"""The tail Pr[X > x] of a query's leakage, for all x at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import About, parameter_of
from leakbound.stats.bands import BANDS, Band
from leakbound.stats.estimand import Estimand, Method
from leakbound.stats.estimate import Array, Estimate, Side
from leakbound.stats.leakage import Leakage
from leakbound.stats.order import Seed
from leakbound.stats.whole import numbers


def survival_bound(
    scores: npt.ArrayLike,
    x: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    method: str | None = None,
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound Pr[X > x] simultaneously for every x, hence also for an x chosen afterwards.

    For i.i.d. draws, n fixed beforehand. `x` is a number, or 1-D and then the last axis of the
    result; at x >= 1 the tail is 0. Methods: "berk-jones" (default), "paper" (DKW; the paper
    proves it for one x and uses it for all: the inequality it rests on gives all).
    A missing draw counts as 1 above and 0 below.
    """
    rows = Leakage.read(scores, counts, missing)
    tail = tail_of(read_points(x))
    return tail.estimate(rows, confidence=confidence, side=side, method=method, seed=seed)


def tail_of(x: Array) -> Estimand:
    """Pr[X > x] for every entry of x, 0-D or 1-D, at once."""
    return Estimand(
        about=tail_at(x),
        value=lambda rows: 1 - _seen(rows, x) / rows.size,
        methods={key: _method(band, x) for key, band in BANDS.items()},
    )


def read_points(x: npt.ArrayLike) -> Array:
    """x as an array, 0-D or 1-D; InputError unless finite."""
    points = numbers("x", x)
    if points.ndim > 1 or not points.size or not np.isfinite(points).all():
        raise InputError(f"`x` must be a finite number or a row of such, got {x!r}.")
    return points


def tail_at(x: npt.ArrayLike) -> About:
    """About Pr[X > x], of one x or several."""
    return About(quantity="tail", parameter=parameter_of(x))


def _method(band: Band, x: Array) -> Method:
    def upper(rows: Leakage, alpha: float) -> Array:
        table = band.table(rows.size, alpha)
        return np.where(x >= 1, 0.0, 1 - table[_seen(rows, x)])

    def lower(rows: Leakage, alpha: float) -> Array:
        table = band.table(rows.size, alpha)
        missing = rows.missing.reshape(-1, *[1] * x.ndim)
        return np.where(x >= 1, 0.0, table[rows.size - missing - _seen(rows, x)])

    return Method(band.name, upper, lower)


def _seen(rows: Leakage, x: Array) -> npt.NDArray[np.int64]:
    """Scored draws at or below x: (Q,), or (Q, K) for K points."""
    seen = rows.seen_at(np.atleast_1d(x))
    return seen.reshape(len(seen), *x.shape)
