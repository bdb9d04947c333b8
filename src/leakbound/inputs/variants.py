"""All the ways in which a search may ask one prompt, and which of them it tries."""

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
"""Openers that fit any question and say nothing about it."""


def openers(prompt: Prompt, own: Sequence[str] = ()) -> tuple[str, ...]:
    """How an answer to the prompt may be opened, at first as it is opened anyway.

    `own` are those that its benchmark has for it. None hands over a content word of the answer
    that the question lacks. A prompt with a `prefix` keeps that alone: its answer has begun.
    """
    if prompt.prefix:
        return (prompt.prefix,)
    return ("", *dict.fromkeys(text for text in (*own, *NEUTRAL) if not gives_away(prompt, text)))


def gives_away(prompt: Prompt, text: str) -> bool:
    """True if the text has a content word of the answer, or a keyword, that the question lacks."""
    answers = " ".join([prompt.answer or "", *prompt.keywords])
    return bool(handed_over(prompt.question, answers, text))


SHOTS = 3
"""How many pairs a prefix shows."""

PREFIXES = 2
"""How many prefixes, without a pair in common, are tried for a question."""

_PLACEHOLDER = "{question}"
_GAP = "\n\n"  # between one pair and the next


def shots(
    prompt: Prompt, retained: Sequence[Prompt], seed: int, number: int = SHOTS, most: int = PREFIXES
) -> tuple[tuple[Prompt, ...], ...]:
    """At most `most` sets of `number` retained pairs to show before the prompt.

    Chosen by the seed alone, for each prompt anew, among the pairs that have an answer and hand
    over no content word of the prompt's own.
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
    """The text that, put into `template`, reads as the pairs in that template, then the question.

    A template that has nothing after the question gives no sign of where an answer begins; the
    pairs then stand line by line.
    """
    before, _, after = template.partition(_PLACEHOLDER)
    after = after if after.strip() else "\n"
    shown = [f"{pair.question}{after}{pair.answer}{_GAP}{before}" for pair in pairs]
    return "".join([*shown, question])


def keyed(seed: int, key: str) -> np.random.Generator:
    """Randomness of its own for each seed and key."""
    digest = blake2b(f"{seed}:attack:{key}".encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


Fits = Callable[[Query, Decoding], bool]
"""True if the model can be asked this: it fits its context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way of asking a prompt; `shots` are the ids of the retained pairs shown before it."""

    query: Query
    decoding: Decoding
    shots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The ways in which asking a prompt may be changed, one axis each.

    The first of every axis is how the prompt is asked by itself: `texts` begins with its own
    question, `shots` with none, `openers` with its own prefix.
    """

    texts: tuple[Query, ...]
    shots: tuple[tuple[Prompt, ...], ...]
    openers: tuple[str, ...]
    decodings: tuple[Decoding, ...]
    template: str

    def variant(self, place: Sequence[int]) -> Variant:
        """The variant at this place of each axis; its id tells all of them but the decoding."""
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
    """At most `number` distinct variants that fit; the prompt as it is asked by itself comes first.

    The others are drawn without replacement, by the seed: each axis is left as it is with chance
    one half, so that single changes and combinations of several are tried side by side.
    """
    axes = (space.texts, space.shots, space.openers, space.decodings)
    places = list(product(*(range(len(axis)) for axis in axes)))[1:]
    # A place comes first with a chance that goes like its weight (Efraimidis & Spirakis 2006).
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
