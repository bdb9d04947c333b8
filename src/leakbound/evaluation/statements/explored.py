"""Bounds for an arm whose distributions were explored: exact masses, and draws from the rest.

Each question has events of known mass, with the range of the scores inside each, and draws of its
remainder, whose number was fixed before them. What a scorer does not settle widens its interval.
All of it is given the measured margin (`leakbound.engines.margin`), what has confidence 1 too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from leakbound import stats
from leakbound.evaluation.statements.rows import (
    EXPLORED,
    EXPLORED_ALSO,
    Evidence,
    StatedBound,
    stack,
)
from leakbound.store import QueryMasses


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
        """What a row states of every question, from its masses and draws."""
        how = {"confidence": confidence, "side": side}
        return self._joined([row.made({**own, **how}) for own in self._given()])

    def _given(self) -> Iterator[dict[str, Any]]:
        """Of each question what a bound takes: its masses, and draws of the rest if any."""
        given = self.scores.given
        numbers = [given[name].tolist() for name in ("hits", "n", "missing")]
        rows = zip(self._known, self.keys.tolist(), *numbers, strict=True)
        for i, (mass, key, hits, n, missing) in enumerate(rows):
            drawn = {name: given[name][i] for name in ("scores", "counts")} if n else {}
            yield {"mass": mass, "hits": hits, "n": n, "missing": missing, "seed": key, **drawn}

    @cached_property
    def _known(self) -> list[stats.Mass]:
        """Each question's masses; a remainder of which nothing was drawn is unknown."""
        found = [self.masses[query_id] for query_id in self.scores.query_ids]
        return [
            stats.Mass(m.mass, m.low, m.high, m.remainder if n else 0.0)
            for m, n in zip(found, self.scores.n, strict=True)
        ]

    def _joined(self, each: Sequence[stats.Estimate]) -> stats.Estimate:
        """Every question's estimate as one, with one entry a question."""
        return replace(
            stack(each),
            about=each[0].about,
            confidence=min(estimate.confidence for estimate in each),
            method=max(dict.fromkeys(estimate.method for estimate in each), key=len),
            seed=self.keys if any(e.seed is not None for e in each) else None,
        )
