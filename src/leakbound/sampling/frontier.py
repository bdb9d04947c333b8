"""Live prefixes as arrays, with their draws and their token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from leakbound.sampling import philox
from leakbound.sampling.distribution import Confidence
from leakbound.sampling.model import Handles, Ids
from leakbound.sampling.stems import Floats, Ints, Starts, Stem

_OF_DRAWS = ("row", "chunk", "count")  # the other fields have one entry per row


class Paths:
    """Generated ids of many prefixes, each stored as its last token and the number of its parent.

    Numbers ascend in the order of creation. The oldest prefixes are removed when they are no longer
    needed.
    """

    def __init__(self) -> None:
        self._first = self.end = 0
        self._entries = np.empty((2, 1 << 10), dtype=np.int64)

    def add(self, before: Ints, tokens: Ints) -> Ints:
        """Return the numbers of the prefixes `before`, each lengthened by one of `tokens`."""
        start, stop = self.end - self._first, self.end - self._first + len(tokens)
        if stop > self._entries.shape[1]:
            self._entries = np.pad(self._entries, ((0, 0), (0, stop)))
        self._entries[:, start:stop] = before, tokens
        self.end += len(tokens)
        return np.arange(self.end - len(tokens), self.end)

    def plant(self, paths: Sequence[Ids]) -> Ints:
        """Add whole prefixes, and return their numbers; an empty prefix's number is never used."""
        sizes = [len(path) for path in paths]
        numbers = self.end + np.arange(sum(sizes))
        self.add(numbers - 1, np.fromiter(chain.from_iterable(paths), np.int64, len(numbers)))
        return self.end - len(numbers) + np.cumsum(sizes) - 1

    def last(self, numbers: Ints) -> Ints:
        """Return the last tokens of prefixes."""
        return np.take(self._entries[1], numbers - self._first)

    def ids(self, numbers: Ints, depths: Ints) -> list[Ids]:
        """Return all tokens of prefixes with these depths."""
        longest, at = int(depths.max(initial=0)), numbers - self._first
        table = np.empty((longest, len(at)), dtype=np.int64)
        for column in range(longest - 1, -1, -1):  # shorter prefixes ignore the first columns
            at, table[column] = np.take(self._entries, at, axis=1, mode="clip")
            at -= self._first
        pairs = zip(table.T.tolist(), depths.tolist(), strict=True)
        return [tuple(tokens[longest - depth :]) for tokens, depth in pairs]

    def forget(self, before: int) -> None:
        """Remove all prefixes with numbers below `before`, once they are the majority."""
        if 2 * (before - self._first) > self._entries.shape[1]:
            self._entries = self._entries[:, before - self._first :].copy()
            self._first = before


@dataclass(frozen=True, slots=True)
class Frontier:
    """Live prefixes with their draws; the rows of one query are adjacent, the oldest query first.

    If several queries share one tree, one query represents all, and the chunks are numbered
    consecutively over these queries.

    Attributes:
        query: the number of each row's query, [n].
        parent: the handle of the prefix without its last token, [n].
        lent: whether the caller, not the forest, releases the parent's handle, [n].
        path: the prefix's number in `Paths`, [n].
        depth: the number of the prefix's tokens, [n].
        digest: the digest of the prefix's ids, [n, 2].
        sums: the sums over the prefix's tokens of the four columns of `Stem.sums`, [n, 4].
        row: the row of each group of draws, ascending, [groups].
        chunk: the number of the group's chunk, [groups].
        count: the number of the group's draws, [groups].
    """

    query: Ints
    parent: Handles
    lent: NDArray[np.bool_]
    path: Ints
    depth: Ints
    digest: philox.Words
    sums: Floats
    row: Ints
    chunk: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.query)

    @classmethod
    def plant(cls, number: int, starts: Starts, paths: Paths) -> Frontier:
        """Return the stems of one query as rows, with their draws."""
        stems, ids = [stem for stem, _ in starts], [stem.path for stem, _ in starts]
        counts = np.array([sizes for _, sizes in starts], dtype=np.int64)
        row, chunk = np.nonzero(counts)
        return cls(
            query=np.full(len(stems), number),
            parent=np.array([stem.parent for stem in stems], dtype=np.int64),
            lent=np.ones(len(stems), dtype=bool),
            path=paths.plant(ids),
            depth=np.array([len(path) for path in ids]),
            digest=np.stack(philox.digests(ids), axis=1),
            sums=np.array([stem.sums for stem in stems]),
            row=row,
            chunk=chunk,
            count=counts[row, chunk],
        )

    @property
    def confidence(self) -> Confidence:
        """The confidence of each row, see `distribution.Confidence`."""
        return self.sums[:, 3], self.depth + 1

    def stems(self, paths: Paths) -> list[Stem]:
        """Return the rows as stems; the inverse of `plant`."""
        ids = paths.ids(self.path, self.depth)
        columns = zip(self.parent.tolist(), ids, self.sums.tolist(), strict=True)
        return [Stem(parent, path, *sums) for parent, path, sums in columns]

    def where(self, chosen: NDArray[np.bool_]) -> Frontier:
        """Return the chosen rows, with their draws."""
        return self.take(np.flatnonzero(chosen))

    def take(self, rows: Ints) -> Frontier:
        """Return these rows, in this order, with their draws."""
        if np.array_equal(rows, np.arange(len(self))):
            return self
        position = np.full(len(self), -1)
        position[rows] = np.arange(len(rows))
        row = position[self.row]
        draws = np.argsort(row, kind="stable")[np.count_nonzero(row < 0) :]
        own = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return Frontier(**own, row=row[draws], chunk=self.chunk[draws], count=self.count[draws])

    @staticmethod
    def join(parts: Sequence[Frontier]) -> Frontier:
        """Concatenate the rows of frontiers."""
        if len(parts) == 1:
            return parts[0]
        shifts = np.cumsum([0, *(len(p) for p in parts[:-1])])
        names = (*_COLUMNS, *_OF_DRAWS[1:])
        whole = {name: np.concatenate([getattr(p, name) for p in parts]) for name in names}
        rows = [p.row + shift for p, shift in zip(parts, shifts, strict=True)]
        return Frontier(**whole, row=np.concatenate(rows))


_COLUMNS = tuple(x.name for x in fields(Frontier) if x.name not in _OF_DRAWS)
