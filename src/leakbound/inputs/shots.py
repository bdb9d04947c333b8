"""Few-shot prefixes: retained questions with their answers, shown before the one that is asked."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from leakbound.inputs.openers import gives_away
from leakbound.types import Prompt

SHOTS = 3
"""How many pairs a prefix shows."""

PREFIXES = 2
"""How many prefixes, without a pair in common, are tried for a question."""

_PLACEHOLDER = "{question}"
_GAP = "\n\n"  # between one pair and the next


def shots(prompt: Prompt, retained: Sequence[Prompt], seed: int) -> tuple[tuple[Prompt, ...], ...]:
    """At most `PREFIXES` sets of `SHOTS` retained pairs to show before the prompt.

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
        if len(fit) == PREFIXES * SHOTS:
            break
    sets = (tuple(fit[start : start + SHOTS]) for start in range(0, len(fit), SHOTS))
    return tuple(pairs for pairs in sets if len(pairs) == SHOTS)


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
