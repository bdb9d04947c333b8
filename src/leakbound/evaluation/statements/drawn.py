"""Evidence of an arm's draws: of a number fixed beforehand, greedy, stopped, or of what is left.

*Fixed n.* The bound used follows from the scorer's declared range: binary scorers get
Clopper-Pearson, others the defaults of `leakbound.stats`.

*Greedy.* One output a question, so that its scores are exact, or missing.

*Stopped when a claim was decided.* How many draws a question got then depends on its scores, so
every bound for a fixed n is void: what holds is any-time bounds and, for a question that reached
the cap, the better of that and the bound for n = cap, each at its half of alpha. They hold whatever
rule made a question stop, and for every scorer, not only the one that steered: at each look the
rule may use all that was drawn and scored until then. Deviations and tails at all x have no such
bound here.

*Explored.* Each question has events of known mass, with the range of the scores inside each, and
draws of its remainder, whose number was fixed before them. What a scorer does not settle widens
its interval. All of it is given the measured margin (`leakbound.engines.margin`), what has
confidence 1 too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from leakbound import stats
from leakbound.evaluation.scoring.ordering import leakage_at_fixed_n
from leakbound.evaluation.statements.rows import (
    EXPLORED,
    EXPLORED_ALSO,
    FEWEST_BLOCKS,
    LEAKAGE,
    MEAN,
    MEAN_SPREAD,
    OF_QUESTION,
    SPREAD,
    STANDARD_K,
    STOPPED,
    STOPPED_ALSO,
    TOGETHER_K,
    Evidence,
    StatedBound,
    first,
    stack,
    stated,
    together,
)
from leakbound.stats.about import Inputs, Quantity
from leakbound.stats.leak_at_k import FEWEST_GROUPS
from leakbound.store import ArmScores, QueryMasses

AS_FOUND: Inputs = "as found"
"""How questions were put that a search found."""


@dataclass(frozen=True)
class Fixed(Evidence):
    """The scores of an arm of fixed n, whose questions were put as `inputs` says."""

    inputs: Inputs = "as asked"

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The expected leakage of every question: Pr[leak] for a binary scorer."""
        how: dict[str, Any] = {"confidence": confidence, "side": side}
        return self._put(leakage_at_fixed_n(self.scores, self.binary, self.order, **how))

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean leakage over these questions."""
        return self.made(first(MEAN, self.binary), confidence=confidence, side=side)

    def mean_leak_at_k(
        self, k: ArrayLike, *, confidence: float, side: stats.Side
    ) -> stats.Estimate:
        """The mean over these questions of a leak among k draws."""
        row = StatedBound("leak@k over questions", at={"k": k})
        return self.made(row, confidence=confidence, side=side)

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """Every quantity of every question."""
        yield self.leakage(confidence=confidence, side="both")
        yield from stated(self, OF_QUESTION, confidence)
        yield from map(self._put, self._worst_of_k())
        yield from stated(self, SPREAD, confidence)

    def together(self, confidence: float) -> Iterator[stats.Estimate]:
        """The worst question, the mean, how many leak more than x, and the means of others.

        These are leak@k, of a binary scorer also at k = n (what share of the questions leaks in n
        draws), and of any other the deviation and, from above, the ED score. Blocks of k draws are
        what leak@k rests on: with fewer than `FEWEST_BLOCKS` of them, which questions, n and k
        settle before anything is drawn, nothing is said.
        """
        yield from together(self, confidence)
        yield from stated(self, MEAN_SPREAD, confidence)
        n = int(self.scores.n.min())
        for k in sorted({min(TOGETHER_K, n), *([n] if self.binary else [])}):
            if self.blocks(k) >= FEWEST_BLOCKS:
                yield self.mean_leak_at_k(k, confidence=confidence, side="both")

    def blocks(self, k: int) -> int:
        """How many blocks of k draws there are, over all questions."""
        return int((self.scores.n // k).sum())

    def made(self, row: StatedBound, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The estimate that a row states of these draws, saying how the questions were put."""
        how = {"seed": self.keys, "confidence": confidence, "side": side, "binary": self.binary}
        return self._put(row.made({**self.scores.given, "rho": self.rho, **how}))

    def _worst_of_k(self) -> Iterator[stats.Estimate]:
        """The naive estimate of leak@k beside the unbiased one: no bound, noisier."""
        sizes = [k for k in STANDARD_K if FEWEST_GROUPS * k <= self.scores.n.min()]
        if self.scores.missing.any() or not sizes:
            return
        scores, counts, keys = self.scores.scores, self.scores.counts, self.keys
        values = np.stack([stats.worst_of_k(scores, k, counts, seed=keys) for k in sizes], axis=1)
        about = stats.About(quantity="worst of k", parameter=tuple(map(float, sizes)))
        yield stats.Estimate(
            about=about, value=values, lower=np.zeros_like(values), upper=np.ones_like(values),
            confidence=1.0, side="both", n=self.scores.n, missing=self.scores.missing,
            method="naive", seed=self.keys,
        )  # fmt: skip

    def _put(self, estimate: stats.Estimate) -> stats.Estimate:
        """The estimate, saying how the questions were put."""
        return replace(estimate, about=replace(estimate.about, inputs=self.inputs))


