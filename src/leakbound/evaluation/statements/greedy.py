"""What a greedy arm says: one output a question, so that its scores are exact, or missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leakbound import stats
from leakbound.evaluation.statements.quantities import LEAKAGE
from leakbound.stats.about import Quantity
from leakbound.store import ArmScores


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
