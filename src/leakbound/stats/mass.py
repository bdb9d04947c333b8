"""Bounds from exact probability masses of outputs that exploring found, with or without draws.

Exploring finds disjoint events a (sets of outputs), each with a mass (probability) of at least p_a
and scores in [low_a, high_a]. The remainder is an event that is disjoint from these events, with a
mass of at least r. Draws, if any, come from the distribution given the remainder. The true masses
are P_a >= p_a and R >= r. Let slack = 1 - sum p_a - r be the unknown mass. It consists of every
difference P_a - p_a, of R - r, and of the mass of all other events. Let g be a function of the
score X with values in [0, 1], and in [g_low_a, g_high_a] on a. If L <= E[g(X) | remainder] <= U,
then

    sum p_a g_low_a + r L  <=  E[g(X)]  <=  sum p_a g_high_a + r U + slack.

In the lower bound, g is 0 on the unknown mass. In the upper bound, g is 1 there, which is its
largest possible value. Both bounds are attained by possible distributions, so no better bounds
exist. Only [L, U] depends on draws, so only [L, U] spends alpha. If [L, U] is valid for all g of a
family simultaneously, so are the bounds. Without draws [L, U] = [0, 1], and the bounds are certain.
(Sums in float64 have errors of some 1e-16 per event.)

*Over questions.* For question i, let low_i be the sum over its events of mass times lowest score,
and high_i the sum of mass times highest score. Let slack_i be its unknown mass, R_i the mass of its
remainder, and q_i the mean score in the remainder. Then

    sum low_i + sum R_i q_i  <=  N mean  <=  sum (high_i + slack_i) + sum R_i q_i.

The R_i do not depend on the draws. So sum R_i q_i / sum R_i is a mean of the
q_i with weights fixed in advance, which `mean_over_questions` bounds. Only this
bound spends alpha.

*Standard deviation, and its rounding.* Each bound of the variance (see `mass_std`) is the minimum
over c of a convex function f(c) = sum p (c - end(c))^2, where end(c) is a bound of an event's
range. The derivative is f' = 2 g with g(c) = sum p (c - end(c)). The code evaluates f at a c that
is nearly the minimiser. Let u be the spacing of float64 at 1, and d the number of events. Upper
bound: min f <= f(c) for any c. The code computes f(c), a sum of d terms >= 0, to a relative error
below (d + 8) u. Lower bound: f is above its tangent, and both c and the minimiser are in [0, 1]. So
min f >= f(c) - |f'(c)| = f(c) - 2 |g(c)|, and the code computes g(c) to an absolute error below (d
+ 8) u. If rounding makes the masses add up to 1 + s, the true masses are smaller by s in total. No
(c - end)^2 is above 1, so s is subtracted from the lower bound. Then the lower bound is at most the
upper bound, because near_a(c)^2 <= far_a(c)^2 for the same masses (`mass_std` defines these
distances). The lower bound is also below 1/2, because min_c sum p far^2 <= (1 + s)/4.
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
    """The exact masses of one query's score X; bounds from them are as certain as the masses.

    Each of the disjoint events has a lower bound of its mass and a range of X. The mass outside the
    events and the remainder is unknown, and may have any score in [0, 1]. The masses of an engine
    are lower bounds if its rounding errors are within the measured margin (see
    `leakbound.engines.margin`).

    Attributes:
        p: the lower bound of the mass of each event, [d]. Together with `remainder`, these bounds
            add up to at most 1.
        low: the smallest score inside each event, in [0, 1], [d].
        high: the largest score inside each event, in [0, 1], [d].
        remainder: the lower bound of the mass of the remainder, from which draws come; 0 if there
            are no draws.

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
                "`p`, `low` and `high` must be 1-D arrays of one length, got shapes "
                f"{self.p.shape}, {self.low.shape} and {self.high.shape}."
            )
        total = math.fsum([*self.p, self.remainder])
        if not (min(self.p.min(initial=0), self.remainder) >= 0 and total <= 1 + ROUNDING):
            raise InputError(
                "`p` and `remainder` must be masses >= 0 that add up to at most 1, got a smallest "
                f"mass of {min(self.p.min(initial=0), self.remainder):g} and a sum of "
                f"{total:.12g}. Include each output only once."
            )
        bad = ~((self.low >= 0) & (self.low <= self.high) & (self.high <= 1))
        if bad.any():
            event = int(bad.argmax())
            raise InputError(
                f"`low` and `high` must satisfy 0 <= low <= high <= 1, got [{self.low[event]:g}, "
                f"{self.high[event]:g}] at index {event}."
            )

    @cached_property
    def slack(self) -> float:
        """Return the unknown mass: 1 - sum p - remainder, correctly rounded."""
        return max(0.0, -math.fsum([*self.p, self.remainder, -1.0]))


