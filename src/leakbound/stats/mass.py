"""Bounds from exact masses: what an explored output distribution proves, with or without draws.

Exploring finds disjoint events a with masses of at least p_a and a score in [low_a, high_a]. Draws,
if any, come from the distribution given the remainder, a region of mass at least r. The true masses
P_a >= p_a and R >= r belong to disjoint events. So the unknown mass, slack = 1 - sum p_a - r,
contains every excess P_a - p_a and R - r, and all other events. For g with values in [0, 1], g in
[g_low_a, g_high_a] on a, and L <= E[g(X) | remainder] <= U,

    sum p_a g_low_a + r L  <=  E[g(X)]  <=  sum p_a g_high_a + r U + slack:

below, the unknown mass counts as 0; above, it counts as 1, the most that P_a -
p_a at g_high_a, R - r at U, and other events can add. Both bounds are attained
by possible distributions, so no better bounds exist. Only [L, U] depends on
draws, and only it spends alpha. If it is valid for all g of a family
simultaneously, so are the bounds. Without draws [L, U] = [0, 1], and the bounds
are certain. (Sums in float64 have errors of some 1e-16 per event.)

*Over questions.* With the parts of question i that its masses settle between low_i and high_i, the
unknown slack_i, and a remainder of mass R_i in which the score has mean q_i,

    sum low_i + sum R_i q_i  <=  N mean  <=  sum (high_i + slack_i) + sum R_i q_i.

The R_i do not depend on the draws, so sum R_i q_i / sum R_i is a mean of the draws' expectations
with weights fixed in advance, which `mean_over_questions` bounds. Only this spends alpha.

*Deviation, and its rounding.* Both bounds are min_c f(c) for a convex f(c) = sum p (c - end(c))^2,
with f' = 2 g, evaluated at a c that is nearly the minimum. Let u be the spacing of float64 at 1, d
the number of events. Above: min f <= f(c) for any c, and f(c) is a sum of d terms >= 0,
computed to a relative error below (d + 8) u. Below: f is above its tangent, and both c and the
minimum are in [0, 1], so min f >= f(c) - |f'(c)| = f(c) - 2 |g(c)|, with g(c) computed to an
absolute error below (d + 8) u. Where masses add up to 1 + s, the true ones are together s less, and
no (c - end)^2 is above 1: the lower bound gives s away. Then lower <= upper: for the same masses
near_a(c)^2 <= far_a(c)^2, and min_c sum p far^2 <= (1 + s)/4, so that the lower bound is below 1/2
too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.arrays import numbers
from leakbound.stats.estimand import Terms, interval
from leakbound.stats.estimate import Array, Estimate, Side, plain, share_of
from leakbound.stats.evidence import OfRows, Rows, require_binary
from leakbound.stats.leak_at_k import among, carried, supported
from leakbound.stats.mean import MEAN
from leakbound.stats.mean_over_questions import mean_over_questions
from leakbound.stats.order import one_a_row
from leakbound.stats.proportion import LEAK, PROPORTION
from leakbound.stats.quantity import LEAKAGE, SD, Quantity, tail
from leakbound.stats.questions import stack
from leakbound.stats.tail import tail_bound

EXACT = "exact mass"
ENDS = ("low", "high")
ROUNDING = 1e-9  # tolerance by which the sum of the masses may exceed 1


@dataclass(frozen=True)
class Mass:
    """The exact masses of one query's score X; bounds from them are equally certain.

    Each disjoint event has a mass, which is a lower bound, and a range of X. The mass that is left
    of 1 after all events and the remainder is unknown: it may have any score in [0, 1]. Masses from
    an engine are lower bounds, given the measured margin (`leakbound.engines.margin`).

    Attributes:
        p: the least mass of each event, [d]; with the remainder they add up to at most 1.
        low: the least score inside each event, in [0, 1], [d].
        high: the largest score inside each event, in [0, 1], [d].
        remainder: the least mass of the region of the draws; 0 without draws.

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
        """Return the mass of which nothing is known: 1 - sum p - remainder, correctly rounded."""
        return max(0.0, -math.fsum([*self.p, self.remainder, -1.0]))


