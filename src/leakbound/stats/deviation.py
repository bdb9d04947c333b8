"""The standard deviation of a query's leakage, and the expectation deviation score.

The expectation deviation score is mean + rho * standard deviation. To bound the
score, the mean and the standard deviation ("deviation" below) are each bounded
at half of alpha.

These bounds differ from Metric 4 of Scholten et al. (2025). That metric, as printed, ignores the
probability of X = 0 and is not an upper bound. For example, for a fair coin it is below the true
deviation in every run. The method `"paper"` uses the extreme deviations of all distributions in the
paper's band (Romano and Wolf 2000). It is narrower than the paper's bound after correction. The
default method bets on squared differences, in an order that the seed determines. All bounds need
i.i.d. scores in [0, 1] and n fixed in advance. Missing draws count as the worst case.

*For a binary scorer* with leak probability p, the deviation is sqrt(p (1 - p)) and the expectation
deviation score is f(p) = p + rho sqrt(p (1 - p)). If an interval contains p, the smallest and the
largest value of either function over the interval bound the function's value at p. Both functions
are concave and not monotone: f increases up to p* = (1 + 1/sqrt(1 + rho^2))/2 and decreases beyond.
The argument below is for f; for the deviation, p* = 1/2.

Upper bound: let [L, U] contain p with probability 1 - alpha (alpha/2 on each
side). Then f(p) is at most the maximum of f over [L, U]. The maximum is f(p*)
if p* is inside, else the larger of f(L) and f(U).

Lower bound: here L and U are each bounds at alpha. The lower bound on f(p) is
min(f(L), f(U)), the minimum of the concave f over [L, U]. It fails only if f(p)
is below both f(L) and f(U). Then L and U are both in the interval where f
exceeds f(p). This interval extends upwards from p if p < p*, and downwards from
p if p > p*. So the bound fails only if L > p in the first case, and only if U < p in the second
case. The case depends on p, not on the draws. So the bound fails with probability at most alpha.

If both bounds are requested at a total error rate of alpha, the lower bound uses L and U at alpha/2
each. Both bounds are then extremes over one interval of p at 1 - alpha, and are valid
simultaneously.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats import betting
from leakbound.stats.arrays import bisected
from leakbound.stats.estimand import Estimand, Method, Terms
from leakbound.stats.estimate import Array, Counts, Estimate, plain, share_of
from leakbound.stats.evidence import Rows, sample_mean
from leakbound.stats.mean import MEAN
from leakbound.stats.proportion import PROPORTION
from leakbound.stats.quantity import SD, Quantity
from leakbound.stats.tail import dkw

HALVINGS = 45
LARGEST_STD = 0.5


def expectation_deviation(rows: Rows, rho: float = 2.0) -> float | Array:
    """Return the sample mean plus rho sample standard deviations (divisor n) of the scored draws.

    Args:
        rows: the draws.
        rho: the number of standard deviations that are added, finite; it may be negative.

    Returns:
        One number, or [Q] for several questions; NaN where no draw has a score.

    Raises:
        InputError: a rho that is not finite.
    """
    if not math.isfinite(rho):
        raise InputError(f"`rho` must be a finite number, got {rho!r}.")
    return rows.single_or_all(rows.scored().each(partial(_score, rho=rho)))


def score(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound E[X] + rho * sd(X) by bounds on the mean and on the deviation, each at half of alpha.

    The bound is valid for i.i.d. scores in [0, 1], with n fixed in advance. Betting bounds the mean
    and the deviation; the method "paper" uses the DKW band instead. Missing draws count as the
    worst case.
    """
    return score_of(quantity)(rows, quantity, terms)