@dataclass(frozen=True)
class Masses(OfRows):
    """Exact masses of one or several queries, with i.i.d. draws from each remainder.

    The events and the numbers of draws must be fixed before the draws.

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
        """Return the evidence of masses and draws, with one entry per question.

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
        """Bound E[g(X)] of every question by the formula in the module docstring.

        `sums` returns the sum of p g over the events, with g at the lower or at the upper bound of
        each range. `prove` bounds the mean of g over a remainder, from the draws. `largest` is the
        largest value of g.
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
    """Bound Pr[X > x] for every x simultaneously, from masses and, where there are any, draws.

    `tail_bound` bounds the tail of the draws for all x. Without draws the remainder is part of the
    unknown mass, and the confidence is 1.

    `value`, here and in the functions below, is the quantity of one possible distribution. This
    distribution puts half of each event's mass at the lowest score of the event, and half at the
    highest. The remainder has the distribution of its draws. The unknown mass is spread over the
    events and the remainder in proportion to their masses. Without draws `value` is always between
    the bounds. It is NaN if there is neither an event nor a scored draw.
    """
    x = quantity.points
    most = np.where(x < 1, 1.0, 0.0)
    return masses.mixed(quantity.about(), partial(_above, x), tail_bound, quantity, terms, most)


def mass_leak(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the leak probability of a binary scorer, in the same way as `mass_tail`.

    Clopper-Pearson bounds the probability that a draw from the remainder leaks. This bound is for
    one x only, so it is tighter than the bound of the tail, which is valid for every x.
    """
    return masses.mixed(LEAK, partial(_above, np.array(0.0)), PROPORTION, quantity, terms)


def mass_mean(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound E[X] in the same way as `mass_tail`; betting bounds the mean over the remainder."""
    return masses.mixed(MEAN.about, lambda mass, end: mass.p @ end, MEAN, quantity, terms)


def mass_leak_at_k(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound leak@k for every k simultaneously, any k >= 1.

    E[max of k] = int_0^1 1 - (1 - Pr[X > t])^k dt increases in the tail Pr[X > t], which
    `mass_tail` bounds for all t simultaneously. `value` is NaN if it would depend too much on few
    draws. This is the case if k draws from the whole distribution would contain, on average, more
    draws from the remainder than a quarter of the sampled draws.
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

    The scorer must be binary. The bound of p from `mass_leak` is converted to a bound of leak@k.
    `value` is as in `mass_leak_at_k`.
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
    """Return, for each question, the number of scored draws divided by the remainder's mass.

    On average, this number of draws from the whole distribution contains as many draws from the
    remainder as were scored. It is infinite for a question without a remainder or without draws.
    """
    rest = np.array([mass.remainder for mass in masses.known])
    scored = masses.rows.scored().n
    drawn = (masses.rows.n > 0) & (rest > 0)
    return np.asarray(np.divide(scored, rest, where=drawn, out=np.full(len(rest), math.inf)))


def mass_mean_over_questions(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the mean of E[X] over these questions; only the bound from draws spends alpha.

    Each question's draws come from its output distribution given the remainder. The numbers of
    draws are fixed in advance.
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
    """Return the mass of events with values above each x, summed from the highest value down."""
    order = np.argsort(values)
    sums = np.append(np.cumsum(mass.p[order][::-1])[::-1], 0.0)
    return np.asarray(sums[np.searchsorted(values[order], x, side="right")])


def mass_std(masses: Masses, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the standard deviation of X from the masses only, with certainty.

    The unknown mass is treated as one more event, with range [0, 1]. The variance is min_c E(X -
    c)^2. Lower bound: the minimum over c and the minimum over the possible distributions may be
    exchanged. So the smallest variance is min_c sum p_a near_a(c)^2, with near_a(c) the distance
    from c to [low_a, high_a]. Upper bound: E(X - c)^2 is linear in the distribution and convex in
    c, and the possible distributions are a convex compact set. Let far_a(c) be the distance from c
    to the farther of low_a and high_a. By Sion's minimax theorem (1958) the largest variance is
    then min_c sum p_a far_a(c)^2. Both sums are convex in c, and both bounds are attained. If every
    event has a single score x_a, let E_i = sum p_a x_a^i and R the unknown mass. The bounds of the
    variance are then E_2 - E_1^2/(1 - R) and E_2 + Rz - (E_1 + Rz)^2, z = clip((1/2 - E_1)/R, 0,
    1).

    In float64 the bounds are rounded outwards, by an amount that the module docstring proves
    sufficient. So the lower bound never exceeds the upper bound, even if masses add up to a little
    more than 1 (`Mass` allows 1e-9).
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
    """Return the standard deviation of the distribution that `mass_tail` describes for `value`."""
    settled = mass.p.sum()
    if settled == 0:
        return math.nan
    mean = mass.p @ (mass.low + mass.high) / (2 * settled)
    squares = (mass.low - mean) ** 2 + (mass.high - mean) ** 2
    return math.sqrt(mass.p @ squares / (2 * settled))
