"""leak@k: the expected largest score of k draws, E[max(X_1 ... X_k)].

leak@k is an integral over [0, 1]: E[max_k] = int 1 - F(x)^k dx, with F the
distribution function of a score. So a band for F bounds leak@k for every k,
including k > n. The unbiased estimate replaces 1 - F(x)^k by 1 - C(i, k)/C(n,
k) if i of n draws are at or below x. Both integrands are constant between
scores.

For one k fixed in advance, the draws in random order are cut into floor(n/k) blocks of k. The
maxima of the blocks are i.i.d. with mean leak@k, for any distribution, and betting bounds that
mean. The remaining draws, of which there are fewer than k, are dropped.

For a binary scorer with leak probability p, leak@k is 1 - (1 - p)^k, which
increases in p. So a bound of p gives bounds of leak@k for every k
simultaneously.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats import betting
from leakbound.stats.about import parameter_of
from leakbound.stats.estimand import Estimand, Method, Terms
from leakbound.stats.estimate import Array, Counts, Estimate, Side, plain
from leakbound.stats.evidence import Rows
from leakbound.stats.order import Seed
from leakbound.stats.proportion import PROPORTION
from leakbound.stats.quantity import Quantity, whole_sizes
from leakbound.stats.tail import BERK_JONES, DKW, Band

FEWEST_GROUPS = 4  # smallest n/k at which leak@k has a point estimate
ABOVE, BELOW = 4, 16  # smallest n/k (upper), n/k^2 (lower) for bounds by blocks


def largest_of_k(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound leak@k for i.i.d. draws, n fixed in advance; k may be any whole number, also above n.

    The Berk-Jones band bounds several k; with the method "paper" the DKW band does. Both bands are
    valid for every k simultaneously. For a single k, only n and k determine the method. Upper
    bounds use block maxima if n >= 4k, lower bounds if n >= 16k^2; otherwise the band is used. From
    these n on, block maxima give narrower bounds on average, measured over ten distributions.
    `value` is the unbiased estimate, NaN where k exceeds a quarter of the scored draws. The
    estimate uses every subset of k draws, not only the blocks, so it may be outside a narrow
    interval.
    """
    sizes = quantity.sizes
    band = maximum_method(BERK_JONES, sizes)
    estimand = Estimand(
        about=quantity.about(),
        value=lambda rows: supported(
            unbiased(rows, np.minimum(sizes, rows.size)), sizes, rows.size
        ),
        usual=band if sizes.ndim else _of_one_k(int(sizes), rows.n, terms.side, band),
        paper=maximum_method(DKW, sizes),
    )
    return estimand(rows, quantity, terms)


