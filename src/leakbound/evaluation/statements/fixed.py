"""Bounds for an arm whose number of draws was fixed when it was sampled.

The bound used follows from the scorer's declared range: binary scorers get Clopper-Pearson, others
the defaults of `leakbound.stats`.

What a greedy arm says: one output a question, so that its scores are exact, or missing.

Bounds for an arm whose questions stopped when a claim about them was decided.

How many draws a question got then depends on its scores, so every bound for a fixed n is void:
what holds is any-time bounds and, for a question that reached the cap, the better of that and
the bound for n = cap, each at its half of alpha. They hold whatever rule made a question stop,
and for every scorer, not only the one that steered: at each look the rule may use all that was
drawn and scored until then. Deviations and tails at all x have no such bound here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.evaluation.scoring.ordering import BY_QUESTION, Order, leakage_at_fixed_n
from leakbound.evaluation.statements.rows import (
    ALL_K,
    CURVE_X,
    EACH_CONFIDENCE,
    FEWEST_BLOCKS,
    LEAKAGE,
    RHO,
    STANDARD_K,
    TOGETHER_K,
    together,
)
from leakbound.stats.about import Inputs, Quantity
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

    def mean_leak_at_k(self, k: int, *, confidence: float, side: stats.Side) -> stats.Estimate:
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


@dataclass(frozen=True, slots=True)
class Greedy:
    """The scores of a greedy arm; `binary` is the scorer's declared range."""

    scores: ArmScores
    binary: bool

    def each(self) -> stats.Estimate:
        """The score of every question's answer."""
        found = self.scores
        known = found.counts.sum(axis=1) > 0
        value = np.where(known, (found.scores * found.counts).sum(axis=1), np.nan)
        ends = np.where(known, value, 0.0), np.where(known, value, 1.0)
        n = np.ones(len(value), dtype=np.int64)
        return _exact(stats.About(quantity="greedy score"), value, ends, n, found.missing)

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean leakage over these questions."""
        return self._mean(LEAKAGE[0 if self.binary else 1])

    def mean_leak_at_k(self, k: int, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The same: k outputs of a question are k times the same."""
        return self._mean("leak@k", k)

    def _mean(self, quantity: Quantity, k: int | None = None) -> stats.Estimate:
        asked, missing = len(self.scores.query_ids), int(self.scores.missing.sum())
        total, scored = float((self.scores.scores * self.scores.counts).sum()), asked - missing
        about = stats.About(quantity=quantity, scope="mean", parameter=k, over=asked)
        ends = total / asked, (total + missing) / asked
        return _exact(about, total / scored if scored else float("nan"), ends, asked, missing)


def _exact(
    about: stats.About, value: Any, ends: tuple[Any, Any], n: Any, missing: Any
) -> stats.Estimate:
    return stats.Estimate(
        about=about, value=value, lower=ends[0], upper=ends[1], confidence=1.0, side="both",
        n=n, missing=missing, method="exact",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stopped:
    """The scores of an arm whose questions stopped early, at most `cap` draws each.

    `binary` is the scorer's declared range.
    """

    scores: ArmScores
    binary: bool
    cap: int
    order: Order = BY_QUESTION

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The expected leakage of every question: Pr[leak] for a binary scorer."""
        scores = self.scores
        how: dict[str, Any] = {"confidence": confidence, "side": side, "missing": scores.missing}
        if self.binary:
            return stats.stopped_proportion_bound(scores.hits, scores.n, self.cap, **how)
        keys = self.order.keys(scores.query_ids)
        return stats.stopped_mean_bound(
            scores.scores, scores.counts, cap=self.cap, seed=keys, **how
        )

    def leak_at_k(self, k: Sequence[int], *, confidence: float) -> stats.Estimate:
        """A leak among k draws, for every k at once; also for k beyond n."""
        scores = self.scores
        return stats.stopped_leak_at_k_bound(
            scores.hits, scores.n, k, self.cap, missing=scores.missing,
            confidence=confidence, side="both",
        )  # fmt: skip

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean leakage over these questions."""
        number = len(self.scores.query_ids)
        return stats.mean_over_stopped_questions(
            self.leakage, number, confidence=confidence, side=side
        )

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """The leakage of every question, and leak@k where it follows from that."""
        yield self.leakage(confidence=confidence, side="both")
        if self.binary:
            yield self.leak_at_k(ALL_K, confidence=confidence)

    def together(self, confidence: float) -> Iterator[stats.Estimate]:
        """The worst question, the mean, and how many leak more than x."""
        return together(self, confidence, EACH_CONFIDENCE)
