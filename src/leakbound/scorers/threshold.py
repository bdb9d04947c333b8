"""Scores made of others': cut at a threshold that is part of the name, or found in a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from leakbound.errors import InputError
from leakbound.scorers.family import (
    check_prompts,
    connect,
    fingerprint,
    named,
    prefix_bounds,
    score_pairs,
    score_texts,
)
from leakbound.types import JsonObject, Models, Prompt, Scorer


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

    @property
    def fingerprint(self) -> JsonObject:
        """That of the scorer underneath."""
        return fingerprint(self.scorer)

    def connect(self, models: Models) -> Threshold:
        """The same threshold on the scorer underneath, connected."""
        return replace(self, scorer=connect(self.scorer, models))

    def check(self, prompt: Prompt) -> None:
        """Refuse what the scorer underneath refuses."""
        check_prompts(self.scorer, [prompt])

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return self.cut(score_texts(self.scorer, texts, prompt))

    def score_pairs(self, pairs: Sequence[tuple[str, Prompt]]) -> list[float | None]:
        """Texts of several prompts at once, where the scorer underneath can."""
        return self.cut(score_pairs(self.scorer, pairs))

    def cut(self, scores: Sequence[float | None]) -> list[float | None]:
        """Scores of the scorer underneath, made binary."""
        return [None if score is None else float(score >= self.at) for score in scores]

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """What the bounds of the scorer underneath settle; (0, 1) where it has none."""
        low, high = prefix_bounds(self.scorer, prefix, prompt)
        return float(low >= self.at), float(high >= self.at)


@dataclass(frozen=True, slots=True)
class Logged:
    """Scores that `by` gave, as a log has them beside the draws; none can be given anew.

    `values`: `binary` where that tool's scorer can give 0 and 1 only, else `unit`, [0, 1].
    """

    by: str
    values: Literal["unit", "binary"] = "unit"

    @property
    def binary(self) -> bool:
        return self.values == "binary"

    name = named("logged")

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """Refused: whoever gave these scores is not at hand."""
        raise InputError(
            f"scorer {self.name!r} stands for scores that another tool gave, and cannot score "
            "anything itself. Import the log that has them."
        )
