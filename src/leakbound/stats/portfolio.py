"""The portfolio mixture: bounds on means, without an order of draws, equal n or i.i.d. draws.

A bettor against the claim "the mean is m" splits a stake of 1 over several bets
b. After every draw x the part of the stake on b is multiplied by 1 - b (x -
m)/(1 - m), which is never negative. If m is the true mean, the expected wealth
after the last draw is at most 1, so the wealth is at least 1/alpha with
probability at most alpha (Markov). If every draw has mean m given the past, the
probability that the wealth ever reaches 1/alpha is at most alpha (Ville).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leakbound.stats.arrays import bisected, relative
from leakbound.stats.estimate import Array
from leakbound.stats.evidence import Rows

HALVINGS = 50  # bisection steps to find a bound
ONE = np.ones((1, 1))


@dataclass(frozen=True, slots=True)
class Portfolio:
    """Bets b_j in (0, 1], and the parts of the stake put on them, which add up to 1."""

    bets: Array
    weights: Array


def bets(n: int, alpha: float) -> Portfolio:
    """Return the default portfolio for n draws: 3/4 on bets near the best bet, 1/4 on b = 1."""
    lowest = min(0.7, 0.9 * math.sqrt(2 * math.log(1 / alpha) / n))
    return Portfolio(
        np.append(np.geomspace(lowest, 0.95, 12), 1.0), np.append(np.full(12, 0.75 / 12), 0.25)
    )


def mean_upper(rows: Rows, alpha: float, portfolio: Portfolio) -> Array:
    """Return the upper bound at 1 - alpha on the mean of each row's expectations, [Q].

    The draws must be independent, and n and the portfolio fixed in advance. Distributions may
    differ between draws; the mean of the E[X_i] is bounded. The wealth W(m) = sum_j w_j prod_i [1 -
    b_j + b_j (1 - x_i)/(1 - m)] increases in m. The bound is the smallest m at which W(m) reaches
    1/alpha, or 1 if there is no such m. A missing draw counts as 1. The bound is rounded up.

    If all draws of a row have the same mean given the past, and the portfolio depends on neither n
    nor alpha (`anytime`), the bound is valid at all n simultaneously.
    """
    draws, questions = _complete(rows), len(rows.values)
    return boundary(
        lambda m: _mixed(_log_stakes(draws, m, portfolio), portfolio),
        alpha,
        np.zeros(questions),
        np.ones(questions),
    )


def weighted_mean_upper(rows: Rows, weights: Array, alpha: float, portfolio: Portfolio) -> float:
    """Return the upper bound at 1 - alpha on sum_i a_i mu_i / sum_i a_i, mu_i the mean of row i.

    `weights` contains the a_i >= 0, [Q]. Row i has n_i independent draws. All n_i, the weights and
    the portfolio are fixed in advance. Let c_i = (a_i/n_i) / max_l (a_l/n_l). The wealth W(m) =
    sum_j w_j prod_i prod_t [1 - b_j c_i (x_it - m)/(1 - m)] increases in m. The bound is the
    smallest m at which W(m) reaches 1/alpha, or 1 if there is no such m. A missing draw counts as
    1. The bound is rounded up. Raises InputError for weights that are negative, or all 0.

    Proof. b_j c_i <= 1 and (x - m)/(1 - m) <= 1, so no factor is negative. Let m be the true mean.
    By independence and 1 + x <= e^x, the expected product for one bet is at most exp(-b_j/(1 - m)
    sum_i n_i c_i (mu_i - m)). This sum is proportional to sum_i a_i (mu_i - m) = 0. So E[W(m)] <=
    1, and Markov's inequality gives the bound. Without c_i, this would be a bound on the mean
    weighted by n_i.
    """
    share = relative(weights, len(rows.n)) / rows.n
    draws, scale = _complete(rows), (share / share.max())[:, None]

    def wealth(m: Array) -> Array:
        stakes = _log_stakes(draws, m, portfolio, scale).sum(axis=1, keepdims=True)
        return _mixed(stakes, portfolio)

    return float(boundary(wealth, alpha, np.zeros(1), np.ones(1))[0])


def log_wealth(rows: Rows, m: Array, portfolio: Portfolio) -> Array:
    """Return log W(m) of each row, [Q], for one m < 1 or one m per row."""
    return _mixed(_log_stakes(_complete(rows), m, portfolio), portfolio)


def boundary(
    wealth: Callable[[Array], Array], alpha: float, standing: Array, rejected: Array
) -> Array:
    """Return the mean nearest to `standing` at which the log-wealth reaches ln(1/alpha), [Q].

    `standing` is a mean that is not rejected. The wealth crosses 1/alpha at most once between
    `standing` and `rejected`. If the wealth does not cross 1/alpha, `rejected` is returned. The
    result is rounded towards `rejected`, so the bound is never too tight.
    """
    goal = math.log(1 / alpha)
    return bisected(lambda m: wealth(m) >= goal, rejected, standing, HALVINGS)[0]


def _complete(rows: Rows) -> Rows:
    """Count missing draws as 1 and set padding to 0, because only a draw may lose a whole stake."""
    values = np.pad(rows.values, ((0, 0), (0, 1)), constant_values=1)
    counts = np.column_stack([rows.counts, rows.missing])
    return Rows(np.where(counts > 0, values, 0.0), counts, np.zeros_like(rows.n), rows.single)


def _log_stakes(draws: Rows, m: Array, portfolio: Portfolio, scale: Array = ONE) -> Array:
    """Return log prod_t [1 - b_j c (x_t - m)/(1 - m)], [J, Q]; `scale` is c, [Q, 1]."""
    gain = scale * ((1 - draws.values) / np.reshape(1 - m, (-1, 1)) - 1)
    counts = draws.counts.astype(np.float64)
    with np.errstate(divide="ignore"):
        logs = (np.log(1 + b * gain) for b in portfolio.bets)
        return np.stack([np.einsum("qd,qd->q", counts, log) for log in logs])


def _mixed(log_stakes: Array, portfolio: Portfolio) -> Array:
    """Return the logarithm of the total wealth of all bets, [Q]."""
    stakes = np.log(portfolio.weights)[:, None] + log_stakes
    return np.asarray(np.logaddexp.reduce(stakes, axis=0))
