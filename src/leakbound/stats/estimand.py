"""`Estimand`: a quantity with its default method and, if it exists, the papers' method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from leakbound.stats.about import About
from leakbound.stats.estimate import Array, Counts, Estimate, Side, plain, share_of
from leakbound.stats.evidence import Rows
from leakbound.stats.order import Seed
from leakbound.stats.quantity import Quantity

Rule = Callable[[Rows, float], Array]
"""A function (rows of equal n, alpha) -> a bound per row (and per k or x), valid at 1 - alpha."""

BoundAt = Callable[[float], Array]
"""A function alpha -> one bound per interval, valid at 1 - alpha."""

UNIT = (0.0, 1.0)
FIXED_N = "fixed n"


@dataclass(frozen=True, slots=True)
class Method:
    """A method of bounding a quantity: its name, and the rules for its upper and lower bound.

    Attributes:
        shuffles: whether the bounds use the draws one by one, in the order that the rows' keys
            determine.
        any_n: whether one call of a rule may have rows with different n.
        stopping: the stopping rules for which the bounds are valid.
    """

    name: str
    upper: Rule
    lower: Rule
    shuffles: bool = False
    stopping: str = FIXED_N
    any_n: bool = False

    def applied(self, rule: Rule, rows: Rows, alpha: float) -> Array:
        """Apply `rule`, one of the two bounds of the method, to every row."""
        if self.any_n:
            return rule(rows, alpha)
        return rows.each(lambda group: rule(group, alpha))


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings of a bound: confidence, side, method (the papers' or the default), and seed."""

    confidence: float = 0.99
    side: Side = "both"
    paper: bool = False
    seed: Seed = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimand:
    """A quantity with its possible range, its default method and, if it exists, the papers' method.

    `value` is a function that computes point estimates from scored rows with the same n. A call of
    the estimand bounds its quantity, so `THEOREMS` can list the estimand as a theorem.
    """

    about: About
    value: Callable[[Rows], Array]
    usual: Method
    paper: Method | None = None
    span: tuple[float, float] = UNIT

    def __call__(self, rows: Rows, _: Quantity, terms: Terms) -> Estimate:
        """Bound the quantity for every question; of two bounds, each has error rate alpha/2."""
        chosen = self.method(terms.paper)
        if chosen.shuffles:
            rows = rows.ordered(terms.seed)
        return bounded(
            self.about,
            rows,
            rows.scored().each(self.value),
            partial(chosen.applied, chosen.lower, rows),
            partial(chosen.applied, chosen.upper, rows),
            terms,
            span=self.span,
            method=chosen.name,
            seed=rows.seed,
            stopping=chosen.stopping,
        )

    def method(self, paper: bool) -> Method:
        """Return the papers' method if it is requested and exists, else the default method."""
        return self.paper if paper and self.paper is not None else self.usual


def bounded(
    about: About,
    rows: Rows,
    value: Array,
    lower: BoundAt,
    upper: BoundAt,
    terms: Terms,
    *,
    method: str,
    span: tuple[float, float] = UNIT,
    together: bool = False,
    seed: int | Counts | None = None,
    stopping: str = FIXED_N,
) -> Estimate:
    """Return the estimate with one entry per row, or one entry for all rows if `together`."""
    low, high = interval(terms, lower, upper, span)
    if not together:  # without draws the bounds are trivial
        low[rows.n == 0], high[rows.n == 0] = span
    shaped = plain if together else rows.single_or_all
    several = not (rows.single or together)
    return Estimate(
        about=about,
        value=shaped(value),
        lower=shaped(low),
        upper=shaped(high),
        confidence=terms.confidence,
        side=terms.side,
        n=rows.n if several else int(rows.n.sum()),
        missing=rows.missing if several else int(rows.missing.sum()),
        method=method,
        seed=seed,
        stopping=stopping,
    )


def interval(
    terms: Terms, lower: BoundAt, upper: BoundAt, span: tuple[float, float] = UNIT
) -> tuple[Array, Array]:
    """Return both bounds; a bound that is not requested is the limit of the possible range."""
    alpha = share_of(terms.confidence, terms.side)
    if terms.side == "upper":
        high = np.clip(upper(alpha), *span)
        return np.full_like(high, span[0]), high
    low = np.clip(lower(alpha), *span)
    if terms.side == "lower":
        return low, np.full_like(low, span[1])
    high = np.clip(upper(alpha), *span)
    return np.minimum(low, high), high  # bounds by two methods may cross if one of them fails
