"""The standard deviation from exact masses. See `mass`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from residua.stats.estimate import Array, Estimate
from residua.stats.mass import EXACT, Mass


def mass_std_bound(mass: Mass) -> Estimate:
    """Bound the standard deviation of X with certainty; draws from a remainder bound none.

    What is unknown is one more event, with range [0, 1]. The variance is min_c E(X - c)^2.
    Below: the smallest over the laws that fit is min_c sum p_a near_a(c)^2, near_a(c) the distance
    from c to [low_a, high_a], since two minima change places. Above: E(X - c)^2 is linear in the
    law, convex in c, and the laws that fit are a convex compact set, so (Sion 1958) the largest
    min_c is min_c sum p_a far_a(c)^2, far_a(c) the distance from c to the farther end. Both sums
    are convex in c, both bounds are attained. Where every event is settled this is, with
    E_i = sum p_a x_a^i and R the unknown mass, E_2 - E_1^2/(1 - R) and
    E_2 + Rz - (E_1 + Rz)^2, z = clip((1/2 - E_1)/R, 0, 1).
    """
    p = np.append(mass.p, mass.slack + mass.remainder)
    low, high = np.append(mass.low, 0.0), np.append(mass.high, 1.0)
    lower = _least_spread(p, lambda c: np.clip(c, low, high))
    upper = _least_spread(p, lambda c: np.where(2 * c < low + high, high, low))
    return Estimate(
        estimand="standard deviation",
        value=_point_std(mass),
        lower=lower,
        upper=min(upper, 0.5),
        confidence=1.0,
        side="both",
        n=0,
        missing=0,
        method=EXACT,
    )


def _least_spread(p: Array, end: Callable[[float], Array]) -> float:
    """The root of min_c sum p (c - end(c))^2, convex, with derivative 2 sum p (c - end(c))."""
    c = brentq(lambda c: float(p @ (c - end(c))), 0.0, 1.0, xtol=1e-15)
    return math.sqrt(p @ (c - end(c)) ** 2)


def _point_std(mass: Mass) -> float:
    """The standard deviation of the law that `value` is about."""
    known = mass.p.sum()
    if known == 0:
        return math.nan
    mean = mass.p @ (mass.low + mass.high) / (2 * known)
    squares = (mass.low - mean) ** 2 + (mass.high - mean) ** 2
    return math.sqrt(mass.p @ squares / (2 * known))
