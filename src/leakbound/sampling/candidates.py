"""Prefixes that may be expanded, best first: the children of a batch in arrays, a heap of the best.

Each expanded prefix has some 64 children, of which few are ever looked at, so they stay in arrays,
and a value is made of one when it is taken, or is the best that is left of its siblings. The heap
holds that one alone.

What is taken, and when, is what a heap of all of them would give. Its order is that of (-worth,
path), in which no two are equal, as no path is there twice. Siblings lie by (-worth, token): where
they are worth the same their paths differ in their last token alone, so this is the same order. So
the one in the heap is the least of its siblings, and the least of the heap the least of all.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from leakbound.sampling.law import Flags
from leakbound.sampling.model import Ids
from leakbound.sampling.stems import Floats, Ints, Stem
from leakbound.types import Finish

_NEAR = sorted(range(-2, 8), key=abs)  # how far back and on in a lead a token is looked for

Siblings = Iterator[tuple[float, int]]
"""The key and the place of each, best first."""


@dataclass(slots=True)
class Candidate:
    """A prefix that may be expanded: a child of a brood.

    Attributes:
        brood: whose child it is.
        place: where in the brood.
        path: its generated ids.
        lead: the lead that it went along, and left; None: there is none.
        at: how many of the lead's tokens it has behind it, or has passed over.
        left: the same when it last said one of them.
        floor: a lower bound of its log-probability for any logits within the margin.
        scores: the range of those that it can end with, as far as that was asked for.
        share: of its worth, by what is known of its text; None while that was not asked for.
        reason: why it is complete, if it is.
    """

    brood: Brood
    place: int
    path: Ids
    lead: Ids | None
    at: int
    left: int
    floor: float
    scores: tuple[float, float] = (0.0, 1.0)
    share: float | None = None
    reason: Finish | None = None

    @property
    def sums(self) -> Floats:
        return self.brood.sums[:, self.place]

    @property
    def stem(self) -> Stem:
        handle = self.brood.handles[self.brood.row.item(self.place)]
        return Stem(handle, self.path, *self.sums.tolist())


@dataclass(frozen=True, slots=True)
class Brood:
    """The children of a batch of prefixes: arrays with a place for each, which few ever leave.

    Attributes:
        parents: the prefixes.
        handles: theirs.
        row: where the prefix of each child is in `parents` and `handles`, [children].
        token: the last token of each, [children].
        sums: its stem's `logprob`, `floor`, `model_logprob` and `p_max_sum`, [4, children].
        at: as of a candidate, [children].
        left: as of a candidate, [children].
        waits: of which no value was made, and may yet be, [children].
    """

    parents: Sequence[Candidate]
    handles: Sequence[int]
    row: Ints
    token: Ints
    sums: Floats
    at: Ints
    left: Ints
    waits: Flags

    def paths(self, places: Ints) -> list[Ids]:
        rows, tokens = self.row[places].tolist(), self.token[places].tolist()
        return [(*self.parents[row].path, token) for row, token in zip(rows, tokens, strict=True)]

    def open(self, place: int, scores: tuple[float, float] = (0.0, 1.0)) -> Candidate:
        """The child at this place."""
        parent = self.parents[self.row.item(place)]
        path = (*parent.path, self.token.item(place))
        at, left, floor = self.at.item(place), self.left.item(place), self.sums.item(1, place)
        return Candidate(self, place, path, parent.lead, at, left, floor, scores)


@dataclass(slots=True)
class BestFirst:
    """Candidates, taken by what they are worth, and those worth the same by their paths."""

    broods: list[Brood] = field(default_factory=list)
    _heap: list[tuple[float, Ids, Candidate, Siblings]] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The worth of the best; 0 where there is none."""
        return -self._heap[0][0] if self._heap else 0.0

    def push(self, candidate: Candidate, worth: float) -> None:
        heapq.heappush(self._heap, (-worth, candidate.path, candidate, iter(())))

    def push_all(self, brood: Brood, worths: Floats) -> None:
        """The children that wait; what each is worth."""
        self.broods.append(brood)
        places = np.flatnonzero(brood.waits)
        order = np.lexsort((brood.token[places], -worths, brood.row[places]))
        places, keys = places[order], -worths[order]
        cuts = np.flatnonzero(np.diff(brood.row[places])) + 1
        for own, mine in zip(np.split(places, cuts), np.split(keys, cuts), strict=True):
            self._lay(brood, zip(mine.tolist(), own.tolist(), strict=True))

    def take(self, most: int, least: float) -> list[Candidate]:
        """At most so many of the best, each worth at least so much."""
        taken: list[Candidate] = []
        while self._heap and len(taken) < most and -self._heap[0][0] >= least:
            _, _, best, siblings = heapq.heappop(self._heap)
            taken.append(best)
            self._lay(best.brood, siblings)
        return taken

    def _lay(self, brood: Brood, siblings: Siblings) -> None:
        """The best of these siblings that is left, if there is one."""
        for key, place in siblings:
            candidate = brood.open(place)
            brood.waits[place] = False
            heapq.heappush(self._heap, (key, candidate.path, candidate, siblings))
            break

    @property
    def made(self) -> list[Candidate]:
        """The candidates of which there is a value; the others wait in `broods`."""
        return [candidate for _, _, candidate, _ in self._heap]


def along(parents: Sequence[Candidate], row: Ints, token: Ints) -> tuple[Ints, Ints]:
    """Where in its prefix's lead each child is, and was when it last said one of its tokens.

    Args:
        parents: the prefixes.
        row: where the prefix of each child is among them, [children].
        token: the last token of each child, [children].

    Returns:
        `at` and `left` of each child, [children] both.
    """
    places = [(p.at, min(p.at + 1, len(p.lead or ())), p.left) for p in parents]
    at, ahead, left = np.array(places, dtype=np.int64).T
    near = [
        [lead[at + i] if 0 <= at + i < len(lead) else -1 for i in _NEAR]
        for at, lead in ((p.at, p.lead or ()) for p in parents)
    ]
    same = token[:, None] == np.array(near)[row]
    hits = same.any(axis=1)
    after = np.where(hits, at[row] + np.array(_NEAR)[same.argmax(axis=1)] + 1, ahead[row])
    return after, np.where(hits, after, left[row])
