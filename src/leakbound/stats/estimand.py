"""`Estimand`: a quantity with its methods; one row of a table makes a new bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.estimate import Array, Counts, Estimate, Side, plain, share_of
from leakbound.stats.leakage import Leakage
from leakbound.stats.order import Seed

Rule = Callable[[Leakage, float], Array]
"""(rows of one n, alpha) -> one bound a row (and a k or x), holding at 1 - alpha."""

End = Callable[[float], Array]
"""alpha -> one end of every interval, holding at 1 - alpha."""

UNIT = (0.0, 1.0)
FIXED_N = "fixed n"
ANY_TIME = "any time"
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Method:
    """An upper and a lower bound of one name; `lower` None where there is no such bound.

    `shuffles`: whether they meet the draws in the order that the rows' keys give. `stopping` says
    when sampling may have ended for the bounds to hold. `any_n`: whether they take rows of unlike
    n at once.
    """

    name: str
    upper: Rule
    lower: Rule | None
    shuffles: bool = False
    stopping: str = FIXED_N
    any_n: bool = False

    def applied(self, rule: Rule, rows: Leakage, alpha: float) -> Array:
        """One of the two bounds for every row."""
        if self.any_n:
            return rule(rows, alpha)
        return rows.each(lambda alike: rule(alike, alpha))

    def below(self, rows: Leakage, alpha: float) -> Array:
        """The lower bound; InputError where there is none."""
        if self.lower is None:
            raise InputError(
                f"method {self.name!r} bounds from above only. "
                "Ask for side='upper', or leave `method` out to get the default."
            )
        return self.lower(rows, alpha)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimand:
    """A quantity, the range it cannot leave, and its methods by name, the default first.

    `value` maps scored rows of one n to the point estimate.
    """

    about: About
    value: Callable[[Leakage], Array]
    methods: Mapping[str, Method]
    span: tuple[float, float] = UNIT

    def estimate(
        self,
        rows: Leakage,
        *,
        confidence: float,
        side: Side,
        method: str | None = None,
        seed: Seed = None,
    ) -> Estimate:
        """Bound the quantity for every question; with two sides each gets half of alpha."""
        chosen = choose(method, self.methods, self.about.name)
        if chosen.shuffles:
            rows = rows.ordered(seed)
        return bounded(
            self.about,
            rows,
            rows.scored().each(self.value),
            partial(chosen.applied, chosen.below, rows),
            partial(chosen.applied, chosen.upper, rows),
            confidence=confidence,
            side=side,
            span=self.span,
            method=chosen.name,
            seed=rows.seed,
            stopping=chosen.stopping,
        )


def choose(name: str | None, methods: Mapping[str, M], quantity: str) -> M:
    """The method of that name, the first for None; InputError where there is none."""
    key = next(iter(methods)) if name is None else name
    if key not in methods:
        names = ", ".join(map(repr, methods))
        raise InputError(f"`method` of the {quantity} must be one of {names}, got {name!r}.")
    return methods[key]


def bounded(
    about: About,
    rows: Leakage,
    value: Array,
    lower: End,
    upper: End,
    *,
    confidence: float,
    side: Side,
    method: str,
    span: tuple[float, float] = UNIT,
    together: bool = False,
    seed: int | Counts | None = None,
    stopping: str = FIXED_N,
) -> Estimate:
    """The estimate with one entry a row, or one of all rows `together`, between two ends."""
    low, high = ends(confidence, side, lower, upper, span)
    shaped = plain if together else rows.single_or_all
    several = not (rows.single or together)
    return Estimate(
        about=about,
        value=shaped(value),
        lower=shaped(low),
        upper=shaped(high),
        confidence=confidence,
        side=side,
        n=rows.n if several else int(rows.n.sum()),
        missing=rows.missing if several else int(rows.missing.sum()),
        method=method,
        seed=seed,
        stopping=stopping,
    )


def ends(
    confidence: float, side: Side, lower: End, upper: End, span: tuple[float, float] = UNIT
) -> tuple[Array, Array]:
    """The two ends that `side` asks for at their share of alpha; the trivial end otherwise."""
    alpha = share_of(confidence, side)
    if side == "upper":
        high = np.clip(upper(alpha), *span)
        return np.full_like(high, span[0]), high
    low = np.clip(lower(alpha), *span)
    if side == "lower":
        return low, np.full_like(low, span[1])
    high = np.clip(upper(alpha), *span)
    return np.minimum(low, high), high  # ends by two methods cross where one of them fails
