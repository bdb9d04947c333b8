"""Which rewritings are asked, and why the others are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.inputs.english.facts import handed_over, keeps_facts
from leakbound.text.keywords import normalise
from leakbound.types import Embed, Prompt

Reason = Literal[
    "empty", "the question", "the answer", "duplicate", "facts lost", "answer words", "dissimilar"
]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Every reason for which a rewriting is removed, in the order in which they are tried."""

_SIMILARITY = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What is asked of a rewriting beyond its words.

    With `embed`, the cosine between it and its question must be at least `similarity`, 0.8 where
    none is given. A similarity without an embedder raises InputError.
    """

    embed: Embed | None = None
    similarity: float | None = None

    def __post_init__(self) -> None:
        require_similarity(self.similarity, self.embed is not None)

    @property
    def least(self) -> float:
        """The cosine that is asked for."""
        return _SIMILARITY if self.similarity is None else self.similarity


def require_similarity(similarity: float | None, embedder: bool) -> None:
    """Refuse a similarity that no two texts can have, and one that nothing measures."""
    if similarity is None:
        return
    if not embedder:
        raise InputError(
            f"a similarity of {similarity:g} needs an embedder, got none. Name one, or leave the "
            "similarity out."
        )
    if not -1 <= similarity <= 1:
        raise InputError(f"`similarity` must lie in [-1, 1], got {similarity:g}. Use 0.8.")


def reason_against(prompt: Prompt, text: str) -> Reason | None:
    """Why the words of a rewriting alone forbid to ask it; None where they do not.

    `facts lost`: a name, number, date or title of the question is missing. `answer words`: it
    has a content word of the answer, or of the keywords, that the question lacks, so that asking
    it would hand over what is to leak.
    """
    answers = " ".join([prompt.answer or "", *prompt.keywords])
    letters = bare(text)
    tests: Mapping[Reason, bool] = {
        "empty": not letters,
        "the question": letters == bare(prompt.question),
        "the answer": letters == bare(prompt.answer or ""),
    }
    for reason, fails in tests.items():
        if fails:
            return reason
    if not keeps_facts(prompt.question, text):
        return "facts lost"
    return "answer words" if handed_over(prompt.question, answers, text) else None


def bare(text: str) -> str:
    """Letters and digits alone, case-folded: two texts that agree so are duplicates."""
    return "".join(filter(str.isalnum, normalise(text)))


def cosines(embed: Embed, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """The cosine of each pair of texts, [n]; each distinct text is embedded once.

    Vectors that are zero, not finite, or too few raise InputError.
    """
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    if not texts:
        return np.empty(0)
    vectors = np.asarray(embed.embed(texts), dtype=np.float64)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InputError(
            f"an embedder gives one vector a text, got shape {vectors.shape} for {len(texts)} "
            f"texts from {embed.name!r}."
        )
    norms = np.linalg.norm(vectors, axis=1)
    unfit = ~(np.isfinite(norms) & (norms > 0))
    if unfit.any():
        raise InputError(
            f"embedder {embed.name!r} gives no direction for {texts[int(unfit.argmax())][:60]!r}: "
            "its vector is zero or not finite. Use another embedder."
        )
    units = dict(zip(texts, vectors / norms[:, None], strict=True))
    return np.array([units[a] @ units[b] for a, b in pairs])