@dataclass(frozen=True)
class Masses(OfRows):
    """Exact masses of one query or several, with i.i.d. draws of each remainder.

    The events and the numbers of draws were fixed before the draws.

    Attributes:
        known: the masses of each question. A remainder without draws is part of the unknown mass.
        rows: the scores of draws from each remainder, one row per question; a row may be empty.
    """

    known: tuple[Mass, ...]
    rows: Rows

    kind: ClassVar[str] = "masses"

    @classmethod
    def of(
        cls, known: Mass | Sequence[Mass], rest: Rows | None = None, *, binary: bool = False
    ) -> Masses:
        """Join masses and draws, question by question.

        Args:
            known: the masses of one question, or of several.
            rest: the draws from each remainder, one row per question, with the scorer's declared
                range; made with `empty=True` if a question has no draws. None: no draws at all.
            binary: the scorer's declared range, used if there are no draws.

        Returns:
            The masses; a remainder without draws counts as unknown mass.

        Raises:
            InputError: the number of rows of `rest` differs from the number of masses.
        """
        single = isinstance(known, Mass)
        own = (known,) if isinstance(known, Mass) else tuple(known)
        if rest is None:
            nothing = np.zeros((len(own), 1))
            rest = replace(Rows.of(nothing, nothing, empty=True), single=single, binary=binary)
        if (rest.single, rest.questions) != (single, len(own)):
            raise InputError(
                f"`rest` must have one row for each of {len(own)} masses, got {rest.questions}."
            )
        drawn = rest.n > 0
        sure = [
            mass if some else replace(mass, remainder=0.0)
            for mass, some in zip(own, drawn, strict=True)
        ]
        return cls(tuple(sure), rest)

    def mixed(
        self,
        about: About,
        sums: Callable[[Mass, Array], Array],
        prove: Callable[[Rows, Quantity, Terms], Estimate],
        quantity: Quantity,
        terms: Terms,
        largest: Array | float = 1.0,
    ) -> Estimate:
        """Evaluate the formula at the top of the module for every question.

        `sums` returns the sum of p g over the events, with g at one end of each range. `prove`
        bounds the mean of g over a remainder, from its draws. `largest` is the largest value of g.
        """
        low, high = (
            np.stack([sums(mass, getattr(mass, end)) for mass in self.known]) for end in ENDS
        )
        axes = (-1, *[1] * (low.ndim - 1))
        rest, slack, known = (
            np.reshape(part, axes)
            for part in np.transpose([(m.remainder, m.slack, m.p.sum()) for m in self.known])
        )
        inside, seeds = None, one_a_row(terms.seed, self.questions)
        value: float | Array = 0.0
        least: float | Array = 0.0
        most: float | Array = 1.0
        if self.rows.n.any():
            rows = replace(self.rows, single=False)
            inside = prove(rows, quantity, replace(terms, seed=seeds))
            drawn = np.reshape(rows.n > 0, axes)
            value, least, most = np.where(drawn, inside.value, 0.0), inside.lower, inside.upper
        lower, upper = interval(
            terms,
            lambda _: low + rest * least,
            lambda _: high + rest * np.minimum(most, largest) + slack * largest,
        )
        middle, weight = (low + high) / 2 + rest * value, known + rest
        with np.errstate(invalid="ignore"):
            point = np.where(weight > 0, np.minimum(middle / weight, 1.0), np.nan)
        shaped, own = self.rows.single_or_all, self.rows
        keyed = inside is not None and inside.seed is not None
        return Estimate(
            about=about,
            value=shaped(point),
            lower=shaped(lower),
            upper=shaped(upper),
            confidence=terms.confidence if inside else 1.0,
            side=terms.side,
            n=int(own.n.sum()) if own.single else own.n,
            missing=int(own.missing.sum()) if own.single else own.missing,
            method=f"{EXACT} + {inside.method}" if inside else EXACT,
            seed=(int(seeds[0]) if own.single else seeds) if keyed else None,
        )


