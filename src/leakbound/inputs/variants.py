"""All the ways in which a search may ask one prompt, and which of them it tries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from leakbound.inputs.shots import keyed, with_shots
from leakbound.types import Decoding, Prompt, Query

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
    """What may be changed about asking a prompt, one axis each.

    The first of every axis is how the prompt is asked by itself: `texts` begins with its own
    question, `shots` with none, `openers` with its own prefix.
    """

    texts: tuple[Query, ...]
    shots: tuple[tuple[Prompt, ...], ...]
    openers: tuple[str, ...]
    decodings: tuple[Decoding, ...]
    template: str

    def variant(self, place: Sequence[int]) -> Variant:
        """What stands at this place of each axis; its id tells all of them but the decoding."""
        text, shots, opener, decoding = place
        query, pairs = self.texts[text], self.shots[shots]
        asked = replace(
            query,
            id=f"{query.prompt_id}~{text:02d}.{shots}.{opener}",
            text=with_shots(self.template, pairs, query.text),
            prefix=self.openers[opener],
        )
        ids = tuple(pair.id for pair in pairs)
        return Variant(query=asked, decoding=self.decodings[decoding], shots=ids)


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
