"""Bounds for an arm whose number of draws was fixed when it was sampled.

The bound used follows from the scorer's declared range: binary scorers get Clopper-Pearson, others
the defaults of `leakbound.stats`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leakbound import stats
from leakbound.evaluation.scoring.ordering import BY_QUESTION, Order, leakage_at_fixed_n
from leakbound.evaluation.statements.quantities import (
    ALL_K,
    CURVE_X,
    FEWEST_BLOCKS,
    RHO,
    STANDARD_K,
    TOGETHER_K,
)
from leakbound.evaluation.statements.together import together
from leakbound.stats.about import Inputs
from leakbound.stats.estimate import Counts
from leakbound.store import ArmScores

AS_FOUND: Inputs = "as found"
"""How questions were put that a search found."""


class _How(TypedDict):
    """What every bound is given beside the scores."""

    confidence: float
    side: stats.Side
    missing: Counts


@dataclass(frozen=True, slots=True)
class Fixed:
    """The scores of an arm of fixed n, whose questions were put as `inputs` says.

    `binary` is the scorer's declared range.
    """

    scores: ArmScores
    binary: bool
    order: Order = BY_QUESTION
    inputs: Inputs = "as asked"

    @property
    def keys(self) -> NDArray[np.int64]:
        """What keys the order of each question's draws."""
        return self.order.keys(self.scores.query_ids)

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The expected leakage of every question: Pr[leak] for a binary scorer."""
        bound = partial(leakage_at_fixed_n, self.scores, self.binary, self.order)
        return self._put(bound(confidence=confidence, side=side))

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean leakage over these questions."""
        scores, how = self.scores, self._how(confidence, side)
        if self.binary:
            made = stats.proportion_over_questions(scores.hits, scores.n, seed=self.keys, **how)
        else:
            made = stats.mean_over_questions(scores.scores, scores.counts, seed=self.keys, **how)
        return self._put(made)

    def mean_leak_at_k(
        self, k: ArrayLike, *, confidence: float, side: stats.Side
    ) -> stats.Estimate:
        """The mean over these questions of a leak among k draws."""
        scores, how = self.scores, self._how(confidence, side)
        return self._put(
            stats.mean_leak_at_k_over_questions(
                scores.scores, k, scores.counts, seed=self.keys, binary=self.binary, **how
            )
        )

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """Every quantity of every question."""
        return map(self._put, self._each(confidence))

    def _each(self, confidence: float) -> Iterator[stats.Estimate]:
        scores, how = self.scores, self._how(confidence, "both")
        values, counts = scores.scores, scores.counts
        yield self.leakage(confidence=confidence, side="both")
        if self.binary:
            yield stats.leak_at_k_proportion_bound(scores.hits, scores.n, ALL_K, **how)
        else:
            yield stats.survival_bound(values, CURVE_X, counts, **how)
            yield stats.leak_at_k_bound(values, ALL_K, counts, **how)
        yield from self._worst_of_k()
        yield from self._spread(confidence)

    def together(self, confidence: float) -> Iterator[stats.Estimate]:
        """The worst question, the mean, how many leak more than x, and the means of others.

        These are leak@k, of a binary scorer also at k = n (what share of the questions leaks in n
        draws), and of any other the deviation and, from above, the ED score. Blocks of k draws are
        what leak@k rests on: with fewer than `FEWEST_BLOCKS` of them, which questions, n and k
        settle before anything is drawn, nothing is said.
        """
        yield from together(self, confidence)
        if not self.binary:
            yield from self._spread_over_questions(confidence)
        n = int(self.scores.n.min())
        for k in sorted({min(TOGETHER_K, n), *([n] if self.binary else [])}):
            if (self.scores.n // k).sum() < FEWEST_BLOCKS:
                continue
            yield self.mean_leak_at_k(k, confidence=confidence, side="both")

    def _spread(self, confidence: float) -> Iterator[stats.Estimate]:
        """The standard deviation, and from above the ED score."""
        scores, how = self.scores, self._how(confidence, "both")
        above = self._how(confidence, "upper")
        if self.binary:
            hits, n = scores.hits, scores.n
            yield stats.std_proportion_bound(hits, n, **how)
            yield stats.expectation_deviation_proportion_bound(hits, n, rho=RHO, **above)
        else:
            given = scores.scores, scores.counts
            yield stats.std_bound(*given, seed=self.keys, **how)
            yield stats.expectation_deviation_bound(*given, rho=RHO, seed=self.keys, **above)

    def _spread_over_questions(self, confidence: float) -> Iterator[stats.Estimate]:
        """The same on average over the questions."""
        scores, how = self.scores, self._how(confidence, "both")
        above = self._how(confidence, "upper")
        given = scores.scores, scores.counts
        mean = stats.expectation_deviation_over_questions
        yield self._put(stats.std_over_questions(*given, seed=self.keys, **how))
        yield self._put(mean(*given, rho=RHO, seed=self.keys, **above))

    def _worst_of_k(self) -> Iterator[stats.Estimate]:
        """The naive estimate of leak@k beside the unbiased one: no bound, noisier."""
        sizes = [k for k in STANDARD_K if k <= self.scores.n.min()]
        if self.scores.missing.any():
            return
        scores, counts, keys = self.scores.scores, self.scores.counts, self.keys
        values = np.stack([stats.worst_of_k(scores, k, counts, seed=keys) for k in sizes], axis=1)
        yield stats.Estimate(
            about=stats.About(quantity="worst of k", parameter=tuple(map(float, sizes))),
            value=values,
            lower=np.zeros_like(values),
            upper=np.ones_like(values),
            confidence=1.0,
            side="both",
            n=self.scores.n,
            missing=self.scores.missing,
            method="naive",
            seed=self.keys,
        )

    def _put(self, estimate: stats.Estimate) -> stats.Estimate:
        """The estimate, saying how the questions were put."""
        return replace(estimate, about=replace(estimate.about, inputs=self.inputs))

    def _how(self, confidence: float, side: stats.Side) -> _How:
        return _How(confidence=confidence, side=side, missing=self.scores.missing)
