"""A prefix tree that is expanded best first, for exact masses and for proofs.

Subclasses of `BestFirstSearch` define the worth of a prefix and how a node is recorded. Each
expanded prefix has about 64 children, but few children are expanded themselves. So children are
stored in arrays. A child becomes a `Candidate` object only when it is expanded, or when it is the
best of its siblings. The heap contains only the best of each group of siblings. The heap is
ordered by (-worth, path), and no path is in the heap twice. Siblings are ordered by (-worth,
token), which is the same order, because their paths differ only in the last token. So the first
element of the heap is the best of all children.

No mass is counted twice. A node is a complete output or a settled prefix (all
outputs that begin with it have the same score). A node is never expanded, and
every node is one token longer than an expanded prefix. If the path of a node
began with the path of another node, the other node would have been expanded. So
the nodes are an antichain: the sets of outputs that begin with different nodes
are disjoint, and their masses add up.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import ClassVar, TypeVar

import numpy as np
import torch

from leakbound.errors import InputError
from leakbound.sampling.distribution import (
    Distribution,
    Flags,
    next_distribution,
    rows_together,
)
from leakbound.sampling.model import Ending, Ids, OutputTree
from leakbound.sampling.stems import Floats, Ints, Node, Root, Stem, confidence_of
from leakbound.types import Finish

Settle = Callable[[int, Sequence[tuple[Ids, Finish | None]]], list[tuple[float, float]]]
"""A function (root number, pairs of generated ids and finish) -> the range of possible scores."""

CHILDREN = 64
_BAND = 8.0  # largest ratio between the worth of the best and of any other prefix in a batch

Siblings = Iterator[tuple[float, int]]
"""The sort key and the place of each sibling, best first."""


@dataclass(slots=True)
class Candidate:
    """A prefix that may be expanded: one of the children in a `Brood`.

    Attributes:
        brood: the brood of the prefix.
        place: the index of the prefix in the brood.
        path: the generated ids of the prefix.
        floor: a lower bound of its log-probability for any logits within the margin.
        lead: the lead (see the module `prove`) from which the prefix branched; None: the prefix
            branched from no lead.
        at: the number of the lead's tokens that the prefix repeated or skipped.
        left: the value of `at` at the last token that the prefix shares with the lead.
        scores: the range of possible final scores; the parent's range until the prefix's own range
            is computed.
        share: the factor by which the text of the prefix changes its worth; None until its range of
            scores is computed.
        reason: why the prefix is a complete output; None: it is not complete.
    """

    brood: Brood
    place: int
    path: Ids
    floor: float
    lead: Ids | None = None
    at: int = 0
    left: int = 0
    scores: tuple[float, float] = (0.0, 1.0)
    share: float | None = None
    reason: Finish | None = None

    @classmethod
    def prompt(cls, lead: Ids | None = None) -> Candidate:
        """Return the prefix that has no generated tokens."""
        zero = np.zeros(1, dtype=np.int64)
        start = Brood((), (-1,), zero, zero, np.zeros((4, 1)), zero, zero, zero > 0)
        return cls(start, 0, (), 0.0, lead)

    @property
    def sums(self) -> Floats:
        return self.brood.sums[:, self.place]

    @property
    def mass(self) -> float:
        return math.exp(self.brood.sums.item(0, self.place))

    @property
    def stem(self) -> Stem:
        handle = self.brood.handles[self.brood.row.item(self.place)]
        return Stem(handle, self.path, *self.sums.tolist())

    @property
    def node(self) -> Node:
        """The prefix in the form of a node of the result."""
        logprob, floor, *_ = self.sums.tolist()
        return Node(self.path, logprob, floor, self.reason, *self.scores)


@dataclass(frozen=True, slots=True)
class Brood:
    """The children of a batch of prefixes, in arrays.

    Attributes:
        parents: the prefixes.
        handles: the handles of the prefixes.
        row: the index of each child's prefix in `parents` and `handles`, [children].
        token: the last token of each child, [children].
        sums: the columns of `Stem.sums`, [4, children].
        at: as in `Candidate`, [children].
        left: as in `Candidate`, [children].
        waits: whether no candidate has been made of the child yet, [children].
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

    def open(self, place: int) -> Candidate:
        """Return the child at this place as a candidate."""
        parent = self.parents[self.row.item(place)]
        path, floor = (*parent.path, self.token.item(place)), self.sums.item(1, place)
        at, left = self.at.item(place), self.left.item(place)
        return Candidate(self, place, path, floor, parent.lead, at, left, parent.scores)

    def open_waiting(self) -> list[Candidate]:
        """Return all waiting children as candidates."""
        return [self.open(place) for place in np.flatnonzero(self.waits).tolist()]


