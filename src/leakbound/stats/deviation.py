"""The standard deviation of a query's leakage, and the expectation deviation score made of it.

The latter is mean + rho * standard deviation, the mean and the deviation each at half of alpha.

Departs from Scholten et al. (2025), Metric 4: as printed it drops the atom at X = 0 and is no
upper bound (on a fair coin it lies below the truth in every run). `"grid"` is its corrected
form, kept for comparison; `"paper"` is the tightest bound over the same band.

*Of a scorer of 0 and 1* with leak probability p they are sqrt(p (1 - p)) and f(p) = p +
rho sqrt(p (1 - p)), and extremes over the interval of p bound them. Neither is monotone in p, both
are concave: f rises up to p* = (1 + 1/sqrt(1 + rho^2))/2 and falls beyond, the deviation alike with
p* = 1/2.

Above: with [L, U] holding p at 1 - alpha (alpha/2 on each side), f(p) is at most the largest f over
[L, U]: f(p*) where p* lies inside, else the larger of the ends.

Below, at alpha on each side: f(p) is at least min(f(L), f(U)), the least over [L, U] of a concave
f. To be missed, f(p) must lie below both, so L and U both lie where f exceeds f(p), an interval
with p for one of its ends: beyond p if p < p*, short of it if p > p*. So L > p alone, or U < p
alone, must happen, and which of them depends on p, not on the draws: probability at most alpha.

Both ends are extremes over one interval of p at 1 - alpha, and hold together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats import betting
from leakbound.stats.about import About
from leakbound.stats.estimand import Estimand, Method
from leakbound.stats.estimate import Array, Counts, Estimate, Side, plain, share_of
from leakbound.stats.leakage import Leakage, sample_mean
from leakbound.stats.mean import MEAN
from leakbound.stats.order import Seed
from leakbound.stats.proportion import proportion_bound
from leakbound.stats.tail import dkw
from leakbound.stats.whole import halved

CELLS = 100  # of the grid form
HALVINGS = 45
LARGEST_STD = 0.5


def std_bound(
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    method: str | None = None,
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound the standard deviation (at most 1/2) of i.i.d. scores in [0, 1], n fixed beforehand.

    Args:
        scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        method: "betting" (default; bets on squares, in the order that `seed` keys), "paper"
            (tightest over the two-sided DKW band; Romano and Wolf 2000) or "grid" (Metric 4
            corrected, above only).
        missing: draws without a score, [Q] or one number; they count against the claim.
        seed: of the order in which bets meet the draws, [Q] or one number; None: a random one.

    Returns:
        The standard deviation's estimate, in [0, 1/2]; arrays [Q] where `scores` are [Q, m].
            `value` has the divisor n.

    Raises:
        InputError: scores or counts that cannot be, a confidence, side, method or seed that is
            none, or a lower end of "grid".
    """
    rows = Leakage.read(scores, counts, missing)
    return STD.estimate(rows, confidence=confidence, side=side, method=method, seed=seed)


def expectation_deviation(
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    rho: float = 2.0,
    missing: npt.ArrayLike = 0,
) -> float | Array | tuple[float | Array, float | Array]:
    """mean + rho * sd with divisor n, descriptive; with missing draws, its extremes over them.

    Args:
        scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        rho: how many standard deviations are added, a finite number, also below 0.
        missing: draws without a score, [Q] or one number.

    Returns:
        One number, or [Q] where `scores` are [Q, m]; where draws are missing a pair of such, the
            least and the greatest over all scores that these might have.

    Raises:
        InputError: scores or counts that cannot be, or a rho that is not finite.
    """
    if not math.isfinite(rho):
        raise InputError(f"`rho` must be a finite number, got {rho!r}.")
    leakage = Leakage.read(scores, counts, missing)
    if not leakage.missing.any():
        return leakage.single_or_all(leakage.each(partial(_score, rho=rho)))
    low, high = _extremes(leakage, rho)
    return leakage.single_or_all(low), leakage.single_or_all(high)