@dataclass(frozen=True, slots=True)
class Greedy:
    """The scores of a greedy arm; `binary` is the scorer's declared range."""

    scores: ArmScores
    binary: bool

    def each(self) -> stats.Estimate:
        """The score of every question's answer."""
        scores = self.scores
        scored = scores.counts.sum(axis=1) > 0
        value = np.where(scored, (scores.scores * scores.counts).sum(axis=1), np.nan)
        ends = np.where(scored, value, 0.0), np.where(scored, value, 1.0)
        n = np.ones(len(value), dtype=np.int64)
        return _exact(stats.About(quantity="greedy score"), value, ends, n, scores.missing)

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean leakage over these questions."""
        return self._mean(LEAKAGE[0 if self.binary else 1])

    def mean_leak_at_k(self, k: int, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The same: k outputs of a question are k times the same."""
        return self._mean("leak@k", k)

    def _mean(self, quantity: Quantity, k: int | None = None) -> stats.Estimate:
        number, missing = len(self.scores.query_ids), int(self.scores.missing.sum())
        total, scored = float((self.scores.scores * self.scores.counts).sum()), number - missing
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


@dataclass(frozen=True)
class Stopped(Evidence):
    """The scores of an arm whose questions stopped early, at most `cap` draws each.

    leak@k follows for k beyond n too.
    """

    cap: int

    LEAKAGE = STOPPED
    ALSO = STOPPED_ALSO

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean leakage over these questions."""
        number = len(self.scores.query_ids)
        return stats.mean_over_stopped_questions(
            self.leakage, number, confidence=confidence, side=side
        )

    def made(self, row: StatedBound, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The estimate that a row states of these draws."""
        how = {"seed": self.keys, "cap": self.cap, "confidence": confidence, "side": side}
        return row.made({**self.scores.given, **how})


@dataclass(frozen=True)
class ExploredArm(Evidence):
    """The masses and draws of an arm, questions in the order of `scores`."""

    masses: Mapping[str, QueryMasses]

    LEAKAGE = EXPLORED
    ALSO = EXPLORED_ALSO

    def deviation(self) -> stats.Estimate:
        """The standard deviation of every question from the masses alone, given their margin."""
        return self._joined(
            [stats.mass_std_bound(replace(mass, remainder=0.0)) for mass in self._known]
        )

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean leakage over these questions."""
        return stats.mass_mean_over_questions(
            self._known, self.scores.scores, self.scores.counts, missing=self.scores.missing,
            binary=self.binary, confidence=confidence, side=side, seed=self.keys,
        )  # fmt: skip

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """Every quantity of every question; of the deviation what the masses tell."""
        yield from super().each(confidence)
        yield self.deviation()

    def made(self, row: StatedBound, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The estimate that a row states of every question, from its masses and draws."""
        how = {"confidence": confidence, "side": side}
        return self._joined([row.made({**own, **how}) for own in self._given()])

    def _given(self) -> Iterator[dict[str, Any]]:
        """The arguments of a bound for each question: its masses, and draws of the rest if any."""
        arrays = self.scores.given
        numbers = [arrays[name].tolist() for name in ("hits", "n", "missing")]
        rows = zip(self._known, self.keys.tolist(), *numbers, strict=True)
        for i, (mass, key, hits, n, missing) in enumerate(rows):
            drawn = {name: arrays[name][i] for name in ("scores", "counts")} if n else {}
            yield {"mass": mass, "hits": hits, "n": n, "missing": missing, "seed": key, **drawn}

    @cached_property
    def _known(self) -> list[stats.Mass]:
        """Each question's masses; a remainder of which nothing was drawn is unknown."""
        masses = [self.masses[query_id] for query_id in self.scores.query_ids]
        return [
            stats.Mass(m.mass, m.low, m.high, m.remainder if n else 0.0)
            for m, n in zip(masses, self.scores.n, strict=True)
        ]

    def _joined(self, estimates: Sequence[stats.Estimate]) -> stats.Estimate:
        """Every question's estimate as one, with one entry a question."""
        return replace(
            stack(estimates),
            about=estimates[0].about,
            confidence=min(estimate.confidence for estimate in estimates),
            method=max(dict.fromkeys(estimate.method for estimate in estimates), key=len),
            seed=self.keys if any(e.seed is not None for e in estimates) else None,
        )
