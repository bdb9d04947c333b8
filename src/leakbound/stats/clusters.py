"""Bounds for clusters: n queries, drawn i.i.d. from a distribution, with several outputs each.

Outputs to one query are dependent, and outputs to different queries are
independent. So the sample size is the number of queries n, not the number of outputs. Let F be the
distribution function of the score of one output to a fresh query. Let F_i(x) be the fraction of
query i's outputs that score at most x, and Z_i the mean score of these outputs. The number of
outputs of each query must not depend on the scores. Given these numbers, the F_i are independent
with E F_i(x) = F(x). The Z_i are also independent, with E Z_i = E[X].

*Mean.* Betting needs independent draws in [0, 1] with the same mean. The Z_i satisfy this
condition.

*Band.* Let G = (1/n) sum_i F_i. Pick one output of every query at random. These
n outputs are i.i.d. from F, and their empirical distribution function H has E[H
| all outputs] = G. Let D(H) >= 0 be convex in H, with P(D(H) > s) known for i.i.d. draws. By
Jensen's inequality, D(G) <= E[D(H) | all outputs]. Hence E psi(D(G)) <= E psi(D(H)) for every
convex nondecreasing psi >= 0. Let psi(s) = (s - t + 1)+, which is 1 at t. Then Markov's inequality
gives

    P(D(G) >= t) <= E psi(D(H)) = int_{t-1}^inf P(D(H) > s) ds.                             (1)

(The comparison of tails follows Panchenko 2003.) For D(H) = n sup_x KL(max(H, F) || F) (Berk and
Jones) the tail P(D(H) > s) is known exactly. The code replaces the integral in (1) by a larger sum.
By symmetry, there is also a band on the other side of G. Each band is valid for all x
simultaneously.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import rel_entr

from leakbound.stats.arrays import bisected
from leakbound.stats.estimand import Terms, bounded
from leakbound.stats.estimate import Array, Estimate, plain
from leakbound.stats.evidence import Rows
from leakbound.stats.leak_at_k import supported
from leakbound.stats.mean import MEAN
from leakbound.stats.order import Keys
from leakbound.stats.quantity import Quantity
from leakbound.stats.tail import BERK_JONES, coverage, require_solvable

HALVINGS = 60  # bisection steps to invert a divergence
STEP = 1 / 8  # step of a sum that is at least the integral in (1)


def cluster_mean(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound E[X] by betting on the mean score of each query's outputs.

    A missing draw counts as 1 in an upper bound and as 0 in a lower bound. `value` is the mean over
    the queries of each query's mean score; draws without a score, and queries without a scored
    draw, are left out.
    """
    bet = MEAN.usual
    keys = Keys.read(terms.seed, 1)
    below, above = (replace(Rows.of(_means(rows, missing=score)), keys=keys) for score in (0, 1))
    return bounded(
        quantity.about(binary=rows.binary),
        rows,
        _over_scored(rows, _means(rows.scored(), missing=0)),
        lambda alpha: bet.lower(below, alpha)[0],
        lambda alpha: bet.upper(above, alpha)[0],
        terms,
        together=True,
        method=f"{bet.name} on the means of {len(rows.n)} queries",
        seed=keys.one,
    )


def cluster_tail(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound Pr[X > x] for every x simultaneously, by the band in the module docstring."""
    x = quantity.points

    def of(cdf: Array) -> Array:
        return np.where(x >= 1, 0.0, 1 - cdf.reshape(x.shape))

    return _from_band(rows, quantity, np.atleast_1d(x), of, terms)


def cluster_leak_at_k(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound leak@k = int_0^1 1 - F(x)^k dx for every k simultaneously.

    `value` uses G in place of F, so it is on average too small. It is NaN if k exceeds n/4.
    """
    k, knots = quantity.sizes, np.unique(np.append(rows.values, [0.0, 1.0]))

    def of(cdf: Array) -> Array:
        with np.errstate(divide="ignore"):
            powers = np.multiply.outer(np.atleast_1d(k), np.log(cdf))
        return np.reshape(-np.expm1(powers) @ np.diff(knots), k.shape)

    made = _from_band(rows, quantity, knots[:-1], of, terms)
    return replace(made, value=plain(supported(made.value, k, len(rows.n))))


def berk_jones(share: Array, n: int, alpha: float) -> Array:
    """Return the smallest F in [0, G] with n KL(G || F) <= t, rounded down; `critical` returns t.

    Raises InputError for an alpha below 1e-11, like the band for independent draws.
    """
    require_solvable(alpha)
    return _within(share, n, critical(n, alpha))


@lru_cache(maxsize=256)
def critical(n: int, alpha: float) -> float:
    """Return a t at which the sum for (1) is at most alpha, for the Berk-Jones band over n queries.

    The sum starts at a large s, where P(D(H) > s) <= n e^-s by a union bound over the n steps of H.
    """
    steps = np.arange(1, n + 1) / n
    s = math.log(1000 * n / alpha)
    area = n * math.exp(-s)
    while s >= STEP:
        # A decreasing function is largest at the left end of the interval [s - STEP, s].
        area += STEP * (1 - coverage(_within(steps, n, s - STEP)))
        if not area <= alpha:
            break
        s -= STEP
    return s + 1


def _within(share: Array, n: int, limit: float) -> Array:
    """Return the smallest p in [0, share] with n KL(share || p) <= limit, rounded down."""

    def far(p: Array) -> npt.NDArray[np.bool_]:
        return np.asarray(n * (rel_entr(share, p) + rel_entr(1 - share, 1 - p)) > limit)

    return bisected(far, np.zeros_like(share), share, HALVINGS)[0]


def _from_band(
    rows: Rows, quantity: Quantity, x: Array, of: Callable[[Array], Array], terms: Terms
) -> Estimate:
    """Bound a quantity that decreases in F; `of` computes it from F at the points `x`, [K].

    A missing draw counts as 1 in an upper bound and as 0 in a lower bound.
    """
    queries, seen, n = len(rows.n), rows.seen_at(x), rows.n[:, None]
    least = (seen / n).mean(axis=0)
    above = ((n - rows.missing[:, None] - seen) / n).mean(axis=0)
    with np.errstate(invalid="ignore"):
        shares = seen / rows.scored().n[:, None]
    return bounded(
        quantity.about(),
        rows,
        of(_over_scored(rows, shares)),
        lambda alpha: of(1 - berk_jones(above, queries, alpha)),
        lambda alpha: of(berk_jones(least, queries, alpha)),
        terms,
        together=True,
        method=f"{BERK_JONES.name} over {queries} queries",
    )


def _means(rows: Rows, *, missing: int) -> Array:
    """Return the mean score of each query's draws, NaN for a query without draws, [Q]."""
    total = (rows.counts * rows.values).sum(axis=1) + missing * rows.missing
    with np.errstate(invalid="ignore"):
        return np.asarray(total / rows.n)


def _over_scored(rows: Rows, parts: Array) -> Array:
    """Return the mean over the queries with a scored draw; NaN if there is no such query."""
    scored = parts[rows.scored().n > 0]
    return np.asarray(scored.mean(axis=0) if len(scored) else np.full(parts.shape[1:], np.nan))