def expectation_deviation_bound(
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    rho: float = 2.0,
    confidence: float = 0.99,
    side: Side = "both",
    method: str | None = None,
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound E[X] + rho * sd(X): the mean and the deviation each at half of alpha.

    For i.i.d. scores in [0, 1], n fixed beforehand.

    Args:
        scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        rho: how many standard deviations are added, a finite number >= 0.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        method: of both parts, "betting" (default; in the order that `seed` keys) or "paper" (over
            the DKW band).
        missing: draws without a score, [Q] or one number; they count against the claim.
        seed: of the order in which bets meet the draws, [Q] or one number; None: a random one.

    Returns:
        The estimate, in [0, (1 + sqrt(1 + rho^2))/2]; arrays [Q] where `scores` are [Q, m].

    Raises:
        InputError: scores or counts that cannot be, or a rho, confidence, side, method or seed that
            is none.
    """
    rows, score = Leakage.read(scores, counts, missing), score_of(rho)
    return score.estimate(rows, confidence=confidence, side=side, method=method, seed=seed)


def std_proportion_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound sqrt(p (1 - p)), from `hits` leaks in `n` i.i.d. draws, n fixed beforehand.

    It carries over the Clopper-Pearson interval of p.

    Args:
        hits: leaks of each question, [Q] or one number.
        n: draws of each question, [Q] or one number, those `missing` among them; at least 1.
        confidence: with which probability the bound holds, in (0, 1); above 0.5 for side "lower".
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        missing: draws without a score, [Q] or one number: leaks above and none below.

    Returns:
        The standard deviation's estimate, in [0, 1/2]; arrays [Q] where an argument is one. `value`
            has the divisor n, over the scored draws.

    Raises:
        InputError: counts that cannot be, or a confidence or side that is none.
    """
    made = _over_interval(hits, n, None, confidence=confidence, side=side, missing=missing)
    return replace(made, about=About(quantity="standard deviation"))


def expectation_deviation_proportion_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    *,
    rho: float = 2.0,
    confidence: float = 0.99,
    side: Side = "both",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound p + rho sqrt(p (1 - p)), from `hits` leaks in `n` i.i.d. draws, n fixed beforehand.

    One Clopper-Pearson interval of p serves the mean and the deviation together.

    Args:
        hits: leaks of each question, [Q] or one number.
        n: draws of each question, [Q] or one number, those `missing` among them; at least 1.
        rho: how many standard deviations are added, a finite number >= 0.
        confidence: with which probability the bound holds, in (0, 1); above 0.5 for side "lower".
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        missing: draws without a score, [Q] or one number: leaks above and none below.

    Returns:
        The estimate, in [0, (1 + sqrt(1 + rho^2))/2]; arrays [Q] where an argument is one.

    Raises:
        InputError: counts that cannot be, or a rho, confidence or side that is none.
    """
    require_rho(rho)
    made = _over_interval(hits, n, rho, confidence=confidence, side=side, missing=missing)
    return replace(made, about=About(quantity="expectation deviation", constant=rho))


def sample_std(rows: Leakage) -> Array:
    """The standard deviation of the scored draws with divisor n: (Q,)."""
    squares = (rows.values - sample_mean(rows)[:, None]) ** 2
    return np.asarray(np.sqrt((rows.counts * squares).sum(axis=1) / rows.counts.sum(axis=1)))


def band_upper(rows: Leakage, alpha: float) -> Array:
    """The largest standard deviation of any F inside the two-sided DKW band.

    The band's most spread members are F^c = clip(c, F_low, F_high); their variance is unimodal
    in c, with V'(c) proportional to 2 m_c - x_U(c) - x_L(c), where m_c is the mean of F^c and
    x_U, x_L are where F_high, F_low reach c.
    """
    low, high = _band(rows, alpha)
    low_table = dkw(rows.size, alpha / 2)
    high_table = 1 - low_table[::-1]
    knots = rows.knots
    area_low, area_high = (
        np.pad(np.cumsum(rows.gaps * band, axis=1), ((0, 0), (1, 0))) for band in (low, high)
    )
    row = np.arange(len(low))

    def rising(c: Array) -> npt.NDArray[np.bool_]:
        to_l = _below(rows, np.searchsorted(low_table, c))
        to_u = _below(rows, np.searchsorted(high_table, c) - rows.missing)
        x_l, x_u = knots[row, to_l], knots[row, to_u]
        above = area_low[:, -1] - area_low[row, to_l]
        mean = 1 - (area_high[row, to_u] + c * (x_l - x_u) + above)
        return np.asarray(2 * mean - x_u - x_l > 0)

    tail = 1 - _bisect(rising, len(low))[:, None].clip(low, high)
    mean = (rows.gaps * tail).sum(axis=1)
    square = (np.diff(rows.knots**2, axis=1) * tail).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0)))


def band_lower(rows: Leakage, alpha: float) -> Array:
    """The smallest standard deviation of any F inside the two-sided DKW band.

    It is the least over a of E(X - a)^2, and for a given a the mass is nearest to a under
    F_low below a and F_high above; that is convex in a.
    """
    low, high = _band(rows, alpha)

    def sides(a: Array) -> tuple[Array, Array]:
        distance = a[:, None] - rows.knots
        return np.maximum(distance, 0), np.maximum(-distance, 0)

    def falling(a: Array) -> npt.NDArray[np.bool_]:
        left, right = sides(a)
        slope = -low * np.diff(left, axis=1) - (1 - high) * np.diff(right, axis=1)
        return np.asarray(slope.sum(axis=1) < 0)

    left, right = sides(_bisect(falling, len(low)))
    parts = (1 - high) * np.diff(right**2, axis=1) - low * np.diff(left**2, axis=1)
    return np.asarray(np.sqrt(np.maximum(parts.sum(axis=1), 0)))


def grid_variance(rows: Leakage, alpha: float, cells: int = CELLS) -> Array:
    """Metric 4 corrected, before it is cut at 1/4: (Q,)."""
    points = np.array([i / cells for i in range(cells + 1)])  # linspace differs in the last bit
    table = dkw(rows.size, alpha / 2)
    seen = rows.seen_at(points)
    low, high = table[seen], 1 - table[rows.size - seen - rows.missing[:, None]]
    low[:, -1] = high[:, -1] = 1
    means = [1 - high[:, 1:].mean(axis=1), 1 - low[:, :-1].mean(axis=1)]
    squares = np.stack([(points - mean[:, None]) ** 2 for mean in means]).max(axis=0)
    eta = np.maximum(squares[:, :-1], squares[:, 1:])
    falls = eta[:, :-1] - eta[:, 1:]
    weights = np.where(falls > 0, high[:, 1:-1], low[:, 1:-1])
    return np.asarray(eta[:, -1] + (falls * weights).sum(axis=1))


def _betting_lower(rows: Leakage, alpha: float) -> Array:
    """Half the mean square of the difference of two draws is the variance."""
    draws = rows.shuffled(missing=np.nan)[:, : rows.size // 2 * 2]
    if not draws.size:
        return np.zeros(len(draws))
    squares = np.nan_to_num((draws[:, ::2] - draws[:, 1::2]) ** 2, nan=0.0)
    return np.sqrt((1 - betting.mean_upper(1 - squares, alpha)) / 2)


def _band(rows: Leakage, alpha: float) -> tuple[Array, Array]:
    """F_low and F_high on each step: (Q, d + 1) each."""
    table = dkw(rows.size, alpha / 2)
    high = 1 - table[rows.size - rows.seen - rows.missing[:, None]]
    return table[rows.seen], high


def _below(rows: Leakage, count: Counts) -> Counts:
    """How many steps of each row have fewer than `count` (Q,) draws at or below them."""
    return np.asarray((rows.seen < count[:, None]).sum(axis=1))


def _bisect(before: Callable[[Array], npt.NDArray[np.bool_]], rows: int) -> Array:
    """Where in [0, 1] a condition that holds up to some point ends, in each row."""
    low, high = halved(before, np.zeros(rows), np.ones(rows), HALVINGS)
    return (low + high) / 2


STD = Estimand(
    about=About(quantity="standard deviation"),
    value=sample_std,
    span=(0.0, LARGEST_STD),
    methods={
        "betting": Method(
            "betting on squares",
            lambda rows, alpha: betting.std_upper(rows.shuffled(missing=np.nan), alpha),
            _betting_lower,
            shuffles=True,
        ),
        "paper": Method("Romano-Wolf over DKW", band_upper, band_lower),
        "grid": Method(
            "Metric 4 corrected", lambda rows, alpha: np.sqrt(grid_variance(rows, alpha)), None
        ),
    },
)


def score_of(rho: float) -> Estimand:
    """E[X] + rho * sd(X); InputError unless rho >= 0."""
    require_rho(rho)
    return Estimand(
        about=About(quantity="expectation deviation", constant=rho),
        value=partial(_score, rho=rho),
        methods={key: _sum(key, rho) for key in ("betting", "paper")},
        span=(0.0, (1 + math.hypot(1, rho)) / 2),  # reached by a coin
    )


def require_rho(rho: float) -> None:
    """Refuse a rho for which mean + rho * sd is not bounded here."""
    if not (math.isfinite(rho) and rho >= 0):
        raise InputError(f"`rho` must be a number >= 0, got {rho!r}.")


def _sum(key: str, rho: float) -> Method:
    mean, std = MEAN.methods[key], STD.methods[key]

    def upper(rows: Leakage, alpha: float) -> Array:
        return mean.upper(rows, alpha / 2) + rho * std.upper(rows, alpha / 2)

    def lower(rows: Leakage, alpha: float) -> Array:
        return mean.below(rows, alpha / 2) + rho * std.below(rows, alpha / 2)

    return Method(f"{mean.name} and {std.name}", upper, lower, mean.shuffles)


def _score(rows: Leakage, rho: float) -> Array:
    return sample_mean(rows) + rho * sample_std(rows)


def _extremes(leakage: Leakage, rho: float) -> tuple[Array, Array]:
    """The least and the greatest score over all values of the missing draws: (Q,) each.

    For rho >= 0 the score is convex in them. So the greatest has each at 0 or 1; and the least,
    by symmetry, has all at one t, the root of d/dt [b t + rho sqrt(a v + a b (t - m)^2)] or an
    end of [0, 1], with a, b the shares of scored and missing draws, m, v the scored mean and
    variance.
    """
    if rho < 0:  # mean - |rho| sd of X is 1 - (mean + |rho| sd) of 1 - X
        low, high = _extremes(leakage.mirrored(), -rho)
        return 1 - high, 1 - low
    scored = leakage.scored()
    mean, deviation = (np.nan_to_num(scored.each(rule)) for rule in (sample_mean, sample_std))
    b = leakage.missing / leakage.n
    a = 1 - b

    def score(centre: Array, spread: Array) -> Array:
        """The score with the missing draws at a mean and a variance of their own."""
        between = a * b * (centre - mean) ** 2
        return a * mean + b * centre + rho * np.sqrt(a * deviation**2 + b * spread + between)

    room = rho**2 * a - b
    drop = np.divide(deviation, np.sqrt(np.maximum(room, 0)), where=room > 0, out=mean + 0)
    least = score(np.clip(mean - drop, 0, 1), np.zeros_like(mean))
    ones = np.arange(leakage.missing.max() + 1)[:, None] / np.maximum(leakage.missing, 1)
    ones = np.minimum(ones, 1)
    return least, score(ones, ones * (1 - ones)).max(axis=0)


def _over_interval(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    rho: float | None,
    *,
    confidence: float,
    side: Side,
    missing: npt.ArrayLike,
) -> Estimate:
    """The extremes of f over the interval of p; `rho` None for the deviation alone."""
    # Below, either end of p may fail, never both: each has the whole of alpha.
    share = share_of(confidence, side)
    level = 1 - 2 * share if side == "lower" else confidence
    if level <= 0:
        raise InputError(
            f"`confidence` must exceed 0.5 for a lower bound of a deviation, got {confidence!r}."
        )
    p = proportion_bound(hits, n, confidence=level, side="both", missing=missing)
    low, high, value = (np.asarray(end) for end in (p.lower, p.upper, p.value))

    def f(q: Array) -> Array:
        spread = np.sqrt(q * (1 - q))
        return spread if rho is None else q + rho * spread

    peak = np.asarray(0.5 if rho is None else (1 + 1 / math.hypot(1, rho)) / 2)
    largest = float(LARGEST_STD if rho is None else f(peak))
    inside = (low <= peak) & (peak <= high)
    upper = np.where(inside, largest, np.maximum(f(low), f(high)))
    lower = np.minimum(f(low), f(high))
    return replace(
        p,
        value=plain(f(value)),
        lower=plain(np.zeros_like(lower) if side == "upper" else lower),
        upper=plain(np.full_like(upper, largest) if side == "lower" else upper),
        confidence=confidence,
        side=side,
        method=f"{p.method}, extremes over its interval",
    )
