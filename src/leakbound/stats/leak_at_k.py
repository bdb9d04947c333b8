"""leak@k: the expected largest leakage of k draws, E[max(X_1 ... X_k)].

For all k at once it is an integral over [0, 1] of a function that is constant between scores:
E[max_k] = int 1 - F(x)^k dx, so a band of F bounds it at every k, also k > n; and the unbiased
estimate puts 1 - C(i, k)/C(n, k) where i of n draws lie at or below x.

For one k fixed beforehand, the draws in random order are cut into floor(n/k) blocks of k. Their
maxima are i.i.d. with mean leak@k, whatever the law, and betting bounds that mean. What is left
over, fewer than k draws, is dropped.

Of a scorer of 0 and 1 leak@k is 1 - (1 - p)^k, which grows with p: a bound of p is carried over to
every k at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats import betting
from leakbound.stats.about import About, parameter_of
from leakbound.stats.estimand import Estimand, Method, Rule
from leakbound.stats.estimate import Array, Counts, Estimate, Side, plain
from leakbound.stats.leakage import Leakage
from leakbound.stats.order import Seed
from leakbound.stats.proportion import proportion_bound
from leakbound.stats.tail import BANDS, Band
from leakbound.stats.whole import whole

BLOCKS = "block-maxima"
BAND = "berk-jones"
FEWEST_GROUPS = 4  # n/k from which leak@k has a point estimate
ABOVE, BELOW = 4, 16  # least n/k, and least n/k^2, from which blocks are narrower on the whole


def leak_at_k_bound(
    scores: npt.ArrayLike,
    k: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    method: str | None = None,
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound leak@k for i.i.d. draws, n fixed beforehand; any k >= 1, also beyond n.

    The default for several k is "berk-jones". For one k it follows from n and k alone, for each
    end of each row: block maxima from n = 4k on above and from n = 16k^2 on below, else
    "berk-jones". Measured over ten laws, blocks are narrower from there on, on the whole.

    Args:
        scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
        k: of how many draws the largest is meant, a whole number >= 1, fixed beforehand; or [K],
            the last axis then, and the bounds hold for every k at once.
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        method: "block-maxima" (one k <= n: betting on the largest score of each block of k draws,
            in the order that `seed` keys), "berk-jones" or "paper" (the DKW band), both for every k
            at once; None: the default above.
        missing: draws without a score, [Q] or one number: 1 above and 0 below.
        seed: of the order in which bets meet the draws, [Q] or one number; None: a random one.

    Returns:
        The estimate, in [0, 1]: of each question, and of each k where there are several. `value` is
            the unbiased estimate, NaN where k exceeds a quarter of the scored draws. It uses every
            subset of k draws, not the blocks only, and may lie outside a narrow interval.

    Raises:
        InputError: scores, counts or a k that cannot be, a confidence, side, method or seed that is
            none, "block-maxima" for several k or a k beyond n, or a confidence too near 1 for
            "berk-jones".
    """
    rows, sizes = Leakage.read(scores, counts, missing), whole_sizes(k)
    return leak_of(rows, sizes, confidence=confidence, side=side, method=method, seed=seed)


def leak_of(
    rows: Leakage,
    sizes: Counts,
    *,
    confidence: float,
    side: Side,
    method: str | None = None,
    seed: Seed = None,
) -> Estimate:
    """`leak_at_k_bound` of draws and sizes as they are read."""
    methods = {key: maximum_method(band, sizes) for key, band in BANDS.items()}
    if method == BLOCKS:
        _require_blocks(sizes, rows.n)
    if sizes.ndim == 0:
        methods = _of_one_k(int(sizes), rows.n, side, methods)
    estimand = Estimand(
        about=leak_at(sizes), value=partial(_unbiased_or_nan, k=sizes), methods=methods
    )
    return estimand.estimate(rows, confidence=confidence, side=side, method=method, seed=seed)


