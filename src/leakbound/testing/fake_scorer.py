"""A scorer that is a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leakbound.types import Prompt


@dataclass(frozen=True, slots=True)
class FakeScorer:
    """Gives each text the score that the table has for it.

    Args:
        scores: text -> score in [0, 1], or None for a text that cannot be decided.
        otherwise: the score of a text that is not in the table.
        binary: the declared range: {0, 1} if true, else [0, 1].
        name: as it stands in results.
    """

    scores: Mapping[str, float | None] = field(hash=False)
    otherwise: float | None = 0.0
    binary: bool = False
    name: str = "fake"

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """See `Scorer.score`."""
        return [self.scores.get(text, self.otherwise) for text in texts]
