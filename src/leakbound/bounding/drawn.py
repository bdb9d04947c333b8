"""An arm's draws as evidence for `stats`, and the statements that follow from the evidence.

*Fixed n.* The evidence is `stats.Rows`. The scorer's declared range selects the bound.

*Greedy.* There is one output per question, and the score of this output is
exact or missing. Statements that combine greedy answers with draws use
`greedy_mean` as the mean.

*Stopped when a claim was decided.* The evidence is `stats.Stopped`. The number
of draws of a question depends on its scores, so no bound for a fixed n is
valid. The bounds of `stats` for stopped draws are valid for every scorer, not
only for the scorer whose scores decided when to stop, because the stopping rule
may use all earlier draws and scores.

*Explored.* The evidence is `stats.Masses`. Each question has events (sets of
outputs) of known probability (mass). Each event has a range that contains the
scores of its outputs; a wide range makes the interval wider. The question also
has draws from the remainder (all other outputs). Their number was fixed before
drawing. All bounds, even estimates of confidence 1, assume that rounding errors
are within the measured margin (`leakbound.engines.margin`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.bounding.rows import (
    FEWEST_BLOCKS,
    LEAK_X,
    MEAN_SPREAD,
    OF_QUESTION,
    SPREAD,
    STANDARD_K,
    TOGETHER_K,
    Stated,
)
from leakbound.scoring.ordering import BY_QUESTION, Order
from leakbound.stats.about import Inputs, Quantity
from leakbound.stats.leak_at_k import FEWEST_GROUPS
from leakbound.stats.order import ONE_BY_ONE
from leakbound.store import Arm
from leakbound.study import RHO

FEWEST_DRAWS = 8  # the smallest n of the bounds from a question's first n draws
SEARCHED: Inputs = "as found"
"""The value of `Drawn.inputs` for questions whose input a search found."""
_EQUAL_N = ("draws", "iid pool", "clusters")
"""The kinds of evidence with a naive estimate of leak@k: n was fixed, and draws can be grouped."""


@dataclass(frozen=True)
class Drawn:
    """The draws of an arm's questions as evidence, in one form for all ways of drawing.

    Attributes:
        evidence: the scores of each question's draws as evidence for `stats`, with the scorer's
            declared range.
        order: the order in which bets use the draws.
        inputs: the inputs that the evidence is about: the questions in their original wording,
            rewritings, or inputs that a search found.
        rho: the weight of the standard deviation in the ED score.
        arms: the arms that were drawn; empty for scores that belong to no arm.
    """

    evidence: stats.Evidence
    order: Order = field(default=BY_QUESTION, kw_only=True)
    inputs: Inputs = field(default="as asked", kw_only=True)
    rho: float = field(default=RHO, kw_only=True)
    arms: tuple[Arm, ...] = field(default=(), kw_only=True)

    @property
    def query_ids(self) -> tuple[str, ...]:
        """Return the ids of the questions that have draws."""
        return self.draws.ids

    @property
    def binary(self) -> bool:
        """Return whether the scorer declares that its scores are only 0 and 1."""
        return self.evidence.binary

    @property
    def arm(self) -> Arm:
        """Return the arm; the evidence must have exactly one arm."""
        (arm,) = self.arms
        return arm

    @property
    def greedy(self) -> bool:
        """Return whether each question has only one output, with an exact score."""
        return self.arm.decoding.greedy

    @property
    def complete(self) -> bool:
        """Return whether every question has draws, and no search chose its input."""
        questions = self.arm.run_queries.questions
        return len(self.query_ids) == len(questions) and self.arm.key.kind != "attack"

    @property
    def draws(self) -> stats.Rows:
        """Return each question's draws; for an explored question, draws from the remainder."""
        return self.evidence.draws

    @property
    def rows(self) -> stats.Rows | None:
        """Return the draws if n was fixed and the draws of each question are i.i.d., else None."""
        return self.evidence if isinstance(self.evidence, stats.Rows) else None

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """Return one key per question, which determines the order of its draws in bets."""
        return self.order(self.query_ids)

    def bound(
        self, quantity: stats.Quantity, *, confidence: float, side: stats.Side
    ) -> stats.Estimate:
        """Bound a quantity of each question or of all questions; record the questions' inputs."""
        how: dict[str, Any] = {"confidence": confidence, "side": side, "seed": self._seed(quantity)}
        return self._put(stats.bound(self.evidence, quantity, **how))

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """Bound each question's Pr[leak] for a binary scorer, else its mean score."""
        return self.bound(stats.LEAKAGE, confidence=confidence, side=side)

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """Bound the mean leakage over these questions."""
        return self.bound(stats.LEAKAGE.mean(), confidence=confidence, side=side)

    def worst(self, *, confidence: float, side: stats.Side = "both") -> stats.Estimate:
        """Bound the leakage of the question that leaks most."""
        return self.bound(stats.LEAKAGE.worst(), confidence=confidence, side=side)

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """Yield estimates of every quantity for every question."""
        yield from self._stated(OF_QUESTION, confidence)
        yield from map(self._put, self._worst_of_k())
        yield from self._stated(SPREAD, confidence)

    def together(self, confidence: float) -> Iterator[stats.Estimate]:
        """Yield statements on the worst question, the mean, the questions above x, and other means.

        The other means are the mean leak@k and, for scorers that are not binary, the mean standard
        deviation and an upper bound of the mean ED score. For a binary scorer there is also the
        mean leak@k at k = n, which is the expected fraction of questions that leak in n draws.
        There is no leak@k with fewer than `FEWEST_BLOCKS` blocks of k draws. The number of blocks
        depends only on the number of questions, n and k.
        """
        yield self.worst(confidence=confidence)
        yield self.mean(confidence=confidence, side="both")
        yield self.bound(stats.LEAKAGE.above(LEAK_X), confidence=confidence, side="both")
        yield from self._stated(MEAN_SPREAD, confidence)
        n = int(self.draws.n.min())
        sizes = sorted({min(TOGETHER_K, n), *([n] if self.binary else [])})
        at_k = [Stated(stats.leak_at(k).mean()) for k in sizes if self.blocks(k) >= FEWEST_BLOCKS]
        yield from self._stated(at_k, confidence)

    def band(self, confidence: float) -> Iterator[stats.Estimate]:
        """Yield the mean leak@k, valid for several k simultaneously, if there are enough blocks."""
        fewest = int(self.draws.n.min())
        sizes = [k for k in STANDARD_K if k <= fewest and self.blocks(k) >= FEWEST_BLOCKS]
        if sizes:
            for band in self._stated([Stated(stats.leak_at(sizes).mean())], confidence):
                yield replace(band, about=replace(band.about, jointly=True))

    def growing(
        self, query_id: str, confidence: float
    ) -> Iterator[tuple[int, Sequence[stats.Estimate]]]:
        """Yield n with bounds on the mean and standard deviation from a question's first n draws.

        The values of n are 8, 16, 32, …, and finally the number of all draws. Each bound is valid
        individually. Nothing is yielded unless n was fixed and every draw has a score.
        """
        if self.rows is None or query_id not in self.query_ids:
            return
        drawn = self.rows.among((query_id,))
        if drawn.missing.any():
            return
        keys = self.order((query_id,))
        draws = drawn.ordered(keys, ONE_BY_ONE).shuffled(missing=np.nan)
        sizes = [FEWEST_DRAWS << i for i in range(drawn.size.bit_length())]
        for n in (*(size for size in sizes if size < drawn.size), drawn.size):
            first = stats.Rows.of(draws[0, :n], binary=self.binary)
            yield (
                n,
                [
                    stats.bound(first, quantity, confidence=confidence, seed=keys)
                    for quantity in (stats.LEAKAGE, stats.SD)
                ],
            )

    def blocks(self, k: int) -> int:
        """Return the number of blocks of k draws over all questions; 0 for k = 0."""
        return int((self.draws.n // k).sum()) if k else 0

    def _stated(self, rows: Iterable[Stated], confidence: float) -> Iterator[stats.Estimate]:
        """Yield an estimate for each quantity in `rows` that has a bound for this evidence."""
        for row in rows:
            fits, quantity = row.binary in (None, self.binary), row.quantity
            if quantity.reading == "expectation deviation":
                quantity = replace(quantity, at=self.rho)
            if fits and stats.has_bound(self.evidence, quantity):
                yield self.bound(quantity, confidence=confidence, side=row.side)

    def _worst_of_k(self) -> Iterator[stats.Estimate]:
        """Yield the naive estimate of leak@k, without bounds and noisier than `leak_at_k`."""
        rows = self.draws
        sizes = [k for k in STANDARD_K if FEWEST_GROUPS * k <= rows.n.min()]
        if self.evidence.kind not in _EQUAL_N or rows.missing.any() or not sizes:
            return
        values = [stats.worst_of_k(rows, k, seed=self.keys) for k in sizes]
        shown = np.stack(values, axis=1)
        about = stats.About(quantity="worst of k", parameter=tuple(map(float, sizes)))
        yield stats.Estimate(
            about=about, value=shown, lower=np.zeros_like(shown), upper=np.ones_like(shown),
            confidence=1.0, side="both", n=rows.n, missing=rows.missing,
            method="naive", seed=self.keys,
        )  # fmt: skip

    def _seed(self, _: stats.Quantity) -> NDArray[np.int64]:
        return self.keys

    def _put(self, estimate: stats.Estimate) -> stats.Estimate:
        """Return the estimate with the inputs of the questions in its `about`."""
        return replace(estimate, about=replace(estimate.about, inputs=self.inputs))

    def greedy_scores(self) -> stats.Estimate:
        """Return the score of every question's greedy answer."""
        rows = self.draws
        scored = rows.counts.sum(axis=1) > 0
        value = np.where(scored, (rows.values * rows.counts).sum(axis=1), np.nan)
        ends = np.where(scored, value, 0.0), np.where(scored, value, 1.0)
        n = np.ones(len(value), dtype=np.int64)
        return _exact(stats.About(quantity="greedy score"), value, ends, n, rows.missing)

    def greedy_mean(self, quantity: Quantity, k: int | None = None) -> stats.Estimate:
        """Return the mean of the greedy scores, which equals the mean leak@k for any k."""
        rows, number = self.draws, len(self.query_ids)
        missing, total = int(rows.missing.sum()), float((rows.values * rows.counts).sum())
        scored = number - missing
        about = stats.About(quantity=quantity, scope="mean", parameter=k, over=number)
        ends = total / number, (total + missing) / number
        return _exact(about, total / scored if scored else float("nan"), ends, number, missing)


def _exact(
    about: stats.About, value: Any, ends: tuple[Any, Any], n: Any, missing: Any
) -> stats.Estimate:
    return stats.Estimate(
        about=about, value=value, lower=ends[0], upper=ends[1], confidence=1.0, side="both",
        n=n, missing=missing, method="exact",
    )  # fmt: skip
