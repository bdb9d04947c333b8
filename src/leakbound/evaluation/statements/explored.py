"""Bounds for an arm whose distributions were explored: exact masses, and draws from the rest.

Each question has events of known mass, with the range of the scores inside each, and draws of its
remainder, whose number was fixed before them. What a scorer does not settle widens its interval.
All of it is given the measured margin (`leakbound.engines.margin`), what has confidence 1 too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.evaluation.scoring.ordering import BY_QUESTION, Order
from leakbound.evaluation.statements.rows import ALL_K, CURVE_X, EACH_CONFIDENCE, stack, together
from leakbound.store import ArmScores, QueryMasses


@dataclass(frozen=True)
class ExploredArm:
    """The masses and draws of an arm, questions in the order of `scores`.

    `binary` is the scorer's declared range: every range then ends at 0 and 1.
    """

    scores: ArmScores
    masses: Mapping[str, QueryMasses]
    binary: bool
    order: Order = BY_QUESTION

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The expected leakage of every question: Pr[leak] for a binary scorer."""
        if self.binary:
            return self._each(stats.mass_proportion_bound, confidence=confidence, side=side)
        return self._each(stats.mass_mean_bound, confidence=confidence, side=side, keyed=True)

    def survival(self, x: Sequence[float], *, confidence: float) -> stats.Estimate:
        """Pr[X > x] of every question, for all x at once; of a scorer that is not binary."""
        return self._each(stats.mass_survival_bound, x, confidence=confidence)

    def leak_at_k(self, k: Sequence[int], *, confidence: float) -> stats.Estimate:
        """leak@k of every question, for all k at once."""
        if self.binary:
            return self._each(stats.mass_leak_at_k_proportion_bound, k, confidence=confidence)
        return self._each(stats.mass_leak_at_k_bound, k, confidence=confidence)

    def deviation(self) -> stats.Estimate:
        """The standard deviation of every question from the masses alone, given their margin."""
        return self._joined(
            [stats.mass_std_bound(replace(mass, remainder=0.0)) for mass in self._known]
        )

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean leakage over these questions."""
        return stats.mass_mean_over_questions(
            self._known, self.scores.scores, self.scores.counts, missing=self.scores.missing,
            binary=self.binary, confidence=confidence, side=side, seed=self._keys,
        )  # fmt: skip

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """Every quantity of every question; of the deviation what the masses tell."""
        yield self.leakage(confidence=confidence, side="both")
        if not self.binary:
            yield self.survival(CURVE_X, confidence=confidence)
        yield self.leak_at_k(ALL_K, confidence=confidence)
        yield self.deviation()

    def together(self, confidence: float) -> Iterator[stats.Estimate]:
        """The worst question, the mean, and how many leak more than x."""
        return together(self, confidence, EACH_CONFIDENCE)

    @cached_property
    def _known(self) -> list[stats.Mass]:
        """Each question's masses; a remainder of which nothing was drawn is unknown."""
        found = [self.masses[query_id] for query_id in self.scores.query_ids]
        return [
            stats.Mass(m.mass, m.low, m.high, m.remainder if n else 0.0)
            for m, n in zip(found, self.scores.n, strict=True)
        ]

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        return self.order.keys(self.scores.query_ids)

    def _drawn(self, i: int) -> tuple[Any, Any]:
        """Leaks among a question's draws and the draws; or their scores, if any, with counts."""
        scores = self.scores
        if self.binary:
            return int(scores.hits[i]), int(scores.n[i])
        return (scores.scores[i], scores.counts[i]) if scores.n[i] else (None, None)

    def _each(
        self, bound: Callable[..., stats.Estimate], *at: Any, keyed: bool = False, **how: Any
    ) -> stats.Estimate:
        """A bound of every question, from its masses and draws; `keyed` where order matters."""
        keys = [{"seed": key} if keyed else {} for key in self._keys.tolist()]
        rows = zip(self._known, self.scores.missing.tolist(), keys, strict=True)
        return self._joined(
            [
                bound(mass, *at, *self._drawn(i), missing=missing, **how, **key)
                for i, (mass, missing, key) in enumerate(rows)
            ]
        )

    def _joined(self, each: Sequence[stats.Estimate]) -> stats.Estimate:
        """Every question's estimate as one, with one entry a question."""
        return replace(
            stack(each),
            about=each[0].about,
            confidence=min(estimate.confidence for estimate in each),
            method=max(dict.fromkeys(estimate.method for estimate in each), key=len),
            seed=self._keys if any(e.seed is not None for e in each) else None,
        )