def mass_tail(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound Pr[X > x] for every x simultaneously: certain given the masses, at `confidence` with
    draws.

    `tail_bound` bounds the tail of the draws for all x. Without draws the remainder is unknown too,
    and the confidence is 1.

    `value`, here and below, is the value of one possible distribution: half of each event's mass at
    either end of its range, the remainder as drawn, and the unknown mass distributed over both in
    proportion. Without draws it is always between the bounds; NaN without an event or a scored
    draw.
    """
    x = quantity.points
    most = np.where(x < 1, 1.0, 0.0)
    return masses.mixed(quantity.about(), partial(_above, x), tail_bound, quantity, terms, most)


def mass_leak(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the leak probability of a binary scorer, in the same way as `mass_tail`.

    Clopper-Pearson bounds the probability that a draw from the remainder leaks. It is valid for one
    x only, so it is tighter than the bound of the tail.
    """
    return masses.mixed(LEAK, partial(_above, np.array(0.0)), PROPORTION, quantity, terms)


def mass_mean(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound E[X] in the same way as `mass_tail`; betting bounds the mean over the remainder."""
    return masses.mixed(MEAN.about, lambda mass, end: mass.p @ end, MEAN, quantity, terms)


def mass_leak_at_k(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound leak@k for every k simultaneously, any k >= 1.

    E[max of k] = int_0^1 1 - (1 - Pr[X > t])^k dt, increasing in the tail, which `mass_tail` bounds
    for all t simultaneously. `value` is NaN if it depends too much on few draws: if k draws would
    contain, on average, more draws from the remainder than a quarter of the sampled draws.
    """
    sizes = quantity.sizes

    def of(question: Masses) -> Estimate:
        (mass,) = question.known
        knots = np.unique(
            np.concatenate([[0.0, 1.0], mass.low, mass.high, question.rows.values[0]])
        )
        bound = mass_tail(question, tail(knots[:-1]), replace(terms, seed=0))  # no order

        def largest(tails: float | Array) -> float | Array:
            chances = np.ascontiguousarray(np.transpose(among(tails, sizes)))  # k's axis first
            return plain(np.minimum(chances @ np.diff(knots), 1.0))

        return replace(
            bound,
            about=quantity.about(),
            value=plain(supported(largest(bound.value), sizes, _like(question)[0])),
            lower=largest(bound.lower),
            upper=largest(bound.upper),
        )

    return _joined(masses, of)


def mass_leak_among_k(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound 1 - (1 - p)^k, the probability of a leak among k draws, for every k simultaneously.

    For a binary scorer. It converts the bound of p from `mass_leak`; `value` as in
    `mass_leak_at_k`.
    """
    for mass in masses.known:
        require_binary(np.concatenate([mass.low, mass.high]), "the ranges of the masses")
    like = _like(masses)[0] if masses.rows.single else _like(masses)
    return carried(mass_leak(masses, quantity, terms), quantity.sizes, like)


def _joined(masses: Masses, of: Callable[[Masses], Estimate]) -> Estimate:
    """Bound each question by its masses and draws."""
    bounds = []
    for place, mass in enumerate(masses.known):
        rest = masses.rows.only(np.arange(masses.questions) == place)
        bounds.append(of(Masses((mass,), replace(rest, single=True))))
    return bounds[0] if masses.rows.single else stack(bounds)


def _like(masses: Masses) -> Array:
    """Return the number of full draws that each question's draws from its remainder are worth."""
    rest = np.array([mass.remainder for mass in masses.known])
    scored = masses.rows.scored().n
    drawn = (masses.rows.n > 0) & (rest > 0)
    return np.asarray(np.divide(scored, rest, where=drawn, out=np.full(len(rest), math.inf)))


def mass_mean_over_questions(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the mean of E[X] over these questions; only the draws spend alpha, not the masses.

    Each question's draws come from its distribution given its remainder; their numbers are fixed in
    advance.
    """
    draws, known = masses.rows, masses.known
    share_of(terms.confidence, terms.side)  # raises for an invalid confidence or side
    weights = np.array([mass.remainder for mass in known])
    rows = (weights > 0) & (draws.n > 0)
    inside = None
    if rows.any():
        seed = terms.seed
        if seed is not None and np.ndim(seed):
            seed = np.asarray(seed)[rows]
        mean = LEAKAGE.mean(weights[rows])
        inside = mean_over_questions(draws.only(rows), mean, replace(terms, seed=seed))
    low, high = (np.mean([mass.p @ getattr(mass, end) for mass in known]) for end in ENDS)
    slack, share = np.mean([mass.slack for mass in known]), weights.mean()
    sampled = (inside.lower, inside.upper, inside.value) if inside else (0.0, 1.0, 0.0)
    lower, upper, value = (float(share * end) for end in sampled)
    middle = (low + high) / 2 + value
    return Estimate(
        about=replace(quantity.about(binary=masses.binary), scope="mean", over=len(known)),
        value=float(min(middle / (1 - slack), 1.0)) if slack < 1 else float("nan"),
        lower=0.0 if terms.side == "upper" else float(low + lower),
        upper=1.0 if terms.side == "lower" else float(min(high + slack + upper, 1.0)),
        confidence=terms.confidence if inside else 1.0,
        side=terms.side,
        n=int(draws.n.sum()),
        missing=int(draws.missing.sum()),
        method=f"{EXACT} + {inside.method}" if inside else EXACT,
        seed=inside.seed if inside else None,
    )


def _above(x: Array, mass: Mass, values: Array) -> Array:
    """Return the mass of the events with values above each x, added from the highest value down."""
    order = np.argsort(values)
    sums = np.append(np.cumsum(mass.p[order][::-1])[::-1], 0.0)
    return np.asarray(sums[np.searchsorted(values[order], x, side="right")])


def mass_std(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the standard deviation of X from the masses only, with certainty.

    The unknown mass is one more event, with range [0, 1]. The variance is min_c E(X - c)^2.
    Below: the smallest over the possible distributions is min_c sum p_a near_a(c)^2, near_a(c) the
    distance from c to [low_a, high_a], since two minima change places. Above: E(X - c)^2 is linear
    in the distribution, convex in c, and the possible distributions are a convex compact set, so
    (Sion 1958) the largest min_c is min_c sum p_a far_a(c)^2, far_a(c) the distance from c to the
    farther end. Both sums are convex in c, both bounds are attained. Where every event is settled
    this is, with E_i = sum p_a x_a^i and R the unknown mass, E_2 - E_1^2/(1 - R) and E_2 + Rz -
    (E_1 + Rz)^2, z = clip((1/2 - E_1)/R, 0, 1).

    In float64 the bounds are rounded outwards, by an amount that the module's text proves
    sufficient. So they never cross, also if masses add up to a little more than 1 (`Mass` allows
    1e-9).
    """
    return _joined(masses, lambda question: _std_of_one(question.known[0], terms.side))


def _std_of_one(mass: Mass, side: Side) -> Estimate:
    p = np.append(mass.p, replace(mass, remainder=0.0).slack)
    low, high = np.append(mass.low, 0.0), np.append(mass.high, 1.0)
    lower, _ = _least(p, lambda c: np.clip(c, low, high))
    _, farthest = _least(p, lambda c: np.where(2 * c < low + high, high, low))
    upper = min(farthest, 0.5)
    return Estimate(
        about=SD.about(),
        value=float(np.clip(_point_std(mass), lower, upper)),
        lower=0.0 if side == "upper" else lower,
        upper=0.5 if side == "lower" else upper,
        confidence=1.0,
        side=side,
        n=0,
        missing=0,
        method=EXACT,
    )


def _least(p: Array, end: Callable[[float], Array]) -> tuple[float, float]:
    """Bound the root of min_c f(c), f(c) = sum p (c - end(c))^2, from below and from above.

    f is convex, with derivative 2 g, g(c) = sum p (c - end(c)).
    """
    c = brentq(lambda c: float(p @ (c - end(c))), 0.0, 1.0, xtol=1e-15)
    gaps = c - end(c)
    minimum, slope = float(p @ gaps**2), abs(float(p @ gaps))
    rounding = (len(p) + 8) * np.finfo(np.float64).eps
    too_much = max(0.0, math.fsum(p) - 1)
    below = minimum * (1 - rounding) - 2 * (slope + rounding) - too_much
    return math.sqrt(max(below, 0.0)), math.sqrt(minimum * (1 + rounding))


def _point_std(mass: Mass) -> float:
    """Return the standard deviation of the distribution of `value`."""
    settled = mass.p.sum()
    if settled == 0:
        return math.nan
    mean = mass.p @ (mass.low + mass.high) / (2 * settled)
    squares = (mass.low - mean) ** 2 + (mass.high - mean) ** 2
    return math.sqrt(mass.p @ squares / (2 * settled))
