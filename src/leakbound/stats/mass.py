"""Bounds from exact masses: what an explored output distribution proves, with or without draws.

Exploring settles disjoint events a with masses of at least p_a and a score in [low_a, high_a].
Draws, if any, come from the law given the remainder, a region of mass at least r. The true masses
P_a >= p_a and R >= r belong to disjoint events, so what is unknown,
slack = 1 - sum p_a - r, holds every excess P_a - p_a and R - r, and whatever lies in neither.
For g with values in [0, 1], g in [g_low_a, g_high_a] on a, and L <= E[g(X) | remainder] <= U,

    sum p_a g_low_a + r L  <=  E[g(X)]  <=  sum p_a g_high_a + r U + slack:

below, leave out what is unknown; above, it counts as 1, which is the most that P_a - p_a at
g_high_a, R - r at U, and the rest at anything can add. Both ends are attained by laws that fit, so
nothing better holds. Only [L, U] rests on draws, and only it spends alpha; where it holds for all
g of a family at once, so do the bounds. Without draws [L, U] = [0, 1], and nothing is left to
chance. (Sums in float64 err by some 1e-16 an event.)

*Over questions.* With the parts of question i that its masses settle between low_i and high_i, the
unknown slack_i, and a remainder of mass R_i in which the score has mean q_i,

    sum low_i + sum R_i q_i  <=  N mean  <=  sum (high_i + slack_i) + sum R_i q_i.

The R_i owe nothing to the draws, so sum R_i q_i / sum R_i is a mean of the draws' expectations with
weights fixed beforehand, which `mean_over_questions` bounds; only this spends alpha.

*Deviation, and its rounding.* Both ends are min_c f(c) for a convex f(c) = sum p (c - end(c))^2,
with f' = 2 g, evaluated at a c that is nearly the minimum. Let u be the spacing of float64 at 1, d
the number of events. Above: min f <= f(c) whatever c is, and f(c) is a sum of d terms >= 0,
computed to a relative error below (d + 8) u. Below: f lies above its tangent, and both c and the
minimum lie in [0, 1], so min f >= f(c) - |f'(c)| = f(c) - 2 |g(c)|, with g(c) computed to an
absolute error below (d + 8) u. Where masses add up to 1 + s, the true ones are together s less, and
no (c - end)^2 is above 1: the lower end gives s away. Then lower <= upper: for the same masses
near_a(c)^2 <= far_a(c)^2, and min_c sum p far^2 <= (1 + s)/4, so that the lower end is below 1/2
too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.estimand import ends
from leakbound.stats.estimate import Array, Estimate, Side, plain, share_of
from leakbound.stats.leak_at_k import among, carried, leak_at, supported, whole_sizes
from leakbound.stats.leakage import Leakage, require_binary
from leakbound.stats.mean import MEAN
from leakbound.stats.mean_over_questions import over_questions
from leakbound.stats.order import Seed
from leakbound.stats.proportion import LEAK, proportion_bound, tally
from leakbound.stats.tail import read_points, tail_at, tail_of
from leakbound.stats.whole import numbers

EXACT = "exact mass"
ROUNDING = 1e-9  # by which masses may add up to more than 1


@dataclass(frozen=True)
class Mass:
    """The exact masses of one query's law of X; what follows is as certain as they are.

    The masses of disjoint events, each a lower bound, and the range of X inside each. What these
    and the remainder leave of 1 may have any score in [0, 1]. Masses that an engine gives are lower
    bounds given the measured margin (`leakbound.engines.margin`).

    Attributes:
        p: the mass of each event, at least, [d]; they add up to at most 1 with the remainder.
        low: the least score inside each event, in [0, 1], [d].
        high: the largest score inside each event, in [0, 1], [d].
        remainder: the mass, at least, that draws were taken from; 0 where there are none.

    Raises:
        InputError: masses below 0 or adding up to more than 1, ranges that leave [0, 1] or are
            empty, or shapes that differ.
    """

    p: Array
    low: Array
    high: Array
    remainder: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", np.asarray(self.p, dtype=np.float64))
        for name in ("low", "high"):
            object.__setattr__(self, name, numbers(name, getattr(self, name)))
        if not (self.p.ndim == 1 and self.p.shape == self.low.shape == self.high.shape):
            raise InputError(
                "`p`, `low` and `high` must be 1-D with one entry an event, got shapes "
                f"{self.p.shape}, {self.low.shape} and {self.high.shape}."
            )
        total = math.fsum([*self.p, self.remainder])
        if not (min(self.p.min(initial=0), self.remainder) >= 0 and total <= 1 + ROUNDING):
            raise InputError(
                "`p` and `remainder` must be masses >= 0 that add up to at most 1, got a smallest "
                f"of {min(self.p.min(initial=0), self.remainder):g} and a sum of {total:.12g}. "
                "Count no output in two events."
            )
        bad = ~((self.low >= 0) & (self.low <= self.high) & (self.high <= 1))
        if bad.any():
            event = int(bad.argmax())
            raise InputError(
                "`low` and `high` must satisfy 0 <= low <= high <= 1, got "
                f"[{self.low[event]:g}, {self.high[event]:g}] for event {event}."
            )

    @cached_property
    def slack(self) -> float:
        """The mass of which nothing is known: 1 - sum p - remainder, correctly rounded."""
        return max(0.0, -math.fsum([*self.p, self.remainder, -1.0]))


def mass_survival_bound(
    mass: Mass,
    x: npt.ArrayLike,
    scores: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    method: str | None = None,
    missing: int = 0,
) -> Estimate:
    """Bound Pr[X > x] for every x at once: surely given the masses, with draws at `confidence`.

    The draws are i.i.d. from the law given the remainder; their number was fixed before them, and
    so were the events. `survival_bound` bounds their tail for all x. Without draws the remainder is
    unknown too, and the estimate's confidence is 1.

    `value`, here and below, is that of a law that fits: each event's mass half at either end of
    its range, the remainder as drawn, and the unknown spread over both in proportion. Without
    draws it always lies between the ends; NaN where there is neither an event nor a scored draw.

    Args:
        mass: the exact masses of one query, and of the remainder that draws were taken from.
        x: a finite number, or [K] of them, the last axis of the result then.
        scores: scores in [0, 1] of draws from the law given the remainder, [m]; None: no draws.
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        method: of the draws' tail: "berk-jones" (default) or "paper" (DKW).
        missing: draws without a score, one number: 1 above and 0 below.

    Returns:
        The tail's estimate, in [0, 1] and of the shape of x.

    Raises:
        InputError: scores, counts or an x that cannot be, a confidence, side or method that is
            none, or a confidence too near 1 for "berk-jones".
    """
    points = read_points(x)
    draws = _drawn(scores, counts, missing)
    inside = None
    if draws is not None:
        tail = tail_of(points)
        inside = tail.estimate(draws, confidence=confidence, side=side, method=method)
    return _tail(tail_at(points), mass, points).estimate(mass, inside, confidence, side)


def mass_proportion_bound(
    mass: Mass,
    hits: int = 0,
    n: int = 0,
    *,
    x: float = 0.0,
    confidence: float = 0.99,
    side: Side = "both",
    missing: int = 0,
) -> Estimate:
    """Bound Pr[X > x] for one x fixed beforehand: a leak, where the scorer is binary.

    As `mass_survival_bound`, but tighter because it promises one x only: Clopper-Pearson bounds
    the chance that a draw from the remainder scores above x.

    Args:
        mass: the exact masses of one query, and of the remainder that draws were taken from.
        hits: draws from the law given the remainder that scored above x, a number.
        n: draws from the law given the remainder, those `missing` among them; 0: no draws.
        x: a finite number, fixed beforehand.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        missing: draws without a score, one number: 1 above and 0 below.

    Returns:
        The estimate of the leak probability, or of the tail where x is not 0, in [0, 1].

    Raises:
        InputError: counts that cannot be, an x that is not one finite number, or a confidence or
            side that is none.
    """
    if np.ndim(x) or not math.isfinite(x):
        raise InputError(
            f"`x` must be one finite number, got {x!r}. Several take mass_survival_bound."
        )
    inside = None
    if hits or n or missing:
        inside = proportion_bound(hits, n, confidence=confidence, side=side, missing=missing)
    about = LEAK if x == 0 else tail_at(x)
    return _tail(about, mass, numbers("x", x)).estimate(mass, inside, confidence, side)


def mass_mean_bound(
    mass: Mass,
    scores: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    method: str | None = None,
    missing: int = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound E[X]: surely given the masses, with draws at `confidence`.

    As `mass_survival_bound`; `mean_bound` bounds the draws' mean.

    Args:
        mass: the exact masses of one query, and of the remainder that draws were taken from.
        scores: scores in [0, 1] of draws from the law given the remainder, [m]; None: no draws.
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        method: of the draws' mean, one of those of `mean_bound`; None: "betting".
        missing: draws without a score, one number: 1 above and 0 below.
        seed: of the order in which bets meet the draws, one number; None: a random one.

    Returns:
        The mean leakage's estimate, in [0, 1].

    Raises:
        InputError: scores or counts that cannot be, a confidence, side or method that is none, or
            a confidence too near 1 for "berk-jones".
    """
    draws = _drawn(scores, counts, missing)
    inside = None
    if draws is not None:
        inside = MEAN.estimate(draws, confidence=confidence, side=side, method=method, seed=seed)
    mixture = _Mixture(about=MEAN.about, low=mass.p @ mass.low, high=mass.p @ mass.high)
    return mixture.estimate(mass, inside, confidence, side)


