"""Filter the rewritings of a source, and record the removed rewritings with reasons."""

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
"""Every reason to remove a rewriting, in the order in which the reasons are checked."""

_SIMILARITY = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The conditions on a rewriting.

    Attributes:
        content: whether a rewriting must contain all facts of its question, and no content word of
            the answer that is not in the question. If False, only empty texts and repeats are
            removed.
        embed: the embedder (None: meaning is not measured).
        similarity: the minimum cosine between a rewriting and its question, in [-1, 1] (None: 0.8).
    """

    content: bool = True
    embed: Embed | None = None
    similarity: float | None = None


def reason_against(prompt: Prompt, text: str, content: bool = True) -> Reason | None:
    """Return the reason to remove a rewriting because of its words, or None.

    The reason `facts lost` means that a name, number, date or title of the question is missing. The
    reason `answer words` means that the rewriting has a content word of the answer or keywords that
    is not in the question. Such a query would reveal the answer.

    Args:
        prompt: the question, with its answer.
        text: the rewriting.
        content: whether to apply these conditions, as in `Filters`.
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
    """Return the letters and digits of a text, case-folded. Duplicates have equal results."""
    return "".join(filter(str.isalnum, normalise(text)))


def cosines(embed: Embed, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """Return the cosine of each pair of texts, [n]. Each distinct text is embedded once.

    Raises InputError for vectors that are zero, not finite, or too few.
    """
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    if not texts:
        return np.empty(0)
    vectors = np.asarray(embed.embed(texts), dtype=np.float64)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InputError(
            f"an embedder must return one vector per text, got shape {vectors.shape} for "
            f"{len(texts)} texts from {embed.name!r}."
        )
    norms = np.linalg.norm(vectors, axis=1)
    unfit = ~(np.isfinite(norms) & (norms > 0))
    if unfit.any():
        raise InputError(
            f"the vector of {texts[int(unfit.argmax())][:60]!r} by embedder {embed.name!r} is zero "
            "or not finite, so the text has no cosine similarity. Use another embedder."
        )
    units = dict(zip(texts, vectors / norms[:, None], strict=True))
    return np.array([units[a] @ units[b] for a, b in pairs])


NUMBER = 20
"""The number of rewritings per question: K in Cheng et al. (2025), Algorithm 2."""

_ROUNDING = 1e-6  # of float32 vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A removed rewriting, with the first reason against it."""

    text: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The accepted rewritings of one prompt, without the question itself.

    The rewritings are in the source's order. If the source is not finite, a rewriting may occur
    several times.
    """

    prompt_id: str
    queries: tuple[str, ...]
    rejected: tuple[Removed, ...] = ()

    @property
    def removed(self) -> Mapping[Reason, int]:
        """The number of removed rewritings per reason, without reasons that removed none."""
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
    """Return at most `number` rewritings of each prompt from the source, after filters, in order.

    Duplicates are texts that differ only in case, blanks and punctuation. They are removed only if
    the source is finite: statements about a distribution would be invalid without its repeated
    draws. It is possible that all rewritings of a prompt are removed.
    """
    texts = source.rewritings(prompts, number, seed)
    _require_lists(source, texts, prompts)
    filters = filters or Filters()
    reasons = []
    for prompt, own in zip(prompts, texts, strict=True):
        why = [reason_against(prompt, text, filters.content) for text in own]
        if source.finite:
            _mark_duplicates(own, why)
        reasons.append(why)
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
    """Raise InputError for a source that does not return a list of texts per prompt."""
    got = len(texts) if isinstance(texts, Sequence) else type(texts).__name__
    if not isinstance(texts, Sequence) or got != len(prompts):
        raise InputError(
            f"source {source.name!r}{origin(source)} must return one list per prompt, got {got} "
            f"for {len(prompts)} prompts."
        )
    for prompt, mine in zip(prompts, texts, strict=True):
        listed = isinstance(mine, Sequence) and not isinstance(mine, str)
        if not listed or not all(isinstance(text, str) for text in mine):
            raise InputError(
                f"source {source.name!r}{origin(source)} must return a list of texts, got "
                f"{mine!r} at prompt {prompt.id!r}."
            )


def _mark_duplicates(texts: Sequence[str], reasons: list[Reason | None]) -> None:
    """Reject each text that repeats an earlier text, if it is not rejected already."""
    seen = set[str]()
    for i, text in enumerate(texts):
        if reasons[i] is None and bare(text) in seen:
            reasons[i] = "duplicate"
        seen.add(bare(text))


def _by_meaning(
    prompts: Sequence[Prompt],
    texts: Sequence[Sequence[str]],
    reasons: Sequence[list[Reason | None]],
    embed: Embed,
    least: float,
) -> None:
    """Reject accepted texts whose meaning differs from the question's; embed all in one batch."""
    passed = [(p, t) for p, own in enumerate(reasons) for t, why in enumerate(own) if why is None]
    pairs = [(prompts[p].question, texts[p][t]) for p, t in passed]
    for (p, t), cosine in zip(passed, cosines(embed, pairs), strict=True):
        if cosine < least - _ROUNDING:
            reasons[p][t] = "dissimilar"
