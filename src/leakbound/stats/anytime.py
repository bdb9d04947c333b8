"""Any-time bounds on a probability and a mean, valid at all numbers of draws simultaneously.

*A probability.* For i.i.d. draws with leak probability p, the likelihood of the
draws at q over that at p is a nonnegative martingale with mean 1, and so is its
average K_n(p) over q drawn from Beta(1/2, 1/2) cut to q < p. K_n(p) therefore
ever reaches 1/alpha with probability at most alpha (Ville). The guarantee
remains valid if a user looks at the bound after every draw and stops at any
time. With S leaks in n draws

    K_n(p) = B(S + 1/2, n - S + 1/2) I_p(S + 1/2, n - S + 1/2)
             / [B(1/2, 1/2) I_p(1/2, 1/2) p^S (1 - p)^(n - S)].

*A mean.* For scores in [0, 1], the portfolio mixture (see `portfolio`) is used,
with bets that depend on neither n nor alpha. If all draws of a row have the
same mean given the past, its wealth is a nonnegative martingale too.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincc, betaln, xlog1py, xlogy

from leakbound.stats.estimate import Array, Counts
from leakbound.stats.evidence import Rows
from leakbound.stats.portfolio import Portfolio, boundary, mean_upper


def beta_mixture_upper(hits: Counts, n: Counts, alpha: float) -> Array:
    """Return the largest p with K_n(p) < 1/alpha, rounded up, and 1 where S = n: (Q,).

    At p <= S/n every likelihood ratio is at most 1. Above, K crosses 1/alpha once, upwards: the
    slope of ln K at a crossing is (np - S)/(p(1 - p)) - (1 - alpha) j(p)/J(p), with J the prior's
    distribution function and j its density; times p(1 - p), the first term rises with p and the
    second falls.
    """
    return boundary(lambda p: log_evidence_above(hits, n, p), alpha, hits / n, np.ones(len(hits)))


def beta_mixture_lower(hits: Counts, n: Counts, alpha: float) -> Array:
    """Return the smallest p with K_n(p) < 1/alpha for q > p, rounded down; 0 where S = 0."""
    return boundary(lambda p: log_evidence_below(hits, n, p), alpha, hits / n, np.zeros(len(hits)))


def portfolio_upper(rows: Rows, alpha: float) -> Array:
    """Return the upper bound at 1 - alpha on the mean of each row, valid at all n: (Q,)."""
    return mean_upper(rows, alpha, anytime_bets())


def anytime_bets() -> Portfolio:
    """Return bets free of n and alpha: b_j = 2^(-j/2) with weight .75/(j(j + 1)), j = 1..16.

    The remaining weight is on b = 1.
    """
    j = np.arange(1, 17)
    weights = 0.75 / (j * (j + 1))
    return Portfolio(np.append(2.0 ** (-j / 2), 1.0), np.append(weights, 1 - weights.sum()))


def log_evidence_above(hits: Counts, n: Counts, p: Array) -> Array:
    """Return ln K_n(p), the evidence that the leak probability is below p, 0 < p < 1: (Q,)."""
    within = np.asarray(betainc(hits + 0.5, n - hits + 0.5, p), np.float64)
    return _log_evidence(hits, n, p, within, np.arcsin(np.sqrt(p)))


def log_evidence_below(hits: Counts, n: Counts, p: Array) -> Array:
    """Return ln K_n(p) with q > p: the evidence that the leak probability is above p."""
    within = np.asarray(betaincc(hits + 0.5, n - hits + 0.5, p), np.float64)
    return _log_evidence(hits, n, p, within, np.arccos(np.sqrt(p)))


def _log_evidence(hits: Counts, n: Counts, p: Array, within: Array, angle: Array) -> Array:
    """Use B(1/2, 1/2) I_p(1/2, 1/2) = 2 arcsin(sqrt(p)), and 2 arccos(sqrt(p)) for the rest.

    `within` underflows only where K < 1, on the side of S/n without the bound.
    """
    with np.errstate(divide="ignore"):
        posterior = betaln(hits + 0.5, n - hits + 0.5) + np.log(within)
    likelihood = xlogy(hits, p) + xlog1py(n - hits, -p)
    return np.asarray(posterior - np.log(2 * angle) - likelihood)
