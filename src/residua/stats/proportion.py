"""Binary scorers: the probability of a leak, and leak@k from it.

The bound used follows from the scorer's declared range, never from the scores seen: ROUGE that
happens to be all 0 is not binary, and belongs to `mean_bound` and `leak_at_k_bound`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, betaincinv

from residua.errors import InputError
from residua.stats.estimand import ends
from residua.stats.estimate import Array, Counts, Estimate, Side, check_side, one_or_all
from residua.stats.leak_at_k import name_at, whole_sizes
from residua.stats.leakage import per_question, whole


def proportion_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Clopper-Pearson bound on the probability of a leak, from `hits` leaks in `n` draws.

    For i.i.d. draws, n fixed beforehand. Each argument is one number or one a question. `n`
    counts the `missing` draws too; they are leaks above and none below. The paper's form is
    undefined where every draw leaks: the bound is 1 there.
    """
    tally = _Tally(hits, n, missing)
    lower, upper = tally.ends(confidence, side)
    value = tally.value(lambda hits, n: hits / n)
    return tally.estimate("leak probability", value, lower, upper, confidence, side)


def leak_at_k_proportion_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    k: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound the chance 1 - (1 - p)^k of a leak among k draws, for every k at once.

    As `proportion_bound`, whose bound on p it carries over; any k >= 1, also beyond n. `k` is a
    number, or 1-D and then the last axis of the result.
    """
    sizes = whole_sizes(k)
    tally = _Tally(hits, n, missing)
    with np.errstate(divide="ignore"):
        lower, upper = (
            -np.expm1(np.multiply.outer(np.log1p(-end), sizes))
            for end in tally.ends(confidence, side)
        )
    value = tally.value(lambda hits, n: leak_at_k_proportion(hits, n, sizes))
    return tally.estimate(name_at(sizes), value, lower, upper, confidence, side)


def leak_at_k_proportion(hits: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> Array:
    """The unbiased estimate 1 - C(n - hits, k)/C(n, k); NaN where k exceeds n.

    `k` is a number, or 1-D and then the last axis of the result.
    """
    hits, n = np.broadcast_arrays(whole("hits", hits), whole("n", n))
    axes = (..., *[np.newaxis] * np.ndim(k))
    return np.asarray(_subset_hit(hits[axes], n[axes], whole_sizes(k)))


def clopper_pearson_upper(hits: Counts, n: Counts, alpha: float) -> Array:
    """BetaInv(1 - alpha; S + 1, n - S), and 1 where S = n."""
    return np.where(hits < n, betainccinv(hits + 1, np.maximum(n - hits, 1), alpha), 1.0)


def clopper_pearson_lower(hits: Counts, n: Counts, alpha: float) -> Array:
    """BetaInv(alpha; S, n - S + 1), and 0 where S = 0."""
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1, alpha), 0.0)


class _Tally:
    """Leaks among draws, one row a question: (Q,) each."""

    def __init__(self, hits: npt.ArrayLike, n: npt.ArrayLike, missing: npt.ArrayLike) -> None:
        given = [whole(name, x) for name, x in (("hits", hits), ("n", n), ("missing", missing))]
        if max(x.ndim for x in given) > 1:
            raise InputError("`hits`, `n` and `missing` must be numbers or 1-D, one a question.")
        self.single = all(x.ndim == 0 for x in given)
        rows = max(x.size for x in given)
        self.hits, self.n, self.missing = (
            per_question(name, x, rows)
            for name, x in zip(("hits", "n", "missing"), given, strict=True)
        )
        if not self.n.size or not self.n.all():
            raise InputError("`n` must be at least 1, got 0. A bound needs at least one draw.")
        if (self.hits + self.missing > self.n).any():
            row = int((self.hits + self.missing - self.n).argmax())
            raise InputError(
                f"`hits` and `missing` must not exceed `n`, got {self.hits[row]} hits and "
                f"{self.missing[row]} missing of {self.n[row]} draws at question {row}."
            )

    def ends(self, confidence: float, side: Side) -> tuple[Array, Array]:
        """Clopper-Pearson with missing draws against the claim."""
        check_side(side)
        return ends(
            confidence,
            side,
            lambda alpha: clopper_pearson_lower(self.hits, self.n, alpha),
            lambda alpha: clopper_pearson_upper(self.hits + self.missing, self.n, alpha),
            (0.0, 1.0),
        )

    def value(self, rule: Callable[[Counts, Counts], Array]) -> Array:
        """A point estimate over the scored draws, NaN where there is none."""
        scored = self.n - self.missing
        value = rule(self.hits, np.maximum(scored, 1))
        return np.where(scored.reshape(-1, *[1] * (value.ndim - 1)) > 0, value, np.nan)

    def estimate(
        self,
        estimand: str,
        value: Array,
        lower: Array,
        upper: Array,
        confidence: float,
        side: Side,
    ) -> Estimate:
        """Assemble the result, without the first axis if there was one question."""

        return Estimate(
            estimand=estimand,
            value=one_or_all(value, self.single),
            lower=one_or_all(lower, self.single),
            upper=one_or_all(upper, self.single),
            confidence=confidence,
            side=side,
            n=int(self.n[0]) if self.single else self.n,
            missing=int(self.missing[0]) if self.single else self.missing,
            method="Clopper-Pearson",
        )


@np.vectorize(otypes=[np.float64])
def _subset_hit(hits: int, n: int, k: int) -> float:
    """1 - prod_{j < hits} (1 - k/(n - j)); hits and k may change places."""
    if k > n:
        return float("nan")
    if hits > n - k:
        return 1.0
    few, many = min(hits, k), max(hits, k)
    return float(-np.expm1(np.log1p(-many / (n - np.arange(few))).sum())) + 0.0  # no -0.0