@dataclass(slots=True)
class BestFirst:
    """Candidates in the order of their worth; ties are broken by their paths."""

    broods: list[Brood] = field(default_factory=list)
    _heap: list[tuple[float, Ids, Candidate, Siblings]] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The worth of the best candidate; 0 if there are no candidates."""
        return -self._heap[0][0] if self._heap else 0.0

    @property
    def first(self) -> Candidate:
        """The best candidate; there must be one."""
        return self._heap[0][2]

    def push(self, candidate: Candidate, worth: float) -> None:
        heapq.heappush(self._heap, (-worth, candidate.path, candidate, iter(())))

    def push_all(self, brood: Brood, worths: Floats) -> None:
        """Add the waiting children, with the worth of each."""
        self.broods.append(brood)
        places = np.flatnonzero(brood.waits)
        order = np.lexsort((brood.token[places], -worths, brood.row[places]))
        places, keys = places[order], -worths[order]
        cuts = np.flatnonzero(np.diff(brood.row[places])) + 1
        for own, mine in zip(np.split(places, cuts), np.split(keys, cuts), strict=True):
            self._lay(brood, zip(mine.tolist(), own.tolist(), strict=True))

    def take(self, most: int, least: float) -> list[Candidate]:
        """Remove and return the best candidates with worth at least `least`; at most `most`."""
        taken: list[Candidate] = []
        while self._heap and len(taken) < most and -self._heap[0][0] >= least:
            _, _, best, siblings = heapq.heappop(self._heap)
            taken.append(best)
            self._lay(best.brood, siblings)
        return taken

    def _lay(self, brood: Brood, siblings: Siblings) -> None:
        """Add the best of the remaining siblings, if there are any."""
        for key, place in siblings:
            candidate = brood.open(place)
            brood.waits[place] = False
            heapq.heappush(self._heap, (key, candidate.path, candidate, siblings))
            break

    @property
    def candidates(self) -> list[Candidate]:
        """The existing candidates, best first; other children wait in `broods`."""
        return [candidate for _, _, candidate, _ in sorted(self._heap, key=itemgetter(0, 1))]


@dataclass(slots=True, kw_only=True)
class Search(ABC):
    """The tree of one root, while it is expanded.

    Attributes:
        number: the index of the root.
        handles: the handles of the expanded prefixes, beginning with the prompt.
        broken_at: the prefix after which logits were unusable; None: all logits were usable.
        lightest: the smallest log-probability of a child that is worth a forward pass.
    """

    lightest: ClassVar[float] = -math.inf

    number: int
    handles: list[int] = field(default_factory=list)
    broken_at: Ids | None = None

    @property
    def forwards(self) -> int:
        """The number of prefixes that were forwarded, not counting the prompt."""
        return len(self.handles) - 1

    @abstractmethod
    def expand(self, brood: Brood) -> None:
        """Record the children of some prefixes.

        Args:
            brood: the children.
        """

    def along(self, parents: Sequence[Candidate], row: Ints, token: Ints) -> tuple[Ints, Ints]:
        """Return `at` and `left` of each child with respect to its lead; 0 without leads.

        Args:
            parents: the prefixes.
            row: the index of each child's prefix in `parents`, [children].
            token: the last token of each child, [children].

        Returns:
            Two arrays, [children] each.
        """
        return np.zeros_like(row), np.zeros_like(row)


@dataclass(slots=True, kw_only=True)
class BestFirstSearch(Search):
    """A search that first expands the prefixes of largest worth.

    Attributes:
        ending: the conditions that end a completion.
        settle: returns, for generated ids, the range of scores of all outputs that begin with them.
        nodes: complete outputs and settled prefixes.
    """

    ending: Ending
    settle: Settle
    nodes: list[Node] = field(default_factory=list)
    _waiting: list[Brood] = field(default_factory=list)
    _open: BestFirst = field(default_factory=BestFirst)

    def expand(self, brood: Brood) -> None:
        """See `Search.expand`; a complete output becomes a node."""
        self.handles += brood.handles
        complete: list[Candidate] = []
        for place in np.flatnonzero(brood.waits & self._ends(brood)).tolist():
            child = brood.open(place)
            child.reason = self.ending.reason(child.path)
            if child.reason:
                complete.append(child)
                brood.waits[place] = False
        self._waiting.append(brood)
        self._settle(complete)
        for child in complete:
            self._file(child)

    def next_batch(self, most: int) -> list[Candidate]:
        """Remove and return the next prefixes to expand; convert settled prefixes to nodes.

        Args:
            most: the largest number of prefixes.

        Returns:
            Prefixes, the best first.
        """
        batch: list[Candidate] = []
        while self.broken_at is None and len(batch) < most:
            if self._open.best < math.inf:
                self._push_waiting()
            if not self._open.best:
                break
            least = (self._worth(batch[0]) if batch else self._open.best) / _BAND
            taken = self._open.take(most - len(batch), least)
            batch += [prefix for prefix in taken if prefix.share is not None]
            fresh = [prefix for prefix in taken if prefix.share is None]
            if not fresh:
                break
            for prefix in self._settle_texts(fresh):
                self._open.push(prefix, self._worth(prefix))
        return batch

    @abstractmethod
    def _worth(self, prefix: Candidate) -> float:
        """Estimate the mass that a forward pass finds; infinity: expand before all others."""

    @abstractmethod
    def _worths(self, brood: Brood) -> Floats:
        """Return the worth of each waiting child, before its range of scores is computed."""

    @abstractmethod
    def _file(self, child: Candidate) -> None:
        """Convert a complete output or a settled prefix to a node."""

    def _push_waiting(self) -> None:
        """Add the children that were recorded since the last call, with their present worth."""
        for brood in self._waiting:
            self._open.push_all(brood, self._worths(brood))
        self._waiting = []

    def _settle_texts(self, prefixes: Sequence[Candidate]) -> list[Candidate]:
        """Compute score ranges; convert settled prefixes to nodes, and return other prefixes."""
        self._settle(prefixes)
        for prefix in prefixes:
            prefix.share = 1.0
        return [prefix for prefix in prefixes if self._stays_open(prefix)]

    def _stays_open(self, prefix: Candidate) -> bool:
        """Return whether a prefix may be expanded; if not, convert it to a node."""
        low, high = prefix.scores
        if low < high:
            return True
        self._file(prefix)
        return False

    def _ends(self, brood: Brood) -> Flags:
        """Return which children are complete outputs."""
        depth = np.array([len(p.path) + 1 for p in brood.parents], dtype=np.int64)[brood.row]
        return self.ending.ends(brood.token, depth, lambda: brood.paths(np.arange(len(depth))))

    def _settle(self, prefixes: Sequence[Candidate]) -> None:
        """Set the range of possible final scores of each prefix, computed from its text."""
        if not prefixes:
            return
        openings = [(prefix.path, prefix.reason) for prefix in prefixes]
        for prefix, scores in zip(prefixes, self.settle(self.number, openings), strict=True):
            prefix.scores = scores


S = TypeVar("S", bound=Search)
Batch = Sequence[tuple[S, Candidate]]
Split = Callable[[Distribution, Batch[S], Sequence[int], torch.Tensor], list[Ints]]
"""A function (distribution, n prefixes of searches, their handles, logits) -> their children."""


def begin(tree: OutputTree, roots: Sequence[Root], batch: Batch[S], split: Split[S]) -> None:
    """Prefill prompts, and record their children.

    Args:
        tree: the model and the decoding.
        roots: the roots with these prompts.
        batch: the search of each root, with its empty prefix.
        split: chooses the children of prefixes.

    Raises:
        InputError: a decoding whose probabilities cannot be computed.
    """
    if why := tree.decoding.inexact:
        raise InputError(f"{why}.")
    tree.usage.prompt_tokens += sum(len(root.token_ids) for root in roots)
    handles, logits = tree.model.prefill([root.token_ids for root in roots])
    _expand(tree, batch, handles.tolist(), logits, split)


def forward(tree: OutputTree, batch: Batch[S], split: Split[S]) -> None:
    """Make a forward pass of prefixes, and record their children.

    Args:
        tree: the model and the decoding.
        batch: prefixes of at least one token; the prefixes of a search are adjacent.
        split: chooses the children of prefixes.
    """
    parents = np.array([prefix.stem.parent for _, prefix in batch], dtype=np.int64)
    tokens = np.array([prefix.path[-1] for _, prefix in batch], dtype=np.int64)
    handles, logits = tree.model.extend(parents, tokens, np.zeros(len(batch), dtype=bool))
    tree.usage.forwards += len(batch)
    tree.tell(0, len(batch))
    _expand(tree, batch, handles.tolist(), logits, split)


def _expand(
    tree: OutputTree, batch: Batch[S], handles: Sequence[int], logits: torch.Tensor, split: Split[S]
) -> None:
    height = rows_together(logits)
    for first in range(0, len(batch), height):
        part = slice(first, first + height)
        mine = batch[part]
        confidence = confidence_of([prefix.stem for _, prefix in mine])
        after = next_distribution(logits[part], tree.decoding, confidence, tree.margin)
        tokens = split(after, mine, handles[part], logits[part])
        for i in np.flatnonzero(after.broken).tolist():
            search, prefix = mine[i]
            search.broken_at = search.broken_at or prefix.path
            tokens[i] = tokens[i][:0]
        sizes = [len(own) for own in tokens]
        row, token = np.repeat(np.arange(len(tokens)), sizes), np.concatenate(tokens)
        before = np.stack([prefix.sums for _, prefix in mine], axis=1)
        sums = before[:, row] + after.at(row, token)
        stop = 0
        for _, group in groupby(mine, key=lambda pair: pair[0].number):
            searches, parents = zip(*group, strict=True)
            search, start, stop = searches[0], stop, stop + len(parents)
            low, high = np.searchsorted(row, [start, stop])
            own, last, values = row[low:high] - start, token[low:high], sums[:, low:high]
            at, left = search.along(parents, own, last)
            waits = values[1] >= search.lightest
            mine_of = handles[part][start:stop]
            search.expand(Brood(parents, mine_of, own, last, values, at, left, waits))
