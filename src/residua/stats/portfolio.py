"""The portfolio mixture: an upper bound on a mean that needs no order and no equal laws."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, xlogy

from residua.stats.estimate import Array
from residua.stats.leakage import Leakage

STEPS = 50  # halvings of [0, 1]


@dataclass(frozen=True, slots=True)
class Portfolio:
    """Bets b_j in (0, 1] and the weights, adding up to 1, of the stakes put on them."""

    bets: Array
    weights: Array


def bets(n: int, alpha: float) -> Portfolio:
    """The default for n draws: three quarters on bets around the best one, the rest on b = 1."""
    lowest = min(0.7, 0.9 * math.sqrt(2 * math.log(1 / alpha) / n))
    return Portfolio(
        np.append(np.geomspace(lowest, 0.95, 12), 1.0), np.append(np.full(12, 0.75 / 12), 0.25)
    )


def mean_upper(rows: Leakage, alpha: float, portfolio: Portfolio) -> Array:
    """Upper bound at 1 - alpha on the mean of each row's expectations: (Q,).

    The draws are independent, n and the portfolio are fixed beforehand; laws may differ between
    draws: the mean of E[X_i] is bounded. It is the smallest m at which the wealth
    W(m) = sum_j w_j prod_i [1 - b_j + b_j (1 - x_i)/(1 - m)], rising in m, reaches 1/alpha, and
    1 where none does. A missing draw counts as 1. Rounded up.
    """
    lost = np.pad(1 - rows.values, ((0, 0), (0, 1)))
    counts = np.column_stack([rows.counts, rows.missing])
    low, high = np.zeros(len(lost)), np.ones(len(lost))
    for _ in range(STEPS):
        middle = (low + high) / 2
        growth = lost / (1 - middle)[:, None]
        wealth = logsumexp(
            [
                math.log(w) + xlogy(counts, 1 - b + b * growth).sum(axis=1)
                for b, w in zip(portfolio.bets, portfolio.weights, strict=True)
            ],
            axis=0,
        )
        reached = wealth >= math.log(1 / alpha)
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle)
    return high