def over_interval(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound sqrt(p (1 - p)), or p + rho * sqrt(p (1 - p)), by its extremes over an interval of p.

    The bound is valid for i.i.d. draws of a binary scorer, with n fixed in advance. The interval is
    Clopper-Pearson's. `value` is computed from the scored draws with divisor n.
    """
    # For the lower bound only one fixed bound of p can fail, so each bound of p gets all of alpha.
    share = share_of(terms.confidence, terms.side)
    level = 1 - 2 * share if terms.side == "lower" else terms.confidence
    if level <= 0:
        raise InputError(
            "`confidence` must exceed 0.5 for a lower bound of a deviation, got "
            f"{terms.confidence!r}."
        )
    p = PROPORTION(rows, quantity, Terms(level))
    low, high, value = (np.asarray(end) for end in (p.lower, p.upper, p.value))
    alone = quantity.reading == "standard deviation"

    def f(q: Array) -> Array:
        spread = np.sqrt(q * (1 - q))
        return spread if alone else q + quantity.rho * spread

    peak = np.asarray(0.5 if alone else (1 + 1 / math.hypot(1, quantity.rho)) / 2)
    largest = float(LARGEST_STD if alone else f(peak))
    inside = (low <= peak) & (peak <= high)
    upper = np.where(inside, largest, np.maximum(f(low), f(high)))
    lower = np.minimum(f(low), f(high))
    return replace(
        p,
        about=quantity.about(),
        value=plain(f(value)),
        lower=plain(np.zeros_like(lower) if terms.side == "upper" else lower),
        upper=plain(np.full_like(upper, largest) if terms.side == "lower" else upper),
        confidence=terms.confidence,
        side=terms.side,
        method=f"{p.method}, extremes over its interval",
    )


def sample_std(rows: Rows) -> Array:
    """Return the standard deviation of the scored draws with divisor n, [Q]."""
    squares = (rows.values - sample_mean(rows)[:, None]) ** 2
    return np.asarray(np.sqrt((rows.counts * squares).sum(axis=1) / rows.counts.sum(axis=1)))


def band_upper(rows: Rows, alpha: float) -> Array:
    """Return the largest standard deviation of any F inside the two-sided DKW band.

    The distribution functions with the largest spread in the band are F^c = clip(c, F_low, F_high).
    Their variance V(c) is unimodal in c. Let m_c be the mean of F^c, and let x_U and x_L be the
    points where F_high and F_low reach c. Then V'(c) is proportional to 2 m_c - x_U(c) - x_L(c).
    """
    low, high = _band(rows, alpha)
    low_table = dkw(rows.size, alpha / 2)
    high_table = 1 - low_table[::-1]
    knots = rows.knots
    area_low, area_high = (
        np.pad(np.cumsum(rows.gaps * band, axis=1), ((0, 0), (1, 0))) for band in (low, high)
    )
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


def band_lower(rows: Rows, alpha: float) -> Array:
    """Return the smallest standard deviation of any F inside the two-sided DKW band.

    The variance is the minimum over a of E(X - a)^2. For a given a, E(X - a)^2 is smallest if F
    equals F_low below a and F_high above a. The resulting E(X - a)^2 is convex in a.
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


def _betting_lower(rows: Rows, alpha: float) -> Array:
    """Bound the deviation from below; the variance is half of E[(X - X')^2] for two draws X, X'."""
    draws = rows.shuffled(missing=np.nan)[:, : rows.size // 2 * 2]
    if not draws.size:
        return np.zeros(len(draws))
    squares = np.nan_to_num((draws[:, ::2] - draws[:, 1::2]) ** 2, nan=0.0)
    return np.sqrt((1 - betting.mean_upper(1 - squares, alpha)) / 2)


def _band(rows: Rows, alpha: float) -> tuple[Array, Array]:
    """Return F_low and F_high on each step, [Q, d + 1] each."""
    table = dkw(rows.size, alpha / 2)
    high = 1 - table[rows.size - rows.seen - rows.missing[:, None]]
    return table[rows.seen], high


def _below(rows: Rows, count: Counts) -> Counts:
    """Return, for each row, the number of steps with less than `count` draws at or below them."""
    return np.asarray((rows.seen < count[:, None]).sum(axis=1))


def _bisect(before: Callable[[Array], npt.NDArray[np.bool_]], rows: int) -> Array:
    """Return the point in [0, 1] up to which a condition is true, for each row."""
    low, high = bisected(before, np.zeros(rows), np.ones(rows), HALVINGS)
    return (low + high) / 2


STD = Estimand(
    about=SD.about(),
    value=sample_std,
    span=(0.0, LARGEST_STD),
    usual=Method(
        "betting on squares",
        lambda rows, alpha: betting.std_upper(rows.shuffled(missing=np.nan), alpha),
        _betting_lower,
        shuffles=True,
    ),
    paper=Method("Romano-Wolf over DKW", band_upper, band_lower),
)


def score_of(quantity: Quantity) -> Estimand:
    """Return the quantity E[X] + rho * sd(X) for this rho."""
    rho = quantity.rho
    return Estimand(
        about=quantity.about(),
        value=partial(_score, rho=rho),
        usual=_sum(False, rho),
        paper=_sum(True, rho),
        span=(0.0, (1 + math.hypot(1, rho)) / 2),  # a fair coin attains the largest deviation
    )


def _sum(paper: bool, rho: float) -> Method:
    mean, std = MEAN.method(paper), STD.method(paper)

    def upper(rows: Rows, alpha: float) -> Array:
        return mean.upper(rows, alpha / 2) + rho * std.upper(rows, alpha / 2)

    def lower(rows: Rows, alpha: float) -> Array:
        return mean.lower(rows, alpha / 2) + rho * std.lower(rows, alpha / 2)

    return Method(f"{mean.name} and {std.name}", upper, lower, mean.shuffles)


def _score(rows: Rows, rho: float) -> Array:
    return sample_mean(rows) + rho * sample_std(rows)
