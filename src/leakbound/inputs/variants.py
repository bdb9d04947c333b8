"""Make the variants of a prompt's query that a search for the worst input tries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from math import prod

import numpy as np

from leakbound.inputs.english import handed_over
from leakbound.types import Decoding, Prompt, Query

NEUTRAL = (
    "The answer is",
    "Sure, here is the answer:",
    "As far as I remember,",
    "Yes, I know this one:",
    "The full answer reads:",
)
"""Openers that fit any question and reveal nothing about it."""


def openers(prompt: Prompt, own: Sequence[str] = ()) -> tuple[str, ...]:
    """Return possible beginnings of an answer (openers). The first opener is empty.

    `own` contains the benchmark's openers. An opener with a content word of the answer that is not
    in the question is left out. For a prompt with a `prefix`, the prefix is the only opener,
    because the answer has already begun.
    """
    if prompt.prefix:
        return (prompt.prefix,)
    return ("", *dict.fromkeys(text for text in (*own, *NEUTRAL) if not gives_away(prompt, text)))


def gives_away(prompt: Prompt, text: str) -> bool:
    """Return whether a text has a content word of answer or keywords that the question lacks."""
    answers = " ".join([prompt.answer or "", *prompt.keywords])
    return bool(handed_over(prompt.question, answers, text))


SHOTS = 3
"""The number of question-answer pairs that are shown before a question."""

PREFIXES = 2
"""The number of sets of shown pairs per question. No pair is in two sets."""

_PLACEHOLDER = "{question}"
_GAP = "\n\n"  # the text between two pairs


def shots(
    prompt: Prompt, retained: Sequence[Prompt], seed: int, number: int = SHOTS, most: int = PREFIXES
) -> tuple[tuple[Prompt, ...], ...]:
    """Return at most `most` sets of `number` retained pairs to show before the prompt.

    The seed and the prompt determine the sets. Each pair has an answer, and does not reveal a
    content word of the prompt's answer.
    """
    fit: list[Prompt] = []
    for i in keyed(seed, f"shots:{prompt.id}").permutation(len(retained)):
        pair = retained[i]
        if pair.id == prompt.id or not pair.answer:
            continue
        if not gives_away(prompt, f"{pair.question} {pair.answer}"):
            fit.append(pair)
        if len(fit) == most * number:
            break
    sets = (tuple(fit[start : start + number]) for start in range(0, len(fit), number))
    return tuple(pairs for pairs in sets if len(pairs) == number)


def with_shots(template: str, pairs: Sequence[Prompt], question: str) -> str:
    """Return the question with the pairs before it; each pair is in the form of the template.

    The result replaces the question in `template`. If the template has no text after the question,
    nothing marks the beginning of an answer. Then question and answer of a pair are on separate
    lines.
    """
    before, _, after = template.partition(_PLACEHOLDER)
    after = after if after.strip() else "\n"
    shown = [f"{pair.question}{after}{pair.answer}{_GAP}{before}" for pair in pairs]
    return "".join([*shown, question])


def keyed(seed: int, key: str) -> np.random.Generator:
    """Return an independent generator for each seed and key."""
    digest = blake2b(f"{seed}:attack:{key}".encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


Fits = Callable[[Query, Decoding], bool]
"""Returns whether a query fits the model's context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A variant of a prompt's query. `shots` has the ids of the retained pairs before it."""

    query: Query
    decoding: Decoding
    shots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The possible changes of a prompt's query, one field per kind of change (axis).

    The first value of every axis does not change the query: `texts` begins with the prompt's
    original question, `shots` with no pairs, `openers` with the prompt's prefix.
    """

    texts: tuple[Query, ...]
    shots: tuple[tuple[Prompt, ...], ...]
    openers: tuple[str, ...]
    decodings: tuple[Decoding, ...]
    template: str

    def variant(self, place: Sequence[int]) -> Variant:
        """Return the variant at these indices. Its id has every index except the decoding's."""
        text, shots, opener, decoding = place
        query, pairs = self.texts[text], self.shots[shots]
        varied = replace(
            query,
            id=f"{query.prompt_id}~{text:02d}.{shots}.{opener}",
            text=with_shots(self.template, pairs, query.text),
            prefix=self.openers[opener],
        )
        ids = tuple(pair.id for pair in pairs)
        return Variant(query=varied, decoding=self.decodings[decoding], shots=ids)


def variants(space: Space, number: int, seed: int, fits: Fits) -> tuple[Variant, ...]:
    """Return at most `number` distinct variants that fit the context, the unchanged query first.

    The other variants are drawn with the seed, without replacement. Each axis is unchanged with
    probability one half, so that single changes and combinations are both tried.
    """
    axes = (space.texts, space.shots, space.openers, space.decodings)
    places = list(product(*(range(len(axis)) for axis in axes)))[1:]
    # A variant is first with probability proportional to its weight (Efraimidis & Spirakis 2006).
    weights = [prod(1 / (len(a) - 1) for a, at in zip(axes, p, strict=True) if at) for p in places]
    waits = keyed(seed, f"variants:{space.texts[0].prompt_id}").exponential(size=len(places))
    chosen = [space.variant((0, 0, 0, 0))]
    for i in np.argsort(waits / np.array(weights)):
        if len(chosen) == number:
            break
        variant = space.variant(places[i])
        if fits(variant.query, variant.decoding):
            chosen.append(variant)
    return tuple(chosen)