def mass_leak_at_k_bound(
    mass: Mass,
    k: npt.ArrayLike,
    scores: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    method: str | None = None,
    missing: int = 0,
) -> Estimate:
    """Bound leak@k for every entry of `k` at once, any k >= 1.

    E[max of k] = int_0^1 1 - (1 - Pr[X > t])^k dt, increasing in the tail, which
    `mass_survival_bound` bounds for all t at once. Conditions are its own.

    Args:
        mass: the exact masses of one query, and of the remainder that draws were taken from.
        k: of how many draws the largest is meant, a whole number >= 1; or [K], the last axis then.
        scores: scores in [0, 1] of draws from the law given the remainder, [m]; None: no draws.
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        method: of the draws' tail: "berk-jones" (default) or "paper" (DKW).
        missing: draws without a score, one number: 1 above and 0 below.

    Returns:
        The estimate of leak@k, in [0, 1] and of the shape of k. `value` is NaN where too much of
            it rests on too few draws: where k draws have more than a quarter of them in the
            remainder.

    Raises:
        InputError: scores, counts or a k that cannot be, a confidence, side or method that is
            none, or a confidence too near 1 for "berk-jones".
    """
    sizes = whole_sizes(k)
    draws = _drawn(scores, counts, missing)
    seen = np.empty(0) if draws is None else draws.values[0]
    knots = np.unique(np.concatenate([[0.0, 1.0], mass.low, mass.high, seen]))
    tail = mass_survival_bound(
        mass, knots[:-1], scores, counts,
        confidence=confidence, side=side, method=method, missing=missing,
    )  # fmt: skip

    def largest(tails: float | Array) -> float | Array:
        chances = np.ascontiguousarray(np.transpose(among(tails, sizes)))  # k's axis first
        return plain(np.minimum(chances @ np.diff(knots), 1.0))

    return replace(
        tail,
        about=leak_at(sizes),
        value=plain(supported(largest(tail.value), sizes, _like(mass, tail))),
        lower=largest(tail.lower),
        upper=largest(tail.upper),
    )


