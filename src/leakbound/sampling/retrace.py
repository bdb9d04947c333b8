"""Whether stored outputs are the draws that their keys make, draw by draw, within the margin.

The uniforms of the draws on a prefix depend on its key and on nothing but their number. So where
as many are stored as stand there, the same uniforms chose among its children; and a draw that fell
to the other side of an edge, by roundings of another batch, alters no uniform of what comes after.
Therefore nothing is drawn anew and compared as a whole: the forest grows as it did, and at every
prefix the stored split is taken where `may_split` allows it. What it does not allow is an output
that these uniforms do not draw.

A draw picks by inverse CDF: the token whose stretch of [0, 1) holds its uniform. Logits within the
margin move the ends of a stretch. Where a is the mass up to an end and b what is beyond it, each
moves by a factor within e^(±margin / 2T), so a / (a + b) by no more than its odds do, e^(±margin
/ T). Under top-k and top-p tokens stand by their mass, and those within that ratio may change
places: below a token lies at least what surely is heavier, at most what may be and may be kept.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.sampling.forest import Forest
from leakbound.sampling.frontier import Frontier
from leakbound.sampling.law import (
    Confidence,
    LogitsReading,
    Picks,
    greedy_steps,
    ratio,
    read,
    truncated,
)
from leakbound.sampling.model import Ids
from leakbound.sampling.stems import Floats, Root, Tree
from leakbound.types import Decoding

Stretch: TypeAlias = tuple[float, float]
"""The least uniform that may pick a token, and what all that may are below."""

_NONE: Stretch = (1.0, 0.0)
_ROUNDING = 1e-12  # of a cumulated float64 sum


def may_split(
    logits: torch.Tensor,
    decoding: Decoding,
    uniforms: NDArray[np.float64],
    counts: Mapping[int, int],
    confidence: Confidence,
    margin: float,
) -> bool:
    """Whether draws with these uniforms may pick each token so often, within the margin.

    What cannot be ruled out is allowed: a draw may be given any token whose stretch its uniform
    may lie in.

    Args:
        logits: of the untruncated T = 1 model, [1, vocabulary].
        decoding: the distribution to draw from.
        uniforms: a number in [0, 1) for each draw, [draws].
        counts: how often each token was picked.
        confidence: as for `pick`, of the one row.
        margin: how far a T = 1 log-probability may move with the batch shape, in nats; at least 0
            (see `law`).

    Returns:
        False where the counts are of other draws.
    """
    if sum(counts.values()) != len(uniforms) or not all(0 <= t < logits.shape[1] for t in counts):
        return False
    at_one = read(logits)
    (greedy,), (doubtful,) = greedy_steps(at_one.p_max, decoding, confidence, margin)
    if greedy or doubtful:
        behind = (at_one.top[:, None] - at_one.logits)[0]
        near = all(float(behind[token]) <= margin + _ROUNDING for token in counts)
        if len(counts) == 1 and near and (margin > 0 or int(at_one.best) in counts):
            return True
        if not doubtful:
            return False
    return _matches(uniforms, counts, _stretches(at_one, decoding, list(counts), margin))


def _matches(
    uniforms: NDArray[np.float64], counts: Mapping[int, int], stretches: Mapping[int, Stretch]
) -> bool:
    """Whether every draw can be given a token in whose stretch it lies, each token so often.

    By ascending uniform, of the stretches that have begun the one that ends first: an exchange of
    two draws shows that no other choice succeeds where this fails.
    """
    begins = sorted((low, high, token) for token, (low, high) in stretches.items())[::-1]
    open_: list[tuple[float, int]] = []
    left = dict(counts)
    for u in np.sort(uniforms).tolist():
        while begins and begins[-1][0] <= u:
            _, high, token = begins.pop()
            heapq.heappush(open_, (high, token))
        if not open_ or open_[0][0] <= u:
            return False
        token = open_[0][1]
        left[token] -= 1
        if not left[token]:
            heapq.heappop(open_)
    return True


def _stretches(
    at_one: LogitsReading, decoding: Decoding, tokens: list[int], margin: float
) -> dict[int, Stretch]:
    """Where the uniforms lie that may pick these tokens, after one row, of a step that samples."""
    weights = at_one.tempered(decoding.temperature).flat
    factor = ratio(margin / decoding.temperature)
    if not decoding.truncated:
        ends = weights[0].cumsum(dim=0)
        own, above, total = weights[0, tokens].tolist(), ends[tokens].tolist(), float(ends[-1])
        return {
            token: _stretch(end - mass, total, end, total, factor) if mass else _NONE
            for token, mass, end in zip(tokens, own, above, strict=True)
        }
    kept = truncated(weights, decoding, margin)
    mass, ids = kept.mass[0], kept.ids[0].tolist()
    sure, possible = int(kept.sure), int(kept.possible)
    upto = [0.0, *kept.upto[0].tolist()]
    lighter = -mass  # ascending, for the search
    heavier = torch.searchsorted(lighter, lighter * factor).tolist()
    near = torch.searchsorted(lighter, lighter / factor, right=True).tolist()
    stretches = dict.fromkeys(tokens, _NONE)
    for place in (ids.index(token) for token in tokens if token in ids):
        if place < possible:
            below, end = upto[heavier[place]], upto[min(near[place], possible)]
            stretches[ids[place]] = _stretch(below, upto[possible], end, upto[sure], factor)
    return stretches


def _stretch(below: float, most: float, end: float, least: float, factor: float) -> Stretch:
    """From the least that lies below a token, of `most` kept, to the most up to its end."""
    low = below / (below + (most - below) * factor)
    high = end * factor / (end * factor + max(least - end, 0.0))
    return low - _ROUNDING, high + _ROUNDING


StoredOutputs: TypeAlias = Sequence[tuple[Ids, Mapping[int, int]]]
"""Of a query: the tokens of each distinct output, and how often each chunk, by number, drew it."""

_ENDS = -1  # in place of the next token of an output that has none


@dataclass(frozen=True, slots=True)
class Retraced:
    """The outcome for the stored outputs of a root.

    Attributes:
        root: the root's place among those that were drawn from.
        differs_at: the prefix from which on they are none that its draws make; None: they are. A
            root of which none is stored is one at which the model broke.
        excused: splits that came out otherwise here, within the margin.
    """

    root: int
    differs_at: Ids | None
    excused: int


class Retracer(Forest):
    """A forest that follows stored outputs; the module's text says how."""

    def retrace(
        self, roots: Sequence[Root], stored: Mapping[str, StoredOutputs]
    ) -> Iterator[Retraced]:
        """Compare the draws of each root with its stored outputs.

        Args:
            roots: what was drawn from.
            stored: by query id, the ids of each distinct output and how often each chunk drew it.

        Returns:
            One Retraced for each root, as they finish.
        """
        own = (stored.get(root.query_id, ()) for root in roots)
        self._stored = [sorted(outputs, key=lambda output: output[0]) for outputs in own]
        self._differs: dict[int, Ids] = {}
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

    def _pick(self, rows: Frontier, logits: torch.Tensor, u: Floats) -> Picks:
        """Pick as the draws do; where other tokens are stored that they may pick, take these."""
        picks = super()._pick(rows, logits, u)
        paths, confidence = self._paths.ids(rows.path, rows.depth), rows.confidence
        ends = np.cumsum(rows.count)
        groups = zip(rows.row, rows.chunk, ends - rows.count, ends, strict=True)
        for row, chunk, start, end in groups:
            query, own = self._whose(int(rows.query[row]), int(chunk))
            if query in self._differs or not self._stored[query]:
                continue
            path = paths[row]
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

    def _next_tokens(self, root: int, chunk: int, path: Ids) -> Counter[int]:
        """How often each token stands after this prefix in what is stored of a chunk."""
        stored, depth = self._stored[root], len(path)
        tokens = Counter[int]()
        for i in range(bisect_left(stored, path, key=lambda output: output[0]), len(stored)):
            ids, counts = stored[i]
            if ids[:depth] != path:
                break
            if chunk in counts:
                tokens[ids[depth] if len(ids) > depth else _ENDS] += counts[chunk]
        return tokens
