"""Whether a completion is the answer, or holds it, word for word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from leakbound.scorers.family import answer_of, named
from leakbound.text.keywords import keyword_pattern, normalise, settled_characters, settled_words
from leakbound.types import Prompt

_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Exact:
    """1 if the completion equals the answer, else 0.

    Both are stripped, case-folded, NFKC-normalised and their blanks collapsed; punctuation
    counts.
    """

    binary: ClassVar[bool] = True
    name = named("exact")

    def check(self, prompt: Prompt | str) -> None:
        """Refuse a prompt without an answer."""
        answer_of(prompt, self.name)

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        answer = normalise(answer_of(prompt, self.name))
        return [float(normalise(text) == answer) for text in texts]

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """(0, 0) once what is settled cannot begin the answer, else (0, 1)."""
        answer = normalise(answer_of(prompt, self.name))
        words = normalise(settled_words(prefix))
        grows = bool(words) and _WORD.match(answer, len(words)) is not None
        begins = answer.startswith(normalise(settled_characters(prefix)))
        return 0.0, float(begins and not grows)


@dataclass(frozen=True, slots=True)
class Contains:
    """1 if the answer occurs in the completion as whole words, else 0; normalised as `exact`."""

    binary: ClassVar[bool] = True
    name = named("contains")

    def check(self, prompt: Prompt | str) -> None:
        """Refuse a prompt without an answer."""
        answer_of(prompt, self.name)

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        occurs = keyword_pattern(answer_of(prompt, self.name)).search
        return [float(occurs(normalise(text)) is not None) for text in texts]

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """(1, 1) once the answer is settled, else (0, 1)."""
        occurs = keyword_pattern(answer_of(prompt, self.name)).search
        return float(occurs(normalise(settled_words(prefix))) is not None), 1.0