def leak_at_k_proportion_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    k: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    method: str | None = None,
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound the chance 1 - (1 - p)^k of a leak among k i.i.d. draws, for every k at once.

    It carries over the bound on p of `proportion_bound`.

    Args:
        hits: leaks of each question, [Q] or one number.
        n: draws of each question, [Q] or one number, those `missing` among them; at least 1.
        k: among how many draws, a whole number >= 1, also beyond n; or [K], the last axis then.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        method: "clopper-pearson" (default; n fixed beforehand) or "any-time" (valid at any look,
            for draws of one query or an allocated pool, not for a pool of different questions).
        missing: draws without a score, [Q] or one number: leaks above and none below.

    Returns:
        The estimate, in [0, 1]: of each question, and of each k where there are several. `value` is
            that of `leak_at_k_proportion`, NaN where k exceeds a quarter of the scored draws.

    Raises:
        InputError: counts or a k that cannot be, or a confidence, side or method that is none.
    """
    sizes = whole_sizes(k)
    leak = proportion_bound(
        hits, n, confidence=confidence, side=side, method=method, missing=missing
    )
    scored = np.subtract(n, missing)
    value = supported(leak_at_k_proportion(hits, scored, sizes), sizes, scored)
    return replace(carried(leak, sizes), value=plain(value))


def leak_at_k_proportion(hits: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> Array:
    """The unbiased estimate 1 - C(n - hits, k)/C(n, k); NaN where k exceeds n.

    Args:
        hits: leaks of each question, [Q] or one number.
        n: scored draws of each question, [Q] or one number.
        k: among how many draws, a whole number >= 1; or [K], the last axis then.

    Returns:
        The estimates, in [0, 1]: of each question, and of each k where there are several.

    Raises:
        InputError: numbers that are not whole or below 0, more hits than draws, or a k that is
            none.
    """
    hits, n = np.broadcast_arrays(whole("hits", hits), whole("n", n))
    if (hits > n).any():
        raise InputError(f"`hits` must not exceed `n`, got {hits[hits > n][0]} hits.")
    axes = (..., *[np.newaxis] * np.ndim(k))
    return np.asarray(_subset_hit(hits[axes], n[axes], whole_sizes(k)))


def leak_at_k(
    scores: npt.ArrayLike,
    k: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    missing: npt.ArrayLike = 0,
) -> float | Array | tuple[float | Array, float | Array]:
    """The unbiased estimate of leak@k; with missing draws, its extremes over their scores.

    The mean of the maximum over all subsets of k draws.

    Args:
        scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
        k: of how many draws the largest is meant, a whole number from 1 to the smallest n; or [K],
            the last axis then.
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        missing: draws without a score, [Q] or one number.

    Returns:
        The estimate: of each question, and of each k where there are several; where draws are
            missing a pair of such, with all of them 0 and with all of them 1.

    Raises:
        InputError: scores or counts that cannot be, or a k that is none or exceeds n, missing draws
            included: no unbiased estimate exists.
    """
    sizes, leakage = whole_sizes(k), Leakage.read(scores, counts, missing)
    if sizes.max() > leakage.n.min():
        raise InputError(
            f"`k` must not exceed the number of draws, got k = {sizes.max()} for n = "
            f"{leakage.n.min()}. Draw more, or use leak_at_k_bound, which allows any k."
        )

    def missing_as(score: int) -> float | Array:
        def rule(rows: Leakage) -> Array:
            seen = rows.seen + (1 - score) * rows.missing[:, None]
            return integral(rows, seen, _tails(rows.size, sizes))

        return leakage.single_or_all(leakage.each(rule))

    return (missing_as(0), missing_as(1)) if leakage.missing.any() else missing_as(1)


def worst_of_k(
    scores: npt.ArrayLike, k: int, counts: npt.ArrayLike | None = None, *, seed: Seed = None
) -> float | Array:
    """The naive estimate: the mean maximum of floor(n/k) groups of k shuffled draws.

    Unbiased too, but noisier than `leak_at_k`: n/k is its effective number of groups.

    Args:
        scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
        k: draws of a group, a whole number from 1 to the smallest n.
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        seed: of the order in which the draws are grouped, [Q] or one number; None: a random one.

    Returns:
        The estimate; [Q] where `scores` are [Q, m].

    Raises:
        InputError: scores or counts that cannot be, a k that is none or exceeds n, or a seed that
            is none.
    """
    leakage = Leakage.read(scores, counts).ordered(seed)
    size = int(whole_sizes(k))
    if size > leakage.n.min():
        raise InputError(f"`k` must not exceed the number of draws, got {k} > {leakage.n.min()}.")

    def rule(rows: Leakage) -> Array:
        return np.asarray(block_maxima(rows.shuffled(missing=1), size).mean(axis=1))

    return leakage.single_or_all(leakage.each(rule))


def carried(leak: Estimate, k: npt.ArrayLike) -> Estimate:
    """Carry a bound of p over to 1 - (1 - p)^k, for every k at once: it increases in p.

    Args:
        leak: an estimate of the leak probability of a query, a question, or the worst of several,
            which is the worst for every k.
        k: among how many draws, a whole number >= 1; or [K], the last axis of the result then.

    Returns:
        The estimate of leak@k, in [0, 1]; confidence, side and evidence are those of `leak`. Of
            one that is not exact `value` is NaN where k exceeds a quarter of the scored draws.

    Raises:
        InputError: an estimate of anything else, or a k that is none.
    """
    about, sizes = leak.about, whole_sizes(k)
    of_one = about.scope in ("query", "question", "worst question") and about.beyond is None
    if about.quantity != "leak probability" or not of_one:
        raise InputError(
            f"`leak` must bound the leak probability of one question, got {leak.estimand!r}. Of "
            "their mean use mean_leak_at_k_of_counts."
        )
    value, lower, upper = (among(p, sizes) for p in (leak.value, leak.lower, leak.upper))
    if leak.confidence < 1:
        value = plain(supported(value, sizes, np.subtract(leak.n, leak.missing)))
    about = replace(about, quantity="leak@k", parameter=parameter_of(sizes))
    return replace(leak, about=about, value=value, lower=lower, upper=upper)


def supported(values: float | Array, k: Counts, n: npt.ArrayLike) -> Array:
    """Point estimates of leak@k; NaN where n draws make fewer than `FEWEST_GROUPS` of k."""
    draws = np.asarray(n)[(..., *[np.newaxis] * k.ndim)]
    return np.where(FEWEST_GROUPS * k <= draws, values, np.nan)


def among(p: float | Array, k: Counts) -> float | Array:
    """1 - (1 - p)^k, with k as the last axis if it has one."""
    with np.errstate(divide="ignore"):
        return plain(-np.expm1(np.multiply.outer(np.log1p(np.negative(p)), k)))


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


def block_maxima(draws: Array, k: int) -> Array:
    """The largest of each whole block of k among ordered draws (Q, n): (Q, n // k)."""
    whole_blocks = draws[:, : draws.shape[1] // k * k]
    return np.asarray(whole_blocks.reshape(len(draws), -1, k).max(axis=2))


def _blocks(k: int) -> Method:
    """The bounds of leak@k by betting on the maxima of blocks, i.i.d. with that mean."""

    def upper(rows: Leakage, alpha: float) -> Array:
        return betting.mean_upper(block_maxima(rows.shuffled(missing=1), k), alpha)

    def lower(rows: Leakage, alpha: float) -> Array:
        draws = 1 - rows.mirrored().shuffled(missing=1)
        return 1 - betting.mean_upper(1 - block_maxima(draws, k), alpha)

    return Method("betting on block maxima", upper, lower, shuffles=True)


def _require_blocks(k: Counts, n: Counts) -> None:
    """Refuse block maxima for several k, and where there is no block of k draws."""
    if k.ndim:
        raise InputError(
            f"method {BLOCKS!r} holds for one `k` fixed beforehand, got a row of {k.size}. Give "
            "one number, and each its share of alpha; or leave `method` out."
        )
    if n.min() < k:
        raise InputError(
            f"method {BLOCKS!r} needs a `k` of at most n, got k = {k} for n = {n.min()}. Draw "
            "more, or leave `method` out."
        )


def _of_one_k(k: int, n: Counts, side: Side, bands: Mapping[str, Method]) -> dict[str, Method]:
    """The methods for one k, the default first: of rows with these n, and the ends of `side`."""
    blocks = _blocks(k)
    above, below = _ByN(ABOVE * k, blocks, bands[BAND]), _ByN(BELOW * k**2, blocks, bands[BAND])
    high, low = above.name(n), below.name(n)
    name = low if side == "lower" else high
    if side == "both" and low != high:
        name = f"{high} above, {low} below"
    default = Method(
        name,
        lambda rows, alpha: above.of(rows.size).upper(rows, alpha),
        lambda rows, alpha: below.of(rows.size).below(rows, alpha),
        shuffles=blocks.name in name,
    )
    return {"default": default, BLOCKS: blocks, **bands}


@dataclass(frozen=True, slots=True)
class _ByN:
    """One method from so many draws on, else another."""

    least: int
    many: Method
    few: Method

    def of(self, n: int) -> Method:
        """The method for rows of this n."""
        return self.many if n >= self.least else self.few

    def name(self, n: Counts) -> str:
        """The method, or the two, that rows of these n are bounded by."""
        return " or ".join(dict.fromkeys(self.of(int(size)).name for size in (n.min(), n.max())))


def integral(rows: Leakage, seen: Counts, tail: Array) -> Array:
    """int_0^1 tail[draws at or below x] dx: (Q,), or (Q, K) for a table of K rows (K, n + 1)."""
    if tail.ndim == 1:
        return np.asarray((rows.gaps * tail[seen]).sum(axis=1))
    return np.stack([integral(rows, seen, row) for row in tail], axis=1)


def unbiased(rows: Leakage, k: Counts) -> Array:
    """Missing draws as 1: the larger extreme; the estimate itself where none is missing."""
    return integral(rows, rows.seen, _tails(rows.size, k))


def _unbiased_or_nan(rows: Leakage, k: Counts) -> Array:
    return supported(unbiased(rows, np.minimum(k, rows.size)), k, rows.size)


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


@np.vectorize(otypes=[np.float64])
def _subset_hit(hits: int, n: int, k: int) -> float:
    """1 - prod_{j < hits} (1 - k/(n - j)); hits and k may change places."""
    if k > n:
        return float("nan")
    if hits > n - k:
        return 1.0
    few, many = min(hits, k), max(hits, k)
    return float(-np.expm1(np.log1p(-many / (n - np.arange(few))).sum())) + 0.0  # no -0.0


def leak_at(k: Counts) -> About:
    """About leak@k, of one k or several."""
    return About(quantity="leak@k", parameter=parameter_of(k))


def whole_sizes(k: npt.ArrayLike) -> Counts:
    """k as an array, 0-D or 1-D; InputError unless whole numbers >= 1."""
    sizes = whole("k", k)
    if sizes.ndim > 1 or not sizes.size or sizes.min() < 1:
        raise InputError(f"`k` must be a whole number >= 1, or a row of such, got {k!r}.")
    return sizes
