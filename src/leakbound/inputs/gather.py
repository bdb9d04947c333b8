"""From a source to the rewritings that are asked, with a record of why the others are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.inputs.english import keeps_facts
from leakbound.inputs.sources import InputSource
from leakbound.inputs.variants import gives_away
from leakbound.registry import origin
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
    """The conditions on a rewriting.

    Attributes:
        content: whether a rewriting must keep the facts of its question and add no word of its
            answer. Without it only empty texts and repeats are removed.
        embed: the embedder (None: meaning is not measured).
        similarity: the least cosine between it and its question, in [-1, 1] (None: 0.8).
    """

    content: bool = True
    embed: Embed | None = None
    similarity: float | None = None


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


def reason_against(prompt: Prompt, text: str, content: bool = True) -> Reason | None:
    """Return why the words of a rewriting forbid to ask it; None where they do not.

    `facts lost`: a name, number, date or title of the question is missing. `answer words`: it
    has a content word of the answer, or of the keywords, that the question lacks, so that asking
    it would hand over what is to leak.

    Args:
        prompt: the question, with its answer.
        text: the rewriting.
        content: see `Filters`.
    """
    letters = bare(text)
    if not letters:
        return "empty"
    if letters == bare(prompt.question):
        return "the question"
    if not content:
        return None
    if letters == bare(prompt.answer or ""):
        return "the answer"
    if not keeps_facts(prompt.question, text):
        return "facts lost"
    return "answer words" if gives_away(prompt, text) else None


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


NUMBER = 20
"""How many rewritings of a question are tried: K in Cheng et al. (2025), Algorithm 2."""

_ROUNDING = 1e-6  # of float32 vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A rewriting that is not asked, and the first reason that was found."""

    text: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The rewritings of one prompt that are asked, the question itself not among them.

    They stand in the source's order; those of a source that is not finite may repeat.
    """

    prompt_id: str
    queries: tuple[str, ...]
    rejected: tuple[Removed, ...] = ()

    @property
    def removed(self) -> Mapping[Reason, int]:
        """How many rewritings each filter removed; filters that removed none are left out."""
        counts = Counter(removal.reason for removal in self.rejected)
        return {reason: counts[reason] for reason in REASONS if counts[reason]}


def gather(
    source: InputSource,
    prompts: Sequence[Prompt],
    *,
    number: int = NUMBER,
    seed: int = 0,
    filters: Filters | None = None,
) -> list[Accepted]:
    """At most `number` rewritings of each prompt from the source, then filtered; in order.

    Duplicates, equal but for case, blanks and punctuation, are removed where the source is
    finite only: draws from a distribution keep their repeats, or statements about it would not
    hold. A prompt may be left with none. A number below 1 raises
    InputError.
    """
    if number < 1:
        raise InputError(
            f"the number of rewritings must be at least 1, got {number}. For the original "
            "questions alone, use the inputs `none`."
        )
    texts = source.rewritings(prompts, number, seed)
    _require_lists(source, texts, prompts)
    filters = filters or Filters()
    reasons = [
        _by_words(prompt, own, source.finite, filters.content)
        for prompt, own in zip(prompts, texts, strict=True)
    ]
    if filters.embed is not None:
        least = _SIMILARITY if filters.similarity is None else filters.similarity
        _by_meaning(prompts, texts, reasons, filters.embed, least)
    accepted = []
    for prompt, own, why in zip(prompts, texts, reasons, strict=True):
        judged = list(zip(own, why, strict=True))
        queries = tuple(text for text, reason in judged if reason is None)
        rejected = tuple(Removed(text=text, reason=reason) for text, reason in judged if reason)
        accepted.append(Accepted(prompt_id=prompt.id, queries=queries, rejected=rejected))
    return accepted


def _require_lists(source: InputSource, texts: object, prompts: Sequence[Prompt]) -> None:
    """Each prompt has a list of texts."""
    got = len(texts) if isinstance(texts, Sequence) else type(texts).__name__
    if not isinstance(texts, Sequence) or got != len(prompts):
        raise InputError(
            f"source {source.name!r}{origin(source)} must give one list a prompt, got {got} for "
            f"{len(prompts)} prompts."
        )
    for prompt, mine in zip(prompts, texts, strict=True):
        listed = isinstance(mine, Sequence) and not isinstance(mine, str)
        if not listed or not all(isinstance(text, str) for text in mine):
            raise InputError(
                f"source {source.name!r}{origin(source)} must give a list of texts, got {mine!r} "
                f"at prompt {prompt.id!r}."
            )


def _by_words(
    prompt: Prompt, texts: Sequence[str], finite: bool, content: bool
) -> list[Reason | None]:
    """The reason against each text, or None.

    Duplicates are tried last, and the first stays: what is unfit is so whatever came before.
    """
    seen: set[str] = set()
    reasons: list[Reason | None] = []
    for text in texts:
        reason = reason_against(prompt, text, content)
        if reason is None and finite and bare(text) in seen:
            reason = "duplicate"
        seen.add(bare(text))
        reasons.append(reason)
    return reasons


def _by_meaning(
    prompts: Sequence[Prompt],
    texts: Sequence[Sequence[str]],
    reasons: Sequence[list[Reason | None]],
    embed: Embed,
    least: float,
) -> None:
    """Note the texts that passed so far and do not mean the same; they are embedded together."""
    passed = [(p, t) for p, own in enumerate(reasons) for t, why in enumerate(own) if why is None]
    pairs = [(prompts[p].question, texts[p][t]) for p, t in passed]
    for (p, t), cosine in zip(passed, cosines(embed, pairs), strict=True):
        if cosine < least - _ROUNDING:
            reasons[p][t] = "dissimilar"