def mass_leak_at_k_proportion_bound(
    mass: Mass,
    k: npt.ArrayLike,
    hits: int = 0,
    n: int = 0,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    missing: int = 0,
) -> Estimate:
    """Bound 1 - (1 - p)^k, the chance of a leak among k draws, for every k at once.

    For a binary scorer. Carries over the bound on p of `mass_proportion_bound`.

    Args:
        mass: the exact masses of one query, with ranges that end at 0 and 1.
        k: of how many draws the largest is meant, a whole number >= 1; or [K], the last axis then.
        hits: leaks among the draws from the law given the remainder, a number.
        n: draws from the law given the remainder, those `missing` among them; 0: no draws.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        missing: draws without a score, one number: 1 above and 0 below.

    Returns:
        The estimate of leak@k, in [0, 1] and of the shape of k. `value` is NaN where too much of
            it rests on too few draws: where k draws have more than a quarter of them in the
            remainder.

    Raises:
        InputError: an event whose range ends anywhere but at 0 and 1, counts or a k that cannot be,
            or a confidence or side that is none.
    """
    sizes = whole_sizes(k)
    require_binary(np.concatenate([mass.low, mass.high]), "the ranges of `mass`")
    leak = mass_proportion_bound(mass, hits, n, confidence=confidence, side=side, missing=missing)
    value = supported(among(leak.value, sizes), sizes, _like(mass, leak))
    return replace(carried(leak, sizes), value=plain(value))


def _like(mass: Mass, bound: Estimate) -> float:
    """How many draws of the whole law have as many in the remainder as were drawn of that."""
    drawn = np.subtract(bound.n, bound.missing)
    return float(drawn / mass.remainder) if bound.n and mass.remainder else math.inf


