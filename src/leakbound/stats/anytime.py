"""Any-time bounds on a probability and a mean, valid simultaneously at every number of draws n.

*A probability.* Draws are i.i.d. with leak probability p. The ratio of the likelihood of the draws
at q to their likelihood at p is a nonnegative martingale with mean 1. Let K_n(p) be the average of
this ratio over q from Beta(1/2, 1/2) restricted to q < p. K_n(p) is a nonnegative martingale with
mean 1 as well. By Ville's inequality, the probability that K_n(p) reaches 1/alpha at any n is at
most alpha. So the guarantee remains valid if a user looks at the bound after every draw and stops
at any time. With S leaks in n draws,

    K_n(p) = B(S + 1/2, n - S + 1/2) I_p(S + 1/2, n - S + 1/2)
             / [B(1/2, 1/2) I_p(1/2, 1/2) p^S (1 - p)^(n - S)].

*A mean.* For scores in [0, 1], the portfolio mixture (see `portfolio`) is used,
with bets that depend on neither n nor alpha. If all draws of a question have the same mean given
the past, the wealth of these bets is a nonnegative martingale. So Ville's inequality applies in the
same way.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincc, betaln, xlog1py, xlogy

from leakbound.stats.estimate import Array, Counts
from leakbound.stats.evidence import Rows
from leakbound.stats.portfolio import Portfolio, boundary, mean_upper


def beta_mixture_upper(hits: Counts, n: Counts, alpha: float) -> Array:
    """Return the any-time upper bound on p: the largest p with K_n(p) < 1/alpha, [Q].

    The bound is rounded up, and is 1 where S = n. At p <= S/n every likelihood ratio is at most 1.
    Above S/n, K crosses 1/alpha once, upwards. Proof: let J be the prior's distribution function
    and j its density. The slope of ln K at a crossing is (np - S)/(p(1 - p)) - (1 - alpha)
    j(p)/J(p). After multiplication by p(1 - p), the first term increases with p and the subtracted
    term decreases. So the slope is positive at every crossing after the first, but a second
    crossing would be downwards.
    """
    return boundary(lambda p: log_evidence_above(hits, n, p), alpha, hits / n, np.ones(len(hits)))


def beta_mixture_lower(hits: Counts, n: Counts, alpha: float) -> Array:
    """Return the any-time lower bound on p: the smallest p with K_n(p) < 1/alpha, [Q].

    Here K_n is the average over q > p. The bound is rounded down, and is 0 where S = 0.
    """
    return boundary(lambda p: log_evidence_below(hits, n, p), alpha, hits / n, np.zeros(len(hits)))


def portfolio_upper(rows: Rows, alpha: float) -> Array:
    """Return the upper bound at 1 - alpha on the mean of each row, valid at all n, [Q]."""
    return mean_upper(rows, alpha, anytime_bets())


def anytime_bets() -> Portfolio:
    """Return bets independent of n and alpha: b_j = 2^(-j/2), weight .75/(j(j + 1)), j = 1..16.

    The bet b = 1 has the remaining weight.
    """
    j = np.arange(1, 17)
    weights = 0.75 / (j * (j + 1))
    return Portfolio(np.append(2.0 ** (-j / 2), 1.0), np.append(weights, 1 - weights.sum()))


def log_evidence_above(hits: Counts, n: Counts, p: Array) -> Array:
    """Return ln K_n(p), the evidence that the leak probability is below p, 0 < p < 1, [Q]."""
    within = np.asarray(betainc(hits + 0.5, n - hits + 0.5, p), np.float64)
    return _log_evidence(hits, n, p, within, np.arcsin(np.sqrt(p)))


def log_evidence_below(hits: Counts, n: Counts, p: Array) -> Array:
    """Return ln K_n(p), averaged over q > p: the evidence that the leak probability is above p."""
    within = np.asarray(betaincc(hits + 0.5, n - hits + 0.5, p), np.float64)
    return _log_evidence(hits, n, p, within, np.arccos(np.sqrt(p)))


def _log_evidence(hits: Counts, n: Counts, p: Array, within: Array, angle: Array) -> Array:
    """Return ln K_n(p), with q on one side of p.

    `angle` is half of B(1/2, 1/2) times the prior's mass on that side: arcsin(sqrt(p)) for q < p,
    arccos(sqrt(p)) for q > p. `within` underflows only where K < 1, which is on the side of S/n
    that cannot contain the bound.
    """
    with np.errstate(divide="ignore"):
        posterior = betaln(hits + 0.5, n - hits + 0.5) + np.log(within)
    likelihood = xlogy(hits, p) + xlog1py(n - hits, -p)
    return np.asarray(posterior - np.log(2 * angle) - likelihood)
