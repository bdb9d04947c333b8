"""Bounds for an arm whose distributions were explored: exact masses, and draws from the rest.

Each question has events of known mass, with the range of the scores inside each, and draws of its
remainder, whose number was fixed before them. What a scorer does not settle widens its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua import stats
from residua.store import ArmScores, QueryMasses
from residua.types import Scorer


@dataclass(frozen=True)
class Explored:
    """The masses and draws of an arm, questions in the order of `scores`."""

    scores: ArmScores
    masses: Mapping[str, QueryMasses]
    scorer: Scorer
    seed: int = 0

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The expected leakage of every question: Pr[leak] for a binary scorer."""
        if self.scorer.binary:
            return self.tail(0.0, confidence=confidence, side=side)
        return self._each(
            lambda mass, i: stats.mass_mean_bound(
                mass, *self._drawn(i), confidence=confidence, side=side, seed=self.seed,
                missing=self._missing[i],
            )
        )  # fmt: skip

    def tail(self, x: float, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """Pr[X > x] of every question, for one x fixed beforehand."""
        hits = self._hits(x)
        return self._each(
            lambda mass, i: stats.mass_proportion_bound(
                mass, int(hits[i]), int(self.scores.n[i]), x=x, confidence=confidence, side=side,
                missing=self._missing[i],
            )
        )  # fmt: skip

    def survival(self, x: Sequence[float], *, confidence: float) -> stats.Estimate:
        """Pr[X > x] of every question, for all x at once."""
        return self._each(
            lambda mass, i: stats.mass_survival_bound(
                mass, x, *self._drawn(i), confidence=confidence, missing=self._missing[i]
            )
        )

    def leak_at_k(self, k: Sequence[int], *, confidence: float) -> stats.Estimate:
        """leak@k of every question, for all k at once."""
        if self.scorer.binary:
            hits = self.scores.hits
            return self._each(
                lambda mass, i: stats.mass_leak_at_k_proportion_bound(
                    mass, k, int(hits[i]), int(self.scores.n[i]), confidence=confidence,
                    missing=self._missing[i],
                )
            )  # fmt: skip
        return self._each(
            lambda mass, i: stats.mass_leak_at_k_bound(
                mass, k, *self._drawn(i), confidence=confidence, missing=self._missing[i]
            )
        )

    def deviation(self) -> stats.Estimate:
        """The standard deviation of every question, from the masses alone: certain."""
        return self._each(lambda mass, _: stats.mass_std_bound(replace(mass, remainder=0.0)))

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean leakage over these questions."""
        weighted: Callable[..., stats.Estimate]
        if self.scorer.binary:
            return self.mean_tail(0.0, confidence=confidence, side=side)
        drawn = self._weights > 0
        weighted = partial(
            stats.mean_over_questions, self.scores.scores[drawn], self.scores.counts[drawn]
        )
        low, high = (np.array([m.p @ getattr(m, end) for m in self._known]) for end in _ENDS)
        name = "mean leakage"
        return self._mean(name, (low, high), weighted, confidence=confidence, side=side)

    def mean_tail(self, x: float, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean over these questions of Pr[X > x], for one x fixed beforehand."""
        drawn = self._weights > 0
        weighted = partial(
            stats.proportion_over_questions, self._hits(x)[drawn], self.scores.n[drawn]
        )
        low, high = (np.array([m.p @ (getattr(m, end) > x) for m in self._known]) for end in _ENDS)
        name = "leak probability" if x == 0 else f"Pr[X > {x:g}]"
        return self._mean(name, (low, high), weighted, confidence=confidence, side=side)

    def _mean(
        self,
        name: str,
        certain: tuple[NDArray[np.float64], NDArray[np.float64]],
        weighted: Callable[..., stats.Estimate],
        *,
        confidence: float,
        side: stats.Side,
    ) -> stats.Estimate:
        """(1/N) sum_i [certain part + R_i q_i]: the second, over R, is a weighted mean."""
        weights, missing = self._weights, self.scores.missing
        drawn = weights > 0
        slack = np.array([mass.slack for mass in self._known])
        method, inside = "exact mass", None
        if drawn.any():
            inside = weighted(
                weights=weights[drawn], missing=missing[drawn], confidence=confidence, side=side
            )
            method = f"{method} + {inside.method}"
        share = weights.mean()
        low, high, value = (inside.lower, inside.upper, inside.value) if inside else (0.0, 1.0, 0.0)
        lower = float(certain[0].mean() + share * low)
        upper = float(certain[1].mean() + slack.mean() + share * high)
        known = 1 - slack.mean()
        middle = float(np.mean(certain) + share * value)
        return stats.Estimate(
            estimand=name,
            target="the mean over these questions under this decoding",
            value=min(middle / known, 1.0) if known > 0 else float("nan"),
            lower=0.0 if side == "upper" else lower,
            upper=1.0 if side == "lower" else min(upper, 1.0),
            confidence=confidence if inside else 1.0,
            side=side,
            n=int(self.scores.n.sum()),
            missing=int(missing.sum()),
            method=method,
        )

    @cached_property
    def _known(self) -> list[stats.Mass]:
        """Each question's masses; a remainder of which nothing was drawn is unknown."""
        found = [self.masses[query_id] for query_id in self.scores.query_ids]
        return [
            stats.Mass(m.mass, m.low, m.high, m.remainder if n else 0.0)
            for m, n in zip(found, self.scores.n, strict=True)
        ]

    @property
    def _weights(self) -> NDArray[np.float64]:
        return np.array([mass.remainder for mass in self._known])

    @property
    def _missing(self) -> list[int]:
        return [int(n) for n in self.scores.missing]

    def _hits(self, x: float) -> NDArray[np.int64]:
        above: NDArray[np.int64] = np.where(self.scores.scores > x, self.scores.counts, 0).sum(1)
        return above

    def _drawn(self, i: int) -> tuple[Any, Any]:
        """The scores of a question's draws with their counts; (None, None) without draws."""
        if not self.scores.n[i]:
            return None, None
        return self.scores.scores[i], self.scores.counts[i]

    def _each(self, bound: Callable[[stats.Mass, int], stats.Estimate]) -> stats.Estimate:
        """Every question's estimate as one, with one entry a question."""
        each = [bound(mass, i) for i, mass in enumerate(self._known)]
        arrays: dict[str, Any] = {
            name: np.array([getattr(estimate, name) for estimate in each])
            for name in ("value", "lower", "upper", "n", "missing")
        }
        methods = dict.fromkeys(estimate.method for estimate in each)
        return replace(
            each[0],
            **arrays,
            confidence=min(estimate.confidence for estimate in each),
            method=max(methods, key=len),
            seed=next((e.seed for e in each if e.seed is not None), None),
        )


_ENDS = ("low", "high")
