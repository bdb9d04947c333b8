"""Whether stored outputs are the draws that their keys make, draw by draw, within the margin.

The uniforms of the draws on a prefix depend on its key and on nothing but their number. So where
as many are stored as stand there, the same uniforms chose among its children; and a draw that fell
to the other side of an edge, by roundings of another batch, alters no uniform of what comes after.
Therefore nothing is drawn anew and compared as a whole: the forest grows as it did, and at every
prefix the stored split is taken where `may_split` allows it. What it does not allow is an output
that these uniforms do not draw.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch

from leakbound.sampling.edges import may_split
from leakbound.sampling.forest import Floats, Forest, Frontier, Ints, Root, Tree
from leakbound.sampling.next_token import Picks

Path: TypeAlias = tuple[int, ...]
StoredOutputs: TypeAlias = Sequence[tuple[Path, Mapping[int, int]]]
"""Of a query: the tokens of each distinct output, and how often each chunk, by number, drew it."""

_ENDS = -1  # in place of the next token of an output that has none


@dataclass(frozen=True, slots=True)
class Retraced:
    """What became of the stored outputs of a root.

    `differs_at`: the prefix from which on they are none that its draws make; None: they are. A root
    of which none is stored is one at which the model broke.
    `excused`: splits that came out otherwise here, within the margin.
    """

    root: int
    differs_at: Path | None
    excused: int


class Retracer(Forest):
    """A forest that follows stored outputs; the module's text says how."""

    def retrace(
        self, roots: Sequence[Root], stored: Mapping[str, StoredOutputs]
    ) -> Iterator[Retraced]:
        """Compare the draws of each root with its outputs in `stored`, by query id."""
        own = (stored.get(root.query_id, ()) for root in roots)
        self._stored = [sorted(each, key=lambda output: output[0]) for each in own]
        self._differs: dict[int, Path] = {}
        self._excused = Counter[int]()
        for tree in self.sample(roots):
            self._compare(tree)
            differs = self._differs.get(tree.root)
            yield Retraced(tree.root, differs, self._excused[tree.root])

    def _compare(self, tree: Tree) -> None:
        """Note where a finished tree has other leaves than are stored."""
        first = self._draws.first_chunk
        drawn = {
            leaf.token_ids: {first + i: n for i, n in enumerate(leaf.counts) if n}
            for leaf in tree.leaves
        }
        stored = dict(self._stored[tree.root])
        if tree.broken_at is not None and stored:
            self._differs.setdefault(tree.root, tree.broken_at)
        elif tree.broken_at is None and drawn != stored:
            paths = (path for path in (*drawn, *stored) if drawn.get(path) != stored.get(path))
            self._differs.setdefault(tree.root, min(paths) if stored else ())

    def _pick(
        self, rows: Frontier, logits: torch.Tensor, u: Floats, confidence: tuple[Floats, Ints]
    ) -> Picks:
        """What the draws pick; where other tokens are stored that they may pick, these."""
        picks = super()._pick(rows, logits, u, confidence)
        ends = np.cumsum(rows.count)
        groups = zip(rows.row, rows.chunk, ends - rows.count, ends, strict=True)
        for row, chunk, start, end in groups:
            query, own = self._whose(int(rows.query[row]), int(chunk))
            if query in self._differs or not self._stored[query]:
                continue
            path = rows.stem[row].path
            stored = self._next_tokens(query, own, path)
            if stored == Counter(picks.tokens[start:end].tolist()):
                continue
            at = (confidence[0][row : row + 1], confidence[1][row : row + 1])
            mine = logits[row : row + 1]
            if may_split(mine, self._decoding, u[start:end], stored, at, self._margin):
                picks.tokens[start:end] = np.repeat(list(stored), list(stored.values()))
                self._excused[query] += 1
            else:
                self._differs[query] = path
        return picks

    def _whose(self, number: int, chunk: int) -> tuple[int, int]:
        """The root to which a tree's chunk belongs, and the number that the chunk has there."""
        query, own = divmod(chunk, len(self._draws.sizes))
        return self._sharing[number][query], self._draws.first_chunk + own

    def _next_tokens(self, root: int, chunk: int, path: Path) -> Counter[int]:
        """How often each token stands after this prefix in what is stored of a chunk."""
        stored, depth = self._stored[root], len(path)
        found = Counter[int]()
        for i in range(bisect_left(stored, path, key=lambda each: each[0]), len(stored)):
            ids, counts = stored[i]
            if ids[:depth] != path:
                break
            if chunk in counts:
                found[ids[depth] if len(ids) > depth else _ENDS] += counts[chunk]
        return found