def mass_mean_over_questions(
    masses: Sequence[Mass],
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    binary: bool = False,
    confidence: float = 0.99,
    side: Side = "both",
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound the mean over these questions of E[X]: surely given the masses, else at `confidence`.

    Draws are from each question's law given its remainder, their numbers fixed beforehand.

    Args:
        masses: of each question, in the order of the rows; one without draws has no remainder.
        scores: scores in [0, 1] of each question's draws, [Q, m].
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        binary: the scorer's declared range; True: the scores must be 0 or 1.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        missing: draws without a score, [Q] or one number: 1 above and 0 below.
        seed: of the order in which bets meet the draws, [Q] or one number; None: a random one.

    Returns:
        One estimate about all questions together, in [0, 1].

    Raises:
        InputError: scores or counts that cannot be, not one row for each of the masses, a remainder
            of a question without draws, scores of a binary scorer that are not 0 or 1, or a
            confidence or side that is none.
    """
    share_of(confidence, side)  # refuses what is none
    draws = Leakage.read(scores, counts, missing, empty=True)
    if draws.single or len(draws.n) != len(masses):
        raise InputError(
            f"`scores` must be 2-D with one row for each of {len(masses)} masses, got shape "
            f"{np.shape(scores)}."
        )
    if binary:
        require_binary(draws.values)
    weights = np.array([mass.remainder for mass in masses])
    rows = (weights > 0) & (draws.n > 0)
    if (weights[~rows] > 0).any():
        raise InputError(
            "a question without draws can have no remainder that draws were taken from, got "
            f"{weights[~rows].max():g}. Leave it 0: what nothing was drawn of is unknown."
        )
    inside = None
    if rows.any():
        keys = seed if seed is None or isinstance(seed, int) else np.asarray(seed)[rows]
        drawn = draws.only(rows)
        if binary:
            drawn = tally((drawn.counts * (drawn.values > 0)).sum(axis=1), drawn.n, drawn.missing)
        inside = over_questions(
            drawn, weights[rows], binary=binary, confidence=confidence, side=side, seed=keys
        )
    low, high = (np.mean([m.p @ getattr(m, end) for m in masses]) for end in ("low", "high"))
    slack, share = np.mean([m.slack for m in masses]), weights.mean()
    sampled = (inside.lower, inside.upper, inside.value) if inside else (0.0, 1.0, 0.0)
    lower, upper, value = (float(share * end) for end in sampled)
    middle = (low + high) / 2 + value
    return Estimate(
        about=About(
            quantity="leak probability" if binary else "mean leakage",
            scope="mean",
            over=len(masses),
        ),
        value=float(min(middle / (1 - slack), 1.0)) if slack < 1 else float("nan"),
        lower=0.0 if side == "upper" else float(low + lower),
        upper=1.0 if side == "lower" else float(min(high + slack + upper, 1.0)),
        confidence=confidence if inside else 1.0,
        side=side,
        n=int(draws.n.sum()),
        missing=int(draws.missing.sum()),
        method=f"{EXACT} + {inside.method}" if inside else EXACT,
        seed=inside.seed if inside else None,
    )


def _drawn(
    scores: npt.ArrayLike | None, counts: npt.ArrayLike | None, missing: int
) -> Leakage | None:
    """The draws of one query, None where there are none."""
    values = np.empty(0) if scores is None else scores
    if not (missing or np.size(values if counts is None else np.flatnonzero(counts))):
        return None
    draws = Leakage.read(values, counts, missing)
    if not draws.single:
        raise InputError("`scores` must be 1-D, the draws of the one query that `mass` is about.")
    return draws


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mixture:
    """E[g(X)] in parts: sum p_a g_low_a, sum p_a g_high_a, and the largest that g can be."""

    about: About
    low: Array
    high: Array
    largest: Array | float = 1.0

    def estimate(
        self, mass: Mass, inside: Estimate | None, confidence: float, side: Side
    ) -> Estimate:
        """The module's formula; `inside` bounds E[g(X) | remainder], None without draws."""
        bound = _nothing_drawn(side) if inside is None else inside
        lower, upper = ends(
            confidence,
            side,
            lambda _: self.low + mass.remainder * bound.lower,
            lambda _: (
                self.high
                + mass.remainder * np.minimum(bound.upper, self.largest)
                + mass.slack * self.largest
            ),
        )
        sampled = 0.0 if inside is None else mass.remainder
        weight = mass.p.sum() + sampled
        middle = (self.low + self.high) / 2 + sampled * np.asarray(bound.value)
        value = np.minimum(middle / weight, 1.0) if weight > 0 else np.full_like(middle, np.nan)
        return replace(
            bound,
            about=self.about,
            value=plain(value),
            lower=plain(lower),
            upper=plain(upper),
            method=EXACT if inside is None else f"{EXACT} + {bound.method}",
        )


def _nothing_drawn(side: Side) -> Estimate:
    """The trivial bound of the remainder, without draws."""
    return Estimate(
        about=LEAK, value=0.0, lower=0.0, upper=1.0,
        confidence=1.0, side=side, n=0, missing=0, method=EXACT,
    )  # fmt: skip


def _tail(about: About, mass: Mass, x: Array) -> _Mixture:
    """g = 1 above x and 0 elsewhere."""
    return _Mixture(
        about=about,
        low=_mass_above(mass.p, mass.low, x),
        high=_mass_above(mass.p, mass.high, x),
        largest=np.where(x < 1, 1.0, 0.0),
    )


def _mass_above(p: Array, values: Array, x: Array) -> Array:
    """The mass p (d,) of values (d,) above each x, added from the highest value down."""
    order = np.argsort(values)
    sums = np.append(np.cumsum(p[order][::-1])[::-1], 0.0)
    return np.asarray(sums[np.searchsorted(values[order], x, side="right")])


def mass_std_bound(mass: Mass) -> Estimate:
    """Bound the standard deviation of X, surely given the masses; draws of a rest bound none.

    What is unknown is one more event, with range [0, 1]. The variance is min_c E(X - c)^2.
    Below: the smallest over the laws that fit is min_c sum p_a near_a(c)^2, near_a(c) the distance
    from c to [low_a, high_a], since two minima change places. Above: E(X - c)^2 is linear in the
    law, convex in c, and the laws that fit are a convex compact set, so (Sion 1958) the largest
    min_c is min_c sum p_a far_a(c)^2, far_a(c) the distance from c to the farther end. Both sums
    are convex in c, both bounds are attained. Where every event is settled this is, with
    E_i = sum p_a x_a^i and R the unknown mass, E_2 - E_1^2/(1 - R) and
    E_2 + Rz - (E_1 + Rz)^2, z = clip((1/2 - E_1)/R, 0, 1).

    In float64 the ends are rounded outwards, by what the module's text proves to be enough; so they
    never cross, also where masses add up to a little more than 1 (`Mass` allows 1e-9).

    Args:
        mass: the exact masses of one query; a remainder counts as unknown.

    Returns:
        The standard deviation's estimate, in [0, 1/2], both ends at confidence 1.
    """
    p = np.append(mass.p, mass.slack + mass.remainder)
    low, high = np.append(mass.low, 0.0), np.append(mass.high, 1.0)
    lower = _least(p, lambda c: np.clip(c, low, high)).lower
    upper = min(_least(p, lambda c: np.where(2 * c < low + high, high, low)).upper, 0.5)
    return Estimate(
        about=About(quantity="standard deviation"),
        value=float(np.clip(_point_std(mass), lower, upper)),
        lower=lower,
        upper=upper,
        confidence=1.0,
        side="both",
        n=0,
        missing=0,
        method=EXACT,
    )


@dataclass(frozen=True, slots=True)
class _Ends:
    """The bounds of a standard deviation that masses give."""

    lower: float
    upper: float


def _least(p: Array, end: Callable[[float], Array]) -> _Ends:
    """The root of min_c f(c), f(c) = sum p (c - end(c))^2, from below and from above.

    f is convex, with derivative 2 g, g(c) = sum p (c - end(c)).
    """
    c = brentq(lambda c: float(p @ (c - end(c))), 0.0, 1.0, xtol=1e-15)
    gaps = c - end(c)
    minimum, slope = float(p @ gaps**2), abs(float(p @ gaps))
    rounding = (len(p) + 8) * np.finfo(np.float64).eps
    too_much = max(0.0, math.fsum(p) - 1)
    below = minimum * (1 - rounding) - 2 * (slope + rounding) - too_much
    return _Ends(math.sqrt(max(below, 0.0)), math.sqrt(minimum * (1 + rounding)))


def _point_std(mass: Mass) -> float:
    """The standard deviation of the law that `value` is about."""
    settled = mass.p.sum()
    if settled == 0:
        return math.nan
    mean = mass.p @ (mass.low + mass.high) / (2 * settled)
    squares = (mass.low - mean) ** 2 + (mass.high - mean) ** 2
    return math.sqrt(mass.p @ squares / (2 * settled))
