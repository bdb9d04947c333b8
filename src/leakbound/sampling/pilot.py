"""How far to explore before drawing: a forecast from a few draws that are never used again.

Draws would forward a prefix of large mass anyway, so to explore it costs nothing; a small one
costs forwards that draws could have used. A pilot tells how many forwards a draw of the remainder
takes, and how often it leaks. Distinct prefixes of n draws grow like n^b, b ≤ 1. All this decides
where effort goes, and no bound rests on it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from leakbound.sampling.forest import Leaf
from leakbound.sampling.search import Path, Search

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
    visits: Counter[Path] = Counter()
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
