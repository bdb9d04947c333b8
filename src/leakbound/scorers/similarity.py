"""How near a completion is to the answer in meaning, as a sentence-embedding model sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from leakbound.scorers.family import answer_of, named, opened
from leakbound.types import Embed, Models, Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Similarity:
    """Cosine between the embeddings of completion and answer, floored at 0; an empty one is 0.

    `model` is a model of sentence-transformers. A text whose vector is zero is undecided.
    """

    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    embedder: Embed | None = field(default=None, compare=False, repr=False)

    binary: ClassVar[bool] = False
    name = named("similarity")

    @property
    def fingerprint(self) -> dict[str, object]:
        """What the embedder is, once it is connected."""
        return getattr(self.embedder, "fingerprint", {})

    def connect(self, models: Models) -> Similarity:
        """With its embedder."""
        return replace(self, embedder=models.embed(self.model))

    def check(self, prompt: Prompt | str) -> None:
        """Refuse a prompt without an answer."""
        answer_of(prompt, self.name)

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return self.score_pairs([(text, prompt) for text in texts])

    def score_pairs(self, pairs: Sequence[tuple[str, Prompt | str]]) -> list[float | None]:
        """Completions with their prompts; each distinct text is embedded once."""
        embedder = opened(self.embedder, self.name)
        told = [(text, answer_of(prompt, self.name)) for text, prompt in pairs]
        texts = list(dict.fromkeys(text for pair in told for text in pair if text.strip()))
        if not texts:
            return [0.0] * len(pairs)
        vectors = embedder.embed(texts).astype(np.float64)
        lengths = np.linalg.norm(vectors, axis=1)
        units = dict(zip(texts, vectors / np.where(lengths, lengths, np.nan)[:, None], strict=True))
        return [
            _cosine(units[text], units[answer]) if text.strip() else 0.0 for text, answer in told
        ]


def _cosine(a: np.ndarray, b: np.ndarray) -> float | None:
    """Of unit vectors, floored at 0; None where one is NaN. Exactly 1 for equal vectors."""
    cosine = 1 - float((a - b) @ (a - b)) / 2
    return None if np.isnan(cosine) else max(cosine, 0.0)
