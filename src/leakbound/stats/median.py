"""Bounds on the median of a score, by order statistics.

Let m be a median of X: Pr[X < m] <= 1/2 and Pr[X > m] <= 1/2. The s-th smallest of n i.i.d. draws
is below m only if at least s draws are below m. This has a probability of at most P(Bin(n, 1/2) >=
s). The upper bound is the s-th smallest draw, with the smallest s for which P(Bin(n, 1/2) >= s) is
at most alpha. If there is no such s, the upper bound is 1. A lower bound is 1 minus an upper bound
of the median of 1 - X. The bounds are valid for any distribution, with or without ties (Thompson
1936; David and Nagaraja, Order Statistics, 2003, section 7.1).
"""

from __future__ import annotations

import numpy as np
from scipy.special import bdtrc

from leakbound.stats.about import About
from leakbound.stats.estimand import Estimand, Method
from leakbound.stats.estimate import Array
from leakbound.stats.evidence import Rows
from leakbound.stats.mean import mirrored


def upper(rows: Rows, alpha: float) -> Array:
    """Return the upper bound at 1 - alpha on each row's median, [Q]; missing draws count as 1."""
    luck = bdtrc(np.arange(rows.size), rows.size, 0.5)  # P(Bin(n, 1/2) > i)
    return smallest(rows, 1 + int(np.count_nonzero(luck > alpha)))


def smallest(rows: Rows, place: int) -> Array:
    """Return the `place`-th smallest draw of each row, or 1 with fewer scored draws, [Q]."""
    reached = np.pad(rows.seen >= place, ((0, 0), (0, 1)), constant_values=True)
    return np.take_along_axis(rows.knots, reached.argmax(axis=1)[:, None], axis=1)[:, 0]


MEDIAN = Estimand(
    about=About(quantity="median"),
    value=lambda rows: smallest(rows, (rows.size + 1) // 2),
    usual=Method("order statistics", upper, mirrored(upper)),
)
