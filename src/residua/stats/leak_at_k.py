"""leak@k: the expected largest leakage of k draws, E[max(X_1 ... X_k)].

Everything here is an integral over [0, 1] of a function that is constant between scores:
E[max_k] = int 1 - F(x)^k dx, so a band of F bounds it for all k at once, also k > n; and the
unbiased estimate puts 1 - C(i, k)/C(n, k) where i of n draws lie at or below x.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from residua.errors import InputError
from residua.stats.bands import BANDS, Band
from residua.stats.estimand import Estimand, Method, Rule
from residua.stats.estimate import Array, Counts, Estimate, Side
from residua.stats.leakage import Leakage
from residua.stats.order import Seed
from residua.stats.whole import whole


def leak_at_k_bound(
    scores: npt.ArrayLike,
    k: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    method: str | None = None,
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound leak@k for every entry of `k` at once; any k >= 1, also beyond n.

    For i.i.d. draws, n fixed beforehand. `k` is a number, or 1-D and then the last axis of the
    result. Methods: "berk-jones" (default), "paper" (the DKW band). `value` is the unbiased
    estimate, NaN where k exceeds the scored draws; near k = n it may lie above the bound.
    """
    sizes = whole_sizes(k)
    leakage = Leakage.read(scores, counts, missing)
    methods = {key: maximum_method(band, sizes) for key, band in BANDS.items()}
    estimand = Estimand(
        name=name_at(sizes), value=partial(_unbiased_or_nan, k=sizes), methods=methods
    )
    return estimand.estimate(leakage, confidence=confidence, side=side, method=method, seed=seed)


def leak_at_k(
    scores: npt.ArrayLike,
    k: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    missing: npt.ArrayLike = 0,
) -> float | Array | tuple[float | Array, float | Array]:
    """The unbiased estimate of leak@k; with missing draws, its extremes over their scores.

    The mean of the maximum over all subsets of k draws. Raises InputError where k exceeds n,
    missing draws included: no unbiased estimate exists.
    """
    sizes, leakage = whole_sizes(k), Leakage.read(scores, counts, missing)
    if sizes.max() > leakage.n.min():
        raise InputError(
            f"`k` must not exceed the number of draws, got k = {sizes.max()} for n = "
            f"{leakage.n.min()}. Draw more, or use leak_at_k_bound, which allows any k."
        )
    ends = [
        leakage.single_or_all(leakage.each(partial(rule, k=sizes)))
        for rule in (_unbiased_missing_0, unbiased)
    ]
    return (ends[0], ends[1]) if leakage.missing.any() else ends[1]


def worst_of_k(
    scores: npt.ArrayLike, k: int, counts: npt.ArrayLike | None = None, *, seed: Seed = None
) -> float | Array:
    """The naive estimate: the mean maximum of floor(n/k) groups of k shuffled draws.

    Unbiased too, but noisier than `leak_at_k`: n/k is its effective number of groups.
    """
    leakage = Leakage.read(scores, counts).ordered(seed)
    size = int(whole_sizes(k))
    if size > leakage.n.min():
        raise InputError(f"`k` must not exceed the number of draws, got {k} > {leakage.n.min()}.")

    def rule(rows: Leakage) -> Array:
        draws = rows.shuffled(missing=1)[:, : rows.size // size * size]
        return np.asarray(draws.reshape(len(draws), -1, size).max(axis=2).mean(axis=1))

    return leakage.single_or_all(leakage.each(rule))


def maximum_method(band: Band, k: Counts) -> Method:
    """The bounds that a band gives for leak@k."""

    def upper(rows: Leakage, alpha: float) -> Array:
        with np.errstate(divide="ignore"):
            log_cdf = np.log(band.table(rows.size, alpha))
        return integral(rows, rows.seen, -np.expm1(np.multiply.outer(k, log_cdf)))

    def lower(rows: Leakage, alpha: float) -> Array:
        log_cdf = np.log1p(-band.table(rows.size, alpha)[::-1])
        seen = rows.seen + rows.missing[:, None]
        return integral(rows, seen, -np.expm1(np.multiply.outer(k, log_cdf)))

    rules: tuple[Rule, Rule] = (upper, lower)
    return Method(band.name, *rules)


def integral(rows: Leakage, seen: Counts, tail: Array) -> Array:
    """int_0^1 tail[draws at or below x] dx: (Q,), or (Q, K) for a table of K rows (K, n + 1)."""
    if tail.ndim == 1:
        return np.asarray((rows.gaps * tail[seen]).sum(axis=1))
    return np.stack([integral(rows, seen, row) for row in tail], axis=1)


def unbiased(rows: Leakage, k: Counts) -> Array:
    """Missing draws as 1: the larger extreme; the estimate itself where none is missing."""
    return integral(rows, rows.seen, _tails(rows.size, k))


def _unbiased_missing_0(rows: Leakage, k: Counts) -> Array:
    return integral(rows, rows.seen + rows.missing[:, None], _tails(rows.size, k))


def _unbiased_or_nan(rows: Leakage, k: Counts) -> Array:
    possible = k <= rows.size
    return np.where(possible, unbiased(rows, np.where(possible, k, 1)), np.nan)


def _tails(n: int, k: Counts) -> Array:
    return np.reshape([_tail(n, int(size)) for size in k.flat], (*k.shape, n + 1))


def _tail(n: int, k: int) -> Array:
    """tail[i] = chance that a random subset of k out of n reaches beyond the i lowest.

    The i-th lowest is the largest with weight omega_i: omega_n = k/n, and
    omega_{i-1} = omega_i (i - k)/(i - 1). Summing from the top keeps every digit.
    """
    i = np.arange(n, k, -1)
    weights = np.cumprod(np.concatenate([[k / n], (i - k) / (i - 1)]))
    sums = np.concatenate([[0.0], np.cumsum(weights)]).clip(0, 1)
    return np.concatenate([np.ones(k - 1), sums[::-1]])


def name_at(k: Counts) -> str:
    """The estimand's name for one k or several."""
    return f"leak@{int(k)}" if k.ndim == 0 else "leak@k"


def whole_sizes(k: npt.ArrayLike) -> Counts:
    """k as an array, 0-D or 1-D; InputError unless whole numbers >= 1."""
    sizes = whole("k", k)
    if sizes.ndim > 1 or not sizes.size or sizes.min() < 1:
        raise InputError(f"`k` must be a whole number >= 1, or a row of such, got {k!r}.")
    return sizes
