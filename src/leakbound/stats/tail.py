"""Bounds on the tail Pr[X > x] of a query's leakage, for all x simultaneously, from a band.

Let F be the distribution function of i.i.d. scores X_1 ... X_n. A band is a
function (n, alpha) -> table (n + 1,) such that, with probability at least 1 -
alpha, F(x) >= table[#{X_i <= x}] for all x simultaneously. By symmetry, also
with probability at least 1 - alpha, 1 - F(x) >= table[#{X_i > x}] for all x. So
one table gives the upper and the lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betaincinv, gammaln, xlogy

from leakbound.errors import InputError
from leakbound.stats.estimand import Estimand, Method, Terms
from leakbound.stats.estimate import Array, Estimate
from leakbound.stats.evidence import Rows
from leakbound.stats.quantity import Quantity

LEAST_ALPHA = 1e-11
NEGLIGIBLE = 1e-25  # smaller terms are dropped, which can only lower the coverage


@dataclass(frozen=True, slots=True)
class Band:
    """A named band; the module docstring defines `table(n, alpha)`."""

    name: str
    table: Callable[[int, float], Array]


def require_solvable(alpha: float) -> None:
    """Raise InputError if alpha is too small to solve a Berk-Jones band in float64."""
    if alpha < LEAST_ALPHA:
        raise InputError(
            f"the Berk-Jones band needs an alpha of at least {LEAST_ALPHA:g}, got {alpha:.3g} "
            "because the confidence is too close to 1, or shared among too many statements. Lower "
            "the confidence, or use method 'paper' (DKW), which is valid at any alpha."
        )


def dkw(n: int, alpha: float) -> Array:
    """Return the DKW table[i] = max(i/n - epsilon, 0) with the one-sided epsilon (Massart 1990).

    The one-sided inequality needs alpha <= 1/2. For a larger alpha the table for 1/2 is returned.
    """
    epsilon = math.sqrt(math.log(1 / min(alpha, 0.5)) / (2 * n))
    return np.maximum(np.arange(n + 1) / n - epsilon, 0)


@lru_cache(maxsize=256)
def berk_jones(n: int, alpha: float) -> Array:
    """Return the one-sided Berk-Jones table[i] = BetaInv(eta; i, n - i + 1), table[0] = 0.

    eta solves P(U_(i) >= table[i] for all i) = 1 - alpha for uniform order statistics, and is
    rounded down. Each step of the solver costs n Poisson convolutions; results are cached by (n,
    alpha). Raises InputError for an alpha below 1e-11, where float64 does not represent 1 - alpha
    precisely enough.
    """
    require_solvable(alpha)

    def surplus(log_eta: float) -> float:
        return coverage(_quantiles(n, math.exp(log_eta))) - (1 - alpha)

    # A union bound over n events gives the lower limit of eta, and a single event the upper limit.
    eta = math.exp(brentq(surplus, math.log(alpha / (2 * n)), math.log(alpha) + 1e-9, xtol=1e-13))
    shrink = 1e-13
    while surplus(math.log(eta)) < 0:
        eta *= 1 - shrink
        shrink *= 2
    table = np.concatenate([[0.0], _quantiles(n, eta)])
    table.flags.writeable = False
    return table


BERK_JONES, DKW = Band("Berk-Jones", berk_jones), Band("DKW", dkw)


def _quantiles(n: int, eta: float) -> Array:
    i = np.arange(1, n + 1)
    return np.asarray(betaincinv(i, n - i + 1, eta))


def coverage(limits: Array) -> float:
    """Return P(U_(i) >= limits[i-1] for i = 1..n), U_(i) the order statistics of n uniforms.

    n uniforms are distributed as the points of a Poisson process of rate n on [0, 1], given that it
    has n points. The function computes the distribution of the number of points below each limit in
    turn. It keeps only the numbers for which the event is still possible (fewer than i points below
    the i-th limit). At the end it conditions on n points in total.
    """
    n = len(limits)
    rates = n * np.diff(limits, prepend=0)
    widest = rates.max()
    jumps = np.arange(min(n, int(widest + 12 * math.sqrt(widest) + 40)) + 1)
    steps = _poisson(jumps, rates[:, None])
    first, distribution = 0, np.ones(1)
    for i, step in enumerate(steps, start=1):
        distribution = np.convolve(distribution, step)[: i - first]
        dead = int((distribution > NEGLIGIBLE).argmax())
        first, distribution = first + dead, distribution[dead:]
    remaining = _poisson(n - first - np.arange(len(distribution)), n * (1 - limits[-1:]))
    return float(distribution @ remaining / _poisson(np.array(n), np.array(float(n))))


def _poisson(count: npt.NDArray[Any], rate: Array) -> Array:
    return np.asarray(np.exp(xlogy(count, rate) - rate - gammaln(count + 1)))


def tail_bound(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound Pr[X > x] for every x simultaneously, so x may be chosen after looking.

    The bounds are valid for i.i.d. draws, with n fixed in advance. At x >= 1 the tail is 0. The
    method "paper" uses the paper's band. The paper proves this band for a single x, but uses it for
    all x. The DKW inequality shows that the band is valid for all x.
    """
    x = quantity.points
    tail = Estimand(
        about=quantity.about(),
        value=lambda rows: 1 - _seen(rows, x) / rows.size,
        usual=_method(BERK_JONES, x),
        paper=_method(DKW, x),
    )
    return tail(rows, quantity, terms)


def _method(band: Band, x: Array) -> Method:
    def upper(rows: Rows, alpha: float) -> Array:
        table = band.table(rows.size, alpha)
        return np.where(x >= 1, 0.0, 1 - table[_seen(rows, x)])

    def lower(rows: Rows, alpha: float) -> Array:
        table = band.table(rows.size, alpha)
        missing = rows.missing.reshape(-1, *[1] * x.ndim)
        return np.where(x >= 1, 0.0, table[rows.size - missing - _seen(rows, x)])

    return Method(band.name, upper, lower)


def _seen(rows: Rows, x: Array) -> npt.NDArray[np.int64]:
    """Return the number of scored draws at or below x, as [Q]; as [Q, K] for K points."""
    seen = rows.seen_at(np.atleast_1d(x))
    return seen.reshape(len(seen), *x.shape)
