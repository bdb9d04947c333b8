"""Whether a completion is the answer, or holds it, word for word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from residua.scorers.family import answer_of, spec_name
from residua.text.keywords import keyword_pattern, normalise
from residua.types import Prompt


@dataclass(frozen=True, slots=True)
class Exact:
    """1 if the completion equals the answer, else 0.

    Both are stripped, case-folded, NFKC-normalised and their blanks collapsed; punctuation
    counts.
    """

    binary: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return spec_name("exact", self)

    def check(self, prompt: Prompt | str) -> None:
        """Refuse a prompt without an answer."""
        answer_of(prompt, self.name)

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        answer = normalise(answer_of(prompt, self.name))
        return [float(normalise(text) == answer) for text in texts]


@dataclass(frozen=True, slots=True)
class Contains:
    """1 if the answer occurs in the completion as whole words, else 0; normalised as `exact`."""

    binary: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return spec_name("contains", self)

    def check(self, prompt: Prompt | str) -> None:
        """Refuse a prompt without an answer."""
        answer_of(prompt, self.name)

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        occurs = keyword_pattern(answer_of(prompt, self.name)).search
        return [float(occurs(normalise(text)) is not None) for text in texts]