def leak_among_k(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound 1 - (1 - p)^k, the probability of a leak in k i.i.d. draws, for every k simultaneously.

    The bound is converted from a bound on the leak probability p. `value` is the unbiased estimate,
    NaN where k exceeds a quarter of the scored draws.
    """
    sizes, scored = quantity.sizes, rows.scored().n
    leak = PROPORTION(rows, quantity, terms)
    value = supported(_chances(rows.hits, scored, sizes), sizes, scored)
    return replace(carried(leak, sizes), value=rows.single_or_all(value))


def leak_at_k(rows: Rows, k: npt.ArrayLike) -> float | Array:
    """Return the unbiased estimate of leak@k over the scored draws.

    The estimate is the mean, over all subsets of k draws, of the largest score in the subset. For a
    binary scorer this is 1 - C(n - hits, k) / C(n, k).

    Args:
        rows: the draws.
        k: the number of draws in a subset, from 1 to the smallest number of scored draws; or [K]
            such numbers, which form the last axis of the result.

    Returns:
        The estimate, one per question and, for several k, one per k.

    Raises:
        InputError: an invalid k, or a k above the number of scored draws, where no unbiased
            estimate exists.
    """
    sizes, scored = whole_sizes(k), rows.scored()
    if sizes.max() > scored.n.min():
        raise InputError(
            f"`k` must not exceed the number of scored draws, got k = {sizes.max()} for n = "
            f"{scored.n.min()}. Draw more, or bound leak_at(k), which allows any k."
        )
    if rows.binary:
        return rows.single_or_all(_chances(scored.hits, scored.n, sizes))
    return rows.single_or_all(scored.each(partial(unbiased, k=sizes)))


def worst_of_k(rows: Rows, k: int, *, seed: Seed = None) -> float | Array:
    """Return the naive estimate of leak@k: the mean maximum of floor(n/k) groups of k draws.

    This estimate is unbiased, like `leak_at_k`, but noisier, because it averages only n/k groups.

    Args:
        rows: the draws; none may be missing.
        k: the number of draws in a group, a whole number from 1 to the smallest n.
        seed: the seed of the random order in which the draws are grouped, [Q] or one number; None:
            a random seed.

    Returns:
        The estimate; [Q] for several questions.

    Raises:
        InputError: a k that is invalid or exceeds n, missing draws, or an invalid seed.
    """
    size = int(whole_sizes(k))
    if rows.missing.any() or size > rows.n.min():
        raise InputError(
            f"`k` must not exceed the number of draws, and no draw may be missing, got k = {k} for "
            f"n = {rows.n.min()}, and at most {rows.missing.max()} missing draws per question."
        )

    def rule(rows: Rows) -> Array:
        return np.asarray(block_maxima(rows.shuffled(missing=1), size).mean(axis=1))

    return rows.single_or_all(rows.ordered(seed).each(rule))


def carried(leak: Estimate, k: npt.ArrayLike, draws: npt.ArrayLike | None = None) -> Estimate:
    """Convert a bound of p to a bound of leak@k = 1 - (1 - p)^k, for every k simultaneously.

    Args:
        leak: an estimate of the leak probability p of a query, of a question, or of the worst
            question. This question is the worst for every k, because leak@k increases in p.
        k: the number of draws, a whole number >= 1; or [K] such numbers, which form the last axis
            of the result.
        draws: the number of draws behind the value of `leak`; None: the scored draws.

    Returns:
        The estimate of leak@k, in [0, 1], with the confidence, side and evidence of `leak`. If
            `leak` is not exact, `value` is NaN where k exceeds a quarter of `draws`.

    Raises:
        InputError: an estimate of a quantity that is not a leak probability, or an invalid k.
    """
    about, sizes = leak.about, whole_sizes(k)
    of_one = about.scope in ("query", "question", "worst question") and about.beyond is None
    if about.quantity != "leak probability" or not of_one:
        raise InputError(
            f"`leak` must bound the leak probability of one question, got {leak.estimand!r}. For "
            "the mean use `mean_leak_at_k_of_counts`."
        )
    value, lower, upper = (among(p, sizes) for p in (leak.value, leak.lower, leak.upper))
    if leak.confidence < 1:
        scored = np.subtract(leak.n, leak.missing) if draws is None else draws
        value = plain(supported(value, sizes, scored))
    about = replace(about, quantity="leak@k", parameter=parameter_of(sizes))
    return replace(leak, about=about, value=value, lower=lower, upper=upper)


def supported(values: float | Array, k: Counts, n: npt.ArrayLike) -> Array:
    """Return point estimates of leak@k; NaN if n draws form fewer than `FEWEST_GROUPS` groups."""
    draws = np.asarray(n)[(..., *[np.newaxis] * k.ndim)]
    return np.where(FEWEST_GROUPS * k <= draws, values, np.nan)


def among(p: float | Array, k: Counts) -> float | Array:
    """Return 1 - (1 - p)^k, with k as the last axis if there are several k."""
    with np.errstate(divide="ignore"):
        return plain(-np.expm1(np.multiply.outer(np.log1p(np.negative(p)), k)))


def maximum_method(band: Band, k: Counts) -> Method:
    """Return the method that bounds leak@k by a band."""

    def upper(rows: Rows, alpha: float) -> Array:
        with np.errstate(divide="ignore"):
            log_cdf = np.log(band.table(rows.size, alpha))
        return integral(rows, rows.seen, -np.expm1(np.multiply.outer(k, log_cdf)))

    def lower(rows: Rows, alpha: float) -> Array:
        log_cdf = np.log1p(-band.table(rows.size, alpha)[::-1])
        seen = rows.seen + rows.missing[:, None]
        return integral(rows, seen, -np.expm1(np.multiply.outer(k, log_cdf)))

    return Method(band.name, upper, lower)


def block_maxima(draws: Array, k: int) -> Array:
    """Return the largest score of each complete block of k of the ordered draws [Q, n]."""
    whole_blocks = draws[:, : draws.shape[1] // k * k]
    return np.asarray(whole_blocks.reshape(len(draws), -1, k).max(axis=2))


def blocks_of(k: int) -> Method:
    """Return the method that bounds leak@k by betting on block maxima, whose mean is leak@k."""

    def upper(rows: Rows, alpha: float) -> Array:
        return betting.mean_upper(block_maxima(rows.shuffled(missing=1), k), alpha)

    def lower(rows: Rows, alpha: float) -> Array:
        draws = 1 - rows.mirrored().shuffled(missing=1)
        return 1 - betting.mean_upper(1 - block_maxima(draws, k), alpha)

    return Method("betting on block maxima", upper, lower, shuffles=True)


def _of_one_k(k: int, n: Counts, side: Side, band: Method) -> Method:
    """Return the method, blocks or the band, for rows with these n and for the bounds of `side`."""
    blocks = blocks_of(k)

    def of(n: int, least: int) -> Method:
        return blocks if n >= least else band

    def named(least: int) -> str:
        names = (of(int(size), least).name for size in (n.min(), n.max()))
        return " or ".join(dict.fromkeys(names))

    above, below = ABOVE * k, BELOW * k**2
    high, low = named(above), named(below)
    name = low if side == "lower" else high
    if side == "both" and low != high:
        name = f"{high} above, {low} below"
    return Method(
        name,
        lambda rows, alpha: of(rows.size, above).upper(rows, alpha),
        lambda rows, alpha: of(rows.size, below).lower(rows, alpha),
        shuffles=blocks.name in name,
    )


def integral(rows: Rows, seen: Counts, tail: Array) -> Array:
    """Integrate tail[number of draws <= x] over x, as [Q]; as [Q, K] for a `tail` [K, n + 1]."""
    if tail.ndim == 1:
        return np.asarray((rows.gaps * tail[seen]).sum(axis=1))
    return np.stack([integral(rows, seen, row) for row in tail], axis=1)


def unbiased(rows: Rows, k: Counts) -> Array:
    """Return the unbiased estimate of leak@k; each missing draw counts as 1."""
    tails = np.reshape([_tail(rows.size, int(size)) for size in k.flat], (*k.shape, rows.size + 1))
    return integral(rows, rows.seen, tails)


def _tail(n: int, k: int) -> Array:
    """Return tail[i], the probability that k random draws of n are not all among the i lowest.

    The i-th lowest draw is the largest of the k draws with probability omega_i, where omega_n = k/n
    and omega_{i-1} = omega_i (i - k)/(i - 1). The sum starts at i = n, to lose no precision.
    """
    i = np.arange(n, k, -1)
    weights = np.cumprod(np.concatenate([[k / n], (i - k) / (i - 1)]))
    sums = np.concatenate([[0.0], np.cumsum(weights)]).clip(0, 1)
    return np.concatenate([np.ones(k - 1), sums[::-1]])


def _chances(hits: Counts, n: Counts, k: Counts) -> Array:
    """Return 1 - C(n - hits, k)/C(n, k), or NaN if k > n; several k form the last axis."""
    axes = (..., *[np.newaxis] * k.ndim)
    return np.asarray(_subset_hit(hits[axes], n[axes], k))


@np.vectorize(otypes=[np.float64])
def _subset_hit(hits: int, n: int, k: int) -> float:
    """Return 1 - prod_{j < hits} (1 - k/(n - j)), which is symmetric in hits and k."""
    if k > n:
        return float("nan")
    if hits > n - k:
        return 1.0
    few, many = min(hits, k), max(hits, k)
    return float(-np.expm1(np.log1p(-many / (n - np.arange(few))).sum())) + 0.0  # no -0.0
