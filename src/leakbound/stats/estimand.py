"""`Estimand`: a quantity with its methods; one row of a table makes a new bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.estimate import Array, Estimate, Side, check_side, error_rate
from leakbound.stats.leakage import Leakage
from leakbound.stats.order import Seed

Rule = Callable[[Leakage, float], Array]
"""(rows of one n, alpha) -> one bound a row (and a k or x), holding at 1 - alpha."""

FIXED_N = "fixed n"
ANY_TIME = "any time"
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Method:
    """An upper and a lower bound of one name; `lower` None where there is no such bound.

    `stopping` says when sampling may have ended for the bounds to hold.
    """

    name: str
    upper: Rule
    lower: Rule | None
    shuffles: bool = False
    stopping: str = FIXED_N

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
    """What is bounded, the range it cannot leave, and its methods by name, the default first.

    `value` maps scored rows of one n to the point estimate.
    """

    about: About
    value: Callable[[Leakage], Array]
    methods: Mapping[str, Method]
    span: tuple[float, float] = (0.0, 1.0)

    def estimate(
        self, leakage: Leakage, *, confidence: float, side: Side, method: str | None, seed: Seed
    ) -> Estimate:
        """Bound the quantity for every question; with two sides each gets half of alpha."""
        check_side(side)
        chosen = choose(method, self.methods, self.about.name)
        if chosen.shuffles:
            leakage = leakage.ordered(seed)
        lower, upper = ends(
            confidence,
            side,
            lambda alpha: leakage.each(lambda rows: chosen.below(rows, alpha)),
            lambda alpha: leakage.each(lambda rows: chosen.upper(rows, alpha)),
            self.span,
        )
        return Estimate(
            about=self.about,
            value=leakage.single_or_all(leakage.scored().each(self.value)),
            lower=leakage.single_or_all(lower),
            upper=leakage.single_or_all(upper),
            confidence=confidence,
            side=side,
            n=int(leakage.n[0]) if leakage.single else leakage.n,
            missing=int(leakage.missing[0]) if leakage.single else leakage.missing,
            method=chosen.name,
            seed=leakage.seed,
            stopping=chosen.stopping,
        )


def choose(name: str | None, methods: Mapping[str, M], quantity: str) -> M:
    """The method of that name, the first for None; InputError where there is none."""
    key = next(iter(methods)) if name is None else name
    if key not in methods:
        known = ", ".join(map(repr, methods))
        raise InputError(f"`method` of the {quantity} must be one of {known}, got {name!r}.")
    return methods[key]


def ends(
    confidence: float,
    side: Side,
    lower: Callable[[float], Array],
    upper: Callable[[float], Array],
    span: tuple[float, float],
) -> tuple[Array, Array]:
    """The two ends that `side` asks for at their share of alpha; the trivial end otherwise."""
    alpha = error_rate(confidence)
    if side == "both":
        alpha /= 2
    if side == "upper":
        high = np.clip(upper(alpha), *span)
        return np.full_like(high, span[0]), high
    low = np.clip(lower(alpha), *span)
    if side == "lower":
        return low, np.full_like(low, span[1])
    high = np.clip(upper(alpha), *span)
    return np.minimum(low, high), high  # ends by two methods cross where one of them fails
