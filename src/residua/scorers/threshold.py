"""Any scorer made binary by a threshold that is part of its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from residua.errors import InputError
from residua.scorers.family import check_prompts, prefix_bounds
from residua.types import Prompt, Scorer


@dataclass(frozen=True, slots=True)
class Threshold:
    """1 where `scorer` gives at least `at`, else 0; None stays None. `at` lies in (0, 1]."""

    scorer: Scorer
    at: float

    binary: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.at <= 1:
            raise InputError(
                f"a threshold must lie in (0, 1], got {self.at!r} for {self.scorer.name!r}. At 0 "
                "every completion would be a leak."
            )

    @property
    def name(self) -> str:
        short = f"{self.at:g}"
        return f"{self.scorer.name}>={short if float(short) == self.at else repr(self.at)}"

    def check(self, prompt: Prompt) -> None:
        """Refuse what the scorer underneath refuses."""
        check_prompts(self.scorer, [prompt])

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        scores = self.scorer.score(texts, prompt)
        return [None if score is None else float(score >= self.at) for score in scores]

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """What the bounds of the scorer underneath settle; (0, 1) where it has none."""
        low, high = prefix_bounds(self.scorer, prefix, prompt)
        return float(low >= self.at), float(high >= self.at)
