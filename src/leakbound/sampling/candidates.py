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
from leakbound.types import FinishReason

_NEAR = sorted(range(-2, 8), key=abs)  # how far back and on in a lead a token is looked for

Siblings = Iterator[tuple[float, int]]
"""The key and the place of each, best first."""


@dataclass(slots=True)
class Candidate:
    """A prefix that may be expanded: a child of `brood`, at this place.

    lead: the lead that it went along, and left; None: there is none.
    at: how many of the lead's tokens it has behind it, or has passed over.
    left: the same when it last said one of them.
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
    reason: FinishReason | None = None

    @property
    def sums(self) -> Floats:
        return self.brood.sums[:, self.place]

    @property
    def stem(self) -> Stem:
        handle = self.brood.handles[self.brood.row.item(self.place)]
        return Stem(handle, self.path, *self.sums.tolist())


@dataclass(frozen=True, slots=True)
class Brood:
    """What follows a batch of prefixes: arrays with a place for each child, which few ever leave.

    row: where the prefix of each is in `parents` and `handles`.
    sums: its stem's `logprob`, `floor`, `model_logprob` and `p_max_sum`, shape (4, children).
    at, left: as of a candidate.
    waits: of which no value was made, and may yet be.
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
        """What the best is worth; 0 where there is none."""
        return -self._heap[0][0] if self._heap else 0.0

    def push(self, each: Candidate, worth: float) -> None:
        heapq.heappush(self._heap, (-worth, each.path, each, iter(())))

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
            each = brood.open(place)
            brood.waits[place] = False
            heapq.heappush(self._heap, (key, each.path, each, siblings))
            break

    @property
    def made(self) -> list[Candidate]:
        """Those of which there is a value; the others wait in `broods`."""
        return [each for _, _, each, _ in self._heap]


def along(parents: Sequence[Candidate], row: Ints, token: Ints) -> tuple[Ints, Ints]:
    """Where in its prefix's lead each child is, and was when it last said one of its tokens."""
    known = [(each.at, min(each.at + 1, len(each.lead or ())), each.left) for each in parents]
    at, ahead, left = np.array(known, dtype=np.int64).T
    near = [
        [lead[at + i] if 0 <= at + i < len(lead) else -1 for i in _NEAR]
        for at, lead in ((each.at, each.lead or ()) for each in parents)
    ]
    same = token[:, None] == np.array(near)[row]
    found = same.any(axis=1)
    after = np.where(found, at[row] + np.array(_NEAR)[same.argmax(axis=1)] + 1, ahead[row])
    return after, np.where(found, after, left[row])
