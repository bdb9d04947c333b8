"""The standard deviation from exact masses. See `mass`.

Rounding. Both ends are min_c f(c) for a convex f(c) = sum p (c - end(c))^2 with f' = 2 g, evaluated
at a c that is nearly the minimum. Let u be the spacing of float64 at 1, d the number of events.
Above: min f <= f(c) whatever c is, and f(c) is a sum of d terms >= 0, computed to a relative error
below (d + 8) u. Below: f lies above its tangent, and both c and the minimum lie in [0, 1], so
min f >= f(c) - |f'(c)| = f(c) - 2 |g(c)|, with g(c) computed to an absolute error below (d + 8) u.
Where masses add up to 1 + s, the true ones are together s less, and no (c - end)^2 is above 1: the
lower end gives s away. Then lower <= upper: for the same masses near_a(c)^2 <= far_a(c)^2, and
min_c sum p far^2 <= (1 + s)/4, so that the lower end is below 1/2 too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from leakbound.stats.about import About
from leakbound.stats.estimate import Array, Estimate
from leakbound.stats.mass import EXACT, Mass


def mass_std_bound(mass: Mass) -> Estimate:
    """Bound the standard deviation of X, surely given the masses; draws of a rest bound none.

    What is unknown is one more event, with range [0, 1]. The variance is min_c E(X - c)^2.
    Below: the smallest over the laws that fit is min_c sum p_a near_a(c)^2, near_a(c) the distance
    from c to [low_a, high_a], since two minima change places. Above: E(X - c)^2 is linear in the
    law, convex in c, and the laws that fit are a convex compact set, so (Sion 1958) the largest
    min_c is min_c sum p_a far_a(c)^2, far_a(c) the distance from c to the farther end. Both sums
    are convex in c, both bounds are attained. Where every event is settled this is, with
    E_i = sum p_a x_a^i and R the unknown mass, E_2 - E_1^2/(1 - R) and
    E_2 + Rz - (E_1 + Rz)^2, z = clip((1/2 - E_1)/R, 0, 1).

    In float64 the ends are rounded outwards, by what the module's text proves to be enough; so they
    never cross, also where masses add up to a little more than 1 (`Mass` allows 1e-9).
    """
    p = np.append(mass.p, mass.slack + mass.remainder)
    low, high = np.append(mass.low, 0.0), np.append(mass.high, 1.0)
    lower = _least(p, lambda c: np.clip(c, low, high)).lower
    upper = min(_least(p, lambda c: np.where(2 * c < low + high, high, low)).upper, 0.5)
    return Estimate(
        about=About(quantity="standard deviation"),
        value=float(np.clip(_point_std(mass), lower, upper)),
        lower=lower,
        upper=upper,
        confidence=1.0,
        side="both",
        n=0,
        missing=0,
        method=EXACT,
    )


@dataclass(frozen=True, slots=True)
class _Ends:
    """The bounds of a standard deviation that masses give."""

    lower: float
    upper: float


def _least(p: Array, end: Callable[[float], Array]) -> _Ends:
    """The root of min_c f(c), f(c) = sum p (c - end(c))^2, from below and from above.

    f is convex, with derivative 2 g, g(c) = sum p (c - end(c)).
    """
    c = brentq(lambda c: float(p @ (c - end(c))), 0.0, 1.0, xtol=1e-15)
    gaps = c - end(c)
    found, slope = float(p @ gaps**2), abs(float(p @ gaps))
    rounding = (len(p) + 8) * np.finfo(np.float64).eps
    too_much = max(0.0, math.fsum(p) - 1)
    below = found * (1 - rounding) - 2 * (slope + rounding) - too_much
    return _Ends(math.sqrt(max(below, 0.0)), math.sqrt(found * (1 + rounding)))


def _point_std(mass: Mass) -> float:
    """The standard deviation of the law that `value` is about."""
    known = mass.p.sum()
    if known == 0:
        return math.nan
    mean = mass.p @ (mass.low + mass.high) / (2 * known)
    squares = (mass.low - mean) ** 2 + (mass.high - mean) ** 2
    return math.sqrt(mass.p @ squares / (2 * known))
