"""Draws from what exploration left: open prefixes and lumps, each by its mass.

A draw picks a cell by inverse CDF, in a lump a token by the law restricted to the lump, and goes
on ancestrally from there. So draws are independent and have the model's law, given that none of
the tree's events happens. Uniforms are keyed as the forest's are; the choice of a cell takes the
root's, which the forest does not use here, and the choice within a lump has a purpose of its own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from leakbound.sampling import philox
from leakbound.sampling.forest import Stem, confidence_of
from leakbound.sampling.law import certain_law
from leakbound.sampling.next_token import pick
from leakbound.sampling.search import Lump, Path, Search
from leakbound.types import Decoding, Draws

Starts = tuple[tuple[Stem, tuple[int, ...]], ...]


def certain_mass(search: Search) -> float:
    """What the mass of all cells is at least, for any logits within the margin."""
    opens = (math.exp(each.stem.floor) for each in search.open)
    return math.fsum((*opens, *(lump.floor_mass for lump in search.lumps)))


def plant(search: Search, query_id: str, decoding: Decoding, draws: Draws, margin: float) -> Starts:
    """Where the draws of one chunk go on: stems, with the number of draws on each."""
    (size,), opens = draws.sizes, search.open
    u = _uniforms(draws, draws.purpose, query_id, (), size)
    upto = np.cumsum(_masses(search))
    last = np.flatnonzero(np.diff(upto, prepend=0.0))[-1]
    cell = np.minimum(np.searchsorted(upto, u * upto[-1], side="right"), last)
    counts = np.bincount(cell, minlength=len(upto)).tolist()
    starts: list[tuple[Stem, tuple[int, ...]]] = [
        (each.stem, (n,)) for each, n in zip(opens, counts, strict=False) if n
    ]
    for lump, count in zip(search.lumps, counts[len(opens) :], strict=True):
        if count:
            u = _uniforms(draws, f"{draws.purpose}:lump", query_id, lump.stem.path, count)
            starts += _within(lump, u, decoding, margin)
    return tuple(starts)


def _masses(search: Search) -> NDArray[np.float64]:
    return np.array([*(each.mass for each in search.open), *(each.mass for each in search.lumps)])


def _within(
    lump: Lump, u: NDArray[np.float64], decoding: Decoding, margin: float
) -> list[tuple[Stem, tuple[int, ...]]]:
    """Draw the next token of a lump's prefix, none of them a child's."""
    one, stem = np.ones(1, dtype=np.int64), lump.stem
    law = certain_law(lump.logits[None], decoding, *confidence_of([stem]), margin)
    others = law.logprob.clone()
    others[0, [token for token, _ in lump.split.children]] = -math.inf
    # a law is its own logits at T = 1, and leaving tokens out renormalises it
    picks = pick(others, Decoding(), np.zeros(len(u), dtype=np.int64), u, (np.zeros(1), one))
    tokens, counts = (x.tolist() for x in np.unique(picks.tokens, return_counts=True))
    stems = [
        stem.child(lump.handle, token, step)
        for token, step in zip(tokens, *law.steps([tokens]), strict=True)
    ]
    return [(each, (count,)) for each, count in zip(stems, counts, strict=True)]


def _uniforms(
    draws: Draws, purpose: str, query_id: str, prefix: Path, count: int
) -> NDArray[np.float64]:
    """Uniforms of this prefix in the one chunk of these draws."""
    key = philox.stream_key(draws.seed, purpose, query_id, draws.first_chunk)
    words = np.array(key, dtype=np.uint64)
    return philox.uniforms(
        (words[:1], words[1:]), philox.digests([prefix]), np.array([count], dtype=np.int64)
    )
