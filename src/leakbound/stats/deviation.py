"""The standard deviation of a query's leakage.

Departs from Scholten et al. (2025), Metric 4: as printed it drops the atom at X = 0 and is no
upper bound (on a fair coin it lies below the truth in every run). `"grid"` is its corrected
form, kept for comparison; `"paper"` is the tightest bound over the same band.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from leakbound.stats import betting
from leakbound.stats.about import About
from leakbound.stats.bands import dkw
from leakbound.stats.estimand import Estimand, Method
from leakbound.stats.estimate import Array, Counts, Estimate, Side
from leakbound.stats.leakage import Leakage
from leakbound.stats.mean import sample_mean
from leakbound.stats.order import Seed
from leakbound.stats.whole import halved

CELLS = 100  # of the grid form
HALVINGS = 45


def std_bound(
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    method: str | None = None,
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound the standard deviation (at most 1/2) of i.i.d. scores in [0, 1], n fixed beforehand.

    Methods: "betting" (default; bets on squares, draws shuffled by `seed`), "paper" (tightest
    over the two-sided DKW band; Romano and Wolf 2000), "grid" (Metric 4 corrected, above only).
    `value` has the divisor n. Missing draws count for the claim's opposite.
    """
    rows = Leakage.read(scores, counts, missing)
    return STD.estimate(rows, confidence=confidence, side=side, method=method, seed=seed)


def sample_std(rows: Leakage) -> Array:
    """The standard deviation of the scored draws with divisor n: (Q,)."""
    squares = (rows.values - sample_mean(rows)[:, None]) ** 2
    return np.asarray(np.sqrt((rows.counts * squares).sum(axis=1) / rows.counts.sum(axis=1)))


def band_upper(rows: Leakage, alpha: float) -> Array:
    """The largest standard deviation of any F inside the two-sided DKW band.

    The band's most spread members are F^c = clip(c, F_low, F_high); their variance is unimodal
    in c, with V'(c) proportional to 2 m_c - x_U(c) - x_L(c), where m_c is the mean of F^c and
    x_U, x_L are where F_high, F_low reach c.
    """
    low, high = _band(rows, alpha)
    low_table = dkw(rows.size, alpha / 2)
    high_table = 1 - low_table[::-1]
    knots = rows.knots
    area_low, area_high = (_running_sum(rows.gaps * band) for band in (low, high))
    row = np.arange(len(low))

    def rising(c: Array) -> npt.NDArray[np.bool_]:
        to_l = _below(rows, np.searchsorted(low_table, c))
        to_u = _below(rows, np.searchsorted(high_table, c) - rows.missing)
        x_l, x_u = knots[row, to_l], knots[row, to_u]
        above = area_low[:, -1] - area_low[row, to_l]
        mean = 1 - (area_high[row, to_u] + c * (x_l - x_u) + above)
        return np.asarray(2 * mean - x_u - x_l > 0)

    tail = 1 - _bisect(rising, len(low))[:, None].clip(low, high)
    mean = (rows.gaps * tail).sum(axis=1)
    square = (np.diff(rows.knots**2, axis=1) * tail).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0)))


def band_lower(rows: Leakage, alpha: float) -> Array:
    """The smallest standard deviation of any F inside the two-sided DKW band.

    It is the least over a of E(X - a)^2, and for a given a the mass is nearest to a under
    F_low below a and F_high above; that is convex in a.
    """
    low, high = _band(rows, alpha)

    def sides(a: Array) -> tuple[Array, Array]:
        distance = a[:, None] - rows.knots
        return np.maximum(distance, 0), np.maximum(-distance, 0)

    def falling(a: Array) -> npt.NDArray[np.bool_]:
        left, right = sides(a)
        slope = -low * np.diff(left, axis=1) - (1 - high) * np.diff(right, axis=1)
        return np.asarray(slope.sum(axis=1) < 0)

    left, right = sides(_bisect(falling, len(low)))
    parts = (1 - high) * np.diff(right**2, axis=1) - low * np.diff(left**2, axis=1)
    return np.asarray(np.sqrt(np.maximum(parts.sum(axis=1), 0)))


def grid_variance(rows: Leakage, alpha: float, cells: int = CELLS) -> Array:
    """Metric 4 corrected, before it is cut at 1/4: (Q,)."""
    points = np.array([i / cells for i in range(cells + 1)])  # linspace differs in the last bit
    table = dkw(rows.size, alpha / 2)
    seen = rows.seen_at(points)
    low, high = table[seen], 1 - table[rows.size - seen - rows.missing[:, None]]
    low[:, -1] = high[:, -1] = 1
    means = [1 - high[:, 1:].mean(axis=1), 1 - low[:, :-1].mean(axis=1)]
    squares = np.stack([(points - mean[:, None]) ** 2 for mean in means]).max(axis=0)
    eta = np.maximum(squares[:, :-1], squares[:, 1:])
    falls = eta[:, :-1] - eta[:, 1:]
    weights = np.where(falls > 0, high[:, 1:-1], low[:, 1:-1])
    return np.asarray(eta[:, -1] + (falls * weights).sum(axis=1))


def _grid(rows: Leakage, alpha: float) -> Array:
    return np.sqrt(grid_variance(rows, alpha))


def _betting_upper(rows: Leakage, alpha: float) -> Array:
    return betting.std_upper(rows.shuffled(missing=np.nan), alpha)


def _betting_lower(rows: Leakage, alpha: float) -> Array:
    """Half the mean square of the difference of two draws is the variance."""
    draws = rows.shuffled(missing=np.nan)[:, : rows.size // 2 * 2]
    if not draws.size:
        return np.zeros(len(draws))
    squares = np.nan_to_num((draws[:, ::2] - draws[:, 1::2]) ** 2, nan=0.0)
    return np.sqrt((1 - betting.mean_upper(1 - squares, alpha)) / 2)


def _band(rows: Leakage, alpha: float) -> tuple[Array, Array]:
    """F_low and F_high on each step: (Q, d + 1) each."""
    table = dkw(rows.size, alpha / 2)
    high = 1 - table[rows.size - rows.seen - rows.missing[:, None]]
    return table[rows.seen], high


def _below(rows: Leakage, count: Counts) -> Counts:
    """How many steps of each row have fewer than `count` (Q,) draws at or below them."""
    return np.asarray((rows.seen < count[:, None]).sum(axis=1))


def _running_sum(parts: Array) -> Array:
    return np.pad(np.cumsum(parts, axis=1), ((0, 0), (1, 0)))


def _bisect(before: Callable[[Array], npt.NDArray[np.bool_]], rows: int) -> Array:
    """Where in [0, 1] a condition that holds up to some point ends, in each row."""
    low, high = halved(before, np.zeros(rows), np.ones(rows), HALVINGS)
    return (low + high) / 2


STD = Estimand(
    about=About(quantity="standard deviation"),
    value=sample_std,
    span=(0.0, 0.5),
    methods={
        "betting": Method("betting on squares", _betting_upper, _betting_lower, shuffles=True),
        "paper": Method("Romano-Wolf over DKW", band_upper, band_lower),
        "grid": Method("Metric 4 corrected", _grid, None),
    },
)
