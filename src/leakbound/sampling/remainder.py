"""What exploration leaves: how far to explore before it is drawn from, and draws of it.

Draws would forward a prefix of large mass anyway, so to explore it costs nothing; a small one
costs forwards that draws could have used. A pilot tells how many forwards a draw of the remainder
takes, and how often it leaks. Distinct prefixes of n draws grow like n^b, b ≤ 1. All this decides
where effort goes, and no bound rests on it.

A draw picks a cell by inverse CDF, in a lump a token by the law restricted to the lump, and goes
on ancestrally from there. So draws are independent and have the model's law, given that none of
the tree's events happens. Uniforms are keyed as the forest's are; the choice of a cell takes the
root's, which the forest does not use here, and the choice within a lump has a purpose of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakbound.sampling import philox
from leakbound.sampling.law import certain_law
from leakbound.sampling.model import Ids
from leakbound.sampling.next_token import pick
from leakbound.sampling.search import Lump, Search
from leakbound.sampling.stems import Leaf, Starts, confidence_of
from leakbound.types import Decoding, Draws

_LEAST_GROWTH = 0.5
_Z, _LOG = 2.576, 5.3  # the normal quantile, and ln 2/α, at 99 %
_FASTEST = 0.97  # where no leak was seen: explore what most likely is visited anyway


@dataclass(frozen=True, slots=True)
class Survey:
    """What a pilot says of the remainder: `draws` took `forwards`, and the rate of leaks."""

    draws: int
    forwards: float
    growth: float
    leaks: float

    def affordable(self, forwards: int) -> float:
        """How many draws that many forwards are expected to pay for."""
        return float(self.draws * (max(forwards, 0) / self.forwards) ** (1 / self.growth))

    def pays(self, share: float, forwards: int) -> bool:
        """Whether exploring a prefix with this share of the remainder narrows the interval.

        The interval is about remainder · width(n) with width ~ n^(-rate). Say v of the n draws
        are expected to visit the prefix. Settling it takes the share v/n off the remainder, and
        its draws, and costs a draw more where no draw would have come by, e^(-v). The logarithm
        of the interval changes by -v/n + rate · (v + e^(-v))/n.
        """
        n = self.affordable(forwards)
        visits = share * n
        return (1 - self.rate(n)) * visits > self.rate(n) * math.exp(-visits)

    def rate(self, n: float) -> float:
        """How fast n draws narrow Clopper-Pearson's interval, about (ln 2/α + 2z·deviation) / n."""
        deviation = 2 * _Z * math.sqrt(self.leaks * (1 - self.leaks) * n)
        return min((_LOG + deviation / 2) / (_LOG + deviation), _FASTEST)


def survey(search: Search, pilot: Iterable[tuple[Leaf, float]]) -> Survey | None:
    """What the pilot's draws, each with its score, say of the tree's remainder as it is now.

    Draws of an earlier remainder that no later event covers are draws of the present one. None
    where no draw is left.
    """
    visits: Counter[Ids] = Counter()
    draws, leaks = 0, 0.0
    for leaf, score in pilot:
        prefixes = [leaf.token_ids[:depth] for depth in range(1, len(leaf.token_ids) + 1)]
        if search.closed.isdisjoint(prefixes):
            count = sum(leaf.counts)
            draws, leaks = draws + count, leaks + count * score
            visits.update(dict.fromkeys(set(prefixes[:-1]) - search.expanded, count))
    if not draws:
        return None
    forwards = max(len(visits), 1)
    half = draws // 2
    growth = 1.0
    if half:
        fewer = sum(_seen(count, draws, half) for count in visits.values())
        growth = math.log(forwards / max(fewer, 1)) / math.log(draws / half)
    return Survey(draws, forwards, min(max(growth, _LEAST_GROWTH), 1.0), leaks / draws)


def forwarded(search: Search, leaves: Iterable[Leaf]) -> int:
    """How many prefixes the forest forwarded to draw these from the tree's remainder."""
    paths = {leaf.token_ids[:depth] for leaf in leaves for depth in range(1, len(leaf.token_ids))}
    return len(paths - search.expanded)


def _seen(count: int, draws: int, among: int) -> float:
    """Chance that a subset of the draws meets a prefix that `count` of all of them met."""
    return 1 - math.comb(draws - count, among) / math.comb(draws, among)


def certain_mass(search: Search) -> float:
    """What the mass of all cells is at least, for any logits within the margin."""
    opens = (math.exp(each.stem.floor) for each in search.open)
    return math.fsum((*opens, *(lump.floor_mass for lump in search.lumps)))


def plant(search: Search, query_id: str, decoding: Decoding, draws: Draws, margin: float) -> Starts:
    """Where the draws of one chunk go on: stems, with the number of draws on each."""
    (size,), opens = draws.sizes, search.open
    u = _uniforms(draws, draws.purpose, query_id, (), size)
    upto = np.cumsum([*(each.mass for each in opens), *(each.mass for each in search.lumps)])
    last = np.flatnonzero(np.diff(upto, prepend=0.0))[-1]
    cell = np.minimum(np.searchsorted(upto, u * upto[-1], side="right"), last)
    counts = np.bincount(cell, minlength=len(upto)).tolist()
    starts: Starts = tuple((each.stem, (n,)) for each, n in zip(opens, counts, strict=False) if n)
    for lump, count in zip(search.lumps, counts[len(opens) :], strict=True):
        if count:
            u = _uniforms(draws, f"{draws.purpose}:lump", query_id, lump.stem.path, count)
            starts += _within(lump, u, decoding, margin)
    return starts


def _within(lump: Lump, u: NDArray[np.float64], decoding: Decoding, margin: float) -> Starts:
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
    return tuple((each, (count,)) for each, count in zip(stems, counts, strict=True))


def _uniforms(
    draws: Draws, purpose: str, query_id: str, prefix: Ids, count: int
) -> NDArray[np.float64]:
    """Uniforms of this prefix in the one chunk of these draws."""
    key = philox.stream_key(draws.seed, purpose, query_id, draws.first_chunk)
    words = np.array(key, dtype=np.uint64)
    return philox.uniforms(
        (words[:1], words[1:]), philox.digests([prefix]), np.array([count], dtype=np.int64)
    )
