"""What a tool drew, as its plug-in hands it over: scores of every sample, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.errors import InputError
from leakbound.stats import order

# Of this process: under a key that is always the same some tallies always miss.
_ENTROPY = order.entropy()


def _keys(tool: str, ids: Sequence[str], scorer: str) -> NDArray[np.int64]:
    """What keys the order of each sample's draws: (Q,), no two alike, by nobody chosen."""
    fixed = {"entropy": _ENTROPY, "tool": tool, "scorer": scorer}
    return np.array([stats.order_key({**fixed, "sample": id}) for id in ids], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class ToolDraws:
    """Draws of Q samples, n of each or fewer: their scores with counts, and their missing ones.

    scores, counts: (Q, n); where a count is 0 there is no score.
    n, missing, keys: (Q,) draws of each sample, those without a score, and what keys their order.
    binary: scores are 0 or 1, by the range that was declared and not by what was drawn.
    cap: the n that was fixed beforehand, where drawing may have stopped before; else None.
    """

    scores: NDArray[np.float64]
    counts: NDArray[np.int64]
    n: NDArray[np.int64]
    keys: NDArray[np.int64]
    binary: bool
    confidence: float = 0.99
    cap: int | None = None

    @classmethod
    def of(
        cls,
        scores: Mapping[str, Sequence[float]],
        n: int,
        *,
        tool: str,
        scorer: str,
        binary: bool,
        confidence: float = 0.99,
        stopped: Mapping[str, int] | None = None,
    ) -> ToolDraws:
        """Of the scores of each sample by its id, n draws each; NaN where a draw has none.

        Draws that did not come are missing. `stopped`: how many draws count of each sample that
        stopped before n. Raises InputError for more than n of a sample, for n below 2, and for
        scores that are not in the declared range.
        """
        if n < 2:
            raise InputError(
                f"a bound needs several draws of each sample, got {n}. Draw more, such as 1,024."
            )
        most = max(map(len, scores.values()), default=0)
        if most > n:
            raise InputError(
                f"{n:,} draws of a sample were announced and {most:,} came. Announce the number "
                f"that {tool} draws."
            )
        values = np.array([[*own, *[math.nan] * (n - len(own))] for own in scores.values()])
        known = ~np.isnan(values)
        odd = values[known & ((values < 0) | (values > 1) | (binary & (values % 1 != 0)))]
        if odd.size:
            raise InputError(
                f"a score of {scorer} must {'be 0 or 1' if binary else 'lie in [0, 1]'}, got "
                f"{odd[0]:g}. Scale it, or say from where on it is a leak (at_least)."
            )
        return cls(
            np.where(known, values, 0.0),
            known.astype(np.int64),
            np.array([(stopped or {}).get(id, n) for id in scores]),
            _keys(tool, list(scores), scorer),
            binary,
            confidence,
            n if stopped is not None else None,
        )

    @property
    def missing(self) -> NDArray[np.int64]:
        without: NDArray[np.int64] = self.n - self.counts.sum(axis=1)
        return without

    @property
    def _hits(self) -> NDArray[np.int64]:
        leaks: NDArray[np.int64] = (self.scores * self.counts).sum(axis=1).astype(np.int64)
        return leaks

    def each(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """Of every sample its leak probability, or its mean score: (Q,)."""
        how: dict[str, Any] = {"confidence": confidence, "side": side, "missing": self.missing}
        if self.cap is not None:
            how["cap"] = self.cap
        if self.binary:
            of_hits = stats.proportion_bound if self.cap is None else stats.stopped_proportion_bound
            return of_hits(self._hits, self.n, **how)
        bound = stats.mean_bound if self.cap is None else stats.stopped_mean_bound
        return bound(self.scores, self.counts, seed=self.keys, **how)

    def mean(self) -> stats.Estimate:
        """The mean over the samples, both ends."""
        how: dict[str, Any] = {"confidence": self.confidence, "side": "both"}
        if self.cap is not None:
            return stats.mean_over_stopped_questions(self.each, len(self.n), **how)
        how |= {"missing": self.missing, "seed": self.keys}
        if self.binary:
            return stats.proportion_over_questions(self._hits, self.n, **how)
        return stats.mean_over_questions(self.scores, self.counts, **how)

    def worst(self) -> stats.Estimate:
        """The largest of any sample, the choice counted, both ends."""
        how: dict[str, Any] = {"confidence": self.confidence, "side": "both"}
        return stats.worst_question(self.each, len(self.n), **how)

    def at_k(self, k: int) -> stats.Estimate:
        """The mean over the samples of the largest of k scores, both ends; n fixed."""
        if self.cap is not None or not 1 <= k <= self.n.min():
            raise InputError(
                f"leak@k needs k of 1 to {self.n.min()} draws, all of a fixed number, got k={k}. "
                "Draw more, and stop at no claim."
            )
        return stats.mean_leak_at_k_over_questions(
            self.scores, k, self.counts, missing=self.missing, seed=self.keys, side="both",
            confidence=self.confidence, binary=self.binary,
        )  # fmt: skip
