"""Scores of an arm, as statistics takes them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ArmScores:
    """Scores of every query, distinct with counts: what statistics takes.

    `scores` and `counts` are queries × distinct scores, padded with zero counts; `missing` tells
    for each query how many draws have no score.
    """

    query_ids: tuple[str, ...]
    scores: NDArray[np.float64]
    counts: NDArray[np.int64]
    missing: NDArray[np.int64]

    @classmethod
    def tallied(
        cls, tallies: Mapping[str, Mapping[float | None, int]], undrawn: Mapping[str, int]
    ) -> ArmScores:
        """From how often each query drew each score or none, and how many draws never came."""
        drawn = [
            sorted((score, count) for score, count in tally.items() if score is not None)
            for tally in tallies.values()
        ]
        scores = np.zeros((len(drawn), max(map(len, drawn), default=0)))
        counts = np.zeros(scores.shape, dtype=np.int64)
        for i, pairs in enumerate(drawn):
            scores[i, : len(pairs)] = [score for score, _ in pairs]
            counts[i, : len(pairs)] = [count for _, count in pairs]
        missing = [tally.get(None, 0) + undrawn.get(q, 0) for q, tally in tallies.items()]
        return cls(tuple(tallies), scores, counts, np.array(missing, dtype=np.int64))

    @classmethod
    def joined(cls, pieces: Sequence[ArmScores], query_ids: Sequence[str]) -> ArmScores:
        """The draws of several arms together, of those of these queries that have any."""
        tallies: dict[str, dict[float | None, int]] = {}
        for piece in pieces:
            for i, query_id in enumerate(piece.query_ids):
                tally = tallies.setdefault(query_id, {})
                tally[None] = tally.get(None, 0) + int(piece.missing[i])
                columns = (values[i].tolist() for values in (piece.scores, piece.counts))
                for score, count in zip(*columns, strict=True):
                    if count:
                        tally[score] = tally.get(score, 0) + count
        return cls.tallied({q: tallies[q] for q in query_ids if q in tallies}, {})

    @property
    def n(self) -> NDArray[np.int64]:
        """Draws of each query, the missing ones included."""
        total: NDArray[np.int64] = self.counts.sum(axis=1) + self.missing
        return total

    @property
    def hits(self) -> NDArray[np.int64]:
        """Draws of each query that score above 0: the leaks, of a binary scorer."""
        above: NDArray[np.int64] = np.where(self.scores > 0, self.counts, 0).sum(axis=1)
        return above

    @property
    def given(self) -> dict[str, NDArray[Any]]:
        """What bounds take of it, by the names of their arguments."""
        own = {"scores": self.scores, "counts": self.counts, "missing": self.missing}
        return {**own, "hits": self.hits, "n": self.n}

    def of(self, query_ids: Container[str]) -> ArmScores:
        """Of these queries alone, where they have scores."""
        rows = [i for i, query_id in enumerate(self.query_ids) if query_id in query_ids]
        ids = tuple(self.query_ids[i] for i in rows)
        return ArmScores(ids, self.scores[rows], self.counts[rows], self.missing[rows])
